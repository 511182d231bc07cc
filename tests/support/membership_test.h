/* SPDX-License-Identifier: Apache-2.0
 *
 * A crew: workers of multi-worker training in one process, each with its own server and membership, and a thread for
 * what it does. cmocka cannot fail in a thread, so members keep what went wrong and crew_run fails for them. */
#ifndef EST_TESTS_MEMBERSHIP_TEST_H
#define EST_TESTS_MEMBERSHIP_TEST_H

#include "collective/membership.h"

#define CREW_MAX          6    /* with a twin */
#define CREW_SECS         20.0 /* for what should be at once, on a busy machine */
#define CREW_SILENCE_SECS 60.0
#define CREW_SOON_SECS    15.0 /* at once: nobody has waited for a join, a deadline or silence */
#define CREW_ALL          (~0U)

typedef struct crew crew;

typedef struct crew_member {
    crew               *crew;
    int                 number; /* of its task */
    est_server         *server;
    est_membership     *membership;
    est_membership_view view;        /* of the last join */
    char                error[1200]; /* "": nothing went wrong */
    void               *arg;
} crew_member;

struct crew {
    int                    n;
    est_cluster           *cluster;
    int                    ports[CREW_MAX]; /* sockets that keep the ports */
    char                   tasks[CREW_MAX][16], addresses[CREW_MAX][32];
    est_rank               list[CREW_MAX];
    est_membership_options options;
    double                 silence_secs; /* of servers; set before the first start */
    crew_member            members[CREW_MAX];
    int                    n_members; /* n, or one more with a twin */

    /* Of the twin, which has an address of its own. */
    est_cluster *twin_cluster;
    char         twin_address[32];
};

/* A crew of n, nobody started; of `options` everything but the tasks is used. */
void crew_make(crew *c, int n, const est_membership_options *options);
void crew_free(crew *c); /* stops all */

/* Creates the server and membership of one; takes them down, as when the process ends. */
void crew_start(crew *c, int number);
void crew_start_all(crew *c);
void crew_stop(crew *c, int number);

/* Starts another process under the name of one, later: member n. Once. */
void crew_start_twin(crew *c, int number);

/* Calls fn for those whose bit is set, each in a thread of its own, and waits. */
typedef void (*crew_fn)(crew_member *m);
void crew_run(crew *c, unsigned who, crew_fn fn, void *arg);

/* Inside of such a function: says what went wrong, unless something did before. */
void crew_fail(crew_member *m, const char *fmt, ...) EST_PRINTF(2, 3);
void crew_check(crew_member *m, est_status status);
void crew_expect(crew_member *m, est_status got, est_status want, const char *text);

/* Waits until the member waits for somebody of that name ("": anybody), by the status view. */
void crew_await_wait(crew_member *m, const char *for_whom);

/* Sums a one over the group of the member's last view. */
est_status crew_count(const crew_member *m, float *sum);

#endif
