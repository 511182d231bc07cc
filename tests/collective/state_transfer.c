/* SPDX-License-Identifier: Apache-2.0
 *
 * Variables that one rank has and all get: dense ones, large and small, slots, rows of dynamic embeddings and how many
 * runs there were; models that differ; and every allocation failing once on the way. */
#include <string.h>

#include "collective/membership_internal.h"
#include "estoc/feature_column.h"
#include "kernels/copy_on_write.h"
#include "kernels/key_rows.h"
#include "runtime/session.h"
#include "support/far_device.h"
#include "support/fault_loop.h"
#include "support/membership_test.h"
#include "support/nn_test.h"

#define RANKS 3
#define EACH  3
#define BATCH 8
#define ALONE 65537 /* rows of a variable that is just large enough to be sent alone */

/* A model whose variables depend on the seed and on what it was trained with. */
typedef struct model {
    est_columns *columns;
    est_graph   *graph;
    est_session *session;
    est_node     keys, loss, train;
} model;

typedef struct recipe {
    int64_t     rows;  /* of the large variable */
    const char *extra; /* one more variable; NULL: none */
    uint64_t    seed;  /* of the large variable; 0: the graph's */
    const char *terms; /* of the graph; NULL: none but those of its optimizer */
} recipe;

static est_feature find_key(void *user, const char *name)
{
    (void)name;
    return (est_feature){ .values = ((model *)user)->keys };
}

static model open_model(uint64_t seed, recipe r)
{
    model    m = { .columns = est_columns_create() };
    est_node layer, dense, bias;
    char     name[32];

    assert_non_null(m.columns);
    assert_ok(est_graph_create(seed, &m.graph));
    m.keys = est_placeholder(m.graph, "keys", EST_I64, EST_SHAPE(-1, EACH));
    layer  = est_input_layer((est_features){ .graph = m.graph, .find = find_key, .user = &m },
                             EST_COLUMN_LIST(est_dynamic_embedding_column(
                                 m.columns, "key", EST_I64, 4, EST_DYNAMIC(.max_rows = 100, .admit_after = 2))),
                             NULL);
    dense  = est_read_variable(
         est_weight(m.graph, "dense", EST_SHAPE(r.rows, 4), EST_WEIGHT(.initializer = est_init_glorot_uniform(r.seed))));
    bias = est_read_variable(est_weight(m.graph, "bias", EST_SHAPE_SCALAR, NULL));
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "small_%d", i);
        bias = est_add(
            bias, est_reduce_sum(est_read_variable(est_weight(m.graph, name, EST_SHAPE(i), NULL)), EST_I64S(0), false));
    }
    if (r.terms != NULL) est_graph_add_terms(m.graph, r.terms);
    if (r.extra != NULL) bias = est_add(bias, est_read_variable(est_weight(m.graph, r.extra, EST_SHAPE_SCALAR, NULL)));
    m.loss = est_mean(
        est_square(est_add(est_reduce_sum(layer, EST_I64S(1), false), est_add(bias, est_mean(est_square(dense))))));
    m.train = est_minimize(est_adagrad(0.1, NULL), m.loss, NULL);
    assert_ok(est_graph_status(m.graph));
    m.session = nn_session(m.graph, NULL);
    return m;
}

static void close_model(model *m)
{
    est_session_free(m->session);
    est_graph_free(m->graph);
    est_columns_free(m->columns);
}

/* Trains on keys from `first` on; the loss. */
static est_status train(model *m, int64_t first, float *out)
{
    int64_t     keys[BATCH * EACH];
    est_tensor *batch = NULL, *loss = NULL;
    est_status  status;

    for (int i = 0; i < BATCH * EACH; i++) keys[i] = first + i / 2;
    EST_TRY(est_tensor_i64(EST_SHAPE(BATCH, EACH), keys, &batch));
    status = est_session_run(m->session, EST_FEEDS({ m->keys, batch }), EST_NODES(m->loss), EST_NODES(m->train), &loss);
    if (status == EST_OK) *out = *(const float *)est_tensor_data(loss);
    est_tensor_free(loss);
    est_tensor_free(batch);
    return status;
}

/* Every variable has the same bits. */
static void assert_same(const model *a, const model *b)
{
    est_var **vars;
    int       n;

    assert_ok(est_saved_variables(a->session, &vars, &n));
    assert_true(n > 40); /* with slots, keys, ages */
    for (int i = 0; i < n; i++) {
        est_tensor *x = NULL, *y = NULL;

        assert_ok(est_session_read(a->session, vars[i]->name, &x));
        assert_ok(est_session_read(b->session, vars[i]->name, &y));
        if (!est_shape_equal(est_tensor_shape(x), est_tensor_shape(y)) ||
            (est_tensor_count(x) > 0 && memcmp(est_tensor_data(x), est_tensor_data(y),
                                               (size_t)est_tensor_count(x) * est_dtype_size(est_tensor_dtype(x))) != 0))
            fail_msg("variable '%s' differs", vars[i]->name);
        est_tensor_free(x);
        est_tensor_free(y);
    }
    est_free(vars);
    assert_int_equal(est_session_run_count(a->session), est_session_run_count(b->session));
}

/* --- sharing ------------------------------------------------------------------------------------------------------ */

typedef struct sharing {
    model      models[CREW_MAX];
    float      losses[CREW_MAX];
    int64_t    steps[CREW_MAX];
    est_status status;
    char       text[200]; /* of the failure that is expected */
} sharing;

static void meet_and_share(crew_member *m)
{
    sharing *s = m->arg;

    crew_check(m, est_membership_join(m->membership, s->steps[m->number], "", &m->view));
    if (m->error[0] == '\0')
        crew_check(m, est_membership_transfer(m->membership, s->models[m->number].session, m->view.source));
    if (m->error[0] == '\0') crew_check(m, train(&s->models[m->number], 500, &s->losses[m->number]));
}

TEST(share)
{
    static const int64_t rows[] = { 10, 100000, 262144 }; /* small; two packs' worth; and more than one block */

    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        for (int source = 0; source < RANKS; source++) {
            crew    c;
            sharing s = { 0 };
            float   loss;

            crew_make(&c, RANKS, NULL);
            crew_start_all(&c);
            for (int i = 0; i < RANKS; i++) {
                s.models[i] = open_model(100, (recipe){ .rows = rows[k] });
                s.steps[i]  = i == source ? 9 : 4 - i;
                for (int j = 0; j < 3 + i; j++) assert_ok(train(&s.models[i], 1000 * i + 5 * j, &loss));
            }
            crew_run(&c, CREW_ALL, meet_and_share, &s);
            for (int i = 0; i < RANKS; i++) {
                assert_int_equal(c.members[i].view.source, source);
                assert_memory_equal(&s.losses[i], &s.losses[source], sizeof(float)); /* training went on alike */
                if (i != source) assert_same(&s.models[source], &s.models[i]);
            }
            for (int i = 0; i < RANKS; i++) close_model(&s.models[i]);
            crew_free(&c);
        }
    }
}

/* First values that nobody has looked at yet (kernels/lazy_rows.h): the source has to draw its own, and the others must
 * not draw theirs over what they got. */
TEST(untouched)
{
    crew    c;
    sharing s = { 0 };

    crew_make(&c, RANKS, NULL);
    crew_start_all(&c);
    for (int i = 0; i < RANKS; i++) {
        s.models[i] = open_model(100, (recipe){ .rows = 100000, .seed = 1 + (uint64_t)i });
        s.steps[i]  = i == 1 ? 9 : -1;
    }
    crew_run(&c, CREW_ALL, meet_and_share, &s);
    for (int i = 0; i < RANKS; i++) {
        assert_memory_equal(&s.losses[i], &s.losses[1], sizeof(float));
        assert_same(&s.models[1], &s.models[i]);
    }
    for (int i = 0; i < RANKS; i++) close_model(&s.models[i]);
    crew_free(&c);
}

/* --- what cannot be shared ---------------------------------------------------------------------------------------- */

static void meet_and_fail(crew_member *m)
{
    sharing *s = m->arg;

    crew_check(m, est_membership_join(m->membership, s->steps[m->number], "", &m->view));
    if (m->error[0] != '\0') return;
    crew_expect(m, est_membership_transfer(m->membership, s->models[m->number].session, m->view.source), s->status,
                s->text);
    crew_check(m, est_group_status(m->view.group)); /* all found the same */
}

/* The recipes of ranks 0 and 1; rank 1 is the source. */
static void share_and_fail(recipe zero, recipe one, const char *text)
{
    crew    c;
    sharing s = { .steps = { -1, 5 }, .status = EST_FAILED_PRECONDITION };

    snprintf(s.text, sizeof s.text, "%s", text);
    crew_make(&c, 2, NULL);
    crew_start_all(&c);
    s.models[0] = open_model(1, zero);
    s.models[1] = open_model(2, one);
    crew_run(&c, CREW_ALL, meet_and_fail, &s);
    close_model(&s.models[0]);
    close_model(&s.models[1]);
    crew_free(&c);
}

TEST(different)
{
    share_and_fail((recipe){ .rows = 10 }, (recipe){ .rows = 11 },
                   "variable 'dense' is float32 [11,4] at worker:1 and float32 [10,4] at worker:0");
    share_and_fail((recipe){ .rows = 10 }, (recipe){ .rows = 10, .extra = "new" },
                   "worker:1 has a variable 'new', and worker:0 has none");
    share_and_fail((recipe){ .rows = 10, .extra = "a" }, (recipe){ .rows = 10 },
                   "worker:0 has a variable 'a', and worker:1 has none");
    share_and_fail((recipe){ .rows = 10, .terms = "learning_rate=0.5 (SGD)\n" },
                   (recipe){ .rows = 10, .terms = "learning_rate=0.1 (SGD)\n" },
                   "learning_rate is 0.1 (SGD) at worker:1 and 0.5 (SGD) at worker:0: all workers need the same");
}

TEST(no_value)
{
    crew      c;
    sharing   s = { .steps = { 5, 4 }, .status = EST_FAILED_PRECONDITION };
    est_var **vars;
    int       n;

    snprintf(s.text, sizeof s.text, "variable 'bias' of worker:0 has no value to transfer");
    crew_make(&c, 2, NULL);
    crew_start_all(&c);
    for (int i = 0; i < 2; i++) s.models[i] = open_model(1, (recipe){ .rows = 3 });
    assert_ok(est_saved_variables(s.models[0].session, &vars, &n));
    for (int i = 0; i < n; i++) vars[i]->initialized = strcmp(vars[i]->name, "bias") != 0;
    est_free(vars);
    crew_run(&c, CREW_ALL, meet_and_fail, &s);
    for (int i = 0; i < 2; i++) close_model(&s.models[i]);
    crew_free(&c);
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

typedef struct breaking {
    sharing    s;
    int64_t    n; /* the allocation that fails */
    est_status status[RANKS];
} breaking;

static void only_meet(crew_member *m)
{
    breaking *b = m->arg;

    crew_check(m, est_membership_join(m->membership, b->s.steps[m->number], "", &m->view));
}

static void only_share(crew_member *m)
{
    breaking *b = m->arg;

    b->status[m->number] = est_membership_transfer(m->membership, b->s.models[m->number].session, m->view.source);
}

static bool has_value(const model *m, const char *name)
{
    est_store *store;

    assert_ok(est_session_store(m->session, &store));
    return est_store_find(store, name)->initialized;
}

/* Every allocation fails once while rank 0 shares, on one rank or another, which ends it for all. Rank 1 is at the same
 * step, and keeps its variables whatever happens, even if rank 0 is never seen again. Rank 2 is behind and keeps its
 * own, or had no memory for both: then it has none, whatever step it says. All have the same after the next share. */
TEST(no_memory)
{
    crew     c;
    breaking b      = { .n = 1, .s.steps = { 5, 5 } };
    int      failed = 0;

    crew_make(&c, RANKS, NULL);
    crew_start_all(&c);
    for (int i = 0; i < RANKS; i++) b.s.models[i] = open_model(10 + (uint64_t)(i / 2), (recipe){ .rows = ALONE });
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        bool  is_partial = est_membership_partial(c.members[2].membership);
        float before, loss;

        b.s.steps[2] = is_partial ? 9 : 3;
        crew_run(&c, CREW_ALL, only_meet, &b);
        assert_int_equal(c.members[0].view.source, 0);
        assert_int_equal(c.members[1].view.step, 5);
        crew_run(&c, CREW_ALL, only_share, &b);
        for (int i = 0; i < RANKS; i++) {
            assert_int_equal(b.status[i], EST_OK);
            assert_false(est_membership_partial(c.members[i].membership));
            assert_same(&b.s.models[0], &b.s.models[i]);
        }

        for (int i = 0; i < 2; i++) assert_ok(train(&b.s.models[i], 10 * b.n, &before));
        close_model(&b.s.models[2]);
        b.s.models[2] = open_model(12, (recipe){ .rows = ALONE });
        assert_ok(train(&b.s.models[2], 7, &before)); /* few keys: there are more to come than it has room for */
        fault_arm(&f);
        b.n++;
        crew_run(&c, CREW_ALL, only_share, &b);
        if (!fault_end(&f)) assert_true(b.status[0] == EST_OK && b.status[1] == EST_OK && b.status[2] == EST_OK);
        failed += b.status[2] != EST_OK;
        assert_same(&b.s.models[0], &b.s.models[1]);
        assert_false(est_membership_partial(c.members[1].membership));
        if (est_membership_partial(c.members[2].membership)) {
            assert_false(has_value(&b.s.models[2], "dense"));
        } else {
            assert_ok(train(&b.s.models[2], 10 * b.n, &loss)); /* it has all that it needs for that */
        }
    }
    assert_true(b.n > 20);
    assert_true(failed > 10);
    for (int i = 0; i < RANKS; i++) close_model(&b.s.models[i]);
    crew_free(&c);
}

/* Rows came that are none, over those that were there: then there are no variables, whatever step this rank says, until
 * it gets all. */
TEST(partial)
{
    crew          c;
    breaking      b = { .s.steps = { 5, 9 } };
    est_store    *store;
    est_key_rows *set;
    float         loss;

    crew_make(&c, 2, NULL);
    crew_start_all(&c);
    for (int i = 0; i < 2; i++) {
        b.s.models[i] = open_model(10, (recipe){ .rows = 10 });
        for (int j = 0; j < 2; j++) assert_ok(train(&b.s.models[i], 100 * i, &loss));
    }
    assert_ok(est_session_store(b.s.models[0].session, &store));
    set = est_store_keys(store, 0);
    assert_true(set->n > 1);
    crew_run(&c, CREW_ALL, only_meet, &b);
    c.members[0].view.source = c.members[1].view.source = 0;
    set->keys[1]                                        = set->keys[0];
    crew_run(&c, CREW_ALL, only_share, &b);
    assert_int_equal(b.status[1], EST_DATA_LOSS);
    assert_true(est_membership_partial(c.members[1].membership));
    assert_false(has_value(&b.s.models[1], "dense"));
    assert_true(has_value(&b.s.models[0], "dense"));

    close_model(&b.s.models[0]);
    b.s.models[0] = open_model(10, (recipe){ .rows = 10 });
    crew_run(&c, CREW_ALL, only_meet, &b);
    assert_int_equal(c.members[1].view.source, 0);
    assert_int_equal(c.members[1].view.step, 5);
    crew_run(&c, CREW_ALL, only_share, &b);
    assert_int_equal(b.status[1], EST_OK);
    assert_false(est_membership_partial(c.members[1].membership));
    assert_same(&b.s.models[0], &b.s.models[1]);
    for (int i = 0; i < 2; i++) close_model(&b.s.models[i]);
    crew_free(&c);
}

/* A snapshot that a rank is saving has the values of before, not those that it gets meanwhile. */
TEST(snapshot)
{
    crew       c;
    breaking   b = { .s.steps = { 5, 3 } };
    est_store *store;
    est_var   *vars[3];
    char       want[3][4096], got[4096];
    size_t     bytes[3];
    est_cow   *cow;
    float      loss;

    EST_CPU_ONLY();
    crew_make(&c, 2, NULL);
    crew_start_all(&c);
    for (int i = 0; i < 2; i++) {
        b.s.models[i] = open_model(10 + (uint64_t)i, (recipe){ .rows = 10 });
        for (int j = 0; j < 2; j++) assert_ok(train(&b.s.models[i], 100 * i, &loss));
    }
    assert_ok(est_session_store(b.s.models[1].session, &store));
    vars[0] = est_store_find(store, "dense");
    vars[1] = est_store_find(store, "bias");
    vars[2] = est_store_keys(store, 0)->vars[0];
    for (int i = 0; i < 3; i++) {
        est_view stored = est_var_stored(vars[i]);

        bytes[i] = (size_t)stored.count * est_dtype_size(stored.dtype);
        assert_true(bytes[i] > 0 && bytes[i] <= sizeof got);
        memcpy(want[i], stored.data, bytes[i]);
    }
    assert_ok(est_cow_begin(vars, 3, &cow));
    crew_run(&c, CREW_ALL, only_meet, &b);
    crew_run(&c, CREW_ALL, only_share, &b);
    assert_same(&b.s.models[0], &b.s.models[1]);
    for (int i = 0; i < 3; i++) {
        assert_ok(est_cow_read(cow, i, 0, bytes[i], got));
        assert_memory_equal(got, want[i], bytes[i]);
        assert_memory_not_equal(vars[i]->value.data, want[i], bytes[i]);
    }
    est_cow_free(cow);
    for (int i = 0; i < 2; i++) close_model(&b.s.models[i]);
    crew_free(&c);
}
