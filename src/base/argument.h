/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of arguments of public functions; estoc/status.h has the rules for wrong arguments. */
#ifndef EST_BASE_ARGUMENT_H
#define EST_BASE_ARGUMENT_H

#include "estoc/status.h"

/* Returns EST_INVALID_ARGUMENT, "est_train: estimator is NULL", unless the argument is given. */
#define EST_REQUIRE(argument)                                                                                          \
    do {                                                                                                               \
        if ((argument) == NULL) return est_fail(EST_INVALID_ARGUMENT, "%s: %s is NULL", __func__, #argument);          \
    } while (0)

/* Whether a list { data, n } (est_nodes, est_i64s, ...) is valid: n is 0, or n is above 0 and data is set. */
#define EST_LIST_OK(list) ((list).n >= 0 && ((list).n == 0 || (list).data != NULL))

/* Returns EST_INVALID_ARGUMENT, "warm_start.renames: n is 2 and data is NULL", unless it has. */
#define EST_REQUIRE_LIST(name, list)                                                                                   \
    do {                                                                                                               \
        if (!EST_LIST_OK(list))                                                                                        \
            return est_fail(EST_INVALID_ARGUMENT, "%s: n is %d and data is %s", (name), (list).n,                      \
                            (list).data != NULL ? "given" : "NULL");                                                   \
    } while (0)

#endif
