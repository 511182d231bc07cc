/* SPDX-License-Identifier: Apache-2.0
 *
 * Einsum: the equations of EinsumDense and MultiHeadAttention, every order of axes, "...", many small and few large
 * products. */
#include <string.h>

#include "support/op_check.h"

/* The reference knows labels only: a letter is its character, "..." in these cases two axes, '1' and '2'. */
static int labels_of(const char *at, size_t size, char out[16])
{
    int n = 0;

    for (size_t i = 0; i < size; i++) {
        if (at[i] == '.') {
            out[n++] = '1';
            out[n++] = '2';
            i += 2;
        } else {
            out[n++] = at[i];
        }
    }
    return n;
}

static void einsum_ref(est_ref *r)
{
    const char *text = est_node_string(r->node, "equation"), *comma = strchr(text, ','), *arrow = strstr(text, "->");
    const est_shape *shape[3] = { &r->in_shape[0], &r->in_shape[1], &r->out_shape[0] };
    char             label[3][16], all[32];
    int64_t          dim[32], index[32] = { 0 };
    int              n[3], n_all        = 0;

    n[0] = labels_of(text, (size_t)(comma - text), label[0]);
    n[1] = labels_of(comma + 1, (size_t)(arrow - comma - 1), label[1]);
    n[2] = labels_of(arrow + 2, strlen(arrow + 2), label[2]);
    for (int p = 0; p < 2; p++) {
        for (int i = 0; i < n[p]; i++) {
            if (memchr(all, label[p][i], (size_t)n_all) != NULL) continue;
            all[n_all]   = label[p][i];
            dim[n_all++] = shape[p]->dim[i];
            if (shape[p]->dim[i] == 0) dim[0] = 0; /* nothing to do */
        }
    }
    for (int64_t i = 0; i < est_shape_count(shape[2]); i++) r->out[0][i] = 0;
    for (int i = 0; i < n_all; i++) {
        if (dim[i] == 0) return;
    }
    for (;;) { /* over all labels */
        int64_t at[3] = { 0, 0, 0 };
        int     axis  = n_all - 1;

        for (int p = 0; p < 3; p++) {
            for (int i = 0; i < n[p]; i++) {
                at[p] = at[p] * shape[p]->dim[i] + index[(char *)memchr(all, label[p][i], (size_t)n_all) - all];
            }
        }
        r->out[0][at[2]] += r->in[0][at[0]] * r->in[1][at[1]];
        while (axis >= 0 && ++index[axis] == dim[axis]) index[axis--] = 0;
        if (axis < 0) return;
    }
}

#define OP        "Einsum"
#define E(text)   .n_in = 2, .attrs = EST_ATTRS(est_attr_string("equation", text))
#define REF       .tol = 1e-6, .ref = einsum_ref
#define WRONG(st) .fails = EST_##st

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { OP, { IN(3, 4), IN(4, 5) }, E("ab,bc->ac"), REF },
        { OP, { IN(3, 4), IN(4, 5) }, E("ab,bc->ca"), REF },
        { OP, { IN(4, 3), IN(5, 4) }, E("ba,cb->ac"), REF },                   /* both transposed */
        { OP, { IN(2, 3, 4), IN(4, 5) }, E("abc,cd->abd"), REF },              /* EinsumDense */
        { OP, { IN(2, 3, 4), IN(4, 2, 5) }, E("abc,cde->abde"), REF },         /* projection to heads */
        { OP, { IN(2, 3, 2, 4), IN(2, 4, 5) }, E("abcd,cde->abe"), REF },      /* from heads */
        { OP, { IN(2, 5, 3, 4), IN(2, 6, 3, 4) }, E("aecd,abcd->acbe"), REF }, /* scores */
        { OP, { IN(2, 3, 6, 5), IN(2, 5, 3, 4) }, E("acbe,aecd->abcd"), REF }, /* values */
        { OP, { IN(2, 3, 4), IN(4, 5) }, E("...x,xy->...y"), REF },
        { OP, { IN(2, 3, 4), IN(2, 3, 4, 5) }, E("...x,...xy->...y"), REF },
        { OP, { IN(2, 3, 4), IN(2, 3, 5) }, E("...x,...y->xy"), REF }, /* summed over "..." */
        { OP, { IN(4, 5), IN(2, 3, 4) }, E("xy,...x->y..."), REF },
        { OP, { IN(3), IN(4) }, E("a,b->ab"), REF },         /* an outer product */
        { OP, { IN(3), IN(3) }, E("a,a->"), REF },           /* a number */
        { OP, { IN(3, 2), IN(2, 3) }, E("ab,ba->ab"), REF }, /* element by element */
        { OP, { IN(2, 2, 2, 3), IN(3, 2, 2, 2) }, E("abcd,dbae->ecba"), REF },
        { OP, { IN(0, 4), IN(4, 5) }, E("ab,bc->ac"), REF },
        { OP, { IN(3, 0), IN(0, 5) }, E("ab,bc->ac"), REF },
        { OP, { IN(60, 9, 17), IN(60, 11, 9) }, E("abc,adb->adc"), .tol = 1e-5, .ref = einsum_ref },
        { OP, { IN(2, 90, 150), IN(2, 150, 110) }, E("abc,acd->abd"), .tol = 1e-5, .ref = einsum_ref },
        { OP, { IN(3, 4), IN(5, 4) }, E("ab,cb->ca"), .dtype = EST_I32, .lo = -5, .hi = 5, .ref = einsum_ref },
        { OP, { IN(3, 4), IN(5, 6) }, E("ab,bc->ac"), WRONG(INVALID_ARGUMENT), .says = "[3,4] and [5,6] differ" },
        { OP, { IN(3, 4), IN(4) }, E("ab,bc->ac"), WRONG(INVALID_ARGUMENT), .says = "expected 2 axes" },
        { OP, { IN(3), IN(4, 5) }, E("...ab,bc->...ac"), WRONG(INVALID_ARGUMENT), .says = "at least 2 axes" },
        { OP, { IN(3, 4), IN(4, 5) }, E("ab,bc->acd"), WRONG(INVALID_ARGUMENT), .says = "no operand has" },
        { OP, { IN(3, 4), IN(4, 5) }, E("ab,bc->a"), WRONG(UNIMPLEMENTED), .says = "a label of its own" },
        { OP, { IN(3, 3), IN(3, 5) }, E("aa,ac->c"), WRONG(UNIMPLEMENTED), .says = "twice in one operand" },
        { OP, { IN(3, 4), IN(4, 5) }, E("ab,bc"), WRONG(UNIMPLEMENTED), .says = "expected two operands" },
        { OP, { IN(3, 4), IN(4, 5) }, E("ab,b1->a1"), WRONG(INVALID_ARGUMENT), .says = "'1' is no label" },
        { OP,
          { IN(3, 4) },
          .n_in  = 1,
          .attrs = EST_ATTRS(est_attr_string("equation", "ab->ba")),
          WRONG(UNIMPLEMENTED),
          .says = "1 operands, expected 2" },
    };

    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
