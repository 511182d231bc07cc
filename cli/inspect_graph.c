/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc inspect` of GraphDefs: nodes with their inputs and attributes, or how often each op occurs. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/map.h"
#include "format/graph_text.h"
#include "format/tensor_proto.h"
#include "inspect.h"
#include "output.h"

#define STRING_MAX 24 /* characters of a string attribute in the table */
#define ITEMS_MAX  8  /* items of a list attribute in the table */
#define ATTRS_MAX  100
#define INPUTS_MAX 80

/* --- attributes --------------------------------------------------------------------------------------------------- */

static void put_tensor(est_strbuf *out, est_str message, bool as_json)
{
    est_tensor_proto_header header;
    char                    shape[EST_SHAPE_TEXT_MAX];

    if (est_tensor_proto_parse_header(message, &header) != EST_OK) {
        est_strbuf_append(out, as_json ? "null" : "?");
    } else if (as_json) {
        est_strbuf_printf(out, "{\"dtype\": \"%s\", \"shape\": ", tool_dtype_name(header.dtype));
        tool_append_json_shape(out, &header.shape);
        est_strbuf_append(out, "}");
    } else {
        est_strbuf_printf(out, "%s%s", tool_dtype_name(header.dtype), est_shape_text(&header.shape, shape));
    }
}

static void put_string(est_strbuf *out, est_str bytes, bool as_json)
{
    if (as_json) {
        tool_append_json_bytes(out, bytes);
        return;
    }
    est_strbuf_append(out, "\"");
    tool_append_printable(out, bytes, STRING_MAX);
    est_strbuf_append(out, "\"");
}

static void put_scalar(est_strbuf *out, const est_def_value *value, bool as_json)
{
    char shape[EST_SHAPE_TEXT_MAX];

    switch (value->kind) {
    case EST_DEF_S: put_string(out, value->s, as_json); break;
    case EST_DEF_I: est_strbuf_printf(out, "%" PRId64, value->i); break;
    case EST_DEF_F: as_json ? tool_append_json_f32(out, value->f) : tool_append_f32(out, value->f); break;
    case EST_DEF_B: est_strbuf_append(out, value->b ? "true" : "false"); break;
    case EST_DEF_TYPE: est_strbuf_printf(out, as_json ? "\"%s\"" : "%s", tool_dtype_name(value->type)); break;
    case EST_DEF_SHAPE:
        if (as_json) {
            tool_append_json_shape(out, value->shape);
        } else {
            est_strbuf_append(out, est_shape_text(value->shape, shape));
        }
        break;
    case EST_DEF_TENSOR: put_tensor(out, value->s, as_json); break;
    case EST_DEF_PLACEHOLDER: put_string(out, value->s, as_json); break;
    case EST_DEF_FUNC: put_string(out, (est_str){ value->func->name, strlen(value->func->name) }, as_json); break;
    case EST_DEF_NONE:
    case EST_DEF_LIST: est_strbuf_append(out, as_json ? "null" : "?"); break;
    }
}

static void put_value(est_strbuf *out, const est_def_value *value, bool as_json)
{
    int n = value->n;

    if (value->kind != EST_DEF_LIST) {
        put_scalar(out, value, as_json);
        return;
    }
    if (!as_json && n > ITEMS_MAX) n = ITEMS_MAX;
    est_strbuf_append(out, "[");
    for (int i = 0; i < n; i++) {
        if (i > 0) est_strbuf_append(out, as_json ? ", " : ",");
        put_scalar(out, &value->items[i], as_json);
    }
    est_strbuf_append(out, n < value->n ? ",...]" : "]");
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static void json_node(est_strbuf *out, const est_graph_def_node *node)
{
    est_strbuf_append(out, "{\"name\": ");
    tool_append_json_text(out, node->name);
    est_strbuf_append(out, ", \"op\": ");
    tool_append_json_text(out, node->op);
    if (node->device[0] != '\0') {
        est_strbuf_append(out, ", \"device\": ");
        tool_append_json_text(out, node->device);
    }
    est_strbuf_append(out, ", \"inputs\": [");
    for (int i = 0; i < node->inputs.n; i++) {
        if (i > 0) est_strbuf_append(out, ", ");
        tool_append_json_text(out, node->inputs.items[i]);
    }
    est_strbuf_append(out, "], \"attrs\": {");
    for (int i = 0; i < node->attrs.n; i++) {
        if (i > 0) est_strbuf_append(out, ", ");
        tool_append_json_text(out, node->attrs.items[i].name);
        est_strbuf_append(out, ": ");
        put_value(out, &node->attrs.items[i].value, true);
    }
    est_strbuf_append(out, "}}");
}

static est_status table_node(tool_table *table, est_strbuf *scratch, const est_graph_def_node *node)
{
    tool_table_text(table, (est_str){ node->name, strlen(node->name) }, 0);
    tool_table_text(table, (est_str){ node->op, strlen(node->op) }, 0);
    for (int i = 0; i < node->inputs.n; i++) {
        est_strbuf_printf(scratch, "%s%s", i > 0 ? " " : "", node->inputs.items[i]);
    }
    tool_table_text(table, (est_str){ est_strbuf_text(scratch), scratch->size }, INPUTS_MAX);
    est_strbuf_reset(scratch);
    for (int i = 0; i < node->attrs.n; i++) {
        if (node->attrs.items[i].name[0] == '_') continue; /* hints of passes: they would hide the rest */
        est_strbuf_printf(scratch, "%s%s=", scratch->size > 0 ? " " : "", node->attrs.items[i].name);
        put_value(scratch, &node->attrs.items[i].value, false);
    }
    tool_table_text(table, (est_str){ est_strbuf_text(scratch), scratch->size }, ATTRS_MAX);
    est_strbuf_reset(scratch);
    return tool_table_row(table);
}

static est_status table_nodes(const est_graph_def *graph, est_strbuf *line)
{
    static const char *const names[] = { "name", "op", "inputs", "attributes" };
    tool_table               table   = { 0 };
    est_status               status  = EST_OK;

    tool_table_begin(&table, names, 4);
    for (int i = 0; i < graph->n_nodes && status == EST_OK; i++) status = table_node(&table, line, graph->nodes[i]);
    if (status == EST_OK) status = tool_table_end(&table);
    tool_table_clear(&table);
    return status;
}

static est_status json_nodes(const est_graph_def *graph, est_strbuf *line)
{
    est_strbuf_append(line, "\"nodes\": [");
    for (int i = 0; i < graph->n_nodes; i++) {
        est_strbuf_append(line, i > 0 ? ",\n  " : "\n  ");
        json_node(line, graph->nodes[i]);
        EST_TRY(tool_write(line));
    }
    est_strbuf_append(line, "\n]");
    return tool_write(line);
}

/* --- functions ---------------------------------------------------------------------------------------------------- */

static est_status show_functions(const inspect_options *options, const est_graph_def *graph, est_strbuf *line)
{
    est_function_cursor cursor;
    est_function_view   function;
    bool                found;
    int                 n = 0;

    if (options->json) est_strbuf_append(line, ", \"functions\": [");
    est_function_cursor_init(&cursor, graph->library);
    for (;; n++) {
        EST_TRY(est_function_cursor_next(&cursor, &found, &function));
        if (!found) break;
        if (options->json) {
            est_strbuf_append(line, n > 0 ? ", {\"name\": " : "{\"name\": ");
            est_strbuf_append_json(line, function.name.data, function.name.size);
            est_strbuf_printf(line, ", \"nodes\": %d}", function.n_nodes);
        } else {
            est_strbuf_append(line, "function ");
            tool_append_printable(line, function.name, 0);
            est_strbuf_printf(line, ": %d nodes\n", function.n_nodes);
        }
    }
    if (options->json) {
        est_strbuf_printf(line, "], \"producer\": %" PRId32, graph->producer);
    } else {
        est_strbuf_printf(line, "total: %d nodes, %d functions, producer %" PRId32 "\n", graph->n_nodes, n,
                          graph->producer);
    }
    return tool_write(line);
}

/* --- ops ---------------------------------------------------------------------------------------------------------- */

typedef struct op_count {
    const char *op; /* borrowed from the arena of the count */
    int64_t     in_graph, in_functions;
} op_count;

typedef struct op_counts {
    est_arena *arena;
    est_map    by_op; /* to op_count */
} op_counts;

static est_status count_nodes(op_counts *counts, const est_graph_def *graph, bool in_functions)
{
    for (int i = 0; i < graph->n_nodes; i++) {
        const char *op    = graph->nodes[i]->op;
        op_count   *count = est_map_get(&counts->by_op, op);

        if (count == NULL) {
            count = est_arena_alloc(counts->arena, sizeof *count);
            if (count == NULL) return est_no_memory();
            count->op = est_arena_strdup(counts->arena, op);
            if (count->op == NULL) return est_no_memory();
            EST_TRY(est_map_put(&counts->by_op, op, count));
        }
        *(in_functions ? &count->in_functions : &count->in_graph) += 1;
    }
    return EST_OK;
}

static est_status count_functions(op_counts *counts, const est_graph_def *graph)
{
    est_function_cursor cursor;
    est_function_view   function;
    bool                found;

    est_function_cursor_init(&cursor, graph->library);
    for (;;) {
        est_arena    *arena;
        est_graph_def nodes;
        est_status    status;

        EST_TRY(est_function_cursor_next(&cursor, &found, &function));
        if (!found) return EST_OK;
        arena = est_arena_create();
        if (arena == NULL) return est_no_memory();
        status = est_function_parse_nodes(&function, arena, &nodes);
        if (status == EST_OK) status = count_nodes(counts, &nodes, true);
        est_arena_free(arena);
        EST_TRY(status);
    }
}

/* The most frequent first, then by name. */
static int by_count(const void *a, const void *b)
{
    const op_count *x = *(op_count *const *)a, *y = *(op_count *const *)b;
    int64_t         n = x->in_graph + x->in_functions, m = y->in_graph + y->in_functions;

    return n != m ? (n < m ? 1 : -1) : strcmp(x->op, y->op);
}

static est_status table_ops(op_count *const *sorted, uint32_t n)
{
    static const char *const names[] = { "op", "in graph", "in functions" };
    tool_table               table   = { .right = 6 };
    est_status               status  = EST_OK;

    tool_table_begin(&table, names, 3);
    for (uint32_t i = 0; i < n && status == EST_OK; i++) {
        tool_table_text(&table, (est_str){ sorted[i]->op, strlen(sorted[i]->op) }, 0);
        tool_table_cell(&table, "%" PRId64, sorted[i]->in_graph);
        tool_table_cell(&table, "%" PRId64, sorted[i]->in_functions);
        status = tool_table_row(&table);
    }
    if (status == EST_OK) status = tool_table_end(&table);
    tool_table_clear(&table);
    return status;
}

static est_status json_ops(op_count *const *sorted, uint32_t n, est_strbuf *line)
{
    est_strbuf_append(line, "\"ops\": [");
    for (uint32_t i = 0; i < n; i++) {
        est_strbuf_append(line, i > 0 ? ",\n  {\"op\": " : "\n  {\"op\": ");
        tool_append_json_text(line, sorted[i]->op);
        est_strbuf_printf(line, ", \"in_graph\": %" PRId64 ", \"in_functions\": %" PRId64 "}", sorted[i]->in_graph,
                          sorted[i]->in_functions);
    }
    est_strbuf_append(line, "\n]");
    return tool_write(line);
}

static est_status show_counts(const inspect_options *options, const op_counts *counts, est_strbuf *line)
{
    op_count  **sorted = est_alloc((counts->by_op.n + 1) * sizeof *sorted);
    uint32_t    at = 0, n = 0;
    const char *op;
    void       *count;
    est_status  status;

    if (sorted == NULL) return est_no_memory();
    while (est_map_next(&counts->by_op, &at, &op, &count)) sorted[n++] = count;
    qsort(sorted, n, sizeof *sorted, by_count);
    status = options->json ? json_ops(sorted, n, line) : table_ops(sorted, n);
    est_free(sorted);
    return status;
}

static est_status show_ops(const inspect_options *options, const est_graph_def *graph, est_strbuf *line)
{
    op_counts  counts = { .arena = est_arena_create() };
    est_status status = EST_OK;

    if (counts.arena == NULL) return est_no_memory();
    status = count_nodes(&counts, graph, false);
    if (status == EST_OK) status = count_functions(&counts, graph);
    if (status == EST_OK) status = show_counts(options, &counts, line);
    est_map_clear(&counts.by_op);
    est_arena_free(counts.arena);
    return status;
}

/* --- the file ----------------------------------------------------------------------------------------------------- */

est_status inspect_show_nodes(const inspect_options *options, const est_graph_def *graph)
{
    est_strbuf line = { 0 };
    est_status status;

    if (options->ops) {
        status = show_ops(options, graph, &line);
    } else {
        status = options->json ? json_nodes(graph, &line) : table_nodes(graph, &line);
    }
    if (status == EST_OK) status = show_functions(options, graph, &line);
    est_strbuf_clear(&line);
    return status;
}

static est_status show_graph(const inspect_options *options, est_str message, est_arena *arena)
{
    est_strbuf    line = { 0 };
    est_graph_def graph;
    est_status    status;

    if (options->text) {
        status = est_graph_def_text(message, &line);
        if (status == EST_OK) status = tool_write(&line);
        est_strbuf_clear(&line);
        return status;
    }
    EST_TRY(est_graph_def_parse_bytes(message, arena, &graph));
    if (options->json) est_strbuf_append(&line, "{");
    status = tool_write(&line);
    if (status == EST_OK) status = inspect_show_nodes(options, &graph);
    if (options->json) est_strbuf_append(&line, "}\n");
    if (status == EST_OK) status = tool_write(&line);
    est_strbuf_clear(&line);
    return status;
}

est_status inspect_message(const inspect_options *options, const char *path, inspect_message_fn show)
{
    est_arena *arena;
    est_status status;
    char      *bytes;
    size_t     size;

    EST_TRY(est_file_read(path, &bytes, &size));
    arena = est_arena_create();
    if (arena != NULL) {
        status = show(options, (est_str){ bytes, size }, arena);
    } else {
        status = est_no_memory();
    }
    est_arena_free(arena);
    est_free(bytes);
    if (status == EST_DATA_LOSS || status == EST_UNIMPLEMENTED) return est_fail_context(status, "%s", path);
    return status;
}

est_status inspect_graph(const inspect_options *options)
{
    return inspect_message(options, options->path, show_graph);
}
