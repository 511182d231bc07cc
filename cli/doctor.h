/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of `estoc doctor` that trains. */
#ifndef EST_CLI_DOCTOR_H
#define EST_CLI_DOCTOR_H

#include "estoc/status.h"

/* Trains a tiny model for some steps: the loss that came out, and the one that exact arithmetic gives. */
EST_MUST_CHECK est_status doctor_train(float *loss, float *expected);

#endif
