/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the attributes that convolutions and poolings share and works out sizes and padding. */
#include "kernels/conv_geometry.h"

#include <inttypes.h>
#include <string.h>

est_status est_conv_axis_solve(est_conv_axis *axis, const char *padding, const char *axis_name)
{
    int64_t reach, padded, total;

    if (axis->stride < 1 || axis->dilation < 1) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "strides and dilations must be at least 1, got %" PRId64 " and %" PRId64 " along the %s",
                        axis->stride, axis->dilation, axis_name);
    }
    if (axis->window == 0) {
        return est_fail(EST_INVALID_ARGUMENT, "the window must not be empty, got size 0 along the %s", axis_name);
    }
    if (strcmp(padding, "SAME") == 0) {
        axis->out = axis->in < 0 ? -1 : (axis->in + axis->stride - 1) / axis->stride;
        if (axis->in < 0 || axis->window < 0) return EST_OK;
        reach        = (axis->window - 1) * axis->dilation + 1;
        total        = (axis->out - 1) * axis->stride + reach - axis->in;
        total        = total > 0 && axis->in > 0 ? total : 0;
        axis->before = total / 2;
        axis->after  = total - axis->before;
        return EST_OK;
    }
    if (strcmp(padding, "VALID") == 0) {
        axis->before = axis->after = 0;
    } else if (strcmp(padding, "EXPLICIT") != 0) {
        return est_fail(EST_INVALID_ARGUMENT, "padding must be SAME, VALID or EXPLICIT, got \"%s\"", padding);
    }
    if (axis->in < 0 || axis->window < 0) {
        axis->out = -1;
        return EST_OK;
    }
    reach  = (axis->window - 1) * axis->dilation + 1;
    padded = axis->in + axis->before + axis->after;
    if (padded < reach) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "a window of %" PRId64 " (dilation %" PRId64 ") does not fit into a padded "
                        "%s of %" PRId64 " with padding %s",
                        axis->window, axis->dilation, axis_name, padded, padding);
    }
    axis->out = (padded - reach) / axis->stride + 1;
    return EST_OK;
}

static const est_attr *find_attr(const est_node_def *node, const char *name)
{
    for (int i = 0; i < node->n_attr; i++) {
        if (strcmp(node->attr[i].name, name) == 0) return &node->attr[i];
    }
    return NULL;
}

/* An attribute of four entries [batch, height, width, channels] of which the outer two must be 1. */
static est_status two_of_four(const est_node_def *node, const char *name, int64_t *height, int64_t *width)
{
    est_i64s v = est_node_ints(node, name);

    if (v.n != 4) return est_fail(EST_INVALID_ARGUMENT, "%s must have 4 entries, got %d", name, v.n);
    if (v.data[0] != 1 || v.data[3] != 1) {
        return est_fail(EST_UNIMPLEMENTED,
                        "%s over batch and channels must be 1, got [%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]",
                        name, v.data[0], v.data[1], v.data[2], v.data[3]);
    }
    *height = v.data[1];
    *width  = v.data[2];
    return EST_OK;
}

/* explicit_paddings: before and after for each of the four axes; batch and channels must have none. */
static est_status explicit_paddings(const est_node_def *node, est_conv_axis *rows, est_conv_axis *columns)
{
    est_i64s p = find_attr(node, "explicit_paddings") != NULL ? est_node_ints(node, "explicit_paddings")
                                                              : (est_i64s){ 0 };

    if (p.n != 8) {
        return est_fail(EST_INVALID_ARGUMENT, "padding EXPLICIT needs 8 explicit_paddings, got %d", p.n);
    }
    for (int i = 0; i < 8; i++) {
        if (p.data[i] < 0 || (p.data[i] != 0 && (i < 2 || i > 5))) {
            return est_fail(EST_INVALID_ARGUMENT,
                            "explicit_paddings entry %d is %" PRId64
                            "; expected 0 for batch and channels, at least 0 for height and width",
                            i, p.data[i]);
        }
    }
    rows->before    = p.data[2];
    rows->after     = p.data[3];
    columns->before = p.data[4];
    columns->after  = p.data[5];
    return EST_OK;
}

est_status est_conv_attributes(const est_node_def *node, int64_t h, int64_t w, int64_t kh, int64_t kw,
                               est_conv_geometry *g)
{
    const char   *format  = est_node_string(node, "data_format");
    const char   *padding = est_node_string(node, "padding");
    est_conv_axis rows    = { .in = h, .window = kh, .dilation = 1 };
    est_conv_axis columns = { .in = w, .window = kw, .dilation = 1 };

    if (strcmp(format, "NHWC") != 0) {
        return est_fail(EST_UNIMPLEMENTED, "data_format %s is not supported, only NHWC is: transpose the images",
                        format);
    }
    EST_TRY(two_of_four(node, "strides", &rows.stride, &columns.stride));
    if (find_attr(node, "dilations") != NULL) {
        EST_TRY(two_of_four(node, "dilations", &rows.dilation, &columns.dilation));
    }
    if (strcmp(padding, "EXPLICIT") == 0) EST_TRY(explicit_paddings(node, &rows, &columns));
    EST_TRY(est_conv_axis_solve(&rows, padding, "height"));
    EST_TRY(est_conv_axis_solve(&columns, padding, "width"));
    g->h    = h;
    g->w    = w;
    g->kh   = kh;
    g->kw   = kw;
    g->oh   = rows.out;
    g->ow   = columns.out;
    g->sh   = rows.stride;
    g->sw   = columns.stride;
    g->dh   = rows.dilation;
    g->dw   = columns.dilation;
    g->top  = rows.before;
    g->left = columns.before;
    return EST_OK;
}
