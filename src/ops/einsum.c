/* SPDX-License-Identifier: Apache-2.0
 *
 * Einsum of two operands, as Keras' EinsumDense and MultiHeadAttention use it: "abc,cd->abd".
 *
 * Every label is of one of four kinds: in all three (batch), in both operands only (summed over), in the first and the
 * result (rows), in the second and the result (columns). So the whole is a product of matrices for each index of the
 * batch labels. An operand whose axes lie in another order is copied into the scratch first; so is the result. "..."
 * stands for axes with labels of their own, counted from the last.
 *
 * Not there: one operand, or three; a label twice in one operand (diagonals); a label of one operand alone that is
 * summed over; axes of size 1 below "..." that broadcast. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/parallel.h"
#include "kernels/strided.h"
#include "ops/array.h"
#include "ops/matmul.h"
#include "tensor/shape.h"

#define FIRST_ELLIPSIS 128 /* labels are bytes: letters, and from here the axes below "...", the last one first */

/* The labels of one operand or of the result, axis by axis. */
typedef struct labels {
    int     n;
    uint8_t of[EST_RANK_MAX];
} labels;

typedef struct equation {
    labels part[3]; /* the operands, the result */
} equation;

/* --- the equation ------------------------------------------------------------------------------------------------- */

static bool has(const labels *l, uint8_t label)
{
    return memchr(l->of, label, (size_t)l->n) != NULL;
}

static est_status add_label(labels *l, uint8_t label, const char *text)
{
    if (l->n == EST_RANK_MAX) {
        return est_fail(EST_UNIMPLEMENTED, "equation \"%s\": more than %d axes", text, EST_RANK_MAX);
    }
    if (has(l, label)) {
        return est_fail(EST_UNIMPLEMENTED, "equation \"%s\": a label is twice in one operand", text);
    }
    l->of[l->n++] = label;
    return EST_OK;
}

/* One part, which ends at `end`. n_dots: axes that "..." stands for. */
static est_status parse_part(const char *text, const char *at, const char *end, int n_dots, labels *out)
{
    for (; at < end; at++) {
        if (*at == ' ') continue;
        if (end - at >= 3 && memcmp(at, "...", 3) == 0) {
            for (int i = n_dots - 1; i >= 0; i--) EST_TRY(add_label(out, (uint8_t)(FIRST_ELLIPSIS + i), text));
            at += 2;
        } else if ((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z')) {
            EST_TRY(add_label(out, (uint8_t)*at, text));
        } else {
            return est_fail(EST_INVALID_ARGUMENT, "equation \"%s\": '%c' is no label; expected letters and \"...\"",
                            text, *at);
        }
    }
    return EST_OK;
}

static bool find_dots(const char *at, const char *end)
{
    for (; end - at >= 3; at++) {
        if (memcmp(at, "...", 3) == 0) return true;
    }
    return false;
}

/* Letters of one part. */
static int count_letters(const char *at, const char *end)
{
    int n = 0;

    for (; at < end; at++) n += *at != ' ' && *at != '.';
    return n;
}

/* Every label has one of the four kinds. */
static est_status check_kinds(const char *text, const equation *e)
{
    for (int p = 0; p < 3; p++) {
        for (int i = 0; i < e->part[p].n; i++) {
            uint8_t label = e->part[p].of[i];
            int     n     = has(&e->part[0], label) + has(&e->part[1], label) + has(&e->part[2], label);

            if (n > 1) continue;
            if (p == 2) {
                return est_fail(EST_INVALID_ARGUMENT, "equation \"%s\": the result has a label that no operand has",
                                text);
            }
            return est_fail(EST_UNIMPLEMENTED, "equation \"%s\": operand %d is summed over a label of its own", text,
                            p);
        }
    }
    return EST_OK;
}

/* *known is false when the rank of an operand with "..." is not known. */
static est_status parse(const char *text, const est_shape *a, const est_shape *b, equation *out, bool *known)
{
    const est_shape *shape[2] = { a, b };
    const char      *comma = strchr(text, ','), *arrow = strstr(text, "->"), *from[3], *to[3];
    char             s[EST_SHAPE_TEXT_MAX];
    int              n_dots[3] = { 0, 0, 0 };

    *out   = (equation){ 0 };
    *known = true;
    if (comma == NULL || arrow == NULL || arrow < comma || strchr(comma + 1, ',') != NULL) {
        return est_fail(EST_UNIMPLEMENTED, "equation \"%s\": expected two operands and a result, as in \"ab,bc->ac\"",
                        text);
    }
    from[0] = text, to[0] = comma;
    from[1] = comma + 1, to[1] = arrow;
    from[2] = arrow + 2, to[2] = text + strlen(text);
    for (int p = 0; p < 2; p++) {
        bool dots    = find_dots(from[p], to[p]);
        int  letters = count_letters(from[p], to[p]);

        if (shape[p]->rank < 0) {
            *known = *known && !dots;
            continue;
        }
        if (dots ? shape[p]->rank < letters : shape[p]->rank != letters) {
            return est_fail(EST_INVALID_ARGUMENT, "equation \"%s\": operand %d has shape %s, expected %s%d axes", text,
                            p, est_shape_text(shape[p], s), dots ? "at least " : "", letters);
        }
        n_dots[p] = dots ? shape[p]->rank - letters : 0;
    }
    if (!*known) return EST_OK;
    n_dots[2] = n_dots[0] > n_dots[1] ? n_dots[0] : n_dots[1];
    for (int p = 0; p < 3; p++) EST_TRY(parse_part(text, from[p], to[p], n_dots[p], &out->part[p]));
    return check_kinds(text, out);
}

/* --- shapes ------------------------------------------------------------------------------------------------------- */

/* The size of a label; -1: not known. */
static est_status size_of(const char *text, const equation *e, const est_shape *const *shape, uint8_t label,
                          int64_t *out)
{
    *out = -1;
    for (int p = 0; p < 2; p++) {
        const uint8_t *at  = memchr(e->part[p].of, label, (size_t)e->part[p].n);
        int64_t        dim = at != NULL && shape[p]->rank >= 0 ? shape[p]->dim[at - e->part[p].of] : -1;
        char           a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

        if (dim < 0) continue;
        if (*out >= 0 && dim != *out) {
            return est_fail(EST_INVALID_ARGUMENT,
                            "equation \"%s\": shapes %s and %s differ in an axis that has one label", text,
                            est_shape_text(shape[0], a), est_shape_text(shape[1], b));
        }
        *out = dim;
    }
    return EST_OK;
}

static est_status einsum_infer(est_infer *c)
{
    const char      *text = est_node_string(c->node, "equation");
    const est_shape *shape[2];
    equation         e;
    int64_t          size;
    bool             known;

    if (c->n_in != 2) return est_fail(EST_UNIMPLEMENTED, "equation \"%s\": %d operands, expected 2", text, c->n_in);
    shape[0] = &c->in[0];
    shape[1] = &c->in[1];
    EST_TRY(parse(text, shape[0], shape[1], &e, &known));
    if (!known) return EST_OK;
    for (int i = 0; i < e.part[0].n; i++) EST_TRY(size_of(text, &e, shape, e.part[0].of[i], &size));
    c->out[0] = est_shape_of_rank(e.part[2].n);
    for (int i = 0; i < e.part[2].n; i++) EST_TRY(size_of(text, &e, shape, e.part[2].of[i], &c->out[0].dim[i]));
    return EST_OK;
}

/* dx of "x,y->z" is "z,y->x": what x is summed over is in y, what is not is in z. */
static void einsum_grad(est_grad *g)
{
    const char *text = est_node_string(g->node, "equation"), *comma = strchr(text, ','), *arrow = strstr(text, "->");
    int         x = (int)(comma - text), y = (int)(arrow - comma - 1);
    est_arena  *arena = est_graph_arena(g->in[0].graph);
    const char *dx    = est_arena_printf(arena, "%s,%.*s->%.*s", arrow + 2, y, comma + 1, x, text);
    const char *dy    = est_arena_printf(arena, "%.*s,%s->%.*s", x, text, arrow + 2, y, comma + 1);

    if (dx == NULL || dy == NULL) {
        (void)est_graph_poison(g->in[0].graph, est_no_memory());
        return;
    }
    g->din[0].values = est_build(g->in[0].graph, &est_op_einsum, EST_NODES(g->dout[0], g->in[1]),
                                 EST_ATTRS(est_attr_string("equation", dx)));
    g->din[1].values = est_build(g->in[0].graph, &est_op_einsum, EST_NODES(g->in[0], g->dout[0]),
                                 EST_ATTRS(est_attr_string("equation", dy)));
}

/* --- kernel ------------------------------------------------------------------------------------------------------- */

/* An operand, or the result, as matrices one after the other. */
typedef struct matrices {
    bool        copied, transposed;
    est_strided layout; /* of the copy: from the operand to the matrices, or from the matrices to the result */
    size_t      bytes;  /* of the copy */
} matrices;

typedef struct einsum_plan {
    est_gemm  one;
    est_dtype dtype;
    int64_t   count; /* of products */
    int64_t   a_bytes, b_bytes, c_bytes;
    double    ns; /* one product takes */
    bool      small;
    matrices  part[3];
    size_t    gemm_bytes; /* of scratch, for one product */
} einsum_plan;

/* Labels of `from` that `in` has (or has not, twice over), in their order. */
static void select_labels(const labels *from, const labels *in, bool in_has, const labels *also, bool also_has,
                          labels *out)
{
    for (int i = 0; i < from->n; i++) {
        if (has(in, from->of[i]) == in_has && has(also, from->of[i]) == also_has) out->of[out->n++] = from->of[i];
    }
}

static labels join(const labels *a, const labels *b, const labels *c)
{
    labels        all    = { 0 };
    const labels *list[] = { a, b, c };

    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < list[k]->n; i++) all.of[all.n++] = list[k]->of[i];
    }
    return all;
}

static bool same(const labels *a, const labels *b)
{
    return a->n == b->n && memcmp(a->of, b->of, (size_t)a->n) == 0;
}

static int64_t product(const labels *l, const labels *of, const est_shape *shape)
{
    int64_t n = 1;

    for (int i = 0; i < l->n; i++) n *= shape->dim[(const uint8_t *)memchr(of->of, l->of[i], (size_t)of->n) - of->of];
    return n;
}

/* How a tensor of these labels is matrices of those; `back`: the matrices come first. */
static matrices arrange(const labels *tensor, const est_shape *shape, size_t element, const labels *wanted, bool back)
{
    matrices m = { .copied = !same(tensor, wanted) };
    int64_t  strides[EST_RANK_MAX], step = 1, at[EST_RANK_MAX];

    if (!m.copied) return m;
    est_shape_strides(shape, strides);
    for (int i = wanted->n - 1; i >= 0; i--) {
        at[i] = step;
        step *= shape->dim[(const uint8_t *)memchr(tensor->of, wanted->of[i], (size_t)tensor->n) - tensor->of];
    }
    for (int i = 0; i < wanted->n; i++) {
        int64_t axis = (const uint8_t *)memchr(tensor->of, wanted->of[i], (size_t)tensor->n) - tensor->of;

        est_strided_push(&m.layout, shape->dim[axis], back ? at[i] : strides[axis], back ? strides[axis] : at[i]);
    }
    m.bytes = ((size_t)step * element + 63) / 64 * 64;
    return m;
}

#define SMALL_PRODUCT_NS 200000.0 /* below this a product is not worth cutting up */

static est_status make_plan(const est_call *c, einsum_plan *out)
{
    const est_shape *a = &c->in[0]->shape, *b = &c->in[1]->shape, *z = &c->out[0].shape;
    size_t           element = est_dtype_size(c->out[0].dtype);
    labels           batch = { 0 }, rows = { 0 }, summed = { 0 }, columns = { 0 }, want, other;
    const labels    *p;
    equation         e;
    bool             known;
    int64_t          m, n, k;

    EST_TRY(parse(est_node_string(c->node, "equation"), a, b, &e, &known));
    p = e.part;
    select_labels(&p[2], &p[0], true, &p[1], true, &batch);
    select_labels(&p[2], &p[0], true, &p[1], false, &rows);
    select_labels(&p[2], &p[0], false, &p[1], true, &columns);
    select_labels(&p[0], &p[1], true, &p[2], false, &summed);
    m = product(&rows, &p[0], a), n = product(&columns, &p[1], b), k = product(&summed, &p[0], a);
    *out         = (einsum_plan){ .dtype = c->out[0].dtype, .count = product(&batch, &p[0], a) };
    want         = join(&batch, &rows, &summed);
    other        = join(&batch, &summed, &rows);
    out->part[0] = (matrices){ .transposed = !same(&p[0], &want) && same(&p[0], &other) };
    if (!out->part[0].transposed) out->part[0] = arrange(&p[0], a, element, &want, false);
    want         = join(&batch, &summed, &columns);
    other        = join(&batch, &columns, &summed);
    out->part[1] = (matrices){ .transposed = !same(&p[1], &want) && same(&p[1], &other) };
    if (!out->part[1].transposed) out->part[1] = arrange(&p[1], b, element, &want, false);
    want         = join(&batch, &rows, &columns);
    out->part[2] = arrange(&p[2], z, element, &want, true);
    out->one     = (est_gemm){ .trans_a = out->part[0].transposed,
                               .trans_b = out->part[1].transposed,
                               .m       = m,
                               .n       = n,
                               .k       = k,
                               .lda     = out->part[0].transposed ? m : k,
                               .ldb     = out->part[1].transposed ? k : n,
                               .ldc     = n };
    if (out->one.lda < 1) out->one.lda = 1;
    if (out->one.ldb < 1) out->one.ldb = 1;
    if (out->one.ldc < 1) out->one.ldc = 1;
    out->a_bytes = m * k * (int64_t)element;
    out->b_bytes = k * n * (int64_t)element;
    out->c_bytes = m * n * (int64_t)element;
    out->ns      = 2.0 * (double)m * (double)n * (double)k / 40.0 + 100.0;
    out->small   = out->count > 1 && out->ns < SMALL_PRODUCT_NS;
    if (out->dtype == EST_F32) {
        out->gemm_bytes = (est_gemm_scratch(out->small ? NULL : c->pool, &out->one) + 63) / 64 * 64;
    }
    return EST_OK;
}

static size_t einsum_scratch(const est_call *c)
{
    einsum_plan p;
    size_t      blocks = 1;

    if (make_plan(c, &p) != EST_OK) return 0; /* infer has refused it */
    if (p.small) blocks = (size_t)est_parallel_blocks(p.count, p.ns);
    return p.part[0].bytes + p.part[1].bytes + p.part[2].bytes + p.gemm_bytes * blocks;
}

static est_status einsum_prepare(est_call *c)
{
    if (c->state == NULL) c->state = est_zalloc(sizeof(einsum_plan));
    if (c->state == NULL) return est_no_memory();
    return make_plan(c, c->state);
}

static void einsum_release(est_call *c)
{
    est_free(c->state);
}

static void run_product(const einsum_plan *p, est_pool *pool, int64_t i, int64_t block)
{
    est_gemm g = p->one;

    g.a       = (const char *)g.a + i * p->a_bytes;
    g.b       = (const char *)g.b + i * p->b_bytes;
    g.c       = (char *)g.c + i * p->c_bytes;
    g.scratch = p->gemm_bytes > 0 ? (char *)g.scratch + (size_t)block * p->gemm_bytes : NULL;
    est_matmul_any(pool, p->dtype, &g);
}

static void run_range(void *arg, int64_t begin, int64_t end, int64_t block)
{
    for (int64_t i = begin; i < end; i++) run_product(arg, NULL, i, block);
}

static est_status einsum_cpu(est_call *c)
{
    einsum_plan p       = *(const einsum_plan *)c->state;
    size_t      element = est_dtype_size(p.dtype);
    char       *scratch = c->scratch;
    void       *data[3] = { c->in[0]->data, c->in[1]->data, c->out[0].data };

    if (c->out[0].count == 0) return EST_OK;
    for (int i = 0; i < 3; i++) {
        if (!p.part[i].copied) continue;
        if (i < 2 && c->in[i]->count > 0) {
            est_strided_copy(c->pool, element, &p.part[i].layout, scratch, data[i]);
        }
        data[i] = scratch;
        scratch += p.part[i].bytes;
    }
    p.one.a       = data[0];
    p.one.b       = data[1];
    p.one.c       = data[2];
    p.one.scratch = scratch;
    if (p.small) {
        est_parallel_for(c->pool, p.count, 1, p.ns, run_range, &p);
    } else {
        for (int64_t i = 0; i < p.count; i++) run_product(&p, c->pool, i, 0);
    }
    if (p.part[2].copied) est_strided_copy(c->pool, element, &p.part[2].layout, c->out[0].data, data[2]);
    return EST_OK;
}

const est_op est_op_einsum = {
    .name      = "Einsum",
    .signature = "inputs: N*T -> output: T; equation: string; N: int; T: {float32, float64, int32, int64}",
    .infer     = einsum_infer,
    .grad      = einsum_grad,
    .cpu       = EST_KERNELS(
              { .run = einsum_cpu, .prepare = einsum_prepare, .scratch = einsum_scratch, .release = einsum_release }),
    .heavy = true,
};
