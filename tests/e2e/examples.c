/* SPDX-License-Identifier: Apache-2.0
 *
 * The examples as processes: what they print, how they end, and what they leave when they are stopped, started twice or
 * given a directory that is none. */
#include <math.h>
#include <sys/socket.h>

#include "e2e/program.h"
#include "support/port_test.h"

/* --- undisturbed -------------------------------------------------------------------------------------------------- */

#define IN_DIR .setup_func = program_setup, .teardown_func = program_teardown

TEST(xor, IN_DIR)
{
    program p = PROGRAM(0, "xor");

    assert_string_equal(p.out, "accuracy 1\n");
    program_has(p.err, "Using temporary folder as model directory: ");
    program_free(&p);
}

TEST(clicks, IN_DIR)
{
    program p = PROGRAM(0, "clicks");

    assert_true(program_number(p.out, "epoch 5  loss ") < program_number(p.out, "epoch 1  loss "));
    program_free(&p);
}

/* Two replicas learn, and their metric is one. */
TEST(custom_loop, IN_DIR)
{
    program p = PROGRAM(0, "custom_loop");

    program_has(p.out, "replicas in sync: 2\n");
    assert_true(program_number(p.out, "epoch 5  loss ") < 0.5 * program_number(p.out, "epoch 1  loss "));
    assert_true(program_number(strstr(p.out, "epoch 5"), "accuracy ") > 0.9);
    program_free(&p);
}

/* The sum of q^i for i < n. */
static double powers(double q, int n)
{
    return (1 - pow(q, n)) / (1 - q);
}

static void check_close(double got, double want)
{
    if (fabs(got - want) > 1e-4 * fabs(want)) fail_msg("got %.9g, expected %.9g", got, want);
}

/* What keras_fit prints follows from the first error e: a step at the rate r leaves (1 - 4 r) e, since weight and bias
 * both move by 2 r e. Equal batches give equal results with one replica and two. */
static void check_keras_fit(const char *out, int steps, double rate)
{
    double two, one, square, left = 0.96 * 0.96, fast = (1 - 4 * rate) * (1 - 4 * rate);
    char   line[64];

    assert_int_equal(sscanf(strstr(out, "dataset: "), "dataset: loss %lf %lf", &one, &two), 2);
    square = 10 * one / powers(left, 10);
    check_close(two, one * pow(left, 10));
    check_close(program_number(out, "evaluated: loss "), square * pow(left, 20));
    assert_int_equal(sscanf(strstr(out, "arrays: "), "arrays: loss %lf %lf", &one, &two), 2);
    check_close(one, square * pow(left, 20) * powers(left, 10) / 10);
    check_close(two, one * pow(left, 10));
    snprintf(line, sizeof line, "global batch %d, learning rate %g\n", 100 / steps, rate);
    program_has(out, line);
    assert_int_equal(sscanf(strstr(out, "by batch size: "), "by batch size: loss %lf %lf", &one, &two), 2);
    check_close(one, square * powers(fast, steps) / steps);
    assert_true(two < 1e-7 * one);
}

TEST(keras_fit, IN_DIR)
{
    program p = PROGRAM(0, "keras_fit");

    program_has(p.out, "replicas in sync: 2\n");
    check_keras_fit(p.out, 10, 0.15);
    program_free(&p);
    p = PROGRAM(0, "keras_fit", "--replicas", "1");
    check_keras_fit(p.out, 20, 0.1);
    program_free(&p);
    p = PROGRAM(2, "keras_fit", "--replicas", "0");
    program_has(p.err, "usage: ");
    program_free(&p);
}

/* As many parameters as Keras' ResNet50 of ten classes has. In three steps it begins to learn four images by heart;
 * tests/interop/resnet50.c compares a step with Keras'. */
TEST(resnet50, IN_DIR)
{
    program p = PROGRAM(0, "resnet50", "--images", "4", "--batch", "4", "--epochs", "3");

    program_has(p.out, "23608202 parameters, images of 32x32\n");
    assert_true(program_number(p.out, "epoch 3  loss ") < 0.9 * program_number(p.out, "epoch 1  loss "));
    program_free(&p);
    p = PROGRAM(2, "resnet50", "--size");
    program_has(p.err, "usage: ");
    program_free(&p);
    p = PROGRAM(2, "resnet50", "--batch", "0");
    program_has(p.err, "usage: ");
    program_free(&p);
}

/* Every transformation gives the elements that TensorFlow's of that name gives; shuffled ones are all there in every
 * pass. */
TEST(dataset, IN_DIR)
{
    program p = PROGRAM(0, "dataset");

    program_has(p.out, "from_tensor_slices, five of ten: [0 1 | 0] [2 3 | 1] [4 5 | 2] [6 7 | 0] [8 9 | 1]\n");
    program_has(p.out, "input_fn, three batches: [0 1 2 3 4 5 6 7 | 0 1 2 0] [8 9 10 11 12 13 14 15 | 1 2 0 1] "
                       "[16 17 18 19 0 1 2 3 | 2 0 0 1]\n");
    program_has(p.out, "\nmap: [1] [4] [9] [16] [25]\n");
    program_has(p.out, "\nmap with a function: [0.5] [1] [1.5] [2] [2.5]\n");
    program_has(p.out, "\nfilter: [3] [4] [5]\n");
    program_has(p.out, "\nbatch: [1 2] [3 4] [5]\n");
    program_has(p.out, "\nbatch, drop_remainder: [1 2] [3 4]\n");
    program_has(p.out, "\nrepeat: [1] [2] [3] [4] [5] [1] [2] [3] [4] [5]\n");
    program_has(p.out, "\nskip and take: [2] [3] [4]\n");
    program_has(p.out, "\nconcatenate: [1] [2] [3] [4] [5] [1]\n");
    program_has(p.out, "\nshard 1 of 2: [2] [4]\n");
    for (int i = 1; i <= 5; i++) {
        char number[8];

        snprintf(number, sizeof number, "[%d]", i);
        assert_int_equal(program_count(strstr(p.out, "\nshuffle and repeat: "), number), 2);
    }
    assert_int_equal(program_count(strstr(p.out, "\ninput_fn, shuffled: "), "[16 17 "), 1); /* not in order */
    program_free(&p);
}

/* Generated images, fewer than program_images has: there is more than one process to read them. */
static const char *few_images(void)
{
    program_images_write("train", 4000);
    program_images_write("t10k", 500);
    return program_dir;
}

/* One worker, then two: each then has half of the images, and half of the steps. */
TEST(multi_worker_cnn, IN_DIR)
{
    static const char line[] = "worker 0: loss ";
    program           p      = PROGRAM(0, "multi_worker_cnn", "--model-dir", program_path("one"), few_images());

    program_has(p.out, "after 63 steps\n");
    program_has(p.err, "info Using MirroredStrategy with devices ('/device:CPU:0',)\n");
    program_has(p.err, "info Single-worker MultiWorkerMirroredStrategy with local_devices = ('/device:CPU:0',), "
                       "communication = CommunicationImplementation.AUTO\n");
    program_has(p.err, "info Initializing RunConfig with distribution strategies.\n");
    program_has(p.err, "info Not using Distribute Coordinator.\n");
    program_has(p.err, "info The `input_fn` accepts an `input_context` which will be given by DistributionStrategy\n");
    assert_true(program_number(strstr(p.out, line), "accuracy ") > 0.9);
    program_free(&p);

    p = PROGRAM(0, "../estoc", "launch", "--no-chief", "--workers", "2", "--",
                EST_BUILD_DIR "/examples/multi_worker_cnn", "--model-dir", program_path("two"), program_dir);
    program_has(p.out, "after 32 steps\n");
    program_has(p.err, "num_workers = 2, ");
    assert_true(program_number(strstr(p.out, line), "accuracy ") > 0.9);
    program_free(&p);
    p = PROGRAM(2, "multi_worker_cnn", "--steps", "3");
    program_has(p.err, "usage: ");
    program_free(&p);
}

/* A chief, a worker and a ps task; without a cluster there is nobody to keep the variables. */
TEST(fashion_mnist_ps, IN_DIR)
{
    program p = PROGRAM(0, "../estoc", "launch", "--ps", "1", "--workers", "1", "--",
                        EST_BUILD_DIR "/examples/fashion_mnist_ps", "--steps", "200", "--model-dir",
                        program_path("model"), few_images());

    program_has(p.out, "after 200 steps\n");
    assert_true(program_number(strstr(p.out, "chief: "), "accuracy ") > 0.8);
    program_free(&p);
    p = PROGRAM(1, "fashion_mnist_ps", program_dir);
    program_has(p.err, "train_distribute is parameter_server, and TF_CONFIG has no ps tasks");
    program_free(&p);
}

/* What the coordinator prints at its end, in one process and in many: it has learnt the rule, and both parts of the
 * table are where they belong. Evaluation over all rows gives one result, on one task or several. */
static void check_coordinator(const char *out, int workers)
{
    char   calls[64];
    double direct = program_number(out, "evaluation accuracy, directly: ");

    snprintf(calls, sizeof calls, "31 calls by %d workers\n", workers);
    program_has(out, calls);
    program_has(out, "embedding/embeddings: rows from 0 on, [5,20] at /job:ps/replica:0/task:0/device:CPU:0\n");
    program_has(out, "embedding/embeddings: rows from 5 on, [4,20] at /job:ps/replica:0/task:1/device:CPU:0\n");
    assert_true(program_number(out, "finished epoch 3, accuracy ") > 0.9);
    assert_true(program_number(out, "final loss ") < 0.5);
    assert_true(direct > 0.9);
    assert_true(program_number(out, "evaluation accuracy, by the workers: ") > 0.9);
    assert_true(program_number(out, "evaluation accuracy, exactly: ") == direct);
}

TEST(coordinator, IN_DIR)
{
    program p = PROGRAM(0, "coordinator");

    check_coordinator(p.out, 3);
    program_free(&p);
    p = PROGRAM(1, "coordinator", "--cluster");
    program_has(p.err, "TF_CONFIG has no cluster");
    program_free(&p);
    p = PROGRAM(2, "coordinator", "--workers");
    program_has(p.err, "usage: ");
    program_free(&p);
}

/* Every task is a process; all end when the coordinator has. */
TEST(coordinator_cluster, IN_DIR)
{
    program p = PROGRAM(0, "../estoc", "launch", "--ps", "2", "--workers", "2", "--",
                        EST_BUILD_DIR "/examples/coordinator", "--cluster");

    check_coordinator(p.out, 2);
    program_free(&p);
}

/* All steps of the limit are made, in one process and in a cluster; a second run over a directory finds them made. */
TEST(between_graph, IN_DIR)
{
    program p = PROGRAM(0, "between_graph", "--local");
    char    path[512];

    program_has(p.out, "chief 0: 400 of 400 steps, the last one was 400, loss ");
    assert_true(program_number(p.out, "loss ") < 0.1);
    program_free(&p);
    for (int i = 0; i < 2; i++) { /* the second finds all steps made */
        p = PROGRAM(0, "between_graph", "--local", program_path("between"));
        program_has(p.out, i == 0 ? "chief 0: 400 of 400 steps" : "chief 0: 0 of 400 steps, the last one was 400");
        program_free(&p);
    }

    snprintf(path, sizeof path, "%s/examples/between_graph", EST_BUILD_DIR);
    p = PROGRAM(0, "../estoc", "launch", "--no-chief", "--ps", "2", "--workers", "1", "--", path);
    assert_true(program_number(p.out, "worker 0: ") == 400);
    program_free(&p);
    p = PROGRAM(1, "between_graph");
    program_has(p.err, "TF_CONFIG has no cluster");
    program_free(&p);
}

/* Three servers and a client at a target. A server that cannot listen ends all. */
TEST(in_graph, IN_DIR)
{
    char    address[3][32];
    int     ports[3];
    program p;

    for (int i = 0; i < 3; i++) snprintf(address[i], sizeof address[i], "127.0.0.1:%d", port_take(&ports[i]));
    p = PROGRAM(0, "in_graph", address[0], address[1], address[2]);
    assert_string_equal(p.out, "loss 65.2500\nloss 30.5469\nloss 14.3203\nw 0.2243 0.9032\n");
    program_free(&p);
    assert_int_equal(listen(ports[1], 1), 0);
    p = PROGRAM(1, "in_graph", address[0], address[1], address[2]);
    program_has(p.err, "cannot listen at 127.0.0.1:");
    program_has(p.err, "does not run");
    assert_true(p.secs < 60); /* the client does not wait for it */
    program_free(&p);
    for (int i = 0; i < 3; i++) close(ports[i]);
}

TEST(fashion_mnist, IN_DIR)
{
    const char *dir = program_path("model");
    program     p;
    double      accuracy;
    char        board[128];

    p        = PROGRAM(0, "fashion_mnist_cnn", "--steps", "400", "--model-dir", dir, program_images());
    accuracy = program_number(p.out, "test accuracy ");
    if (accuracy <= 0.95) fail_msg("%s", p.out);
    snprintf(board, sizeof board, "tensorboard --logdir %s\n", dir);
    program_has(p.out, board);
    snprintf(board, sizeof board, "exported model: %s/export/final/\n", dir);
    program_has(p.out, board);
    assert_int_equal(program_exports(program_path("model/export/final")), 1);
    program_free(&p);

    /* Started again it has nothing to train, and finds what it had found. */
    p = PROGRAM(0, "fashion_mnist_cnn", "--steps", "400", "--model-dir", dir, program_dir);
    program_has(p.err, "Skipping training");
    assert_true(program_number(p.out, "test accuracy ") == accuracy);
    assert_int_equal(program_exports(program_path("model/export/final")), 1);
    program_free(&p);
}

/* Only what it found. */
TEST(quiet, IN_DIR)
{
    program p = PROGRAM(0, "fashion_mnist_cnn", "--steps", "2", "--model-dir", program_path("images"), "--quiet",
                        program_images());

    assert_string_equal(p.err, "");
    program_has(p.out, "test accuracy ");
    program_free(&p);
    p = PROGRAM(0, "custom_metric", "--quiet", "--steps", "2", "--model-dir", program_path("babies"));
    assert_string_equal(p.err, "");
    program_has(p.out, "after 2 steps");
    program_free(&p);
}

TEST(no_data, IN_DIR)
{
    program p = PROGRAM(1, "fashion_mnist_cnn", "--steps", "1", program_dir);

    program_has(p.err, "NOT_FOUND");
    program_has(p.err, "train spec: input_fn: ");
    program_has(p.err, program_path("train-images-idx3-ubyte.gz"));
    assert_string_equal(p.out, "");
    program_free(&p);
    p = PROGRAM(2, "fashion_mnist_cnn", "--epochs", "none");
    program_has(p.err, "usage: ");
    program_free(&p);
}

TEST(custom_metric, IN_DIR)
{
    program p = PROGRAM(0, "custom_metric", "--steps", "3000", "--model-dir", program_path("model"));
    int     saves, evaluations;

    assert_in_range((int)(program_number(p.out, "rmse ") * 1000), 480, 540); /* the noise of the data is 0.5 */
    assert_in_range((int)(program_number(p.out, "r2 ") * 1000), 810, 850);
    saves       = program_count(p.err, "info Saving checkpoints for ");
    evaluations = program_count(p.err, "Saving dict for global step ");
    assert_int_equal(program_exports(program_path("model/export/exporter")), evaluations);

    /* By the clock: a save at the start, one every half second, one at the end; an evaluation a second, and the
     * last. */
    assert_in_range(saves, 2, 2 + (int)(2 * p.secs));
    assert_in_range(evaluations, 1, 2 + (int)p.secs);
    program_free(&p);
}

TEST(movie_embeddings, IN_DIR)
{
    program p = PROGRAM(0, "movie_embeddings", "--model-dir", program_path("model"));

    assert_in_range((int)(program_number(p.out, "rmse ") * 1000), 500, 580); /* the noise of the data is 0.5 */
    assert_true(program_number(p.out, "guessing the mean ") > 1.1);
    program_free(&p);
}

TEST(income, IN_DIR)
{
    program p = PROGRAM(0, "income", "--model-dir", program_path("model"), program_dir);
    char    best[256];

    assert_in_range((int)(program_number(p.out, "accuracy ") * 1000), 880, 960); /* the noise hides the rest */
    program_has(p.err, "info Loss for final step");
    assert_in_range((int)program_number(p.out, " after "), 1000, 19999); /* it was stopped early */
    snprintf(best, sizeof best, "best model: %s/export/best/", program_path("model"));
    program_has(p.out, best);
    assert_true(program_exports(program_path("model/export/best")) >= 1);
    assert_int_equal(program_count(p.out, "earns much with probability "), 3);
    program_free(&p);
}

TEST(resume, IN_DIR)
{
    program p = PROGRAM(0, "resume", program_path("runs"));

    assert_in_range(program_count(p.out, "killed after model.ckpt-"), 1, 5);
    program_has(p.out, "identical after 3000 steps");
    program_free(&p);
}

/* A trainer and an evaluator beside it; then a trainer alone. */
TEST(sidecar_evaluator, IN_DIR)
{
    program p = PROGRAM(0, "sidecar_evaluator", program_path("runs"));

    assert_true(program_number(strstr(p.out, "model.ckpt-500"), "accuracy ") > 0.9);
    program_has(p.out, "the training has ended\n");
    program_free(&p);
    p = PROGRAM(0, "sidecar_evaluator", "--evaluate", program_path("runs")); /* only the latest of five is evaluated */
    program_has(p.out, "left out, since there was a newer one: 4 checkpoints\nmodel.ckpt-500  accuracy ");
    program_has(p.out, "the training has ended\n");
    program_free(&p);
    p = PROGRAM(0, "sidecar_evaluator", "--train", program_path("runs"));
    assert_string_equal(p.out, "");
    program_free(&p);
    p = PROGRAM(0, "sidecar_evaluator"); /* removes its temporary directory */
    program_has(p.out, "the training has ended\n");
    program_free(&p);
    assert_int_equal(program_entries("sidecar_evaluator-"), 0);
    p = PROGRAM(2, "sidecar_evaluator", "--judge", program_path("runs"));
    program_has(p.err, "usage: ");
    program_free(&p);
}

/* A trainer that fails ends its evaluator, which waits for a checkpoint. */
TEST(sidecar_evaluator_without_trainer, IN_DIR)
{
    program p;

    assert_int_equal(mkdir(program_path("bad"), 0700), 0);
    assert_int_equal(mkdir(program_path("bad/training_done"), 0700), 0); /* no mark can be written or removed */
    assert_int_equal(mkdir(program_path("bad/training_done/x"), 0700), 0);
    p = PROGRAM(1, "sidecar_evaluator", program_path("bad"));
    program_has(p.err, "training_done");
    assert_true(p.secs < 60);
    program_free(&p);
}

TEST(dnn_classifier, IN_DIR)
{
    const char *dir = program_path("model");
    program     p   = PROGRAM(0, "dnn_classifier", "--steps", "600", "--model-dir", dir);
    double      accuracy;

    accuracy = program_number(p.out, "accuracy ");
    if (accuracy < 0.90 || accuracy > 0.96) fail_msg("%s", p.out); /* of the labels 5 % are wrong */
    program_free(&p);

    p = PROGRAM(0, "dnn_classifier", "--steps", "600", "--model-dir", dir);
    program_has(p.err, "Skipping training");
    assert_true(program_number(p.out, "accuracy ") == accuracy);
    program_free(&p);
}

/* In a cluster to evaluate is the evaluator's business; without one the chief does it at the end. */
TEST(cluster_without_evaluator, IN_DIR)
{
    static const char *const names[] = { "dnn_classifier", "custom_metric" };

    for (int i = 0; i < 2; i++) {
        char    path[512];
        program p;

        snprintf(path, sizeof path, EST_BUILD_DIR "/examples/%s", names[i]);
        p = PROGRAM(0, "../estoc", "launch", "--ps", "1", "--workers", "0", "--", path, "--steps", "2", "--model-dir",
                    program_path(names[i]));
        program_has(p.err, "chief:0 | ");
        program_has(p.out, "chief:0 | "); /* the results of its final evaluation */
        assert_null(strstr(p.out, "ps:0    | "));
        program_free(&p);
    }
}

/* Writes rows of the layout of adult.data: who of two kinds of schooling does which of two kinds of work decides, which
 * only a cross or a network can tell; where the work is not known, the age does. The test file has what the original
 * has: a comment first, and a full stop after every label. */
static void make_census(const char *path, int first, int n, bool test)
{
    static const char *const schools[] = { "Bachelors", "HS-grad" }, *const works[] = { "Sales", "Craft-repair", "?" };
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    if (test) fprintf(file, "|1x3 Cross validator\n");
    for (int i = first; i < first + n; i++) {
        unsigned random = (unsigned)i * 2654435761u;
        int  school = random >> 30 & 1, work = (int)((random >> 20 & 1023) % 3), age = 20 + (int)(random >> 12) % 45;
        bool rich = work == 2 ? age >= 40 : school == work;

        fprintf(file, "%d, Private, %d, %s, %d, Divorced, %s, Unmarried, White, Female, 0, 0, 40, ?, %s%s\n", age, i,
                schools[school], school == 0 ? 13 : 9, works[work], rich ? ">50K" : "<=50K", test ? "." : "");
    }
    fprintf(file, "\n");
    assert_int_equal(fclose(file), 0);
}

/* The rule has no exception, so hardly any is left to the models. tests/e2e/census.c has the real files. */
TEST(census, IN_DIR)
{
    static const char *const models[] = { "wide", "deep", "wide_deep" };

    make_census(program_path("adult.data"), 0, 4000, false);
    make_census(program_path("adult.test"), 4000, 1000, true);
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        program p = PROGRAM(0, "census_wide_deep", "--model-dir", program_path(models[i]), models[i], program_dir);
        char    exports[64];

        if (program_number(p.out, "accuracy ") < 0.98 || program_number(p.out, "auc ") < 0.99 ||
            program_number(p.out, "exact auc ") < 0.99) {
            fail_msg("%s: %s", models[i], p.out);
        }
        snprintf(exports, sizeof exports, "%s/export/census", models[i]);
        assert_int_equal(program_exports(program_path(exports)), 1);
        program_free(&p);
    }
}

TEST(census_arguments, IN_DIR)
{
    program p = PROGRAM(1, "census_wide_deep", "wide", program_dir);

    program_has(p.err, "NOT_FOUND");
    program_has(p.err, program_path("adult.data"));
    program_free(&p);
    p = PROGRAM(2, "census_wide_deep", "narrow", program_dir);
    program_has(p.err, "usage: ");
    program_free(&p);
}

/* --- disturbed ---------------------------------------------------------------------------------------------------- */

/* Starts it, sends a signal when its log has the text, expects exit code 75 and returns it ended. */
static program stop_at(const char *const *argv, const char *text, int signal)
{
    program p = program_start(argv);

    program_wait_for(&p, text);
    assert_int_equal(kill(p.pid, signal), 0);
    program_end(&p);
    if (p.code != 75) fail_msg("after \"%s\": exit code %d, not 75:\n%s", text, p.code, p.err);
    return p;
}

TEST(stopped_while_training, IN_DIR)
{
    const char *dir    = program_path("model");
    const char *argv[] = { "custom_metric", "--steps", "8000", "--model-dir", dir, NULL };
    program     p      = stop_at(argv, "step = 500", SIGTERM);
    char        from[128];

    program_has(p.err, "SIGTERM");
    snprintf(from, sizeof from, "Restoring parameters from %s/model.ckpt-%.0f\n", dir,
             program_number(p.err, "stopped and saved at step "));
    program_free(&p);

    p = stop_at(argv, "global_step/sec: ", SIGINT);
    program_has(p.err, from);
    program_has(p.err, "SIGINT");
    program_free(&p);

    p = program_expect(0, argv);
    program_has(p.out, " after 8000 steps");
    program_free(&p);
}

/* In the evaluation after the last step all is saved; the next start still has to evaluate and to export. Before that
 * the run is stopped in its first steps, and in all it comes to what an undisturbed one comes to. */
TEST(stopped_while_evaluating, IN_DIR)
{
    const char *argv[] = { "fashion_mnist_cnn",   "--steps",        "50", "--model-dir",
                           program_path("model"), program_images(), NULL };
    program     p, undisturbed;

    p = stop_at(argv, "step = 0", SIGINT);
    program_free(&p);
    p = stop_at(argv, "Starting evaluation at", SIGTERM);
    assert_string_equal(p.out, "");
    program_free(&p);

    p = program_expect(0, argv);
    assert_int_equal(program_count(p.err, "Saving dict for global step 50:"), 1);
    assert_int_equal(program_exports(program_path("model/export/final")), 1);
    undisturbed = PROGRAM(0, "fashion_mnist_cnn", "--steps", "50", program_dir);
    assert_true(program_number(p.err, "loss = ") == program_number(strstr(undisturbed.err, "Saving dict"), "loss = "));
    program_free(&undisturbed);
    program_free(&p);
}

TEST(stopped_at_once, IN_DIR)
{
    const char *argv[] = { "custom_metric", "--steps", "200", "--model-dir", program_path("model"), NULL };
    program     p      = stop_at(argv, "Calling model_fn.", SIGTERM);

    program_free(&p);
    p = program_expect(0, argv);
    program_free(&p);
}

TEST(two_trainers, IN_DIR)
{
    const char *dir    = program_path("model");
    const char *argv[] = { "custom_metric", "--steps", "1000000", "--model-dir", dir, NULL };
    program     first  = program_start(argv), second;
    char        host[256], who[640];

    program_wait_for(&first, "step = 0");
    second = program_expect(1, argv);
    assert_int_equal(gethostname(host, sizeof host), 0);
    snprintf(who, sizeof who, "FAILED_PRECONDITION: %s is in use by another trainer: %s, process %ld;", dir, host,
             (long)first.pid);
    program_has(second.err, who);
    program_free(&second);

    assert_int_equal(kill(first.pid, SIGTERM), 0); /* it was not disturbed */
    program_end(&first);
    assert_int_equal(first.code, 75);
    program_free(&first);
}

TEST(no_directory, IN_DIR)
{
    const char *file = program_path("file");
    int         fd   = open(file, O_WRONLY | O_CREAT, 0600);
    char        message[200];
    program     p;

    assert_true(fd >= 0);
    close(fd);
    snprintf(message, sizeof message,
             "ALREADY_EXISTS: model_dir: %s is not a directory; name another path, or remove it", file);
    for (int i = 0; i < 2; i++) {
        p = PROGRAM(1, "custom_metric", "--steps", "10", "--model-dir", i == 0 ? file : program_path("file/below"));
        program_has(p.err, message);
        program_free(&p);
    }
}
