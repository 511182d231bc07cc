/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of variables and what they are called in a checkpoint (runtime/store_files.h), as they travel in the head of a message:
 * one field ENTRY each. */
#ifndef EST_CLUSTER_CHECKPOINT_ENTRIES_H
#define EST_CLUSTER_CHECKPOINT_ENTRIES_H

#include "cluster/protocol.h"
#include "runtime/store_files.h"

void est_checkpoint_entry_pack(est_packing *packing, const est_store_entry *entry);

/* The entries of a message; texts and the list itself are in `arena`. */
EST_MUST_CHECK est_status est_checkpoint_entries_unpack(const est_message *message, est_arena *arena,
                                                        est_store_entry **out, int *n);

#endif
