/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared memory as a memfd, sealed against changes of its size: if a process could shrink it, others would get
 * SIGBUS. */
#include "base/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/thread.h"

#ifdef __AVX__
#include <immintrin.h>
#endif

#define SEALS      (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define POLL_LOOKS 64 /* before the core is offered: about two microseconds, of which a small sum takes one */

static est_status map(int fd, size_t bytes, est_shared_memory *out)
{
    void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (data == MAP_FAILED)
        return est_fail(EST_UNAVAILABLE, "cannot map %zu bytes of shared memory: %s", bytes, strerror(errno));
    *out = (est_shared_memory){ .data = data, .bytes = bytes, .fd = -1 };
    return EST_OK;
}

est_status est_shared_memory_create(size_t bytes, est_shared_memory *out, est_shared_memory_name *name)
{
    int        fd     = memfd_create("estoc", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    uint64_t   cookie = 0;
    est_status status;

    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0 || fcntl(fd, F_ADD_SEALS, SEALS) != 0 ||
        getrandom(&cookie, sizeof cookie, 0) != sizeof cookie) {
        status = est_fail(EST_UNAVAILABLE, "cannot make %zu bytes of shared memory: %s", bytes, strerror(errno));
    } else {
        status = map(fd, bytes, out);
    }
    if (status != EST_OK) {
        if (fd >= 0) close(fd);
        return status;
    }
    cookie |= 1; /* never 0 */
    memcpy(out->data, &cookie, sizeof cookie);
    out->fd = fd;
    *name   = (est_shared_memory_name){ .cookie = cookie, .bytes = bytes, .pid = getpid(), .fd = fd };
    return EST_OK;
}

/* Whether a file that was found is a memory as we make it. */
static bool is_ours(int fd, const est_shared_memory_name *name)
{
    struct stat is;

    return fcntl(fd, F_GET_SEALS) == SEALS && fstat(fd, &is) == 0 && (uint64_t)is.st_size == name->bytes;
}

est_status est_shared_memory_open(const est_shared_memory_name *name, est_shared_memory *out)
{
    est_shared_memory memory;
    char              path[64];
    int               fd;
    est_status        status;

    if (name->cookie == 0 || name->bytes < EST_SHARED_MEMORY_FIRST)
        return est_fail(EST_UNAVAILABLE, "shared memory is not available");
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)name->pid, (int)name->fd);
    fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return est_fail(EST_UNAVAILABLE, "%s: %s", path, strerror(errno));
    if (is_ours(fd, name)) {
        status = map(fd, name->bytes, &memory);
    } else {
        status = est_fail(EST_UNAVAILABLE, "%s is another file", path);
    }
    close(fd);
    if (status != EST_OK) return status;
    if (memcmp(memory.data, &name->cookie, sizeof name->cookie) != 0) {
        est_shared_memory_close(&memory);
        return est_fail(EST_UNAVAILABLE, "the shared memory %s belongs to another user or job", path);
    }
    *out = memory;
    return EST_OK;
}

void est_shared_memory_hide(est_shared_memory *memory)
{
    if (memory->data != NULL && memory->fd >= 0) close(memory->fd);
    memory->fd = -1;
}

void est_shared_memory_close(est_shared_memory *memory)
{
    est_shared_memory_hide(memory);
    if (memory->data != NULL) munmap(memory->data, memory->bytes);
    *memory = (est_shared_memory){ .fd = -1 };
}

#ifdef __AVX__

#define STREAMED sizeof(__m256i)

void est_copy_across(void *to, const void *from, size_t bytes)
{
    uint8_t       *dst  = to;
    const uint8_t *src  = from;
    size_t         head = -(uintptr_t)dst % STREAMED; /* where whole ones begin */

    if (bytes == 0) return; /* from nowhere */
    if (head > bytes) head = bytes;
    if (head > 0) memcpy(dst, src, head);
    for (dst += head, src += head, bytes -= head; bytes >= STREAMED;
         dst += STREAMED, src += STREAMED, bytes -= STREAMED) {
        _mm256_stream_si256((__m256i *)(void *)dst, _mm256_loadu_si256((const __m256i *)(const void *)src));
    }
    if (bytes > 0) memcpy(dst, src, bytes);
    _mm_sfence();
}

#else

void est_copy_across(void *to, const void *from, size_t bytes)
{
    if (bytes > 0) memcpy(to, from, bytes);
}

#endif

bool est_poll(est_ready_fn ready, const void *arg, bool crowded, int64_t limit_ns)
{
    int     looks = crowded ? 1 : POLL_LOOKS;
    int64_t until = 0; /* set when polling fails, so that a short wait does not read the clock */

    for (;;) {
        for (int i = 0; i < looks; i++) {
            if (ready(arg)) return true;
            est_cpu_pause();
        }
        if (limit_ns == 0 || (until > 0 && est_machine_ns() >= until)) return false;
        if (until == 0) until = est_machine_ns() + limit_ns;
        (void)sched_yield();
    }
}
