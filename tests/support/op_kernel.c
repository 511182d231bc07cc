/* SPDX-License-Identifier: Apache-2.0
 *
 * The op harness: kernels run by hand. Outputs, variables and scratch lie between guard bands and are filled with a
 * pattern before; running with two patterns must give the same bits, which shows that every element is written and
 * nothing unwritten is read, and the guards must stay as they were. Ops that may write over an input do so here. On a
 * device (case_device) the same is done with the device's kernels and memory, launched by themselves and recorded. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "device/devices.h"
#include "graph/variable.h"
#include "support/op_run.h"
#include "tensor/shape.h"

#define GUARD_BYTES 256 /* as much as any device aligns */
#define GUARD_FILL  0x5C

/* Memory between two guards, and its copy on a device. */
typedef struct guarded {
    unsigned char *base, *far;
    size_t         bytes, whole;
} guarded;

static void *guarded_create(guarded *g, size_t bytes, int pattern)
{
    g->bytes = bytes;
    g->whole = (bytes + 2 * GUARD_BYTES + 63) / 64 * 64;
    g->base  = aligned_alloc(64, g->whole);
    if (g->base == NULL) abort();
    memset(g->base, GUARD_FILL, g->whole);
    memset(g->base + GUARD_BYTES, pattern, bytes);
    return g->base + GUARD_BYTES;
}

static bool guarded_intact(const guarded *g)
{
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        if (g->base[i] != GUARD_FILL || g->base[GUARD_BYTES + g->bytes + i] != GUARD_FILL) return false;
    }
    return true;
}

/* One call of one kernel, with all its memory. */
typedef struct hand_call {
    est_call  call;
    est_view  in[EST_CASE_IN_MAX];
    est_view *in_ptr[EST_CASE_IN_MAX];
    est_view  out[EST_CASE_OUT_MAX];
    est_var   variable[EST_CASE_IN_MAX];
    char      name[EST_CASE_IN_MAX][16];
    guarded   memory[EST_CASE_IN_MAX + EST_CASE_OUT_MAX + 2];
    guarded  *in_memory, *out_memory, *scratch, *seed; /* parts of it */
    est_value value[EST_CASE_IN_MAX];
} hand_call;

#define MEMORIES ((int)(sizeof((hand_call *)0)->memory / sizeof(guarded)))

static void hand_call_init(hand_call *h)
{
    memset(h, 0, sizeof *h);
    h->in_memory  = h->memory;
    h->out_memory = h->memory + EST_CASE_IN_MAX;
    h->scratch    = h->memory + EST_CASE_IN_MAX + EST_CASE_OUT_MAX;
    h->seed       = h->scratch + 1;
}

static void hand_call_clear(hand_call *h)
{
    for (int i = 0; i < MEMORIES; i++) free(h->memory[i].base);
}

static void hand_inputs(const est_case_run *run, const est_node *in, hand_call *h)
{
    for (int k = 0; k < run->n_in; k++) {
        size_t   bytes = est_tensor_bytes(run->in[k]);
        void    *data  = guarded_create(&h->in_memory[k], bytes, 0);
        est_view view  = { data, est_tensor_dtype(run->in[k]), *est_tensor_shape(run->in[k]),
                           est_tensor_count(run->in[k]) };

        if (bytes > 0) memcpy(data, est_tensor_data(run->in[k]), bytes);
        h->value[k].n = -1;
        if (run->test->in[k].variable) {
            snprintf(h->name[k], sizeof h->name[k], "in%d", k); /* as in a session */
            h->variable[k] = (est_var){ .name = h->name[k], .value = view, .initialized = true };
            h->in[k]       = (est_view){ &h->variable[k], EST_RESOURCE, *est_node_shape(in[k]), 1 };
        } else {
            h->in[k] = view;
            if ((view.dtype == EST_I32 || view.dtype == EST_I64) && view.count <= EST_VALUE_MAX) {
                h->value[k].n = (int32_t)view.count;
                for (int64_t i = 0; i < view.count; i++) h->value[k].v[i] = (int64_t)case_element(data, view.dtype, i);
            }
        }
        h->in_ptr[k] = &h->in[k];
    }
}

/* Shapes as the planner gets them: everything known, or measured by the kernel. */
static est_status hand_infer(const est_case_run *run, const est_node_def *node, const est_kernel *kernel, hand_call *h)
{
    est_shape        in[EST_CASE_IN_MAX], out[EST_CASE_OUT_MAX];
    est_dtype        in_dtype[EST_CASE_IN_MAX];
    const est_value *in_value[EST_CASE_IN_MAX];
    est_value        out_value[EST_CASE_OUT_MAX];
    est_infer        c = { .node      = node,
                           .n_in      = run->n_in,
                           .n_out     = node->n_out,
                           .in        = in,
                           .in_dtype  = in_dtype,
                           .in_value  = in_value,
                           .out       = out,
                           .out_value = out_value };

    for (int k = 0; k < run->n_in; k++) {
        in[k]       = h->in[k].shape;
        in_dtype[k] = h->in[k].dtype;
        in_value[k] = h->value[k].n >= 0 ? &h->value[k] : NULL;
    }
    for (int i = 0; i < node->n_out; i++) {
        out[i]         = EST_SHAPE_UNKNOWN;
        out_value[i].n = -1;
    }
    EST_TRY(run->op->infer(&c));
    for (int i = 0; i < node->n_out; i++) {
        char text[EST_SHAPE_TEXT_MAX];

        if (!est_shape_is_known(&out[i]) && node->dtype[i] != EST_RESOURCE && kernel->measure == NULL) {
            return est_fail(EST_INTERNAL, "infer leaves output %d as %s though all inputs are known", i,
                            est_shape_text(&out[i], text));
        }
        h->out[i] = (est_view){ NULL, node->dtype[i], out[i], est_shape_count(&out[i]) };
    }
    return kernel->measure != NULL ? kernel->measure(&h->call) : EST_OK;
}

/* --- on a device -------------------------------------------------------------------------------------------------- */

/* The device whose kernels are checked, with a queue of it: NULL: the CPU's are. */
static est_queue *device_queue(void)
{
    static est_queue *queue;
    const est_device *device = case_device();

    if (device != NULL && queue == NULL && device->runs->open(device, &queue) != EST_OK) abort();
    return queue;
}

static void *moved(const hand_call *h, void *p, bool out)
{
    for (int i = 0; i < MEMORIES; i++) {
        const guarded *g    = &h->memory[i];
        unsigned char *from = out ? g->base : g->far, *to = out ? g->far : g->base;

        if (from != NULL && p == from + GUARD_BYTES) return to + GUARD_BYTES;
    }
    return p;
}

/* All addresses of the call become those of the device, or of the host again. */
static void move_addresses(hand_call *h, bool out)
{
    est_call *c = &h->call;

    for (int k = 0; k < c->n_in; k++) {
        est_view *view = h->in[k].dtype == EST_RESOURCE ? &h->variable[k].value : &h->in[k];
        view->data     = moved(h, view->data, out);
    }
    for (int i = 0; i < c->n_out; i++) h->out[i].data = moved(h, h->out[i].data, out);
    c->scratch  = moved(h, c->scratch, out);
    c->run_seed = moved(h, (void *)(uintptr_t)c->run_seed, out);
}

static void send_all(hand_call *h, const est_device *device)
{
    for (int i = 0; i < MEMORIES; i++) {
        guarded *g = &h->memory[i];

        if (g->base == NULL) continue;
        g->far = device->alloc(device, g->whole);
        if (g->far == NULL || device->copy_in(device, g->far, g->base, g->whole) != EST_OK) abort();
    }
    move_addresses(h, true);
}

static void take_all(hand_call *h, const est_device *device)
{
    move_addresses(h, false);
    for (int i = 0; i < MEMORIES; i++) {
        guarded *g = &h->memory[i];

        if (g->far == NULL) continue;
        if (device->copy_out(device, g->base, g->far, g->whole) != EST_OK) abort();
        device->free(device, g->far);
        g->far = NULL;
    }
}

/* By itself, or recorded and replayed. */
static est_status launch(const est_device_runs *runs, est_queue *queue, const est_kernel *kernel, const est_call *c,
                         bool recorded)
{
    const struct est_node_def *failed;
    est_recording             *recording = NULL;
    uint64_t                   mark;
    est_status                 status;

    if (recorded) EST_TRY(runs->begin(queue, false));
    status = runs->launch(queue, kernel, c);
    if (recorded && status == EST_OK) status = runs->end(queue, &recording);
    if (recorded && status == EST_OK) status = runs->replay(queue, recording);
    if (status == EST_OK) status = runs->mark(queue, &mark);
    if (status == EST_OK) status = runs->wait(queue, mark, &failed);
    runs->drop(recording);
    return status;
}

static est_status run_on_device(const est_kernel *kernel, hand_call *h, bool recorded)
{
    const est_device *device = case_device();
    est_status        status = EST_OK;

    send_all(h, device);
    if (kernel->prepare != NULL) status = kernel->prepare(&h->call);
    if (status == EST_OK) status = launch(device->runs, device_queue(), kernel, &h->call, recorded);
    if (kernel->release != NULL) kernel->release(&h->call);
    take_all(h, device);
    return status;
}

/* Runs the kernel with outputs and scratch filled with `pattern`; inplace >= 0: output 0 is written over that input.
 * What it looks up is seen where it uses no other thread, what it allocates always. */
static est_status hand_run(est_case_run *run, const est_kernel *kernel, hand_call *h, int pattern, int inplace,
                           const char *how)
{
    est_call  *c = &h->call;
    uint64_t   allocated, looked_up;
    est_status status;

    for (int i = 0; i < c->n_out; i++) {
        size_t bytes   = (size_t)h->out[i].count * est_dtype_size(h->out[i].dtype);
        h->out[i].data = i == 0 && inplace >= 0 ? h->in[inplace].data
                                                : guarded_create(&h->out_memory[i], bytes, pattern);
    }
    if (kernel->scratch != NULL) c->scratch = guarded_create(h->scratch, kernel->scratch(c), pattern);
    if (case_device() != NULL) return run_on_device(kernel, h, pattern == 0xFF);
    if (kernel->prepare != NULL) EST_TRY(kernel->prepare(c));
    allocated = est_alloc_count();
    looked_up = est_node_attr_count();
    status    = kernel->run(c);
    if (status == EST_OK) {
        case_check(run, est_alloc_count() == allocated, "%s: run() allocates", how);
        case_check(run, est_node_attr_count() == looked_up, "%s: run() looks up attributes", how);
    }
    if (kernel->release != NULL) kernel->release(c);
    return status;
}

static void check_guards(est_case_run *run, const hand_call *h, const char *how)
{
    for (int k = 0; k < h->call.n_in; k++) {
        case_check(run, guarded_intact(&h->in_memory[k]), "%s: wrote beside input %d", how, k);
    }
    for (int i = 0; i < h->call.n_out; i++) {
        case_check(run, h->out_memory[i].base == NULL || guarded_intact(&h->out_memory[i]),
                   "%s: wrote beside output %d", how, i);
    }
    case_check(run, h->scratch->base == NULL || guarded_intact(h->scratch), "%s: wrote beside its scratch", how);
}

/* Inputs that are not variables and not written over must be as before. */
static void check_inputs_untouched(est_case_run *run, const hand_call *h, int inplace, const char *how)
{
    for (int k = 0; k < h->call.n_in; k++) {
        size_t bytes = est_tensor_bytes(run->in[k]);

        if ((run->op->writes >> k & 1u) != 0 || k == inplace) continue;
        case_check(run,
                   bytes == 0 || memcmp(h->in_memory[k].base + GUARD_BYTES, est_tensor_data(run->in[k]), bytes) == 0,
                   "%s: changed its input %d", how, k);
    }
}

static est_status take_view(const est_view *view, est_case_out *out)
{
    if (view->dtype == EST_RESOURCE) {
        out->tensor[out->n++] = NULL;
        return EST_OK;
    }
    EST_TRY(est_tensor_create_from(view->dtype, view->shape, view->data, &out->tensor[out->n]));
    out->n++;
    return EST_OK;
}

/* On a device outputs that shrink are padded: takes the padding out, as the CPU's kernel leaves them. */
static void drop_padding(const est_case_run *run, hand_call *h)
{
    const est_view *indices = &h->out[__builtin_ctz(run->op->distinct)];
    bool            wide    = indices->dtype == EST_I64;
    int64_t         n = indices->count, kept = 0;

    for (int64_t i = 0; i < n; i++) {
        if (wide ? ((int64_t *)indices->data)[i] == INT64_MIN : ((int32_t *)indices->data)[i] == INT32_MIN) continue;
        for (int o = 0; o < h->call.n_out; o++) {
            size_t row  = (size_t)(h->out[o].count / n) * est_dtype_size(h->out[o].dtype);
            char  *data = h->out[o].data;

            memmove(data + (size_t)kept * row, data + (size_t)i * row, row);
        }
        kept++;
    }
    for (int o = 0; o < h->call.n_out && n > 0; o++) {
        h->out[o].count        = h->out[o].count / n * kept;
        h->out[o].shape.dim[0] = kept;
    }
}

/* One kernel once, from inputs to results. */
static est_status run_kernel(est_case_run *run, const est_node_def *node, const est_node *in, const est_kernel *kernel,
                             est_pool *pool, int pattern, int inplace, const char *how, est_case_out *out)
{
    hand_call  h;
    est_status status;

    hand_call_init(&h);
    h.call = (est_call){ .node     = node,
                         .n_in     = run->n_in,
                         .n_out    = node->n_out,
                         .in       = h.in_ptr,
                         .out      = h.out,
                         .pool     = pool,
                         .run_seed = guarded_create(h.seed, sizeof(uint64_t), 0) };
    hand_inputs(run, in, &h);
    status = hand_infer(run, node, kernel, &h);
    if (status == EST_OK && kernel->accepts != NULL && !kernel->accepts(&h.call)) status = EST_UNIMPLEMENTED;
    if (status == EST_OK) {
        status = hand_run(run, kernel, &h, pattern, inplace, how);
        check_guards(run, &h, how);
        check_inputs_untouched(run, &h, inplace, how);
        if (status == EST_OK && case_device() != NULL && run->op->shrinks) drop_padding(run, &h);
    }
    for (int i = 0; i < node->n_out && status == EST_OK; i++) status = take_view(&h.out[i], out);
    for (int k = 0; k < run->n_in && status == EST_OK && run->op->writes != 0; k++) {
        if (run->test->in[k].variable && out->n < EST_CASE_OUT_MAX) status = take_view(&h.variable[k].value, out);
    }
    hand_call_clear(&h);
    return status;
}

/* Whether output 0 can lie over input k in this case. */
static bool may_write_over(const est_case_run *run, const est_node_def *node, const est_case_out *expected, int k)
{
    return (run->op->inplace >> k & 1u) != 0 && !run->test->in[k].variable && node->n_out > 0 &&
           expected->tensor[0] != NULL && est_tensor_bytes(expected->tensor[0]) == est_tensor_bytes(run->in[k]) &&
           est_tensor_count(expected->tensor[0]) == est_tensor_count(run->in[k]);
}

static const est_kernel *case_kernels(const est_case_run *run)
{
    return case_device() != NULL ? est_op_kernels(run->op, case_device()) : run->op->cpu;
}

static void check_kernel(est_case_run *run, const est_node_def *node, const est_node *in, int index, est_pool *pool,
                         const est_case_out *expected)
{
    const est_kernel *kernel = &case_kernels(run)[index];
    est_case_out      a = { 0 }, b = { 0 };
    char              how[64];
    est_status        status;

    snprintf(how, sizeof how, "kernel %d by hand", index);
    status = run_kernel(run, node, in, kernel, NULL, 0xA5, -1, how, &a);
    if (status == EST_UNIMPLEMENTED) return; /* it does not take this call */
    if (case_check(run, status == EST_OK, "%s: %s", how, est_error_message())) {
        if (!run->op->stateful || run->op->writes != 0) case_check_values(run, node, &a, how);
        snprintf(how, sizeof how, "kernel %d, threads, NaN poison", index);
        status = run_kernel(run, node, in, kernel, pool, 0xFF, -1, how, &b);
        if (case_check(run, status == EST_OK, "%s: %s", how, est_error_message()))
            case_check_same_bits(run, &a, &b, how);
        for (int k = 0; k < run->n_in; k++) {
            if (!may_write_over(run, node, expected, k)) continue;
            case_out_clear(&b);
            snprintf(how, sizeof how, "kernel %d over input %d", index, k);
            status = run_kernel(run, node, in, kernel, NULL, 0xA5, k, how, &b);
            if (case_check(run, status == EST_OK, "%s: %s", how, est_error_message())) {
                case_check_same_bits(run, &a, &b, how);
            }
        }
    }
    case_out_clear(&a);
    case_out_clear(&b);
}

void case_check_kernels(est_case_run *run, const est_node_def *node, const est_node *in, const est_case_out *expected)
{
    const est_kernel *kernels = case_kernels(run);
    est_pool         *pool    = NULL;

    if (run->op->alias || kernels == NULL || node->n_out > EST_CASE_OUT_MAX) return;
    for (int i = 0; i < node->n_out; i++) {
        if (node->dtype[i] == EST_STRING || node->dtype[i] == EST_RESOURCE)
            return; /* memory only the runtime can give */
    }
    if (!case_check(run, est_pool_create(3, &pool) == EST_OK, "no pool: %s", est_error_message())) return;
    for (int i = 0; est_kernel_exists(&kernels[i]); i++) check_kernel(run, node, in, i, pool, expected);
    est_pool_free(pool);
}

/* Every kernel of the device that takes the call must fail in the way of the case. */
void case_check_kernels_fail(est_case_run *run, const est_node_def *node, const est_node *in)
{
    const est_kernel *kernels = case_kernels(run);

    for (int i = 0; kernels != NULL && est_kernel_exists(&kernels[i]); i++) {
        est_case_out out    = { 0 };
        est_status   status = run_kernel(run, node, in, &kernels[i], NULL, 0xA5, -1, "a bad input", &out);

        case_out_clear(&out);
        if (status == EST_UNIMPLEMENTED) continue;
        case_check(run, status == run->test->fails, "ends with %s, not %s: %s", est_status_name(status),
                   est_status_name(run->test->fails), status != EST_OK ? est_error_message() : "");
        case_check(run, run->test->says == NULL || strstr(est_error_message(), run->test->says) != NULL,
                   "the error does not say \"%s\": %s", run->test->says, est_error_message());
    }
}

const est_device *case_device(void)
{
    static const est_device *device;

    if (getenv("ESTOC_CUDA_PLUGIN") == NULL) return NULL;
    if (device == NULL) device = est_device_find("GPU", 0);
    if (device == NULL) {
        fprintf(stderr, "%s\n", est_device_missing());
        abort();
    }
    return device;
}
