/* SPDX-License-Identifier: Apache-2.0
 *
 * TCP sockets: addresses, listening, and the settings that all of ours have: they do not block, are not inherited by
 * programs that we start, and send small messages at once. Any thread. */
#ifndef EST_NET_SOCKET_H
#define EST_NET_SOCKET_H

#include "net/transport.h"

#define EST_ADDRESS_MAX 80 /* of an address as text */

/* Resolves "host:port" or "[IPv6]:port" to at most n_max addresses. Blocks for the name server.
 * EST_INVALID_ARGUMENT: malformed text; EST_UNAVAILABLE: the host has no address now. */
EST_MUST_CHECK est_status est_socket_resolve(const char *address, est_socket_address *out, int n_max, int *n);

/* As est_net_listen. */
EST_MUST_CHECK est_status est_socket_listen(const char *address, int *fd, int *port);

/* Whether a listening socket can be reached from this machine only. */
bool est_socket_is_local(int fd);

/* Begins to connect. */
EST_MUST_CHECK est_status est_socket_connect(const est_socket_address *to, int *fd);

/* The next connection; -1: none, with errno. `from`: the address of the peer. */
int est_socket_accept(int listener, char from[EST_ADDRESS_MAX]);

#endif
