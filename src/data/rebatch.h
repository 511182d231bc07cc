/* SPDX-License-Identifier: Apache-2.0
 *
 * The stage of est_dataset_rebatch, for autoshard. */
#ifndef EST_DATA_REBATCH_H
#define EST_DATA_REBATCH_H

#include "data/stage.h"

/* How many parts a dataset of this stage makes of a global batch; 0: it is one of another stage. */
int64_t est_rebatch_parts(const est_dataset *dataset);

/* Every batch in so many parts of the same size but for the last ones, which may be smaller or empty. */
est_dataset *est_rebatch_evenly(est_dataset *dataset, int64_t n);

#endif
