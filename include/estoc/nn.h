/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything models are made of beyond single operations: layers and their variables, initializers, losses, optimizers,
 * learning-rate schedules and streaming metrics. All of it is built from <estoc/ops.h>. */
#ifndef ESTOC_NN_H
#define ESTOC_NN_H

#include "estoc/initializers.h"
#include "estoc/layers.h"
#include "estoc/losses.h"
#include "estoc/metrics.h"
#include "estoc/names.h"
#include "estoc/optimizers.h"
#include "estoc/schedules.h"

#endif
