/* SPDX-License-Identifier: Apache-2.0
 *
 * EstTextWords: the words of texts, as rows of unequal length. Keras' TextVectorization and tf.strings.split.
 *
 * A text is standardized (lower case, no punctuation, both of ASCII), split, and its words joined to n-grams. measure()
 * does it all, since only the texts say how many words there are; run() hands out. What it keeps is as large as that of
 * the largest batch so far. TensorFlow's ops for it take regular expressions: so a graph with it is not exported. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/options.h"
#include "base/strbuf.h"
#include "ops/array.h"

/* Words by their place in the bytes, which may move while they grow. */
typedef struct word {
    size_t at, size;
} word;

typedef struct words_state {
    word    *words;
    size_t   n, room;
    char    *bytes;
    size_t   size, capacity;
    int64_t *splits;
    size_t   rows_room;
} words_state;

static void words_release(est_call *c)
{
    words_state *s = c->state;

    if (s == NULL) return;
    est_free(s->words);
    est_free(s->bytes);
    est_free(s->splits);
    est_free(s);
    c->state = NULL;
}

/* Room for `n` elements, at least twice of what there was. */
static est_status grow(void **array, size_t *room, size_t n, size_t each)
{
    size_t wanted = *room * 2 > n ? *room * 2 : n;
    void  *moved;

    if (*room >= n) return EST_OK;
    moved = est_realloc(*array, wanted * each);
    if (moved == NULL) return est_no_memory();
    *array = moved;
    *room  = wanted;
    return EST_OK;
}

static est_status add_word(words_state *s, size_t at, size_t size)
{
    EST_TRY(grow((void **)&s->words, &s->room, s->n + 1, sizeof *s->words));
    s->words[s->n++] = (word){ at, size };
    return EST_OK;
}

/* --- standardizing ------------------------------------------------------------------------------------------------ */

static bool is_space(char x)
{
    return x == ' ' || (x >= '\t' && x <= '\r');
}

static bool is_punctuation(char x)
{
    return (x >= '!' && x <= '/') || (x >= ':' && x <= '@') || (x >= '[' && x <= '`') || (x >= '{' && x <= '~');
}

/* Appends the text to the bytes. */
static est_status standardize(words_state *s, est_str text, bool lower, bool no_punctuation)
{
    EST_TRY(grow((void **)&s->bytes, &s->capacity, s->size + text.size, 1));
    for (size_t k = 0; k < text.size; k++) {
        char x = text.data[k];

        if (no_punctuation && is_punctuation(x)) continue;
        s->bytes[s->size++] = lower && x >= 'A' && x <= 'Z' ? (char)(x | 0x20) : x;
    }
    return EST_OK;
}

/* --- splitting ---------------------------------------------------------------------------------------------------- */

enum { LOWER, NO_PUNCTUATION, SPLIT, MOST }; /* in param[] */

/* Bytes [at, end) at white space, at most `most` times if that is not negative: the rest is the last word. */
static est_status split_at_space(words_state *s, size_t at, size_t end, int64_t most)
{
    for (;;) {
        size_t begin;

        while (at < end && is_space(s->bytes[at])) at++;
        if (at == end) return EST_OK;
        if (most == 0) return add_word(s, at, end - at);
        begin = at;
        while (at < end && !is_space(s->bytes[at])) at++;
        EST_TRY(add_word(s, begin, at - begin));
        if (most > 0) most--;
    }
}

static est_status split_at_text(words_state *s, size_t at, size_t end, const char *separator, int64_t most)
{
    size_t wide = strlen(separator), begin = at;

    while (most != 0 && at + wide <= end) {
        if (memcmp(s->bytes + at, separator, wide) != 0) {
            at++;
            continue;
        }
        EST_TRY(add_word(s, begin, at - begin));
        at    = at + wide;
        begin = at;
        if (most > 0) most--;
    }
    return add_word(s, begin, end - begin);
}

/* How many bytes from p on, which begin no character, are read as one U+FFFD: those of a character that is cut short,
 * else one. */
static size_t broken_size(const unsigned char *p, size_t left)
{
    int           more = p[0] < 0xc2 || p[0] > 0xf4 ? 0 : p[0] < 0xe0 ? 1 : p[0] < 0xf0 ? 2 : 3;
    unsigned char low  = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char high = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
    size_t        size = 1;

    for (int i = 0; i < more && size < left && p[size] >= low && p[size] <= high; i++) {
        size++;
        low  = 0x80;
        high = 0xbf;
    }
    return size;
}

static est_status add_replacement(words_state *s)
{
    static const char replacement[] = "\xef\xbf\xbd";
    size_t            at = s->size, size = sizeof replacement - 1;

    EST_TRY(grow((void **)&s->bytes, &s->capacity, at + size, 1));
    memcpy(s->bytes + at, replacement, size);
    s->size += size;
    return add_word(s, at, size);
}

static est_status split_characters(words_state *s, size_t at, size_t end, bool bytes)
{
    while (at < end) {
        size_t size = bytes ? 1 : est_utf8_size(s->bytes + at, end - at);

        if (size > 0) {
            EST_TRY(add_word(s, at, size));
        } else {
            EST_TRY(add_replacement(s));
            size = broken_size((const unsigned char *)s->bytes + at, end - at);
        }
        at += size;
    }
    return EST_OK;
}

static est_status split_text(est_call *c, words_state *s, size_t at, size_t end)
{
    const char *separator = est_node_string(c->node, "separator");
    int64_t     most      = c->param[MOST].i;

    switch ((est_word_split)c->param[SPLIT].i) {
    case EST_SPLIT_SPACE:
        return separator[0] == '\0' ? split_at_space(s, at, end, most) : split_at_text(s, at, end, separator, most);
    case EST_SPLIT_CHARACTERS: return split_characters(s, at, end, false);
    case EST_SPLIT_BYTES: return split_characters(s, at, end, true);
    default: return add_word(s, at, end - at);
    }
}

/* The words from `first` on, `n` of them joined by blanks, for each of the lengths. */
static est_status make_ngrams(words_state *s, size_t first, est_i64s lengths)
{
    size_t count = s->n - first, begin = s->n;

    for (int k = 0; k < lengths.n; k++) {
        size_t n = (size_t)lengths.data[k];

        for (size_t i = first; n <= count && i + n <= begin; i++) {
            size_t at = s->size;

            for (size_t j = i; j < i + n; j++) {
                EST_TRY(grow((void **)&s->bytes, &s->capacity, s->size + s->words[j].size + 1, 1));
                if (j > i) s->bytes[s->size++] = ' ';
                memcpy(s->bytes + s->size, s->bytes + s->words[j].at, s->words[j].size);
                s->size += s->words[j].size;
            }
            EST_TRY(add_word(s, at, s->size - at));
        }
    }
    memmove(s->words + first, s->words + begin, (s->n - begin) * sizeof *s->words);
    s->n -= begin - first;
    return EST_OK;
}

/* --- the operation ------------------------------------------------------------------------------------------------ */

static est_status words_infer(est_infer *c)
{
    est_i64s ngrams = est_node_ints(c->node, "ngrams");
    int64_t  rows;

    for (int i = 0; i < ngrams.n; i++) {
        if (ngrams.data[i] < 1) {
            return est_fail(EST_INVALID_ARGUMENT, "n-grams of %" PRId64 " words", ngrams.data[i]);
        }
    }
    EST_TRY(est_infer_rank(c, 0, 1));
    rows      = est_infer_dim(&c->in[0], 0);
    c->out[0] = EST_SHAPE(-1);
    c->out[1] = EST_SHAPE(rows < 0 ? -1 : rows + 1);
    return EST_OK;
}

static est_status words_measure(est_call *c)
{
    const est_str *in     = c->in[0]->data;
    size_t         rows   = (size_t)c->in[0]->count;
    est_i64s       ngrams = est_node_ints(c->node, "ngrams");
    words_state   *s;

    c->param[LOWER].i          = est_node_bool(c->node, "lower");
    c->param[NO_PUNCTUATION].i = est_node_bool(c->node, "no_punctuation");
    c->param[SPLIT].i          = est_node_int(c->node, "split");
    c->param[MOST].i           = est_node_int(c->node, "splits_max");
    if (c->state == NULL) c->state = est_zalloc(sizeof *s);
    s = c->state;
    if (s == NULL) return est_no_memory();
    EST_TRY(grow((void **)&s->splits, &s->rows_room, rows + 1, sizeof *s->splits));
    s->n = s->size = 0;
    s->splits[0]   = 0;
    for (size_t i = 0; i < rows; i++) {
        size_t at = s->size, first = s->n;

        EST_TRY(standardize(s, in[i], c->param[LOWER].i != 0, c->param[NO_PUNCTUATION].i != 0));
        EST_TRY(split_text(c, s, at, s->size));
        if (ngrams.n > 0) EST_TRY(make_ngrams(s, first, ngrams));
        s->splits[i + 1] = (int64_t)s->n;
    }
    c->out[0].shape = EST_SHAPE((int64_t)s->n);
    c->out[0].count = (int64_t)s->n;
    c->out[1].shape = EST_SHAPE((int64_t)rows + 1);
    c->out[1].count = (int64_t)rows + 1;
    return EST_OK;
}

static est_status words_cpu(est_call *c)
{
    const words_state *s   = c->state;
    est_str           *out = c->out[0].data;

    for (size_t i = 0; i < s->n; i++) {
        out[i] = (est_str){ s->words[i].size > 0 ? s->bytes + s->words[i].at : "", s->words[i].size };
    }
    memcpy(c->out[1].data, s->splits, (size_t)c->out[1].count * sizeof *s->splits);
    return EST_OK;
}

const est_op est_op_text_words = {
    .name      = "EstTextWords",
    .signature = "input: string -> values: string, splits: int64; lower: bool = false; no_punctuation: bool = false; "
                 "split: int = 0; separator: string = \"\"; splits_max: int = -1; ngrams: ints = []",
    .infer     = words_infer,
    .cpu       = EST_KERNELS({ .run = words_cpu, .measure = words_measure, .release = words_release }),
};

est_ragged_node est_words(est_node x, const est_words_options *options)
{
    est_words_options o;
    est_node          values;

    if (est_options_take(EST_STRUCT_SIZE(est_words_options), options, &o) != EST_OK) {
        values = est_graph_poison(x.graph, EST_INVALID_ARGUMENT);
        return (est_ragged_node){ values, values };
    }
    values = est_build1(&est_op_text_words, x,
                        EST_ATTRS(est_attr_bool("lower", o.lower), est_attr_bool("no_punctuation", o.no_punctuation),
                                  est_attr_int("split", (int64_t)o.split),
                                  est_attr_string("separator", o.separator != NULL ? o.separator : ""),
                                  est_attr_int("splits_max", o.splits_max > 0 ? o.splits_max : -1),
                                  est_attr_ints("ngrams", o.ngrams)));
    return (est_ragged_node){ values, est_output(values, 1) };
}
