/* SPDX-License-Identifier: Apache-2.0
 *
 * The variables of one rank to all others.
 *
 * First everybody says which variables it has and how it trains them, so that all see the same difference, if there is one, and fail
 * alike, and a fingerprint of each value. Then values that somebody lacks go out in the order of names: large ones by themselves, small ones in packs.
 *
 *   S1  A source may be lost on the way, and whoever has variables must still have them then. A value that is here already is
 *       received over itself, which changes no bit; one that is not, in memory beside the one that is here, which it replaces when
 *       all have come. Only without that memory is it overwritten at once: then a rank that does not get all is torn, and has
 *       no variables until it does. */
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
#define LARGE_BYTES ((size_t)1 << 20) /* is sent by itself */

/* --- what there is --------------------------------------------------------------------------------------------------------- */

enum { RUNS = 1, VARIABLE, TERMS };                            /* of a rank */
enum { NAME = 1, DTYPE, DIMS, KEYED, KEYS, HAS_VALUE, PRINT }; /* of a variable */

/* A variable as a rank says it has it. */
typedef struct entry {
    est_str   name;
    est_dtype dtype;
    est_shape shape;
    bool      keyed; /* it has rows for keys, */
    int64_t   keys;  /* so many of them */
    bool      has_value;
    uint64_t  print; /* the fingerprint of the value */
} entry;

typedef struct inventory {
    uint64_t runs;
    est_str  terms; /* of the graph */
    entry   *entries;
    int      n;
} inventory;

/* Of a value, all of whose rows are drawn for that. */
static uint64_t print_of(est_var *var, est_pool *pool)
{
    est_view stored = est_var_stored(var);

    est_lazy_draw_all(var, pool);
    return est_fingerprint64(stored.data, (size_t)stored.count * est_dtype_size(stored.dtype));
}

static est_status describe(est_session *session, est_var *const *vars, int n, est_wire_writer *out)
{
    est_wire_put_u64(out, RUNS, est_session_run_count(session));
    est_wire_put_string(out, TERMS, est_graph_terms(est_session_graph(session)));
    for (int i = 0; i < n; i++) {
        est_var *var = vars[i];
        size_t   mark;

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
        if (var->initialized) est_wire_put_u64(out, PRINT, print_of(var, est_session_pool(session)));
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
        case PRINT: out->print = est_wire_u64(&r, &field); break;
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
    return est_terms_same(a->terms, who_a, b->terms, who_b);
}

/* --- moving ------------------------------------------------------------------------------------------------------------------ */

/* What becomes of a variable on this rank. */
typedef struct move {
    bool  wanted; /* somebody has another value than the source, or none */
    bool  here;   /* this rank has the same value */
    void *to;     /* where it is received, or sent from */
} move;

/* Variables on their way. */
typedef struct mover {
    est_rank_group *group;
    int             source;
    const char     *who, *source_name; /* this task and that of the source, for the status view */
    est_var *const *vars;              /* of this rank */
    inventory       from;              /* of the source */
    move           *moves;             /* [from.n] */
    uint8_t        *pack;
    uint8_t        *beside;  /* what is received while another value is here; NULL: nothing is */
    bool           *partial; /* set when a value was, or may have been, overwritten by part of another */
} mover;

/* Whether a rank has the values of the source. */
static void compare_values(mover *m, int rank, const inventory *other)
{
    for (int i = 0; i < m->from.n; i++) {
        const entry *a = &m->from.entries[i], *b = &other->entries[i];
        bool         same = b->has_value && a->keys == b->keys && a->print == b->print;

        if (!same) m->moves[i].wanted = true;
        if (rank == est_group_rank(m->group)) m->moves[i].here = same;
    }
}

static const char *name_of(const est_membership *e, int rank)
{
    return e->tasks[e->agreed.members.data[rank]].task;
}

/* Compares what all have with what the source has. All ranks come to the same result. */
static est_status check_all(const est_membership *e, const est_gathered *all, mover *m)
{
    const char *data   = all->data;
    size_t      begin  = all->begins[m->source];
    est_status  status = read_inventory(data + begin, all->begins[m->source + 1] - begin, &m->from);

    if (status == EST_OK) {
        m->moves = est_zalloc(sizeof *m->moves * ((size_t)m->from.n + 1));
        if (m->moves == NULL) status = est_no_memory();
    }
    for (int i = 0; i < e->agreed.members.n && status == EST_OK; i++) {
        inventory other = { 0 };

        status = read_inventory(data + all->begins[i], all->begins[i + 1] - all->begins[i], &other);
        if (status == EST_OK) status = check_same(&m->from, m->source_name, &other, name_of(e, i));
        if (status == EST_OK) compare_values(m, i, &other);
        est_free(other.entries);
    }
    for (int i = 0; i < m->from.n && status == EST_OK; i++) {
        const entry *has = &m->from.entries[i];

        if (has->has_value) continue;
        status = est_fail(EST_FAILED_PRECONDITION, "variable '%.*s' of %s has no value to be shared",
                          (int)has->name.size, has->name.data, m->source_name);
    }
    return status;
}

static bool is_source(const mover *m)
{
    return est_group_rank(m->group) == m->source;
}

/* Bytes of a variable that the source has; of one with rows for keys those of keys that there are. */
static size_t bytes_of(const mover *m, int i)
{
    const est_view *value = &m->vars[i]->value;
    int64_t         count = value->count, rows = value->shape.rank > 0 ? value->shape.dim[0] : 0;

    if (m->vars[i]->rows != NULL && value->shape.rank > 0)
        count = rows > 0 ? count / rows * m->from.entries[i].keys : 0;
    return (size_t)count * est_dtype_size(value->dtype);
}

/* Whether this rank gets a value that it has not, */
static bool is_new(const mover *m, int i)
{
    return m->moves[i].wanted && !m->moves[i].here && !is_source(m);
}

/* and has another. */
static bool is_other(const mover *m, int i)
{
    const est_var *var = m->vars[i];

    return is_new(m, i) && (var->rows != NULL ? var->rows->n > 0 : var->initialized);
}

/* Keeps S1. */
static void choose_places(mover *m)
{
    size_t bytes = 0;

    for (int i = 0; i < m->from.n; i++) bytes += is_other(m, i) ? bytes_of(m, i) : 0;
    if (bytes > 0) m->beside = est_alloc(bytes);
    bytes = 0;
    for (int i = 0; i < m->from.n; i++) {
        m->moves[i].to = m->vars[i]->value.data;
        if (!is_other(m, i) || m->beside == NULL) continue;
        m->moves[i].to = m->beside + bytes;
        bytes += bytes_of(m, i);
    }
}

/* Before a value is received. */
static void note_overwritten(const mover *m, int i)
{
    if (is_other(m, i) && m->beside == NULL && bytes_of(m, i) > 0) *m->partial = true;
    if (!is_source(m) && m->moves[i].to == m->vars[i]->value.data) est_cow_keep_all(m->vars[i]);
}

static est_status broadcast(const mover *m, void *data, size_t bytes)
{
    est_work   *work;
    est_waiting wait;
    est_status  status;

    EST_TRY(est_broadcast(m->group, data, bytes, m->source, NULL, &work));
    wait   = est_wait_begin(m->who, m->source_name, "variables", INFINITY); /* the work has a limit, and reports */
    status = est_work_wait(work);
    est_wait_end(&wait);
    return status;
}

static bool is_small(const mover *m, int i)
{
    return !m->moves[i].wanted || bytes_of(m, i) < LARGE_BYTES;
}

/* What a variable takes up in a pack. */
static size_t packed_bytes(const mover *m, int i)
{
    return m->moves[i].wanted ? bytes_of(m, i) : 0;
}

/* Small ones from `first` on, as many as fit. *n: how many that are. */
static est_status send_pack(const mover *m, int first, int *n)
{
    size_t used = 0;
    int    end  = first;

    for (; end < m->from.n && is_small(m, end) && used + packed_bytes(m, end) <= PACK_BYTES; end++) {
        if (is_source(m) && packed_bytes(m, end) > 0) memcpy(m->pack + used, m->moves[end].to, packed_bytes(m, end));
        used += packed_bytes(m, end);
    }
    *n = end - first;
    if (used > 0) EST_TRY(broadcast(m, m->pack, used));
    used = 0;
    for (int i = first; i < end && !is_source(m); i++) {
        note_overwritten(m, i);
        if (packed_bytes(m, i) > 0) memcpy(m->moves[i].to, m->pack + used, packed_bytes(m, i));
        used += packed_bytes(m, i);
    }
    return EST_OK;
}

static est_status move_all(const mover *m)
{
    for (int i = 0, n; i < m->from.n; i += n) {
        n = 1;
        if (is_small(m, i)) {
            EST_TRY(send_pack(m, i, &n));
        } else {
            note_overwritten(m, i);
            EST_TRY(broadcast(m, m->moves[i].to, bytes_of(m, i)));
        }
    }
    return EST_OK;
}

/* Whether a set of keys is another one now, */
static bool is_changed(const mover *m, const est_key_rows *set)
{
    for (int i = 0; i < m->from.n; i++) {
        if (m->vars[i]->rows == set && is_new(m, i)) return true;
    }
    return false;
}

/* and how many keys the source has in it. */
static int64_t keys_of(const mover *m, const est_key_rows *set)
{
    for (int i = 0; i < m->from.n; i++) {
        if (m->vars[i] == set->vars[0]) return m->from.entries[i].keys;
    }
    return 0;
}

/* All have come: makes variables of them. */
static est_status take_values(est_store *store, const mover *m)
{
    est_key_rows *set;

    for (int i = 0; i < m->from.n; i++) {
        void *data = m->vars[i]->value.data;

        if (m->moves[i].to == data) continue;
        *m->partial = true;
        est_cow_keep_all(m->vars[i]);
        memcpy(data, m->moves[i].to, bytes_of(m, i));
    }
    for (int i = 0; (set = est_store_keys(store, i)) != NULL; i++) {
        if (!is_changed(m, set)) continue;
        *m->partial = true;
        EST_TRY(est_key_rows_restore(set, keys_of(m, set)));
    }
    for (int i = 0; i < m->from.n; i++) {
        m->vars[i]->initialized = true;
        m->vars[i]->blank       = false;
    }
    *m->partial = false;
    return EST_OK;
}

/* Not all have come: what was received in its place, or could not be made use of, is none. */
static void drop_values(est_store *store, const mover *m)
{
    est_key_rows *set;

    for (int i = 0; (set = est_store_keys(store, i)) != NULL; i++) {
        if (*m->partial && is_changed(m, set)) est_key_rows_drop(set);
    }
    for (int i = 0; i < m->from.n; i++) {
        est_var *var = m->vars[i];

        if (!is_new(m, i) || var->rows != NULL) continue; /* a set without keys is one */
        var->blank = false;
        if (*m->partial) var->initialized = false;
    }
}

/* Keys that the source has must have room here: shapes were compared, but numbers come from others. */
static est_status check_keys(const mover *m)
{
    for (int i = 0; i < m->from.n; i++) {
        const est_view *value = &m->vars[i]->value;
        int64_t         keys  = m->from.entries[i].keys;

        if (m->vars[i]->rows == NULL || value->shape.rank == 0) continue;
        if (keys < 0 || keys > value->shape.dim[0])
            return est_fail(EST_DATA_LOSS, "variable '%s' cannot have rows for %lld keys", m->vars[i]->name,
                            (long long)keys);
    }
    return EST_OK;
}

static est_status take_over(est_session *session, mover *m)
{
    est_store *store;
    est_status status;

    EST_TRY(check_keys(m));
    EST_TRY(est_session_store(session, &store));
    choose_places(m);
    if (is_source(m)) return move_all(m);
    for (int i = 0; i < m->from.n; i++) {
        if (is_new(m, i)) est_lazy_overwritten(m->vars[i]);
    }
    status = move_all(m);
    if (status == EST_OK) status = take_values(store, m);
    if (status != EST_OK) {
        drop_values(store, m);
        return status;
    }
    est_session_set_run_count(session, m->from.runs);
    return EST_OK;
}

/* The others must not wait for one who has failed by itself. */
static est_status give_up(est_membership *e, est_status status)
{
    est_error error;

    if (status == EST_OK) return EST_OK;
    est_error_take(status, &error);
    est_group_abort(e->group, error.message);
    (void)est_error_raise(&error);
    return status == EST_DEADLINE_EXCEEDED ? est_fail(EST_ABORTED, "%s", error.message) : status;
}

static est_status share(est_membership *e, est_session *session, int source, est_var *const *vars, int n)
{
    est_wire_writer mine   = { 0 };
    est_gathered    all    = { 0 };
    mover           m      = { .group       = e->group,
                               .source      = source,
                               .who         = e->server->task,
                               .source_name = name_of(e, source),
                               .vars        = vars,
                               .partial     = &e->partial };
    est_status      status = give_up(e, describe(session, vars, n, &mine));

    if (status == EST_OK) status = est_membership_gather(e, mine.data, mine.size, &all);
    if (status == EST_OK) status = check_all(e, &all, &m);             /* fails on all, or on none, */
    if (status == EST_RESOURCE_EXHAUSTED) status = give_up(e, status); /* but for this */
    if (status == EST_OK) {
        m.pack = est_alloc(PACK_BYTES);
        status = m.pack != NULL ? take_over(session, &m) : est_no_memory();
        status = give_up(e, status);
    }
    est_free(m.pack);
    est_free(m.beside);
    est_free(m.moves);
    est_free(m.from.entries);
    est_gathered_clear(&all);
    est_wire_writer_clear(&mine);
    return status;
}

est_status est_membership_transfer(est_membership *e, est_session *session, int source)
{
    est_var  **vars;
    int        n;
    est_status status;

    if (e->group == NULL) return est_fail(EST_ABORTED, "there is no group: the workers have to meet");
    if (source < 0 || source >= e->agreed.members.n)
        return est_fail(EST_INVALID_ARGUMENT, "rank %d of %d cannot share variables", source, e->agreed.members.n);
    if (e->agreed.members.n == 1) return EST_OK;
    EST_TRY(give_up(e, est_shared_variables(session, &vars, &n)));
    status = share(e, session, source, vars, n);
    est_free(vars);
    return status;
}
