/* SPDX-License-Identifier: Apache-2.0
 *
 * Clusters of real processes on loopback, for tests: each task is this test program itself, started again with "--task" and a
 * TF_CONFIG of its own, so that a test says in one file what its tasks do. Every wait has a deadline; whatever is left is
 * killed by cluster_free. */
#ifndef EST_TESTS_CLUSTER_TEST_H
#define EST_TESTS_CLUSTER_TEST_H

#include <stdbool.h>
#include <sys/types.h>

#define CLUSTER_TASKS_MAX  40
#define CLUSTER_ARGS_MAX   16
#define CLUSTER_STARTS_MAX 128

typedef struct cluster_task {
    char  type[16];
    int   index;
    char  address[32]; /* "" for an evaluator */
    pid_t pid;         /* 0: not running */
    int   starts;
    int   status; /* of waitpid, when it has ended */
    bool  ended;
    char  log[256];    /* everything that it printed, all starts */
    char  network[64]; /* the file of the network namespace that it is started in; "": the test's own */
    int   twin;        /* > 0: it says that it is tasks[twin - 1], at an address of its own */
} cluster_task;

typedef struct cluster {
    char         dir[64];   /* of the test; logs, certificates and ledgers are in it */
    char         model[80]; /* a model_dir in it, not made yet */
    const char  *transport; /* "tcp" unless changed before the first start */
    cluster_task tasks[CLUSTER_TASKS_MAX];
    int          n;
    int   ports[CLUSTER_TASKS_MAX]; /* sockets that keep the tasks' ports from everybody else while they are down */
    int   n_ports;
    pid_t started[CLUSTER_STARTS_MAX]; /* every process that there was */
    int   n_started;
    const char *args[CLUSTER_ARGS_MAX]; /* after "--task"; CLUSTER_SET sets them before the first start */
} cluster;

/* A cluster of so many tasks, none of them started; chief and evaluator: 0 or 1. */
cluster cluster_make(int chief, int workers, int ps, int evaluator);
void    cluster_free(cluster *c);

/* Adds words to `args`, up to the first that is NULL: CLUSTER_SET(&c, "steps=60", "save=20"). One with a value takes the
 * place of an earlier one with the same key. Borrowed. */
#define CLUSTER_SET(c, ...) cluster_set(c, (const char *const[]){ __VA_ARGS__, NULL })
void cluster_set(cluster *c, const char *const *words);

/* The word of `args` with the key of `word`, "save=" or "save=20"; NULL: there is none. */
const char *cluster_word(const cluster *c, const char *word);

cluster_task *cluster_find(cluster *c, const char *type, int index);

/* Another process for the same task, as when a scheduler takes a task for dead that is not. Not started. */
cluster_task *cluster_add_twin(cluster *c, const char *type, int index);

void cluster_start(cluster *c, cluster_task *task);
void cluster_start_all(cluster *c);

void cluster_signal(const cluster_task *task, int signal);
/* Whether the task is not running, without waiting. */
bool cluster_look(cluster_task *task);
/* Waits until the task has ended; fails the test with the end of its log when it has not within `secs`. */
void cluster_wait(cluster *c, cluster_task *task, double secs);
/* Waits for all, and that each ended with exit code 0. */
void cluster_wait_all(cluster *c, double secs);
/* Waits for one, and that it ended with this exit code. */
void cluster_wait_code(cluster *c, cluster_task *task, int code, double secs);

/* Waits until the log of a task has `text`; how often it has it now. */
void cluster_wait_log(cluster *c, const cluster_task *task, const char *text, double secs);
int  cluster_count_log(const cluster_task *task, const char *text);

/* Waits until the latest checkpoint of the model directory has at least that step. */
void cluster_wait_step(cluster *c, long step, double secs);
long cluster_saved_step(const cluster *c); /* -1: none */

/* Asserts by the ledgers (ESTOC_LEDGER) of all that ran that no run that changed variables was done twice, and none that
 * nobody had asked for. Returns how many were done. */
long cluster_check_ledgers(const cluster *c);

/* Asserts that the job left nothing: no process that listens at its addresses, no shared memory, no file of an unfinished
 * write. */
void cluster_check_clean(const cluster *c);

/* Prints the end of all logs, for failures. */
void cluster_dump(const cluster *c);

/* For main: when the program was started as a task ("--task"), calls run(argc, argv) with what follows and exits with its
 * result. */
void cluster_task_main(int argc, char **argv, int (*run)(int argc, char **argv));

#endif
