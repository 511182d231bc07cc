/* SPDX-License-Identifier: Apache-2.0
 *
 * deploy/slurm/estoc-task, which makes TF_CONFIG of Slurm's variables in a shell: the same cluster and task as
 * est_resolve_slurm finds, for every task of a step on several hosts. `scripts/test-slurm` runs it under Slurm. */
#include "cli/tool.h"
#include "estoc/cluster.h"

#define WRAPPER EST_SOURCE_DIR "/deploy/slurm/estoc-task"

/* Runs the wrapper around a program that prints TF_CONFIG; returns its exit code, and what it wrote in `out`. */
static int run_wrapper(char *out, size_t size)
{
    FILE  *pipe = popen("bash " WRAPPER " sh -c 'echo \"$TF_CONFIG\"' 2>&1", "re");
    size_t n;
    int    status;

    assert_non_null(pipe);
    n      = fread(out, 1, size - 1, pipe);
    out[n] = '\0';
    status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void expect_same(const est_task *got, const est_task *want)
{
    assert_string_equal(got->type, want->type);
    assert_int_equal(got->index, want->index);
    assert_int_equal(est_cluster_jobs(got->cluster), est_cluster_jobs(want->cluster));
    for (int j = 0; j < est_cluster_jobs(want->cluster); j++) {
        const char *job = est_cluster_job(want->cluster, j);

        assert_int_equal(est_cluster_tasks(got->cluster, job), est_cluster_tasks(want->cluster, job));
        for (int i = 0; i < est_cluster_tasks(want->cluster, job); i++) {
            assert_string_equal(est_cluster_address(got->cluster, job, i), est_cluster_address(want->cluster, job, i));
        }
    }
}

/* Slurm's variables for a step of seven tasks on three hosts, and its program that expands the list of hosts. */
static int make_step(void **state)
{
    char path[4096];

    if (est_test_root_make(state) != 0) return 1;
    tool_write_text("scontrol", "#!/bin/sh\n[ \"$*\" = 'show hostnames n[01-02],m5' ] && printf 'n01\\nn02\\nm5\\n'\n");
    chmod(tool_path("scontrol"), 0700);
    snprintf(path, sizeof path, "%s:%s", est_test_root, getenv("PATH"));
    setenv("PATH", path, 1);
    setenv("SLURM_JOB_ID", "1234", 1);
    setenv("SLURM_STEP_NODELIST", "n[01-02],m5", 1);
    setenv("SLURM_STEP_TASKS_PER_NODE", "2(x2),3", 1);
    setenv("SLURM_STEP_NUM_TASKS", "7", 1);
    setenv("SLURM_PROCID", "0", 1);
    return 0;
}

static void expect_as_the_library(const est_job *jobs, int n_jobs)
{
    setenv("ESTOC_PORT", "8888", 1);
    for (int rank = 0; rank < 7; rank++) {
        est_resolver *ours, *theirs;
        char          number[16], config[4096];

        snprintf(number, sizeof number, "%d", rank);
        setenv("SLURM_PROCID", number, 1);
        assert_int_equal(run_wrapper(config, sizeof config), 0);
        tool_check(est_resolve_slurm(EST_SLURM(.jobs = { jobs, n_jobs }), EST_TASK_RULES(.no_chief_ok = true), &ours));
        tool_check(est_resolve_tf_config(config, EST_TASK_RULES(.no_chief_ok = true), &theirs));
        expect_same(est_resolver_task(theirs), est_resolver_task(ours));
        est_resolver_free(ours);
        est_resolver_free(theirs);
    }
    unsetenv("ESTOC_PORT");
}

TEST(same_as_the_library)
{
    static const est_job servers[] = { { .name = "chief", .addresses = { NULL, 1 } },
                                       { .name = "worker", .addresses = { NULL, 4 } },
                                       { .name = "ps", .addresses = { NULL, 2 } } };
    static const est_job workers[] = { { .name = "worker", .addresses = { NULL, 7 } } };

    setenv("ESTOC_PS", "2", 1);
    expect_as_the_library(servers, 3);
    setenv("ESTOC_PS", "0", 1);
    setenv("ESTOC_NO_CHIEF", "1", 1);
    expect_as_the_library(workers, 1);
    unsetenv("ESTOC_PS");
    unsetenv("ESTOC_NO_CHIEF");
}

/* The last task evaluates and is not in the cluster; without a chief worker 0 is one; ports depend on the job. */
TEST(evaluator_without_chief)
{
    char config[4096];

    setenv("ESTOC_EVALUATOR", "1", 1);
    setenv("ESTOC_NO_CHIEF", "1", 1);
    setenv("SLURM_PROCID", "6", 1);
    assert_int_equal(run_wrapper(config, sizeof config), 0);
    tool_expect_text(config,
                     "{\"cluster\": {\"worker\": [\"n01:19360\", \"n01:19361\", \"n02:19360\", \"n02:19361\", "
                     "\"m5:19360\", \"m5:19361\"]}, \"task\": {\"type\": \"evaluator\", \"index\": 0}}\n",
                     "TF_CONFIG");
    unsetenv("ESTOC_EVALUATOR");
    unsetenv("ESTOC_NO_CHIEF");
}

static void expect_refusal(const char *name, const char *value, const char *message)
{
    char before[64] = "", out[4096];
    bool had        = getenv(name) != NULL;

    if (had) snprintf(before, sizeof before, "%s", getenv(name));
    setenv(name, value, 1);
    assert_int_equal(run_wrapper(out, sizeof out), 2);
    tool_expect_part(out, message, "the message");
    if (had) {
        setenv(name, before, 1);
    } else {
        unsetenv(name);
    }
}

TEST(refusals)
{
    expect_refusal("SLURM_STEP_NODELIST", "", "SLURM_STEP_NODELIST is not set; start it with srun");
    expect_refusal("SLURM_DISTRIBUTION", "cyclic", "call srun with --distribution=block, not cyclic");
    expect_refusal("SLURM_STEP_NUM_TASKS", "8", "which does not add up to 8 tasks");
    expect_refusal(
        "SLURM_STEP_TASKS_PER_NODE", "2(x2),41",
        "41 tasks are to share a host, and a job has 40 ports; set ESTOC_PORT to the first of 41 that are free");
    setenv("ESTOC_PORT", "8888", 1); /* who names ports has as many as there are */
    expect_refusal("SLURM_STEP_TASKS_PER_NODE", "2(x2),41", "which does not add up to 7 tasks");
    unsetenv("ESTOC_PORT");
    expect_refusal("ESTOC_PS", "7", "7 tasks are too few for 1 chief, 7 ps and 0 evaluator");
}

int main(void)
{
    return est_test_run(make_step, est_test_root_remove);
}
