/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc tail`: the last scalars of a directory of event files. A run that was started again has written several
 * files; the newest one that has scalars has its state. An incomplete event at the end of a file is being written,
 * and is not damage. */
#include <string.h>

#include "base/strbuf.h"
#include "estoc/events.h"
#include "inspect.h"
#include "tail.h"

/* The entry of a tag, made if need be; NULL when memory is out. */
static tail_scalar *find_tag(tail_scalars *s, est_str tag)
{
    for (int i = 0; i < s->n; i++) {
        if (strlen(s->data[i].tag) == tag.size && memcmp(s->data[i].tag, tag.data, tag.size) == 0) return &s->data[i];
    }
    if (s->n == s->max) {
        int          max  = s->max > 0 ? 2 * s->max : 16;
        tail_scalar *more = est_realloc(s->data, (size_t)max * sizeof *more);

        if (more == NULL) return NULL;
        s->data = more;
        s->max  = max;
    }
    if (s->arena == NULL) s->arena = est_arena_create();
    s->data[s->n] = (tail_scalar){ 0 };
    if (s->arena != NULL) s->data[s->n].tag = est_arena_printf(s->arena, "%.*s", (int)tag.size, tag.data);
    return s->data[s->n].tag != NULL ? &s->data[s->n++] : NULL;
}

static est_status take_entry(tail_scalars *s, const est_event_entry *entry)
{
    tail_scalar *scalar;

    if (entry->kind != EST_ENTRY_SCALAR || entry->tag.size == 0) return EST_OK;
    if (memchr(entry->tag.data, 0, entry->tag.size) != NULL) return EST_OK;
    scalar = find_tag(s, entry->tag);
    if (scalar == NULL) return est_no_memory();
    scalar->value     = entry->number;
    scalar->step      = entry->step;
    scalar->wall_time = entry->wall_time;
    return EST_OK;
}

static est_status read_file(tail_scalars *s, const char *path)
{
    est_events     *events;
    est_event_entry entry;
    est_status      status;

    EST_TRY(est_events_open(path, &events));
    while ((status = est_events_next(events, &entry)) == EST_OK) {
        status = take_entry(s, &entry);
        if (status != EST_OK) break;
    }
    est_events_close(events);
    return status == EST_OUT_OF_RANGE ? EST_OK : status;
}

est_status tail_scalars_read(tail_scalars *s, const char *dir)
{
    est_strbuf path   = { 0 };
    est_status status = EST_OK;
    char     **names;
    int        n = 0;

    EST_TRY(inspect_names(dir, inspect_is_event_name, &names));
    while (names[n] != NULL) n++; /* by the seconds in their names, rising */
    s->n_files = n;
    while (n > 0 && s->n == 0 && status == EST_OK) {
        est_strbuf_reset(&path);
        est_strbuf_printf(&path, "%s/%s", dir, names[--n]);
        status = est_strbuf_status(&path);
        if (status == EST_OK) status = read_file(s, est_strbuf_text(&path));
    }
    est_strbuf_clear(&path);
    inspect_names_free(names);
    return status;
}

void tail_scalars_clear(tail_scalars *s)
{
    est_free(s->data);
    est_arena_free(s->arena);
    *s = (tail_scalars){ 0 };
}
