/* SPDX-License-Identifier: Apache-2.0
 *
 * arrow_stream: the rows of Arrow streams, one by one or as batches.
 *
 * A record batch (chunk) may have millions of rows, and strings are copied: so a few thousand rows at a time (a window)
 * are converted, and elements are views of them. In batches a window ends with a batch, so that only a batch that spans
 * chunks is put together from pieces.
 *
 * The state: the number of rows handed out. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/argument.h"
#include "base/callback.h"
#include "base/options.h"
#include "base/thread.h"
#include "data/arrow_column.h"
#include "data/batch_rows.h"
#include "data/state.h"

#define WINDOW_ROWS 4096

typedef struct arrow {
    est_dataset             base;
    est_arrow_open_fn       open;
    void                   *user;
    est_arrow_options       options; /* lists in the arena */
    pthread_mutex_t         lock;    /* guards `first` */
    bool                    has_lock;
    struct ArrowArrayStream first; /* opened for the schema, for the first pass; without a release: taken */
} arrow;

typedef struct arrow_iter {
    est_iter                base;
    struct ArrowArrayStream stream; /* without a release: not open */
    est_arena              *arena;
    est_arrow_column       *columns; /* [n_columns], in the arena */
    int                     n_columns;
    est_arrow_chunk        *chunk;       /* NULL: none */
    int64_t                 chunk_first; /* number of its first row in the stream */
    int64_t                 chunk_row;   /* its first row that is not converted */
    est_element            *window;      /* a batch */
    int64_t                 window_row, window_rows;
    est_element_list        pieces; /* of a batch; empty between two calls */
    int64_t                 row;    /* rows handed out */
    bool                    at_end; /* the stream has ended */
} arrow_iter;

/* --- streams ------------------------------------------------------------------------------------------------------ */

static est_status stream_failed(struct ArrowArrayStream *stream, int error, const char *function)
{
    const char *text   = stream->get_last_error != NULL ? stream->get_last_error(stream) : NULL;
    est_status  status = EST_UNKNOWN;

    if (error == EINVAL) status = EST_INVALID_ARGUMENT;
    if (error == ENOMEM) status = EST_RESOURCE_EXHAUSTED;
    if (error == ENOSYS) status = EST_UNIMPLEMENTED;
    if (error == EIO) status = EST_DATA_LOSS;
    return est_fail(status, "%s of an Arrow stream: %s", function, text != NULL ? text : strerror(error));
}

static void stream_release(struct ArrowArrayStream *stream)
{
    if (stream->release != NULL) stream->release(stream);
    stream->release = NULL;
}

static est_status stream_open(const arrow *own, struct ArrowArrayStream *out)
{
    struct ArrowArrayStream stream = { 0 };
    est_status              status = EST_CALLBACK(own->open(own->user, &stream), "open of an Arrow stream");

    if (status == EST_OK && (stream.release == NULL || stream.get_schema == NULL || stream.get_next == NULL)) {
        status = est_fail(EST_INVALID_ARGUMENT, "open of an Arrow stream returned EST_OK and no stream");
    }
    if (status != EST_OK) {
        stream_release(&stream);
        return status;
    }
    *out = stream;
    return EST_OK;
}

/* --- columns ------------------------------------------------------------------------------------------------------ */

static const char *default_of(const est_arrow_options *options, const char *column)
{
    for (int i = 0; i < options->defaults.n; i++) {
        if (strcmp(options->defaults.data[i].column, column) == 0) return options->defaults.data[i].text;
    }
    return NULL;
}

static const char *child_name(const struct ArrowSchema *schema, int64_t i)
{
    const struct ArrowSchema *child = schema->children[i];

    return child != NULL && child->release != NULL && child->name != NULL ? child->name : "";
}

/* Which child is column i of the dataset; -1, with an error: none. */
static int64_t find_child(const est_arrow_options *options, const struct ArrowSchema *schema, int i)
{
    int64_t n = schema->n_children;

    if (options->columns.n == 0) return i;
    for (int64_t k = 0; k < n; k++) {
        if (strcmp(child_name(schema, k), options->columns.data[i]) == 0) return k;
    }
    (void)est_fail(EST_NOT_FOUND, "the Arrow stream has no column \"%s\" among its %" PRId64, options->columns.data[i],
                   n);
    return -1;
}

static est_status check_table(const struct ArrowSchema *schema)
{
    if (schema->release == NULL || schema->format == NULL || strcmp(schema->format, "+s") != 0) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "the schema of an Arrow stream is \"%.40s\", expected a struct of columns (\"+s\")",
                        schema->release != NULL && schema->format != NULL ? schema->format : "");
    }
    if (schema->n_children < 0 || schema->n_children > INT32_MAX ||
        (schema->n_children > 0 && schema->children == NULL)) {
        return est_fail(EST_INVALID_ARGUMENT, "the schema of an Arrow stream has %" PRId64 " columns%s",
                        schema->n_children, schema->children == NULL ? " and no list of them" : "");
    }
    if (schema->n_children == 0) return est_fail(EST_INVALID_ARGUMENT, "the Arrow stream has no columns");
    return EST_OK;
}

static est_status read_columns(const est_arrow_options *options, const struct ArrowSchema *schema, est_arena *arena,
                               est_arrow_column *columns, int n)
{
    for (int i = 0; i < n; i++) {
        int64_t child = find_child(options, schema, i);

        if (child < 0) return EST_NOT_FOUND;
        EST_TRY(est_arrow_column_init(arena, schema->children[child], &columns[i]));
        columns[i].child = child;
        EST_TRY(est_arrow_column_set_nulls(&columns[i], options->nulls, default_of(options, columns[i].name)));
    }
    return EST_OK;
}

/* The columns of a stream, in the arena. */
static est_status stream_columns(const est_arrow_options *options, struct ArrowArrayStream *stream, est_arena *arena,
                                 est_arrow_column **out, int *n)
{
    struct ArrowSchema schema = { 0 };
    int                error  = stream->get_schema(stream, &schema);
    est_status         status;

    if (error != 0) return stream_failed(stream, error, "get_schema");
    status = check_table(&schema);
    if (status == EST_OK) {
        *n     = options->columns.n > 0 ? options->columns.n : (int)schema.n_children;
        *out   = est_arena_alloc(arena, (size_t)*n * sizeof **out);
        status = *out != NULL ? read_columns(options, &schema, arena, *out, *n) : est_no_memory();
    }
    if (schema.release != NULL) schema.release(&schema);
    return status;
}

/* The component of a column, in rows or in batches. */
static est_component component_of(const est_arrow_options *options, const est_arrow_column *column)
{
    est_component component = column->component;
    est_shape     row       = component.shape;

    if (options->batch == 0) return component;
    component.ragged = column->type.kind == EST_ARROW_LIST;
    if (component.ragged) return component;
    component.shape = (est_shape){ .rank = row.rank + 1, .dim = { options->drop_remainder ? options->batch : -1 } };
    for (int i = 0; i < row.rank; i++) component.shape.dim[i + 1] = row.dim[i];
    return component;
}

/* Another pass has the same components, though perhaps another representation of them. */
static est_status check_columns(const arrow *own, const est_arrow_column *columns, int n)
{
    if (n != own->base.n_components) {
        return est_fail(EST_FAILED_PRECONDITION, "the Arrow stream now has %d columns and had %d", n,
                        own->base.n_components);
    }
    for (int i = 0; i < n; i++) {
        est_component        now = component_of(&own->options, &columns[i]);
        const est_component *was = &own->base.components[i];
        char                 text[2][EST_SHAPE_TEXT_MAX];

        if (strcmp(now.name, was->name) == 0 && now.dtype == was->dtype && now.ragged == was->ragged &&
            est_shape_equal(&now.shape, &was->shape)) {
            continue;
        }
        return est_fail(EST_FAILED_PRECONDITION,
                        "column %d of the Arrow stream is now \"%s\", %s %s, and was \"%s\", %s %s", i, now.name,
                        est_dtype_name(now.dtype), est_shape_text(&now.shape, text[0]), was->name,
                        est_dtype_name(was->dtype), est_shape_text(&was->shape, text[1]));
    }
    return EST_OK;
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

/* A record batch as columns need it; children are checked by their columns. */
static est_status check_batch(const arrow_iter *iter, const struct ArrowArray *array)
{
    int64_t end;

    if (array->length < 0 || array->offset < 0 || __builtin_add_overflow(array->length, array->offset, &end)) {
        return est_fail(EST_INVALID_ARGUMENT, "an Arrow record batch has length %" PRId64 " and offset %" PRId64,
                        array->length, array->offset);
    }
    if (array->null_count > 0) {
        return est_fail(EST_INVALID_ARGUMENT, "an Arrow record batch has %" PRId64 " rows that are null",
                        array->null_count);
    }
    if (est_arrow_has_nulls(array, 0, array->length)) { /* they were not counted */
        return est_fail(EST_INVALID_ARGUMENT, "an Arrow record batch has rows that are null");
    }
    for (int i = 0; i < iter->base.dataset->n_components; i++) {
        est_arrow_column *column = &iter->columns[i];

        if (array->children == NULL || column->child >= array->n_children) {
            return est_fail(EST_INVALID_ARGUMENT,
                            "column \"%s\" is number %" PRId64 " of an Arrow record batch of %" PRId64, column->name,
                            column->child, array->children != NULL ? array->n_children : 0);
        }
        EST_TRY(est_arrow_column_begin(column, array->children[column->child], end));
    }
    return EST_OK;
}

/* Replaces the chunk by the next. EST_OUT_OF_RANGE: there is none. */
static est_status next_chunk(arrow_iter *iter)
{
    est_arrow_chunk *chunk;
    int              error;

    if (iter->at_end) return EST_OUT_OF_RANGE;
    chunk = est_zalloc(sizeof *chunk);
    if (chunk == NULL) return est_no_memory();
    error = iter->stream.get_next(&iter->stream, &chunk->array);
    if (error != 0 || chunk->array.release == NULL) {
        est_free(chunk);
        if (error != 0) return stream_failed(&iter->stream, error, "get_next");
        iter->at_end = true;
        return EST_OUT_OF_RANGE;
    }
    est_refcount_init(&chunk->refs);
    if (iter->chunk != NULL) iter->chunk_first += iter->chunk->array.length;
    iter->chunk_row = 0;
    est_arrow_chunk_free(iter->chunk);
    iter->chunk = chunk;
    return check_batch(iter, &chunk->array);
}

/* How many rows a window should have: up to the end of a batch. */
static int64_t window_size(const arrow_iter *iter, int64_t missing)
{
    int64_t batch = ((const arrow *)iter->base.dataset)->options.batch;

    if (batch == 0) return WINDOW_ROWS;
    if (missing < batch) return missing;
    return batch < WINDOW_ROWS ? WINDOW_ROWS - WINDOW_ROWS % batch : batch;
}

/* Makes the next rows the window; `missing` are to come before a batch is complete. */
static est_status next_window(arrow_iter *iter, int64_t missing)
{
    int     n_components = iter->base.dataset->n_components;
    int64_t n, left;

    while (iter->chunk == NULL || iter->chunk_row == iter->chunk->array.length) EST_TRY(next_chunk(iter));
    n    = window_size(iter, missing);
    left = iter->chunk->array.length - iter->chunk_row;
    if (n > left) n = left;
    est_element_clear(iter->window->field, n_components);
    iter->window_row = iter->window_rows = 0;
    for (int i = 0; i < n_components; i++) {
        EST_TRY(est_arrow_column_read(&iter->columns[i], iter->chunk, iter->chunk_row, n, iter->chunk_first,
                                      &iter->window->field[i]));
    }
    iter->window_rows = n;
    iter->chunk_row += n;
    return EST_OK;
}

static est_status next_row(arrow_iter *iter, est_element *out)
{
    if (iter->window_row == iter->window_rows) EST_TRY(next_window(iter, 1));
    EST_TRY(est_batch_rows_row(iter->window, iter->base.dataset->n_components, iter->window_row, out));
    iter->window_row++;
    iter->row++;
    return EST_OK;
}

/* Collects the rows of a batch; fewer than that at the end. */
static est_status collect_pieces(arrow_iter *iter, int64_t batch, int64_t *rows)
{
    *rows = 0;
    while (*rows < batch) {
        est_element *piece;
        est_status   status = EST_OK;
        int64_t      n;

        if (iter->window_row == iter->window_rows) status = next_window(iter, batch - *rows);
        if (status == EST_OUT_OF_RANGE) return EST_OK;
        if (status != EST_OK) return status;
        n = iter->window_rows - iter->window_row;
        if (n > batch - *rows) n = batch - *rows;
        piece = est_element_list_room(&iter->pieces);
        if (piece == NULL) return EST_RESOURCE_EXHAUSTED;
        EST_TRY(est_batch_rows_slice(iter->window, iter->base.dataset->n_components, iter->window_row, n, piece));
        est_element_list_push(&iter->pieces);
        iter->window_row += n;
        *rows += n;
    }
    return EST_OK;
}

static est_status next_batch(arrow_iter *iter, const est_arrow_options *options, est_element *out)
{
    int64_t    rows;
    est_status status = collect_pieces(iter, options->batch, &rows);

    if (status == EST_OK && (rows == 0 || (rows < options->batch && options->drop_remainder)))
        status = EST_OUT_OF_RANGE;
    if (status == EST_OK) status = est_batch_rows_join(&iter->base, &iter->pieces, out);
    est_element_list_reset(&iter->pieces);
    if (status == EST_OK) iter->row += rows;
    return status;
}

static est_status arrow_next(est_iter *it, est_element *out)
{
    const arrow *own  = (const arrow *)it->dataset;
    arrow_iter  *iter = (arrow_iter *)it;

    return own->options.batch == 0 ? next_row(iter, out) : next_batch(iter, &own->options, out);
}

/* --- passes ------------------------------------------------------------------------------------------------------- */

/* The stream of a pass: the one that was opened for the schema, or a new one. */
static est_status take_stream(const est_dataset *dataset, struct ArrowArrayStream *out)
{
    arrow *own;

    while (dataset->original != NULL) dataset = dataset->original;
    own = (arrow *)(uintptr_t)dataset; /* only `first` and its lock change */
    pthread_mutex_lock(&own->lock);
    *out               = own->first;
    own->first.release = NULL;
    pthread_mutex_unlock(&own->lock);
    return out->release != NULL ? EST_OK : stream_open(own, out);
}

static est_status arrow_open(est_iter *it)
{
    const arrow *own  = (const arrow *)it->dataset;
    arrow_iter  *iter = (arrow_iter *)it;

    est_element_list_init(&iter->pieces, it->dataset->n_components);
    iter->window = est_element_new(it->dataset->n_components);
    iter->arena  = est_arena_create();
    if (iter->window == NULL || iter->arena == NULL) return est_no_memory();
    EST_TRY(take_stream(it->dataset, &iter->stream));
    EST_TRY(stream_columns(&own->options, &iter->stream, iter->arena, &iter->columns, &iter->n_columns));
    return check_columns(own, iter->columns, iter->n_columns);
}

static void arrow_close(est_iter *it)
{
    arrow_iter *iter = (arrow_iter *)it;

    for (int i = 0; i < iter->n_columns && iter->columns != NULL; i++) est_arrow_column_clear(&iter->columns[i]);
    est_element_list_clear(&iter->pieces);
    est_element_free(iter->window, it->dataset->n_components);
    est_arrow_chunk_free(iter->chunk);
    stream_release(&iter->stream);
    est_arena_free(iter->arena);
}

static est_status arrow_save(est_iter *it, est_wire_writer *w)
{
    est_state_put(w, &((arrow_iter *)it)->row, 1);
    return EST_OK;
}

/* Goes over the rows before the position, chunk by chunk. */
static est_status arrow_restore(est_iter *it, est_str state)
{
    arrow_iter *iter   = (arrow_iter *)it;
    est_status  status = EST_OK;
    int64_t     row, left;

    EST_TRY(est_state_parse(it, state, &row, 1));
    for (left = row; left > 0 && status == EST_OK;) {
        status = next_chunk(iter);
        if (status != EST_OK) break;
        iter->chunk_row = left < iter->chunk->array.length ? left : iter->chunk->array.length;
        left -= iter->chunk_row;
    }
    if (status == EST_OUT_OF_RANGE) {
        return est_fail(EST_FAILED_PRECONDITION,
                        "the position is after %" PRId64 " rows of an Arrow stream that now has %" PRId64, row,
                        row - left);
    }
    iter->row = row;
    return status;
}

static void arrow_free(est_dataset *dataset)
{
    arrow *own = (arrow *)dataset;

    stream_release(&own->first);
    if (own->has_lock) pthread_mutex_destroy(&own->lock);
}

static int64_t arrow_batch_size(const est_dataset *dataset)
{
    int64_t batch = ((const arrow *)dataset)->options.batch;

    return batch > 0 ? batch : -1;
}

static const est_stage arrow_stage = {
    .name      = "arrow_stream",
    .iter_size = sizeof(arrow_iter),
    .open      = arrow_open,
    .next      = arrow_next,
    .close     = arrow_close,
    .save      = arrow_save,
    .restore   = arrow_restore,
    .free      = arrow_free,

    .batch_size = arrow_batch_size,
};

/* --- the dataset -------------------------------------------------------------------------------------------------- */

static est_status check_options(const est_arrow_options *options)
{
    EST_REQUIRE_LIST("columns", options->columns);
    EST_REQUIRE_LIST("defaults", options->defaults);
    if (options->batch < 0) {
        return est_fail(EST_INVALID_ARGUMENT, "batches of %" PRId64 " rows; 0 is for single rows", options->batch);
    }
    if (options->nulls != EST_ARROW_NO_NULLS && options->nulls != EST_ARROW_MISSING) {
        return est_fail(EST_INVALID_ARGUMENT, "nulls is %d, which est_arrow_nulls does not have", (int)options->nulls);
    }
    for (int i = 0; i < options->columns.n; i++) {
        if (options->columns.data[i] == NULL) return est_fail(EST_INVALID_ARGUMENT, "columns: name %d is NULL", i);
    }
    for (int i = 0; i < options->defaults.n; i++) {
        if (options->defaults.data[i].column != NULL && options->defaults.data[i].text != NULL) continue;
        return est_fail(EST_INVALID_ARGUMENT, "defaults: number %d has no column or no text", i);
    }
    return EST_OK;
}

/* Copies the lists of the options into the arena. */
static est_status copy_options(est_arena *arena, est_arrow_options *options)
{
    const char       **columns  = est_arena_alloc(arena, ((size_t)options->columns.n + 1) * sizeof *columns);
    est_arrow_default *defaults = est_arena_alloc(arena, ((size_t)options->defaults.n + 1) * sizeof *defaults);

    if (columns == NULL || defaults == NULL) return est_no_memory();
    for (int i = 0; i < options->columns.n; i++) {
        columns[i] = est_arena_strdup(arena, options->columns.data[i]);
        if (columns[i] == NULL) return est_no_memory();
    }
    for (int i = 0; i < options->defaults.n; i++) {
        defaults[i].column = est_arena_strdup(arena, options->defaults.data[i].column);
        defaults[i].text   = est_arena_strdup(arena, options->defaults.data[i].text);
        if (defaults[i].column == NULL || defaults[i].text == NULL) return est_no_memory();
    }
    options->columns.data  = columns;
    options->defaults.data = defaults;
    return EST_OK;
}

/* A default for a column that is not there is a mistake. */
static est_status check_defaults(const est_arrow_options *options, const est_arrow_column *columns, int n)
{
    for (int i = 0; i < options->defaults.n; i++) {
        int k = 0;

        while (k < n && strcmp(columns[k].name, options->defaults.data[i].column) != 0) k++;
        if (k < n) continue;
        return est_fail(EST_NOT_FOUND, "defaults: \"%s\" is no column of the dataset",
                        options->defaults.data[i].column);
    }
    return EST_OK;
}

/* Opens the first stream and reads its schema. */
static est_status read_schema(arrow *own, est_component **components, int *n)
{
    est_arrow_column *columns;

    EST_TRY(est_lock_init(&own->lock));
    own->has_lock = true;
    EST_TRY(stream_open(own, &own->first));
    EST_TRY(stream_columns(&own->options, &own->first, own->base.arena, &columns, n));
    EST_TRY(check_defaults(&own->options, columns, *n));
    *components = est_arena_alloc(own->base.arena, (size_t)*n * sizeof **components);
    if (*components == NULL) return est_no_memory();
    for (int i = 0; i < *n; i++) (*components)[i] = component_of(&own->options, &columns[i]);
    return EST_OK;
}

est_dataset *est_dataset_arrow_stream(est_arrow_open_fn open, void *user, const est_arrow_options *options)
{
    arrow         *own = est_dataset_new(&arrow_stage, sizeof *own, NULL, NULL);
    est_component *components;
    est_status     status;
    int            n;

    if (!est_dataset_sound(&own->base)) return &own->base;
    status = est_options_take(EST_STRUCT_SIZE(est_arrow_options), options, &own->options);
    if (status == EST_OK && open == NULL)
        status = est_fail(EST_INVALID_ARGUMENT, "est_dataset_arrow_stream: open is NULL");
    if (status == EST_OK) status = check_options(&own->options);
    if (status == EST_OK) status = copy_options(own->base.arena, &own->options);
    own->open = open;
    own->user = user;
    if (status == EST_OK) status = read_schema(own, &components, &n);
    if (status != EST_OK) return est_dataset_fail(&own->base, status);
    return est_dataset_with(&own->base, components, n);
}
