/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of `estoc tail`: what a run has left in its directory, read and then printed. */
#ifndef EST_CLI_TAIL_H
#define EST_CLI_TAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "estoc/checkpoint.h"
#include "format/checkpoint_state.h"

/* The last value of a tag. */
typedef struct tail_scalar {
    const char *tag;
    double      value;
    int64_t     step;
    double      wall_time; /* seconds since 1970 */
} tail_scalar;

/* The scalars of the event files in one directory. A zeroed struct is empty. */
typedef struct tail_scalars {
    const char  *name; /* "training", or that of the directory; borrowed */
    est_arena   *arena;
    tail_scalar *data; /* [n] in the order in which the tags appeared */
    int          n, max;
    int          n_files;
} tail_scalars;

/* Reads the newest event file of `dir` that has a scalar. On EST_DATA_LOSS, which names the file and the place, there
 * is what comes before the damage. To be cleared also after a failure. */
EST_MUST_CHECK est_status tail_scalars_read(tail_scalars *scalars, const char *dir);
void                      tail_scalars_clear(tail_scalars *scalars);

/* The newest export of an exporter. */
typedef struct tail_export {
    char *exporter, *newest; /* names of directories */
    int   n;                 /* how many there are */
} tail_export;

/* The state of a run. A zeroed struct is a run of which nothing is known. */
typedef struct tail_standing {
    char    trainer[512]; /* the process that holds the directory; "": none */
    bool    is_done;
    int64_t done_step; /* -1: not told */

    est_checkpoint_state state;                           /* the kept ones */
    bool                *kept_exist;                      /* [state.n_paths] */
    char                 latest[EST_CHECKPOINT_PATH_MAX]; /* the latest usable one; "": none */
    int64_t              latest_step;                     /* -1: not known */
    double               latest_saved;                    /* seconds since 1970 */

    tail_scalars *scalars; /* [n_scalars]: of training, then of each directory eval* */
    int           n_scalars;
    char        **eval_names; /* ends in NULL */
    tail_export  *exports;    /* [n_exports] */
    int           n_exports;

    bool is_damaged; /* something could not be read, which has been reported */
} tail_standing;

/* Prints it. */
EST_MUST_CHECK est_status tail_print_text(const tail_standing *s, const char *dir, double now);
EST_MUST_CHECK est_status tail_print_json(const tail_standing *s, const char *dir, double now);

#endif
