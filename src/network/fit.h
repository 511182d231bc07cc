/* SPDX-License-Identifier: Apache-2.0
 *
 * A fit from the inside: what fit.c, which runs the epochs, shares with the parts that report and keep them.
 *
 * Where the steps of an epoch are made is up to a trainer, one struct of functions: by a loop in this process
 * (fit_loop.c), by itself or with other workers (fit_workers.c); or by workers of a coordinator (fit_coordinator.c). */
#ifndef EST_NETWORK_FIT_H
#define EST_NETWORK_FIT_H

#include "network/network.h"

typedef struct est_trainer_ops est_trainer_ops;
typedef struct est_fit_workers est_fit_workers; /* fit_workers.c's own */
typedef struct est_fit_calls   est_fit_calls;   /* fit_coordinator.c's own */

typedef struct est_fit {
    est_network           *network;
    const est_fit_options *options;
    const est_trainer_ops *trainer;
    est_dataset           *input, *validation; /* validation NULL: none */
    est_network_function  *f;                  /* of training */
    int64_t                epochs, epoch;      /* the last, and the one under way */
    int64_t                first_pass;         /* over the input: that of options->initial_epoch */
    int64_t                steps;              /* of an epoch; 0: until the input ends */
    int64_t                known_steps;        /* of an epoch, when they are known; 0: not yet */
    int64_t                done;               /* steps of the epoch under way, counted when the hooks were told */
    bool                   goes_on;            /* epochs go on with the input where the last one ended */
    bool                   begun;              /* an epoch has opened the input */
    est_tensor            *class_weight;       /* float32 [classes]; NULL: none */
    est_tensor            *position;           /* of the input, where the first epoch begins; NULL: at its beginning */
    est_hook             **hooks;              /* [n_hooks]: the caller's, then those of fit */
    int                    n_hooks, given;     /* how many, and the first of the caller's */
    est_hook              *progress;           /* NULL: none */
    est_hook              *backup;             /* one of the caller's; NULL: none */
    est_loop              *loop;
    est_history           *history;
    double                *values;  /* [n_metrics] */
    est_fit_workers       *workers; /* NULL: this process trains by itself */
    est_fit_calls         *calls;   /* NULL: no coordinator trains */
    bool                   over;    /* there is nothing left to do: the job has ended before */
} est_fit;

struct est_trainer_ops {
    /* Everything up to the first epoch: opens fit->loop, which tells hooks and has the logs. */
    EST_MUST_CHECK est_status (*open)(est_fit *fit);

    /* The steps of an epoch. *ended: the fit ends with it, since a stop was requested or the input has no more. */
    EST_MUST_CHECK est_status (*epoch)(est_fit *fit, bool *ended);

    /* Loss and metrics of the validation, values[n_metrics]. */
    EST_MUST_CHECK est_status (*validate)(est_fit *fit, double *values);

    /* After the last epoch, when all went well; *resumed: the fit is taken back to fit->epoch. And in any case. */
    EST_MUST_CHECK est_status (*end)(est_fit *fit, bool *resumed);
    void (*close)(est_fit *fit, est_status why);
};

extern const est_trainer_ops est_loop_trainer;        /* fit_loop.c */
extern const est_trainer_ops est_coordinator_trainer; /* fit_coordinator.c */

/* The values of the metrics, as est_loop_spec.measure of a loop whose user is the fit. */
EST_MUST_CHECK est_status est_fit_measure(void *user, est_loop *loop);

/* --- fit_workers.c ------------------------------------------------------------------------------------------------ */

/* Whether several workers train the network. */
bool est_fit_has_workers(const est_network *network);

/* Joins the others (fit->workers), or sets fit->over. After it est_fit_workers_close is due, whatever it gives. */
EST_MUST_CHECK est_status est_fit_workers_open(est_fit *fit);

/* Adds what the loop needs. */
EST_MUST_CHECK est_status est_fit_workers_prepare(est_fit *fit, est_loop_spec *spec);

/* The loop is open, or an epoch is over: sets fit->epoch to that of the global step. */
void est_fit_workers_seek(est_fit *fit);

/* est_trainer_ops.epoch; begins with the reset of the metrics, unless it has begun before this process came. */
EST_MUST_CHECK est_status est_fit_workers_epoch(est_fit *fit, bool *ended);

/* Whether the workers have gone to another epoch: back to an earlier one, or to a later one without this process. */
bool est_fit_workers_left_epoch(const est_fit *fit);

/* After the callbacks of an epoch: asks whether one of any worker has requested a stop (est_loop_should_stop). */
EST_MUST_CHECK est_status est_fit_workers_vote(est_fit *fit);

/* Saves at the end of an epoch, in the process that leads. */
EST_MUST_CHECK est_status est_fit_workers_save(est_fit *fit);

/* est_trainer_ops.validate, each worker with its part of the data. */
EST_MUST_CHECK est_status est_fit_workers_validate(est_fit *fit, double *values);

/* est_trainer_ops.end: the leader saves, and the others wait for that. */
EST_MUST_CHECK est_status est_fit_workers_end(est_fit *fit, bool *resumed);
void                      est_fit_workers_close(est_fit *fit, est_status why);

/* --- fit_states.c ------------------------------------------------------------------------------------------------- */

typedef struct est_packed_states {
    char  *data; /* NULL: none */
    size_t size;
} est_packed_states;

void est_packed_states_clear(est_packed_states *states);

/* The states of the metrics: those that were kept at the end of an epoch (`ended`, may be NULL), or else those of the
 * session. */
EST_MUST_CHECK est_status est_fit_states_pack(const est_fit *fit, const est_packed_states *ended,
                                              est_packed_states *out);

/* Gives them to the session; *fits false: they are of other metrics, and nothing is changed. */
EST_MUST_CHECK est_status est_fit_states_unpack(const est_fit *fit, const char *bytes, size_t size, bool *fits);

/* fit_progress.c: shows the epochs of a fit; NULL with the error set. */
est_hook *est_fit_progress(est_fit *fit, est_verbose verbose);

#endif
