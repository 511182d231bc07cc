/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of a network's layers, as Keras prints it, and the number of its parameters. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/argument.h"
#include "base/strbuf.h"
#include "graph/reuse.h"
#include "network/network.h"
#include "ops/ops.h"

#define WIDTH   65
#define COLUMNS 3

static const int column_ends[COLUMNS] = { 29, 55, WIDTH };

/* --- parameters --------------------------------------------------------------------------------------------------- */

typedef struct params {
    int64_t n, trained; /* numbers: all, and those that training changes */
    double  bytes, bytes_trained;
} params;

static bool is_trained(const est_graph *graph, est_node variable)
{
    est_nodes trained = est_trainable_variables(graph);

    for (int i = 0; i < trained.n; i++) {
        if (trained.data[i].id == variable.id) return true;
    }
    return false;
}

static params count(const est_graph *graph, est_nodes made)
{
    params p = { 0 };

    for (int i = 0; i < made.n; i++) {
        est_dtype dtype = est_variable_dtype(made.data[i]);
        int64_t   n     = dtype != EST_DTYPE_NONE ? est_shape_count(est_node_shape(made.data[i])) : 0;
        double    bytes = (double)n * (double)est_dtype_size(dtype);

        if (est_has_rows(made.data[i])) continue; /* they come with the keys */
        p.n += n;
        p.bytes += bytes;
        if (!is_trained(graph, made.data[i])) continue;
        p.trained += n;
        p.bytes_trained += bytes;
    }
    return p;
}

int64_t est_network_count_params(const est_network *network)
{
    if (network == NULL || network->graph == NULL) return 0;
    return count(network->graph, est_reuse_nodes(network->graph, network)).n;
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

/* A row; what does not fit into a column goes on in the next line. */
static void put_row(est_strbuf *out, const char *const fields[COLUMNS])
{
    const char *left[COLUMNS] = { fields[0], fields[1], fields[2] };

    while (left[0][0] != '\0' || left[1][0] != '\0' || left[2][0] != '\0') {
        int at = 1;

        est_strbuf_append(out, " ");
        for (int i = 0; i < COLUMNS; i++) {
            int    start = i > 0 ? column_ends[i - 1] : 0;
            int    room  = column_ends[i] - start - (i < COLUMNS - 1 ? 3 : 0);
            size_t n     = strnlen(left[i], (size_t)room);

            est_strbuf_append_bytes(out, left[i], n);
            left[i] += n;
            for (at += (int)n; at < column_ends[i]; at++) est_strbuf_append(out, " ");
        }
        est_strbuf_append(out, "\n");
    }
}

static void put_line(est_strbuf *out, char c)
{
    for (int i = 0; i < WIDTH; i++) est_strbuf_append_bytes(out, &c, 1);
    est_strbuf_append(out, "\n");
}

/* "(None, 28, 28)" */
static void put_shape(est_strbuf *out, const est_shape *shape)
{
    if (shape->rank < 0) {
        est_strbuf_append(out, "?");
        return;
    }
    est_strbuf_append(out, "(");
    for (int i = 0; i < shape->rank; i++) {
        if (i > 0) est_strbuf_append(out, ", ");
        if (shape->dim[i] < 0) {
            est_strbuf_append(out, "None");
        } else {
            est_strbuf_printf(out, "%" PRId64, shape->dim[i]);
        }
    }
    est_strbuf_append(out, shape->rank == 1 ? ",)" : ")");
}

static est_status put_layer(est_strbuf *out, const est_reuse_layer *layer, params p)
{
    est_strbuf what = { 0 }, shape = { 0 };
    char       n[32];
    est_status status;

    est_strbuf_printf(&what, "%s (%s)", layer->name, layer->type);
    put_shape(&shape, est_node_shape(layer->output));
    (void)snprintf(n, sizeof n, "%" PRId64, p.n);
    status = est_strbuf_status(&what);
    if (status == EST_OK) status = est_strbuf_status(&shape);
    if (status == EST_OK) {
        put_row(out, (const char *const[COLUMNS]){ est_strbuf_text(&what), est_strbuf_text(&shape), n });
        est_strbuf_printf(out, "%*s\n", WIDTH, "");
    }
    est_strbuf_clear(&what);
    est_strbuf_clear(&shape);
    return status;
}

static void put_total(est_strbuf *out, const char *what, int64_t n, double bytes)
{
    static const char *const units[] = { "Byte", "KB", "MB", "GB", "TB", "PB" };
    size_t                   i       = 0;

    while (bytes >= 1024 && i + 1 < sizeof units / sizeof units[0]) {
        bytes /= 1024;
        i++;
    }
    est_strbuf_printf(out, "%s: %" PRId64 " (%.2f %s)\n", what, n, bytes, units[i]);
}

static est_status put_network(est_strbuf *out, const est_network *network)
{
    est_nodes              made = est_reuse_nodes(network->graph, network);
    params                 all  = count(network->graph, made);
    int                    n;
    const est_reuse_layer *layers = est_reuse_layers(network->graph, network, &n);

    est_strbuf_printf(out, "Model: \"%s\"\n", network->name);
    put_line(out, '_');
    put_row(out, (const char *const[COLUMNS]){ "Layer (type)", "Output Shape", "Param #" });
    put_line(out, '=');
    for (int i = 0; i < n; i++) {
        est_nodes own = EST_NO_NODES;

        if (layers[i].n > 0) own = (est_nodes){ made.data + layers[i].first, layers[i].n };
        EST_TRY(put_layer(out, &layers[i], count(network->graph, own)));
    }
    put_line(out, '=');
    put_total(out, "Total params", all.n, all.bytes);
    put_total(out, "Trainable params", all.trained, all.bytes_trained);
    put_total(out, "Non-trainable params", all.n - all.trained, all.bytes - all.bytes_trained);
    put_line(out, '_');
    return est_strbuf_status(out);
}

est_status est_network_summary(est_network *network, FILE *file)
{
    est_strbuf text = { 0 };
    est_status status;

    EST_REQUIRE(network);
    EST_REQUIRE(file);
    EST_TRY(est_network_build_now(network));
    status = put_network(&text, network);
    if (status == EST_OK && fwrite(est_strbuf_text(&text), 1, text.size, file) != text.size) {
        status = est_fail(EST_UNAVAILABLE, "the summary of %s could not be written", network->name);
    }
    est_strbuf_clear(&text);
    return status;
}
