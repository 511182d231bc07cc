/* SPDX-License-Identifier: Apache-2.0
 *
 * Building and parsing tf.train.SequenceExample: a context, which is a map of features, and a map of lists of features,
 * one feature a step. */
#include "base/alloc.h"
#include "base/argument.h"
#include "estoc/example.h"
#include "format/feature_group.h"

/* --- building ----------------------------------------------------------------------------------------------------- */

struct est_sequence_example {
    est_example    *context;
    est_feature_set lists; /* one item a step */
    est_wire_writer bytes; /* of the last serialization */
};

est_status est_sequence_example_create(est_sequence_example **out)
{
    est_sequence_example *sequence;
    est_status            status;

    EST_REQUIRE(out);
    sequence = est_zalloc(sizeof *sequence);
    if (sequence == NULL) return est_no_memory();
    status = est_example_create(&sequence->context);
    if (status != EST_OK) {
        est_free(sequence);
        return status;
    }
    *out = sequence;
    return EST_OK;
}

est_example *est_sequence_example_context(est_sequence_example *sequence)
{
    return sequence != NULL ? sequence->context : NULL;
}

void est_sequence_example_add_bytes(est_sequence_example *sequence, const char *name, const est_str *values, size_t n)
{
    if (sequence == NULL) return;
    est_feature_set_add_bytes(&sequence->lists, name, values, n);
}

void est_sequence_example_add_f32s(est_sequence_example *sequence, const char *name, const float *values, size_t n)
{
    if (sequence == NULL) return;
    est_feature_set_add_f32s(&sequence->lists, name, values, n);
}

void est_sequence_example_add_i64s(est_sequence_example *sequence, const char *name, const int64_t *values, size_t n)
{
    if (sequence == NULL) return;
    est_feature_set_add_i64s(&sequence->lists, name, values, n);
}

void est_sequence_example_add_list(est_sequence_example *sequence, const char *name)
{
    if (sequence == NULL) return;
    est_feature_set_add_empty(&sequence->lists, name);
}

est_status est_sequence_example_serialize(est_sequence_example *sequence, est_str *out)
{
    est_wire_writer *w;
    est_str          context;
    size_t           mark;

    EST_REQUIRE(sequence);
    EST_REQUIRE(out);
    w = &sequence->bytes;
    est_wire_writer_reset(w);
    EST_TRY(est_example_serialize(sequence->context, &context));
    est_wire_put_raw(w, context.data, context.size); /* the same bytes: both have their features as field 1 */
    mark = est_wire_begin(w, EST_SEQUENCE_FEATURE_LISTS);
    EST_TRY(est_feature_set_write(&sequence->lists, true, w));
    est_wire_end(w, mark);
    EST_TRY(est_wire_writer_status(w));
    *out = (est_str){ (const char *)w->data, w->size };
    return EST_OK;
}

void est_sequence_example_reset(est_sequence_example *sequence)
{
    if (sequence == NULL) return;
    est_example_reset(sequence->context);
    est_feature_set_reset(&sequence->lists);
}

void est_sequence_example_free(est_sequence_example *sequence)
{
    if (sequence == NULL) return;
    est_example_free(sequence->context);
    est_feature_set_clear(&sequence->lists);
    est_wire_writer_clear(&sequence->bytes);
    est_free(sequence);
}

/* --- parsing ------------------------------------------------------------------------------------------------------ */

struct est_sequence_parser {
    est_feature_group context;
    est_feature_group lists;
};

est_status est_sequence_parser_create(est_feature_specs context, est_feature_specs lists, est_sequence_parser **out)
{
    est_sequence_parser *parser;
    est_status           status;

    EST_REQUIRE(out);
    EST_REQUIRE_LIST("context", context);
    EST_REQUIRE_LIST("lists", lists);
    parser = est_zalloc(sizeof *parser);
    if (parser == NULL) return est_no_memory();
    status = est_feature_group_init(&parser->context, context.data, (size_t)context.n, false);
    if (status == EST_OK) status = est_feature_group_init(&parser->lists, lists.data, (size_t)lists.n, true);
    if (status != EST_OK) {
        est_sequence_parser_free(parser);
        return status;
    }
    *out = parser;
    return EST_OK;
}

void est_sequence_parser_free(est_sequence_parser *parser)
{
    if (parser == NULL) return;
    est_feature_group_clear(&parser->context);
    est_feature_group_clear(&parser->lists);
    est_free(parser);
}

/* Finds the features and lists of one example. */
static est_status find_features(est_sequence_parser *p, est_str example)
{
    est_wire_reader r, map;
    est_wire_field  field;

    est_feature_table_begin(&p->context.table);
    est_feature_table_begin(&p->lists.table);
    est_wire_reader_init(&r, "SequenceExample", example.data, example.size);
    while (est_wire_next(&r, &field)) {
        if (field.number == EST_SEQUENCE_CONTEXT) {
            est_wire_message(&r, &field, "Features", &map);
            est_feature_table_read(&p->context.table, &map);
            EST_TRY(est_wire_finish(&map));
        } else if (field.number == EST_SEQUENCE_FEATURE_LISTS) {
            est_wire_message(&r, &field, "FeatureLists", &map);
            est_feature_table_read(&p->lists.table, &map);
            EST_TRY(est_wire_finish(&map));
        }
    }
    return est_wire_finish(&r);
}

static est_status parse_rows(est_sequence_parser *p, const est_str *examples, size_t n)
{
    EST_TRY(est_feature_group_begin(&p->context, n, false));
    EST_TRY(est_feature_group_begin(&p->lists, n, false));
    for (size_t i = 0; i < n; i++) {
        est_status status = find_features(p, examples[i]);

        if (status != EST_OK) return est_fail_context(status, "example %zu", i);
        EST_TRY(est_feature_group_row(&p->context, i, examples[i].data));
        EST_TRY(est_feature_group_row(&p->lists, i, examples[i].data));
    }
    return EST_OK;
}

est_status est_sequence_parse(est_sequence_parser *parser, const est_str *examples, size_t n,
                              est_feature_batch *context, est_feature_batch *lists)
{
    est_status status;

    EST_REQUIRE(parser);
    if (n > 0) EST_REQUIRE(examples);
    if (parser->context.n > 0) EST_REQUIRE(context);
    if (parser->lists.n > 0) EST_REQUIRE(lists);
    for (size_t i = 0; i < parser->context.n; i++) context[i] = (est_feature_batch){ 0 };
    for (size_t i = 0; i < parser->lists.n; i++) lists[i] = (est_feature_batch){ 0 };
    status = parse_rows(parser, examples, n);
    if (status == EST_OK) status = est_feature_group_finish(&parser->context, n, context);
    if (status == EST_OK) {
        status = est_feature_group_finish(&parser->lists, n, lists);
        if (status != EST_OK) est_feature_batch_clear(context, parser->context.n);
    }
    if (status != EST_OK) {
        est_feature_group_abandon(&parser->context);
        est_feature_group_abandon(&parser->lists);
    }
    return status;
}
