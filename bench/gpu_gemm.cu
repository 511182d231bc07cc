// SPDX-License-Identifier: Apache-2.0
//
// Times what cuBLASLt proposes for the products of the reference models, and prints lines for src/cuda/gemm_choices.def
// where the first proposal is not the fastest: of TF32 and bfloat16, with ESTOC_NO_TF32 of float32. Also proves and times
// what a step runs. scripts/gpu-run gemm runs it.
//
// A product is recorded ten times and replayed; the median of five replays counts. A line is printed when it wins 4 %.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <vector>

#include "cuda/bfloat16.h"
#include "cuda/gemm.cuh"

#define REPEAT 10

static cudaStream_t stream;

typedef struct layer {
    const char *model;
    int64_t     batch, in, out;
    bool        first; // its input has no gradient
} layer;

// Layers of few units have kernels of their own; the 429 columns of wide_deep have 432 on a device (runtime/fuse.c).
static const layer layers[] = {
    { "cnn", 64, 5408, 64, false },          { "cnn", 1024, 5408, 64, false },
    { "mlp", 128, 784, 1024, true },         { "mlp", 128, 1024, 512, false },
    { "mlp", 128, 512, 256, false },         { "mlp", 4096, 784, 1024, true },
    { "mlp", 4096, 1024, 512, false },       { "mlp", 4096, 512, 256, false },
    { "wide_deep", 512, 432, 256, false },   { "wide_deep", 512, 256, 128, false },
    { "wide_deep", 512, 128, 64, false },    { "wide_deep", 16384, 432, 256, false },
    { "wide_deep", 16384, 256, 128, false }, { "wide_deep", 16384, 128, 64, false },
};

static void check(int error, const char *what)
{
    if (error == 0) return;
    fprintf(stderr, "gpu_gemm: %s: %s\n", what, cudaGetErrorString((cudaError_t)error));
    exit(1);
}

// Of numbers below 1, be they read as float32 or two bytes each.
static void *room(size_t bytes)
{
    std::vector<uint16_t> halves(bytes / sizeof(uint16_t));
    void                 *p    = NULL;
    uint32_t              seed = 1;

    for (uint16_t &half : halves) {
        seed = seed * 1664525 + 1013904223;
        half = est_bfloat16_bits((float)(seed >> 8) / (1 << 23) - 1);
    }
    check(cudaMalloc(&p, bytes), "memory");
    check(cudaMemcpy(p, halves.data(), bytes, cudaMemcpyHostToDevice), "memory");
    return p;
}

typedef int (*launcher)(const est_call *c, const est_product *p);

// Microseconds of one product; below 0: it is not possible.
static double time_of(launcher launch, const est_product *p)
{
    est_call            c = {};
    cudaGraph_t         graph;
    cudaGraphExec_t     exec;
    cudaEvent_t         begin, end;
    std::vector<double> us;
    int                 error = 0;

    c.stream = stream;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "record");
    for (int i = 0; i < REPEAT && error == 0; i++) error = launch(&c, p);
    if (cudaStreamEndCapture(stream, &graph) != cudaSuccess || error != 0) {
        (void)cudaGetLastError();
        return -1;
    }
    check(cudaGraphInstantiate(&exec, graph, 0), "record");
    check(cudaEventCreate(&begin), "event");
    check(cudaEventCreate(&end), "event");
    for (int w = 0; w < 6; w++) {
        float ms = 0;

        check(cudaEventRecord(begin, stream), "event");
        check(cudaGraphLaunch(exec, stream), "replay");
        check(cudaEventRecord(end, stream), "event");
        check(cudaEventSynchronize(end), "replay");
        check(cudaEventElapsedTime(&ms, begin, end), "event");
        if (w > 0) us.push_back(1e3 * ms / REPEAT);
    }
    std::sort(us.begin(), us.end());
    (void)cudaGraphExecDestroy(exec);
    (void)cudaGraphDestroy(graph);
    (void)cudaEventDestroy(begin);
    (void)cudaEventDestroy(end);
    return us[us.size() / 2];
}

static std::vector<float> result_of(const est_product *p)
{
    std::vector<float> y((size_t)(p->m * p->n));
    est_call           c = {};

    c.stream = stream;
    check(cudaMemsetAsync(p->y, 0xff, y.size() * sizeof(float), stream), "memory");
    check(est_product_launch(&c, p), "product");
    check(cudaMemcpyAsync(y.data(), p->y, y.size() * sizeof(float), cudaMemcpyDeviceToHost, stream), "memory");
    check(cudaStreamSynchronize(stream), "product");
    return y;
}

// What a step runs: microseconds, and how far TF32 is from float32, in the largest result. A factor is rounded by at most
// 2^-11 of itself, and the results are sums of products of either sign.
static void prove(const char *model, est_product p)
{
    std::vector<float> chosen = result_of(&p), again = result_of(&p), full;
    double             us = time_of(est_product_launch, &p), worst = 0, largest = 0;

    p.full = true;
    full   = result_of(&p);
    for (size_t i = 0; i < full.size(); i++) {
        double error = fabs((double)chosen[i] - full[i]);

        worst   = error <= worst ? worst : error; // a NaN stays
        largest = fmax(largest, fabs(full[i]));
    }
    fprintf(stderr, "%-10s chosen   %d%d           m %5d n %5d k %5d:       %7.2f us, error %.2g%s\n", model, p.trans_a,
            p.trans_b, (int)p.m, (int)p.n, (int)p.k, us, worst / largest, chosen == again ? "" : ", OTHER BITS");
    if (!(worst < 4e-3 * largest) || chosen != again) exit(1);
}

static void measure_as(const char *model, est_product p)
{
    static const char *const epilogues[]  = { "NONE", "BIAS", "BIAS_RELU", "NONE" };
    static const char *const precisions[] = { "FLOAT32", "TF32", "BFLOAT16" };
    double                   first = -1, best = 1e30;
    int                      choice = 0;
    bool                     turned = false;

    for (int turn = 0; turn < 2; turn++) {
        if (turn == 1 && !est_product_can_turn(&p)) continue;
        for (int i = 0; i < 12; i++) {
            double us;

            p.choice = i;
            p.turn   = turn == 1;
            us       = time_of(est_product_launch_as, &p);
            if (i == 0 && turn == 0) first = us;
            if (us > 0 && us < best) {
                best   = us;
                choice = i;
                turned = p.turn;
            }
        }
    }
    fprintf(stderr, "%-10s %-8s %d%d %-9s m %5d n %5d k %5d: first %7.2f us, best %7.2f us (%d%s), %.0f TFLOP/s\n",
            model, precisions[est_precision_of(&p)], p.trans_a, p.trans_b, epilogues[p.epilogue], (int)p.m, (int)p.n,
            (int)p.k, first, best, choice, turned ? ", transposed" : "",
            2e-6 * (double)p.m * (double)p.n * (double)p.k / best);
    if (best < 0.96 * first) {
        printf("EST_GEMM_CHOICE(%s, %s, %s, %s, %d, %d, %d, %d, %s)\n", precisions[est_precision_of(&p)],
               p.trans_a ? "true" : "false", p.trans_b ? "true" : "false", epilogues[p.epilogue], (int)p.m, (int)p.n,
               (int)p.k, choice, turned ? "true" : "false");
    }
}

static void measure(const char *model, est_product p)
{
    prove(model, p);
    measure_as(model, p);
    p.bfloat16 = true;
    if (est_cublaslt_tf32()) measure_as(model, p);
}

int main(void)
{
    float *x, *w, *dy, *y, *bias; // y is never a factor: numbers read as bfloat16 may make NaN
    char  *scratch;

    check(cudaSetDevice(0), "device");
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    est_cublaslt_open();
    x       = (float *)room((size_t)64 << 20);
    w       = (float *)room((size_t)64 << 20);
    dy      = (float *)room((size_t)64 << 20);
    y       = (float *)room((size_t)64 << 20);
    bias    = (float *)room((size_t)1 << 20);
    scratch = (char *)room(EST_GEMM_WORKSPACE + EST_GEMM_TURNED);
    for (const layer &l : layers) {
        est_product p    = {};
        bool        last = l.out <= 10;

        p.dtype    = EST_F32;
        p.scratch  = scratch;
        p.m        = l.batch; // forward
        p.n        = l.out;
        p.k        = l.in;
        p.a        = x;
        p.b        = w;
        p.y        = y;
        p.epilogue = last ? EST_EPILOGUE_BIAS : EST_EPILOGUE_BIAS_RELU;
        p.with     = bias;
        measure(l.model, p);
        p.epilogue = EST_EPILOGUE_NONE;
        if (!l.first) { // dx = dy w'
            p.n       = l.in;
            p.k       = l.out;
            p.trans_b = true;
            p.a       = dy;
            measure(l.model, p);
        }
        p.m       = l.in; // dw = x' dy
        p.n       = l.out;
        p.k       = l.batch;
        p.trans_a = true;
        p.trans_b = false;
        p.a       = x;
        p.b       = dy;
        measure(l.model, p);
    }
    return 0;
}
