/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model shows, in the event file of its training; and what turns out not to be a summary when it is written. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "support/estimator_test.h"
#include "train/events_test.h"

typedef est_status (*show)(est_model *m, est_node y);

static est_status showing_model(est_model *m, est_mode mode, const void *params)
{
    const show *shows = params;
    est_node    y     = est_dense(est_model_feature(m, "x"), 1, NULL);
    est_node    loss  = est_mean(est_square(y));

    est_model_loss(m, loss);
    if (mode == EST_TRAIN) est_model_minimize(m, est_sgd(0.1), loss);
    return (*shows)(m, y);
}

static est_status train(const char *dir, show shows)
{
    est_estimator *e = est_test_make(showing_model,
                                     EST_ESTIMATOR(.config = EST_TEST_CONFIG(dir, "{}", .save_summary_steps = 1),
                                                   .params = &shows, .params_size = sizeof shows));
    est_status     status;

    status = est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 1));
    est_estimator_free(e);
    return status;
}

/* The text of the one event file of a directory. */
static const char *events_in(const char *dir)
{
    DIR           *open = opendir(dir);
    struct dirent *entry;
    char           path[400] = "";

    assert_non_null(open);
    while ((entry = readdir(open)) != NULL) {
        if (strncmp(entry->d_name, "events.out.tfevents.", 20) != 0) continue;
        assert_string_equal(path, "");
        snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
    }
    assert_int_equal(closedir(open), 0);
    return events_of(path);
}

static est_status show_all(est_model *m, est_node y)
{
    est_node pixels = est_reshape(est_zeros_like(y), EST_I64S(-1, 2, 1, 1)); /* [4, 2, 1, 1] */

    est_model_scalar(m, "seven", est_reshape(est_scalar(est_model_graph(m), EST_F32, 7), EST_I64S(1, 1)));
    est_model_text(m, "words", est_as_string(est_scalar(est_model_graph(m), EST_I64, 8)));
    est_model_image(m, "pictures", pixels, 2);
    est_model_image(m, "picture", est_cast(pixels, EST_U8), 1);
    return est_model_status(m);
}

TEST(all_kinds)
{
    static const char *const parts[] = { " seven=7 ", " words=text(8) ",
                                         " pictures/image/0=2x1x1 pictures/image/1=2x1x1 picture/image=2x1x1" };
    char                     dir[64];
    const char              *text;

    est_test_dir(dir);
    assert_ok(train(dir, show_all));
    text = events_in(dir);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strstr(text, parts[i]) == NULL) fail_msg("no \"%s\" in: %s", parts[i], text);
    }
    est_test_dir_remove(dir);
}

/* [?, 1] may be one number, and is 8 of them. */
static est_status show_rows(est_model *m, est_node y)
{
    est_model_scalar(m, "rows", y);
    return est_model_status(m);
}

static est_status show_texts(est_model *m, est_node y)
{
    est_model_text(m, "texts", est_as_string(y));
    return est_model_status(m);
}

TEST(wrong_when_written)
{
    char dir[64];

    est_test_dir(dir);
    assert_int_equal(train(dir, show_rows), EST_INVALID_ARGUMENT);
    est_test_error_has("summary rows is float32 [8,1]; expected one number");
    assert_int_equal(train(dir, show_texts), EST_INVALID_ARGUMENT);
    est_test_error_has("summary texts is string [8,1]; expected one string");
    est_test_dir_remove(dir);
}

int main(void)
{
    est_log_set_level(EST_LOG_OFF);
    return est_test_run(NULL, NULL);
}
