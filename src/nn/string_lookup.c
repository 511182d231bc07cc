/* SPDX-License-Identifier: Apache-2.0
 *
 * StringLookup: the words of a vocabulary to ids, behind the ids of mask and unknown words.
 *
 * One table has the mask token and the words with their ids; a word that it lacks gets the table's default, a hash, or
 * an error. */
#include "estoc/preprocessing.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/argument.h"
#include "base/map.h"
#include "base/options.h"
#include "nn/adapt.h"
#include "nn/nn.h"

#define UNKNOWN "[UNK]"

struct est_string_lookup {
    char       *mask; /* NULL: none */
    int64_t     n_oov, max_tokens;
    bool        fixed; /* created with words */
    est_tensor *keys;  /* the mask token, if any, and the words; NULL: no words yet */
    est_tensor *ids;   /* int64, of each key */
};

/* How many ids come before those of the words. */
static int64_t first_word(const est_string_lookup *l)
{
    return (l->mask != NULL) + l->n_oov;
}

static est_str text_of(const char *text)
{
    return (est_str){ text, strlen(text) };
}

static bool is_text(est_str word, const char *text)
{
    return word.size == strlen(text) && (word.size == 0 || memcmp(word.data, text, word.size) == 0);
}

/* For messages. */
static int shown(est_str word)
{
    return word.size < 64 ? (int)word.size : 64;
}

/* --- words -------------------------------------------------------------------------------------------------------- */

static est_status check_words(const est_string_lookup *l, const est_str *words, int64_t n)
{
    est_map    seen   = { 0 };
    est_status status = EST_OK;

    if (l->max_tokens > 0 && n + first_word(l) > l->max_tokens) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "the vocabulary has %" PRId64 " words, which with mask and unknown words makes %" PRId64
                        " ids; max_tokens is %" PRId64,
                        n, n + first_word(l), l->max_tokens);
    }
    for (int64_t i = 0; i < n && status == EST_OK; i++) {
        if (l->mask != NULL && is_text(words[i], l->mask)) {
            status = est_fail(EST_INVALID_ARGUMENT,
                              "word %" PRId64 " of the vocabulary is the mask token \"%s\"; leave it out", i, l->mask);
        } else if (est_map_get_bytes(&seen, words[i].data, words[i].size) != NULL) {
            status = est_fail(EST_INVALID_ARGUMENT, "\"%.*s\" is in the vocabulary twice", shown(words[i]),
                              words[i].data);
        } else {
            status = est_map_put_bytes(&seen, words[i].data, words[i].size, &seen);
        }
    }
    est_map_clear(&seen);
    return status;
}

/* Replaces the words of the lookup by copies of these. */
static est_status set_words(est_string_lookup *l, const est_str *words, int64_t n)
{
    int64_t     mask = l->mask != NULL;
    est_tensor *keys = NULL, *ids = NULL;
    est_str    *list = est_alloc((size_t)(n + mask) * sizeof *list);
    est_status  status;

    if (list == NULL) return est_no_memory();
    if (mask > 0) list[0] = text_of(l->mask);
    memcpy(list + mask, words, (size_t)n * sizeof *list);
    status = est_tensor_create_from(EST_STRING, EST_SHAPE(n + mask), list, &keys);
    if (status == EST_OK) status = est_tensor_create(EST_I64, EST_SHAPE(n + mask), &ids);
    est_free(list);
    if (status != EST_OK) {
        est_tensor_free(keys);
        return status;
    }
    for (int64_t i = 0; i < n + mask; i++) {
        ((int64_t *)est_tensor_mutable_data(ids))[i] = i < mask ? 0 : first_word(l) + i - mask;
    }
    est_tensor_free(l->keys);
    est_tensor_free(l->ids);
    l->keys = keys;
    l->ids  = ids;
    return EST_OK;
}

/* Whether a list begins with the tokens that stand for the ids before the words. */
static bool begins_with_tokens(const est_string_lookup *l, est_strings list)
{
    int64_t n = first_word(l);

    if (n == 0 || list.n < n) return false;
    for (int64_t i = 0; i < n; i++) {
        if (strcmp(list.data[i], i == 0 && l->mask != NULL ? l->mask : UNKNOWN) != 0) return false;
    }
    return true;
}

static est_status take_list(est_string_lookup *l, est_strings list)
{
    int64_t    n     = list.n;
    est_str   *words = est_alloc((size_t)n * sizeof *words);
    est_status status;

    if (words == NULL) return est_no_memory();
    for (int i = 0; i < list.n; i++) {
        if (list.data[i] == NULL) {
            est_free(words);
            return est_fail(EST_INVALID_ARGUMENT, "word %d of the vocabulary is NULL", i);
        }
        words[i] = text_of(list.data[i]);
    }
    if (begins_with_tokens(l, list)) {
        n -= first_word(l);
        memmove(words, words + first_word(l), (size_t)n * sizeof *words);
    }
    status = n > 0 ? check_words(l, words, n) : est_fail(EST_INVALID_ARGUMENT, "the vocabulary has no word");
    if (status == EST_OK) status = set_words(l, words, n);
    est_free(words);
    return status;
}

static est_status take_file(est_string_lookup *l, const char *path)
{
    est_tensor *lines;
    est_status  status;

    EST_TRY(est_vocabulary_read(path, &lines));
    status = check_words(l, est_tensor_data(lines), est_tensor_count(lines));
    if (status != EST_OK) status = est_fail_context(status, "%s", path);
    if (status == EST_OK) status = set_words(l, est_tensor_data(lines), est_tensor_count(lines));
    est_tensor_free(lines);
    return status;
}

/* --- making ------------------------------------------------------------------------------------------------------- */

static int64_t count_oov(const est_string_lookup_options *o)
{
    return o->num_oov_indices == EST_OFF ? 0 : o->num_oov_indices == 0 ? 1 : o->num_oov_indices;
}

static est_status check_options(const est_string_lookup_options *o)
{
    int64_t special = count_oov(o) + (o->mask_token != NULL);

    if (!EST_LIST_OK(o->vocabulary)) return est_fail(EST_INVALID_ARGUMENT, "the list of the vocabulary is NULL");
    if (o->vocabulary.n > 0 && o->file != NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "a StringLookup has a vocabulary or a file (%s), not both", o->file);
    }
    if (o->num_oov_indices < 0 && o->num_oov_indices != EST_OFF) {
        return est_fail(EST_INVALID_ARGUMENT, "num_oov_indices is %" PRId64 "; it must be at least 1, or EST_OFF",
                        o->num_oov_indices);
    }
    if (o->max_tokens < 0 || (o->max_tokens > 0 && o->max_tokens <= special)) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "max_tokens is %" PRId64 "; mask and unknown words have %" PRId64
                        " ids, and at least one more is needed, or 0 for no bound",
                        o->max_tokens, special);
    }
    return EST_OK;
}

est_status est_string_lookup_create(const est_string_lookup_options *options, est_string_lookup **out)
{
    est_string_lookup_options o;
    est_string_lookup        *l;
    est_status                status = EST_OK;

    EST_REQUIRE(out);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_string_lookup_options), options, &o));
    EST_TRY(check_options(&o));
    l = est_zalloc(sizeof *l);
    if (l == NULL) return est_no_memory();
    l->n_oov      = count_oov(&o);
    l->max_tokens = o.max_tokens;
    l->fixed      = o.vocabulary.n > 0 || o.file != NULL;
    if (o.mask_token != NULL) {
        l->mask = est_strdup(o.mask_token);
        if (l->mask == NULL) status = est_no_memory();
    }
    if (status == EST_OK && o.vocabulary.n > 0) status = take_list(l, o.vocabulary);
    if (status == EST_OK && o.file != NULL) status = take_file(l, o.file);
    if (status != EST_OK) {
        est_string_lookup_free(l);
        return status;
    }
    *out = l;
    return EST_OK;
}

void est_string_lookup_free(est_string_lookup *lookup)
{
    if (lookup == NULL) return;
    est_tensor_free(lookup->keys);
    est_tensor_free(lookup->ids);
    est_free(lookup->mask);
    est_free(lookup);
}

/* --- words from data ---------------------------------------------------------------------------------------------- */

typedef struct counted {
    est_str   word;
    uintptr_t count;
} counted;

/* By falling count, then by falling bytes. */
static int by_count(const void *a, const void *b)
{
    const counted *x = a, *y = b;
    size_t         size = x->word.size < y->word.size ? x->word.size : y->word.size;
    int            order;

    if (x->count != y->count) return x->count < y->count ? 1 : -1;
    order = size > 0 ? memcmp(y->word.data, x->word.data, size) : 0;
    return order != 0 ? order : (x->word.size < y->word.size) - (x->word.size > y->word.size);
}

/* The words of a dataset and how often they occur. */
typedef struct counting {
    const est_string_lookup *lookup;
    est_map                  counts;
} counting;

static est_status count_tensor(const est_tensor *tensor, void *user)
{
    counting      *c     = user;
    const char    *mask  = c->lookup->mask;
    const est_str *words = est_tensor_data(tensor);

    for (int64_t i = 0; i < est_tensor_count(tensor); i++) {
        uintptr_t n;

        if (is_text(words[i], UNKNOWN) || (mask != NULL && is_text(words[i], mask))) continue;
        n = (uintptr_t)est_map_get_bytes(&c->counts, words[i].data, words[i].size);
        EST_TRY(est_map_put_bytes(&c->counts, words[i].data, words[i].size, (void *)(n + 1)));
    }
    return EST_OK;
}

/* Makes the counted words those of the lookup. */
static est_status take_counts(est_string_lookup *l, const est_map *counts)
{
    counted   *list  = est_alloc((counts->n + 1) * sizeof *list);
    est_str   *words = est_alloc((counts->n + 1) * sizeof *words);
    int64_t    n     = 0;
    est_status status;

    if (list == NULL || words == NULL) {
        est_free(list);
        est_free(words);
        return est_no_memory();
    }
    for (uint32_t i = 0; i < counts->n_entries; i++) {
        const est_map_entry *entry = &counts->entries[i];

        if (entry->key == NULL) continue;
        list[n++] = (counted){ { entry->key, entry->key_size }, (uintptr_t)entry->value };
    }
    qsort(list, (size_t)n, sizeof *list, by_count);
    if (l->max_tokens > 0 && n > l->max_tokens - first_word(l)) n = l->max_tokens - first_word(l);
    for (int64_t i = 0; i < n; i++) words[i] = list[i].word;
    status = n > 0 ? set_words(l, words, n) : est_fail(EST_INVALID_ARGUMENT, "the dataset has no word");
    est_free(list);
    est_free(words);
    return status;
}

bool est_string_lookup_adapts(const est_string_lookup *lookup)
{
    return !lookup->fixed;
}

est_status est_string_lookup_adapt(est_string_lookup *lookup, const est_dataset *dataset, const char *component)
{
    counting   c = { .lookup = lookup };
    est_status status;

    EST_REQUIRE(lookup);
    EST_REQUIRE(dataset);
    EST_REQUIRE(component);
    if (lookup->fixed) {
        return est_fail(EST_FAILED_PRECONDITION,
                        "this StringLookup was created with its vocabulary; create it without one to adapt it");
    }
    status = est_adapt_each(dataset, component, 1U << EST_STRING, "words are strings", count_tensor, &c);
    if (status == EST_OK) status = take_counts(lookup, &c.counts);
    est_map_clear(&c.counts);
    return status;
}

/* --- use ---------------------------------------------------------------------------------------------------------- */

int64_t est_string_lookup_size(const est_string_lookup *lookup)
{
    if (lookup == NULL || lookup->keys == NULL) return 0;
    return est_tensor_count(lookup->keys) + lookup->n_oov;
}

est_str est_string_lookup_word(const est_string_lookup *lookup, int64_t id)
{
    if (id < 0 || id >= est_string_lookup_size(lookup)) return (est_str){ 0 };
    if (lookup->mask == NULL || id > 0) {
        if (id < first_word(lookup)) return text_of(UNKNOWN);
        id -= lookup->n_oov;
    }
    return ((const est_str *)est_tensor_data(lookup->keys))[id];
}

/* The table of the words. The graph keeps it under the address of the list, which the graph keeps alive, so that
 * several uses share it. */
static est_node table_of(const est_string_lookup *l, est_graph *graph)
{
    bool        one  = l->n_oov == 1; /* then the table knows the id of unknown words */
    const char *name = est_arena_printf(est_graph_arena(graph), "string_lookup/%p", (void *)l->keys);
    est_nodes   made;
    est_node    table;

    if (name == NULL) return est_graph_poison(graph, est_no_memory());
    made = est_graph_collection(graph, name);
    if (made.n > 0) return made.data[0];
    table = est_vocabulary_ids(
        graph, l->keys, l->ids,
        EST_TABLE(.name = "string_lookup", .has_default = one, .default_id = one ? first_word(l) - 1 : 0));
    if (!est_graph_poisoned(graph)) est_graph_collect(graph, name, table);
    return table;
}

est_node est_string_lookup_apply(const est_string_lookup *lookup, est_node words)
{
    est_graph *graph = words.graph;
    est_node   ids, hash;

    if (graph == NULL || est_graph_poisoned(graph)) return words;
    if (lookup == NULL) return est_nn_fail(graph, "est_string_lookup_apply: the lookup is NULL");
    if (est_def(words) == NULL) return est_nn_fail(graph, "est_string_lookup_apply: the words are not a node");
    if (est_node_dtype(words) != EST_STRING) {
        return est_nn_fail(graph, "a StringLookup takes strings; '%s' is %s", est_node_name(words),
                           est_dtype_name(est_node_dtype(words)));
    }
    if (lookup->keys == NULL) {
        return est_nn_fail(graph,
                           "this StringLookup has no words yet: call est_layer_adapt, or est_string_lookup_adapt "
                           "where it is no layer");
    }
    ids = est_lookup(table_of(lookup, graph), words);
    if (lookup->n_oov == 1) return ids;
    if (lookup->n_oov == 0) return est_check_found(ids, words, "StringLookup with num_oov_indices EST_OFF");
    hash = est_add(est_string_to_hash_bucket(words, lookup->n_oov),
                   est_scalar(graph, EST_I64, (double)(first_word(lookup) - lookup->n_oov)));
    return est_select(est_less(ids, est_scalar(graph, EST_I64, 0)), hash, ids);
}
