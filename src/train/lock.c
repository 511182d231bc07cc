/* SPDX-License-Identifier: Apache-2.0
 *
 * The lock of a directory: a lock of the open file (F_OFD_SETLK), which the kernel releases when the process ends, and
 * which can be queried without taking it. The text of the file only names the holder: "host\n123\n".
 *
 * On NFS the lock is the server's. When the server forgets it (a restart without its lease recovery, a mount with
 * nolock), two processes can hold it; a file system without locks is used without one, with a warning. */
#include "train/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "base/strbuf.h"

#define TRAINER  "trainer"
#define TEXT_MAX (HOST_NAME_MAX + 32)

#define ATTEMPTS_MAX 100 /* attempts; after that the file system does not have stable file numbers */

struct est_dir_lock {
    char *path;
    int   fd;
    bool  was_left;
};

static est_status lock_path(const char *role, const char *dir, char **out)
{
    est_strbuf path = { 0 };

    est_strbuf_printf(&path, "%s/%s.lock", dir, role);
    return est_strbuf_take(&path, out);
}

/* The process that wrote the file, as "host, process 123"; "an unknown process" while the file is empty. */
static void read_holder(int fd, char *out, size_t size)
{
    char    text[TEXT_MAX + 1];
    ssize_t n = pread(fd, text, TEXT_MAX, 0);
    char   *line_end, *process;

    snprintf(out, size, "an unknown process");
    if (n <= 0) return;
    text[n]  = '\0';
    line_end = strchr(text, '\n');
    if (line_end == NULL) return;
    *line_end = '\0';
    process   = line_end + 1;
    if (strspn(process, "0123456789") == 0) return;
    process[strspn(process, "0123456789")] = '\0';
    snprintf(out, size, "%s, process %s", text, process);
}

static void write_holder(int fd)
{
    char host[HOST_NAME_MAX + 1] = "", text[TEXT_MAX];
    int  n;

    if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
    n = snprintf(text, sizeof text, "%s\n%ld\n", host, (long)getpid());
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)n, 0) != n) {
        est_log_debug("cannot write the name of this process into the lock file: %s", strerror(errno));
    }
}

static bool has_no_locks(int error)
{
    return error == ENOLCK || error == ENOTSUP || error == ENOSYS || error == EINVAL;
}

static est_status lock_file(est_dir_lock *lock, const char *role, const char *dir)
{
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    struct stat  info;
    char         holder[TEXT_MAX + 16];

    if (fcntl(lock->fd, F_OFD_SETLK, &whole) == 0) {
        lock->was_left = fstat(lock->fd, &info) == 0 && info.st_size > 0;
        write_holder(lock->fd);
        return EST_OK;
    }
    if (errno == EAGAIN || errno == EACCES) {
        read_holder(lock->fd, holder, sizeof holder);
        return est_fail(EST_FAILED_PRECONDITION,
                        "%s is in use by another %s: %s; stop it first, or use another model directory", dir, role,
                        holder);
    }
    if (!has_no_locks(errno)) {
        return est_fail(est_status_from_errno(errno), "%s/%s.lock: cannot be locked: %s", dir, role, strerror(errno));
    }
    est_log_warn("%s cannot be locked: %s; make sure that no other %s uses it", dir, strerror(errno), role);
    return EST_OK;
}

/* Whether the locked file still has its name: the previous holder may have removed it after it was opened here. */
static bool is_current(const est_dir_lock *lock)
{
    struct stat ours, there;

    if (fstat(lock->fd, &ours) != 0 || stat(lock->path, &there) != 0) return false;
    return ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

static est_status open_locked(est_dir_lock *lock, const char *role, const char *dir)
{
    for (int attempt = 1;; attempt++) {
        est_status status;

        lock->fd = open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (lock->fd < 0) {
            return est_fail(est_status_from_errno(errno), "%s: cannot be opened: %s", lock->path, strerror(errno));
        }
        status = lock_file(lock, role, dir);
        if (status == EST_OK && (is_current(lock) || attempt == ATTEMPTS_MAX)) return EST_OK;
        close(lock->fd);
        EST_TRY(status);
    }
}

est_status est_dir_lock_take_as(const char *role, const char *dir, est_dir_lock **out)
{
    est_dir_lock *lock = est_zalloc(sizeof *lock);
    est_status    status;

    if (lock == NULL) return est_no_memory();
    status = lock_path(role, dir, &lock->path);
    if (status == EST_OK) status = open_locked(lock, role, dir);
    if (status != EST_OK) {
        est_free(lock->path);
        est_free(lock);
        return status;
    }
    *out = lock;
    return EST_OK;
}

est_status est_dir_lock_take(const char *dir, est_dir_lock **out)
{
    return est_dir_lock_take_as(TRAINER, dir, out);
}

bool est_dir_lock_was_left(const est_dir_lock *lock)
{
    return lock->was_left;
}

/* The file is removed while it is still locked: a process that has already opened it notices with is_current. If it
 * cannot be removed, closing it is not enough: a forked child shares the open file and would hold the lock. */
void est_dir_lock_release(est_dir_lock *lock)
{
    struct flock whole = { .l_type = F_UNLCK, .l_whence = SEEK_SET };

    if (lock == NULL) return;
    if (unlink(lock->path) != 0) est_log_debug("cannot remove %s: %s", lock->path, strerror(errno));
    if (fcntl(lock->fd, F_OFD_SETLK, &whole) != 0) est_log_debug("cannot release the lock: %s", strerror(errno));
    close(lock->fd);
    est_free(lock->path);
    est_free(lock);
}

est_status est_dir_lock_holder_as(const char *role, const char *dir, char *out, size_t size)
{
    struct flock whole  = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    est_status   status = EST_OK;
    char        *path;
    int          fd;

    EST_TRY(lock_path(role, dir, &path));
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        if (errno == ENOENT) {
            snprintf(out, size, "%s", "");
        } else {
            status = est_fail(est_status_from_errno(errno), "%s: cannot be opened: %s", path, strerror(errno));
        }
    } else if (fcntl(fd, F_OFD_GETLK, &whole) != 0 && !has_no_locks(errno)) {
        status = est_fail(est_status_from_errno(errno), "%s: cannot query the lock: %s", path, strerror(errno));
    } else if (whole.l_type == F_UNLCK) {
        snprintf(out, size, "%s", "");
    } else {
        read_holder(fd, out, size);
    }
    if (fd >= 0) close(fd);
    est_free(path);
    return status;
}

est_status est_dir_lock_holder(const char *dir, char *out, size_t size)
{
    return est_dir_lock_holder_as(TRAINER, dir, out, size);
}
