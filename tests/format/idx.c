/* SPDX-License-Identifier: Apache-2.0
 *
 * IDX files: every type, plain and gzipped, promises that the file cannot keep, damage of every byte. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "format/idx.h"
#include "support/fault_loop.h"
#include "support/test.h"

#define HEADER 12 /* bytes before the elements of two dimensions */

static char file[128]; /* a scratch file of this process */

static void put_file(const void *bytes, size_t size)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0666);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    close(fd);
}

static void put_gzip(const void *bytes, size_t size)
{
    gzFile gz = gzopen(file, "wb");

    assert_non_null(gz);
    assert_int_equal(gzwrite(gz, bytes, (unsigned)size), size);
    assert_int_equal(gzclose(gz), Z_OK);
}

static void expect_error(const char *text)
{
    if (strstr(est_error_message(), text) == NULL) fail_msg("\"%s\" is not in \"%s\"", text, est_error_message());
}

/* The file, plain and gzipped, is this tensor. */
static void expect_tensor(const void *bytes, size_t size, est_dtype dtype, est_shape shape, const void *want)
{
    for (int packed = 0; packed < 2; packed++) {
        est_tensor *tensor;

        if (packed) put_gzip(bytes, size);
        if (!packed) put_file(bytes, size);
        assert_int_equal(est_idx_read(file, &tensor), EST_OK);
        assert_int_equal(est_tensor_dtype(tensor), dtype);
        assert_true(est_shape_equal(est_tensor_shape(tensor), &shape));
        if (est_tensor_bytes(tensor) > 0) assert_memory_equal(est_tensor_data(tensor), want, est_tensor_bytes(tensor));
        est_tensor_free(tensor);
    }
}

TEST(types)
{
    static const uint8_t u8[]  = { 0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 255 };
    static const uint8_t i8[]  = { 0, 0, 9, 1, 0, 0, 0, 5, 1, 2, 0x7f, 0x80, 0xff };
    static const uint8_t i16[] = { 0, 0, 0xb, 1, 0, 0, 0, 3, 1, 2, 0x80, 0, 0xff, 0xfe };
    static const uint8_t i32[] = { 0, 0, 0xc, 1, 0, 0, 0, 2, 1, 2, 3, 4, 0xff, 0xff, 0xff, 0xfe };
    static const uint8_t f32[] = { 0, 0, 0xd, 1, 0, 0, 0, 2, 0x3f, 0xc0, 0, 0, 0xc0, 0, 0, 0 };
    static const uint8_t f64[] = { 0, 0, 0xe, 1, 0, 0, 0, 1, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0 };
    static const uint8_t one[] = { 0, 0, 8, 0, 7 };
    static const uint8_t no[]  = { 0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0, 9 };

    expect_tensor(u8, sizeof u8, EST_U8, EST_SHAPE(2, 3), u8 + 12);
    expect_tensor(i8, sizeof i8, EST_I32, EST_SHAPE(5), (int32_t[]){ 1, 2, 127, -128, -1 });
    expect_tensor(i16, sizeof i16, EST_I32, EST_SHAPE(3), (int32_t[]){ 0x102, -32768, -2 });
    expect_tensor(i32, sizeof i32, EST_I32, EST_SHAPE(2), (int32_t[]){ 0x1020304, -2 });
    expect_tensor(f32, sizeof f32, EST_F32, EST_SHAPE(2), (float[]){ 1.5f, -2 });
    expect_tensor(f64, sizeof f64, EST_F64, EST_SHAPE(1), (double[]){ 1.5 });
    expect_tensor(one, sizeof one, EST_U8, EST_SHAPE_SCALAR, one + 4);
    expect_tensor(no, sizeof no, EST_U8, EST_SHAPE(0, 9), NULL);
}

/* More than one buffer of a gzipped file. */
TEST(large)
{
    static uint8_t bytes[3000008] = { 0, 0, 8, 1, 0, 0x2d, 0xc6, 0xc0 }; /* 3000000 */

    for (size_t i = 8; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * i / 97);
    expect_tensor(bytes, sizeof bytes, EST_U8, EST_SHAPE(3000000), bytes + 8);
    memset(bytes + 8, 0, sizeof bytes - 8); /* as small as gzip makes it */
    expect_tensor(bytes, sizeof bytes, EST_U8, EST_SHAPE(3000000), bytes + 8);
}

static void expect_bad(const void *bytes, size_t size, est_status status, const char *text)
{
    est_tensor *tensor = NULL;

    put_file(bytes, size);
    assert_int_equal(est_idx_read(file, &tensor), status);
    assert_null(tensor);
    expect_error(file);
    expect_error(text);
}

TEST(errors)
{
    est_tensor *tensor;

    assert_int_equal(est_idx_read("/does/not/exist", &tensor), EST_NOT_FOUND);
    expect_bad("", 0, EST_INVALID_ARGUMENT, "not an IDX file");
    expect_bad("\0\0\10", 3, EST_INVALID_ARGUMENT, "not an IDX file");
    expect_bad("\0\1\10\0x", 5, EST_INVALID_ARGUMENT, "not an IDX file");
    expect_bad("\0\0\12\0x", 5, EST_INVALID_ARGUMENT, "unknown IDX type 0x0a");
    expect_bad("\0\0\10\11xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 41, EST_INVALID_ARGUMENT, "rank 9");
    expect_bad("\0\0\10\2\0\0\0\1\0", 9, EST_DATA_LOSS, "5 bytes of its 2 dimensions");
    expect_bad("\0\0\10\1\0\0\0\2x", 9, EST_DATA_LOSS, "shape [2] needs 10 bytes, but the file has 9");
    expect_bad("\0\0\10\1\0\0\0\2xyz", 11, EST_DATA_LOSS, "shape [2] needs 10 bytes, but the file has 11");
    expect_bad("\0\0\10\2\377\377\377\377\377\377\377\377x", 13, EST_INVALID_ARGUMENT, "4294967295");
}

/* A promise of 4 GiB by a short file asks for no memory. */
TEST(promises)
{
    static const char promise[] = "\0\0\10\1\377\377\377\377abc";
    est_tensor       *tensor;

    expect_bad(promise, 11, EST_DATA_LOSS, "needs 4294967303 bytes");
    put_gzip(promise, 11);
    assert_int_equal(est_idx_read(file, &tensor), EST_DATA_LOSS);
    expect_error("(compressed)");
    put_gzip("\0\0\10\1\0\0\0\4abc", 11);
    assert_int_equal(est_idx_read(file, &tensor), EST_DATA_LOSS);
    expect_error("cut short: 3 of 4 bytes");
    put_gzip("\0\0\10\1\0\0\0\2abc", 11);
    assert_int_equal(est_idx_read(file, &tensor), EST_DATA_LOSS);
    expect_error("more bytes follow the 2");
}

TEST(every_flip_and_cut)
{
    static const uint8_t good[] = { 0, 0, 0xb, 2, 0, 0, 0, 2, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8 };

    for (size_t i = 0; i < 9 * sizeof good; i++) {
        uint8_t     bytes[sizeof good];
        size_t      n = i < sizeof good ? i : sizeof good;
        est_tensor *tensor;
        est_status  status;

        memcpy(bytes, good, sizeof good);
        if (i >= sizeof good) bytes[(i - sizeof good) / 8] ^= (uint8_t)(1 << i % 8);
        put_file(bytes, n);
        status = est_idx_read(file, &tensor);
        if (n < sizeof good) assert_int_not_equal(status, EST_OK);
        if (i >= sizeof good + 8 * HEADER) assert_int_equal(status, EST_OK); /* in an element */
        if (status == EST_OK) est_tensor_free(tensor);
    }
}

TEST(no_memory)
{
    put_gzip("\0\0\10\1\0\0\0\3abc", 11);
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_tensor *tensor = NULL;
        est_status  status;

        fault_arm(&f);
        status = est_idx_read(file, &tensor);
        fault_check(&f, status);
        est_tensor_free(tensor);
    }
}

static int remove_file(void **state)
{
    (void)state;
    unlink(file);
    return 0;
}

int main(void)
{
    snprintf(file, sizeof file, "/tmp/estoc-test-idx-%d", (int)getpid());
    return est_test_run(NULL, remove_file);
}
