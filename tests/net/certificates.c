/* SPDX-License-Identifier: Apache-2.0
 *
 * Certificates of a job: which files there are, who may read the key, what they say. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* --- of a user ---------------------------------------------------------------------------------------------------- */

/* The certificate in a folder, for comparisons. */
static void read_text(const char *folder, char out[4096])
{
    char   path[PATH_MAX + 16];
    FILE  *file;
    size_t n;

    snprintf(path, sizeof path, "%s/cert.pem", folder);
    file = fopen(path, "re");
    assert_non_null(file);
    n = fread(out, 1, 4095, file);
    fclose(file);
    out[n] = '\0';
    assert_true(n > 0);
}

/* Runs in a process of its own: waits for the end of `go`, and writes the certificate that it finds to `out`. */
static void find_in_child(int go, int out)
{
    char folder[PATH_MAX], text[4096], byte;

    while (read(go, &byte, 1) > 0) continue;
    if (est_certificates_of_user(folder, sizeof folder) != EST_OK) _exit(1);
    read_text(folder, text);
    _exit(write(out, text, sizeof text) == (ssize_t)sizeof text ? 0 : 1);
}

/* Many processes that start at the same time use the same certificates. */
TEST(made_once)
{
    enum { N = 8 };
    char  top[64], texts[N][4096];
    int   go[2], out[N][2];
    pid_t pids[N];

    est_test_dir(top);
    assert_int_equal(setenv("XDG_STATE_HOME", top, 1), 0);
    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    for (int i = 0; i < N; i++) {
        assert_int_equal(pipe2(out[i], O_CLOEXEC), 0);
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            close(go[1]);
            find_in_child(go[0], out[i][1]);
        }
    }
    close(go[0]);
    close(go[1]);
    for (int i = 0; i < N; i++) {
        int status;

        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
        memset(texts[i], 0, sizeof texts[i]);
        assert_true(read(out[i][0], texts[i], sizeof texts[i]) > 0);
        assert_string_equal(texts[i], texts[0]);
        close(out[i][0]);
        close(out[i][1]);
    }
    est_test_dir_remove(top);
}

TEST(user_directory)
{
    char        top[64], root[128], folder[PATH_MAX], text[PATH_MAX + 16], before[4096];
    struct stat info;

    est_test_dir(top);
    assert_int_equal(setenv("XDG_STATE_HOME", top, 1), 0);
    assert_int_equal(est_certificates_of_user(folder, sizeof folder), EST_OK);
    snprintf(root, sizeof root, "%s/estoc", top);
    assert_int_equal(stat(root, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0700);
    read_text(folder, before);

    /* Nobody else may have access, or have had it. */
    assert_int_equal(chmod(root, 0710), 0);
    assert_int_equal(est_certificates_of_user(folder, sizeof folder), EST_PERMISSION_DENIED);
    assert_non_null(strstr(est_error_message(), "has mode 0710, but keys need a directory of user"));
    assert_int_equal(chmod(root, 0700), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(root, 65534, 65534), 0);
        assert_int_equal(est_certificates_of_user(folder, sizeof folder), EST_PERMISSION_DENIED);
        assert_non_null(strstr(est_error_message(), "belongs to user 65534"));
        assert_null(strstr(est_error_message(), "chmod"));
        assert_int_equal(chown(root, 0, 0), 0);
    }

    /* Expired and incomplete ones are made again; what a killed process left is in nobody's way. */
    assert_int_equal(est_dir_remove(folder), EST_OK);
    assert_int_equal(est_certificates_make(folder, "localhost", -1), EST_OK);
    snprintf(text, sizeof text, "%s/new", root);
    assert_int_equal(est_certificates_make(text, "localhost", 1), EST_OK);
    assert_int_equal(est_certificates_of_user(folder, sizeof folder), EST_OK);
    read_text(folder, text);
    assert_string_not_equal(text, before);
    memcpy(before, text, sizeof before);
    assert_int_equal(est_certificates_of_user(folder, sizeof folder), EST_OK);
    read_text(folder, text);
    assert_string_equal(text, before);
    snprintf(text, sizeof text, "%s/key.pem", folder);
    assert_int_equal(unlink(text), 0);
    assert_int_equal(est_certificates_of_user(folder, sizeof folder), EST_OK);
    assert_true(est_file_exists(text));
    est_test_dir_remove(top);
}

static void check_usable(const char *folder)
{
    est_tls_context *context = NULL;

    assert_int_equal(est_tls_context_create(folder, &context), EST_OK);
    est_tls_context_free(context);
}

/* Files that are cut, or of two generations, are made again. */
TEST(user_damage)
{
    static const char *const names[] = { "ca.pem", "cert.pem", "key.pem" };
    char                     top[64], folder[PATH_MAX], other[128], from[PATH_MAX + 16], to[PATH_MAX + 16];

    est_test_dir(top);
    assert_int_equal(setenv("XDG_STATE_HOME", top, 1), 0);
    assert_int_equal(est_certificates_of_user(folder, sizeof folder), EST_OK);
    for (int i = 0; i < 3; i++) {
        snprintf(to, sizeof to, "%s/%s", folder, names[i]);
        assert_int_equal(truncate(to, 40), 0);
        assert_int_equal(est_certificates_of_user(folder, sizeof folder), EST_OK);
        check_usable(folder);

        snprintf(other, sizeof other, "%s/other", top);
        assert_int_equal(est_certificates_make(other, "localhost", 1), EST_OK);
        snprintf(from, sizeof from, "%s/%s", other, names[i]);
        assert_int_equal(rename(from, to), 0);
        assert_int_equal(est_certificates_of_user(folder, sizeof folder), EST_OK);
        check_usable(folder);
        assert_int_equal(est_dir_remove(other), EST_OK);
    }
    est_test_dir_remove(top);
}

/* A link could lead to a directory of anybody. */
TEST(user_directory_is_a_link)
{
    char top[64], link[128], folder[PATH_MAX];

    est_test_dir(top);
    assert_int_equal(setenv("XDG_STATE_HOME", top, 1), 0);
    snprintf(link, sizeof link, "%s/estoc", top);
    assert_int_equal(symlink("/tmp", link), 0);
    assert_int_not_equal(est_certificates_of_user(folder, sizeof folder), EST_OK);
    assert_non_null(strstr(est_error_message(), "cannot open the directory"));
    est_test_dir_remove(top);
}

TEST(user_without_home)
{
    char top[64], folder[PATH_MAX], home[PATH_MAX], want[PATH_MAX];

    snprintf(home, sizeof home, "%s", getenv("HOME") != NULL ? getenv("HOME") : "");
    est_test_dir(top);
    unsetenv("XDG_STATE_HOME");
    assert_int_equal(setenv("HOME", top, 1), 0);
    assert_int_equal(est_certificates_of_user(folder, sizeof folder), EST_OK);
    snprintf(want, sizeof want, "%s/.local/state/estoc/certificates", top);
    assert_string_equal(folder, want);
    unsetenv("HOME");
    assert_int_equal(setenv("TMPDIR", top, 1), 0);
    assert_int_equal(est_certificates_of_user(folder, sizeof folder), EST_OK);
    snprintf(want, sizeof want, "%s/estoc-%ld/certificates", top, (long)geteuid());
    assert_string_equal(folder, want);

    /* Nor does a home count that is not there, or is of another user, as under sudo. */
    assert_int_equal(setenv("HOME", "/nonexistent", 1), 0);
    assert_int_equal(setenv("XDG_STATE_HOME", "/proc/nonexistent/state", 1), 0);
    assert_int_equal(est_certificates_of_user(folder, sizeof folder), EST_OK);
    assert_string_equal(folder, want);
    if (geteuid() == 0) {
        char alice[128], new_state[160];

        snprintf(alice, sizeof alice, "%s/alice", top);
        assert_int_equal(mkdir(alice, 0755), 0);
        assert_int_equal(chown(alice, 65534, 65534), 0);
        assert_int_equal(setenv("HOME", alice, 1), 0);
        assert_int_equal(setenv("XDG_STATE_HOME", alice, 1), 0);
        assert_int_equal(est_certificates_of_user(folder, sizeof folder), EST_OK);
        assert_string_equal(folder, want);
        snprintf(new_state, sizeof new_state, "%s/state", alice);
        assert_int_equal(setenv("XDG_STATE_HOME", new_state, 1), 0);
        assert_int_equal(est_certificates_of_user(folder, sizeof folder), EST_OK);
        assert_string_equal(folder, want);
        assert_int_equal(rmdir(alice), 0); /* nothing was made in it */
    }
    unsetenv("XDG_STATE_HOME");
    unsetenv("TMPDIR");
    if (home[0] != '\0') setenv("HOME", home, 1);
    est_test_dir_remove(top);
}

/* A state directory that does not exist is made, with all above it that is missing, for the user alone. */
TEST(user_state_is_made)
{
    char        top[64], new_state[128], folder[PATH_MAX], want[PATH_MAX];
    struct stat info;

    est_test_dir(top);
    snprintf(new_state, sizeof new_state, "%s/new/state/", top);
    assert_int_equal(setenv("XDG_STATE_HOME", new_state, 1), 0);
    assert_int_equal(est_certificates_of_user(folder, sizeof folder), EST_OK);
    snprintf(want, sizeof want, "%s/estoc/certificates", new_state);
    assert_string_equal(folder, want);
    for (int i = 0; i < 2; i++) {
        snprintf(want, sizeof want, "%s/new%s", top, i == 0 ? "" : "/state");
        assert_int_equal(stat(want, &info), 0);
        assert_int_equal(info.st_mode & 07777, 0700);
    }
    unsetenv("XDG_STATE_HOME");
    est_test_dir_remove(top);
}

/* A failure leaves no half of it: the next call makes all. */
TEST(user_failures)
{
    FAULT_LOOP(f, FAULT_POINTS) {
        char       top[64], folder[PATH_MAX];
        est_status status;

        est_test_dir(top);
        assert_int_equal(setenv("XDG_STATE_HOME", top, 1), 0);
        fault_arm(&f);
        status = est_certificates_of_user(folder, sizeof folder);
        assert_int_equal(status != EST_OK, fault_end(&f));
        assert_int_equal(est_certificates_of_user(folder, sizeof folder), EST_OK);
        est_test_dir_remove(top);
    }
}
