/* SPDX-License-Identifier: Apache-2.0
 *
 * See dir_test.h. */
#include "support/dir_test.h"

#include <errno.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "support/test.h"

#define DIRS_MAX   256 /* at once */
#define ROOM_BYTES ((unsigned long)1 << 30)

char est_test_root[64];

/* Directories that are there, by the process that made them: one that was forked leaves its parent's alone. */
static struct {
    char  path[64]; /* "": free */
    pid_t owner;
} dirs[DIRS_MAX];

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info, (void)kind, (void)place;
    return remove(path) != 0 && errno != ENOENT; /* someone else was quicker */
}

/* Of tests that failed. */
static void remove_left(void)
{
    for (int i = 0; i < DIRS_MAX; i++) {
        if (dirs[i].path[0] != '\0' && dirs[i].owner == getpid())
            nftw(dirs[i].path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    }
}

static void remember(const char *dir)
{
    static bool registered;
    int         i = 0;

    if (!registered) assert_int_equal(atexit(remove_left), 0);
    registered = true;
    while (i < DIRS_MAX && dirs[i].path[0] != '\0') i++;
    assert_true(i < DIRS_MAX);
    snprintf(dirs[i].path, sizeof dirs[i].path, "%s", dir);
    dirs[i].owner = getpid();
}

static bool has_room(const char *dir)
{
    struct statvfs info;

    return access(dir, W_OK) == 0 && statvfs(dir, &info) == 0 && info.f_bavail * info.f_frsize >= ROOM_BYTES;
}

void est_test_dir(char out[64])
{
    snprintf(out, 64, "%s/est-test-XXXXXX", has_room("/dev/shm") ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(out));
    remember(out);
}

/* Without a process: the tests of faults remove thousands. */
void est_test_dir_remove(const char *dir)
{
    if (nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS) != 0) assert_int_equal(errno, ENOENT); /* it was not there */
    for (int i = 0; i < DIRS_MAX; i++) {
        if (strcmp(dirs[i].path, dir) == 0) dirs[i].path[0] = '\0';
    }
}

int est_test_root_make(void **state)
{
    (void)state;
    est_test_dir(est_test_root);
    return 0;
}

int est_test_root_remove(void **state)
{
    (void)state;
    est_test_dir_remove(est_test_root);
    return 0;
}

bool est_test_is_open(int fd, const char *text)
{
    char    link[32], path[256];
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n                   = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    return strstr(path, text) != NULL;
}
