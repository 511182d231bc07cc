/* SPDX-License-Identifier: Apache-2.0
 *
 * A shard of a list of files. */
#ifndef EST_DATA_SHARD_STAGE_H
#define EST_DATA_SHARD_STAGE_H

#include "data/stage.h"

/* est_dataset_shard of paths. Opening it fails when there are fewer paths than shards: a worker would be without, and
 * the others would wait for it. */
est_dataset *est_dataset_shard_files(est_dataset *paths, int64_t n, int64_t number);

#endif
