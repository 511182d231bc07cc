/* SPDX-License-Identifier: Apache-2.0
 *
 * The variables of one rank to all others.
 *
 * First everybody says which variables it has, so that all see the same difference, if there is one, and fail alike. Then values go
 * out in the order of names: large ones from where they are to where they will be, small ones in packs. A rank that gets only
 * some of them is torn: it has no variables, until it gets all. */
#include <string.h>

#include "base/alloc.h"
#include "cluster/waits.h"
#include "kernels/lazy_rows.h"
#include "runtime/session.h"
#include "strategy/ensemble_parts.h"
#include "tensor/shape.h"

#define PACK_BYTES  ((size_t)4 << 20)
#define LARGE_BYTES ((size_t)1 << 20) /* is sent by itself */

/* --- what there is --------------------------------------------------------------------------------------------------------- */

enum { RUNS = 1, VARIABLE };                            /* of a rank */
enum { NAME = 1, DTYPE, DIMS, KEYED, KEYS, HAS_VALUE }; /* of a variable */

/* A variable as a rank says it has it. */
typedef struct entry {
    est_str   name;
    est_dtype dtype;
    est_shape shape;
    bool      keyed; /* it has rows for keys, */
    int64_t   keys;  /* so many of them */
    bool      has_value;
} entry;

typedef struct inventory {
    uint64_t runs;
    entry   *entries;
    int      n;
} inventory;

static est_status describe(est_session *session, est_var *const *vars, int n, est_wire_writer *out)
{
    est_wire_put_u64(out, RUNS, est_session_run_count(session));
    for (int i = 0; i < n; i++) {
        const est_var *var = vars[i];
        size_t         mark;

        if (var->elsewhere)
            return est_fail(EST_INVALID_ARGUMENT, "variable '%s' is kept by another task: it needs no sharing",
                            var->name);
        mark = est_wire_begin(out, VARIABLE);
        est_wire_put_string(out, NAME, var->name);
        est_wire_put_i64(out, DTYPE, var->value.dtype);
        est_wire_put_i64s(out, DIMS, var->value.shape.dim, (size_t)var->value.shape.rank);
        est_wire_put_bool(out, KEYED, var->rows != NULL);
        est_wire_put_i64(out, KEYS, var->rows != NULL ? var->rows->n : 0);
        est_wire_put_bool(out, HAS_VALUE, var->initialized);
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
        if (out->rank == EST_RANK_MAX || dim > INT64_MAX) return est_fail(EST_DATA_LOSS, "a shape that is none");
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
        if (field.number != VARIABLE) continue;
        if (out->n == max) {
            entry *more = est_realloc(out->entries, sizeof *more * (size_t)(2 * max + 16));

            if (more == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory to compare variables");
            out->entries = more;
            max          = 2 * max + 16;
        }
        EST_TRY(read_entry(&r, &field, &out->entries[out->n]));
        out->n++;
    }
    return est_wire_finish(&r);
}

/* --- whether it is the same -------------------------------------------------------------------------------------------------- */

static int compare_names(est_str a, est_str b)
{
    size_t size  = a.size < b.size ? a.size : b.size;
    int    order = size > 0 ? memcmp(a.data, b.data, size) : 0;

    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

static est_status fail_lacks(const char *who, const entry *has, const char *other)
{
    return est_fail(EST_FAILED_PRECONDITION, "%s has a variable '%.*s', and %s has none: all need the same model", who,
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
                        "variable '%.*s' is %s%s %s at %s and %s%s %s at %s: all need the same model",
                        (int)x->name.size, x->name.data, x->keyed ? "rows for keys of " : "", est_dtype_name(x->dtype),
                        est_shape_text(&x->shape, shape_a), who_a, y->keyed ? "rows for keys of " : "",
                        est_dtype_name(y->dtype), est_shape_text(&y->shape, shape_b), who_b);
    }
    return EST_OK;
}

static const char *name_of(const est_ensemble *e, int rank)
{
    return e->tasks[e->agreed.members.data[rank]].task;
}

/* Compares what all have with what the source has, which is left in *out. All ranks come to the same result. */
static est_status check_all(const est_ensemble *e, const est_gathered *all, int source, inventory *out)
{
    const char *data   = all->data;
    est_status  status = read_inventory(data + all->begins[source], all->begins[source + 1] - all->begins[source], out);

    for (int i = 0; i < e->agreed.members.n && status == EST_OK; i++) {
        inventory other = { 0 };

        status = read_inventory(data + all->begins[i], all->begins[i + 1] - all->begins[i], &other);
        if (status == EST_OK) status = check_same(out, name_of(e, source), &other, name_of(e, i));
        est_free(other.entries);
    }
    for (int i = 0; i < out->n && status == EST_OK; i++) {
        if (out->entries[i].has_value) continue;
        status = est_fail(EST_FAILED_PRECONDITION, "variable '%.*s' of %s has no value to be shared",
                          (int)out->entries[i].name.size, out->entries[i].name.data, name_of(e, source));
    }
    return status;
}

/* --- moving ------------------------------------------------------------------------------------------------------------------ */

/* Variables on their way. */
typedef struct mover {
    est_rank_group  *group;
    int              source;
    const char      *who, *source_name; /* this task and that of the source, for the status view */
    est_var *const  *vars;              /* of this rank */
    const inventory *from;              /* of the source */
    uint8_t         *pack;
} mover;

/* Bytes of a variable that the source has; of one with rows for keys those of keys that there are. */
static size_t bytes_of(const mover *m, int i)
{
    const est_view *value = &m->vars[i]->value;
    int64_t         count = value->count, rows = value->shape.rank > 0 ? value->shape.dim[0] : 0;

    if (m->vars[i]->rows != NULL && value->shape.rank > 0)
        count = rows > 0 ? count / rows * m->from->entries[i].keys : 0;
    return (size_t)count * est_dtype_size(value->dtype);
}

static est_status broadcast(const mover *m, void *data, size_t bytes)
{
    est_work   *work;
    est_waiting wait;
    est_status  status;

    EST_TRY(est_broadcast(m->group, data, bytes, m->source, NULL, &work));
    wait   = est_wait_begin(m->who, m->source_name, "variables", EST_WAIT_REPORT_SECS);
    status = est_work_wait(work);
    est_wait_end(&wait);
    return status;
}

/* Small ones from `first` on, as many as fit. *n: how many that are. */
static est_status send_pack(const mover *m, int first, int *n)
{
    bool   is_source = est_group_rank(m->group) == m->source;
    size_t used      = 0;
    int    end       = first;

    for (; end < m->from->n && bytes_of(m, end) < LARGE_BYTES && used + bytes_of(m, end) <= PACK_BYTES; end++) {
        if (is_source && bytes_of(m, end) > 0) memcpy(m->pack + used, m->vars[end]->value.data, bytes_of(m, end));
        used += bytes_of(m, end);
    }
    *n = end - first;
    if (used > 0) EST_TRY(broadcast(m, m->pack, used));
    used = 0;
    for (int i = first; i < end && !is_source; i++) {
        if (bytes_of(m, i) > 0) memcpy(m->vars[i]->value.data, m->pack + used, bytes_of(m, i));
        used += bytes_of(m, i);
    }
    return EST_OK;
}

static est_status move_all(const mover *m)
{
    for (int i = 0, n; i < m->from->n; i += n) {
        n = 1;
        if (bytes_of(m, i) >= LARGE_BYTES) {
            EST_TRY(broadcast(m, m->vars[i]->value.data, bytes_of(m, i)));
        } else {
            EST_TRY(send_pack(m, i, &n));
        }
    }
    return EST_OK;
}

/* How many keys the source has in a set. */
static int64_t keys_of(const mover *m, const est_key_rows *set)
{
    for (int i = 0; i < m->from->n; i++) {
        if (m->vars[i] == set->vars[0]) return m->from->entries[i].keys;
    }
    return 0;
}

/* Makes variables of what has come, or says that there are none when it was not all. */
static est_status settle(est_store *store, const mover *m, est_status status)
{
    est_key_rows *set;

    for (int i = 0; (set = est_store_keys(store, i)) != NULL; i++) {
        if (status == EST_OK) status = est_key_rows_restore(set, keys_of(m, set));
        if (status != EST_OK) est_key_rows_drop(set);
    }
    for (int i = 0; i < m->from->n; i++) {
        if (m->vars[i]->rows != NULL && status != EST_OK) continue; /* a set without keys is one */
        m->vars[i]->initialized = status == EST_OK;
        m->vars[i]->blank       = false;
    }
    return status;
}

/* Keys that the source has must have room here: shapes were compared, but numbers come from others. */
static est_status check_keys(const mover *m)
{
    for (int i = 0; i < m->from->n; i++) {
        const est_view *value = &m->vars[i]->value;
        int64_t         keys  = m->from->entries[i].keys;

        if (m->vars[i]->rows == NULL || value->shape.rank == 0) continue;
        if (keys < 0 || keys > value->shape.dim[0])
            return est_fail(EST_DATA_LOSS, "variable '%s' cannot have rows for %lld keys", m->vars[i]->name,
                            (long long)keys);
    }
    return EST_OK;
}

static est_status take_over(est_ensemble *e, est_session *session, const mover *m)
{
    bool       is_source = est_group_rank(m->group) == m->source;
    est_store *store;
    est_status status;

    EST_TRY(check_keys(m));
    EST_TRY(est_session_store(session, &store));
    for (int i = 0; i < m->from->n; i++) {
        if (is_source) est_lazy_draw_all(m->vars[i], est_session_pool(session));
        if (!is_source) est_lazy_overwritten(m->vars[i]);
    }
    if (is_source) return move_all(m);
    e->torn = true;
    status  = settle(store, m, move_all(m));
    if (status != EST_OK) return status;
    est_session_set_run_count(session, m->from->runs);
    e->torn = false;
    return EST_OK;
}

/* The others must not wait for one who has failed by itself. */
static est_status give_up(est_ensemble *e, est_status status)
{
    est_error error;

    if (status == EST_OK) return EST_OK;
    est_error_take(status, &error);
    est_group_abort(e->group, error.message);
    (void)est_error_raise(&error);
    return status == EST_DEADLINE_EXCEEDED ? est_fail(EST_ABORTED, "%s", error.message) : status;
}

static est_status share(est_ensemble *e, est_session *session, int source, est_var *const *vars, int n)
{
    est_wire_writer mine   = { 0 };
    est_gathered    all    = { 0 };
    inventory       from   = { 0 };
    mover           m      = { .group       = e->group,
                               .source      = source,
                               .who         = e->server->task,
                               .source_name = name_of(e, source),
                               .vars        = vars,
                               .from        = &from };
    est_status      status = give_up(e, describe(session, vars, n, &mine));

    if (status == EST_OK) status = est_ensemble_gather(e, mine.data, mine.size, &all);
    if (status == EST_OK) status = check_all(e, &all, source, &from);  /* fails on all, or on none, */
    if (status == EST_RESOURCE_EXHAUSTED) status = give_up(e, status); /* but for this */
    if (status == EST_OK) {
        m.pack = est_alloc(PACK_BYTES);
        status = m.pack != NULL ? take_over(e, session, &m)
                                : est_fail(EST_RESOURCE_EXHAUSTED, "no memory to share variables");
        status = give_up(e, status);
    }
    est_free(m.pack);
    est_free(from.entries);
    est_gathered_clear(&all);
    est_wire_writer_clear(&mine);
    return status;
}

est_status est_ensemble_share(est_ensemble *e, est_session *session, int source)
{
    est_var  **vars;
    int        n;
    est_status status;

    if (e->group == NULL) return est_fail(EST_ABORTED, "there is no group: the workers have to meet");
    if (source < 0 || source >= e->agreed.members.n)
        return est_fail(EST_INVALID_ARGUMENT, "rank %d of %d cannot share variables", source, e->agreed.members.n);
    if (e->agreed.members.n == 1) return EST_OK;
    EST_TRY(give_up(e, est_saved_variables(session, &vars, &n)));
    status = share(e, session, source, vars, n);
    est_free(vars);
    return status;
}
