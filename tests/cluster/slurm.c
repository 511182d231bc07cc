/* SPDX-License-Identifier: Apache-2.0
 *
 * Slurm's variables: node lists, counts, ranks, and everything that can be wrong with them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cluster/cluster.h"
#include "support/fault_loop.h"
#include "support/test.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void set(const char *name, const char *value)
{
    if (value != NULL) {
        setenv(name, value, 1);
    } else {
        unsetenv(name);
    }
}

static void set_step(const char *nodes, const char *counts, const char *rank)
{
    set("SLURM_STEP_NODELIST", nodes);
    set("SLURM_STEP_TASKS_PER_NODE", counts);
    set("SLURM_PROCID", rank);
    set("SLURM_STEP_NUM_TASKS", NULL);
}

static est_status resolve_workers(est_resolver **out)
{
    return est_resolve_slurm(NULL, EST_TASK_RULES(.no_chief_ok = true), out);
}

static void expect_cluster(const est_resolver *resolver, const char *want)
{
    est_strbuf text = { 0 };

    est_cluster_text(est_resolver_task(resolver)->cluster, &text);
    assert_string_equal(est_strbuf_text(&text), want);
    est_strbuf_clear(&text);
}

static const struct {
    const char *nodes, *counts, *cluster;
} good[] = {
    { "n1", "1", "[\"n1:8888\"]" },
    { "n1", "3", "[\"n1:8888\", \"n1:8889\", \"n1:8890\"]" },
    { "a[01-03,7],b2", "1(x5)", "[\"a01:8888\", \"a02:8888\", \"a03:8888\", \"a7:8888\", \"b2:8888\"]" },
    { "n[1-2],m5,o[3-4,6]", "1(x2),2,1(x3)",
      "[\"n1:8888\", \"n2:8888\", \"m5:8888\", \"m5:8889\", \"o3:8888\", \"o4:8888\", \"o6:8888\"]" },
    { "n[1-3]", "2(x2),1", "[\"n1:8888\", \"n1:8889\", \"n2:8888\", \"n2:8889\", \"n3:8888\"]" },
    { "n[8-11]", "1(x4)", "[\"n8:8888\", \"n9:8888\", \"n10:8888\", \"n11:8888\"]" }, /* in Slurm's order */
    { "n[099-101]", "1(x3)", "[\"n099:8888\", \"n100:8888\", \"n101:8888\"]" },
    { "r[1-2]n[1-2]", "1(x4)", "[\"r1n1:8888\", \"r1n2:8888\", \"r2n1:8888\", \"r2n2:8888\"]" },
    { "n[1-2]-ib,x", "1,1,1", "[\"n1-ib:8888\", \"n2-ib:8888\", \"x:8888\"]" },
    { "[1-2]", "1(x2)", "[\"1:8888\", \"2:8888\"]" },
};

TEST(lists)
{
    for (size_t i = 0; i < COUNT(good); i++) {
        est_resolver *resolver = NULL;
        char          want[400];

        set_step(good[i].nodes, good[i].counts, "0");
        if (resolve_workers(&resolver) != EST_OK) fail_msg("%s: %s", good[i].nodes, est_error_message());
        snprintf(want, sizeof want, "{\"worker\": %s}", good[i].cluster);
        expect_cluster(resolver, want);
        est_resolver_free(resolver);
    }
}

TEST(ranks)
{
    est_resolver *resolver = NULL;

    for (int rank = 0; rank < 5; rank++) {
        const est_task *task;
        char            text[16];

        snprintf(text, sizeof text, "%d", rank);
        set_step("n[1-3]", "2(x2),1", text);
        set("SLURM_STEP_NUM_TASKS", "5");
        assert_int_equal(resolve_workers(&resolver), EST_OK);
        task = est_resolver_task(resolver);
        assert_string_equal(task->type, "worker");
        assert_int_equal(task->index, rank);
        assert_int_equal(task->is_chief, rank == 0);
        assert_int_equal(task->num_worker_replicas, 5);
        if (rank == 3) assert_string_equal(task->master, "grpc://n2:8889");
        est_resolver_free(resolver);
    }
}

TEST(jobs)
{
    static const est_job jobs[] = {
        { "ps", { NULL, 2 } }, { "chief", { NULL, 1 } }, { "none", { NULL, 0 } }, { "worker", { NULL, 2 } }
    };
    static const char *roles[]  = { "ps 0", "ps 1", "chief 0", "worker 0", "worker 1" };
    est_resolver      *resolver = NULL;

    for (int rank = 0; rank < 5; rank++) {
        char text[32];

        snprintf(text, sizeof text, "%d", rank);
        set_step("n[1-5]", "1(x5)", text);
        assert_int_equal(est_resolve_slurm(EST_SLURM(.jobs = { jobs, 4 }, .port_base = 65535), NULL, &resolver),
                         EST_OK);
        expect_cluster(resolver, "{\"chief\": [\"n3:65535\"], \"none\": [], \"ps\": [\"n1:65535\", \"n2:65535\"], "
                                 "\"worker\": [\"n4:65535\", \"n5:65535\"]}");
        snprintf(text, sizeof text, "%s %d", est_resolver_task(resolver)->type, est_resolver_task(resolver)->index);
        assert_string_equal(text, roles[rank]);
        est_resolver_free(resolver);
    }
}

static void expect_error(const est_slurm_options *options, est_status status, const char *error)
{
    est_resolver *resolver = NULL;

    assert_int_equal(est_resolve_slurm(options, EST_TASK_RULES(.no_chief_ok = true), &resolver), status);
    assert_string_equal(est_error_message(), error);
    assert_null(resolver);
}

#define RANGES "write ranges of numbers within brackets, as [1-3,7]"

static const struct {
    const char *nodes, *error;
} bad_nodes[] = {
    { ",a", "\",a\"; the name of a host is missing" },
    { "a,", "\"\"; the name of a host is missing" },
    { "a,,b", "\",b\"; the name of a host is missing" },
    { "a[1-2", "\"[1-2\"; there is no ] after it" },
    { "a]", "\"]\"; there is no [ before it" },
    { "a[1]]", "\"]\"; there is no [ before it" },
    { "a[]", "\"]\"; " RANGES },
    { "a[1,]", "\"]\"; " RANGES },
    { "a[x]", "\"x]\"; " RANGES },
    { "a[1-]", "\"1-]\"; " RANGES },
    { "a[-1]", "\"-1]\"; " RANGES },
    { "a[2-1]", "\"2-1]\"; " RANGES },
    { "a[1-2-3]", "\"1-2-3]\"; " RANGES },
    { "a[1[2]]", "\"1[2]]\"; " RANGES },
    { "a[1234567890]", "\"1234567890]\"; " RANGES },
    { "a[1][1][1][1][1]", "\"[1]\"; a host may have at most 4 pairs of brackets" },
};

TEST(bad_nodes)
{
    char *name = malloc(300);

    for (size_t i = 0; i < COUNT(bad_nodes); i++) {
        char want[300];

        set_step(bad_nodes[i].nodes, "1", "0");
        snprintf(want, sizeof want, "SLURM_STEP_NODELIST is not a list of hosts at %s", bad_nodes[i].error);
        expect_error(NULL, EST_INVALID_ARGUMENT, want);
    }
    set_step("a[0-999999999]", "1", "0");
    expect_error(NULL, EST_INVALID_ARGUMENT,
                 "SLURM_STEP_NODELIST lists more than 100000 tasks; at most that many are supported");
    set_step("a_b!", "1", "0");
    expect_error(NULL, EST_INVALID_ARGUMENT,
                 "Slurm: worker[0] is \"a_b!:8888\"; write a host name or address before the colon, as "
                 "\"10.0.0.1:2222\"");
    set_step("a,a", "1,1", "0");
    expect_error(NULL, EST_INVALID_ARGUMENT,
                 "Slurm: worker[0] and worker[1] are both \"a:8888\"; give every task an address of its own");
    memset(name, 'a', 299);
    name[299] = '\0';
    set_step(name, "1", "0");
    assert_int_equal(resolve_workers(&(est_resolver *){ NULL }), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "at most 255 letters"));
    free(name);
}

static const char *const bad_counts[] = {
    "x", "0", "-1", "1(x2", "1(x)", "1(x0)", "1(2)", "1x2", "1,", ",1", "1 ", "1;1", "1234567890", "1(x1234567890)",
};

TEST(bad_counts)
{
    for (size_t i = 0; i < COUNT(bad_counts); i++) {
        set_step("a", bad_counts[i], "0");
        assert_int_equal(resolve_workers(&(est_resolver *){ NULL }), EST_INVALID_ARGUMENT);
        assert_non_null(strstr(est_error_message(), "SLURM_STEP_TASKS_PER_NODE is not a list of counts at \""));
    }
    set_step("a", "1(x999999999)", "0");
    expect_error(NULL, EST_INVALID_ARGUMENT,
                 "SLURM_STEP_TASKS_PER_NODE lists more than 100000 tasks; at most that many are supported");
    set_step("a,b,c", "1(x2)", "0");
    expect_error(NULL, EST_INVALID_ARGUMENT,
                 "SLURM_STEP_NODELIST has 3 hosts, but SLURM_STEP_TASKS_PER_NODE has counts for 2");
}

TEST(bad_variables)
{
    set_step(NULL, "1", "0");
    expect_error(NULL, EST_FAILED_PRECONDITION,
                 "SLURM_STEP_NODELIST is not set; start the program as a task of a Slurm step (srun)");
    set_step("a", "", "0");
    expect_error(NULL, EST_FAILED_PRECONDITION,
                 "SLURM_STEP_TASKS_PER_NODE is not set; start the program as a task of a Slurm step (srun)");
    set_step("a", "1", NULL);
    expect_error(NULL, EST_FAILED_PRECONDITION,
                 "SLURM_PROCID is not set; start the program as a task of a Slurm step (srun)");
    set_step("a", "1", "x");
    expect_error(NULL, EST_INVALID_ARGUMENT, "SLURM_PROCID is \"x\"; it must be a number from 0 up");
    set_step("a", "1", "-1");
    expect_error(NULL, EST_INVALID_ARGUMENT, "SLURM_PROCID is \"-1\"; it must be a number from 0 up");
    set_step("a", "2", "2");
    expect_error(NULL, EST_INVALID_ARGUMENT, "SLURM_PROCID is 2; the step has 2 tasks, so it must be below that");
    set_step("a", "2", "1");
    set("SLURM_STEP_NUM_TASKS", "3");
    expect_error(NULL, EST_INVALID_ARGUMENT, "SLURM_STEP_NUM_TASKS is 3, but SLURM_STEP_TASKS_PER_NODE adds up to 2");
}

TEST(bad_options)
{
    static const est_job jobs[]   = { { .name = "chief", .addresses = { NULL, 1 } },
                                      { .name = "worker", .addresses = { NULL, 2 } } },
                         negative = { .name = "chief", .addresses = { NULL, -1 } };
    est_resolver *resolver        = NULL;

    set_step("a", "2", "0");
    expect_error(EST_SLURM(.jobs = { jobs, 2 }), EST_INVALID_ARGUMENT,
                 "the jobs have 3 tasks, but Slurm started 2; the numbers must be the same");
    expect_error(EST_SLURM(.jobs = { jobs, -1 }), EST_INVALID_ARGUMENT, "jobs: n is -1 and data is given");
    expect_error(EST_SLURM(.jobs = { &negative, 1 }), EST_INVALID_ARGUMENT,
                 "jobs[0].addresses has n -1; write how many tasks it has");
    expect_error(EST_SLURM(.port_base = 65535), EST_INVALID_ARGUMENT,
                 "port_base is 65535 and a has 2 tasks: ports end at 65535; write a number from 1 to 65534");
    expect_error(EST_SLURM(.port_base = -1), EST_INVALID_ARGUMENT,
                 "port_base is -1 and a has 2 tasks: ports end at 65535; write a number from 1 to 65534");
    assert_int_equal(est_resolve_slurm(&(est_slurm_options){ 0 }, NULL, &resolver), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "make it with EST_SLURM(...)"));
    assert_int_equal(est_resolve_slurm(NULL, NULL, &resolver), EST_INVALID_ARGUMENT); /* no chief */
    assert_string_equal(
        est_error_message(),
        "Slurm: no strategy for workers without \"ps\" tasks; set train_distribute to an "
        "est_multi_worker_mirrored_strategy (in a job file run.strategy to multi_worker_mirrored), or add "
        "\"chief\": [\"host:port\"] and \"ps\" tasks");
    assert_null(resolver);
}

TEST(damage)
{
    static const char nodes[] = "a[01-03,7],b2", counts[] = "2(x4),1", bytes[] = "[],-0(x)9";
    char              copy[32];

    for (size_t k = 0; k < sizeof bytes; k++) { /* the last is the end of the text */
        for (size_t i = 0; i < sizeof nodes - 1; i++) {
            est_resolver *resolver = NULL;

            memcpy(copy, nodes, sizeof nodes);
            copy[i] = bytes[k];
            set_step(copy, counts, "0");
            if (resolve_workers(&resolver) == EST_OK) assert_non_null(resolver);
            est_resolver_free(resolver);
        }
        for (size_t i = 0; i < sizeof counts - 1; i++) {
            est_resolver *resolver = NULL;

            memcpy(copy, counts, sizeof counts);
            copy[i] = bytes[k];
            set_step(nodes, copy, "0");
            if (resolve_workers(&resolver) == EST_OK) assert_non_null(resolver);
            est_resolver_free(resolver);
        }
    }
}

TEST(memory_failures)
{
    set_step("n[1-40]", "2(x40)", "3");
    FAULT_LOOP(f, FAULT_ALLOCATIONS, .more_than = 4) {
        est_resolver *resolver = NULL;
        est_status    status;

        fault_arm(&f);
        status = resolve_workers(&resolver);
        est_resolver_free(resolver);
        fault_check(&f, status);
    }
}
