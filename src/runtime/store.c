/* SPDX-License-Identifier: Apache-2.0
 *
 * The variables and the lookup tables of a process, by name. */
#include "runtime/store.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fingerprint.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "kernels/copy_on_write.h"
#include "kernels/lazy_rows.h"
#include "kernels/random_stream.h"
#include "kernels/variable_access.h"
#include "tensor/shape.h"

struct est_store {
    est_map         by_name;
    est_var       **vars;
    int             n, max;
    bool            has_copies; /* some variable has; or had */
    est_map         tables;     /* name -> est_lookup_table */
    est_row_table **row_tables;
    int             n_row_tables;
};

est_status est_store_create(est_store **out)
{
    est_store *s = est_zalloc(sizeof *s);

    if (s == NULL) return est_no_memory();
    *out = s;
    return EST_OK;
}

/* At least 1, so that there is memory. */
static size_t value_bytes(const est_view *value)
{
    return value->count > 0 ? (size_t)value->count * est_dtype_size(value->dtype) : 1;
}

static void free_memory(est_var *var)
{
    if (var->elsewhere) {
        assert(var->value.data == NULL);
    } else if (var->mapping.pages != NULL) {
        est_mapping_clear(&var->mapping);
    } else if (var->rows != NULL) {
        est_unreserve(var->value.data, value_bytes(&var->value));
    } else {
        var->device->free(var->device, var->value.data);
    }
    est_lazy_rows_free(var->lazy);
}

static void free_var(est_var *var)
{
    if (var == NULL) return;
    est_cow_leave(var);
    free_memory(var);
    for (int i = 0; i < var->n_shards; i++) free_var(var->shards[i]);
    for (int i = 0; i < var->n_copies; i++) free_var(var->copies[i]);
    est_free(var->shards);
    est_free(var->copies);
    est_free((char *)(uintptr_t)var->name);
    est_free(var);
}

static void free_table(est_lookup_table *table)
{
    est_lookup_table_clear(table);
    est_free((char *)(uintptr_t)table->name);
    est_free(table);
}

static void free_tables(est_store *store)
{
    const char *name;
    void       *table;
    uint32_t    at = 0;

    while (est_map_next(&store->tables, &at, &name, &table)) free_table(table);
    est_map_clear(&store->tables);
}

static void free_row_table(est_row_table *table)
{
    est_key_rows_clear(&table->rows);
    est_key_rows_clear(&table->candidates);
    est_key_log_clear(&table->log);
    est_free(table);
}

void est_store_free(est_store *store)
{
    if (store == NULL) return;
    for (int i = 0; i < store->n; i++) free_var(store->vars[i]);
    est_free(store->vars);
    est_map_clear(&store->by_name);
    free_tables(store);
    for (int i = 0; i < store->n_row_tables; i++) free_row_table(store->row_tables[i]);
    est_free(store->row_tables);
    est_free(store);
}

static est_status check_same(const est_var *var, est_dtype dtype, const est_shape *shape)
{
    char have[EST_SHAPE_TEXT_MAX], want[EST_SHAPE_TEXT_MAX];

    if (var->value.dtype == dtype && est_shape_equal(&var->value.shape, shape)) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "variable '%s' is %s %s, asked for as %s %s", var->name,
                    est_dtype_name(var->value.dtype), est_shape_text(&var->value.shape, have), est_dtype_name(dtype),
                    est_shape_text(shape, want));
}

#define HERE (-1) /* in place of a task: this process has the memory */

static est_status allocate(est_var *var, size_t bytes)
{
    bool rows = var->rows != NULL;

    var->value.data = rows ? est_reserve(value_bytes(&var->value))
                           : var->device->zalloc(var->device, value_bytes(&var->value));
    if (var->value.data != NULL) return EST_OK;
    if (!rows && var->device->runs != NULL) {
        return est_fail(EST_RESOURCE_EXHAUSTED, "no memory left on the device %s:%d for variable '%s' (%zu bytes)",
                        var->device->kind, var->device->number, var->name, bytes);
    }
    return est_fail(EST_RESOURCE_EXHAUSTED, "no %s for variable '%s' (%zu bytes)",
                    rows ? "address space (lower max_rows, or raise ulimit -v)" : "memory", var->name, bytes);
}

/* rows: NULL, or the set of keys that the variable has rows for; those have values from the beginning. */
static est_status make_var_on(const est_device *device, const char *name, est_dtype dtype, const est_shape *shape,
                              est_key_rows *rows, int task, est_var **out)
{
    est_var *var = est_zalloc(sizeof *var);
    size_t   bytes;

    if (var == NULL) return est_no_memory();
    var->device       = device;
    est_status status = est_shape_size(shape, dtype, &var->value.count, &bytes);
    if (status != EST_OK) {
        free_var(var);
        return est_fail_context(status, "variable '%s'", name);
    }
    var->name        = est_strdup(name);
    var->value.dtype = dtype;
    var->value.shape = *shape;
    var->rows        = rows;
    var->initialized = rows != NULL && task == HERE;
    var->blank       = rows == NULL;
    var->elsewhere   = task != HERE;
    var->task        = task != HERE ? task : 0;
    status           = var->name != NULL ? EST_OK : est_no_memory();
    if (status == EST_OK && task == HERE) status = allocate(var, bytes);
    if (status == EST_OK && task == HERE && rows == NULL && device->runs == NULL && est_lazy_may_wait(dtype, shape)) {
        status = est_lazy_rows_create(var);
    }
    if (status != EST_OK) {
        free_var(var);
        return status;
    }
    *out = var;
    return EST_OK;
}

static est_status make_var(const char *name, est_dtype dtype, const est_shape *shape, est_key_rows *rows, int task,
                           est_var **out)
{
    return make_var_on(&est_device_cpu, name, dtype, shape, rows, task, out);
}

static est_status add_var(est_store *store, est_var *var)
{
    if (store->n == store->max) {
        int       max  = store->max == 0 ? 64 : 2 * store->max;
        est_var **more = est_realloc(store->vars, sizeof *more * (size_t)max);
        if (more == NULL) return est_no_memory();
        store->vars = more;
        store->max  = max;
    }
    EST_TRY(est_map_put(&store->by_name, var->name, var));
    store->vars[store->n++] = var;
    return EST_OK;
}

est_status est_store_get(est_store *store, const char *name, est_dtype dtype, est_shape shape, est_var **out)
{
    est_var   *var = est_store_find(store, name);
    est_status status;

    if (var == NULL) {
        if (dtype == EST_STRING) return est_fail(EST_UNIMPLEMENTED, "variable '%s': variables hold numbers", name);
        EST_TRY(make_var(name, dtype, &shape, NULL, HERE, &var));
        status = add_var(store, var);
        if (status != EST_OK) {
            free_var(var);
            return status;
        }
    } else {
        EST_TRY(check_same(var, dtype, &shape));
    }
    *out = var;
    return EST_OK;
}

void est_store_set_mapping(est_var *var, est_mapping mapping)
{
    assert(var->blank && !var->initialized && var->rows == NULL && !var->elsewhere);
    free_memory(var);
    var->mapping     = mapping;
    var->value.data  = mapping.data;
    var->lazy        = NULL;
    var->blank       = false;
    var->initialized = true;
}

est_status est_store_add_on(est_store *store, const est_node_def *handle, const est_device *device)
{
    est_var   *var = NULL;
    est_status status;

    EST_TRY(make_var_on(device, est_node_string(handle, "shared_name"), est_node_type(handle, "dtype"),
                        &handle->shape[0], NULL, HERE, &var));
    status = add_var(store, var);
    if (status != EST_OK) free_var(var);
    return status;
}

static est_status add_copy(est_store *store, est_var *var, const est_device *device)
{
    est_strbuf name = { 0 };
    est_var   *copy;
    est_status status;

    est_strbuf_printf(&name, EST_COPY_NAME, var->name, var->n_copies + 1);
    status = est_strbuf_status(&name);
    if (status == EST_OK && est_store_find(store, est_strbuf_text(&name)) != NULL) {
        status = est_fail(EST_ALREADY_EXISTS, "a copy of variable '%s' is called '%s', and so is a variable", var->name,
                          est_strbuf_text(&name));
    }
    if (status == EST_OK) {
        status = make_var_on(device, est_strbuf_text(&name), var->value.dtype, &var->value.shape, NULL, HERE, &copy);
    }
    est_strbuf_clear(&name);
    EST_TRY(status);
    var->copies[var->n_copies++] = copy;
    return est_map_put(&store->by_name, copy->name, copy);
}

static void drop_copies(est_store *store, est_var *var)
{
    while (var->n_copies > 0) {
        est_var *copy = var->copies[--var->n_copies];

        (void)est_map_remove(&store->by_name, copy->name);
        free_var(copy);
    }
    var->stale = false;
}

est_status est_store_add_copies(est_store *store, const est_node_def *handle, const est_device *const *devices, int n)
{
    est_var   *var;
    est_status status = EST_OK;

    EST_TRY(est_store_add_on(store, handle, devices[0]));
    var         = est_store_find(store, est_node_string(handle, "shared_name"));
    var->copies = est_alloc(sizeof(est_var *) * (size_t)n);
    if (var->copies == NULL) return est_no_memory();
    store->has_copies = true;
    for (int i = 1; i < n && status == EST_OK; i++) status = add_copy(store, var, devices[i]);
    if (status != EST_OK) drop_copies(store, var);
    return status;
}

est_status est_store_move_here(est_store *store, est_var *var)
{
    size_t     bytes = value_bytes(&var->value);
    void      *here  = est_device_cpu.zalloc(&est_device_cpu, bytes);
    est_status status;

    if (here == NULL) return est_no_memory();
    status = var->device->copy_out(var->device, here, var->value.data, bytes);
    if (status != EST_OK) {
        est_device_cpu.free(&est_device_cpu, here);
        return status;
    }
    drop_copies(store, var);
    var->device->free(var->device, var->value.data);
    var->device     = &est_device_cpu;
    var->value.data = here;
    return EST_OK;
}

/* Only what is known of it here; it is not in the store yet. */
static est_status make_elsewhere(const char *name, est_dtype dtype, const est_shape *shape, int task, est_var **out)
{
    est_var   *var = est_zalloc(sizeof *var);
    est_status status;

    if (var == NULL) return est_no_memory();
    var->value.dtype = dtype;
    var->value.shape = *shape;
    var->device      = &est_device_cpu;
    var->elsewhere   = true;
    var->task        = task;
    var->name        = est_strdup(name);
    status           = var->name != NULL ? est_shape_size(&var->value.shape, var->value.dtype, &var->value.count, NULL)
                                         : est_no_memory();
    if (status != EST_OK) {
        est_free((char *)(uintptr_t)var->name);
        est_free(var);
        return status;
    }
    *out = var;
    return EST_OK;
}

/* Makes shard i of `whole` and lets it be found. */
static est_status add_shard(est_store *store, est_var *whole, int n, int i, int task)
{
    est_strbuf name  = { 0 };
    est_shape  shape = whole->value.shape;
    int64_t    first = est_shard_first(shape.dim[0], n, i);
    est_var   *shard;
    est_status status;

    shape.dim[0] = est_shard_first(shape.dim[0], n, i + 1) - first;
    est_strbuf_printf(&name, EST_SHARD_NAME, whole->name, i);
    status = est_strbuf_status(&name);
    if (status == EST_OK && est_store_find(store, est_strbuf_text(&name)) != NULL) {
        status = est_fail(EST_ALREADY_EXISTS, "a shard of variable '%s' is called '%s', and so is a variable",
                          whole->name, est_strbuf_text(&name));
    }
    if (status == EST_OK) status = make_elsewhere(est_strbuf_text(&name), whole->value.dtype, &shape, task, &shard);
    est_strbuf_clear(&name);
    EST_TRY(status);
    shard->whole                     = whole;
    shard->first_row                 = first;
    whole->shards[whole->n_shards++] = shard;
    return est_map_put(&store->by_name, shard->name, shard);
}

est_status est_store_add_shards(est_store *store, const est_node_def *handle, const int *tasks, int n)
{
    est_var   *var;
    est_status status;

    EST_TRY(make_elsewhere(est_node_string(handle, "shared_name"), est_node_type(handle, "dtype"), &handle->shape[0],
                           -1, &var));
    var->shards = est_alloc(sizeof(est_var *) * (size_t)n);
    status      = var->shards != NULL ? EST_OK : est_no_memory();
    for (int i = 0; i < n && status == EST_OK; i++) status = add_shard(store, var, n, i, tasks[i]);
    if (status == EST_OK) status = add_var(store, var);
    if (status != EST_OK) {
        for (int i = 0; i < var->n_shards; i++) (void)est_map_remove(&store->by_name, var->shards[i]->name);
        free_var(var);
    }
    return status;
}

est_var *est_store_find(const est_store *store, const char *name)
{
    return est_map_get(&store->by_name, name);
}

int est_store_size(const est_store *store)
{
    return store->n;
}

est_var *est_store_at(const est_store *store, int i)
{
    return store->vars[i];
}

est_status est_var_read(const est_var *var, est_pool *pool, est_tensor **out)
{
    est_view    stored = est_var_stored(var);
    est_tensor *tensor;
    est_status  status;

    EST_TRY(est_tensor_create(stored.dtype, stored.shape, &tensor));
    status = est_var_get(var, pool, 0, est_tensor_count(tensor), est_tensor_mutable_data(tensor));
    if (status != EST_OK) {
        est_tensor_free(tensor);
        return status;
    }
    *out = tensor;
    return EST_OK;
}

est_status est_var_write(est_var *var, const void *value)
{
    est_cow_keep_all(var);
    est_lazy_overwritten(var);
    EST_TRY(est_var_put(var, 0, var->value.count, value));
    var->initialized = true;
    return EST_OK;
}

est_status est_var_get(const est_var *var, est_pool *pool, int64_t first, int64_t n, void *out)
{
    size_t size = est_dtype_size(var->value.dtype);

    if (var->device->runs == NULL) {
        est_lazy_copy(var, pool, first, n, out);
        return EST_OK;
    }
    return var->device->copy_out(var->device, out, (const char *)var->value.data + (size_t)first * size,
                                 (size_t)n * size);
}

est_status est_var_put(est_var *var, int64_t first, int64_t n, const void *from)
{
    size_t size  = est_dtype_size(var->value.dtype);
    bool   stale = var->stale;

    var->stale = var->n_copies > 0;
    for (int i = 0; i < var->n_copies; i++) {
        EST_TRY(est_var_put(var->copies[i], first, n, from));
        var->copies[i]->initialized = true; /* as the variable is, or it is not used */
    }
    var->blank = false;
    EST_TRY(var->device->copy_in(var->device, (char *)var->value.data + (size_t)first * size, from, (size_t)n * size));
    var->stale = stale;
    return EST_OK;
}

void est_store_spoil_copies(est_store *store)
{
    for (int i = 0; i < store->n; i++) store->vars[i]->stale = store->vars[i]->n_copies > 0;
}

static est_status renew_copies(est_var *var)
{
    void      *value  = est_alloc(value_bytes(&var->value));
    est_status status = value != NULL ? est_var_get(var, NULL, 0, var->value.count, value) : est_no_memory();

    for (int i = 0; i < var->n_copies && status == EST_OK; i++) {
        status                      = est_var_put(var->copies[i], 0, var->value.count, value);
        var->copies[i]->initialized = var->initialized;
    }
    est_free(value);
    if (status != EST_OK) return est_fail_context(status, "copies of variable '%s' after a failure", var->name);
    var->stale = false;
    return EST_OK;
}

est_status est_store_renew_copies(est_store *store)
{
    for (int i = 0; store->has_copies && i < store->n; i++) {
        if (store->vars[i]->stale) EST_TRY(renew_copies(store->vars[i]));
    }
    return EST_OK;
}

/* --- rows for keys ------------------------------------------------------------------------------------------------ */

/* A variable of the store "<name><part>" that has rows of the set, and if it is no scalar one for each key. */
static est_status add_row_var(est_store *store, const char *name, const char *part, est_dtype dtype, est_shape shape,
                              est_key_rows *rows, int task, est_var **out)
{
    est_strbuf full = { 0 };
    est_status status;

    est_strbuf_printf(&full, "%s%s", name, part);
    status = est_strbuf_status(&full);
    if (status == EST_OK && est_store_find(store, est_strbuf_text(&full)) != NULL) {
        status = est_fail(EST_ALREADY_EXISTS, "the dynamic embedding '%s' needs a variable '%s', and there is one",
                          name, est_strbuf_text(&full));
    }
    if (status == EST_OK) status = make_var(est_strbuf_text(&full), dtype, &shape, rows, task, out);
    est_strbuf_clear(&full);
    EST_TRY(status);
    status = add_var(store, *out);
    if (status != EST_OK) free_var(*out);
    return status;
}

static est_status make_keys(est_store *store, const char *name, const char *const parts[3], int64_t max, int task,
                            est_key_rows *set)
{
    est_var *keys, *seen, *older;

    EST_TRY(add_row_var(store, name, parts[0], EST_I64, EST_SHAPE(max), set, task, &keys));
    EST_TRY(add_row_var(store, name, parts[1], EST_I64, EST_SHAPE(max), set, task, &seen));
    EST_TRY(add_row_var(store, name, parts[2], EST_I32, EST_SHAPE(max), set, task, &older));
    return est_key_rows_init(set, keys, seen, older);
}

/* What the table is made of besides the embedding. */
static est_status fill_row_table(est_store *store, const est_row_spec *spec, int task, est_row_table *table)
{
    static const char *const rows[3]       = { "/keys", "/last_seen", "/older" };
    static const char *const candidates[3] = { "/candidates/keys", "/candidates/last_seen", "/candidates/older" };

    est_var *steps, *sightings;

    table->admit_after = spec->admit_after;
    table->max_age     = spec->max_age;
    EST_TRY(make_keys(store, spec->name, rows, spec->shape.dim[0], task, &table->rows));
    EST_TRY(make_keys(store, spec->name, candidates, EST_CANDIDATES_MAX, task, &table->candidates));
    EST_TRY(add_row_var(store, spec->name, "/steps", EST_I64, EST_SHAPE_SCALAR, &table->rows, task, &steps));
    EST_TRY(add_row_var(store, spec->name, "/candidates/sightings", EST_I64, EST_SHAPE(EST_CANDIDATES_MAX),
                        &table->candidates, task, &sightings));
    table->steps     = steps->value.data;
    table->sightings = sightings->value.data;
    return est_key_rows_add_variable(&table->candidates, sightings);
}

/* The table is the store's as soon as it is listed: variables that were made before a failure point to it. */
static est_status make_row_table(est_store *store, const est_row_spec *spec, int task, est_row_table **out)
{
    est_row_table **more  = est_realloc(store->row_tables, sizeof(est_row_table *) * ((size_t)store->n_row_tables + 1));
    est_row_table  *table = est_zalloc(sizeof *table);

    if (more != NULL) store->row_tables = more;
    if (more == NULL || table == NULL) {
        est_free(table);
        return est_no_memory();
    }
    store->row_tables[store->n_row_tables++] = table;
    *out                                     = table;
    return fill_row_table(store, spec, task, table);
}

static est_status make_row_variable(est_store *store, const est_row_spec *spec, int task, est_var **out)
{
    const est_var *embedding = spec->rows_of != NULL ? est_store_find(store, spec->rows_of) : NULL;
    est_row_table *table     = NULL;
    est_var       *var;

    if (spec->rows_of == NULL) {
        EST_TRY(make_row_table(store, spec, task, &table));
    } else if (embedding != NULL && embedding->rows != NULL) {
        table = est_row_table_of(embedding);
    } else {
        return est_fail(EST_INVALID_ARGUMENT, "'%s' is to have the rows of '%s', which has none", spec->name,
                        spec->rows_of);
    }
    EST_TRY(add_row_var(store, spec->name, "", spec->dtype, spec->shape, &table->rows, task, &var));
    var->draw = spec->draw;
    *out      = var;
    return est_key_rows_add_variable(&table->rows, var);
}

static est_row_spec spec_of_handle(const est_node_def *handle)
{
    const char *name = est_node_string(handle, "shared_name"), *of = est_node_string(handle, "rows_of");

    return (est_row_spec){ .name        = name,
                           .rows_of     = of[0] != '\0' ? of : NULL,
                           .dtype       = est_node_type(handle, "dtype"),
                           .shape       = handle->shape[0],
                           .draw        = { .distribution = (int)est_node_int(handle, "distribution"),
                                            .a            = est_node_float(handle, "a"),
                                            .b            = est_node_float(handle, "b"),
                                            .seed         = est_stream_mix((uint64_t)est_node_int(handle, "seed") +
                                                                           est_fingerprint64(name, strlen(name))) },
                           .admit_after = est_node_int(handle, "admit_after"),
                           .max_age     = est_node_int(handle, "max_age") };
}

est_status est_store_rows(est_store *store, const est_row_spec *spec, est_var **out)
{
    est_var *var = est_store_find(store, spec->name);

    if (var == NULL && spec->draw.distribution == EST_ROW_UNKNOWN) {
        return est_fail(EST_ABORTED, "the dynamic embedding '%s' is not here yet: the chief makes it", spec->name);
    }
    if (var == NULL) return make_row_variable(store, spec, HERE, out);
    EST_TRY(check_same(var, spec->dtype, &spec->shape));
    *out = var;
    return EST_OK;
}

static est_row_table *table_of(const est_store *store, const est_var *var)
{
    int i = 0;

    while (var->rows != &store->row_tables[i]->rows && var->rows != &store->row_tables[i]->candidates) i++;
    return store->row_tables[i];
}

const est_key_rows *est_store_table_rows(const est_store *store, const est_var *var)
{
    return &table_of(store, var)->rows;
}

/* The embedding is the first variable of its keys that is not their own. */
est_row_spec est_store_row_spec(const est_store *store, const est_var *var)
{
    const est_row_table *table = table_of(store, var);
    const est_var       *embedding;
    bool                 slot = false;

    assert(table->rows.n_vars > 3);
    embedding = table->rows.vars[3];
    for (int i = 4; i < table->rows.n_vars; i++) slot = slot || table->rows.vars[i] == var;
    if (!slot) var = embedding;
    return (est_row_spec){ .name        = var->name,
                           .rows_of     = slot ? embedding->name : NULL,
                           .dtype       = var->value.dtype,
                           .shape       = var->value.shape,
                           .draw        = var->draw,
                           .admit_after = table->admit_after,
                           .max_age     = table->max_age };
}

void est_store_clear_rows(const est_store *store, const est_var *var)
{
    est_row_table_clear(table_of(store, var));
}

est_status est_store_variable(est_store *store, const est_node_def *handle, est_var **out)
{
    est_row_spec spec;

    if (!handle->op->has_rows) {
        return est_store_get(store, est_node_string(handle, "shared_name"), est_node_type(handle, "dtype"),
                             handle->shape[0], out);
    }
    spec = spec_of_handle(handle);
    return est_store_rows(store, &spec, out);
}

est_status est_store_add_elsewhere(est_store *store, const est_node_def *handle, int task)
{
    est_row_spec spec;
    est_var     *var;
    est_status   status;

    if (handle->op->has_rows) {
        spec = spec_of_handle(handle);
        return make_row_variable(store, &spec, task, &var);
    }
    EST_TRY(make_var(est_node_string(handle, "shared_name"), est_node_type(handle, "dtype"), &handle->shape[0], NULL,
                     task, &var));
    status = add_var(store, var);
    if (status != EST_OK) free_var(var);
    return status;
}

est_key_rows *est_store_keys(const est_store *store, int i)
{
    if (i >= 2 * store->n_row_tables) return NULL;
    return i % 2 == 0 ? &store->row_tables[i / 2]->rows : &store->row_tables[i / 2]->candidates;
}

static est_status copy_rows(est_key_rows *set, const est_store *from, int64_t n)
{
    if (n > set->max) {
        return est_fail(EST_INVALID_ARGUMENT, "'%s' has room for %" PRId64 " keys, not for %" PRId64,
                        set->vars[0]->name, set->max, n);
    }
    for (int i = 0; i < set->n_vars; i++) {
        est_var       *var   = set->vars[i];
        const est_var *other = est_store_find(from, var->name);
        size_t         row   = (size_t)(var->value.count / set->max) * est_dtype_size(var->value.dtype);

        if (other == NULL) continue;
        est_cow_keep_rows(var, 0, n);
        memcpy(var->value.data, other->value.data, (size_t)n * row);
    }
    return est_key_rows_restore(set, n);
}

est_status est_store_copy_rows(est_store *to, const est_store *from)
{
    est_key_rows *set;

    for (int i = 0; (set = est_store_keys(to, i)) != NULL; i++) {
        const est_var *keys = est_store_find(from, set->vars[0]->name);

        if (set->vars[0]->elsewhere || keys == NULL || keys->rows == NULL || keys->elsewhere) continue;
        EST_TRY(copy_rows(set, from, keys->rows->n));
    }
    return EST_OK;
}

/* --- lookup tables ------------------------------------------------------------------------------------------------ */

static est_status make_table(est_store *store, const char *name, const est_lookup_table *want, est_lookup_table **out)
{
    est_lookup_table *table = est_alloc(sizeof *table);
    est_status        status;

    if (table == NULL) return est_no_memory();
    *table      = *want;
    table->name = est_strdup(name);
    status      = table->name != NULL ? est_map_put(&store->tables, name, table) : est_no_memory();
    if (status != EST_OK) {
        free_table(table);
        return status;
    }
    *out = table;
    return EST_OK;
}

est_status est_store_table(est_store *store, const est_node_def *handle, est_lookup_table **out)
{
    const char            *name  = est_lookup_table_name(handle);
    est_lookup_table      *table = est_map_get(&store->tables, name);
    const est_lookup_table want  = { .key_dtype   = est_node_type(handle, "key_dtype"),
                                     .value_dtype = est_node_type(handle, "value_dtype") };

    if (table == NULL) return make_table(store, name, &want, out);
    if (table->key_dtype != want.key_dtype || table->value_dtype != want.value_dtype) {
        return est_fail(EST_INVALID_ARGUMENT, "table '%s' is from %s to %s, asked for as from %s to %s", name,
                        est_dtype_name(table->key_dtype), est_dtype_name(table->value_dtype),
                        est_dtype_name(want.key_dtype), est_dtype_name(want.value_dtype));
    }
    *out = table;
    return EST_OK;
}
