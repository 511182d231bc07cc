/* SPDX-License-Identifier: Apache-2.0
 *
 * The variables and the lookup tables of a process, by name. */
#include "runtime/store.h"

#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "graph/variable.h"
#include "tensor/shape.h"

struct est_store {
    const est_device *device;
    est_map           by_name;
    est_var         **vars;
    int               n, max;
    est_map           tables; /* name -> est_lookup_table */
};

est_status est_store_create(const est_device *device, est_store **out)
{
    est_store *s = est_zalloc(sizeof *s);

    if (s == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for a variable store");
    s->device = device;
    *out      = s;
    return EST_OK;
}

static void free_var(const est_store *store, est_var *var)
{
    if (var == NULL) return;
    store->device->free(var->value.data);
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

void est_store_free(est_store *store)
{
    if (store == NULL) return;
    for (int i = 0; i < store->n; i++) free_var(store, store->vars[i]);
    est_free(store->vars);
    est_map_clear(&store->by_name);
    free_tables(store);
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

static est_status make_var(const est_store *store, const char *name, est_dtype dtype, const est_shape *shape,
                           est_var **out)
{
    est_var *var = est_zalloc(sizeof *var);
    size_t   bytes;

    if (var == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for variable '%s'", name);
    est_status status = est_shape_size(shape, dtype, &var->value.count, &bytes);
    if (status != EST_OK) {
        free_var(store, var);
        return est_fail_context(status, "variable '%s'", name);
    }
    var->name        = est_strdup(name);
    var->value.dtype = dtype;
    var->value.shape = *shape;
    var->value.data  = store->device->alloc(bytes > 0 ? bytes : 1);
    if (var->name == NULL || var->value.data == NULL) {
        free_var(store, var);
        return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for variable '%s' (%zu bytes)", name, bytes);
    }
    *out = var;
    return EST_OK;
}

static est_status add_var(est_store *store, est_var *var)
{
    if (store->n == store->max) {
        int       max  = store->max == 0 ? 64 : 2 * store->max;
        est_var **more = est_realloc(store->vars, sizeof *more * (size_t)max);
        if (more == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for variable '%s'", var->name);
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
        EST_TRY(make_var(store, name, dtype, &shape, &var));
        status = add_var(store, var);
        if (status != EST_OK) {
            free_var(store, var);
            return status;
        }
    } else {
        EST_TRY(check_same(var, dtype, &shape));
    }
    *out = var;
    return EST_OK;
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

static est_status make_table(est_store *store, const char *name, const est_lookup_table *want, est_lookup_table **out)
{
    est_lookup_table *table = est_alloc(sizeof *table);
    est_status        status;

    if (table == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for table '%s'", name);
    *table      = *want;
    table->name = est_strdup(name);
    status      = table->name != NULL ? est_map_put(&store->tables, name, table)
                                      : est_fail(EST_RESOURCE_EXHAUSTED, "no memory for table '%s'", name);
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
