/* SPDX-License-Identifier: Apache-2.0
 *
 * Many ranks in one process, each with its own net, mailbox and group, and a thread for what it does. cmocka cannot
 * fail in a thread, so ranks keep what went wrong and collective_run fails for them. */
#ifndef EST_TESTS_COLLECTIVE_TEST_H
#define EST_TESTS_COLLECTIVE_TEST_H

#include "collective/collective.h"
#include "support/net_test.h"

#define COLLECTIVE_RANKS_MAX  9
#define COLLECTIVE_LIMIT_SECS 240.0 /* for a join, a deadline and silence: no rank comes to it */
#define COLLECTIVE_SOON_SECS  60.0  /* well below, for a loss that is noticed at once by ranks that hardly get a core */

typedef struct collective_test collective_test;

typedef struct collective_rank {
    collective_test *test;
    int              rank;
    est_mailbox     *mailbox;
    est_net         *net;
    est_rank_group  *group;
    char             error[1200]; /* "": nothing went wrong */
    void            *arg;
    pthread_mutex_t  lock; /* guards n_lost and n_blocks */
    pthread_cond_t   changed;
    int              n_lost;   /* links */
    int              n_blocks; /* that came over the network */
} collective_rank;

struct collective_test {
    int             n;
    collective_rank ranks[COLLECTIVE_RANKS_MAX];
    est_rank        list[COLLECTIVE_RANKS_MAX];
    const char     *hosts[COLLECTIVE_RANKS_MAX]; /* that the ranks say they are on; NULL: this machine */
    char            tasks[COLLECTIVE_RANKS_MAX][16], addresses[COLLECTIVE_RANKS_MAX][32];
};

/* Starts nets for n ranks; no groups yet. They are on one host, unless collective_apart: each on one of its own, so
 * that what they do goes over the network. */
extern bool collective_apart;
void        collective_start(collective_test *t, const char *transport, int n);
void        collective_stop(collective_test *t); /* groups, too */

/* Makes groups of all ranks. `more` may be NULL; of it, everything but the list and the rank is used. */
void collective_join(collective_test *t, const est_group_options *more);
void collective_leave(collective_test *t);

/* The options that a rank makes its group with. */
est_group_options collective_options(collective_rank *r, const est_group_options *more);

/* Calls fn for every rank, each in a thread of its own. */
typedef void (*collective_fn)(collective_rank *r);
void collective_run(collective_test *t, collective_fn fn, void *arg);

/* Inside of such a function: says what went wrong, unless something did before. */
void collective_fail(collective_rank *r, const char *fmt, ...) EST_PRINTF(2, 3);
void collective_check(collective_rank *r, est_status status);
void collective_expect(collective_rank *r, est_status got, est_status want, const char *text);

/* How many blocks of operations came to the rank over the network. */
int collective_blocks(collective_rank *r);

/* Waits until the rank's net and its mailbox know that so many links are lost. */
void collective_await_lost(collective_rank *r, int n);

/* Waits for what was begun, if it was; by address, because arguments are evaluated in any order. */
est_status collective_finish(est_status begun, est_work **work);

#endif
