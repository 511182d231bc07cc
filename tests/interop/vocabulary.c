/* SPDX-License-Identifier: Apache-2.0
 *
 * Vocabularies and TensorFlow: an export of ours with its files gone gives the same ids in both of its loaders, a
 * SavedModel of TensorFlow's with tables runs here, and both take and refuse the same files. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "estoc/ops.h"
#include "support/interop.h"
#include "support/vocabulary_test.h"

/* --- ours there --------------------------------------------------------------------------------------------------- */

TEST(export)
{
    char             dir[64], path[EST_CHECKPOINT_PATH_MAX];
    word_params      params;
    est_predictions *p   = NULL;
    est_strbuf       out = { 0 };
    est_estimator   *e;

    est_test_dir(dir);
    e = word_trained(dir, &params);
    interop_check(est_export_saved_model(e, interop_path("export"),
                                         EST_EXPORT(.input = { .raw = { word_raw, WORD_FEATURES } }), path));
    interop_check(est_predict(e, EST_PREDICT_OPTIONS(.input_fn = word_input, .batches = true), &p));
    interop_check(est_predictions_next(p));
    for (int i = 0; i < WORD_OUTPUTS; i++) {
        interop_tensor(&out, word_outputs[i], est_predictions_get(p, word_outputs[i]));
    }
    interop_save("export.expected", &out);
    interop_blob(&out, path, strlen(path));
    interop_save("export.path", &out);
    est_predictions_free(p);
    est_estimator_free(e);
    est_test_dir_remove(dir); /* the vocabularies too */
    interop_ask("check_export");
}

/* The graph beside a checkpoint says what fills its tables. */
TEST(meta)
{
    char           dir[64], path[128];
    word_params    params;
    est_strbuf     out = { 0 };
    est_estimator *e;

    est_test_dir(dir);
    e = word_trained(dir, &params);
    snprintf(path, sizeof path, "%s/model/model.ckpt-1.meta", dir);
    interop_blob(&out, path, strlen(path));
    interop_save("meta.path", &out);
    interop_ask("check_meta");
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* --- theirs here -------------------------------------------------------------------------------------------------- */

TEST(import)
{
    static const char *const names[] = { "ids", "more", "numbers", "names" };
    est_tensor              *out[4];
    est_strbuf               blobs = { 0 };

    interop_ask("write_model");
    word_serve(interop_path("theirs"), names, 4, out);
    for (int i = 0; i < 4; i++) {
        interop_tensor(&blobs, names[i], out[i]);
        est_tensor_free(out[i]);
    }
    interop_save("theirs.found", &blobs);
    interop_ask("check_model");
}

/* --- files -------------------------------------------------------------------------------------------------------- */

typedef struct file_case {
    est_str   text;
    est_dtype key;
    int64_t   size;
} file_case;

/* The ids of the keys "a", "b", "" and "a\r", or of 7, -3, 0 and 8. */
static est_status look_up(const file_case *f, const char *path, est_tensor **out)
{
    const est_str words[4]   = { { "a", 1 }, { "b", 1 }, { "", 0 }, { "a\r", 2 } };
    const int64_t numbers[4] = { 7, -3, 0, 8 };
    est_graph    *graph      = NULL;
    est_session  *session    = NULL;
    est_tensor   *keys       = NULL;
    est_node      ids;
    est_status    status;

    interop_check(est_graph_create(1, &graph));
    interop_check(est_tensor_create_from(f->key, EST_SHAPE(4),
                                         f->key == EST_STRING ? (const void *)words : (const void *)numbers, &keys));
    ids = est_lookup(est_vocabulary_file(graph, path, f->key, EST_TABLE(.size = f->size)), est_const(graph, keys));
    interop_check(est_session_create(graph, EST_SESSION(.threads = 1), &session));
    status = est_session_run(session, EST_NO_FEEDS, EST_NODES(ids), EST_NO_NODES, out);
    est_session_free(session);
    est_tensor_free(keys);
    est_graph_free(graph);
    return status;
}

TEST(files)
{
#define TEXT(literal)                                                                                                  \
    {                                                                                                                  \
        literal, sizeof(literal) - 1                                                                                   \
    }
    static const file_case cases[] = {
        { TEXT("a\nb\n"), EST_STRING, 0 },
        { TEXT("a\r\nb\r\n"), EST_STRING, 0 },
        { TEXT("a\nb"), EST_STRING, 0 },
        { TEXT("b\na\r"), EST_STRING, 0 },
        { TEXT("a\r\r\nb\n"), EST_STRING, 0 },
        { TEXT("\xef\xbb\xbf"
               "a\nb\n"),
          EST_STRING, 0 },
        { TEXT("a\0c\nb\n"), EST_STRING, 0 },
        { TEXT("a\n\nb\n"), EST_STRING, 0 },
        { TEXT("a\n\r\n"), EST_STRING, 0 },
        { TEXT("\n"), EST_STRING, 0 },
        { TEXT(""), EST_STRING, 0 },
        { TEXT("a\nb\na\n"), EST_STRING, 0 },
        { TEXT("a\nb\n"), EST_STRING, 3 },
        { TEXT("a\nb\nb\n\n"), EST_STRING, 2 },
        { TEXT("7\n-3\n"), EST_I64, 0 },
        { TEXT(" 7 \n8\t\n"), EST_I64, 0 },
        { TEXT("7\nx\n"), EST_I64, 0 },
        { TEXT("7\n8.0\n"), EST_I64, 0 },
        { TEXT("7\n07\n"), EST_I64, 0 },
        { TEXT("99999999999999999999\n"), EST_I64, 0 },
        { TEXT("-9223372036854775808\n7\n"), EST_I64, 0 },
    };
#undef TEXT
    est_strbuf out = { 0 };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *path = interop_path("words.txt");
        char        options[64];
        est_tensor *ids = NULL;

        interop_check(est_file_replace(path, cases[i].text.data, cases[i].text.size));
        snprintf(options, sizeof options, "%s %d", cases[i].key == EST_STRING ? "string" : "int64", (int)cases[i].size);
        interop_blob(&out, options, strlen(options));
        interop_blob(&out, cases[i].text.data, cases[i].text.size);
        if (look_up(&cases[i], path, &ids) == EST_OK) {
            interop_blob(&out, est_tensor_data(ids), est_tensor_bytes(ids));
        } else {
            interop_blob(&out, "", 0);
        }
        est_tensor_free(ids);
    }
    interop_save("files", &out);
    interop_ask("check_files");
}

int main(void)
{
    est_log_set_level(EST_LOG_ERROR);
    return INTEROP_MAIN("vocabulary");
}
