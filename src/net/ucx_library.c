/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading UCX, and keeping it quiet: it would write to stdout, which is the program's. Setting UCX_LOG_LEVEL lets
 * it. */
#if defined(EST_UCX) && EST_UCX

#include "net/ucx_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucs/debug/log_def.h>

#define LIBRARY "libucp.so.0"

static est_ucx_library library;
static char            failure[256]; /* "": it is loaded */

/* What fails is returned to us as well. Our log would be called with locks held. */
static ucs_log_func_rc_t on_log(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                                const ucs_log_component_config_t *component, const char *message, va_list args)
{
    (void)file, (void)line, (void)function, (void)component, (void)message, (void)args;
    return level == UCS_LOG_LEVEL_FATAL ? UCS_LOG_FUNC_RC_CONTINUE : UCS_LOG_FUNC_RC_STOP; /* UCX ends the process */
}

static void *find(void *handle, const char *name)
{
    void *function = dlsym(handle, name);

    if (function == NULL && failure[0] == '\0') {
        snprintf(failure, sizeof failure, LIBRARY " has no %s: install UCX 1.13 or newer", name);
    }
    return function;
}

/* By default UCX leaves shared memory out where the death of a peer must be seen, and lets no other process have a port
 * for a minute; and it gives up peers by a clock of its own, while it is our beats that tell who is silent. It takes
 * these settings from the environment alone. What the user has set stays. */
static void set_defaults(void)
{
    static const char *const defaults[][2] = { { "UCX_POSIX_ERROR_HANDLING", "y" },
                                               { "UCX_SYSV_ERROR_HANDLING", "y" },
                                               { "UCX_TCP_CM_REUSEADDR", "y" },
                                               { "UCX_KEEPALIVE_INTERVAL", "inf" } };

    for (size_t i = 0; i < sizeof defaults / sizeof defaults[0]; i++) setenv(defaults[i][0], defaults[i][1], 0);
}

static void load(void)
{
    void                             *handle, *found;
    __typeof__(ucs_log_push_handler) *push;

    set_defaults();
    handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == NULL) {
        snprintf(failure, sizeof failure, "the transport ucx needs " LIBRARY ": install libucx0 (%.100s)", dlerror());
        return;
    }
#define FIND(name)                                                                                                     \
    found = find(handle, #name);                                                                                       \
    memcpy(&library.name, &found, sizeof found);
    EST_UCX_FUNCTIONS(FIND)
#undef FIND
    found = find(handle, "ucs_log_push_handler");
    memcpy(&push, &found, sizeof found);
    if (failure[0] == '\0' && getenv("UCX_LOG_LEVEL") == NULL) push(on_log);
}

est_status est_ucx_load(const est_ucx_library **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load);
    if (failure[0] != '\0') return est_fail(EST_UNIMPLEMENTED, "%s", failure);
    *out = &library;
    return EST_OK;
}

#endif
