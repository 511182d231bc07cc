/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory in common with another process: that it is the same one, who finds it, and polling. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/shared_memory.h"
#include "support/test.h"

#define BYTES ((size_t)1 << 16)

typedef struct page {
    est_mark there, back;
    char     text[32];
} page;

static page *page_of(const est_shared_memory *memory)
{
    return (page *)(void *)(memory->data + EST_SHARED_MEMORY_FIRST);
}

static bool is_set(const void *arg)
{
    return est_mark_get(arg) != 0;
}

static void await(const est_mark *mark)
{
    int64_t tries = 0;

    while (!est_poll(is_set, mark, true, 1000000) && tries < 30000) tries++;
}

/* Another process, which finds the memory by its name alone, answers through it. */
static void answer(const est_shared_memory_name *name)
{
    est_shared_memory memory;
    page             *p;

    if (est_shared_memory_open(name, &memory) != EST_OK) _exit(1);
    p = page_of(&memory);
    await(&p->there);
    if (strcmp(p->text, "from the first") != 0) _exit(2);
    snprintf(p->text, sizeof p->text, "%s", "from the second");
    est_mark_set(&p->back, 1);
    est_shared_memory_close(&memory);
    _exit(0);
}

TEST(two_processes)
{
    est_shared_memory      memory;
    est_shared_memory_name name;
    page                  *p;
    pid_t                  pid;
    int                    status;

    assert_int_equal(est_shared_memory_create(BYTES, &memory, &name), EST_OK);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) answer(&name);
    p = page_of(&memory);
    snprintf(p->text, sizeof p->text, "%s", "from the first");
    est_mark_set(&p->there, 1);
    await(&p->back);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_string_equal(p->text, "from the second");
    assert_int_equal(est_mark_swap(&p->back, 7), 1);
    assert_int_equal(est_mark_get(&p->back), 7);
    est_shared_memory_close(&memory);
}

static void expect_not_found(const est_shared_memory_name *name, const char *why)
{
    est_shared_memory found;

    assert_int_equal(est_shared_memory_open(name, &found), EST_UNAVAILABLE);
    assert_non_null(strstr(est_error_message(), why));
}

TEST(who_finds_it)
{
    est_shared_memory      memory, found;
    est_shared_memory_name name, other;
    int                    file;

    assert_int_equal(est_shared_memory_create(BYTES, &memory, &name), EST_OK);
    assert_int_equal(est_shared_memory_open(&name, &found), EST_OK);
    assert_true(found.data != memory.data);
    memory.data[BYTES - 1] = 9;
    assert_int_equal(found.data[BYTES - 1], 9);
    other = name;
    other.cookie++;
    expect_not_found(&other, "belongs to another user or job");
    other = name;
    other.bytes *= 2; /* touching what is not there would end the process */
    expect_not_found(&other, "another file");
    other.cookie = 0;
    expect_not_found(&other, "shared memory is not available");
    file     = open("/dev/null", O_RDWR | O_CLOEXEC);
    other    = name;
    other.fd = file;
    expect_not_found(&other, "another file");
    close(file);
    assert_int_not_equal(ftruncate(memory.fd, 1), 0); /* sealed */
    est_shared_memory_hide(&memory);
    expect_not_found(&name, "/proc/");
    assert_int_equal(found.data[BYTES - 1], 9); /* an open mapping stays */
    est_shared_memory_close(&memory);
    est_shared_memory_close(&found);
    est_shared_memory_close(&found);
}

/* Every place within a line, with what is around it left as it was. */
TEST(copy_across)
{
    uint8_t from[300], to[400];

    for (size_t i = 0; i < sizeof from; i++) from[i] = (uint8_t)(i + 1);
    for (size_t place = 0; place < 64; place++) {
        for (size_t bytes = 0; bytes < 200; bytes += bytes < 70 ? 1 : 13) {
            memset(to, 0, sizeof to);
            est_copy_across(to + place, from + place % 7, bytes);
            for (size_t i = 0; i < sizeof to; i++) {
                bool in = i >= place && i < place + bytes;

                assert_int_equal(to[i], in ? from[place % 7 + i - place] : 0);
            }
        }
    }
    est_copy_across(NULL, NULL, 0);
}

TEST(poll)
{
    est_mark mark = { 0 };

    assert_false(est_poll(is_set, &mark, false, 1000));
    assert_false(est_poll(is_set, &mark, true, 1000));
    assert_false(est_poll(is_set, &mark, false, 0));
    assert_false(est_poll(is_set, &mark, true, 0));
    est_mark_set(&mark, 1);
    assert_true(est_poll(is_set, &mark, false, 0));
    assert_true(est_poll(is_set, &mark, true, 0));
}
