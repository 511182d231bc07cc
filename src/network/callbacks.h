/* SPDX-License-Identifier: Apache-2.0
 *
 * What callbacks share: a monitored value, the weights of a model at one moment, the learning rate. */
#ifndef EST_NETWORK_CALLBACKS_H
#define EST_NETWORK_CALLBACKS_H

#include "estoc/callbacks.h"
#include "network/fit.h"

/* --- a monitored value -------------------------------------------------------------------------------------------- */

typedef struct est_monitor {
    char  *name;
    bool   larger; /* values are better */
    double min_delta;
    double best;
} est_monitor;

/* `name` NULL: "val_loss". Fails for a mode or a delta that is none. */
EST_MUST_CHECK est_status est_monitor_init(est_monitor *monitor, const char *name, est_monitor_mode mode,
                                           double min_delta);
void                      est_monitor_clear(est_monitor *monitor);
void                      est_monitor_begin(est_monitor *monitor); /* no value is known */

/* The value of this epoch; false after a warning: there is none. */
bool est_monitor_read(const est_monitor *monitor, const char *callback, est_loop *loop, double *value);
bool est_monitor_better(const est_monitor *monitor, double value, double than);

/* Whether the logs have a value of this name, be it NaN. */
bool est_loop_has_log(est_loop *loop, const char *name);

/* --- weights ------------------------------------------------------------------------------------------------------ */

/* Variables by name; zeroed: none. */
typedef struct est_weights {
    est_named_tensor *data; /* the names are those of the graph or the session */
    int               n;
} est_weights;

/* Copies of the variables of a session, without those of optimizers and the step unless `all`; and back. */
EST_MUST_CHECK est_status est_weights_take(est_graph *graph, est_session *session, bool all, est_weights *out);
EST_MUST_CHECK est_status est_weights_put(const est_weights *weights, est_session *session);
void                      est_weights_clear(est_weights *weights);

/* Whether a variable is NaN, after a warning that `callback` saves nothing: what it has saved before stays. */
EST_MUST_CHECK est_status est_weights_spoiled(est_session *session, const char *callback, bool *out);

/* --- the learning rate -------------------------------------------------------------------------------------------- */

EST_MUST_CHECK est_status est_loop_learning_rate(est_loop *loop, double *out);
EST_MUST_CHECK est_status est_loop_set_learning_rate(est_loop *loop, double rate);

/* --- backup.c ----------------------------------------------------------------------------------------------------- */

bool est_is_backup(const est_hook *hook);

/* Goes on from the backup, if there is one: variables, position of the input, history and fit->epoch. The position of
 * the input is put into the loop. */
EST_MUST_CHECK est_status est_backup_restore(est_hook *backup, est_fit *fit);
EST_MUST_CHECK est_status est_backup_epoch(est_hook *backup, est_fit *fit); /* after epoch fit->epoch */
EST_MUST_CHECK est_status est_backup_end(est_hook *backup, est_fit *fit);   /* the fit came to its end */
void                      est_backup_leave(est_hook *backup);               /* in any case, before the fit is gone */

#endif
