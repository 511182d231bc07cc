/* SPDX-License-Identifier: Apache-2.0
 *
 * SavedModel: 1 saved_model_schema_version | 2 meta_graphs */
#include "format/saved_model_def.h"

#include <string.h>

#include "base/strbuf.h"
#include "format/wire_defaults.h"

void est_saved_model_def_init(est_saved_model_def *model, est_arena *arena)
{
    *model = (est_saved_model_def){ .arena = arena, .schema_version = EST_SAVED_MODEL_SCHEMA_VERSION };
}

est_status est_saved_model_def_add(est_saved_model_def *model, est_meta_graph_def **out)
{
    est_meta_graph_def *meta = est_arena_alloc(model->arena, sizeof *meta);

    if (meta == NULL) return est_no_memory();
    EST_TRY(est_def_grow(model->arena, &model->meta_graphs, model->n_meta_graphs, sizeof meta));
    est_meta_graph_def_init(meta, model->arena);
    model->meta_graphs[model->n_meta_graphs++] = meta;
    *out                                       = meta;
    return EST_OK;
}

static bool has_tag(const est_def_names *tags, const char *tag)
{
    for (int i = 0; i < tags->n; i++) {
        if (strcmp(tags->items[i], tag) == 0) return true;
    }
    return false;
}

static bool same_tags(const est_def_names *have, const char *const *tags, int n)
{
    if (have->n != n) return false;
    for (int i = 0; i < n; i++) {
        if (!has_tag(have, tags[i])) return false;
    }
    return true;
}

static void append_tags(est_strbuf *text, const char *const *tags, int n)
{
    est_strbuf_append(text, "{");
    for (int i = 0; i < n; i++) est_strbuf_printf(text, "%s%s", i > 0 ? ", " : "", tags[i]);
    est_strbuf_append(text, "}");
}

est_status est_saved_model_def_find(const est_saved_model_def *model, const char *const *tags, int n,
                                    est_meta_graph_def **out)
{
    est_strbuf text = { 0 };
    est_status status;

    for (int i = 0; i < model->n_meta_graphs; i++) {
        if (!same_tags(&model->meta_graphs[i]->tags, tags, n)) continue;
        *out = model->meta_graphs[i];
        return EST_OK;
    }
    append_tags(&text, tags, n);
    est_strbuf_append(&text, "; it has");
    for (int i = 0; i < model->n_meta_graphs; i++) {
        est_strbuf_append(&text, i > 0 ? ", " : " ");
        append_tags(&text, model->meta_graphs[i]->tags.items, model->meta_graphs[i]->tags.n);
    }
    status = est_strbuf_status(&text);
    if (status == EST_OK) {
        status = est_fail(EST_NOT_FOUND, "the model has no graph with the tags %s%s", est_strbuf_text(&text),
                          model->n_meta_graphs == 0 ? " none" : "");
    }
    est_strbuf_clear(&text);
    return status;
}

est_status est_saved_model_def_put(est_wire_writer *w, const est_saved_model_def *model)
{
    est_wire_put_i64_nonzero(w, 1, model->schema_version);
    for (int i = 0; i < model->n_meta_graphs; i++) {
        size_t mark = est_wire_begin(w, 2);

        EST_TRY(est_meta_graph_def_put(w, model->meta_graphs[i]));
        est_wire_end(w, mark);
    }
    return est_wire_writer_status(w);
}

est_status est_saved_model_def_parse(est_str message, est_arena *arena, est_saved_model_def *out)
{
    est_saved_model_def model = { .arena = arena };
    est_meta_graph_def *meta;
    est_wire_reader     r, inner;
    est_wire_field      field;
    est_status          status;

    est_wire_reader_init(&r, "SavedModel", message.data, message.size);
    while (est_wire_next(&r, &field)) {
        if (field.number == 1) model.schema_version = est_wire_i64(&r, &field);
        if (field.number != 2) continue;
        est_wire_message(&r, &field, "MetaGraphDef", &inner);
        EST_TRY(est_wire_finish(&r));
        EST_TRY(est_saved_model_def_add(&model, &meta));
        status = est_meta_graph_def_parse(&inner, arena, meta);
        if (status != EST_OK) return est_fail_context(status, "meta graph %d", model.n_meta_graphs - 1);
    }
    EST_TRY(est_wire_finish(&r));
    *out = model;
    return EST_OK;
}
