/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a tree of the events of libyaml. */
#include "job_yaml.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/map.h"

#define DEPTH_MAX  32
#define WEIGHT_MAX 100000 /* of the whole tree, so that aliases of aliases stay bounded */
#define ERRORS_MAX 100

typedef struct composer {
    yaml_parser_t parser;
    est_arena    *arena;
    const char   *source;
    est_str       text;
    bool          numbered;
    job_errors   *errors;
    est_map       anchors; /* finished nodes by name, so that no alias is inside of what it names */
} composer;

/* --- complaints --------------------------------------------------------------------------------------------------- */

void job_error(job_errors *errors, const job_node *at, const char *fmt, ...)
{
    char    text[1024];
    va_list args;

    if (++errors->n > ERRORS_MAX) return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    est_strbuf_append(&errors->text, at->source);
    if (at->line > 0) est_strbuf_printf(&errors->text, ":%d:%d", at->line, at->column);
    est_strbuf_printf(&errors->text, ": %s\n", text);
}

static est_status invalid(void)
{
    return est_fail(EST_INVALID_ARGUMENT, "the job file is wrong");
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

job_node *job_node_new(est_arena *arena, job_node_kind kind, const job_node *at)
{
    job_node *node = est_arena_alloc(arena, sizeof *node);

    if (node == NULL) return NULL;
    if (at != NULL) *node = (job_node){ .source = at->source, .line = at->line, .column = at->column };
    node->kind   = kind;
    node->text   = "";
    node->weight = 1;
    return node;
}

static est_status append_item(est_arena *arena, job_node *node, int used, job_node *item)
{
    if (used == node->n_room) {
        int        room  = node->n_room > 0 ? 2 * node->n_room : 8;
        job_node **items = est_arena_alloc(arena, (size_t)room * sizeof(job_node *));

        if (items == NULL) return est_no_memory();
        if (used > 0) memcpy(items, node->items, (size_t)used * sizeof(job_node *));
        node->items  = items;
        node->n_room = room;
    }
    node->items[used] = item;
    node->weight += item->weight;
    return EST_OK;
}

est_status job_list_add(est_arena *arena, job_node *list, job_node *item)
{
    EST_TRY(append_item(arena, list, list->n, item));
    list->n++;
    return EST_OK;
}

static int find_key(const job_node *map, const char *key)
{
    for (int i = 0; map != NULL && map->kind == JOB_MAP && i < map->n; i++) {
        if (strcmp(map->items[2 * i]->text, key) == 0) return i;
    }
    return -1;
}

job_node *job_map_get(const job_node *map, const char *key)
{
    int i = find_key(map, key);

    return i >= 0 ? map->items[2 * i + 1] : NULL;
}

est_status job_map_set(est_arena *arena, job_node *map, job_node *key, job_node *value)
{
    int i = find_key(map, key->text);

    if (i >= 0) {
        map->items[2 * i]     = key;
        map->items[2 * i + 1] = value;
        return EST_OK;
    }
    EST_TRY(append_item(arena, map, 2 * map->n, key));
    EST_TRY(append_item(arena, map, 2 * map->n + 1, value));
    map->n++;
    return EST_OK;
}

bool job_map_remove(job_node *map, const char *key)
{
    int i = find_key(map, key);

    if (i < 0) return false;
    map->n--;
    memmove(map->items + 2 * i, map->items + 2 * i + 2, sizeof *map->items * 2 * (size_t)(map->n - i));
    return true;
}

bool job_is_null(const job_node *node)
{
    return node == NULL || (node->kind == JOB_SCALAR && !node->quoted &&
                            (node->text[0] == '\0' || strcmp(node->text, "~") == 0 || strcmp(node->text, "null") == 0));
}

/* --- from events -------------------------------------------------------------------------------------------------- */

static job_node place(const composer *c, yaml_mark_t mark)
{
    return (job_node){ .source = c->source,
                       .line   = c->numbered ? (int)mark.line + 1 : 0,
                       .column = c->numbered ? (int)mark.column + 1 : 0 };
}

/* libyaml's problems in our words; %s: where the thing began that is not right. */
static const struct {
    const char *theirs, *ours;
} problems[] = {
    { "did not find expected ',' or ']'", "a list%s has neither a comma nor its ] here" },
    { "did not find expected ',' or '}'", "a mapping%s has neither a comma nor its } here" },
    { "mapping values are not allowed",
      "a second key in the line, or one that is indented otherwise than those above; a "
      "text with \": \" in it needs quotes" },
    { "found unexpected end of stream", "the quote%s is not closed" },
    { "found unknown escape character",
      "a backslash before a character that has no meaning after it; double it, or use "
      "single quotes" },
    { "did not find expected '-' indicator",
      "an entry of the list%s has no dash, or is indented otherwise than the others" },
    { "did not find expected key", "not a key of the mapping%s; check its indentation" },
    { "could not find expected ':'", "the key%s has no \": \" after it" },
    { "did not find expected node content", "a value is missing" },
    { "did not find expected alphabetic or numeric",
      "a name is missing after & or *; a text that begins so needs quotes" },
};

/* The byte at a place that libyaml gave, which counts characters; 0: the end. */
static char byte_at(const composer *c, yaml_mark_t mark)
{
    const char *at = c->text.data, *end = at + c->text.size;

    for (size_t line = 0; line < mark.line && at < end; at++) line += *at == '\n';
    for (size_t column = 0; column < mark.column && at < end; column++) {
        do at++;
        while (at < end && ((unsigned char)*at & 0xc0) == 0x80);
    }
    return at < end ? *at : '\0';
}

/* The reader counts bytes, not lines. */
static void refuse_bytes(composer *c)
{
    size_t   offset = c->parser.problem_offset;
    job_node at     = place(c, (yaml_mark_t){ 0 });

    for (size_t i = 0; i < offset && i < c->text.size && c->numbered; i++) {
        at.column = c->text.data[i] == '\n' ? 1 : at.column + 1;
        at.line += c->text.data[i] == '\n';
    }
    job_error(c->errors, &at, "a byte that is not UTF-8, or a character that YAML does not allow");
}

static void refuse_text(composer *c)
{
    const yaml_parser_t *p         = &c->parser;
    job_node             at        = place(c, p->problem_mark);
    char                 began[32] = "";

    if (p->context != NULL && c->numbered) snprintf(began, sizeof began, " of line %zu", p->context_mark.line + 1);
    if (strstr(p->problem, "cannot start any token") != NULL) {
        char byte = byte_at(c, p->problem_mark);

        if (byte == '\t') {
            job_error(c->errors, &at, "a tab; indent with blanks");
        } else {
            job_error(c->errors, &at, "a value cannot begin with %c; put it in quotes", byte);
        }
        return;
    }
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        const char *ours = problems[i].ours, *mark = strstr(ours, "%s");

        if (strstr(p->problem, problems[i].theirs) == NULL) continue;
        if (mark == NULL) {
            job_error(c->errors, &at, "%s", ours);
        } else {
            job_error(c->errors, &at, "%.*s%s%s", (int)(mark - ours), ours, began, mark + 2);
        }
        return;
    }
    job_error(c->errors, &at, "invalid YAML: %s", p->problem);
}

static est_status next_event(composer *c, yaml_event_t *event)
{
    if (yaml_parser_parse(&c->parser, event) == 1) return EST_OK;
    if (c->parser.error == YAML_MEMORY_ERROR) return est_no_memory();
    if (c->parser.error == YAML_READER_ERROR) {
        refuse_bytes(c);
    } else {
        refuse_text(c);
    }
    return invalid();
}

static est_status compose(composer *c, yaml_event_t *event, int depth, job_node **out);

/* The next node into *out; NULL at the end of the collection. */
static est_status compose_next(composer *c, yaml_event_type_t end, int depth, job_node **out)
{
    yaml_event_t event;
    est_status   status = next_event(c, &event);

    *out = NULL;
    if (status != EST_OK) return status;
    if (event.type != end) status = compose(c, &event, depth, out);
    yaml_event_delete(&event);
    return status;
}

static est_status compose_list(composer *c, job_node *list, int depth)
{
    for (;;) {
        job_node *item;

        EST_TRY(compose_next(c, YAML_SEQUENCE_END_EVENT, depth, &item));
        if (item == NULL) return EST_OK;
        EST_TRY(job_list_add(c->arena, list, item));
    }
}

/* An invalid key is an error, and its value is ignored. */
static est_status add_pair(composer *c, job_node *map, job_node *key, job_node *value)
{
    const job_node *first;

    if (key->kind != JOB_SCALAR) {
        job_error(c->errors, key, "a key must be a word, not a %s", key->kind == JOB_LIST ? "list" : "mapping");
        return EST_OK;
    }
    if (strcmp(key->text, "<<") == 0 && !key->quoted) {
        job_error(c->errors, key,
                  "merge keys (<<) are not supported; repeat the keys, or use an alias for a whole value");
        return EST_OK;
    }
    if (find_key(map, key->text) >= 0) {
        first = map->items[2 * find_key(map, key->text)];
        job_error(c->errors, key, "\"%s\" is given twice, first in line %d", key->text, first->line);
        return EST_OK;
    }
    return job_map_set(c->arena, map, key, value);
}

static est_status compose_map(composer *c, job_node *map, int depth)
{
    for (;;) {
        job_node *key, *value;

        EST_TRY(compose_next(c, YAML_MAPPING_END_EVENT, depth, &key));
        if (key == NULL) return EST_OK;
        EST_TRY(compose_next(c, YAML_NO_EVENT, depth, &value));
        EST_TRY(add_pair(c, map, key, value));
    }
}

static est_status compose_scalar(composer *c, const yaml_event_t *event, job_node *node)
{
    const char *text = (const char *)event->data.scalar.value;

    node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    if (strlen(text) != event->data.scalar.length) {
        job_error(c->errors, node, "a text with a zero byte in it");
        return invalid();
    }
    node->text = est_arena_strdup(c->arena, text);
    return node->text != NULL ? EST_OK : est_no_memory();
}

static est_status find_anchor(composer *c, const yaml_event_t *event, job_node **out)
{
    const char *name = (const char *)event->data.alias.anchor;
    job_node    at   = place(c, event->start_mark);

    *out = est_map_get(&c->anchors, name);
    if (*out != NULL) return EST_OK;
    job_error(c->errors, &at, "there is no finished anchor &%s before this alias", name);
    return invalid();
}

/* A tag would give the type of a value; here the key does. */
static est_status refuse_tag(composer *c, const job_node *node, const yaml_char_t *tag)
{
    if (tag == NULL) return EST_OK;
    job_error(c->errors, node, "tags (%s) are not supported", (const char *)tag);
    return invalid();
}

static est_status compose(composer *c, yaml_event_t *event, int depth, job_node **out)
{
    job_node           at     = place(c, event->start_mark);
    job_node          *node   = NULL;
    const yaml_char_t *anchor = NULL;

    if (event->type == YAML_ALIAS_EVENT) return find_anchor(c, event, out);
    if (depth > DEPTH_MAX) {
        job_error(c->errors, &at, "lists and mappings are nested more than %d deep", DEPTH_MAX);
        return invalid();
    }
    node = job_node_new(c->arena,
                        event->type == YAML_SEQUENCE_START_EVENT  ? JOB_LIST
                        : event->type == YAML_MAPPING_START_EVENT ? JOB_MAP
                                                                  : JOB_SCALAR,
                        &at);
    if (node == NULL) return est_no_memory();
    if (node->kind == JOB_LIST) {
        anchor = event->data.sequence_start.anchor;
        EST_TRY(refuse_tag(c, node, event->data.sequence_start.tag));
        EST_TRY(compose_list(c, node, depth + 1));
    } else if (node->kind == JOB_MAP) {
        anchor = event->data.mapping_start.anchor;
        EST_TRY(refuse_tag(c, node, event->data.mapping_start.tag));
        EST_TRY(compose_map(c, node, depth + 1));
    } else {
        anchor = event->data.scalar.anchor;
        EST_TRY(refuse_tag(c, node, event->data.scalar.tag));
        EST_TRY(compose_scalar(c, event, node));
    }
    if (node->weight > WEIGHT_MAX) {
        job_error(c->errors, node, "more than %d values, aliases counted each time", WEIGHT_MAX);
        return invalid();
    }
    if (anchor != NULL) EST_TRY(est_map_put(&c->anchors, (const char *)anchor, node));
    *out = node;
    return EST_OK;
}

/* The one document of the stream, if any. */
static est_status compose_stream(composer *c, job_node **out)
{
    yaml_event_t event;
    est_status   status = EST_OK;
    int          n      = 0;

    for (bool over = false; !over && status == EST_OK;) {
        EST_TRY(next_event(c, &event));
        if (event.type == YAML_DOCUMENT_START_EVENT && ++n > 1) {
            job_node at = place(c, event.start_mark);

            job_error(c->errors, &at, "a second document; a job file has one");
            status = invalid();
        } else if (event.type == YAML_DOCUMENT_START_EVENT) {
            status = compose_next(c, YAML_NO_EVENT, 0, out);
        }
        over = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    return status;
}

est_status job_yaml_parse(est_arena *arena, const char *source, bool numbered, est_str text, job_errors *errors,
                          job_node **out)
{
    composer   c      = { .arena = arena, .source = source, .text = text, .numbered = numbered, .errors = errors };
    int        before = errors->n;
    job_node  *root   = NULL;
    job_node   start  = { .source = source, .line = numbered, .column = numbered };
    est_status status;

    if (yaml_parser_initialize(&c.parser) != 1) return est_no_memory();
    yaml_parser_set_encoding(&c.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&c.parser, (const unsigned char *)text.data, text.size);
    status = compose_stream(&c, &root);
    if (status == EST_OK && root == NULL) root = job_node_new(arena, JOB_MAP, &start);
    yaml_parser_delete(&c.parser);
    est_map_clear(&c.anchors);
    if (status != EST_OK) return status;
    if (root == NULL) return est_no_memory();
    if (errors->n > before) return invalid();
    *out = root;
    return EST_OK;
}

/* --- to text ------------------------------------------------------------------------------------------------------ */

/* Whether a plain scalar of these bytes is read back as the same text in any place, also inside of [] and {}. */
static bool is_plain(const char *text)
{
    static const char *const words[] = { "null", "~", "true", "false", "yes", "no", "on", "off" };

    if (text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./*-")] != '\0') return false;
    if (text[0] == '\0' || text[0] == '-' || text[0] == '*' || text[0] == '.') return false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcasecmp(text, words[i]) == 0) return false;
    }
    return true;
}

/* Control characters, line breaks of YAML, and characters that YAML does not allow unescaped. */
static bool must_escape(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code <= 0xa0) || code == 0x2028 || code == 0x2029 || code == 0xfeff ||
           code == 0xfffe || code == 0xffff;
}

void job_append_scalar(est_strbuf *out, const char *text)
{
    if (is_plain(text)) {
        est_strbuf_append(out, text);
        return;
    }
    est_strbuf_append(out, "\"");
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0';) {
        size_t   size = *p < 0x80 ? 1 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4; /* libyaml gives UTF-8 only */
        uint32_t code = *p < 0x80 ? *p : *p & (0x7fu >> size);

        for (size_t i = 1; i < size; i++) code = code << 6 | (p[i] & 0x3f);
        if (*p == '"' || *p == '\\') {
            est_strbuf_printf(out, "\\%c", *p);
        } else if (must_escape(code)) {
            est_strbuf_printf(out, "\\u%04X", code);
        } else {
            est_strbuf_append_bytes(out, p, size);
        }
        p += size;
    }
    est_strbuf_append(out, "\"");
}
