/* SPDX-License-Identifier: Apache-2.0
 *
 * TF_CONFIG and the rules behind it: a table of descriptions with the task or the error that each gives. The same rules
 * are compared with TensorFlow's by tests/interop/run_config.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster.h"
#include "estoc/log.h"
#include "support/fault_loop.h"
#include "support/log_test.h"
#include "support/test.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* --- what is logged ----------------------------------------------------------------------------------------------- */

static int setup(void **state)
{
    (void)state;
    unsetenv("TF_CONFIG");
    log_keep(EST_LOG_INFO);
    return 0;
}

/* --- tasks -------------------------------------------------------------------------------------------------------- */

/* "type index chief ps workers id master evaluation_master" */
static void print_task(const est_task *task, char out[300])
{
    snprintf(out, 300, "%s %d %s ps %d workers %d id %d '%s' '%s'", task->type, task->index,
             task->is_chief ? "chief" : "-", task->num_ps_replicas, task->num_worker_replicas, task->global_id,
             task->master, task->evaluation_master);
}

/* The cluster of the usual example: a chief, three workers, two parameter servers. */
#define HOSTS                                                                                                          \
    "\"chief\": [\"host0:2222\"], \"worker\": [\"host1:2222\", \"host2:2222\", \"host3:2222\"], \"ps\": "              \
    "[\"host4:2222\", \"host5:2222\"]"
#define OLD_HOSTS         "\"master\": [\"m:1\"], \"worker\": [\"a:1\", \"b:1\"], \"ps\": [\"c:1\"]"
#define TASK(type, index) "\"task\": {\"type\": \"" type "\", \"index\": " index "}"

/* clang-format off */
static const struct {
    const char *json, *task;
} good[] = {
    /* no cluster */
    { "{}", "worker 0 chief ps 0 workers 1 id 0 '' ''" },
    { " {}\n", "worker 0 chief ps 0 workers 1 id 0 '' ''" },
    { "{\"cluster\": {}}", "worker 0 chief ps 0 workers 1 id 0 '' ''" },
    { "{\"task\": {}}", "worker 0 chief ps 0 workers 1 id 0 '' ''" },
    { "{" TASK("worker", "0") "}", "worker 0 chief ps 0 workers 1 id 0 '' ''" },
    { "", "worker 0 chief ps 0 workers 1 id 0 '' ''" },
    { " \n", "worker 0 chief ps 0 workers 1 id 0 '' ''" },
    { "{" TASK("worker", "\"0\"") "}", "worker 0 chief ps 0 workers 1 id 0 '' ''" },
    { "{\"task\": {\"type\": \"worker\"}}", "worker 0 chief ps 0 workers 1 id 0 '' ''" },
    { "{\"session_master\": \"grpc://x:1\", \"eval_session_master\": \"y\"}",
      "worker 0 chief ps 0 workers 1 id 0 'grpc://x:1' 'y'" },
    { "{\"session_master\": null, \"model_dir\": null, \"service\": null}", "worker 0 chief ps 0 workers 1 id 0 '' ''" },
    /* the usual example, every task */
    { "{\"cluster\": {" HOSTS "}, " TASK("chief", "0") "}", "chief 0 chief ps 2 workers 4 id 0 'grpc://host0:2222' ''" },
    { "{\"cluster\": {" HOSTS "}, " TASK("worker", "0") "}", "worker 0 - ps 2 workers 4 id 1 'grpc://host1:2222' ''" },
    { "{\"cluster\": {" HOSTS "}, " TASK("worker", "1") "}", "worker 1 - ps 2 workers 4 id 2 'grpc://host2:2222' ''" },
    { "{\"cluster\": {" HOSTS "}, " TASK("worker", "2") "}", "worker 2 - ps 2 workers 4 id 3 'grpc://host3:2222' ''" },
    { "{\"cluster\": {" HOSTS "}, " TASK("worker", "\"2\"") "}", "worker 2 - ps 2 workers 4 id 3 'grpc://host3:2222' ''" },
    { "{\"cluster\": {" HOSTS "}, " TASK("ps", "0") "}", "ps 0 - ps 2 workers 4 id 4 'grpc://host4:2222' ''" },
    { "{\"cluster\": {" HOSTS "}, " TASK("ps", "1") "}", "ps 1 - ps 2 workers 4 id 5 'grpc://host5:2222' ''" },
    { "{\"cluster\": {" HOSTS "}, " TASK("evaluator", "0") "}", "evaluator 0 - ps 0 workers 0 id -1 '' ''" },
    { "{\"cluster\": {" HOSTS "}, " TASK("evaluator", "7") "}", "evaluator 7 - ps 0 workers 0 id -1 '' ''" },
    /* masters: that of the session is for all but evaluators, that of the evaluation only for them */
    { "{\"cluster\": {" HOSTS "}, " TASK("ps", "1") ", \"session_master\": \"m\", \"eval_session_master\": \"e\"}",
      "ps 1 - ps 2 workers 4 id 5 'm' ''" },
    { "{\"cluster\": {" HOSTS "}, " TASK("ps", "1") ", \"session_master\": \"\"}", "ps 1 - ps 2 workers 4 id 5 '' ''" },
    { "{\"cluster\": {" HOSTS "}, " TASK("evaluator", "0") ", \"session_master\": \"m\", \"eval_session_master\": \"e\"}",
      "evaluator 0 - ps 0 workers 0 id -1 '' 'e'" },
    /* a cluster of one talks to no one; an empty job is a second job */
    { "{\"cluster\": {\"chief\": [\"a:1\"]}, " TASK("chief", "0") "}", "chief 0 chief ps 0 workers 1 id 0 '' ''" },
    { "{\"cluster\": {\"chief\": [\"a:1\"], \"ps\": []}, " TASK("chief", "0") "}",
      "chief 0 chief ps 0 workers 1 id 0 'grpc://a:1' ''" },
    /* other jobs come by name, ps last; an evaluator within the cluster shifts the numbers */
    { "{\"cluster\": {" HOSTS ", \"evaluator\": [\"e:1\"]}, " TASK("worker", "0") "}",
      "worker 0 - ps 2 workers 4 id 2 'grpc://host1:2222' ''" },
    { "{\"cluster\": {" HOSTS ", \"evaluator\": [\"e:1\"]}, " TASK("evaluator", "0") "}",
      "evaluator 0 - ps 0 workers 0 id -1 '' ''" },
    { "{\"cluster\": {" HOSTS ", \"zoo\": [\"z:1\"], \"aux\": [\"x:1\"]}, " TASK("zoo", "0") "}",
      "zoo 0 - ps 2 workers 4 id 5 'grpc://z:1' ''" },
    { "{\"cluster\": {" HOSTS ", \"zoo\": [\"z:1\"], \"aux\": [\"x:1\"]}, " TASK("ps", "0") "}",
      "ps 0 - ps 2 workers 4 id 6 'grpc://host4:2222' ''" },
    /* gaps: replicas are those that are there, numbers count the gaps */
    { "{\"cluster\": {\"chief\": [\"a:1\"], \"worker\": {\"0\": \"b:1\", \"3\": \"c:1\"}, \"ps\": {\"1\": \"d:1\"}}, "
      TASK("ps", "1") "}", "ps 1 - ps 1 workers 3 id 6 'grpc://d:1' ''" },
    /* the old name of the chief */
    { "{\"cluster\": {" OLD_HOSTS "}, " TASK("master", "0") "}", "master 0 chief ps 1 workers 3 id 0 'grpc://m:1' ''" },
    { "{\"cluster\": {" OLD_HOSTS "}, " TASK("worker", "1") "}", "worker 1 - ps 1 workers 3 id 2 'grpc://b:1' ''" },
    { "{\"cluster\": {" OLD_HOSTS "}, " TASK("ps", "0") "}", "ps 0 - ps 1 workers 3 id 3 'grpc://c:1' ''" },
};

/* Where a strategy needs no chief. */
static const struct {
    const char *json, *task;
} good_without_chief[] = {
    { "{\"cluster\": {\"worker\": [\"localhost:12345\", \"localhost:23456\"]}, " TASK("worker", "0") "}",
      "worker 0 chief ps 0 workers 2 id 0 'grpc://localhost:12345' ''" },
    { "{\"cluster\": {\"worker\": [\"localhost:12345\", \"localhost:23456\"]}, " TASK("worker", "1") "}",
      "worker 1 - ps 0 workers 2 id 1 'grpc://localhost:23456' ''" },
    { "{\"cluster\": {\"worker\": [\"a:1\"]}, " TASK("worker", "0") "}", "worker 0 chief ps 0 workers 1 id 0 '' ''" },
    { "{\"cluster\": {\"aux\": [\"x:1\"], \"worker\": [\"a:1\"], \"ps\": [\"p:1\"]}, " TASK("worker", "0") "}",
      "worker 0 chief ps 1 workers 1 id 0 'grpc://a:1' ''" },
    { "{\"cluster\": {\"aux\": [\"x:1\"], \"worker\": [\"a:1\"], \"ps\": [\"p:1\"]}, " TASK("ps", "0") "}",
      "ps 0 - ps 1 workers 1 id 2 'grpc://p:1' ''" },
    { "{\"cluster\": {\"evaluator\": [\"host7:1\"]}, " TASK("evaluator", "0") "}",
      "evaluator 0 - ps 0 workers 0 id -1 '' ''" },
    { "{" TASK("evaluator", "0") "}", "evaluator 0 - ps 0 workers 0 id -1 '' ''" },
    { "{\"cluster\": {\"worker\": [\"a:1\"]}, " TASK("evaluator", "0") "}", "evaluator 0 - ps 0 workers 0 id -1 '' ''" },
    { "{\"cluster\": {" HOSTS "}, " TASK("worker", "0") "}", "worker 0 - ps 2 workers 4 id 1 'grpc://host1:2222' ''" },
    { "{\"cluster\": {" OLD_HOSTS "}, " TASK("worker", "0") "}", "worker 0 - ps 1 workers 3 id 1 'grpc://a:1' ''" },
};

static const struct {
    const char *json, *error;
} bad[] = {
    /* the text */
    { "{\"task\"", "TF_CONFIG is not JSON: line 1, column 7: ':' expected near end of file" },
    { "{'cluster': {}}", "TF_CONFIG is not JSON: line 1, column 2: string or '}' expected near '''" },
    { "[]", "TF_CONFIG: the whole is []; write an object with \"cluster\" and \"task\"" },
    { "null", "TF_CONFIG: the whole is null; write an object with \"cluster\" and \"task\"" },
    /* types of fields */
    { "{\"cluster\": null}", "TF_CONFIG: cluster is null; write an object of jobs, as {\"worker\": [\"10.0.0.1:2222\"]}" },
    { "{\"cluster\": \"x\"}", "TF_CONFIG: cluster is \"x\"; write an object of jobs, as {\"worker\": [\"10.0.0.1:2222\"]}" },
    { "{\"cluster\": {\"chief\": \"a:1\"}}", "TF_CONFIG: cluster.chief is \"a:1\"; write a list of addresses, as [\"10.0.0.1:2222\"]" },
    { "{\"cluster\": {\"chief\": [1]}}", "TF_CONFIG: cluster.chief[0] is 1; write \"host:port\", as \"10.0.0.1:2222\"" },
    { "{\"task\": null}", "TF_CONFIG: task is null; write an object, as {\"type\": \"worker\", \"index\": 0}" },
    { "{\"task\": []}", "TF_CONFIG: task is []; write an object, as {\"type\": \"worker\", \"index\": 0}" },
    { "{\"task\": {\"type\": 5}}", "TF_CONFIG: task.type is 5; write the name of a job in quotes, as \"worker\"" },
    { "{\"task\": {\"type\": null}}", "TF_CONFIG: task.type is null; write the name of a job in quotes, as \"worker\"" },
    { "{\"service\": 5}", "TF_CONFIG: service is 5; write an object, or leave it out" },
    { "{\"service\": []}", "TF_CONFIG: service is []; write an object, or leave it out" },
    { "{\"session_master\": 1}", "TF_CONFIG: session_master is 1; write a string, or leave it out" },
    { "{\"eval_session_master\": 1}", "TF_CONFIG: eval_session_master is 1; write a string, or leave it out" },
    { "{\"environment\": {}}", "TF_CONFIG: environment is {}; write a string, or leave it out" },
    { "{\"rpc_layer\": 0}", "TF_CONFIG: rpc_layer is 0; write a string, or leave it out" },
    { "{\"model_dir\": 1}", "TF_CONFIG: model_dir is 1; write a string, or leave it out" },
    { "{\"model_dir\": \"\"}", "TF_CONFIG: model_dir is \"\"; write the path of a directory, or leave it out" },
    /* no cluster */
    { "{" TASK("ps", "0") "}", "TF_CONFIG: task.type is \"ps\" and there is no cluster; write \"worker\" or leave it out, "
                               "or list the tasks in \"cluster\"" },
    { "{" TASK("evaluator", "0") "}", "TF_CONFIG: task.type is \"evaluator\" and there is no cluster; write \"worker\" or "
                                      "leave it out, or list the tasks in \"cluster\"" },
    { "{" TASK("", "0") "}", "TF_CONFIG: task.type is \"\" and there is no cluster; write \"worker\" or leave it out, or "
                             "list the tasks in \"cluster\"" },
    { "{" TASK("worker", "1") "}", "TF_CONFIG: task.index is 1 and there is no cluster; write 0 or leave it out, or list "
                                   "the tasks in \"cluster\"" },
    { "{" TASK("worker", "-1") "}", "TF_CONFIG: task.index is -1 and there is no cluster; write 0 or leave it out, or list "
                                    "the tasks in \"cluster\"" },
    { "{" TASK("worker", "0.5") "}", "TF_CONFIG: task.index is 0.5 and there is no cluster; write 0 or leave it out, or "
                                     "list the tasks in \"cluster\"" },
    { "{" TASK("worker", "\"1\"") "}", "TF_CONFIG: task.index is \"1\" and there is no cluster; write 0 or leave it out, "
                                       "or list the tasks in \"cluster\"" },
    { "{" TASK("worker", "\"x\"") "}", "TF_CONFIG: task.index is \"x\" and there is no cluster; write 0 or leave it out, "
                                       "or list the tasks in \"cluster\"" },
    { "{" TASK("worker", "null") "}", "TF_CONFIG: task.index is null and there is no cluster; write 0 or leave it out, or "
                                      "list the tasks in \"cluster\"" },
    /* the chief */
    { "{\"cluster\": {\"worker\": [\"localhost:12345\", \"localhost:23456\"]}, " TASK("worker", "0") "}",
      "TF_CONFIG: no strategy for workers without \"ps\" tasks; set train_distribute to an "
      "est_multi_worker_mirrored_strategy (in a job file run.strategy to multi_worker_mirrored), or add "
      "\"chief\": [\"host:port\"] and \"ps\" tasks" },
    { "{\"cluster\": {\"evaluator\": [\"e:1\"]}, " TASK("evaluator", "0") "}",
      "TF_CONFIG: the cluster has no job \"chief\"; add \"chief\": [\"host:port\"]" },
    { "{\"cluster\": {\"chief\": []}, " TASK("chief", "0") "}", "TF_CONFIG: cluster.chief has 0 addresses; write exactly one" },
    { "{\"cluster\": {\"chief\": [\"a:1\", \"b:1\"]}, " TASK("chief", "0") "}",
      "TF_CONFIG: cluster.chief has 2 addresses; write exactly one and list the others as \"worker\"" },
    { "{\"cluster\": {\"master\": [\"a:1\", \"b:1\"]}, " TASK("master", "0") "}",
      "TF_CONFIG: cluster.master has 2 addresses; write exactly one and list the others as \"worker\"" },
    { "{\"cluster\": {\"master\": [\"a:1\"], \"chief\": [\"b:1\"]}, " TASK("master", "0") "}",
      "TF_CONFIG: the cluster has a job \"master\" and a job \"chief\"; keep \"chief\", of which \"master\" is the old name" },
    /* the type */
    { "{\"cluster\": {" HOSTS "}}",
      "TF_CONFIG: task.type is missing; write which task this is: \"chief\", \"ps\", \"worker\" or \"evaluator\"" },
    { "{\"cluster\": {" HOSTS "}, \"task\": {\"index\": 0}}",
      "TF_CONFIG: task.type is missing; write which task this is: \"chief\", \"ps\", \"worker\" or \"evaluator\"" },
    { "{\"cluster\": {" HOSTS "}, " TASK("", "0") "}",
      "TF_CONFIG: task.type is \"\"; write \"chief\", \"ps\", \"worker\" or \"evaluator\"" },
    { "{\"cluster\": {" HOSTS "}, " TASK("wroker", "0") "}",
      "TF_CONFIG: task.type is \"wroker\"; write \"chief\", \"ps\", \"worker\" or \"evaluator\"" },
    { "{\"cluster\": {" HOSTS "}, " TASK("master", "0") "}",
      "TF_CONFIG: task.type is \"master\"; write \"chief\", \"ps\", \"worker\" or \"evaluator\"" },
    { "{\"cluster\": {" OLD_HOSTS "}, " TASK("evaluator", "0") "}",
      "TF_CONFIG: task.type is \"evaluator\"; write \"master\", \"ps\", \"worker\": a cluster with a \"master\" has no "
      "evaluator" },
    { "{\"cluster\": {" OLD_HOSTS ", \"evaluator\": [\"e:1\"]}, " TASK("evaluator", "0") "}",
      "TF_CONFIG: task.type is \"evaluator\"; write \"master\", \"ps\", \"worker\": a cluster with a \"master\" has no "
      "evaluator" },
    /* the index */
    { "{\"cluster\": {" HOSTS "}, \"task\": {\"type\": \"worker\"}}",
      "TF_CONFIG: task.index is missing; write a number from 0 to 2: there are 3 of worker" },
    { "{\"cluster\": {" HOSTS "}, " TASK("worker", "null") "}", "TF_CONFIG: task.index is null; write a number from 0 to 2: there are 3 of worker" },
    { "{\"cluster\": {" HOSTS "}, " TASK("worker", "\"x\"") "}", "TF_CONFIG: task.index is \"x\"; write a number from 0 to 2: there are 3 of worker" },
    { "{\"cluster\": {" HOSTS "}, " TASK("worker", "\"\"") "}", "TF_CONFIG: task.index is \"\"; write a number from 0 to 2: there are 3 of worker" },
    { "{\"cluster\": {" HOSTS "}, " TASK("worker", "\"-1\"") "}", "TF_CONFIG: task.index is \"-1\"; write a number from 0 to 2: there are 3 of worker" },
    { "{\"cluster\": {" HOSTS "}, " TASK("worker", "-1") "}", "TF_CONFIG: task.index is -1; write a number from 0 to 2: there are 3 of worker" },
    { "{\"cluster\": {" HOSTS "}, " TASK("worker", "3") "}", "TF_CONFIG: task.index is 3; write a number from 0 to 2: there are 3 of worker" },
    { "{\"cluster\": {" HOSTS "}, " TASK("worker", "\"3\"") "}", "TF_CONFIG: task.index is \"3\"; write a number from 0 to 2: there are 3 of worker" },
    { "{\"cluster\": {" HOSTS "}, " TASK("worker", "9000000000") "}",
      "TF_CONFIG: task.index is 9000000000; write a number from 0 to 2: there are 3 of worker" },
    { "{\"cluster\": {" HOSTS "}, " TASK("worker", "\"99999999999999999999\"") "}",
      "TF_CONFIG: task.index is \"99999999999999999999\"; write a number from 0 to 2: there are 3 of worker" },
    { "{\"cluster\": {" HOSTS "}, " TASK("worker", "1.5") "}", "TF_CONFIG: task.index is 1.5; write a number from 0 to 2: there are 3 of worker" },
    { "{\"cluster\": {" HOSTS "}, " TASK("worker", "true") "}", "TF_CONFIG: task.index is true; write a number from 0 to 2: there are 3 of worker" },
    { "{\"cluster\": {" HOSTS "}, " TASK("chief", "1") "}", "TF_CONFIG: task.index is 1; write 0" },
    { "{\"cluster\": {" HOSTS "}, " TASK("evaluator", "-1") "}", "TF_CONFIG: task.index is -1; write 0" },
    { "{\"cluster\": {" HOSTS "}, \"task\": {\"type\": \"evaluator\"}}", "TF_CONFIG: task.index is missing; write 0" },
    { "{\"cluster\": {\"chief\": [\"a:1\"], \"worker\": {\"0\": \"b:1\", \"2\": \"c:1\"}}, " TASK("worker", "1") "}",
      "TF_CONFIG: cluster.worker has no address for index 1; add it, or write another task.index" },
    { "{\"cluster\": {\"chief\": [\"a:1\"], \"worker\": []}, " TASK("worker", "0") "}",
      "TF_CONFIG: cluster.worker has no address; add one, or write another task.type" },
    /* addresses; the second is from a tutorial, whose reader has to put in a number */
    { "{\"cluster\": {\"chief\": [\"a:1\"], \"worker\": [\"b\"]}, " TASK("chief", "0") "}",
      "TF_CONFIG: cluster.worker[0] is \"b\"; write \"host:port\", as \"10.0.0.1:2222\"" },
    { "{\"cluster\": {\"worker\": [\"host1:port\", \"host2:port\", \"host3:port\"], \"ps\": [\"host4:port\", \"host5:port\"], "
      "\"chief\": [\"host6:port\"]}, " TASK("worker", "1") "}",
      "TF_CONFIG: cluster.worker[0] is \"host1:port\"; write a port from 1 to 65535 after the colon, as \"10.0.0.1:2222\"" },
    { "{\"cluster\": {\"chief\": [\"a:1\"], \"worker\": [\"b:1\", \"a:1\"]}, " TASK("chief", "0") "}",
      "TF_CONFIG: cluster.chief[0] and cluster.worker[1] are both \"a:1\"; give every task an address of its own" },
};

static const struct {
    const char *json, *error;
} bad_without_chief[] = {
    { "{\"cluster\": {\"ps\": [\"a:1\"]}, " TASK("ps", "0") "}",
      "TF_CONFIG: the cluster has no job \"chief\" and no \"worker\" that could be it; add \"chief\": [\"host:port\"]" },
    { "{\"cluster\": {\"ps\": [\"a:1\"], \"worker\": []}, " TASK("ps", "0") "}",
      "TF_CONFIG: the cluster has no job \"chief\" and no \"worker\" that could be it; add \"chief\": [\"host:port\"]" },
    { "{\"cluster\": {\"chief\": [\"a:1\", \"b:1\"]}, " TASK("evaluator", "0") "}",
      "TF_CONFIG: cluster.chief has 2 addresses; write exactly one and list the others as \"worker\"" },
    { "{\"cluster\": {" OLD_HOSTS "}, " TASK("evaluator", "0") "}",
      "TF_CONFIG: task.type is \"evaluator\"; write \"master\", \"ps\", \"worker\": a cluster with a \"master\" has no "
      "evaluator" },
    { "{" TASK("evaluator", "-1") "}", "TF_CONFIG: task.index is -1; write 0" },
    { "{" TASK("ps", "0") "}", "TF_CONFIG: task.type is \"ps\" and there is no cluster; write \"worker\" or leave it out, "
                               "or list the tasks in \"cluster\"" },
};
/* clang-format on */

static void expect_task(const char *json, const est_task_rules *rules, const char *want)
{
    est_resolver *resolver = NULL;
    char          got[300];

    if (est_resolve_tf_config(json, rules, &resolver) != EST_OK) fail_msg("%s: %s", json, est_error_message());
    print_task(est_resolver_task(resolver), got);
    if (strcmp(got, want) != 0) fail_msg("%s: %s, not %s", json, got, want);
    assert_non_null(est_resolver_task(resolver)->cluster);
    est_resolver_free(resolver);
}

static void expect_error(const char *json, const est_task_rules *rules, const char *want)
{
    est_resolver *resolver = NULL;

    if (est_resolve_tf_config(json, rules, &resolver) != EST_INVALID_ARGUMENT) fail_msg("%s is accepted", json);
    if (strcmp(est_error_message(), want) != 0) fail_msg("%s: %s, not %s", json, est_error_message(), want);
    assert_null(resolver);
}

TEST(tasks)
{
    for (size_t i = 0; i < COUNT(good); i++) expect_task(good[i].json, NULL, good[i].task);
    for (size_t i = 0; i < COUNT(good_without_chief); i++) {
        expect_task(good_without_chief[i].json, EST_TASK_RULES(.no_chief_ok = true), good_without_chief[i].task);
    }
}

TEST(errors)
{
    for (size_t i = 0; i < COUNT(bad); i++) expect_error(bad[i].json, NULL, bad[i].error);
    for (size_t i = 0; i < COUNT(bad_without_chief); i++) {
        expect_error(bad_without_chief[i].json, EST_TASK_RULES(.no_chief_ok = true), bad_without_chief[i].error);
    }
}

TEST(all_fields)
{
    static const char json[] = "{\"cluster\": {" HOSTS "}, " TASK(
        "worker", "2") ", \"model_dir\": \"gs://x\", "
                       "\"environment\": \"cloud\", \"service\": {\"a\": 1}, \"rpc_layer\": \"grpc\"}";
    est_resolver   *resolver = NULL;
    const est_task *task;

    assert_int_equal(est_resolve_tf_config(json, NULL, &resolver), EST_OK);
    task = est_resolver_task(resolver);
    assert_string_equal(task->model_dir, "gs://x");
    assert_string_equal(task->environment, "cloud");
    assert_string_equal(task->service, "{\"a\": 1}");
    assert_string_equal(est_cluster_address(task->cluster, "worker", 2), "host3:2222");
    est_resolver_free(resolver);
    assert_int_equal(est_resolve_tf_config("{}", NULL, &resolver), EST_OK);
    task = est_resolver_task(resolver);
    assert_null(task->model_dir);
    assert_string_equal(task->environment, "");
    assert_null(task->service);
    assert_int_equal(est_cluster_jobs(task->cluster), 0);
    est_resolver_free(resolver);
    assert_int_equal(est_resolve_tf_config("{\"cluster\": {" HOSTS "}, " TASK("evaluator", "0") "}", NULL, &resolver),
                     EST_OK);
    assert_int_equal(est_cluster_jobs(est_resolver_task(resolver)->cluster), 0); /* none of its business */
    est_resolver_free(resolver);
    est_resolver_free(NULL);
}

TEST(environment)
{
    expect_task(NULL, NULL, "worker 0 chief ps 0 workers 1 id 0 '' ''");
    log_clear();
    setenv("TF_CONFIG", "{\"cluster\": {\"chief\": [\"a:1\"]}, \"task\": {\"type\": \"chief\", \"index\": 0}}", 1);
    expect_task(NULL, NULL, "chief 0 chief ps 0 workers 1 id 0 '' ''");
    assert_string_equal(log_text(),
                        "info TF_CONFIG environment variable: {\"cluster\": {\"chief\": [\"a:1\"]}, \"task\": "
                        "{\"type\": \"chief\", \"index\": 0}}\n");
    expect_task("{}", NULL, "worker 0 chief ps 0 workers 1 id 0 '' ''"); /* a text wins */
    setenv("TF_CONFIG", "", 1);                                          /* as good as not set */
    expect_task(NULL, NULL, "worker 0 chief ps 0 workers 1 id 0 '' ''");
    unsetenv("TF_CONFIG");
}

/* The warnings of a description that is accepted. */
static void expect_warnings(const char *json, const char *want)
{
    est_resolver *resolver = NULL;

    log_clear();
    est_log_set_level(EST_LOG_WARN);
    assert_int_equal(est_resolve_tf_config(json, NULL, &resolver), EST_OK);
    est_log_set_level(EST_LOG_INFO);
    est_resolver_free(resolver);
    assert_string_equal(log_text(), want);
}

TEST(unknown_keys)
{
    expect_warnings("{\"clsuter\": {\"chief\": [\"a:1\"]}}",
                    "warn TF_CONFIG: clsuter is not known and not used; did you mean cluster?\n");
    expect_warnings("{\"Task\": {\"type\": \"ps\"}}",
                    "warn TF_CONFIG: Task is not known and not used; did you mean task?\n");
    expect_warnings(
        "{\"evalsession_master\": \"\"}",
        "warn TF_CONFIG: evalsession_master is not known and not used; did you mean eval_session_master?\n");
    expect_warnings("{\"job\": {}, \"\": 1}", "warn TF_CONFIG: job is not known and not used\n"
                                              "warn TF_CONFIG:  is not known and not used\n");
    expect_warnings("{\"task\": {\"indx\": 1, \"trial\": \"1\"}}",
                    "warn TF_CONFIG: task.indx is not known and not used; did you mean task.index?\n"
                    "warn TF_CONFIG: task.trial is not known and not used\n");
    expect_warnings("{\"cluster\": {\"chief\": [\"a:1\"], \"workers\": [\"b:1\"], \"aux\": [\"c:1\"]}, "
                    "\"task\": {\"type\": \"chief\", \"index\": 0}}",
                    "warn TF_CONFIG: the job \"workers\" has no meaning of its own; did you mean \"worker\"?\n");
    expect_warnings("{\"cluster\": {" HOSTS "}, " TASK("ps", "0") "}", "");
}

/* As in Python the last one counts; whoever wrote it meant something else. */
TEST(duplicate_keys)
{
    est_cluster *cluster = NULL;

    expect_warnings("{\"cluster\": {\"chief\": [\"a:1\"], \"worker\": [\"b:1\"], \"worker\": [\"c:1\"]}, "
                    "\"task\": {\"type\": \"chief\", \"index\": 0}}",
                    "warn TF_CONFIG: line 1, column 58: duplicate object key near '\"worker\"'; the last one counts\n");
    log_clear();
    assert_int_equal(est_cluster_parse("{\"ps\": [\"a:1\"], \"ps\": [\"b:1\"]}", "cluster_json", &cluster), EST_OK);
    assert_string_equal(est_cluster_find(cluster, "ps")->addresses.data[0], "b:1");
    log_expect("warn cluster_json: line 1");
    est_cluster_free(cluster);
}

TEST(simple)
{
    static const char *const addresses[] = { "a:1", "b:1" };
    est_cluster             *cluster     = NULL;
    est_resolver            *resolver    = NULL;
    char                     got[300];

    assert_int_equal(
        est_cluster_create((est_jobs){ &(est_job){ .name = "worker", .addresses = { addresses, 2 } }, 1 }, &cluster),
        EST_OK);
    assert_int_equal(est_resolve_simple(cluster, "worker", 0, NULL, &resolver), EST_INVALID_ARGUMENT);
    assert_string_equal(
        est_error_message(),
        "cluster: no strategy for workers without \"ps\" tasks; set train_distribute to an "
        "est_multi_worker_mirrored_strategy (in a job file run.strategy to multi_worker_mirrored), or add "
        "\"chief\": [\"host:port\"] and \"ps\" tasks");
    assert_int_equal(est_resolve_simple(cluster, "worker", 2, EST_TASK_RULES(.no_chief_ok = true), &resolver),
                     EST_INVALID_ARGUMENT);
    assert_string_equal(est_error_message(), "cluster: index is 2; write a number from 0 to 1: there are 2 of worker");
    assert_null(resolver);
    assert_int_equal(est_resolve_simple(cluster, "worker", 1, EST_TASK_RULES(.no_chief_ok = true), &resolver), EST_OK);
    est_cluster_free(cluster); /* it was copied */
    print_task(est_resolver_task(resolver), got);
    assert_string_equal(got, "worker 1 - ps 0 workers 2 id 1 'grpc://b:1' ''");
    assert_string_equal(est_cluster_address(est_resolver_task(resolver)->cluster, "worker", 0), "a:1");
    est_resolver_free(resolver);
    assert_int_equal(est_resolve_simple(NULL, NULL, 0, NULL, &resolver), EST_OK);
    print_task(est_resolver_task(resolver), got);
    assert_string_equal(got, "worker 0 chief ps 0 workers 1 id 0 '' ''");
    est_resolver_free(resolver);
}

/* A program that drives a cluster without being a task of it. */
TEST(client)
{
    est_cluster    *cluster  = NULL;
    est_resolver   *resolver = NULL, *copy = NULL;
    const est_task *task;

    assert_int_equal(est_cluster_create(EST_JOBS({ .name = "worker", .addresses = EST_STRINGS("a:1", "b:1") },
                                                 { .name = "ps", .addresses = EST_STRINGS("c:1") }),
                                        &cluster),
                     EST_OK);
    assert_int_equal(est_resolve_simple(cluster, NULL, 0, NULL, &resolver), EST_OK);
    assert_int_equal(est_resolver_copy(resolver, &copy), EST_OK);
    est_resolver_free(resolver);
    task = est_resolver_task(copy);
    assert_null(task->type);
    assert_true(task->is_chief);
    assert_int_equal(task->index, 0);
    assert_int_equal(task->global_id, -1);
    assert_int_equal(task->num_ps_replicas, 1);
    assert_int_equal(task->num_worker_replicas, 2);
    assert_string_equal(task->master, "");
    assert_string_equal(est_cluster_address(task->cluster, "ps", 0), "c:1");
    est_resolver_free(copy);
    /* TF_CONFIG describes a task: one that leaves it out is a mistake. */
    assert_int_equal(est_resolve_tf_config("{\"cluster\": {\"chief\": [\"a:1\"]}}", NULL, &resolver),
                     EST_INVALID_ARGUMENT);
    assert_string_equal(est_error_message(),
                        "TF_CONFIG: task.type is missing; write which task this is: \"chief\" or \"evaluator\"");
    est_cluster_free(cluster);
}

TEST(struct_size)
{
    est_resolver  *resolver = NULL;
    est_task_rules rules    = { 0 };

    assert_int_equal(est_resolve_tf_config("{}", &rules, &resolver), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "make it with EST_TASK_RULES(...)"));
    rules.struct_size = sizeof rules + 1;
    assert_int_equal(est_resolve_tf_config("{}", &rules, &resolver), EST_INVALID_ARGUMENT);
    rules.struct_size = sizeof rules.struct_size; /* of a time without the other fields */
    rules.no_chief_ok = true;
    assert_int_equal(est_resolve_tf_config("{" TASK("evaluator", "0") "}", &rules, &resolver), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "there is no cluster"));
    assert_null(resolver);
}

static const char whole[] =
    "{\"cluster\": {\"chief\": [\"a:1\"], \"ps\": {\"1\": \"b:1\"}}, \"task\": {\"type\": \"ps\", \"index\": \"1\"}, "
    "\"environment\": \"cloud\", \"model_dir\": \"d\", \"service\": {}, \"odd\": 1}";

TEST(damage)
{
    static const char bytes[] = { '\0', '"', '[', '}', ':', '9', 'x', '\x80', '\n' };
    char              copy[sizeof whole];

    est_log_set_level(EST_LOG_OFF);
    for (size_t i = 0; i < sizeof whole - 1; i++) {
        for (size_t k = 0; k < sizeof bytes; k++) {
            est_resolver *resolver = NULL;

            memcpy(copy, whole, sizeof whole);
            copy[i] = bytes[k];
            if (est_resolve_tf_config(copy, NULL, &resolver) == EST_OK) assert_non_null(resolver);
            est_resolver_free(resolver);
        }
    }
    est_log_set_level(EST_LOG_INFO);
}

/* Every allocation fails once, for a good description and for one with an error in each part. */
TEST(memory_failures)
{
    static const char *const texts[] = {
        whole,
        "{}",
        "{\"cluster\": {" HOSTS "}, " TASK("evaluator", "0") "}",
        "{\"cluster\": {" HOSTS "}, " TASK("wroker", "0") "}",
        "{\"cluster\": {" HOSTS "}, " TASK("worker", "9") "}",
        "{\"cluster\": {\"chief\": [7]}}",
    };

    for (size_t i = 0; i < COUNT(texts); i++) {
        est_status want = i < 3 ? EST_OK : EST_INVALID_ARGUMENT;

        FAULT_LOOP(f, FAULT_ALLOCATIONS) {
            est_resolver *resolver = NULL;
            est_status    status;

            fault_arm(&f);
            status = est_resolve_tf_config(texts[i], NULL, &resolver);
            est_resolver_free(resolver);
            assert_true((fault_end(&f) && status == EST_RESOURCE_EXHAUSTED) ||
                        status == want); /* a log line may be lost */
        }
    }
}

int main(void)
{
    return est_test_run(setup, NULL);
}
