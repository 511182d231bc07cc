/* SPDX-License-Identifier: Apache-2.0
 *
 * Multi-worker training, as processes: ways to begin, to go on and to end that are not the usual one. Each worker has
 * examples of its own, so that all have the same variables only when they have trained with those of all. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "estoc/ops.h"
#include "support/dynamic_test.h"
#include "support/multi_worker_test.h"

#define STEPS              12
#define JOINED_TO_EVALUATE "chief:0: evaluate: generation" /* of its log */
#define SLOW_SECS          4.0 /* for an operation, where one is slower: a busy machine is not */

typedef enum way {
    WAY_PLAIN,
    WAY_DYNAMIC,      /* embeddings whose rows are drawn when a key is first seen */
    WAY_SLOW,         /* the last worker is slower with its evaluation than an operation may take */
    WAY_UNSAVED,      /* there is no checkpoint to evaluate, and the chief is slow to say that this was all */
    WAY_NO_INPUT,     /* the chief's input_fn fails after training, and not when it is checked before */
    WAY_WORKER_STOPS, /* a hook of the last worker asks to stop */
    WAY_APART,        /* each has a model_dir of its own, and the worker dies in its evaluation, once */
    WAY_BACK_LATE,    /* the chief, which has all metrics, says so to nobody until a file is there */
    WAY_UNSUMMED,     /* a metric keeps a maximum, which is no sum of those of all workers */
    WAY_BESIDE        /* the train op also counts what it sees, and the chief's examples end early */
} way;

typedef struct job {
    way  way;
    bool chief;
} job;

/* --- a worker ----------------------------------------------------------------------------------------------------- */

static est_node make_loss(est_model *model)
{
    est_node x    = est_model_feature(model, "x");
    est_node w    = est_weight(x.graph, "w", EST_SHAPE(1), NULL);
    est_node loss = est_mean(est_square(est_sub(x, est_read_variable(w))));

    est_model_predict(model, "x", x);
    est_model_loss(model, loss);
    return loss;
}

static est_status model_fn(est_model *model, est_mode mode, const void *params)
{
    est_node loss = make_loss(model);

    (void)params;
    if (mode == EST_TRAIN) est_model_minimize(model, est_sgd(0.1), loss);
    return est_model_status(model);
}

static est_node make_count(est_graph *graph, const char *name, est_node more)
{
    return est_assign_add(
        est_weight(graph, name, EST_SHAPE_SCALAR, EST_WEIGHT(.initializer = est_init_zeros(), .frozen = true)), more);
}

/* Its train op also keeps the sum of what this worker has seen, and how many steps it took part in. */
static est_status beside_model(est_model *model, est_mode mode, const void *params)
{
    est_node   loss  = make_loss(model);
    est_graph *graph = loss.graph;

    (void)params;
    if (mode == EST_TRAIN) {
        est_node sum = est_reduce_sum(est_model_feature(model, "x"), EST_I64S(0, 1), false);

        est_model_train_op(
            model, est_group(graph, EST_NODES(est_minimize(est_sgd(0.1), loss, NULL), make_count(graph, "seen", sum),
                                              make_count(graph, "steps", est_scalar(graph, EST_F32, 1)))));
    }
    return est_model_status(model);
}

static int n_eval_inputs; /* of this process */

static est_status input(const est_input_context *context, void *user, est_dataset **out)
{
    const job   *j = user;
    float        xs[16];
    est_tensor  *x = NULL;
    est_dataset *d;
    bool         once = j->way == WAY_BESIDE && context->pipeline == 0;

    if (j->way == WAY_DYNAMIC) return dynamic_input(context, NULL, out);
    if (j->way == WAY_NO_INPUT && context->mode == EST_EVAL && j->chief && ++n_eval_inputs > 1) {
        return est_fail(EST_NOT_FOUND, "no such examples");
    }
    if (context->mode == EST_TRAIN) {
        fprintf(stderr, "seed of the job %llu, %s\n", (unsigned long long)context->job_seed,
                context->seed == context->job_seed ? "as its own" : "not its own");
    }
    for (int i = 0; i < 16; i++) xs[i] = (float)(1 + 2 * context->pipeline);
    EST_TRY(est_tensor_f32(EST_SHAPE(16, 1), xs, &x));
    d = est_dataset_slices(EST_NAMED_TENSORS({ "x", x }));
    est_tensor_free(x);
    return est_dataset_finish(est_dataset_batch(est_dataset_repeat(d, once ? 1 : EST_FOREVER), 4, NULL), out);
}

typedef struct ways_hook {
    est_hook    hook;
    way         way;
    bool        last; /* of the workers */
    const char *file; /* that says something to processes of the test */
} ways_hook;

static void touch(const char *path)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fclose(file);
}

static est_status stop_early(est_hook *hook, est_loop *loop)
{
    const ways_hook *h = EST_CONTAINER_OF(hook, ways_hook, hook);

    if (h->way == WAY_WORKER_STOPS && h->last && est_loop_global_step(loop) >= 5) est_loop_request_stop(loop, "enough");
    return EST_OK;
}

static est_status take_time(est_hook *hook, est_loop *loop)
{
    const ways_hook *h = EST_CONTAINER_OF(hook, ways_hook, hook);

    (void)loop;
    if (h->way == WAY_SLOW && h->last) est_sleep_ns((int64_t)(1.5 * SLOW_SECS * (double)EST_NS_PER_SEC));
    if (h->way == WAY_APART && h->last && access(h->file, F_OK) != 0) {
        touch(h->file);
        (void)raise(SIGKILL);
    }
    return EST_OK;
}

static est_status add_largest(est_model *model, void *user)
{
    est_node largest = est_metric_state(est_model_graph(model), "largest", EST_F32, EST_SHAPE_SCALAR);
    est_node read = est_read_variable(largest), x = est_reshape(est_model_feature(model, "x"), EST_I64S(-1));
    est_node update = est_assign(largest, est_maximum(read, est_reduce_max(x, EST_I64S(0), false)));

    (void)user;
    est_model_metric(model, "largest", est_metric_custom(EST_NODES(largest), EST_NODES(update), read));
    return est_model_status(model);
}

static est_status make_estimator(const char *dir, job *j, const dynamic_params *params, est_strategy **strategy,
                                 est_estimator **out)
{
    bool evaluates = j->way == WAY_SLOW || j->way == WAY_UNSAVED || j->way == WAY_NO_INPUT || j->way == WAY_APART ||
                     j->way == WAY_BACK_LATE || j->way == WAY_UNSUMMED;

    EST_TRY(est_multi_worker_mirrored_strategy(
        EST_MULTI_WORKER_MIRRORED(.rejoin_secs = 20, .timeout_secs = j->way == WAY_SLOW ? SLOW_SECS : 20), strategy));
    return est_estimator_create(
        j->way == WAY_DYNAMIC  ? dynamic_model
        : j->way == WAY_BESIDE ? beside_model
                               : model_fn,
        EST_ESTIMATOR(.params = params, .params_size = sizeof *params, .model_dir = dir,
                      .config = EST_RUN_CONFIG(.seed = 3, .train_distribute = *strategy,
                                               .eval_distribute               = evaluates ? *strategy : NULL,
                                               .save_checkpoints_secs         = j->way == WAY_UNSAVED ? EST_OFF : 0,
                                               .session_creation_timeout_secs = 30, .max_worker_delay_secs = EST_OFF)),
        out);
}

/* A log that holds up whoever writes a line, until a file is there. */
typedef struct held_log {
    const char *line; /* its beginning; NULL: none */
    const char *file;
} held_log;

static void wait_at_line(void *user, est_log_level level, int64_t wall_ns, const char *line)
{
    const held_log *held  = user;
    int64_t         until = est_now_ns() + 30 * EST_NS_PER_SEC;

    (void)level, (void)wall_ns;
    fprintf(stderr, "%s\n", line);
    if (strncmp(line, held->line, strlen(held->line)) != 0) return;
    while (access(held->file, F_OK) != 0 && est_now_ns() < until) est_sleep_ns(EST_NS_PER_SEC / 1000);
}

/* The file is beside the model directory. */
static void name_file(const char *model_dir, char *out, size_t size)
{
    snprintf(out, size, "%s.go", model_dir);
}

/* argv: the model directory, the way. */
static int task(int argc, char **argv)
{
    const char *config = getenv("TF_CONFIG");
    job         j = { .way = (way)strtol(argv[1], NULL, 10), .chief = strstr(config, "\"worker\", \"index\"") == NULL };
    ways_hook   trains       = { .hook = EST_HOOK(.after_run = stop_early, .end = multi_worker_show),
                                 .way  = j.way,
                                 .last = !j.chief };
    ways_hook   evaluates    = { .hook = EST_HOOK(.after_run = take_time), .way = j.way, .last = !j.chief };
    est_columns   *columns   = est_columns_create();
    dynamic_params params    = dynamic_columns(columns, NULL);
    est_strategy  *strategy  = NULL;
    est_estimator *estimator = NULL;
    est_metrics   *metrics   = NULL;
    held_log       held;
    est_status     status;
    char           file[160], dir[160];

    assert_int_equal(argc, 2);
    name_file(argv[0], file, sizeof file);
    snprintf(dir, sizeof dir, "%s%s", argv[0], j.way == WAY_APART && !j.chief ? "-own" : "");
    evaluates.file = file;
    held           = (held_log){ j.way == WAY_BACK_LATE ? "Saving dict"
                                 : j.way == WAY_UNSAVED ? JOINED_TO_EVALUATE
                                                        : NULL,
                       file };
    if (held.line != NULL) est_log_set_sink(wait_at_line, &held);
    status = make_estimator(dir, &j, &params, &strategy, &estimator);
    if (status == EST_OK && j.way == WAY_UNSUMMED) status = est_estimator_add_metrics(estimator, add_largest, NULL);
    if (status == EST_OK) {
        status = est_train_and_evaluate(
            estimator,
            EST_TRAIN_SPEC(.input_fn = input, .input_user = &j, .max_steps = STEPS, .hooks = EST_HOOKS(&trains.hook)),
            EST_EVAL_SPEC(.input_fn = input, .input_user = &j, .steps = 2, .start_delay_secs = EST_OFF,
                          .hooks = EST_HOOKS(&evaluates.hook)),
            &metrics);
    }
    if (status != EST_OK) fprintf(stderr, "%s: %s\n", est_status_name(status), est_error_message());
    if (metrics != NULL) fprintf(stderr, "has metrics\n");
    est_metrics_free(metrics);
    est_estimator_free(estimator);
    est_columns_free(columns);
    est_strategy_free(strategy);
    return status != EST_OK;
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

static cluster make(way how)
{
    static char text[8];
    cluster     c = cluster_make(1, 1, 0, 0);

    snprintf(text, sizeof text, "%d", (int)how);
    CLUSTER_SET(&c, text);
    return c;
}

/* A master has the place of a chief, for strategies, too. */
TEST(master)
{
    cluster c = make(WAY_PLAIN);

    snprintf(cluster_find(&c, "chief", 0)->type, sizeof c.tasks[0].type, "master");
    cluster_start_all(&c);
    cluster_wait_all(&c, 60);
    multi_worker_check_shown(&c, "master", STEPS, 1);
    assert_int_equal(cluster_count_log(cluster_find(&c, "master", 0), "seed of the job 3, as its own"), 1);
    assert_int_equal(cluster_count_log(multi_worker_worker(&c, 0), "seed of the job 3, not its own"), 1);
    multi_worker_end(&c, STEPS);
}

/* Rows that are drawn when a key is first seen are the same on all workers. */
TEST(dynamic)
{
    cluster c = make(WAY_DYNAMIC);

    cluster_start_all(&c);
    cluster_wait_all(&c, 60);
    multi_worker_check_shown(&c, "chief", STEPS, 3);
    multi_worker_end(&c, STEPS);
}

TEST(slow_evaluation)
{
    cluster c = make(WAY_SLOW);

    cluster_start_all(&c);
    cluster_wait_all(&c, 60);
    assert_int_equal(cluster_count_log(cluster_find(&c, "chief", 0), "has metrics"), 1);
    assert_int_equal(cluster_count_log(multi_worker_worker(&c, 0), "has metrics"), 1);
    multi_worker_end(&c, STEPS);
}

/* A chief that has nothing to evaluate says so, and a worker that has heard it stays until the chief has ended the job:
 * it would be waited for otherwise. It is given half a second to leave too early. */
TEST(nothing_to_evaluate)
{
    cluster       c      = make(WAY_UNSAVED);
    cluster_task *worker = multi_worker_worker(&c, 0), *chief = cluster_find(&c, "chief", 0);
    char          file[160];
    int64_t       until;

    cluster_start_all(&c);
    cluster_wait_log(&c, chief, JOINED_TO_EVALUATE, 60);
    until = est_now_ns() + EST_NS_PER_SEC / 2;
    while (!cluster_look(worker) && est_now_ns() < until) est_sleep_ns(EST_NS_PER_SEC / 1000);
    name_file(c.model, file, sizeof file);
    touch(file);
    cluster_wait_all(&c, 60);
    assert_int_equal(cluster_count_log(worker, "has metrics"), 0);
    assert_int_equal(cluster_count_log(chief, "to tell them that the job has ended"), 0);
    cluster_free(&c);
}

TEST(chief_cannot_evaluate)
{
    cluster c = make(WAY_NO_INPUT);

    cluster_start_all(&c);
    cluster_wait_code(&c, cluster_find(&c, "chief", 0), 1, 20);
    cluster_wait_code(&c, multi_worker_worker(&c, 0), 1, 20);
    assert_int_equal(cluster_count_log(multi_worker_worker(&c, 0), "the chief cannot evaluate"), 1);
    assert_true(cluster_count_log(multi_worker_worker(&c, 0), "no such examples") > 0);
    cluster_free(&c);
}

/* A wrong number would be the alternative. */
TEST(unsummed_metric)
{
    cluster c = make(WAY_UNSUMMED);

    cluster_start_all(&c);
    cluster_wait_code(&c, cluster_find(&c, "chief", 0), 1, 20);
    cluster_wait_code(&c, multi_worker_worker(&c, 0), 1, 20);
    assert_true(cluster_count_log(cluster_find(&c, "chief", 0), "the state largest is not only added to; update it by "
                                                                "est_assign_add or est_scatter_add, or") > 0);
    cluster_free(&c);
}

/* A worker that was lost in the evaluation and sees nothing of the chief's directory hears from it that training is
 * over. */
TEST(apart)
{
    cluster       c      = make(WAY_APART);
    cluster_task *worker = multi_worker_worker(&c, 0);

    cluster_start_all(&c);
    cluster_wait(&c, worker, 30);
    assert_true(WIFSIGNALED(worker->status));
    cluster_start(&c, worker);
    cluster_wait_all(&c, 15);
    assert_int_equal(cluster_count_log(cluster_find(&c, "chief", 0), "has metrics"), 1);
    assert_int_equal(cluster_count_log(worker, "has metrics"), 1);
    multi_worker_end(&c, STEPS);
}

/* A worker that was lost when all metrics were summed has nothing left to do when it is back. */
TEST(back_late)
{
    cluster       c      = make(WAY_BACK_LATE);
    cluster_task *worker = multi_worker_worker(&c, 0);
    char          file[160];

    cluster_start_all(&c);
    cluster_wait_log(&c, cluster_find(&c, "chief", 0), "Saving dict", 30);
    multi_worker_kill(&c, worker);
    name_file(c.model, file, sizeof file);
    touch(file);
    cluster_start(&c, worker);
    cluster_wait_all(&c, 20);
    assert_int_equal(cluster_count_log(cluster_find(&c, "chief", 0), "has metrics"), 1);
    assert_int_equal(cluster_count_log(worker, "has metrics"), 0);
    multi_worker_end(&c, STEPS);
}

/* A worker that is asked to stop by itself goes on with the others: the chief's stop is that of all. */
TEST(worker_stops)
{
    cluster c = make(WAY_WORKER_STOPS);

    cluster_start_all(&c);
    cluster_wait_all(&c, 60);
    multi_worker_check_shown(&c, "chief", STEPS, 1);
    multi_worker_end(&c, STEPS);
}

static float saved_number(const cluster *c, const char *name)
{
    est_checkpoint *saved = NULL;
    est_tensor     *value = NULL;
    float           number;

    assert_int_equal(est_checkpoint_open(c->model, &saved), EST_OK);
    assert_int_equal(est_checkpoint_read(saved, name, &value), EST_OK);
    number = *(const float *)est_tensor_data(value);
    est_tensor_free(value);
    est_checkpoint_close(saved);
    return number;
}

/* Whoever is out of input makes the steps of the others, without what looks at examples. The chief has seen 16 ones. */
TEST(beside)
{
    cluster c = make(WAY_BESIDE);

    cluster_start_all(&c);
    cluster_wait_all(&c, 60);
    multi_worker_check_shown(&c, "chief", STEPS, 1);
    assert_true(saved_number(&c, "seen") == 16);
    assert_true(saved_number(&c, "steps") == STEPS);
    multi_worker_end(&c, STEPS);
}

int main(int argc, char **argv)
{
    cluster_task_main(argc, argv, task);
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return est_test_run_apart(NULL, NULL);
}
