/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes SavedModel: what is read must be written and read again as the same; variables in its collections are read,
 * and assets get a place. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "format/saved_model_def.h"
#include "format/variable_def.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_variables(const est_meta_graph_def *meta, est_arena *arena)
{
    est_wire_writer  w = { 0 };
    est_variable_def def;

    for (int i = 0; i < meta->n_collections; i++) {
        const est_collection_def *collection = &meta->collections[i];

        if (collection->kind != EST_COLLECTION_BYTES) continue;
        for (int k = 0; k < collection->n; k++) {
            if (est_variable_def_parse(collection->bytes[k], arena, &def) == EST_OK) est_variable_def_put(&w, &def);
        }
    }
    est_wire_writer_clear(&w);
}

static void write_again(const est_saved_model_def *model)
{
    est_wire_writer     once = { 0 }, twice = { 0 };
    est_saved_model_def again;

    if (est_saved_model_def_put(&once, model) != EST_OK) abort();
    if (est_saved_model_def_parse((est_str){ (const char *)once.data, once.size }, model->arena, &again) != EST_OK)
        abort();
    if (est_saved_model_def_put(&twice, &again) != EST_OK) abort();
    if (once.size != twice.size) abort();
    if (once.size > 0 && memcmp(once.data, twice.data, once.size) != 0) abort();
    est_wire_writer_clear(&once);
    est_wire_writer_clear(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    est_arena          *arena = est_arena_create();
    est_saved_model_def model;

    if (arena == NULL) return 0;
    if (est_saved_model_def_parse((est_str){ (const char *)data, size }, arena, &model) == EST_OK) {
        write_again(&model);
        for (int i = 0; i < model.n_meta_graphs; i++) read_variables(model.meta_graphs[i], arena);
        for (int i = 0; i < model.n_meta_graphs; i++)
            (void)est_meta_graph_def_place_assets(model.meta_graphs[i], "dir");
    }
    est_arena_free(arena);
    return 0;
}
