/* SPDX-License-Identifier: Apache-2.0
 *
 * Building and parsing tf.train.Example: one field, a map of features. */
#include "estoc/example.h"
#include "base/argument.h"

#include <string.h>

#include "base/alloc.h"
#include "format/feature_decode.h"
#include "format/feature_group.h"

#define AHEAD_BYTES 1024 /* of the next example; the processor finds the rest of a longer one by itself */

/* --- building ----------------------------------------------------------------------------------------------------- */

struct est_example {
    est_feature_set features;
    est_wire_writer bytes; /* of the last est_example_serialize */
};

est_status est_example_create(est_example **out)
{
    est_example *example;

    EST_REQUIRE(out);
    example = est_zalloc(sizeof *example);
    if (example == NULL) return est_no_memory();
    *out = example;
    return EST_OK;
}

void est_example_set_bytes(est_example *example, const char *name, const est_str *values, size_t n)
{
    if (example == NULL) return;
    est_feature_set_add_bytes(&example->features, name, values, n);
}

void est_example_set_f32s(est_example *example, const char *name, const float *values, size_t n)
{
    if (example == NULL) return;
    est_feature_set_add_f32s(&example->features, name, values, n);
}

void est_example_set_i64s(est_example *example, const char *name, const int64_t *values, size_t n)
{
    if (example == NULL) return;
    est_feature_set_add_i64s(&example->features, name, values, n);
}

est_status est_example_serialize(est_example *example, est_str *out)
{
    est_wire_writer *w;
    size_t           mark;

    EST_REQUIRE(example);
    EST_REQUIRE(out);
    w = &example->bytes;
    est_wire_writer_reset(w);
    mark = est_wire_begin(w, EST_EXAMPLE_FEATURES);
    EST_TRY(est_feature_set_write(&example->features, false, w));
    est_wire_end(w, mark);
    EST_TRY(est_wire_writer_status(w));
    *out = (est_str){ (const char *)w->data, w->size };
    return EST_OK;
}

void est_example_reset(est_example *example)
{
    if (example == NULL) return;
    est_feature_set_reset(&example->features);
}

void est_example_free(est_example *example)
{
    if (example == NULL) return;
    est_feature_set_clear(&example->features);
    est_wire_writer_clear(&example->bytes);
    est_free(example);
}

/* --- parsing ------------------------------------------------------------------------------------------------------ */

struct est_example_parser {
    est_feature_group features;
};

est_status est_example_parser_create(est_feature_specs specs, est_example_parser **out)
{
    est_example_parser *parser;
    est_status          status;

    EST_REQUIRE(out);
    EST_REQUIRE_LIST("specs", specs);
    parser = est_zalloc(sizeof *parser);
    if (parser == NULL) return est_no_memory();
    status = est_feature_group_init(&parser->features, specs.data, (size_t)specs.n, false);
    if (status != EST_OK) {
        est_example_parser_free(parser);
        return status;
    }
    *out = parser;
    return EST_OK;
}

void est_example_parser_free(est_example_parser *parser)
{
    if (parser == NULL) return;
    est_feature_group_clear(&parser->features);
    est_free(parser);
}

/* Finds the features of one example; several Features messages add up, as protobuf has it. */
static est_status find_features(est_feature_group *g, est_str example)
{
    est_wire_reader r, features;
    est_wire_field  field;

    est_feature_table_begin(&g->table);
    est_wire_reader_init(&r, "Example", example.data, example.size);
    while (est_wire_next(&r, &field)) {
        if (field.number != EST_EXAMPLE_FEATURES) continue;
        est_wire_message(&r, &field, "Features", &features);
        est_feature_table_read(&g->table, &features);
        EST_TRY(est_wire_finish(&features));
    }
    return est_wire_finish(&r);
}

/* Examples out of a shuffle are in no cache: what the next one begins with is asked for while this one is parsed. */
static inline void fetch_ahead(est_str example)
{
    size_t most = example.size < AHEAD_BYTES ? example.size : AHEAD_BYTES;

    for (size_t at = 0; at < most; at += 64) __builtin_prefetch(example.data + at);
}

static est_status parse_rows(est_feature_group *g, const est_str *examples, size_t n, bool kept)
{
    EST_TRY(est_feature_group_begin(g, n, kept));
    for (size_t i = 0; i < n; i++) {
        est_status status;

        if (i + 1 < n) fetch_ahead(examples[i + 1]);
        status = find_features(g, examples[i]);
        if (status != EST_OK) return est_fail_context(status, "example %zu", i);
        EST_TRY(est_feature_group_row(g, i, examples[i].data));
    }
    return EST_OK;
}

est_status est_example_parse(est_example_parser *parser, const est_str *examples, size_t n, est_feature_batch *batch)
{
    est_feature_group *g;
    est_status         status;

    EST_REQUIRE(parser);
    g = &parser->features;
    if (n > 0) EST_REQUIRE(examples);
    if (g->n > 0) EST_REQUIRE(batch);
    for (size_t i = 0; i < g->n; i++) batch[i] = (est_feature_batch){ 0 };
    status = parse_rows(g, examples, n, false);
    if (status == EST_OK) status = est_feature_group_finish(g, n, batch);
    if (status != EST_OK) est_feature_group_abandon(g);
    return status;
}

est_status est_example_parse_kept(est_example_parser *parser, const est_str *examples, size_t n,
                                  const est_feature_output **out)
{
    est_feature_group *g = &parser->features;

    EST_TRY(parse_rows(g, examples, n, true));
    EST_TRY(est_feature_outputs_own(g->outputs, g->n, &g->scratch));
    *out = g->outputs;
    return EST_OK;
}

/* --- whatever an Example has -------------------------------------------------------------------------------------- */

/* The list while it grows; its memory is the caller's when it is done. */
typedef struct listing {
    est_named_tensor *items;
    int               n, max;
} listing;

static est_status feature_tensor(est_str feature, const void *outermost, est_tensor **out)
{
    static const est_dtype dtypes[] = { EST_DTYPE_NONE, EST_STRING, EST_F32, EST_I64 };
    static const size_t    sizes[]  = { 0, sizeof(est_str), sizeof(float), sizeof(int64_t) };
    est_feature_kind       kind;
    size_t                 n;
    void                  *values;
    est_status             status;

    EST_TRY(est_feature_decode(feature, outermost, EST_KIND_BYTES, NULL, 0, &kind, &n));
    if (kind == EST_KIND_NONE) return EST_OK;
    if (kind != EST_KIND_BYTES) EST_TRY(est_feature_decode(feature, outermost, kind, NULL, 0, &kind, &n));
    values = est_zalloc((n + 1) * sizes[kind]);
    if (values == NULL) return est_no_memory();
    status = est_feature_decode(feature, outermost, kind, values, n, &kind, &n);
    if (status == EST_OK) status = est_tensor_create_from(dtypes[kind], EST_SHAPE((int64_t)n), values, out);
    est_free(values);
    return status;
}

/* The last of a name counts, as protobuf has it. */
static est_status put(listing *l, est_str name, est_tensor *value)
{
    char *copy = est_zalloc(name.size + 1);

    if (copy == NULL) return est_no_memory();
    if (name.size > 0) memcpy(copy, name.data, name.size);
    for (int i = 0; i < l->n; i++) {
        if (strcmp(l->items[i].name, copy) != 0) continue;
        est_free(copy);
        est_tensor_free(l->items[i].tensor);
        l->items[i].tensor = value;
        return EST_OK;
    }
    if (l->n == l->max) {
        int               max  = 2 * l->max + 16;
        est_named_tensor *more = est_zalloc((size_t)max * sizeof *more);

        if (more == NULL) {
            est_free(copy);
            return est_no_memory();
        }
        if (l->n > 0) memcpy(more, l->items, (size_t)l->n * sizeof *more);
        est_free(l->items);
        l->items = more;
        l->max   = max;
    }
    l->items[l->n++] = (est_named_tensor){ copy, value };
    return EST_OK;
}

static est_status read_entry(listing *l, est_wire_reader *r, const void *outermost)
{
    est_wire_field field;
    est_str        name = { 0 }, value = { 0 };
    est_tensor    *tensor = NULL;
    est_status     status;

    while (est_wire_next(r, &field)) {
        if (field.number == EST_ENTRY_KEY) name = est_wire_bytes(r, &field);
        if (field.number == EST_ENTRY_VALUE) value = est_wire_bytes(r, &field);
    }
    EST_TRY(est_wire_finish(r));
    if (name.size > 0 && memchr(name.data, '\0', name.size) != NULL) {
        return est_wire_fail(r, (const uint8_t *)name.data, "a name with a NUL in it");
    }
    EST_TRY(feature_tensor(value, outermost, &tensor));
    status = put(l, name, tensor);
    if (status != EST_OK) est_tensor_free(tensor);
    return status;
}

static est_status read_all(listing *l, est_str example)
{
    est_wire_reader r, features, entry;
    est_wire_field  field;

    est_wire_reader_init(&r, "Example", example.data, example.size);
    while (est_wire_next(&r, &field)) {
        if (field.number != EST_EXAMPLE_FEATURES) continue;
        est_wire_message(&r, &field, "Features", &features);
        while (est_wire_next(&features, &field)) {
            if (field.number != EST_FEATURES_FEATURE) continue;
            est_wire_message(&features, &field, "FeatureEntry", &entry);
            EST_TRY(read_entry(l, &entry, example.data));
        }
        EST_TRY(est_wire_finish(&features));
    }
    return est_wire_finish(&r);
}

est_status est_example_read(est_str example, est_named_tensors *out)
{
    listing    l = { 0 };
    est_status status;

    EST_REQUIRE(out);
    *out = (est_named_tensors){ 0 };
    if (example.data == NULL && example.size > 0) return est_fail(EST_INVALID_ARGUMENT, "the Example is NULL");
    status = read_all(&l, example);
    *out   = (est_named_tensors){ l.items, l.n };
    if (status != EST_OK) est_example_read_clear(out);
    return status;
}

void est_example_read_clear(est_named_tensors *read)
{
    if (read == NULL) return;
    for (int i = 0; i < read->n; i++) {
        est_free((void *)(uintptr_t)read->data[i].name);
        est_tensor_free((est_tensor *)(uintptr_t)read->data[i].tensor);
    }
    est_free((void *)(uintptr_t)read->data);
    *read = (est_named_tensors){ 0 };
}
