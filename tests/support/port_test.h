/* SPDX-License-Identifier: Apache-2.0
 *
 * Ports of 127.0.0.1 for servers that a test starts, now or later. */
#ifndef EST_TESTS_PORT_TEST_H
#define EST_TESTS_PORT_TEST_H

/* A port that is free now. The socket stays open, so that nobody else gets the port while its server is down, not even
 * a connection as its own end; the server can still listen there. Closing *fd gives the port back. */
int port_take(int *fd);

#endif
