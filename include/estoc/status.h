/* SPDX-License-Identifier: Apache-2.0
 *
 * Status codes, error text and the few macros every other header needs.
 *
 * A function that can fail returns est_status and writes its outputs only when it returns EST_OK. The text of the last
 * failure is kept per thread: est_error_message(). Codes and numbers are the canonical set that TensorFlow and gRPC
 * use, because retry logic keys on them: EST_ABORTED and EST_UNAVAILABLE mean "recover and continue", everything else
 * ends the run.
 *
 * A wrong argument is an error, never a crash: NULL where no comment allows it, an index that is out of range, an
 * unknown key, options of another kind (estoc/options.h). A function that returns est_status returns
 * EST_INVALID_ARGUMENT. One that looks something up (est_metrics_get, est_checkpoint_at) returns NULL for a pointer,
 * NaN for a double, 0 for a count or a size, -1 for an index or a step, false for a bool. One that makes an object
 * (est_nan_hook, est_best_exporter, est_columns_create) and returns it in place of a status returns NULL, and
 * est_error_message says why. One that returns nothing does nothing. A builder of nodes, datasets or columns keeps the
 * error for the call that ends the chain (est_graph_status, est_dataset_finish, est_columns_status); of no graph at all
 * it returns EST_NO_NODE, and est_error_message says why. Pointers to freed objects, or to objects of another type,
 * cannot be detected.
 *
 * Threading: any thread; error text belongs to the thread that saw the failure. */
#ifndef ESTOC_STATUS_H
#define ESTOC_STATUS_H

#include <stddef.h>
#include <stdint.h>

#include "estoc/options.h"

#ifdef __cplusplus
extern "C" {
#endif

#define EST_API               __attribute__((visibility("default")))
#define EST_MUST_CHECK        __attribute__((warn_unused_result))
#define EST_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* Values that an option takes where 0 means "the default". EST_OFF, for integers and doubles alike, is a real 0, or
 * "none": it is a number that no option has a use for, since -2 is one for some (EST_FTRL(.learning_rate_power =
 * -2)). */
#define EST_AUTO    (-1)
#define EST_FOREVER (-3)
#define EST_OFF     INT32_MIN

/* The struct that a member is embedded in, as a hook embeds est_hook. */
#define EST_CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* name, number, text */
#define EST_STATUS_LIST(X)                                                                                             \
    X(OK, 0, "ok")                                                                                                     \
    X(CANCELLED, 1, "cancelled")                                                                                       \
    X(UNKNOWN, 2, "unknown error")                                                                                     \
    X(INVALID_ARGUMENT, 3, "invalid argument")                                                                         \
    X(DEADLINE_EXCEEDED, 4, "deadline exceeded")                                                                       \
    X(NOT_FOUND, 5, "not found")                                                                                       \
    X(ALREADY_EXISTS, 6, "already exists")                                                                             \
    X(PERMISSION_DENIED, 7, "permission denied")                                                                       \
    X(RESOURCE_EXHAUSTED, 8, "resource exhausted")                                                                     \
    X(FAILED_PRECONDITION, 9, "failed precondition")                                                                   \
    X(ABORTED, 10, "aborted")                                                                                          \
    X(OUT_OF_RANGE, 11, "out of range")                                                                                \
    X(UNIMPLEMENTED, 12, "unimplemented")                                                                              \
    X(INTERNAL, 13, "internal error")                                                                                  \
    X(UNAVAILABLE, 14, "unavailable")                                                                                  \
    X(DATA_LOSS, 15, "data loss")                                                                                      \
    X(UNAUTHENTICATED, 16, "unauthenticated")

typedef enum est_status {
#define EST_STATUS_ENUM(name, number, text) EST_##name = number,
    EST_STATUS_LIST(EST_STATUS_ENUM)
#undef EST_STATUS_ENUM
} est_status;

/* The name of a code, as "INVALID_ARGUMENT"; never NULL. */
EST_API const char *est_status_name(est_status status);

/* The text of this thread's last failure; "" if there was none. Borrowed until the thread's next failure. */
EST_API const char *est_error_message(void);

/* The source location of that failure, as "file.c:123"; "" if there was none. Borrowed likewise. */
EST_API const char *est_error_where(void);

/* Records a failure for this thread and returns `status`, so that one can write `return est_fail(...)`. */
EST_API est_status est_fail_at(const char *file, int line, est_status status, const char *fmt, ...) EST_PRINTF(4, 5);
/* `status` is written twice so that compilers see that the result is never EST_OK. */
#define est_fail(status, ...) (est_fail_at(__FILE__, __LINE__, (status), __VA_ARGS__), (status))

/* Puts "context: " in front of the recorded text; used at a boundary the user knows. Returns `status`. */
EST_API est_status est_fail_context(est_status status, const char *fmt, ...) EST_PRINTF(2, 3);

/* Forgets this thread's last failure: est_error_message is "" again. */
EST_API void est_error_clear(void);

/* A failure as a value: how a worker thread passes its error to the waiting thread. */
typedef struct est_error {
    est_status status;
    char       where[64];
    char       message[1024];
} est_error;

/* Copies this thread's last failure (status given by the caller) out, or puts a copied one back. raise returns
 * error->status. */
EST_API void       est_error_take(est_status status, est_error *out);
EST_API est_status est_error_raise(const est_error *error);

/* Returns from the calling function when `expr` fails and there is nothing to undo. */
#define EST_TRY(expr)                                                                                                  \
    do {                                                                                                               \
        est_status est_try_status_ = (expr);                                                                           \
        if (est_try_status_ != EST_OK) return est_try_status_;                                                         \
    } while (0)

/* Lists travel as spans, a pointer with its count: EST_I64S(1, 2, 3), or { pointer, n }. A zeroed span is an empty
 * list. Only arrays that a function writes to, and plain data, are a pointer and a count apart. */
#define EST_SPAN(span, element, ...)                                                                                   \
    ((span){ (element[]){ __VA_ARGS__ }, (int)(sizeof((element[]){ __VA_ARGS__ }) / sizeof(element)) })

typedef struct est_i64s {
    const int64_t *data;
    int            n;
} est_i64s;

typedef struct est_f32s {
    const float *data;
    int          n;
} est_f32s;

typedef struct est_f64s {
    const double *data;
    int           n;
} est_f64s;

typedef struct est_strings {
    const char *const *data;
    int                n;
} est_strings;

#define EST_I64S(...)    EST_SPAN(est_i64s, const int64_t, __VA_ARGS__)
#define EST_F32S(...)    EST_SPAN(est_f32s, const float, __VA_ARGS__)
#define EST_F64S(...)    EST_SPAN(est_f64s, const double, __VA_ARGS__)
#define EST_STRINGS(...) EST_SPAN(est_strings, const char *const, __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
