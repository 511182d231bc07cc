/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoint entries, variables with their keys in a checkpoint (runtime/store_files.h), as fields ENTRY in the head of
 * a message. */
#ifndef EST_CLUSTER_CHECKPOINT_ENTRIES_H
#define EST_CLUSTER_CHECKPOINT_ENTRIES_H

#include "cluster/protocol.h"
#include "runtime/store_files.h"

void est_checkpoint_entry_pack(est_packing *packing, const est_store_entry *entry);

/* The entries of a message, allocated in `arena`. */
EST_MUST_CHECK est_status est_checkpoint_entries_unpack(const est_message *message, est_arena *arena,
                                                        est_store_entry **out, int *n);

#endif
