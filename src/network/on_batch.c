/* SPDX-License-Identifier: Apache-2.0
 *
 * One batch of the caller's: training, evaluation and prediction without a loop, and predictions of a whole input. */
#include <inttypes.h>
#include <string.h>

#include "base/argument.h"
#include "base/options.h"
#include "data/rebatch.h"
#include "network/network.h"
#include "predict/predictor.h"
#include "predict/rows.h"

/* A dataset of one element, the batch, to check it by. */
static est_status dataset_of(est_named_tensors batch, est_dataset **out)
{
    EST_REQUIRE_LIST("batch", batch);
    for (int i = 0; i < batch.n; i++) {
        if (batch.data[i].name == NULL || batch.data[i].tensor == NULL) {
            return est_fail(EST_INVALID_ARGUMENT, "batch: tensor %d has no %s", i,
                            batch.data[i].name == NULL ? "name" : "value");
        }
    }
    return est_dataset_finish(est_dataset_tensors(batch), out);
}

/* A run of a function with one batch, or the parts of one for its replicas. */
typedef struct batch_run {
    est_loop_feed     *feeds;
    est_node          *nodes;  /* [n]: of the feeds */
    const est_tensor **values; /* [n] */
    est_field         *parts;  /* [replicas * components] */
    est_tensor       **rows;   /* [replicas]: how many a part has */
    int                n, replicas, components;
} batch_run;

static est_status batch_run_open(batch_run *run, const est_network *network, const est_network_function *f,
                                 const est_dataset *parts)
{
    run->replicas   = f->n;
    run->components = est_dataset_components(parts);
    EST_TRY(est_network_feeds(network, f, parts, NULL, &run->feeds, &run->n));
    run->nodes  = est_zalloc((size_t)(run->n + 1) * sizeof *run->nodes);
    run->values = est_zalloc((size_t)(run->n + 1) * sizeof(est_tensor *));
    run->parts  = est_zalloc((size_t)run->replicas * (size_t)run->components * sizeof *run->parts);
    run->rows   = est_zalloc((size_t)run->replicas * sizeof(est_tensor *));
    if (run->nodes == NULL || run->values == NULL || run->parts == NULL || run->rows == NULL) return est_no_memory();
    for (int i = 0; i < run->n; i++) run->nodes[i] = run->feeds[i].node;
    return EST_OK;
}

static void batch_run_close(batch_run *run)
{
    if (run->parts != NULL) est_element_clear(run->parts, run->replicas * run->components);
    for (int r = 0; r < run->replicas && run->rows != NULL; r++) est_tensor_free(run->rows[r]);
    est_free(run->feeds);
    est_free(run->nodes);
    est_free(run->values);
    est_free(run->parts);
    est_free(run->rows);
}

static est_status read_parts(batch_run *run, const est_dataset *parts)
{
    est_iterator *iterator = NULL;
    est_status    status   = est_iterator_create(parts, &iterator);

    for (int r = 0; r < run->replicas && status == EST_OK; r++) {
        est_field *part = run->parts + r * run->components;

        status = est_iterator_next(iterator, part);
        if (status == EST_OK) {
            float rows = (float)est_field_rows(part);

            status = est_tensor_f32(EST_SHAPE_SCALAR, &rows, &run->rows[r]);
        }
    }
    est_iterator_free(iterator);
    return status;
}

static void take_parts(batch_run *run)
{
    for (int i = 0; i < run->n; i++) {
        const est_loop_feed *feed = &run->feeds[i];
        const est_field     *part = &run->parts[feed->replica * run->components + feed->component];

        run->values[i] = feed->rows ? run->rows[feed->replica] : feed->splits ? part->splits : part->values;
    }
}

static est_status run_parts(est_network *network, est_network_function *f, const est_dataset *parts)
{
    batch_run  run    = { 0 };
    est_status status = batch_run_open(&run, network, f, parts);

    if (status == EST_OK && f->one == NULL) {
        status = est_session_prepare(network->session, (est_nodes){ run.nodes, run.n }, (est_nodes){ &f->loss, 1 },
                                     (est_nodes){ f->targets, f->n_targets }, &f->one);
    }
    if (status == EST_OK) status = read_parts(&run, parts);
    if (status == EST_OK) {
        take_parts(&run);
        status = est_step_run(f->one, run.values);
    }
    batch_run_close(&run);
    if (network->coordinator != NULL) { /* its session may go before the next run */
        est_step_free(f->one);
        f->one = NULL;
    }
    return status;
}

/* Replicas divide the batch as those of a fit do. */
static est_status run_function(est_network *network, est_network_function *f, const est_dataset *batch)
{
    est_dataset *parts = est_dataset_ref(batch);
    est_status   status;

    if (f->n > 1) EST_TRY(est_dataset_finish(est_rebatch_evenly(parts, f->n), &parts));
    status = run_parts(network, f, parts);
    est_dataset_free(parts);
    return status;
}

/* The numbers of this batch alone. */
static est_status run_batch(est_network *network, bool training, const est_dataset *batch, double *values)
{
    est_network_function *f;

    if (training && est_strategy_replicas(network->strategy).across_workers) {
        return est_fail(EST_UNIMPLEMENTED, "several workers train %s; give its batches to est_network_fit",
                        network->name);
    }
    EST_TRY(est_network_fit_to(network, batch, true));
    EST_TRY(est_network_function_get(network, training, est_network_form(network, batch), &f));
    EST_TRY(est_network_function_reset(network, f));
    EST_TRY(est_network_connect(network));
    EST_TRY(run_function(network, f, batch));
    return values != NULL ? est_network_function_read(network, f, values) : EST_OK;
}

static est_status on_batch(est_network *network, const char *what, bool training, est_named_tensors batch,
                           double *values)
{
    est_dataset *dataset = NULL;
    est_status   status;

    EST_REQUIRE(network);
    status = dataset_of(batch, &dataset);
    if (status == EST_OK) status = est_network_need_compiled(network, what);
    if (status == EST_OK) status = est_network_need_idle(network, what, !training);
    if (status == EST_OK) status = run_batch(network, training, dataset, values);
    est_dataset_free(dataset);
    return status == EST_OK ? EST_OK : est_fail_context(status, "%s", what);
}

est_status est_network_train_on_batch(est_network *network, est_named_tensors batch, double *values)
{
    return on_batch(network, "train_on_batch", true, batch, values);
}

est_status est_network_test_on_batch(est_network *network, est_named_tensors batch, double *values)
{
    return on_batch(network, "test_on_batch", false, batch, values);
}

/* --- predictions -------------------------------------------------------------------------------------------------- */

/* All values of an output so far, as bytes of rows. */
typedef struct output_rows {
    char     *data;
    size_t    size, capacity;
    est_shape shape; /* of all: dim[0] counts the rows; rank 0: none so far */
    est_dtype dtype;
} output_rows;

static est_status check_shape(const est_shape *all, const est_shape *shape)
{
    if (shape->rank != all->rank) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "outputs of two batches have %d and %d axes; predict such batches one by one", all->rank,
                        shape->rank);
    }
    for (int i = 1; i < shape->rank; i++) {
        if (shape->dim[i] == all->dim[i]) continue;
        return est_fail(EST_INVALID_ARGUMENT,
                        "outputs of two batches have %" PRId64 " and %" PRId64
                        " elements along axis %d; predict such batches one by one",
                        all->dim[i], shape->dim[i], i);
    }
    return EST_OK;
}

static est_status append(output_rows *out, const est_tensor *batch)
{
    const est_shape *shape = est_tensor_shape(batch);
    size_t           bytes = est_tensor_bytes(batch);

    if (shape->rank == 0) return est_fail(EST_INVALID_ARGUMENT, "the output has no batch axis");
    if (out->shape.rank > 0) EST_TRY(check_shape(&out->shape, shape));
    if (out->size + bytes > out->capacity) {
        size_t capacity = 2 * out->capacity + bytes;
        char  *data     = est_realloc(out->data, capacity);

        if (data == NULL) return est_no_memory();
        out->data     = data;
        out->capacity = capacity;
    }
    if (bytes > 0) memcpy(out->data + out->size, est_tensor_data(batch), bytes);
    out->size += bytes;
    if (out->shape.rank == 0) {
        out->shape = *shape;
    } else {
        out->shape.dim[0] += shape->dim[0];
    }
    return EST_OK;
}

/* Feeds by the names of the inputs, as a predictor finds them in a dataset. */
static est_status name_feeds(const est_network *network, est_arena *arena, est_named_nodes *out)
{
    const est_network_batch *batch = &network->batch;
    est_named_node          *feeds = est_arena_alloc(arena, (size_t)(2 * network->n_inputs + 1) * sizeof *feeds);
    int                      n     = 0;

    if (feeds == NULL) return est_no_memory();
    for (int i = 0; i < network->n_inputs; i++) {
        const char *name = network->inputs[i].name;

        feeds[n++] = (est_named_node){ name, batch->values[i] };
        if (!network->inputs[i].ragged) continue;
        feeds[n++] = (est_named_node){ est_arena_printf(arena, "%s" EST_SPLITS_SUFFIX, name), batch->splits[i] };
        if (feeds[n - 1].name == NULL) return est_no_memory();
    }
    *out = (est_named_nodes){ feeds, n };
    return EST_OK;
}

/* The only output has no name of its own. */
static const char *output_name(const est_network *network, int i)
{
    return network->output_names[i] != NULL ? network->output_names[i] : "output";
}

static est_status name_fetches(const est_network *network, est_arena *arena, est_named_nodes *out)
{
    est_named_node *fetches = est_arena_alloc(arena, (size_t)network->n_outputs * sizeof *fetches);

    if (fetches == NULL) return est_no_memory();
    for (int i = 0; i < network->n_outputs; i++) {
        fetches[i] = (est_named_node){ output_name(network, i), network->outputs[i] };
    }
    *out = (est_named_nodes){ fetches, network->n_outputs };
    return EST_OK;
}

static est_status prepare(est_network *network)
{
    est_arena      *arena;
    est_named_nodes feeds, fetches;
    est_status      status;

    if (network->predictor != NULL) return EST_OK;
    arena = est_arena_create();
    if (arena == NULL) return est_no_memory();
    status = name_feeds(network, arena, &feeds);
    if (status == EST_OK) status = name_fetches(network, arena, &fetches);
    if (status == EST_OK) status = est_predictor_within(network->session, feeds, fetches, &network->predictor);
    est_arena_free(arena);
    return status;
}

/* A prediction of all rows of an input. */
typedef struct prediction {
    const est_dataset *input;
    int64_t            steps;
    output_rows       *all; /* [n_outputs] */
} prediction;

static est_status predict_batches(const est_network *network, prediction *p)
{
    est_predictions *batches = NULL;
    est_status       status;

    EST_TRY(est_predictor_predict(network->predictor, p->input, (est_strings){ 0 }, true, &batches));
    status = EST_OK;
    for (int64_t k = 0; status == EST_OK && (p->steps == 0 || k < p->steps); k++) {
        status = est_predictions_next(batches);
        for (int i = 0; i < network->n_outputs && status == EST_OK; i++) {
            status = append(&p->all[i], est_predictions_get(batches, output_name(network, i)));
        }
    }
    est_predictions_free(batches);
    if (status == EST_OUT_OF_RANGE) status = EST_OK;
    if (status != EST_OK || p->all[0].shape.rank > 0) return status;
    return est_fail(EST_INVALID_ARGUMENT, "the input has no batch");
}

/* From the beginning, also after a recovery. */
static est_status predict_all(est_network *network, void *user)
{
    prediction *p = user;
    est_status  status;

    for (int i = 0; i < network->n_outputs; i++) {
        p->all[i].size  = 0;
        p->all[i].shape = EST_SHAPE_SCALAR;
    }
    status = prepare(network);
    if (status == EST_OK) status = predict_batches(network, p);
    if (network->coordinator != NULL) { /* its session may go before the next run */
        est_predictor_free(network->predictor);
        network->predictor = NULL;
    }
    return status;
}

/* All outputs or none. */
static est_status make_tensors(const est_network *network, const prediction *p, est_tensor **out)
{
    for (int i = 0; i < network->n_outputs; i++) {
        const output_rows *rows   = &p->all[i];
        est_status         status = est_tensor_create_from(rows->dtype, rows->shape, rows->data, &out[i]);

        if (status == EST_OK) continue;
        while (i > 0) est_tensor_free(out[--i]);
        return status;
    }
    return EST_OK;
}

static est_status prediction_open(const est_network *network, prediction *p)
{
    p->all = est_zalloc((size_t)network->n_outputs * sizeof *p->all);
    if (p->all == NULL) return est_no_memory();
    for (int i = 0; i < network->n_outputs; i++) {
        p->all[i].dtype = est_node_dtype(network->outputs[i]);
        if (p->all[i].dtype == EST_STRING) return est_fail(EST_UNIMPLEMENTED, "%s predicts strings", network->name);
    }
    return EST_OK;
}

static est_status predict(est_network *network, const est_dataset *input, int64_t steps, est_tensor **out)
{
    prediction p = { .input = input, .steps = steps };
    est_status status;

    EST_TRY(est_network_fit_to(network, input, false));
    status = prediction_open(network, &p);
    if (status == EST_OK) status = est_network_use_session(network, predict_all, &p);
    if (status == EST_OK) status = make_tensors(network, &p, out);
    for (int i = 0; i < network->n_outputs && p.all != NULL; i++) est_free(p.all[i].data);
    est_free(p.all);
    return status;
}

static est_status need_one_output(const est_network *network)
{
    if (network->n_outputs == 1) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "%s has %d outputs; call est_network_predict_outputs", network->name,
                    network->n_outputs);
}

est_status est_network_predict_outputs(est_network *network, const est_network_predict_options *options,
                                       est_tensor **out)
{
    est_network_predict_options o;
    est_network_source          source;
    est_dataset                *input = NULL;
    est_status                  status;

    EST_REQUIRE(network);
    EST_REQUIRE(out);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_network_predict_options), options, &o));
    if (o.steps < 0) return est_fail(EST_INVALID_ARGUMENT, "predict: steps is %" PRId64 "; write 0 for all", o.steps);
    source = (est_network_source){ .input = o.input, .arrays = o.arrays, .batch_size = o.batch_size };
    status = est_network_source_open(network, &source, &input);
    if (status == EST_OK) status = est_network_need_end(input, o.steps);
    if (status == EST_OK) status = predict(network, input, o.steps, out);
    est_dataset_free(input);
    return status == EST_OK ? EST_OK : est_fail_context(status, "predict");
}

est_status est_network_predict(est_network *network, const est_network_predict_options *options, est_tensor **out)
{
    EST_REQUIRE(network);
    EST_TRY(need_one_output(network));
    return est_network_predict_outputs(network, options, out);
}

est_status est_network_predict_on_batch(est_network *network, est_named_tensors batch, est_tensor **out)
{
    est_dataset *dataset = NULL;
    est_status   status;

    EST_REQUIRE(network);
    EST_REQUIRE(out);
    EST_TRY(need_one_output(network));
    status = dataset_of(batch, &dataset);
    if (status == EST_OK) status = predict(network, dataset, 0, out);
    est_dataset_free(dataset);
    return status == EST_OK ? EST_OK : est_fail_context(status, "predict_on_batch");
}
