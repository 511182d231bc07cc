/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the restoring of saved positions. The first byte chooses the dataset, the rest is the position. One that is
 * taken must let a few elements be read, and a position saved then must be taken as well. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "estoc/dataset.h"
#include "estoc/log.h"

#define KINDS      6
#define FIELDS_MAX 3
#define ELEMENTS   3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds) abort();
}

/* A file of this text in memory, for as long as the process lives; always under this number, for it is in positions. */
static est_dataset *file_of(const char *text, int number)
{
    char path[64];
    int  fd = memfd_create("position", 0);

    require(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    require(dup2(fd, number) == number);
    snprintf(path, sizeof path, "/proc/self/fd/%d", number);
    return est_dataset_files(path);
}

static est_status next_number(void *state, est_field *element)
{
    return est_tensor_i64(EST_SHAPE_SCALAR, state, &element[0].values);
}

static est_status save_number(void *state, est_tensor **position)
{
    return est_tensor_i64(EST_SHAPE_SCALAR, state, position);
}

static est_status restore_number(void *state, const est_tensor *position)
{
    (void)state;
    (void)position;
    return EST_OK;
}

static est_dataset *generator(void)
{
    static int64_t             number = 7;
    static const est_component one    = { .name = "number", .dtype = EST_I64 };
    static const est_generator calls  = { .struct_size = EST_STRUCT_SIZE(est_generator),
                                          .next        = next_number,
                                          .save        = save_number,
                                          .restore     = restore_number,
                                          .user        = &number };

    return est_dataset_generator((est_components){ &one, 1 }, &calls);
}

static est_status leave_out_odd(void *user, const est_field *in, est_field *out)
{
    (void)user;
    if (*(const int64_t *)est_tensor_data(in[0].values) % 2 != 0) return est_fail(EST_INVALID_ARGUMENT, "it is odd");
    out[0].values = est_tensor_ref(in[0].values);
    return EST_OK;
}

static est_dataset *make_range(void *user, const est_field *element)
{
    (void)user;
    (void)element;
    return est_dataset_shuffle(est_dataset_range(0, 5, 1), 3, 1);
}

static est_dataset *make(int kind)
{
    static const est_component number = { .name = "number", .dtype = EST_I64 };
    est_dataset               *d;

    switch (kind) {
    case 0:
        d = est_dataset_concatenate(est_dataset_range(0, 5, 1), est_dataset_skip(est_dataset_range(0, 9, 1), 2));
        d = est_dataset_repeat(est_dataset_shuffle(est_dataset_cache(d, NULL), 3, 7), EST_FOREVER);
        d = est_dataset_zip(est_dataset_shard(est_dataset_enumerate(d, 0), 2, 1), generator());
        return est_dataset_take(est_dataset_unbatch(est_dataset_batch(d, 2, NULL)), 20);
    case 1:
        d = est_dataset_map(est_dataset_range(0, 20, 1), leave_out_odd, EST_MAP(.bad_rows_max = 3));
        return est_dataset_prefetch(d, 4);
    case 2:
        return est_dataset_interleave(
            est_dataset_range(0, 4, 1), make_range,
            EST_INTERLEAVE(.cycle = 2, .block = 2, .workers = 1, .components = { &number, 1 }));
    case 3:
        d = est_dataset_lines(file_of("1,a\n2,\"b\nc\"\nx,d\n4,\"e\n5,f\n", 1003), EST_LINES(.quoted = true));
        return est_dataset_decode_csv(d, EST_CSV_COLUMNS({ "n", EST_I64 }, { "s", EST_STRING }), NULL, 2,
                                      EST_PARSE(.bad_rows_max = 9));
    case 4:
        d = est_dataset_tfrecords(file_of("no record at all", 1004), EST_INTERLEAVE(.bad_rows_max = 9));
        return est_dataset_batch(d, 2, EST_BATCH(.rows = EST_ROWS_RAGGED));
    default: /* nothing is read ahead, so that the position is in the middle of the file */
        return est_dataset_lines(file_of("1\n\n\"3\n4\"\n5\n6\n7\n8", 1005), EST_LINES(.quoted = true));
    }
}

/* Reads on from a position; its position then, which the caller frees, or NULL. */
static est_tensor *resume(const est_dataset *dataset, const est_tensor *position, bool must)
{
    est_field     element[FIELDS_MAX] = { 0 };
    est_tensor   *next                = NULL;
    est_iterator *rows;
    est_status    status;

    require(est_iterator_create(dataset, &rows) == EST_OK);
    status = est_iterator_restore(rows, position);
    require(status == EST_OK || !must);
    for (int i = 0; i < ELEMENTS && status == EST_OK; i++) {
        status = est_iterator_next(rows, element);
        if (status == EST_OK) est_element_clear(element, est_dataset_components(dataset));
    }
    if (status == EST_OK && est_iterator_save(rows, &next) != EST_OK) next = NULL;
    est_iterator_free(rows);
    return next;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static est_dataset *datasets[KINDS];
    est_dataset       **dataset;
    est_tensor         *position, *next;

    if (size < 2) return 0;
    est_log_set_level(EST_LOG_ERROR);
    dataset = &datasets[data[0] % KINDS];
    if (*dataset == NULL) require(est_dataset_finish(make(data[0] % KINDS), dataset) == EST_OK);
    require(est_tensor_create_from(EST_U8, EST_SHAPE((int64_t)size - 1), data + 1, &position) == EST_OK);
    next = resume(*dataset, position, false);
    if (next != NULL) est_tensor_free(resume(*dataset, next, true));
    est_tensor_free(next);
    est_tensor_free(position);
    return 0;
}
