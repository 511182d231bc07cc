/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of elements. Room that no element uses is zero, so that a new element holds nothing. */
#include "data/element_list.h"

#include <inttypes.h>
#include <string.h>

#define FIRST_CAPACITY 16

void est_element_list_init(est_element_list *list, int n_fields)
{
    *list        = (est_element_list){ .n_fields = n_fields };
    list->stride = sizeof(est_element) + (size_t)n_fields * sizeof(est_field);
}

static est_status grow(est_element_list *list)
{
    int64_t capacity = list->capacity > 0 ? list->capacity + list->capacity / 2 : FIRST_CAPACITY;
    size_t  used     = (size_t)list->capacity * list->stride;
    char   *data     = NULL;
    size_t  bytes;

    if (!__builtin_mul_overflow((size_t)capacity, list->stride, &bytes)) data = est_realloc(list->data, bytes);
    if (data == NULL) return est_no_memory();
    memset(data + used, 0, bytes - used);
    list->data     = data;
    list->capacity = capacity;
    return EST_OK;
}

est_element *est_element_list_room(est_element_list *list)
{
    if (list->n == list->capacity && grow(list) != EST_OK) return NULL;
    return est_element_list_at(list, list->n);
}

est_status est_element_list_pull(est_element_list *list, est_iter *input)
{
    est_element *element = est_element_list_room(list);

    if (element == NULL) return EST_RESOURCE_EXHAUSTED;
    EST_TRY(est_iter_next(input, element));
    est_element_list_push(list);
    return EST_OK;
}

void est_element_list_take(est_element_list *list, int64_t i, est_element *out)
{
    est_element *from = est_element_list_at(list, i);
    est_element *last = est_element_list_at(list, list->n - 1);

    est_element_move(out, from, list->n_fields);
    if (from != last) est_element_move(from, last, list->n_fields);
    list->n--;
}

void est_element_list_reset(est_element_list *list)
{
    for (int64_t i = 0; i < list->n; i++) est_element_clear(est_element_list_at(list, i)->field, list->n_fields);
    list->n = 0;
}

void est_element_list_clear(est_element_list *list)
{
    est_element_list_reset(list);
    est_free(list->data);
    *list = (est_element_list){ 0 };
}
