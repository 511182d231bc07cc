/* SPDX-License-Identifier: Apache-2.0
 *
 * peek: finds errors that the first batch of a pass would have because of its files, by reading only their first row.
 *
 * The stages that read and decode files are copied over one path; the others are skipped and never run. So no
 * generator, map or filter of the user is called, no cache is written, no buffer is filled. If a stage in between may
 * change rows, or a file can be read only once, such as a pipe, there is no check and no error. */
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "data/decode.h"
#include "data/interleave.h"

typedef struct finding {
    bool unknown;        /* there may be rows that were not looked for */
    bool row;            /* there is one */
    int  n_files;        /* that were looked at */
    char path[PATH_MAX]; /* of the last of them */
} finding;

/* Whether a stage yields exactly the elements of its input. */
static bool keeps_all(const est_stage *stage)
{
    return stage->reorders || (stage->passes && stage->n_inputs == 2 && !stage->counts);
}

/* An existing cache file may replace the input files. */
static bool is_cached(const est_stage *stage)
{
    return stage->n_inputs > 0 && stage->check != NULL;
}

/* Whether paths can be listed without calling anybody. */
static bool lists_paths(const est_dataset *dataset)
{
    const est_stage *stage = dataset->stage;

    if (stage->n_inputs == 0) return stage->lists_files;
    if (!keeps_all(stage) || is_cached(stage)) return false;
    for (int i = 0; i < stage->n_inputs; i++) {
        if (!lists_paths(dataset->input[i])) return false;
    }
    return true;
}

/* --- one file ----------------------------------------------------------------------------------------------------- */

/* The stage `reader` over one file. */
static est_status open_file(const est_dataset *reader, const est_tensor *path, est_dataset **out)
{
    est_tensor  *paths = NULL;
    est_dataset *rows;

    EST_TRY(est_tensor_create_from(EST_STRING, EST_SHAPE(1), est_tensor_data(path), &paths));
    rows = est_dataset_slices(EST_NAMED_TENSORS({ reader->input[0]->components[0].name, paths }));
    rows = est_dataset_copy(reader, rows, NULL, "");
    est_tensor_free(paths);
    EST_TRY(est_dataset_finish(rows, &rows));
    ((est_interleave *)rows)->options.workers = 0;
    *out                                      = rows;
    return EST_OK;
}

/* Whether there is a row; a reader's are one string each. */
static est_status read_row(const est_dataset *rows, bool *found)
{
    est_element *row  = est_element_new(1);
    est_pass    *pass = NULL;
    est_iter    *it   = NULL;
    int64_t      bad  = 0;
    est_status   status;

    if (row == NULL) return est_no_memory();
    status = est_pass_create(&pass);
    if (status == EST_OK) status = est_iter_open(rows, pass, &bad, 0, &it);
    if (status == EST_OK) status = est_iter_next(it, row);
    *found = status == EST_OK;
    est_iter_close(it);
    est_pass_free(pass);
    est_element_free(row, 1);
    return status == EST_OUT_OF_RANGE ? EST_OK : status;
}

/* Reads the first row of a file, and decodes it if the decoder is known. */
static est_status look_at_file(const est_dataset *reader, const est_dataset *decoder, const est_tensor *path,
                               finding *f)
{
    const est_str *name = est_tensor_data(path);
    est_dataset   *rows = NULL;
    struct stat    info;
    est_status     status;

    snprintf(f->path, sizeof f->path, "%.*s", (int)name->size, name->data);
    if (name->size >= sizeof f->path || stat(f->path, &info) != 0 || !S_ISREG(info.st_mode)) {
        f->unknown = true;
        return EST_OK;
    }
    EST_TRY(open_file(reader, path, &rows));
    status = decoder != NULL ? est_decode_peek(decoder, rows, &f->row) : read_row(rows, &f->row);
    est_dataset_free(rows);
    f->n_files++;
    return status;
}

/* --- all of them -------------------------------------------------------------------------------------------------- */

static est_status look_at_files(const est_dataset *reader, const est_dataset *decoder, finding *f)
{
    est_element *path = est_element_new(1);
    est_pass    *pass = NULL;
    est_iter    *it   = NULL;
    int64_t      bad  = 0;
    est_status   status;

    if (path == NULL) return est_no_memory();
    status = est_pass_create(&pass);
    if (status == EST_OK) status = est_iter_open(reader->input[0], pass, &bad, 0, &it);
    while (status == EST_OK && !f->row && !f->unknown) {
        status = est_iter_next(it, path);
        if (status == EST_OK) status = look_at_file(reader, decoder, path->field[0].values, f);
        est_element_clear(path->field, 1);
    }
    est_iter_close(it);
    est_pass_free(pass);
    est_element_free(path, 1);
    return status == EST_OUT_OF_RANGE ? EST_OK : status;
}

/* `decoder` gets the elements of this dataset, maybe in another order; NULL: something else does. */
static est_status look(const est_dataset *dataset, const est_dataset *decoder, finding *f)
{
    const est_stage *stage = dataset->stage;

    if (stage->reads_files && lists_paths(dataset->input[0]) && !dataset->endless) {
        return look_at_files(dataset, decoder, f);
    }
    if (stage->reads_files || stage->n_inputs == 0 || is_cached(stage)) {
        f->unknown = true;
        return EST_OK;
    }
    if (est_is_decoder(dataset)) {
        decoder = dataset;
    } else if (!keeps_all(stage)) {
        decoder = NULL;
    }
    for (int i = 0; i < stage->n_inputs; i++) EST_TRY(look(dataset->input[i], decoder, f));
    return EST_OK;
}

est_status est_dataset_peek(const est_dataset *dataset)
{
    finding f = { 0 };

    EST_TRY(look(dataset, NULL, &f));
    if (f.unknown || f.row || f.n_files == 0) return EST_OK;
    if (f.n_files == 1) return est_fail(EST_INVALID_ARGUMENT, "%s has no row", f.path);
    return est_fail(EST_INVALID_ARGUMENT, "none of %d files has a row, as %s", f.n_files, f.path);
}
