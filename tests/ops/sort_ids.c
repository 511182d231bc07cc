/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorted ids: those from 0 up in order, then those below 0, then what stands for none; equal ones by their places. Keys
 * may have more bits than a double, so they are looked at here. */
#include <inttypes.h>
#include <stdio.h>

#include "apply.h"
#include "kernels/sorted_ids.h"

static int64_t id_at(const est_view *ids, int64_t i)
{
    return ids->dtype == EST_I64 ? ((const int64_t *)ids->data)[i] : ((const int32_t *)ids->data)[i];
}

static bool is_none(const est_view *ids, int64_t id)
{
    return id == (ids->dtype == EST_I64 ? INT64_MIN : INT32_MIN);
}

/* Where an id belongs: rows from 0 up, then those below 0, then none. */
static int group_of(const est_view *ids, int64_t id)
{
    return id >= 0 ? 0 : is_none(ids, id) ? 2 : 1;
}

static int check(est_ref *r, est_view *const *in, const est_view *out)
{
    const est_view *ids  = in[0];
    const uint64_t *keys = out[0].data;
    int64_t         sum  = 0;

    (void)r;
    for (int64_t i = 0; i < ids->count; i++) {
        int32_t place = est_sorted_place(keys[i]);
        int64_t id = id_at(ids, place), before = i > 0 ? id_at(ids, est_sorted_place(keys[i - 1])) : id;
        bool    good = group_of(ids, before) != group_of(ids, id) ? group_of(ids, before) < group_of(ids, id)
                                                                  : before <= id;

        if (i > 0 && before == id) good = good && est_sorted_place(keys[i - 1]) < place;
        if (id >= 0) good = good && est_sorted_row(keys[i]) == (uint64_t)id;
        if (is_none(ids, id)) good = good && est_sorted_row(keys[i]) == EST_ID_DROPPED;
        if (!good) return printf("key %" PRId64 ": id %" PRId64 " after %" PRId64 "\n", i, id, before);
        sum += place;
    }
    if (sum != ids->count * (ids->count - 1) / 2) return printf("places are not all there\n");
    return 0;
}

#define SORT .op = "EstSortIds", .also = check
#define IDS(type, first, last, n)                                                                                      \
    {                                                                                                                  \
        .shape = EST_SHAPE(n), .dtype = type, .lo = first, .hi = last                                                  \
    }

static const double odd[] = { 5, -3, 1e9, -2147483648., 0, -1, 5, -2147483648., 2147483647 };

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { SORT, .in = { IDS(EST_I64, 0, 99999, 512) } },
        { SORT, .in = { IDS(EST_I32, 0, 3, 500) } },
        { SORT, .in = { IDS(EST_I64, 7, 7, 40) } }, /* all the same */
        { SORT, .in = { IDS(EST_I64, 0, 9, 1) } },
        { SORT, .in = { IDS(EST_I64, 0, 9, 0) } },
        { SORT, .in = { INDICES(EST_I32, 9, odd) } },
        { SORT, .in = { IDS(EST_I64, -5, 5e11, 600) } },   /* more bits, and fewer ids than threads */
        { SORT, .in = { IDS(EST_I64, 0, 2e6, 4096) } },    /* a block in full */
        { SORT, .in = { IDS(EST_I32, 0, 99, 4097) } },     /* the next larger one */
        { SORT, .in = { IDS(EST_I64, 0, 99999, 16384) } }, /* the largest */
        { SORT, .in = { IDS(EST_I64, 0, 99999, 16385) } }, /* one merge */
        { SORT, .in = { IDS(EST_I32, 0, 99999, 50000) } }, /* two, an odd number of pieces */
    };

    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
