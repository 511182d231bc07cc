/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of steps. */
#include "base/alloc.h"
#include "collective/algorithm.h"

#define STEPS_FIRST 32

static void append(est_moves *s, est_move step)
{
    if (s->n_steps == s->max_steps && !s->failed) {
        int       max   = s->max_steps > 0 ? 2 * s->max_steps : STEPS_FIRST;
        est_move *steps = est_realloc(s->steps, (size_t)max * sizeof *steps);

        if (steps == NULL) {
            s->failed = true;
        } else {
            s->steps     = steps;
            s->max_steps = max;
        }
    }
    if (s->failed) return;
    s->steps[s->n_steps++] = step;
    if (step.kind == EST_MOVE_SEND && step.bytes > s->send_max) s->send_max = step.bytes;
}

void est_moves_add(est_moves *s, est_move_kind kind, int peer, uint8_t *data, const uint8_t *from, size_t bytes)
{
    if (bytes == 0 && kind != EST_MOVE_CALL) return;
    append(s, (est_move){ kind, s->ranks != NULL ? s->ranks[peer] : peer, data, from, bytes });
}

void est_moves_signal(est_moves *s, est_move_kind kind, int peer)
{
    append(s, (est_move){ .kind = kind, .peer = peer });
}

size_t est_segment_begin(size_t count, int n, int rank)
{
    size_t each = count / (size_t)n, extra = count % (size_t)n, i = (size_t)rank;

    return each * i + (i < extra ? i : extra);
}

est_region est_collective_segment(const est_collective *c, int n, int i)
{
    size_t begin = est_segment_begin(c->count, n, i), end = est_segment_begin(c->count, n, i + 1);

    return (est_region){ c->data + begin * c->element, (end - begin) * c->element };
}
