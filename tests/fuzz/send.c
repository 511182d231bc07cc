/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes SEND, a tensor of a step that comes from another task (cluster/rendezvous.h). Two bytes are the size of the
 * part, the part follows, and the rest is the head. What is read must be written and read again as the same. */
#include <stdlib.h>

#include "../support/message_test.h"
#include "cluster/rendezvous.h"
#include "tensor/shape.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static est_blocks *blocks;

static void require(bool holds)
{
    if (!holds) abort();
}

/* The message that a sender makes of the same tensor. */
static est_message *write_again(est_transfer_id id, const est_view *view)
{
    est_packing  packing = { 0 };
    est_payload  payload;
    est_message *message;

    est_wire_put_u64(&packing.head, EST_FIELD_DRIVER, id.driver);
    est_wire_put_u64(&packing.head, EST_FIELD_DRIVEN_STEP, id.step);
    est_wire_put_u64(&packing.head, EST_FIELD_TRANSFER, id.transfer);
    est_pack_view(&packing, view);
    require(est_packing_payload(&packing, &payload) == EST_OK);
    require(message_make(blocks, payload, &message) == EST_OK);
    est_packing_clear(&packing);
    return message;
}

static bool same_view(const est_view *a, const est_view *b)
{
    if (a->dtype != b->dtype || a->count != b->count || !est_shape_equal(&a->shape, &b->shape)) return false;
    for (int64_t i = 0; i < a->count && a->dtype == EST_STRING; i++) {
        est_str x = ((const est_str *)a->data)[i], y = ((const est_str *)b->data)[i];

        if (x.size != y.size || (x.size > 0 && memcmp(x.data, y.data, x.size) != 0)) return false;
    }
    return a->dtype == EST_STRING || a->count == 0 ||
           memcmp(a->data, b->data, (size_t)a->count * est_dtype_size(a->dtype)) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t       want = size >= 2 ? (size_t)(data[0] | data[1] << 8) : 0;
    est_part     part = { size >= 2 ? data + 2 : NULL, size >= 2 && want < size - 2 ? want : size >= 2 ? size - 2 : 0 };
    est_message *message, *again;
    est_arrival *once, *twice;

    if (size < 2) return 0;
    if (blocks == NULL) require(est_blocks_create(&blocks) == EST_OK);
    require(message_make(blocks, (est_payload){ data + 2 + part.size, size - 2 - part.size, &part, 1 }, &message) ==
            EST_OK);
    if (est_arrival_read(message, &once) == EST_OK) {
        est_transfer_id first = est_arrival_id(once), second;

        again = write_again(first, est_arrival_view(once));
        require(est_arrival_read(again, &twice) == EST_OK);
        est_message_free(again); /* the arrival keeps it */
        second = est_arrival_id(twice);
        require(first.driver == second.driver && first.step == second.step && first.transfer == second.transfer);
        require(same_view(est_arrival_view(once), est_arrival_view(twice)));
        est_arrival_free(once);
        est_arrival_free(twice);
    }
    est_message_free(message);
    return 0;
}
