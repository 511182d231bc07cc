/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is refused: strangers, garbage, frames that are repeated or too large, peers of another job, version or
 * authority. They are told why where that is possible, logged once, and harm nobody else. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "net/frame.h"
#include "support/dir_test.h"
#include "support/log_test.h"
#include "support/net_test.h"

/* --- the log ------------------------------------------------------------------------------------------------------ */

/* One connection was refused since the last call, for this reason. */
static void expect_logged(const char *why)
{
    char text[256];

    snprintf(text, sizeof text, "refused a connection*%s", why);
    log_expect(text);
    log_clear();
}

static int setup(void **state)
{
    log_keep(EST_LOG_DEBUG);
    return net_test_setup(state);
}

/* --- a stranger: a socket without a net --------------------------------------------------------------------------- */

static int call(const net_test *t)
{
    struct sockaddr_in to   = { .sin_family      = AF_INET,
                                .sin_port        = htons((uint16_t)est_net_port(t->net)),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct timeval     wait = { .tv_sec = (time_t)NET_TEST_SECS };
    int                fd   = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void put(int fd, const void *bytes, size_t size)
{
    assert_int_equal(send(fd, bytes, size, MSG_NOSIGNAL), (ssize_t)size);
}

static void put_frame(int fd, est_frame frame, const void *head)
{
    uint8_t     bytes[2048];
    est_payload payload = { .head = head, .head_size = frame.head_size };
    uint64_t    lie     = frame.body_size;

    net_check(est_frame_measure(&payload, &frame));
    est_frame_write_front(&payload, &frame, bytes);
    if (lie != 0) {
        frame.n_parts   = 1;
        frame.body_size = lie;
    }
    est_frame_encode(&frame, bytes);
    put(fd, bytes,
        est_frame_front_bytes(&frame) < sizeof bytes && lie == 0 ? est_frame_front_bytes(&frame) : EST_FRAME_BYTES);
}

static void put_hello(int fd, uint64_t sequence, const char *job, const char *wanted)
{
    est_hello hello = { .self = { "", "stranger", 1 } };
    uint8_t   head[EST_HELLO_BYTES];

    snprintf(hello.self.job, sizeof hello.self.job, "%s", job);
    snprintf(hello.wanted, sizeof hello.wanted, "%s", wanted);
    est_hello_encode(&hello, head);
    put_frame(fd, (est_frame){ .kind = EST_FRAME_HELLO, .sequence = sequence, .head_size = sizeof head }, head);
}

static bool get(int fd, void *bytes, size_t size)
{
    return recv(fd, bytes, size, MSG_WAITALL) == (ssize_t)size;
}

/* The next frame; its head, which must fit, as text. */
static est_frame get_frame(int fd, char head[EST_FAREWELL_MAX + 1])
{
    uint8_t   bytes[EST_FRAME_BYTES];
    est_frame frame;

    assert_true(get(fd, bytes, sizeof bytes));
    net_check(est_frame_decode(bytes, EST_FRAME_BYTES, &frame));
    assert_true(frame.body_size <= EST_FAREWELL_MAX);
    if (frame.body_size > 0) assert_true(get(fd, head, (size_t)frame.body_size));
    head[frame.body_size] = '\0';
    return frame;
}

/* Nothing more comes but the end, and soon. */
static void expect_closed(int fd)
{
    char    byte[4096];
    ssize_t n;

    do {
        n = recv(fd, byte, sizeof byte, 0);
    } while (n > 0);
    if (n < 0 && errno != ECONNRESET) fail_msg("it was not closed: %s", strerror(errno));
    close(fd);
}

/* --- over tcp ----------------------------------------------------------------------------------------------------- */

static void expect_alive(net_test *server)
{
    net_test     client;
    est_link    *link;
    est_message *answer;
    const char  *transport = server->why; /* set by the tests below */

    net_test_start(&client, transport, "worker:0", NULL);
    link = net_test_connect(&client, server);
    net_check(net_test_ask(link, NET_ECHO, (est_payload){ 0 }, NET_TEST_SECS, &answer));
    est_message_free(answer);
    est_link_free(link);
    net_test_stop(&client);
}

static void start(net_test *server, const char *transport, const est_net_options *more)
{
    net_test_start(server, transport, "ps:0", more);
    snprintf(server->why, sizeof server->why, "%s", transport);
}

/* Whoever listens without protection where others reach it is told, once. */
TEST(tcp_is_loud)
{
    static const char *const at[] = { "127.0.0.1:0", "127.1.2.3:0", "localhost:0", ":0", "0.0.0.0:0" };

    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        est_net *net = NULL;

        net_check(est_net_create(&(est_net_options){ .transport = "tcp", .self.task = "ps:0" }, &net));
        net_check(est_net_listen(net, at[i]));
        est_net_free(net);
        assert_int_equal(log_count(EST_LOG_WARN, "tcp: connections are neither encrypted"), i < 3 ? 0 : 1);
    }
}

TEST(garbage)
{
    const char noise[200] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    net_test   server;
    int        fd, n_warnings = 0;

    start(&server, "tcp", NULL);
    for (int i = 0; i < 20; i++) {
        fd = call(&server);
        put(fd, noise, sizeof noise);
        expect_closed(fd);
        n_warnings += log_count(EST_LOG_WARN, "refused a connection");
        expect_logged("not a frame of estoc");
    }
    assert_int_equal(n_warnings, 1); /* once for all of them */
    /* Less than a frame, then the end. */
    fd = call(&server);
    put(fd, "estn", 4);
    shutdown(fd, SHUT_WR);
    expect_closed(fd);
    expect_logged("the connection was closed");
    fd = call(&server); /* that it is none shows before */
    put(fd, noise, 4);
    expect_closed(fd);
    expect_logged("not a frame of estoc");
    /* Somebody looks whether the port is open: not worth a word. */
    fd = call(&server);
    shutdown(fd, SHUT_WR);
    expect_closed(fd);
    assert_false(log_has("refused a connection"));
    expect_alive(&server);
    net_test_stop(&server);
}

TEST(version)
{
    est_frame frame = { .kind = EST_FRAME_HELLO };
    uint8_t   bytes[EST_FRAME_BYTES];
    net_test  server;
    int       fd;

    start(&server, "tcp", NULL);
    est_frame_encode(&frame, bytes);
    bytes[4] = 9;
    fd       = call(&server);
    put(fd, bytes, sizeof bytes);
    expect_closed(fd);
    expect_logged("speaks version 9 of the protocol, this is version 3");
    net_test_stop(&server);
}

TEST(identity)
{
    char      head[EST_FAREWELL_MAX + 1];
    net_test  server, client;
    est_link *link;
    int       fd;

    start(&server, "tcp", NULL);
    fd = call(&server);
    put_hello(fd, 0, "another", "");
    assert_int_equal(get_frame(fd, head).kind, EST_FRAME_FAILURE);
    assert_string_equal(head + 4, "refused by ps:0: stranger belongs to job another, this task to job job");
    expect_closed(fd);
    fd = call(&server);
    put_hello(fd, 0, "job", "ps:1");
    assert_int_equal(get_frame(fd, head).kind, EST_FRAME_FAILURE);
    assert_string_equal(head + 4, "refused by ps:0: stranger looks for ps:1, but this is ps:0");
    expect_closed(fd);

    net_test_start(&client, "tcp", "worker:0", &(est_net_options){ .self.job = "mine" });
    net_expect(est_net_connect(client.net, server.address, NULL, NET_TEST_SECS, &link), EST_PERMISSION_DENIED,
               "refused by ps:0: worker:0 belongs to job mine, this task to job job");
    net_test_stop(&client);
    fd = call(&server);
    put_hello(fd, 0, "", "");
    assert_int_equal(get_frame(fd, head).kind, EST_FRAME_FAILURE);
    assert_string_equal(head + 4, "refused by ps:0: stranger belongs to no job (set ESTOC_JOB), this task to job job");
    expect_closed(fd);
    net_test_start(&client, "tcp", "worker:0", NULL);
    net_expect(est_net_connect(client.net, server.address, "ps:1", NET_TEST_SECS, &link), EST_FAILED_PRECONDITION,
               "refused by ps:0: worker:0 looks for ps:1, but this is ps:0");
    assert_int_equal(server.n_met, 0);
    assert_int_equal(client.n_met, 0);
    net_test_stop(&client);
    expect_alive(&server);
    net_test_stop(&server);
}

TEST(order)
{
    char     head[EST_FAREWELL_MAX + 1], big[1500] = { 0 };
    net_test server;
    int      fd;

    start(&server, "tcp", NULL);
    fd = call(&server); /* a request before hello */
    put_frame(fd, (est_frame){ .kind = EST_FRAME_REQUEST }, NULL);
    expect_closed(fd);
    expect_logged("it sent data before its hello");
    fd = call(&server); /* a hello that is too large */
    put_frame(fd, (est_frame){ .kind = EST_FRAME_HELLO, .head_size = sizeof big }, big);
    expect_closed(fd);
    expect_logged("it sent data before its hello");
    fd = call(&server); /* a hello that is none */
    put_frame(fd, (est_frame){ .kind = EST_FRAME_HELLO, .head_size = 10 }, big);
    expect_closed(fd);
    expect_logged("a hello has 10 bytes");
    fd = call(&server); /* a failure, which only who was called may send */
    put_frame(fd, (est_frame){ .kind = EST_FRAME_FAILURE, .head_size = 10 }, big);
    expect_closed(fd);
    expect_logged("it sent data before its hello");

    for (int i = 0; i < 3; i++) {
        static const char *const why[] = { "received frame 0 instead of 1", "received frame 2 instead of 1",
                                           "it sent a second hello" };

        fd = call(&server);
        put_hello(fd, 0, "job", "");
        assert_int_equal(get_frame(fd, head).kind, EST_FRAME_HELLO);
        if (i < 2) put_frame(fd, (est_frame){ .kind = EST_FRAME_BEAT, .sequence = i == 0 ? 0 : 2 }, NULL);
        if (i == 2) put_hello(fd, 1, "job", "");
        expect_closed(fd);
        net_test_wait(&server, &server.n_lost, i + 1);
        if (strstr(server.why, why[i]) == NULL) fail_msg("\"%s\" instead of \"%s\"", server.why, why[i]);
    }
    snprintf(server.why, sizeof server.why, "tcp");
    expect_alive(&server);
    net_test_stop(&server);
}

TEST(oversized)
{
    char     head[EST_FAREWELL_MAX + 1];
    net_test server;
    int      fd;

    start(&server, "tcp", &(est_net_options){ .message_max = 1000000 });
    fd = call(&server);
    put_hello(fd, 0, "job", "");
    assert_int_equal(get_frame(fd, head).kind, EST_FRAME_HELLO);
    put_frame(fd, (est_frame){ .kind = EST_FRAME_REQUEST, .sequence = 1, .body_size = 2000000 }, NULL);
    expect_closed(fd);
    net_test_wait(&server, &server.n_lost, 1);
    assert_string_equal(server.why, "a message of 2.0 MB was announced; 1.0 MB are allowed");
    net_test_stop(&server);

    start(&server, "tcp", NULL); /* nobody set a limit: terabytes are too much all the same */
    fd = call(&server);
    put_hello(fd, 0, "job", "");
    assert_int_equal(get_frame(fd, head).kind, EST_FRAME_HELLO);
    put_frame(fd, (est_frame){ .kind = EST_FRAME_REQUEST, .sequence = 1, .body_size = (uint64_t)1 << 45 }, NULL);
    expect_closed(fd);
    net_test_wait(&server, &server.n_lost, 1);
    if (strstr(server.why, "a message of 35184372.1 MB was announced; ") == NULL) fail_msg("\"%s\"", server.why);
    net_test_stop(&server);

    start(&server, "tcp", NULL); /* more than there is memory */
    fd = call(&server);
    put_hello(fd, 0, "job", "");
    assert_int_equal(get_frame(fd, head).kind, EST_FRAME_HELLO);
    net_test_wait(&server, &server.n_met, 1);
    est_fault_arm_alloc(1);
    put_frame(fd, (est_frame){ .kind = EST_FRAME_REQUEST, .sequence = 1, .body_size = 3000000 }, NULL);
    expect_closed(fd);
    net_test_wait(&server, &server.n_lost, 1);
    est_fault_arm_alloc(0);
    assert_string_equal(server.why, "out of memory (3145728 bytes)");
    net_test_stop(&server);
}

/* A peer that asks and does not fetch answers is not read from any more; when it does, it gets all of them. */
TEST(back_pressure)
{
    enum { N = 40 };

    const uint64_t    size = (uint64_t)4 << 20;
    char              head[EST_FAREWELL_MAX + 1];
    char             *body = malloc(size + 64);
    est_link_counters counters;
    net_test          server;
    int               fd;

    assert_non_null(body);
    start(&server, "tcp", NULL);
    fd = call(&server);
    put_hello(fd, 0, "job", "");
    assert_int_equal(get_frame(fd, head).kind, EST_FRAME_HELLO);
    net_test_wait(&server, &server.n_met, 1);
    for (uint64_t i = 0; i < N; i++) {
        /* not so many at once that one read takes them all */
        char      padded[1024] = { 0 };
        est_frame frame        = {
                   .kind = EST_FRAME_REQUEST, .sequence = 2 * i + 1, .method = NET_FILL, .id = i, .head_size = 8
        };

        memcpy(padded, &size, sizeof size);
        put_frame(fd, frame, padded);
        put_frame(fd, (est_frame){ .kind = EST_FRAME_ANSWER, .sequence = 2 * i + 2, .id = 12345, .head_size = 1024 },
                  padded);
    }
    for (int i = 0; i < N; i++) {
        uint8_t   bytes[EST_FRAME_BYTES];
        est_frame frame;

        do { /* beats may come between */
            assert_true(get(fd, bytes, sizeof bytes));
            net_check(est_frame_decode(bytes, EST_FRAME_BYTES, &frame));
        } while (frame.kind == EST_FRAME_BEAT);
        assert_int_equal(frame.kind, EST_FRAME_ANSWER);
        assert_int_equal(frame.id, i);
        assert_true(get(fd, body, (size_t)frame.body_size));
        counters = est_link_count(server.link);
        if (i == 0) assert_true(counters.requests_in < N);
    }
    assert_int_equal(counters.requests_in, N);
    close(fd);
    net_test_wait(&server, &server.n_lost, 1);
    net_test_stop(&server);
    free(body);
}

/* --- over tls ----------------------------------------------------------------------------------------------------- */

TEST(plain_text_to_tls)
{
    const char noise[200] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    net_test   server, client;
    est_link  *link;
    int        fd;

    start(&server, "tls", NULL);
    fd = call(&server);
    put(fd, noise, sizeof noise);
    expect_closed(fd);
    expect_logged("it does not speak TLS 1.3");
    fd = call(&server);
    put_hello(fd, 0, "job", "");
    expect_closed(fd);
    expect_logged("it does not speak TLS 1.3");

    net_test_start(&client, "tcp", "worker:0", NULL);
    net_expect(est_net_connect(client.net, server.address, NULL, 0.1, &link), EST_UNAVAILABLE,
               "does one side use tls and the other tcp?");
    net_test_stop(&client);
    expect_alive(&server);
    net_test_stop(&server);
}

/* Whether its end or a reset comes first is up to the network. */
TEST(tls_to_plain_text)
{
    net_test  server, client;
    est_link *link;

    start(&server, "tcp", NULL);
    net_test_start(&client, "tls", "worker:0", NULL);
    net_expect(est_net_connect(client.net, server.address, NULL, 0.1, &link), EST_UNAVAILABLE, "the TLS handshake");
    net_expect(est_net_connect(client.net, server.address, NULL, 0.1, &link), EST_UNAVAILABLE,
               "(does one side use tls and the other tcp?)");
    net_test_stop(&client);
    expect_alive(&server);
    net_test_stop(&server);
}

/* A handshake by OpenSSL itself, with a certificate of `folder` or none: whether a byte could be read, which never
 * is. */
static void shake_hands(net_test *server, const char *folder, int version)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL     *ssl;
    char     path[256], byte;
    int      fd = call(server);

    assert_non_null(ctx);
    SSL_CTX_set_max_proto_version(ctx, version);
    if (folder != NULL) {
        snprintf(path, sizeof path, "%s/cert.pem", folder);
        assert_int_equal(SSL_CTX_use_certificate_file(ctx, path, SSL_FILETYPE_PEM), 1);
        snprintf(path, sizeof path, "%s/key.pem", folder);
        assert_int_equal(SSL_CTX_use_PrivateKey_file(ctx, path, SSL_FILETYPE_PEM), 1);
    }
    ssl = SSL_new(ctx);
    assert_non_null(ssl);
    SSL_set_fd(ssl, fd);
    if (SSL_connect(ssl) == 1) assert_true(SSL_read(ssl, &byte, 1) <= 0); /* 1.3 learns of it only now */
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    ERR_clear_error();
    expect_closed(fd);
}

/* Makes `to` of a folder's certificate and key, with the authorities of two folders. */
static void trust_both(const char *to, const char *folder, const char *other)
{
    static const char *const names[] = { "cert.pem", "key.pem", "ca.pem" };
    const char *const        from[]  = { folder, folder, folder };
    char                     path[128], *bytes, *more;
    est_strbuf               both = { 0 };
    size_t                   size;

    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", from[i], names[i]);
        net_check(est_file_read(path, &bytes, &size));
        est_strbuf_reset(&both);
        est_strbuf_append_bytes(&both, bytes, size);
        est_free(bytes);
        if (i == 2) {
            snprintf(path, sizeof path, "%s/ca.pem", other);
            net_check(est_file_read(path, &more, &size));
            est_strbuf_append_bytes(&both, more, size);
            est_free(more);
        }
        snprintf(path, sizeof path, "%s/%s", to, names[i]);
        net_check(est_file_replace(path, est_strbuf_text(&both), both.size));
    }
    est_strbuf_clear(&both);
}

TEST(certificates)
{
    char      other[64], expired[64], both[64];
    net_test  server, client;
    est_link *link;
    est_net  *net;

    est_test_dir(other);
    est_test_dir(expired);
    est_test_dir(both);
    net_check(est_certificates_make(other, "job", 0));
    net_check(est_certificates_make(expired, "job", -1)); /* valid for no time at all, a day ago */
    trust_both(both, net_test_certificates(), expired);
    start(&server, "tls", &(est_net_options){ .certificates = both });
    shake_hands(&server, NULL, TLS1_3_VERSION);
    expect_logged("it presented no certificate");
    shake_hands(&server, other, TLS1_3_VERSION);
    expect_logged("(made by another `estoc certificates`? All tasks need the same folder)");
    shake_hands(&server, expired, TLS1_3_VERSION);
    expect_logged("its certificate is refused: certificate has expired");
    shake_hands(&server, net_test_certificates(), TLS1_2_VERSION);
    expect_logged("it does not speak TLS 1.3");

    /* Who does not trust us, and who trusts us but is not trusted, learns which. */
    net_test_start(&client, "tls", "worker:0", &(est_net_options){ .certificates = other });
    net_expect(est_net_connect(client.net, server.address, NULL, NET_TEST_SECS, &link), EST_UNAUTHENTICATED,
               "its certificate is refused: self-signed certificate in certificate chain "
               "(made by another `estoc certificates`? All tasks need the same folder)");
    net_test_stop(&client);
    trust_both(expired, other, net_test_certificates());
    net_test_start(&client, "tls", "worker:0", &(est_net_options){ .certificates = expired });
    net_expect(est_net_connect(client.net, server.address, NULL, NET_TEST_SECS, &link), EST_UNAUTHENTICATED,
               "unknown ca (made by another `estoc certificates`? All tasks need the same folder)");
    net_test_stop(&client);
    expect_alive(&server);
    net_test_stop(&server);

    /* A folder that would be refused by everybody is refused at once. */
    net_check(est_dir_remove(expired));
    net_check(est_certificates_make(expired, "job", -1));
    net_expect(est_net_create(&(est_net_options){ .transport = "tls", .certificates = expired }, &net),
               EST_FAILED_PRECONDITION, "cert.pem cannot be used with ca.pem beside it: certificate has expired");
    net_check(est_dir_remove(other));
    net_check(est_dir_remove(expired));
    net_check(est_dir_remove(both));
}

int main(void)
{
    return est_test_run(setup, net_test_teardown);
}
