/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs by the schema: from a tree to structs, and from structs to text. */
#include "job.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/nearest.h"
#include "command.h"
#include "format/number.h"

#define KEYS_MAX  64     /* of a record; more of a mapping of names are not compared for suggestions */
#define WIDTH     92     /* of the help */
#define WHOLE_MAX 0x1p53 /* up to here every whole number is a double */

typedef struct reader {
    est_arena  *arena;
    job_errors *errors;
} reader;

/* All lists of a job look alike, an array and its length; the types of the arrays differ, so they are copied. */
typedef struct any_list {
    void *data;
    int   n;
} any_list;

static_assert(sizeof(any_list) == sizeof(job_texts) && sizeof(any_list) == sizeof(job_features), "lists look alike");

static any_list get_list(const void *from)
{
    any_list l;

    memcpy(&l, from, sizeof l);
    return l;
}

static void put_list(void *to, void *data, int n)
{
    memcpy(to, &(any_list){ data, n }, sizeof(any_list));
}

/* Where a field of a record goes. */
static void *member(void *record, const job_field *field)
{
    return (char *)record + field->offset;
}

static const void *const_member(const void *record, const job_field *field)
{
    return (const char *)record + field->offset;
}

/* Which of n names TensorFlow has that word for; NULL: none. */
static const job_alias *translate(const char *word, const char *const *names, size_t n)
{
    for (const job_alias *a = job_aliases; a->theirs != NULL; a++) {
        if (strcmp(a->theirs, word) != 0) continue;
        for (size_t i = 0; i < n; i++) {
            if (strcmp(a->ours, names[i]) == 0) return a;
        }
    }
    return NULL;
}

const char *job_suggestion(const char *word, const char *const *names, size_t n)
{
    static char      text[128];
    const job_alias *alias   = translate(word, names, n);
    const char      *nearest = alias != NULL ? alias->ours : est_nearest(word, names, n);
    const char      *why     = alias != NULL ? alias->why : NULL;

    text[0] = '\0';
    if (nearest != NULL) {
        snprintf(text, sizeof text, "%s%s; did you mean \"%s\"?", why != NULL ? ": " : "", why != NULL ? why : "",
                 nearest);
    }
    return text;
}

static int count_words(const job_word *words)
{
    int n = 0;

    while (words[n].text != NULL) n++;
    return n;
}

static int find_word(const job_word *words, const char *text)
{
    for (int i = 0; words != NULL && words[i].text != NULL; i++) {
        if (strcmp(words[i].text, text) == 0) return i;
    }
    return -1;
}

/* --- scalars ---------------------------------------------------------------------------------------------------------- */

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
    if (!is_scalar(r, field, node, "true or false")) return;
    *out = strcmp(node->text, "true") == 0;
    if (node->quoted || (!*out && strcmp(node->text, "false") != 0)) {
        job_error(r->errors, node, "\"%s\" takes true or false, not \"%s\"", field->key, node->text);
    }
}

/* "from 1 up", "from 0 to 1", "above 0", and the words that do as well. */
static void describe_range(const job_field *field, est_strbuf *out)
{
    bool limited = field->kind == JOB_INT || field->kind == JOB_INTS || field->above || field->min != 0 ||
                   field->max > 0;

    if (limited && field->above) {
        est_strbuf_printf(out, " above %g", field->min);
    } else if (limited && field->max > 0) {
        est_strbuf_printf(out, " from %g to %g", field->min, field->max);
    } else if (limited) {
        est_strbuf_printf(out, " from %g up", field->min);
    }
    for (int i = 0; field->words != NULL && field->words[i].text != NULL; i++) {
        est_strbuf_printf(out, " or %s", field->words[i].text);
    }
}

static bool is_in_range(const job_field *field, double value)
{
    bool whole = field->kind == JOB_INT || field->kind == JOB_INTS;

    if (!isfinite(value)) return false;
    if (field->max > 0 && value > field->max) return false;
    if (field->above) return value > field->min;
    return value >= field->min || (!whole && field->min == 0 && field->max == 0);
}

static void refuse_number(reader *r, const job_field *field, const job_node *node)
{
    bool       whole = field->kind == JOB_INT || field->kind == JOB_INTS;
    est_strbuf range = { 0 };

    describe_range(field, &range);
    if (node->kind == JOB_SCALAR) {
        job_error(r->errors, node, "\"%s\" takes a %snumber%s, not \"%s\"", field->key, whole ? "whole " : "",
                  est_strbuf_text(&range), node->text);
    } else {
        job_error(r->errors, node, "\"%s\" takes a %snumber%s, not %s", field->key, whole ? "whole " : "",
                  est_strbuf_text(&range), kind_text(node));
    }
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

static void read_int(reader *r, const job_field *field, const job_node *node, int64_t *out)
{
    int word = node->kind == JOB_SCALAR ? find_word(field->words, node->text) : -1;

    if (word >= 0) {
        *out = field->words[word].value;
        return;
    }
    if (node->kind != JOB_SCALAR || node->quoted || !parse_whole(node->text, out) ||
        !is_in_range(field, (double)*out)) {
        refuse_number(r, field, node);
    }
}

static void read_number(reader *r, const job_field *field, const job_node *node, double *out)
{
    int word = node->kind == JOB_SCALAR ? find_word(field->words, node->text) : -1;

    if (word >= 0) {
        *out = (double)field->words[word].value;
        return;
    }
    if (node->kind != JOB_SCALAR || node->quoted ||
        est_number_f64(node->text, strlen(node->text), out) != EST_NUMBER_OK || !is_in_range(field, *out)) {
        refuse_number(r, field, node);
    }
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
    const char *names[KEYS_MAX];
    est_strbuf  words = { 0 };
    int         n     = count_words(field->words);

    append_words(&words, field->words);
    for (int i = 0; i < n; i++) names[i] = field->words[i].text;
    if (is_scalar(r, field, node, est_strbuf_text(&words))) {
        job_error(r->errors, node, "\"%s\" takes %s, not \"%s\"%s", field->key, est_strbuf_text(&words), node->text,
                  job_suggestion(node->text, names, (size_t)n));
    }
    est_strbuf_clear(&words);
}

static void read_choice(reader *r, const job_field *field, const job_node *node, int *out)
{
    *out = node->kind == JOB_SCALAR ? find_word(field->words, node->text) : -1;
    if (*out < 0) refuse_choice(r, field, node);
}

static void read_text(reader *r, const job_field *field, const job_node *node, const char **out)
{
    if (!is_scalar(r, field, node, "a text")) return;
    *out = node->text;
    if (node->text[0] == '\0') job_error(r->errors, node, "\"%s\" is empty", field->key);
}

/* --- lists ------------------------------------------------------------------------------------------------------------ */

static est_status read_scalars(reader *r, const job_field *field, const job_node *node, void *to)
{
    size_t size = field->kind == JOB_TEXTS  ? sizeof(char *)
                  : field->kind == JOB_INTS ? sizeof(int64_t)
                                            : sizeof(double);
    int    n    = node->kind == JOB_LIST ? node->n : 1;
    char  *made = est_arena_alloc(r->arena, (size_t)(n + 1) * size); /* never of 0 bytes: NULL is "not given" */

    if (made == NULL) return est_no_memory();
    for (int i = 0; i < n; i++) {
        const job_node *item = node->kind == JOB_LIST ? node->items[i] : node;
        void           *one  = made + (size_t)i * size;

        if (field->kind == JOB_TEXTS) read_text(r, field, item, one);
        if (field->kind == JOB_INTS) read_int(r, field, item, one);
        if (field->kind == JOB_NUMBERS) read_number(r, field, item, one);
    }
    if (n == 0) job_error(r->errors, node, "\"%s\" is an empty list", field->key);
    put_list(to, made, n);
    return EST_OK;
}

/* --- records ---------------------------------------------------------------------------------------------------------- */

static est_status read_record(reader *r, const job_record *record, const job_node *node, void *out);

static est_status read_records(reader *r, const job_field *field, const job_node *node, void *to)
{
    size_t        size  = field->record->size;
    bool          named = field->kind == JOB_NAMED;
    job_node_kind kind  = named ? JOB_MAP : JOB_LIST;
    char         *made;

    if (node->kind != kind) {
        job_error(r->errors, node, "\"%s\" takes %s", field->key,
                  named ? "a mapping of names" : "a list, each entry after a dash");
        return EST_OK;
    }
    made = est_arena_alloc(r->arena, (size_t)(node->n + 1) * size);
    if (made == NULL) return est_no_memory();
    for (int i = 0; i < node->n; i++) {
        char *one = made + (size_t)i * size;

        EST_TRY(read_record(r, field->record, node->items[named ? 2 * i + 1 : i], one));
        /* The name follows the node, as job.h has it. */
        if (named) *(const char **)(void *)(one + sizeof(job_node *)) = node->items[2 * i]->text;
    }
    put_list(to, made, node->n);
    return EST_OK;
}

/* What a member is before anything is read into it. */
static void clear_member(const job_field *field, void *to)
{
    if (field->kind == JOB_INT) *(int64_t *)to = JOB_NO_INT;
    if (field->kind == JOB_NUMBER) *(double *)to = (double)NAN;
    if (field->kind == JOB_CHOICE) *(int *)to = -1;
}

static est_status read_value(reader *r, const job_field *field, const job_node *node, void *to)
{
    switch (field->kind) {
    case JOB_BOOL: read_bool(r, field, node, to); return EST_OK;
    case JOB_INT: read_int(r, field, node, to); return EST_OK;
    case JOB_NUMBER: read_number(r, field, node, to); return EST_OK;
    case JOB_CHOICE: read_choice(r, field, node, to); return EST_OK;
    case JOB_TEXT: read_text(r, field, node, to); return EST_OK;
    case JOB_TEXTS:
    case JOB_INTS:
    case JOB_NUMBERS: return read_scalars(r, field, node, to);
    case JOB_RECORD: return read_record(r, field->record, node, to);
    case JOB_RECORDS:
    case JOB_NAMED: return read_records(r, field, node, to);
    }
    return EST_OK;
}

/* Bit of the record's first field, a choice; 1 when it has none, 0 when it is not known. */
static unsigned type_bit(const job_record *record, const void *out)
{
    const job_field *first = &record->fields[0];
    int              choice;

    if (first->kind != JOB_CHOICE) return 1;
    choice = *(const int *)const_member(out, first);
    return choice >= 0 ? 1u << choice : 0;
}

static bool is_allowed(const job_field *field, unsigned type)
{
    return field->only == 0 || (field->only & type) != 0 || type == 0;
}

/* A value that stands in the file, or the default. */
static est_status read_field(reader *r, const job_record *record, const job_field *field, const job_node *node,
                             void *out)
{
    const job_node *value = job_map_get(node, field->key);
    unsigned        type  = type_bit(record, out);
    job_node       *standard;

    clear_member(field, member(out, field));
    if (!is_allowed(field, type)) {
        if (!job_is_null(value)) {
            job_error(r->errors, value, "\"%s\" is not for %s of the type \"%s\"", field->key, record->what,
                      record->fields[0].words[*(const int *)const_member(out, &record->fields[0])].text);
        }
        return EST_OK;
    }
    if (!job_is_null(value)) return read_value(r, field, value, member(out, field));
    if ((field->required & type) != 0 || field->required == JOB_ALL) {
        job_error(r->errors, node, "%s needs \"%s\": %s", record->what, field->key, field->help);
        return EST_OK;
    }
    if (field->standard == NULL) return EST_OK;
    standard = job_node_new(r->arena,
                            strcmp(field->standard, "{}") == 0   ? JOB_MAP
                            : strcmp(field->standard, "[]") == 0 ? JOB_LIST
                                                                 : JOB_SCALAR,
                            node);
    if (standard == NULL) return est_no_memory();
    standard->text = field->standard;
    return read_value(r, field, standard, member(out, field));
}

/* A value in place of a mapping stands for the one of its keys that matters most. */
static est_status unfold(reader *r, const job_record *record, const job_node **node)
{
    job_node *map = job_node_new(r->arena, JOB_MAP, *node), *key = job_node_new(r->arena, JOB_SCALAR, *node);
    job_node *copy = job_node_new(r->arena, JOB_SCALAR, *node);

    if (map == NULL || key == NULL || copy == NULL) return est_no_memory();
    key->text = record->bare;
    *copy     = **node;
    EST_TRY(job_map_set(r->arena, map, key, copy));
    *node = map;
    return EST_OK;
}

static void refuse_unknown_keys(reader *r, const job_record *record, const job_node *node, unsigned type)
{
    const char *names[KEYS_MAX];
    size_t      n = 0;

    for (const job_field *f = record->fields; f->key != NULL && n < KEYS_MAX; f++) {
        if (is_allowed(f, type)) names[n++] = f->key;
    }
    for (int i = 0; i < node->n; i++) {
        const job_node *key   = node->items[2 * i];
        bool            known = false;

        for (const job_field *f = record->fields; f->key != NULL; f++) known = known || strcmp(f->key, key->text) == 0;
        if (!known) {
            job_error(r->errors, key, "%s has no key \"%s\"%s", record->what, key->text,
                      job_suggestion(key->text, names, n));
        }
    }
}

static est_status read_record(reader *r, const job_record *record, const job_node *node, void *out)
{
    if (node->kind == JOB_SCALAR && record->bare != NULL) EST_TRY(unfold(r, record, &node));
    for (const job_field *f = record->fields; f->key != NULL; f++) clear_member(f, member(out, f));
    *(const job_node **)out = node;
    if (node->kind != JOB_MAP) {
        if (!job_is_null(node)) {
            job_error(r->errors, node, "%s is a mapping of keys, not %s", record->what,
                      node->kind == JOB_LIST ? "a list" : "a single value");
        } else {
            job_error(r->errors, node, "%s is a mapping of keys, and this one is empty; give it keys, or take it out",
                      record->what);
        }
        return EST_OK;
    }
    for (const job_field *f = record->fields; f->key != NULL; f++) EST_TRY(read_field(r, record, f, node, out));
    refuse_unknown_keys(r, record, node, type_bit(record, out));
    return EST_OK;
}

/* Defaults that depend on other keys. */
static void complete(job_spec *job)
{
    for (int i = 0; i < job->features.n; i++) {
        job_feature *f = &job->features.data[i];

        if (f->key == NULL) f->key = f->name;
    }
    for (int i = 0; i < job->exports.n; i++) {
        static const char *const names[] = { "latest", "final", "best" };
        job_export              *e       = &job->exports.data[i];

        if (e->name == NULL && e->type >= 0) e->name = names[e->type];
    }
    for (int i = 0; i < job->model.head.heads.n; i++) {
        job_head *h = &job->model.head.heads.data[i];

        if (h->label == NULL) h->label = h->name;
    }
    if (job->data.csv.fields.data != NULL && job_map_get(job->data.csv.node, "header") == NULL) {
        job->data.csv.header = false;
    }
}

est_status job_read(est_arena *arena, const job_node *root, job_errors *errors, job_spec *out)
{
    reader   r      = { arena, errors };
    int      before = errors->n;
    job_spec made   = { 0 };

    EST_TRY(read_record(&r, &job_schema, root, &made));
    complete(&made);
    if (errors->n == before) EST_TRY(job_check(&made, errors));
    if (errors->n > before) return est_fail(EST_INVALID_ARGUMENT, "the job file is wrong");
    *out = made;
    return EST_OK;
}

/* --- --set ------------------------------------------------------------------------------------------------------------ */

/* Puts `value` at the end of a dotted path that is `size` long, making mappings on the way; null takes out what is there. */
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
            job_error(errors, value, "there is no feature \"%s\" to take out", key->text);
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

/* --- printing --------------------------------------------------------------------------------------------------------- */

static void print_record(const job_record *record, const void *from, int depth, est_strbuf *out);

static void indent(est_strbuf *out, int depth)
{
    for (int i = 0; i < depth; i++) est_strbuf_append(out, "  ");
}

static void print_number(est_strbuf *out, const job_field *field, double value)
{
    char text[EST_NUMBER_TEXT_MAX];

    for (int i = 0; field->words != NULL && field->words[i].text != NULL; i++) {
        if ((double)field->words[i].value == value) {
            est_strbuf_append(out, field->words[i].text);
            return;
        }
    }
    est_strbuf_append(out, est_number_f64_text(value, text));
}

static void print_int(est_strbuf *out, const job_field *field, int64_t value)
{
    for (int i = 0; field->words != NULL && field->words[i].text != NULL; i++) {
        if (field->words[i].value == value) {
            est_strbuf_append(out, field->words[i].text);
            return;
        }
    }
    est_strbuf_printf(out, "%" PRId64, value);
}

/* A list of scalars; NULL: not given. */
static void print_list(est_strbuf *out, const job_field *field, const void *from)
{
    any_list l = get_list(from);

    if (l.data == NULL) {
        est_strbuf_append(out, "null");
        return;
    }
    for (int i = 0; i < l.n; i++) {
        est_strbuf_append(out, i == 0 ? "[" : ", ");
        if (field->kind == JOB_TEXTS) job_append_scalar(out, ((const char *const *)l.data)[i]);
        if (field->kind == JOB_INTS) print_int(out, field, ((const int64_t *)l.data)[i]);
        if (field->kind == JOB_NUMBERS) print_number(out, field, ((const double *)l.data)[i]);
    }
    est_strbuf_append(out, "]");
}

static void print_scalar(const job_field *field, const void *from, est_strbuf *out)
{
    est_strbuf_append(out, " ");
    if (field->kind == JOB_BOOL) {
        est_strbuf_append(out, *(const bool *)from ? "true" : "false");
    } else if (field->kind == JOB_INT && *(const int64_t *)from != JOB_NO_INT) {
        print_int(out, field, *(const int64_t *)from);
    } else if (field->kind == JOB_NUMBER && !isnan(*(const double *)from)) {
        print_number(out, field, *(const double *)from);
    } else if (field->kind == JOB_CHOICE && *(const int *)from >= 0) {
        est_strbuf_append(out, field->words[*(const int *)from].text);
    } else if (field->kind == JOB_TEXT && *(const char *const *)from != NULL) {
        job_append_scalar(out, *(const char *const *)from);
    } else if (field->kind == JOB_TEXTS || field->kind == JOB_INTS || field->kind == JOB_NUMBERS) {
        print_list(out, field, from);
    } else {
        est_strbuf_append(out, "null");
    }
    est_strbuf_append(out, "\n");
}

static void print_records(const job_field *field, const void *from, int depth, est_strbuf *out)
{
    any_list    l     = get_list(from);
    const char *data  = l.data;
    bool        named = field->kind == JOB_NAMED;

    est_strbuf_append(out, l.n == 0 ? (named ? " {}\n" : " []\n") : "\n");
    for (int i = 0; i < l.n; i++) {
        const char *one = data + (size_t)i * field->record->size;

        indent(out, depth);
        if (named) {
            const char *name;

            memcpy(&name, one + sizeof(job_node *), sizeof name);
            job_append_scalar(out, name);
            est_strbuf_append(out, ":\n");
        } else {
            est_strbuf_append(out, "-\n");
        }
        print_record(field->record, one, depth + 1, out);
    }
}

/* The field that says all of a record: the one that a scalar stands for, if its type has no others. NULL: there are more. */
static const job_field *only_field(const job_record *record, const void *from)
{
    unsigned         type = type_bit(record, from);
    const job_field *bare = NULL;

    if (record->bare == NULL) return NULL;
    for (const job_field *f = record->fields; f->key != NULL; f++) {
        if (strcmp(f->key, record->bare) == 0) {
            bare = f;
        } else if (f != record->fields && is_allowed(f, type)) {
            return NULL;
        }
    }
    return bare;
}

static void print_record(const job_record *record, const void *from, int depth, est_strbuf *out)
{
    unsigned type = type_bit(record, from);

    for (const job_field *f = record->fields; f->key != NULL; f++) {
        const void *value = const_member(from, f);

        if (!is_allowed(f, type)) continue;
        indent(out, depth);
        est_strbuf_printf(out, "%s:", f->key);
        if (f->kind == JOB_RECORDS || f->kind == JOB_NAMED) {
            print_records(f, value, depth + 1, out);
        } else if (f->kind == JOB_RECORD && *(const job_node *const *)value != NULL &&
                   only_field(f->record, value) != NULL) {
            const job_field *only = only_field(f->record, value);

            print_scalar(only, const_member(value, only), out);
        } else if (f->kind == JOB_RECORD && *(const job_node *const *)value != NULL) {
            est_strbuf_append(out, "\n");
            print_record(f->record, value, depth + 1, out);
        } else {
            print_scalar(f, value, out);
        }
    }
}

void job_print(const job_spec *job, est_strbuf *out)
{
    print_record(&job_schema, job, 0, out);
}

/* --- help ------------------------------------------------------------------------------------------------------------- */

static const char *kind_name(const job_field *field)
{
    static const char *const names[] = {
        "true or false",        "whole number",          "number",          "one of", "text",
        "list of texts",        "list of whole numbers", "list of numbers", "keys",   "list of keys",
        "names, each with keys"
    };

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

/* "model.dropout  number from 0 to 0.999; default 0": then what it means, and for which types it is. */
static void describe_field(const job_record *record, const job_field *field, const char *path, est_strbuf *out)
{
    est_strbuf line = { 0 };

    est_strbuf_printf(out, "  %s%s: ", path, field->key);
    est_strbuf_append(out, kind_name(field));
    if (field->kind == JOB_CHOICE) {
        est_strbuf_append(out, " ");
        append_words(out, field->words);
    } else if (field->kind < JOB_RECORD) {
        describe_range(field, out);
    }
    if (field->required != 0) est_strbuf_append(out, "; required");
    if (field->standard != NULL && field->kind < JOB_RECORD) est_strbuf_printf(out, "; default %s", field->standard);
    est_strbuf_append(out, "\n");
    est_strbuf_append(&line, field->help);
    if (field->only != 0) {
        const job_word *words = record->fields[0].words;

        est_strbuf_append(&line, " (");
        for (int i = 0, n = 0; words[i].text != NULL; i++) {
            if ((field->only & (1u << i)) != 0) est_strbuf_printf(&line, "%s%s", n++ > 0 ? ", " : "", words[i].text);
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
