/* SPDX-License-Identifier: Apache-2.0
 *
 * The certificates of a user on this machine: in a directory that only the user can enter, made once, under a lock.
 * Readers need no lock: the files appear together, by the rename of their folder, and a reader that meets files of two
 * generations looks again (est_tls_context_create). */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/thread.h"
#include "net/certificates.h"
#include "net/tls.h"

#define USER_DAYS  3650 /* they protect this machine alone, and tasks with older and newer ones refuse each other */
#define LOCK_SECS  INT64_C(30)
#define AGAIN_NS   (EST_NS_PER_SEC / 100)
#define INSTEAD    "or name another folder in ESTOC_CERTS (`estoc certificates` makes one)"
#define FOLDER_MAX (PATH_MAX - 32) /* leaves room for the names of files */

/* Whether a variable names a directory of this user. Under sudo HOME may be the home of another user, where files of
 * root would lock that user out. */
static bool is_own(const char *dir)
{
    struct stat info;

    if (dir == NULL || dir[0] != '/' || stat(dir, &info) != 0) return false;
    return S_ISDIR(info.st_mode) && info.st_uid == geteuid();
}

/* The same, or makes it and what is missing above it with mode 0700, as the XDG specification asks. Not in a directory
 * of another user, except root's: /tmp may be one. */
static bool make_own(const char *dir)
{
    struct stat info;
    char        parent[FOLDER_MAX];

    if (dir == NULL || dir[0] != '/' || strlen(dir) >= FOLDER_MAX) return false;
    if (stat(dir, &info) == 0) return is_own(dir);
    if (errno != ENOENT) return false;
    snprintf(parent, sizeof parent, "%.*s", (int)(strrchr(dir, '/') - dir), dir);
    if (parent[0] == '\0') parent[0] = '/', parent[1] = '\0';
    if (stat(parent, &info) == 0 ? info.st_uid != geteuid() && info.st_uid != 0 : !make_own(parent)) return false;
    return (mkdir(dir, 0700) == 0 || errno == EEXIST) && is_own(dir);
}

/* The directory of XDG_STATE_HOME, which is ~/.local/state by default. A process without a home of its own uses the
 * directory of temporary files. */
static est_status find_root(char root[FOLDER_MAX])
{
    const char *state = secure_getenv("XDG_STATE_HOME"), *home = secure_getenv("HOME"),
               *temporary = secure_getenv("TMPDIR");
    int n;

    if (make_own(state)) {
        n = snprintf(root, FOLDER_MAX, "%s/estoc", state);
    } else if (is_own(home)) {
        n = snprintf(root, FOLDER_MAX, "%s/.local/state/estoc", home);
    } else {
        n = snprintf(root, FOLDER_MAX, "%s/estoc-%ld", temporary != NULL && temporary[0] == '/' ? temporary : "/tmp",
                     (long)geteuid());
    }
    if (n < FOLDER_MAX) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT,
                    "the path of the user's state directory has %d bytes; set XDG_STATE_HOME, " INSTEAD, n);
}

static est_status refuse(const char *root, const struct stat *info)
{
    if (info->st_uid != geteuid()) {
        return est_fail(EST_PERMISSION_DENIED,
                        "%s belongs to user %ld, but keys need a directory of user %ld: remove it, " INSTEAD, root,
                        (long)info->st_uid, (long)geteuid());
    }
    return est_fail(EST_PERMISSION_DENIED,
                    "%s has mode %04o, but keys need a directory of user %ld with mode 0700: chmod 700 it, " INSTEAD,
                    root, (unsigned)info->st_mode & 07777, (long)geteuid());
}

/* Makes the directory, or checks that nobody else can have put anything into it. */
static est_status open_root(const char *root, int *out)
{
    char        parent[FOLDER_MAX];
    struct stat info;
    int         fd;

    snprintf(parent, sizeof parent, "%.*s", (int)(strrchr(root, '/') - root), root);
    if (parent[0] != '\0') EST_TRY(est_dir_create(parent));
    if (mkdir(root, 0700) != 0 && errno != EEXIST) {
        return est_fail(est_status_from_errno(errno), "cannot make %s: %s; set XDG_STATE_HOME, " INSTEAD, root,
                        strerror(errno));
    }
    fd = open(root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0) {
        est_status status = est_fail(est_status_from_errno(errno),
                                     "cannot open the directory %s: %s; remove it, " INSTEAD, root, strerror(errno));

        if (fd >= 0) close(fd);
        return status;
    }
    if (info.st_uid != geteuid() || (info.st_mode & 077) != 0) {
        close(fd);
        return refuse(root, &info);
    }
    *out = fd;
    return EST_OK;
}

/* The lock ends with its descriptor. */
static est_status take_lock(const char *root, int root_fd, int *out)
{
    int64_t until = est_machine_ns() + LOCK_SECS * EST_NS_PER_SEC;
    int     fd    = openat(root_fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0) return est_fail(est_status_from_errno(errno), "cannot open %s/lock: %s", root, strerror(errno));
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        est_status status = EST_OK;

        if (errno != EWOULDBLOCK && errno != EINTR) {
            status = est_fail(est_status_from_errno(errno), "cannot lock %s/lock: %s", root, strerror(errno));
        } else if (est_machine_ns() > until) {
            status = est_fail(EST_DEADLINE_EXCEEDED,
                              "another process has made certificates under %s/lock for %d s: end it, " INSTEAD, root,
                              (int)LOCK_SECS);
        }
        if (status != EST_OK) {
            close(fd);
            return status;
        }
        est_sleep_ns(AGAIN_NS);
    }
    *out = fd;
    return EST_OK;
}

/* *usable: all files are there, fit each other, and have not expired. */
static est_status check(const char *folder, bool *usable)
{
    est_tls_context *context = NULL;
    est_status       status  = est_tls_context_create(folder, &context);

    *usable = status == EST_OK;
    est_tls_context_free(context);
    if (status != EST_FAILED_PRECONDITION) return status;
    est_error_clear();
    return EST_OK;
}

/* Under the lock. What is replaced goes aside first: for readers the files vanish for a moment only. */
static est_status make_again(const char *root, const char *folder)
{
    char made[PATH_MAX], old[PATH_MAX];

    snprintf(made, sizeof made, "%s/new", root);
    snprintf(old, sizeof old, "%s/old", root);
    EST_TRY(est_dir_remove(made)); /* of a process that was killed, as the other */
    EST_TRY(est_dir_remove(old));
    EST_TRY(est_certificates_make(made, "localhost", USER_DAYS));
    if (est_file_exists(folder)) EST_TRY(est_file_rename(folder, old));
    EST_TRY(est_file_rename(made, folder));
    est_log_info("made the certificates of this user for jobs on this machine: %s", folder);
    return est_dir_remove(old);
}

/* Another process may have made them while this one waited for the lock. */
static est_status make_once(const char *root, int root_fd, const char *folder)
{
    est_status status;
    bool       usable;
    int        lock = -1;

    EST_TRY(take_lock(root, root_fd, &lock));
    status = check(folder, &usable);
    if (status == EST_OK && !usable) status = make_again(root, folder);
    close(lock);
    return status;
}

est_status est_certificates_of_user(char *out, size_t size)
{
    char       root[FOLDER_MAX], folder[PATH_MAX];
    est_status status;
    bool       usable;
    int        root_fd = -1;

    EST_TRY(find_root(root));
    EST_TRY(open_root(root, &root_fd));
    snprintf(folder, sizeof folder, "%s/certificates", root);
    status = check(folder, &usable);
    if (status == EST_OK && !usable) status = make_once(root, root_fd, folder);
    close(root_fd);
    if (status != EST_OK) return status;
    snprintf(out, size, "%s", folder);
    return EST_OK;
}
