/* SPDX-License-Identifier: Apache-2.0
 *
 * The queue of items that an interleave has read ahead: elements, skipped rows, and the final error, in order. One
 * thread at a time. */
#ifndef EST_DATA_INTERLEAVE_ITEMS_H
#define EST_DATA_INTERLEAVE_ITEMS_H

#include "data/stage.h"

/* All zero: nothing. */
typedef struct est_interleave_item {
    est_error  *error;   /* NULL: none */
    bool        fatal;   /* it ends the pass; else it is about a row that may be skipped */
    bool        filled;  /* there is an element */
    int64_t     n_below; /* rows that the dataset read left out before it */
    est_element element; /* its fields follow */
} est_interleave_item;

/* Items of elements with n_fields fields. Made zeroed, of est_interleave_item_block_bytes. */
typedef struct est_interleave_item_block {
    int  slot;  /* where they were read */
    int  n, at; /* [at, n) are there */
    char items[] __attribute__((aligned(16)));
} est_interleave_item_block;

size_t               est_interleave_item_block_bytes(int n_fields, int n);
est_interleave_item *est_interleave_item_at(int n_fields, est_interleave_item_block *block, int i);
void                 est_interleave_item_block_clear(int n_fields,
                                                     /* what is there; it can be filled again */
                                                     est_interleave_item_block *block);

void est_interleave_item_clear(int n_fields, est_interleave_item *item);
void est_interleave_item_move(int n_fields, est_interleave_item *to,
                              est_interleave_item *from); /* `to` holds nothing */

/* Has the item hold the thread's last error, `status`. */
EST_MUST_CHECK est_status est_interleave_item_fail(est_interleave_item *item, est_status status, bool fatal);

/* Writes an item as field `number` of a message; one with a fatal error is not written, and the error is returned.
 * Reads one back into `out`, which holds nothing; after a failure it may hold something. */
EST_MUST_CHECK est_status est_interleave_item_put(est_wire_writer *w, uint32_t number, const est_interleave_item *item,
                                                  int n_fields);
EST_MUST_CHECK est_status est_interleave_item_parse(est_wire_reader *r, est_pass *pass, const est_dataset *dataset,
                                                    est_interleave_item *out);

#endif
