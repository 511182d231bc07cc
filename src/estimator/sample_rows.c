/* SPDX-License-Identifier: Apache-2.0
 *
 * Sample rows to check an exported model with. A feature becomes a column: its concatenated values and the offset of
 * each row. Columns then become the tensors of a raw receiver, or Examples. */
#include "estimator/sample_rows.h"

#include <string.h>

#include "estoc/example.h"

/* --- recording ---------------------------------------------------------------------------------------------------- */

void est_sample_rows_clear(est_sample_rows *rows)
{
    for (int i = 0; i < rows->n_items; i++) {
        est_free(rows->items[i].name);
        est_tensor_free(rows->items[i].values);
        est_tensor_free(rows->items[i].splits);
    }
    est_free(rows->items);
    *rows = (est_sample_rows){ 0 };
}

static est_sample_rows_item *item_of(est_sample_rows *rows, const char *name)
{
    est_sample_rows_item *item;

    for (int i = 0; i < rows->n_items; i++) {
        if (strcmp(rows->items[i].name, name) == 0) return &rows->items[i];
    }
    item       = &rows->items[rows->n_items];
    item->name = est_strdup(name);
    if (item->name == NULL) return NULL;
    rows->n_items++;
    return item;
}

/* The first n rows, copied: a view would keep the whole batch alive. */
static est_status copy_rows(const est_tensor *tensor, int64_t n, est_tensor **out)
{
    est_shape shape = *est_tensor_shape(tensor);

    if (shape.rank < 1 || shape.dim[0] < n) return EST_OK; /* its rows are not examples */
    shape.dim[0] = n;
    est_tensor_free(*out);
    *out = NULL;
    return est_tensor_create_from(est_tensor_dtype(tensor), shape, est_tensor_data(tensor), out);
}

static est_status keep_batch(est_sample_rows *rows, const est_model *model, est_tensor *const *batch)
{
    const est_loop_feed *feeds = model->feeds.data;

    for (int i = 0; i < model->feeds.n; i++) { /* splits first: they give the number of values */
        est_sample_rows_item *item = item_of(rows, est_dataset_component(model->input, feeds[i].component)->name);

        if (item == NULL) return est_no_memory();
        if (feeds[i].splits && est_tensor_count(batch[i]) > rows->n) {
            EST_TRY(copy_rows(batch[i], rows->n + 1, &item->splits));
        }
    }
    for (int i = 0; i < model->feeds.n; i++) {
        est_sample_rows_item *item = item_of(rows, est_dataset_component(model->input, feeds[i].component)->name);
        int64_t               n    = rows->n;

        if (feeds[i].splits) continue;
        if (item->splits != NULL) n = ((const int64_t *)est_tensor_data(item->splits))[rows->n];
        EST_TRY(copy_rows(batch[i], n, &item->values));
    }
    return EST_OK;
}

est_status est_sample_rows_record(est_sample_rows *rows, const est_model *model, est_loop *loop)
{
    const est_loop_feed *feeds = model->feeds.data;
    size_t               n     = (size_t)model->feeds.n;
    est_sample_rows      kept  = { .n = est_loop_batch_rows(loop) };
    est_node            *nodes;
    est_tensor         **batch;
    est_status           status;

    if (kept.n < 1 || n == 0) return EST_OK;
    if (kept.n > EST_SAMPLE_ROWS_MAX) kept.n = EST_SAMPLE_ROWS_MAX;
    nodes      = est_alloc((n + 1) * sizeof *nodes);
    batch      = est_zalloc((n + 1) * sizeof(est_tensor *));
    kept.items = est_zalloc((n + 1) * sizeof *kept.items);
    status     = nodes == NULL || batch == NULL || kept.items == NULL ? est_no_memory() : EST_OK;
    for (size_t i = 0; i < n && status == EST_OK; i++) nodes[i] = feeds[i].node;
    if (status == EST_OK) status = est_loop_compute(loop, (est_nodes){ nodes, (int)n }, batch);
    if (status == EST_OK) status = keep_batch(&kept, model, batch);
    for (size_t i = 0; batch != NULL && i < n; i++) est_tensor_free(batch[i]);
    est_free(nodes);
    est_free(batch);
    if (status != EST_OK) {
        est_sample_rows_clear(&kept);
        return status;
    }
    est_sample_rows_clear(rows);
    *rows = kept;
    return EST_OK;
}

/* --- columns ------------------------------------------------------------------------------------------------------ */

/* The receiver's description of one feature. */
typedef struct feature {
    const char *name;
    est_dtype   dtype;
    est_shape   shape; /* of one row, or of one step of it; -1: any */
    bool        any;   /* any number of steps a row */
} feature;

typedef struct column {
    void    *values; /* elements of the feature's dtype; strings borrowed */
    int64_t *starts; /* [n + 1] */
} column;

static void column_clear(column *c)
{
    est_free(c->values);
    est_free(c->starts);
}

/* Elements of a row, or of a step; unknown dimensions count as 1. */
static int64_t row_size(const est_shape *shape)
{
    int64_t size = 1;

    for (int d = 0; d < shape->rank; d++) size *= shape->dim[d] < 0 ? 1 : shape->dim[d];
    return size;
}

/* Whether the recorded rows fit the receiver. */
static const est_sample_rows_item *find_recorded(const est_sample_rows *rows, const feature *f)
{
    for (int i = 0; rows->n > 0 && i < rows->n_items; i++) {
        const est_sample_rows_item *item = &rows->items[i];
        int64_t                     size = row_size(&f->shape), count;

        if (strcmp(item->name, f->name) != 0 || item->values == NULL || est_tensor_dtype(item->values) != f->dtype)
            continue;
        count = est_tensor_count(item->values);
        if (item->splits != NULL) return f->any && size == 1 ? item : NULL;
        if (f->any ? size > 0 && count % (rows->n * size) == 0 : count == rows->n * size) return item;
    }
    return NULL;
}

static int64_t recorded_start(const est_sample_rows *rows, const est_sample_rows_item *item, int64_t row)
{
    if (item->splits != NULL) return ((const int64_t *)est_tensor_data(item->splits))[row];
    return est_tensor_count(item->values) / rows->n * row;
}

/* Small numbers that differ from row to row; whole ones are 0 and 1, which are in range of most tables. */
static void make_up(const feature *f, int64_t row, int64_t k, void *to)
{
    static const char words[][2] = { "a", "b", "c", "d" };

    switch (f->dtype) {
    case EST_F32: *(float *)to = (float)((row * 5 + k * 3) % 11 - 5) / 4; break;
    case EST_F64: *(double *)to = (double)((row * 5 + k * 3) % 11 - 5) / 4; break;
    case EST_I32: *(int32_t *)to = (int32_t)((row + k) % 2); break;
    case EST_I64: *(int64_t *)to = (row + k) % 2; break;
    case EST_STRING: *(est_str *)to = (est_str){ words[(row + k) % 4], 1 }; break;
    default: *(uint8_t *)to = (uint8_t)((row + k) % 2); break;
    }
}

/* The source of columns. */
typedef struct maker {
    const est_sample_rows *rows;
    int64_t                n;       /* rows to make */
    bool                   zeros;   /* generated values are 0 */
    bool                   made_up; /* some values were generated */
} maker;

/* The column of a feature; recorded rows are repeated if there are too few. */
static est_status make_column(maker *m, const feature *f, column *out)
{
    const est_sample_rows      *rows = m->rows;
    const est_sample_rows_item *item = find_recorded(rows, f);
    int64_t                     n    = m->n;
    size_t                      size = est_dtype_size(f->dtype);
    int64_t                     unit = row_size(&f->shape), at = 0;

    m->made_up  = m->made_up || item == NULL;
    out->starts = est_alloc((size_t)(n + 1) * sizeof *out->starts);
    if (out->starts == NULL) return est_no_memory();
    for (int64_t r = 0; r < n; r++) {
        out->starts[r] = at;
        at += item != NULL ? recorded_start(rows, item, r % rows->n + 1) - recorded_start(rows, item, r % rows->n)
                           : (f->any ? r % 3 : 1) * unit;
    }
    out->starts[n] = at;
    out->values    = est_zalloc((size_t)(at + 1) * size); /* 0, and an empty string */
    if (out->values == NULL) return est_no_memory();
    for (int64_t r = 0; r < n && (item != NULL || !m->zeros); r++) {
        char   *to    = (char *)out->values + (size_t)out->starts[r] * size;
        int64_t count = out->starts[r + 1] - out->starts[r];

        if (item != NULL && count > 0) {
            memcpy(to,
                   (const char *)est_tensor_data(item->values) + (size_t)recorded_start(rows, item, r % rows->n) * size,
                   (size_t)count * size);
        }
        for (int64_t k = 0; item == NULL && k < count; k++) make_up(f, r, k, to + (size_t)k * size);
    }
    return EST_OK;
}

/* --- tensors ------------------------------------------------------------------------------------------------------ */

static est_status raw_tensors(maker *m, const est_component *raw, est_tensor **out)
{
    int64_t    n     = m->n;
    feature    f     = { raw->name, raw->dtype, raw->shape, raw->ragged };
    column     c     = { 0 };
    est_shape  shape = raw->shape;
    est_status status;

    status = make_column(m, &f, &c);
    if (status == EST_OK) {
        int64_t unit = row_size(&raw->shape);

        shape.rank   = raw->shape.rank + 1;
        shape.dim[0] = raw->ragged ? (unit > 0 ? c.starts[n] / unit : 0) : n;
        for (int d = 0; d < raw->shape.rank; d++) shape.dim[d + 1] = raw->shape.dim[d] < 0 ? 1 : raw->shape.dim[d];
        status = est_tensor_create_from(raw->dtype, shape, c.values, &out[0]);
        for (int64_t r = 0; r <= n && unit > 1; r++) c.starts[r] /= unit;
    }
    if (status == EST_OK && raw->ragged) status = est_tensor_i64(EST_SHAPE(n + 1), c.starts, &out[1]);
    column_clear(&c);
    return status;
}

static void set_feature(est_example *example, const feature *f, const void *values, size_t n)
{
    switch (f->dtype) {
    case EST_F32: est_example_set_f32s(example, f->name, values, n); break;
    case EST_I64: est_example_set_i64s(example, f->name, values, n); break;
    default: est_example_set_bytes(example, f->name, values, n); break;
    }
}

static est_status serialize_rows(const est_serving_input *input, const column *columns, int64_t n, est_example *example,
                                 est_tensor *out)
{
    for (int64_t r = 0; r < n; r++) {
        est_str bytes;

        est_example_reset(example);
        for (int i = 0; i < input->parse.n; i++) {
            feature     f    = { .name = input->parse.data[i].name, .dtype = input->parse.data[i].dtype };
            const char *from = columns[i].values;

            set_feature(example, &f, from + (size_t)columns[i].starts[r] * est_dtype_size(f.dtype),
                        (size_t)(columns[i].starts[r + 1] - columns[i].starts[r]));
        }
        EST_TRY(est_example_serialize(example, &bytes));
        EST_TRY(est_tensor_set_string(out, r, bytes.data, bytes.size));
    }
    return EST_OK;
}

static est_status example_tensor(maker *m, const est_serving_input *input, est_tensor **out)
{
    column      *columns = est_zalloc((size_t)input->parse.n * sizeof *columns);
    est_example *example = NULL;
    est_tensor  *tensor  = NULL;
    est_status   status  = columns == NULL ? est_no_memory() : EST_OK;

    for (int i = 0; i < input->parse.n && status == EST_OK; i++) {
        const est_feature_spec *spec = &input->parse.data[i];
        feature                 f    = { spec->name, spec->dtype, spec->shape, spec->rows != EST_ROWS_FIXED };

        if (spec->rows == EST_ROWS_RAGGED) f.shape = EST_SHAPE_SCALAR;
        status = make_column(m, &f, &columns[i]);
    }
    if (status == EST_OK) status = est_example_create(&example);
    if (status == EST_OK) status = est_tensor_create(EST_STRING, EST_SHAPE(m->n), &tensor);
    if (status == EST_OK) status = serialize_rows(input, columns, m->n, example, tensor);
    for (int i = 0; columns != NULL && i < input->parse.n; i++) column_clear(&columns[i]);
    est_free(columns);
    est_example_free(example);
    if (status == EST_OK) {
        *out = tensor;
    } else {
        est_tensor_free(tensor);
    }
    return status;
}

/* Examples of all recorded features, for a function that parses strings. */
static est_status recorded_examples(maker *m, est_tensor **out)
{
    const est_sample_rows *rows  = m->rows;
    est_feature_spec      *specs = est_zalloc((size_t)(rows->n_items + 1) * sizeof *specs);
    int                    n     = 0;
    est_status             status;

    if (specs == NULL) return est_no_memory();
    for (int i = 0; i < rows->n_items; i++) {
        const est_sample_rows_item *item  = &rows->items[i];
        est_dtype                   dtype = item->values != NULL ? est_tensor_dtype(item->values) : EST_DTYPE_NONE;

        if (dtype != EST_F32 && dtype != EST_I64 && dtype != EST_STRING) continue;
        specs[n++] = (est_feature_spec){ .name = item->name, .dtype = dtype, .rows = EST_ROWS_RAGGED };
    }
    status     = example_tensor(m, &(est_serving_input){ .parse = { specs, n } }, out);
    m->made_up = true;
    est_free(specs);
    return status;
}

static est_status scalar_tensor(maker *m, est_dtype dtype, est_tensor **out)
{
    union {
        double  number;
        int64_t whole;
        est_str text;
    } value = { .text = { 0 } };

    m->made_up = true;
    if (!m->zeros) make_up(&(feature){ .dtype = dtype }, 0, 0, &value);
    return est_tensor_create_from(dtype, EST_SHAPE_SCALAR, &value, out);
}

/* A placeholder that a function made: the recorded rows of a feature of its name, or what fits. out[1] gets the splits
 * of a ragged one. */
static est_status placeholder_tensors(maker *m, const est_named_node *input, bool ragged, est_tensor **out)
{
    est_component raw   = { .name = input->name, .dtype = est_node_dtype(input->node), .ragged = ragged };
    est_shape     shape = *est_node_shape(input->node);
    maker         own   = *m;
    feature       f;
    est_status    status;

    if (shape.rank == 0) return scalar_tensor(m, raw.dtype, out);
    for (int d = 1; d < shape.rank; d++) raw.shape.dim[raw.shape.rank++] = shape.dim[d];
    if (shape.rank > 0 && shape.dim[0] >= 0) own.n = shape.dim[0];
    f = (feature){ raw.name, raw.dtype, raw.shape, ragged };
    if (raw.dtype == EST_STRING && raw.shape.rank == 0 && !ragged && m->rows->n > 0 && !m->zeros &&
        find_recorded(m->rows, &f) == NULL) {
        status = recorded_examples(&own, out);
    } else {
        status = raw_tensors(&own, &raw, out);
    }
    m->made_up = m->made_up || own.made_up;
    return status;
}

/* The place of "<name>/splits" among the inputs; -1: none. */
static int find_splits(const est_feed_group *group, const char *name)
{
    for (int i = 0; i < group->n_inputs; i++) {
        if (est_is_splits_of(group->inputs[i].name, name) && est_node_dtype(group->inputs[i].node) == EST_I64) return i;
    }
    return -1;
}

static est_status function_tensors(maker *m, const est_feed_group *group, est_tensor **out)
{
    for (int i = 0; i < group->n_inputs; i++) {
        int         splits = find_splits(group, group->inputs[i].name);
        est_tensor *made[2];

        if (splits < 0 || out[splits] != NULL) continue;
        EST_TRY(placeholder_tensors(m, &group->inputs[i], true, made));
        out[i]      = made[0];
        out[splits] = made[1];
    }
    for (int i = 0; i < group->n_inputs; i++) {
        if (out[i] == NULL) EST_TRY(placeholder_tensors(m, &group->inputs[i], false, &out[i]));
    }
    return EST_OK;
}

est_status est_sample_rows_feed(const est_sample_rows *rows, const est_receiver *receiver, bool zeros, est_tensor **out,
                                bool *made_up)
{
    const est_serving_input *input = receiver->input;
    maker                    m     = { .rows  = rows,
                                       .n     = input->batch > 0 ? input->batch
                                                : rows->n > 0    ? rows->n
                                                                 : EST_SAMPLE_ROWS_MAX,
                                       .zeros = zeros };
    int                      n = receiver->groups[0].n_inputs, at = 0;
    est_status               status = EST_OK;

    for (int i = 0; i < n; i++) out[i] = NULL;
    if (input->build != NULL) status = function_tensors(&m, &receiver->groups[0], out);
    if (input->parse.data != NULL) status = example_tensor(&m, input, &out[0]);
    for (int i = 0; input->raw.data != NULL && i < input->raw.n && status == EST_OK; i++) {
        status = raw_tensors(&m, &input->raw.data[i], &out[at]);
        at += input->raw.data[i].ragged ? 2 : 1;
    }
    for (int i = 0; i < n && status != EST_OK; i++) {
        est_tensor_free(out[i]);
        out[i] = NULL;
    }
    *made_up = m.made_up;
    return status;
}
