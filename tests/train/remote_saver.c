/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints of sessions whose variables are at other tasks: the same for any number of tasks, none included; what is
 * done about damage, NaN and tasks that were lost. That no failure and no kill loses the checkpoint of before is tested
 * with those of one process (tests/train/saver.c). */
#include "ops/array.h"
#include "ops/ops.h"
#include "runtime/session.h"
#include "support/fault_loop.h"
#include "support/memory_remote.h"
#include "train/saver.h"
#include "train/saver_test.h"

#define STEPS 3

/* A model with a table, a dense layer, the slots of Adam, and a variable that stays with the worker. */
typedef struct trained {
    est_graph   *graph;
    est_remote  *remote; /* NULL: none */
    est_session *session;
    est_node     loss, train;
} trained;

static void open_session(trained *m)
{
    assert_ok(est_session_create(m->graph, EST_SESSION(.threads = 1, .remote = m->remote), &m->session));
}

/* n_shards: 0, or over how many tasks the rows of a variable are spread. */
static trained build_spread(int n_tasks, int n_shards)
{
    static est_partitioner fixed[8];

    trained  m = { 0 };
    est_node table, here, h;

    assert_ok(est_graph_create(7, &m.graph));
    table = est_weight(m.graph, "table", EST_SHAPE(50, 3), NULL);
    est_graph_device(m.graph, "/job:worker/task:0");
    here = est_weight(m.graph, "here", EST_SHAPE(3), EST_WEIGHT(.initializer = est_init_ones()));
    est_graph_device(m.graph, NULL);
    h       = est_resource_gather(table, est_const_ints(m.graph, EST_I64, EST_I64S(3, 11, 3, 49, 0)));
    h       = est_dense(est_mul(h, est_read_variable(here)), 4, EST_DENSE(.activation = est_tanh, .name = "hidden"));
    m.loss  = est_mean(est_square(est_sub(est_dense(h, 1, EST_DENSE(.name = "out")), est_scalar(m.graph, EST_F32, 2))));
    m.train = est_minimize(est_adam(0.05, NULL), m.loss, NULL);
    assert_ok(est_graph_status(m.graph));
    m.remote = n_tasks > 0 ? memory_remote_create(n_tasks) : NULL;
    if (n_shards > 0) {
        fixed[n_shards]       = est_fixed_shards(n_shards);
        m.remote->partitioner = &fixed[n_shards];
    }
    open_session(&m);
    return m;
}

static trained build(int n_tasks)
{
    return build_spread(n_tasks, 0);
}

static void end(trained *m)
{
    est_session_free(m->session);
    if (m->remote != NULL) memory_remote_free(m->remote);
    est_graph_free(m->graph);
}

static void train(const trained *m, int steps)
{
    for (int i = 0; i < steps; i++) {
        assert_ok(est_session_run(m->session, EST_NO_FEEDS, EST_NO_NODES, EST_NODES(m->train), NULL));
    }
}

static void save_into(const char *dir, est_session *session, int64_t step)
{
    est_saver *saver;

    assert_ok(est_saver_create(dir, NULL, &saver));
    assert_ok(est_saver_save(saver, session, step, NULL, NULL));
    est_saver_free(saver);
}

static est_status restore_from(const char *path, est_session *session, est_restored *out)
{
    return est_saver_restore(NULL, session, EST_RESTORE(.path = path), out);
}

/* --- any number of tasks ------------------------------------------------------------------------------------------ */

TEST(other_numbers_of_tasks)
{
    static const int numbers[] = { 0, 1, 2, 3, 4, 9 };

    for (int i = 0; i < 6; i++) {
        trained a = build(numbers[i]);
        char    dir[128];

        assert_ok(est_session_init(a.session));
        train(&a, STEPS);
        snprintf(dir, sizeof dir, "%s/from%d", est_test_root, numbers[i]);
        save_into(dir, a.session, STEPS);
        for (int k = 0; k < 6; k++) {
            trained      b = build(numbers[k]);
            est_restored restored;

            assert_ok(restore_from(dir, b.session, &restored));
            assert_int_equal(restored.n_restored, est_session_variables(b.session));
            nn_assert_same(a.session, b.session);
            assert_ok(est_session_init(b.session)); /* all have values: changes nothing */
            nn_assert_same(a.session, b.session);
            train(&b, 1);
            assert_false(nn_is_same(a.session, b.session, "table"));
            end(&b);
        }
        end(&a);
    }
}

/* Going on after a restore is as if nothing had happened. */
TEST(same_training)
{
    trained a = build(3), b = build(2), c = build(0);

    assert_ok(est_session_init(a.session));
    train(&a, STEPS);
    save_into(at("same"), a.session, STEPS);
    assert_ok(restore_from(at("same"), b.session, NULL));
    assert_ok(restore_from(at("same"), c.session, NULL));
    train(&a, STEPS);
    train(&b, STEPS);
    train(&c, STEPS);
    nn_assert_same(a.session, b.session);
    nn_assert_same(a.session, c.session);
    end(&a);
    end(&b);
    end(&c);
}

/* One data file for each task that has variables and one for what is here; saved again, the number in the names
 * changes, so that the old one is whole until the new one is there. Extras are in it too. */
TEST(files)
{
    trained     m = build(2);
    est_saver  *saver;
    est_tensor *position, *got = NULL;

    assert_ok(est_session_init(m.session));
    assert_ok(est_saver_create(at("files"), NULL, &saver));
    assert_ok(est_tensor_i64(EST_SHAPE_SCALAR, &(int64_t){ 17 }, &position));
    assert_ok(est_saver_save(saver, m.session, 5,
                             EST_SAVE(.extras = EST_EXTRAS({ "input/position", position }), .meta = { "graph", 5 }),
                             NULL));
    assert_string_equal(names_in(at("files")),
                        "checkpoint model.ckpt-5.data-00000-of-00003 model.ckpt-5.data-00001-of-00003 "
                        "model.ckpt-5.data-00002-of-00003 model.ckpt-5.index model.ckpt-5.meta");
    assert_ok(
        est_saver_restore(saver, m.session, EST_RESTORE(.extras = EST_EXTRAS_OUT({ "input/position", &got })), NULL));
    assert_int_equal(nn_element(got, 0), 17);
    assert_ok(est_saver_save(saver, m.session, 5, NULL, NULL));
    assert_string_equal(names_in(at("files")),
                        "checkpoint model.ckpt-5.data-00000-of-00004 model.ckpt-5.data-00001-of-00004 "
                        "model.ckpt-5.data-00002-of-00004 model.ckpt-5.index");
    assert_ok(est_saver_save(saver, m.session, 5, NULL, NULL));
    assert_non_null(strstr(names_in(at("files")), "model.ckpt-5.data-00002-of-00003"));
    assert_null(strstr(names_in(at("files")), "of-00004"));
    est_tensor_free(position);
    est_tensor_free(got);
    est_saver_free(saver);
    end(&m);
}

/* --- spread variables --------------------------------------------------------------------------------------------- */

/* A variable that is spread is one tensor of the checkpoint, whoever has which of its rows. */
TEST(other_shards)
{
    static const int tasks[] = { 0, 1, 3, 3, 4, 7 }, shards[] = { 0, 0, 3, 2, 4, 7 };

    for (int i = 0; i < 6; i++) {
        trained a = build_spread(tasks[i], shards[i]);
        char    dir[128];

        assert_ok(est_session_init(a.session));
        train(&a, STEPS);
        snprintf(dir, sizeof dir, "%s/shards%d", est_test_root, i);
        save_into(dir, a.session, STEPS);
        for (int k = 0; k < 6; k++) {
            trained b = build_spread(tasks[k], shards[k]);

            assert_ok(restore_from(dir, b.session, NULL));
            nn_assert_same(a.session, b.session);
            end(&b);
        }
        end(&a);
    }
}

/* Of a variable that is spread only the rows of the task that was lost go back. */
TEST(missing_shard)
{
    trained      m = build_spread(3, 3), saved = build(0), now = build(0);
    est_restored restored;
    est_tensor  *values[3];
    est_store   *store;
    int64_t      n_lost = 0;

    assert_ok(est_session_init(m.session));
    save_into(at("shard"), m.session, 1);
    assert_ok(restore_from(at("shard"), saved.session, NULL));
    train(&m, STEPS);
    save_into(at("shard_now"), m.session, 1);
    assert_ok(restore_from(at("shard_now"), now.session, NULL));
    memory_remote_lose(m.remote, 1);
    assert_ok(est_saver_restore(NULL, m.session, EST_RESTORE(.path = at("shard"), .missing_only = true), &restored));
    assert_string_equal(restored.path, at("shard/model.ckpt-1"));
    assert_ok(est_session_store(m.session, &store));
    assert_ok(est_session_read(m.session, "table", &values[0]));
    assert_ok(est_session_read(saved.session, "table", &values[1]));
    assert_ok(est_session_read(now.session, "table", &values[2]));
    for (int i = 0; i < est_store_find(store, "table")->n_shards; i++) {
        const est_var *shard = est_store_find(store, "table")->shards[i];
        bool           lost  = shard->task == 1;

        n_lost += lost;
        for (int64_t k = 0; k < shard->value.count; k++) {
            int64_t e = 3 * shard->first_row + k;
            assert_true(nn_element(values[0], e) == nn_element(values[lost ? 1 : 2], e));
        }
    }
    assert_int_equal(n_lost, 1);
    for (int i = 0; i < 3; i++) est_tensor_free(values[i]);
    end(&m);
    end(&saved);
    end(&now);
}

/* --- dynamic embeddings ------------------------------------------------------------------------------------------- */

/* An embedding with rows for keys, its slots, and how it is trained. */
static trained build_dynamic(int n_tasks)
{
    est_row_policy policy = { .draw = { .distribution = EST_ROW_NORMAL, .b = 1, .seed = 3 }, .admit_after = 2 };
    trained        m      = { 0 };
    est_node       rows, w;

    assert_ok(est_graph_create(7, &m.graph));
    w = est_row_variable(m.graph, "w", EST_SHAPE(100, 2), &policy);
    est_graph_collect(m.graph, "trainable_variables", w);
    rows   = est_find_rows(w, est_const_ints(m.graph, EST_I64, EST_I64S(INT64_C(1) << 40, -7, 12, 12)));
    m.loss = est_mean(
        est_square(est_embedding_bag(w, (est_ragged_node){ rows, est_const_ints(m.graph, EST_I64, EST_I64S(0, 2, 4)) },
                                     EST_NO_NODE, EST_COMBINE_SUM, 0)));
    m.train = est_minimize(est_adagrad(0.1, NULL), m.loss, NULL);
    assert_ok(est_graph_status(m.graph));
    m.remote = n_tasks > 0 ? memory_remote_create(n_tasks) : NULL;
    open_session(&m);
    return m;
}

/* From one process onto tasks, from those onto others, and back. */
TEST(dynamic)
{
    trained a = build_dynamic(0), b = build_dynamic(2), c = build_dynamic(3), d = build_dynamic(0);

    assert_ok(est_session_init(a.session));
    train(&a, STEPS);
    save_into(at("dynamic"), a.session, 1);
    assert_int_equal(est_session_variables(a.session), est_session_variables(b.session));
    assert_ok(est_session_init(b.session));
    assert_ok(restore_from(at("dynamic"), b.session, NULL));
    nn_assert_same(a.session, b.session);
    save_into(at("dynamic"), b.session, 2);
    assert_ok(restore_from(at("dynamic/model.ckpt-2"), c.session, NULL)); /* before est_session_init */
    nn_assert_same(a.session, c.session);
    save_into(at("dynamic"), c.session, 3);
    assert_ok(restore_from(at("dynamic/model.ckpt-3"), d.session, NULL));
    train(&a, STEPS);
    train(&d, STEPS);
    nn_assert_same(a.session, d.session);
    end(&a);
    end(&b);
    end(&c);
    end(&d);
}

/* One that no step has used yet has no keys, also when no task has heard of it. */
TEST(dynamic_without_keys)
{
    trained a = build_dynamic(2), b = build_dynamic(0);

    assert_ok(est_session_init(a.session));
    save_into(at("without"), a.session, 1);
    assert_ok(restore_from(at("without"), b.session, NULL));
    nn_assert_same(a.session, b.session);
    end(&a);
    end(&b);
}

/* A restore that failed must not leave a table that counts as restored: the next one, of what is missing, would leave
 * it without its keys. */
TEST(dynamic_after_damage)
{
    trained      a = build_dynamic(0), b = build_dynamic(2);
    est_restored restored;

    assert_ok(est_session_init(a.session));
    train(&a, STEPS);
    save_into(at("spoiled"), a.session, 1);
    flip_last_byte(at("spoiled/model.ckpt-1.data-00000-of-00001"));
    assert_int_equal(restore_from(at("spoiled/model.ckpt-1"), b.session, NULL), EST_DATA_LOSS);
    flip_last_byte(at("spoiled/model.ckpt-1.data-00000-of-00001"));
    assert_ok(est_saver_restore(NULL, b.session, EST_RESTORE(.path = at("spoiled"), .missing_only = true), &restored));
    assert_int_equal(restored.n_restored, est_session_variables(b.session));
    nn_assert_same(a.session, b.session);
    end(&a);
    end(&b);
}

/* --- damage ------------------------------------------------------------------------------------------------------- */

/* The part of any task damaged or lost: the checkpoint before is used, by sessions with values and without. */
TEST(damaged_part)
{
    log_keep(EST_LOG_WARN);
    for (int part = 0; part < 4; part++) {
        for (int lost = 0; lost < 2; lost++) {
            trained      a = build(3), fresh = build(2);
            est_restored restored;
            char         path[128];

            est_test_dir_remove(at("damaged"));
            assert_ok(est_session_init(a.session));
            save_into(at("damaged"), a.session, 1);
            train(&a, STEPS);
            save_into(at("damaged"), a.session, 2);
            snprintf(path, sizeof path, "%s/damaged/model.ckpt-2.data-%05d-of-00004", est_test_root, part);
            if (lost) assert_int_equal(unlink(path), 0);
            if (!lost) flip_last_byte(path);
            assert_ok(restore_from(at("damaged"), fresh.session, &restored));
            assert_string_equal(restored.path, at("damaged/model.ckpt-1"));
            assert_ok(restore_from(at("damaged"), a.session, &restored));
            assert_string_equal(restored.path, at("damaged/model.ckpt-1"));
            nn_assert_same(a.session, fresh.session);
            end(&a);
            end(&fresh);
        }
    }
    log_release();
}

/* Asked for by name a damaged one is an error, and nothing changes anywhere: not what has values, and what has none
 * still has none. */
TEST(all_or_none)
{
    trained a = build(3), b = build(3), fresh = build(2);

    assert_ok(est_session_init(a.session));
    assert_ok(est_session_init(b.session));
    save_into(at("none"), a.session, 1);
    train(&a, STEPS);
    train(&b, STEPS);
    for (int part = 0; part < 4; part++) {
        char path[128];

        snprintf(path, sizeof path, "%s/none/model.ckpt-1.data-%05d-of-00004", est_test_root, part);
        flip_last_byte(path);
        assert_int_equal(restore_from(at("none/model.ckpt-1"), a.session, NULL), EST_DATA_LOSS);
        nn_assert_same(a.session, b.session);
        assert_int_equal(restore_from(at("none/model.ckpt-1"), fresh.session, NULL), EST_DATA_LOSS);
        for (int i = 0; i < est_session_variables(fresh.session); i++) {
            est_tensor *value;

            assert_int_equal(est_session_read(fresh.session, est_session_variable(fresh.session, i), &value),
                             EST_FAILED_PRECONDITION);
        }
        flip_last_byte(path);
    }
    end(&a);
    end(&b);
    end(&fresh);
}

/* Every allocation and every system call fails once. Without values before, each variable has that of the checkpoint or
 * none, and restoring again mends it. */
TEST(every_failure)
{
    trained saved = build(0);

    assert_ok(est_session_init(saved.session));
    train(&saved, STEPS);
    save_into(at("failures"), saved.session, 1);
    FAULT_LOOPS(f) {
        trained    m = build(2);
        est_status status;

        fault_arm(&f);
        status = restore_from(at("failures"), m.session, NULL);
        fault_check_lenient(&f, status);
        for (int i = 0; i < est_session_variables(m.session); i++) {
            const char *name = est_session_variable(m.session, i);
            est_tensor *value;

            if (status != EST_OK && est_session_read(m.session, name, &value) != EST_OK) continue;
            if (status != EST_OK) est_tensor_free(value);
            assert_true(nn_is_same(m.session, saved.session, name));
        }
        assert_ok(est_saver_restore(NULL, m.session, EST_RESTORE(.path = at("failures"), .missing_only = true), NULL));
        nn_assert_same(m.session, saved.session);
        end(&m);
    }
    end(&saved);
}

/* --- refusals ----------------------------------------------------------------------------------------------------- */

static void spoil(const trained *m, const char *name)
{
    est_tensor *value;

    assert_ok(est_session_read(m->session, name, &value));
    ((float *)est_tensor_mutable_data(value))[est_tensor_count(value) - 1] = NAN;
    assert_ok(est_session_write(m->session, name, value));
    est_tensor_free(value);
}

/* The first by name is named, wherever it is; a task does not write a NaN. */
TEST(nan)
{
    static const char *const spoiled[] = { "table/Adam", "out/kernel", "here",
                                           "hidden/kernel" }; /* one after the other */
    static const char *const first[]   = { "table/Adam", "out/kernel", "here", "here" };
    trained                  m         = build(3);
    const char              *name      = "";
    est_saver               *saver;

    assert_ok(est_saved_nan(m.session, &name)); /* nothing has a value */
    assert_null(name);
    assert_ok(est_session_init(m.session));
    assert_ok(est_saved_nan(m.session, &name));
    assert_null(name);
    assert_ok(est_saver_create(at("nan"), NULL, &saver));
    for (int i = 0; i < 4; i++) {
        spoil(&m, spoiled[i]);
        assert_ok(est_saved_nan(m.session, &name));
        assert_string_equal(name, first[i]);
        expect_error(est_saver_save(saver, m.session, 1, NULL, NULL), EST_INVALID_ARGUMENT, "NaN");
        assert_string_equal(names_in(at("nan")), "");
    }
    est_saver_free(saver);
    end(&m);
}

TEST(no_value)
{
    trained    m = build(2);
    est_saver *saver;

    assert_ok(est_saver_create(at("empty"), NULL, &saver));
    expect_error(est_saver_save(saver, m.session, 1, NULL, NULL), EST_FAILED_PRECONDITION,
                 "call est_session_init first");
    assert_ok(est_session_init(m.session));
    memory_remote_lose(m.remote, 1); /* the session has not noticed */
    expect_error(est_saver_save(saver, m.session, 1, NULL, NULL), EST_FAILED_PRECONDITION, "has no value yet");
    assert_string_equal(names_in(at("empty")), "");
    est_saver_free(saver);
    end(&m);
}

/* --- tasks that fail ---------------------------------------------------------------------------------------------- */

static const est_remote_ops *real;
static char                  seen[256]; /* the prefix of the last save */
static est_status            answer;    /* to it, when the parts are written */

static est_status spy_save(est_remote *remote, const est_remote_files *files, bool *parts)
{
    snprintf(seen, sizeof seen, "%s", files->prefix);
    EST_TRY(real->save(remote, files, parts));
    return answer == EST_OK ? EST_OK : est_fail(answer, "ps:1 is gone");
}

/* Parts of the others do not stay behind. Paths are absolute: other tasks have other working directories. And the parts
 * of a process that was killed are removed by the next, but not taken for checkpoints before. */
TEST(lost_while_saving)
{
    trained        m   = build(3);
    est_remote_ops spy = *m.remote->ops;
    est_restored   restored;
    est_saver     *saver;
    char           cwd[256];

    real          = m.remote->ops;
    spy.save      = spy_save;
    m.remote->ops = &spy;
    assert_ok(est_session_init(m.session));
    assert_non_null(getcwd(cwd, sizeof cwd));
    assert_int_equal(chdir(est_test_root), 0);
    assert_ok(est_saver_create("relative", NULL, &saver));
    assert_ok(est_saver_save(saver, m.session, 1, NULL, NULL));
    assert_int_equal(seen[0], '/');
    answer = EST_UNAVAILABLE;
    expect_error(est_saver_save(saver, m.session, 2, NULL, NULL), EST_UNAVAILABLE, "ps:1 is gone");
    assert_int_equal(chdir(cwd), 0);
    assert_null(strstr(names_in(at("relative")), "-2"));
    assert_null(strstr(names_in(at("relative")), "part"));
    est_saver_free(saver);

    answer = EST_OK;
    assert_int_equal(unlink(at("relative/checkpoint")), 0); /* so that the directory is searched */
    copy_file(at("relative/model.ckpt-1.index"), at("relative/model.ckpt-9.tmp-77-3.part0.index"));
    put_bytes(at("relative/model.ckpt-9.tmp-77-3.part0.data-00000-of-00001"), "x", 1);
    put_bytes(at("relative/model.ckpt-9.tmp-77-3.part1.data.tmp-78-1"), "x", 1);
    assert_ok(restore_from(at("relative"), m.session, &restored));
    assert_string_equal(restored.path, at("relative/model.ckpt-1"));
    save_into(at("relative"), m.session, 10);
    assert_null(strstr(names_in(at("relative")), "part"));
    m.remote->ops = real;
    end(&m);
}

/* A task comes back without its variables: they are those of the checkpoint, the others stay as they are by now. */
TEST(missing_only)
{
    trained      m = build(3), saved = build(0), now = build(0);
    est_restored restored;
    est_store   *store;
    int          n_lost = 0;

    assert_ok(est_session_init(m.session));
    train(&m, STEPS);
    save_into(at("missing"), m.session, 1);
    train(&m, STEPS);
    assert_ok(restore_from(at("missing"), saved.session, NULL));
    save_into(at("now"), m.session, 1);
    assert_ok(restore_from(at("now"), now.session, NULL));

    assert_ok(est_saver_restore(NULL, m.session, EST_RESTORE(.path = at("missing"), .missing_only = true), &restored));
    assert_string_equal(restored.path, "");
    assert_int_equal(restored.n_restored, 0);
    nn_assert_same(m.session, now.session);

    memory_remote_lose(m.remote, 0);
    assert_ok(est_saver_restore(NULL, m.session, EST_RESTORE(.path = at("missing"), .missing_only = true), &restored));
    assert_string_equal(restored.path, at("missing/model.ckpt-1"));
    assert_ok(est_session_store(m.session, &store));
    for (int i = 0; i < est_store_size(store); i++) {
        const est_var *var  = est_store_at(store, i);
        bool           lost = var->elsewhere && var->task == 0;

        n_lost += lost;
        assert_true(nn_is_same(m.session, lost ? saved.session : now.session, var->name));
    }
    assert_true(n_lost > 0 && n_lost < est_store_size(store));
    assert_int_equal(restored.n_restored, n_lost);
    end(&m);
    end(&saved);
    end(&now);
}

/* In one process, too; a name that is given for one that has a value is no mistake. */
TEST(missing_only_here)
{
    model      m = make_model();
    est_saver *saver;

    assert_ok(est_saver_create(at("here"), NULL, &saver));
    assert_ok(save_step(saver, &m, 4));
    end_model(&m);
    m = make_model();
    write_tag(m.session, "layer/bias", EST_F32, EST_SHAPE(2), 9);
    assert_ok(est_saver_restore(saver, m.session,
                                EST_RESTORE(.missing_only = true, .renames = EST_RENAMES({ "layer/bias", "nothing" })),
                                NULL));
    assert_int_equal(variable_tag(m.session, "layer/bias"), 9);
    assert_int_equal(variable_tag(m.session, "layer/kernel"), 4);
    assert_int_equal(variable_tag(m.session, "global_step"), 4);
    est_saver_free(saver);
    end_model(&m);
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
