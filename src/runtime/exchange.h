/* SPDX-License-Identifier: Apache-2.0
 *
 * The exchanges of a step with other workers: built by the pass (reduce_packs.c), used by the kernels (exchange.c). */
#ifndef EST_RUNTIME_EXCHANGE_H
#define EST_RUNTIME_EXCHANGE_H

#include "runtime/communicator.h"

/* Weight `at` of a pack. */
typedef struct est_weight_at {
    int pack, at;
} est_weight_at;

typedef struct est_pack_exchange {
    est_exchange  *in;
    est_dtype      dtype;
    int            n_values, n_weights;
    int           *weight; /* [n_values]: index of its weight */
    bool          *mean;   /* [n_values] */
    void          *buffer;
    size_t         capacity; /* bytes */
    size_t         count;    /* elements, including padding */
    double        *totals;   /* [n_weights]: sums over all workers; after the end, */
    double         busy;     /* and the number of workers that are not idle */
    double         stops;    /* and of those that request a stop */
    est_comm_work *work;     /* NULL: nothing is under way */
} est_pack_exchange;

/* Rows of a table, in a pack with others. */
typedef struct est_rows_exchange {
    est_exchange *in;
    int           pack, at; /* index in a pack of rows */
    est_weight_at weight;
    bool          mean;
} est_rows_exchange;

typedef struct est_rows_pack {
    est_exchange  *in;
    int            slot;
    int            first, n;   /* of the exchange's rows */
    est_comm_rows *mine, *all; /* [n] */
    int64_t       *indices;    /* int32 indices, widened */
    size_t         capacity;   /* bytes */
    est_comm_work *work;
    bool           ended; /* in this run; `all` is set */
} est_rows_pack;

typedef struct est_gathering {
    est_exchange  *in;
    int            slot;
    est_comm_work *work;
    bool           ended;
    void          *block; /* sent by this worker: a head and its rows */
    size_t         capacity;
    const void    *data; /* the blocks of all workers */
    const size_t  *begins;
} est_gathering;

/* Packs that end in one node. */
typedef struct est_level {
    est_exchange *in;
    int           first, n;
} est_level;

struct est_exchange {
    est_communicator  *communicator;
    est_pack_exchange *packs; /* [n_packs], as all below */
    est_rows_exchange *rows;
    est_rows_pack     *row_packs;
    est_gathering     *gatherings;
    est_level         *levels;
    int                n_packs, n_rows, n_row_packs, n_gatherings, n_levels;
    bool known; /* all workers see the failure of the run: an operation failed, or nobody has an example */
};

extern const est_op est_op_pack_begin, est_op_packs_end, est_op_rows_begin, est_op_rows_end, est_op_gather_begin,
    est_op_gather_end;

#endif
