/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads job files by the schema, from a tree to structs, and prints them, from a tree to text. */
#include "job.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "format/number.h"

#define KEYS_MAX  64     /* of a record; more names of a mapping are not compared for suggestions */
#define WIDTH     92     /* of the help */
#define WHOLE_MAX 0x1p53 /* up to here every whole number is a double */

typedef struct reader {
    est_arena  *arena;
    job_errors *errors;
} reader;

/* All lists have one layout, an array and its length; the types of the arrays differ, so they are copied. */
typedef struct any_list {
    const void *data;
    int         n;
} any_list;

static_assert(sizeof(any_list) == sizeof(est_i64s) && offsetof(any_list, n) == offsetof(est_i64s, n),
              "lists have one layout");

static void put_list(void *to, const void *data, int n)
{
    memcpy(to, &(any_list){ data, n }, offsetof(any_list, n) + sizeof n);
}

static void put_int(const job_field *field, int64_t value, void *to)
{
    if (field->size == sizeof(bool)) *(bool *)to = value != 0;
    if (field->size == sizeof(int32_t)) *(int32_t *)to = (int32_t)value;
    if (field->size == sizeof(int64_t)) *(int64_t *)to = value;
}

/* --- the schema --------------------------------------------------------------------------------------------------- */

static const job_word *words_of(const job_field *field)
{
    return field->words_of != NULL ? field->words_of() : field->words;
}

static int count_words(const job_word *words)
{
    int n = 0;

    while (words[n].text != NULL) n++;
    return n;
}

/* The word that a node is; NULL: none. */
static const job_word *find_word(const job_field *field, const job_node *node)
{
    const job_word *w = words_of(field);

    while (w != NULL && w->text != NULL && (node->kind != JOB_SCALAR || strcmp(w->text, node->text) != 0)) w++;
    return w != NULL && w->text != NULL ? w : NULL;
}

static bool is_whole(const job_field *field)
{
    return field->kind == JOB_INT || field->kind == JOB_INTS || field->kind == JOB_SHAPE;
}

static bool is_choice(const job_field *field)
{
    return field->kind >= JOB_ENUM && field->kind <= JOB_WORD;
}

static bool is_list(const job_field *field)
{
    return field->kind >= JOB_TEXTS && field->kind <= JOB_SHAPE;
}

/* The value of a key; a scalar in place of a mapping is the value of the record's bare key. NULL: it is not given. */
static const job_node *value_of(const job_record *record, const job_node *node, const char *key)
{
    const job_node *value = job_map_get(node, key);

    if (node != NULL && node->kind == JOB_SCALAR && record->bare != NULL && strcmp(record->bare, key) == 0)
        value = node;
    return job_is_null(value) ? NULL : value;
}

/* The default as text; NULL: there is none. name: of the record, in a mapping of names. */
static const char *default_of(const job_record *record, const job_field *field, const job_node *node, const char *name)
{
    const job_node *other;

    if (field->standard == NULL || field->standard[0] != '$') {
        return field->unless == NULL || value_of(record, node, field->unless) == NULL ? field->standard : "false";
    }
    other = value_of(record, node, field->standard + 1);
    return other != NULL && other->kind == JOB_SCALAR ? other->text : name;
}

/* The type of a record, by its first field; NULL: it has none, or one that is not known. */
static const char *type_of(const job_record *record, const job_node *node)
{
    const job_field *first = &record->fields[0];
    const job_node  *value = value_of(record, node, first->key);

    if (first->kind != JOB_WORD) return NULL;
    if (value == NULL) return first->standard;
    return find_word(first, value) != NULL ? value->text : NULL;
}

/* Whether a type is in a list of types, as job_field.only. */
static bool has_type(const char *list, const char *type)
{
    bool   negated = list[0] == '!', found = false;
    size_t size = strlen(type);

    for (list += negated; *list != '\0'; list += strcspn(list, " ")) {
        list += *list == ' ';
        found = found || (strncmp(list, type, size) == 0 && (list[size] == ' ' || list[size] == '\0'));
    }
    return found != negated;
}

static bool is_allowed(const job_field *field, const char *type)
{
    return field->only == NULL || type == NULL || has_type(field->only, type);
}

static bool is_required(const job_field *field, const char *type)
{
    return field->required != NULL && (type != NULL ? has_type(field->required, type) : field->required[1] == '\0');
}

bool job_has(const job_node *node, const char *key)
{
    return !job_is_null(job_map_get(node, key));
}

/* --- scalars ------------------------------------------------------------------------------------------------------ */

static const char *kind_text(const job_node *node)
{
    return node->kind == JOB_LIST ? "a list" : "a mapping";
}

static bool is_scalar(reader *r, const job_field *field, const job_node *node, const char *what)
{
    if (node->kind == JOB_SCALAR) return true;
    job_error(r->errors, node, "\"%s\" takes %s, not %s", field->key, what, kind_text(node));
    return false;
}

static void read_bool(reader *r, const job_field *field, const job_node *node, bool *out)
{
    bool value;

    if (!is_scalar(r, field, node, "true or false")) return;
    value = strcmp(node->text, "true") == 0;
    if (node->quoted || (!value && strcmp(node->text, "false") != 0)) {
        job_error(r->errors, node, "\"%s\" takes true or false, not \"%s\"", field->key, node->text);
    }
    *out = value != field->negated;
}

/* "from 1 up", "from 0 to 1", "above 0", and the words that are allowed as well. */
static void describe_range(const job_field *field, est_strbuf *out)
{
    const job_word *words = words_of(field);

    if (field->above) {
        est_strbuf_printf(out, " above %g", field->min);
    } else if (field->max > 0) {
        est_strbuf_printf(out, " from %g to %g", field->min, field->max);
    } else if (is_whole(field) || field->min != 0) {
        est_strbuf_printf(out, " from %g up", field->min);
    }
    for (int i = 0; words != NULL && words[i].text != NULL; i++) est_strbuf_printf(out, " or %s", words[i].text);
}

static bool is_in_range(const job_field *field, double value)
{
    if (!isfinite(value)) return false;
    if (is_whole(field) && field->size == sizeof(int32_t) && fabs(value) > INT32_MAX) return false;
    if (field->max > 0 && value > field->max) return false;
    if (field->above) return value > field->min;
    return value >= field->min || (!is_whole(field) && field->min == 0 && field->max == 0);
}

static void refuse_number(reader *r, const job_field *field, const job_node *node)
{
    bool       scalar = node->kind == JOB_SCALAR;
    est_strbuf range  = { 0 };

    describe_range(field, &range);
    job_error(r->errors, node, "\"%s\" takes a %snumber%s, not %s%s%s", field->key, is_whole(field) ? "whole " : "",
              est_strbuf_text(&range), scalar ? "\"" : "", scalar ? node->text : kind_text(node), scalar ? "\"" : "");
    est_strbuf_clear(&range);
}

/* Also "1e3" and "1000.0". */
static bool parse_whole(const char *text, int64_t *out)
{
    double number;

    if (est_number_i64(text, strlen(text), out) == EST_NUMBER_OK) return true;
    if (est_number_f64(text, strlen(text), &number) != EST_NUMBER_OK) return false;
    if (!(fabs(number) <= WHOLE_MAX) || number != floor(number)) return false;
    *out = (int64_t)number;
    return true;
}

static int64_t read_int(reader *r, const job_field *field, const job_node *node)
{
    const job_word *word  = find_word(field, node);
    int64_t         value = 0;

    if (word != NULL) return word->value;
    if (node->kind != JOB_SCALAR || node->quoted || !parse_whole(node->text, &value) ||
        !is_in_range(field, (double)value)) {
        refuse_number(r, field, node);
    }
    return value == 0 && field->zero_is_off ? EST_OFF : value;
}

static double read_number(reader *r, const job_field *field, const job_node *node)
{
    const job_word *word  = find_word(field, node);
    double          value = 0;

    if (word != NULL) return (double)word->value;
    if (node->kind != JOB_SCALAR || node->quoted ||
        est_number_f64(node->text, strlen(node->text), &value) != EST_NUMBER_OK || !is_in_range(field, value)) {
        refuse_number(r, field, node);
    }
    return value == 0 && field->zero_is_off ? EST_OFF : value;
}

static void append_words(est_strbuf *out, const job_word *words)
{
    int n = count_words(words);

    for (int i = 0; i < n; i++) {
        est_strbuf_printf(out, "%s%s", i == 0 ? "" : i < n - 1 ? ", " : " or ", words[i].text);
    }
}

static void refuse_choice(reader *r, const job_field *field, const job_node *node)
{
    const job_word *words = words_of(field);
    const char     *names[KEYS_MAX];
    est_strbuf      text = { 0 };
    int             n    = count_words(words);

    append_words(&text, words);
    for (int i = 0; i < n; i++) names[i] = words[i].text;
    if (is_scalar(r, field, node, est_strbuf_text(&text))) {
        job_error(r->errors, node, "\"%s\" takes %s, not \"%s\"%s", field->key, est_strbuf_text(&text), node->text,
                  job_suggestion(node->text, names, (size_t)n));
    }
    est_strbuf_clear(&text);
}

static void read_choice(reader *r, const job_field *field, const job_node *node, void *to)
{
    const job_word *word = find_word(field, node);

    if (word == NULL) {
        refuse_choice(r, field, node);
    } else if (field->kind == JOB_ENUM) {
        put_int(field, word->value, to);
    } else if (field->kind == JOB_FUNCTION) {
        memcpy(to, &word->make, sizeof word->make);
    } else if (field->kind == JOB_NAME) {
        *(const char **)to = word->text;
    } else {
        *(const job_word **)to = word;
    }
}

static const char *read_text(reader *r, const job_field *field, const job_node *node)
{
    if (!is_scalar(r, field, node, "a text")) return NULL;
    if (node->text[0] == '\0') job_error(r->errors, node, "\"%s\" is empty", field->key);
    return node->text;
}

static void read_char(reader *r, const job_field *field, const job_node *node, char *to)
{
    if (!is_scalar(r, field, node, "one character of ASCII")) return;
    *to = node->text[0];
    if (strlen(node->text) != 1) {
        job_error(r->errors, node, "\"%s\" takes one character of ASCII, not \"%s\"", field->key, node->text);
    }
}

/* --- lists -------------------------------------------------------------------------------------------------------- */

static const job_node *item_of(const job_node *node, int i)
{
    return node->kind == JOB_LIST ? node->items[i] : node;
}

static void read_shape(reader *r, const job_field *field, const job_node *node, est_shape *to)
{
    int n = node->kind == JOB_LIST ? node->n : 1;

    if (n > EST_RANK_MAX - 1) { /* the batch is one more */
        job_error(r->errors, node, "\"%s\" has %d dimensions; at most %d are supported", field->key, n,
                  EST_RANK_MAX - 1);
        return;
    }
    to->rank = n;
    for (int i = 0; i < n; i++) to->dim[i] = read_int(r, field, item_of(node, i));
}

static est_status read_list(reader *r, const job_field *field, const job_node *node, void *to)
{
    int    n    = node->kind == JOB_LIST ? node->n : 1;
    size_t size = field->kind == JOB_TEXTS ? sizeof(char *) : field->kind == JOB_FLOATS ? sizeof(float) : 8;
    char  *made = est_arena_alloc(r->arena, (size_t)(n + 1) * size); /* never of 0 bytes: NULL is "not given" */

    if (n == 0) job_error(r->errors, node, "\"%s\" is an empty list", field->key);
    if (made == NULL) return est_no_memory();
    if (field->kind == JOB_SHAPE) {
        read_shape(r, field, node, to);
        return EST_OK;
    }
    for (int i = 0; i < n; i++) {
        const job_node *item = item_of(node, i);
        void           *one  = made + (size_t)i * size;

        if (field->kind == JOB_TEXTS) *(const char **)one = read_text(r, field, item);
        if (field->kind == JOB_INTS) *(int64_t *)one = read_int(r, field, item);
        if (field->kind == JOB_NUMBERS) *(double *)one = read_number(r, field, item);
        if (field->kind == JOB_FLOATS) *(float *)one = (float)read_number(r, field, item);
    }
    put_list(to, made, n);
    return EST_OK;
}

/* --- records ------------------------------------------------------------------------------------------------------ */

static est_status read_record(reader *r, const job_record *record, const job_node *node, const char *name, void *out);

static est_status read_records(reader *r, const job_field *field, const job_node *node, void *to)
{
    size_t size  = field->record->size;
    bool   named = field->kind == JOB_NAMED;
    char  *made;

    if (node->kind != (named ? JOB_MAP : JOB_LIST)) {
        job_error(r->errors, node, "\"%s\" takes %s", field->key,
                  named ? "a mapping of names" : "a list, each entry after a dash");
        return EST_OK;
    }
    made = est_arena_alloc(r->arena, (size_t)(node->n + 1) * size);
    if (made == NULL) return est_no_memory();
    for (int i = 0; i < node->n; i++) {
        const char *name = named ? node->items[2 * i]->text : NULL;
        char       *one  = made + (size_t)i * size;

        EST_TRY(read_record(r, field->record, node->items[named ? 2 * i + 1 : i], name, one));
        if (named) *(const char **)(void *)(one + sizeof(job_node *)) = name; /* next to the node, as job.h has it */
    }
    put_list(to, made, node->n);
    return EST_OK;
}

static est_status read_value(reader *r, const job_field *field, const job_node *node, void *to)
{
    switch (field->kind) {
    case JOB_BOOL: read_bool(r, field, node, to); return EST_OK;
    case JOB_INT: put_int(field, read_int(r, field, node), to); return EST_OK;
    case JOB_NUMBER: *(double *)to = read_number(r, field, node); return EST_OK;
    case JOB_TEXT: *(const char **)to = read_text(r, field, node); return EST_OK;
    case JOB_CHAR: read_char(r, field, node, to); return EST_OK;
    case JOB_RECORD: return read_record(r, field->record, node, NULL, to);
    case JOB_RECORDS:
    case JOB_NAMED: return read_records(r, field, node, to);
    default: break;
    }
    if (is_list(field)) return read_list(r, field, node, to);
    read_choice(r, field, node, to);
    return EST_OK;
}

/* The value in the file, or the default. */
static est_status read_field(reader *r, const job_record *record, const job_field *field, const job_node *node,
                             const char *name, void *to)
{
    const job_node *value    = value_of(record, node, field->key);
    const char     *standard = default_of(record, field, node, name);
    job_node       *made;

    if (value != NULL) return read_value(r, field, value, to);
    if (is_required(field, type_of(record, node))) {
        job_error(r->errors, node, "%s needs \"%s\": %s", record->what, field->key, field->help);
        return EST_OK;
    }
    if (standard == NULL) return EST_OK;
    made = job_node_new(r->arena,
                        strcmp(standard, "{}") == 0   ? JOB_MAP
                        : strcmp(standard, "[]") == 0 ? JOB_LIST
                                                      : JOB_SCALAR,
                        node);
    if (made == NULL) return est_no_memory();
    made->text = standard;
    return read_value(r, field, made, to);
}

/* Keys of a mapping that the record does not have, or not for its type. */
static void refuse_keys(reader *r, const job_record *record, const job_node *node, const char *type)
{
    const char *names[KEYS_MAX];
    size_t      n = 0;

    for (const job_field *f = record->fields; f->key != NULL && n < KEYS_MAX; f++) {
        if (is_allowed(f, type)) names[n++] = f->key;
    }
    for (int i = 0; i < node->n; i++) {
        const job_node *key   = node->items[2 * i];
        bool            known = false, allowed = false;

        for (const job_field *f = record->fields; f->key != NULL; f++) {
            if (strcmp(f->key, key->text) != 0) continue;
            known   = true;
            allowed = allowed || is_allowed(f, type);
        }
        if (!known) {
            job_error(r->errors, key, "%s has no key \"%s\"%s", record->what, key->text,
                      job_suggestion(key->text, names, n));
        } else if (!allowed && !job_is_null(node->items[2 * i + 1])) {
            job_error(r->errors, node->items[2 * i + 1], "\"%s\" is not for %s of the type \"%s\"", key->text,
                      record->what, type);
        }
    }
}

static est_status read_record(reader *r, const job_record *record, const job_node *node, const char *name, void *out)
{
    const char *type = type_of(record, node);

    if (record->initial != NULL) memcpy(out, record->initial, record->size);
    *(const job_node **)out = node;
    if (node->kind != JOB_MAP && (node->kind != JOB_SCALAR || record->bare == NULL || job_is_null(node))) {
        if (!job_is_null(node)) {
            job_error(r->errors, node, "%s is a mapping of keys, not %s", record->what,
                      node->kind == JOB_LIST ? "a list" : "a single value");
        } else {
            job_error(r->errors, node, "%s is a mapping of keys, and this one is empty; give it keys, or remove it",
                      record->what);
        }
        return EST_OK;
    }
    for (const job_field *f = record->fields; f->key != NULL; f++) {
        if (is_allowed(f, type)) EST_TRY(read_field(r, record, f, node, name, (char *)out + f->offset));
    }
    if (node->kind == JOB_MAP) refuse_keys(r, record, node, type);
    return EST_OK;
}

/* What depends on other keys. */
static void complete(job_spec *job)
{
    job_model     *m            = &job->model;
    job_optimizer *optimizers[] = { &m->optimizer, &m->dnn_optimizer, &m->linear_optimizer };
    job_csv       *csv          = &job->data.csv;
    bool           keras        = !m->options.v1;

    for (int i = 0; i < 3; i++) {
        job_optimizer *o = optimizers[i];

        o->adadelta.keras = o->adagrad.keras = o->adam.keras = o->ftrl.keras = o->momentum.keras = keras;
        o->rms_prop.keras                                                                        = keras;
    }
    for (int i = 0; i < job->features.n; i++) {
        job_feature *f = &job->features.data[i];

        f->categorical.has_default = job_has(f->node, "default_id");
    }
    csv->options.field_names = csv->fields;
}

est_status job_read(est_arena *arena, const job_node *root, job_errors *errors, job_spec *out)
{
    reader   r      = { arena, errors };
    int      before = errors->n;
    job_spec made   = { 0 };

    EST_TRY(read_record(&r, &job_schema, root, NULL, &made));
    complete(&made);
    if (errors->n == before) job_check(&made, errors);
    if (errors->n > before) return est_fail(EST_INVALID_ARGUMENT, "the job file is wrong");
    *out = made;
    return EST_OK;
}

/* --- --set -------------------------------------------------------------------------------------------------------- */

/* Puts `value` at the end of a dotted path that is `size` long, making mappings on the way; null removes the key. */
static est_status put_at(est_arena *arena, job_node *root, const char *path, size_t size, job_node *value,
                         job_errors *errors)
{
    bool named = false; /* whether the keys of `root` are names of the job's own: those of features */

    for (;;) {
        size_t    part = strcspn(path, ".=");
        job_node *key  = job_node_new(arena, JOB_SCALAR, value), *next, *map;

        if (key == NULL) return est_no_memory();
        key->text = est_arena_printf(arena, "%.*s", (int)part, path);
        if (key->text == NULL) return est_no_memory();
        if (part == 0) {
            job_error(errors, value, "a key is empty; keys are dotted, as in data.batch=64");
            return est_fail(EST_INVALID_ARGUMENT, "--set is wrong");
        }
        if (part == size && job_is_null(value) && job_map_remove(root, key->text)) return EST_OK;
        if (part == size && job_is_null(value) && named) {
            job_error(errors, value, "there is no feature \"%s\" to remove", key->text);
            return est_fail(EST_INVALID_ARGUMENT, "--set is wrong");
        }
        if (part == size) return job_map_set(arena, root, key, value);
        /* A mapping on the way is copied: an alias may share it. */
        next = job_map_get(root, key->text);
        map  = job_node_new(arena, JOB_MAP, next != NULL ? next : value);
        if (map == NULL) return est_no_memory();
        for (int i = 0; next != NULL && next->kind == JOB_MAP && i < next->n; i++) {
            EST_TRY(job_map_set(arena, map, next->items[2 * i], next->items[2 * i + 1]));
        }
        EST_TRY(job_map_set(arena, root, key, map));
        next  = map;
        root  = next;
        named = strcmp(key->text, "features") == 0 && !named;
        path += part + 1;
        size -= part + 1;
    }
}

est_status job_set(est_arena *arena, job_node *root, const char *text, job_errors *errors)
{
    const char *source = est_arena_printf(arena, "--set \"%s\"", text);
    size_t      size   = strcspn(text, "=");
    job_node    at     = { .source = source };
    job_node   *value;

    if (source == NULL) return est_no_memory();
    if (text[size] == '\0') {
        job_error(errors, &at, "it takes key=value, as in run.model_dir=/tmp/x");
        return est_fail(EST_INVALID_ARGUMENT, "--set is wrong");
    }
    EST_TRY(
        job_yaml_parse(arena, source, false, (est_str){ text + size + 1, strlen(text + size + 1) }, errors, &value));
    if (value->kind == JOB_MAP && value->n == 0 && text[size + 1] == '\0') value->kind = JOB_SCALAR; /* key= is null */
    if (root->kind != JOB_MAP) {
        job_error(errors, root, "a job is a mapping of keys");
        return est_fail(EST_INVALID_ARGUMENT, "the job file is wrong");
    }
    return put_at(arena, root, text, size, value, errors);
}

/* --- printing ----------------------------------------------------------------------------------------------------- */

static void print_record(const job_record *record, const job_node *node, const char *name, int depth, est_strbuf *out);

static void indent(est_strbuf *out, int depth)
{
    for (int i = 0; i < depth; i++) est_strbuf_append(out, "  ");
}

/* Numbers and words need no quotes, but for those that only quotes make texts. */
static void print_scalar(const job_field *field, const char *text, est_strbuf *out)
{
    int64_t whole;

    if (field->kind == JOB_TEXT || field->kind == JOB_TEXTS || field->kind == JOB_CHAR) {
        job_append_scalar(out, text);
    } else if (is_whole(field) && parse_whole(text, &whole)) {
        est_strbuf_printf(out, "%" PRId64, whole);
    } else {
        est_strbuf_append(out, text);
    }
}

/* A value, or its default as text; neither: null. */
static void print_plain(const job_field *field, const job_node *value, const char *standard, est_strbuf *out)
{
    if (value == NULL && standard == NULL) {
        est_strbuf_append(out, " null\n");
        return;
    }
    est_strbuf_append(out, is_list(field) ? " [" : " ");
    for (int i = 0; value != NULL && i < (value->kind == JOB_LIST ? value->n : 1); i++) {
        est_strbuf_append(out, i > 0 ? ", " : "");
        print_scalar(field, item_of(value, i)->text, out);
    }
    if (value == NULL) print_scalar(field, standard, out);
    est_strbuf_append(out, is_list(field) ? "]\n" : "\n");
}

static void print_records(const job_field *field, const job_node *list, int depth, est_strbuf *out)
{
    bool named = field->kind == JOB_NAMED;
    int  n     = list != NULL ? list->n : 0;

    est_strbuf_append(out, n == 0 ? (named ? " {}\n" : " []\n") : "\n");
    for (int i = 0; i < n; i++) {
        const char *name = named ? list->items[2 * i]->text : NULL;

        indent(out, depth);
        if (named) job_append_scalar(out, name);
        est_strbuf_append(out, named ? ":\n" : "-\n");
        print_record(field->record, list->items[named ? 2 * i + 1 : i], name, depth + 1, out);
    }
}

/* The only field of a record: its bare key, if its type has no others. NULL: there are more. */
static const job_field *only_field(const job_record *record, const job_node *node)
{
    const job_field *bare = NULL;

    for (const job_field *f = record->fields; f->key != NULL; f++) {
        if (record->bare != NULL && strcmp(f->key, record->bare) == 0) {
            bare = f;
        } else if (f != record->fields && is_allowed(f, type_of(record, node))) {
            return NULL;
        }
    }
    return bare;
}

static void print_field(const job_record *record, const job_field *field, const job_node *node, const char *name,
                        int depth, est_strbuf *out)
{
    const job_node  *value    = value_of(record, node, field->key);
    const char      *standard = default_of(record, field, node, name);
    const job_field *only     = field->kind == JOB_RECORD ? only_field(field->record, value) : NULL;

    indent(out, depth);
    est_strbuf_printf(out, "%s:", field->key);
    if (field->kind == JOB_RECORDS || field->kind == JOB_NAMED) {
        print_records(field, value, depth + 1, out);
    } else if (field->kind != JOB_RECORD) {
        print_plain(field, value, standard, out);
    } else if (value == NULL && standard == NULL) {
        est_strbuf_append(out, " null\n");
    } else if (only != NULL) {
        print_plain(only, value_of(field->record, value, only->key), only->standard, out);
    } else {
        est_strbuf_append(out, "\n");
        print_record(field->record, value, NULL, depth + 1, out);
    }
}

static void print_record(const job_record *record, const job_node *node, const char *name, int depth, est_strbuf *out)
{
    for (const job_field *f = record->fields; f->key != NULL; f++) {
        if (is_allowed(f, type_of(record, node))) print_field(record, f, node, name, depth, out);
    }
}

void job_print(const job_spec *job, est_strbuf *out)
{
    print_record(&job_schema, job->node, NULL, 0, out);
}

/* --- help --------------------------------------------------------------------------------------------------------- */

static const char *kind_name(const job_field *field)
{
    static const char *const names[] = { [JOB_BOOL]     = "true or false",
                                         [JOB_INT]      = "whole number",
                                         [JOB_NUMBER]   = "number",
                                         [JOB_ENUM]     = "one of",
                                         [JOB_FUNCTION] = "one of",
                                         [JOB_NAME]     = "one of",
                                         [JOB_WORD]     = "one of",
                                         [JOB_TEXT]     = "text",
                                         [JOB_CHAR]     = "character",
                                         [JOB_TEXTS]    = "list of texts",
                                         [JOB_INTS]     = "list of whole numbers",
                                         [JOB_NUMBERS]  = "list of numbers",
                                         [JOB_FLOATS]   = "list of numbers",
                                         [JOB_SHAPE]    = "list of whole numbers",
                                         [JOB_RECORD]   = "keys",
                                         [JOB_RECORDS]  = "list of keys",
                                         [JOB_NAMED]    = "names, each with keys" };

    return names[field->kind];
}

/* Text in lines of WIDTH, each indented. */
static void append_wrapped(est_strbuf *out, const char *text, int margin)
{
    int at = 0;

    while (*text != '\0') {
        int size = (int)strcspn(text, " ");

        if (at > 0 && at + 1 + size > WIDTH) {
            est_strbuf_append(out, "\n");
            at = 0;
        }
        if (at == 0) {
            est_strbuf_printf(out, "%*s", margin, "");
            at = margin;
        } else {
            est_strbuf_append(out, " ");
            at++;
        }
        est_strbuf_append_bytes(out, text, (size_t)size);
        at += size;
        text += size + (text[size] == ' ');
    }
    est_strbuf_append(out, "\n");
}

/* Whether a type has the key, by this row or one of those after it that belong to it. */
static bool has_key(const job_field *field, const char *type)
{
    const char *key = field->key;

    do {
        if (is_allowed(field++, type)) return true;
    } while (field->key != NULL && field->help == NULL && strcmp(field->key, key) == 0);
    return false;
}

/* "model.dropout  number from 0 to 0.999; default 0": then what it means, and for which types it is. */
static void describe_field(const job_record *record, const job_field *field, const char *path, est_strbuf *out)
{
    est_strbuf line = { 0 };

    est_strbuf_printf(out, "  %s%s: %s", path, field->key, kind_name(field));
    if (is_choice(field)) {
        est_strbuf_append(out, " ");
        append_words(out, words_of(field));
    } else if (field->kind < JOB_RECORD) {
        describe_range(field, out);
    }
    if (field->required != NULL) est_strbuf_append(out, "; required");
    if (field->standard != NULL && field->standard[0] != '$' && field->kind < JOB_RECORD) {
        est_strbuf_printf(out, "; default %s", field->standard);
    }
    est_strbuf_append(out, "\n");
    est_strbuf_append(&line, field->help);
    if (field->only != NULL) {
        const job_word *types = record->fields[0].words;

        est_strbuf_append(&line, " (");
        for (int i = 0, n = 0; types[i].text != NULL; i++) {
            if (has_key(field, types[i].text)) est_strbuf_printf(&line, "%s%s", n++ > 0 ? ", " : "", types[i].text);
        }
        est_strbuf_append(&line, ")");
    }
    append_wrapped(out, est_strbuf_text(&line), 6);
    est_strbuf_clear(&line);
}

static void describe_record(const job_record *record, const char *path, est_strbuf *out)
{
    for (const job_field *f = record->fields; f->key != NULL; f++) {
        char below[128];

        if (f->help == NULL) continue;
        describe_field(record, f, path, out);
        if (f->record == NULL) continue;
        /* The keys of optimizers are shown with the first of them. */
        if (f > record->fields && f->record == f[-1].record) continue;
        snprintf(below, sizeof below, "%s%s%s", path, f->key,
                 f->kind == JOB_NAMED     ? ".<name>."
                 : f->kind == JOB_RECORDS ? "[]."
                                          : ".");
        describe_record(f->record, below, out);
    }
}

void job_describe(est_strbuf *out)
{
    est_strbuf_append(out, "A job file is YAML with these keys. Paths are relative to the current directory.\n\n");
    describe_record(&job_schema, "", out);
}
