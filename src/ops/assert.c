/* SPDX-License-Identifier: Apache-2.0
 *
 * Assert: nothing, or an error with the first `summarize` elements of every tensor of `data` when the condition is
 * false. What waits for it runs only when it holds. */
#include <inttypes.h>

#include "base/strbuf.h"
#include "ops/ops.h"

static est_status assert_infer(est_infer *c)
{
    return est_infer_rank(c, 0, 0);
}

static void say_element(est_strbuf *text, const est_view *view, int64_t i)
{
    switch (view->dtype) {
    case EST_F32: est_strbuf_printf(text, "%g", (double)((const float *)view->data)[i]); break;
    case EST_F64: est_strbuf_printf(text, "%g", ((const double *)view->data)[i]); break;
    case EST_I32: est_strbuf_printf(text, "%" PRId32, ((const int32_t *)view->data)[i]); break;
    case EST_I64: est_strbuf_printf(text, "%" PRId64, ((const int64_t *)view->data)[i]); break;
    case EST_STRING:
        est_strbuf_printf(text, "%.*s", (int)((const est_str *)view->data)[i].size,
                          ((const est_str *)view->data)[i].data);
        break;
    default: est_strbuf_printf(text, "%d", ((const uint8_t *)view->data)[i]); break;
    }
}

static est_status fail_with(const est_call *c, int64_t summarize)
{
    est_strbuf text = { 0 };
    est_status status;

    for (int k = 1; k < c->n_in; k++) {
        const est_view *view  = c->in[k];
        int64_t         shown = summarize < 0 || summarize > view->count ? view->count : summarize;

        est_strbuf_append(&text, " [");
        for (int64_t i = 0; i < shown; i++) {
            if (i > 0) est_strbuf_append(&text, " ");
            say_element(&text, view, i);
        }
        est_strbuf_append(&text, shown < view->count ? "...]" : "]");
    }
    status = est_fail(EST_INVALID_ARGUMENT, "assertion failed:%s", est_strbuf_text(&text));
    est_strbuf_clear(&text);
    return status;
}

static est_status assert_prepare(est_call *c)
{
    c->param[0].i = est_node_int(c->node, "summarize");
    return EST_OK;
}

static est_status assert_cpu(est_call *c)
{
    return *(const uint8_t *)c->in[0]->data != 0 ? EST_OK : fail_with(c, c->param[0].i);
}

const est_op est_op_assert = {
    .name      = "Assert",
    .signature = "condition: bool, data: T -> (); T: types; summarize: int = 3",
    .infer     = assert_infer,
    .cpu       = EST_KERNELS({ .run = assert_cpu, .prepare = assert_prepare }),
    .stateful  = true,
};
