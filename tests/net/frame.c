/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames: what is written is read again, and damage to any bit of a header or a table is noticed. */
#include <stdlib.h>
#include <string.h>

#include "net/frame.h"
#include "support/test.h"

static const est_part parts[] = { { "12345", 5 }, { NULL, 0 }, { "abc", 3 } };

static est_frame make(uint8_t front[512])
{
    est_payload payload = { .head = "head", .head_size = 4, .parts = parts, .n_parts = 3 };
    est_frame   frame   = { .kind = EST_FRAME_REQUEST, .method = 7, .sequence = 1234567890123, .id = 42 };

    assert_int_equal(est_frame_measure(&payload, &frame), EST_OK);
    assert_int_equal(est_frame_front_bytes(&frame), 64 + 64 + 64);
    est_frame_write_front(&payload, &frame, front);
    est_frame_encode(&frame, front);
    return frame;
}

TEST(round_trip)
{
    uint8_t   front[512];
    est_frame frame = make(front), read;
    uint64_t  table[3];

    assert_int_equal(est_frame_decode(front, EST_FRAME_BYTES, &read), EST_OK);
    assert_int_equal(read.kind, EST_FRAME_REQUEST);
    assert_int_equal(read.method, 7);
    assert_int_equal(read.sequence, 1234567890123);
    assert_int_equal(read.id, 42);
    assert_int_equal(read.n_parts, 3);
    assert_int_equal(read.head_size, 4);
    /* table and head take a line each, the first part too; the second is empty and begins where the third does */
    assert_int_equal(read.body_size, 64 + 64 + 64 + 3);
    assert_int_equal(read.body_size, frame.body_size);
    assert_memory_equal(front + 128, "head", 4);
    memcpy(table, front + 64, sizeof table);
    assert_int_equal(est_frame_read_table(&read, table), EST_OK);
    assert_int_equal(table[0], 128 + 5);
    assert_int_equal(table[1], 192);
    assert_int_equal(table[2], 192 + 3);
}

TEST(damage)
{
    uint8_t   front[512];
    est_frame frame, read;
    uint64_t  table[3];

    frame = make(front);
    for (int bit = 0; bit < 8 * EST_FRAME_BYTES; bit++) {
        front[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_not_equal(est_frame_decode(front, EST_FRAME_BYTES, &read), EST_OK);
        front[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (int bit = 0; bit < 8 * 24; bit++) {
        front[64 + bit / 8] ^= (uint8_t)(1 << bit % 8);
        memcpy(table, front + 64, sizeof table);
        assert_int_equal(est_frame_read_table(&frame, table), EST_DATA_LOSS);
        front[64 + bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    front[4] = 9;
    assert_int_equal(est_frame_decode(front, EST_FRAME_BYTES, &read), EST_FAILED_PRECONDITION);
    assert_string_equal(est_error_message(), "speaks version 9 of the protocol, this is version 3");
}

/* Headers that are whole, but lie. */
TEST(lies)
{
    const est_frame lies[] = {
        { .kind = EST_FRAME_BEAT, .body_size = 1 },
        { .kind = EST_FRAME_ANSWER, .head_size = 10, .body_size = 9 },
        { .kind = EST_FRAME_ANSWER, .n_parts = EST_FRAME_PARTS_MAX + 1, .body_size = UINT64_C(1) << 40 },
        { .kind = EST_FRAME_ANSWER, .n_parts = 1, .body_size = 63 },
        { .kind = EST_FRAME_ANSWER, .head_size = UINT64_MAX, .body_size = 10 },
        { .kind = EST_FRAME_ANSWER, .n_parts = 1, .body_size = UINT64_MAX },
        { .kind = EST_FRAME_BYE + 1 },
        { .kind = 0 },
    };

    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        uint8_t   bytes[EST_FRAME_BYTES];
        est_frame read;

        est_frame_encode(&lies[i], bytes);
        assert_int_equal(est_frame_decode(bytes, sizeof bytes, &read), EST_DATA_LOSS);
    }
}

/* No byte is read but those that there are. */
TEST(short)
{
    uint8_t whole[EST_FRAME_BYTES];

    est_frame_encode(&(est_frame){ .kind = EST_FRAME_BEAT }, whole);
    for (size_t size = 1; size < sizeof whole; size++) {
        uint8_t  *part = malloc(size);
        est_frame read;

        assert_non_null(part);
        memcpy(part, whole, size);
        assert_int_equal(est_frame_decode(part, size, &read), EST_DATA_LOSS);
        part[0] ^= 1;
        assert_int_equal(est_frame_decode(part, size, &read), EST_DATA_LOSS);
        assert_non_null(strstr(est_error_message(), "not a frame of estoc"));
        free(part);
    }
}

TEST(too_large)
{
    est_part    huge[2] = { { NULL, SIZE_MAX / 2 }, { NULL, SIZE_MAX / 2 } };
    est_payload payload = { .parts = huge, .n_parts = 2 };
    est_frame   frame;

    assert_int_equal(est_frame_measure(&payload, &frame), EST_INVALID_ARGUMENT);
    payload = (est_payload){ .head_size = SIZE_MAX };
    assert_int_equal(est_frame_measure(&payload, &frame), EST_INVALID_ARGUMENT);
    payload = (est_payload){ .n_parts = EST_FRAME_PARTS_MAX + 1 };
    assert_int_equal(est_frame_measure(&payload, &frame), EST_INVALID_ARGUMENT);
    payload = (est_payload){ .n_parts = -1 };
    assert_int_equal(est_frame_measure(&payload, &frame), EST_INVALID_ARGUMENT);
}

TEST(hello)
{
    est_hello  hello = { .self = { "job", "worker:3", 99, "pid 7 on a", "/runs/a" }, .wanted = "ps:0" }, read;
    uint8_t    bytes[EST_HELLO_BYTES];
    est_status code;
    char       text[EST_FAREWELL_MAX];
    uint8_t    farewell[EST_FAREWELL_MAX];
    size_t     size;

    est_hello_encode(&hello, bytes);
    assert_int_equal(est_hello_decode(bytes, sizeof bytes, &read), EST_OK);
    assert_string_equal(read.self.job, "job");
    assert_string_equal(read.self.task, "worker:3");
    assert_string_equal(read.wanted, "ps:0");
    assert_int_equal(read.self.incarnation, 99);
    assert_string_equal(read.self.place, "pid 7 on a");
    assert_string_equal(read.self.folder, "/runs/a");
    assert_int_equal(est_hello_decode(bytes, sizeof bytes - 1, &read), EST_DATA_LOSS);
    memset(bytes + sizeof bytes - EST_NET_FOLDER_MAX, 'x', EST_NET_FOLDER_MAX); /* no end */
    assert_int_equal(est_hello_decode(bytes, sizeof bytes, &read), EST_DATA_LOSS);
    est_hello_encode(&hello, bytes);
    memset(bytes + sizeof bytes - EST_NET_FOLDER_MAX - EST_NET_PLACE_MAX, 'x', EST_NET_PLACE_MAX);
    assert_int_equal(est_hello_decode(bytes, sizeof bytes, &read), EST_DATA_LOSS);
    est_hello_encode(&hello, bytes);
    bytes[0] = '\n';
    assert_int_equal(est_hello_decode(bytes, sizeof bytes, &read), EST_DATA_LOSS);
    memset(bytes, 'x', EST_NET_NAME_MAX);
    assert_int_equal(est_hello_decode(bytes, sizeof bytes, &read), EST_DATA_LOSS);

    size = est_farewell_encode(EST_NOT_FOUND, "no\nvariable", farewell);
    assert_int_equal(est_farewell_decode(farewell, size, &code, text), EST_OK);
    assert_int_equal(code, EST_NOT_FOUND);
    assert_string_equal(text, "no variable");
    farewell[0] = 200;
    assert_int_equal(est_farewell_decode(farewell, size, &code, text), EST_OK);
    assert_int_equal(code, EST_UNKNOWN);
    assert_int_equal(est_farewell_decode(farewell, 3, &code, text), EST_DATA_LOSS);
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    size                  = est_farewell_encode(EST_ABORTED, text, farewell);
    assert_int_equal(size, EST_FAREWELL_MAX);
    assert_int_equal(est_farewell_decode(farewell, size, &code, text), EST_OK);
    assert_int_equal(strlen(text), EST_FAREWELL_MAX - 4);
}
