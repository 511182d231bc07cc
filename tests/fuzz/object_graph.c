/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the parser of object graphs. Names and keys found must lead to each other. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "format/object_graph.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_names(const est_object_graph *graph)
{
    const char *key;
    void       *value;
    uint32_t    at    = 0;
    int         n_all = 0;

    while (est_map_next(&graph->by_name, &at, &key, &value)) {
        const est_object_tensor *tensor = value;

        if (strcmp(tensor->full_name, key) != 0) abort();
        if (est_map_get(&graph->by_key, tensor->checkpoint_key) != tensor) abort();
        n_all += tensor->n_same_name;
    }
    if (n_all != (int)graph->by_key.n) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    est_object_graph graph = { 0 };

    if (est_object_graph_parse(&graph, (est_str){ (const char *)data, size }) == EST_OK) check_names(&graph);
    est_object_graph_clear(&graph);
    return 0;
}
