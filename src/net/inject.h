/* SPDX-License-Identifier: Apache-2.0
 *
 * A bad network, for tests: in builds with fault points only. */
#ifndef EST_NET_INJECT_H
#define EST_NET_INJECT_H

#include "net/transport.h"

#if defined(EST_FAULT_POINTS) && EST_FAULT_POINTS
/* Injects a fault into all present and later links to `task`: a silent link loses all bytes in both directions and
 * stays open, a cut link breaks after n more bytes were sent. The last call counts. Any thread but the network's. */
EST_MUST_CHECK est_status est_net_inject(est_net *net, const char *task, est_injection what, uint64_t n);
#endif

#endif
