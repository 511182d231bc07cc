/* SPDX-License-Identifier: Apache-2.0
 *
 * Files. Every system call that can fail for reasons outside the program is a fault point. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/strbuf.h"

#define READ_STEP ((size_t)64 << 10) /* first guess for files that do not tell their size */

est_status est_status_from_errno(int error)
{
    switch (error) {
    case 0: return EST_OK;
    case ENOENT:
    case ENXIO:
    case ENODEV: return EST_NOT_FOUND;
    case EEXIST: return EST_ALREADY_EXISTS;
    case EACCES:
    case EPERM:
    case EROFS: return EST_PERMISSION_DENIED;
    case ENOSPC:
    case EDQUOT:
    case EFBIG: /* as a full disk; EST_OUT_OF_RANGE, TensorFlow's code, would be taken for the end of an input */
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOBUFS: return EST_RESOURCE_EXHAUSTED;
    case EINVAL:
    case ENAMETOOLONG:
    case ELOOP: return EST_INVALID_ARGUMENT;
    case EISDIR:
    case ENOTDIR:
    case ENOTEMPTY:
    case EBADF:
    case EBUSY:
    case ETXTBSY: return EST_FAILED_PRECONDITION;
    case EOVERFLOW: return EST_OUT_OF_RANGE;
    case EINTR:
    case EAGAIN:
    case ESTALE: return EST_UNAVAILABLE;
    case ETIMEDOUT: return EST_DEADLINE_EXCEEDED;
    case ENOSYS:
    case EOPNOTSUPP: return EST_UNIMPLEMENTED;
    default: return EST_UNKNOWN;
    }
}

/* Fails with the error of the last system call on `path`. Not est_fail: errno must be read only once. */
#define fail_errno(what, path)                                                                                         \
    est_fail_at(__FILE__, __LINE__, est_status_from_errno(errno), "cannot %s %s: %s", (what), (path), strerror(errno))

/* In a build with fault points, makes the current call look as if the disk had failed. */
static bool fault(bool hit)
{
    if (hit) errno = EIO;
    return hit;
}

/* Reads from fd to its end. `guess` is the expected size. */
static est_status read_to_end(int fd, const char *path, size_t guess, char **bytes, size_t *size)
{
    size_t capacity = guess + 1, n = 0;
    char  *data = est_alloc(capacity);

    if (data == NULL) return est_no_memory();
    for (;;) {
        ssize_t got;

        if (n + 1 >= capacity) { /* keeps one byte for the terminator, and asks once more to see the end */
            char *larger = est_realloc(data, capacity + capacity / 2 + READ_STEP);

            if (larger == NULL) {
                est_free(data);
                return est_no_memory();
            }
            data = larger;
            capacity += capacity / 2 + READ_STEP;
        }
        got = fault(EST_FAULT_POINT("file.read")) ? -1 : read(fd, data + n, capacity - n - 1);
        if (got == 0) break;
        if (got < 0) {
            if (errno == EINTR) continue;
            est_free(data);
            return fail_errno("read", path);
        }
        n += (size_t)got;
    }
    data[n] = '\0';
    *bytes  = data;
    *size   = n;
    return EST_OK;
}

est_status est_file_read(const char *path, char **bytes, size_t *size)
{
    int         fd = fault(EST_FAULT_POINT("file.open")) ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    struct stat info;
    est_status  status;

    if (fd < 0) return fail_errno("open", path);
    if (fstat(fd, &info) != 0) {
        status = fail_errno("examine", path);
    } else if (S_ISDIR(info.st_mode)) {
        status = est_fail(EST_FAILED_PRECONDITION, "cannot read %s: it is a directory", path);
    } else {
        status = read_to_end(fd, path, info.st_size > 0 ? (size_t)info.st_size + 1 : READ_STEP, bytes, size);
    }
    close(fd);
    return status;
}

est_status est_file_write_all(int fd, const char *path, const void *bytes, size_t size)
{
    const char *p = bytes;

    while (size > 0) {
        ssize_t put = fault(EST_FAULT_POINT("file.write")) ? -1 : write(fd, p, size);

        if (put < 0) {
            if (errno == EINTR) continue;
            return fail_errno("write", path);
        }
        p += put;
        size -= (size_t)put;
    }
    return EST_OK;
}

/* Drawn once: ids of processes in containers that share a folder may be the same. Not 0. */
static unsigned process_bits(void)
{
    static atomic_uint bits;
    unsigned           none = 0, drawn;

    if (atomic_load(&bits) != 0) return atomic_load(&bits);
    if (getrandom(&drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn) drawn = (unsigned)est_wall_ns();
    (void)atomic_compare_exchange_strong(&bits, &none, drawn | 1);
    return atomic_load(&bits);
}

est_status est_file_temp_name(const char *path, char **out)
{
    static atomic_uint counter;
    est_strbuf         name = { 0 };

    est_strbuf_printf(&name, "%s.tmp-%ld-%u-%u", path, (long)getpid(), process_bits(), atomic_fetch_add(&counter, 1));
    return est_strbuf_take(&name, out);
}

est_status est_file_sync(int fd, const char *path)
{
    if (fault(EST_FAULT_POINT("file.sync")) || fsync(fd) != 0) return fail_errno("sync", path);
    return EST_OK;
}

/* Syncs what `path` names: a file's bytes (F1) or a directory's names (F3). */
static est_status path_sync(const char *path, int flags)
{
    int        fd = open(path, flags | O_RDONLY | O_CLOEXEC);
    est_status status;

    if (fd < 0) return fail_errno("open", path);
    status = est_file_sync(fd, path);
    close(fd);
    return status;
}

static est_status parent_sync(const char *path)
{
    const char *slash = strrchr(path, '/');
    est_strbuf  dir   = { 0 };
    est_status  status;

    if (slash == NULL) return path_sync(".", O_DIRECTORY);
    est_strbuf_append_bytes(&dir, path, slash == path ? 1 : (size_t)(slash - path));
    status = est_strbuf_status(&dir);
    if (status == EST_OK) status = path_sync(dir.data, O_DIRECTORY);
    est_strbuf_clear(&dir);
    return status;
}

est_status est_file_rename(const char *temp, const char *path)
{
    if (fault(EST_FAULT_POINT("file.rename")) || rename(temp, path) != 0) {
        return fail_errno("rename a temporary file to", path);
    }
    return parent_sync(path);
}

est_status est_file_commit(const char *temp, const char *path)
{
    EST_TRY(path_sync(temp, 0));
    return est_file_rename(temp, path);
}

est_status est_file_create(const char *path, const void *bytes, size_t size)
{
    int fd = fault(EST_FAULT_POINT("file.create")) ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    est_status status;

    if (fd < 0) return fail_errno("create", path);
    status = est_file_write_all(fd, path, bytes, size);
    if (status == EST_OK) status = est_file_sync(fd, path);
    if (close(fd) != 0 && status == EST_OK) status = fail_errno("close", path);
    if (status != EST_OK) unlink(path);
    return status;
}

est_status est_file_replace(const char *path, const void *bytes, size_t size)
{
    est_status status;
    char      *temp;

    EST_TRY(est_file_temp_name(path, &temp));
    status = est_file_create(temp, bytes, size);
    if (status == EST_OK) {
        status = est_file_rename(temp, path);
        if (status != EST_OK) unlink(temp);
    }
    est_free(temp);
    return status;
}

est_status est_file_remove(const char *path)
{
    if (unlink(path) != 0 && errno != ENOENT) return fail_errno("remove", path);
    return EST_OK;
}

bool est_file_exists(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0;
}

bool est_dir_exists(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* One directory, on disk when the call returns; another thread or process may make it at the same time. */
static est_status dir_make(const char *path)
{
    if (!fault(EST_FAULT_POINT("dir.create")) && mkdir(path, 0777) == 0) return parent_sync(path);
    if (errno == EEXIST && est_dir_exists(path)) return EST_OK;
    if (errno == EEXIST) {
        return est_fail(EST_ALREADY_EXISTS, "%s is not a directory; name another path, or remove it", path);
    }
    return fail_errno("create directory", path);
}

est_status est_dir_create(const char *path)
{
    est_status status = EST_OK;
    char      *partial;

    if (*path == '\0') return est_fail(EST_INVALID_ARGUMENT, "a directory without a name");
    if (est_dir_exists(path)) return EST_OK;
    partial = est_strdup(path);
    if (partial == NULL) return est_no_memory();
    for (char *p = partial + 1; status == EST_OK && *p != '\0'; p++) {
        if (*p != '/') continue;
        *p     = '\0';
        status = est_dir_exists(partial) ? EST_OK : dir_make(partial);
        *p     = '/';
    }
    if (status == EST_OK) status = dir_make(partial);
    est_free(partial);
    return status;
}

/* Cuts a path at its last slash: the directory above; that of a plain name is ".". */
static const char *cut_last(char *path)
{
    char *slash = strrchr(path, '/');

    if (slash == NULL) return ".";
    if (slash == path) return "/";
    *slash = '\0';
    return path;
}

est_status est_dir_check(const char *path)
{
    char       *copy  = est_strdup(path);
    const char *there = copy;
    est_status  status;

    if (copy == NULL) return est_no_memory();
    while (access(there, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR) && strcmp(there, ".") != 0) {
        there = cut_last(copy);
    }
    if (access(there, F_OK) == 0 && !est_dir_exists(there)) {
        status = est_fail(EST_FAILED_PRECONDITION, "%s cannot be written to: %s is not a directory", path, there);
    } else if (access(there, W_OK | X_OK) != 0) {
        status = est_fail(est_status_from_errno(errno), "%s cannot be written to: %s: %s", path, there,
                          strerror(errno));
    } else {
        status = EST_OK;
    }
    est_free(copy);
    return status;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info;
    (void)kind;
    (void)at;
    return fault(EST_FAULT_POINT("dir.remove")) ? -1 : remove(path);
}

est_status est_dir_remove(const char *path)
{
    if (nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT) return EST_OK;
    return fail_errno("remove the directory", path);
}
