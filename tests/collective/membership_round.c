/* SPDX-License-Identifier: Apache-2.0
 *
 * What a host decides of who is here: without a network, so that every case is at hand. And the messages: what was
 * written is read as the same, with every allocation failing once. */
#include "collective/membership_round.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "support/fault_loop.h"
#include "support/nn_test.h"

#define N 4

enum { WAIT = 0 }; /* beside the kinds of agreements */

/* What a task says, or that it is away and for how long. */
typedef struct one {
    bool        here;
    double      away_secs;
    int64_t     step;
    uint64_t    generation;
    const char *last; /* numbers of its last view, as digits */
} one;

#define HERE(step_, generation_, last_)                                                                                \
    {                                                                                                                  \
        .here = true, .step = step_, .generation = generation_, .last = last_                                          \
    }
#define AWAY(secs)                                                                                                     \
    {                                                                                                                  \
        .away_secs = secs                                                                                              \
    }

typedef struct scene {
    const char *what;
    one         tasks[N];
    int         self;
    bool        elastic;
    int         kind; /* WAIT, or what is decided */
    const char *members;
    int         source;
    int64_t     step;
    uint64_t    generation;
    est_status  status;
    const char *text;
} scene;

/* Tasks wait for 10 s at first, and for 5 s for one that was lost. */
static const scene scenes[] = {
    /* clang-format off */
    { "the first time all are needed",     { HERE(-1, 0, ""), HERE(-1, 0, ""), HERE(-1, 0, ""), AWAY(9) }, 0, true, WAIT },
    { "only the host decides",             { HERE(-1, 0, ""), HERE(-1, 0, ""), HERE(-1, 0, ""), HERE(-1, 0, "") }, 1, true, WAIT },
    { "nobody has variables",              { HERE(-1, 0, ""), HERE(-1, 0, ""), HERE(-1, 0, ""), HERE(-1, 0, "") }, 0, true,
      EST_DECIDED_GROUP, "0123", -1, -1, 1 },
    { "the first of the highest step",     { HERE(-1, 0, ""), HERE(3, 0, ""), HERE(8, 0, ""), HERE(8, 0, "") }, 0, true,
      EST_DECIDED_GROUP, "0123", 2, 8, 1 },
    { "the first time nobody goes on",     { HERE(-1, 0, ""), HERE(-1, 0, ""), HERE(-1, 0, ""), AWAY(11) }, 0, true,
      EST_DECIDED_REFUSAL, .status = EST_DEADLINE_EXCEEDED, .text = "worker:3 (host3:1) did not join within 10 s" },
    { "whoever is next says so for the host", { AWAY(11), HERE(-1, 0, ""), HERE(-1, 0, ""), AWAY(11) }, 1, true,
      EST_DECIDED_REFUSAL, .status = EST_DEADLINE_EXCEEDED, .text = "worker:0 (host0:1), worker:3 (host3:1) did not join" },
    { "one that was lost may come back",   { HERE(8, 2, "0123"), HERE(8, 2, "0123"), AWAY(4), HERE(8, 2, "0123") }, 0, true, WAIT },
    { "a restarted one asks the others", { HERE(-1, 0, ""), HERE(8, 2, "0123"), AWAY(6), HERE(8, 2, "0123") }, 0, true,
      EST_DECIDED_GROUP, "013", 1, 8, 3 },
    { "the host is waited for, too",       { AWAY(4), HERE(8, 2, "0123"), HERE(8, 2, "0123"), HERE(8, 2, "0123") }, 1, true, WAIT },
    { "the next takes the host's place",   { AWAY(6), HERE(8, 2, "0123"), HERE(9, 2, "0123"), HERE(8, 2, "0123") }, 1, true,
      EST_DECIDED_GROUP, "123", 1, 9, 3 },
    { "not without leave",                 { AWAY(6), HERE(8, 2, "0123"), HERE(9, 2, "0123"), HERE(8, 2, "0123") }, 1, false,
      EST_DECIDED_REFUSAL, .status = EST_DEADLINE_EXCEEDED, .text = "worker:0 (host0:1) did not rejoin within 5 s" },
    { "half with the lowest number",       { HERE(8, 2, "0123"), AWAY(6), AWAY(6), HERE(8, 2, "0123") }, 0, true,
      EST_DECIDED_GROUP, "03", 0, 8, 3 },
    { "half without it",                   { AWAY(6), HERE(8, 2, "0123"), AWAY(6), HERE(8, 2, "0123") }, 1, true,
      EST_DECIDED_REFUSAL, .status = EST_DEADLINE_EXCEEDED, .text = "are no quorum" },
    { "half of those who were left",       { AWAY(60), HERE(8, 5, "13"), AWAY(60), AWAY(6) }, 1, true,
      EST_DECIDED_GROUP, "1", 0, 8, 6 },
    { "the other half of them",            { AWAY(60), AWAY(6), AWAY(60), HERE(8, 5, "13") }, 3, true,
      EST_DECIDED_REFUSAL, .status = EST_DEADLINE_EXCEEDED, .text = "are no quorum" },
    { "those who were not there do not count", { HERE(-1, 0, ""), AWAY(6), HERE(3, 1, "0123"), HERE(8, 5, "13") }, 0, true,
      EST_DECIDED_REFUSAL, .status = EST_DEADLINE_EXCEEDED, .text = "are no quorum" },
    { "less than half",                    { HERE(8, 2, "0123"), AWAY(6), AWAY(6), AWAY(6) }, 0, true,
      EST_DECIDED_REFUSAL, .status = EST_DEADLINE_EXCEEDED, .text = "are no quorum" },
    { "older variables do not count",      { HERE(3, 1, "0123"), HERE(8, 2, "123"), HERE(8, 2, "123"), HERE(8, 2, "123") }, 0, true,
      EST_DECIDED_GROUP, "0123", 1, 8, 3 },
    /* clang-format on */
};

static est_numbers numbers_of(const char *digits, int *memory)
{
    est_numbers out = { memory, 0 };

    for (; digits != NULL && *digits != '\0'; digits++) out.data[out.n++] = *digits - '0';
    return out;
}

/* Whose word it is: what was agreed on the last time stays. */
static int speaker(const scene *s, est_numbers members)
{
    int last = -1;

    for (int i = 0; i < N; i++) {
        const one *t = &s->tasks[i];

        if (t->here && t->generation > (last >= 0 ? s->tasks[last].generation : 0)) last = i;
    }
    return last >= 0 ? last : members.data[s->source >= 0 ? s->source : 0];
}

static void play(const scene *s)
{
    static const char *const words[N]     = { "w0", "w1", "w2", "w3" };
    static const char *const addresses[N] = { "host0:1", "host1:1", "host2:1", "host3:1" };
    static const char *const tasks[N]     = { "worker:0", "worker:1", "worker:2", "worker:3" };
    est_proposal             arrivals[N];
    est_candidate            of[N];
    est_rank                 ranks[N];
    int                      memory[N][N], want[N];
    est_round                a       = { .tasks        = ranks,
                                         .candidates   = of,
                                         .n            = N,
                                         .self         = s->self,
                                         .connect_secs = 10,
                                         .rejoin_secs  = 5,
                                         .elastic      = s->elastic };
    est_decision             got     = { 0 };
    est_numbers              members = numbers_of(s->members, want);
    bool                     decided;

    for (int i = 0; i < N; i++) {
        const one *t = &s->tasks[i];

        arrivals[i] = (est_proposal){ .number     = i,
                                      .step       = t->step,
                                      .generation = t->generation,
                                      .sums       = i == N - 1,
                                      .members    = numbers_of(t->last, memory[i]),
                                      .address    = (char *)(uintptr_t)addresses[i],
                                      .payload    = (char *)(uintptr_t)words[i] };
        of[i]       = (est_candidate){ .proposal    = t->here ? &arrivals[i] : NULL,
                                       .incarnation = 100 + (uint64_t)i,
                                       .away_ns     = (int64_t)(t->away_secs * (double)EST_NS_PER_SEC) };
        ranks[i]    = (est_rank){ tasks[i], addresses[i], 0 };
    }
    assert_ok(est_round_decide(&a, &decided, &got));
    if (decided != (s->kind != WAIT) || (int)got.kind != s->kind)
        fail_msg("%s: %s, kind %d: %s", s->what, decided ? "decided" : "waits", (int)got.kind,
                 got.text != NULL ? got.text : "");
    if (s->kind == EST_DECIDED_GROUP) {
        if (got.source != s->source || got.step != s->step || got.generation != s->generation ||
            got.members.n != members.n || memcmp(got.members.data, want, sizeof *want * (size_t)members.n) != 0)
            fail_msg("%s: source %d of %d", s->what, got.source, got.members.n);
        assert_int_equal(got.sums, members.data[members.n - 1] == N - 1);
        assert_string_equal(got.payload, words[speaker(s, members)]);
        for (int i = 0; i < got.members.n; i++) {
            assert_int_equal(got.incarnations[i], 100 + members.data[i]);
            assert_string_equal(got.addresses[i], addresses[members.data[i]]);
        }
    }
    if (s->kind == EST_DECIDED_REFUSAL && (got.status != s->status || strstr(got.text, s->text) == NULL))
        fail_msg("%s: %s: %s", s->what, est_status_name(got.status), got.text);
    est_decision_clear(&got);
}

TEST(decisions)
{
    for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++) play(&scenes[i]);
}

TEST(forever)
{
    est_proposal  self     = { .number = 0, .step = 1, .generation = 1, .payload = (char *)(uintptr_t) "" };
    est_candidate of[]     = { { .proposal = &self }, { .away_ns = INT64_MAX } };
    est_rank      ranks[2] = { { "worker:0", "a", 0 }, { "worker:1", "b", 0 } };
    est_round     a = { .tasks = ranks, .candidates = of, .n = 2, .connect_secs = 1, .rejoin_secs = EST_FOREVER };
    est_decision  got;
    bool          decided;

    assert_ok(est_round_decide(&a, &decided, &got));
    assert_false(decided);
    assert_true(est_round_awaits(&a, 1));
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

static int          members[]   = { 0, 3 };
static uint64_t     starts[]    = { 77, UINT64_MAX };
static char        *addresses[] = { (char[]){ "here:1" }, (char[]){ "there:2" } };
static est_proposal proposal    = { .number     = 2,
                                    .terms      = { .list    = UINT64_MAX - 5,
                                                    .tasks   = (char[]){ "4 tasks, worker:0 to worker:3" },
                                                    .options = (char[]){ "max_steps=100\nelastic=no\n" } },
                                    .step       = -1,
                                    .generation = 12,
                                    .sums       = true,
                                    .members    = { members, 2 },
                                    .address    = (char[]){ "there:1" },
                                    .payload    = (char[]){ "seed 7" },
                                    .purpose    = (char[]){ "training" },
                                    .why        = (char[]){ "" } };
static est_decision decision    = { .kind         = EST_DECIDED_GROUP,
                                    .generation   = 13,
                                    .members      = { members, 2 },
                                    .incarnations = starts,
                                    .addresses    = addresses,
                                    .source       = 1,
                                    .sums         = true,
                                    .step         = 500,
                                    .payload      = (char[]){ "seed 7" } };

static est_status copy_proposal(const est_proposal *from, est_proposal *out)
{
    est_wire_writer bytes = { 0 };
    est_status      status;

    est_proposal_write(from, &bytes);
    status = est_wire_writer_status(&bytes);
    if (status == EST_OK) status = est_proposal_read(bytes.data, bytes.size, N, proposal.terms.list, out);
    est_wire_writer_clear(&bytes);
    return status;
}

static est_status copy_decision(const est_decision *from, est_decision *out)
{
    est_wire_writer bytes = { 0 };
    est_status      status;

    est_decision_write(from, &bytes);
    status = est_wire_writer_status(&bytes);
    if (status == EST_OK) status = est_decision_read(bytes.data, bytes.size, N, out);
    est_wire_writer_clear(&bytes);
    return status;
}

TEST(messages)
{
    est_proposal a;
    est_decision b, not ;

    assert_ok(copy_proposal(&proposal, &a));
    assert_true(a.number == 2 && a.terms.list == proposal.terms.list && a.step == -1 && a.generation == 12 &&
                a.members.n == 2 && a.sums);
    assert_memory_equal(a.members.data, members, sizeof members);
    assert_string_equal(a.address, "there:1");
    assert_string_equal(a.payload, "seed 7");
    assert_string_equal(a.why, "");
    assert_ok(est_terms_compare(&proposal.terms, "worker:0", &a.terms, "worker:2"));
    est_proposal_clear(&a);

    assert_ok(copy_decision(&decision, &b));
    assert_true(b.kind == EST_DECIDED_GROUP && b.generation == 13 && b.source == 1 && b.step == 500 &&
                b.members.n == 2 && b.sums);
    assert_memory_equal(b.incarnations, starts, sizeof starts);
    assert_string_equal(b.addresses[1], "there:2");
    assert_int_equal(est_decision_rank(&b, 3, UINT64_MAX), 1);
    assert_int_equal(est_decision_rank(&b, 3, 77), -1);
    assert_int_equal(est_decision_rank(&b, 1, 77), -1);
    est_decision_clear(&b);

    assert_ok(est_decision_refuse(&not, EST_UNAVAILABLE, "%d are gone", 2));
    assert_ok(copy_decision(&not, &b));
    assert_true(b.kind == EST_DECIDED_REFUSAL && b.status == EST_UNAVAILABLE);
    assert_string_equal(b.text, "2 are gone");
    est_decision_clear(&b);
    est_decision_clear(&not );

    assert_ok(copy_decision(&(est_decision){ .kind = EST_DECIDED_OVER }, &b));
    assert_int_equal(b.kind, EST_DECIDED_OVER);
    est_decision_clear(&b);
}

/* The first line that differs is named, with both values and whose they are. */
TEST(terms)
{
    static const struct {
        const char *options, *text;
    } others[] = {
        { "max_steps=50\nelastic=no\n", "max_steps is 100 at worker:0 and 50 at worker:1: all workers need the same" },
        { "max_steps=100\nelastic=yes\n", "elastic is no at worker:0 and yes at worker:1" },
        { "max_steps=100\n", "worker:0 has \"elastic=no\" where worker:1 has \"\"" },
        { "max_steps=100\nelastic=no\nmore=1\n", "worker:0 has \"\" where worker:1 has \"more=1\"" },
        { "max=100\nelastic=no\n", "worker:0 has \"max_steps=100\" where worker:1 has \"max=100\"" },
    };
    est_terms other = proposal.terms;

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        other.options = (char *)(uintptr_t)others[i].options;
        assert_int_equal(est_terms_compare(&proposal.terms, "worker:0", &other, "worker:1"), EST_FAILED_PRECONDITION);
        if (strstr(est_error_message(), others[i].text) == NULL) fail_msg("%s", est_error_message());
    }
    other = (est_terms){ 1, (char[]){ "2 tasks, worker:0 to worker:1" }, proposal.terms.options };
    assert_int_equal(est_terms_compare(&other, "worker:0", &proposal.terms, "worker:3"), EST_FAILED_PRECONDITION);
    assert_non_null(strstr(est_error_message(),
                           "worker:0 belongs to a job of 2 tasks, worker:0 to worker:1, and worker:3 to "
                           "one of 4 tasks, worker:0 to worker:3"));
}

/* Numbers of another list say nothing here. */
TEST(other_list)
{
    int          many[] = { 0, 7, 9 };
    est_proposal a      = proposal, read;

    a.terms.list = 1;
    a.number     = 9;
    a.members    = (est_numbers){ many, 3 };
    assert_ok(copy_proposal(&a, &read));
    assert_true(read.terms.list == 1 && read.number == 9 && read.members.n == 0);
    est_proposal_clear(&read);
    a.number = -1;
    assert_int_equal(copy_proposal(&a, &read), EST_DATA_LOSS);
}

/* What does not add up is refused. */
TEST(nonsense)
{
    int          wrong[] = { 3, 0 };
    est_proposal a       = proposal, none;
    est_decision b       = decision, nothing;

    a.number = N;
    assert_int_equal(copy_proposal(&a, &none), EST_DATA_LOSS);
    a      = proposal;
    a.step = -2;
    assert_int_equal(copy_proposal(&a, &none), EST_DATA_LOSS);
    a            = proposal;
    a.generation = UINT64_MAX;
    assert_int_equal(copy_proposal(&a, &none), EST_DATA_LOSS);
    a              = proposal;
    a.members.data = wrong;
    assert_int_equal(copy_proposal(&a, &none), EST_DATA_LOSS);
    assert_int_equal(est_proposal_read("", 0, N, 0, &none), EST_FAILED_PRECONDITION); /* no version */
    b.source = 2;
    assert_int_equal(copy_decision(&b, &nothing), EST_DATA_LOSS);
    b.source = -1; /* whose step is 500, then? */
    assert_int_equal(copy_decision(&b, &nothing), EST_DATA_LOSS);
    b            = decision;
    b.generation = 0;
    assert_int_equal(copy_decision(&b, &nothing), EST_DATA_LOSS);
    b           = decision;
    b.members.n = 0;
    assert_int_equal(copy_decision(&b, &nothing), EST_DATA_LOSS);
    assert_int_equal(copy_decision(&(est_decision){ .kind = EST_DECIDED_REFUSAL, .text = addresses[0] }, &nothing),
                     EST_DATA_LOSS);
}

TEST(no_memory)
{
    FAULT_LOOP(f, FAULT_ALLOCATIONS, .more_than = 9) {
        est_proposal a = { 0 };
        est_decision b = { 0 };
        est_status   status;

        fault_arm(&f);
        status = copy_proposal(&proposal, &a);
        if (status == EST_OK) status = copy_decision(&decision, &b);
        fault_check(&f, status);
        est_proposal_clear(&a);
        est_decision_clear(&b);
    }
}
