/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the reader of checkpoint files (see checkpoint_files.h for the input). Every tensor is read, whole and in
 * part. */
#include "checkpoint_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_tensor(const est_bundle *bundle, const est_bundle_entry *entry)
{
    est_tensor      *tensor = NULL;
    est_bundle_slice part   = { .rank = entry->shape.rank };

    if (est_bundle_read(bundle, entry->name, NULL, &tensor) == EST_OK) est_tensor_free(tensor);
    for (int i = 0; i < part.rank; i++) {
        part.start[i]  = entry->shape.dim[i] / 3;
        part.length[i] = (entry->shape.dim[i] - part.start[i]) / 2;
    }
    if (part.rank >= 0 && est_bundle_read(bundle, entry->name, &part, &tensor) == EST_OK) est_tensor_free(tensor);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    est_bundle *bundle;

    make_files(data, size);
    if (est_bundle_open(prefix, &bundle) != EST_OK) return 0;
    for (int i = 0; i < est_bundle_count(bundle); i++) read_tensor(bundle, est_bundle_at(bundle, i));
    est_bundle_close(bundle);
    return 0;
}
