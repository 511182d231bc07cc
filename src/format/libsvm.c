/* SPDX-License-Identifier: Apache-2.0
 *
 * LIBSVM lines. Every pair has one colon, so that counting colons first gives the size of the tensors, and the pairs go
 * straight into them. */
#include "format/libsvm.h"

#include <inttypes.h>
#include <string.h>

#include "format/number.h"

#define TEXT_SHOW 40 /* bytes of a bad word that an error shows */

/* One line being read. */
typedef struct line_reader {
    size_t      number; /* of the line, from 0 */
    const char *begin, *at, *end;
} line_reader;

typedef struct batch_writer {
    est_libsvm_options options;
    float             *labels, *values;
    int64_t           *splits, *indices, *qids;
    size_t             n_values;
} batch_writer;

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Fails at a word of the line. */
static est_status fail_at(const line_reader *r, est_str word, const char *why)
{
    char   text[TEXT_SHOW + 1];
    size_t n = word.size < TEXT_SHOW ? word.size : TEXT_SHOW;

    for (size_t i = 0; i < n; i++) text[i] = (unsigned char)word.data[i] < ' ' ? '?' : word.data[i];
    text[n] = 0;
    return est_fail(EST_INVALID_ARGUMENT, "line %zu, column %zu: \"%s%s\" %s", r->number,
                    (size_t)(word.data - r->begin) + 1, text, word.size > n ? "..." : "", why);
}

/* The line up to its comment. */
static line_reader line_reader_of(est_str line, size_t number)
{
    const char *data    = line.size > 0 ? line.data : "";
    const char *comment = memchr(data, '#', line.size);

    return (line_reader){ number, data, data, comment != NULL ? comment : data + line.size };
}

/* The next word; an empty one at the end. */
static est_str next_word(line_reader *r)
{
    const char *from;

    while (r->at < r->end && is_blank(*r->at)) r->at++;
    from = r->at;
    while (r->at < r->end && !is_blank(*r->at)) r->at++;
    return (est_str){ from, (size_t)(r->at - from) };
}

static bool is_qid(est_str word)
{
    return word.size >= 4 && memcmp(word.data, "qid:", 4) == 0;
}

bool est_libsvm_is_blank(est_str line)
{
    line_reader r = line_reader_of(line, 0);

    return next_word(&r).size == 0;
}

/* How many pairs a line has, if it is a good one. */
static size_t count_pairs(est_str line)
{
    line_reader r = line_reader_of(line, 0);
    size_t      n = 0;

    for (const char *p = r.begin; p < r.end; p++) n += *p == ':';
    next_word(&r);
    return n - is_qid(next_word(&r));
}

/* --- lines -------------------------------------------------------------------------------------------------------- */

static est_status parse_pair(batch_writer *w, const line_reader *r, est_str word)
{
    const est_libsvm_options *o     = &w->options;
    const char               *colon = memchr(word.data, ':', word.size);
    size_t                    size  = colon != NULL ? (size_t)(colon - word.data) : 0;
    int64_t                   index;

    if (colon == NULL) return fail_at(r, word, "is not index:value");
    switch (est_number_i64(word.data, size, &index)) {
    case EST_NUMBER_OK: break;
    case EST_NUMBER_RANGE: return fail_at(r, word, "has an index that does not fit int64");
    default: return fail_at(r, word, "has no integer before the colon");
    }
    if (index < o->one_based) {
        return fail_at(r, word, o->one_based ? "has an index below 1" : "has an index below 0");
    }
    index -= o->one_based;
    if (o->index_max > 0 && index > o->index_max) return fail_at(r, word, "has an index above the largest one");
    if (est_number_f32(colon + 1, word.size - size - 1, &w->values[w->n_values]) != EST_NUMBER_OK) {
        return fail_at(r, word, "has no number after the colon");
    }
    w->indices[w->n_values++] = index;
    return EST_OK;
}

static est_status parse_qid(batch_writer *w, const line_reader *r, est_str word)
{
    int64_t qid;

    if (est_number_i64(word.data + 4, word.size - 4, &qid) != EST_NUMBER_OK) {
        return fail_at(r, word, "has no integer after the colon");
    }
    if (w->qids != NULL) w->qids[r->number] = qid;
    return EST_OK;
}

static est_status parse_line(batch_writer *w, est_str line, size_t number)
{
    line_reader r    = line_reader_of(line, number);
    est_str     word = next_word(&r);

    if (word.size == 0) return fail_at(&r, word, "is where a label is missing");
    if (est_number_f32(word.data, word.size, &w->labels[number]) != EST_NUMBER_OK) {
        return fail_at(&r, word, "is not a number, as a label has to be");
    }
    word = next_word(&r);
    if (is_qid(word)) {
        EST_TRY(parse_qid(w, &r, word));
        word = next_word(&r);
    } else if (w->qids != NULL) {
        return fail_at(&r, word, "is where \"qid:\" and a number are missing");
    }
    for (; word.size > 0; word = next_word(&r)) EST_TRY(parse_pair(w, &r, word));
    w->splits[number + 1] = (int64_t)w->n_values;
    return EST_OK;
}

/* --- batches ------------------------------------------------------------------------------------------------------ */

static est_status make_tensors(const est_str *lines, size_t n, bool keep_qid, est_libsvm_batch *batch)
{
    size_t n_pairs = 0;

    for (size_t i = 0; i < n; i++) n_pairs += count_pairs(lines[i]);
    EST_TRY(est_tensor_create(EST_F32, EST_SHAPE((int64_t)n), &batch->labels));
    EST_TRY(est_tensor_create(EST_I64, EST_SHAPE((int64_t)n + 1), &batch->splits));
    EST_TRY(est_tensor_create(EST_I64, EST_SHAPE((int64_t)n_pairs), &batch->indices));
    EST_TRY(est_tensor_create(EST_F32, EST_SHAPE((int64_t)n_pairs), &batch->values));
    if (keep_qid) EST_TRY(est_tensor_create(EST_I64, EST_SHAPE((int64_t)n), &batch->qids));
    return EST_OK;
}

static est_status parse_into(const est_str *lines, size_t n, const est_libsvm_options *options, est_libsvm_batch *batch,
                             size_t *bad_line)
{
    batch_writer w = { 0 };

    if (options != NULL) w.options = *options;
    EST_TRY(make_tensors(lines, n, w.options.keep_qid, batch));
    w.labels    = est_tensor_mutable_data(batch->labels);
    w.splits    = est_tensor_mutable_data(batch->splits);
    w.indices   = est_tensor_mutable_data(batch->indices);
    w.values    = est_tensor_mutable_data(batch->values);
    w.qids      = batch->qids != NULL ? est_tensor_mutable_data(batch->qids) : NULL;
    w.splits[0] = 0;
    for (size_t i = 0; i < n; i++) {
        est_status status = parse_line(&w, lines[i], i);

        if (status == EST_OK) continue;
        *bad_line = i;
        return status;
    }
    return EST_OK;
}

est_status est_libsvm_parse(const est_str *lines, size_t n, const est_libsvm_options *options, est_libsvm_batch *out,
                            size_t *bad_line)
{
    est_libsvm_batch batch = { 0 };
    size_t           ignored;
    est_status       status;

    if (bad_line == NULL) bad_line = &ignored;
    *bad_line = n;
    status    = parse_into(lines, n, options, &batch, bad_line);
    if (status != EST_OK) {
        est_libsvm_batch_clear(&batch);
        return status;
    }
    *out = batch;
    return EST_OK;
}

void est_libsvm_batch_clear(est_libsvm_batch *batch)
{
    est_tensor_free(batch->labels);
    est_tensor_free(batch->splits);
    est_tensor_free(batch->indices);
    est_tensor_free(batch->values);
    est_tensor_free(batch->qids);
    *batch = (est_libsvm_batch){ 0 };
}
