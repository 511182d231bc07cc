/* SPDX-License-Identifier: Apache-2.0
 *
 * Reserved ports. */
#include "cluster/ports.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"

est_status est_port_hold(int wanted, int *fd, int *port)
{
    struct sockaddr_in at   = { .sin_family = AF_INET, .sin_port = htons((uint16_t)wanted) };
    socklen_t          size = sizeof at;
    est_status         status;
    int                held;

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    held               = EST_FAULT_POINT("cluster.port") ? -1 : socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (held < 0 || setsockopt(held, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int)) != 0 ||
        bind(held, (struct sockaddr *)&at, sizeof at) != 0 || getsockname(held, (struct sockaddr *)&at, &size) != 0) {
        status = est_fail(est_status_from_errno(errno), "no port 127.0.0.1:%d: %s", wanted, strerror(errno));
        if (held >= 0) close(held);
        return status;
    }
    *fd   = held;
    *port = ntohs(at.sin_port);
    return EST_OK;
}
