/* SPDX-License-Identifier: Apache-2.0
 *
 * State transfer: the variables of one rank to all others.
 *
 * First all ranks gather an inventory: their variables, the terms of their graph, and a fingerprint of each value. So
 * all ranks see the same difference between models, if there is one, and fail alike. Then the values that some rank
 * lacks are broadcast in the order of names, large ones alone and small ones in packs.
 *
 *   ST1  The source may be lost on the way, and a rank that had variables must still have them then. A value that is
 *        equal is received over itself, which changes no bit; another one is received into a staging buffer, and copied
 *        when all values have arrived. Only without memory for the buffer is it overwritten at once: a rank that does
 *        not get all values then is partial, and has no variables until it does. Values of variables on a device that
 *        runs by itself always travel from and to such a buffer. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fingerprint.h"
#include "cluster/terms.h"
#include "cluster/wait_table.h"
#include "collective/membership_internal.h"
#include "graph/graph.h"
#include "kernels/copy_on_write.h"
#include "kernels/key_rows.h"
#include "kernels/lazy_rows.h"
#include "runtime/session.h"
#include "tensor/shape.h"

#define PACK_BYTES  ((size_t)4 << 20)
#define LARGE_BYTES ((size_t)1 << 20) /* sent alone */

/* --- inventories -------------------------------------------------------------------------------------------------- */

enum { RUNS = 1, VARIABLE, TERMS };                                  /* of a rank */
enum { NAME = 1, DTYPE, DIMS, KEYED, KEYS, HAS_VALUE, FINGERPRINT }; /* of a variable */

/* A variable of a rank. */
typedef struct entry {
    est_str   name;
    est_dtype dtype;
    est_shape shape;
    bool      keyed; /* it has rows by key, */
    int64_t   keys;  /* this many */
    bool      has_value;
    uint64_t  fingerprint; /* of the value */
} entry;

typedef struct inventory {
    uint64_t runs;
    est_str  terms; /* of the graph */
    entry   *entries;
    int      n;
} inventory;

static bool is_far(const est_var *var)
{
    return var->device->runs != NULL;
}

/* Of the value; draws all of its rows. */
static est_status fingerprint_of(est_var *var, est_pool *pool, uint64_t *out)
{
    est_view    stored = est_var_stored(var);
    est_tensor *copy   = NULL;

    if (is_far(var)) {
        EST_TRY(est_var_read(var, pool, &copy));
        stored.data = est_tensor_mutable_data(copy);
    } else {
        est_lazy_draw_all(var, pool);
    }
    *out = est_fingerprint64(stored.data, (size_t)stored.count * est_dtype_size(stored.dtype));
    est_tensor_free(copy);
    return EST_OK;
}

static est_status write_inventory(est_session *session, est_var *const *vars, int n, est_wire_writer *out)
{
    est_wire_put_u64(out, RUNS, est_session_run_count(session));
    est_wire_put_string(out, TERMS, est_graph_terms(est_session_graph(session)));
    for (int i = 0; i < n; i++) {
        est_var *var         = vars[i];
        uint64_t fingerprint = 0;
        size_t   mark;

        if (var->elsewhere)
            return est_fail(EST_INVALID_ARGUMENT, "variable '%s' is stored by another task: it cannot be transferred",
                            var->name);
        if (var->initialized) EST_TRY(fingerprint_of(var, est_session_pool(session), &fingerprint));
        mark = est_wire_begin(out, VARIABLE);
        est_wire_put_string(out, NAME, var->name);
        est_wire_put_i64(out, DTYPE, var->value.dtype);
        est_wire_put_i64s(out, DIMS, var->value.shape.dim, (size_t)var->value.shape.rank);
        est_wire_put_bool(out, KEYED, var->rows != NULL);
        est_wire_put_i64(out, KEYS, var->rows != NULL ? var->rows->n : 0);
        est_wire_put_bool(out, HAS_VALUE, var->initialized);
        if (var->initialized) est_wire_put_u64(out, FINGERPRINT, fingerprint);
        est_wire_end(out, mark);
    }
    return est_wire_writer_status(out);
}

static est_status read_dims(est_wire_reader *r, const est_wire_field *field, est_shape *out)
{
    est_wire_list list;
    uint64_t      dim;

    est_wire_list_init(r, field, EST_WIRE_VARINT, &list);
    while (est_wire_list_next(&list, &dim)) {
        if (out->rank == EST_RANK_MAX || dim > INT64_MAX) {
            return est_fail(EST_DATA_LOSS, "invalid shape of a variable: dimension %llu at rank %d",
                            (unsigned long long)dim, out->rank);
        }
        out->dim[out->rank++] = (int64_t)dim;
    }
    return EST_OK;
}

static est_status read_entry(est_wire_reader *outer, const est_wire_field *variable, entry *out)
{
    est_wire_reader r;
    est_wire_field  field;

    *out = (entry){ 0 };
    est_wire_message(outer, variable, "variable", &r);
    while (est_wire_next(&r, &field)) {
        switch (field.number) {
        case NAME: out->name = est_wire_bytes(&r, &field); break;
        case DTYPE: out->dtype = (est_dtype)est_wire_i32(&r, &field); break;
        case DIMS: EST_TRY(read_dims(&r, &field, &out->shape)); break;
        case KEYED: out->keyed = est_wire_u64(&r, &field) != 0; break;
        case KEYS: out->keys = est_wire_i64(&r, &field); break;
        case HAS_VALUE: out->has_value = est_wire_u64(&r, &field) != 0; break;
        case FINGERPRINT: out->fingerprint = est_wire_u64(&r, &field); break;
        default: break;
        }
    }
    return est_wire_finish(&r);
}

/* Freed with est_free(out->entries), also on failure; names are borrowed from the bytes. */
static est_status read_inventory(const void *bytes, size_t size, inventory *out)
{
    est_wire_reader r;
    est_wire_field  field;
    int             max = 0;

    est_wire_reader_init(&r, "variables", bytes, size);
    while (est_wire_next(&r, &field)) {
        if (field.number == RUNS) out->runs = est_wire_u64(&r, &field);
        if (field.number == TERMS) out->terms = est_wire_bytes(&r, &field);
        if (field.number != VARIABLE) continue;
        if (out->n == max) {
            entry *more = est_realloc(out->entries, sizeof *more * (size_t)(2 * max + 16));

            if (more == NULL) return est_no_memory();
            out->entries = more;
            max          = 2 * max + 16;
        }
        EST_TRY(read_entry(&r, &field, &out->entries[out->n]));
        out->n++;
    }
    return est_wire_finish(&r);
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

static int compare_names(est_str a, est_str b)
{
    size_t size  = a.size < b.size ? a.size : b.size;
    int    order = size > 0 ? memcmp(a.data, b.data, size) : 0;

    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

static est_status fail_lacks(const char *who, const entry *has, const char *other)
{
    return est_fail(EST_FAILED_PRECONDITION,
                    "%s has a variable '%.*s', and %s has none: all workers need the same model", who,
                    (int)has->name.size, has->name.data, other);
}

static est_status check_same(const inventory *a, const char *who_a, const inventory *b, const char *who_b)
{
    char shape_a[EST_SHAPE_TEXT_MAX], shape_b[EST_SHAPE_TEXT_MAX];

    for (int i = 0; i < a->n || i < b->n; i++) {
        const entry *x = &a->entries[i], *y = &b->entries[i];
        int          order;

        if (i >= b->n) return fail_lacks(who_a, x, who_b);
        if (i >= a->n) return fail_lacks(who_b, y, who_a);
        order = compare_names(x->name, y->name);
        if (order < 0) return fail_lacks(who_a, x, who_b);
        if (order > 0) return fail_lacks(who_b, y, who_a);
        if (x->dtype == y->dtype && est_shape_equal(&x->shape, &y->shape) && x->keyed == y->keyed) continue;
        return est_fail(EST_FAILED_PRECONDITION,
                        "variable '%.*s' is %s%s %s at %s and %s%s %s at %s: all workers need the same model",
                        (int)x->name.size, x->name.data, x->keyed ? "rows for keys of " : "", est_dtype_name(x->dtype),
                        est_shape_text(&x->shape, shape_a), who_a, y->keyed ? "rows for keys of " : "",
                        est_dtype_name(y->dtype), est_shape_text(&y->shape, shape_b), who_b);
    }
    return est_terms_same(a->terms, who_a, b->terms, who_b);
}

/* --- transfer ----------------------------------------------------------------------------------------------------- */

/* The transfer of one variable. */
typedef struct move {
    bool  wanted; /* some rank has another value than the source, or none */
    bool  here;   /* this rank has the same value */
    void *to;     /* buffer to receive into, or to send from */
} move;

typedef struct transfer {
    est_rank_group *group;
    int             source;
    const char     *who, *source_name; /* this task and that of the source, for the status view */
    est_var *const *vars;              /* of this rank */
    inventory       from;              /* of the source */
    move           *moves;             /* [from.n] */
    uint8_t        *pack;
    uint8_t        *staging; /* staging buffer; NULL: none */
    bool           *partial; /* set while variables are, or may be, partly overwritten */
} transfer;

/* Compares the values of a rank with those of the source. */
static void compare_values(transfer *t, int rank, const inventory *other)
{
    for (int i = 0; i < t->from.n; i++) {
        const entry *a = &t->from.entries[i], *b = &other->entries[i];
        bool         same = b->has_value && a->keys == b->keys && a->fingerprint == b->fingerprint;

        if (!same) t->moves[i].wanted = true;
        if (rank == est_group_rank(t->group)) t->moves[i].here = same;
    }
}

static const char *name_of(const est_membership *m, int rank)
{
    return m->tasks[m->agreed.members.data[rank]].task;
}

/* Compares all inventories with that of the source. All ranks get the same result. */
static est_status check_all(const est_membership *m, const est_gathered *all, transfer *t)
{
    const char *data   = all->data;
    size_t      begin  = all->begins[t->source];
    est_status  status = read_inventory(data + begin, all->begins[t->source + 1] - begin, &t->from);

    if (status == EST_OK) {
        t->moves = est_zalloc(sizeof *t->moves * ((size_t)t->from.n + 1));
        if (t->moves == NULL) status = est_no_memory();
    }
    for (int i = 0; i < m->agreed.members.n && status == EST_OK; i++) {
        inventory other = { 0 };

        status = read_inventory(data + all->begins[i], all->begins[i + 1] - all->begins[i], &other);
        if (status == EST_OK) status = check_same(&t->from, t->source_name, &other, name_of(m, i));
        if (status == EST_OK) compare_values(t, i, &other);
        est_free(other.entries);
    }
    for (int i = 0; i < t->from.n && status == EST_OK; i++) {
        const entry *has = &t->from.entries[i];

        if (has->has_value) continue;
        status = est_fail(EST_FAILED_PRECONDITION, "variable '%.*s' of %s has no value to transfer",
                          (int)has->name.size, has->name.data, t->source_name);
    }
    return status;
}

static bool is_source(const transfer *t)
{
    return est_group_rank(t->group) == t->source;
}

/* Bytes of the source's value; of a variable with rows by key, those of its keys. */
static size_t bytes_of(const transfer *t, int i)
{
    const est_view *value = &t->vars[i]->value;
    int64_t         count = value->count, rows = value->shape.rank > 0 ? value->shape.dim[0] : 0;

    if (t->vars[i]->rows != NULL && value->shape.rank > 0)
        count = rows > 0 ? count / rows * t->from.entries[i].keys : 0;
    return (size_t)count * est_dtype_size(value->dtype);
}

/* Whether this rank gets another value than it has, */
static bool is_new(const transfer *t, int i)
{
    return t->moves[i].wanted && !t->moves[i].here && !is_source(t);
}

/* and has one. */
static bool is_other(const transfer *t, int i)
{
    const est_var *var = t->vars[i];

    return is_new(t, i) && (var->rows != NULL ? var->rows->n > 0 : var->initialized);
}

/* Whether a value is received into the buffer, or sent from it. */
static bool is_staged(const transfer *t, int i)
{
    return is_other(t, i) || (t->moves[i].wanted && is_far(t->vars[i]));
}

/* Keeps ST1. */
static est_status choose_places(transfer *t)
{
    size_t bytes   = 0;
    bool   has_far = false;

    for (int i = 0; i < t->from.n; i++) {
        has_far = has_far || (t->moves[i].wanted && is_far(t->vars[i]));
        bytes += is_staged(t, i) ? bytes_of(t, i) : 0;
    }
    if (bytes > 0) t->staging = est_alloc(bytes);
    if (has_far && bytes > 0 && t->staging == NULL) return est_no_memory();
    bytes = 0;
    for (int i = 0; i < t->from.n; i++) {
        t->moves[i].to = t->vars[i]->value.data;
        if (!is_staged(t, i) || t->staging == NULL) continue;
        t->moves[i].to = t->staging + bytes;
        bytes += bytes_of(t, i);
        if (is_source(t)) EST_TRY(est_var_get(t->vars[i], NULL, 0, t->vars[i]->value.count, t->moves[i].to));
    }
    return EST_OK;
}

/* Called before a value is received. */
static void mark_overwritten(const transfer *t, int i)
{
    if (is_other(t, i) && t->staging == NULL && bytes_of(t, i) > 0) *t->partial = true;
    if (!is_source(t) && t->moves[i].to == t->vars[i]->value.data) est_cow_keep_all(t->vars[i]);
}

static est_status broadcast(const transfer *t, void *data, size_t bytes)
{
    est_work   *work;
    est_waiting wait;
    est_status  status;

    EST_TRY(est_broadcast(t->group, data, bytes, t->source, NULL, &work));
    wait   = est_wait_begin(t->who, t->source_name, "variables", INFINITY); /* the work has its own deadline and log */
    status = est_work_wait(work);
    est_wait_end(&wait);
    return status;
}

static bool is_small(const transfer *t, int i)
{
    return !t->moves[i].wanted || bytes_of(t, i) < LARGE_BYTES;
}

/* Bytes of a variable in a pack. */
static size_t packed_bytes(const transfer *t, int i)
{
    return t->moves[i].wanted ? bytes_of(t, i) : 0;
}

/* Broadcasts a pack of the small variables from `first` on. *n: how many fit. */
static est_status send_pack(const transfer *t, int first, int *n)
{
    size_t used = 0;
    int    end  = first;

    for (; end < t->from.n && is_small(t, end) && used + packed_bytes(t, end) <= PACK_BYTES; end++) {
        if (is_source(t) && packed_bytes(t, end) > 0) memcpy(t->pack + used, t->moves[end].to, packed_bytes(t, end));
        used += packed_bytes(t, end);
    }
    *n = end - first;
    if (used > 0) EST_TRY(broadcast(t, t->pack, used));
    used = 0;
    for (int i = first; i < end && !is_source(t); i++) {
        mark_overwritten(t, i);
        if (packed_bytes(t, i) > 0) memcpy(t->moves[i].to, t->pack + used, packed_bytes(t, i));
        used += packed_bytes(t, i);
    }
    return EST_OK;
}

static est_status broadcast_all(const transfer *t)
{
    for (int i = 0, n; i < t->from.n; i += n) {
        n = 1;
        if (is_small(t, i)) {
            EST_TRY(send_pack(t, i, &n));
        } else {
            mark_overwritten(t, i);
            EST_TRY(broadcast(t, t->moves[i].to, bytes_of(t, i)));
        }
    }
    return EST_OK;
}

/* Whether the keys of a set have changed, */
static bool is_changed(const transfer *t, const est_key_rows *set)
{
    for (int i = 0; i < t->from.n; i++) {
        if (t->vars[i]->rows == set && is_new(t, i)) return true;
    }
    return false;
}

/* and how many keys the source has in it. */
static int64_t keys_of(const transfer *t, const est_key_rows *set)
{
    for (int i = 0; i < t->from.n; i++) {
        if (t->vars[i] == set->vars[0]) return t->from.entries[i].keys;
    }
    return 0;
}

/* All values have arrived: takes them as the variables. */
static est_status take_values(est_store *store, const transfer *t)
{
    est_key_rows *set;

    for (int i = 0; i < t->from.n; i++) {
        void *data = t->vars[i]->value.data;

        if (t->moves[i].to == data) continue;
        *t->partial = true;
        est_cow_keep_all(t->vars[i]);
        if (is_far(t->vars[i])) {
            EST_TRY(est_var_put(t->vars[i], 0, t->vars[i]->value.count, t->moves[i].to));
        } else {
            memcpy(data, t->moves[i].to, bytes_of(t, i));
        }
    }
    for (int i = 0; (set = est_store_keys(store, i)) != NULL; i++) {
        if (!is_changed(t, set)) continue;
        *t->partial = true;
        EST_TRY(est_key_rows_restore(set, keys_of(t, set)));
    }
    for (int i = 0; i < t->from.n; i++) {
        t->vars[i]->initialized = true;
        t->vars[i]->blank       = false;
    }
    *t->partial = false;
    return EST_OK;
}

/* The transfer failed: variables that were overwritten, or are incomplete, have no value. */
static void drop_values(est_store *store, const transfer *t)
{
    est_key_rows *set;

    for (int i = 0; (set = est_store_keys(store, i)) != NULL; i++) {
        if (*t->partial && is_changed(t, set)) est_key_rows_drop(set);
    }
    for (int i = 0; i < t->from.n; i++) {
        est_var *var = t->vars[i];

        if (!is_new(t, i) || var->rows != NULL) continue; /* a set without keys is valid */
        var->blank = false;
        if (*t->partial) var->initialized = false;
    }
}

/* The source's keys must fit: shapes were compared, but the number of keys comes from another task. */
static est_status check_keys(const transfer *t)
{
    for (int i = 0; i < t->from.n; i++) {
        const est_view *value = &t->vars[i]->value;
        int64_t         keys  = t->from.entries[i].keys;

        if (t->vars[i]->rows == NULL || value->shape.rank == 0) continue;
        if (keys < 0 || keys > value->shape.dim[0])
            return est_fail(EST_DATA_LOSS, "variable '%s' has no room for %lld keys", t->vars[i]->name,
                            (long long)keys);
    }
    return EST_OK;
}

static est_status receive_all(est_session *session, transfer *t)
{
    est_store *store;
    est_status status;

    EST_TRY(check_keys(t));
    EST_TRY(est_session_store(session, &store));
    EST_TRY(choose_places(t));
    if (is_source(t)) return broadcast_all(t);
    for (int i = 0; i < t->from.n; i++) {
        if (is_new(t, i)) est_lazy_overwritten(t->vars[i]);
    }
    status = broadcast_all(t);
    if (status == EST_OK) status = take_values(store, t);
    if (status != EST_OK) {
        drop_values(store, t);
        return status;
    }
    est_session_set_run_count(session, t->from.runs);
    return EST_OK;
}

/* Aborts the group after a local failure, so that the others do not wait for this rank. */
static est_status abort_on_failure(est_membership *m, est_status status)
{
    est_error error;

    if (status == EST_OK) return EST_OK;
    est_error_take(status, &error);
    est_group_abort(m->group, error.message);
    (void)est_error_raise(&error);
    return status == EST_DEADLINE_EXCEEDED ? est_fail(EST_ABORTED, "%s", error.message) : status;
}

static est_status transfer_variables(est_membership *m, est_session *session, int source, est_var *const *vars, int n)
{
    est_wire_writer mine   = { 0 };
    est_gathered    all    = { 0 };
    transfer        t      = { .group       = m->group,
                               .source      = source,
                               .who         = m->server->task,
                               .source_name = name_of(m, source),
                               .vars        = vars,
                               .partial     = &m->partial };
    est_status      status = abort_on_failure(m, write_inventory(session, vars, n, &mine));

    if (status == EST_OK) status = est_membership_gather(m, mine.data, mine.size, &all);
    if (status == EST_OK) status = check_all(m, &all, &t);                      /* fails on all ranks or on none, */
    if (status == EST_RESOURCE_EXHAUSTED) status = abort_on_failure(m, status); /* except out of memory */
    if (status == EST_OK) {
        t.pack = est_alloc(PACK_BYTES);
        status = t.pack != NULL ? receive_all(session, &t) : est_no_memory();
        status = abort_on_failure(m, status);
    }
    est_free(t.pack);
    est_free(t.staging);
    est_free(t.moves);
    est_free(t.from.entries);
    est_gathered_clear(&all);
    est_wire_writer_clear(&mine);
    return status;
}

est_status est_membership_transfer(est_membership *m, est_session *session, int source)
{
    est_var  **vars;
    int        n;
    est_status status;

    if (m->group == NULL) return est_fail(EST_ABORTED, "there is no group: call est_membership_join");
    if (source < 0 || source >= m->agreed.members.n)
        return est_fail(EST_INVALID_ARGUMENT, "state transfer from rank %d of %d", source, m->agreed.members.n);
    if (m->agreed.members.n == 1) return EST_OK;
    EST_TRY(abort_on_failure(m, est_shared_variables(session, &vars, &n)));
    status = transfer_variables(m, session, source, vars, n);
    est_free(vars);
    return status;
}
