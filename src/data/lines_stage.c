/* SPDX-License-Identifier: Apache-2.0
 *
 * lines: the lines of text files. Each file is a dataset of its own, which never leaves this file; the order of files
 * and the reading ahead are those of interleave. */
#include "format/lines.h"

#include "base/options.h"
#include "data/encode.h"
#include "data/interleave.h"
#include "data/state.h"

typedef struct lines {
    est_interleave base;
    int            skip;

    est_lines_read_options read;
} lines;

typedef struct file_iter {
    est_iter   base;
    est_lines *reader;
} file_iter;

static est_status file_open(est_iter *it)
{
    const est_interleave_file *own    = (const est_interleave_file *)it->dataset;
    const lines               *all    = (const lines *)own->all;
    file_iter                 *iter   = (file_iter *)it;
    est_status                 status = est_lines_open(own->path, &all->read, &iter->reader);

    for (int i = 0; i < all->skip && status == EST_OK; i++) {
        est_str line;

        status = est_lines_next(iter->reader, &line);
    }
    return status == EST_OUT_OF_RANGE ? EST_OK : status;
}

static est_status file_next(est_iter *it, est_element *out)
{
    file_iter *own = (file_iter *)it;
    uint64_t   at  = est_lines_tell(own->reader).line + 1;
    est_str    line;

    EST_TRY(est_lines_next(own->reader, &line));
    out->origin = (est_origin){ .path = ((const est_interleave_file *)it->dataset)->path,
                                .at   = (int64_t)at,
                                .line = true };
    return est_tensor_string(line.data, line.size, &out->field[0].values);
}

static void file_close(est_iter *it)
{
    est_lines_close(((file_iter *)it)->reader);
}

static est_status file_save(est_iter *it, est_wire_writer *w)
{
    est_lines           *reader   = ((file_iter *)it)->reader;
    est_byte_source_mark mark     = est_byte_source_get_mark(est_lines_source(reader));
    est_lines_position   position = est_lines_tell(reader);

    est_state_put(
        w, (const int64_t[]){ (int64_t)mark.offset, (int64_t)position.line, (int64_t)position.open, mark.piece }, 4);
    return EST_OK;
}

static est_status file_restore(est_iter *it, est_str state)
{
    est_lines           *reader = ((file_iter *)it)->reader;
    int64_t              counts[4]; /* three of est_lines_position, then the piece of est_byte_source_mark */
    est_byte_source_mark mark;

    EST_TRY(est_state_parse(it, state, counts, 4));
    mark = (est_byte_source_mark){ (uint64_t)counts[0], (uint32_t)counts[3] };
    EST_TRY(est_byte_source_seek_mark(est_lines_source(reader), &mark));
    return est_lines_seek(reader, (est_lines_position){ mark.offset, (uint64_t)counts[1], (uint64_t)counts[2] });
}

static const est_stage file_stage = {
    .name      = "text file",
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

enum { SKIP = EST_INTERLEAVE_NUMBERS, QUOTED, DELIMITER, TRIM, COMPRESSION, N_NUMBERS };

static est_status lines_encode(const est_dataset *dataset, est_wire_writer *w)
{
    const lines *own               = (const lines *)dataset;
    int64_t      number[N_NUMBERS] = { 0 };

    est_interleave_encode(&own->base, number);
    number[SKIP]        = own->skip;
    number[QUOTED]      = own->read.quoted;
    number[DELIMITER]   = own->read.delimiter;
    number[TRIM]        = own->read.trim;
    number[COMPRESSION] = own->read.compression;
    est_state_put(w, number, N_NUMBERS);
    return EST_OK;
}

static est_dataset *lines_decode(const est_encoded *from)
{
    est_interleave_options interleave = est_interleave_decode(from);

    return est_dataset_lines(from->input[0],
                             EST_LINES(.skip = est_encoded_int(from, SKIP), .quoted = from->number[QUOTED] != 0,
                                       .interleave = &interleave, .delimiter = (char)from->number[DELIMITER],
                                       .trim        = from->number[TRIM] != 0,
                                       .compression = (est_compression)est_encoded_int(from, COMPRESSION)));
}

const est_stage est_stage_lines = {
    .name = "lines",
    EST_INTERLEAVE_FUNCTIONS,
    .encode      = lines_encode,
    .decode      = lines_decode,
    .reads_files = true,
};

static est_status check_options(const est_lines_options *options, est_lines_options *out)
{
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_lines_options), options, out));
    if (out->skip < 0) return est_fail(EST_INVALID_ARGUMENT, "skip %d: it is at least 0", out->skip);
    if (out->delimiter == '"' || out->delimiter == '\n' || out->delimiter == '\r') {
        return est_fail(EST_INVALID_ARGUMENT, "a quote or a line break cannot be the delimiter");
    }
    if (out->compression < EST_COMPRESSION_DEFAULT || out->compression > EST_COMPRESSION_GZIP) {
        return est_fail(EST_INVALID_ARGUMENT, "%d is not an est_compression", (int)out->compression);
    }
    return EST_OK;
}

est_dataset *est_dataset_lines(est_dataset *paths, const est_lines_options *options)
{
    est_lines_options o;
    est_status        status = check_options(options, &o);
    lines            *own    = est_interleave_new(&est_stage_lines, sizeof *own, paths, o.interleave, file_make);

    if (!est_dataset_sound(&own->base.base)) return &own->base.base;
    if (status != EST_OK) return est_dataset_fail(&own->base.base, status);
    own->skip = o.skip;
    own->read = (est_lines_read_options){
        .compression = o.compression, .quoted = o.quoted, .delimiter = o.delimiter, .trim = o.trim
    };
    return est_interleave_files(&own->base, "line");
}
