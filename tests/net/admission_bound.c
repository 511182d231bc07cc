/* SPDX-License-Identifier: Apache-2.0
 *
 * How many peers may wait for a disk to say whether they are let in. Apart from tests/net/admission.c, whose transports
 * load a library: the leak sanitizer cannot look at threads that were there before. */
#include <sys/resource.h>

#include "base/log.h"
#include "support/slow_admission.h"

#define DESCRIPTORS 64 /* of which a quarter is for those who are not let in yet */
#define COMERS      (DESCRIPTORS / 4 + 1)

static void note_drop(void *user, est_log_level level, int64_t wall_ns, const char *line)
{
    slow_disk *d = user;

    (void)level;
    (void)wall_ns;
    if (strstr(line, "too many connections wait for admission") == NULL) return;
    pthread_mutex_lock(&d->lock);
    d->dropped = true;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
}

/* Whoever says a name and waits for the disk still takes one of the places that strangers have. */
TEST(bounded)
{
    slow_disk       d       = { .admission = EST_ADMITTED };
    est_net_options options = {
        .transport = "tcp", .self = { .job = "job", .task = "ps:0" }, .admit = ask_disk, .met = on_met, .user = &d
    };
    struct rlimit few, before;
    net_test      late;
    est_net      *net;
    est_thread    threads[COMERS];
    comer         comers[COMERS];
    char          address[64];

    net_check(est_lock_init(&d.lock));
    net_check(est_cond_init(&d.changed));
    est_log_set_sink(note_drop, &d);
    net_test_start(&late, "tcp", "worker:0", NULL); /* the first network of a process raises the limit */
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){ .rlim_cur = DESCRIPTORS, .rlim_max = before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    net_check(est_net_create(&options, &net));
    net_check(est_net_listen(net, "127.0.0.1:0"));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    snprintf(address, sizeof address, "127.0.0.1:%d", est_net_port(net));
    for (int i = 0; i < COMERS; i++) {
        comers[i] = (comer){ .client = &late, .address = address };
        net_check(est_thread_start(&threads[i], "comer", come, &comers[i]));
    }
    assert_true(await(&d, &d.dropped));
    pthread_mutex_lock(&d.lock);
    d.met = true; /* the disk answers */
    pthread_cond_broadcast(&d.changed);
    pthread_mutex_unlock(&d.lock);
    for (int i = 0; i < COMERS; i++) est_thread_join(&threads[i]);
    net_test_stop(&late);
    est_net_free(net);
    est_log_set_sink(NULL, NULL);
    pthread_cond_destroy(&d.changed);
    pthread_mutex_destroy(&d.lock);
}

int main(void)
{
    return est_test_run(net_test_setup, net_test_teardown);
}
