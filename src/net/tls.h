/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS 1.3 over a socket that does not block, with certificates on both sides that the job's own authority has signed.
 * Host names are not compared: every holder of a certificate of the job belongs to the job. No tickets, no early data:
 * every connection presents its certificate.
 *
 * A session belongs to one thread at a time. Bytes to be sent are encrypted into memory of the session, from where the
 * caller sends them; bytes that come are read from the socket. */
#ifndef EST_NET_TLS_H
#define EST_NET_TLS_H

#include <stdbool.h>
#include <sys/uio.h>

#include "estoc/status.h"

typedef struct est_tls_context est_tls_context;
typedef struct est_tls         est_tls;

#define EST_TLS_WHY_MAX 256

/* Reads ca.pem, cert.pem and key.pem of the folder. EST_FAILED_PRECONDITION: they are expired or do not fit each
 * other. */
EST_MUST_CHECK est_status est_tls_context_create(const char *folder, est_tls_context **out);
void                      est_tls_context_free(est_tls_context *context); /* NULL is fine */

/* The context and the descriptor are borrowed until it is freed. */
EST_MUST_CHECK est_status est_tls_create(est_tls_context *context, int fd, bool server, est_tls **out);
void                      est_tls_free(est_tls *tls); /* NULL is fine */

typedef enum est_tls_result {
    EST_TLS_DONE,
    EST_TLS_WAIT,   /* wait until the socket is readable */
    EST_TLS_CLOSED, /* by the peer */
    EST_TLS_BROKEN  /* see est_tls_why */
} est_tls_result;

est_tls_result est_tls_shake_hands(est_tls *tls);

/* Decrypts up to `size` bytes into `to`. */
est_tls_result est_tls_read(est_tls *tls, void *to, size_t size, size_t *got);

/* Whether bytes were read from the socket that est_tls_read has not returned yet. */
bool est_tls_has_more(const est_tls *tls);

/* Encrypts some of the bytes: how many; -1: the session is broken. */
ssize_t est_tls_encrypt(est_tls *tls, const struct iovec *iov, int n);

/* The ciphertext to send; marks `n` bytes of it as sent. */
size_t est_tls_pending(const est_tls *tls, const void **bytes);
void   est_tls_sent(est_tls *tls, size_t n);

/* Why it broke, as the end of a sentence; whether the cause is a certificate, so that a retry would not help. */
const char *est_tls_why(const est_tls *tls, bool *refused);

#endif
