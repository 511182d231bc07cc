/* SPDX-License-Identifier: Apache-2.0
 *
 * Datasets as bytes, for another process. A decoded dataset yields the elements of the original in the same order, and
 * a position saved with one is good for the other. Paths and patterns are those of the process that reads: relative
 * ones are relative to its directory.
 *
 * Stages that call a function of the user (est_stage.decode is NULL) cannot be encoded, nor can decoders of rows with a
 * `check`: EST_UNIMPLEMENTED, with advice.
 *
 * A shuffle whose seed was drawn keeps the seed it has drawn, so that a process that starts again continues in the same
 * order. Several processes that read the same rows, each for itself, would all read them in this order:
 * est_dataset_decode_for gives each another.
 *
 * Bytes are not trusted: damaged ones are an error, and what decoding costs is bounded by their size. */
#ifndef EST_DATA_ENCODE_H
#define EST_DATA_ENCODE_H

#include "data/stage.h"

/* Appends the message of a finished dataset to `out`. */
EST_MUST_CHECK est_status est_dataset_encode(const est_dataset *dataset, est_wire_writer *out);

/* A finished dataset of such bytes. */
EST_MUST_CHECK est_status est_dataset_decode(est_str bytes, est_dataset **out);

/* The same for reader number `reader` of several. 0: as est_dataset_decode. For another number, a seed that was drawn
 * is replaced by one that is derived from both. */
EST_MUST_CHECK est_status est_dataset_decode_for(est_str bytes, uint64_t reader, est_dataset **out);

/* The stages that have est_stage.decode. */
#define EST_STAGE(name) extern const est_stage est_stage_##name;
#include "data/stages.def"
#undef EST_STAGE

/* --- for est_stage.encode and decode ------------------------------------------------------------------------------ */

#define EST_ENCODED_NUMBERS 15 /* fields 1 to 15 of the parameters are numbers, of est_state_put */
#define EST_ENCODED_OWN     16 /* the first field that a stage writes itself */

struct est_encoded {
    const est_stage *stage;
    int64_t          number[EST_ENCODED_NUMBERS]; /* field i + 1; 0: it is not there */
    est_str          parameters;                  /* the whole message; its fields are well-formed */
    est_dataset     *input[EST_STAGE_INPUTS_MAX];
    uint64_t         reader;
    est_arena       *arena; /* for as long as the call */
};

/* Number i as an int; one that does not fit is INT_MAX or INT_MIN, which constructors reject. */
int est_encoded_int(const est_encoded *from, int i);

/* How many fields have this number. */
int est_encoded_count(const est_encoded *from, uint32_t field);

/* A text in the arena; a zero byte in it is an error. The second is that of a field; *out stays as it is when the field
 * is not there. */
EST_MUST_CHECK est_status est_encoded_text(const est_encoded *from, est_str bytes, const char **out);
EST_MUST_CHECK est_status est_encoded_text_field(const est_encoded *from, uint32_t field, const char **out);

/* A tensor as field `number` of a message, and a new one of the bytes of such a field, which must have all values. */
void                      est_encode_tensor(est_wire_writer *w, uint32_t number, const est_tensor *tensor);
EST_MUST_CHECK est_status est_encoded_tensor(est_str bytes, est_tensor **out);

/* A shape likewise. */
void est_encode_shape(est_wire_writer *w, uint32_t number, const est_shape *shape);

/* The result of a decode function that failed before it called a constructor. */
est_dataset *est_encoded_fail(const est_encoded *from, est_status status);

#endif
