/* SPDX-License-Identifier: Apache-2.0
 *
 * Strategies as objects: what each is made with, what it refuses and says then, and how many replicas it has where. */
#include "strategy/strategy.h"
#include "base/fault.h"
#include "cluster/cluster.h"
#include "estoc/input.h"
#include "estoc/log.h"
#include "support/fault_loop.h"
#include "support/log_test.h"
#include "support/nn_test.h"

#define CLUSTER           "{\"chief\": [\"a:1\"], \"worker\": [\"b:1\", \"c:1\"], \"evaluator\": [\"d:1\"]}"
#define TASK(type, index) "{\"cluster\": " CLUSTER ", \"task\": {\"type\": \"" type "\", \"index\": " #index "}}"
#define DEVICES(...)      .devices = EST_STRINGS(__VA_ARGS__)

static void expect_replicas(est_status status, est_strategy *const *made, const char *name, int n)
{
    const est_strategy *s = *made;

    assert_ok(status);
    assert_string_equal(est_strategy_name(s), name);
    assert_int_equal(est_strategy_replicas(s).n, n);
    assert_int_equal(est_strategy_num_replicas_in_sync(s), n);
    assert_false(est_strategy_needs_no_chief(s));
    assert_false(est_strategy_replicas(s).across_workers);
}

static void expect_text(const est_strategy *s, const char *want)
{
    est_strbuf text = { 0 };

    est_strategy_text(s, &text);
    assert_string_equal(est_strbuf_text(&text), want);
    est_strbuf_clear(&text);
}

TEST(local)
{
    est_strategy *s = NULL;

    expect_replicas(EST_OK, &s, "default", 1);
    expect_replicas(est_one_device_strategy("/device:CPU:0", &s), &s, "one_device", 1);
    est_strategy_free(s);
    expect_replicas(est_mirrored_strategy(NULL, &s), &s, "mirrored", 1);
    est_strategy_free(s);
    expect_replicas(est_mirrored_strategy(EST_MIRRORED(.replicas = 3), &s), &s, "mirrored", 3);
    expect_text(s, "{\"name\": \"mirrored\", \"replicas\": 3}");
    est_strategy_free(s);
    expect_replicas(est_mirrored_strategy(EST_MIRRORED(DEVICES("/cpu:0", "/job:localhost/device:CPU:1")), &s), &s,
                    "mirrored", 2);
    est_strategy_free(s);
    expect_replicas(est_central_storage_strategy(NULL, &s), &s, "central_storage", 1);
    est_strategy_free(s);
    expect_replicas(est_central_storage_strategy(EST_CENTRAL_STORAGE(.replicas = 2, .parameter_device = "/cpu:0"), &s),
                    &s, "central_storage", 2);
    est_strategy_free(s);
    expect_replicas(est_parameter_server_strategy(NULL, &s), &s, "parameter_server", 1);
    est_strategy_free(s);
}

/* --- multi_worker_mirrored ---------------------------------------------------------------------------------------- */

static void expect_worker(const char *json, int workers, int worker)
{
    est_strategy     *s       = NULL;
    est_input_context context = { .seed = 5 };

    assert_ok(est_multi_worker_mirrored_strategy(EST_MULTI_WORKER_MIRRORED(.replicas = 2, .cluster_json = json), &s));
    assert_string_equal(est_strategy_name(s), "multi_worker_mirrored");
    assert_true(est_strategy_needs_no_chief(s));
    assert_int_equal(s->self.size, workers);
    assert_int_equal(s->self.rank, worker);
    assert_int_equal(s->self.replicas, 2);
    assert_ptr_equal(s->self.task, est_resolver_task(est_strategy_resolver(s)));
    assert_int_equal(est_strategy_evaluators(s), workers);
    assert_int_equal(est_strategy_num_replicas_in_sync(s), 2 * workers);
    assert_int_equal(est_strategy_replicas(s).n, 2);
    assert_int_equal(est_strategy_replicas(s).first_global, 2 * worker);
    assert_int_equal(est_strategy_replicas(s).across_workers, workers > 1);
    est_strategy_input_context(s, &context);
    assert_int_equal(context.n_pipelines, workers);
    assert_int_equal(context.pipeline, worker);
    assert_int_equal(context.num_replicas_in_sync, 2 * workers);
    assert_int_equal(context.seed, 5);
    est_strategy_free(s);
}

/* A job file always gives a number, so 1 is logged wherever it came from; a user who named devices has chosen. */
TEST(one_replica_is_told)
{
    est_strategy *s = NULL;

    log_keep(EST_LOG_INFO);
    assert_ok(est_mirrored_strategy(NULL, &s));
    est_strategy_free(s);
    log_expect("mirrored: 1 replica; set replicas to have more");
    log_clear();
    assert_ok(est_central_storage_strategy(NULL, &s));
    est_strategy_free(s);
    log_expect("central_storage: 1 replica; set replicas to have more");
    log_clear();
    assert_ok(est_mirrored_strategy(EST_MIRRORED(.replicas = 2), &s));
    est_strategy_free(s);
    assert_ok(est_mirrored_strategy(EST_MIRRORED(DEVICES("/cpu:0")), &s));
    est_strategy_free(s);
    log_release();
    assert_false(log_has("set replicas"));
}

/* The lines that TensorFlow logs of new strategies. */
TEST(words_of_tensorflow)
{
    static const char cluster[] = "{\"cluster\": {\"worker\": [\"a:1\", \"b:2\"]}, \"task\": {\"type\": \"worker\", "
                                  "\"index\": 1}}";
    est_strategy     *s         = NULL;

    log_keep(EST_LOG_INFO);
    assert_ok(est_mirrored_strategy(NULL, &s));
    est_strategy_free(s);
    assert_string_equal(log_line(0),
                        "info Using MirroredStrategy with devices ('/job:localhost/replica:0/task:0/device:CPU:0',)");
    log_clear();
    assert_ok(est_mirrored_strategy(EST_MIRRORED(DEVICES("/cpu:3", "/device:CPU:1")), &s));
    est_strategy_free(s);
    assert_string_equal(log_text(),
                        "info Using MirroredStrategy with devices ('/job:localhost/replica:0/task:0/device:CPU:3', "
                        "'/job:localhost/replica:0/task:0/device:CPU:1')\n");
    log_clear();
    assert_ok(est_multi_worker_mirrored_strategy(EST_MULTI_WORKER_MIRRORED(.cluster_json = "{}"), &s));
    est_strategy_free(s);
    assert_string_equal(log_line(0), "info Using MirroredStrategy with devices ('/device:CPU:0',)");
    assert_string_equal(log_line(1), "info Single-worker MultiWorkerMirroredStrategy with local_devices = "
                                     "('/device:CPU:0',), communication = CommunicationImplementation.AUTO");
    assert_string_equal(log_line(2), "info multi_worker_mirrored: single-worker mode");
    log_clear();
    assert_ok(est_multi_worker_mirrored_strategy(
        EST_MULTI_WORKER_MIRRORED(.communication = EST_COMMUNICATION_RING, .replicas = 2, .cluster_json = cluster),
        &s));
    est_strategy_free(s);
    log_release();
    assert_string_equal(log_line(0), "info Using MirroredStrategy with devices "
                                     "('/job:worker/replica:0/task:1/device:CPU:0', "
                                     "'/job:worker/replica:0/task:1/device:CPU:1')");
    assert_string_equal(log_line(1), "info MultiWorkerMirroredStrategy with cluster_spec = {'worker': ['a:1', 'b:2']}, "
                                     "task_type = 'worker', task_id = 1, num_workers = 2, local_devices = "
                                     "('/job:worker/replica:0/task:1/device:CPU:0', "
                                     "'/job:worker/replica:0/task:1/device:CPU:1'), communication = "
                                     "CommunicationImplementation.RING");
}

TEST(workers)
{
    est_input_context context  = { .n_pipelines = 7, .pipeline = 3 };
    est_strategy     *s        = NULL;
    est_resolver     *resolver = NULL;

    expect_worker(TASK("chief", 0), 3, 0);
    expect_worker(TASK("worker", 1), 3, 2);
    expect_worker(TASK("evaluator", 0), 1, 0);
    expect_worker("{\"cluster\": {\"worker\": [\"b:1\", \"c:1\"]}, \"task\": {\"type\": \"worker\", \"index\": 1}}", 2,
                  1);
    expect_worker("{\"cluster\": {\"master\": [\"a:1\"], \"worker\": [\"b:1\"]}, \"task\": {\"type\": \"worker\", "
                  "\"index\": 0}}",
                  2, 1);
    expect_worker("{\"cluster\": {\"chief\": [\"a:1\"], \"worker\": {\"1\": \"b:1\", \"4\": \"c:1\"}}, \"task\": "
                  "{\"type\": \"worker\", \"index\": 4}}",
                  3, 2);
    expect_worker("{}", 1, 0);
    est_strategy_input_context(NULL, &context);
    assert_true(context.n_pipelines == 1 && context.pipeline == 0 && context.num_replicas_in_sync == 1);

    assert_ok(est_resolve_tf_config(TASK("worker", 0), EST_TASK_RULES(.no_chief_ok = true), &resolver));
    assert_ok(est_multi_worker_mirrored_strategy(
        EST_MULTI_WORKER_MIRRORED(.resolver = resolver, .communication = EST_COMMUNICATION_RING, .bytes_per_pack = 1000,
                                  .timeout_secs = 3, .rejoin_secs = EST_FOREVER, .elastic = true),
        &s));
    est_resolver_free(resolver); /* it was copied */
    assert_int_equal(s->self.rank, 1);
    assert_string_equal(s->self.task->type, "worker");
    expect_text(s,
                "{\"name\": \"multi_worker_mirrored\", \"replicas\": 1, \"workers\": 3, \"communication\": \"ring\", "
                "\"bytes_per_pack\": 1000, \"timeout_secs\": 3, \"rejoin_secs\": -3, \"elastic\": true}");
    est_strategy_free(s);
}

/* --- what is refused ---------------------------------------------------------------------------------------------- */

static void expect_refused(est_status got, est_status code, const char *text)
{
    assert_int_equal(got, code);
    if (strstr(est_error_message(), text) == NULL) fail_msg("%s", est_error_message());
}

TEST(tpu)
{
    est_strategy *strategy = NULL;

    assert_int_equal(est_tpu_strategy(&strategy), EST_UNIMPLEMENTED);
    assert_non_null(strstr(est_error_message(), "est_multi_worker_mirrored_strategy"));
    assert_null(strategy);
}

TEST(refused)
{
    est_strategy *s   = NULL;
    est_resolver *own = NULL;

    expect_refused(est_one_device_strategy("/gpu:9", &s), EST_INVALID_ARGUMENT, "there is no device \"/gpu:9\"");
    expect_refused(est_one_device_strategy("cpu", &s), EST_INVALID_ARGUMENT, "the device is \"cpu\"");
    expect_refused(est_one_device_strategy(NULL, &s), EST_INVALID_ARGUMENT, "a device is missing");
    expect_refused(est_one_device_strategy("/job:worker", &s), EST_INVALID_ARGUMENT, "there is no device");
    expect_refused(est_one_device_strategy("/cpu:*", &s), EST_INVALID_ARGUMENT, "there is no device");
    expect_refused(est_mirrored_strategy(EST_MIRRORED(DEVICES("/cpu:0", "/device:CPU:0")), &s), EST_INVALID_ARGUMENT,
                   "no duplicates are allowed among devices: \"/cpu:0\" and \"/device:CPU:0\"");
    expect_refused(est_mirrored_strategy(EST_MIRRORED(DEVICES("/cpu:0", "/gpu:9")), &s), EST_INVALID_ARGUMENT,
                   "mirrored: there is no device \"/gpu:9\"");
    expect_refused(est_mirrored_strategy(EST_MIRRORED(DEVICES("/cpu:0"), .replicas = 2), &s), EST_INVALID_ARGUMENT,
                   "2 replicas on 1 devices");
    expect_refused(est_mirrored_strategy(EST_MIRRORED(.replicas = -1), &s), EST_INVALID_ARGUMENT, "-1 replicas");
    expect_refused(est_mirrored_strategy(EST_MIRRORED(.replicas = 1000), &s), EST_INVALID_ARGUMENT, "1000 replicas");
    expect_refused(est_mirrored_strategy(EST_MIRRORED(.devices.n = 2), &s), EST_INVALID_ARGUMENT, "devices.n is 2");
    expect_refused(est_mirrored_strategy(&(const est_mirrored_options){ 0 }, &s), EST_INVALID_ARGUMENT, "EST_MIRRORED");
    expect_refused(est_central_storage_strategy(EST_CENTRAL_STORAGE(.parameter_device = "/gpu:9"), &s),
                   EST_INVALID_ARGUMENT, "central_storage: there is no device \"/gpu:9\"");
    expect_refused(est_multi_worker_mirrored_strategy(EST_MULTI_WORKER_MIRRORED(.communication = 99), &s),
                   EST_INVALID_ARGUMENT, "communication is 99");
    expect_refused(est_multi_worker_mirrored_strategy(EST_MULTI_WORKER_MIRRORED(.bytes_per_pack = -1), &s),
                   EST_INVALID_ARGUMENT, "bytes_per_pack is -1");
    expect_refused(est_multi_worker_mirrored_strategy(EST_MULTI_WORKER_MIRRORED(.timeout_secs = -1), &s),
                   EST_INVALID_ARGUMENT, "timeout_secs is -1");
    expect_refused(est_multi_worker_mirrored_strategy(EST_MULTI_WORKER_MIRRORED(.rejoin_secs = (double)NAN), &s),
                   EST_INVALID_ARGUMENT, "rejoin_secs is");
    expect_refused(
        est_multi_worker_mirrored_strategy(
            EST_MULTI_WORKER_MIRRORED(.cluster_json = "{\"cluster\": {\"ps\": [\"a:1\"], \"chief\": [\"c:1\"], "
                                                      "\"worker\": [\"b:1\"]}, \"task\": {\"type\": \"ps\", "
                                                      "\"index\": 0}}"),
            &s),
        EST_INVALID_ARGUMENT, "this task is a ps");
    expect_refused(est_multi_worker_mirrored_strategy(
                       EST_MULTI_WORKER_MIRRORED(.cluster_json = "{\"cluster\": {\"worker\": [\"a:1\", \"b:1\"]}, "
                                                                 "\"task\": {\"type\": \"worker\", \"index\": 12}}"),
                       &s),
                   EST_INVALID_ARGUMENT, "cluster_json: task.index is 12");
    assert_ok(est_resolve_tf_config("{}", NULL, &own));
    expect_refused(
        est_multi_worker_mirrored_strategy(EST_MULTI_WORKER_MIRRORED(.resolver = own, .cluster_json = "{}"), &s),
        EST_INVALID_ARGUMENT, "both set");
    est_resolver_free(own);
    assert_null(s);
}

TEST(memory_is_out)
{
    est_strategy *s = NULL;

    est_log_set_level(EST_LOG_WARN); /* a line that there is no memory for is not missed */
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_status status;

        fault_arm(&f);
        status = est_multi_worker_mirrored_strategy(EST_MULTI_WORKER_MIRRORED(.cluster_json = TASK("worker", 1)), &s);
        fault_check(&f, status);
        assert_int_equal(s == NULL, f.fired);
    }
    est_strategy_free(s);
    s = NULL;
    est_fault_arm_alloc(1);
    assert_int_equal(est_mirrored_strategy(NULL, &s), EST_RESOURCE_EXHAUSTED);
    est_fault_arm_alloc(1);
    assert_int_equal(est_one_device_strategy("/cpu:0", &s), EST_RESOURCE_EXHAUSTED);
    est_fault_arm_alloc(0);
    assert_null(s);
}
