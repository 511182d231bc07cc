/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the parsers of events: a file of one event, with sound checksums around the input, read by est_events, and
 * each entry's tensor. (The framing has a fuzzer of its own, tfrecord.) */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "estoc/events.h"
#include "format/event.h"
#include "format/summary.h"
#include "format/tfrecord.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void touch(est_str text)
{
    volatile char sink = 0;

    for (size_t i = 0; i < text.size; i++) sink = (char)(sink ^ text.data[i]);
}

static void read_entry(const est_event_entry *entry)
{
    est_tensor     *tensor = NULL;
    est_image_view  image;
    est_session_log log;

    touch(entry->tag);
    touch(entry->text);
    if (est_entry_tensor(entry, &tensor) == EST_OK) est_tensor_free(tensor);
    if (est_image_parse(entry->bytes, &image) == EST_OK) touch(image.encoded);
    if (est_session_log_parse(entry->bytes, &log) == EST_OK) touch(log.msg);
}

static void read_file(const char *path)
{
    est_events     *events;
    est_event_entry entry;
    est_status      status;

    if (est_events_open(path, &events) != EST_OK) abort();
    while ((status = est_events_next(events, &entry)) == EST_OK) read_entry(&entry);
    if (status == EST_OUT_OF_RANGE && est_events_is_cut(events, NULL, NULL)) abort();
    est_events_close(events);
}

static bool write_record(int fd, const uint8_t *data, size_t size)
{
    uint8_t  header[EST_TFRECORD_HEADER], footer[EST_TFRECORD_FOOTER];
    uint64_t length = size;
    uint32_t crc;

    memcpy(header, &length, sizeof length); /* the machine is little-endian */
    crc = est_tfrecord_crc(header, sizeof length);
    memcpy(header + sizeof length, &crc, sizeof crc);
    crc = est_tfrecord_crc(data, size);
    memcpy(footer, &crc, sizeof crc);
    return write(fd, header, sizeof header) == (ssize_t)sizeof header && write(fd, data, size) == (ssize_t)size &&
           write(fd, footer, sizeof footer) == (ssize_t)sizeof footer;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    int  fd = memfd_create("event", 0);

    if (fd < 0) return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (write_record(fd, data, size)) read_file(path);
    close(fd);
    return 0;
}
