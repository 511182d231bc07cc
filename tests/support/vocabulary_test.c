/* SPDX-License-Identifier: Apache-2.0
 *
 * See vocabulary_test.h. */
#include "support/vocabulary_test.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "estoc/ops.h"
#include "format/saved_model_def.h"
#include "graph/import.h"
#include "ops/ops.h"

#define ROWS 5

const char *const   word_outputs[WORD_OUTPUTS] = { "ids", "more", "numbers", "names", "known", "score" };
const est_component word_raw[WORD_FEATURES]    = { { .name = "word", .dtype = EST_STRING },
                                                   { .name = "number", .dtype = EST_I64 } };

static void ok(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

/* --- model -------------------------------------------------------------------------------------------------------- */

static est_node number_list(est_graph *graph)
{
    est_tensor *list   = NULL;
    est_status  status = est_tensor_i64(EST_SHAPE(2), (const int64_t[]){ 10, 20 }, &list);
    est_node    table;

    if (status != EST_OK) return est_graph_poison(graph, status);
    table = est_vocabulary_list(graph, list, EST_TABLE(.name = "numbers", .num_oov_buckets = 4));
    est_tensor_free(list);
    return table;
}

est_status word_model(est_model *m, est_mode mode, const void *params)
{
    const word_params *p     = params;
    est_graph         *graph = est_model_graph(m);
    est_node           word = est_model_feature(m, "word"), number = est_model_feature(m, "number");
    est_node           first  = est_vocabulary_file(graph, p->first, EST_STRING, EST_TABLE(.num_oov_buckets = 3));
    est_node           second = est_vocabulary_file(graph, p->second, EST_STRING, EST_TABLE(.size = 3));
    est_node           ids    = est_lookup(first, word), score, loss;

    score = est_dense(est_embedding(ids, 5, 2, NULL), 1, NULL);
    est_model_predict(m, "ids", ids);
    est_model_predict(m, "more", est_lookup(second, word));
    est_model_predict(m, "numbers", est_lookup(number_list(graph), number));
    est_model_predict(m, "names", est_lookup_entry(first, number, "none"));
    est_model_predict(m, "known", est_string_lookup_apply(p->lookup, word));
    est_model_predict(m, "score", score);
    if (mode == EST_PREDICT) return est_model_status(m);
    loss = est_mean(est_square(score));
    est_model_loss(m, loss);
    if (mode == EST_TRAIN) est_model_minimize(m, est_adam(0.05, NULL), loss);
    return est_model_status(m);
}

/* --- input -------------------------------------------------------------------------------------------------------- */

static void make_rows(est_tensor **word, est_tensor **number)
{
    const est_str words[ROWS] = { { "dog", 3 }, { "cat", 3 }, { "hen", 3 }, { "", 0 }, { "dog\r", 4 } };

    ok(est_tensor_create_from(EST_STRING, EST_SHAPE(ROWS), words, word));
    ok(est_tensor_i64(EST_SHAPE(ROWS), (const int64_t[]){ 20, 1, -7, 0, 10 }, number));
}

est_status word_input(const est_input_context *context, void *user, est_dataset **out)
{
    est_tensor  *word = NULL, *number = NULL;
    est_dataset *d;

    (void)context;
    (void)user;
    make_rows(&word, &number);
    d = est_dataset_slices(EST_NAMED_TENSORS({ "word", word }, { "number", number }));
    est_tensor_free(word);
    est_tensor_free(number);
    return est_dataset_finish(est_dataset_batch(d, ROWS, NULL), out);
}

static void write_file(char *path, size_t size, const char *dir, const char *name, const char *text)
{
    char folder[128];

    snprintf(folder, sizeof folder, "%s/%s", dir, name);
    snprintf(path, size, "%s/%s/words.txt", dir, name);
    ok(est_dir_create(folder));
    ok(est_file_replace(path, text, strlen(text)));
}

/* The same for all tests of a program, which end it. */
static const est_string_lookup *lookup_of_words(void)
{
    static est_string_lookup *lookup;

    if (lookup == NULL) {
        ok(est_string_lookup_create(
            EST_STRING_LOOKUP(.vocabulary = EST_STRINGS("cat", "dog"), .mask_token = "", .num_oov_indices = 3),
            &lookup));
    }
    return lookup;
}

est_estimator *word_trained(const char *dir, word_params *params)
{
    est_estimator *e = NULL;
    char           model[128];

    write_file(params->first, sizeof params->first, dir, "a", "cat\ndog\n");
    write_file(params->second, sizeof params->second, dir, "b", "dog\r\ncow\nhen\nmore\n");
    params->lookup = lookup_of_words();
    snprintf(model, sizeof model, "%s/model", dir);
    e = est_test_make(word_model, EST_ESTIMATOR(.params = params, .params_size = sizeof *params,
                                                .config = EST_RUN_CONFIG(.model_dir = model, .seed = 3, .quiet = true,
                                                                         .cluster_json = "{}")));
    ok(est_train(e, EST_TRAIN_OPTIONS(.input_fn = word_input, .steps = 1)));
    return e;
}

/* --- serving ------------------------------------------------------------------------------------------------------ */

static void read_meta(const char *dir, est_arena *arena, est_meta_graph_def **out)
{
    const char         *tag = "serve";
    est_saved_model_def model;
    char                path[EST_CHECKPOINT_PATH_MAX + 32], *bytes;
    size_t              size;

    snprintf(path, sizeof path, "%s/saved_model.pb", dir);
    ok(est_file_read(path, &bytes, &size));
    ok(est_saved_model_def_parse((est_str){ bytes, size }, arena, &model));
    est_free(bytes);
    ok(est_saved_model_def_find(&model, &tag, 1, out));
}

static void drop_saving(est_graph_def *def)
{
    int n = 0;

    for (int i = 0; i < def->n_nodes; i++) {
        if (strncmp(def->nodes[i]->name, "save/", 5) != 0) def->nodes[n++] = def->nodes[i];
    }
    def->n_nodes = n;
}

static est_node find_tensor(est_graph *graph, const est_tensor_infos *infos, const char *key)
{
    const est_tensor_info *info = est_tensor_infos_find(infos, key);
    char                   name[256];
    est_node               node;

    if (info == NULL) fail_msg("the signature has no %s", key);
    snprintf(name, sizeof name, "%s", info->name);
    assert_non_null(strchr(name, ':'));
    *strchr(name, ':') = '\0';
    node               = est_graph_find(graph, name);
    if (node.graph == NULL) fail_msg("the graph has no %s", name);
    return node;
}

void word_serve(const char *dir, const char *const *names, int n, est_tensor **out)
{
    est_arena               *arena   = est_arena_create();
    est_graph               *graph   = NULL;
    est_session             *session = NULL;
    est_meta_graph_def      *meta;
    const est_signature_def *signature;
    est_tensor              *word, *number;
    est_node                 nodes[WORD_OUTPUTS];

    assert_non_null(arena);
    assert_true(n <= WORD_OUTPUTS);
    read_meta(dir, arena, &meta);
    ok(est_meta_graph_def_place_assets(meta, dir));
    drop_saving(&meta->graph);
    ok(est_graph_create(1, &graph));
    ok(est_graph_import(&meta->graph, est_op_find, graph));
    ok(est_session_create(graph, EST_SESSION(.threads = 1), &session));
    if (est_session_variables(session) > 0) ok(est_saver_restore(NULL, session, EST_RESTORE(.path = dir), NULL));
    signature = est_meta_graph_def_signature(meta, "serving_default");
    assert_non_null(signature);
    for (int i = 0; i < n; i++) nodes[i] = find_tensor(graph, &signature->outputs, names[i]);
    make_rows(&word, &number);
    ok(est_session_run(session,
                       EST_FEEDS({ find_tensor(graph, &signature->inputs, "word"), word },
                                 { find_tensor(graph, &signature->inputs, "number"), number }),
                       (est_nodes){ nodes, n }, EST_NO_NODES, out));
    est_tensor_free(word);
    est_tensor_free(number);
    est_session_free(session);
    est_graph_free(graph);
    est_arena_free(arena);
}
