/* SPDX-License-Identifier: Apache-2.0
 *
 * A run that is killed goes on as if nothing had happened: the same variables, the same random numbers, the next row of
 * the shuffled input.
 *
 *   resume [new-directory]
 *
 * Trains in a child process, kills it without warning (SIGKILL) some time after a checkpoint, starts the next child,
 * and so on; lets the last one finish; trains once more undisturbed; and compares all variables, bit for bit. */
#include <estoc/estoc.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STEPS 3000
#define KILLS 5
#define ROWS  512

/* y = a (1 - b), shuffled. */
static est_status input_fn(const est_input_context *ctx, void *user, est_dataset **out)
{
    static float xs[ROWS][2], ys[ROWS][1];
    est_tensor  *x = NULL, *y = NULL;
    est_status   status;

    (void)user;
    for (int i = 0; i < ROWS; i++) {
        xs[i][0] = (float)(i * 37 % ROWS) / ROWS;
        xs[i][1] = (float)(i * 101 % ROWS) / ROWS;
        ys[i][0] = xs[i][0] * (1 - xs[i][1]);
    }
    status = est_tensor_f32(EST_SHAPE(ROWS, 2), xs[0], &x);
    if (status == EST_OK) status = est_tensor_f32(EST_SHAPE(ROWS, 1), ys[0], &y);
    if (status == EST_OK) {
        est_dataset *d = est_dataset_slices(EST_NAMED_TENSORS({ "x", x }, { "y", y }));
        d              = est_dataset_shuffle(d, 100, ctx->seed);
        d              = est_dataset_repeat(d, EST_FOREVER);
        d              = est_dataset_batch(d, 48, NULL);
        d              = est_dataset_prefetch(d, 2);
        status         = est_dataset_finish(d, out);
    }
    est_tensor_free(x);
    est_tensor_free(y);
    return status;
}

/* Adam keeps moments and dropout draws random numbers: state that a resumed run must have too. */
static est_status model_fn(est_model *m, est_mode mode, const void *params)
{
    est_node x = est_model_feature(m, "x");

    (void)params;
    x = est_dense(x, 256, EST_DENSE(.activation = est_relu));
    x = est_dropout_layer(x, 0.3, mode == EST_TRAIN);
    x = est_dense(x, 256, EST_DENSE(.activation = est_relu));
    x = est_dense(x, 1, NULL);
    est_model_predict(m, "y", x);
    if (mode == EST_PREDICT) return est_model_status(m);

    est_node loss = est_mean(est_square(est_sub(x, est_model_label(m, "y"))));
    est_model_loss(m, loss);
    if (mode == EST_TRAIN) est_model_minimize(m, est_adam(1e-3, NULL), loss);
    return est_model_status(m);
}

/* Trains up to STEPS in a child process; returns its id. */
static pid_t start_training(const char *model_dir)
{
    pid_t child = fork();

    if (child < 0) {
        perror("fork");
        exit(1);
    }
    if (child != 0) return child;
    est_estimator *estimator = NULL;
    est_status     status    = est_estimator_create(model_fn,
               EST_ESTIMATOR(.config = EST_RUN_CONFIG(.model_dir = model_dir, .seed = 42, .save_checkpoints_steps = 100)),
               &estimator);
    if (status == EST_OK) status = est_train(estimator, EST_TRAIN_OPTIONS(.input_fn = input_fn, .max_steps = STEPS));
    if (status != EST_OK) fprintf(stderr, "resume: %s: %s\n", est_status_name(status), est_error_message());
    est_estimator_free(estimator);
    _exit(est_exit_code(status));
}

static void sleep_ms(int ms)
{
    nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000L }, NULL);
}

/* Kills the child some time after its next checkpoint; false when it ended by itself before. */
static bool kill_after_checkpoint(pid_t child, const char *model_dir)
{
    char            before[EST_CHECKPOINT_PATH_MAX], now[EST_CHECKPOINT_PATH_MAX];
    struct timespec clock;
    int             how;

    if (est_checkpoint_latest(model_dir, before) != EST_OK) before[0] = '\0';
    while (est_checkpoint_latest(model_dir, now) != EST_OK || strcmp(now, before) == 0) {
        sleep_ms(1);
        if (waitpid(child, &how, WNOHANG) == child) return false;
    }
    clock_gettime(CLOCK_REALTIME, &clock);
    sleep_ms((int)(clock.tv_nsec / 1000 % 60)); /* any moment is as good as another */
    kill(child, SIGKILL);
    if (waitpid(child, &how, 0) != child || !WIFSIGNALED(how)) return false;
    if (est_checkpoint_latest(model_dir, now) == EST_OK) printf("killed after %s\n", strrchr(now, '/') + 1);
    return true;
}

/* Whether a variable has the same bytes in both checkpoints. */
static est_status compare(const est_checkpoint *a, const est_checkpoint *b, const char *name, bool *same)
{
    est_tensor *x = NULL, *y = NULL;
    est_status  status = est_checkpoint_read(a, name, &x);

    if (status == EST_OK) status = est_checkpoint_read(b, name, &y);
    if (status == EST_OK) {
        *same = est_tensor_bytes(x) == est_tensor_bytes(y) &&
                memcmp(est_tensor_data(x), est_tensor_data(y), est_tensor_bytes(x)) == 0;
    }
    est_tensor_free(x);
    est_tensor_free(y);
    return status;
}

/* Whether the latest checkpoints of two directories have the same variables. */
static est_status compare_runs(const char *killed, const char *undisturbed, bool *same)
{
    est_checkpoint *a = NULL, *b = NULL;
    est_status      status = est_checkpoint_open(killed, &a);

    if (status == EST_OK) status = est_checkpoint_open(undisturbed, &b);
    *same = status == EST_OK && est_checkpoint_count(a) == est_checkpoint_count(b);
    for (int i = 0; status == EST_OK && *same && i < est_checkpoint_count(a); i++) {
        const char *name = est_checkpoint_at(a, i)->name;

        if (strncmp(name, "estoc/", 6) == 0)
            continue; /* not the model's: where the input is, how far it was read ahead */
        status = compare(a, b, name, same);
        if (status == EST_OK && !*same) printf("%s differs\n", name);
    }
    est_checkpoint_close(a);
    est_checkpoint_close(b);
    return status;
}

int main(int argc, char **argv)
{
    char        temporary[] = "/tmp/estoc-resume-XXXXXX", killed[512], undisturbed[512];
    const char *dir         = argc > 1 ? argv[1] : NULL;
    int         how         = 0;
    bool        same        = false;

    if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
        fprintf(stderr, "usage: resume [new-directory]\n");
        return 2;
    }
    if (dir == NULL) dir = mkdtemp(temporary);
    if (dir == NULL) {
        perror(temporary);
        return 1;
    }
    snprintf(killed, sizeof killed, "%s/killed", dir);
    snprintf(undisturbed, sizeof undisturbed, "%s/undisturbed", dir);
    for (int i = 0; i < KILLS; i++) {
        if (!kill_after_checkpoint(start_training(killed), killed)) break;
    }
    if (waitpid(start_training(killed), &how, 0) < 0 || how != 0) return 1;
    if (waitpid(start_training(undisturbed), &how, 0) < 0 || how != 0) return 1;
    if (compare_runs(killed, undisturbed, &same) != EST_OK) {
        fprintf(stderr, "resume: %s\n", est_error_message());
        return 1;
    }
    printf("%s after %d steps, in %s\n", same ? "identical" : "different", STEPS, dir);
    return same ? 0 : 1;
}
