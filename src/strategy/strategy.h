/* SPDX-License-Identifier: Apache-2.0
 *
 * Strategies from the inside: a kind, its options, and how many replicas it has where.
 *
 * All synchronous kinds are the same to whoever builds a graph: est_strategy_replicas says what replicas there are, and
 * est_replicas_build (strategy/replicas_build.h) builds them. They differ in whether other workers take part (`peers`), which a session
 * then needs to have (runtime/communicator.h). Immutable; any thread. */
#ifndef EST_STRATEGY_STRATEGY_H
#define EST_STRATEGY_STRATEGY_H

#include "base/strbuf.h"
#include "estoc/strategy.h"
#include "graph/replicas.h"

typedef enum est_strategy_kind {
    EST_STRATEGY_DEFAULT = 0,
    EST_STRATEGY_PARAMETER_SERVER,
    EST_STRATEGY_ONE_DEVICE,
    EST_STRATEGY_MIRRORED,
    EST_STRATEGY_CENTRAL_STORAGE,
    EST_STRATEGY_MULTI_WORKER_MIRRORED
} est_strategy_kind;

#define EST_STRATEGY_REPLICAS_MAX 256

struct est_strategy {
    est_strategy_kind            kind;
    est_parameter_server_options ps; /* partitioner: NULL, or the copy below */
    est_partitioner              partitioner;
    int                          replicas;   /* in this process; 0: one */
    char                         device[64]; /* that replicas are pinned to; "": any */

    est_multi_worker_mirrored_options workers;           /* all pointers NULL */
    est_resolver                     *resolver;          /* of multi_worker_mirrored: which task this is; its own */
    int                               n_workers, worker; /* how many train, and which of them this is; 0: one */
    bool                              evaluates;         /* an evaluator's: it is the only worker of its world */
};

const char *est_strategy_name(const est_strategy *strategy); /* "parameter_server"; NULL: "default" */

/* Its name and options as JSON, for logs; the second is the first's for one kind. */
void est_strategy_text(const est_strategy *strategy, est_strbuf *out);
void est_parameter_server_text(const est_strategy *strategy, est_strbuf *out);

/* Whether a cluster needs no chief for it: worker 0 is one. NULL: no strategy. */
bool est_strategy_needs_no_chief(const est_strategy *strategy);

/* The replicas that a graph has under a strategy, to be built by est_replicas_build: gradients are summed, and all count the same,
 * unless the caller sets `gradients` and `weight`. NULL: one. */
est_replicas est_strategy_replicas(const est_strategy *strategy);

#endif
