/* SPDX-License-Identifier: Apache-2.0
 *
 * An optimizer as text, which workers compare before they train. The learning rate comes first, because two programs
 * differ in it most often. */
#include "base/strbuf.h"
#include "nn/optimizer.h"

static void put_number(est_strbuf *out, const char *name, double value)
{
    if (value != 0) est_strbuf_printf(out, ", %s %.9g", name, value);
}

static void put_flag(est_strbuf *out, const char *name, bool value)
{
    if (value) est_strbuf_printf(out, ", %s", name);
}

static void put_schedule(est_strbuf *out, const est_schedule *s)
{
    est_strbuf_printf(out, "a schedule from %.9g", s->initial);
    put_number(out, "decay_steps", s->decay_steps);
    put_number(out, "decay_rate", s->decay_rate);
    put_number(out, "end", s->end);
    put_number(out, "power", s->power);
    put_number(out, "alpha", s->alpha);
    put_number(out, "t_mul", s->t_mul);
    put_number(out, "m_mul", s->m_mul);
    put_number(out, "warmup_steps", s->warmup_steps);
    put_number(out, "warmup_start", s->warmup_start);
    put_flag(out, "staircase", s->staircase);
    put_flag(out, "cycle", s->cycle);
    put_flag(out, "after the warm-up", s->after_warmup);
    for (int64_t i = 0; i < s->boundaries.n && s->values.data != NULL; i++) {
        est_strbuf_printf(out, ", %.9g until %lld", s->values.data[i], (long long)s->boundaries.data[i]);
    }
    if (s->boundaries.n > 0 && s->values.data != NULL)
        est_strbuf_printf(out, ", then %.9g", s->values.data[s->boundaries.n]);
}

static void put_rate(est_strbuf *out, const est_optimizer *o)
{
    est_strbuf_append(out, "learning_rate=");
    if (o->learning_node.graph != NULL) {
        est_strbuf_append(out, "a node of the graph");
    } else if (o->schedule.rate != NULL) {
        put_schedule(out, &o->schedule);
    } else {
        est_strbuf_printf(out, "%.9g", o->learning_rate);
    }
    est_strbuf_printf(out, " (%s)\n", o->rule->name);
}

/* Hyperparameters without a name in checkpoints are identified by their index. */
static void put_numbers(est_strbuf *out, const est_optimizer *o)
{
    int n = (int)(sizeof o->hyper / sizeof o->hyper[0]);

    while (n > 0 && o->hyper[n - 1] == 0) n--;
    for (int i = 0; i < n; i++) {
        const char *name = o->rule->hyper[i];

        est_strbuf_printf(out, ", %s%s%.9g", name != NULL ? name : "", name != NULL ? " " : "", o->hyper[i]);
    }
}

void est_optimizer_add_terms(est_graph *graph, const est_optimizer *optimizer, const est_minimize_options *how)
{
    est_strbuf out = { 0 };

    put_rate(&out, optimizer);
    est_strbuf_printf(&out, "optimizer=%s", optimizer->rule->name);
    put_numbers(&out, optimizer);
    put_flag(&out, "nesterov", optimizer->nesterov);
    put_flag(&out, "centered", optimizer->centered);
    put_flag(&out, "lazy", optimizer->lazy);
    put_flag(&out, "keras", optimizer->keras);
    put_flag(&out, "amsgrad", optimizer->amsgrad);
    put_flag(&out, "dense", optimizer->dense);
    put_number(&out, "weight_decay", optimizer->weight_decay);
    for (int i = 0; optimizer->weight_decay != 0 && i < optimizer->decay_not.n; i++) {
        est_strbuf_printf(&out, ", but not of %s", optimizer->decay_not.data[i]);
    }
    put_number(&out, "clip_value", how->clip_value);
    put_number(&out, "clip_norm", how->clip_norm);
    put_number(&out, "clip_global_norm", how->clip_global_norm);
    est_strbuf_append(&out, "\n");
    if (est_strbuf_status(&out) == EST_OK) {
        est_graph_add_terms(graph, est_strbuf_text(&out));
    } else {
        (void)est_graph_poison(graph, EST_RESOURCE_EXHAUSTED);
    }
    est_strbuf_clear(&out);
}
