/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints and their state file exchanged with TensorFlow: those of the v1 Saver with partitioned variables, merged
 * ones, those of a canned Estimator and of TensorFlow 2's objects. What TensorFlow wrote and we wrote again, cut as it
 * was, must serve TensorFlow as its own does. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "estoc/checkpoint.h"
#include "format/bundle.h"
#include "format/checkpoint_state.h"
#include "support/interop.h"

/* Reads every tensor of a checkpoint in the scratch folder and says what it is, in "<name>.tensors". */
static void say(const char *name)
{
    est_bundle *bundle;
    est_strbuf  said = { 0 };
    char        file[300];

    interop_check(est_bundle_open(interop_path(name), &bundle));
    for (int i = 0; i < est_bundle_count(bundle); i++) {
        est_tensor *tensor;

        interop_check(est_bundle_read(bundle, est_bundle_at(bundle, i)->name, NULL, &tensor));
        interop_tensor(&said, est_bundle_at(bundle, i)->name, tensor);
        est_tensor_free(tensor);
    }
    est_bundle_close(bundle);
    snprintf(file, sizeof file, "%s.tensors", name);
    interop_save(file, &said);
}

/* Says pieces of a partitioned tensor that are cut in no way it is stored. */
static void say_slices(const char *name)
{
    const est_bundle_slice slices[] = { EST_BUNDLE_SLICE(0, 50, 0, 1), EST_BUNDLE_SLICE(7, 20, 2, 5),
                                        EST_BUNDLE_SLICE(49, 1, 0, 12), EST_BUNDLE_SLICE(0, -1, 3, 8) };
    est_bundle            *bundle;
    est_strbuf             said = { 0 };
    char                   text[EST_BUNDLE_SLICE_TEXT_MAX], file[300];

    interop_check(est_bundle_open(interop_path(name), &bundle));
    for (int i = 0; i < 4; i++) {
        est_tensor *tensor;

        interop_check(est_bundle_read(bundle, "emb", &slices[i], &tensor));
        interop_tensor(&said, est_bundle_slice_text(&slices[i], text), tensor);
        est_tensor_free(tensor);
    }
    est_bundle_close(bundle);
    snprintf(file, sizeof file, "%s.slices", name);
    interop_save(file, &said);
}

/* Writes a checkpoint of theirs again, partitioned as it was. */
static void copy(const char *from, const char *to)
{
    est_bundle        *bundle;
    est_bundle_writer *writer;

    interop_check(est_bundle_open(interop_path(from), &bundle));
    interop_check(est_bundle_writer_create(interop_path(to), 0, &writer));
    for (int i = 0; i < est_bundle_count(bundle); i++) {
        const est_bundle_entry *entry = est_bundle_at(bundle, i);

        for (int s = 0; s < entry->n_slices || s == 0; s++) {
            const est_bundle_slice *slice = entry->n_slices > 0 ? &entry->slices[s] : NULL;
            est_tensor             *tensor;

            interop_check(est_bundle_read(bundle, entry->name, slice, &tensor));
            interop_check(slice != NULL ? est_bundle_add_slice(writer, entry->name, &entry->shape, slice, tensor)
                                        : est_bundle_add(writer, entry->name, tensor));
            est_tensor_free(tensor);
        }
    }
    interop_check(est_bundle_finish(writer));
    est_bundle_writer_free(writer);
    est_bundle_close(bundle);
}

TEST(read)
{
    static const char *const names[] = { "rows", "columns", "merged" };

    interop_ask("write");
    for (int i = 0; i < 3; i++) say(names[i]);
    say_slices("rows");
    say_slices("columns");
    interop_ask("check_read");
}

/* --- ours --------------------------------------------------------------------------------------------------------- */

static est_tensor *random_tensor(est_dtype dtype, est_shape shape)
{
    est_tensor *tensor;

    interop_check(est_tensor_create(dtype, shape, &tensor));
    for (int64_t i = 0; i < est_tensor_count(tensor); i++) {
        long  value = random() % 2001 - 1000;
        char  text[300];
        void *data = est_tensor_mutable_data(tensor);

        memset(text, (int)(value & 0xff), sizeof text);
        switch (dtype) {
        case EST_F32: ((float *)data)[i] = (float)value / 7; break;
        case EST_F64: ((double *)data)[i] = (double)value / 7; break;
        case EST_I32: ((int32_t *)data)[i] = (int32_t)value; break;
        case EST_I64: ((int64_t *)data)[i] = (int64_t)value * ((int64_t)1 << 40); break;
        case EST_BOOL: ((uint8_t *)data)[i] = value & 1; break;
        case EST_U8: ((uint8_t *)data)[i] = (uint8_t)value; break;
        default: interop_check(est_tensor_set_string(tensor, i, text, (size_t)labs(value) % sizeof text)); break;
        }
    }
    return tensor;
}

/* A checkpoint being written, and what is meant to be in it. */
typedef struct meant {
    est_bundle_writer *writer;
    est_strbuf        *said;
} meant;

static void add(meant *m, const char *name, est_dtype dtype, est_shape shape)
{
    est_tensor *tensor = random_tensor(dtype, shape);

    interop_check(est_bundle_add(m->writer, name, tensor));
    interop_tensor(m->said, name, tensor);
    est_tensor_free(tensor);
}

/* Rows of a partitioned tensor, said under a name of their own. */
static void add_rows(meant *m, int64_t first, int64_t n)
{
    est_shape        full   = EST_SHAPE(100, 16);
    est_bundle_slice slice  = EST_BUNDLE_SLICE(first, n, 0, 16);
    est_tensor      *tensor = random_tensor(EST_F32, EST_SHAPE(n, 16));
    char             name[64];

    interop_check(est_bundle_add_slice(m->writer, "emb", &full, &slice, tensor));
    snprintf(name, sizeof name, "emb/rows_%03" PRId64, first);
    interop_tensor(m->said, name, tensor);
    est_tensor_free(tensor);
}

static void write_single(void)
{
    const est_dtype dtypes[7] = { EST_F32, EST_F64, EST_I32, EST_I64, EST_BOOL, EST_U8, EST_STRING };
    est_strbuf      said      = { 0 };
    meant           m         = { .said = &said };

    interop_check(est_bundle_writer_create(interop_path("single"), 64, &m.writer));
    for (int i = 0; i < 7; i++) {
        const est_shape shapes[4] = { EST_SHAPE_SCALAR, EST_SHAPE(0, 3), EST_SHAPE(13, 7), EST_SHAPE(1, 2, 3, 4) };
        char            name[64];

        for (int s = 0; s < 4; s++) {
            snprintf(name, sizeof name, "scope/%s_%d", est_dtype_name(dtypes[i]), s);
            add(&m, name, dtypes[i], shapes[s]);
        }
    }
    add(&m, "large", EST_F32, EST_SHAPE(1000, 300));
    for (int i = 0; i < 1500; i++) { /* many restarts in the index */
        char name[64];

        snprintf(name, sizeof name, "many/layer_%d/kernel", i);
        add(&m, name, EST_F32, EST_SHAPE(1));
    }
    add_rows(&m, 0, 34);
    add_rows(&m, 34, 33);
    add_rows(&m, 67, 33);
    interop_check(est_bundle_finish(m.writer));
    est_bundle_writer_free(m.writer);
    interop_save("single.tensors", &said);
}

/* By the public call: named tensors of every kind, as the latest of a directory. */
static void write_named(void)
{
    static const est_dtype dtypes[7] = { EST_F32, EST_F64, EST_I32, EST_I64, EST_BOOL, EST_U8, EST_STRING };
    est_named_tensor       tensors[8];
    est_strbuf             said = { 0 };

    for (int i = 0; i < 8; i++) {
        est_dtype dtype = i < 7 ? dtypes[i] : EST_I64;

        tensors[i] = (est_named_tensor){ i < 7 ? est_dtype_name(dtype) : "global_step",
                                         random_tensor(dtype, i < 7 ? EST_SHAPE(5, 3) : EST_SHAPE_SCALAR) };
        interop_tensor(&said, tensors[i].name, tensors[i].tensor);
    }
    interop_check(est_checkpoint_write(interop_path("named/model.ckpt-3"), (est_named_tensors){ tensors, 8 },
                                       EST_CHECKPOINT_WRITE(.latest = true)));
    for (int i = 0; i < 8; i++) est_tensor_free(tensors[i].tensor);
    interop_save("named.tensors", &said);
}

static void write_merged(void)
{
    char              parts[2][300];
    const char *const list[2] = { parts[0], parts[1] };
    est_strbuf        said    = { 0 };
    meant             m       = { .said = &said };

    for (int i = 0; i < 2; i++) {
        snprintf(parts[i], sizeof parts[i], "%s_part-%05d-of-00002", interop_path("merged2"), i);
        interop_check(est_bundle_writer_create(parts[i], 0, &m.writer));
        add_rows(&m, 50 * i, 50);
        add(&m, i == 0 ? "global_step" : "w", i == 0 ? EST_I64 : EST_F32, i == 0 ? EST_SHAPE_SCALAR : EST_SHAPE(3));
        interop_check(est_bundle_finish(m.writer));
        est_bundle_writer_free(m.writer);
    }
    interop_check(est_bundle_merge(list, 2, interop_path("merged2")));
    interop_save("merged2.tensors", &said);
}

static void write_state(const char *file, const char *older, const char *latest)
{
    est_checkpoint_state state = { 0 };

    interop_check(est_checkpoint_state_set_latest(&state, latest));
    if (older != NULL) interop_check(est_checkpoint_state_add_path(&state, older));
    interop_check(est_checkpoint_state_add_path(&state, latest));
    if (older != NULL) interop_check(est_checkpoint_state_add_timestamp(&state, 1700000000.25));
    interop_check(est_checkpoint_state_add_timestamp(&state, 1700000001));
    interop_check(est_checkpoint_state_write(&state, interop_path(file)));
    est_checkpoint_state_clear(&state);
}

TEST(write)
{
    write_single();
    write_merged();
    write_named();
    write_state("checkpoint", "single", "merged2");
    interop_ask("check_written");
}

/* --- models ------------------------------------------------------------------------------------------------------- */

/* Opens the latest checkpoint of a model directory by the public reader, checks it whole, and says its variables by
 * each of their names, in "<folder>.said". Its prefix below the scratch folder goes into latest. */
static void say_model(const char *folder, char *latest, size_t size)
{
    est_checkpoint *checkpoint;
    est_strbuf      said = { 0 };
    char            file[300];

    interop_check(est_checkpoint_open(interop_path(folder), &checkpoint));
    interop_check(est_checkpoint_verify(checkpoint));
    snprintf(latest, size, "%s%s", folder, strrchr(est_checkpoint_path(checkpoint), '/'));
    for (int i = 0; i < est_checkpoint_count(checkpoint); i++) {
        const est_checkpoint_variable *variable = est_checkpoint_at(checkpoint, i);
        est_tensor                    *tensor;

        interop_check(est_checkpoint_read(checkpoint, variable->name, &tensor));
        interop_tensor(&said, variable->name, tensor);
        est_tensor_free(tensor);
        if (variable->full_name == NULL) continue;
        interop_check(est_checkpoint_read(checkpoint, variable->full_name, &tensor));
        interop_tensor(&said, variable->full_name, tensor);
        est_tensor_free(tensor);
    }
    est_checkpoint_close(checkpoint);
    snprintf(file, sizeof file, "%s.said", folder);
    interop_save(file, &said);
}

/* A model of theirs: what we read is what they wrote, and they go on from our copy as from their own. */
static void exchange_model(const char *made, const char *folder, const char *copied, const char *check)
{
    char latest[300], to[300], file[300];

    interop_ask(made);
    say_model(folder, latest, sizeof latest);
    interop_check(est_dir_create(interop_path(copied)));
    snprintf(to, sizeof to, "%s%s", copied, strrchr(latest, '/'));
    copy(latest, to);
    snprintf(file, sizeof file, "%s/checkpoint", copied);
    write_state(file, NULL, strrchr(latest, '/') + 1);
    interop_ask(check);
}

TEST(estimator)
{
    exchange_model("train_estimator", "estimator", "estimator2", "check_estimator");
}

TEST(objects)
{
    exchange_model("train_objects", "objects", "objects2", "check_objects");
}

int main(void)
{
    return INTEROP_MAIN("checkpoint");
}
