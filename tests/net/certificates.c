/* SPDX-License-Identifier: Apache-2.0
 *
 * Certificates of a job: which files there are, who may read the key, what they say. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "net/certificates.h"
#include "net/tls.h"
#include "support/dir_test.h"
#include "support/fault_loop.h"
#include "support/log_test.h"
#include "support/test.h"

static X509 *read_certificate(const char *folder, const char *name)
{
    char  path[256];
    FILE *file;
    X509 *cert;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "r");
    assert_non_null(file);
    cert = PEM_read_X509(file, NULL, NULL, NULL);
    fclose(file);
    assert_non_null(cert);
    return cert;
}

TEST(make)
{
    char        folder[64], path[128], name[128];
    X509       *authority, *cert;
    EVP_PKEY   *key;
    struct stat info;
    int         days, secs;

    est_test_dir(folder);
    snprintf(path, sizeof path, "%s/new/deeper", folder);
    assert_int_equal(est_certificates_make(path, "ads", 0), EST_OK);
    authority = read_certificate(path, "ca.pem");
    cert      = read_certificate(path, "cert.pem");
    key       = X509_get_pubkey(authority);
    assert_int_equal(X509_verify(cert, key), 1);
    EVP_PKEY_free(key);
    assert_int_equal(X509_check_ca(authority), 1);
    assert_int_equal(X509_check_ca(cert), 0);
    assert_true(X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_organizationName, name, sizeof name) > 0);
    assert_string_equal(name, "ads");
    assert_int_equal(ASN1_TIME_diff(&days, &secs, X509_get0_notBefore(cert), X509_get0_notAfter(cert)), 1);
    assert_int_equal(days, 366);
    X509_free(authority);
    X509_free(cert);
    snprintf(path, sizeof path, "%s/new/deeper/key.pem", folder);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);

    /* Existing ones are not replaced: a job that runs uses them. */
    snprintf(path, sizeof path, "%s/new/deeper", folder);
    assert_int_equal(est_certificates_make(path, "ads", 0), EST_ALREADY_EXISTS);
    assert_non_null(strstr(est_error_message(), "ca.pem"));
    assert_int_equal(est_dir_remove(folder), EST_OK);
}

/* A failure leaves nothing of its own, and what was there before. */
TEST(failure_leaves_nothing)
{
    char folder[64], path[128];

    est_test_dir(folder);
    snprintf(path, sizeof path, "%s/key.pem", folder);
    assert_int_equal(est_file_replace(path, "mine", 4), EST_OK);
    assert_int_equal(est_certificates_make(folder, "", 1), EST_ALREADY_EXISTS);
    assert_true(est_file_exists(path));
    snprintf(path, sizeof path, "%s/ca.pem", folder);
    assert_false(est_file_exists(path));
    snprintf(path, sizeof path, "%s/cert.pem", folder);
    assert_false(est_file_exists(path));
    assert_int_equal(est_dir_remove(folder), EST_OK);
}

/* A key that others can read is warned of, once. */
TEST(open_key)
{
    char             folder[64], path[128];
    est_tls_context *context;

    est_test_dir(folder);
    assert_int_equal(est_certificates_make(folder, "", 1), EST_OK);
    snprintf(path, sizeof path, "%s/key.pem", folder);
    log_keep(EST_LOG_WARN);
    for (int i = 0; i < 3; i++) {
        if (i == 1) assert_int_equal(chmod(path, 0640), 0);
        assert_int_equal(est_tls_context_create(folder, &context), EST_OK);
        est_tls_context_free(context);
        assert_int_equal(log_count(EST_LOG_WARN, "key.pem can be read by others (mode 0640)"), i > 0 ? 1 : 0);
    }
    log_release();
    assert_int_equal(est_dir_remove(folder), EST_OK);
}

TEST(limits)
{
    char folder[64], job[100];

    est_test_dir(folder);
    memset(job, 'j', sizeof job);
    job[63] = '\0'; /* the longest name of a job */
    assert_int_equal(est_certificates_make(folder, job, 1), EST_OK);
    assert_int_equal(est_dir_remove(folder), EST_OK);
    assert_int_equal(est_certificates_make(folder, "", 1), EST_OK);
    assert_int_equal(est_dir_remove(folder), EST_OK);
    FAULT_LOOP(f, FAULT_POINTS) {
        est_status status;

        fault_arm(&f);
        status = est_certificates_make(folder, "", 1);
        assert_int_equal(status != EST_OK, fault_end(&f));
        assert_int_equal(est_file_exists(folder), status == EST_OK); /* it was not there before */
    }
    assert_int_equal(est_dir_remove(folder), EST_OK);
}
