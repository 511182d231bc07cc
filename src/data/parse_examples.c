/* SPDX-License-Identifier: Apache-2.0
 *
 * parse_examples: batches of serialized Examples, with a parser for each worker. */
#include <stdlib.h>

#include "data/decode.h"
#include "data/encode.h"
#include "data/state.h"
#include "format/tensor_proto.h"

typedef struct examples {
    est_decode        base;
    est_feature_spec *specs; /* [n_specs], in the arena; the defaults are our own copies */
    int               n_specs;
} examples;

typedef struct parsers {
    est_example_parser **parser; /* [n] */
    est_feature_batch   *batch;  /* [n * n_specs] scratch */
    int                  n;
} parsers;

static est_status examples_open(est_decode_iter *it, int workers)
{
    const examples *own = (const examples *)it->base.base.dataset;
    parsers        *p   = est_zalloc(sizeof *p);

    it->own = p;
    if (p != NULL) {
        p->parser = est_zalloc((size_t)workers * sizeof(est_example_parser *));
        p->batch  = est_zalloc((size_t)workers * (size_t)own->n_specs * sizeof *p->batch);
    }
    if (p == NULL || p->parser == NULL || p->batch == NULL) {
        return est_no_memory();
    }
    for (p->n = 0; p->n < workers; p->n++) {
        EST_TRY(est_example_parser_create((est_feature_specs){ own->specs, own->n_specs }, &p->parser[p->n]));
    }
    return EST_OK;
}

static void examples_close(est_decode_iter *it)
{
    parsers *p = it->own;

    if (p == NULL) return;
    for (int i = 0; i < p->n; i++) est_example_parser_free(p->parser[i]);
    est_free(p->parser);
    est_free(p->batch);
    est_free(p);
}

static est_status examples_decode(est_decode_iter *it, int worker, const est_decode_rows *rows, est_field *out)
{
    const examples    *own   = (const examples *)it->base.base.dataset;
    parsers           *p     = it->own;
    est_feature_batch *batch = p->batch + (size_t)worker * (size_t)own->n_specs;

    EST_TRY(est_example_parse(p->parser[worker], rows->text, rows->n, batch));
    for (int i = 0; i < own->n_specs; i++) {
        *out++ = (est_field){ batch[i].values, batch[i].splits };
        if (batch[i].lengths != NULL) *out++ = (est_field){ batch[i].lengths, NULL };
    }
    return EST_OK;
}

static void examples_free(est_dataset *dataset)
{
    examples *own = (examples *)dataset;

    for (int i = 0; i < own->n_specs; i++) est_tensor_free((est_tensor *)(uintptr_t)own->specs[i].default_value);
}

static const est_decode_format examples_format = {
    .takes    = "serialized Examples",
    .row_name = { " of example 0", "example 0: " },
    .open     = examples_open,
    .close    = examples_close,
    .decode   = examples_decode,
};

static est_status   examples_encode(const est_dataset *dataset, est_wire_writer *w);
static est_dataset *examples_from_bytes(const est_encoded *from);

const est_stage est_stage_parse_examples = {
    .name   = "parse_examples",
    .free   = examples_free,
    .encode = examples_encode,
    .decode = examples_from_bytes,
    EST_DECODE_FUNCTIONS,
};

/* --- making one --------------------------------------------------------------------------------------------------- */

static est_status spec_copy(est_arena *arena, const est_feature_spec *from, est_feature_spec *to)
{
    const est_tensor *value = from->default_value;
    est_tensor       *copy  = NULL;

    *to               = *from;
    to->default_value = NULL;
    to->name          = est_arena_strdup(arena, from->name);
    if (to->name == NULL) return est_no_memory();
    if (value == NULL) return EST_OK;
    EST_TRY(est_tensor_create_from(est_tensor_dtype(value), *est_tensor_shape(value), est_tensor_data(value), &copy));
    to->default_value = copy;
    return EST_OK;
}

static est_status specs_copy(examples *own, est_feature_specs specs)
{
    est_example_parser *parser;

    if (specs.n < 1 || specs.data == NULL) return est_fail(EST_INVALID_ARGUMENT, "at least one feature is needed");
    EST_TRY(est_example_parser_create(specs, &parser)); /* which checks them */
    est_example_parser_free(parser);
    own->specs = est_arena_alloc(own->base.base.arena, (size_t)specs.n * sizeof *own->specs);
    if (own->specs == NULL) return est_no_memory();
    for (; own->n_specs < specs.n; own->n_specs++) {
        EST_TRY(spec_copy(own->base.base.arena, &specs.data[own->n_specs], &own->specs[own->n_specs]));
    }
    return EST_OK;
}

/* [dims..., shape...] */
static est_status shape_under(const est_feature_spec *spec, int n_dims, int64_t first, est_shape *out)
{
    const int64_t dims[2] = { first, -1 };

    if (spec->shape.rank + n_dims > EST_RANK_MAX) {
        return est_fail(EST_INVALID_ARGUMENT, "feature \"%s\": rank %d is too much for a batch; at most %d", spec->name,
                        spec->shape.rank, EST_RANK_MAX - n_dims);
    }
    out->rank = n_dims + spec->shape.rank;
    for (int i = 0; i < n_dims; i++) out->dim[i] = dims[i];
    for (int i = 0; i < spec->shape.rank; i++) out->dim[n_dims + i] = spec->shape.dim[i];
    return EST_OK;
}

/* Fills components[2 * n_specs] and says how many there are. */
static est_status components_of(const examples *own, est_component *to, int *n)
{
    int64_t first = est_decode_dim(&own->base);

    *n = 0;
    for (int i = 0; i < own->n_specs; i++) {
        const est_feature_spec *spec = &own->specs[i];
        est_component          *c    = &to[(*n)++];

        *c = (est_component){ .name = spec->name, .dtype = spec->dtype, .ragged = spec->rows == EST_ROWS_RAGGED };
        if (c->ragged) c->shape = EST_SHAPE(-1);
        if (spec->rows == EST_ROWS_FIXED) EST_TRY(shape_under(spec, 1, first, &c->shape));
        if (spec->rows == EST_ROWS_PADDED) {
            const char *name = est_arena_printf(own->base.base.arena, "%s/lengths", spec->name);

            EST_TRY(shape_under(spec, 2, first, &c->shape));
            if (name == NULL) return est_no_memory();
            to[(*n)++] = (est_component){ .name = name, .dtype = EST_I64, .shape = EST_SHAPE(first) };
        }
    }
    return EST_OK;
}

est_dataset *est_dataset_parse_examples(est_dataset *records, est_feature_specs specs, int64_t batch,
                                        const est_parse_options *options)
{
    examples      *own = est_decode_new(&est_stage_parse_examples, sizeof *own, &examples_format, records);
    est_component *components;
    est_status     status;
    int            n = 0;

    if (!est_dataset_sound(&own->base.base)) return &own->base.base;
    status = est_decode_set(&own->base, batch, options);
    if (status == EST_OK) status = specs_copy(own, specs);
    if (status != EST_OK) return est_dataset_fail(&own->base.base, status);
    components = est_arena_alloc(own->base.base.arena, 2 * (size_t)specs.n * sizeof *components);
    if (components == NULL) status = est_no_memory();
    if (status == EST_OK) status = components_of(own, components, &n);
    if (status != EST_OK) return est_dataset_fail(&own->base.base, status);
    return est_dataset_with(&own->base.base, components, n);
}

/* --- as bytes ----------------------------------------------------------------------------------------------------- */

enum { OWN_SPEC = EST_ENCODED_OWN };
enum { SPEC_NAME = 1, SPEC_DTYPE, SPEC_ROWS, SPEC_SHAPE, SPEC_REQUIRED, SPEC_DEFAULT };

static void put_spec(est_wire_writer *w, const est_feature_spec *spec)
{
    size_t mark = est_wire_begin(w, OWN_SPEC);

    est_wire_put_string(w, SPEC_NAME, spec->name);
    est_wire_put_i64(w, SPEC_DTYPE, spec->dtype);
    est_wire_put_i64(w, SPEC_ROWS, spec->rows);
    est_encode_shape(w, SPEC_SHAPE, &spec->shape);
    est_wire_put_bool(w, SPEC_REQUIRED, spec->required);
    if (spec->default_value != NULL) est_encode_tensor(w, SPEC_DEFAULT, spec->default_value);
    est_wire_end(w, mark);
}

static est_status examples_encode(const est_dataset *dataset, est_wire_writer *w)
{
    const examples *own = (const examples *)dataset;
    int64_t         number[EST_DECODE_NUMBERS];

    EST_TRY(est_decode_encode(&own->base, number));
    est_state_put(w, number, EST_DECODE_NUMBERS);
    for (int i = 0; i < own->n_specs; i++) put_spec(w, &own->specs[i]);
    return EST_OK;
}

/* `tensor` owns the default of the spec. */
static est_status read_spec(const est_encoded *from, est_wire_reader *r, est_feature_spec *out, est_tensor **tensor)
{
    est_wire_reader shape;
    est_wire_field  field;
    est_str         value = { 0 };

    while (est_wire_next(r, &field)) {
        switch (field.number) {
        case SPEC_NAME: EST_TRY(est_encoded_text(from, est_wire_bytes(r, &field), &out->name)); break;
        case SPEC_DTYPE: out->dtype = (est_dtype)est_wire_i32(r, &field); break;
        case SPEC_ROWS: out->rows = (est_feature_rows)est_wire_i32(r, &field); break;
        case SPEC_SHAPE:
            est_wire_message(r, &field, "shape of a feature", &shape);
            EST_TRY(est_shape_proto_parse(&shape, &out->shape));
            break;
        case SPEC_REQUIRED: out->required = est_wire_bool(r, &field); break;
        case SPEC_DEFAULT: value = est_wire_bytes(r, &field); break;
        default: break;
        }
    }
    EST_TRY(est_wire_finish(r));
    if (value.data == NULL) return EST_OK;
    EST_TRY(est_encoded_tensor(value, tensor));
    out->default_value = *tensor;
    return EST_OK;
}

static est_status read_specs(const est_encoded *from, est_feature_spec *specs, est_tensor **tensors)
{
    est_wire_reader r, inner;
    est_wire_field  field;

    est_wire_reader_init(&r, "parse_examples", from->parameters.data, from->parameters.size);
    while (est_wire_next(&r, &field)) {
        if (field.number != OWN_SPEC) continue;
        est_wire_message(&r, &field, "feature", &inner);
        EST_TRY(est_wire_finish(&r));
        *specs = (est_feature_spec){ .name = "" };
        EST_TRY(read_spec(from, &inner, specs++, tensors++));
    }
    return est_wire_finish(&r);
}

static est_dataset *examples_from_bytes(const est_encoded *from)
{
    est_parse_options options = est_decode_options(from);
    int               n       = est_encoded_count(from, OWN_SPEC);
    est_feature_spec *specs   = est_arena_alloc(from->arena, (size_t)n * sizeof *specs);
    est_tensor      **tensors = est_arena_alloc(from->arena, (size_t)n * sizeof(est_tensor *));
    est_status        status  = specs != NULL && tensors != NULL ? EST_OK : est_no_memory();
    est_dataset      *dataset;

    if (status == EST_OK) status = read_specs(from, specs, tensors);
    dataset = status == EST_OK ? est_dataset_parse_examples(from->input[0], (est_feature_specs){ specs, n },
                                                            from->number[0], &options)
                               : est_encoded_fail(from, status);
    for (int i = 0; i < n && tensors != NULL; i++) est_tensor_free(tensors[i]);
    return dataset;
}
