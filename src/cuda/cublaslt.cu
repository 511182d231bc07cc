/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products by cuBLASLt, opened at run time: libcublasLt.so.13, or the folder in ESTOC_CUDA_LIBRARIES first.
 *
 * cuBLASLt has columns one after the other, so y' = op(b)' op(a)' is asked for. The algorithm is one of those that the
 * library proposes for the shape, the first unless cuda/gemm_choices.def names another: known without running anything,
 * the same in every run. float32 is multiplied as TF32 unless
 * ESTOC_NO_TF32 is set: 10 bits of each factor's fraction count, sums are float32. */
#include <cublasLt.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include <mutex>

#include "cuda/gemm.cuh"

#define FUNCTIONS(X)                                                                                                   \
    X(cublasLtCreate)                                                                                                  \
    X(cublasLtMatmul)                                                                                                  \
    X(cublasLtMatmulDescCreate)                                                                                        \
    X(cublasLtMatmulDescDestroy)                                                                                       \
    X(cublasLtMatmulDescSetAttribute)                                                                                  \
    X(cublasLtMatrixLayoutCreate)                                                                                      \
    X(cublasLtMatrixLayoutDestroy)                                                                                     \
    X(cublasLtMatrixLayoutSetAttribute)                                                                                \
    X(cublasLtMatmulPreferenceCreate)                                                                                  \
    X(cublasLtMatmulPreferenceDestroy)                                                                                 \
    X(cublasLtMatmulPreferenceSetAttribute)                                                                            \
    X(cublasLtMatmulAlgoGetHeuristic)

#define PROPOSED_MAX 32 /* algorithms that are asked for */

#define DECLARE(name) static decltype(&name) lt_##name;
FUNCTIONS(DECLARE)
#undef DECLARE

static cublasLtHandle_t handles[EST_GPUS_MAX]; /* NULL: no library, or no queue there yet */

static void *open_library(void)
{
    const char *folder = getenv("ESTOC_CUDA_LIBRARIES");
    char        path[4096];

    if (folder != NULL && snprintf(path, sizeof path, "%s/libcublasLt.so.13", folder) < (int)sizeof path) {
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (library != NULL) return library;
    }
    return dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_LOCAL);
}

static bool find_functions(void)
{
    void *library = open_library();

    if (library == NULL) return false;
#define FIND(name)                                                                                                     \
    lt_##name = (decltype(lt_##name))dlsym(library, #name);                                                            \
    if (lt_##name == NULL) return false;
    FUNCTIONS(FIND)
#undef FIND
    return true;
}

/* A handle is of the GPU that the thread has chosen. */
void est_cublaslt_open(void)
{
    static std::mutex lock;                     /* guards handles while one is made */
    static bool       found = find_functions(); /* C++ makes this safe among threads */
    int               gpu   = 0;

    if (!found || cudaGetDevice(&gpu) != cudaSuccess || gpu >= EST_GPUS_MAX) return;

    std::lock_guard<std::mutex> guard(lock);

    if (handles[gpu] == NULL && lt_cublasLtCreate(&handles[gpu]) != CUBLAS_STATUS_SUCCESS) handles[gpu] = NULL;
}

static cublasLtHandle_t own_handle(void)
{
    int gpu = 0;

    return cudaGetDevice(&gpu) == cudaSuccess && gpu < EST_GPUS_MAX ? handles[gpu] : NULL;
}

bool est_cublaslt_tf32(void)
{
    static bool full = getenv("ESTOC_NO_TF32") != NULL;

    return !full;
}

static cublasComputeType_t compute_type(const est_product *p)
{
    return est_precision_of(p) == EST_PRODUCT_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

/* The bytes that an address is a multiple of, up to 256, and those `step` elements of float32 further on. */
static uint32_t alignment_of(const void *p, int64_t step)
{
    uintptr_t both = (uintptr_t)p | (uintptr_t)step * sizeof(float), low = both & (~both + 1);

    return low == 0 || low > 256 ? 256 : (uint32_t)low;
}

/* What a product is to the library: made for one launch. */
typedef struct lt_product {
    cublasLtMatmulDesc_t       desc;
    cublasLtMatrixLayout_t     b, a, y; /* in its order */
    cublasLtMatmulPreference_t preference;
} lt_product;

/* One of a product's matrices as those of a batch. */
static int repeat(cublasLtMatrixLayout_t layout, int64_t batch, int64_t step)
{
    int32_t n   = (int32_t)batch;
    int     bad = 0;

    bad |= lt_cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &n, sizeof n);
    bad |= lt_cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step);
    return bad;
}

static bool describe(const est_product *p, lt_product *lt)
{
    cublasOperation_t  yes = CUBLAS_OP_T, no = CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = p->epilogue == EST_EPILOGUE_BIAS        ? CUBLASLT_EPILOGUE_BIAS
                                  : p->epilogue == EST_EPILOGUE_BIAS_RELU ? CUBLASLT_EPILOGUE_RELU_BIAS
                                                                          : CUBLASLT_EPILOGUE_DEFAULT;
    cudaDataType_t     type     = p->bfloat16 ? CUDA_R_16BF : CUDA_R_32F;
    uint64_t           m = (uint64_t)p->m, n = (uint64_t)p->n, k = (uint64_t)p->k;
    int                bad = 0;

    bad |= lt_cublasLtMatmulDescCreate(&lt->desc, compute_type(p), CUDA_R_32F);
    if (bad != 0) return false;
#define SET(name, value)                                                                                               \
    lt_cublasLtMatmulDescSetAttribute(lt->desc, CUBLASLT_MATMUL_DESC_##name, &(value), sizeof(value))
    bad |= SET(TRANSA, p->trans_b ? yes : no);
    bad |= SET(TRANSB, p->trans_a ? yes : no);
    bad |= SET(EPILOGUE, epilogue);
    if (p->with != NULL && p->epilogue != EST_EPILOGUE_NONE) bad |= SET(BIAS_POINTER, p->with);
#undef SET
    bad |= p->trans_b ? lt_cublasLtMatrixLayoutCreate(&lt->b, type, k, n, (int64_t)k)
                      : lt_cublasLtMatrixLayoutCreate(&lt->b, type, n, k, (int64_t)n);
    bad |= p->trans_a ? lt_cublasLtMatrixLayoutCreate(&lt->a, type, m, k, (int64_t)m)
                      : lt_cublasLtMatrixLayoutCreate(&lt->a, type, k, m, (int64_t)k);
    bad |= lt_cublasLtMatrixLayoutCreate(&lt->y, CUDA_R_32F, n, m, (int64_t)n);
    if (p->batch > 0 && bad == 0) {
        bad |= repeat(lt->b, p->batch, p->step_b);
        bad |= repeat(lt->a, p->batch, p->step_a);
        bad |= repeat(lt->y, p->batch, p->m * p->n);
    }
    bad |= lt_cublasLtMatmulPreferenceCreate(&lt->preference);
    return bad == 0;
}

static bool choose(cublasLtHandle_t handle, const est_product *p, const lt_product *lt, cublasLtMatmulAlgo_t *algo)
{
    size_t                          bytes = EST_GEMM_WORKSPACE;
    uint32_t                        a = alignment_of(p->b, p->step_b), b = alignment_of(p->a, p->step_a);
    uint32_t                        y                   = alignment_of(p->y, p->batch > 0 ? p->m * p->n : 0);
    cublasLtMatmulHeuristicResult_t found[PROPOSED_MAX] = {};
    int                             n = 0, bad = 0, at = p->choice < PROPOSED_MAX ? p->choice : 0;

#define SET(name, value)                                                                                               \
    lt_cublasLtMatmulPreferenceSetAttribute(lt->preference, CUBLASLT_MATMUL_PREF_##name, &(value), sizeof(value))
    bad |= SET(MAX_WORKSPACE_BYTES, bytes);
    bad |= SET(MIN_ALIGNMENT_A_BYTES, a);
    bad |= SET(MIN_ALIGNMENT_B_BYTES, b);
    bad |= SET(MIN_ALIGNMENT_C_BYTES, y);
    bad |= SET(MIN_ALIGNMENT_D_BYTES, y);
#undef SET
    bad |= lt_cublasLtMatmulAlgoGetHeuristic(handle, lt->desc, lt->b, lt->a, lt->y, lt->y, lt->preference, at + 1,
                                             found, &n);
    if (at >= n) at = 0; /* another version of the library proposes less */
    *algo = found[at].algo;
    return bad == 0 && n > 0;
}

static void forget(lt_product *lt)
{
    if (lt->preference != NULL) (void)lt_cublasLtMatmulPreferenceDestroy(lt->preference);
    if (lt->y != NULL) (void)lt_cublasLtMatrixLayoutDestroy(lt->y);
    if (lt->a != NULL) (void)lt_cublasLtMatrixLayoutDestroy(lt->a);
    if (lt->b != NULL) (void)lt_cublasLtMatrixLayoutDestroy(lt->b);
    if (lt->desc != NULL) (void)lt_cublasLtMatmulDescDestroy(lt->desc);
}

bool est_cublaslt_launch(const est_call *c, const est_product *p, int *error)
{
    cublasLtHandle_t     handle = own_handle();
    lt_product           lt     = {};
    float                one = 1, zero = 0;
    cublasLtMatmulAlgo_t algo;
    bool                 taken = handle != NULL && describe(p, &lt) && choose(handle, p, &lt, &algo);

    if (taken) {
        cublasStatus_t status = lt_cublasLtMatmul(handle, lt.desc, &one, p->b, lt.b, p->a, lt.a, &zero, p->y, lt.y,
                                                  p->y, lt.y, &algo, p->scratch, EST_GEMM_WORKSPACE,
                                                  (cudaStream_t)c->stream);
        *error                = status == CUBLAS_STATUS_SUCCESS ? 0 : (int)cudaErrorUnknown;
    }
    forget(&lt);
    return taken;
}
