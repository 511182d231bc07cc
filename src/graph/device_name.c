/* SPDX-License-Identifier: Apache-2.0
 *
 * A device string is parts of "/key:value", each key once. */
#include "graph/device_name.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "device/devices.h"

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define DIGITS  "0123456789"

enum { JOB = 1, REPLICA = 2, TASK = 4, DEVICE = 8 };

typedef struct text {
    const char *at;
    size_t      n;
} text;

static bool is_number(text t)
{
    if (t.n == 1 && t.at[0] == '*') return true; /* any */
    return t.n > 0 && t.n <= 9 && strspn(t.at, DIGITS) >= t.n;
}

static bool is_name(text t)
{
    if (t.n == 1 && t.at[0] == '*') return true;
    return t.n > 0 && strchr(LETTERS, t.at[0]) != NULL && strspn(t.at, LETTERS DIGITS "_") >= t.n;
}

static bool is_key(text t, const char *key)
{
    return t.n == strlen(key) && strncasecmp(t.at, key, t.n) == 0;
}

/* Takes the text before the next colon, and the colon. */
static text cut(text *rest)
{
    const char *colon = memchr(rest->at, ':', rest->n);
    text        first = { rest->at, colon != NULL ? (size_t)(colon - rest->at) : rest->n };
    size_t      taken = colon != NULL ? first.n + 1 : first.n;

    rest->at += taken;
    rest->n -= taken;
    return first;
}

/* The kind of a part "key:value"; 0: invalid. */
static int part_kind(text part)
{
    text rest = part, key = cut(&rest), type;

    if (is_key(key, "job")) return is_name(rest) ? JOB : 0;
    if (is_key(key, "replica")) return is_number(rest) ? REPLICA : 0;
    if (is_key(key, "task")) return is_number(rest) ? TASK : 0;
    if (is_key(key, "cpu") || is_key(key, "gpu")) return is_number(rest) ? DEVICE : 0;
    if (!is_key(key, "device")) return 0;
    type = cut(&rest);
    if (!is_name(type)) return 0;
    return type.at + type.n == part.at + part.n || is_number(rest) ? DEVICE : 0; /* the number may be left out */
}

est_status est_device_name_check(const char *device)
{
    int seen = 0;

    for (const char *at = device; *at != '\0';) {
        text part = { at + 1, strcspn(at + 1, "/") };
        int  kind = at[0] == '/' ? part_kind(part) : 0;

        if (kind == 0 || (seen & kind) != 0) {
            return est_fail(
                EST_INVALID_ARGUMENT,
                "the device is \"%.80s\"; write parts of \"/job:worker/replica:0/task:0/device:CPU:0\", each "
                "at most once, or \"\" for any device",
                device);
        }
        seen |= kind;
        at = part.at + part.n;
    }
    return EST_OK;
}

est_device_task est_device_name_task(const char *device)
{
    est_device_task out = { .task = -1, .number = -1 };

    for (const char *at = device; *at != '\0';) {
        text part = { at + 1, strcspn(at + 1, "/") }, value = part, key = cut(&value);
        int  kind = part_kind(part);

        if (kind == DEVICE && is_key(key, "device")) key = cut(&value);
        if (kind == DEVICE && key.n < sizeof out.kind) memcpy(out.kind, key.at, key.n);
        if (kind == DEVICE && (value.n == 0 || value.at[0] != '*')) out.number = (int)strtol(value.at, NULL, 10);
        if (kind == JOB && value.at[0] != '*' && value.n < sizeof out.job) memcpy(out.job, value.at, value.n);
        if (kind == TASK && value.at[0] != '*') out.task = (int)strtol(value.at, NULL, 10); /* at most 9 digits */
        at = part.at + part.n;
    }
    return out;
}

est_status est_device_named(const char *name, const est_device **out)
{
    est_device_task   wanted;
    const est_device *device = &est_device_cpu;

    EST_TRY(est_device_name_check(name));
    wanted = est_device_name_task(name);
    if (strcasecmp(wanted.kind, "CPU") != 0) { /* which opens no plug-in */
        device = wanted.kind[0] != '\0' ? est_device_find(wanted.kind, wanted.number) : NULL;
    }
    if (device == NULL) {
        return est_fail(EST_NOT_FOUND, "there is no device \"%s\" here%s%s", name,
                        est_device_missing()[0] != '\0' ? "; " : "", est_device_missing());
    }
    *out = device;
    return EST_OK;
}
