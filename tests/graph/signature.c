/* SPDX-License-Identifier: Apache-2.0
 *
 * Signature texts: what the parser reads and refuses, and what every op of the table owes to the rest of the
 * library. */
#include "graph/signature.h"

#include "ops/ops.h"
#include "support/locale_test.h"
#include "support/nn_test.h"

static est_status parse(const char *text, est_signature *sig)
{
    est_op op = { .name = "Probe", .signature = text };

    return est_signature_parse(&op, sig);
}

TEST(arguments_results_and_attributes_are_read)
{
    est_signature s;

    assert_ok(parse("a: T, rows: N*T, at: int64 -> y: T, parts: N*float32; N: int; T: {float32, int32} = int32; "
                    "keep: bool = true; rate: float = 2.5e-1; axis: int = -3; padding: string = \"SAME\"; "
                    "dims: ints = [1, 1, 1, 1]; none: ints = []; to: shape = ?; any: type; value: tensor",
                    &s));
    assert_int_equal(s.n_in, 3);
    assert_int_equal(s.n_out, 2);
    assert_int_equal(s.n_attr, 11);
    assert_string_equal(s.in[0].name, "a");
    assert_int_equal(s.in[0].type_attr, 1);
    assert_int_equal(s.in[0].number_attr, -1);
    assert_int_equal(s.in[1].number_attr, 0);
    assert_int_equal(s.in[2].dtype, EST_I64);
    assert_int_equal(s.in[2].type_attr, -1);
    assert_int_equal(s.out[1].dtype, EST_F32);
    assert_int_equal(s.out[1].number_attr, 0);
    assert_false(s.attr[0].optional);
    assert_int_equal(s.attr[1].types, 1u << EST_F32 | 1u << EST_I32);
    assert_int_equal(s.attr[1].fallback.type, EST_I32);
    assert_true(s.attr[2].fallback.b);
    assert_true(s.attr[3].fallback.f == 0.25);
    assert_int_equal(s.attr[4].fallback.i, -3);
    assert_string_equal(s.attr[5].fallback.s, "SAME");
    assert_int_equal(s.attr[6].fallback.ints.n, 4);
    assert_int_equal(s.attr[7].fallback.ints.n, 0);
    assert_int_equal(s.attr[8].fallback.shape.rank, -1);
    assert_int_equal(s.attr[9].kind, EST_ATTR_TYPE);
    assert_int_equal(s.attr[9].types, 0);
    assert_int_equal(s.attr[10].kind, EST_ATTR_TENSOR);
}

TEST(defaults_have_a_point_in_every_locale)
{
    est_signature s;
    est_status    status;

    locale_comma();
    status = parse("x: float32 -> y: float32; rate: float = 0.25; axis: int = 1", &s);
    locale_point();
    assert_ok(status);
    assert_true(s.attr[0].fallback.f == 0.25);
    assert_int_equal(s.attr[1].fallback.i, 1);
}

/* Arguments with a type each, and lists of shapes. */
TEST(lists_of_types_and_shapes_are_read)
{
    est_signature s;

    assert_ok(parse("keys: string, defaults: Tdense -> values: Tdense, rest: N*int64; Tdense: types{float32, string}; "
                    "N: int; any: types; dims: shapes",
                    &s));
    assert_int_equal(s.in[1].type_attr, 0);
    assert_int_equal(s.in[1].number_attr, -1);
    assert_int_equal(s.out[0].type_attr, 0);
    assert_int_equal(s.attr[0].kind, EST_ATTR_TYPES);
    assert_int_equal(s.attr[0].types, 1u << EST_F32 | 1u << EST_STRING);
    assert_int_equal(s.attr[2].kind, EST_ATTR_TYPES);
    assert_int_equal(s.attr[2].types, 0);
    assert_int_equal(s.attr[3].kind, EST_ATTR_SHAPES);
    assert_int_equal(parse("x: N*T -> (); N: int; T: types", &s), EST_INTERNAL); /* a list of lists */
    assert_int_equal(parse("x: T -> (); T: types{float32", &s), EST_INTERNAL);
}

TEST(space_and_nothing_are_fine)
{
    est_signature s;

    assert_ok(parse("() -> ()", &s));
    assert_int_equal(s.n_in + s.n_out + s.n_attr, 0);
    assert_ok(parse("  x:float32->y  :  float32 ;\n a:int=7 ", &s));
    assert_int_equal(s.attr[0].fallback.i, 7);
}

TEST(bad_texts_are_refused)
{
    static const char *const bad[] = {
        "",
        "a",
        "a: ",
        "a: T",
        "a: T -> y: T", /* T is no attribute */
        "a: float32 -> ",
        "a: float32, -> y: float32",
        "a float32 -> y: float32",
        "a: float32 -> y: float32; ",
        "a: float32 -> y: float32; k",
        "a: float32 -> y: float32; k: number",
        "a: float32 -> y: float32; k: {float32",
        "a: float32 -> y: float32; k: {float31}",
        "a: float32 -> y: float32; k: {}",
        "a: float32 -> y: float32; k: int = ",
        "a: float32 -> y: float32; k: int = x",
        "a: float32 -> y: float32; k: bool = maybe",
        "a: float32 -> y: float32; k: string = SAME",
        "a: float32 -> y: float32; k: string = \"SAME",
        "a: float32 -> y: float32; k: ints = [2]",
        "a: float32 -> y: float32; k: shape = [2]",
        "a: float32 -> y: float32; k: tensor = 0",
        "a: float32 -> y: float32; k: type = float",
        "a: float32 -> y: float32 garbage",
        "a: N*float32 -> y: float32",        /* N is no attribute */
        "a: T -> y: T; T: int",              /* T is no type */
        "a: N*T -> y: T; N: float; T: type", /* N is no number */
        "a: float32 -> y: float32; a_name_that_is_longer_than_any_name_should_be: int",
        "a:T,b:T,c:T,d:T,e:T,f:T,g:T,h:T,i:T,j:T,k:T,l:T,m:T -> (); T: type",
    };
    est_signature s;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (parse(bad[i], &s) != EST_INTERNAL) fail_msg("\"%s\" was accepted", bad[i]);
        assert_non_null(strstr(est_error_message(), "Probe"));
    }
}

/* --- the table of ops --------------------------------------------------------------------------------------------- */

static int inputs_of(const est_signature *sig)
{
    for (int i = 0; i < sig->n_in; i++) {
        if (sig->in[i].number_attr >= 0) return 32; /* a list: any bit may be meant */
    }
    return sig->n_in;
}

static void no_bits_beyond(const est_op *op, const char *what, uint32_t bits, int n)
{
    if (n < 32 && (bits >> n) != 0) fail_msg("%s: .%s names an input or output that is not there", op->name, what);
}

TEST(every_op_keeps_its_promises)
{
    const est_op *const *table = est_op_table();
    int                  n     = 0;

    for (int i = 0; table[i] != NULL; i++, n++) {
        const est_op *op = table[i];
        est_signature sig;

        assert_ok(est_signature_parse(op, &sig));
        if (op->infer == NULL) fail_msg("%s has no shape function", op->name);
        for (int k = 0; k < i; k++) assert_string_not_equal(op->name, table[k]->name);
        assert_ptr_equal(est_op_find(op->name), op);
        no_bits_beyond(op, "writes", op->writes, inputs_of(&sig));
        no_bits_beyond(op, "inplace", op->inplace, inputs_of(&sig));
        no_bits_beyond(op, "shape_only", op->shape_only, inputs_of(&sig));
        no_bits_beyond(op, "distinct", op->distinct, sig.n_out);
        for (int k = 0; k < sig.n_in && inputs_of(&sig) < 32; k++) {
            bool handle = sig.in[k].dtype == EST_RESOURCE;
            if ((op->writes >> k & 1) != 0 && !handle)
                fail_msg("%s writes input %d, which is no variable", op->name, k);
        }
        if (op->alias && (sig.n_out != 1 || op->inplace != 0))
            fail_msg("%s: an alias with more than one result", op->name);
        if (op->source != EST_SOURCE_NONE && op->cpu != NULL) fail_msg("%s: a source with a kernel", op->name);
        if (op->writes != 0 && !op->stateful) fail_msg("%s changes a variable but is not stateful", op->name);
    }
    assert_null(est_op_find("NoSuchOp"));
    assert_true(n > 100);
}

/* --- shape functions that know nothing ---------------------------------------------------------------------------- */

static est_dtype allowed_type(const est_signature *sig, int attr)
{
    static const est_dtype liked[] = { EST_F32, EST_I32, EST_I64, EST_BOOL, EST_U8, EST_STRING };

    if (sig->attr[attr].types == 0) return EST_F32;
    for (size_t i = 0; i < sizeof liked / sizeof liked[0]; i++) {
        if ((sig->attr[attr].types & 1u << liked[i]) != 0) return liked[i];
    }
    return EST_F32;
}

/* The handle of a table that nothing fills: shape functions do not look into it. */
static est_node some_table(est_graph *g)
{
    return est_build0(g, &est_op_hash_table,
                      EST_ATTRS(est_attr_type("key_dtype", EST_I64), est_attr_type("value_dtype", EST_I64)));
}

static est_node some_input(est_graph *g, const est_op *op, const est_signature *sig, const est_arg *arg,
                           est_shape shape)
{
    if (op->takes_table && arg->dtype == EST_RESOURCE) return some_table(g);
    if (arg->dtype == EST_RESOURCE) return est_variable(g, "v", EST_F32, EST_SHAPE(4, 3));
    return est_placeholder(g, NULL, arg->type_attr >= 0 ? allowed_type(sig, arg->type_attr) : arg->dtype, shape);
}

static est_attr some_attr(const est_attr_def *def, est_dtype type, est_tensor *tensor)
{
    static const int64_t   ones[4] = { 1, 1, 1, 1 };
    static int64_t         types[EST_RESOURCE + 1][2];
    static const est_shape shapes[1] = { { 2, { 4, 3 } } };
    bool                   padding   = strcmp(def->name, "padding") == 0;
    bool                   equation  = strcmp(def->name, "equation") == 0;

    switch (def->kind) {
    case EST_ATTR_INT:
        if (strcmp(def->name, "key_index") == 0) return est_attr_int(def->name, -2); /* of a text file: the line ... */
        if (strcmp(def->name, "value_index") == 0) return est_attr_int(def->name, -1); /* ... and its number */
        return est_attr_int(def->name, 2);
    case EST_ATTR_FLOAT: return est_attr_float(def->name, 0.5);
    case EST_ATTR_BOOL: return est_attr_bool(def->name, true);
    case EST_ATTR_TYPE: return est_attr_type(def->name, type);
    case EST_ATTR_SHAPE: return est_attr_shape(def->name, EST_SHAPE(4, 3));
    case EST_ATTR_STRING: return est_attr_string(def->name, padding ? "SAME" : equation ? "ab,bc->ac" : "text");
    case EST_ATTR_INTS: return est_attr_ints(def->name, (est_i64s){ ones, strcmp(def->name, "key") == 0 ? 2 : 4 });
    case EST_ATTR_TYPES:
        types[type][0] = types[type][1] = type;
        return est_attr_types(def->name, (est_i64s){ types[type], 2 });
    case EST_ATTR_SHAPES: return est_attr_shapes(def->name, (est_shapes){ shapes, 1 });
    case EST_ATTR_TENSOR: return est_attr_tensor(def->name, tensor);
    }
    return *(&def->fallback);
}

static bool is_typed_list(const est_signature *sig, const est_arg *arg)
{
    return arg->type_attr >= 0 && sig->attr[arg->type_attr].kind == EST_ATTR_TYPES;
}

/* Whether attributes must give the lengths of the lists: there are several counted ones and several of types, as
 * SparseCross has. */
static bool needs_lengths(const est_signature *sig)
{
    int counted = 0, typed = 0;

    for (int i = 0; i < sig->n_in; i++) {
        counted += sig->in[i].number_attr >= 0;
        typed += is_typed_list(sig, &sig->in[i]);
    }
    return counted > 1 && typed > 1;
}

/* Builds the op on placeholders of that shape and gives the graph's status. Counted lists have two elements. */
static est_status build_blind(const est_op *op, est_shape shape, est_tensor *tensor)
{
    est_graph    *g = NULL;
    est_signature sig;
    est_node      in[2 * EST_ARG_MAX];
    est_attr      attrs[EST_ATTR_MAX];
    int           n = 0, n_attr = 0;
    bool          lengths;
    est_status    status;

    assert_ok(est_graph_create(1, &g));
    assert_ok(est_signature_parse(op, &sig));
    lengths = needs_lengths(&sig);
    for (int i = 0; i < sig.n_in; i++) {
        bool two = sig.in[i].number_attr >= 0 || (lengths && is_typed_list(&sig, &sig.in[i]));

        in[n++] = some_input(g, op, &sig, &sig.in[i], shape);
        if (two) in[n++] = some_input(g, op, &sig, &sig.in[i], shape);
    }
    for (int a = 0; a < sig.n_attr; a++) {
        bool counts = false, deduced = false;
        for (int i = 0; i < sig.n_in; i++) {
            counts  = counts || sig.in[i].number_attr == a;
            deduced = deduced || sig.in[i].type_attr == a;
        }
        if (!sig.attr[a].optional && (lengths || (!counts && !deduced))) {
            attrs[n_attr++] = some_attr(&sig.attr[a], allowed_type(&sig, a), tensor);
        }
    }
    est_node node = est_build(g, op, (est_nodes){ in, n }, (est_attrs){ attrs, n_attr });
    status        = est_graph_status(g);
    for (int o = 0; status == EST_OK && o < est_def(node)->n_out; o++) {
        const est_shape *out = &est_def(node)->shape[o];
        assert_true(out->rank >= -1 && out->rank <= EST_RANK_MAX);
        for (int32_t d = 0; d < out->rank; d++) assert_true(out->dim[d] >= -1);
    }
    est_graph_free(g);
    return status;
}

/* Nothing known must never be an error; a rank that does not suit the op may be one, but a clean one. */
TEST(every_op_can_be_built_blindly)
{
    const est_op *const *table  = est_op_table();
    est_tensor          *tensor = NULL;
    est_shape            dims   = { 0, { -1, -1, -1, -1, -1, -1, -1, -1 } };

    assert_ok(est_tensor_f32(EST_SHAPE_SCALAR, (const float[]){ 1 }, &tensor));
    for (int i = 0; table[i] != NULL; i++) {
        est_status status = build_blind(table[i], EST_SHAPE_UNKNOWN, tensor);
        if (status != EST_OK) fail_msg("%s of unknown shapes: %s", table[i]->name, est_error_message());
        for (dims.rank = 0; dims.rank <= EST_RANK_MAX; dims.rank++) {
            status = build_blind(table[i], dims, tensor);
            if (status != EST_OK && status != EST_INVALID_ARGUMENT && status != EST_UNIMPLEMENTED) {
                fail_msg("%s of rank %d: %s", table[i]->name, (int)dims.rank, est_error_message());
            }
        }
        for (int64_t d = 0; d < 8; d++) { /* some dimensions known, some not, empty ones among them */
            est_shape mixed = { 4, { d & 1 ? 3 : -1, d & 2 ? 0 : -1, d & 4 ? 3 : -1, 2 } };
            (void)build_blind(table[i], mixed, tensor);
        }
    }
    est_tensor_free(tensor);
}
