/* SPDX-License-Identifier: Apache-2.0
 *
 * A contiguous list of elements of one dataset, for stages that hold many elements: an element needs no allocation of
 * its own. One thread at a time. */
#ifndef EST_DATA_ELEMENT_LIST_H
#define EST_DATA_ELEMENT_LIST_H

#include "data/stage.h"

/* Starts with est_element_list_init; a zeroed one may be cleared. */
typedef struct est_element_list {
    char   *data;
    int64_t n;
    int64_t capacity;
    int     n_fields; /* of an element */
    size_t  stride;   /* bytes of an element */
} est_element_list;

static inline est_element *est_element_list_at(const est_element_list *list, int64_t i)
{
    return (est_element *)(void *)(list->data + (size_t)i * list->stride);
}

/* An empty list of elements with n_fields fields. */
void est_element_list_init(est_element_list *list, int n_fields);

/* Makes room for one more and returns it, holding nothing; it counts only after est_element_list_push. NULL, with an
 * error, when memory is out. Elements may move. */
est_element *est_element_list_room(est_element_list *list);

static inline void est_element_list_push(est_element_list *list)
{
    list->n++;
}

/* Pulls one element from `input` to the end of the list. */
EST_MUST_CHECK est_status est_element_list_pull(est_element_list *list, est_iter *input);

/* Moves element i out and the last one into its place. */
void est_element_list_take(est_element_list *list, int64_t i, est_element *out);

/* Frees the contents of the elements, and keeps the capacity. */
void est_element_list_reset(est_element_list *list);

/* Gives back everything. */
void est_element_list_clear(est_element_list *list);

#endif
