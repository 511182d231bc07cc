/* SPDX-License-Identifier: Apache-2.0
 *
 * The log: messages of the library for humans.
 *
 * By default lines go to standard error, down to info. The environment variable ESTOC_LOG (error, warn, info, debug,
 * trace or off) sets the level of a program that does not set its own; "info,json" makes the lines JSON objects.
 *
 * Threading: any thread. */
#ifndef ESTOC_LOG_H
#define ESTOC_LOG_H

#include "estoc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum est_log_level {
    EST_LOG_OFF   = 0, /* as a level to set: nothing is logged */
    EST_LOG_ERROR = 1, /* a human must look */
    EST_LOG_WARN  = 2, /* a human should look */
    EST_LOG_INFO  = 3, /* events of a run */
    EST_LOG_DEBUG = 4, /* objects */
    EST_LOG_TRACE = 5  /* steps and messages */
} est_log_level;

/* Logs everything down to `level`; wins over ESTOC_LOG. */
EST_API void est_log_set_level(est_log_level level);

/* The level in force. */
EST_API est_log_level est_log_get_level(void);

/* The level's name in lower case, as ESTOC_LOG spells it; never NULL. */
EST_API const char *est_log_level_name(est_log_level level);

/* Receives one line without a newline; `line` is borrowed until the call returns. May be called by several threads at
 * once. */
typedef void (*est_log_sink_fn)(void *user, est_log_level level, int64_t wall_ns, const char *line);

/* Sends lines to `sink` instead of standard error; NULL: standard error again. `user` is borrowed until the sink is
 * replaced and no thread of the library is still logging. */
EST_API void est_log_set_sink(est_log_sink_fn sink, void *user);

/* A ready-made sink: every line as {"time": ..., "level": ..., "message": ...}, to the FILE that `user` is; NULL: to
 * standard error. */
EST_API void est_log_json_sink(void *user, est_log_level level, int64_t wall_ns, const char *line);

#ifdef __cplusplus
}
#endif
#endif
