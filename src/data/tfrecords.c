/* SPDX-License-Identifier: Apache-2.0
 *
 * tfrecords: the records of TFRecord files. Each file is a dataset of its own, which never leaves this file; the order
 * of files and the reading ahead are those of interleave.
 *
 * A record whose bytes are damaged can be left out, because its length tells where the next one starts. A damaged
 * length or a cut file ends that file, and counts as one bad row. */

#include "data/encode.h"
#include "data/interleave.h"
#include "data/state.h"
#include "format/tfrecord.h"

typedef struct file_iter {
    est_iter             base;
    est_tfrecord_reader *reader;
    bool                 lost; /* what is left of it */
} file_iter;

static est_status file_open(est_iter *it)
{
    return est_tfrecord_open(((const est_interleave_file *)it->dataset)->path, NULL, &((file_iter *)it)->reader);
}

/* Skips a bad record, so that reading can continue after it. */
static est_status file_next(est_iter *it, est_element *out)
{
    file_iter *own = (file_iter *)it;
    est_str    record;
    est_status status;

    if (own->lost) return EST_OUT_OF_RANGE;
    status = est_tfrecord_next(own->reader, &record);
    if (status != EST_OK && status != EST_OUT_OF_RANGE) {
        est_error error;

        est_error_take(status, &error);
        own->lost = !est_tfrecord_step_over(own->reader);
        return est_error_raise(&error);
    }
    EST_TRY(status);
    out->origin.path = ((const est_interleave_file *)it->dataset)->path;
    out->origin.at   = (int64_t)est_tfrecord_tell(own->reader).record - 1;
    out->origin.line = false;
    return est_tensor_string(record.data, record.size, &out->field[0].values);
}

static void file_close(est_iter *it)
{
    est_tfrecord_close(((file_iter *)it)->reader);
}

static est_status file_save(est_iter *it, est_wire_writer *w)
{
    file_iter            *own      = (file_iter *)it;
    est_byte_source_mark  mark     = est_byte_source_get_mark(est_tfrecord_source(own->reader));
    est_tfrecord_position position = est_tfrecord_tell(own->reader);

    est_state_put(w, (const int64_t[]){ (int64_t)mark.offset, (int64_t)position.record, own->lost, mark.piece }, 4);
    return EST_OK;
}

static est_status file_restore(est_iter *it, est_str state)
{
    file_iter           *own = (file_iter *)it;
    int64_t              counts[4]; /* byte, record, whether the rest is left out; the piece of the mark */
    est_byte_source_mark mark;

    EST_TRY(est_state_parse(it, state, counts, 4));
    mark      = (est_byte_source_mark){ (uint64_t)counts[0], (uint32_t)counts[3] };
    own->lost = counts[2] != 0;
    EST_TRY(est_byte_source_seek_mark(est_tfrecord_source(own->reader), &mark));
    return est_tfrecord_seek(own->reader, (est_tfrecord_position){ mark.offset, (uint64_t)counts[1] });
}

static const est_stage file_stage = {
    .name      = "tfrecord file",
    .iter_size = sizeof(file_iter),
    .open      = file_open,
    .next      = file_next,
    .close     = file_close,
    .save      = file_save,
    .restore   = file_restore,
};

static est_dataset *file_make(est_interleaved *it, const est_element *element)
{
    return est_interleave_open_file(it, element, &file_stage);
}

static est_status tfrecords_encode(const est_dataset *dataset, est_wire_writer *w)
{
    int64_t number[EST_INTERLEAVE_NUMBERS];

    est_interleave_encode((const est_interleave *)dataset, number);
    est_state_put(w, number, EST_INTERLEAVE_NUMBERS);
    return EST_OK;
}

static est_dataset *tfrecords_decode(const est_encoded *from)
{
    est_interleave_options options = est_interleave_decode(from);

    return est_dataset_tfrecords(from->input[0], &options);
}

const est_stage est_stage_tfrecords = {
    .name = "tfrecords",
    EST_INTERLEAVE_FUNCTIONS,
    .encode      = tfrecords_encode,
    .decode      = tfrecords_decode,
    .reads_files = true,
};

est_dataset *est_dataset_tfrecords(est_dataset *paths, const est_interleave_options *options)
{
    est_interleave *own = est_interleave_new(&est_stage_tfrecords, sizeof *own, paths, options, file_make);

    if (!est_dataset_sound(&own->base)) return &own->base;
    own->goes_on = true;
    return est_interleave_files(own, "record");
}
