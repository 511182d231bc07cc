/* SPDX-License-Identifier: Apache-2.0
 *
 * TCP sockets: parsing and resolving addresses, listening at one or all interfaces, connecting, and the options that
 * all sockets get. */
#include "net/socket.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"

#define BACKLOG 1024

/* Splits "host:port". */
static est_status split(const char *address, char host[256], char port[8])
{
    const char *colon = strrchr(address, ':');
    const char *begin = address, *end = colon;
    char       *rest;
    long        number = -1;

    if (colon != NULL && colon[1] >= '0' && colon[1] <= '9') {
        number = strtol(colon + 1, &rest, 10);
        if (*rest != '\0') number = -1;
    }
    if (number >= 0 && end - begin >= 2 && *begin == '[' && end[-1] == ']') {
        begin++;
        end--;
    } else if (number >= 0 && memchr(begin, ':', (size_t)(end - begin)) != NULL) {
        number = -1; /* IPv6 without brackets: where does the port begin? */
    }
    if (number < 0 || number > 65535 || end - begin > 255) {
        return est_fail(EST_INVALID_ARGUMENT, "\"%s\" is not an address; expected host:port or [IPv6]:port", address);
    }
    snprintf(host, 256, "%.*s", (int)(end - begin), begin);
    snprintf(port, 8, "%ld", number);
    return EST_OK;
}

/* Whether to listen at this host's interface only. A name only tells others how to connect: it may belong to a
 * service, be translated on the way, or mean 127.0.1.1 in /etc/hosts. An IP address selects an interface. */
static bool is_interface(const char *host)
{
    struct addrinfo hints = { .ai_flags = AI_NUMERICHOST }, *found;

    if (strcasecmp(host, "localhost") == 0) return true;
    if (getaddrinfo(host, NULL, &hints, &found) != 0) return false;
    freeaddrinfo(found);
    return true;
}

static est_status look_up(const char *address, int flags, struct addrinfo **out)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags };
    char            host[256], port[8];
    int             error;

    EST_TRY(split(address, host, port));
    if (host[0] == '\0' && !(flags & AI_PASSIVE)) {
        return est_fail(EST_INVALID_ARGUMENT, "\"%s\" names no host to connect to", address);
    }
    if ((flags & AI_PASSIVE) && !is_interface(host)) host[0] = '\0';
    error = EST_FAULT_POINT("net.resolve") ? EAI_AGAIN : getaddrinfo(host[0] != '\0' ? host : NULL, port, &hints, out);
    if (error != 0) {
        return est_fail(EST_UNAVAILABLE, "the host of \"%s\" has no address: %s", address, gai_strerror(error));
    }
    return EST_OK;
}

est_status est_socket_resolve(const char *address, est_socket_address *out, int n_max, int *n)
{
    struct addrinfo *found;

    EST_TRY(look_up(address, 0, &found));
    *n = 0;
    for (struct addrinfo *a = found; a != NULL && *n < n_max; a = a->ai_next) {
        memcpy(&out[*n].at, a->ai_addr, a->ai_addrlen);
        out[(*n)++].size = a->ai_addrlen;
    }
    freeaddrinfo(found);
    return EST_OK;
}

static int new_socket(int family)
{
    if (EST_FAULT_POINT("net.socket")) {
        errno = EMFILE;
        return -1;
    }
    return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static void send_at_once(int fd)
{
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
}

static est_status listen_at(const struct addrinfo *a, const char *address, int *out, int *port)
{
    struct sockaddr_storage own;
    socklen_t               size = sizeof own;
    int                     fd   = new_socket(a->ai_family);
    est_status              status;

    if (fd < 0) return est_fail(EST_RESOURCE_EXHAUSTED, "cannot make a socket: %s", strerror(errno));
    /* A restarted process takes over the port, though old connections may still be closing. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
    if (a->ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){ 0 }, sizeof(int));
    errno = ENOBUFS; /* for the fault point */
    if (EST_FAULT_POINT("net.listen") || bind(fd, a->ai_addr, a->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0 ||
        getsockname(fd, (struct sockaddr *)&own, &size) != 0) {
        if (errno == EADDRINUSE) {
            status = est_fail(EST_UNAVAILABLE,
                              "cannot listen at %s: the port is in use; end the process that has it (`ss -ltnp` shows "
                              "it) or choose another port",
                              address);
        } else {
            status = est_fail(EST_UNAVAILABLE, "cannot listen at %s: %s", address, strerror(errno));
        }
        close(fd);
        return status;
    }
    *out  = fd;
    *port = ntohs(own.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&own)->sin6_port
                                            : ((struct sockaddr_in *)&own)->sin_port);
    return EST_OK;
}

est_status est_socket_listen(const char *address, int *fd, int *port)
{
    struct addrinfo *found;
    est_status       status;

    EST_TRY(look_up(address, AI_PASSIVE, &found));
    /* All interfaces: an IPv6 socket takes both kinds, where there is IPv6. */
    status = EST_UNAVAILABLE;
    for (int family = AF_INET6; status != EST_OK; family = AF_INET) {
        for (struct addrinfo *a = found; a != NULL && status != EST_OK; a = a->ai_next) {
            if (a->ai_family == family) status = listen_at(a, address, fd, port);
        }
        if (family == AF_INET) break;
    }
    freeaddrinfo(found);
    return status;
}

bool est_socket_is_local(int fd)
{
    struct sockaddr_storage own;
    socklen_t               size = sizeof own;
    const struct in6_addr  *six  = &((struct sockaddr_in6 *)&own)->sin6_addr;

    if (getsockname(fd, (struct sockaddr *)&own, &size) != 0) return false;
    if (own.ss_family == AF_INET) return ntohl(((struct sockaddr_in *)&own)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127);
}

est_status est_socket_connect(const est_socket_address *to, int *out)
{
    int fd = new_socket(to->at.ss_family);

    if (fd < 0) return est_fail(EST_UNAVAILABLE, "cannot make a socket: %s", strerror(errno));
    send_at_once(fd);
    if (connect(fd, (const struct sockaddr *)&to->at, to->size) != 0 && errno != EINPROGRESS) {
        int error = errno;

        close(fd);
        return est_fail(EST_UNAVAILABLE, "%s", strerror(error));
    }
    *out = fd;
    return EST_OK;
}

int est_socket_accept(int listener, char from[EST_ADDRESS_MAX])
{
    struct sockaddr_storage peer;
    socklen_t               size = sizeof peer;
    char                    host[64], port[8];
    int                     fd;

    if (EST_FAULT_POINT("net.accept")) {
        errno = EMFILE;
        return -1;
    }
    fd = accept4(listener, (struct sockaddr *)&peer, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return -1;
    send_at_once(fd);
    if (getnameinfo((struct sockaddr *)&peer, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        snprintf(host, sizeof host, "?");
        snprintf(port, sizeof port, "?");
    }
    /* A dual-stack socket shows IPv4 addresses as IPv6. */
    if (strncmp(host, "::ffff:", 7) == 0 && strchr(host, '.') != NULL) memmove(host, host + 7, strlen(host + 7) + 1);
    snprintf(from, EST_ADDRESS_MAX, strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s", host, port);
    return fd;
}
