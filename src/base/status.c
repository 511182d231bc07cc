/* SPDX-License-Identifier: Apache-2.0
 *
 * Status names and the error text of each thread. The text lives in one fixed thread-local record, so reporting a
 * failure never allocates and works when memory is out; text that does not fit is cut. */
#include "estoc/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local est_error last;

const char *est_status_name(est_status status)
{
    switch (status) {
#define EST_STATUS_NAME(name, number, text)                                                                            \
    case EST_##name: return #name;
        EST_STATUS_LIST(EST_STATUS_NAME)
#undef EST_STATUS_NAME
    }
    return "UNKNOWN";
}

const char *est_error_message(void)
{
    return last.message;
}

const char *est_error_where(void)
{
    return last.where;
}

/* Appends as much of `text` as fits, always terminated. */
static void text_append(char out[sizeof last.message], const char *text)
{
    size_t at   = strlen(out);
    size_t size = strnlen(text, sizeof last.message - 1 - at);

    memcpy(out + at, text, size);
    out[at + size] = '\0';
}

est_status est_fail_at(const char *file, int line, est_status status, const char *fmt, ...)
{
    const char *slash = strrchr(file, '/');
    char        text[sizeof last.message]; /* apart from `last`: an argument may be est_error_message() itself */
    va_list     args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);

    last.status = status;
    snprintf(last.where, sizeof last.where, "%.48s:%d", slash != NULL ? slash + 1 : file, line);
    memcpy(last.message, text, strlen(text) + 1);
    return status;
}

est_status est_fail_context(est_status status, const char *fmt, ...)
{
    char    text[sizeof last.message];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);

    text_append(text, ": ");
    text_append(text, last.message);
    last.status = status;
    memcpy(last.message, text, strlen(text) + 1);
    return status;
}

void est_error_clear(void)
{
    last.status     = EST_OK;
    last.where[0]   = '\0';
    last.message[0] = '\0';
}

void est_error_take(est_status status, est_error *out)
{
    if (out == NULL) return;
    *out        = last;
    out->status = status;
}

est_status est_error_raise(const est_error *error)
{
    if (error == NULL) return est_fail(EST_INVALID_ARGUMENT, "est_error_raise: error is NULL");
    if (error != &last) last = *error;
    return error->status;
}
