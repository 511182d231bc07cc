/* SPDX-License-Identifier: Apache-2.0
 *
 * What sessions ask of the other workers, over the group of a view: sums, rows and gathers, several under way at once;
 * and what a step that loses a worker fails with. */
#include <string.h>

#include "support/membership_test.h"
#include "support/nn_test.h"

#define RANKS 3

static void join_view(crew_member *m)
{
    crew_check(m, est_membership_join(m->membership, -1, "", &m->view));
}

static void sum_rows_and_gather(crew_member *m)
{
    est_communicator *p         = m->view.communicator;
    int               rank      = p->rank;
    float             data[]    = { 1, (float)rank };
    int64_t           indices[] = { 7, 10 + rank, 7 };
    float             values[] = { 1, 2, 3, 4, 5, 6 }, once[] = { 1 };
    char              bytes[]  = "abc";
    est_comm_rows     tables[] = { { indices, values, 3, 2, EST_F32, .factor = 1 },
                                   { indices, values, 1, 1, EST_F32, .factor = 0.5, .distinct = true } };
    est_comm_rows     alone    = { indices, once, rank != 1, 1, EST_F32, .factor = 1 }, got[3];
    est_comm_work    *works[4] = { NULL };
    const void       *all      = NULL;
    const size_t     *begins   = NULL;

    crew_check(m, p->ops->sum(p, data, 2, EST_F32, &works[0]));
    crew_check(m, p->ops->rows(p, 0, tables, 2, &works[1]));
    memset(values, 0xff, sizeof values); /* they were copied */
    crew_check(m, p->ops->rows(p, 3, &alone, 1, &works[2]));
    crew_check(m, p->ops->gather(p, 1, bytes, (size_t)rank, &works[3]));
    if (m->error[0] != '\0') return;
    crew_check(m, p->ops->wait_gather(p, works[3], &all, &begins));
    crew_check(m, p->ops->wait(p, works[0]));
    crew_check(m, p->ops->wait_rows(p, works[2], &got[2]));
    crew_check(m, p->ops->wait_rows(p, works[1], got));
    if (m->error[0] != '\0') return;
    if (data[0] != RANKS || data[1] != 3) crew_fail(m, "sums of %g and %g", (double)data[0], (double)data[1]);
    if (begins[1] != 0 || begins[2] != 1 || begins[3] != 3 || memcmp(all, "aab", 3) != 0)
        crew_fail(m, "what was gathered has %d bytes", (int)begins[3]);
    if (got[0].n != 1 + RANKS || got[0].indices[0] != 7 || ((const float *)got[0].values)[0] != RANKS * (1 + 5) ||
        ((const float *)got[0].values)[1] != RANKS * (2 + 6))
        crew_fail(m, "%d rows", (int)got[0].n);
    if (got[1].n != 1 || got[1].indices[0] != 7 || ((const float *)got[1].values)[0] != RANKS * 0.5F)
        crew_fail(m, "%d rows of the second table", (int)got[1].n);
    if (got[2].n != 1) crew_fail(m, "%d rows of two", (int)got[2].n);
}

static void sum_until_aborted(crew_member *m)
{
    est_communicator *p    = m->view.communicator;
    float             data = 1;
    est_comm_work    *work;
    est_status        status = EST_OK;

    while (status == EST_OK) {
        status = p->ops->sum(p, &data, 1, EST_F32, &work);
        if (status == EST_OK) status = p->ops->wait(p, work);
    }
    crew_expect(m, status, EST_ABORTED, "(worker:1)");
    crew_expect(m, p->ops->gather(p, 0, "", 0, &work), EST_ABORTED, "(worker:1)");
    crew_expect(m, p->ops->rows(p, 0, &(est_comm_rows){ .dtype = EST_F32 }, 1, &work), EST_ABORTED, "(worker:1)");
}

TEST(communicator)
{
    crew              c;
    est_communicator *before;

    crew_make(&c, RANKS, &(est_membership_options){ .bytes_per_pack = 123 });
    crew_start_all(&c);
    crew_run(&c, CREW_ALL, join_view, NULL);
    before = c.members[0].view.communicator;
    assert_int_equal(before->bytes_per_pack, 123);
    crew_run(&c, CREW_ALL, sum_rows_and_gather, NULL);
    crew_stop(&c, 1);
    crew_run(&c, 5U, sum_until_aborted, NULL);
    crew_start(&c, 1);
    crew_run(&c, CREW_ALL, join_view, NULL);
    assert_ptr_equal(c.members[0].view.communicator, before);
    crew_run(&c, CREW_ALL, sum_rows_and_gather, NULL);
    crew_free(&c);
}

/* One that is late is, for a step, one that is lost. */
static void sum_alone(crew_member *m)
{
    est_communicator *p    = m->view.communicator;
    float             data = 1;
    est_comm_work    *work;

    if (m->number == 0) return;
    crew_check(m, p->ops->sum(p, &data, 1, EST_F32, &work));
    if (m->error[0] == '\0') crew_expect(m, p->ops->wait(p, work), EST_ABORTED, "waited for rank 0 (worker:0)");
}

TEST(late)
{
    crew c;

    crew_make(&c, 2, &(est_membership_options){ .deadline_secs = 0.2 });
    crew_start_all(&c);
    crew_run(&c, CREW_ALL, join_view, NULL);
    crew_run(&c, CREW_ALL, sum_alone, NULL);
    crew_free(&c);
}

/* The first has a fault of its own: the others fail while they wait, and all join again. */
static void abort_or_sum(crew_member *m)
{
    est_communicator *p    = m->view.communicator;
    float             data = 1;
    est_comm_work    *work;

    if (m->number == 0) {
        p->ops->abort(p, "row 9 of 4");
        return;
    }
    if (p->ops->sum(p, &data, 1, EST_F32, &work) == EST_OK) {
        crew_expect(m, p->ops->wait(p, work), EST_ABORTED, "row 9 of 4");
    } else {
        crew_expect(m, p->ops->sum(p, &data, 1, EST_F32, &work), EST_ABORTED, "row 9 of 4");
    }
}

TEST(abort)
{
    crew c;

    crew_make(&c, RANKS, NULL);
    crew_start_all(&c);
    crew_run(&c, CREW_ALL, join_view, NULL);
    crew_run(&c, CREW_ALL, abort_or_sum, NULL);
    crew_run(&c, CREW_ALL, join_view, NULL);
    crew_run(&c, CREW_ALL, sum_rows_and_gather, NULL);
    crew_free(&c);
}

static void gather(crew_member *m)
{
    est_gathered all = { 0 };
    int          n   = m->number;

    crew_check(m, est_membership_gather(m->membership, "xyz", (size_t)n, &all));
    if (m->error[0] == '\0' && (all.begins[RANKS] != 3 || memcmp(all.data, "xxy", 3) != 0))
        crew_fail(m, "%d bytes", (int)all.begins[RANKS]);
    est_gathered_clear(&all);
}

TEST(gather)
{
    crew         c;
    est_gathered all;

    crew_make(&c, RANKS, NULL);
    crew_start_all(&c);
    assert_int_equal(est_membership_gather(c.members[0].membership, "", 0, &all), EST_ABORTED); /* nobody has met */
    crew_run(&c, CREW_ALL, join_view, NULL);
    crew_run(&c, CREW_ALL, gather, NULL);
    crew_free(&c);
}
