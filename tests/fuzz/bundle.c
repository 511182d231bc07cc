/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the reader of checkpoints past the checksums of the index: the input is a list of (size of key, size of value,
 * key, value), ended by a key and value of size 0, then the data file. Every tensor is read, whole and in part. */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/bundle.h"
#include "format/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char prefix[64], index_path[96], data_path[96];

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
    snprintf(data_path, sizeof data_path, "%s.data-00000-of-00001", prefix);
    atexit(remove_files);
}

static void put_file(const char *path, const void *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size) abort();
    close(fd);
}

/* Returns what is left of the input: the data. */
static const uint8_t *put_index(const uint8_t *at, const uint8_t *end)
{
    est_table_builder table;
    est_str           bytes;

    est_table_builder_init(&table, 0);
    if (est_table_builder_add(&table, (est_str){ "", 0 }, (est_str){ "\x08\x01\x1a\x02\x08\x01", 6 }) != EST_OK)
        abort();
    while (end - at >= 2) {
        size_t  key = at[0], value = at[1];
        est_str k, v;

        at += 2;
        if (key == 0 && value == 0) break;
        if ((size_t)(end - at) < key + value) break;
        k = (est_str){ (const char *)at, key };
        v = (est_str){ (const char *)at + key, value };
        at += key + value;
        if (est_table_builder_add(&table, k, v) != EST_OK) continue; /* not in order */
    }
    if (est_table_builder_finish(&table, &bytes) != EST_OK) abort();
    put_file(index_path, bytes.data, bytes.size);
    est_table_builder_clear(&table);
    return at;
}

static void read_tensor(const est_bundle *bundle, const est_bundle_entry *entry)
{
    est_tensor      *tensor = NULL;
    est_bundle_slice part   = { .rank = entry->shape.rank };

    if (est_bundle_read(bundle, entry->name, NULL, &tensor) == EST_OK) est_tensor_free(tensor);
    for (int i = 0; i < part.rank; i++) {
        part.start[i]  = entry->shape.dim[i] / 3;
        part.length[i] = (entry->shape.dim[i] - part.start[i]) / 2;
    }
    if (part.rank >= 0 && est_bundle_read(bundle, entry->name, &part, &tensor) == EST_OK) est_tensor_free(tensor);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *rest;
    est_bundle    *bundle;

    if (prefix[0] == '\0') make_folder();
    rest = put_index(data, data + size);
    put_file(data_path, rest, (size_t)(data + size - rest));
    if (est_bundle_open(prefix, &bundle) != EST_OK) return 0;
    for (int i = 0; i < est_bundle_count(bundle); i++) read_tensor(bundle, est_bundle_at(bundle, i));
    est_bundle_close(bundle);
    return 0;
}
