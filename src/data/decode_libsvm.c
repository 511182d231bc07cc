/* SPDX-License-Identifier: Apache-2.0
 *
 * decode_libsvm: batches of libsvm lines. */
#include "data/decode.h"
#include "data/encode.h"
#include "data/state.h"
#include "format/libsvm.h"

enum { LABEL, INDEX, VALUE, N_COMPONENTS };

static est_status libsvm_decode(est_decode_iter *it, int worker, const est_decode_rows *rows, est_field *out)
{
    est_libsvm_batch batch = { 0 };

    (void)it;
    (void)worker;
    EST_TRY(est_libsvm_parse(rows->text, rows->n, NULL, &batch, NULL));
    out[LABEL].values = batch.labels;
    out[INDEX]        = (est_field){ batch.indices, batch.splits };
    out[VALUE]        = (est_field){ batch.values, est_tensor_ref(batch.splits) };
    return EST_OK;
}

static bool libsvm_is_blank(const est_decode *own, est_str row)
{
    (void)own;
    return est_libsvm_is_blank(row);
}

static const est_decode_format libsvm_format = {
    .takes    = "lines of libsvm",
    .row_name = { "line 0, " },
    .is_blank = libsvm_is_blank,
    .decode   = libsvm_decode,
};

static est_status libsvm_encode(const est_dataset *dataset, est_wire_writer *w)
{
    int64_t number[EST_DECODE_NUMBERS];

    EST_TRY(est_decode_encode((const est_decode *)dataset, number));
    est_state_put(w, number, EST_DECODE_NUMBERS);
    return EST_OK;
}

static est_dataset *libsvm_from_bytes(const est_encoded *from)
{
    est_parse_options options = est_decode_options(from);

    return est_dataset_decode_libsvm(from->input[0], from->number[0], &options);
}

const est_stage est_stage_decode_libsvm = {
    .name   = "decode_libsvm",
    .encode = libsvm_encode,
    .decode = libsvm_from_bytes,
    EST_DECODE_FUNCTIONS,
};

est_dataset *est_dataset_decode_libsvm(est_dataset *lines, int64_t batch, const est_parse_options *options)
{
    est_decode   *own = est_decode_new(&est_stage_decode_libsvm, sizeof *own, &libsvm_format, lines);
    est_component components[N_COMPONENTS];
    est_status    status;

    if (!est_dataset_sound(&own->base)) return &own->base;
    status = est_decode_set(own, batch, options);
    if (status != EST_OK) return est_dataset_fail(&own->base, status);
    components[LABEL] = (est_component){ "label", EST_F32, EST_SHAPE(est_decode_dim(own)), false };
    components[INDEX] = (est_component){ "index", EST_I64, EST_SHAPE(-1), true };
    components[VALUE] = (est_component){ "value", EST_F32, EST_SHAPE(-1), true };
    return est_dataset_with(&own->base, components, N_COMPONENTS);
}
