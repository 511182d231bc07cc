/* SPDX-License-Identifier: Apache-2.0
 *
 * RunConfig: where a run keeps its state, how often it saves and tells, and which task of which cluster it is.
 *
 * A zeroed struct is a valid one; every comment says what 0 means. To change a configuration, copy the struct and set
 * the fields; one that changes how checkpoints are timed sets the other of the two to 0.
 *
 * Threading: plain values. */
#ifndef ESTOC_RUN_CONFIG_H
#define ESTOC_RUN_CONFIG_H

#include "estoc/cluster.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_strategy est_strategy;

typedef struct est_run_config {
    size_t              struct_size;            /* filled by EST_RUN_CONFIG */
    const char         *model_dir;              /* NULL: that of TF_CONFIG, else a new temporary directory, logged */
    uint64_t            seed;                   /* 0: drawn once, logged, kept in the checkpoint */
    int64_t             save_summary_steps;     /* 0: 100; EST_OFF: none */
    int64_t             save_checkpoints_steps; /* 0: by time instead; EST_OFF: not by steps */
    double              save_checkpoints_secs;  /* 0: 600, unless by steps; EST_OFF: not by time. Not both */
    int32_t             keep_checkpoint_max;    /* 0: 5; EST_OFF: keep all */
    double              keep_checkpoint_every_n_hours; /* 0: 10000 */
    int64_t             log_step_count_steps;          /* 0: 100; EST_OFF: none */
    double              session_creation_timeout_secs; /* 0: 7200; of a task that waits for its cluster */
    int32_t             max_worker_delay_secs;         /* 0: 60; EST_OFF: no delay; of workers */
    bool                no_graph_def;                  /* true: no .meta beside checkpoints */
    int                 threads;           /* of the session; 0: EST_NUM_THREADS, else the cores it may use */
    bool                check_numerics;    /* true: the node that first makes a NaN or infinity is named */
    bool                no_input_position; /* true: a resumed run starts its input anew, as TensorFlow does */
    bool                no_signals;        /* true: SIGINT and SIGTERM are left to the program */
    bool                quiet;             /* true: no progress line on a terminal */
    const est_strategy *train_distribute;  /* NULL: one device; borrowed until the run ends */
    const est_strategy *eval_distribute;   /* NULL: one device; borrowed until the run ends */
    const char         *cluster_json;      /* NULL: the TF_CONFIG variable, if set; "{}": none */
} est_run_config;

#define EST_RUN_CONFIG(...) (&(const est_run_config){ .struct_size = sizeof(est_run_config), __VA_ARGS__ })

#ifdef __cplusplus
}
#endif
#endif
