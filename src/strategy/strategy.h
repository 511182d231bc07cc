/* SPDX-License-Identifier: Apache-2.0
 *
 * Strategies from the inside: a kind and its options. */
#ifndef EST_STRATEGY_STRATEGY_H
#define EST_STRATEGY_STRATEGY_H

#include "base/strbuf.h"
#include "estoc/strategy.h"

typedef enum est_strategy_kind { EST_STRATEGY_PARAMETER_SERVER = 1 } est_strategy_kind;

struct est_strategy {
    est_strategy_kind            kind;
    est_parameter_server_options ps; /* partitioner: NULL, or the copy below */
    est_partitioner              partitioner;
};

const char *est_strategy_name(const est_strategy *strategy); /* "parameter_server" */

/* Its name and options as JSON, for logs. */
void est_strategy_text(const est_strategy *strategy, est_strbuf *out);

/* Whether a cluster needs no chief for it: worker 0 is one. NULL: no strategy. */
bool est_strategy_needs_no_chief(const est_strategy *strategy);

#endif
