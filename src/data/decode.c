/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoding whole batches of rows. */
#include "data/decode.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "data/encode.h"

#define ROWS_FIRST 256 /* room made at first */
#define ROWS_AHEAD 8

typedef struct decode_job {
    est_ahead_job   base;
    est_str        *text; /* [n], read when the rows are to be decoded */
    est_decode_row *row;  /* [n] */
    size_t          n;
    size_t          capacity;
} decode_job;

/* --- pulling rows ------------------------------------------------------------------------------------------------- */

static est_status job_grow(decode_job *job, int64_t batch)
{
    size_t          capacity = job->capacity > 0 ? 2 * job->capacity : ROWS_FIRST;
    est_str        *text;
    est_decode_row *row;

    if (capacity > (size_t)batch) capacity = (size_t)batch;
    text = est_realloc(job->text, capacity * sizeof *text);
    if (text != NULL) job->text = text;
    row = est_realloc(job->row, capacity * sizeof *row);
    if (row != NULL) job->row = row;
    if (text == NULL || row == NULL) {
        return est_no_memory();
    }
    job->capacity = capacity;
    return EST_OK;
}

/* The next row that holds something, into it->row. */
static est_status row_next(est_decode_iter *it, const est_decode *own)
{
    for (;;) {
        const est_str *text;

        EST_TRY(est_iter_next(it->base.base.input[0], it->row));
        if (own->format->is_blank == NULL) return EST_OK;
        text = est_tensor_data(it->row->field[0].values);
        if (!own->format->is_blank(own, *text)) return EST_OK;
        est_element_clear(it->row->field, own->base.input[0]->n_components);
    }
}

/* Pulls one row to the end of the job. */
static est_status row_pull(est_decode_iter *it, decode_job *job)
{
    const est_decode *own = (const est_decode *)it->base.base.dataset;
    est_decode_row   *row;

    if (job->n == job->capacity) EST_TRY(job_grow(job, own->batch));
    EST_TRY(row_next(it, own));
    row                      = &job->row[job->n];
    *row                     = (est_decode_row){ .tensor = it->row->field[0].values, .origin = it->row->origin };
    it->row->field[0].values = NULL;
    est_element_clear(it->row->field, own->base.input[0]->n_components);
    job->n++;
    return own->format->look != NULL ? own->format->look(it, row) : EST_OK;
}

static est_status decode_pull(est_ahead *ahead, est_ahead_job *to)
{
    est_decode_iter  *it  = (est_decode_iter *)ahead;
    const est_decode *own = (const est_decode *)ahead->base.dataset;
    decode_job       *job = (decode_job *)to;

    while (job->n < (size_t)own->batch) {
        est_status status = row_pull(it, job);

        if (status == EST_OUT_OF_RANGE && job->n > 0 && !own->options.drop_remainder) return EST_OK;
        if (status != EST_OK) return status;
    }
    return EST_OK;
}

static void rows_drop(decode_job *job)
{
    for (size_t i = 0; i < job->n; i++) est_tensor_free(job->row[i].tensor);
    job->n = 0;
}

static void decode_clear(est_ahead *it, est_ahead_job *to)
{
    decode_job *job = (decode_job *)to;

    (void)it;
    rows_drop(job);
    est_free(job->text);
    est_free(job->row);
    job->text     = NULL;
    job->row      = NULL;
    job->capacity = 0;
}

/* --- decoding them ------------------------------------------------------------------------------------------------ */

/* Rows out of a shuffle are not in the CPU caches, and are known only now: their first cache lines are prefetched. */
static void rows_read(decode_job *job)
{
    for (size_t i = 0; i < job->n; i++) {
        if (i + ROWS_AHEAD < job->n) {
            const char *soon = (const char *)job->row[i + ROWS_AHEAD].tensor;

            __builtin_prefetch(soon);
            __builtin_prefetch(soon + 64);
        }
        job->text[i] = *(const est_str *)est_tensor_data(job->row[i].tensor);
    }
}

/* Decodes rows and calls the user's check on them. */
static est_status rows_check(est_decode_iter *it, int worker, const est_decode_rows *rows, est_field *out)
{
    const est_decode *own = (const est_decode *)it->base.base.dataset;
    est_status        status;

    EST_TRY(own->format->decode(it, worker, rows, out));
    if (own->options.check == NULL) return EST_OK;
    status = own->options.check(own->options.check_user, out);
    if (status != EST_OK) est_element_clear(out, own->base.n_components);
    return status;
}

static est_status rows_decode(est_decode_iter *it, int worker, const decode_job *job, est_field *out)
{
    return rows_check(it, worker, &(est_decode_rows){ job->text, job->row, job->n }, out);
}

/* The thread's error is about the only row of a batch: says which row of the job, or where in a file, it is. */
static est_status row_blame(const est_decode_format *format, const est_origin *origin, size_t row, est_status status)
{
    for (int i = 0; i < 2 && format->row_name[i] != NULL; i++) {
        const char *name = format->row_name[i], *number = strchr(name, '0');
        const char *at          = strstr(est_error_message(), name);
        char        instead[64] = "";
        int         before;

        if (at == NULL) continue;
        before = (int)(at - est_error_message());
        if (origin->path == NULL) {
            snprintf(instead, sizeof instead, "%.*s%zu of the batch%s", (int)(number - name), name, row, number + 1);
        }
        status = est_fail(status, "%.*s%s%s", before, est_error_message(), instead, at + strlen(name));
    }
    return est_origin_blame(origin, status);
}

/* Decodes every row alone and removes the bad ones from the job; fails when they may not be skipped. */
static est_status bad_rows_drop(est_decode_iter *it, int worker, decode_job *job)
{
    const est_decode *own    = (const est_decode *)it->base.base.dataset;
    size_t            kept   = 0, i;
    est_status        status = EST_OK;

    for (i = 0; i < job->n && status == EST_OK; i++) {
        const est_decode_rows rows = { &job->text[i], &job->row[i], 1 };

        status = rows_check(it, worker, &rows, job->base.out->field);
        if (status == EST_OK) {
            est_element_clear(job->base.out->field, own->base.n_components);
            job->text[kept]  = job->text[i];
            job->row[kept++] = job->row[i];
        } else {
            status = row_blame(own->format, &job->row[i].origin, i, status);
            status = est_ahead_leave_out(&it->base, &job->base, status);
            est_tensor_free(job->row[i].tensor);
        }
    }
    for (; i < job->n; i++) job->row[kept++] = job->row[i]; /* still to be freed */
    job->n = kept;
    return status;
}

static est_status decode_work(est_ahead *ahead, int worker, est_ahead_job *to)
{
    est_decode_iter *it  = (est_decode_iter *)ahead;
    decode_job      *job = (decode_job *)to;
    size_t           n   = job->n;
    est_status       status;

    rows_read(job);
    status = rows_decode(it, worker, job, to->out->field);
    if (status == EST_INVALID_ARGUMENT || status == EST_DATA_LOSS) {
        est_error error;

        est_error_take(status, &error);
        status = bad_rows_drop(it, worker, job);
        if (status == EST_OK && job->n == n) status = est_error_raise(&error); /* no row was at fault */
        if (status == EST_OK && job->n == 0) return EST_OK;
        if (status == EST_OK) status = rows_decode(it, worker, job, to->out->field);
    }
    if (status == EST_OK) to->filled = true;
    rows_drop(job); /* not needed while the batch waits */
    return status;
}

/* --- the first row alone ------------------------------------------------------------------------------------------ */

bool est_is_decoder(const est_dataset *dataset)
{
    return dataset->stage->open == est_decode_open;
}

static est_status first_row_decode(est_decode_iter *it, bool *found)
{
    const est_decode *own    = (const est_decode *)it->base.base.dataset;
    decode_job        job    = { 0 };
    est_element      *out    = est_element_new(own->base.n_components);
    est_status        status = out == NULL ? est_no_memory() : EST_OK;

    if (status == EST_OK) status = row_pull(it, &job);
    *found = job.n > 0;
    if (status == EST_OK) {
        rows_read(&job);
        status = rows_decode(it, 0, &job, out->field);
        if (status == EST_INVALID_ARGUMENT || status == EST_DATA_LOSS) {
            status = own->options.bad_rows_max != 0 ? EST_OK : row_blame(own->format, &job.row[0].origin, 0, status);
        }
    }
    decode_clear(&it->base, &job.base);
    est_element_free(out, own->base.n_components);
    return status == EST_OUT_OF_RANGE ? EST_OK : status;
}

est_status est_decode_peek(const est_dataset *decoder, const est_dataset *rows, bool *found)
{
    est_dataset *copy = est_dataset_copy(decoder, est_dataset_ref(rows), NULL, "");
    est_pass    *pass = NULL;
    est_iter    *it   = NULL;
    int64_t      bad  = 0;
    est_status   status;

    EST_TRY(est_dataset_finish(copy, &copy));
    ((est_decode *)copy)->batch           = 1;
    ((est_decode *)copy)->options.workers = 0;
    status                                = est_pass_create(&pass);
    if (status == EST_OK) status = est_iter_open(copy, pass, &bad, 0, &it);
    if (status == EST_OK) status = first_row_decode((est_decode_iter *)it, found);
    est_iter_close(it);
    est_pass_free(pass);
    est_dataset_free(copy);
    return status;
}

/* --- the stage ---------------------------------------------------------------------------------------------------- */

est_status est_decode_open(est_iter *it)
{
    est_decode_iter     *iter = (est_decode_iter *)it;
    const est_decode    *own  = (const est_decode *)it->dataset;
    const est_ahead_spec spec = { .name         = "decode",
                                  .workers      = own->options.workers,
                                  .unordered    = own->options.unordered,
                                  .bad_rows_max = own->options.bad_rows_max,
                                  .job_size     = sizeof(decode_job),
                                  .pull         = decode_pull,
                                  .work         = decode_work,
                                  .clear        = decode_clear };

    iter->row = est_element_new(own->base.input[0]->n_components);
    if (iter->row == NULL) return est_no_memory();
    EST_TRY(est_ahead_open(&iter->base, &spec));
    if (own->format->open == NULL) return EST_OK;
    return own->format->open(iter, est_parallel_workers(iter->base.parallel));
}

void est_decode_close(est_iter *it)
{
    est_decode_iter  *iter = (est_decode_iter *)it;
    const est_decode *own  = (const est_decode *)it->dataset;

    est_ahead_close(it);
    if (own->format->close != NULL) own->format->close(iter);
    est_element_free(iter->row, own->base.input[0]->n_components);
}

int64_t est_decode_batch_size(const est_dataset *dataset)
{
    return ((const est_decode *)dataset)->batch;
}

void *est_decode_new(const est_stage *stage, size_t size, const est_decode_format *format, est_dataset *input)
{
    est_decode *own = est_dataset_new(stage, size, input, NULL);
    est_status  status;

    if (!est_dataset_sound(&own->base)) return own;
    own->format = format;
    status      = est_dataset_need_strings(input, format->takes);
    return status == EST_OK ? own : (void *)est_dataset_fail(&own->base, status);
}

est_status est_decode_set(est_decode *own, int64_t batch, const est_parse_options *options)
{
    est_parse_options *to = &own->options;

    if (batch < 1) return est_fail(EST_INVALID_ARGUMENT, "a batch of %" PRId64 " rows; expected 1 or more", batch);
    own->batch = batch;
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_parse_options), options, to));
    EST_TRY(est_parallel_check_workers(to->workers));
    own->base.varies = to->unordered && to->workers != 0;
    if (to->bad_rows_max < 0 && to->bad_rows_max != EST_FOREVER) {
        return est_fail(EST_INVALID_ARGUMENT, "bad_rows_max is %" PRId64 "; expected 0 or more, or EST_FOREVER",
                        to->bad_rows_max);
    }
    return EST_OK;
}

est_status est_decode_encode(const est_decode *own, int64_t number[EST_DECODE_NUMBERS])
{
    const est_parse_options *o = &own->options;

    if (o->check != NULL) {
        return est_fail(EST_UNIMPLEMENTED,
                        "stage %s has a .check, a function of this program, which cannot be sent to another process: "
                        "leave it out and drop rows with est_dataset_filter_graph; or make the dataset there, by a "
                        "named function in est_server_options.functions",
                        own->base.stage->name);
    }
    number[0] = own->batch;
    number[1] = o->workers;
    number[2] = o->drop_remainder;
    number[3] = o->unordered;
    number[4] = o->bad_rows_max;
    return EST_OK;
}

est_parse_options est_decode_options(const est_encoded *from)
{
    return (est_parse_options){ .struct_size    = EST_STRUCT_SIZE(est_parse_options),
                                .workers        = est_encoded_int(from, 1),
                                .drop_remainder = from->number[2] != 0,
                                .unordered      = from->number[3] != 0,
                                .bad_rows_max   = from->number[4] };
}

int64_t est_decode_dim(const est_decode *own)
{
    return own->options.drop_remainder && own->options.bad_rows_max == 0 ? own->batch : -1;
}
