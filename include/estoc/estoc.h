/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole public API: include this header.
 *
 * Option and list macros (EST_RUN_CONFIG, EST_HOOKS) are compound literals, which live until the end of the enclosing
 * block: long enough for a call. A wrong argument is an error or gives "nothing", never a crash: see estoc/status.h. */
#ifndef ESTOC_ESTOC_H
#define ESTOC_ESTOC_H

#include "estoc/arrow.h"
#include "estoc/callbacks.h"
#include "estoc/canned.h"
#include "estoc/checkpoint.h"
#include "estoc/checkpoint_watch.h"
#include "estoc/cluster.h"
#include "estoc/communication.h"
#include "estoc/coordinator.h"
#include "estoc/csv.h"
#include "estoc/dataset.h"
#include "estoc/devices.h"
#include "estoc/distributed_dataset.h"
#include "estoc/early_stopping.h"
#include "estoc/estimator.h"
#include "estoc/events.h"
#include "estoc/example.h"
#include "estoc/exporter.h"
#include "estoc/feature_column.h"
#include "estoc/graph.h"
#include "estoc/head.h"
#include "estoc/hooks.h"
#include "estoc/input.h"
#include "estoc/local_cluster.h"
#include "estoc/log.h"
#include "estoc/meta_graph.h"
#include "estoc/model.h"
#include "estoc/monitored.h"
#include "estoc/network.h"
#include "estoc/nn.h"
#include "estoc/ops.h"
#include "estoc/partitioner.h"
#include "estoc/predictor.h"
#include "estoc/preprocessing.h"
#include "estoc/run_config.h"
#include "estoc/saved_model.h"
#include "estoc/saver.h"
#include "estoc/server.h"
#include "estoc/session.h"
#include "estoc/status.h"
#include "estoc/strategy.h"
#include "estoc/summary.h"
#include "estoc/tensor.h"
#include "estoc/tfrecord.h"
#include "estoc/version.h"
#include "estoc/workers.h"

#ifndef ESTOC_BUILDING
#include "estoc/locate.h" /* last: wraps the builders so that errors name your source line */
#endif

#endif
