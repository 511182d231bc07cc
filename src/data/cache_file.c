/* SPDX-License-Identifier: Apache-2.0
 *
 * A cache in a file: TFRecord, whose records are messages. The first is {1 "estoc dataset cache", 2 version, 3 the
 * components as text}, then for every element {4 the element}, and last {5 the number of elements}. The file is written
 * under another name and gets its own when the last record is there. */
#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "data/cache.h"
#include "data/encode.h"

#define MAGIC   "estoc dataset cache"
#define VERSION 1
#define REMEDY  "delete the file to have it made again"

enum { RECORD_MAGIC = 1, RECORD_VERSION, RECORD_COMPONENTS, RECORD_ELEMENT, RECORD_END };

typedef struct cache_file {
    est_dataset base;
    const char *path;
    const char *components; /* as in the first record */
} cache_file;

typedef struct file_iter {
    est_cache_iter       base;
    est_tfrecord_reader *reader; /* of a complete file; NULL: */
    est_tfrecord_writer *writer; /* of `temp`, until it is complete */
    char                *temp;   /* NULL: there is none to remove */
    est_wire_writer      message;
} file_iter;

/* --- writing ------------------------------------------------------------------------------------------------------ */

/* Writes iter->message as a record and empties it. */
static est_status write_message(file_iter *iter)
{
    est_status status = est_wire_writer_status(&iter->message);

    if (status == EST_OK) status = est_tfrecord_write(iter->writer, iter->message.data, iter->message.size);
    est_wire_writer_reset(&iter->message);
    return status;
}

static est_status begin_writing(file_iter *iter, const cache_file *own)
{
    EST_TRY(est_file_temp_name(own->path, &iter->temp));
    EST_TRY(est_tfrecord_create(iter->temp, NULL, &iter->writer));
    est_wire_put_string(&iter->message, RECORD_MAGIC, MAGIC);
    est_wire_put_u64(&iter->message, RECORD_VERSION, VERSION);
    est_wire_put_string(&iter->message, RECORD_COMPONENTS, own->components);
    EST_TRY(write_message(iter));
    return est_iter_open(own->base.input[0], iter->base.base.pass, iter->base.base.bad_rows, EST_CACHE_TURN,
                         &iter->base.input);
}

/* The pass is complete: the file gets its name. */
static est_status commit(file_iter *iter, const cache_file *own)
{
    est_tfrecord_writer *writer = iter->writer;

    est_wire_put_i64(&iter->message, RECORD_END, iter->base.at);
    EST_TRY(write_message(iter));
    iter->writer = NULL;
    EST_TRY(est_tfrecord_finish(writer));
    EST_TRY(est_file_commit(iter->temp, own->path));
    est_free(iter->temp);
    iter->temp = NULL;
    return EST_OK;
}

static est_status next_of_input(file_iter *iter, const cache_file *own, est_element *out)
{
    est_status status = est_iter_next(iter->base.input, out);

    if (status == EST_OUT_OF_RANGE) {
        status = commit(iter, own);
        return status == EST_OK ? EST_OUT_OF_RANGE : est_fail_context(status, "making the cache %s", own->path);
    }
    if (status != EST_OK) return status;
    est_element_put(&iter->message, RECORD_ELEMENT, out, own->base.n_components);
    status = write_message(iter);
    if (status == EST_OK) return EST_OK;
    est_element_clear(out->field, own->base.n_components);
    return est_fail_context(status, "making the cache %s", own->path);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

typedef struct record {
    est_str  magic, components, element;
    uint64_t version;
    int64_t  end; /* -1: it is not the last record */
} record;

static est_status read_record(file_iter *iter, const cache_file *own, record *out)
{
    est_wire_reader r;
    est_wire_field  field;
    est_str         bytes;
    est_status      status = est_tfrecord_next(iter->reader, &bytes);

    if (status == EST_OUT_OF_RANGE) {
        return est_fail(EST_DATA_LOSS, "%s: the cache of a dataset is cut short, its last record is missing; " REMEDY,
                        own->path);
    }
    if (status != EST_OK) return est_fail_context(status, "the cache of a dataset is damaged; " REMEDY);
    *out = (record){ .end = -1 };
    est_wire_reader_init(&r, "record of a dataset cache", bytes.data, bytes.size);
    while (est_wire_next(&r, &field)) {
        switch (field.number) {
        case RECORD_MAGIC: out->magic = est_wire_bytes(&r, &field); break;
        case RECORD_VERSION: out->version = est_wire_u64(&r, &field); break;
        case RECORD_COMPONENTS: out->components = est_wire_bytes(&r, &field); break;
        case RECORD_ELEMENT: out->element = est_wire_bytes(&r, &field); break;
        case RECORD_END: out->end = est_wire_i64(&r, &field); break;
        default: break;
        }
    }
    status = est_wire_finish(&r);
    return status == EST_OK ? EST_OK : est_fail_context(status, "%s is not the cache of a dataset", own->path);
}

static bool str_is(est_str str, const char *text)
{
    return str.size == strlen(text) && memcmp(str.data, text, str.size) == 0;
}

static est_status begin_reading(file_iter *iter, const cache_file *own)
{
    record first;

    EST_TRY(est_tfrecord_open(
        own->path, EST_TFRECORD_READ(.compression = EST_COMPRESSION_NONE, .record_bytes_max = EST_WIRE_MESSAGE_MAX),
        &iter->reader));
    EST_TRY(read_record(iter, own, &first));
    if (!str_is(first.magic, MAGIC)) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "%s is a TFRecord file, but not the cache of a dataset; give another path", own->path);
    }
    if (first.version != VERSION) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "%s: version %" PRIu64 " of the cache's format, this library has version %d; " REMEDY,
                        own->path, first.version, VERSION);
    }
    if (!str_is(first.components, own->components)) {
        return est_fail(EST_INVALID_ARGUMENT, "%s: a cache of the components %.*s, where the dataset has %s; " REMEDY,
                        own->path, (int)first.components.size, first.components.size > 0 ? first.components.data : "",
                        own->components);
    }
    return EST_OK;
}

/* The last record is the last of the file and has the right number. */
static est_status check_end(file_iter *iter, const cache_file *own, int64_t end)
{
    est_str    bytes;
    est_status status;

    if (end != iter->base.at) {
        return est_fail(EST_DATA_LOSS,
                        "%s: the cache of a dataset has %" PRId64 " elements where it says %" PRId64 "; " REMEDY,
                        own->path, iter->base.at, end);
    }
    status = est_tfrecord_next(iter->reader, &bytes);
    if (status == EST_OUT_OF_RANGE) return EST_OUT_OF_RANGE;
    if (status == EST_OK) status = est_fail(EST_DATA_LOSS, "%s: a record follows the last one", own->path);
    return est_fail_context(status, "the cache of a dataset is damaged; " REMEDY);
}

static est_status next_of_file(file_iter *iter, const cache_file *own, est_element *out)
{
    record     next;
    est_status status;

    EST_TRY(read_record(iter, own, &next));
    if (next.end >= 0) return check_end(iter, own, next.end);
    status = est_element_parse(next.element, iter->base.base.pass, &own->base, out);
    if (status == EST_OK) return EST_OK;
    return est_fail_context(status, "%s: element %" PRId64 " of the cache; " REMEDY, own->path, iter->base.at);
}

/* --- the stage ---------------------------------------------------------------------------------------------------- */

static est_status file_open(est_iter *it)
{
    file_iter        *iter = (file_iter *)it;
    const cache_file *own  = (const cache_file *)it->dataset;
    est_status        status;

    if (est_file_exists(own->path)) return begin_reading(iter, own);
    status = begin_writing(iter, own);
    return status == EST_OK ? EST_OK : est_fail_context(status, "making the cache %s", own->path);
}

static void file_close(est_iter *it)
{
    file_iter *iter = (file_iter *)it;

    est_iter_close(iter->base.input);
    est_tfrecord_close(iter->reader);
    est_tfrecord_abandon(iter->writer);
    if (iter->temp != NULL && est_file_remove(iter->temp) != EST_OK) est_log_warn("%s", est_error_message());
    est_free(iter->temp);
    est_wire_writer_clear(&iter->message);
}

static est_status file_next(est_iter *it, est_element *out)
{
    file_iter        *iter = (file_iter *)it;
    const cache_file *own  = (const cache_file *)it->dataset;

    EST_TRY(iter->reader != NULL ? next_of_file(iter, own, out) : next_of_input(iter, own, out));
    iter->base.at++;
    return EST_OK;
}

/* Behind a complete file nothing is read. */
static est_status file_check(const est_dataset *dataset)
{
    return est_file_exists(((const cache_file *)dataset)->path) ? EST_OK : est_dataset_check(dataset->input[0]);
}

static est_dataset *file_copy(const est_dataset *dataset, est_dataset *input, const char *suffix);

static est_status file_encode(const est_dataset *dataset, est_wire_writer *w)
{
    est_wire_put_string(w, EST_ENCODED_OWN, ((const cache_file *)dataset)->path);
    return EST_OK;
}

static const est_stage file_stage = {
    .name      = "cache",
    .n_inputs  = 1,
    .iter_size = sizeof(file_iter),
    .open      = file_open,
    .next      = file_next,
    .close     = file_close,
    .save      = est_cache_save,
    .restore   = est_cache_restore,
    .check     = file_check,
    .copy      = file_copy,
    .passes    = true,
    .reorders  = true,
    .encode    = file_encode,
    .decode    = est_cache_decode,
};

/* "image" uint8 [28,28], "words" string [?] ragged */
static est_status components_text(const est_dataset *dataset, char **out)
{
    est_strbuf text = { 0 };
    char       shape[EST_SHAPE_TEXT_MAX];

    for (int i = 0; i < dataset->n_components; i++) {
        const est_component *c = &dataset->components[i];

        if (i > 0) est_strbuf_append(&text, ", ");
        est_strbuf_append_json(&text, c->name, strlen(c->name));
        est_strbuf_printf(&text, " %s %s%s", est_dtype_name(c->dtype), est_shape_text(&c->shape, shape),
                          c->ragged ? " ragged" : "");
    }
    return est_strbuf_take(&text, out);
}

static est_status file_init(cache_file *own, const char *path, const char *suffix)
{
    char *text;

    if (path[0] == '\0') return est_fail(EST_INVALID_ARGUMENT, "the path is empty; NULL keeps the elements in memory");
    EST_TRY(components_text(&own->base, &text));
    own->path       = est_arena_printf(own->base.arena, "%s%s", path, suffix);
    own->components = est_arena_strdup(own->base.arena, text);
    est_free(text);
    if (own->path == NULL || own->components == NULL) return est_no_memory();
    return EST_OK;
}

static est_dataset *file_create(est_dataset *dataset, const char *path, const char *suffix)
{
    cache_file  *own = est_dataset_new(&file_stage, sizeof *own, dataset, NULL);
    est_dataset *result;
    est_status   status;

    if (!est_dataset_sound(&own->base)) return &own->base;
    result = est_dataset_like(&own->base, dataset);
    if (!est_dataset_sound(result)) return result;
    status = file_init(own, path, suffix);
    return status == EST_OK ? result : est_dataset_fail(result, status);
}

static est_dataset *file_copy(const est_dataset *dataset, est_dataset *input, const char *suffix)
{
    return file_create(input, ((const cache_file *)dataset)->path, suffix);
}

est_dataset *est_cache_file(est_dataset *dataset, const char *path)
{
    return file_create(dataset, path, "");
}
