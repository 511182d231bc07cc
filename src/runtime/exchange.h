/* SPDX-License-Identifier: Apache-2.0
 *
 * What a step reduces across workers, as the pass (reduce_packs.c) makes it and its kernels (exchange.c) use it. */
#ifndef EST_RUNTIME_EXCHANGE_H
#define EST_RUNTIME_EXCHANGE_H

#include "runtime/communicator.h"

/* A weight: which of those of which pack. */
typedef struct est_weight_at {
    int pack, at;
} est_weight_at;

typedef struct est_pack_exchange {
    est_exchange  *in;
    est_dtype      dtype;
    int            n_values, n_weights;
    int           *weight; /* [n_values]: which of the pack's weights it has */
    bool          *mean;   /* [n_values] */
    void          *buffer;
    size_t         capacity; /* bytes */
    size_t         count;    /* elements, with what is between values */
    double        *totals;   /* [n_weights], of all workers; after the end, */
    double         busy;     /* and how many of them are not idle */
    est_comm_work *work;     /* NULL: nothing is under way */
} est_pack_exchange;

/* Rows of a table, which travel with others. */
typedef struct est_rows_exchange {
    est_exchange *in;
    int           pack, at; /* which of which pack of rows */
    est_weight_at weight;
    bool          mean;
} est_rows_exchange;

typedef struct est_rows_pack {
    est_exchange  *in;
    int            slot;
    int            first, n;   /* of the exchange's rows */
    est_comm_rows *mine, *all; /* [n] */
    int64_t       *indices;    /* those that are int32, widened */
    size_t         capacity;   /* bytes */
    est_comm_work *work;
    bool           ended; /* in this run; `all` is there */
} est_rows_pack;

typedef struct est_gathering {
    est_exchange  *in;
    int            slot;
    est_comm_work *work;
    bool           ended;
    void          *block; /* what this worker sends: what its rows are, and they */
    size_t         capacity;
    const void    *data; /* the blocks of all workers */
    const size_t  *begins;
} est_gathering;

/* The packs that end together. */
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
    bool               known; /* the run failed by what all workers see: an operation, or that nobody has an example */
};

extern const est_op est_op_pack_begin, est_op_packs_end, est_op_rows_begin, est_op_rows_end, est_op_gather_begin,
    est_op_gather_end;

#endif
