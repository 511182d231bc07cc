/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products, and what is done to their results at once: y = op(a) op(b), rows one after the other.
 *
 * cuBLASLt (cuda/cublaslt.cu) takes what it can; without that library, and for types it is not asked for, a plain tile
 * kernel (cuda/gemm.cu) computes the same, slower. Which of both is a matter of shape and type, never of time. */
#ifndef EST_CUDA_GEMM_CUH
#define EST_CUDA_GEMM_CUH

#include "cuda/launch.cuh"
#include "cuda/launchers.h"

typedef enum est_epilogue {
    EST_EPILOGUE_NONE,
    EST_EPILOGUE_BIAS,      /* + bias[column] */
    EST_EPILOGUE_BIAS_RELU, /* the same, then 0 where that is below 0 */
    EST_EPILOGUE_MASK       /* 0 where mask, as large as y, is not above 0 */
} est_epilogue;

/* What the factors are multiplied as; sums are float32. */
typedef enum est_precision_used { EST_PRODUCT_FLOAT32, EST_PRODUCT_TF32, EST_PRODUCT_BFLOAT16 } est_precision_used;

typedef struct est_product {
    est_dtype    dtype;
    bool         trans_a, trans_b;
    int64_t      m, n, k;
    const void  *a, *b;
    void        *y;
    est_epilogue epilogue;
    const void  *with;           /* the bias or the mask */
    void        *scratch;        /* est_product_scratch bytes */
    int          choice;         /* which algorithm of cuBLASLt, of those that it proposes */
    bool         turn;           /* a is transposed first */
    bool         full;           /* float32 with all its bits, not TF32 */
    bool         bfloat16;       /* the factors have two bytes each (EstPackBfloat16) */
    int64_t      batch;          /* so many products, by cuBLASLt alone; 0: one */
    int64_t      step_a, step_b; /* of a batch, elements from a matrix to the next; 0: one for all */
} est_product;

/* Whether a fits into its part of the scratch when it is transposed. */
static inline bool est_product_can_turn(const est_product *p)
{
    return p->trans_a && p->dtype == EST_F32 && !p->bfloat16 &&
           (size_t)(p->m * p->k) * sizeof(float) <= EST_GEMM_TURNED;
}

/* out[0] = op(in[0]) op(in[1]) of rank 2, in the call's scratch. */
static inline est_product est_product_of(const est_call *c, bool trans_a, bool trans_b)
{
    est_product p = {};

    p.dtype   = c->out[0].dtype;
    p.trans_a = trans_a;
    p.trans_b = trans_b;
    p.m       = c->out[0].shape.dim[0];
    p.n       = c->out[0].shape.dim[1];
    p.k       = c->in[0]->shape.dim[trans_a ? 0 : 1];
    p.a       = c->in[0]->data;
    p.b       = c->in[1]->data;
    p.y       = c->out[0].data;
    p.scratch = c->scratch;
    p.full    = c->no_tf32;
    return p;
}

int est_product_launch(const est_call *c, const est_product *p);

/* The same of float32 with the mask p->with, and the sums of y's columns. The call's scratch is the product's, or
 * EST_COLUMN_SCRATCH of y if that is more. */
int est_product_launch_masked_sums(const est_call *c, const est_product *p, float *sums);

/* est_product_launch as p->choice and p->turn say, which it looks up otherwise (cuda/gemm_choices.def). */
int est_product_launch_as(const est_call *c, const est_product *p);

/* Opens the library, once, for the GPU that the thread has chosen; no recording may be under way. */
void est_cublaslt_open(void);

/* Whether float32 is multiplied as TF32 where a session does not say otherwise (ESTOC_NO_TF32). */
bool est_cublaslt_tf32(void);

/* Of a product whose dtype is float32. */
static inline est_precision_used est_precision_of(const est_product *p)
{
    if (p->bfloat16) return EST_PRODUCT_BFLOAT16;
    return est_cublaslt_tf32() && !p->full ? EST_PRODUCT_TF32 : EST_PRODUCT_FLOAT32;
}

/* Whether it took the product; *error then says how that went. The first two not for EST_EPILOGUE_MASK. Those of our own
 * are for results that are small for their sums: in TF32 (cuda/gemm_tf32.cu), and smaller ones (cuda/gemm_tiles.cu). */
bool est_cublaslt_launch(const est_call *c, const est_product *p, int *error);
bool est_tf32_launch(const est_call *c, const est_product *p, int *error);
bool est_tiles_launch(const est_call *c, const est_product *p, int *error);

#endif
