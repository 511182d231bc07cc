/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS by OpenSSL. Reading is from the socket itself, as many records at once as OpenSSL's buffer holds. Writing is into
 * a buffer of ours through a BIO of a few lines, because OpenSSL's memory BIO clears and moves what it holds.
 *
 * Memory is taken as late as possible, because anyone can connect: a session when the first bytes have come, large
 * buffers when hands are shaken. */
#include "net/tls.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/log.h"

#define RECORD_BYTES  ((size_t)16 << 10)  /* plaintext of a record */
#define ROUND_BYTES   ((size_t)256 << 10) /* plaintext that is encrypted before it is sent */
#define READ_BYTES    ((size_t)128 << 10) /* ciphertext that is read at once */
#define REKEY_BYTES   (UINT64_C(1) << 36) /* far below what one key of AES-GCM may encrypt */
#define ALERT_REASONS 1000                /* reasons from here on are alerts that the peer sent */

struct est_tls_context {
    SSL_CTX    *ctx;
    BIO_METHOD *method; /* of the BIO that is written to */
};

struct est_tls {
    est_tls_context *context; /* borrowed */
    int              fd;
    SSL             *ssl; /* NULL: no handshake has begun */
    uint8_t         *out; /* ciphertext: [sent, n_out) waits to be sent */
    size_t           n_out, sent, room;
    uint64_t         keyed_bytes; /* encrypted with the present key */
    bool             server, refused;
    bool             grown; /* the buffer that OpenSSL reads into */
    char             why[EST_TLS_WHY_MAX];
    uint8_t         *record; /* RECORD_BYTES: small pieces are put together to records; NULL: none were yet */
};

/* --- the BIO ------------------------------------------------------------------------------------------------------ */

static int bio_write(BIO *bio, const char *bytes, size_t size, size_t *written)
{
    est_tls *tls = BIO_get_data(bio);

    if (tls->n_out + size > tls->room) {
        size_t   room = 2 * tls->room > tls->n_out + size ? 2 * tls->room : tls->n_out + size;
        uint8_t *out  = est_realloc(tls->out, room);

        if (out == NULL) return 0;
        tls->out  = out;
        tls->room = room;
    }
    memcpy(tls->out + tls->n_out, bytes, size);
    tls->n_out += size;
    *written = size;
    return 1;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

static int bio_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

/* --- the context -------------------------------------------------------------------------------------------------- */

/* The reason that OpenSSL gave last, and forgets. */
static const char *openssl_reason(void)
{
    unsigned long error = ERR_peek_last_error();
    const char   *text  = error != 0 ? ERR_reason_error_string(error) : NULL;

    ERR_clear_error();
    return text != NULL ? text : "unknown reason";
}

/* Why a file could not be used. For an unreadable one OpenSSL gives only a system error. */
static const char *file_reason(const char *path)
{
    const char *text = openssl_reason();

    return access(path, R_OK) == 0 ? text : strerror(errno);
}

/* Our own certificate as a peer will see it: signed by the authority, and not expired. */
static est_status check_own(SSL_CTX *ctx, const char *folder)
{
    X509_STORE_CTX *store  = X509_STORE_CTX_new();
    est_status      status = EST_OK;

    if (store == NULL ||
        X509_STORE_CTX_init(store, SSL_CTX_get_cert_store(ctx), SSL_CTX_get0_certificate(ctx), NULL) != 1) {
        status = est_no_memory();
    } else if (X509_verify_cert(store) != 1) {
        status = est_fail(EST_FAILED_PRECONDITION, "%s/cert.pem cannot be used with ca.pem beside it: %s", folder,
                          X509_verify_cert_error_string(X509_STORE_CTX_get_error(store)));
    }
    X509_STORE_CTX_free(store);
    ERR_clear_error();
    return status;
}

/* As ssh: our own key must not be readable by our group, nor any key by everybody. A key of another owner may be
 * shared with a group, as Kubernetes does. */
static void warn_of_open_key(const char *path)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards warned */
    static bool            warned;
    struct stat            info;
    bool                   again;

    if (stat(path, &info) != 0) return;
    if (!(info.st_mode & S_IROTH) && !(info.st_uid == geteuid() && (info.st_mode & S_IRGRP))) return;
    pthread_mutex_lock(&lock);
    again  = warned;
    warned = true;
    pthread_mutex_unlock(&lock);
    if (again) return;
    est_log_warn("%s can be read by others (mode %04o): anyone with it can join the job; chmod 600 it", path,
                 (unsigned)info.st_mode & 07777);
}

static est_status load(SSL_CTX *ctx, const char *folder)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/ca.pem", folder);
    if (SSL_CTX_load_verify_file(ctx, path) != 1) {
        return est_fail(EST_FAILED_PRECONDITION, "cannot use the authority %s: %s", path, file_reason(path));
    }
    snprintf(path, sizeof path, "%s/cert.pem", folder);
    if (SSL_CTX_use_certificate_chain_file(ctx, path) != 1) {
        return est_fail(EST_FAILED_PRECONDITION, "cannot use the certificate %s: %s", path, file_reason(path));
    }
    snprintf(path, sizeof path, "%s/key.pem", folder);
    if (SSL_CTX_use_PrivateKey_file(ctx, path, SSL_FILETYPE_PEM) != 1 || SSL_CTX_check_private_key(ctx) != 1) {
        return est_fail(EST_FAILED_PRECONDITION, "cannot use the key %s: %s", path, file_reason(path));
    }
    warn_of_open_key(path);
    return check_own(ctx, folder);
}

static est_status configure(est_tls_context *context)
{
    SSL_CTX *ctx = context->ctx;

    if (ctx == NULL || context->method == NULL || BIO_meth_set_write_ex(context->method, bio_write) != 1 ||
        BIO_meth_set_ctrl(context->method, bio_control) != 1 || BIO_meth_set_create(context->method, bio_create) != 1 ||
        SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256") !=
            1 ||
        SSL_CTX_set_num_tickets(ctx, 0) != 1) {
        return est_fail(EST_RESOURCE_EXHAUSTED, "cannot set TLS up: %s", openssl_reason());
    }
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_options(ctx, SSL_OP_IGNORE_UNEXPECTED_EOF); /* a link ends with a frame of its own */
    SSL_CTX_set_read_ahead(ctx, 1);
    return EST_OK;
}

static est_status create_context(const char *folder, est_tls_context **out)
{
    est_tls_context *context = est_zalloc(sizeof *context);
    est_status       status;

    if (context == NULL) return est_no_memory();
    context->ctx    = SSL_CTX_new(TLS_method());
    context->method = BIO_meth_new(BIO_TYPE_SOURCE_SINK | 0x70, "estoc");
    status          = configure(context);
    if (status == EST_OK) status = load(context->ctx, folder);
    if (status != EST_OK) {
        est_tls_context_free(context);
        return status;
    }
    *out = context;
    return EST_OK;
}

/* Another process may replace the files while they are read: a second look then finds those that belong together. */
est_status est_tls_context_create(const char *folder, est_tls_context **out)
{
    est_status status;

    if (folder == NULL) {
        return est_fail(
            EST_INVALID_ARGUMENT,
            "the transport tls needs certificates, unless all tasks are on this machine. Run `estoc certificates "
            "certs` once, copy the folder to every machine, and run `export ESTOC_CERTS=certs` before each task; or "
            "set ESTOC_PROTOCOL=tcp to go without protection");
    }
    status = create_context(folder, out);
    return status == EST_FAILED_PRECONDITION ? create_context(folder, out) : status;
}

void est_tls_context_free(est_tls_context *context)
{
    if (context == NULL) return;
    SSL_CTX_free(context->ctx);
    BIO_meth_free(context->method);
    est_free(context);
}

/* --- sessions ----------------------------------------------------------------------------------------------------- */

est_status est_tls_create(est_tls_context *context, int fd, bool server, est_tls **out)
{
    est_tls *tls = est_zalloc(sizeof *tls);

    if (tls == NULL) return est_no_memory();
    tls->context = context;
    tls->fd      = fd;
    tls->server  = server;
    *out         = tls;
    return EST_OK;
}

static bool begin_session(est_tls *tls)
{
    SSL *ssl = EST_FAULT_POINT("net.tls") ? NULL : SSL_new(tls->context->ctx);
    BIO *in  = BIO_new_socket(tls->fd, BIO_NOCLOSE);
    BIO *to  = BIO_new(tls->context->method);

    if (ssl == NULL || in == NULL || to == NULL) {
        BIO_free(in);
        BIO_free(to);
        SSL_free(ssl);
        ERR_clear_error();
        snprintf(tls->why, sizeof tls->why, "no memory for a TLS session");
        return false;
    }
    BIO_set_data(to, tls);
    SSL_set_bio(ssl, in, to);
    if (tls->server) {
        SSL_set_accept_state(ssl);
    } else {
        SSL_set_connect_state(ssl);
    }
    tls->ssl = ssl;
    return true;
}

/* A handshake needs a buffer of one record; from now on many are read at once. Waits until the old buffer is empty. */
static void grow_buffer(est_tls *tls)
{
    if (tls->grown || SSL_free_buffers(tls->ssl) != 1) return;
    SSL_set_default_read_buffer_len(tls->ssl, READ_BYTES);
    tls->grown = true;
}

void est_tls_free(est_tls *tls)
{
    if (tls == NULL) return;
    SSL_free(tls->ssl);
    ERR_clear_error();
    est_free(tls->out);
    est_free(tls->record);
    est_free(tls);
}

/* Advice for a certificate of another authority. */
static const char *hint(bool is_other_authority)
{
    return is_other_authority ? " (made by another `estoc certificates`? All tasks need the same folder)" : "";
}

/* Describes an error of OpenSSL. */
static est_tls_result broken(est_tls *tls, const char *doing)
{
    unsigned long error  = ERR_peek_error();
    int           reason = ERR_GET_REASON(error);
    long          verify = SSL_get_verify_result(tls->ssl);
    const char   *text   = error != 0 ? ERR_reason_error_string(error) : NULL;

    if (error == 0 && errno != 0) text = strerror(errno);
    if (text == NULL) text = "unknown reason";
    tls->refused = true;
    if (error != 0 && verify != X509_V_OK) {
        snprintf(tls->why, sizeof tls->why, "its certificate is refused: %s%s", X509_verify_cert_error_string(verify),
                 hint(verify == X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN ||
                      verify == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY));
    } else if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
        snprintf(tls->why, sizeof tls->why, "it presented no certificate");
    } else if (error != 0 && reason >= ALERT_REASONS) {
        snprintf(tls->why, sizeof tls->why, "it refuses our certificate: %s%s", text,
                 hint(reason == SSL_R_TLSV1_ALERT_UNKNOWN_CA));
    } else if (error != 0 && !SSL_is_init_finished(tls->ssl)) {
        snprintf(tls->why, sizeof tls->why, "it does not speak TLS 1.3 (%s)", text);
    } else {
        tls->refused = false;
        snprintf(tls->why, sizeof tls->why, "%s: %s", doing, text);
    }
    ERR_clear_error();
    return EST_TLS_BROKEN;
}

static est_tls_result result_of(est_tls *tls, int returned, const char *doing)
{
    switch (SSL_get_error(tls->ssl, returned)) {
    case SSL_ERROR_NONE: return EST_TLS_DONE;
    case SSL_ERROR_WANT_READ: return EST_TLS_WAIT;
    case SSL_ERROR_ZERO_RETURN: return EST_TLS_CLOSED;
    default: return broken(tls, doing);
    }
}

est_tls_result est_tls_shake_hands(est_tls *tls)
{
    if (tls->ssl == NULL && !begin_session(tls)) return EST_TLS_BROKEN;
    ERR_clear_error();
    errno = 0;
    return result_of(tls, SSL_do_handshake(tls->ssl),
                     "the TLS handshake failed (does one side use tls and the other tcp?)");
}

est_tls_result est_tls_read(est_tls *tls, void *to, size_t size, size_t *got)
{
    grow_buffer(tls);
    ERR_clear_error();
    errno = 0;
    *got  = 0;
    return result_of(tls, SSL_read_ex(tls->ssl, to, size, got), "reading failed");
}

bool est_tls_has_more(const est_tls *tls)
{
    return SSL_has_pending(tls->ssl) == 1;
}

static bool encrypt(est_tls *tls, const void *bytes, size_t size)
{
    size_t written = 0;

    /* The session writes to memory, so a write is complete or fails for good. */
    return size == 0 || (SSL_write_ex(tls->ssl, bytes, size, &written) == 1 && written == size);
}

ssize_t est_tls_encrypt(est_tls *tls, const struct iovec *iov, int n)
{
    size_t taken = 0, gathered = 0;
    bool   fine = true;

    ERR_clear_error();
    errno = 0;
    if (tls->record == NULL && (tls->record = est_alloc(RECORD_BYTES)) == NULL) {
        snprintf(tls->why, sizeof tls->why, "no memory to encrypt");
        return -1;
    }
    if (tls->keyed_bytes > REKEY_BYTES) {
        fine             = SSL_key_update(tls->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1;
        tls->keyed_bytes = 0;
    }
    for (int i = 0; i < n && fine && taken < ROUND_BYTES; i++) {
        size_t size = iov[i].iov_len < ROUND_BYTES - taken ? iov[i].iov_len : ROUND_BYTES - taken;

        if (gathered + size <= RECORD_BYTES) {
            if (size > 0) memcpy(tls->record + gathered, iov[i].iov_base, size);
            gathered += size;
        } else {
            fine     = encrypt(tls, tls->record, gathered) && encrypt(tls, iov[i].iov_base, size);
            gathered = 0;
        }
        taken += size;
        if (size < iov[i].iov_len) break;
    }
    if (fine) fine = encrypt(tls, tls->record, gathered);
    if (!fine) {
        (void)broken(tls, "encrypting failed");
        return -1;
    }
    tls->keyed_bytes += taken;
    return (ssize_t)taken;
}

size_t est_tls_pending(const est_tls *tls, const void **bytes)
{
    *bytes = tls->out != NULL ? tls->out + tls->sent : NULL;
    return tls->n_out - tls->sent;
}

void est_tls_sent(est_tls *tls, size_t n)
{
    tls->sent += n;
    if (tls->sent == tls->n_out) tls->sent = tls->n_out = 0;
}

const char *est_tls_why(const est_tls *tls, bool *refused)
{
    *refused = tls->refused;
    return tls->why;
}
