/* SPDX-License-Identifier: Apache-2.0
 *
 * RunConfig: defaults, every refused value, where the model directory comes from, what is logged. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "estimator/run_config.h"
#include "estoc/log.h"
#include "support/dir_test.h"
#include "support/fault_loop.h"
#include "support/locale_test.h"
#include "support/log_test.h"
#include "support/test.h"

static char scratch[64];

static int setup(void **state)
{
    (void)state;
    unsetenv("TF_CONFIG");
    log_keep(EST_LOG_INFO);
    est_test_dir(scratch);
    return setenv("TMPDIR", scratch, 1);
}

static int teardown(void **state)
{
    (void)state;
    return rmdir(scratch); /* nothing is left in it */
}

typedef struct resolved {
    est_arena     *arena;
    est_resolver  *resolver;
    est_run_config c;
} resolved;

static est_status resolve(const est_run_config *given, const char *model_dir, resolved *out)
{
    *out = (resolved){ .arena = est_arena_create() };
    log_clear();
    return out->arena != NULL ? est_run_config_resolve(given, model_dir, out->arena, &out->resolver, &out->c)
                              : EST_RESOURCE_EXHAUSTED;
}

static void resolved_clear(resolved *r)
{
    est_resolver_free(r->resolver);
    est_arena_free(r->arena);
}

static void resolve_ok(const est_run_config *given, resolved *out)
{
    if (resolve(given, "dir", out) != EST_OK) fail_msg("%s", est_error_message());
}

TEST(defaults)
{
    resolved r;

    resolve_ok(EST_RUN_CONFIG(.seed = 0), &r);
    assert_int_equal(r.c.struct_size, EST_STRUCT_SIZE(est_run_config));
    assert_string_equal(r.c.model_dir, "dir");
    assert_int_equal(r.c.seed, 0);
    assert_int_equal(r.c.save_summary_steps, 100);
    assert_int_equal(r.c.save_checkpoints_steps, EST_OFF);
    assert_true(r.c.save_checkpoints_secs == 600);
    assert_int_equal(r.c.keep_checkpoint_max, 5);
    assert_true(r.c.keep_checkpoint_every_n_hours == 10000);
    assert_int_equal(r.c.log_step_count_steps, 100);
    assert_true(r.c.session_creation_timeout_secs == 7200);
    assert_true(r.c.peer_silence_secs == 10);
    assert_int_equal(r.c.max_worker_delay_secs, 60);
    assert_false(r.c.no_graph_def);
    assert_int_equal(r.c.threads, 0);
    assert_null(r.c.train_distribute);
    assert_null(r.c.cluster_json);
    assert_null(r.c.protocol);
    assert_null(r.c.device_fn);
    assert_null(r.c.experimental_distribute);
    assert_null(r.c.resolver);
    assert_string_equal(est_resolver_task(r.resolver)->type, "worker");
    assert_true(est_resolver_task(r.resolver)->is_chief);
    resolved_clear(&r);
}

TEST(given)
{
    resolved r;

    resolve_ok(EST_RUN_CONFIG(.seed = 7, .save_summary_steps = 1, .save_checkpoints_steps = 2, .keep_checkpoint_max = 3,
                              .keep_checkpoint_every_n_hours = 0.5, .log_step_count_steps = 4,
                              .session_creation_timeout_secs = 1.5, .peer_silence_secs = 2.5,
                              .max_worker_delay_secs = 6, .threads = 8, .quiet = true),
               &r);
    assert_int_equal(r.c.seed, 7);
    assert_int_equal(r.c.save_summary_steps, 1);
    assert_int_equal(r.c.save_checkpoints_steps, 2);
    assert_true(r.c.save_checkpoints_secs == EST_OFF);
    assert_int_equal(r.c.keep_checkpoint_max, 3);
    assert_true(r.c.keep_checkpoint_every_n_hours == 0.5);
    assert_int_equal(r.c.log_step_count_steps, 4);
    assert_true(r.c.session_creation_timeout_secs == 1.5);
    assert_true(r.c.peer_silence_secs == 2.5);
    assert_int_equal(r.c.max_worker_delay_secs, 6);
    assert_int_equal(r.c.threads, 8);
    assert_true(r.c.quiet);
    resolved_clear(&r);
    resolve_ok(EST_RUN_CONFIG(.save_summary_steps = EST_OFF, .keep_checkpoint_max = EST_OFF,
                              .log_step_count_steps = EST_OFF, .max_worker_delay_secs = EST_OFF),
               &r);
    assert_int_equal(r.c.save_summary_steps, EST_OFF);
    assert_int_equal(r.c.keep_checkpoint_max, EST_OFF);
    assert_int_equal(r.c.log_step_count_steps, EST_OFF);
    assert_int_equal(r.c.max_worker_delay_secs, EST_OFF);
    resolved_clear(&r);
}

/* How checkpoints are timed: given steps and seconds, resolved steps and seconds. */
TEST(checkpoint_timing)
{
    static const struct {
        int64_t steps;
        double  secs;
        int64_t want_steps;
        double  want_secs;
    } cases[] = {
        { 0, 0, EST_OFF, 600 },       { 50, 0, 50, EST_OFF },           { 0, 30, EST_OFF, 30 },
        { 0, 0.25, EST_OFF, 0.25 },   { 50, EST_OFF, 50, EST_OFF },     { EST_OFF, 30, EST_OFF, 30 },
        { EST_OFF, 0, EST_OFF, 600 }, { 0, EST_OFF, EST_OFF, EST_OFF }, { EST_OFF, EST_OFF, EST_OFF, EST_OFF },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        resolved r;

        resolve_ok(EST_RUN_CONFIG(.save_checkpoints_steps = cases[i].steps, .save_checkpoints_secs = cases[i].secs),
                   &r);
        assert_int_equal(r.c.save_checkpoints_steps, cases[i].want_steps);
        assert_true(r.c.save_checkpoints_secs == cases[i].want_secs);
        resolved_clear(&r);
    }
}

/* --- changing a resolved one -------------------------------------------------------------------------------------- */

static void replace_ok(const est_run_config *changed, resolved *out)
{
    if (resolve(changed, NULL, out) != EST_OK) fail_msg("%s", est_error_message());
}

/* As RunConfig.replace: what was off stays off, what was chosen stays chosen, and the two timings exclude each
 * other. */
TEST(replace)
{
    resolved       first, r;
    est_run_config c;

    resolve_ok(EST_RUN_CONFIG(.seed = 3, .save_summary_steps = EST_OFF, .keep_checkpoint_max = EST_OFF,
                              .log_step_count_steps = EST_OFF, .max_worker_delay_secs = EST_OFF,
                              .save_checkpoints_steps = 50, .protocol = "tcp", .threads = 2),
               &first);
    replace_ok(&first.c, &r); /* nothing changed */
    c           = r.c;
    c.model_dir = first.c.model_dir; /* copies of the same */
    c.protocol  = first.c.protocol;
    assert_string_equal(r.c.model_dir, "dir");
    assert_string_equal(r.c.protocol, "tcp");
    assert_memory_equal(&c, &first.c, sizeof c);
    resolved_clear(&r);

    c      = first.c;
    c.seed = 4;
    replace_ok(&c, &r);
    assert_int_equal(r.c.seed, 4);
    assert_int_equal(r.c.save_summary_steps, EST_OFF);
    assert_int_equal(r.c.keep_checkpoint_max, EST_OFF);
    assert_int_equal(r.c.log_step_count_steps, EST_OFF);
    assert_int_equal(r.c.max_worker_delay_secs, EST_OFF);
    assert_int_equal(r.c.save_checkpoints_steps, 50);
    assert_true(r.c.save_checkpoints_secs == EST_OFF);
    resolved_clear(&r);

    c                        = first.c; /* by time instead */
    c.save_checkpoints_secs  = 30;
    c.save_checkpoints_steps = EST_OFF;
    replace_ok(&c, &r);
    assert_int_equal(r.c.save_checkpoints_steps, EST_OFF);
    assert_true(r.c.save_checkpoints_secs == 30);
    resolved_clear(&r);
    resolved_clear(&first);

    resolve_ok(NULL, &first);
    c                       = first.c; /* "None" for the seconds of a default one: no checkpoints at all */
    c.save_checkpoints_secs = EST_OFF;
    replace_ok(&c, &r);
    assert_int_equal(r.c.save_checkpoints_steps, EST_OFF);
    assert_true(r.c.save_checkpoints_secs == EST_OFF);
    resolved_clear(&r);
    resolved_clear(&first);
}

static void expect_error(const est_run_config *given, const char *model_dir, const char *error)
{
    resolved r;

    assert_int_equal(resolve(given, model_dir, &r), EST_INVALID_ARGUMENT);
    assert_string_equal(est_error_message(), error);
    assert_null(r.resolver);
    assert_int_equal(r.c.struct_size, 0);
    resolved_clear(&r);
}

TEST(refused_numbers)
{
    expect_error(EST_RUN_CONFIG(.save_summary_steps = -1), "d",
                 "RunConfig: save_summary_steps is -1; write a number of steps, 0 for the default or EST_OFF");
    expect_error(EST_RUN_CONFIG(.log_step_count_steps = EST_FOREVER), "d",
                 "RunConfig: log_step_count_steps is -3; write a number of steps, 0 for the default or EST_OFF");
    expect_error(EST_RUN_CONFIG(.save_checkpoints_steps = -10), "d",
                 "RunConfig: save_checkpoints_steps is -10; write a number of steps, 0 for the default or EST_OFF");
    expect_error(EST_RUN_CONFIG(.save_checkpoints_secs = -0.5), "d",
                 "RunConfig: save_checkpoints_secs is -0.5; write a number of seconds, 0 for the default or EST_OFF");
    expect_error(EST_RUN_CONFIG(.save_checkpoints_secs = NAN), "d",
                 "RunConfig: save_checkpoints_secs is nan; write a number of seconds, 0 for the default or EST_OFF");
    expect_error(EST_RUN_CONFIG(.save_checkpoints_secs = INFINITY), "d",
                 "RunConfig: save_checkpoints_secs is inf; write a number of seconds, 0 for the default or EST_OFF");
    expect_error(EST_RUN_CONFIG(.save_checkpoints_steps = 5, .save_checkpoints_secs = 60), "d",
                 "RunConfig: save_checkpoints_steps is 5 and save_checkpoints_secs is 60; they cannot both be set: "
                 "leave one out, or write EST_OFF");
    expect_error(EST_RUN_CONFIG(.keep_checkpoint_max = -1), "d",
                 "RunConfig: keep_checkpoint_max is -1; write how many to keep, 0 for 5 or EST_OFF to keep all");
    expect_error(EST_RUN_CONFIG(.keep_checkpoint_every_n_hours = -1), "d",
                 "RunConfig: keep_checkpoint_every_n_hours is -1; write a number above 0, or 0 for 10000");
    expect_error(EST_RUN_CONFIG(.session_creation_timeout_secs = EST_OFF), "d",
                 "RunConfig: session_creation_timeout_secs is -2.14748e+09; write a number above 0, or 0 for 7200");
    expect_error(EST_RUN_CONFIG(.peer_silence_secs = -1), "d",
                 "RunConfig: peer_silence_secs is -1; write a number above 0, or 0 for 10");
    expect_error(EST_RUN_CONFIG(.session_creation_timeout_secs = NAN), "d",
                 "RunConfig: session_creation_timeout_secs is nan; write a number above 0, or 0 for 7200");
    expect_error(EST_RUN_CONFIG(.max_worker_delay_secs = -1), "d",
                 "RunConfig: max_worker_delay_secs is -1; write a number of seconds, 0 for 60 or EST_OFF for no delay");
    expect_error(EST_RUN_CONFIG(.threads = -1), "d",
                 "RunConfig: threads is -1; write how many, or 0 for as many as there are cores");
}

TEST(refused_words)
{
    static const char *const good[] = { "grpc", "grpc+verbs", "tcp", "tls", "ucx" };
    char                     own[]  = "tls";
    resolved                 r;

    expect_error(
        EST_RUN_CONFIG(.protocol = "http"), "d",
        "RunConfig: protocol is \"http\"; write \"grpc\", \"grpc+verbs\", \"tcp\", \"tls\" or \"ucx\", or leave "
        "it out");
    expect_error(
        EST_RUN_CONFIG(.protocol = ""), "d",
        "RunConfig: protocol is \"\"; write \"grpc\", \"grpc+verbs\", \"tcp\", \"tls\" or \"ucx\", or leave it "
        "out");
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        resolve_ok(EST_RUN_CONFIG(.protocol = good[i]), &r);
        assert_string_equal(r.c.protocol, good[i]);
        resolved_clear(&r);
    }
    resolve_ok(EST_RUN_CONFIG(.protocol = own), &r);
    own[0] = 'x'; /* it was copied */
    assert_string_equal(r.c.protocol, "tls");
    resolved_clear(&r);
}

/* --- strategies --------------------------------------------------------------------------------------------------- */

static est_strategy *some_strategy(void)
{
    est_strategy *s = NULL;

    assert_int_equal(est_parameter_server_strategy(NULL, &s), EST_OK);
    return s;
}

static void expect_status(const est_run_config *given, est_status want, const char *error)
{
    resolved r;

    assert_int_equal(resolve(given, "d", &r), want);
    assert_string_equal(est_error_message(), error);
    assert_null(r.resolver);
    resolved_clear(&r);
}

#define NO_PS                                                                                                              \
    "RunConfig: train_distribute is parameter_server, and %s has no ps tasks; add \"ps\": [\"host:port\", ...], or leave " \
    "it out"
#define NO_EVALUATION "RunConfig: eval_distribute is parameter_server, and evaluations need none; leave it out"

static void expect_no_ps(const est_run_config *given, const char *source)
{
    char error[256];

    snprintf(error, sizeof error, NO_PS, source);
    expect_status(given, EST_INVALID_ARGUMENT, error);
}

/* The lines that TensorFlow logs of a config with a strategy, before the config. */
TEST(strategies_are_logged)
{
    static const char worker[] = "{\"cluster\": {\"worker\": [\"a:1\", \"b:1\"]}, \"task\": {\"type\": \"worker\", "
                                 "\"index\": 0}}";
    est_strategy     *s        = NULL;
    resolved          r;

    assert_int_equal(est_mirrored_strategy(NULL, &s), EST_OK);
    log_clear();
    resolve_ok(EST_RUN_CONFIG(.save_summary_steps = 7), &r);
    resolved_clear(&r);
    assert_false(log_has("distribution strategies"));
    resolve_ok(EST_RUN_CONFIG(.train_distribute = s), &r);
    resolved_clear(&r);
    assert_string_equal(log_line(-3), "info Initializing RunConfig with distribution strategies.");
    assert_string_equal(log_line(-2), "info Not using Distribute Coordinator.");
    assert_memory_equal(log_line(-1), "info Using config: ", 19);
    est_strategy_free(s);

    assert_int_equal(est_multi_worker_mirrored_strategy(EST_MULTI_WORKER_MIRRORED(.cluster_json = worker), &s), EST_OK);
    resolve_ok(EST_RUN_CONFIG(.train_distribute = s), &r);
    resolved_clear(&r);
    assert_string_equal(log_line(-2),
                        "info RunConfig initialized for Distribute Coordinator with INDEPENDENT_WORKER mode");
    est_strategy_free(s);
}

TEST(strategies)
{
    est_strategy *s = some_strategy(), *mirrored = NULL;
    est_cluster  *cluster = NULL;
    const est_job job     = { .name = "worker", .addresses = EST_STRINGS("a:1") };
    resolved      r;

    assert_int_equal(est_mirrored_strategy(NULL, &mirrored), EST_OK);
    resolve_ok(EST_RUN_CONFIG(.train_distribute = mirrored, .eval_distribute = mirrored), &r);
    resolved_clear(&r);
    expect_status(
        EST_RUN_CONFIG(.train_distribute = mirrored,
                       .cluster_json     = "{\"cluster\": {\"chief\": [\"a:1\"], \"ps\": [\"b:1\"]}, "
                                           "\"task\": {\"type\": \"chief\", \"index\": 0}}"),
        EST_INVALID_ARGUMENT,
        "RunConfig: train_distribute is mirrored, and RunConfig.cluster_json has ps tasks; leave them out, or "
        "leave it out");
    est_strategy_free(mirrored);
    mirrored = NULL;
    assert_int_equal(est_multi_worker_mirrored_strategy(EST_MULTI_WORKER_MIRRORED(.cluster_json = "{}"), &mirrored),
                     EST_OK);
    for (int i = 0; i < 2; i++) { /* else workers would join, and each train a model of its own */
        expect_status(
            EST_RUN_CONFIG(.train_distribute = i == 0 ? mirrored : NULL, .eval_distribute = mirrored,
                           .cluster_json = "{\"cluster\": {\"chief\": [\"a:1\"], \"worker\": [\"b:1\"]}, \"task\": "
                                           "{\"type\": \"worker\", \"index\": 0}}"),
            EST_INVALID_ARGUMENT,
            i == 0
                ? "RunConfig: train_distribute is worker 0 of 1, and RunConfig.cluster_json says worker 1 of 2; give "
                  "the cluster in one place: to the strategy, or to all by TF_CONFIG"
                : "RunConfig: eval_distribute is worker 0 of 1, and RunConfig.cluster_json says worker 1 of 2; give "
                  "the cluster in one place: to the strategy, or to all by TF_CONFIG");
    }
    resolve_ok(EST_RUN_CONFIG(.train_distribute = mirrored, .cluster_json = "{}"), &r);
    resolved_clear(&r);
    est_strategy_free(mirrored);
    mirrored = NULL;
    assert_int_equal(est_multi_worker_mirrored_strategy(
                         EST_MULTI_WORKER_MIRRORED(.cluster_json = "{\"cluster\": {\"worker\": [\"a:1\", \"b:1\"]}, "
                                                                   "\"task\": {\"type\": \"worker\", \"index\": 1}}"),
                         &mirrored),
                     EST_OK);
    resolve_ok(EST_RUN_CONFIG(.train_distribute = mirrored, .eval_distribute = mirrored), &r); /* its task, too */
    assert_string_equal(est_resolver_task(r.resolver)->type, "worker");
    assert_int_equal(est_resolver_task(r.resolver)->index, 1);
    assert_int_equal(est_resolver_task(r.resolver)->num_worker_replicas, 2);
    resolved_clear(&r);
    est_strategy_free(mirrored);
    assert_int_equal(est_cluster_create((est_jobs){ &job, 1 }, &cluster), EST_OK);
    expect_no_ps(EST_RUN_CONFIG(.train_distribute = s), "TF_CONFIG");
    expect_status(EST_RUN_CONFIG(.eval_distribute = s), EST_UNIMPLEMENTED, NO_EVALUATION);
    expect_no_ps(EST_RUN_CONFIG(.experimental_distribute = EST_DISTRIBUTE_CONFIG(.train_distribute = s)), "TF_CONFIG");
    resolve_ok(EST_RUN_CONFIG(.train_distribute = s,
                              .cluster_json     = "{\"cluster\": {\"chief\": [\"a:1\"], \"ps\": [\"b:1\"]}, "
                                                  "\"task\": {\"type\": \"chief\", \"index\": 0}}"),
               &r);
    resolved_clear(&r);
    expect_status(
        EST_RUN_CONFIG(.train_distribute = s, .experimental_distribute = EST_DISTRIBUTE_CONFIG(.train_distribute = s)),
        EST_INVALID_ARGUMENT,
        "RunConfig: train_distribute and experimental_distribute.train_distribute are both set; leave one out");
    expect_status(
        EST_RUN_CONFIG(.eval_distribute = s, .experimental_distribute = EST_DISTRIBUTE_CONFIG(.eval_distribute = s)),
        EST_INVALID_ARGUMENT,
        "RunConfig: eval_distribute and experimental_distribute.eval_distribute are both set; leave one out");
    expect_status(
        EST_RUN_CONFIG(.train_distribute = s, .experimental_distribute = EST_DISTRIBUTE_CONFIG(.eval_distribute = s)),
        EST_UNIMPLEMENTED, NO_EVALUATION);
    assert_int_equal(
        resolve(EST_RUN_CONFIG(.experimental_distribute = EST_DISTRIBUTE_CONFIG(.train_distribute = s,
                                                                                .remote_cluster   = cluster)),
                "d", &r),
        EST_UNIMPLEMENTED);
    assert_non_null(strstr(est_error_message(), "experimental_distribute.remote_cluster"));
    resolved_clear(&r);
    assert_int_equal(resolve(EST_RUN_CONFIG(.experimental_distribute = &(est_distribute_config){ 0 }), "d", &r),
                     EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "make it with EST_DISTRIBUTE_CONFIG(...)"));
    resolved_clear(&r);
    resolve_ok(EST_RUN_CONFIG(.experimental_distribute = EST_DISTRIBUTE_CONFIG(.remote_cluster = NULL)), &r);
    assert_null(r.c.experimental_distribute);
    resolved_clear(&r);
    est_cluster_free(cluster);
    est_strategy_free(s);
}

/* --- a resolver in place of TF_CONFIG ----------------------------------------------------------------------------- */

/* As srun sets them for task 2 of 3 on two nodes. */
static void resolve_in_slurm(est_resolver **out)
{
    static const est_job jobs[] = { { .name = "chief", .addresses.n = 1 }, { .name = "worker", .addresses.n = 2 } };

    setenv("SLURM_STEP_NODELIST", "n[1-2]", 1);
    setenv("SLURM_STEP_TASKS_PER_NODE", "2,1", 1);
    setenv("SLURM_PROCID", "2", 1);
    assert_int_equal(est_resolve_slurm(EST_SLURM(.jobs = { jobs, 2 }), NULL, out), EST_OK);
    unsetenv("SLURM_STEP_NODELIST");
    unsetenv("SLURM_STEP_TASKS_PER_NODE");
    unsetenv("SLURM_PROCID");
}

static void assert_slurm_task(const est_task *task)
{
    assert_string_equal(task->type, "worker");
    assert_int_equal(task->index, 1);
    assert_false(task->is_chief);
    assert_int_equal(task->num_worker_replicas, 3);
    assert_string_equal(est_cluster_address(task->cluster, "chief", 0), "n1:8888");
    assert_string_equal(est_cluster_address(task->cluster, "worker", 1), "n2:8888");
    assert_string_equal(task->master, "grpc://n2:8888");
    assert_int_equal(task->global_id, 2);
}

TEST(slurm)
{
    est_resolver *slurm = NULL;
    resolved      r, again;

    setenv("TF_CONFIG", "{\"cluster\": {\"chief\": [\"a:1\"]}, \"task\": {\"type\": \"chief\", \"index\": 0}}", 1);
    resolve_in_slurm(&slurm);
    resolve_ok(EST_RUN_CONFIG(.resolver = slurm), &r);
    est_resolver_free(slurm); /* it was copied */
    unsetenv("TF_CONFIG");
    assert_slurm_task(est_resolver_task(r.resolver));
    resolve_ok(&r.c, &again); /* a copied configuration means the same */
    resolved_clear(&r);
    assert_slurm_task(est_resolver_task(again.resolver));
    resolved_clear(&again);
}

#define PS_CLUSTER "{\"cluster\": {\"chief\": [\"a:1\"], \"worker\": [\"b:1\"], \"ps\": [\"c:1\"]}, \"task\": "

/* The cluster of a strategy is that of its RunConfig. */
TEST(parameter_server_cluster)
{
    est_strategy *s        = NULL;
    est_cluster  *cluster  = NULL;
    est_resolver *resolver = NULL;
    resolved      r;

    assert_int_equal(est_parameter_server_strategy(
                         EST_PARAMETER_SERVER(.cluster_json = PS_CLUSTER "{\"type\": \"worker\", \"index\": 0}}"), &s),
                     EST_OK);
    assert_int_equal(est_strategy_num_replicas_in_sync(s), 1); /* each worker pushes its own gradients */
    resolve_ok(EST_RUN_CONFIG(.train_distribute = s), &r);
    assert_string_equal(est_resolver_task(r.resolver)->type, "worker");
    assert_false(est_resolver_task(r.resolver)->is_chief);
    assert_int_equal(est_resolver_task(r.resolver)->num_ps_replicas, 1);
    resolved_clear(&r);
    resolve_ok(
        EST_RUN_CONFIG(.train_distribute = s, .cluster_json = PS_CLUSTER "{\"type\": \"worker\", \"index\": 0}}"), &r);
    resolved_clear(&r);
    expect_status(
        EST_RUN_CONFIG(.train_distribute = s, .cluster_json = PS_CLUSTER "{\"type\": \"chief\", \"index\": 0}}"),
        EST_INVALID_ARGUMENT,
        "RunConfig: train_distribute is worker 1 of 2, and RunConfig.cluster_json says worker 0 of 2; give "
        "the cluster in one place: to the strategy, or to all by TF_CONFIG");
    est_strategy_free(s);

    assert_int_equal(est_cluster_create(EST_JOBS({ .name = "ps", .addresses = EST_STRINGS("c:1") }), &cluster), EST_OK);
    assert_int_equal(est_resolve_simple(cluster, NULL, 0, NULL, &resolver), EST_OK);
    assert_int_equal(est_parameter_server_strategy(EST_PARAMETER_SERVER(.resolver = resolver), &s), EST_OK);
    expect_status(EST_RUN_CONFIG(.train_distribute = s), EST_INVALID_ARGUMENT,
                  "RunConfig: the resolver is that of a client, which is no task of the cluster; give "
                  "est_resolve_simple the type and index of this task");
    est_strategy_free(s);
    est_resolver_free(resolver);
    est_cluster_free(cluster);
}

TEST(simple_resolver)
{
    est_strategy *s        = some_strategy();
    const est_job job      = { .name = "chief", .addresses = { (const char *const[]){ "a:1" }, 1 } };
    est_cluster  *cluster  = NULL;
    est_resolver *resolver = NULL;
    resolved      r;

    assert_int_equal(est_cluster_create((est_jobs){ &job, 1 }, &cluster), EST_OK);
    assert_int_equal(est_resolve_simple(cluster, "chief", 0, NULL, &resolver), EST_OK);
    resolve_ok(EST_RUN_CONFIG(.resolver = resolver), &r);
    assert_string_equal(est_resolver_task(r.resolver)->type, "chief");
    assert_true(est_resolver_task(r.resolver)->is_chief);
    resolved_clear(&r);
    expect_status(EST_RUN_CONFIG(.resolver = resolver, .cluster_json = "{}"), EST_INVALID_ARGUMENT,
                  "RunConfig: resolver and cluster_json are both set; leave one out");
    est_resolver_free(resolver);
    assert_int_equal(est_resolve_tf_config("{\"model_dir\": \"there\", \"service\": {\"a\": 1}}", NULL, &resolver),
                     EST_OK);
    assert_int_equal(resolve(EST_RUN_CONFIG(.resolver = resolver), "here", &r), EST_INVALID_ARGUMENT);
    assert_string_equal(est_error_message(), "Estimator: model_dir is \"here\", but RunConfig.resolver: model_dir is "
                                             "\"there\"; write the same, or leave one out");
    resolved_clear(&r);
    assert_int_equal(resolve(EST_RUN_CONFIG(.resolver = resolver), NULL, &r), EST_OK);
    est_resolver_free(resolver);
    assert_string_equal(r.c.model_dir, "there");
    assert_string_equal(est_resolver_task(r.resolver)->service, "{\"a\": 1}");
    resolved_clear(&r);
    est_cluster_free(cluster);
    est_strategy_free(s);
}

TEST(resolver_no_memory)
{
    est_resolver *slurm = NULL;
    resolved      r;

    resolve_in_slurm(&slurm);
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_status status;

        fault_arm(&f);
        status = resolve(EST_RUN_CONFIG(.resolver = slurm, .model_dir = "d"), NULL, &r);
        resolved_clear(&r);
        fault_check_lenient(&f, status);
    }
    est_resolver_free(slurm);
}

TEST(struct_size)
{
    est_run_config c = { .save_summary_steps = 7, .quiet = true, .threads = 3 };
    resolved       r;

    assert_int_equal(resolve(&c, "d", &r), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "make it with EST_RUN_CONFIG(...)"));
    resolved_clear(&r);
    c.struct_size = sizeof c + 1;
    assert_int_equal(resolve(&c, "d", &r), EST_INVALID_ARGUMENT);
    resolved_clear(&r);
    c.struct_size = offsetof(est_run_config, threads); /* of a time before threads */
    resolve_ok(&c, &r);
    assert_int_equal(r.c.save_summary_steps, 7);
    assert_int_equal(r.c.threads, 0);
    assert_false(r.c.quiet);
    resolved_clear(&r);
}

/* --- the model directory ------------------------------------------------------------------------------------------ */

static void expect_dir(const char *beside, const char *in_config, const char *tf_config, const char *want)
{
    resolved r;

    setenv("TF_CONFIG", tf_config, 1);
    if (resolve(EST_RUN_CONFIG(.model_dir = in_config), beside, &r) != EST_OK) fail_msg("%s", est_error_message());
    assert_string_equal(r.c.model_dir, want);
    assert_true(r.c.model_dir != in_config); /* copied */
    resolved_clear(&r);
    unsetenv("TF_CONFIG");
}

static void expect_dir_error(const char *beside, const char *in_config, const char *tf_config, const char *error)
{
    setenv("TF_CONFIG", tf_config, 1);
    expect_error(EST_RUN_CONFIG(.model_dir = in_config), beside, error);
    unsetenv("TF_CONFIG");
}

#define LEAVE_OUT "; write the path of a directory, or leave it out"

TEST(model_dir)
{
    static const char a[] = "{\"model_dir\": \"a\"}";

    expect_dir("a", NULL, "{}", "a");
    expect_dir(NULL, "a", "{}", "a");
    expect_dir(NULL, NULL, a, "a");
    log_expect("info Using model_dir in TF_CONFIG: a");
    expect_dir("a", "a", a, "a");
    expect_dir_error("", NULL, "{}", "Estimator: model_dir is \"\"" LEAVE_OUT);
    expect_dir_error(NULL, "", "{}", "RunConfig: model_dir is \"\"" LEAVE_OUT);
    expect_dir_error(NULL, NULL, "{\"model_dir\": \"\"}", "TF_CONFIG: model_dir is \"\"" LEAVE_OUT);
    expect_dir_error(
        "b", "a", "{}",
        "Estimator: model_dir is \"b\", but RunConfig: model_dir is \"a\"; write the same, or leave one out");
    expect_dir_error(
        NULL, "b", a,
        "TF_CONFIG: model_dir is \"a\", but RunConfig: model_dir is \"b\"; write the same, or leave one out");
    expect_dir_error(
        "b", NULL, a,
        "Estimator: model_dir is \"b\", but TF_CONFIG: model_dir is \"a\"; write the same, or leave one out");
}

TEST(temporary_dir)
{
    resolved r;
    char     want[200];

    assert_int_equal(resolve(NULL, NULL, &r), EST_OK);
    assert_true(est_dir_exists(r.c.model_dir));
    assert_memory_equal(r.c.model_dir, scratch, strlen(scratch));
    snprintf(want, sizeof want,
             "info Using default config.\nwarn Using temporary folder as model directory: %s\ninfo Using config: {",
             r.c.model_dir);
    assert_memory_equal(log_text(), want, strlen(want));
    assert_int_equal(rmdir(r.c.model_dir), 0);
    resolved_clear(&r);

    setenv("TMPDIR", "/nowhere/at/all", 1);
    assert_int_equal(resolve(NULL, NULL, &r), EST_NOT_FOUND);
    assert_non_null(strstr(est_error_message(), "cannot make a temporary model directory /nowhere/at/all/estoc-"));
    assert_null(r.resolver);
    resolved_clear(&r);
    setenv("TMPDIR", scratch, 1);
}

/* --- the task ----------------------------------------------------------------------------------------------------- */

static const char two_workers[] =
    "{\"cluster\": {\"worker\": [\"localhost:12345\", \"localhost:23456\"]}, \"task\": {\"type\": \"worker\", \"index\": "
    "1}}";

TEST(cluster)
{
    est_strategy *s = some_strategy();
    resolved      r;

    setenv("TF_CONFIG", two_workers, 1);
    expect_error(NULL, "d",
                 "TF_CONFIG: no strategy for workers without \"ps\" tasks; set train_distribute to an "
                 "est_multi_worker_mirrored_strategy (in a job file run.strategy to multi_worker_mirrored), or add "
                 "\"chief\": [\"host:port\"] and \"ps\" tasks");
    expect_error(EST_RUN_CONFIG(.train_distribute = s), "d", /* nor does a ps give variables their values */
                 "TF_CONFIG: no strategy for workers without \"ps\" tasks; set train_distribute to an "
                 "est_multi_worker_mirrored_strategy (in a job file run.strategy to multi_worker_mirrored), or add "
                 "\"chief\": [\"host:port\"] and \"ps\" tasks");
    est_strategy_free(s);
    resolve_ok(EST_RUN_CONFIG(.cluster_json = "{}"), &r); /* wins over the variable */
    assert_true(est_resolver_task(r.resolver)->is_chief);
    assert_string_equal(r.c.cluster_json, "{}");
    resolved_clear(&r);
    setenv("TF_CONFIG", "", 1); /* as good as not set */
    resolve_ok(NULL, &r);
    assert_true(est_resolver_task(r.resolver)->is_chief);
    resolved_clear(&r);
    unsetenv("TF_CONFIG");
    expect_error(EST_RUN_CONFIG(.cluster_json = two_workers), "d",
                 "RunConfig.cluster_json: no strategy for workers without \"ps\" tasks; set train_distribute to an "
                 "est_multi_worker_mirrored_strategy (in a job file run.strategy to multi_worker_mirrored), or add "
                 "\"chief\": [\"host:port\"] and \"ps\" tasks");
    expect_error(EST_RUN_CONFIG(.cluster_json = ""), "d",
                 "RunConfig.cluster_json is empty; write {} for a program on its own");
    expect_error(EST_RUN_CONFIG(.cluster_json = "{\"model_dir\": \"a\"}", .model_dir = "b"), NULL,
                 "RunConfig.cluster_json: model_dir is \"a\", but RunConfig: model_dir is \"b\"; write the same, or "
                 "leave one out");
}

/* The line is one line of JSON, whatever the model directory is called. */
TEST(text)
{
    static const char want[] =
        "{\"model_dir\": \"a\\\"b\\n\", \"seed\": null, \"save_summary_steps\": 100, \"save_checkpoints_steps\": null, "
        "\"save_checkpoints_secs\": 600, \"keep_checkpoint_max\": null, \"keep_checkpoint_every_n_hours\": 0.5, "
        "\"log_step_count_steps\": null, \"session_creation_timeout_secs\": 7200, \"peer_silence_secs\": 10, \"max_worker_delay_secs\": 60, "
        "\"no_graph_def\": true, \"threads\": null, \"precision\": \"float32\", \"check_numerics\": false, \"no_input_position\": false, "
        "\"no_signals\": false, \"quiet\": false, \"train_distribute\": null, \"eval_distribute\": false, "
        "\"protocol\": \"grpc+verbs\", \"device_fn\": false, \"devices\": [\"/gpu:0\", \"/gpu:1\"], \"no_soft_placement\": true, "
        "\"log_device_placement\": false, \"no_tf32\": true, \"device_memory_limit\": 4096, \"cluster_spec\": {}, \"task_type\": \"evaluator\", \"task_id\": 2, \"is_chief\": false, "
        "\"num_ps_replicas\": 0, \"num_worker_replicas\": 0, \"master\": \"\", \"evaluation_master\": \"\", "
        "\"service\": {\"a\": [1, \"b\"]}, \"global_id_in_cluster\": null}";
    resolved  r;
    est_json *value = NULL;
    char      line[2000];

    est_log_set_level(EST_LOG_DEBUG);
    locale_comma(); /* JSON has a point all the same */
    if (resolve(EST_RUN_CONFIG(.model_dir = "a\"b\n", .keep_checkpoint_max = EST_OFF,
                               .keep_checkpoint_every_n_hours = 0.5, .log_step_count_steps = EST_OFF,
                               .no_graph_def = true, .protocol = "grpc+verbs",
                               .devices = EST_STRINGS("/gpu:0", "/gpu:1"), .no_soft_placement = true, .no_tf32 = true,
                               .device_memory_limit = 4096,
                               .cluster_json        = "{\"cluster\": {\"chief\": [\"a:1\"]}, \"task\": {\"type\": "
                                                      "\"evaluator\", \"index\": 2}, \"service\": {\"a\": [1, \"b\"]}}"),
                NULL, &r) != EST_OK) {
        fail_msg("%s", est_error_message());
    }
    locale_point();
    resolved_clear(&r);
    est_log_set_level(EST_LOG_INFO);
    snprintf(line, sizeof line, "debug Using config: %s\n", want); /* the chief says it to everybody */
    assert_non_null(strstr(log_text(), line));
    assert_int_equal(est_json_parse(want, strlen(want), "the line", &value), EST_OK);
    est_json_free(value);
}

TEST(memory_failures)
{
    setenv("TF_CONFIG", two_workers, 1);
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        resolved   r;
        est_status status;

        fault_arm(&f);
        status = resolve(
            EST_RUN_CONFIG(.cluster_json = "{\"environment\": \"x\", \"service\": {}}", .seed = 5, .protocol = "tls"),
            NULL, &r);
        if (status == EST_OK) assert_int_equal(rmdir(r.c.model_dir), 0);
        resolved_clear(&r);
        fault_check_lenient(&f, status);
    }
    unsetenv("TF_CONFIG");
}

int main(void)
{
    return est_test_run(setup, teardown);
}
