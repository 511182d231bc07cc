/* SPDX-License-Identifier: Apache-2.0
 *
 * From the start of est_saved_model_load to the first prediction: a network with one large embedding, in a process of
 * its own for each turn.
 *
 *   load_model [--folder FOLDER] [--megabytes N] [--turns N] [--threads N]
 *
 * Writes the model if it is not there, then prints for each way to load (checksums checked, or not) a line of JSON a
 * turn: seconds to load and of the first call, and the memory that the process has beside pages of files. The files
 * are in the page cache. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "estoc/estoc.h"
#include "support/bench.h"
#include "support/options.h"
#include "support/turns.h"

#define WIDTH 64

typedef struct job {
    const char *folder;
    int64_t     megabytes;
    int         turns, threads;
    char        path[512];
} job;

static void write_model(const job *j)
{
    int64_t      rows = j->megabytes * (1 << 20) / (WIDTH * 4);
    est_network *network;

    bench_check(est_network_sequential(
        EST_LAYERS(est_layer_embedding(rows, WIDTH, NULL), est_layer_dense(1, NULL)),
        EST_NETWORK(.seed = 1, .inputs = EST_INPUTS({ "id", EST_I64, EST_SHAPE_SCALAR })), &network));
    bench_check(est_network_save(network, j->path));
    est_network_free(network);
}

/* Kilobytes that are no pages of files. */
static long own_kilobytes(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char  line[256];
    long  value = 0;

    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "RssAnon:", 8) == 0) value = strtol(line + 8, NULL, 10);
    }
    if (file != NULL) (void)fclose(file);
    return value;
}

static void load(const job *j, bool no_verify)
{
    double           start = bench_now_secs(), loaded;
    est_saved_model *model;
    est_predictor   *predictor;
    est_tensor      *id, *y;

    bench_check(est_saved_model_load(j->path, EST_SAVED_MODEL(.threads = j->threads, .no_verify = no_verify), &model));
    loaded = bench_now_secs();
    bench_check(est_predictor_create(model, NULL, NULL, &predictor));
    bench_check(est_tensor_i64(EST_SHAPE(1), (const int64_t[]){ 12345 }, &id));
    bench_check(
        est_predictor_run(predictor, EST_NAMED_TENSORS({ est_predictor_inputs(predictor).data[0].name, id }), &y));
    (void)printf(
        "{\"verify\":%s,\"megabytes\":%lld,\"load_secs\":%.4f,\"first_call_secs\":%.4f,\"own_megabytes\":%ld}\n",
        no_verify ? "false" : "true", (long long)j->megabytes, loaded - start, bench_now_secs() - loaded,
        own_kilobytes() / 1024);
    (void)fflush(stdout);
    est_tensor_free(id);
    est_tensor_free(y);
    est_predictor_free(predictor);
    est_saved_model_free(model);
}

int main(int argc, char **argv)
{
    job j = { .folder = "build/predictor", .megabytes = 1024, .turns = 3, .threads = 0 };

    BENCH_OPTIONS(argc, argv, 1, { "--folder", BENCH_TO(&j.folder) }, { "--megabytes", BENCH_TO(&j.megabytes) },
                  { "--turns", BENCH_TO(&j.turns) }, { "--threads", BENCH_TO(&j.threads) });
    (void)snprintf(j.path, sizeof j.path, "%s/embedding-%lldm", j.folder, (long long)j.megabytes);
    bench_check(est_dir_create(j.folder));
    if (!est_dir_exists(j.path)) write_model(&j);
    for (int turn = 0; turn < 2 * j.turns; turn++) {
        pid_t child = fork();
        int   status;

        if (child == 0) {
            load(&j, turn % 2 == 1);
            _exit(0);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 1;
    }
    return 0;
}
