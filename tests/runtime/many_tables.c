/* SPDX-License-Identifier: Apache-2.0
 *
 * Models over many tables on a GPU, where lookups, sums of rows and updates of all tables are one launch each
 * (cuda/batch.cuh), against the CPU. Runs on the GPU kernels compiled for the CPU (cuda_many_tables in ctest), or on a
 * GPU; where there is no plug-in it compares the CPU with itself. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/devices.h"
#include "estoc/estoc.h"
#include "support/nn_test.h"
#include "support/test.h"

#define TABLES 5
#define BATCH  40

typedef struct tables_model {
    est_graph   *graph;
    est_session *session;
    est_node     feeds[TABLES + 1];
    est_step    *step;
} tables_model;

static int64_t rows_of(int table)
{
    return 7 + 3 * table; /* fewer than ids: many are equal */
}

/* Deep tables with Adagrad and linear ones of the same ids with FTRL, as wide & deep models have them. */
static tables_model make_model(const char *device)
{
    tables_model m = { 0 };
    est_node     deep[TABLES + 1], wide[TABLES], vars[64], loss, train;
    int          n_wide, n_vars;
    char         name[16];

    assert_ok(est_graph_create(3, &m.graph));
    for (int t = 0; t < TABLES; t++) {
        (void)snprintf(name, sizeof name, "ids_%d", t);
        m.feeds[t] = est_placeholder(m.graph, name, EST_I64, EST_SHAPE(-1));
        wide[t]    = est_embedding(m.feeds[t], rows_of(t), 1, EST_EMBEDDING(.initializer = est_init_zeros()));
    }
    m.feeds[TABLES] = est_placeholder(m.graph, "numbers", EST_F32, EST_SHAPE(-1, 3));
    n_wide          = est_trainable_variables(m.graph).n;
    for (int t = 0; t < TABLES; t++) deep[t] = est_embedding(m.feeds[t], rows_of(t), t % 2 == 0 ? 4 : 3, NULL);
    deep[TABLES] = m.feeds[TABLES];
    loss         = est_dense(est_concat((est_nodes){ deep, TABLES + 1 }, 1), 6, EST_DENSE(.activation = est_relu));
    loss         = est_add(est_dense(loss, 1, NULL), est_add_n((est_nodes){ wide, TABLES }));
    loss         = est_mean(est_sigmoid_xent(loss, est_ones_like(loss)));
    n_vars       = est_trainable_variables(m.graph).n;
    memcpy(vars, est_trainable_variables(m.graph).data, sizeof *vars * (size_t)n_vars);
    train = est_group(
        m.graph,
        EST_NODES(est_minimize(est_ftrl(0.1, NULL), loss, EST_MINIMIZE(.variables = { vars, n_wide })),
                  est_minimize(est_adagrad(0.1, NULL), loss,
                               EST_MINIMIZE(.variables = { vars + n_wide, n_vars - n_wide }, .no_global_step = true))));
    assert_ok(est_graph_status(m.graph));
    assert_ok(est_session_create(m.graph, EST_SESSION(.devices = EST_STRINGS(device)), &m.session));
    assert_ok(est_session_init(m.session));
    assert_ok(
        est_session_prepare(m.session, (est_nodes){ m.feeds, TABLES + 1 }, EST_NODES(loss), EST_NODES(train), &m.step));
    return m;
}

static void free_model(tables_model *m)
{
    est_session_free(m->session);
    est_graph_free(m->graph);
}

/* bad: the last table has an id beyond its rows. */
static est_status run_batch(const tables_model *m, int64_t batch, int seed, bool bad)
{
    est_tensor *feeds[TABLES + 1];
    est_status  status;

    for (int t = 0; t < TABLES; t++) {
        int64_t *ids;

        assert_ok(est_tensor_create(EST_I64, EST_SHAPE(batch), &feeds[t]));
        ids = est_tensor_mutable_data(feeds[t]);
        for (int64_t i = 0; i < batch; i++) ids[i] = (i * i + seed * (t + 1)) % rows_of(t);
        if (bad && t == TABLES - 1) ids[2] = rows_of(t) + 5;
    }
    assert_ok(est_tensor_create(EST_F32, EST_SHAPE(batch, 3), &feeds[TABLES]));
    for (int64_t i = 0; i < 3 * batch; i++) {
        ((float *)est_tensor_mutable_data(feeds[TABLES]))[i] = (float)((i * 5 + seed) % 13) / 13 - 0.5f;
    }
    status = est_step_run(m->step, (const est_tensor *const *)feeds);
    for (int t = 0; t <= TABLES; t++) est_tensor_free(feeds[t]);
    return status;
}

/* The GPU of the plug-in that a test names; without a plug-in the CPU, which must agree with itself. */
static const char *device(void)
{
    bool found = est_device_find("GPU", 0) != NULL;

    if (!found && getenv("ESTOC_CUDA_PLUGIN") != NULL) fail_msg("no GPU: %s", est_device_missing());
    return found ? "/gpu:0" : "/cpu:0";
}

TEST(trains_as_the_cpu_does)
{
    tables_model here = make_model("/cpu:0"), there = make_model(device()), again = make_model(device());

    for (int s = 0; s < 6; s++) {
        int64_t batch = s % 2 == 0 ? BATCH : 9;

        assert_ok(run_batch(&here, batch, s, false));
        assert_ok(run_batch(&there, batch, s, false));
        assert_ok(run_batch(&again, batch, s, false));
        assert_true(fabs(est_step_scalar(here.step, 0) - est_step_scalar(there.step, 0)) < 1e-5);
    }
    assert_true(nn_difference(here.session, there.session) < 2e-5); /* sums in another order */
    assert_true(nn_difference(there.session, again.session) == 0);
    free_model(&here);
    free_model(&there);
    free_model(&again);
}

/* An id that does not exist fails with the table's name, and changes no variable of any table. */
TEST(a_bad_id_changes_nothing)
{
    tables_model there = make_model(device()), untouched = make_model(device());

    assert_ok(run_batch(&there, BATCH, 1, false));
    assert_ok(run_batch(&untouched, BATCH, 1, false));
    assert_int_equal(run_batch(&there, BATCH, 2, true), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "embedding"));
    assert_true(nn_difference(there.session, untouched.session) == 0);
    assert_ok(run_batch(&there, BATCH, 3, false));
    assert_ok(run_batch(&untouched, BATCH, 3, false));
    assert_true(nn_difference(there.session, untouched.session) == 0);
    free_model(&there);
    free_model(&untouched);
}

int main(void)
{
    return est_test_run(NULL, NULL);
}
