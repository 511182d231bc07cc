/* SPDX-License-Identifier: Apache-2.0
 *
 * A peer of which only the disk knows whether it is let in. */
#include "support/slow_admission.h"

static void admit_by_disk(const char *transport, est_admission admission)
{
    slow_disk       d       = { .admission = admission };
    est_net_options options = { .transport    = transport,
                                .certificates = net_test_certificates(),
                                .self         = { .job = "job", .task = "ps:0" },
                                .admit        = ask_disk,
                                .met          = on_met,
                                .user         = &d };
    net_test        late, quick;
    est_net        *net;
    est_link       *link = NULL;
    est_thread      thread;
    char            address[64];
    comer           c = { .client = &late, .address = address };

    net_check(est_lock_init(&d.lock));
    net_check(est_cond_init(&d.changed));
    net_check(est_net_create(&options, &net));
    net_check(est_net_listen(net, "127.0.0.1:0"));
    snprintf(address, sizeof address, "127.0.0.1:%d", est_net_port(net));
    net_test_start(&late, transport, "worker:0", NULL);
    net_test_start(&quick, transport, "worker:1", NULL);
    net_check(est_thread_start(&thread, "comer", come, &c));
    assert_true(await(&d, &d.asked));
    net_check(est_net_connect(quick.net, address, "ps:0", NET_TEST_SECS, &link));
    est_link_free(link);
    est_thread_join(&thread);
    assert_int_equal(c.status, admission == EST_ADMITTED ? EST_OK : EST_FAILED_PRECONDITION);
    if (admission == EST_REFUSED) assert_non_null(strstr(c.error, "refused by ps:0: the disk says no"));
    net_test_stop(&late);
    net_test_stop(&quick);
    est_net_free(net);
    pthread_cond_destroy(&d.changed);
    pthread_mutex_destroy(&d.lock);
}

TEST(admission)
{
    for (int i = 0; i < net_test_n_transports(); i++) {
        admit_by_disk(net_test_transports[i], EST_ADMITTED);
        admit_by_disk(net_test_transports[i], EST_REFUSED);
    }
}

int main(void)
{
    return est_test_run(net_test_setup, net_test_teardown);
}
