/* SPDX-License-Identifier: Apache-2.0
 *
 * Embedding columns: a trained vector for every id, combined over a row. Shared embeddings use one table, which the
 * first of them in a graph creates: outside of all scopes as "<collection>", or for v1 in the collection's scope. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/strbuf.h"
#include "estoc/checkpoint.h"
#include "feature/column.h"

typedef struct embedding {
    est_column                   column;
    const est_column            *source;
    est_embedding_column_options o;      /* defaults filled in; strings in the arena */
    const char                  *shared; /* the collection of the graph that holds the table; NULL: not shared */
} embedding;

static const embedding *embedding_of(const est_column *column)
{
    return (const embedding *)(const void *)column;
}

static est_status embedding_parse(const est_column *column, est_parse_spec *spec)
{
    const est_column *source = embedding_of(column)->source;

    return source->kind->parse(source, spec);
}

/* --- first values from a checkpoint ------------------------------------------------------------------------------- */

static est_status read_stored(const embedding *c, est_dtype dtype, est_shape shape, est_tensor **out)
{
    est_checkpoint *checkpoint = NULL;
    est_tensor     *stored     = NULL;
    char            have[EST_SHAPE_TEXT_MAX], want[EST_SHAPE_TEXT_MAX];
    est_status      status = est_checkpoint_open(c->o.checkpoint, &checkpoint);

    if (status != EST_OK) return est_fail_context(status, "embedding column \"%s\"", c->column.name);
    status = est_checkpoint_read(checkpoint, c->o.tensor_name, &stored);
    est_checkpoint_close(checkpoint);
    if (status != EST_OK) return est_fail_context(status, "embedding column \"%s\"", c->column.name);
    if (est_tensor_dtype(stored) != dtype || !est_shape_equal(est_tensor_shape(stored), &shape)) {
        status = est_fail(EST_INVALID_ARGUMENT,
                          "embedding column \"%s\" is %s %s, but %s in the checkpoint %s is %s %s", c->column.name,
                          est_dtype_name(dtype), est_shape_text(&shape, want), c->o.tensor_name, c->o.checkpoint,
                          est_dtype_name(est_tensor_dtype(stored)), est_shape_text(est_tensor_shape(stored), have));
        est_tensor_free(stored);
        return status;
    }
    *out = stored;
    return EST_OK;
}

static est_node stored_make(const est_initializer *self, est_graph *graph, est_dtype dtype, est_shape shape)
{
    est_tensor *value  = NULL;
    est_status  status = read_stored(self->user, dtype, shape, &value);
    est_node    node;

    if (status != EST_OK) return est_graph_poison(graph, status);
    node = est_const(graph, value);
    est_tensor_free(value);
    return node;
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

/* TensorFlow's estimators save a table outside of all scopes but do not train it: their checkpoints lack its slots. */
static est_node make_top_table(const embedding *c, est_graph *graph, est_shape shape, est_initializer initializer,
                               bool frozen)
{
    est_node table = est_nn_absolute_variable(graph, c->column.v1_scope, EST_F32, shape, initializer,
                                              "global_variables");

    if (est_graph_poisoned(graph) || frozen) return table;
    est_graph_collect(graph, "trainable_variables", table);
    est_graph_collect(graph, EST_NEW_SLOTS, table);
    return table;
}

static est_node make_table(const embedding *c, est_graph *graph, est_layer_use use)
{
    est_initializer initializer = c->o.initializer;
    est_shape       shape       = EST_SHAPE(c->source->n_buckets, c->column.width);
    bool            frozen      = use.frozen || c->o.frozen;

    if (c->o.checkpoint != NULL) initializer = (est_initializer){ .make = stored_make, .user = c };
    if (c->shared != NULL && !use.v1) return make_top_table(c, graph, shape, initializer, frozen);
    return est_weight(graph, "embedding_weights", shape, EST_WEIGHT(.initializer = initializer, .frozen = frozen));
}

static est_node table_of(const embedding *c, est_graph *graph, est_layer_use use)
{
    est_shape want = EST_SHAPE(c->source->n_buckets, c->column.width);
    char      have_text[EST_SHAPE_TEXT_MAX], want_text[EST_SHAPE_TEXT_MAX];
    est_nodes made;
    est_node  table;

    if (c->shared == NULL) return make_table(c, graph, use);
    made = est_graph_collection(graph, c->shared);
    if (made.n > 0 && !est_shape_equal(est_node_shape(made.data[0]), &want)) {
        return est_nn_fail(graph,
                           "column \"%s\" needs a table of shape %s, but the table of its collection \"%s\" "
                           "has shape %s",
                           c->column.name, est_shape_text(&want, want_text), c->o.collection_name,
                           est_shape_text(est_node_shape(made.data[0]), have_text));
    }
    if (made.n > 0) return made.data[0];
    table = make_table(c, graph, use);
    if (!est_graph_poisoned(graph)) est_graph_collect(graph, c->shared, table);
    return table;
}

/* --- looking up --------------------------------------------------------------------------------------------------- */

static est_node embedding_dense(const est_column *column, const est_features *features, est_layer_use use)
{
    const embedding *c     = embedding_of(column);
    est_ids          ids   = c->source->kind->ids(c->source, features);
    est_node         table = table_of(c, features->graph, use);

    if (est_graph_poisoned(features->graph)) return table;
    return est_embedding_bag(table, ids.rows, ids.weights, c->o.combiner, c->o.max_norm);
}

static est_node embedding_steps(const est_column *column, const est_features *features, est_node *lengths)
{
    const embedding *c     = embedding_of(column);
    est_node         ids   = est_column_step_ids(c->source, features, lengths); /* [batch, longest] */
    est_node         table = table_of(c, features->graph, (est_layer_use){ 0 });
    est_node         each, rows;

    if (est_graph_poisoned(features->graph)) return table;
    each = est_reshape(ids, EST_I64S(-1, 1)); /* every step becomes a row: only padding at the end is empty */
    rows = est_embedding_bag(table, est_ragged_all(each), EST_NO_NODE, c->o.combiner, c->o.max_norm);
    return est_reshape_to(rows, est_pack(EST_NODES(est_nn_dim(ids, 0), est_nn_dim(ids, 1),
                                                   est_scalar(ids.graph, EST_I32, (double)column->width)),
                                         0));
}

static const est_column_kind embedding_kind       = { .what  = "an embedding column",
                                                      .parse = embedding_parse,
                                                      .dense = embedding_dense };
static const est_column_kind embedding_steps_kind = { .what  = "a sequence embedding column",
                                                      .parse = embedding_parse,
                                                      .steps = embedding_steps };

/* --- making ------------------------------------------------------------------------------------------------------- */

static est_status take_options(const est_column *source, int64_t dimension, const est_embedding_column_options *options,
                               est_embedding_column_options *o)
{
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_embedding_column_options), options, o));
    if (dimension < 1 || dimension > INT32_MAX) {
        return est_fail(EST_INVALID_ARGUMENT, "the embedding of \"%s\" cannot have %" PRId64 " dimensions",
                        source->name, dimension);
    }
    if ((o->checkpoint == NULL) != (o->tensor_name == NULL)) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "the embedding of \"%s\" needs both a checkpoint and the name of a tensor in "
                        "it, or neither",
                        source->name);
    }
    if (!(o->max_norm >= 0)) {
        return est_fail(EST_INVALID_ARGUMENT, "the embedding of \"%s\" has a max_norm of %g", source->name,
                        o->max_norm);
    }
    if (o->combiner == EST_COMBINE_DEFAULT) o->combiner = EST_COMBINE_MEAN;
    if (o->initializer.make == NULL) o->initializer = est_init_truncated_normal(0, 1 / sqrt((double)dimension), 0);
    return EST_OK;
}

/* Copies the strings of the options. */
static bool keep_strings(est_arena *arena, est_embedding_column_options *o)
{
    if (o->checkpoint != NULL) {
        o->checkpoint  = est_arena_strdup(arena, o->checkpoint);
        o->tensor_name = est_arena_strdup(arena, o->tensor_name);
        if (o->checkpoint == NULL || o->tensor_name == NULL) return false;
    }
    if (o->collection_name != NULL) o->collection_name = est_arena_strdup(arena, o->collection_name);
    return true;
}

static const est_column *make_embedding(const est_column *source, int64_t dimension, est_embedding_column_options o,
                                        const char *suffix, embedding **out)
{
    const est_column_kind *kind = source->sequence ? &embedding_steps_kind : &embedding_kind;
    embedding             *made = est_column_new_from(source, kind, sizeof *made, suffix);

    if (made == NULL || !keep_strings(est_columns_arena(source->set), &o)) {
        return est_columns_fail(source->set, est_no_memory());
    }
    made->source          = source;
    made->o               = o;
    made->column.width    = dimension;
    made->column.sequence = source->sequence;
    *out                  = made;
    return &made->column;
}

const est_column *est_embedding_column(const est_column *categorical, int64_t dimension,
                                       const est_embedding_column_options *options)
{
    est_embedding_column_options o;
    embedding                   *made;
    est_status                   status;

    if (!est_column_usable(categorical)) return categorical;
    if (!est_column_is_categorical(categorical, "an embedding column")) {
        return est_columns_fail(categorical->set, EST_INVALID_ARGUMENT);
    }
    status = take_options(categorical, dimension, options, &o);
    if (status == EST_OK && o.collection_name != NULL) {
        status = est_fail(EST_INVALID_ARGUMENT,
                          "the embedding of \"%s\" has a collection_name, which only shared embeddings use; leave it "
                          "out",
                          categorical->name);
    }
    if (status != EST_OK) return est_columns_fail(categorical->set, status);
    return make_embedding(categorical, dimension, o, "_embedding", &made);
}

/* --- shared ------------------------------------------------------------------------------------------------------- */

/* The source of a weighted column, or the column itself. */
static const est_column_kind *kind_of(const est_column *column)
{
    return column->kind == &est_weighted_kind ? est_weighted_source(column)->kind : column->kind;
}

static est_status check_shared(est_column_list columns)
{
    const est_column *first = columns.data[0];

    for (int i = 0; i < columns.n; i++) {
        const est_column *column = columns.data[i];

        if (!est_column_is_categorical(column, "a shared embedding column")) return EST_INVALID_ARGUMENT;
        if (kind_of(column) != kind_of(first) || column->sequence != first->sequence) {
            return est_fail(EST_INVALID_ARGUMENT,
                            "\"%s\" and \"%s\" cannot share an embedding: one is %s, the other %s", first->name,
                            column->name, kind_of(first)->what, kind_of(column)->what);
        }
        if (column->n_buckets != first->n_buckets) {
            return est_fail(EST_INVALID_ARGUMENT,
                            "\"%s\" and \"%s\" cannot share an embedding: they have %" PRId64 " and %" PRId64
                            " buckets",
                            first->name, column->name, first->n_buckets, column->n_buckets);
        }
    }
    return EST_OK;
}

/* The names of the columns in order, joined by _; in the arena. */
static est_status collection_name(est_column_list columns, const char **out)
{
    const est_column **sorted = NULL;
    est_strbuf         name   = { 0 };

    EST_TRY(est_columns_distinct(columns, "a shared embedding", &sorted));
    for (int i = 0; i < columns.n; i++) est_strbuf_printf(&name, "%s_", sorted[i]->name);
    est_strbuf_append(&name, "shared_embedding");
    est_free(sorted);
    *out = name.failed ? NULL : est_arena_strdup(est_columns_arena(columns.data[0]->set), est_strbuf_text(&name));
    est_strbuf_clear(&name);
    return *out != NULL ? EST_OK : est_no_memory();
}

static const est_column *make_shared(const est_column *source, int64_t dimension, est_embedding_column_options o)
{
    est_arena        *arena  = est_columns_arena(source->set);
    embedding        *made   = NULL;
    const est_column *column = make_embedding(source, dimension, o, "_shared_embedding", &made);

    if (made == NULL) return column;
    made->shared          = est_arena_printf(arena, "shared_embedding/%s", o.collection_name);
    made->column.v1_scope = est_scope_name(arena, o.collection_name);
    if (made->shared != NULL && made->column.v1_scope != NULL) return column;
    return est_columns_fail(source->set, est_no_memory());
}

void est_shared_embedding_columns(est_column_list categorical, int64_t dimension,
                                  const est_embedding_column_options *options, const est_column **out)
{
    est_embedding_column_options o;
    const est_column            *failed = NULL;
    est_status                   status;

    if (categorical.n < 1 || categorical.data == NULL || out == NULL) return;
    for (int i = 0; i < categorical.n; i++) {
        if (est_column_usable(categorical.data[i])) continue;
        for (int k = 0; k < categorical.n; k++) out[k] = categorical.data[i];
        return;
    }
    status = take_options(categorical.data[0], dimension, options, &o);
    if (status == EST_OK) status = check_shared(categorical);
    if (status == EST_OK && o.collection_name == NULL) status = collection_name(categorical, &o.collection_name);
    if (status != EST_OK) failed = est_columns_fail(categorical.data[0]->set, status);
    for (int i = 0; i < categorical.n; i++) {
        out[i] = failed != NULL ? failed : make_shared(categorical.data[i], dimension, o);
    }
}
