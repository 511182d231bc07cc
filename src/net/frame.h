/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames, the units that a link carries. Stateless; any thread.
 *
 * A frame is a header of 64 bytes and a body. Numbers are little-endian. The body is a table with the size of every
 * part (8 bytes each), the head, and the parts, each beginning at a multiple of 64 bytes from the start of the body;
 * nothing follows the last. So a receiver reads the header, allocates one aligned block, and reads the body into it.
 *
 * CRC-32C covers the header and the table, which decide how much memory is allocated and where bytes go. The sequence
 * number counts the frames of one direction of a link from 0, so that a frame that was lost, repeated or reordered is
 * noticed. */
#ifndef EST_NET_FRAME_H
#define EST_NET_FRAME_H

#include "net/net.h"

#define EST_FRAME_BYTES     64 /* of a header */
#define EST_FRAME_VERSION   3
#define EST_FRAME_PARTS_MAX (1 << 20)

typedef enum est_frame_kind {
    EST_FRAME_HELLO   = 1, /* identity: the first frame of either side */
    EST_FRAME_REQUEST = 2,
    EST_FRAME_ANSWER  = 3, /* to the request with the same id */
    EST_FRAME_FAILURE = 4, /* instead of an answer; instead of a hello: the peer is refused */
    EST_FRAME_BEAT    = 5, /* heartbeat */
    EST_FRAME_BYE     = 6  /* announces a close, with the reason */
} est_frame_kind;

typedef struct est_frame {
    est_frame_kind kind;
    uint16_t       method;
    uint32_t       n_parts;
    uint32_t       table_crc;
    uint64_t       sequence, id, head_size, body_size;
} est_frame;

/* Where a piece after `end` bytes begins. */
static inline uint64_t est_frame_align(uint64_t end)
{
    return (end + 63) & ~UINT64_C(63);
}

/* Fills in the sizes of a frame that will carry the payload. EST_INVALID_ARGUMENT: it has too many parts or bytes. */
EST_MUST_CHECK est_status est_frame_measure(const est_payload *payload, est_frame *frame);

/* The bytes before the first part: header, table, head and padding. */
size_t est_frame_front_bytes(const est_frame *frame);

/* Writes them, except for the header; sets frame->table_crc. */
void est_frame_write_front(const est_payload *payload, est_frame *frame, uint8_t *front);

void est_frame_encode(const est_frame *frame, uint8_t out[EST_FRAME_BYTES]);

/* Whether these bytes, fewer than a header, may be the start of one. */
bool est_frame_may_begin(const uint8_t *bytes, size_t size);

/* Reads a header, the first of `size` bytes. EST_DATA_LOSS: not a frame of ours, or not all of the header is there.
 * EST_FAILED_PRECONDITION: of another version. The sizes fit into 63 bits and into the body. */
EST_MUST_CHECK est_status est_frame_decode(const uint8_t *in, size_t size, est_frame *out);

/* Checks the table of a received body and replaces its sizes by the end of each part, counted from the start of the
 * body. */
EST_MUST_CHECK est_status est_frame_read_table(const est_frame *frame, uint64_t *table);

/* --- heads of our own frames -------------------------------------------------------------------------------------- */

typedef struct est_hello {
    est_task_id self;
    char        wanted[EST_NET_NAME_MAX]; /* the task that the peer must be; "": any */
} est_hello;

#define EST_HELLO_BYTES (3 * EST_NET_NAME_MAX + 8 + EST_NET_PLACE_MAX + EST_NET_FOLDER_MAX)

void                      est_hello_encode(const est_hello *hello, uint8_t out[EST_HELLO_BYTES]);
EST_MUST_CHECK est_status est_hello_decode(const void *head, size_t size, est_hello *out);

/* A failure or a farewell: a code and a text, truncated to fit. A received text is made printable: it may come from
 * anyone. */
#define EST_FAREWELL_MAX 1024

size_t                    est_farewell_encode(est_status status, const char *text, uint8_t out[EST_FAREWELL_MAX]);
EST_MUST_CHECK est_status est_farewell_decode(const void *head, size_t size, est_status *status,
                                              char text[EST_FAREWELL_MAX]);

#endif
