/* SPDX-License-Identifier: Apache-2.0
 *
 * For fuzzers of checkpoints: the files of one, made of an input so that mutation gets past the checksums of the index.
 * The input is the size of the header, the header; a list of (size of key, size of value, key, value), ended by a key
 * and value of size 0; the data file. */
#ifndef EST_TESTS_FUZZ_CHECKPOINT_FILES_H
#define EST_TESTS_FUZZ_CHECKPOINT_FILES_H

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/bundle.h"
#include "format/sstable.h"

static char prefix[64], index_path[96], data_path[128];

static void remove_files(void)
{
    unlink(index_path);
    unlink(data_path);
    *strrchr(prefix, '/') = '\0';
    rmdir(prefix);
}

static void make_folder(void)
{
    snprintf(prefix, sizeof prefix, "%s/est-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (mkdtemp(prefix) == NULL) abort();
    strncat(prefix, "/c", sizeof prefix - strlen(prefix) - 1);
    snprintf(index_path, sizeof index_path, "%s.index", prefix);
    atexit(remove_files);
}

static void put_file(const char *path, const void *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size) abort();
    close(fd);
}

/* The next `size` bytes of the input, or what is left of it. */
static est_str take(est_str *input, size_t size)
{
    est_str taken = { input->data, size < input->size ? size : input->size };

    input->data += taken.size;
    input->size -= taken.size;
    return taken;
}

static size_t take_size(est_str *input)
{
    est_str taken = take(input, 1);

    return taken.size > 0 ? *(const uint8_t *)taken.data : 0;
}

/* The file that shard 0 is in, as the header says. */
static void name_data(est_str header)
{
    est_bundle_header parsed = { .n_shards = 1 };

    if (est_bundle_header_parse(header, &parsed) != EST_OK) parsed.n_shards = 1;
    unlink(data_path);
    snprintf(data_path, sizeof data_path, "%s.data-00000-of-%05d", prefix, (int)parsed.n_shards);
}

/* Makes the files of the checkpoint `prefix`. */
static void make_files(const uint8_t *data, size_t size)
{
    est_str             input = { (const char *)data, size }, header, bytes;
    est_sstable_builder table;

    if (prefix[0] == '\0') make_folder();
    header = take(&input, take_size(&input));
    name_data(header);
    est_sstable_builder_init(&table, 0);
    if (est_sstable_builder_add(&table, (est_str){ "", 0 }, header) != EST_OK) abort();
    while (input.size > 0) {
        size_t  key_size = take_size(&input), value_size = take_size(&input);
        est_str key = take(&input, key_size), value = take(&input, value_size);

        if (key_size == 0 && value_size == 0) break;
        if (est_sstable_builder_add(&table, key, value) != EST_OK) continue; /* not in order */
    }
    if (est_sstable_builder_finish(&table, &bytes) != EST_OK) abort();
    put_file(index_path, bytes.data, bytes.size);
    put_file(data_path, input.data, input.size);
    est_sstable_builder_clear(&table);
}

#endif
