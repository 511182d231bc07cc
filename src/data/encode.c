/* SPDX-License-Identifier: Apache-2.0
 *
 * Datasets as bytes: 1 a version, 2 (repeated) a stage {1 name, 2 parameters}. The stages are in the order in which
 * they are made, as in reverse Polish notation: each takes as many of the last datasets as it has inputs and is one
 * itself. So no stage is copied more often than once, and reading needs no recursion. */
#include "data/encode.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "base/argument.h"
#include "format/tensor_proto.h"
#include "tensor/shape.h"

#define VERSION 1

/* A chain is opened, read and freed by functions that call themselves for each input. */
#define DEPTH_MAX 256

/* Of all stages together. Each stage has a copy of its components. */
#define COMPONENTS_MAX ((int64_t)1 << 20)

enum { ROOT_VERSION = 1, ROOT_STAGE };
enum { STAGE_NAME = 1, STAGE_PARAMETERS };

#define EST_STAGE(name) &est_stage_##name,
static const est_stage *const stages[] = {
#include "data/stages.def"
};
#undef EST_STAGE

/* --- writing ------------------------------------------------------------------------------------------------------ */

static est_status fail_function(const est_stage *stage)
{
    if (stage->last) {
        return est_fail(EST_UNIMPLEMENTED, "stage %s cannot be sent to another process: its device is this one's",
                        stage->name);
    }
    return est_fail(EST_UNIMPLEMENTED,
                    "stage %s calls a function of this program, which cannot be sent to another process: %s%s"
                    "make the dataset there, by a named function in est_server_options.functions",
                    stage->name, stage->instead != NULL ? stage->instead : "",
                    stage->instead != NULL ? " takes a graph in its place; or " : "");
}

static est_status fail_deep(void)
{
    return est_fail(EST_INVALID_ARGUMENT, "a dataset of more than %d stages in a row cannot be sent to another process",
                    DEPTH_MAX);
}

static est_status put_stages(est_wire_writer *w, const est_dataset *dataset, int depth)
{
    const est_stage *stage  = dataset->stage;
    est_status       status = EST_OK;
    size_t           mark, inner;

    if (stage->decode == NULL) return fail_function(stage);
    if (depth > DEPTH_MAX) return fail_deep();
    for (int i = 0; i < stage->n_inputs; i++) EST_TRY(put_stages(w, dataset->input[i], depth + 1));
    mark = est_wire_begin(w, ROOT_STAGE);
    est_wire_put_string(w, STAGE_NAME, stage->name);
    inner = est_wire_begin(w, STAGE_PARAMETERS);
    if (stage->encode != NULL) status = stage->encode(dataset, w);
    est_wire_end(w, inner);
    est_wire_end(w, mark);
    return status;
}

est_status est_dataset_encode(const est_dataset *dataset, est_wire_writer *out)
{
    EST_REQUIRE(dataset);
    EST_REQUIRE(out);
    est_wire_put_u64(out, ROOT_VERSION, VERSION);
    EST_TRY(put_stages(out, dataset, 1));
    return est_wire_writer_status(out);
}

void est_encode_tensor(est_wire_writer *w, uint32_t number, const est_tensor *tensor)
{
    size_t mark = est_wire_begin(w, number);

    est_tensor_proto_put(w, tensor);
    est_wire_end(w, mark);
}

void est_encode_shape(est_wire_writer *w, uint32_t number, const est_shape *shape)
{
    size_t mark = est_wire_begin(w, number);

    est_shape_proto_put(w, shape);
    est_wire_end(w, mark);
}

/* --- parameters --------------------------------------------------------------------------------------------------- */

/* Walks over the whole message, so that a stage needs to look only at the fields it knows. */
static est_status read_numbers(est_encoded *from)
{
    est_wire_reader r;
    est_wire_field  field;

    memset(from->number, 0, sizeof from->number);
    est_wire_reader_init(&r, "parameters of a dataset stage", from->parameters.data, from->parameters.size);
    while (est_wire_next(&r, &field)) {
        if (field.number <= EST_ENCODED_NUMBERS) from->number[field.number - 1] = est_wire_i64(&r, &field);
    }
    return est_wire_finish(&r);
}

int est_encoded_int(const est_encoded *from, int i)
{
    int64_t number = from->number[i];

    return number > INT_MAX ? INT_MAX : number < INT_MIN ? INT_MIN : (int)number;
}

int est_encoded_count(const est_encoded *from, uint32_t number)
{
    est_wire_reader r;
    est_wire_field  field;
    int             n = 0;

    est_wire_reader_init(&r, "parameters of a dataset stage", from->parameters.data, from->parameters.size);
    while (est_wire_next(&r, &field)) n += field.number == number;
    return n;
}

est_status est_encoded_text(const est_encoded *from, est_str bytes, const char **out)
{
    char *text;

    if (bytes.size > 0 && memchr(bytes.data, '\0', bytes.size) != NULL) {
        return est_fail(EST_DATA_LOSS, "a text of %zu bytes with a zero byte in it", bytes.size);
    }
    text = est_arena_alloc(from->arena, bytes.size + 1);
    if (text == NULL) return est_no_memory();
    if (bytes.size > 0) memcpy(text, bytes.data, bytes.size);
    *out = text;
    return EST_OK;
}

est_status est_encoded_text_field(const est_encoded *from, uint32_t number, const char **out)
{
    est_wire_reader r;
    est_wire_field  field;

    est_wire_reader_init(&r, from->stage->name, from->parameters.data, from->parameters.size);
    while (est_wire_next(&r, &field)) {
        est_str bytes;

        if (field.number != number) continue;
        bytes = est_wire_bytes(&r, &field);
        EST_TRY(est_wire_finish(&r));
        EST_TRY(est_encoded_text(from, bytes, out));
    }
    return est_wire_finish(&r);
}

est_status est_encoded_tensor(est_str bytes, est_tensor **out)
{
    est_tensor_proto_header header;
    size_t                  size;
    int64_t                 count;

    EST_TRY(est_tensor_proto_parse_header(bytes, &header));
    if (est_dtype_size((est_dtype)header.dtype) == 0) {
        return est_fail(EST_DATA_LOSS, "a tensor of type %" PRId32 ", which is not known", header.dtype);
    }
    EST_TRY(est_shape_size(&header.shape, (est_dtype)header.dtype, &count, &size));
    if (header.dtype == EST_STRING ? (uint64_t)count > bytes.size : size != header.content.size) {
        return est_fail(EST_DATA_LOSS, "a tensor of %" PRId64 " elements in %zu bytes", count, bytes.size);
    }
    return est_tensor_proto_parse(bytes, out);
}

/* Never part of a chain: it takes the inputs and the error. */
static const est_stage failed_stage = { .name = "decode" };

est_dataset *est_encoded_fail(const est_encoded *from, est_status status)
{
    est_dataset *failed = est_dataset_new(&failed_stage, sizeof *failed, from->input[0], from->input[1]);

    est_fail_context(status, "the parameters of stage %s", from->stage->name);
    return est_dataset_sound(failed) ? est_dataset_fail(failed, status) : failed;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* A dataset that no later stage has taken yet. */
typedef struct made {
    est_dataset *dataset;
    int          depth;
} made;

typedef struct decoding {
    made       *made; /* [n], room for `capacity` */
    size_t      n, capacity;
    int64_t     n_components; /* of all stages so far */
    est_encoded stage;        /* the one that is read */
} decoding;

static const est_stage *find_stage(est_str name)
{
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        if (strlen(stages[i]->name) == name.size && memcmp(stages[i]->name, name.data, name.size) == 0) {
            return stages[i];
        }
    }
    return NULL;
}

static est_status make_room(decoding *d)
{
    size_t capacity = d->capacity > 0 ? 2 * d->capacity : 8;
    made  *more;

    if (d->n < d->capacity) return EST_OK;
    more = est_realloc(d->made, capacity * sizeof *more);
    if (more == NULL) return est_no_memory();
    d->made     = more;
    d->capacity = capacity;
    return EST_OK;
}

/* Makes the stage of d->stage.parameters over the last datasets. */
static est_status make_stage(decoding *d, const est_stage *stage)
{
    size_t       n     = (size_t)stage->n_inputs;
    int          depth = 0;
    est_dataset *dataset;

    if (d->n < n) return est_fail(EST_DATA_LOSS, "stage %s lacks an input", stage->name);
    EST_TRY(make_room(d));
    EST_TRY(read_numbers(&d->stage));
    d->stage.stage = stage;
    memset(d->stage.input, 0, sizeof d->stage.input);
    for (size_t i = 0; i < n; i++) {
        made *input = &d->made[d->n - n + i];

        d->stage.input[i] = input->dataset;
        if (input->depth > depth) depth = input->depth;
    }
    if (depth + 1 > DEPTH_MAX) return fail_deep();
    d->n -= n; /* the stage takes them */
    EST_TRY(est_dataset_finish(stage->decode(&d->stage), &dataset));
    d->made[d->n++] = (made){ dataset, depth + 1 };
    d->n_components += dataset->n_components;
    if (d->n_components <= COMPONENTS_MAX) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "more than %" PRId64 " components in all stages", COMPONENTS_MAX);
}

static est_status read_stage(decoding *d, est_wire_reader *r)
{
    est_wire_field   field;
    est_str          name = { "", 0 };
    const est_stage *stage;

    d->stage.parameters = (est_str){ "", 0 };
    while (est_wire_next(r, &field)) {
        if (field.number == STAGE_NAME) name = est_wire_bytes(r, &field);
        if (field.number == STAGE_PARAMETERS) d->stage.parameters = est_wire_bytes(r, &field);
    }
    EST_TRY(est_wire_finish(r));
    stage = find_stage(name);
    if (stage != NULL) return make_stage(d, stage);
    return est_fail(EST_INVALID_ARGUMENT, "a stage \"%.*s\", which this version of the library does not know",
                    name.size < 64 ? (int)name.size : 64, name.data);
}

static est_status read_stages(decoding *d, est_str bytes)
{
    est_wire_reader r, inner;
    est_wire_field  field;
    uint64_t        version = 0;

    est_wire_reader_init(&r, "dataset", bytes.data, bytes.size);
    while (est_wire_next(&r, &field)) {
        if (field.number == ROOT_VERSION) version = est_wire_u64(&r, &field);
        if (field.number == ROOT_STAGE && version == VERSION) {
            est_wire_message(&r, &field, "stage of a dataset", &inner);
            EST_TRY(est_wire_finish(&r));
            EST_TRY(read_stage(d, &inner));
        }
    }
    EST_TRY(est_wire_finish(&r));
    if (version != VERSION) {
        return est_fail(EST_INVALID_ARGUMENT, "version %" PRIu64 " of the format, this library reads version %d",
                        version, VERSION);
    }
    return d->n == 1 ? EST_OK : est_fail(EST_DATA_LOSS, "its stages make %zu datasets; expected 1", d->n);
}

est_status est_dataset_decode_for(est_str bytes, uint64_t reader, est_dataset **out)
{
    decoding   d = { .stage = { .reader = reader } };
    est_status status;

    EST_REQUIRE(out);
    d.stage.arena = est_arena_create();
    status        = d.stage.arena != NULL ? read_stages(&d, bytes) : est_no_memory();
    if (status == EST_OK) *out = d.made[--d.n].dataset;
    while (d.n > 0) est_dataset_free(d.made[--d.n].dataset);
    est_free(d.made);
    est_arena_free(d.stage.arena);
    return status == EST_OK ? EST_OK : est_fail_context(status, "decoding a dataset of %zu bytes", bytes.size);
}

est_status est_dataset_decode(est_str bytes, est_dataset **out)
{
    return est_dataset_decode_for(bytes, 0, out);
}
