/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that are processes, and one that is killed: at each stage, each of them. The others end soon, and know who it
 * was. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread.h"
#include "support/collective_test.h"

#define RANKS 3

enum { STAGE_JOINING, STAGE_JOINED, STAGE_BEGUN, STAGE_WORKING, N_STAGES };

typedef struct process {
    pid_t pid;
    int   to, from; /* pipes */
} process;

typedef struct part {
    const char  *transport;
    int          rank, victim, stage, in, out;
    size_t       count;
    bool         gathers; /* instead of reducing */
    bool         apart;   /* each on a host of its own, so that nothing goes through shared memory */
    est_mailbox *mailbox;
} part;

static void serve(void *user, est_request *request)
{
    part *p = user;

    if (!est_mailbox_serve(p->mailbox, request)) est_request_fail(request, EST_UNIMPLEMENTED, "not of a group");
}

static void lost(void *user, est_link *link, const char *why)
{
    part *p = user;

    est_mailbox_lost(p->mailbox, link, why);
}

/* Ends the process unless it is as it should be. */
static void must(bool good, const char *what)
{
    if (good) return;
    fprintf(stderr, "%s: %s\n", what, est_error_message());
    _exit(1);
}

static void say(const part *p)
{
    must(write(p->out, "x", 1) == 1, "pipe");
}

static void wait_to_be_killed(const part *p)
{
    say(p);
    for (;;) pause();
}

/* Reduces, or gathers, until the group ends. */
static est_status work(const part *p, est_rank_group *group)
{
    float       *data   = calloc(p->count, sizeof *data);
    est_gathered all    = { 0 };
    est_status   status = EST_OK;
    bool         victim = p->rank == p->victim;

    for (int i = 0; status == EST_OK; i++) {
        est_work *one;

        if (victim && i == 3 && p->stage == STAGE_JOINED) wait_to_be_killed(p);
        est_gathered_clear(&all);
        status = p->gathers ? est_all_gather_uneven(group, data, p->count * sizeof *data, &all, NULL, &one)
                            : est_all_reduce(group, data, p->count, EST_F32, EST_REDUCE_OP_SUM, NULL, &one);
        if (victim && i == 3 && p->stage == STAGE_BEGUN) wait_to_be_killed(p);
        if (status == EST_OK) status = est_work_wait(one);
        if (victim && i == 3 && p->stage == STAGE_WORKING) say(p); /* and goes on */
    }
    est_gathered_clear(&all);
    free(data);
    return status;
}

static void be_rank(part *p)
{
    est_net_options   options = { .transport    = p->transport,
                                  .certificates = net_test_certificates(),
                                  .self         = { .job = "job", .incarnation = (uint64_t)p->rank + 1 },
                                  .silence_secs = COLLECTIVE_LIMIT_SECS,
                                  .serve        = serve,
                                  .lost         = lost,
                                  .user         = p };
    est_rank          ranks[RANKS];
    char              tasks[RANKS][16], addresses[RANKS][32], text[64];
    est_group_options join = {
        .ranks = ranks, .n = RANKS, .rank = p->rank, .generation = 1, .join_secs = COLLECTIVE_LIMIT_SECS
    };
    est_rank_group *group = NULL;
    est_net        *net;
    est_status      status;
    int             port, ports[RANKS];

    snprintf(options.self.task, sizeof options.self.task, "worker:%d", p->rank);
    must(est_mailbox_create(&p->mailbox) == EST_OK && est_net_create(&options, &net) == EST_OK &&
             est_net_listen(net, "127.0.0.1:0") == EST_OK,
         "net");
    port = est_net_port(net);
    must(write(p->out, &port, sizeof port) == sizeof port, "pipe");
    must(read(p->in, ports, sizeof ports) == sizeof ports, "pipe");
    for (int i = 0; i < RANKS; i++) {
        snprintf(tasks[i], sizeof tasks[i], "worker:%d", i);
        snprintf(addresses[i], sizeof addresses[i], "127.0.0.1:%d", ports[i]);
        ranks[i] = (est_rank){ tasks[i], addresses[i], 0 };
    }
    if (p->apart) join.host = tasks[p->rank];
    if (p->rank == p->victim && p->stage == STAGE_JOINING) wait_to_be_killed(p);
    if (p->stage == STAGE_JOINING) join.join_secs = 0.5;
    status = est_group_create(p->mailbox, net, &join, &group);
    snprintf(text, sizeof text, "rank %d (worker:%d)", p->victim, p->victim);
    if (p->stage == STAGE_JOINING) {
        must(status == EST_DEADLINE_EXCEEDED || status == EST_ABORTED, "joining");
        must(strstr(est_error_message(), text) != NULL || status == EST_ABORTED, "who is missing");
    } else {
        must(status == EST_OK, "joining");
        must(work(p, group) == EST_ABORTED, "aborted");
        must(strstr(est_error_message(), text) != NULL, "who was lost");
    }
    est_group_free(group);
    est_net_free(net);
    est_mailbox_free(p->mailbox);
    exit(0); /* with leaks looked for */
}

static process start(part p)
{
    int     to[2], from[2];
    process out;

    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    out.pid = fork();
    assert_true(out.pid >= 0);
    if (out.pid == 0) {
        p.in  = to[0];
        p.out = from[1];
        be_rank(&p);
    }
    close(to[0]);
    close(from[1]);
    out.to   = to[1];
    out.from = from[0];
    return out;
}

static void kill_one(const char *transport, int victim, int stage, size_t count, bool gathers, bool apart)
{
    process ranks[RANKS];
    int     ports[RANKS], status;
    char    byte;
    int64_t start_ns;
    double  secs;

    for (int i = 0; i < RANKS; i++)
        ranks[i] = start((part){ .transport = transport,
                                 .rank      = i,
                                 .victim    = victim,
                                 .stage     = stage,
                                 .count     = count,
                                 .gathers   = gathers,
                                 .apart     = apart });
    for (int i = 0; i < RANKS; i++) assert_int_equal(read(ranks[i].from, &ports[i], sizeof ports[i]), sizeof ports[i]);
    for (int i = 0; i < RANKS; i++) assert_int_equal(write(ranks[i].to, ports, sizeof ports), sizeof ports);
    assert_int_equal(read(ranks[victim].from, &byte, 1), 1);
    assert_int_equal(kill(ranks[victim].pid, SIGKILL), 0);
    start_ns = est_machine_ns();
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(waitpid(ranks[i].pid, &status, 0), ranks[i].pid);
        if (i != victim && status != 0)
            fail_msg("%s: rank %d ended with %d when rank %d was killed", transport, i, status, victim);
        close(ranks[i].to);
        close(ranks[i].from);
    }
    secs = (double)(est_machine_ns() - start_ns) / 1e9;
    if (secs > COLLECTIVE_SOON_SECS) fail_msg("it took %g s until all had ended", secs);
}

TEST(kills)
{
    for (int t = 0, n = net_test_n_transports(); t < n; t++) {
        for (int k = 0; k < RANKS * N_STAGES; k++) {
            if (t > 0 && k % RANKS != 1) continue; /* the rest is not about the transport */
            for (int apart = t > 0; apart < 2; apart++) {
                kill_one(net_test_transports[t], k % RANKS, k / RANKS, 100, false, apart != 0);
                kill_one(net_test_transports[t], k % RANKS, k / RANKS, 1000000, false, apart != 0);
                if (t == 0 && k / RANKS >= STAGE_BEGUN)
                    kill_one(net_test_transports[t], k % RANKS, k / RANKS, 1000000, true, apart != 0);
            }
        }
    }
}

int main(void)
{
    return est_test_run(net_test_setup, net_test_teardown);
}
