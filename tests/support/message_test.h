/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages without a network: what a peer would have got of a payload. */
#ifndef EST_TESTS_MESSAGE_TEST_H
#define EST_TESTS_MESSAGE_TEST_H

#include <string.h>

#include "base/alloc.h"
#include "net/message.h"

/* Freed with est_message_free. */
static inline est_status message_make(est_blocks *blocks, est_payload payload, est_message **out)
{
    est_frame    frame = { .kind = EST_FRAME_REQUEST };
    est_message *message;
    uint8_t     *front, *body;
    uint64_t     end;
    est_status   status;

    EST_TRY(est_frame_measure(&payload, &frame));
    front = est_alloc(est_frame_front_bytes(&frame));
    if (front == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for a message");
    est_frame_write_front(&payload, &frame, front);
    status = est_message_create(blocks, &frame, &message);
    if (status == EST_OK) {
        end  = est_frame_front_bytes(&frame) - EST_FRAME_BYTES;
        body = est_message_body(message);
        memcpy(body, front + EST_FRAME_BYTES, (size_t)(end < frame.body_size ? end : frame.body_size));
        for (int i = 0; i < payload.n_parts; i++) {
            end = est_frame_align(end);
            if (payload.parts[i].size > 0) memcpy(body + end, payload.parts[i].data, payload.parts[i].size);
            end += payload.parts[i].size;
        }
        status = est_message_finish(message, &frame);
        if (status == EST_OK) {
            *out = message;
        } else {
            est_message_free(message);
        }
    }
    est_free(front);
    return status;
}

#endif
