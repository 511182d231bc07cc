/* SPDX-License-Identifier: Apache-2.0
 *
 * Building and parsing tf.train.Example: one field, a map of features. */
#include "estoc/example.h"
#include "base/argument.h"

#include "base/alloc.h"
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
