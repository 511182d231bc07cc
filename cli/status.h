/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of `estoc status`: what the tasks of a job answered, and its printing. */
#ifndef EST_CLI_STATUS_H
#define EST_CLI_STATUS_H

#include "base/json.h"
#include "cluster/task_status.h"

/* The tasks of a cluster by name and index, asked at one time. A zeroed struct is empty. */
typedef struct status_view {
    int n;
    char (*names)[EST_NET_NAME_MAX];
    est_task_asked *asked; /* [n]; names are those above */
    est_json      **told;  /* [n]; NULL: no answer, and the text of `asked` says why */
} status_view;

/* Prints it; JSON is one line. */
EST_MUST_CHECK est_status status_print_text(const status_view *view);
EST_MUST_CHECK est_status status_print_json(const status_view *view);

#endif
