/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs whose tasks are killed, stopped and cut off at random moments. All end with exit code 0 at exactly max_steps, no update
 * is made twice, what was learned is what an undisturbed job learns, and nothing is left behind. In several modes: what the
 * tasks promise each other is another for each. Workers that train together end with exactly the variables of an undisturbed job.
 *
 * What happens is drawn from a seed and printed before it does. ESTOC_CHAOS_SEEDS=20 runs so many seeds (`make chaos`),
 * ESTOC_CHAOS_SEED=7 begins with that one, ESTOC_CHAOS_MODE=sync runs one mode only, ESTOC_CHAOS_CALM=1 disturbs nobody. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "net/transport.h"
#include "support/estimator_test.h"
#include "support/flood_test.h"
#include "support/together_test.h"

#define EVENTS 12
#define TASKS  6
#define MANY   20

typedef struct mode {
    const char *name, *transport;
    const char *word; /* for the job; NULL: none */
    int         steps;
    double      loss_max,
        loss_mean_max; /* of one job; of MANY. 0: workers train together, and end with the same variables */
    int flood;         /* connections of a stranger, at a ps, while the rest happens */
} mode;

/* Of 24 undisturbed jobs (ESTOC_CHAOS_CALM=1, seeds 1 to 24) the losses at the end were 0.008 to 0.039, mean 0.0231, standard
 * deviation 0.0096; before training the loss is above 1. A ps that goes back to a checkpoint gives the last steps a longer tail
 * (0.060 was seen), so one job is bounded by the mean plus 8 deviations, and the mean of many by that of undisturbed ones plus
 * 6 of its own, of 20. Of 24 synchronous ones the losses were 0.006 to 0.032, mean 0.0170, deviation 0.0078. */
static mode modes[] = {
    { "async", "tcp", NULL, 6000, 0.1, 0.036 },
    { "sync", "tcp", "sync=2", 3000, 0.08, 0.028 }, /* of three trainers: one is to spare */
    { "consistent", "tcp", "consistent=1", 6000, 0.1, 0.036 },
    { "tls", "tls", NULL, 6000, 0.1, 0.036, 400 },
    { "ucx", "ucx", NULL, 6000, 0.1, 0.036 },
    { "together", "tcp", NULL, 3000, 0, 0 },
    { "together_keys", "tcp", "dynamic=1", 3000, 0, 0 }, /* dynamic embeddings, with admission and eviction */
};

#define N_MODES (sizeof modes / sizeof modes[0])

typedef enum act { KILL, STOP, CUT, N_ACTS } act;

static const char *const act_names[N_ACTS] = { "kill", "stop", "cut" };

typedef struct event {
    int     task; /* of the cluster */
    act     what;
    int64_t at_ms, until_ms; /* since the beginning: it happens, and is over */
    bool    begun, ended;
} event;

/* A number below n, by splitmix64. */
static int64_t draw(uint64_t *seed, int64_t n)
{
    uint64_t z = (*seed += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (int64_t)((z ^ (z >> 31)) % (uint64_t)n);
}

/* Nothing happens to a task to which something happens already. */
static void draw_events(const cluster *c, uint64_t seed, event *events)
{
    int64_t free_ms[TASKS] = { 0 }, now_ms = 300;

    printf("seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < EVENTS; i++) {
        event *e = &events[i];

        now_ms += 100 + draw(&seed, 900);
        *e = (event){ .what = (act)draw(&seed, N_ACTS), .task = (int)draw(&seed, c->n) };
        for (; free_ms[e->task] > now_ms; now_ms += 10) e->task = (int)draw(&seed, c->n); /* all may be busy */
        e->at_ms         = now_ms;
        e->until_ms      = now_ms + (e->what == CUT ? 0 : draw(&seed, e->what == STOP ? 3000 : 1500));
        free_ms[e->task] = e->until_ms + 200;
        printf("  %5lld ms: %s %s:%d for %lld ms\n", (long long)e->at_ms, act_names[e->what], c->tasks[e->task].type,
               c->tasks[e->task].index, (long long)(e->until_ms - e->at_ms));
    }
    (void)fflush(stdout);
}

static void begin_event(cluster *c, event *e)
{
    cluster_task *task = &c->tasks[e->task];

    e->begun = true;
    e->ended = cluster_look(task); /* it has done its part */
    if (e->ended) return;
    cluster_signal(task, e->what == KILL ? SIGKILL : e->what == STOP ? SIGSTOP : SIGUSR1);
    if (e->what == KILL) cluster_wait(c, task, 10);
}

static void end_event(cluster *c, event *e)
{
    cluster_task *task = &c->tasks[e->task];

    e->ended = true;
    if (e->what == KILL) cluster_start(c, task);
    if (e->what == STOP) cluster_signal(task, SIGCONT);
}

static void disturb(cluster *c, event *events)
{
    int64_t start = est_now_ns();
    bool    over;

    do {
        int64_t now_ms = (est_now_ns() - start) / 1000000;

        over = true;
        for (int i = 0; i < EVENTS; i++) {
            event *e = &events[i];

            if (!e->begun && now_ms >= e->at_ms) begin_event(c, e);
            if (e->begun && !e->ended && now_ms >= e->until_ms) end_event(c, e);
            over = over && e->ended;
        }
        est_sleep_ns(EST_NS_PER_SEC / 200);
    } while (!over);
}

/* A stranger at a ps meanwhile: which one, from how many addresses and how follows from the seed. */
static void disturb_flooded(cluster *c, event *events, int n, uint64_t seed)
{
    static flood  f;
    cluster_task *ps = cluster_find(c, "ps", (int)draw(&seed, 2));

    f = (flood){ .port        = (int)strtol(strrchr(ps->address, ':') + 1, NULL, 10),
                 .n           = n,
                 .n_addresses = 1 + (int)draw(&seed, 20),
                 .speaks      = draw(&seed, 2) == 1 };
    printf("  %d connections to ps:%d from %d addresses, which say %s\n", f.n, ps->index, f.n_addresses,
           f.speaks ? "little" : "nothing");
    flood_start(&f);
    disturb(c, events);
    flood_stop(&f);
}

static double run_seed(const mode *m, uint64_t seed, bool calm)
{
    cluster c = cluster_make(1, 2, 2, 1);
    event   events[EVENTS];
    char    steps[32], job_seed[32];
    double  loss;
    long    runs;

    assert_int_equal(c.n, TASKS);
    c.transport = m->transport;
    snprintf(steps, sizeof steps, "steps=%d", m->steps);
    snprintf(job_seed, sizeof job_seed, "seed=%llu", (unsigned long long)seed);
    c.args[0] = steps;
    c.args[1] = "save=100";
    c.args[2] = "silence=1";
    c.args[3] = "timeout=60";
    c.args[4] = "pause_us=2000";
    c.args[5] = job_seed;
    c.args[6] = m->word;
    if (!calm) draw_events(&c, seed, events);
    cluster_start_all(&c);
    if (!calm && m->flood > 0) {
        disturb_flooded(&c, events, m->flood, seed);
    } else if (!calm) {
        disturb(&c, events);
    }
    cluster_wait_all(&c, 90);
    assert_int_equal(cluster_saved_step(&c), m->steps);
    runs = cluster_check_ledgers(&c);
    cluster_check_clean(&c);
    loss = cluster_job_loss(c.model);
    printf("%s, seed %llu: %ld runs that wrote, loss %.4f\n", m->name, (unsigned long long)seed, runs, loss);
    if (!(loss < m->loss_max)) fail_msg("loss %g is not below %g", loss, m->loss_max);
    cluster_free(&c);
    return loss;
}

/* Workers that train together, chief and all. */
static void run_together(const mode *m, uint64_t seed, bool calm)
{
    cluster c = together_make(3, "", m->word), quiet = together_make(3, "", m->word);
    event   events[EVENTS];
    char    steps[32], job_seed[32];

    snprintf(steps, sizeof steps, "steps=%d", m->steps);
    snprintf(job_seed, sizeof job_seed, "seed=%llu", (unsigned long long)seed);
    c.args[0] = quiet.args[0] = steps;
    c.args[TOGETHER_ARGS] = quiet.args[TOGETHER_ARGS] = job_seed;
    c.args[TOGETHER_SILENCE]                          = "silence=1";
    quiet.args[TOGETHER_PAUSE]                        = "pause_us=0";
    cluster_start_all(&quiet);
    cluster_wait_all(&quiet, 60);
    if (!calm) draw_events(&c, seed, events);
    cluster_start_all(&c);
    if (!calm) disturb(&c, events);
    cluster_wait_all(&c, 90);
    together_assert_same(&quiet, &c);
    printf("%s, seed %llu: the same variables\n", m->name, (unsigned long long)seed);
    together_end(&quiet, m->steps);
    together_end(&c, m->steps);
}

static uint64_t from_environment(const char *name, uint64_t usual)
{
    const char *text = getenv(name);

    return text != NULL && text[0] != '\0' ? strtoull(text, NULL, 10) : usual;
}

static void test_chaos(void **state)
{
    uint64_t    first = from_environment("ESTOC_CHAOS_SEED", 1), n = from_environment("ESTOC_CHAOS_SEEDS", 1);
    bool        calm = from_environment("ESTOC_CHAOS_CALM", 0) != 0;
    double      sum  = 0;
    const mode *m    = *state;

    if (strcmp(m->transport, "ucx") == 0 && est_transport_ucx.check() != EST_OK) {
        print_message("left out: %s\n", est_error_message());
        skip();
    }
    if (m->loss_max == 0) {
        for (uint64_t i = 0; i < n; i++) run_together(m, first + i, calm);
        return;
    }
    for (uint64_t i = 0; i < n; i++) sum += run_seed(m, first + i, calm);
    if (n >= MANY && sum / (double)n > m->loss_mean_max) {
        fail_msg("the mean loss is %g, above %g", sum / (double)n, m->loss_mean_max);
    }
}

int main(int argc, char **argv)
{
    const char       *only = getenv("ESTOC_CHAOS_MODE");
    struct CMUnitTest tests[N_MODES];
    size_t            n = 0;

    cluster_task_main(argc, argv, cluster_job_task);
    for (size_t i = 0; i < N_MODES; i++) {
        if (only != NULL && only[0] != '\0' && strcmp(only, modes[i].name) != 0) continue;
        tests[n++] = (struct CMUnitTest){ .name = modes[i].name, .test_func = test_chaos, .initial_state = &modes[i] };
    }
    if (n == 0) {
        fprintf(stderr, "ESTOC_CHAOS_MODE: there is no mode %s\n", only);
        return 1;
    }
    return _cmocka_run_group_tests("chaos", tests, n, NULL, NULL);
}
