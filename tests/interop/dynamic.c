/* SPDX-License-Identifier: Apache-2.0
 *
 * Dynamic embeddings and TensorFlow, which has none: an export is a table and a variable there, both of its loaders
 * give the scores that we give, for keys with and without rows; and a checkpoint is read as tensors. */
#include <stdio.h>
#include <string.h>

#include "support/dynamic_test.h"
#include "support/interop.h"

static void put_path(const char *name, const char *path)
{
    est_strbuf out = { 0 };

    interop_blob(&out, path, strlen(path));
    interop_save(name, &out);
}

/* Trains, exports and tells the scores of the rows of dynamic_input, and what they were computed from. */
static void compare_export(const char *ask, const est_dynamic_options *options)
{
    char             dir[64], path[EST_CHECKPOINT_PATH_MAX];
    est_columns     *columns;
    est_predictions *p   = NULL;
    est_strbuf       out = { 0 };
    est_estimator   *e;

    est_test_dir(dir);
    e = dynamic_estimator(dir, 1, options, &columns);
    interop_check(est_train(e, EST_TRAIN_OPTIONS(.input_fn = dynamic_input, .max_steps = 40)));
    interop_check(est_export_saved_model(e, interop_path(ask),
                                         EST_EXPORT(.input = { .raw = { dynamic_raw, DYNAMIC_FEATURES } }), path));
    put_path("export.path", path);
    put_path("model.path", dir);
    interop_check(est_predict(e, EST_PREDICT_OPTIONS(.input_fn = dynamic_input, .batches = true), &p));
    interop_check(est_predictions_next(p));
    interop_tensor(&out, "score", est_predictions_get(p, "score"));
    interop_save("export.expected", &out);
    est_predictions_free(p);
    est_estimator_free(e);
    est_columns_free(columns);
    interop_ask(ask);
    est_test_dir_remove(dir);
}

TEST(export)
{
    compare_export("check_all", NULL);
}

TEST(export_with_keys_missing)
{
    compare_export("check_some", EST_DYNAMIC(.admit_after = 3, .max_rows = 20));
}

TEST(export_without_rows)
{
    compare_export("check_none", EST_DYNAMIC(.admit_after = 1000));
}

int main(void)
{
    est_log_set_level(EST_LOG_ERROR);
    return INTEROP_MAIN("dynamic");
}
