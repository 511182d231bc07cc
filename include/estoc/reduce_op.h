/* SPDX-License-Identifier: Apache-2.0
 *
 * How values of several replicas or workers become one. */
#ifndef ESTOC_REDUCE_OP_H
#define ESTOC_REDUCE_OP_H

typedef enum est_reduce_op { EST_REDUCE_OP_SUM, EST_REDUCE_OP_MEAN } est_reduce_op;

#endif
