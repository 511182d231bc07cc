/* SPDX-License-Identifier: Apache-2.0
 *
 * Variables of a store to and from checkpoint files. */
#include "runtime/store_files.h"

#include "base/alloc.h"
#include "base/strbuf.h"
#include "kernels/copy_on_write.h"
#include "kernels/lazy_rows.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

/* --- NaN ---------------------------------------------------------------------------------------------------------- */

#define NAN_BLOCK 4096 /* elements between two looks at what was found: so that the loop over them has no way out */

#define HAS_NAN(T, suffix)                                                                                             \
    static bool has_nan_##suffix(const T *x, int64_t n)                                                                \
    {                                                                                                                  \
        for (int64_t from = 0; from < n; from += NAN_BLOCK) {                                                          \
            int64_t to    = n - from < NAN_BLOCK ? n : from + NAN_BLOCK;                                               \
            int     found = 0;                                                                                         \
                                                                                                                       \
            for (int64_t i = from; i < to; i++) found |= x[i] != x[i];                                                 \
            if (found != 0) return true;                                                                               \
        }                                                                                                              \
        return false;                                                                                                  \
    }
HAS_NAN(float, f32)
HAS_NAN(double, f64)

bool est_view_has_nan(const est_view *view)
{
    int64_t n = est_shape_count(&view->shape);

    return (view->dtype == EST_F32 && has_nan_f32(view->data, n)) ||
           (view->dtype == EST_F64 && has_nan_f64(view->data, n));
}

/* What a device fails to copy has none here: saving it fails as well. */
bool est_var_has_nan(const est_var *var)
{
    est_view    value = est_var_stored(var);
    est_tensor *copy  = NULL;
    bool        found;

    if (!var->initialized) return false;
    if (var->device->runs != NULL) {
        if (est_var_read(var, NULL, &copy) != EST_OK) return false;
        value.data = est_tensor_view_data(copy);
    }
    found = est_view_has_nan(&value);
    est_tensor_free(copy);
    return found;
}

int est_store_find_nan(const est_store *store, const est_store_entry *entries, int n)
{
    for (int i = 0; i < n; i++) {
        const est_var *var = est_store_find(store, entries[i].name);

        if (var != NULL && est_var_has_nan(var)) return i;
    }
    return -1;
}

/* --- entries ------------------------------------------------------------------------------------------------------ */

est_store_entry est_store_entry_of(const est_store *store, const est_var *var, const char *key)
{
    est_store_entry entry = {
        .key = key, .name = var->name, .dtype = var->value.dtype, .full = var->value.shape, .rows = -1
    };

    if (var->rows != NULL) entry.rows_spec = est_store_row_spec(store, var);
    return entry;
}

static est_bundle_slice slice_of(const est_store_entry *entry)
{
    est_bundle_slice slice = { .rank = entry->full.rank };

    for (int i = 0; i < slice.rank; i++) slice.length[i] = -1;
    slice.start[0]  = entry->first;
    slice.length[0] = entry->rows;
    return slice;
}

/* Of the entry's variable. */
static est_shape own_shape(const est_store_entry *entry)
{
    est_shape shape = entry->full;

    if (entry->rows >= 0) shape.dim[0] = entry->rows;
    return shape;
}

/* Makes the dynamic embeddings of the entries, then their slots. `blank`: those that were not there are to count as
 * ones without values until they have been read. */
static est_status make_rows(est_store *store, const est_store_entry *entries, int n, bool blank)
{
    for (int slots = 0; slots < 2; slots++) {
        for (int i = 0; i < n; i++) {
            const est_row_spec *spec = &entries[i].rows_spec;
            int                 had  = est_store_size(store);
            est_var            *var;

            if (spec->name == NULL || (spec->rows_of != NULL) != (slots != 0)) continue;
            EST_TRY(est_store_rows(store, spec, &var));
            for (int k = had; blank && k < est_store_size(store); k++) est_store_at(store, k)->initialized = false;
        }
    }
    return EST_OK;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* A variable that is being read. */
typedef struct reading {
    const est_store_entry *entry;
    est_var               *var;
    est_shape              shape; /* of what is read */
} reading;

/* A partitioned variable of TensorFlow is one tensor of a checkpoint, and read like any other. But its slots in canned
 * estimators of tf.compat.v1 are one for each part, "<variable>/part_0/Ftrl", "<variable>/part_1/Ftrl", all of the full
 * shape with only a slice there. Ours is called as the first and made of all of them.
 *
 * Part i of the slot that `key` is the first part of; NULL when there is none. */
static est_status find_part(const est_bundle *bundle, const char *key, int i, const est_bundle_entry **out)
{
    static const char *const first[] = { "/part_0/", "/t_0/" };
    est_strbuf               name    = { 0 };

    *out = NULL;
    for (size_t k = 0; k < sizeof first / sizeof first[0] && *out == NULL; k++) {
        const char *at = strstr(key, first[k]), *rest;

        if (at == NULL) continue;
        rest = at + strlen(first[k]);
        est_strbuf_printf(&name, "%.*s%d/%s", (int)(rest - 2 - key), key, i, rest);
        if (!name.failed) *out = est_bundle_find(bundle, est_strbuf_text(&name));
    }
    est_strbuf_clear(&name);
    return name.failed ? est_no_memory() : EST_OK;
}

/* Whether an entry is one slice of rows, and not all of them. */
static bool is_part(const est_bundle_entry *entry)
{
    if (entry == NULL || entry->n_slices != 1 || entry->slices[0].rank < 1) return false;
    for (int i = 1; i < entry->slices[0].rank; i++) {
        if (entry->slices[0].length[i] >= 0 && entry->slices[0].length[i] != entry->shape.dim[i]) return false;
    }
    return entry->slices[0].length[0] >= 0 && entry->slices[0].length[0] < entry->shape.dim[0];
}

/* Reads the rows of one part into those of `data`; NULL: reads them to see whether they are whole, which
 * est_bundle_verify can tell of whole tensors only. */
static est_status read_part(const est_bundle *bundle, const est_bundle_entry *part, void *data)
{
    const est_bundle_slice *slice  = &part->slices[0];
    est_shape               rows   = part->shape;
    est_tensor             *tensor = NULL;
    size_t                  bytes;
    est_status              status;

    if (data == NULL) {
        status = est_bundle_read(bundle, part->name, slice, &tensor);
    } else {
        bytes       = est_dtype_size(part->dtype) * (size_t)(est_shape_count(&rows) / rows.dim[0]);
        rows.dim[0] = slice->length[0];
        EST_TRY(
            est_tensor_wrap(part->dtype, rows, (char *)data + bytes * (size_t)slice->start[0], NULL, NULL, &tensor));
        status = est_bundle_read_into(bundle, part->name, slice, tensor);
    }
    est_tensor_free(tensor);
    return status;
}

/* Goes through the parts of a slot. *n_rows: how many rows they have, 0 when it is not stored in parts. */
static est_status read_parts(const est_bundle *bundle, const est_store_entry *entry, void *data, int64_t *n_rows)
{
    const est_bundle_entry *part;

    *n_rows = 0;
    for (int i = 0; entry->rows < 0; i++) {
        EST_TRY(find_part(bundle, entry->key, i, &part));
        if (!is_part(part) || !est_shape_equal(&part->shape, &entry->full) || part->dtype != entry->dtype) break;
        EST_TRY(read_part(bundle, part, data));
        *n_rows += part->slices[0].length[0];
    }
    return EST_OK;
}

static est_status verify_rows(const est_bundle *bundle, const est_store_entry *entry)
{
    est_bundle_slice slice = slice_of(entry);
    est_tensor      *value;

    EST_TRY(est_bundle_read(bundle, entry->key, &slice, &value));
    est_tensor_free(value);
    return EST_OK;
}

est_status est_store_verify(const est_bundle *bundle, const est_store_entry *entries, int n)
{
    for (int i = 0; i < n; i++) {
        int64_t in_parts;

        EST_TRY(read_parts(bundle, &entries[i], NULL, &in_parts));
        if (in_parts > 0) continue;
        EST_TRY(entries[i].rows < 0 ? est_bundle_verify(bundle, entries[i].key) : verify_rows(bundle, &entries[i]));
    }
    return EST_OK;
}

static const reading *reading_of(const reading *list, int n, const est_var *var)
{
    for (int i = 0; i < n; i++) {
        if (list[i].var == var) return &list[i];
    }
    return NULL;
}

static est_status find_variable(est_store *store, reading *r)
{
    const est_store_entry *entry = r->entry;

    return est_store_get(store, entry->name, entry->dtype, own_shape(entry), &r->var);
}

/* The keys that decide how many rows there are; NULL: as many as the variable has. */
static const est_bundle_entry *stored_keys(const est_bundle *bundle, const reading *list, int n, const est_var *var)
{
    const reading *keys = var->rows != NULL ? reading_of(list, n, var->rows->vars[0]) : NULL;

    return keys != NULL ? est_bundle_find(bundle, keys->entry->key) : NULL;
}

/* Whether the stored tensor fits the entry: the index may have changed since the entries were made. */
static est_status check_stored(const est_bundle *bundle, reading *list, int n, reading *r)
{
    const est_bundle_entry *stored = est_bundle_find(bundle, r->entry->key);
    const est_bundle_entry *keys   = stored_keys(bundle, list, n, r->var);
    est_shape               want   = r->entry->full;
    char                    has[EST_SHAPE_TEXT_MAX], needs[EST_SHAPE_TEXT_MAX];

    if (stored == NULL) {
        return est_fail(EST_DATA_LOSS, "the checkpoint has no \"%s\" for variable '%s'", r->entry->key, r->entry->name);
    }
    if (r->var->rows != NULL && want.rank > 0) {
        want.dim[0] = keys != NULL && keys->shape.rank == 1 && keys->shape.dim[0] <= r->var->rows->max
                          ? keys->shape.dim[0]
                          : -1;
    }
    if (stored->dtype != r->var->value.dtype || !est_shape_equal(&stored->shape, &want)) {
        return est_fail(EST_DATA_LOSS, "\"%s\" in the checkpoint is %s %s, variable '%s' needs %s %s", r->entry->key,
                        est_dtype_name(stored->dtype), est_shape_text(&stored->shape, has), r->entry->name,
                        est_dtype_name(r->var->value.dtype), est_shape_text(&want, needs));
    }
    r->shape = r->entry->rows >= 0 ? own_shape(r->entry) : stored->shape;
    return EST_OK;
}

static est_status read_into(const est_bundle *bundle, const reading *r, void *data)
{
    est_bundle_slice slice = slice_of(r->entry);
    est_tensor      *tensor;
    est_status       status;
    int64_t          in_parts;

    EST_TRY(read_parts(bundle, r->entry, data, &in_parts));
    if (in_parts > 0 && in_parts == r->shape.dim[0]) return EST_OK; /* else it is said below which slice is not there */
    EST_TRY(est_tensor_wrap(r->var->value.dtype, r->shape, data, NULL, NULL, &tensor));
    status = est_bundle_read_into(bundle, r->entry->key, r->entry->rows >= 0 ? &slice : NULL, tensor);
    est_tensor_free(tensor);
    return status;
}

static est_status read_variable(const est_bundle *bundle, const reading *r)
{
    est_var   *var = r->var;
    void      *copy;
    est_status status;

    if (var->device->runs == NULL) return read_into(bundle, r, var->value.data);
    copy = est_alloc((size_t)var->value.count * est_dtype_size(var->value.dtype) + 1);
    if (copy == NULL) return est_no_memory();
    status = read_into(bundle, r, copy);
    if (status == EST_OK) status = est_var_put(var, 0, var->value.count, copy);
    est_free(copy);
    return status;
}

/* Makes the sets of keys that were read; when reading failed, what is in their rows is of no use. */
static est_status restore_keys(const est_store *store, const reading *list, int n, est_status status)
{
    est_key_rows *rows;

    for (int i = 0; (rows = est_store_keys(store, i)) != NULL; i++) {
        const reading *keys     = reading_of(list, n, rows->vars[0]);
        bool           is_table = i % 2 == 0; /* and not its candidates (est_store_keys) */

        if (keys == NULL) continue;
        if (status == EST_OK && is_table && reading_of(list, n, rows->vars[1]) == NULL) {
            est_key_rows_see_all(rows, keys->shape.dim[0], *EST_CONTAINER_OF(rows, est_row_table, rows)->steps);
        }
        if (status == EST_OK) status = est_key_rows_restore(rows, keys->shape.dim[0]);
        if (status != EST_OK) est_key_rows_drop(rows);
        for (int k = 3; k < rows->n_vars; k++) {
            if (reading_of(list, n, rows->vars[k]) == NULL) est_key_rows_draw(rows, rows->vars[k], 0, rows->n);
        }
    }
    return status;
}

/* Values are there when all have been read: so a damaged file leaves those without a value as they were. Rows for keys
 * have values then, be they read or drawn. */
static est_status read_all(const est_store *store, const est_bundle *bundle, const reading *list, int n)
{
    est_status status = EST_OK;

    for (int i = 0; i < n && status == EST_OK; i++) {
        est_cow_keep_all(list[i].var);
        est_lazy_overwritten(list[i].var);
        status = read_variable(bundle, &list[i]);
    }
    status = restore_keys(store, list, n, status);
    for (int i = 0; i < n; i++) {
        if (list[i].var->rows != NULL) continue;
        list[i].var->initialized = status == EST_OK;
        list[i].var->blank       = false;
    }
    for (int i = 0; i < est_store_size(store) && status == EST_OK; i++) {
        est_var *var = est_store_at(store, i);

        if (var->rows != NULL && !var->elsewhere) var->initialized = true;
    }
    return status;
}

est_status est_store_restore(est_store *store, const est_bundle *bundle, const est_store_entry *entries, int n)
{
    reading   *list   = est_zalloc(sizeof *list * ((size_t)n + 1));
    est_status status = list != NULL ? make_rows(store, entries, n, true) : est_no_memory();

    for (int i = 0; i < n && status == EST_OK; i++) {
        list[i].entry = &entries[i];
        status        = find_variable(store, &list[i]);
    }
    for (int i = 0; i < n && status == EST_OK; i++) status = check_stored(bundle, list, n, &list[i]);
    if (status == EST_OK) status = read_all(store, bundle, list, n);
    est_free(list);
    return status;
}

est_status est_store_map(est_store *store, const est_bundle *bundle, const est_store_entry *entry, bool verify,
                         bool *mapped)
{
    const est_bundle_entry *stored = est_bundle_find(bundle, entry->key);
    est_bundle_slice        slice  = slice_of(entry);
    est_var                *var;
    est_mapping             mapping;

    *mapped = false;
    if (entry->rows_spec.name != NULL || stored == NULL || is_part(stored)) return EST_OK;
    if (stored->dtype != entry->dtype || !est_shape_equal(&stored->shape, &entry->full)) return EST_OK;
    EST_TRY(est_store_get(store, entry->name, entry->dtype, own_shape(entry), &var));
    if (!var->blank || var->initialized || var->elsewhere || var->device->runs != NULL) return EST_OK;
    EST_TRY(est_bundle_map(bundle, entry->key, entry->rows >= 0 ? &slice : NULL, verify, &mapping));
    if (mapping.pages == NULL) return EST_OK;
    est_store_set_mapping(var, mapping);
    *mapped = true;
    return EST_OK;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

/* A variable of a snapshot, and the tensor of a checkpoint that it is or a slice of. */
typedef struct saved {
    char            *key;
    est_dtype        dtype;
    size_t           bytes;
    est_shape        full;
    est_bundle_slice slice; /* rank -1: all of it */
} saved;

struct est_snapshot {
    est_cow *cow; /* of the variables, as the items */
    int      n;
    saved    items[];
};

void est_snapshot_free(est_snapshot *snapshot)
{
    if (snapshot == NULL) return;
    est_cow_free(snapshot->cow);
    for (int i = 0; i < snapshot->n; i++) est_free(snapshot->items[i].key);
    est_free(snapshot);
}

void est_snapshot_end(est_snapshot *snapshot)
{
    est_cow_end(snapshot->cow);
}

int64_t est_snapshot_paused_ns(est_snapshot *snapshot, size_t *buffer_bytes)
{
    *buffer_bytes = est_cow_buffer_bytes(snapshot->cow);
    return est_cow_paused_ns(snapshot->cow);
}

static est_status add_variable(const est_store *store, const est_store_entry *entry, saved *out, est_var **var)
{
    est_view value;

    *var = est_store_find(store, entry->name);
    if (*var == NULL || !(*var)->initialized) {
        return est_fail(EST_FAILED_PRECONDITION, "variable '%s' has no value yet", entry->name);
    }
    value      = est_var_stored(*var);
    out->dtype = value.dtype;
    out->bytes = (size_t)value.count * est_dtype_size(value.dtype);
    out->full  = entry->rows >= 0 ? entry->full : value.shape;
    out->slice = entry->rows >= 0 ? slice_of(entry) : (est_bundle_slice){ .rank = -1 };
    out->key   = est_strdup(entry->key);
    return out->key != NULL ? EST_OK : est_no_memory();
}

/* The scalar of a set of keys is not one of the set's variables, which announces changes of those alone: it is kept at
 * once. */
static est_status begin_snapshot(est_snapshot *snapshot, est_var *const *vars)
{
    EST_TRY(est_cow_begin(vars, snapshot->n, &snapshot->cow));
    for (int i = 0; i < snapshot->n; i++) {
        if (vars[i]->rows != NULL && vars[i]->value.shape.rank == 0) est_cow_keep_all(vars[i]);
    }
    return EST_OK;
}

est_status est_store_snapshot(est_store *store, const est_store_entry *entries, int n, est_snapshot **out)
{
    est_snapshot *snapshot = est_zalloc(sizeof *snapshot + sizeof *snapshot->items * (size_t)n);
    est_var     **vars     = est_alloc(sizeof(est_var *) * ((size_t)n + 1));
    est_status    status   = snapshot != NULL && vars != NULL ? make_rows(store, entries, n, false) : est_no_memory();

    for (int i = 0; i < n && status == EST_OK; i++) {
        snapshot->n = i + 1;
        status      = add_variable(store, &entries[i], &snapshot->items[i], &vars[i]);
    }
    if (status == EST_OK) status = begin_snapshot(snapshot, vars);
    est_free(vars);
    if (status != EST_OK) {
        est_snapshot_free(snapshot);
        return status;
    }
    *out = snapshot;
    return EST_OK;
}

/* Of a variable, read or drawn and then written at once: whole chunks of a snapshot. */
#define PIECE_BYTES ((size_t)1 << 20)

static est_status add_pieces(est_bundle_writer *writer, const est_var *var, est_pool *pool, char *piece)
{
    size_t  size = est_dtype_size(var->value.dtype);
    int64_t most = (int64_t)(PIECE_BYTES / size);

    for (int64_t at = 0; at < var->value.count; at += most) {
        int64_t n = var->value.count - at < most ? var->value.count - at : most;

        est_lazy_copy(var, pool, at, n, piece);
        EST_TRY(est_bundle_append(writer, piece, (size_t)n * size));
    }
    return est_bundle_end(writer);
}

/* Rows that wait are drawn for the file and go on waiting. */
static est_status add_waiting(est_bundle_writer *writer, const char *key, const est_shape *full,
                              const est_bundle_slice *slice, const est_var *var, est_pool *pool)
{
    char      *piece = est_alloc(PIECE_BYTES);
    est_status status;

    if (piece == NULL) return est_no_memory();
    status = est_bundle_begin(writer, key, var->value.dtype, full, slice);
    if (status == EST_OK) status = add_pieces(writer, var, pool, piece);
    est_free(piece);
    return status;
}

est_status est_store_write_variable(est_bundle_writer *writer, const est_var *var, est_pool *pool)
{
    est_view    value = est_var_stored(var);
    est_tensor *tensor;
    est_status  status;

    if (est_lazy_wait(var)) return add_waiting(writer, var->name, &value.shape, NULL, var, pool);
    if (var->device->runs != NULL) {
        EST_TRY(est_var_read(var, pool, &tensor));
    } else {
        EST_TRY(est_tensor_wrap(value.dtype, value.shape, value.data, NULL, NULL, &tensor));
    }
    status = est_bundle_add(writer, var->name, tensor);
    est_tensor_free(tensor);
    return status;
}

/* Bytes [first, first + n) of item i. */
static est_status read_piece(est_snapshot *snapshot, int i, size_t first, size_t n, char *piece)
{
    const saved *item = &snapshot->items[i];
    est_view     view = { piece, item->dtype, EST_SHAPE((int64_t)(n / est_dtype_size(item->dtype))), 0 };

    for (size_t at = 0; at < n; at += EST_COW_CHUNK) {
        EST_TRY(
            est_cow_read(snapshot->cow, i, first + at, n - at < EST_COW_CHUNK ? n - at : EST_COW_CHUNK, piece + at));
    }
    if (!est_view_has_nan(&view)) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "variable '%s' has a NaN: it is not saved", item->key);
}

static est_status write_item(est_bundle_writer *writer, est_snapshot *snapshot, int i, char *piece)
{
    const saved *item = &snapshot->items[i];

    EST_TRY(est_bundle_begin(writer, item->key, item->dtype, &item->full, item->slice.rank < 0 ? NULL : &item->slice));
    for (size_t at = 0; at < item->bytes; at += PIECE_BYTES) {
        size_t n = item->bytes - at < PIECE_BYTES ? item->bytes - at : PIECE_BYTES;

        EST_TRY(read_piece(snapshot, i, at, n, piece));
        EST_TRY(est_bundle_append(writer, piece, n));
    }
    return est_bundle_end(writer);
}

/* What is kept for the snapshot is let go when all has been read: the disk may take its time. */
est_status est_snapshot_write(est_snapshot *snapshot, const char *prefix)
{
    est_bundle_writer *writer = NULL;
    char              *piece  = est_alloc(PIECE_BYTES);
    est_status         status = piece != NULL ? est_bundle_writer_create(prefix, 0, &writer) : est_no_memory();

    for (int i = 0; i < snapshot->n && status == EST_OK; i++) status = write_item(writer, snapshot, i, piece);
    est_cow_end(snapshot->cow);
    est_free(piece);
    if (status == EST_OK) status = est_bundle_finish(writer);
    est_bundle_writer_free(writer);
    return status;
}

est_status est_part_prefix(const char *prefix, int part, char **out)
{
    est_strbuf text = { 0 };

    est_strbuf_printf(&text, "%s.part%d", prefix, part);
    return est_strbuf_take(&text, out);
}
