/* SPDX-License-Identifier: Apache-2.0
 *
 * Proposals and decisions on the wire. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "collective/membership_round.h"

enum {
    VERSION = 1,
    NUMBER,
    LIST,
    STEP,
    GENERATION,
    MEMBERS,
    PAYLOAD,
    KIND,
    INCARNATIONS,
    SOURCE, /* one more than the rank */
    STATUS,
    TEXT,
    WHY,
    ADDRESS,
    PURPOSE,
    TASKS,
    OPTIONS,
    SUMS
};

#define STATUS_MAX 16

/* --- memory ------------------------------------------------------------------------------------------------------- */

void est_terms_clear(est_terms *t)
{
    est_free(t->tasks);
    est_free(t->options);
    *t = (est_terms){ 0 };
}

est_status est_terms_copy(const est_terms *from, est_terms *out)
{
    est_terms copy = { from->list, est_strdup(from->tasks), est_strdup(from->options) };

    if (copy.tasks == NULL || copy.options == NULL) {
        est_terms_clear(&copy);
        return est_no_memory();
    }
    *out = copy;
    return EST_OK;
}

void est_proposal_clear(est_proposal *a)
{
    est_terms_clear(&a->terms);
    est_free(a->members.data);
    est_free(a->address);
    est_free(a->payload);
    est_free(a->purpose);
    est_free(a->why);
    *a = (est_proposal){ 0 };
}

void est_decision_clear(est_decision *a)
{
    for (int i = 0; i < a->members.n && a->addresses != NULL; i++) est_free(a->addresses[i]);
    est_free(a->addresses);
    est_free(a->members.data);
    est_free(a->incarnations);
    est_free(a->payload);
    est_free(a->text);
    *a = (est_decision){ 0 };
}

int est_decision_rank(const est_decision *a, int number, uint64_t incarnation)
{
    for (int i = 0; i < a->members.n; i++) {
        if (a->members.data[i] == number && a->incarnations[i] == incarnation) return i;
    }
    return -1;
}

est_status est_decision_refuse(est_decision *out, est_status status, const char *fmt, ...)
{
    char    text[1024], *copy;
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    copy = est_strdup(text);
    if (copy == NULL) return est_no_memory();
    *out = (est_decision){ .kind = EST_DECIDED_REFUSAL, .source = -1, .step = -1, .status = status, .text = copy };
    return EST_OK;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static void put_numbers(est_wire_writer *out, est_numbers numbers)
{
    for (int i = 0; i < numbers.n; i++) est_wire_put_i64(out, MEMBERS, numbers.data[i]);
}

void est_proposal_write(const est_proposal *a, est_wire_writer *out)
{
    est_wire_put_u64(out, VERSION, EST_MEMBERSHIP_VERSION);
    est_wire_put_i64(out, NUMBER, a->number);
    est_wire_put_fixed64(out, LIST, a->terms.list);
    est_wire_put_string(out, TASKS, a->terms.tasks);
    est_wire_put_string(out, OPTIONS, a->terms.options);
    est_wire_put_i64(out, STEP, a->step);
    est_wire_put_u64(out, GENERATION, a->generation);
    put_numbers(out, a->members);
    est_wire_put_string(out, ADDRESS, a->address);
    est_wire_put_string(out, PAYLOAD, a->payload);
    est_wire_put_string(out, WHY, a->why);
    est_wire_put_string(out, PURPOSE, a->purpose);
    est_wire_put_u64(out, SUMS, a->sums);
}

void est_decision_write(const est_decision *a, est_wire_writer *out)
{
    est_wire_put_u64(out, VERSION, EST_MEMBERSHIP_VERSION);
    est_wire_put_i64(out, KIND, a->kind);
    if (a->kind == EST_DECIDED_GROUP) {
        est_wire_put_u64(out, GENERATION, a->generation);
        put_numbers(out, a->members);
        for (int i = 0; i < a->members.n; i++) est_wire_put_fixed64(out, INCARNATIONS, a->incarnations[i]);
        for (int i = 0; i < a->members.n; i++) est_wire_put_string(out, ADDRESS, a->addresses[i]);
        est_wire_put_i64(out, SOURCE, a->source + 1);
        est_wire_put_i64(out, STEP, a->step);
        est_wire_put_u64(out, SUMS, a->sums);
        est_wire_put_string(out, PAYLOAD, a->payload);
    } else if (a->kind == EST_DECIDED_REFUSAL) {
        est_wire_put_i64(out, STATUS, a->status);
        est_wire_put_string(out, TEXT, a->text);
    }
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* The fields of both messages, as far as they are present. */
typedef struct fields {
    uint64_t    version, list, generation, sums;
    int64_t     number, step, kind, source, status;
    est_numbers members;
    bool        bad_members; /* some are out of range or out of order */
    uint64_t   *incarnations;
    int         n_incarnations;
    est_str    *addresses;
    int         n_addresses;
    est_str     payload, text, why, purpose, tasks, options;
} fields;

static void clear_fields(fields *f)
{
    est_free(f->members.data);
    est_free(f->incarnations);
    est_free(f->addresses);
}

/* Tasks in order, each once. */
static void add_number(fields *f, int64_t number, int n_tasks)
{
    if (number < 0 || number >= n_tasks || f->members.n == n_tasks ||
        (f->members.n > 0 && number <= f->members.data[f->members.n - 1])) {
        f->bad_members = true;
    } else {
        f->members.data[f->members.n++] = (int)number;
    }
}

static est_status check_numbers(const fields *f, int n_tasks)
{
    if (!f->bad_members) return EST_OK;
    return est_fail(EST_DATA_LOSS, "membership message: members are not distinct task numbers below %d, in order",
                    n_tasks);
}

static est_status read_field(est_wire_reader *r, const est_wire_field *field, int n_tasks, fields *f)
{
    switch (field->number) {
    case VERSION: f->version = est_wire_u64(r, field); break;
    case NUMBER: f->number = est_wire_i64(r, field); break;
    case LIST: f->list = est_wire_fixed64(r, field); break;
    case STEP: f->step = est_wire_i64(r, field); break;
    case GENERATION: f->generation = est_wire_u64(r, field); break;
    case MEMBERS: add_number(f, est_wire_i64(r, field), n_tasks); break;
    case PAYLOAD: f->payload = est_wire_bytes(r, field); break;
    case KIND: f->kind = est_wire_i64(r, field); break;
    case INCARNATIONS:
        if (f->n_incarnations == n_tasks)
            return est_fail(EST_DATA_LOSS, "membership message has more than %d members", n_tasks);
        f->incarnations[f->n_incarnations++] = est_wire_fixed64(r, field);
        break;
    case SOURCE: f->source = est_wire_i64(r, field); break;
    case STATUS: f->status = est_wire_i64(r, field); break;
    case TEXT: f->text = est_wire_bytes(r, field); break;
    case ADDRESS:
        if (f->n_addresses == n_tasks)
            return est_fail(EST_DATA_LOSS, "membership message has more than %d members", n_tasks);
        f->addresses[f->n_addresses++] = est_wire_bytes(r, field);
        break;
    case WHY: f->why = est_wire_bytes(r, field); break;
    case PURPOSE: f->purpose = est_wire_bytes(r, field); break;
    case TASKS: f->tasks = est_wire_bytes(r, field); break;
    case OPTIONS: f->options = est_wire_bytes(r, field); break;
    case SUMS: f->sums = est_wire_u64(r, field); break;
    default: break;
    }
    return EST_OK;
}

static est_status read_fields(const void *bytes, size_t size, int n_tasks, fields *f)
{
    est_wire_reader r;
    est_wire_field  field;

    *f              = (fields){ .number = -1, .step = -1 };
    f->members.data = est_alloc(sizeof *f->members.data * (size_t)n_tasks);
    f->incarnations = est_alloc(sizeof *f->incarnations * (size_t)n_tasks);
    f->addresses    = est_alloc(sizeof *f->addresses * (size_t)n_tasks);
    if (f->members.data == NULL || f->incarnations == NULL || f->addresses == NULL) return est_no_memory();
    est_wire_reader_init(&r, "membership", bytes, size);
    while (est_wire_next(&r, &field)) EST_TRY(read_field(&r, &field, n_tasks, f));
    EST_TRY(est_wire_finish(&r));
    if (f->version != EST_MEMBERSHIP_VERSION) {
        return est_fail(EST_FAILED_PRECONDITION, "membership messages of version %llu; this task has version %d",
                        (unsigned long long)f->version, EST_MEMBERSHIP_VERSION);
    }
    if (f->step < -1 || f->generation > INT64_MAX) { /* which leaves room for the next */
        return est_fail(EST_DATA_LOSS, "membership message with step %lld and generation %llu", (long long)f->step,
                        (unsigned long long)f->generation);
    }
    return EST_OK;
}

static est_status copy_text(est_str text, char **out)
{
    char *copy = est_alloc(text.size + 1);

    if (copy == NULL) return est_no_memory();
    if (text.size > 0) memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    *out            = copy;
    return EST_OK;
}

static est_status take_proposal(fields *f, int n_tasks, uint64_t list, est_proposal *out)
{
    est_proposal a = { .number     = (int)f->number,
                       .terms      = { .list = f->list },
                       .step       = f->step,
                       .generation = f->generation,
                       .sums       = f->sums != 0 };
    est_status   status;

    if (f->number < 0 || f->number > INT_MAX || f->n_addresses != 1 || (f->list == list && f->number >= n_tasks)) {
        return est_fail(EST_DATA_LOSS, "proposal of task %lld with %d addresses; the cluster has %d tasks",
                        (long long)f->number, f->n_addresses, n_tasks);
    }
    if (f->list == list) {
        EST_TRY(check_numbers(f, n_tasks));
        a.members  = f->members;
        f->members = (est_numbers){ 0 };
    }
    status = copy_text(f->addresses[0], &a.address);
    if (status == EST_OK) status = copy_text(f->payload, &a.payload);
    if (status == EST_OK) status = copy_text(f->why, &a.why);
    if (status == EST_OK) status = copy_text(f->purpose, &a.purpose);
    if (status == EST_OK) status = copy_text(f->tasks, &a.terms.tasks);
    if (status == EST_OK) status = copy_text(f->options, &a.terms.options);
    if (status != EST_OK) {
        est_proposal_clear(&a);
        return status;
    }
    *out = a;
    return EST_OK;
}

static est_status take_group(fields *f, int n_tasks, est_decision *out)
{
    est_decision a      = { .kind         = EST_DECIDED_GROUP,
                            .generation   = f->generation,
                            .members      = f->members,
                            .incarnations = f->incarnations,
                            .source       = (int)f->source - 1,
                            .step         = f->step,
                            .sums         = f->sums != 0 };
    est_status   status = EST_OK;

    EST_TRY(check_numbers(f, n_tasks));
    if (f->generation == 0 || f->members.n == 0 || f->n_incarnations != f->members.n ||
        f->n_addresses != f->members.n || f->source < 0 || f->source > f->members.n ||
        (f->source == 0) != (f->step < 0)) {
        return est_fail(
            EST_DATA_LOSS,
            "inconsistent decision: generation %llu, %d members, %d incarnations, %d addresses, source %lld, step %lld",
            (unsigned long long)f->generation, f->members.n, f->n_incarnations, f->n_addresses,
            (long long)f->source - 1, (long long)f->step);
    }
    f->members      = (est_numbers){ 0 };
    f->incarnations = NULL;
    a.addresses     = est_zalloc(sizeof(char *) * (size_t)a.members.n);
    if (a.addresses == NULL) status = est_no_memory();
    for (int i = 0; i < a.members.n && status == EST_OK; i++) status = copy_text(f->addresses[i], &a.addresses[i]);
    if (status == EST_OK) status = copy_text(f->payload, &a.payload);
    if (status != EST_OK) {
        est_decision_clear(&a);
        return status;
    }
    *out = a;
    return EST_OK;
}

static est_status take_decision(fields *f, int n_tasks, est_decision *out)
{
    est_decision a = { .source = -1, .step = -1 };

    if (f->kind == EST_DECIDED_GROUP) {
        return take_group(f, n_tasks, out);
    } else if (f->kind == EST_DECIDED_REFUSAL) {
        if (f->status < 1 || f->status > STATUS_MAX)
            return est_fail(EST_DATA_LOSS, "membership refusal with status %lld", (long long)f->status);
        EST_TRY(copy_text(f->text, &a.text));
        a.kind   = EST_DECIDED_REFUSAL;
        a.status = (est_status)f->status;
    } else if (f->kind == EST_DECIDED_OVER) {
        a.kind = EST_DECIDED_OVER;
    } else {
        return est_fail(EST_DATA_LOSS, "unknown membership decision %lld", (long long)f->kind);
    }
    *out = a;
    return EST_OK;
}

est_status est_proposal_read(const void *bytes, size_t size, int n_tasks, uint64_t list, est_proposal *out)
{
    fields     f;
    est_status status = read_fields(bytes, size, n_tasks, &f);

    if (status == EST_OK) status = take_proposal(&f, n_tasks, list, out);
    clear_fields(&f);
    return status;
}

est_status est_decision_read(const void *bytes, size_t size, int n_tasks, est_decision *out)
{
    fields     f;
    est_status status = read_fields(bytes, size, n_tasks, &f);

    if (status == EST_OK) status = take_decision(&f, n_tasks, out);
    clear_fields(&f);
    return status;
}
