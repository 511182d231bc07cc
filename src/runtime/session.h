/* SPDX-License-Identifier: Apache-2.0
 *
 * What the library and its tests may know of a session beyond <estoc/session.h>. */
#ifndef EST_RUNTIME_SESSION_H
#define EST_RUNTIME_SESSION_H

#include "estoc/session.h"
#include "runtime/plan.h"

/* The plan behind a prepared step; borrowed until the session goes. */
est_plan *est_step_plan(est_step *step);

#endif
