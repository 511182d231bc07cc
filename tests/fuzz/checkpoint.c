/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes checkpoints as a user opens them (see checkpoint_files.h for the input): variables are listed, found by key
 * and by name, read and verified, and another checkpoint is saved over it. */
#include "estoc/checkpoint.h"
#include "checkpoint_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(const est_checkpoint *checkpoint)
{
    for (int i = 0; i < est_checkpoint_count(checkpoint); i++) {
        const est_checkpoint_variable *variable = est_checkpoint_at(checkpoint, i);
        est_tensor                    *tensor   = NULL;

        if (variable->bytes < 0) abort();
        if (est_checkpoint_find(checkpoint, variable->name) != variable) abort();
        if (est_checkpoint_read(checkpoint, variable->name, &tensor) == EST_OK) est_tensor_free(tensor);
        if (variable->full_name == NULL) continue;
        if (est_checkpoint_read(checkpoint, variable->full_name, &tensor) == EST_OK) est_tensor_free(tensor);
    }
}

/* Whatever was there, the new one is. */
static void save_over(void)
{
    est_bundle_writer *writer;
    est_bundle        *bundle;

    if (est_bundle_writer_create(prefix, 0, &writer) != EST_OK) abort();
    if (est_bundle_finish(writer) != EST_OK) abort();
    est_bundle_writer_free(writer);
    if (est_bundle_open(prefix, &bundle) != EST_OK || est_bundle_count(bundle) != 0) abort();
    est_bundle_close(bundle);
}

/* The data of both. */
static void remove_data(void)
{
    unlink(data_path);
    for (int n = 1; n <= 2; n++) {
        snprintf(data_path, sizeof data_path, "%s.data-00000-of-%05d", prefix, n);
        unlink(data_path);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    est_checkpoint *checkpoint;
    est_status      status;

    make_files(data, size);
    status = est_checkpoint_open(prefix, &checkpoint);
    if (status == EST_OK) {
        look(checkpoint);
        status = est_checkpoint_verify(checkpoint); /* either way is fine */
        est_checkpoint_close(checkpoint);
    }
    save_over();
    remove_data();
    return 0;
}
