/* SPDX-License-Identifier: Apache-2.0
 *
 * TFRecord files exchanged with TensorFlow, with each kind of compression. */
#include <stdio.h>
#include <string.h>

#include "estoc/tfrecord.h"
#include "support/interop.h"

static const char *const     names[]        = { "none", "zlib", "gzip" };
static const est_compression compressions[] = { EST_COMPRESSION_NONE, EST_COMPRESSION_ZLIB, EST_COMPRESSION_GZIP };

/* Reads a file of theirs and says its records. */
static void read_theirs(const char *name, est_compression compression, const char *said)
{
    est_tfrecord_reader *reader;
    est_strbuf           records = { 0 };
    est_str              record;
    est_status           status;
    char                 file[64];

    snprintf(file, sizeof file, "theirs.%s", name);
    interop_check(est_tfrecord_open(interop_path(file), EST_TFRECORD_READ(.compression = compression), &reader));
    while ((status = est_tfrecord_next(reader, &record)) == EST_OK) interop_blob(&records, record.data, record.size);
    if (status != EST_OUT_OF_RANGE) interop_check(status);
    est_tfrecord_close(reader);
    interop_save(said, &records);
}

TEST(read)
{
    interop_ask("write");
    for (int i = 0; i < 3; i++) {
        char said[64];

        snprintf(said, sizeof said, "read.%s", names[i]);
        read_theirs(names[i], compressions[i], said);
        snprintf(said, sizeof said, "guessed.%s", names[i]);
        read_theirs(names[i], EST_COMPRESSION_DEFAULT, said);
    }
    interop_ask("check_read");
}

TEST(write)
{
    interop_blobs records;

    interop_ask("write");
    interop_blobs_read("records", &records);
    for (int i = 0; i < 3; i++) {
        est_tfrecord_writer *writer;
        char                 file[64];

        snprintf(file, sizeof file, "ours.%s", names[i]);
        interop_check(
            est_tfrecord_create(interop_path(file), EST_TFRECORD_WRITE(.compression = compressions[i]), &writer));
        for (size_t k = 0; k < records.n; k++) {
            interop_check(est_tfrecord_write(writer, records.at[k].data, records.at[k].size));
            if (k % 50 == 49) interop_check(est_tfrecord_flush(writer)); /* must not show in what is read */
        }
        interop_check(est_tfrecord_finish(writer));
    }
    interop_blobs_clear(&records);
    interop_ask("check_written");
}

/* One flipped bit or a missing end, wherever TensorFlow minds it, is an error for us too; and the records before it are
 * the same. */
TEST(damaged)
{
    interop_blobs paths;
    est_strbuf    found = { 0 };

    interop_ask("damage");
    interop_blobs_read("damaged", &paths);
    for (size_t i = 0; i < paths.n; i++) {
        est_tfrecord_reader *reader;
        est_str              record;
        est_status           status;
        char                 text[64];
        int                  n = 0;

        snprintf(text, sizeof text, "%.*s", (int)paths.at[i].size, paths.at[i].data);
        interop_check(
            est_tfrecord_open(interop_path(text), EST_TFRECORD_READ(.compression = EST_COMPRESSION_NONE), &reader));
        while ((status = est_tfrecord_next(reader, &record)) == EST_OK) n++;
        snprintf(text, sizeof text, "%d %s", n, status == EST_OUT_OF_RANGE ? "end" : est_status_name(status));
        interop_blob(&found, text, strlen(text));
        est_tfrecord_close(reader);
    }
    interop_blobs_clear(&paths);
    interop_save("found", &found);
    interop_ask("check_damaged");
}

int main(void)
{
    return INTEROP_MAIN("tfrecord");
}
