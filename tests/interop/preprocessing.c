/* SPDX-License-Identifier: Apache-2.0
 *
 * StringLookup against Keras: the order of words that it takes from data, and the ids of known, unknown and masked
 * words. tests/interop/vocabulary.c has one in an export that TensorFlow runs. */
#include "estoc/preprocessing.h"

#include "estoc/ops.h"
#include "estoc/session.h"
#include "support/interop.h"

static est_tensor *strings_of(const char *file)
{
    interop_blobs blobs;
    est_tensor   *tensor = NULL;

    interop_blobs_read(file, &blobs);
    interop_check(est_tensor_create_from(EST_STRING, EST_SHAPE((int64_t)blobs.n), blobs.at, &tensor));
    interop_blobs_clear(&blobs);
    return tensor;
}

static void say_words(est_strbuf *out, const est_string_lookup *lookup)
{
    est_tensor *words = NULL;

    interop_check(est_tensor_create(EST_STRING, EST_SHAPE(est_string_lookup_size(lookup)), &words));
    for (int64_t i = 0; i < est_string_lookup_size(lookup); i++) {
        est_str word = est_string_lookup_word(lookup, i);

        interop_check(est_tensor_set_string(words, i, word.data, word.size));
    }
    interop_tensor(out, "words", words);
    est_tensor_free(words);
}

static void say_ids(est_strbuf *out, const est_string_lookup *lookup, est_tensor *asked)
{
    est_graph   *graph   = NULL;
    est_session *session = NULL;
    est_tensor  *ids     = NULL;
    est_node     words;

    interop_check(est_graph_create(1, &graph));
    words = est_placeholder(graph, "words", EST_STRING, EST_SHAPE(-1));
    words = est_string_lookup_apply(lookup, words);
    interop_check(est_graph_status(graph));
    interop_check(est_session_create(graph, NULL, &session));
    interop_check(est_session_run(session, EST_FEEDS({ est_graph_find(graph, "words"), asked }), EST_NODES(words),
                                  EST_NO_NODES, &ids));
    interop_tensor(out, "ids", ids);
    est_tensor_free(ids);
    est_session_free(session);
    est_graph_free(graph);
}

static void adapt(const char *name, const est_string_lookup_options *options)
{
    est_tensor        *words = strings_of("words"), *asked = strings_of("asked");
    est_dataset       *d      = est_dataset_slices(EST_NAMED_TENSORS({ "word", words }));
    est_string_lookup *lookup = NULL;
    est_strbuf         out    = { 0 };

    interop_check(est_dataset_finish(est_dataset_batch(d, 7, NULL), &d));
    interop_check(est_string_lookup_create(options, &lookup));
    interop_check(est_string_lookup_adapt(lookup, d, "word"));
    say_words(&out, lookup);
    say_ids(&out, lookup, asked);
    interop_save(name, &out);
    est_string_lookup_free(lookup);
    est_dataset_free(d);
    est_tensor_free(words);
    est_tensor_free(asked);
}

TEST(string_lookup)
{
    interop_ask("write_words");
    adapt("plain", NULL);
    adapt("mask", EST_STRING_LOOKUP(.mask_token = ""));
    adapt("several", EST_STRING_LOOKUP(.mask_token = "", .num_oov_indices = 5));
    adapt("unmasked", EST_STRING_LOOKUP(.num_oov_indices = 3));
    adapt("few", EST_STRING_LOOKUP(.mask_token = "", .num_oov_indices = 2, .max_tokens = 20));
    interop_ask("check_words");
}

int main(void)
{
    return INTEROP_MAIN("preprocessing");
}
