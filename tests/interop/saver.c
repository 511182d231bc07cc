/* SPDX-License-Identifier: Apache-2.0
 *
 * Training that moves between Estoc and TensorFlow's v1 Saver: we train and save, TensorFlow restores every variable
 * and goes on, we restore what it saved; the losses are those of having stayed. For each optimizer, as each has
 * variables of its own. A step that was saved again is restored by TensorFlow too, and so is what several tasks saved
 * together. */
#include <stdio.h>

#include "estoc/estoc.h"
#include "support/interop.h"
#include "support/memory_remote.h"
#include "support/nn_test.h"

#define STEPS 3 /* on each side */

typedef struct trained {
    nn_test  t;
    est_node loss, train;
} trained;

/* A regression by two layers, saver.py has the same; over tasks that have the variables (NULL: none). */
static trained build_at(est_optimizer optimizer, est_remote *remote)
{
    trained  m      = { .t = nn_begin(5) };
    est_node x      = nn_const(m.t.graph, EST_SHAPE(4, 2), NN_VALUES(0, 0.5, -1, 1, 1, 0, 1, 2));
    est_node y      = nn_const(m.t.graph, EST_SHAPE(4, 1), NN_VALUES(0, 1, 1, -2));
    est_node hidden = est_dense(x, 3, EST_DENSE(.name = "hidden", .activation = est_tanh));

    m.loss      = est_mean(est_square(est_sub(est_dense(hidden, 1, EST_DENSE(.name = "out")), y)));
    m.train     = est_minimize(optimizer, m.loss, NULL);
    m.t.session = nn_session(m.t.graph, remote);
    return m;
}

static trained build(est_optimizer optimizer)
{
    return build_at(optimizer, NULL);
}

static void train(trained *m)
{
    for (int i = 0; i < STEPS; i++) nn_run(&m->t, m->train);
}

/* Trains, saves into `name`, and says the loss there; returns the loss after as many steps again. */
static double train_ours(const char *name, est_optimizer optimizer)
{
    trained    m = build(optimizer);
    est_saver *saver;
    est_strbuf said = { 0 };
    char       text[64], file[64];
    double     loss;

    train(&m);
    interop_check(est_saver_create(interop_path(name), NULL, &saver));
    interop_check(est_saver_save(saver, m.t.session, STEPS, NULL, NULL));
    est_saver_free(saver);
    snprintf(text, sizeof text, "%.9g", nn_scalar(&m.t, m.loss));
    interop_blob(&said, text, strlen(text));
    snprintf(file, sizeof file, "%s.loss", name);
    interop_save(file, &said);
    train(&m);
    loss = nn_scalar(&m.t, m.loss);
    nn_end(&m.t);
    return loss;
}

/* The loss after restoring what the other side saved; every variable must have been there. */
static double restore_theirs(const char *name, est_optimizer optimizer)
{
    trained      m = build(optimizer);
    est_restored restored;
    char         file[64];
    double       loss;

    snprintf(file, sizeof file, "%s.theirs", name);
    interop_check(est_saver_restore(NULL, m.t.session, EST_RESTORE(.path = interop_path(file)), &restored));
    assert_int_equal(restored.n_restored, est_session_variables(m.t.session));
    loss = nn_scalar(&m.t, m.loss);
    nn_end(&m.t);
    return loss;
}

TEST(training)
{
    static const char *const names[]      = { "sgd", "momentum", "adagrad", "adam", "ftrl", "rms_prop", "adadelta" };
    const est_optimizer      optimizers[] = { est_sgd(0.1),           est_momentum(0.05, NULL), est_adagrad(0.1, NULL),
                                              est_adam(0.05, NULL),   est_ftrl(0.1, NULL),      est_rms_prop(0.01, NULL),
                                              est_adadelta(0.5, NULL) };
    double                   losses[7];

    for (int i = 0; i < 7; i++) losses[i] = train_ours(names[i], optimizers[i]);
    interop_ask("train");
    for (int i = 0; i < 7; i++) assert_near(restore_theirs(names[i], optimizers[i]), losses[i], 1e-5);
}

/* A step that was saved again has its only data file under the name of the first of two; and a third time under the
 * first name. TensorFlow restores both. */
TEST(saved_again)
{
    trained    m    = build(est_sgd(0.1));
    est_strbuf said = { 0 };
    est_saver *saver;
    char       text[64];

    for (int i = 1; i <= 3; i++) {
        char name[32];

        train(&m);
        snprintf(name, sizeof name, "again%d", i);
        interop_check(est_saver_create(interop_path(name), NULL, &saver));
        for (int j = 0; j < i; j++) interop_check(est_saver_save(saver, m.t.session, STEPS, NULL, NULL));
        est_saver_free(saver);
        snprintf(text, sizeof text, "%.9g", nn_scalar(&m.t, m.loss));
        interop_blob(&said, text, strlen(text));
    }
    interop_save("again.loss", &said);
    interop_ask("restore_again");
    nn_end(&m.t);
}

/* Three tasks have the variables; what they and we save is one checkpoint to TensorFlow, also when a step is saved
 * again. */
TEST(tasks)
{
    est_remote *remote = memory_remote_create(3);
    trained     m      = build_at(est_sgd(0.1), remote);
    est_strbuf  said   = { 0 };
    est_saver  *saver;
    est_tensor *extra;
    char        text[64];

    interop_check(est_tensor_i64(EST_SHAPE_SCALAR, &(int64_t){ 1 }, &extra));
    for (int i = 1; i <= 2; i++) {
        char name[32];

        train(&m);
        snprintf(name, sizeof name, "tasks%d", i);
        interop_check(est_saver_create(interop_path(name), NULL, &saver));
        for (int j = 0; j < i; j++) {
            interop_check(
                est_saver_save(saver, m.t.session, STEPS, EST_SAVE(.extras = EST_EXTRAS({ "extra", extra })), NULL));
        }
        est_saver_free(saver);
        snprintf(text, sizeof text, "%.9g", nn_scalar(&m.t, m.loss));
        interop_blob(&said, text, strlen(text));
    }
    interop_save("tasks.loss", &said);
    interop_ask("restore_tasks");
    est_tensor_free(extra);
    nn_end(&m.t);
    memory_remote_free(remote);
}

int main(void)
{
    return INTEROP_MAIN("saver");
}
