/* SPDX-License-Identifier: Apache-2.0
 *
 * What a host decides, and whether two can be of one job. */
#include "strategy/meeting.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/strbuf.h"
#include "cluster/terms.h"

/* --- what all must have the same ----------------------------------------------------------------------------------------- */

est_status est_terms_compare(const est_terms *terms, const char *whose, const est_terms *other, const char *others)
{
    if (terms->list != other->list) {
        return est_fail(EST_FAILED_PRECONDITION,
                        "%s is of a job of %s, and %s of one of %s: all need the same "
                        "TF_CONFIG cluster",
                        whose, terms->tasks, others, other->tasks);
    }
    return est_terms_same(est_terms_text(terms->options), whose, est_terms_text(other->options), others);
}

/* --- who is here --------------------------------------------------------------------------------------------------------- */

/* Who was at the last meeting, of all that those who are here know of. */
static const est_arrival *last_meeting(const est_attendance *a)
{
    const est_arrival *last = NULL;

    for (int i = 0; i < a->n; i++) {
        const est_arrival *arrival = a->of[i].arrival;

        if (arrival == NULL || arrival->generation == 0) continue;
        if (last == NULL || arrival->generation > last->generation) last = arrival;
    }
    return last;
}

static double limit_of(const est_attendance *a)
{
    return last_meeting(a) == NULL ? a->connect_secs : a->return_secs;
}

bool est_attendance_awaits(const est_attendance *a, int number)
{
    double limit = limit_of(a);

    if (a->of[number].arrival != NULL) return false;
    return limit == EST_FOREVER || (double)a->of[number].away_ns <= limit * (double)EST_NS_PER_SEC;
}

int est_attendance_host(const est_attendance *a)
{
    int i = 0;

    while (i < a->self && a->of[i].arrival == NULL && !est_attendance_awaits(a, i)) i++;
    return i;
}

/* "worker:1 (10.0.0.2:2222), worker:3 (10.0.0.4:2222)" */
static est_status name_missing(const est_attendance *a, char **out)
{
    est_strbuf text = { 0 };

    for (int i = 0; i < a->n; i++) {
        if (a->of[i].arrival != NULL) continue;
        est_strbuf_printf(&text, "%s%s (%s)", est_strbuf_text(&text)[0] != '\0' ? ", " : "", a->tasks[i].task,
                          a->tasks[i].address);
    }
    return est_strbuf_take(&text, out);
}

/* Two halves must not both go on: of exactly half, the one with the lowest number does. */
static bool are_enough(const est_attendance *a, const est_arrival *last)
{
    int n = 0;

    for (int i = 0; i < last->members.n; i++) n += a->of[last->members.data[i]].arrival != NULL;
    if (2 * n != last->members.n) return 2 * n > last->members.n;
    return a->of[last->members.data[0]].arrival != NULL;
}

/* Whether those who are here may go on without the rest; if not, *out says why. */
static est_status judge_missing(const est_attendance *a, int n_here, bool *may, est_agreement *out)
{
    const est_arrival *last = last_meeting(a);
    char              *names;
    est_status         status;

    *may = true;
    if (n_here == a->n || (last != NULL && a->go_on && are_enough(a, last))) return EST_OK;
    *may = false;
    EST_TRY(name_missing(a, &names));
    if (last == NULL) {
        status = est_agreement_refuse(out, EST_DEADLINE_EXCEEDED, "%s did not come within %g s", names,
                                      a->connect_secs);
    } else if (!a->go_on) {
        status = est_agreement_refuse(out, EST_DEADLINE_EXCEEDED, "%s did not come back within %g s", names,
                                      a->return_secs);
    } else {
        status = est_agreement_refuse(out, EST_DEADLINE_EXCEEDED,
                                      "%s did not come back within %g s, and those left of the last meeting of %d are "
                                      "not enough to go on: others might, too",
                                      names, a->return_secs, last->members.n);
    }
    est_free(names);
    return status;
}

/* All who are here, until memory is out. */
static void add_members(const est_attendance *a, est_agreement *out)
{
    for (int i = 0; i < a->n; i++) {
        const est_arrival *arrival = a->of[i].arrival;

        if (arrival == NULL) continue;
        out->addresses[out->members.n] = est_strdup(arrival->address);
        if (out->addresses[out->members.n] == NULL) return;
        if (arrival->step > out->step) {
            out->step   = arrival->step;
            out->source = out->members.n;
        }
        out->incarnations[out->members.n]   = a->of[i].incarnation;
        out->members.data[out->members.n++] = i;
    }
}

static est_status agree(const est_attendance *a, int n_here, est_agreement *out)
{
    const est_arrival *last   = last_meeting(a), *first;
    est_agreement      agreed = {
             .kind = EST_AGREED, .generation = last != NULL ? last->generation + 1 : 1, .source = -1, .step = -1
    };

    agreed.members.data = est_alloc(sizeof *agreed.members.data * (size_t)n_here);
    agreed.incarnations = est_alloc(sizeof *agreed.incarnations * (size_t)n_here);
    agreed.addresses    = est_zalloc(sizeof(char *) * (size_t)n_here);
    if (agreed.members.data != NULL && agreed.incarnations != NULL && agreed.addresses != NULL) add_members(a, &agreed);
    if (agreed.members.n == n_here) {
        first       = a->of[agreed.members.data[agreed.source >= 0 ? agreed.source : 0]].arrival;
        agreed.word = est_strdup(last != NULL ? last->word : first->word);
    }
    if (agreed.word == NULL) {
        est_agreement_clear(&agreed);
        return est_no_memory();
    }
    *out = agreed;
    return EST_OK;
}

est_status est_attendance_decide(const est_attendance *a, bool *decided, est_agreement *out)
{
    int  n_here = 0;
    bool may;

    *decided = est_attendance_host(a) == a->self;
    for (int i = 0; i < a->n && *decided; i++) {
        n_here += a->of[i].arrival != NULL;
        *decided = !est_attendance_awaits(a, i);
    }
    if (!*decided) return EST_OK;
    EST_TRY(judge_missing(a, n_here, &may, out));
    return may ? agree(a, n_here, out) : EST_OK;
}
