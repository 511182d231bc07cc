/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes TF_CONFIG. The first byte chooses the rules; a cluster that was read must print as a text that reads as the
 * same. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cluster/cluster.h"
#include "estoc/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void print_and_read(const est_cluster *cluster)
{
    est_strbuf   text = { 0 }, again = { 0 };
    est_cluster *copy;

    est_cluster_text(cluster, &text);
    if (est_cluster_parse(est_strbuf_text(&text), "again", &copy) != EST_OK) abort();
    est_cluster_text(copy, &again);
    if (strcmp(est_strbuf_text(&text), est_strbuf_text(&again)) != 0) abort();
    est_cluster_free(copy);
    est_strbuf_clear(&text);
    est_strbuf_clear(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    est_resolver *resolver;
    char         *text;

    est_log_set_level(EST_LOG_OFF);
    if (size == 0) return 0;
    text = est_zalloc(size);
    if (text == NULL) return 0;
    memcpy(text, data + 1, size - 1);
    if (est_resolve_tf_config(text, EST_TASK_RULES(.no_chief_ok = data[0] % 2 == 0), &resolver) == EST_OK) {
        const est_task *task = est_resolver_task(resolver);

        if (task->type == NULL || task->master == NULL || task->index < 0) abort();
        print_and_read(task->cluster);
        est_resolver_free(resolver);
    }
    est_free(text);
    return 0;
}
