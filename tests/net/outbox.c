/* SPDX-License-Identifier: Apache-2.0
 *
 * What waits to be sent: a connection that takes a few bytes at a time gets the same bytes as one that takes all;
 * frames that are forgotten leave no gap and their memory alone. */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "net/outbox.h"
#include "support/test.h"

#define WIRE_BYTES 200000

/* A connection that takes `grip` bytes a call, as long as `open` lasts. */
typedef struct wire {
    uint8_t bytes[WIRE_BYTES];
    size_t  n, grip, open;
    bool    broken;
    int     n_calls;
} wire;

static wire at;

static ssize_t take(void *user, struct iovec *iov, int n)
{
    wire  *w    = user;
    size_t want = w->grip < w->open ? w->grip : w->open, got = 0;

    w->n_calls++;
    if (w->broken) return -1;
    for (int i = 0; i < n && got < want; i++) {
        size_t size = iov[i].iov_len < want - got ? iov[i].iov_len : want - got;

        assert_true(w->n + size <= WIRE_BYTES);
        memcpy(w->bytes + w->n, iov[i].iov_base, size);
        w->n += size;
        got += size;
    }
    w->open -= got;
    return (ssize_t)got;
}

static est_status send_one(est_outbox *box, uint64_t id, est_payload payload, void *owner)
{
    est_outgoing out = { .frame = { .kind = EST_FRAME_REQUEST, .id = id }, .payload = payload, .owner = owner };
    bool         torn, sound;
    est_status   status;

    assert_int_equal(est_frame_measure(&payload, &out.frame), EST_OK);
    status = est_outbox_send(box, &out, take, &at, &torn, &sound);
    if (status == EST_OK) assert_true(sound != at.broken);
    return status;
}

/* The frames that have arrived, by id; each is whole, its parts are as `parts` says, and the sequence has no gap. */
static int read_frames(uint64_t *ids, const est_part *parts, int n_parts)
{
    size_t i = 0;
    int    n = 0;

    while (i < at.n) {
        est_frame frame;
        uint64_t  table[8];

        assert_true(at.n - i >= EST_FRAME_BYTES);
        assert_int_equal(est_frame_decode(at.bytes + i, at.n - i, &frame), EST_OK);
        assert_int_equal(frame.sequence, n);
        i += EST_FRAME_BYTES;
        assert_true(at.n - i >= frame.body_size);
        assert_int_equal(frame.n_parts, n_parts);
        memcpy(table, at.bytes + i, 8 * (size_t)n_parts);
        assert_int_equal(est_frame_read_table(&frame, table), EST_OK);
        for (int p = 0; p < n_parts; p++) {
            if (parts[p].size > 0)
                assert_memory_equal(at.bytes + i + table[p] - parts[p].size, parts[p].data, parts[p].size);
        }
        i += frame.body_size;
        ids[n++] = frame.id;
    }
    return n;
}

static void begin(est_outbox *box, size_t grip, size_t open)
{
    at   = (wire){ .grip = grip, .open = open };
    *box = (est_outbox){ 0 };
    assert_int_equal(est_blocks_create(&box->blocks), EST_OK);
}

static void end(est_outbox *box)
{
    est_outbox_clear(box);
    assert_int_equal(box->copied_bytes, 0);
    est_blocks_free(box->blocks);
}

static char big[5000];

static void make_parts(est_part parts[3])
{
    for (size_t i = 0; i < sizeof big; i++) big[i] = (char)(i * 31);
    parts[0] = (est_part){ big, 100 };
    parts[1] = (est_part){ big + 1, 0 };
    parts[2] = (est_part){ big + 2, sizeof big - 2 };
}

TEST(pieces)
{
    static const size_t grips[] = { 1, 7, 63, 64, 65, 1000, WIRE_BYTES };
    static const size_t opens[] = { 0, 1, 64, 200, 5000, 11000, WIRE_BYTES };
    est_part            parts[3];
    char                front[2000] = { 0 }; /* too large for the stack's front */

    make_parts(parts);
    for (size_t g = 0; g < sizeof grips / sizeof grips[0]; g++) {
        for (size_t o = 0; o < sizeof opens / sizeof opens[0]; o++) {
            est_payload payload = {
                .head = front, .head_size = o % 2 == 0 ? 5 : sizeof front, .parts = parts, .n_parts = 3
            };
            est_outbox box;
            uint64_t   ids[3];

            begin(&box, grips[g], opens[o]);
            for (uint64_t id = 0; id < 3; id++) {
                assert_int_equal(send_one(&box, id, payload, id % 2 == 0 ? &box : NULL), EST_OK);
            }
            at.open = WIRE_BYTES;
            assert_true(est_outbox_flush(&box, take, &at));
            assert_null(box.first);
            assert_int_equal(read_frames(ids, parts, 3), 3);
            for (uint64_t id = 0; id < 3; id++) assert_int_equal(ids[id], id);
            end(&box);
        }
    }
}

/* Small ones that wait go with one call. */
TEST(gather)
{
    est_outbox box;
    uint64_t   ids[64];

    begin(&box, WIRE_BYTES, 0);
    for (uint64_t id = 0; id < 60; id++) {
        assert_int_equal(send_one(&box, id, (est_payload){ .head = "small", .head_size = 5 }, NULL), EST_OK);
    }
    at.n_calls = 0;
    at.open    = WIRE_BYTES;
    assert_true(est_outbox_flush(&box, take, &at));
    assert_int_equal(at.n_calls, 1);
    assert_int_equal(read_frames(ids, NULL, 0), 60);
    end(&box);
}

TEST(forget)
{
    for (size_t open = 0; open < 16000; open += 150) {
        est_part    parts[3];
        est_outbox  box;
        uint64_t    ids[4];
        char       *gone = malloc(sizeof big);
        est_payload payload;
        int         n, owners[4];
        est_part    kept[3];

        make_parts(parts);
        memcpy(kept, parts, sizeof kept);
        memcpy(gone, big, sizeof big);
        for (int p = 0; p < 3; p++) kept[p].data = gone + ((const char *)parts[p].data - big);
        payload = (est_payload){ .head = "h", .head_size = 1, .parts = kept, .n_parts = 3 };
        begin(&box, 1000, open);
        for (uint64_t id = 0; id < 4; id++) assert_int_equal(send_one(&box, id, payload, &owners[id]), EST_OK);
        for (int id = 0; id < 4; id++) assert_true(est_outbox_forget(&box, &owners[id]));
        free(gone);
        at.open = WIRE_BYTES;
        assert_true(est_outbox_flush(&box, take, &at));
        n = read_frames(ids, parts, 3);
        for (int i = 0; i < n; i++) assert_int_equal(ids[i], i); /* those that were begun */
        /* a frame is not begun before the connection has taken what was before it */
        assert_true(n <= 1 + (int)(open / 5300) + 1);
        end(&box);
    }
}

TEST(broken)
{
    est_outbox box;

    begin(&box, 100, 0);
    assert_int_equal(send_one(&box, 0, (est_payload){ .head = "x", .head_size = 1 }, NULL), EST_OK);
    at.broken = true;
    assert_false(est_outbox_flush(&box, take, &at));
    end(&box);
    begin(&box, 100, 0);
    at.broken = true;
    assert_int_equal(send_one(&box, 0, (est_payload){ .head = "x", .head_size = 1 }, NULL), EST_OK);
    assert_null(box.first);
    end(&box);
}

/* Without memory, nothing was sent or the caller is told that a frame is torn. */
TEST(no_memory)
{
    est_part parts[3];

    make_parts(parts);
    for (size_t open = 0; open < 4000; open += 1000) {
        est_outgoing out = { .frame   = { .kind = EST_FRAME_REQUEST },
                             .payload = { .head = "h", .head_size = 1, .parts = parts, .n_parts = 3 } };
        est_outbox   box;
        bool         torn, sound;

        begin(&box, 1000, open);
        assert_int_equal(est_frame_measure(&out.payload, &out.frame), EST_OK);
        est_fault_arm_alloc(1);
        assert_int_equal(est_outbox_send(&box, &out, take, &at, &torn, &sound), EST_RESOURCE_EXHAUSTED);
        est_fault_arm_alloc(0);
        assert_true(torn == (open > 0));
        assert_null(box.first);
        if (open == 0) { /* as if nothing had been */
            uint64_t id;

            at.open = WIRE_BYTES;
            assert_int_equal(send_one(&box, 5, out.payload, NULL), EST_OK);
            assert_int_equal(read_frames(&id, parts, 3), 1);
            assert_int_equal(id, 5);
        }
        end(&box);
    }
}
