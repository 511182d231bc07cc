/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of checkpoints: a small session whose values say who wrote them, a directory of its own, a log that counts
 * warnings. */
#ifndef EST_TESTS_SAVER_TEST_H
#define EST_TESTS_SAVER_TEST_H

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/file.h"
#include "estoc/estoc.h"
#include "support/dir_test.h"
#include "support/log_test.h"
#include "support/nn_test.h"

#define GOLDEN EST_SOURCE_DIR "/tests/golden/format"

/* --- a directory ------------------------------------------------------------------------------------------------ */

/* A path below the root; good until the eighth call after it. */
static inline const char *at(const char *name)
{
    static char paths[8][1024];
    static int  next;

    next = (next + 1) % 8;
    snprintf(paths[next], sizeof paths[next], "%s/%s", est_test_root, name);
    return paths[next];
}

/* The names in a directory below the root, sorted, one after the other with spaces. */
static inline const char *names_in(const char *dir)
{
    static char     text[4096];
    struct dirent **entries = NULL;
    int             n       = scandir(dir, &entries, NULL, alphasort);
    size_t          size    = 0;

    text[0] = '\0';
    for (int i = 0; i < n; i++) {
        if (entries[i]->d_name[0] != '.') {
            size += (size_t)snprintf(text + size, sizeof text - size, "%s%s", size > 0 ? " " : "", entries[i]->d_name);
        }
        free(entries[i]);
    }
    free(entries);
    return text;
}

static inline void put_bytes(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

static inline void copy_file(const char *from, const char *to)
{
    char  *bytes;
    size_t size;

    assert_ok(est_file_read(from, &bytes, &size));
    put_bytes(to, bytes, size);
    est_free(bytes);
}

static inline void expect_text(const char *path, const char *want)
{
    char  *bytes;
    size_t size;

    assert_ok(est_file_read(path, &bytes, &size));
    assert_string_equal(bytes, want);
    est_free(bytes);
}

static inline void expect_error(est_status got, est_status want, const char *text)
{
    if (got != want || strstr(est_error_message(), text) == NULL) {
        fail_msg("%s: %s; expected %s with \"%s\"", est_status_name(got), est_error_message(), est_status_name(want),
                 text);
    }
}

/* --- a session -------------------------------------------------------------------------------------------------- */

/* Three variables whose every value is the tag. */
typedef struct model {
    est_graph   *graph;
    est_session *session;
} model;

static const char *const model_names[] = { "global_step", "layer/bias", "layer/kernel" };

/* Over tasks that have the variables; NULL: none. */
static inline model make_model_at(struct est_remote *remote)
{
    model m = { 0 };

    assert_ok(est_graph_create(1, &m.graph));
    est_variable(m.graph, "layer/kernel", EST_F32, EST_SHAPE(3, 2));
    est_variable(m.graph, "layer/bias", EST_F32, EST_SHAPE(2));
    est_variable(m.graph, "global_step", EST_I64, EST_SHAPE_SCALAR);
    assert_ok(est_session_create(m.graph, EST_SESSION(.threads = 1, .remote = remote), &m.session));
    return m;
}

static inline model make_model(void)
{
    return make_model_at(NULL);
}

static inline void end_model(model *m)
{
    est_session_free(m->session);
    est_graph_free(m->graph);
}

static inline void write_tag(est_session *session, const char *name, est_dtype dtype, est_shape shape, int tag)
{
    est_tensor *value;

    assert_ok(est_tensor_create(dtype, shape, &value));
    for (int64_t i = 0; i < est_tensor_count(value); i++) {
        if (dtype == EST_I64) {
            ((int64_t *)est_tensor_mutable_data(value))[i] = tag;
        } else {
            ((float *)est_tensor_mutable_data(value))[i] = (float)tag;
        }
    }
    assert_ok(est_session_write(session, name, value));
    est_tensor_free(value);
}

static inline void set_tag(const model *m, int tag)
{
    write_tag(m->session, "layer/kernel", EST_F32, EST_SHAPE(3, 2), tag);
    write_tag(m->session, "layer/bias", EST_F32, EST_SHAPE(2), tag);
    write_tag(m->session, "global_step", EST_I64, EST_SHAPE_SCALAR, tag);
}

/* The tag of one variable; -1: it has no value; fails when its elements differ. */
static inline int variable_tag(est_session *session, const char *name)
{
    est_tensor *value;
    int         tag;

    if (est_session_read(session, name, &value) != EST_OK) return -1;
    tag = (int)nn_element(value, 0);
    for (int64_t i = 0; i < est_tensor_count(value); i++) assert_true(nn_element(value, i) == tag);
    est_tensor_free(value);
    return tag;
}

/* The tag that all variables have: a mixture of two checkpoints fails. */
static inline int get_tag(const model *m)
{
    int tag = variable_tag(m->session, model_names[0]);

    for (int i = 1; i < 3; i++) assert_int_equal(variable_tag(m->session, model_names[i]), tag);
    return tag;
}

static inline est_saver *open_saver(const char *dir, const est_saver_options *options)
{
    est_saver *saver;

    assert_ok(est_saver_create(dir, options, &saver));
    return saver;
}

/* Saves with the step as the tag. */
static inline est_status save_step(est_saver *saver, const model *m, int step)
{
    set_tag(m, step);
    return est_saver_save(saver, m->session, step, NULL, NULL);
}

/* The tag that a new session gets from the directory; fails when it cannot be restored. */
static inline int restored_tag(const char *dir)
{
    model m = make_model();
    int   tag;

    assert_ok(est_saver_restore(NULL, m.session, EST_RESTORE(.path = dir), NULL));
    tag = get_tag(&m);
    end_model(&m);
    return tag;
}

static inline void flip_last_byte(const char *path)
{
    char  *bytes;
    size_t size;

    assert_ok(est_file_read(path, &bytes, &size));
    bytes[size - 1] ^= 1;
    put_bytes(path, bytes, size);
    est_free(bytes);
}

/* Step 1 of a small model. */
static inline void save_small(const char *dir)
{
    model      m     = make_model();
    est_saver *saver = open_saver(dir, NULL);

    assert_ok(save_step(saver, &m, 1));
    est_saver_free(saver);
    end_model(&m);
}

/* Step 2, of 16 MB, for which there is no room: the error says so, and step 1 stays. */
static inline void refuse_large(const char *dir, est_status want)
{
    model         m = { 0 };
    est_saver    *saver;
    const int64_t big = 4 << 20;
    est_tensor   *value;
    char          before[4096];

    assert_ok(est_graph_create(1, &m.graph));
    est_variable(m.graph, "big", EST_F32, EST_SHAPE(big));
    assert_ok(est_session_create(m.graph, EST_SESSION(.threads = 1), &m.session));
    assert_ok(est_tensor_create(EST_F32, EST_SHAPE(big), &value));
    memset(est_tensor_mutable_data(value), 0, est_tensor_bytes(value));
    assert_ok(est_session_write(m.session, "big", value));
    saver = open_saver(dir, NULL);
    snprintf(before, sizeof before, "%s", names_in(dir));
    expect_error(est_saver_save(saver, m.session, 2, NULL, NULL), want, dir);
    assert_string_equal(names_in(dir), before);
    assert_int_equal(restored_tag(dir), 1);
    est_tensor_free(value);
    est_saver_free(saver);
    end_model(&m);
}

#endif
