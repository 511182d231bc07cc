/* SPDX-License-Identifier: Apache-2.0
 *
 * The area under the ROC or precision-recall curve.
 *
 * For every threshold t the weights of true and false positives and negatives are summed, a prediction being positive
 * when p > t. With P [thresholds, n] the 0/1 matrix of positives and W [n, 2] the weights of positive and of negative
 * labels, one product P W gives tp and fp, and (1 - P) W gives fn and tn.
 *
 * Thresholds are -1e-7, i / (n - 1), 1 + 1e-7: the first calls everything positive, the last nothing. */
#include "nn/metric.h"

#define EDGE     1e-7 /* how far the outer thresholds lie beyond 0 and 1 */
#define V1_SMALL 1e-6 /* v1 adds this to ratios */

typedef struct curve {
    est_node tp, fp, fn, tn; /* [thresholds] */
} curve;

/* The thresholds as a column; *n receives how many. */
static est_node thresholds_of(const est_metric_build *m, int64_t *n)
{
    int inner = m->o.thresholds.n > 0 ? m->o.thresholds.n : (m->o.num_thresholds > 1 ? m->o.num_thresholds : 200) - 2;
    float   *values = est_alloc(sizeof *values * (size_t)(inner + 2));
    est_node node;

    if (values == NULL) return est_graph_poison(m->graph, est_no_memory());
    values[0]         = (float)-EDGE;
    values[inner + 1] = (float)(1 + EDGE);
    for (int i = 1; i <= inner; i++) {
        values[i] = (float)(m->o.thresholds.n > 0 ? m->o.thresholds.data[i - 1] : (double)i / (inner + 1));
    }
    *n   = inner + 2;
    node = est_const_f32(m->graph, EST_SHAPE(*n, 1), values);
    est_free(values);
    return node;
}

/* Adds a column of `sums` [thresholds, 2] to a state. */
static est_node column_state(est_metric_build *m, const char *name, est_node sums, int64_t n, int column)
{
    est_node values = est_reshape(est_slice(sums, EST_I64S(0, column), EST_I64S(-1, 1)), EST_I64S(n));

    return est_metric_sum(m, name, values);
}

/* Keras counts what lies beyond its even thresholds, logits for instance, with the first or the last. */
static est_node within_thresholds(const est_metric_build *m, est_node p)
{
    return m->o.thresholds.n > 0 ? p : est_clip_by_value(p, 0, 1);
}

static curve curve_states(est_metric_build *m, est_node labels, est_node predictions)
{
    int64_t  n        = 0;
    est_node flat     = est_reshape(within_thresholds(m, est_metric_f32(predictions)), EST_I64S(1, -1));
    est_node t        = thresholds_of(m, &n);
    est_node truth    = est_metric_f32(est_cast(labels, EST_BOOL)); /* any but 0 is positive */
    est_node w        = est_reshape(est_metric_weights(m, est_metric_f32(predictions)), EST_I64S(-1, 1));
    est_node yes      = est_mul(est_reshape(truth, EST_I64S(-1, 1)), w);
    est_node weights  = est_concat(EST_NODES(yes, est_sub(w, yes)), 1);               /* [n, 2] */
    est_node positive = est_matmul(est_cast(est_greater(flat, t), EST_F32), weights); /* [thresholds, 2] */
    est_node negative = est_matmul(est_cast(est_less_equal(flat, t), EST_F32), weights);
    curve    c;

    c.tp = column_state(m, "true_positives", positive, n, 0);
    c.fn = column_state(m, "false_negatives", negative, n, 0);
    c.tn = column_state(m, "true_negatives", negative, n, 1);
    c.fp = column_state(m, "false_positives", positive, n, 1);
    return c;
}

/* x[0 .. n-2] and x[1 .. n-1]. */
static est_node high(est_node x)
{
    return est_slice(x, EST_I64S(0), EST_I64S(est_node_dim(x, 0) - 1));
}

static est_node low(est_node x)
{
    return est_slice(x, EST_I64S(1), EST_I64S(-1));
}

/* sum (x_i - x_{i+1}) h_i with h the mean, the smaller or the larger of y_i and y_{i+1}. */
static est_node area(est_node x, est_node y, est_summation how)
{
    est_node height;

    if (how == EST_SUM_MINORING) {
        height = est_minimum(high(y), low(y));
    } else if (how == EST_SUM_MAJORING) {
        height = est_maximum(high(y), low(y));
    } else {
        height = est_scale(est_add(high(y), low(y)), 0.5);
    }
    return est_sum(est_mul(est_sub(high(x), low(x)), height));
}

/* Between two thresholds precision is not a line in recall: with P = tp + fp, tp grows linearly in P with slope s, and
 * the area of a piece is s (dtp + c ln(P_i / P_{i+1})) / (tp + fn) with c = tp_{i+1} - s P_{i+1}. */
static est_node interpolated_pr(curve c)
{
    est_node p = est_add(c.tp, c.fp), p1 = low(p), tp1 = low(c.tp), zero = est_zeros_like(p1);
    est_node dtp = est_sub(high(c.tp), tp1), dp = est_sub(high(p), p1);
    est_node slope = est_div_no_nan(dtp, est_maximum(dp, zero));
    est_node start = est_sub(tp1, est_mul(slope, p1));
    est_node both  = est_logical_and(est_greater(high(p), zero), est_greater(p1, zero));
    est_node ratio = est_select(both, est_div_no_nan(high(p), est_maximum(p1, zero)), est_ones_like(p1));
    est_node piece = est_mul(slope, est_add(dtp, est_mul(start, est_log(ratio))));

    return est_sum(est_div_no_nan(piece, est_maximum(est_add(tp1, low(c.fn)), zero)));
}

static est_node v1_ratio(est_node part, est_node other, bool with_part)
{
    return est_div(with_part ? est_shift(part, V1_SMALL) : part, est_shift(est_add(part, other), V1_SMALL));
}

static est_node area_of(curve c, est_curve kind, est_summation how)
{
    est_node recall, x, y;

    if (kind == EST_PR && (how == EST_SUM_INTERPOLATION || how == EST_SUM_CAREFUL_INTERPOLATION)) {
        return interpolated_pr(c);
    }
    if (how == EST_SUM_INTERPOLATION) {
        recall = est_div_no_nan(c.tp, est_add(c.tp, c.fn));
        return area(est_div_no_nan(c.fp, est_add(c.fp, c.tn)), recall, how);
    }
    recall = v1_ratio(c.tp, c.fn, true);
    x      = kind == EST_ROC ? v1_ratio(c.fp, c.tn, false) : recall;
    y      = kind == EST_ROC ? recall : v1_ratio(c.tp, c.fp, true);
    return area(x, y, how);
}

est_metric est_metric_auc(est_node labels, est_node predictions, const est_metric_options *options)
{
    est_metric_build m;

    if (!est_metric_begin(&m, predictions, "auc", options)) return est_metric_none(predictions);
    est_metric_align(&labels, &predictions);
    return est_metric_end(&m, area_of(curve_states(&m, labels, predictions), m.o.curve, m.o.summation));
}
