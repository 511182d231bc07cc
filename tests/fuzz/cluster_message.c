/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes what tasks of a cluster read of a message: tensors and entries of checkpoints. The first byte says how many
 * parts there are, two more the size of each, the parts follow, and the rest is the head. What is read must be written
 * and read again as the same. */
#include <stdlib.h>

#include "../support/message_test.h"
#include "cluster/checkpoint_entries.h"
#include "cluster/sender.h"
#include "estoc/ops.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PARTS_MAX 16

static void require(bool holds)
{
    if (!holds) abort();
}

static est_blocks *blocks;

static bool same_view(const est_view *a, const est_view *b)
{
    if (a->dtype != b->dtype || a->count != b->count || !est_shape_equal(&a->shape, &b->shape)) return false;
    if (a->dtype != EST_STRING) {
        size_t bytes = (size_t)a->count * est_dtype_size(a->dtype);

        return bytes == 0 || memcmp(a->data, b->data, bytes) == 0;
    }
    for (int64_t i = 0; i < a->count; i++) {
        est_str x = ((const est_str *)a->data)[i], y = ((const est_str *)b->data)[i];

        if (x.size != y.size || (x.size > 0 && memcmp(x.data, y.data, x.size) != 0)) return false;
    }
    return true;
}

static void fuzz_tensors(const est_message *message)
{
    est_unpacked once = { 0 }, twice = { 0 };
    est_packing  packing = { 0 };
    est_payload  payload;
    est_message *again;

    if (est_unpack_tensors(message, &once) == EST_OK) {
        for (int i = 0; i < once.n; i++) est_pack_view(&packing, &once.views[i]);
        require(est_packing_payload(&packing, &payload) == EST_OK);
        require(message_make(blocks, payload, &again) == EST_OK);
        require(est_unpack_tensors(again, &twice) == EST_OK && twice.n == once.n);
        for (int i = 0; i < once.n; i++) require(same_view(&once.views[i], &twice.views[i]));
        est_message_free(again);
    }
    est_packing_clear(&packing);
    est_unpacked_clear(&once);
    est_unpacked_clear(&twice);
}

static est_payload pack_entries(est_packing *packing, const est_store_entry *entries, int n)
{
    est_payload payload;

    for (int i = 0; i < n; i++) est_checkpoint_entry_pack(packing, &entries[i]);
    require(est_packing_payload(packing, &payload) == EST_OK);
    return payload;
}

static void fuzz_entries(const est_message *message)
{
    est_arena       *arena = est_arena_create();
    est_packing      once = { 0 }, twice = { 0 };
    est_store_entry *entries;
    est_message     *again;
    est_payload      first, second;
    int              n, m;

    require(arena != NULL);
    if (est_checkpoint_entries_unpack(message, arena, &entries, &n) == EST_OK) {
        first = pack_entries(&once, entries, n);
        require(message_make(blocks, first, &again) == EST_OK);
        require(est_checkpoint_entries_unpack(again, arena, &entries, &m) == EST_OK && m == n);
        second = pack_entries(&twice, entries, n);
        require(first.head_size == second.head_size);
        require(first.head_size == 0 || memcmp(first.head, second.head, first.head_size) == 0);
        est_message_free(again);
    }
    est_packing_clear(&once);
    est_packing_clear(&twice);
    est_arena_free(arena);
}

/* A host with one segment, which was run: its output is what a RUN has to send. */
static est_host *make_host(int *segment)
{
    est_segment     cut   = { 0 };
    est_wire_writer bytes = { 0 };
    est_host       *host  = NULL;
    est_node        out;

    require(est_graph_create(1, &cut.graph) == EST_OK);
    out    = est_scalar(cut.graph, EST_F32, 1);
    cut.io = (est_io){ .fetches = &out, .n_fetches = 1 };
    require(est_segment_encode(&cut, &bytes) == EST_OK);
    require(est_host_create(1, &host) == EST_OK);
    require(est_host_enter(host, bytes.data, bytes.size, segment) == EST_OK);
    require(est_host_run(host, *segment, 0, NULL) == EST_OK);
    est_wire_writer_clear(&bytes);
    est_graph_free(cut.graph);
    return host;
}

/* The tensors that a RUN has to send to other tasks. */
static void fuzz_sends(const est_message *message)
{
    static est_host *host;
    static int       segment;
    est_sends       *sends;

    if (host == NULL) host = make_host(&segment);
    if (est_sends_pack(host, segment, message, 7, &sends) == EST_OK) est_sends_free(sends);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    est_part     parts[PARTS_MAX];
    est_message *message;
    size_t       n = size > 0 ? data[0] % (PARTS_MAX + 1) : 0, at = 1 + 2 * n;

    if (size < at) return 0;
    for (size_t i = 0; i < n; i++) {
        size_t want = (size_t)(data[1 + 2 * i] | data[2 + 2 * i] << 8);

        parts[i] = (est_part){ data + at, want < size - at ? want : size - at };
        at += parts[i].size;
    }
    if (blocks == NULL) require(est_blocks_create(&blocks) == EST_OK);
    require(message_make(blocks, (est_payload){ data + at, size - at, parts, (int)n }, &message) == EST_OK);
    fuzz_tensors(message);
    fuzz_entries(message);
    fuzz_sends(message);
    (void)est_head_u64(message, EST_FIELD_SEGMENT, 0);
    (void)est_head_bytes(message, EST_FIELD_NAME);
    est_message_free(message);
    return 0;
}
