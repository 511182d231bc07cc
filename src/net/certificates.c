/* SPDX-License-Identifier: Apache-2.0
 *
 * Certificates by OpenSSL: keys on the curve P-256, signed with SHA-256. */
#include "net/certificates.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "base/fault.h"
#include "base/file.h"

#define DAYS     365
#define DAY_SECS 86400

static bool extend(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX      context;
    X509_EXTENSION *extension;
    bool            done;

    X509V3_set_ctx(&context, issuer, cert, NULL, NULL, 0);
    extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    done      = extension != NULL && X509_add_ext(cert, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return done;
}

static bool set_name(X509 *cert, const char *job, const char *role)
{
    X509_NAME *name = X509_get_subject_name(cert);
    char       common[65]; /* what X.509 allows, and its end */

    snprintf(common, sizeof common, "estoc %s", role);
    return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)common, -1, -1, 0) == 1 &&
           (*job == '\0' ||
            X509_NAME_add_entry_by_txt(name, "O", MBSTRING_UTF8, (const unsigned char *)job, -1, -1, 0) == 1);
}

static bool set_serial(X509 *cert)
{
    unsigned char random[16];
    BIGNUM       *number = RAND_bytes(random, sizeof random) == 1 ? BN_bin2bn(random, sizeof random, NULL) : NULL;
    bool          done   = number != NULL && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert)) != NULL;

    BN_free(number);
    return done;
}

/* A certificate for `key`; of the authority itself when issuer is NULL. NULL on failure. */
static X509 *sign(EVP_PKEY *key, X509 *issuer, EVP_PKEY *issuer_key, const char *job, int days)
{
    X509 *cert = X509_new();
    bool  own  = issuer == NULL;

    if (cert == NULL) return NULL;
    if (own) issuer = cert;
    if (X509_set_version(cert, X509_VERSION_3) == 1 && set_serial(cert) &&
        set_name(cert, job, own ? "authority" : "task") &&
        X509_set_issuer_name(cert, X509_get_subject_name(issuer)) == 1 &&
        X509_gmtime_adj(X509_getm_notBefore(cert), -DAY_SECS) != NULL &&
        X509_time_adj_ex(X509_getm_notAfter(cert), days, 0, NULL) != NULL && X509_set_pubkey(cert, key) == 1 &&
        extend(cert, issuer, NID_basic_constraints, own ? "critical,CA:TRUE,pathlen:0" : "critical,CA:FALSE") &&
        extend(cert, issuer, NID_key_usage, own ? "critical,keyCertSign" : "critical,digitalSignature") &&
        (own || extend(cert, issuer, NID_ext_key_usage, "serverAuth,clientAuth")) &&
        extend(cert, issuer, NID_subject_key_identifier, "hash") &&
        (own || extend(cert, issuer, NID_authority_key_identifier, "keyid:always")) &&
        X509_sign(cert, issuer_key, EVP_sha256()) > 0) {
        return cert;
    }
    X509_free(cert);
    return NULL;
}

static est_status write_file(const char *folder, const char *name, BIO *text, mode_t mode)
{
    char      *bytes;
    long       size = BIO_get_mem_data(text, &bytes);
    char       path[4096];
    est_status status;
    int        fd;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    fd = EST_FAULT_POINT("net.certificates") ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0) return est_fail(est_status_from_errno(errno), "cannot make %s: %s", path, strerror(errno));
    status = est_file_write_all(fd, path, bytes, (size_t)size);
    if (status == EST_OK) status = est_file_sync(fd, path);
    close(fd);
    if (status != EST_OK) unlink(path);
    return status;
}

typedef struct papers {
    EVP_PKEY *authority_key, *key;
    X509     *authority, *cert;
    BIO      *authority_text, *cert_text, *key_text;
} papers;

static bool make_papers(papers *p, const char *job, int days)
{
    p->authority_key  = EVP_EC_gen("P-256");
    p->key            = EVP_EC_gen("P-256");
    p->authority_text = BIO_new(BIO_s_mem());
    p->cert_text      = BIO_new(BIO_s_mem());
    p->key_text       = BIO_new(BIO_s_mem());
    if (p->authority_key == NULL || p->key == NULL || p->authority_text == NULL || p->cert_text == NULL ||
        p->key_text == NULL) {
        return false;
    }
    p->authority = sign(p->authority_key, NULL, p->authority_key, job, days);
    if (p->authority == NULL) return false;
    p->cert = sign(p->key, p->authority, p->authority_key, job, days);
    return p->cert != NULL && PEM_write_bio_X509(p->authority_text, p->authority) == 1 &&
           PEM_write_bio_X509(p->cert_text, p->cert) == 1 &&
           PEM_write_bio_PrivateKey(p->key_text, p->key, NULL, NULL, 0, NULL, NULL) == 1;
}

static void clear_papers(papers *p)
{
    EVP_PKEY_free(p->authority_key);
    EVP_PKEY_free(p->key);
    X509_free(p->authority);
    X509_free(p->cert);
    BIO_free(p->authority_text);
    BIO_free(p->cert_text);
    BIO_free(p->key_text);
}

static est_status write_papers(const papers *p, const char *folder)
{
    const struct {
        const char *name;
        BIO        *text;
        mode_t      mode;
    } files[]         = { { "ca.pem", p->authority_text, 0644 },
                          { "cert.pem", p->cert_text, 0644 },
                          { "key.pem", p->key_text, 0600 } };
    bool       is_new = !est_dir_exists(folder);
    est_status status = est_dir_create(folder);
    int        n      = 0;

    for (; n < 3 && status == EST_OK; n++) status = write_file(folder, files[n].name, files[n].text, files[n].mode);
    if (status == EST_OK) return EST_OK;
    /* Removes the files of a failed attempt, which would stop the next one. The last was not written. */
    for (int i = 0; i < n - 1; i++) {
        char path[4096];

        snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
        unlink(path);
    }
    if (is_new) rmdir(folder);
    return status;
}

est_status est_certificates_make(const char *folder, const char *job, int days)
{
    papers     p = { 0 };
    est_status status;

    if (make_papers(&p, job, days == 0 ? DAYS : days)) {
        status = write_papers(&p, folder);
    } else {
        unsigned long error = ERR_peek_error();

        status = est_fail(EST_INTERNAL, "cannot make certificates: %s",
                          error != 0 ? ERR_reason_error_string(error) : "no memory");
    }
    ERR_clear_error();
    clear_papers(&p);
    return status;
}
