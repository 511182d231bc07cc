/* SPDX-License-Identifier: Apache-2.0 */
#include "apply.h"
#include "estoc/session.h"

static void copy_in(est_ref *r, int from)
{
    memcpy(r->out[0], r->in[from], (size_t)est_shape_count(&r->in_shape[from]) * sizeof(double));
}

static void read_ref(est_ref *r)
{
    copy_in(r, 0);
}

static void assign_ref(est_ref *r)
{
    copy_in(r, 1);
}

static void add_ref(est_ref *r)
{
    for (int64_t i = 0; i < est_shape_count(&r->in_shape[0]); i++) r->out[0][i] = r->in[0][i] + r->in[1][i];
}

static void sub_ref(est_ref *r)
{
    for (int64_t i = 0; i < est_shape_count(&r->in_shape[0]); i++) r->out[0][i] = r->in[0][i] - r->in[1][i];
}

static void assign_fill_ref(est_ref *r)
{
    for (int64_t i = 0; i < est_shape_count(&r->in_shape[0]); i++) r->out[0][i] = r->in[1][0];
}

static void assign_draw_ref(est_ref *r)
{
    for (int64_t i = 0; i < est_shape_count(&r->in_shape[0]); i++) r->out[0][i] = 0.25;
}

static void is_initialized_ref(est_ref *r)
{
    r->out[0][0] = 1;
}

#define INT_VAR(type, ...)                                                                                             \
    {                                                                                                                  \
        .shape = EST_SHAPE(__VA_ARGS__), .dtype = type, .lo = -9, .hi = 9, .variable = true                            \
    }
#define INT_IN(type, ...)                                                                                              \
    {                                                                                                                  \
        .shape = EST_SHAPE(__VA_ARGS__), .dtype = type, .lo = -9, .hi = 9                                              \
    }
#define CONSTANT(type)                                                                                                 \
    .attrs = EST_ATTRS(est_attr_type("dtype", type), est_attr_int("distribution", EST_ROW_CONSTANT),                   \
                       est_attr_float("factor", 1), est_attr_float("term", 0.25), est_attr_int("first", 0),            \
                       est_attr_int("seed", 0), est_attr_int("seed2", 0))
#define DTYPE(type) .attrs = EST_ATTRS(est_attr_type("dtype", type))

static int failures;

static void check(bool ok, const char *what)
{
    if (ok) return;
    printf("FAIL %s: %s\n", what, est_error_message());
    failures++;
}

/* Names, initializers, use before a value, and dtypes that do not fit. */
static void check_builders(void)
{
    est_graph   *graph   = NULL;
    est_session *session = NULL;
    est_tensor  *out[2]  = { NULL, NULL };

    check(est_graph_create(1, &graph) == EST_OK, "graph");
    est_scope_push(graph, "layer");
    est_node a = est_variable(graph, "w", EST_F32, EST_SHAPE(2));
    est_node b = est_variable(graph, "w", EST_F32, EST_SHAPE(2));
    est_scope_pop(graph);
    check(strcmp(est_node_string(est_def(a), "shared_name"), "layer/w") == 0, "scoped name");
    check(strcmp(est_node_string(est_def(b), "shared_name"), "layer/w_1") == 0, "unique name");
    est_variable_initializer(a, est_const_f32(graph, EST_SHAPE(2), (const float[]){ 1, 2 }));
    est_variable_initializer(b, est_const_f32(graph, EST_SHAPE(2), (const float[]){ 3, 2 }));
    est_node ready = est_variable_is_initialized(a);
    est_node more  = est_assign_add(a, est_read_variable(a)); /* doubles in place */

    check(est_session_create(graph, NULL, &session) == EST_OK, "session");
    check(est_session_run(session, EST_NO_FEEDS, EST_NODES(ready), (est_nodes){ 0 }, out) == EST_OK, "is initialized");
    check(out[0] != NULL && *(const uint8_t *)est_tensor_data(out[0]) == 0, "not yet");
    est_tensor_free(out[0]);
    out[0] = NULL;
    check(est_session_run(session, EST_NO_FEEDS, EST_NODES(est_read_variable(a)), (est_nodes){ 0 }, out) ==
              EST_FAILED_PRECONDITION,
          "read before a value");
    check(est_session_init(session) == EST_OK, "init");
    check(est_session_run(session, EST_NO_FEEDS, (est_nodes){ 0 }, EST_NODES(more), NULL) == EST_OK, "run");
    check(est_session_read(session, "layer/w_1", &out[0]) == EST_OK, "read");
    check(out[0] != NULL && ((const float *)est_tensor_data(out[0]))[1] == 2, "a variable of its own");
    est_tensor_free(out[0]);
    check(est_session_read(session, "layer/w", &out[0]) == EST_OK, "read");
    check(out[0] != NULL && ((const float *)est_tensor_data(out[0]))[1] == 4, "doubled");
    est_tensor_free(out[0]);
    est_session_free(session);

    (void)est_assign(a, est_scalar(graph, EST_F64, 1));
    check(est_graph_status(graph) == EST_INVALID_ARGUMENT, "wrong dtype");
    est_graph_free(graph);

    check(est_graph_create(1, &graph) == EST_OK, "graph");
    est_variable_initializer(est_variable(graph, "v", EST_F32, EST_SHAPE(2)), est_scalar(graph, EST_F32, 1));
    check(est_graph_status(graph) == EST_INVALID_ARGUMENT && strstr(est_error_message(), "'v'") != NULL,
          "initial value of another shape");
    est_graph_free(graph);

    check(est_graph_create(1, &graph) == EST_OK, "graph");
    (void)est_variable(graph, "v", EST_F32, EST_SHAPE(-1, 2));
    check(est_graph_status(graph) == EST_INVALID_ARGUMENT, "unknown shape");
    est_graph_free(graph);
}

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { .op    = "VarHandleOp",
          .attrs = EST_ATTRS(est_attr_string("shared_name", "v"), est_attr_type("dtype", EST_I32),
                             est_attr_shape("shape", EST_SHAPE(2, 3))) },
        { .op = "ReadVariableOp", { VAR(3, 5) }, DTYPE(EST_F32), .ref = read_ref },
        { .op = "ReadVariableOp", { INT_VAR(EST_I64, 4) }, DTYPE(EST_I64), .ref = read_ref },
        { .op = "AssignVariableOp", { VAR(3, 5), IN(3, 5) }, .ref = assign_ref },
        { .op = "AssignVariableOp", { SCALAR_VAR, SCALAR }, .ref = assign_ref },
        { .op = "AssignVariableOp", { VAR(0), IN(0) }, .ref = assign_ref },
        { .op = "AssignVariableOp", { VAR(999, 1001), IN(999, 1001) }, .ref = assign_ref },
        { .op = "AssignVariableOp", { INT_VAR(EST_I64, 4), INT_IN(EST_I64, 4) }, .ref = assign_ref },
        { .op = "AssignVariableOp", { VAR(3), IN(4) }, .fails = EST_INVALID_ARGUMENT, .says = "[4]" },
        { .op = "AssignVariableOp", { VAR(3), INT_IN(EST_I64, 3) }, .fails = EST_INVALID_ARGUMENT, .says = "int64" },
        { .op = "EstAssignFill", { VAR(3, 5), SCALAR }, .ref = assign_fill_ref },
        { .op = "EstAssignFill", { VAR(0), SCALAR }, .ref = assign_fill_ref },
        { .op = "EstAssignFill", { VAR(999, 1001), SCALAR }, .ref = assign_fill_ref },
        { .op = "EstAssignFill", { INT_VAR(EST_I64, 4), { .dtype = EST_I64 } }, .ref = assign_fill_ref }, /* by 0 */
        { .op = "EstAssignDraw",
          { VAR(3, 5) },
          CONSTANT(EST_F32),
          .ref = assign_draw_ref }, /* tests/runtime/lazy_rows.c */
        { .op = "EstAssignDraw", { VAR(0) }, CONSTANT(EST_F32), .ref = assign_draw_ref },
        { .op = "EstAssignFill", { VAR(3), IN(3) }, .fails = EST_INVALID_ARGUMENT, .says = "[3]" },
        { .op = "EstAssignFill", { VAR(3), { .dtype = EST_I64 } }, .fails = EST_INVALID_ARGUMENT, .says = "int64" },
        { .op = "AssignAddVariableOp", { VAR(3, 5), IN(3, 5) }, .tol = 1e-6, .ref = add_ref },
        { .op = "AssignAddVariableOp", { VAR(200001), IN(200001) }, .tol = 1e-6, .ref = add_ref },
        { .op = "AssignAddVariableOp", { INT_VAR(EST_I64, 4), INT_IN(EST_I64, 4) }, .ref = add_ref },
        { .op = "AssignSubVariableOp", { VAR(3, 5), IN(3, 5) }, .tol = 1e-6, .ref = sub_ref },
        { .op = "AssignSubVariableOp", { INT_VAR(EST_I32, 4), INT_IN(EST_I32, 4) }, .ref = sub_ref },
        { .op = "AssignSubVariableOp",
          { VAR(3, 5), IN(5) },
          .fails = EST_INVALID_ARGUMENT,
          .says  = "the variable [3,5]" },
        { .op = "VarIsInitializedOp", { VAR(2) }, .ref = is_initialized_ref },
    };

    check_builders();
    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv) | (failures != 0);
}
