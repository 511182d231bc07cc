/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys with rows. Removing a key from the index moves later ones of its run forward, so that no marks of removed ones
 * stay behind and searches stay short however many keys have come and gone. */
#include "kernels/key_rows.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/copy_on_write.h"
#include "kernels/random_stream.h"
#include "kernels/variable_access.h"

#define BATCH 32 /* keys on their way at the same time */

/* --- the index ---------------------------------------------------------------------------------------------------- */

static uint64_t hash_key(int64_t key)
{
    return est_stream_mix((uint64_t)key);
}

static int32_t row_of_slot(uint64_t slot)
{
    return (int32_t)((slot & UINT32_MAX) - 1);
}

static uint64_t slot_of(uint64_t hash, int32_t row)
{
    return hash >> 32 << 32 | ((uint64_t)row + 1);
}

/* Where the key is, or where it would be. */
static uint64_t find_slot(const est_key_rows *s, int64_t key, uint64_t hash)
{
    for (uint64_t at = hash;; at++) {
        uint64_t slot = s->slots[at & s->mask];

        if (slot == 0) return at & s->mask;
        if (slot >> 32 == hash >> 32 && s->keys[row_of_slot(slot)] == key) return at & s->mask;
    }
}

static void index_row(est_key_rows *s, int32_t row)
{
    uint64_t hash = hash_key(s->keys[row]);

    s->slots[find_slot(s, s->keys[row], hash)] = slot_of(hash, row);
}

static void unindex(est_key_rows *s, int64_t key)
{
    uint64_t hole = find_slot(s, key, hash_key(key));

    for (uint64_t at = (hole + 1) & s->mask; s->slots[at] != 0; at = (at + 1) & s->mask) {
        uint64_t home = hash_key(s->keys[row_of_slot(s->slots[at])]) & s->mask;

        if (((at - home) & s->mask) < ((at - hole) & s->mask)) continue; /* it would come before its home */
        s->slots[hole] = s->slots[at];
        hole           = at;
    }
    s->slots[hole] = 0;
}

est_status est_key_rows_reserve(est_key_rows *set, int64_t more)
{
    uint64_t  wanted = 2 * ((uint64_t)set->n + (uint64_t)more), n = set->slots != NULL ? set->mask + 1 : 16;
    uint64_t *slots;

    if (set->slots != NULL && n >= wanted) return EST_OK;
    while (n < wanted) n *= 2;
    slots = est_zalloc(n * sizeof *slots);
    if (slots == NULL) {
        return est_no_memory();
    }
    est_free(set->slots);
    set->slots = slots;
    set->mask  = n - 1;
    for (int64_t i = 0; i < set->n; i++) index_row(set, (int32_t)i);
    return EST_OK;
}

void est_key_rows_find(const est_key_rows *set, const int64_t *keys, int64_t n, int64_t *rows)
{
    uint64_t hash[BATCH];

    for (int64_t i = 0; i < n; i += BATCH) {
        int m = n - i < BATCH ? (int)(n - i) : BATCH;

        for (int k = 0; k < m && set->n > 0; k++) {
            hash[k] = hash_key(keys[i + k]);
            __builtin_prefetch(&set->slots[hash[k] & set->mask]);
        }
        for (int k = 0; k < m; k++) {
            uint64_t slot = set->n > 0 ? set->slots[find_slot(set, keys[i + k], hash[k])] : 0;

            rows[i + k] = slot != 0 ? row_of_slot(slot) : -1;
        }
    }
}

/* --- first values ------------------------------------------------------------------------------------------------- */

/* The numbers depend on the key and not on its row, so that it does not matter when a key came. */
static void draw_row(const est_row_draw *draw, int64_t key, int64_t n, float *out)
{
    est_random random = { .key = draw->seed, .stream = (uint64_t)key };
    float      factor = (float)draw->b, term = (float)draw->a;

    switch (draw->distribution) {
    case EST_ROW_UNKNOWN: /* no variable is made with that */
    case EST_ROW_CONSTANT:
        for (int64_t i = 0; i < n; i++) out[i] = term;
        return;
    case EST_ROW_UNIFORM:
        est_random_fill_uniform_f32(&random, 0, n, out);
        factor = (float)(draw->b - draw->a);
        break;
    case EST_ROW_NORMAL: est_random_fill_normal_f32(&random, 0, n, out); break;
    case EST_ROW_TRUNCATED: est_random_fill_truncated_f32(&random, 0, n, out); break;
    }
    for (int64_t i = 0; i < n; i++) out[i] = out[i] * factor + term;
}

void est_key_rows_draw(const est_key_rows *set, est_var *var, int64_t begin, int64_t end)
{
    int64_t size = est_row_size(&var->value);

    est_cow_keep_rows(var, begin, end - begin);
    for (int64_t i = begin; i < end; i++) {
        if (var->value.dtype == EST_F32) {
            draw_row(&var->draw, set->keys[i], size, (float *)var->value.data + i * size);
        } else { /* counters of keys start at 0 */
            size_t bytes = (size_t)size * est_dtype_size(var->value.dtype);

            memset((char *)var->value.data + (size_t)i * bytes, 0, bytes);
        }
    }
}

/* --- the list ----------------------------------------------------------------------------------------------------- */

static void append_to_list(est_key_rows *s, int32_t row)
{
    est_cow_keep_rows(s->vars[2], row, 1);
    s->older[row] = s->newest;
    s->newer[row] = -1;
    if (s->newest >= 0) s->newer[s->newest] = row;
    if (s->oldest < 0) s->oldest = row;
    s->newest = row;
}

static void take_from_list(est_key_rows *s, int32_t row)
{
    int32_t older = s->older[row], newer = s->newer[row];

    if (older >= 0) s->newer[older] = newer;
    if (newer >= 0) {
        est_cow_keep_rows(s->vars[2], newer, 1);
        s->older[newer] = older;
    }
    if (s->oldest == row) s->oldest = newer;
    if (s->newest == row) s->newest = older;
}

/* Puts a row back between older[row] and the one after that. */
static void return_to_list(est_key_rows *s, int32_t row)
{
    int32_t older = s->older[row], newer = older >= 0 ? s->newer[older] : s->oldest;

    s->newer[row] = newer;
    if (older >= 0) s->newer[older] = row;
    if (newer >= 0) {
        est_cow_keep_rows(s->vars[2], newer, 1);
        s->older[newer] = row;
    }
    if (older < 0) s->oldest = row;
    if (newer < 0) s->newest = row;
}

/* --- the undo log ------------------------------------------------------------------------------------------------- */

static size_t row_bytes_of(const est_var *var)
{
    return (size_t)est_row_size(&var->value) * est_dtype_size(var->value.dtype);
}

size_t est_key_rows_row_bytes(const est_key_rows *set)
{
    size_t bytes = 0;

    for (int i = 0; i < set->n_vars; i++) bytes += row_bytes_of(set->vars[i]);
    return bytes;
}

est_status est_key_log_reserve(est_key_log *log, int64_t changes, size_t bytes)
{
    int64_t       n = log->n + changes;
    est_key_undo *entries;
    char         *contents;

    if (n > log->max) {
        entries = est_realloc(log->entries, (size_t)(n + n / 2) * sizeof *entries);
        if (entries == NULL) return est_no_memory();
        log->entries = entries;
        log->max     = n + n / 2;
    }
    bytes += log->bytes;
    if (bytes > log->max_bytes) {
        contents = est_realloc(log->contents, bytes + bytes / 2);
        if (contents == NULL) return est_no_memory();
        log->contents  = contents;
        log->max_bytes = bytes + bytes / 2;
    }
    return EST_OK;
}

void est_key_log_clear(est_key_log *log)
{
    est_free(log->entries);
    est_free(log->contents);
    *log = (est_key_log){ 0 };
}

static void log_row(const est_key_rows *s, est_key_change change, int32_t row)
{
    if (s->log == NULL) return;
    for (int i = 0; i < s->n_vars && change != EST_KEY_ADDED; i++) {
        size_t bytes = row_bytes_of(s->vars[i]);

        memcpy(s->log->contents + s->log->bytes, (const char *)s->vars[i]->value.data + (size_t)row * bytes, bytes);
        s->log->bytes += bytes;
    }
    est_key_log_append(s->log, (est_key_undo){ .set = (est_key_rows *)(uintptr_t)s, .row = row, .change = change });
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

/* A key at the end of the list in a row that no other has. */
static void enter(est_key_rows *s, int32_t row, int64_t key, int64_t step)
{
    est_cow_keep_rows(s->vars[0], row, 1);
    est_cow_keep_rows(s->vars[1], row, 1);
    s->keys[row] = key;
    s->seen[row] = step;
    append_to_list(s, row);
    index_row(s, row);
    for (int i = 3; i < s->n_vars; i++) est_key_rows_draw(s, s->vars[i], row, row + 1);
}

int32_t est_key_rows_add(est_key_rows *set, int64_t key, int64_t step)
{
    int32_t row = (int32_t)set->n++;

    log_row(set, EST_KEY_ADDED, row);
    enter(set, row, key, step);
    return row;
}

void est_key_rows_replace(est_key_rows *set, int32_t row, int64_t key, int64_t step)
{
    log_row(set, EST_KEY_REPLACED, row);
    unindex(set, set->keys[row]);
    take_from_list(set, row);
    enter(set, row, key, step);
}

void est_key_rows_see(est_key_rows *set, int32_t row, int64_t step)
{
    if (set->newest == row && set->seen[row] == step) return;
    est_cow_keep_rows(set->vars[1], row, 1);
    if (set->log != NULL) {
        est_key_log_append(set->log, (est_key_undo){ set, set->seen[row], row, set->older[row], EST_KEY_SEEN });
    }
    set->seen[row] = step;
    if (set->newest == row) return;
    take_from_list(set, row);
    append_to_list(set, row);
}

static void move_row(est_key_rows *s, int32_t from, int32_t to)
{
    for (int i = 0; i < s->n_vars; i++) {
        size_t bytes = row_bytes_of(s->vars[i]);
        char  *data  = s->vars[i]->value.data;

        est_cow_keep_rows(s->vars[i], to, 1);
        memcpy(data + (size_t)to * bytes, data + (size_t)from * bytes, bytes);
    }
    s->newer[to] = s->newer[from];
    if (s->older[to] >= 0) s->newer[s->older[to]] = to;
    if (s->newer[to] >= 0) {
        est_cow_keep_rows(s->vars[2], s->newer[to], 1);
        s->older[s->newer[to]] = to;
    }
    if (s->oldest == from) s->oldest = to;
    if (s->newest == from) s->newest = to;
    index_row(s, to);
}

void est_key_rows_remove(est_key_rows *set, int32_t row)
{
    int32_t last = (int32_t)set->n - 1;

    log_row(set, EST_KEY_REMOVED, row);
    unindex(set, set->keys[row]);
    take_from_list(set, row);
    if (row != last) move_row(set, last, row);
    set->n--;
}

/* --- undoing ------------------------------------------------------------------------------------------------------ */

/* Takes the last contents of the log back into a row that no key has. */
static void return_row(est_key_rows *s, est_key_log *log, int32_t row)
{
    for (int i = s->n_vars - 1; i >= 0; i--) {
        size_t bytes = row_bytes_of(s->vars[i]);

        log->bytes -= bytes;
        est_cow_keep_rows(s->vars[i], row, 1);
        memcpy((char *)s->vars[i]->value.data + (size_t)row * bytes, log->contents + log->bytes, bytes);
    }
    return_to_list(s, row);
    index_row(s, row);
}

void est_key_log_undo(est_key_log *log)
{
    const est_key_undo *undo = &log->entries[--log->n];
    est_key_rows       *s    = undo->set;
    int32_t             row  = undo->row;

    switch (undo->change) {
    case EST_KEY_SEEN:
        take_from_list(s, row);
        est_cow_keep_rows(s->vars[1], row, 1);
        est_cow_keep_rows(s->vars[2], row, 1);
        s->seen[row]  = undo->seen;
        s->older[row] = undo->older;
        return_to_list(s, row);
        break;
    case EST_KEY_ADDED:
        unindex(s, s->keys[row]);
        take_from_list(s, row);
        s->n--;
        break;
    case EST_KEY_REPLACED:
        unindex(s, s->keys[row]);
        take_from_list(s, row);
        return_row(s, log, row);
        break;
    case EST_KEY_REMOVED:
        if (row != s->n) move_row(s, row, (int32_t)s->n);
        s->n++;
        return_row(s, log, row);
        break;
    case EST_KEY_COUNTED:
    case EST_KEY_STEP_STARTED: break;
    }
}

/* --- life --------------------------------------------------------------------------------------------------------- */

est_status est_key_rows_add_variable(est_key_rows *set, est_var *var)
{
    est_var **more = est_realloc(set->vars, sizeof(est_var *) * ((size_t)set->n_vars + 1));

    if (more == NULL) return est_no_memory();
    set->vars                = more;
    set->vars[set->n_vars++] = var;
    if (set->n_vars > 3) est_key_rows_draw(set, var, 0, set->n);
    return EST_OK;
}

est_status est_key_rows_init(est_key_rows *set, est_var *keys, est_var *seen, est_var *older)
{
    *set = (est_key_rows){ .max    = keys->value.shape.dim[0],
                           .keys   = keys->value.data,
                           .seen   = seen->value.data,
                           .older  = older->value.data,
                           .oldest = -1,
                           .newest = -1 };
    EST_TRY(est_key_rows_add_variable(set, keys));
    EST_TRY(est_key_rows_add_variable(set, seen));
    EST_TRY(est_key_rows_add_variable(set, older));
    set->newer = est_reserve((size_t)set->max * sizeof *set->newer);
    return set->newer != NULL ? EST_OK : est_no_memory();
}

void est_key_rows_clear(est_key_rows *set)
{
    est_unreserve(set->newer, (size_t)set->max * sizeof *set->newer);
    est_free(set->slots);
    est_free(set->vars);
    *set = (est_key_rows){ 0 };
}

void est_key_rows_drop(est_key_rows *set)
{
    if (set->slots != NULL) memset(set->slots, 0, (set->mask + 1) * sizeof *set->slots);
    set->n      = 0;
    set->oldest = set->newest = -1;
}

/* --- restoring ---------------------------------------------------------------------------------------------------- */

/* Links the list the other way round. It is whole when every row but one is before another, each only once, and no row
 * is after one that was seen later. */
static bool link_list(est_key_rows *s, int64_t n)
{
    int64_t  length = 0;
    uint32_t ends   = 0;

    for (int64_t i = 0; i < n; i++) s->newer[i] = -1;
    for (int64_t i = 0; i < n; i++) {
        int32_t older = s->older[i];

        if (older < -1 || older >= n || (older >= 0 && s->newer[older] >= 0)) return false;
        if (older >= 0) s->newer[older] = (int32_t)i;
        if (older < 0) s->oldest = (int32_t)i;
        ends += older < 0;
    }
    if (ends != (n > 0)) return false;
    for (int32_t row = s->oldest; row >= 0; row = s->newer[row]) {
        s->newest = row;
        length++;
        if (s->older[row] >= 0 && s->seen[s->older[row]] > s->seen[row]) return false;
    }
    return length == n;
}

void est_key_rows_see_all(est_key_rows *set, int64_t n, int64_t step)
{
    est_cow_keep_rows(set->vars[1], 0, n);
    est_cow_keep_rows(set->vars[2], 0, n);
    for (int64_t i = 0; i < n; i++) {
        set->seen[i]  = step;
        set->older[i] = (int32_t)(i - 1);
    }
}

/* Enters all keys; false: one is there twice. */
static bool index_all(est_key_rows *s, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (s->slots[find_slot(s, s->keys[i], hash_key(s->keys[i]))] != 0) return false;
        index_row(s, (int32_t)i);
    }
    return true;
}

est_status est_key_rows_restore(est_key_rows *set, int64_t n)
{
    est_key_rows_drop(set);
    EST_TRY(est_key_rows_reserve(set, n));
    if (link_list(set, n) && index_all(set, n)) {
        set->n = n;
        return EST_OK;
    }
    est_key_rows_drop(set);
    return est_fail(EST_DATA_LOSS, "the %" PRId64 " keys of '%s' contradict each other", n, set->vars[0]->name);
}
