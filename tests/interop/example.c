/* SPDX-License-Identifier: Apache-2.0
 *
 * Example and SequenceExample exchanged with TensorFlow: random ones made by each side, parsed by tf.io.parse_example
 * and by our parser with the same features, and broken ones that both must refuse. The tables of features are those of
 * example.py. */
#include <stdio.h>
#include <string.h>

#include "estoc/example.h"
#include "support/interop.h"

#define N(a) (sizeof(a) / sizeof(a)[0])

static est_feature_spec features[] = {
    { .name = "f_fixed", .dtype = EST_F32, .shape = { 2, { 2, 3 } } },
    { .name = "i_default", .dtype = EST_I64 },
    { .name = "f_default", .dtype = EST_F32, .shape = { 1, { 2 } } },
    { .name = "s_default", .dtype = EST_STRING, .shape = { 1, { 2 } } },
    { .name = "i_var", .dtype = EST_I64, .rows = EST_ROWS_RAGGED },
    { .name = "f_var", .dtype = EST_F32, .rows = EST_ROWS_RAGGED },
    { .name = "s_var", .dtype = EST_STRING, .rows = EST_ROWS_RAGGED },
    { .name = "i_ragged", .dtype = EST_I64, .rows = EST_ROWS_RAGGED },
    { .name = "s_ragged", .dtype = EST_STRING, .rows = EST_ROWS_RAGGED },
    { .name = "i_padded", .dtype = EST_I64, .rows = EST_ROWS_PADDED },
    { .name = "f_padded", .dtype = EST_F32, .rows = EST_ROWS_PADDED, .shape = { 1, { 3 } } },
    { .name = "s_padded", .dtype = EST_STRING, .rows = EST_ROWS_PADDED },
};
#define N_CONTEXT 9 /* those that the context of a sequence may have in TensorFlow */

static const est_feature_spec lists[] = {
    { .name = "i_steps", .dtype = EST_I64 },
    { .name = "f_steps", .dtype = EST_F32, .shape = { 1, { 2 } }, .rows = EST_ROWS_PADDED },
    { .name = "s_steps", .dtype = EST_STRING, .rows = EST_ROWS_PADDED },
    { .name = "i_var_steps", .dtype = EST_I64, .rows = EST_ROWS_RAGGED },
    { .name = "s_var_steps", .dtype = EST_STRING, .rows = EST_ROWS_RAGGED },
    { .name = "f_ragged_steps", .dtype = EST_F32, .rows = EST_ROWS_RAGGED },
};

/* Where a batch of the thousand ends. */
static const size_t cuts[] = { 1, 8, 72, 500, 1000 };

static est_example_parser  *parser;
static est_sequence_parser *sequence_parser;

static void set_default(const char *name, est_dtype dtype, est_shape shape, const void *data)
{
    for (size_t i = 0; i < N(features); i++) {
        est_tensor *value;

        if (strcmp(features[i].name, name) != 0) continue;
        interop_check(est_tensor_create_from(dtype, shape, data, &value));
        features[i].default_value = value;
    }
}

static int start(void **state)
{
    const est_str words[2] = { { "none", 4 }, { "", 0 } }, pad = { "pad", 3 };

    set_default("i_default", EST_I64, EST_SHAPE_SCALAR, &(int64_t){ -7 });
    set_default("f_default", EST_F32, EST_SHAPE_SCALAR, &(float){ 0.5F });
    set_default("s_default", EST_STRING, EST_SHAPE(2), words);
    set_default("f_padded", EST_F32, EST_SHAPE_SCALAR, &(float){ -1 });
    set_default("s_padded", EST_STRING, EST_SHAPE_SCALAR, &pad);
    interop_check(est_example_parser_create((est_feature_specs){ features, N(features) }, &parser));
    interop_check(est_sequence_parser_create((est_feature_specs){ features, N_CONTEXT },
                                             (est_feature_specs){ lists, N(lists) }, &sequence_parser));
    return interop_start(state);
}

static int stop(void **state)
{
    est_example_parser_free(parser);
    est_sequence_parser_free(sequence_parser);
    for (size_t i = 0; i < N(features); i++) {
        est_tensor *value = (est_tensor *)(uintptr_t)features[i].default_value; /* ours, const to the parser */

        est_tensor_free(value);
    }
    return interop_stop(state);
}

/* --- parsing ------------------------------------------------------------------------------------------------------ */

static void say(est_strbuf *out, size_t cut, const est_feature_spec *specs, size_t n, const est_feature_batch *batch)
{
    for (size_t i = 0; i < n; i++) {
        const struct {
            const char       *name;
            const est_tensor *tensor;
        } parts[] = { { "values", batch[i].values },
                      { "splits", batch[i].splits },
                      { "step_splits", batch[i].step_splits },
                      { "lengths", batch[i].lengths } };

        for (size_t p = 0; p < N(parts); p++) {
            char name[128];

            if (parts[p].tensor == NULL) continue;
            snprintf(name, sizeof name, "%zu/%s/%s", cut, specs[i].name, parts[p].name);
            interop_tensor(out, name, parts[p].tensor);
        }
    }
}

static void say_examples(const char *from, const char *to)
{
    interop_blobs     records;
    est_feature_batch batch[N(features)];
    est_strbuf        said  = { 0 };
    size_t            first = 0;

    interop_blobs_read(from, &records);
    for (size_t c = 0; c < N(cuts); first = cuts[c++]) {
        interop_check(est_example_parse(parser, records.at + first, cuts[c] - first, batch));
        say(&said, cuts[c], features, N(features), batch);
        est_feature_batch_clear(batch, N(features));
    }
    interop_blobs_clear(&records);
    interop_save(to, &said);
}

static void say_sequences(const char *from, const char *to)
{
    interop_blobs     records;
    est_feature_batch context[N_CONTEXT], steps[N(lists)];
    est_strbuf        said  = { 0 };
    size_t            first = 0;

    interop_blobs_read(from, &records);
    for (size_t c = 0; c < N(cuts); first = cuts[c++]) {
        interop_check(est_sequence_parse(sequence_parser, records.at + first, cuts[c] - first, context, steps));
        say(&said, cuts[c], features, N_CONTEXT, context);
        say(&said, cuts[c], lists, N(lists), steps);
        est_feature_batch_clear(context, N_CONTEXT);
        est_feature_batch_clear(steps, N(lists));
    }
    interop_blobs_clear(&records);
    interop_save(to, &said);
}

TEST(read)
{
    interop_ask("write");
    say_examples("examples", "examples.said");
    say_examples("unusual", "unusual.said");
    interop_ask("check_read_examples");
}

TEST(read_sequences)
{
    interop_ask("write");
    say_sequences("sequences", "sequences.said");
    interop_ask("check_read_sequences");
}

/* --- building ----------------------------------------------------------------------------------------------------- */

/* A feature's values out of the bytes of a blob, which lie at any address. */
typedef struct feature {
    char          name[64];
    interop_blobs strings;
    size_t        n; /* of numbers */
    union {
        float   f32s[512];
        int64_t i64s[256];
    };
} feature;

static void feature_of(est_str name, char kind, est_str values, feature *out)
{
    snprintf(out->name, sizeof out->name, "%.*s", (int)name.size, name.data);
    if (kind == 's') {
        interop_blobs_of(values, &out->strings);
        return;
    }
    assert_true(values.size <= sizeof out->i64s);
    memcpy(out->f32s, values.data, values.size);
    out->n       = values.size / (kind == 'f' ? sizeof(float) : sizeof(int64_t));
    out->strings = (interop_blobs){ 0 };
}

static void set(est_example *example, est_str name, char kind, est_str values)
{
    feature f;

    feature_of(name, kind, values, &f);
    if (kind == 'f') est_example_set_f32s(example, f.name, f.f32s, f.n);
    if (kind == 'i') est_example_set_i64s(example, f.name, f.i64s, f.n);
    if (kind == 's') est_example_set_bytes(example, f.name, f.strings.at, f.strings.n);
    interop_blobs_clear(&f.strings);
}

static void add(est_sequence_example *sequence, est_str name, char kind, est_str values)
{
    feature f;

    feature_of(name, kind, values, &f);
    if (kind == 'f') est_sequence_example_add_f32s(sequence, f.name, f.f32s, f.n);
    if (kind == 'i') est_sequence_example_add_i64s(sequence, f.name, f.i64s, f.n);
    if (kind == 's') est_sequence_example_add_bytes(sequence, f.name, f.strings.at, f.strings.n);
    interop_blobs_clear(&f.strings);
}

/* Triples of name, kind and values. */
static void fill(est_example *example, est_str description)
{
    interop_blobs parts;

    interop_blobs_of(description, &parts);
    for (size_t i = 0; i + 2 < parts.n; i += 3) set(example, parts.at[i], parts.at[i + 1].data[0], parts.at[i + 2]);
    interop_blobs_clear(&parts);
}

/* Triples of name, kind and steps. */
static void fill_lists(est_sequence_example *sequence, est_str description)
{
    interop_blobs parts, steps;
    char          text[64];

    interop_blobs_of(description, &parts);
    for (size_t i = 0; i + 2 < parts.n; i += 3) {
        snprintf(text, sizeof text, "%.*s", (int)parts.at[i].size, parts.at[i].data);
        est_sequence_example_add_list(sequence, text);
        interop_blobs_of(parts.at[i + 2], &steps);
        for (size_t s = 0; s < steps.n; s++) add(sequence, parts.at[i], parts.at[i + 1].data[0], steps.at[s]);
        interop_blobs_clear(&steps);
    }
    interop_blobs_clear(&parts);
}

TEST(write)
{
    interop_blobs described;
    est_example  *example;
    est_strbuf    built = { 0 };

    interop_ask("write");
    interop_check(est_example_create(&example));
    interop_blobs_read("examples.described", &described);
    for (size_t i = 0; i < described.n; i++) {
        est_str bytes;

        est_example_reset(example);
        fill(example, described.at[i]);
        interop_check(est_example_serialize(example, &bytes));
        interop_blob(&built, bytes.data, bytes.size);
    }
    interop_blobs_clear(&described);
    est_example_free(example);
    interop_save("examples.built", &built);
    interop_ask("check_built_examples");
}

TEST(write_sequences)
{
    interop_blobs         described, parts;
    est_sequence_example *sequence;
    est_strbuf            built = { 0 };

    interop_ask("write");
    interop_check(est_sequence_example_create(&sequence));
    interop_blobs_read("sequences.described", &described);
    for (size_t i = 0; i < described.n; i++) {
        est_str bytes;

        est_sequence_example_reset(sequence);
        interop_blobs_of(described.at[i], &parts);
        assert_int_equal(parts.n, 2);
        fill(est_sequence_example_context(sequence), parts.at[0]);
        fill_lists(sequence, parts.at[1]);
        interop_blobs_clear(&parts);
        interop_check(est_sequence_example_serialize(sequence, &bytes));
        interop_blob(&built, bytes.data, bytes.size);
    }
    interop_blobs_clear(&described);
    est_sequence_example_free(sequence);
    interop_save("sequences.built", &built);
    interop_ask("check_built_sequences");
}

/* --- refusing ----------------------------------------------------------------------------------------------------- */

/* Says for each record of "broken" and "broken_sequences", alone in a batch, whether it was taken. */
TEST(broken)
{
    interop_blobs     records;
    est_feature_batch batch[N(features)], steps[N(lists)];
    est_strbuf        said = { 0 };

    interop_ask("write");
    interop_blobs_read("broken", &records);
    for (size_t i = 0; i < records.n; i++) {
        bool taken = est_example_parse(parser, &records.at[i], 1, batch) == EST_OK;

        interop_blob(&said, taken ? "y" : "n", 1);
        est_feature_batch_clear(batch, N(features));
    }
    interop_blobs_clear(&records);
    interop_save("broken.said", &said);

    interop_blobs_read("broken_sequences", &records);
    for (size_t i = 0; i < records.n; i++) {
        bool taken = est_sequence_parse(sequence_parser, &records.at[i], 1, batch, steps) == EST_OK;

        interop_blob(&said, taken ? "y" : "n", 1);
        est_feature_batch_clear(batch, N_CONTEXT);
        est_feature_batch_clear(steps, N(lists));
    }
    interop_blobs_clear(&records);
    interop_save("broken_sequences.said", &said);
    interop_ask("check_broken");
}

int main(void)
{
    interop_side = "example";
    return est_test_run(start, stop);
}
