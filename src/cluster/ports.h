/* SPDX-License-Identifier: Apache-2.0
 *
 * Ports of 127.0.0.1 for the servers of a cluster on this machine. Any thread. */
#ifndef EST_CLUSTER_PORTS_H
#define EST_CLUSTER_PORTS_H

#include "estoc/status.h"

/* Reserves a port: a bound socket that does not listen. Nobody gets the port as a free one while the socket is open,
 * not even a connection as its own end; servers, which bind with SO_REUSEADDR, can listen there, again and again.
 * wanted 0: any free port. Closing *fd gives the port back. */
EST_MUST_CHECK est_status est_port_hold(int wanted, int *fd, int *port);

#endif
