/* SPDX-License-Identifier: Apache-2.0
 *
 * Items that were read ahead. As a message: 1 the element, 2 the error of a row that may be skipped, 3 rows skipped
 * before. */
#include "data/interleave_items.h"

#include <string.h>

#include "data/state.h"

enum { ITEM_ELEMENT = 1, ITEM_ERROR, ITEM_BELOW };

static size_t item_bytes(int n_fields)
{
    return sizeof(est_interleave_item) + (size_t)n_fields * sizeof(est_field);
}

size_t est_interleave_item_block_bytes(int n_fields, int n)
{
    return sizeof(est_interleave_item_block) + (size_t)n * item_bytes(n_fields);
}

est_interleave_item *est_interleave_item_at(int n_fields, est_interleave_item_block *block, int i)
{
    return (est_interleave_item *)(void *)(block->items + (size_t)i * item_bytes(n_fields));
}

void est_interleave_item_block_clear(int n_fields, est_interleave_item_block *block)
{
    for (int i = block->at; i < block->n; i++)
        est_interleave_item_clear(n_fields, est_interleave_item_at(n_fields, block, i));
    block->at = block->n = 0;
}

void est_interleave_item_clear(int n_fields, est_interleave_item *item)
{
    est_free(item->error);
    est_element_clear(item->element.field, n_fields);
    *item = (est_interleave_item){ 0 };
}

void est_interleave_item_move(int n_fields, est_interleave_item *to, est_interleave_item *from)
{
    memcpy(to, from, item_bytes(n_fields));
    memset(from, 0, item_bytes(n_fields));
}

est_status est_interleave_item_fail(est_interleave_item *item, est_status status, bool fatal)
{
    item->error = est_alloc(sizeof *item->error);
    if (item->error == NULL) return est_no_memory();
    est_error_take(status, item->error);
    item->fatal = fatal;
    return EST_OK;
}

est_status est_interleave_item_put(est_wire_writer *w, uint32_t number, const est_interleave_item *item, int n_fields)
{
    size_t mark;

    if (item->error != NULL && item->fatal) return est_error_raise(item->error);
    mark = est_wire_begin(w, number);
    if (item->filled) est_element_put(w, ITEM_ELEMENT, &item->element, n_fields);
    if (item->error != NULL) est_state_put_error(w, ITEM_ERROR, item->error);
    est_wire_put_i64(w, ITEM_BELOW, item->n_below);
    est_wire_end(w, mark);
    return EST_OK;
}

est_status est_interleave_item_parse(est_wire_reader *r, est_pass *pass, const est_dataset *dataset,
                                     est_interleave_item *out)
{
    est_wire_field field;
    est_str        element = { 0 }, error = { 0 };
    est_error      parsed;

    while (est_wire_next(r, &field)) {
        switch (field.number) {
        case ITEM_ELEMENT: element = est_wire_bytes(r, &field); break;
        case ITEM_ERROR: error = est_wire_bytes(r, &field); break;
        case ITEM_BELOW: out->n_below = est_state_bad_rows(r, &field); break;
        default: break;
        }
    }
    EST_TRY(est_wire_finish(r));
    if (element.data != NULL && error.data != NULL) {
        return est_fail(EST_DATA_LOSS, "saved position: an element and an error in one place");
    }
    if (error.data != NULL) {
        EST_TRY(est_state_parse_error(error, &parsed));
        return est_interleave_item_fail(out, est_error_raise(&parsed), false);
    }
    if (element.data == NULL) return EST_OK;
    EST_TRY(est_element_parse(element, pass, dataset, &out->element));
    out->filled = true;
    return EST_OK;
}
