/* SPDX-License-Identifier: Apache-2.0
 *
 * Variables: handles, reads and plain writes.
 *
 * A handle (VarHandleOp) is an output of type resource. Its shape in the graph is the shape of the variable, so shape
 * functions of everything that takes a handle need not look further; its dtype is the node's attribute. A read is no
 * copy: ReadVariableOp gives the variable's memory itself, and the planner orders it before later writes. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/argument.h"
#include "cuda/launchers.h"
#include "graph/signature.h"
#include "kernels/lazy_rows.h"
#include "kernels/parallel.h"
#include "kernels/random_stream.h"
#include "kernels/variable_access.h"
#include "ops/array.h"
#include "tensor/shape.h"

/* --- shape functions and gradient --------------------------------------------------------------------------------- */

static est_status handle_infer(est_infer *c)
{
    c->out[0] = est_node_attr(c->node, "shape")->shape;
    return EST_OK;
}

static est_status assign_fill_infer(est_infer *c)
{
    return est_infer_rank(c, 1, 0);
}

static est_status assign_infer(est_infer *c)
{
    est_shape merged;
    char      a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    if (est_infer_merge(&c->in[0], &c->in[1], &merged) == EST_OK) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "the value is %s, the variable %s", est_shape_text(&c->in[1], a),
                    est_shape_text(&c->in[0], b));
}

/* The gradient towards a variable is the gradient towards its handle. */
static void read_grad(est_grad *g)
{
    g->din[0].values = g->dout[0];
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

static void copy_range(void *arg, int64_t begin, int64_t end, int64_t block)
{
    est_view *const *views = arg; /* to, from */
    size_t           size  = est_dtype_size(views[0]->dtype);

    (void)block;
    memcpy((char *)views[0]->data + (size_t)begin * size, (const char *)views[1]->data + (size_t)begin * size,
           (size_t)(end - begin) * size);
}

/* The prepare() of a GPU. */
static est_status check_dtype(est_call *c)
{
    const est_var *v = est_call_variable(c, 0);

    if (v->value.dtype == c->in[1]->dtype) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "variable '%s' is %s, the value %s", v->name, est_dtype_name(v->value.dtype),
                    est_dtype_name(c->in[1]->dtype));
}

static est_status assign_cpu(est_call *c)
{
    est_var  *v        = est_call_variable(c, 0);
    est_view *views[2] = { &v->value, c->in[1] };

    EST_TRY(check_dtype(c));
    est_lazy_overwritten(v);
    if (v->value.data != c->in[1]->data) { /* made where it belongs, or the variable's own: it stays as it is */
        est_parallel_for(c->pool, v->value.count, 64, 0.05 * (double)est_dtype_size(v->value.dtype), copy_range, views);
    }
    v->initialized = true;
    return EST_OK;
}

/* Zeros are not written where there are only zeros: the pages of a large table are first touched by who uses its
 * rows. */
static est_status assign_fill_cpu(est_call *c)
{
    static const uint64_t zero; /* all bits 0 is zero in every dtype */
    est_var              *v    = est_call_variable(c, 0);
    size_t                size = est_dtype_size(v->value.dtype);

    EST_TRY(check_dtype(c));
    est_lazy_overwritten(v);
    if (v->initialized || !v->blank || memcmp(c->in[1]->data, &zero, size) != 0) {
        est_fill_elements(c->pool, &v->value, c->in[1]->data);
    }
    v->initialized = true;
    return EST_OK;
}

static est_status assign_draw_prepare(est_call *c)
{
    c->param[0].i = est_stream_key(c->node);
    c->param[1].i = est_node_int(c->node, "distribution");
    c->param[2].i = est_node_int(c->node, "first");
    c->param[3].f = est_node_float(c->node, "factor");
    c->param[4].f = est_node_float(c->node, "term");
    return EST_OK;
}

static est_status assign_draw_cpu(est_call *c)
{
    est_first_values values = { .distribution = (int)c->param[1].i,
                                .stream       = est_stream(c, c->param[0].i),
                                .first        = c->param[2].i,
                                .factor       = c->param[3].f,
                                .term         = c->param[4].f };

    est_lazy_begin(est_call_variable(c, 0), c->pool, &values);
    return EST_OK;
}

#define ADD_RANGE(T, suffix)                                                                                           \
    static void add_range_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                               \
    {                                                                                                                  \
        est_view *const *views = arg;                                                                                  \
        T               *w     = views[0]->data;                                                                       \
        const T         *x     = views[1]->data;                                                                       \
                                                                                                                       \
        (void)block;                                                                                                   \
        for (int64_t i = begin; i < end; i++) w[i] += x[i];                                                            \
    }                                                                                                                  \
                                                                                                                       \
    static void sub_range_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                               \
    {                                                                                                                  \
        est_view *const *views = arg;                                                                                  \
        T               *w     = views[0]->data;                                                                       \
        const T         *x     = views[1]->data;                                                                       \
                                                                                                                       \
        (void)block;                                                                                                   \
        for (int64_t i = begin; i < end; i++) w[i] -= x[i];                                                            \
    }
ADD_RANGE(float, f32)
ADD_RANGE(double, f64)
ADD_RANGE(uint32_t, i32) /* unsigned: integers wrap around */
ADD_RANGE(uint64_t, i64)

static est_status add_in_place(est_call *c, est_range_fn f32, est_range_fn f64, est_range_fn i32, est_range_fn i64)
{
    est_var     *v        = est_call_variable(c, 0);
    est_view    *views[2] = { &v->value, c->in[1] };
    est_range_fn fn       = v->value.dtype == EST_F32   ? f32
                            : v->value.dtype == EST_F64 ? f64
                            : v->value.dtype == EST_I32 ? i32
                                                        : i64;

    EST_TRY(check_dtype(c));
    EST_TRY(est_variable_ready(c, 0, c->in[1]->dtype));
    est_parallel_for(c->pool, v->value.count, 64, 0.1 * (double)est_dtype_size(v->value.dtype), fn, views);
    return EST_OK;
}

static est_status assign_add_cpu(est_call *c)
{
    return add_in_place(c, add_range_f32, add_range_f64, add_range_i32, add_range_i64);
}

static est_status assign_sub_cpu(est_call *c)
{
    return add_in_place(c, sub_range_f32, sub_range_f64, sub_range_i32, sub_range_i64);
}

static est_status is_initialized_cpu(est_call *c)
{
    *(uint8_t *)c->out[0].data = est_call_variable(c, 0)->initialized;
    return EST_OK;
}

/* --- descriptors -------------------------------------------------------------------------------------------------- */

const est_op est_op_var_handle = {
    .name      = "VarHandleOp",
    .signature = "() -> resource: resource; container: string = \"\"; shared_name: string = \"\"; dtype: type; "
                 "shape: shape",
    .infer     = handle_infer,
    .stateful  = true,
    .source    = EST_SOURCE_VARIABLE,
};

const est_op est_op_read_variable = {
    .name        = "ReadVariableOp",
    .signature   = "resource: resource -> value: dtype; dtype: type",
    .infer       = est_infer_same_as_input,
    .grad        = read_grad,
    .stateful    = true,
    .passes_rows = true,
    .alias       = true,
};

const est_op est_op_assign_variable = {
    .name      = "AssignVariableOp",
    .signature = "resource: resource, value: dtype -> (); dtype: type; validate_shape: bool = false",
    .infer     = assign_infer,
    .cpu       = EST_KERNELS({ .run = assign_cpu }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(assign_variable), .prepare = check_dtype }),
    .stateful  = true,
    .writes    = 1u << 0,
    .update    = EST_UPDATE(.gradient = 1),
    .fills_var = true,
    .inplace   = 1u << 1,
};

static void assign_fill_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    const est_shape *shape = est_node_shape(in[0]);

    (void)node;
    out[0] = est_assign(in[0], est_fill(est_const_ints(graph, EST_I64, (est_i64s){ shape->dim, shape->rank }), in[1]));
}

/* AssignVariableOp of a Fill: the planner makes it. */
const est_op est_op_assign_fill = {
    .name      = "EstAssignFill",
    .signature = "resource: resource, value: dtype -> (); dtype: {float32, float64, int32, uint8, int64, bool}",
    .infer     = assign_fill_infer,
    .cpu       = EST_KERNELS({ .run = assign_fill_cpu }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(assign_fill), .prepare = check_dtype }),
    .lower     = assign_fill_lower,
    .stateful  = true,
    .writes    = 1u << 0,
    .update    = EST_UPDATE(.gradient = 1),
    .fills_var = true,
};

/* AssignVariableOp of what an initializer makes, when nothing else in the step touches the variable: first values that
 * may wait until they are needed (kernels/lazy_rows.h). The planner makes it. */
const est_op est_op_assign_draw = {
    .name      = "EstAssignDraw",
    .signature = "resource: resource -> (); dtype: {float32, float64}; distribution: int; factor: float; term: float; "
                 "first: int; seed: int; seed2: int",
    .infer     = est_infer_none,
    .cpu       = EST_KERNELS({ .run = assign_draw_cpu, .prepare = assign_draw_prepare }),
    .planned   = true,
    .stateful  = true,
    .random    = true,
    .writes    = 1u << 0,
    .update    = EST_UPDATE(0),
    .fills_var = true,
};

const est_op est_op_assign_add_variable = {
    .name      = "AssignAddVariableOp",
    .signature = "resource: resource, value: dtype -> (); dtype: {float32, float64, int32, int64}",
    .infer     = assign_infer,
    .cpu       = EST_KERNELS({ .run = assign_add_cpu }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(assign_add_variable), .prepare = check_dtype }),
    .stateful  = true,
    .writes    = 1u << 0,
    .update    = EST_UPDATE(.gradient = 1),
};

const est_op est_op_assign_sub_variable = {
    .name      = "AssignSubVariableOp",
    .signature = "resource: resource, value: dtype -> (); dtype: {float32, float64, int32, int64}",
    .infer     = assign_infer,
    .cpu       = EST_KERNELS({ .run = assign_sub_cpu }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(assign_sub_variable), .prepare = check_dtype }),
    .stateful  = true,
    .writes    = 1u << 0,
    .update    = EST_UPDATE(.gradient = 1),
};

const est_op est_op_var_is_initialized = {
    .name      = "VarIsInitializedOp",
    .signature = "resource: resource -> is_initialized: bool",
    .infer     = est_infer_scalar,
    .cpu       = EST_KERNELS({ .run = is_initialized_cpu }),
    .stateful  = true,
    .fills_var = true, /* it need not have a value */
};

/* --- builders ----------------------------------------------------------------------------------------------------- */

est_node est_shared_variable(est_graph *graph, const est_op *op, const char *name, est_dtype dtype, est_shape shape,
                             bool absolute)
{
    est_node            handle = est_reuse_find(graph, op, name, absolute);
    const est_node_def *def    = est_def(handle);
    char                a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX], where[2][32] = { "the first build", "this one" };

    if (def == NULL || (est_variable_dtype(handle) == dtype && est_shape_equal(est_node_shape(handle), &shape))) {
        return handle;
    }
    if (est_in_later_replica(graph)) {
        (void)snprintf(where[0], sizeof where[0], "replica 0");
        (void)snprintf(where[1], sizeof where[1], "replica %d", est_graph_replicas(graph)->current);
    }
    return est_graph_poison(
        graph, est_graph_blame(est_fail(
                   EST_INVALID_ARGUMENT, "variable '%s' is %s %s in %s and %s %s in %s: they share it", def->name,
                   est_dtype_name(est_variable_dtype(handle)), est_shape_text(est_node_shape(handle), a), where[0],
                   est_dtype_name(dtype), est_shape_text(&shape, b), where[1])));
}

est_node est_variable(est_graph *graph, const char *name, est_dtype dtype, est_shape shape)
{
    char     text[EST_SHAPE_TEXT_MAX];
    est_node handle;

    if (name == NULL) {
        return est_graph_poison(graph, est_fail(EST_INVALID_ARGUMENT, "a variable needs a name, and it is NULL"));
    }
    if (est_shape_count(&shape) < 0 && !est_graph_poisoned(graph)) {
        return est_graph_poison(graph, est_fail(EST_INVALID_ARGUMENT,
                                                "variable '%s' needs a shape that is fully known, got %s", name,
                                                est_shape_text(&shape, text)));
    }
    handle = est_shared_variable(graph, &est_op_var_handle, name, dtype, shape, false);
    if (handle.graph != NULL) return handle;
    handle = est_build0(graph, &est_op_var_handle,
                        EST_ATTRS(est_attr_type("dtype", dtype), est_attr_shape("shape", shape)));
    handle = est_named(handle, name);
    if (est_def(handle) != NULL) { /* the name is unique only now; the attribute is what the variable goes by */
        est_node_def *def = est_graph_node(graph, handle.id);
        for (int32_t i = 0; i < def->n_attr; i++) {
            if (strcmp(def->attr[i].name, "shared_name") == 0) def->attr[i].s = def->name;
        }
        est_reuse_keep(handle);
    }
    return handle;
}

/* Copies what leads from reads of variables to a value; the reads wait for `before`. */
typedef struct reading {
    est_nodes before;
    est_node *copies; /* by id, output 0; EST_NO_NODE: not met yet */
} reading;

static bool is_read(const est_graph *graph, const est_node_def *def)
{
    return def->n_in > 0 && est_graph_node(graph, def->in[0].node)->op->source == EST_SOURCE_VARIABLE;
}

static est_node read_again(reading *r, est_node x)
{
    const est_node_def *def = est_def(x);
    est_node            in[64];
    bool                again = false, read;

    if (def == NULL || def->op->source == EST_SOURCE_VARIABLE || def->n_in > 64) return x;
    if (r->copies[x.id].graph != NULL) return est_output(r->copies[x.id], x.output);
    read = is_read(x.graph, def);
    for (int32_t i = 0; i < def->n_in; i++) {
        est_node old = { x.graph, def->in[i].node, def->in[i].output };

        in[i] = read_again(r, old);
        if (in[i].id != old.id) again = true;
    }
    if (read || again) {
        est_node copy = est_build(x.graph, def->op, (est_nodes){ in, def->n_in },
                                  (est_attrs){ def->attr, def->n_attr });

        for (int i = 0; read && i < r->before.n; i++) (void)est_after(copy, r->before.data[i]);
        r->copies[x.id] = copy;
    } else {
        r->copies[x.id] = est_output(x, 0);
    }
    return est_graph_poisoned(x.graph) ? est_graph_poison(x.graph, EST_OK) : est_output(r->copies[x.id], x.output);
}

est_node est_read_after(est_node value, est_nodes before)
{
    reading  r = { .before = before };
    est_node again;

    if (value.graph == NULL || est_graph_poisoned(value.graph)) return value;
    if (!EST_LIST_OK(before)) {
        return est_graph_poison(value.graph, est_fail(EST_INVALID_ARGUMENT, "est_read_after: the list is NULL"));
    }
    r.copies = est_zalloc(sizeof *r.copies * (size_t)est_graph_size(value.graph));
    if (r.copies == NULL) return est_graph_poison(value.graph, est_no_memory());
    again = read_again(&r, value);
    est_free(r.copies);
    return again;
}

est_dtype est_variable_dtype(est_node variable)
{
    const est_node_def *def = est_def(variable);

    return def != NULL && def->op->source == EST_SOURCE_VARIABLE ? est_node_type(def, "dtype") : EST_DTYPE_NONE;
}

void est_variable_initializer(est_node variable, est_node value)
{
    est_dtype  want = est_variable_dtype(variable), have = est_node_dtype(value);
    est_shape  merged;
    char       a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];
    est_graph *graph = variable.graph;
    est_nodes  after;

    if (graph == NULL || est_graph_poisoned(graph)) return;
    if (est_reuse_is_later(graph) && est_graph_initializer(graph, variable.id).graph != NULL) return; /* the first's */
    if (want == EST_DTYPE_NONE || want != have ||
        est_infer_merge(est_node_shape(variable), est_node_shape(value), &merged) != EST_OK) {
        (void)est_graph_poison(
            graph, est_fail(EST_INVALID_ARGUMENT, "the initial value of variable '%s' is %s %s, the variable %s %s",
                            est_node_name(variable), est_dtype_name(have), est_shape_text(est_node_shape(value), a),
                            est_dtype_name(want), est_shape_text(est_node_shape(variable), b)));
        return;
    }
    after = est_graph_no_after(graph);
    est_graph_set_initializer(graph, variable.id, est_assign(variable, value));
    est_graph_restore_after(graph, after);
}

est_node est_variable_initializer_op(est_node variable)
{
    return est_variable_dtype(variable) != EST_DTYPE_NONE ? est_graph_initializer(variable.graph, variable.id)
                                                          : EST_NO_NODE;
}

est_node est_read_variable(est_node variable)
{
    if (est_has_rows(variable)) {
        return est_graph_poison(variable.graph,
                                est_fail(EST_INVALID_ARGUMENT,
                                         "variable '%s' has rows for keys only: it is looked up, not read as a whole",
                                         est_node_name(variable)));
    }
    return est_build1(&est_op_read_variable, variable, EST_ATTRS(est_attr_type("dtype", est_variable_dtype(variable))));
}

/* The type attribute that says what the op's variables hold. */
static est_dtype update_dtype(const est_node_def *def)
{
    for (int32_t i = 0; i < def->n_attr; i++) {
        if (strcmp(def->attr[i].name, "T") == 0 || strcmp(def->attr[i].name, "dtype") == 0) return def->attr[i].type;
    }
    return EST_DTYPE_NONE;
}

est_node est_build_update(const est_op *op, est_nodes in, est_attrs attrs)
{
    est_node            node = est_build(in.data[0].graph, op, in, attrs);
    const est_node_def *def  = est_def(node);

    for (int i = 0; i < in.n && def != NULL; i++) {
        est_dtype dtype = est_variable_dtype(in.data[i]);
        char      text[EST_NODE_TEXT_MAX];
        if (dtype == EST_DTYPE_NONE || dtype == update_dtype(def)) continue;
        return est_graph_poison(node.graph,
                                est_fail(EST_INVALID_ARGUMENT, "%s: variable '%s' is %s, the other inputs are %s",
                                         est_node_text(def, text), est_node_name(in.data[i]), est_dtype_name(dtype),
                                         est_dtype_name(update_dtype(def))));
    }
    return node;
}

est_node est_build_apply(const est_op *dense, const est_op *sparse, est_nodes in, est_gradient g, est_attrs attrs)
{
    bool          by_rows = g.indices.graph != NULL;
    const est_op *op      = by_rows ? sparse : dense;
    est_node      all[EST_ARG_MAX];
    int           n = in.n + (by_rows ? 2 : 1);

    for (int i = 0, next = 0; i < n; i++) {
        bool indices = by_rows && i == op->update->indices;
        all[i]       = i == op->update->gradient ? g.values : indices ? g.indices : in.data[next++];
    }
    return est_build_update(op, (est_nodes){ all, n }, attrs);
}

est_node est_assign(est_node variable, est_node value)
{
    return est_build_update(&est_op_assign_variable, EST_NODES(variable, value), EST_NO_ATTRS);
}

est_node est_assign_add(est_node variable, est_node value)
{
    return est_build_update(&est_op_assign_add_variable, EST_NODES(variable, value), EST_NO_ATTRS);
}

est_node est_assign_sub(est_node variable, est_node value)
{
    return est_build_update(&est_op_assign_sub_variable, EST_NODES(variable, value), EST_NO_ATTRS);
}

est_node est_variable_is_initialized(est_node variable)
{
    return est_build1(&est_op_var_is_initialized, variable, EST_NO_ATTRS);
}
