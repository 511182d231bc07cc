/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON access by path. */
#include "base/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#define PATH_MAX_BYTES 256

est_status est_json_parse(const char *text, size_t size, const char *what, est_json **out)
{
    json_error_t error;
    json_t      *value = json_loadb(text, size, JSON_DECODE_ANY, &error);

    if (value == NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "%s is not JSON: line %d, column %d: %s", what, error.line, error.column,
                        error.text);
    }
    *out = value;
    return EST_OK;
}

void est_json_warn_of_duplicates(const char *text, size_t size, const char *what)
{
    json_error_t error;
    json_t      *value = json_loadb(text, size, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);

    if (value == NULL && json_error_code(&error) == json_error_duplicate_key) {
        est_log_warn("%s: line %d, column %d: %s; the last one counts", what, error.line, error.column, error.text);
    }
    json_decref(value);
}

void est_json_free(est_json *value)
{
    json_decref(value);
}

/* Takes one step of a path, ".key", "key" or "[3]", from *at on; NULL when it leads nowhere. */
static json_t *path_step(const json_t *value, const char **at)
{
    char   key[PATH_MAX_BYTES];
    char  *end;
    size_t size;

    if (**at == '[') {
        unsigned long long index = strtoull(*at + 1, &end, 10);

        if (*end != ']' || end == *at + 1) return NULL;
        *at = end + 1;
        return json_array_get(value, (size_t)index);
    }
    if (**at == '.') (*at)++;
    size = strcspn(*at, ".[");
    memcpy(key, *at, size); /* a path is never longer than PATH_MAX_BYTES */
    key[size] = '\0';
    *at += size;
    return json_object_get(value, key);
}

/* The value at a path that has been printed; NULL when there is none. */
static json_t *path_find(const json_t *root, const char *path)
{
    union {
        const json_t *in;
        json_t       *out;
    } value = { root }; /* jansson's getters take const and give what may be changed; "" gives the root the same way */

    while (value.out != NULL && *path != '\0') value.out = path_step(value.in, &path);
    return value.out;
}

/* Prints the path. One that does not fit ends in dots, which lead nowhere. */
static void path_print(char path[PATH_MAX_BYTES], const char *fmt, va_list args)
{
    if (vsnprintf(path, PATH_MAX_BYTES, fmt, args) >= PATH_MAX_BYTES) memcpy(path + PATH_MAX_BYTES - 4, "...", 4);
}

static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return "a real number";
    case JSON_TRUE:
    case JSON_FALSE: return "a boolean";
    case JSON_NULL: return "null";
    }
    return "something else";
}

/* The value at `path`, checked by `is`; `expected` is for the error. */
static est_status path_get(const json_t *root, const char *path, bool (*is)(const json_t *), const char *expected,
                           json_t **out)
{
    json_t     *value = path_find(root, path);
    const char *name  = *path != '\0' ? path : "the value";

    if (value == NULL) return est_fail(EST_NOT_FOUND, "%s is missing; expected %s", name, expected);
    if (!is(value)) return est_fail(EST_INVALID_ARGUMENT, "%s is %s; expected %s", name, type_name(value), expected);
    *out = value;
    return EST_OK;
}

static bool is_integer(const json_t *value)
{
    return json_is_integer(value);
}

static bool is_number(const json_t *value)
{
    return json_is_number(value);
}

static bool is_boolean(const json_t *value)
{
    return json_is_boolean(value);
}

static bool is_string(const json_t *value)
{
    return json_is_string(value);
}

static bool is_object(const json_t *value)
{
    return json_is_object(value);
}

static bool is_array(const json_t *value)
{
    return json_is_array(value);
}

est_json *est_json_get(const est_json *root, const char *path, ...)
{
    char    text[PATH_MAX_BYTES];
    va_list args;

    va_start(args, path);
    path_print(text, path, args);
    va_end(args);
    return path_find(root, text);
}

/* The common part of the typed getters: prints the path, then declares `value` found and checked. */
#define GET_VALUE(is, expected)                                                                                        \
    char    text[PATH_MAX_BYTES];                                                                                      \
    json_t *value;                                                                                                     \
    va_list args;                                                                                                      \
    va_start(args, path);                                                                                              \
    path_print(text, path, args);                                                                                      \
    va_end(args);                                                                                                      \
    EST_TRY(path_get(root, text, (is), (expected), &value))

est_status est_json_i64(const est_json *root, int64_t *out, const char *path, ...)
{
    GET_VALUE(is_integer, "an integer");
    *out = json_integer_value(value);
    return EST_OK;
}

est_status est_json_f64(const est_json *root, double *out, const char *path, ...)
{
    GET_VALUE(is_number, "a number");
    *out = json_number_value(value);
    return EST_OK;
}

est_status est_json_bool(const est_json *root, bool *out, const char *path, ...)
{
    GET_VALUE(is_boolean, "a boolean");
    *out = json_is_true(value);
    return EST_OK;
}

est_status est_json_string(const est_json *root, const char **out, const char *path, ...)
{
    GET_VALUE(is_string, "a string");
    *out = json_string_value(value);
    return EST_OK;
}

est_status est_json_object(const est_json *root, est_json **out, const char *path, ...)
{
    GET_VALUE(is_object, "an object");
    *out = value;
    return EST_OK;
}

est_status est_json_array(const est_json *root, est_json **out, size_t *n, const char *path, ...)
{
    GET_VALUE(is_array, "an array");
    *out = value;
    if (n != NULL) *n = json_array_size(value);
    return EST_OK;
}
