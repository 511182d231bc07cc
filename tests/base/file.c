/* SPDX-License-Identifier: Apache-2.0
 *
 * Files: whole reads, replacement that keeps the old file when anything fails, directories, error texts. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/file.h"
#include "support/dir_test.h"
#include "support/fault_loop.h"
#include "support/test.h"

/* --- system calls that are written down --------------------------------------------------------------------------- */

/* Stand in for the C library's. One letter a call: w write, S sync of the descriptor that wrote last, s of another one,
 * D of a directory, R rename, M mkdir. */
static char calls[64];
static int  writer_fd;

static void note(char call)
{
    size_t n = strlen(calls);

    if (n + 1 < sizeof calls) calls[n] = call;
}

ssize_t write(int fd, const void *bytes, size_t size)
{
    note('w');
    writer_fd = fd;
    return syscall(SYS_write, fd, bytes, size);
}

int fsync(int fd)
{
    struct stat info;

    note(fstat(fd, &info) == 0 && S_ISDIR(info.st_mode) ? 'D' : fd == writer_fd ? 'S' : 's');
    if (fd == writer_fd) writer_fd = -1;
    return (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
    note('R');
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int mkdir(const char *path, mode_t mode)
{
    note('M');
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

static void expect_calls(const char *want)
{
    assert_string_equal(calls, want);
    memset(calls, 0, sizeof calls);
}

/* --- files -------------------------------------------------------------------------------------------------------- */

/* A path under the test's directory; good until the next but one call. */
static const char *at(const char *name)
{
    static char paths[2][256];
    static int  turn;

    turn = !turn;
    snprintf(paths[turn], sizeof paths[turn], "%s/%s", est_test_root, name);
    return paths[turn];
}

static int entries_in(const char *path)
{
    DIR *dir = opendir(path);
    int  n   = 0;

    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void expect_contents(const char *path, const void *want, size_t want_size)
{
    char  *bytes = NULL;
    size_t size  = 0;

    assert_int_equal(est_file_read(path, &bytes, &size), EST_OK);
    assert_int_equal(size, want_size);
    assert_memory_equal(bytes, want, want_size);
    assert_int_equal(bytes[size], 0);
    est_free(bytes);
}

TEST(write_and_read)
{
    const size_t sizes[] = { 0, 1, 4095, 4096, 65536, 1000003 };
    char        *data    = malloc(1000003);

    for (size_t i = 0; i < 1000003; i++) data[i] = (char)(i * 31 >> 3);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_int_equal(est_file_replace(at("data"), data, sizes[i]), EST_OK);
        expect_contents(at("data"), data, sizes[i]);
    }
    free(data);
    assert_int_equal(est_file_remove(at("data")), EST_OK);
    assert_int_equal(est_file_remove(at("data")), EST_OK); /* not there is fine */
    assert_false(est_file_exists(at("data")));
}

/* Files of the kernel say they are empty and are not. */
TEST(files_without_a_size)
{
    char  *bytes;
    size_t size;

    assert_int_equal(est_file_read("/proc/self/status", &bytes, &size), EST_OK);
    assert_true(size > 100);
    assert_int_equal(strlen(bytes), size);
    est_free(bytes);
}

TEST(errors_name_the_path)
{
    char  *bytes = NULL;
    size_t size;

    assert_int_equal(est_file_read(at("missing"), &bytes, &size), EST_NOT_FOUND);
    assert_non_null(strstr(est_error_message(), at("missing")));
    assert_non_null(strstr(est_error_message(), strerror(ENOENT)));
    assert_int_equal(est_file_read(est_test_root, &bytes, &size), EST_FAILED_PRECONDITION);
    assert_null(bytes);
    assert_int_equal(est_file_replace(at("no/such/dir"), "x", 1), EST_NOT_FOUND);
    assert_non_null(strstr(est_error_message(), "no/such/dir"));
    assert_int_equal(est_file_replace("/proc/nothing", "x", 1), EST_NOT_FOUND);
    assert_int_equal(est_file_commit(at("missing"), at("x")), EST_NOT_FOUND);
}

TEST(full_disk)
{
    int fd = open("/dev/full", O_WRONLY);

    if (fd < 0) skip();
    assert_int_equal(est_file_write_all(fd, "/dev/full", "x", 1), EST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(est_error_message(), "/dev/full"));
    close(fd);
}

TEST(directories)
{
    assert_int_equal(est_dir_create(at("a/b//c/d/")), EST_OK);
    assert_true(est_dir_exists(at("a/b/c/d")));
    assert_int_equal(est_dir_create(at("a/b/c")), EST_OK);
    assert_int_equal(est_dir_create("/"), EST_OK);
    assert_int_equal(est_dir_create(""), EST_INVALID_ARGUMENT);

    assert_int_equal(est_file_replace(at("a/file"), "x", 1), EST_OK);
    assert_true(est_file_exists(at("a/file")));
    assert_true(est_file_exists(at("a")));
    assert_false(est_dir_exists(at("a/file")));
    assert_int_equal(est_dir_create(at("a/file")), EST_ALREADY_EXISTS);
    assert_non_null(strstr(est_error_message(), "/a/file is not a directory; name another path, or remove it"));
    assert_int_not_equal(est_dir_create(at("a/file/below")), EST_OK);
}

/* F1 to F3. The descriptor that wrote is synced: another one is not told of every failed write. A directory is on disk
 * when its parent is. */
TEST(order)
{
    memset(calls, 0, sizeof calls);
    assert_int_equal(est_file_replace(at("order"), "x", 1), EST_OK);
    expect_calls("wSRD");
    assert_int_equal(est_file_commit(at("order"), at("order2")), EST_OK);
    expect_calls("sRD");
    assert_int_equal(est_file_create(at("order3"), "x", 1), EST_OK);
    expect_calls("wS");
    assert_int_equal(est_dir_create(at("new/one/")), EST_OK);
    expect_calls("MDMDM");
    assert_int_equal(est_dir_create(at("new/one")), EST_OK);
    expect_calls("");
}

TEST(relative_paths)
{
    char *before = getcwd(NULL, 0);

    assert_int_equal(chdir(est_test_root), 0);
    assert_int_equal(est_dir_create("rel/dir"), EST_OK);
    assert_int_equal(est_file_replace("plain", "1", 1), EST_OK);
    assert_int_equal(est_file_replace("rel/dir/file", "22", 2), EST_OK);
    expect_contents("plain", "1", 1);
    expect_contents("./rel/dir/file", "22", 2);
    assert_int_equal(chdir(before), 0);
    free(before);
}

TEST(temp_names_differ)
{
    char *a, *b;

    assert_int_equal(est_file_temp_name("/x/model", &a), EST_OK);
    assert_int_equal(est_file_temp_name("/x/model", &b), EST_OK);
    assert_memory_equal(a, "/x/model.tmp-", 13);
    assert_string_not_equal(a, b);
    est_free(a);
    est_free(b);
}

#define SAY_NAME "--say-temp-name"

/* The name that another process makes, without its id: "<bits>-<n>". */
static void ask_process(char out[64])
{
    char    exe[256], command[300];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    FILE   *said;

    assert_true(n > 0);
    exe[n] = '\0';
    snprintf(command, sizeof command, "'%s' " SAY_NAME, exe);
    said = popen(command, "r");
    assert_non_null(said);
    assert_int_equal(fscanf(said, "/x/model.tmp-%*d-%63s", out), 1);
    assert_int_equal(pclose(said), 0);
}

/* In containers every process may have the same id. */
TEST(temp_names_of_processes)
{
    char a[64], b[64];

    ask_process(a);
    ask_process(b);
    assert_int_equal(strspn(a, "0123456789-"), strlen(a)); /* what is left over is known by that (train/saver.c) */
    assert_string_not_equal(a, b);
}

static int say_name(void)
{
    char *name;

    if (est_file_temp_name("/x/model", &name) != EST_OK) return 1;
    puts(name);
    est_free(name);
    return 0;
}

/* Whatever fails, the file holds the old bytes or the new ones, and no temporary file stays behind. */
TEST(replace_under_faults)
{
    const char *dir = at("faults");

    assert_int_equal(est_dir_create(dir), EST_OK);
    FAULT_LOOPS(f) {
        est_status status;
        char      *bytes;
        size_t     size;

        assert_int_equal(est_file_replace(at("faults/ckpt"), "old", 3), EST_OK);
        fault_arm(&f);
        status = est_file_replace(at("faults/ckpt"), "newer", 5);
        fault_check(&f, status);
        assert_int_equal(est_file_read(at("faults/ckpt"), &bytes, &size), EST_OK);
        assert_true((size == 3 && memcmp(bytes, "old", 3) == 0) || (size == 5 && memcmp(bytes, "newer", 5) == 0));
        assert_int_equal(entries_in(at("faults")), 1);
        if (status == EST_OK) assert_int_equal(size, 5);
        est_free(bytes);
    }
}

TEST(read_and_create_under_faults)
{
    assert_int_equal(est_file_replace(at("read"), "bytes", 5), EST_OK);
    FAULT_LOOPS(f) {
        char       name[64];
        char      *bytes = NULL;
        size_t     size;
        est_status status;

        snprintf(name, sizeof name, "deep-%d-%d/x/y", (int)f.kind, (int)f.n);
        fault_arm(&f);
        status = est_file_read(at("read"), &bytes, &size);
        if (status == EST_OK) status = est_dir_create(at(name));
        fault_check(&f, status);
        est_free(bytes);
    }
}

TEST(errno_codes)
{
    assert_int_equal(est_status_from_errno(0), EST_OK);
    assert_int_equal(est_status_from_errno(EACCES), EST_PERMISSION_DENIED);
    assert_int_equal(est_status_from_errno(ENOSPC), EST_RESOURCE_EXHAUSTED);
    assert_int_equal(est_status_from_errno(EFBIG), EST_RESOURCE_EXHAUSTED); /* not the end of anything */
    assert_int_equal(est_status_from_errno(EEXIST), EST_ALREADY_EXISTS);
    assert_int_equal(est_status_from_errno(EIO), EST_UNKNOWN);
}

/* Whether something could be made, by the nearest directory that is there; nothing is. */
TEST(directories_to_be)
{
    char dir[64], path[96];

    est_test_dir(dir);
    snprintf(path, sizeof path, "%s/a/b", dir);
    assert_int_equal(est_dir_check(dir), EST_OK);
    assert_int_equal(est_dir_check(path), EST_OK);
    assert_int_equal(est_dir_check("not-there"), EST_OK); /* below the current directory */
    snprintf(path, sizeof path, "%s/a", dir);
    assert_false(est_file_exists(path));
    assert_int_equal(est_file_replace(path, "", 0), EST_OK);
    snprintf(path, sizeof path, "%s/a/b", dir);
    assert_int_not_equal(est_dir_check(path), EST_OK);
    assert_non_null(strstr(est_error_message(), "/a/b cannot be written to: "));
    assert_non_null(strstr(est_error_message(), "/a is not a directory"));
    assert_int_equal(est_dir_remove(dir), EST_OK);
}

TEST(directories_go_with_all_in_them)
{
    char dir[64], inner[96], file[96], outside[64], link[96], kept[96];

    est_test_dir(dir);
    est_test_dir(outside);
    snprintf(inner, sizeof inner, "%s/a/b", dir);
    snprintf(file, sizeof file, "%s/a/b/file", dir);
    snprintf(link, sizeof link, "%s/a/link", dir);
    snprintf(kept, sizeof kept, "%s/kept", outside);
    assert_int_equal(est_dir_create(inner), EST_OK);
    assert_int_equal(est_file_replace(file, "x", 1), EST_OK);
    assert_int_equal(est_file_replace(kept, "x", 1), EST_OK);
    assert_int_equal(symlink(outside, link), 0);
    assert_int_equal(est_dir_remove(dir), EST_OK);
    assert_false(est_file_exists(dir));
    assert_true(est_file_exists(kept)); /* a link is removed, not what it points to */
    assert_int_equal(est_dir_remove(dir), EST_OK);
    assert_int_equal(est_dir_remove(outside), EST_OK);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], SAY_NAME) == 0) return say_name();
    return est_test_run(est_test_root_make, est_test_root_remove);
}
