/* SPDX-License-Identifier: Apache-2.0
 *
 * How a task is, as JSON. */
#include <inttypes.h>

#include "base/clock.h"
#include "base/strbuf.h"
#include "cluster/server.h"

static double secs_since(int64_t ns)
{
    return (double)(est_now_ns() - ns) / (double)EST_NS_PER_SEC;
}

static void put_client(const est_client *client, est_strbuf *out)
{
    est_link_counters n = client->link != NULL ? est_link_count(client->link) : (est_link_counters){ 0 };

    est_strbuf_printf(out,
                      "{\"task\": \"%s\", \"incarnation\": \"%016" PRIx64
                      "\", \"here\": %s, \"since_secs\": %.1f, \"bytes_in\": %" PRIu64 ", \"bytes_out\": %" PRIu64
                      ", \"runs\": %" PRIu64 ", \"repeats\": %" PRIu64 "}",
                      client->who.task, client->who.incarnation, client->link != NULL ? "true" : "false",
                      secs_since(client->since_ns), n.bytes_in + client->gone.bytes_in,
                      n.bytes_out + client->gone.bytes_out, client->runs, client->repeats);
}

est_status est_server_status(est_server *s, char **out)
{
    est_strbuf text = { 0 };

    pthread_mutex_lock(&s->lock);
    est_strbuf_printf(&text,
                      "{\"task\": \"%s\", \"incarnation\": \"%016" PRIx64 "\", \"up_secs\": %.1f, \"step\": %" PRId64
                      ", \"ready\": %s, \"done\": %s, \"clients\": [",
                      s->task, s->self.incarnation, secs_since(s->start_ns), s->step, s->ready ? "true" : "false",
                      s->done ? "true" : "false");
    for (int i = 0; i < s->n_clients; i++) {
        if (i > 0) est_strbuf_append(&text, ", ");
        put_client(s->clients[i], &text);
    }
    est_strbuf_append(&text, "]}");
    pthread_mutex_unlock(&s->lock);
    return est_strbuf_take(&text, out);
}
