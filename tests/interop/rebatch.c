/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches of replicas against tf.distribute's: their rows, for many global batches, numbers of workers and replicas,
 * and all policies, with rows of files and not. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "estoc/input.h"
#include "support/interop.h"

enum { N, GLOBAL, WORKERS, REPLICAS, WORKER, POLICY, OF_FILES, N_FIELDS };

static est_dataset *source(const int64_t *of)
{
    if (of[OF_FILES] == 0) return est_dataset_range(0, of[N], 1);
    return est_dataset_lines(est_dataset_files(interop_path("rows-*.txt")), NULL);
}

/* The rows of a batch as text. */
static void say_batch(est_strbuf *out, const est_tensor *rows)
{
    est_strbuf text = { 0 };

    for (int64_t i = 0; i < est_tensor_count(rows); i++) {
        if (est_tensor_dtype(rows) == EST_STRING) {
            est_str line = ((const est_str *)est_tensor_data(rows))[i];

            est_strbuf_printf(&text, "%.*s ", (int)line.size, line.data);
        } else {
            est_strbuf_printf(&text, "%" PRId64 " ", ((const int64_t *)est_tensor_data(rows))[i]);
        }
    }
    interop_blob(out, text.data, text.size);
    est_strbuf_clear(&text);
}

/* The batches of the worker, a blob each, as one blob. */
static void say_batches(est_strbuf *out, const int64_t *of)
{
    const est_input_context context = { .n_pipelines          = (int)of[WORKERS],
                                        .pipeline             = (int)of[WORKER],
                                        .num_replicas_in_sync = (int)(of[WORKERS] * of[REPLICAS]) };
    est_strbuf              batches = { 0 };
    est_field               batch   = { 0 };
    est_dataset            *d       = est_dataset_batch(source(of), of[GLOBAL], NULL);
    est_iterator           *rows;
    est_status              status;

    interop_check(est_dataset_finish(est_dataset_distribute(d, &context, (est_auto_shard_policy)of[POLICY]), &d));
    interop_check(est_iterator_create(d, &rows));
    while ((status = est_iterator_next(rows, &batch)) == EST_OK) {
        say_batch(&batches, batch.values);
        est_element_clear(&batch, 1);
    }
    if (status != EST_OUT_OF_RANGE) interop_check(status);
    interop_blob(out, batches.data, batches.size);
    est_strbuf_clear(&batches);
    est_iterator_free(rows);
    est_dataset_free(d);
}

TEST(batches)
{
    interop_blobs cases;
    est_strbuf    said = { 0 };

    interop_ask("write_cases");
    interop_blobs_read("cases", &cases);
    assert_true(cases.n > 100);
    for (size_t i = 0; i < cases.n; i++) {
        int64_t of[N_FIELDS];

        assert_int_equal(cases.at[i].size, sizeof of);
        memcpy(of, cases.at[i].data, sizeof of);
        say_batches(&said, of);
    }
    interop_blobs_clear(&cases);
    interop_save("cases.said", &said);
    interop_ask("check_cases");
}

int main(void)
{
    return INTEROP_MAIN("rebatch");
}
