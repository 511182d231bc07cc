/* SPDX-License-Identifier: Apache-2.0
 *
 * A training loop of one's own and an evaluator beside it, each a process: the trainer saves checkpoints, the evaluator
 * restores each new one, evaluates it, and ends with the training.
 *
 *   sidecar_evaluator [directory]            both: the evaluator is a child of the trainer; without a directory in a
 *                                            temporary one
 *   sidecar_evaluator --train directory      only the trainer, and in another terminal, or on another machine that
 *   sidecar_evaluator --evaluate directory   sees the directory, only the evaluator
 *
 * Above each part, the lines of the TensorFlow 2 program that it stands for. */
#include <estoc/estoc.h>
#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROWS             256 /* of a batch */
#define EPOCHS           5
#define STEPS            100 /* of an epoch */
#define START_DELAY_SECS 3   /* the evaluator waits so long for a trainer where an earlier training has ended */

typedef struct model {
    est_graph   *graph;
    est_session *session;
    est_node     x, y, loss, train;
    est_metric   accuracy;
} model;

/* Which points lie in a circle; the same network for both. */
static est_status build(bool training, model *m)
{
    est_node logits;

    EST_TRY(est_graph_create(1, &m->graph));
    m->x        = est_placeholder(m->graph, "x", EST_F32, EST_SHAPE(-1, 2));
    m->y        = est_placeholder(m->graph, "y", EST_F32, EST_SHAPE(-1, 1));
    logits      = est_dense(est_dense(m->x, 32, EST_DENSE(.activation = est_relu)), 1, NULL);
    m->loss     = est_loss_sigmoid_xent(m->y, logits, NULL);
    m->accuracy = est_metric_accuracy_at_threshold(m->y, est_sigmoid(logits), 0.5, NULL);
    (void)est_global_step(m->graph); /* a variable, so that checkpoints have it */
    if (training) m->train = est_minimize(est_adam(0.02, NULL), m->loss, NULL);
    EST_TRY(est_graph_status(m->graph));
    return est_session_create(m->graph, NULL, &m->session);
}

static void clear(model *m)
{
    est_session_free(m->session);
    est_graph_free(m->graph);
}

/* A batch of random points; the seed says which. */
static est_status make_batch(uint64_t *seed, est_tensor **x, est_tensor **y)
{
    float xs[ROWS][2], ys[ROWS];

    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < 2; k++) {
            *seed    = *seed * 6364136223846793005u + 1442695040888963407u;
            xs[i][k] = (float)(*seed >> 40) / 8388608.0f - 1; /* in [-1, 1) */
        }
        ys[i] = xs[i][0] * xs[i][0] + xs[i][1] * xs[i][1] < 0.6f ? 1 : 0;
    }
    EST_TRY(est_tensor_f32(EST_SHAPE(ROWS, 2), xs[0], x));
    return est_tensor_f32(EST_SHAPE(ROWS, 1), ys, y);
}

/* Runs the target with the next batch. */
static est_status run_batch(const model *m, uint64_t *seed, est_node target)
{
    est_tensor *x = NULL, *y = NULL;
    est_status  status = make_batch(seed, &x, &y);

    if (status == EST_OK) {
        status = est_session_run(
            m->session, EST_FEEDS({ m->x, x }, { m->y, y }), EST_NO_NODES, EST_NODES(target), NULL);
    }
    est_tensor_free(x);
    est_tensor_free(y);
    return status;
}

/* --- the trainer -------------------------------------------------------------------------------------------------- */

/* checkpoint_manager = tf.train.CheckpointManager(tf.train.Checkpoint(model=model, optimizer=optimizer), directory, 5)
 * for epoch in range(EPOCHS):
 *     for _ in range(STEPS):
 *         train_step(next(iterator))
 *     checkpoint_manager.save() */
static est_status train_epochs(const model *m, est_saver *saver)
{
    uint64_t seed = 1;

    EST_TRY(est_session_init(m->session));
    EST_TRY(est_saver_mark_begin(saver)); /* evaluators wait for checkpoints, whatever an earlier training left */
    for (int epoch = 1; epoch <= EPOCHS; epoch++) {
        for (int i = 0; i < STEPS; i++) EST_TRY(run_batch(m, &seed, m->train));
        EST_TRY(est_saver_save(saver, m->session, (int64_t)epoch * STEPS, NULL, NULL));
    }
    return est_saver_mark_end(saver, EPOCHS * STEPS); /* evaluators end after the last checkpoint */
}

static est_status train(const char *dir)
{
    model      m      = { 0 };
    est_saver *saver  = NULL;
    est_status status = build(true, &m);

    if (status == EST_OK) status = est_saver_create(dir, NULL, &saver);
    if (status == EST_OK) status = train_epochs(&m, saver);
    est_saver_free(saver);
    clear(&m);
    return status;
}

/* --- the evaluator ------------------------------------------------------------------------------------------------ */

/* The trainer does not wait: of the checkpoints that it saved during an evaluation only the latest is evaluated. *last:
 * the step of the one before. */
static void print_left_out(const char *path, int64_t *last)
{
    const char *dash = strrchr(path, '-');
    int64_t     step = dash != NULL ? strtoll(dash + 1, NULL, 10) : 0, n = (step - *last) / STEPS - 1;

    if (n > 0) printf("left out, since there was a newer one: %" PRId64 " checkpoint%s\n", n, n == 1 ? "" : "s");
    *last = step;
}

/* model.evaluate(data): the metric starts at 0, adds every batch, and is read. */
static est_status evaluate_one(const model *m, const char *path)
{
    uint64_t    seed  = 1000;
    est_tensor *value = NULL;

    EST_TRY(est_saver_restore(NULL, m->session, EST_RESTORE(.path = path), NULL));
    EST_TRY(est_session_run(m->session, EST_NO_FEEDS, EST_NO_NODES, EST_NODES(m->accuracy.reset), NULL));
    for (int i = 0; i < 10; i++) EST_TRY(run_batch(m, &seed, m->accuracy.update));
    EST_TRY(est_session_run(m->session, EST_NO_FEEDS, EST_NODES(m->accuracy.value), EST_NO_NODES, &value));
    printf("%s  accuracy %.4f\n", strrchr(path, '/') + 1, *(const float *)est_tensor_data(value));
    est_tensor_free(value);
    return EST_OK;
}

/* tf.keras.utils.SidecarEvaluator(model, data, checkpoint_dir=directory, max_evaluations=...).start()
 * or: for path in tf.train.checkpoints_iterator(directory, timeout=600): ... */
static est_status evaluate(const char *dir)
{
    model                 m     = { 0 };
    est_checkpoint_watch *watch = NULL;
    char                  path[EST_CHECKPOINT_PATH_MAX];
    int64_t               last   = 0;
    est_status            status = build(false, &m);

    if (status == EST_OK) {
        status = est_checkpoint_watch_create(
            dir, EST_CHECKPOINT_WATCH(.timeout_secs = 600, .start_delay_secs = START_DELAY_SECS), &watch);
    }
    while (status == EST_OK) {
        status = est_checkpoint_watch_next(watch, path);
        if (status != EST_OK) break;
        print_left_out(path, &last);
        status = evaluate_one(&m, path);
        if (status == EST_NOT_FOUND) status = EST_OK; /* the trainer removed it meanwhile: there is a newer one */
    }
    if (status == EST_OUT_OF_RANGE) {
        printf("the training has ended\n");
        status = EST_OK;
    }
    est_checkpoint_watch_free(watch);
    clear(&m);
    return status;
}

/* --- roles -------------------------------------------------------------------------------------------------------- */

static int run_role(est_status (*role)(const char *dir), const char *dir)
{
    est_status status;

    setvbuf(stdout, NULL, _IOLBF, 0); /* show each line at once, also in a pipe */
    status = role(dir);
    if (status != EST_OK) fprintf(stderr, "sidecar_evaluator: %s: %s\n", est_status_name(status), est_error_message());
    fflush(stdout);
    return est_exit_code(status);
}

/* The evaluator in a child process, the trainer here. */
static int run_both(const char *dir)
{
    pid_t child = fork();
    int   code, how;

    if (child < 0) {
        perror("fork");
        return 1;
    }
    if (child == 0) _exit(run_role(evaluate, dir));
    code = run_role(train, dir);
    if (code != 0) kill(child, SIGTERM); /* no further checkpoint comes */
    if (waitpid(child, &how, 0) != child) return 1;
    if (code != 0) return code;
    return WIFEXITED(how) ? WEXITSTATUS(how) : 1;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

/* The same in a directory that is removed afterwards. */
static int run_both_in_temporary(void)
{
    const char *top = getenv("TMPDIR");
    char        dir[4096];
    int         code;

    snprintf(dir, sizeof dir, "%s/sidecar_evaluator-XXXXXX", top != NULL ? top : "/tmp");
    if (mkdtemp(dir) == NULL) {
        perror(dir);
        return 1;
    }
    code = run_both(dir);
    if (nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS) != 0) perror(dir);
    return code;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--train") == 0) return run_role(train, argv[2]);
    if (argc == 3 && strcmp(argv[1], "--evaluate") == 0) return run_role(evaluate, argv[2]);
    if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
        fprintf(stderr, "usage: sidecar_evaluator [directory]\n"
                        "       sidecar_evaluator --train directory\n"
                        "       sidecar_evaluator --evaluate directory\n");
        return 2;
    }
    return argc > 1 ? run_both(argv[1]) : run_both_in_temporary();
}
