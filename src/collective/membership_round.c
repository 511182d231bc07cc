/* SPDX-License-Identifier: Apache-2.0
 *
 * How the decider decides, and whether two workers belong to one job. */
#include "collective/membership_round.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/strbuf.h"
#include "cluster/terms.h"

/* --- terms -------------------------------------------------------------------------------------------------------- */

est_status est_terms_compare(const est_terms *terms, const char *whose, const est_terms *other, const char *others)
{
    if (terms->list != other->list) {
        return est_fail(EST_FAILED_PRECONDITION,
                        "%s belongs to a job of %s, and %s to one of %s: all workers need the same "
                        "TF_CONFIG cluster",
                        whose, terms->tasks, others, other->tasks);
    }
    return est_terms_same(est_terms_text(terms->options), whose, est_terms_text(other->options), others);
}

/* --- presence ----------------------------------------------------------------------------------------------------- */

/* The proposal with the newest view of all that are present; NULL: nobody has had one. */
static const est_proposal *last_view(const est_round *a)
{
    const est_proposal *last = NULL;

    for (int i = 0; i < a->n; i++) {
        const est_proposal *proposal = a->candidates[i].proposal;

        if (proposal == NULL || proposal->generation == 0) continue;
        if (last == NULL || proposal->generation > last->generation) last = proposal;
    }
    return last;
}

static double limit_of(const est_round *a)
{
    return last_view(a) == NULL ? a->connect_secs : a->rejoin_secs;
}

bool est_round_awaits(const est_round *a, int number)
{
    double limit = limit_of(a);

    if (a->candidates[number].proposal != NULL) return false;
    return limit == EST_FOREVER || (double)a->candidates[number].away_ns <= limit * (double)EST_NS_PER_SEC;
}

int est_round_decider(const est_round *a)
{
    int i = 0;

    while (i < a->self && a->candidates[i].proposal == NULL && !est_round_awaits(a, i)) i++;
    return i;
}

/* "worker:1 (10.0.0.2:2222), worker:3 (10.0.0.4:2222)" */
static est_status name_missing(const est_round *a, char **out)
{
    est_strbuf text = { 0 };

    for (int i = 0; i < a->n; i++) {
        if (a->candidates[i].proposal != NULL) continue;
        est_strbuf_printf(&text, "%s%s (%s)", est_strbuf_text(&text)[0] != '\0' ? ", " : "", a->tasks[i].task,
                          a->tasks[i].address);
    }
    return est_strbuf_take(&text, out);
}

/* Two halves must not both continue: exactly half is a quorum only with the lowest number. */
static bool has_quorum(const est_round *a, const est_proposal *last)
{
    int n = 0;

    for (int i = 0; i < last->members.n; i++) n += a->candidates[last->members.data[i]].proposal != NULL;
    if (2 * n != last->members.n) return 2 * n > last->members.n;
    return a->candidates[last->members.data[0]].proposal != NULL;
}

/* Whether the present workers may continue without the rest; if not, *out is the refusal. */
static est_status check_quorum(const est_round *a, int n_here, bool *may, est_decision *out)
{
    const est_proposal *last = last_view(a);
    char               *names;
    est_status          status;

    *may = true;
    if (n_here == a->n || (last != NULL && a->elastic && has_quorum(a, last))) return EST_OK;
    *may = false;
    EST_TRY(name_missing(a, &names));
    if (last == NULL) {
        status = est_decision_refuse(out, EST_DEADLINE_EXCEEDED, "%s did not join within %g s", names, a->connect_secs);
    } else if (!a->elastic) {
        status = est_decision_refuse(out, EST_DEADLINE_EXCEEDED, "%s did not rejoin within %g s", names,
                                     a->rejoin_secs);
    } else {
        status = est_decision_refuse(
            out, EST_DEADLINE_EXCEEDED,
            "%s did not rejoin within %g s, and the workers that are left of the last view of %d "
            "are no quorum",
            names, a->rejoin_secs, last->members.n);
    }
    est_free(names);
    return status;
}

/* Adds all present workers; stops when memory is out. */
static void add_members(const est_round *a, est_decision *out)
{
    for (int i = 0; i < a->n; i++) {
        const est_proposal *proposal = a->candidates[i].proposal;

        if (proposal == NULL) continue;
        out->addresses[out->members.n] = est_strdup(proposal->address);
        if (out->addresses[out->members.n] == NULL) return;
        if (proposal->step > out->step) {
            out->step   = proposal->step;
            out->source = out->members.n;
        }
        out->sums                           = out->sums || proposal->sums;
        out->incarnations[out->members.n]   = a->candidates[i].incarnation;
        out->members.data[out->members.n++] = i;
    }
}

static est_status decide_group(const est_round *a, int n_here, est_decision *out)
{
    const est_proposal *last   = last_view(a), *first;
    est_decision        agreed = {
               .kind = EST_DECIDED_GROUP, .generation = last != NULL ? last->generation + 1 : 1, .source = -1, .step = -1
    };

    agreed.members.data = est_alloc(sizeof *agreed.members.data * (size_t)n_here);
    agreed.incarnations = est_alloc(sizeof *agreed.incarnations * (size_t)n_here);
    agreed.addresses    = est_zalloc(sizeof(char *) * (size_t)n_here);
    if (agreed.members.data != NULL && agreed.incarnations != NULL && agreed.addresses != NULL) add_members(a, &agreed);
    if (agreed.members.n == n_here) {
        first          = a->candidates[agreed.members.data[agreed.source >= 0 ? agreed.source : 0]].proposal;
        agreed.payload = est_strdup(last != NULL ? last->payload : first->payload);
    }
    if (agreed.payload == NULL) {
        est_decision_clear(&agreed);
        return est_no_memory();
    }
    *out = agreed;
    return EST_OK;
}

est_status est_round_decide(const est_round *a, bool *decided, est_decision *out)
{
    int  n_here = 0;
    bool may;

    *decided = est_round_decider(a) == a->self;
    for (int i = 0; i < a->n && *decided; i++) {
        n_here += a->candidates[i].proposal != NULL;
        *decided = !est_round_awaits(a, i);
    }
    if (!*decided) return EST_OK;
    EST_TRY(check_quorum(a, n_here, &may, out));
    return may ? decide_group(a, n_here, out) : EST_OK;
}
