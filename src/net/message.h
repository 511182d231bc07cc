/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of memory that are used again, and messages, which live in them. A training step sends and receives the same
 * sizes over and over; fresh memory of that size would have to be faulted in every time. Any thread. */
#ifndef EST_NET_MESSAGE_H
#define EST_NET_MESSAGE_H

#include "net/frame.h"

/* Free blocks of one net, up to what is used at a time; reference-counted, since messages may outlive their net. */
typedef struct est_blocks est_blocks;

EST_MUST_CHECK est_status est_blocks_create(est_blocks **out);
est_blocks               *est_blocks_ref(est_blocks *blocks);
void                      est_blocks_free(est_blocks *blocks); /* NULL is fine */

/* Memory at a multiple of 64 bytes, to be freed with est_block_free; NULL: out of memory. */
void *est_block_alloc(est_blocks *blocks, size_t bytes);
void  est_block_free(est_blocks *blocks, void *block); /* NULL is fine */

/* A message that is about to arrive. EST_RESOURCE_EXHAUSTED: it does not fit into memory. */
EST_MUST_CHECK est_status est_message_create(est_blocks *blocks, const est_frame *frame, est_message **out);

/* Where the body goes: frame->body_size bytes. */
void *est_message_body(est_message *message);

/* Reads the table of parts after the body has arrived. */
EST_MUST_CHECK est_status est_message_finish(est_message *message, const est_frame *frame);

#endif
