/* SPDX-License-Identifier: Apache-2.0
 *
 * Ports that are kept. */
#include "support/port_test.h"
#include "cluster/ports.h"
#include "support/test.h"

int port_take(int *fd)
{
    int port;

    assert_int_equal(est_port_hold(0, fd, &port), EST_OK);
    return port;
}
