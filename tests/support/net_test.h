/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of the network share: a folder of certificates, nets that echo, and waiting for what happens in other
 * threads, with a deadline. */
#ifndef EST_TESTS_NET_TEST_H
#define EST_TESTS_NET_TEST_H

#include <pthread.h>

#include "net/certificates.h"
#include "net/net.h"
#include "support/test.h"

#define NET_TEST_SECS 20.0 /* for what should be at once, on a busy machine */

/* Methods that the nets of the tests know. */
enum {
    NET_ECHO,  /* answers with head and parts as they came */
    NET_FAIL,  /* fails with EST_NOT_FOUND and the head as text */
    NET_KEEP,  /* is not answered until net_test_release */
    NET_COUNT, /* answers with a part of 8 bytes: how many bytes the parts had */
    NET_FILL   /* answers with a part of as many bytes as the head, a uint64_t, says */
};

/* What has happened to a net. */
typedef struct net_test {
    est_net        *net;
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t  changed;
    int             n_met, n_lost, n_kept;
    est_request    *kept[64];
    est_link       *link; /* the last that was met; a reference */
    char            why[512];
    char            address[64]; /* where it listens */
} net_test;

/* Makes a folder of certificates for this program; removed by net_test_teardown. */
int         net_test_setup(void **state);
int         net_test_teardown(void **state);
const char *net_test_certificates(void);

/* The transports that tests run over, and how many of them can be used here; says so when ucx cannot. */
extern const char *const net_test_transports[];
int                      net_test_n_transports(void);

void net_check(est_status status);
void net_expect(est_status got, est_status want, const char *text); /* the error says `text` */

/* A net that echoes: of a transport, as a task; it listens at a free port of 127.0.0.1. `more` may be NULL; of it, job,
 * certificates, silence_secs and message_max are used. */
void net_test_start(net_test *t, const char *transport, const char *task, const est_net_options *more);
void net_test_stop(net_test *t);

/* Connects a to b and expects to be let in. */
est_link *net_test_connect(net_test *a, net_test *b);

/* Waits for a counter of the net; the test fails when that takes too long. */
void net_test_wait(net_test *t, const int *counter, int at_least);

/* Answers what was kept, by echo. */
void net_test_release(net_test *t);

/* Asks and waits. */
est_status net_test_ask(est_link *link, uint16_t method, est_payload payload, double secs, est_message **answer);

#endif
