/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of the cluster: tensors and entries of checkpoints come out as they went in; whatever is cut off or changed
 * is an error or another message, never more. */
#include "cluster/protocol.h"

#include <limits.h>

#include "cluster/checkpoint_entries.h"
#include "support/fault_loop.h"
#include "support/message_test.h"
#include "support/nn_test.h"

static est_message *pack(est_blocks *blocks, const est_packing *packing)
{
    est_payload  payload;
    est_message *message = NULL;

    assert_ok(est_packing_payload(packing, &payload));
    assert_ok(message_make(blocks, payload, &message));
    return message;
}

static est_blocks *make_blocks(void)
{
    est_blocks *blocks = NULL;

    assert_ok(est_blocks_create(&blocks));
    return blocks;
}

/* --- tensors ------------------------------------------------------------------------------------------------------ */

static est_view view_of(est_dtype dtype, est_shape shape, void *data)
{
    return (est_view){ .dtype = dtype, .shape = shape, .data = data, .count = est_shape_count(&shape) };
}

static void assert_same_view(const est_view *got, const est_view *want)
{
    assert_int_equal(got->dtype, want->dtype);
    assert_true(est_shape_equal(&got->shape, &want->shape));
    assert_int_equal(got->count, want->count);
    if (want->dtype != EST_STRING) {
        if (want->count > 0) {
            assert_memory_equal(got->data, want->data, (size_t)want->count * est_dtype_size(want->dtype));
        }
        return;
    }
    for (int64_t i = 0; i < want->count; i++) {
        est_str a = ((const est_str *)got->data)[i], b = ((const est_str *)want->data)[i];

        assert_int_equal(a.size, b.size);
        if (b.size > 0) assert_memory_equal(a.data, b.data, b.size);
    }
}

#define VIEWS 13

/* Of every type, empty, scalar, with as many dimensions as there may be, and strings with anything in them. */
static void make_views(est_view views[VIEWS])
{
    static float   f32[6]     = { 1, -2, 3.5F, 0, 1e30F, -0.0F };
    static double  f64[2]     = { 3, 1e300 };
    static int32_t i32[4]     = { 1, INT32_MIN, INT32_MAX, 0 };
    static int64_t i64[3]     = { INT64_MIN, INT64_MAX, -1 };
    static uint8_t u8[5]      = { 0, 1, 128, 254, 255 };
    static bool    yes[2]     = { true, false };
    static est_str words[4]   = { { "one", 3 }, { "", 0 }, { "t\0wo", 4 }, { NULL, 0 } };
    const est_view all[VIEWS] = {
        view_of(EST_F32, EST_SHAPE(2, 3), f32),
        view_of(EST_F64, EST_SHAPE(2), f64),
        view_of(EST_I32, EST_SHAPE(4, 1), i32),
        view_of(EST_I64, EST_SHAPE(3), i64),
        view_of(EST_U8, EST_SHAPE(5), u8),
        view_of(EST_BOOL, EST_SHAPE(2), yes),
        view_of(EST_STRING, EST_SHAPE(2, 2), words),
        view_of(EST_F32, EST_SHAPE(0, 7), f32),
        view_of(EST_STRING, EST_SHAPE(0), words),
        view_of(EST_F32, EST_SHAPE_SCALAR, f32),
        view_of(EST_STRING, EST_SHAPE_SCALAR, words),
        view_of(EST_I64, EST_SHAPE(1, 1, 3, 1, 1, 1, 1, 1), i64),
        view_of(EST_F64, EST_SHAPE(2, 0), NULL),
    };

    memcpy(views, all, sizeof all);
}

TEST(round_trip)
{
    est_blocks  *blocks   = make_blocks();
    est_packing  packing  = { 0 };
    est_unpacked unpacked = { 0 };
    est_view     views[VIEWS];

    make_views(views);
    for (int round = 0; round < 3; round++) { /* memory of both sides is used again */
        est_message *message;

        est_packing_reset(&packing);
        est_wire_put_u64(&packing.head, EST_FIELD_SEGMENT, 7);
        est_wire_put_string(&packing.head, EST_FIELD_NAME, "w");
        for (int i = 0; i < VIEWS; i++) est_pack_view(&packing, &views[(i + round) % VIEWS]);
        message = pack(blocks, &packing);
        assert_ok(est_unpack_tensors(message, &unpacked));
        assert_int_equal(unpacked.n, VIEWS);
        for (int i = 0; i < VIEWS; i++) assert_same_view(&unpacked.views[i], &views[(i + round) % VIEWS]);
        assert_int_equal(est_head_u64(message, EST_FIELD_SEGMENT, 0), 7);
        assert_int_equal(est_head_u64(message, EST_FIELD_STEP, 99), 99);
        assert_int_equal(est_head_bytes(message, EST_FIELD_NAME).size, 1);
        assert_null(est_head_bytes(message, EST_FIELD_PREFIX).data);
        assert_int_equal(est_head_u64(message, EST_FIELD_NAME, 5), 5); /* there, but no number */
        est_message_free(message);
    }
    est_packing_clear(&packing);
    est_unpacked_clear(&unpacked);
    est_blocks_free(blocks);
}

TEST(nothing)
{
    est_blocks  *blocks   = make_blocks();
    est_packing  packing  = { 0 };
    est_unpacked unpacked = { 0 };
    est_message *message  = pack(blocks, &packing);

    assert_ok(est_unpack_tensors(message, &unpacked));
    assert_int_equal(unpacked.n, 0);
    est_message_free(message);
    est_packing_clear(&packing);
    est_unpacked_clear(&unpacked);
    est_blocks_free(blocks);
}

/* A payload in memory of its own, cut or changed; parts of exactly their size, so that a sanitizer sees a read
 * beyond. */
static est_status unpack_changed(est_blocks *blocks, est_payload payload, est_unpacked *unpacked)
{
    est_message *message = NULL;
    est_status   status;

    assert_ok(message_make(blocks, payload, &message));
    status = est_unpack_tensors(message, unpacked);
    for (int i = 0; status == EST_OK && i < unpacked->n; i++) {
        const est_view *view = &unpacked->views[i];

        for (int64_t k = 0; view->dtype == EST_STRING && k < view->count; k++) {
            est_str text = ((const est_str *)view->data)[k];
            char    sum  = 0;

            for (size_t c = 0; c < text.size; c++) sum = (char)(sum ^ text.data[c]);
            if (sum == 1) (void)sum; /* all of it was read */
        }
    }
    est_message_free(message);
    return status;
}

static void expect_data_loss(est_blocks *blocks, est_payload payload, est_unpacked *unpacked)
{
    assert_int_equal(unpack_changed(blocks, payload, unpacked), EST_DATA_LOSS);
}

/* The head at every length, and every part but the empty ones shorter or longer: nothing of it is a message. */
TEST(truncation)
{
    est_blocks  *blocks   = make_blocks();
    est_packing  packing  = { 0 };
    est_unpacked unpacked = { 0 };
    est_view     views[VIEWS];
    est_payload  payload;
    est_part     parts[VIEWS];
    char         longer[4096] = { 0 };

    make_views(views);
    for (int i = 0; i < VIEWS; i++) est_pack_view(&packing, &views[i]);
    assert_ok(est_packing_payload(&packing, &payload));
    for (size_t size = 0; size < payload.head_size; size++) {
        expect_data_loss(blocks, (est_payload){ payload.head, size, payload.parts, payload.n_parts }, &unpacked);
    }
    for (int n = 0; n < payload.n_parts; n++) {
        expect_data_loss(blocks, (est_payload){ payload.head, payload.head_size, payload.parts, n }, &unpacked);
    }
    memcpy(parts, payload.parts, sizeof parts);
    payload.parts = parts;
    for (int i = 0; i < VIEWS; i++) {
        est_part whole = parts[i];

        for (size_t size = 0; size < whole.size; size++) {
            parts[i].size = size;
            expect_data_loss(blocks, payload, &unpacked);
        }
        memcpy(longer, whole.data != NULL ? whole.data : "", whole.size);
        parts[i] = (est_part){ longer, whole.size + 1 };
        expect_data_loss(blocks, payload, &unpacked);
        parts[i] = whole;
    }
    est_packing_clear(&packing);
    est_unpacked_clear(&unpacked);
    est_blocks_free(blocks);
}

/* Every bit of the head and of the lengths of strings. What is still a message has views within its parts: ASan
 * looks. */
TEST(mutation)
{
    est_blocks  *blocks   = make_blocks();
    est_packing  packing  = { 0 };
    est_unpacked unpacked = { 0 };
    est_view     views[VIEWS];
    est_payload  payload;
    est_part     parts[VIEWS];
    uint8_t      head[1024], text[256];
    int          bad = 0;

    make_views(views);
    for (int i = 0; i < VIEWS; i++) est_pack_view(&packing, &views[i]);
    assert_ok(est_packing_payload(&packing, &payload));
    assert_true(payload.head_size <= sizeof head && payload.parts[6].size <= sizeof text);
    memcpy(parts, payload.parts, sizeof parts);
    memcpy(head, payload.head, payload.head_size);
    payload.head  = head;
    payload.parts = parts;
    for (size_t bit = 0; bit < 8 * payload.head_size; bit++) {
        head[bit / 8] ^= (uint8_t)(1U << bit % 8);
        bad += unpack_changed(blocks, payload, &unpacked) != EST_OK;
        head[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
    assert_true(bad > 0);
    memcpy(text, parts[6].data, parts[6].size);
    parts[6].data = text;
    for (size_t bit = 0; bit < 8 * parts[6].size; bit++) { /* only a changed text goes unnoticed */
        text[bit / 8] ^= (uint8_t)(1U << bit % 8);
        assert_int_equal(unpack_changed(blocks, payload, &unpacked), bit < 8 * 32 ? EST_DATA_LOSS : EST_OK);
        text[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
    est_packing_clear(&packing);
    est_unpacked_clear(&unpacked);
    est_blocks_free(blocks);
}

/* Heads that are whole, but lie. */
TEST(lies)
{
    static const int64_t dims[][9] = { { INT64_MAX, INT64_MAX }, { -1 }, { 1, 1, 1, 1, 1, 1, 1, 1, 1 }, { INT64_MAX },
                                       { INT64_MAX, 0 },         { 3 } };
    static const int     ranks[]   = { 2, 1, 9, 1, 2, 1 };
    static const double  four[1]   = { 4 };
    est_blocks          *blocks    = make_blocks();
    est_unpacked         unpacked  = { 0 };
    int                  types[]   = { EST_F32, EST_STRING };

    for (int type = 0; type < 2; type++) {
        for (int i = 0; i < (int)(sizeof ranks / sizeof ranks[0]); i++) {
            est_wire_writer w    = { 0 };
            size_t          mark = est_wire_begin(&w, EST_FIELD_TENSOR);

            est_wire_put_i64(&w, 1, types[type]);
            est_wire_put_i64s(&w, 2, dims[i], (size_t)ranks[i]);
            est_wire_end(&w, mark);
            assert_int_not_equal(
                unpack_changed(blocks, (est_payload){ w.data, w.size, &(est_part){ four, sizeof four }, 1 }, &unpacked),
                EST_OK);
            est_wire_writer_clear(&w);
        }
    }
    for (int dtype = -3; dtype < 40; dtype++) { /* types that are none, or do not travel */
        est_wire_writer w     = { 0 };
        size_t          mark  = est_wire_begin(&w, EST_FIELD_TENSOR);
        bool            known = dtype == EST_F64 || dtype == EST_I64;
        est_status      status;

        est_wire_put_i64(&w, 1, dtype);
        est_wire_end(&w, mark);
        status = unpack_changed(blocks, (est_payload){ w.data, w.size, &(est_part){ four, sizeof four }, 1 },
                                &unpacked);
        assert_int_equal(status, known ? EST_OK : EST_DATA_LOSS);
        est_wire_writer_clear(&w);
    }
    est_unpacked_clear(&unpacked);
    est_blocks_free(blocks);
}

/* Every allocation of packing and unpacking fails once. */
TEST(out_of_memory)
{
    est_blocks *blocks = make_blocks();
    est_view    views[VIEWS];
    make_views(views);
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_packing  packing  = { 0 };
        est_unpacked unpacked = { 0 };
        est_message *message  = NULL;
        est_payload  payload;
        est_status   status;

        fault_arm(&f);
        for (int i = 0; i < 2 * VIEWS; i++) est_pack_view(&packing, &views[i % VIEWS]);
        status = est_packing_payload(&packing, &payload);
        if (status == EST_OK) status = message_make(blocks, payload, &message);
        if (status == EST_OK) status = est_unpack_tensors(message, &unpacked);
        fault_check(&f, status);
        if (message != NULL)
            assert_ok(est_unpack_tensors(message, &unpacked)); /* what is left is good for another try */
        est_message_free(message);
        est_packing_clear(&packing);
        est_unpacked_clear(&unpacked);
    }
    est_blocks_free(blocks);
}

/* As an int, a size of 2 GiB would be negative, and a text without an end. */
TEST(long_text)
{
    assert_int_equal(est_text_precision((est_str){ 0 }), 0);
    assert_int_equal(est_text_precision((est_str){ "name", 4 }), 4);
    assert_int_equal(est_text_precision((est_str){ "name", (size_t)INT_MAX + 1 }), 1 << 20);
    assert_int_equal(est_text_precision((est_str){ "name", (size_t)UINT32_MAX + 5 }), 1 << 20);
}

TEST(methods)
{
    assert_string_equal(est_method_text(EST_METHOD_TURN), "a turn");
    assert_string_equal(est_method_text(0), "an unknown request");
    assert_string_equal(est_method_text(1 << 20), "an unknown request");
}

/* --- entries of checkpoints --------------------------------------------------------------------------------------- */

#define ENTRIES 3

static const est_store_entry entries[ENTRIES] = {
    { .key   = "dense/kernel",
      .name  = "dense/kernel",
      .dtype = EST_F32,
      .full  = { .rank = 2, .dim = { 3, 4 } },
      .rows  = -1 },
    { .key   = "table",
      .name  = "table/part_1",
      .dtype = EST_F64,
      .full  = { .rank = 3, .dim = { 1000, 4, 2 } },
      .first = 500,
      .rows  = 250 },
    { .key       = "ids/Adagrad",
      .name      = "ids/Adagrad",
      .dtype     = EST_F32,
      .full      = { .rank = 2, .dim = { 64, 8 } },
      .rows      = -1,
      .rows_spec = { .name        = "ids/Adagrad",
                     .rows_of     = "ids",
                     .dtype       = EST_F32,
                     .shape       = { .rank = 2, .dim = { 64, 8 } },
                     .draw        = { .distribution = 2, .a = -0.5, .b = 0.25, .seed = UINT64_MAX },
                     .admit_after = 3,
                     .max_age     = 1000 } },
};

static void assert_same_text(const char *got, const char *want)
{
    assert_int_equal(got == NULL, want == NULL);
    if (want != NULL) assert_string_equal(got, want);
}

static void assert_same_entry(const est_store_entry *got, const est_store_entry *want)
{
    const est_row_spec *a = &got->rows_spec, *b = &want->rows_spec;

    assert_same_text(got->key, want->key);
    assert_same_text(got->name, want->name);
    assert_int_equal(got->dtype, want->dtype);
    assert_true(est_shape_equal(&got->full, &want->full));
    assert_int_equal(got->first, want->first);
    assert_int_equal(got->rows, want->rows);
    assert_same_text(a->name, b->name);
    assert_same_text(a->rows_of, b->rows_of);
    assert_int_equal(a->dtype, b->dtype);
    assert_true(est_shape_equal(&a->shape, &b->shape));
    assert_int_equal(a->draw.distribution, b->draw.distribution);
    assert_true(a->draw.a == b->draw.a && a->draw.b == b->draw.b && a->draw.seed == b->draw.seed);
    assert_int_equal(a->admit_after, b->admit_after);
    assert_int_equal(a->max_age, b->max_age);
}

static est_status read_entries(est_blocks *blocks, est_payload payload, est_arena *arena, est_store_entry **out, int *n)
{
    est_message *message = NULL;
    est_status   status  = message_make(blocks, payload, &message);

    if (status == EST_OK) status = est_checkpoint_entries_unpack(message, arena, out, n);
    est_message_free(message);
    return status;
}

TEST(entries)
{
    est_blocks      *blocks  = make_blocks();
    est_packing      packing = { 0 };
    est_arena       *arena   = est_arena_create();
    est_store_entry *got     = NULL;
    est_payload      payload;
    int              n = -1;

    assert_non_null(arena);
    for (int round = 0; round < 2; round++) {
        est_packing_reset(&packing);
        est_wire_put_string(&packing.head, EST_FIELD_PREFIX, "model.ckpt-1");
        for (int i = 0; i < ENTRIES * round; i++) est_checkpoint_entry_pack(&packing, &entries[i]);
        assert_ok(est_packing_payload(&packing, &payload));
        assert_ok(read_entries(blocks, payload, arena, &got, &n));
        assert_int_equal(n, ENTRIES * round);
        for (int i = 0; i < n; i++) assert_same_entry(&got[i], &entries[i]);
    }
    est_arena_free(arena);
    est_packing_clear(&packing);
    est_blocks_free(blocks);
}

/* Cut at every byte, every bit changed: an error, or other entries whose texts end. */
TEST(damaged_entries)
{
    est_blocks      *blocks  = make_blocks();
    est_packing      packing = { 0 };
    est_store_entry *got;
    est_payload      payload;
    uint8_t          head[1024];
    int              n, bad = 0;

    for (int i = 0; i < ENTRIES; i++) est_checkpoint_entry_pack(&packing, &entries[i]);
    assert_ok(est_packing_payload(&packing, &payload));
    assert_true(payload.head_size <= sizeof head);
    memcpy(head, payload.head, payload.head_size);
    for (size_t i = 0; i < 9 * payload.head_size; i++) {
        est_arena *arena = est_arena_create();
        bool       cut   = i < payload.head_size;
        size_t     bit   = cut ? 0 : i - payload.head_size;
        est_status status;

        assert_non_null(arena);
        if (!cut) head[bit / 8] ^= (uint8_t)(1U << bit % 8);
        status = read_entries(blocks, (est_payload){ .head = head, .head_size = cut ? i : payload.head_size }, arena,
                              &got, &n);
        if (!cut) head[bit / 8] ^= (uint8_t)(1U << bit % 8);
        if (status == EST_OK) {
            for (int k = 0; k < n; k++) {
                assert_true(strlen(got[k].key) < sizeof head && strlen(got[k].name) < sizeof head);
                assert_in_range(got[k].full.rank, 0, EST_RANK_MAX);
                assert_in_range(got[k].rows_spec.shape.rank, 0, EST_RANK_MAX);
            }
            if (cut) assert_true(n < ENTRIES); /* it ended between two of them */
        } else {
            assert_int_equal(status, EST_DATA_LOSS);
            bad++;
        }
        est_arena_free(arena);
    }
    assert_true(bad > 0);
    est_packing_clear(&packing);
    est_blocks_free(blocks);
}

TEST(entries_out_of_memory)
{
    est_blocks *blocks = make_blocks();
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_packing      packing = { 0 };
        est_arena       *arena   = est_arena_create();
        est_store_entry *got;
        est_payload      payload;
        est_status       status;
        int              count;

        assert_non_null(arena);
        fault_arm(&f);
        for (int i = 0; i < ENTRIES; i++) est_checkpoint_entry_pack(&packing, &entries[i]);
        status = est_packing_payload(&packing, &payload);
        if (status == EST_OK) status = read_entries(blocks, payload, arena, &got, &count);
        fault_check(&f, status);
        est_packing_clear(&packing);
        est_arena_free(arena);
    }
    est_blocks_free(blocks);
}
