/* SPDX-License-Identifier: Apache-2.0
 *
 * The hook that saves: when the session is made, then every so many steps or seconds, and at the end. */
#ifndef EST_TRAIN_CHECKPOINT_HOOK_H
#define EST_TRAIN_CHECKPOINT_HOOK_H

#include "estoc/hooks.h"
#include "estoc/saver.h"
#include "train/summary_writer.h"
#include "train/timer.h"

typedef struct est_checkpoint_hook_spec {
    est_saver           *saver;     /* borrowed until the hook is freed, as all below */
    est_timer            timer;     /* every_steps or every_secs */
    est_saving_listeners listeners; /* copied list */
    est_summary_writer  *summaries; /* gets a CHECKPOINT session log for every save; NULL: none */
    const void          *meta;      /* of the .meta beside every checkpoint; NULL: none */
    size_t               meta_size;

    /* Fills `extras` with up to n_max named tensors to save beside the variables, whose references pass to the hook, and
     * returns how many in *n. NULL: none. */
    est_status (*extras)(void *user, est_loop *loop, est_extra *extras, int n_max, int *n);
    void *user;
} est_checkpoint_hook_spec;

#define EST_CHECKPOINT_EXTRAS_MAX 8

/* Freed with est_hook_free. */
EST_MUST_CHECK est_status est_checkpoint_hook_create(const est_checkpoint_hook_spec *spec, est_hook **out);

#endif
