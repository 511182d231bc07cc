/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests for the status of tasks, in parallel: a task that does not answer takes its whole deadline. */
#include <string.h>

#include "base/alloc.h"
#include "cluster/task_status.h"

#define THREADS_MAX 32

static est_status take_text(const est_message *answer, const char *task, char **out)
{
    est_str text = est_head_bytes(answer, EST_FIELD_BYTES);

    if (text.data == NULL) return est_fail(EST_DATA_LOSS, "%s sent a status without text", task);
    *out = est_alloc(text.size + 1);
    if (*out == NULL) return est_no_memory();
    memcpy(*out, text.data, text.size);
    (*out)[text.size] = '\0';
    return EST_OK;
}

est_status est_cluster_ask_status(est_server *client, const char *address, const char *task, double secs, char **out)
{
    est_message *answer;
    est_link    *link;
    est_ask     *ask;
    est_status   status;

    EST_TRY(est_net_connect(est_server_net(client), address, task, secs, &link));
    status = est_link_ask(link, EST_METHOD_STATUS, est_method_text(EST_METHOD_STATUS), (est_payload){ 0 }, secs, NULL,
                          NULL, &ask);
    if (status == EST_OK) status = est_ask_wait(ask, &answer);
    if (status == EST_OK) {
        status = take_text(answer, est_link_peer(link)->task, out);
        est_message_free(answer);
    }
    est_link_free(link); /* left open until the client ends: the task would log a close */
    return status;
}

/* What the threads of est_cluster_ask_all share. */
typedef struct asking {
    est_server     *client;
    est_task_asked *asked;
    int             n;
    double          secs;
    pthread_mutex_t lock; /* guards next */
    int             next; /* to ask */
} asking;

static int take_next(asking *a)
{
    int i;

    pthread_mutex_lock(&a->lock);
    i = a->next++;
    pthread_mutex_unlock(&a->lock);
    return i;
}

static void *ask_some(void *arg)
{
    asking *a = arg;

    for (int i; (i = take_next(a)) < a->n;) {
        est_task_asked *one = &a->asked[i];

        one->text   = NULL;
        one->status = est_cluster_ask_status(a->client, one->address, one->task, a->secs, &one->text);
        if (one->status != EST_OK) one->text = est_strdup(est_error_message());
    }
    return NULL;
}

/* A thread that cannot be started is no failure: the others, at least this one, ask its tasks. */
void est_cluster_ask_all(est_server *client, est_task_asked *asked, int n, double secs)
{
    asking     a = { .client = client, .asked = asked, .n = n, .secs = secs, .lock = PTHREAD_MUTEX_INITIALIZER };
    est_thread threads[THREADS_MAX];
    int        n_threads = 0;

    while (n_threads < n - 1 && n_threads < THREADS_MAX &&
           est_thread_start(&threads[n_threads], "est-status", ask_some, &a) == EST_OK) {
        n_threads++;
    }
    (void)ask_some(&a);
    for (int i = 0; i < n_threads; i++) est_thread_join(&threads[i]);
    pthread_mutex_destroy(&a.lock);
}
