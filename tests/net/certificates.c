/* SPDX-License-Identifier: Apache-2.0
 *
 * Certificates of a job: which files there are, who may read the key, what they say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/fault.h"
#include "base/file.h"
#include "net/certificates.h"

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

static void test_make(void **state)
{
    char        folder[64] = "/tmp/est-cert-XXXXXX", path[128], name[128];
    X509       *authority, *cert;
    EVP_PKEY   *key;
    struct stat info;
    int         days, secs;

    (void)state;
    assert_non_null(mkdtemp(folder));
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

static void test_limits(void **state)
{
    char folder[64] = "/tmp/est-cert-XXXXXX", job[100];

    (void)state;
    assert_non_null(mkdtemp(folder));
    memset(job, 'j', sizeof job);
    job[63] = '\0'; /* the longest name of a job */
    assert_int_equal(est_certificates_make(folder, job, 1), EST_OK);
    assert_int_equal(est_dir_remove(folder), EST_OK);
    assert_int_equal(est_certificates_make(folder, "", 1), EST_OK);
    assert_int_equal(est_dir_remove(folder), EST_OK);
    est_fault_arm(1);
    while (est_certificates_make(folder, "", 1) != EST_OK) {
        assert_true(est_fault_fired());
        assert_int_equal(est_dir_remove(folder), EST_OK);
        est_fault_arm(est_fault_hits() + 1);
    }
    est_fault_arm(0);
    assert_int_equal(est_dir_remove(folder), EST_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_make), cmocka_unit_test(test_limits) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
