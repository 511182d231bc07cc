/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes segments, the parts of steps that other tasks send: one that cannot be run is refused, and the task is good
 * for the next one, which is the same again. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "runtime/host.h"
#include "runtime/segment.h"

int         LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__asan_default_options(void); /* NOLINT(bugprone-reserved-identifier): its name is the sanitizer's */

/* A graph may ask for any amount of memory, and then it gets none, as on a machine that has not so much. */
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:max_allocation_size_mb=256";
}

static void look_at(const est_host *host, int segment)
{
    for (int i = 0; i < est_host_inputs(host, segment); i++) (void)est_node_name(est_host_input(host, segment, i));
    (void)est_host_outputs(host, segment);
    (void)est_host_writes(host, segment);
    (void)est_host_counts(host, segment, "global_step");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    est_host         *host;
    est_segment_graph read;
    est_status        status;
    int               segment = -1, again = -1;

    if (est_host_create(1, &host) != EST_OK) return 0;
    status = est_host_enter(host, data, size, &segment);
    if ((status == EST_OK) != (est_host_segments(host) == 1)) abort();
    if (status == EST_OK) look_at(host, segment);
    if (status == EST_OK && (est_host_enter(host, data, size, &again) != EST_OK || again != segment)) abort();
    est_host_free(host);
    if (est_segment_read((est_str){ (const char *)data, size }, 1, &read) == EST_OK) {
        for (int i = 0; i < read.io.n_fetches; i++) (void)est_node_name(read.io.fetches[i]);
        est_segment_graph_clear(&read);
    } else if (status == EST_OK) {
        abort();
    }
    return 0;
}
