/* SPDX-License-Identifier: Apache-2.0
 *
 * map_graph, filter_graph: a graph (data/graph_function.h) applied to every element, in several threads at once. Both
 * compute ahead as a map does; a filter leaves out the jobs whose element is dropped.
 *
 * Elements are numbered in the order they are pulled, and random operations draw by that number. The state is that of
 * data/ahead.c, and 16 the number of the next element. */
#include <inttypes.h>

#include "base/argument.h"
#include "base/options.h"
#include "data/ahead.h"
#include "data/encode.h"
#include "data/graph_function.h"
#include "data/state.h"

enum { STATE_NUMBER = 16 };
enum { WORKERS, UNORDERED, BAD_ROWS_MAX, SEED, DRAWN, N_NUMBERS };

#define KEEP "keep" /* the output of a filter */

typedef struct graph_stage {
    est_dataset           base;
    est_graph_function   *fn;
    est_map_graph_options options;
    uint64_t              seed;
    bool                  drawn; /* the seed, by this library */
} graph_stage;

typedef struct graph_iter {
    est_ahead          base;
    est_graph_runner **runners; /* [workers], each taken by its thread */
    int                n_runners;
    int64_t            number; /* of the next element that is pulled */
} graph_iter;

typedef struct graph_job {
    est_ahead_job base;
    int64_t       number;
    est_element   in; /* its fields follow */
} graph_job;

/* --- jobs --------------------------------------------------------------------------------------------------------- */

static est_status graph_pull(est_ahead *it, est_ahead_job *to)
{
    graph_job *job = (graph_job *)to;

    EST_TRY(est_iter_next(it->base.input[0], &job->in));
    job->number = ((graph_iter *)it)->number++;
    return EST_OK;
}

static void graph_clear(est_ahead *it, est_ahead_job *to)
{
    est_element *in = &((graph_job *)to)->in;

    est_element_clear(in->field, it->base.dataset->input[0]->n_components);
    in->origin = (est_origin){ 0 };
}

/* The lower half has nothing of what was drawn: operations with a seed of their own draw by it (est_plan_seed). */
static uint64_t run_seed(const graph_stage *own, uint64_t pass, uint64_t number)
{
    uint64_t seed = est_turn_mix(est_turn_mix(own->seed, pass), number);

    if (!own->drawn) return seed;
    return seed >> 32 << 32 | (uint32_t)est_turn_mix(est_turn_mix(0, pass), number);
}

/* An end that an operation reports is its failure: it must not pass for the end of the dataset. */
static est_status run_graph(graph_iter *it, int worker, const graph_job *job, est_field *out)
{
    const graph_stage *own    = (const graph_stage *)it->base.base.dataset;
    uint64_t           seed   = run_seed(own, it->base.base.turn, (uint64_t)job->number);
    est_status         status = EST_OK;

    if (it->runners[worker] == NULL) status = est_graph_runner_take(own->fn, &it->runners[worker]);
    if (status == EST_OK) status = est_graph_runner_run(it->runners[worker], seed, job->in.field, out);
    if (status == EST_OK) return EST_OK;
    if (status == EST_OUT_OF_RANGE) status = est_fail(EST_FAILED_PRECONDITION, "%s", est_error_message());
    est_fail_context(status, "stage %s", own->base.stage->name);
    return est_origin_blame(&job->in.origin, status);
}

static est_status map_work(est_ahead *it, int worker, est_ahead_job *to)
{
    graph_job *job    = (graph_job *)to;
    est_status status = run_graph((graph_iter *)it, worker, job, to->out->field);

    if (status == EST_OK) {
        to->out->origin = job->in.origin;
        to->filled      = true;
    } else {
        status = est_ahead_leave_out(it, to, status);
    }
    graph_clear(it, to); /* not needed while the result waits */
    return status;
}

static est_status filter_work(est_ahead *it, int worker, est_ahead_job *to)
{
    graph_job *job    = (graph_job *)to;
    est_field  keep   = { 0 };
    est_status status = run_graph((graph_iter *)it, worker, job, &keep);

    if (status == EST_OK && est_tensor_count(keep.values) != 1) {
        char text[EST_SHAPE_TEXT_MAX];

        status = est_fail(EST_INVALID_ARGUMENT, "stage filter_graph: keep has shape %s; expected a scalar",
                          est_shape_text(est_tensor_shape(keep.values), text));
        status = est_origin_blame(&job->in.origin, status);
    }
    if (status != EST_OK) {
        status = est_ahead_leave_out(it, to, status);
    } else if (*(const uint8_t *)est_tensor_data(keep.values) != 0) {
        est_element_move(to->out, &job->in, it->base.dataset->n_components);
        to->filled = true;
    }
    est_element_clear(&keep, 1);
    graph_clear(it, to);
    return status;
}

/* --- the iterator ------------------------------------------------------------------------------------------------- */

static est_status graph_open(est_iter *it, est_status (*work)(est_ahead *it, int worker, est_ahead_job *job))
{
    graph_iter          *iter = (graph_iter *)it;
    const graph_stage   *own  = (const graph_stage *)it->dataset;
    const size_t         in   = (size_t)own->base.input[0]->n_components * sizeof(est_field);
    const est_ahead_spec spec = { .name         = it->stage->name,
                                  .workers      = own->options.workers,
                                  .unordered    = own->options.unordered,
                                  .bad_rows_max = own->options.bad_rows_max,
                                  .job_size     = sizeof(graph_job) + in,
                                  .pull         = graph_pull,
                                  .work         = work,
                                  .clear        = graph_clear };

    EST_TRY(est_ahead_open(&iter->base, &spec));
    iter->n_runners = est_parallel_workers(iter->base.parallel);
    iter->runners   = est_zalloc((size_t)iter->n_runners * sizeof *iter->runners);
    if (iter->runners == NULL) return est_no_memory();
    return est_graph_runner_take(own->fn, &iter->runners[0]); /* a table that cannot be filled is an error now */
}

static est_status map_open(est_iter *it)
{
    return graph_open(it, map_work);
}

static est_status filter_open(est_iter *it)
{
    return graph_open(it, filter_work);
}

static void graph_close(est_iter *it)
{
    graph_iter *iter = (graph_iter *)it;

    est_ahead_close(it);
    for (int i = 0; iter->runners != NULL && i < iter->n_runners; i++) est_graph_runner_give_back(iter->runners[i]);
    est_free(iter->runners);
}

static est_status graph_save(est_iter *it, est_wire_writer *w)
{
    EST_TRY(est_ahead_save(it, w));
    est_wire_put_i64(w, STATE_NUMBER, ((graph_iter *)it)->number);
    return EST_OK;
}

static est_status graph_restore(est_iter *it, est_str state)
{
    graph_iter     *iter = (graph_iter *)it;
    est_wire_reader r;
    est_wire_field  field;

    EST_TRY(est_ahead_restore(it, state));
    est_wire_reader_init(&r, it->stage->name, state.data, state.size);
    while (est_wire_next(&r, &field)) {
        if (field.number == STATE_NUMBER) iter->number = est_wire_i64(&r, &field);
    }
    EST_TRY(est_wire_finish(&r));
    return iter->number >= 0 ? EST_OK : est_state_fail(it, "an element", iter->number);
}

static void graph_free(est_dataset *dataset)
{
    est_graph_function_free(((graph_stage *)dataset)->fn);
}

/* --- making them -------------------------------------------------------------------------------------------------- */

static est_status options_copy(const est_map_graph_options *options, est_map_graph_options *out)
{
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_map_graph_options), options, out));
    EST_TRY(est_parallel_check_workers(out->workers));
    if (out->bad_rows_max < 0 && out->bad_rows_max != EST_FOREVER) {
        return est_fail(EST_INVALID_ARGUMENT, "bad_rows_max is %" PRId64 "; expected 0 or more, or EST_FOREVER",
                        out->bad_rows_max);
    }
    return EST_OK;
}

/* The ends of the constructors, for a stage that has its function, options and seed. */
static est_dataset *map_finish(graph_stage *own)
{
    est_components outputs = est_graph_function_outputs(own->fn);

    own->base.varies = own->options.unordered && own->options.workers != 0;
    return est_dataset_with(&own->base, outputs.data, outputs.n);
}

/* varies: its seed is another one in every process, and so are the elements that it drops. */
static est_dataset *filter_finish(graph_stage *own, bool varies)
{
    const est_component *keep = est_graph_function_outputs(own->fn).data;
    char                 text[EST_SHAPE_TEXT_MAX];

    if (keep->dtype != EST_BOOL || keep->shape.rank > 0) {
        return est_dataset_fail(&own->base, est_fail(EST_INVALID_ARGUMENT, "keep is %s %s; expected a boolean scalar",
                                                     est_dtype_name(keep->dtype), est_shape_text(&keep->shape, text)));
    }
    own->base.varies = varies || (own->options.unordered && own->options.workers != 0);
    return est_dataset_like(&own->base, own->base.input[0]);
}

static est_status check_lists(const est_stage *stage, const est_graph_io *of)
{
    if (!(EST_LIST_OK(of->inputs) && EST_LIST_OK(of->outputs) && EST_LIST_OK(of->ragged_inputs) &&
          EST_LIST_OK(of->ragged_outputs))) {
        return est_fail(EST_INVALID_ARGUMENT, "a list of inputs or outputs is NULL");
    }
    if (stage == &est_stage_filter_graph && of->ragged_outputs.n > 0) {
        return est_fail(EST_INVALID_ARGUMENT, "a filter has no ragged_outputs");
    }
    return EST_OK;
}

/* A stage with function, options and seed. */
static graph_stage *graph_new(const est_stage *stage, est_dataset *dataset, est_named_nodes inputs,
                              est_named_nodes outputs, const est_map_graph_options *options)
{
    graph_stage *own = est_dataset_new(stage, sizeof *own, dataset, NULL);
    est_status   status;

    if (!est_dataset_sound(&own->base)) return own;
    status = options_copy(options, &own->options);
    if (status == EST_OK) {
        const est_graph_io of = { .inputs         = inputs,
                                  .outputs        = outputs,
                                  .ragged_inputs  = own->options.ragged_inputs,
                                  .ragged_outputs = own->options.ragged_outputs };

        status = check_lists(stage, &of);
        if (status == EST_OK) status = est_graph_function_create(dataset, &of, &own->fn);
        own->options.ragged_inputs = own->options.ragged_outputs = (est_named_raggeds){ 0 }; /* the caller's */
    }
    if (status != EST_OK) return (graph_stage *)est_dataset_fail(&own->base, status);
    own->seed  = est_graph_function_seed(own->fn);
    own->drawn = own->seed == 0 && est_graph_function_random(own->fn);
    if (own->drawn) own->seed = est_seed_draw();
    return own;
}

est_dataset *est_dataset_map_graph(est_dataset *dataset, est_named_nodes inputs, est_named_nodes outputs,
                                   const est_map_graph_options *options)
{
    graph_stage *own = graph_new(&est_stage_map_graph, dataset, inputs, outputs, options);

    return est_dataset_sound(&own->base) ? map_finish(own) : &own->base;
}

est_dataset *est_dataset_filter_graph(est_dataset *dataset, est_named_nodes inputs, est_node keep,
                                      const est_map_graph_options *options)
{
    graph_stage *own = graph_new(&est_stage_filter_graph, dataset, inputs, EST_NAMED_NODES({ KEEP, keep }), options);

    return est_dataset_sound(&own->base) ? filter_finish(own, own->drawn) : &own->base;
}

/* --- as bytes ----------------------------------------------------------------------------------------------------- */

static est_status graph_encode(const est_dataset *dataset, est_wire_writer *w)
{
    const graph_stage *own               = (const graph_stage *)dataset;
    const int64_t      number[N_NUMBERS] = { [WORKERS]      = own->options.workers,
                                             [UNORDERED]    = own->options.unordered,
                                             [BAD_ROWS_MAX] = own->options.bad_rows_max,
                                             [SEED]         = (int64_t)own->seed,
                                             [DRAWN]        = own->drawn };

    est_state_put(w, number, N_NUMBERS);
    est_graph_function_encode(own->fn, w);
    return EST_OK;
}

static graph_stage *graph_from_bytes(const est_encoded *from)
{
    graph_stage *own = est_dataset_new(from->stage, sizeof *own, from->input[0], NULL);
    est_status   status;

    if (!est_dataset_sound(&own->base)) return own;
    status = options_copy(EST_MAP_GRAPH(.workers      = est_encoded_int(from, WORKERS),
                                        .unordered    = from->number[UNORDERED] != 0,
                                        .bad_rows_max = from->number[BAD_ROWS_MAX]),
                          &own->options);
    if (status == EST_OK) status = est_graph_function_decode(from, from->input[0], &own->fn);
    if (status != EST_OK) return (graph_stage *)est_dataset_fail(&own->base, status);
    own->seed  = (uint64_t)from->number[SEED];
    own->drawn = from->number[DRAWN] != 0;
    if (own->drawn && from->reader != 0) own->seed = est_turn_mix(own->seed, from->reader);
    return own;
}

static est_dataset *map_decode(const est_encoded *from)
{
    graph_stage *own = graph_from_bytes(from);

    return est_dataset_sound(&own->base) ? map_finish(own) : &own->base;
}

static est_dataset *filter_decode(const est_encoded *from)
{
    graph_stage *own = graph_from_bytes(from);

    return est_dataset_sound(&own->base) ? filter_finish(own, own->drawn && from->reader != 0) : &own->base;
}

const est_stage est_stage_map_graph = {
    .name      = "map_graph",
    .n_inputs  = 1,
    .iter_size = sizeof(graph_iter),
    .open      = map_open,
    .next      = est_ahead_next,
    .close     = graph_close,
    .save      = graph_save,
    .restore   = graph_restore,
    .pause     = est_ahead_pause,
    .resume    = est_ahead_resume,
    .free      = graph_free,
    .encode    = graph_encode,
    .decode    = map_decode,
};

const est_stage est_stage_filter_graph = {
    .name      = "filter_graph",
    .n_inputs  = 1,
    .iter_size = sizeof(graph_iter),
    .open      = filter_open,
    .next      = est_ahead_next,
    .close     = graph_close,
    .save      = graph_save,
    .restore   = graph_restore,
    .pause     = est_ahead_pause,
    .resume    = est_ahead_resume,
    .free      = graph_free,
    .encode    = graph_encode,
    .decode    = filter_decode,
    .passes    = true,
};
