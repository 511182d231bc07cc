/* SPDX-License-Identifier: Apache-2.0
 *
 * The gate: each of its rules by itself, and all of them over random sequences, which are checked against the rules as
 * the header words them. */
#include "cluster/gate.h"
#include "base/fault.h"
#include "support/nn_test.h"

static est_gate *make(void)
{
    est_gate *gate = NULL;

    assert_ok(est_gate_create(&gate));
    return gate;
}

/* Waiters are numbers: places in this array. */
static char waiters[1 << 16];

static void ask(est_gate *gate, const char *who, int64_t limit, int64_t staleness, int waiter)
{
    assert_ok(est_gate_ask(gate, who, limit, staleness, &waiters[waiter]));
}

static void expect(est_gate *gate, int waiter, est_gate_answer answer)
{
    void           *got = NULL;
    est_gate_answer said;

    assert_true(est_gate_next(gate, &got, &said));
    assert_int_equal((char *)got - waiters, waiter);
    assert_int_equal(said, answer);
}

static void expect_nobody(est_gate *gate)
{
    void           *got;
    est_gate_answer said;

    assert_false(est_gate_next(gate, &got, &said));
}

/* --- rule by rule ------------------------------------------------------------------------------------------------- */

/* G1: at 8 of 10 two may begin; the third waits until one of them is lost, and is told of the end when both were
 * counted. */
TEST(limit)
{
    est_gate *gate = make();

    est_gate_count(gate, NULL, 8);
    ask(gate, "a", 10, 0, 1);
    ask(gate, "b", 10, 0, 2);
    ask(gate, "c", 10, 0, 3);
    expect(gate, 1, EST_GATE_BEGIN);
    expect(gate, 2, EST_GATE_BEGIN);
    expect_nobody(gate);
    est_gate_leave(gate, "b");
    expect(gate, 3, EST_GATE_BEGIN);
    ask(gate, "d", 10, 0, 4);
    est_gate_count(gate, "a", 9);
    expect_nobody(gate); /* one counted, one under way */
    est_gate_count(gate, "c", 10);
    expect(gate, 4, EST_GATE_FINISHED);
    ask(gate, "a", 10, 0, 5);
    expect(gate, 5, EST_GATE_FINISHED);
    ask(gate, "a", 0, 0, 6); /* a worker without a limit goes on */
    expect(gate, 6, EST_GATE_BEGIN);
    est_gate_free(gate);
}

/* G2: with a staleness of 2, nobody begins once two steps were counted while another is under way. */
TEST(staleness)
{
    est_gate *gate = make();

    ask(gate, "slow", 0, 2, 1);
    expect(gate, 1, EST_GATE_BEGIN);
    for (int i = 1; i <= 2; i++) {
        ask(gate, "fast", 0, 2, 1 + i);
        expect(gate, 1 + i, EST_GATE_BEGIN);
        est_gate_count(gate, "fast", i);
    }
    ask(gate, "fast", 0, 2, 4);
    expect_nobody(gate);
    ask(gate, "free", 0, 0, 5); /* it asked for none */
    expect(gate, 5, EST_GATE_BEGIN);
    est_gate_count(gate, "slow", 3);
    expect(gate, 4, EST_GATE_BEGIN);
    est_gate_free(gate);
}

/* G3: holds are counted, steps under way are waited for by whoever asks whether it is idle. */
TEST(hold)
{
    est_gate *gate = make();

    assert_true(est_gate_is_idle(gate) && !est_gate_is_held(gate));
    ask(gate, "a", 0, 0, 1);
    expect(gate, 1, EST_GATE_BEGIN);
    est_gate_hold(gate);
    est_gate_hold(gate);
    assert_true(est_gate_is_held(gate) && !est_gate_is_idle(gate));
    ask(gate, "b", 0, 0, 2);
    expect_nobody(gate);
    est_gate_count(gate, "a", 1);
    assert_true(est_gate_is_idle(gate));
    assert_false(est_gate_try(gate, "a", 0, 0));
    est_gate_release(gate);
    expect_nobody(gate);
    est_gate_release(gate);
    expect(gate, 2, EST_GATE_BEGIN);
    est_gate_release(gate); /* one too many: not a hold less later */
    est_gate_hold(gate);
    assert_true(est_gate_is_held(gate));
    ask(gate, "c", 1, 0, 3);
    expect(gate, 3, EST_GATE_FINISHED); /* the end is said while held, too */
    est_gate_free(gate);
}

/* Asking again gives up the wait or the turn before. */
TEST(ask_again)
{
    est_gate *gate = make();

    est_gate_hold(gate);
    ask(gate, "a", 0, 0, 1);
    ask(gate, "b", 0, 0, 2);
    ask(gate, "a", 0, 0, 3);
    expect(gate, 1, EST_GATE_DROPPED);
    expect_nobody(gate);
    est_gate_release(gate);
    expect(gate, 2, EST_GATE_BEGIN); /* a has gone to the end of the line */
    expect(gate, 3, EST_GATE_BEGIN);
    assert_true(est_gate_has_turn(gate, "a") && est_gate_has_turn(gate, "b"));
    est_gate_hold(gate);
    ask(gate, "a", 0, 0, 4);
    assert_false(est_gate_has_turn(gate, "a"));
    expect_nobody(gate);
    est_gate_count(gate, "a", 1); /* it has none to give back */
    assert_true(est_gate_has_turn(gate, "b"));
    est_gate_leave(gate, "a");
    expect(gate, 4, EST_GATE_DROPPED);
    est_gate_leave(gate, "a");
    est_gate_leave(gate, "nobody");
    expect_nobody(gate);
    est_gate_free(gate);
}

TEST(stop_waiting)
{
    est_gate *gate = make();

    ask(gate, "a", 1, 0, 1);
    ask(gate, "b", 1, 0, 2);
    expect(gate, 1, EST_GATE_BEGIN);
    est_gate_stop_waiting(gate, "a"); /* a turn stays */
    assert_true(est_gate_has_turn(gate, "a"));
    est_gate_stop_waiting(gate, "b");
    expect(gate, 2, EST_GATE_DROPPED);
    expect_nobody(gate);
    est_gate_free(gate);
}

TEST(try)
{
    est_gate *gate = make();

    assert_true(est_gate_try(gate, "a", 2, 0));
    assert_true(est_gate_has_turn(gate, "a"));
    assert_true(est_gate_try(gate, "b", 2, 0));
    assert_false(est_gate_try(gate, "c", 2, 0)); /* G1 */
    est_gate_count(gate, "a", 1);
    assert_false(est_gate_try(gate, "a", 0, 9)); /* it would age before it is used */
    ask(gate, "c", 2, 0, 1);
    assert_false(est_gate_try(gate, "d", 0, 0)); /* somebody waits */
    est_gate_count(gate, "b", 2);
    expect(gate, 1, EST_GATE_FINISHED);
    assert_false(est_gate_try(gate, "b", 2, 0)); /* finished */
    assert_true(est_gate_try(gate, "b", 3, 0));
    est_gate_free(gate);
}

TEST(finish)
{
    est_gate *gate = make();

    est_gate_hold(gate);
    ask(gate, "a", 0, 0, 1);
    ask(gate, "b", 5, 0, 2);
    est_gate_finish(gate, true);
    expect(gate, 1, EST_GATE_FINISHED);
    expect(gate, 2, EST_GATE_FINISHED);
    assert_false(est_gate_try(gate, "a", 0, 0));
    est_gate_free(gate);
}

TEST(entries)
{
    est_gate      *gate = make();
    est_gate_entry entry;

    assert_false(est_gate_entry_at(gate, 0, &entry));
    est_gate_count(gate, NULL, 7);
    ask(gate, "a", 8, 0, 1);
    ask(gate, "b", 8, 0, 2);
    expect(gate, 1, EST_GATE_BEGIN);
    assert_true(est_gate_entry_at(gate, 0, &entry));
    assert_string_equal(entry.who, "a");
    assert_true(!entry.waits && entry.begun_at == 7 && entry.since_ns > 0);
    assert_true(est_gate_entry_at(gate, 1, &entry));
    assert_string_equal(entry.who, "b");
    assert_true(entry.waits);
    assert_false(est_gate_entry_at(gate, 2, &entry));
    est_gate_free(gate);
    est_gate_free(NULL);
}

TEST(out_of_memory)
{
    est_gate *gate = NULL;

    est_fault_arm_alloc(1);
    assert_int_equal(est_gate_create(&gate), EST_RESOURCE_EXHAUSTED);
    est_fault_arm_alloc(0);
    assert_null(gate);
    gate = make();
    est_fault_arm_alloc(1);
    assert_int_equal(est_gate_ask(gate, "a", 0, 0, &waiters[1]), EST_RESOURCE_EXHAUSTED);
    est_fault_arm_alloc(1);
    assert_false(est_gate_try(gate, "a", 0, 0));
    est_fault_arm_alloc(0);
    expect_nobody(gate);
    assert_true(est_gate_try(gate, "a", 0, 0));
    est_gate_free(gate);
}

/* --- random sequences --------------------------------------------------------------------------------------------- */

#define WHO 7

enum { NOTHING, WAITS, TURN };

/* What the header promises, kept by who and by waiter. */
typedef struct model {
    int     is[WHO];     /* NOTHING, WAITS, TURN */
    int     waiter[WHO]; /* of the one who waits: they rise, so their order is that of asking */
    int64_t limit[WHO], staleness[WHO], begun[WHO];
    int64_t step;
    int     holds;
    bool    finished;
    bool    dropped[1 << 16]; /* waiters that are still to be told so */
    int     n_dropped, next;
} model;

static const char *const names[WHO] = { "worker:0", "worker:1", "worker:2", "worker:3", "worker:4", "chief:0", "w" };

static uint64_t drawn;

static int draw(int n)
{
    drawn ^= drawn << 13;
    drawn ^= drawn >> 7;
    drawn ^= drawn << 17;
    return (int)(drawn % (uint64_t)n);
}

static int64_t turns(const model *m)
{
    int64_t n = 0;

    for (int w = 0; w < WHO; w++) n += m->is[w] == TURN;
    return n;
}

static bool at_end(const model *m, int64_t limit)
{
    return m->finished || (limit > 0 && m->step >= limit);
}

static bool may_begin(const model *m, int64_t limit, int64_t staleness)
{
    if (m->holds > 0 || (limit > 0 && m->step + turns(m) >= limit)) return false;
    for (int w = 0; w < WHO; w++) {
        if (staleness > 0 && m->is[w] == TURN && m->step - m->begun[w] >= staleness) return false;
    }
    return true;
}

static void drop(model *m, int w)
{
    if (m->is[w] == WAITS) {
        m->dropped[m->waiter[w]] = true;
        m->n_dropped++;
    }
    m->is[w] = NOTHING;
}

/* All answers that the gate gives now are right, come in the order of asking, and none is missing. */
static void check_answers(est_gate *gate, model *m)
{
    void           *got;
    est_gate_answer said;

    while (est_gate_next(gate, &got, &said)) {
        int waiter = (int)((char *)got - waiters), w = 0;

        if (said == EST_GATE_DROPPED) {
            assert_true(m->dropped[waiter]);
            m->dropped[waiter] = false;
            m->n_dropped--;
            continue;
        }
        while (w < WHO && !(m->is[w] == WAITS && m->waiter[w] == waiter)) w++;
        assert_true(w < WHO);
        assert_int_equal(said == EST_GATE_FINISHED, at_end(m, m->limit[w]));
        for (int other = 0; other < WHO; other++) {
            if (m->is[other] != WAITS || m->waiter[other] >= waiter) continue;
            assert_false(at_end(m, m->limit[other]) || may_begin(m, m->limit[other], m->staleness[other]));
        }
        if (said == EST_GATE_BEGIN) assert_true(may_begin(m, m->limit[w], m->staleness[w]));
        m->is[w]    = said == EST_GATE_BEGIN ? TURN : NOTHING;
        m->begun[w] = m->step;
    }
    assert_int_equal(m->n_dropped, 0);
    assert_int_equal(est_gate_is_idle(gate), turns(m) == 0);
    assert_int_equal(est_gate_is_held(gate), m->holds > 0);
    for (int w = 0; w < WHO; w++) {
        assert_int_equal(est_gate_has_turn(gate, names[w]), m->is[w] == TURN);
        if (m->is[w] != WAITS) continue;
        assert_false(at_end(m, m->limit[w]) || may_begin(m, m->limit[w], m->staleness[w]));
    }
}

static void ask_randomly(est_gate *gate, model *m, int w)
{
    drop(m, w);
    m->is[w]        = WAITS;
    m->waiter[w]    = ++m->next;
    m->limit[w]     = draw(3) == 0 ? 0 : m->step + draw(5);
    m->staleness[w] = draw(3);
    ask(gate, names[w], m->limit[w], m->staleness[w], m->waiter[w]);
}

static void try_randomly(est_gate *gate, model *m, int w)
{
    int64_t limit = draw(2) == 0 ? 0 : m->step + draw(4), staleness = draw(3);
    bool    want;

    if (m->is[w] != NOTHING) return;
    check_answers(gate, m);
    want = staleness == 0 && !at_end(m, limit) && may_begin(m, limit, 0);
    for (int other = 0; other < WHO; other++) want = want && m->is[other] != WAITS;
    assert_int_equal(est_gate_try(gate, names[w], limit, staleness), want);
    if (!want) return;
    m->is[w]    = TURN;
    m->begun[w] = m->step;
}

static void act(est_gate *gate, model *m)
{
    int w = draw(WHO);

    switch (draw(9)) {
    case 0:
    case 1:
    case 2: ask_randomly(gate, m, w); break;
    case 3: try_randomly(gate, m, w); break;
    case 4:
        est_gate_count(gate, names[w], ++m->step);
        if (m->is[w] == TURN) m->is[w] = NOTHING;
        break;
    case 5:
        if (m->is[w] == WAITS) drop(m, w);
        est_gate_stop_waiting(gate, names[w]);
        break;
    case 6:
        drop(m, w);
        est_gate_leave(gate, names[w]);
        break;
    case 7:
        if (draw(3) != 0) break;
        est_gate_hold(gate);
        m->holds++;
        break;
    default:
        est_gate_release(gate);
        if (m->holds > 0) m->holds--;
        break;
    }
}

TEST(random)
{
    static model m;

    for (uint64_t seed = 1; seed <= 40; seed++) {
        est_gate *gate = make();

        m     = (model){ 0 };
        drawn = seed * UINT64_C(0x9E3779B97F4A7C15);
        for (int i = 0; i < 2000; i++) {
            act(gate, &m);
            if (draw(4) != 0) check_answers(gate, &m); /* several changes at once, now and then */
        }
        est_gate_finish(gate, true);
        m.finished = true;
        check_answers(gate, &m);
        for (int w = 0; w < WHO; w++) assert_int_not_equal(m.is[w], WAITS);
        est_gate_free(gate);
    }
}
