/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of disturbed exports share: a trained estimator with a directory to export into, and the question
 * whether all that a server would find there is whole. */
#ifndef EST_TESTS_FAULT_EXPORT_FIXTURE_H
#define EST_TESTS_FAULT_EXPORT_FIXTURE_H

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "support/export_test.h"

#define INPUT                                                                                                          \
    {                                                                                                                  \
        .raw = { shop_raw, 1 }                                                                                         \
    }

static const shop_params plain = { .plain = true };
static inline void       ok(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

static inline void assert_same_file(const char *a, const char *b, const char *name)
{
    char   path[2][EST_CHECKPOINT_PATH_MAX + 64], *bytes[2];
    size_t size[2];

    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/%s", i == 0 ? a : b, name);
        ok(est_file_read(path[i], &bytes[i], &size[i]));
    }
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(bytes[0], bytes[1], size[0]);
    est_free(bytes[0]);
    est_free(bytes[1]);
}

/* Every export that a server would take is the same as the first: all are of one checkpoint. Says how many there
 * are. */
static inline int assert_whole(const char *base)
{
    char list[1024], first[256] = "", path[256], *rest = list;
    int  n = 0;

    shop_list(base, list);
    for (char *name; (name = strtok_r(rest, " ", &rest)) != NULL;) {
        if (strspn(name, "0123456789") != strlen(name)) continue;
        snprintf(path, sizeof path, "%s/%s", base, name);
        if (n++ == 0) snprintf(first, sizeof first, "%s", path);
        assert_same_file(first, path, "saved_model.pb");
        assert_same_file(first, path, "variables/variables.index");
        assert_same_file(first, path, "variables/variables.data-00000-of-00001");
        assert_same_file(first, path, "assets.extra/notes");
    }
    return n;
}

typedef struct fixture {
    char           dir[64], base[128], notes[128];
    est_asset      extra;
    est_estimator *estimator;
} fixture;

static inline void set_up(fixture *f)
{
    est_test_dir(f->dir);
    snprintf(f->base, sizeof f->base, "%s/out", f->dir);
    snprintf(f->notes, sizeof f->notes, "%s/notes", f->dir);
    ok(est_file_replace(f->notes, "hello", 5));
    f->extra     = (est_asset){ "notes", f->notes };
    f->estimator = shop_trained(f->dir, &plain);
}

static inline void tear_down(fixture *f)
{
    est_estimator_free(f->estimator);
    est_test_dir_remove(f->dir);
}

static inline est_status export(fixture *f, est_estimator *estimator)
{
    return est_export_saved_model(estimator, f->base, EST_EXPORT(.input = INPUT, .assets_extra = { &f->extra, 1 }),
                                  NULL);
}

#endif
