/* SPDX-License-Identifier: Apache-2.0
 *
 * See strategy/replicas_build.h.
 *
 * In a round every replica runs until it merges or returns, in order. At the end of a round all are at the same merge,
 * which the last thread builds, or all have returned. Anything else is an error, and no replica waits at a merge from
 * then on. */
#include "strategy/replicas_build.h"

#include <pthread.h>

#include "base/thread.h"

typedef struct builders builders;

typedef struct builder {
    builders       *all;
    int             number, merges;
    est_thread      thread;
    est_merge_build build; /* the merge that it waits for; NULL: none */
    bool            returned;
} builder;

struct builders {
    est_replicas         replicas;
    est_graph           *graph;
    est_replica_build_fn build;
    void                *user;
    builder             *builder; /* [n] */
    void               **args;    /* [n]: arguments of the current merge */
    est_node             merged;  /* result of the last merge */

    pthread_mutex_t lock; /* guards turn; the thread with the turn owns everything else */
    pthread_cond_t  passed;
    int             turn; /* the replica that runs; n: all have ended */
};

static void wait_for_turn(builders *t, int number)
{
    pthread_mutex_lock(&t->lock);
    while (t->turn != number) pthread_cond_wait(&t->passed, &t->lock);
    pthread_mutex_unlock(&t->lock);
    est_replicas_turn(t->graph, number);
}

static void pass_turn(builders *t, int to)
{
    pthread_mutex_lock(&t->lock);
    t->turn = to;
    pthread_cond_broadcast(&t->passed);
    pthread_mutex_unlock(&t->lock);
}

/* The first replica from `from` on that has not returned; n: none. */
static int next_builder(const builders *t, int from)
{
    while (from < t->replicas.n && t->builder[from].returned) from++;
    return from;
}

/* All replicas must be at the same merge. */
static void check_merge(const builders *t)
{
    const builder *first = &t->builder[0];

    for (int i = 1; i < t->replicas.n; i++) {
        const builder *other = &t->builder[i];

        if (first->build == other->build || est_graph_poisoned(t->graph)) continue;
        if (first->build != NULL && other->build != NULL) {
            (void)est_graph_poison(t->graph, est_fail(EST_INVALID_ARGUMENT,
                                                      "merge %d of replica %d is of another kind than that of replica "
                                                      "0: all replicas must merge the same things in the same order",
                                                      first->merges, i));
            return;
        }
        (void)est_graph_poison(t->graph, est_fail(EST_INVALID_ARGUMENT,
                                                  "replica 0 has merged %d times and replica %d %d times: all replicas "
                                                  "must merge the same things in the same order",
                                                  first->merges, i, other->merges));
    }
}

/* Ends the turn of replica `number`, which merges or has returned. */
static void end_turn(builders *t, int number)
{
    int next = next_builder(t, number + 1);

    if (next == t->replicas.n) {
        check_merge(t);
        est_replicas_turn(t->graph, -1);
        if (est_graph_poisoned(t->graph)) {
            t->merged = est_graph_poison(t->graph, EST_OK);
        } else if (t->builder[0].build != NULL) {
            t->merged = t->builder[0].build(t->graph, t->args, t->replicas.n);
        }
        next = next_builder(t, 0);
    }
    pass_turn(t, next);
}

static est_node merge(est_replicas *self, est_merge_build build, void *arg)
{
    builders *t = EST_CONTAINER_OF(self, builders, replicas);
    builder  *w = &t->builder[self->current];

    w->build           = build;
    t->args[w->number] = arg;
    w->merges++;
    end_turn(t, w->number);
    wait_for_turn(t, w->number);
    w->build = NULL;
    return t->merged;
}

static void *run_builder(void *arg)
{
    builder  *w = arg;
    builders *t = w->all;

    wait_for_turn(t, w->number);
    if (!est_graph_poisoned(t->graph)) {
        est_status status = t->build(w->number, t->user);
        if (status != EST_OK) (void)est_graph_poison(t->graph, status);
    }
    w->returned = true;
    end_turn(t, w->number);
    return NULL;
}

/* Builds all replicas to their end; none if a thread cannot be started. */
static void run_builders(builders *t)
{
    int n = t->replicas.n, started = 1;

    for (int i = 0; i < n; i++) t->builder[i] = (builder){ .all = t, .number = i };
    while (started < n) {
        est_status status = est_thread_start(&t->builder[started].thread, "replica", run_builder, &t->builder[started]);

        if (status != EST_OK) {
            (void)est_graph_poison(t->graph, status);
            for (int i = started; i < n; i++) t->builder[i].returned = true;
            break;
        }
        started++;
    }
    pass_turn(t, 0);
    (void)run_builder(&t->builder[0]);
    for (int i = 1; i < started; i++) est_thread_join(&t->builder[i].thread);
}

static est_status make_locks(builders *t)
{
    est_status status = est_lock_init(&t->lock);

    if (status != EST_OK) return status;
    status = est_cond_init(&t->passed);
    if (status != EST_OK) pthread_mutex_destroy(&t->lock);
    return status;
}

est_status est_replicas_build(est_graph *graph, est_replicas replicas, est_replica_build_fn build, void *user)
{
    builders      t      = { .replicas = replicas, .graph = graph, .build = build, .user = user, .turn = -1 };
    est_replicas *before = est_graph_replicas(graph);
    est_status    status;

    EST_TRY(est_graph_status(graph));
    status = make_locks(&t);
    if (status != EST_OK) {
        (void)est_graph_poison(graph, status);
        return status;
    }
    t.replicas.merge = merge;
    t.builder        = est_alloc(sizeof *t.builder * (size_t)replicas.n);
    t.args           = est_alloc(sizeof *t.args * (size_t)replicas.n);
    if (t.builder == NULL || t.args == NULL) {
        status = est_no_memory();
        (void)est_graph_poison(graph, status);
    } else if (est_replicas_begin(graph, &t.replicas) == EST_OK) {
        run_builders(&t);
        est_replicas_end(graph, &t.replicas, before);
    }
    est_free(t.builder);
    est_free(t.args);
    pthread_cond_destroy(&t.passed);
    pthread_mutex_destroy(&t.lock);
    return est_graph_status(graph);
}
