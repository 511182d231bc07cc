/* SPDX-License-Identifier: Apache-2.0
 *
 * The batch of a thread: cuda/batch.cuh. */
#include "cuda/batch.cuh"

typedef struct batch {
    est_batch_run run; /* NULL: nothing is pending */
    void (*launch)(void);
    void       *stream;
    int         n;
    size_t      bytes; /* of the arguments of a call */
    est_touched touched[EST_BATCH_MAX];
    alignas(16) unsigned char args[EST_BATCH_BYTES];
} batch;

static thread_local batch pending;

int est_batch_flush(void)
{
    batch        *b   = &pending;
    est_batch_run run = b->run;
    est_call      c   = {};

    if (run == NULL) return 0;
    c.stream = b->stream;
    b->run   = NULL; /* before its kernels are launched, which looks whether something is pending */
    return run(&c, b->launch, b->args, b->n);
}

bool est_touch(est_touched *t, const est_view *view, bool written)
{
    uintptr_t begin = (uintptr_t)view->data;
    size_t    bytes = (size_t)view->count * est_element_bytes(view->dtype);

    if (bytes == 0) return true;
    if (t->n == EST_BATCH_SPANS) return false;
    t->span[t->n++] = est_span{ begin, begin + bytes, written };
    return true;
}

bool est_touched_by(const est_call *c, size_t scratch_bytes, est_touched *out)
{
    bool ok = true;

    *out = est_touched{};
    for (int i = 0; i < c->n_in && ok; i++) {
        bool written = i < 32 && (c->node->op->writes >> i & 1u) != 0;

        ok = est_touch(out, c->in[i]->dtype == EST_RESOURCE ? &est_call_variable(c, i)->value : c->in[i], written);
    }
    for (int i = 0; i < c->n_out && ok; i++) ok = est_touch(out, &c->out[i], true);
    if (ok && scratch_bytes > 0 && out->n < EST_BATCH_SPANS) {
        uintptr_t begin     = (uintptr_t)c->scratch;
        out->span[out->n++] = est_span{ begin, begin + scratch_bytes, true };
        return true;
    }
    return ok && scratch_bytes == 0;
}

static bool clashes(const est_touched *a, const est_touched *b)
{
    if (a->owner != NULL && a->owner == b->owner) return false;
    for (int i = 0; i < a->n; i++) {
        for (int k = 0; k < b->n; k++) {
            const est_span *x = &a->span[i], *y = &b->span[k];

            if ((x->written || y->written) && x->begin < y->end && y->begin < x->end) return true;
        }
    }
    return false;
}

static bool goes_along(const batch *b, const est_call *c, void (*launch)(void), const est_touched *touched)
{
    if (b->run == NULL || b->launch != launch || b->stream != c->stream || b->n == EST_BATCH_MAX) return false;
    for (int i = 0; i < b->n; i++) {
        if (clashes(&b->touched[i], touched)) return false;
    }
    return true;
}

int est_batch_push(const est_call *c, est_batch_run run, void (*launch)(void), const void *args, size_t bytes,
                   const est_touched *touched)
{
    batch *b = &pending;

    if (!goes_along(b, c, launch, touched)) {
        int error = est_batch_flush();

        if (error != 0) return error;
        b->run    = run;
        b->launch = launch;
        b->stream = c->stream;
        b->n      = 0;
    }
    b->touched[b->n] = *touched;
    memcpy(b->args + bytes * (size_t)b->n, args, bytes);
    b->n++;
    return 0;
}
