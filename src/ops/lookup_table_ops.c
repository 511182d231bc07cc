/* SPDX-License-Identifier: Apache-2.0
 *
 * Lookup tables: words and numbers to ids, and back.
 *
 * A handle is an output of type resource; the table behind it (kernels/lookup_table.h) belongs to the session, which
 * runs the operation that fills it before the first step that looks into it. EstVocabulary is the handle of a
 * vocabulary: a HashTableV2 that remembers what to do with keys it does not have. EstLookupOrHash gives those an id
 * behind the last one, by their hash, in one pass:
 *
 *   id = value of the key, or size of the table + Fingerprint64(key as text) mod num_oov_buckets */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/argument.h"
#include "base/file.h"
#include "base/fingerprint.h"
#include "base/options.h"
#include "format/number.h"
#include "kernels/lookup_table.h"
#include "kernels/parallel.h"
#include "ops/ops.h"

/* What a column of a text file is, TensorFlow's numbers. */
#define WHOLE_LINE  (-2)
#define LINE_NUMBER (-1)

#define OFFSET_MAX (INT64_MAX / 2) /* so that the sum with the number of a line fits */

#define KEYS_MAX 64 /* looked up at a time, their entries on the stack */

/* --- shape functions ---------------------------------------------------------------------------------------------- */

static est_status find_infer(est_infer *c)
{
    EST_TRY(est_infer_rank(c, 2, 0));
    c->out[0] = c->in[1];
    return EST_OK;
}

static est_status find_or_hash_infer(est_infer *c)
{
    int64_t n = est_node_int(c->node, "num_oov_buckets");

    if (n < 1) return est_fail(EST_INVALID_ARGUMENT, "num_oov_buckets is %" PRId64 "; at least 1 is needed", n);
    c->out[0] = c->in[1];
    return EST_OK;
}

static est_status import_infer(est_infer *c)
{
    est_shape merged;
    char      a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    EST_TRY(est_infer_rank(c, 1, 1));
    if (est_infer_merge(&c->in[1], &c->in[2], &merged) == EST_OK) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "keys %s and values %s must have the same shape",
                    est_shape_text(&c->in[1], a), est_shape_text(&c->in[2], b));
}

static est_status file_infer(est_infer *c)
{
    int64_t key = est_node_int(c->node, "key_index"), value = est_node_int(c->node, "value_index");
    int64_t size = est_node_int(c->node, "vocab_size"), offset = est_node_int(c->node, "offset");

    EST_TRY(est_infer_rank(c, 1, 0));
    if (!((key == WHOLE_LINE && value == LINE_NUMBER) || (key == LINE_NUMBER && value == WHOLE_LINE))) {
        return est_fail(EST_UNIMPLEMENTED,
                        "key_index %" PRId64 " and value_index %" PRId64
                        ": one must be -2, the whole line, the other -1, its number",
                        key, value);
    }
    if (offset > OFFSET_MAX || offset < -OFFSET_MAX)
        return est_fail(EST_INVALID_ARGUMENT, "offset is %" PRId64, offset);
    if (size < -1 || size == 0) {
        return est_fail(EST_INVALID_ARGUMENT, "vocab_size is %" PRId64 ": at least 1 is needed, or -1 for all lines",
                        size);
    }
    return EST_OK;
}

/* --- looking up --------------------------------------------------------------------------------------------------- */

/* Types are known only now: a handle does not tell them to what takes it. */
static est_status check_types(const est_call *c, est_dtype value)
{
    const est_lookup_table *t = est_call_table(c, 0);

    if (c->in[1]->dtype == t->key_dtype && value == t->value_dtype) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "table '%s' is from %s to %s, not from %s to %s", t->name,
                    est_dtype_name(t->key_dtype), est_dtype_name(t->value_dtype), est_dtype_name(c->in[1]->dtype),
                    est_dtype_name(value));
}

static const void *keys_at(const est_call *c, int64_t i)
{
    return (const char *)c->in[1]->data + (size_t)i * est_dtype_size(c->in[1]->dtype);
}

/* Values of entries, of entry -1 `unknown`. */
static void put_strings(const est_lookup_table *t, const int64_t *entries, int64_t n, est_str unknown, est_str *out)
{
    for (int64_t i = 0; i < n; i++) out[i] = entries[i] < 0 ? unknown : t->value.strings[entries[i]];
}

static void put_ints(const est_lookup_table *t, const int64_t *entries, int64_t n, int64_t unknown, int64_t *out)
{
    for (int64_t i = 0; i < n; i++) {
        out[i] = entries[i] < 0 ? unknown : t->value.ints != NULL ? t->value.ints[entries[i]] : entries[i];
    }
}

static void find_range(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const est_call         *c = arg;
    const est_lookup_table *t = est_call_table(c, 0);
    int64_t                 entries[KEYS_MAX];

    (void)block;
    for (int64_t i = begin; i < end; i += KEYS_MAX) {
        int64_t n = end - i < KEYS_MAX ? end - i : KEYS_MAX;

        est_lookup_table_find(t, keys_at(c, i), n, entries);
        if (t->value_dtype == EST_STRING) {
            put_strings(t, entries, n, *(const est_str *)c->in[2]->data, (est_str *)c->out[0].data + i);
        } else {
            put_ints(t, entries, n, *(const int64_t *)c->in[2]->data, (int64_t *)c->out[0].data + i);
        }
    }
}

static est_status find_prepare(est_call *c)
{
    return check_types(c, c->out[0].dtype);
}

static est_status find_cpu(est_call *c)
{
    est_parallel_for(c->pool, c->in[1]->count, KEYS_MAX, 30.0, find_range, c);
    return EST_OK;
}

static uint64_t hash_text(const est_lookup_table *t, const void *keys, int64_t i)
{
    const est_str *string = (const est_str *)keys + i;
    char           text[24];
    int            size;

    if (t->key_dtype == EST_STRING) return est_fingerprint64(string->data, string->size);
    size = snprintf(text, sizeof text, "%" PRId64, ((const int64_t *)keys)[i]);
    return est_fingerprint64(text, (size_t)size);
}

static void find_or_hash_range(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const est_call         *c       = arg;
    const est_lookup_table *t       = est_call_table(c, 0);
    uint64_t                buckets = (uint64_t)c->param[0].i;
    int64_t                 entries[KEYS_MAX];

    (void)block;
    for (int64_t i = begin; i < end; i += KEYS_MAX) {
        int64_t     n    = end - i < KEYS_MAX ? end - i : KEYS_MAX;
        int64_t    *out  = (int64_t *)c->out[0].data + i;
        const void *keys = keys_at(c, i);

        est_lookup_table_find(t, keys, n, entries);
        put_ints(t, entries, n, -1, out);
        for (int64_t k = 0; k < n; k++) {
            if (entries[k] < 0) out[k] = t->size + (int64_t)(hash_text(t, keys, k) % buckets);
        }
    }
}

static est_status find_or_hash_prepare(est_call *c)
{
    c->param[0].i = est_node_int(c->node, "num_oov_buckets");
    return check_types(c, EST_I64);
}

static est_status find_or_hash_cpu(est_call *c)
{
    est_parallel_for(c->pool, c->in[1]->count, KEYS_MAX, 40.0, find_or_hash_range, c);
    return EST_OK;
}

static est_status size_cpu(est_call *c)
{
    *(int64_t *)c->out[0].data = est_call_table(c, 0)->size;
    return EST_OK;
}

/* --- filling from tensors ----------------------------------------------------------------------------------------- */

static est_status copy_strings(const est_view *from, est_lookup_column *to)
{
    const est_str *strings = from->data;
    size_t         bytes   = 0;
    char          *at;

    for (int64_t i = 0; i < from->count; i++) bytes += strings[i].size;
    to->strings = est_alloc((size_t)from->count * sizeof *to->strings);
    to->bytes = at = est_alloc(bytes + 1);
    if (to->strings == NULL || at == NULL) return est_no_memory();
    for (int64_t i = 0; i < from->count; i++) {
        if (strings[i].size > 0) memcpy(at, strings[i].data, strings[i].size);
        to->strings[i] = (est_str){ at, strings[i].size };
        at += strings[i].size;
    }
    return EST_OK;
}

static est_status copy_column(const est_view *from, est_lookup_column *to)
{
    size_t bytes = (size_t)from->count * sizeof *to->ints;

    if (from->dtype == EST_STRING) return copy_strings(from, to);
    to->ints = est_alloc(bytes);
    if (to->ints == NULL) return est_no_memory();
    memcpy(to->ints, from->data, bytes);
    return EST_OK;
}

/* "a", or an integer, into text, shortened when it is long; for messages. */
#define KEY_TEXT_MAX 72
static const char *key_text(const est_view *keys, int64_t i, char text[KEY_TEXT_MAX])
{
    const est_str *string = (const est_str *)keys->data + i;

    if (keys->dtype == EST_STRING) {
        snprintf(text, KEY_TEXT_MAX, "\"%.*s\"", string->size < 64 ? (int)string->size : 64, string->data);
    } else {
        snprintf(text, KEY_TEXT_MAX, "%" PRId64, ((const int64_t *)keys->data)[i]);
    }
    return text;
}

static est_status import_prepare(est_call *c)
{
    return check_types(c, c->in[2]->dtype);
}

/* Runs once a session, and so may allocate. */
static est_status import_cpu(est_call *c)
{
    est_lookup_table *t   = est_call_table(c, 0);
    est_lookup_column key = { 0 }, value = { 0 };
    int64_t           twice[2];
    char              text[KEY_TEXT_MAX];
    est_status        status;

    if (c->in[1]->count == 0) return est_fail(EST_INVALID_ARGUMENT, "table '%s' needs at least one entry", t->name);
    status = copy_column(c->in[1], &key);
    if (status == EST_OK) status = copy_column(c->in[2], &value);
    if (status != EST_OK) {
        est_lookup_column_clear(&key);
        est_lookup_column_clear(&value);
        return est_fail_context(status, "table '%s'", t->name);
    }
    status = est_lookup_table_fill(t, key, value, c->in[1]->count, twice);
    if (status == EST_OK || twice[0] < 0) return status;
    return est_fail(status, "table '%s': the key %s is there twice, as entries %" PRId64 " and %" PRId64, t->name,
                    key_text(c->in[1], twice[0], text), twice[0], twice[1]);
}

/* --- filling from a file ------------------------------------------------------------------------------------------ */

/* A text file whose lines become a column. */
typedef struct line_file {
    const char *path;
    char       *bytes;
    size_t      size;
    int64_t     n;      /* lines taken */
    int64_t     wanted; /* -1: all */
} line_file;

/* The line at *at, without its end, LF or CRLF; false at the end of the file. */
static bool next_line(const line_file *f, size_t *at, est_str *line)
{
    char *begin = f->bytes + *at, *end;

    if (*at == f->size) return false;
    end   = memchr(begin, '\n', f->size - *at);
    *at   = end != NULL ? (size_t)(end - f->bytes) + 1 : f->size;
    end   = end != NULL ? end : f->bytes + f->size;
    *line = (est_str){ begin, (size_t)(end - begin) };
    if (line->size > 0 && line->data[line->size - 1] == '\r') line->size--;
    return true;
}

/* Counts the lines to be taken, which must not be empty. */
static est_status count_lines(line_file *f)
{
    est_str line;
    size_t  at = 0;

    while ((f->wanted < 0 || f->n < f->wanted) && next_line(f, &at, &line)) {
        f->n++;
        if (line.size == 0) return est_fail(EST_INVALID_ARGUMENT, "%s, line %" PRId64 " is empty", f->path, f->n);
    }
    if (f->n == 0) return est_fail(EST_INVALID_ARGUMENT, "%s is empty; a vocabulary has at least one line", f->path);
    if (f->n < f->wanted) {
        return est_fail(EST_INVALID_ARGUMENT, "%s has %" PRId64 " lines, expected %" PRId64 " by vocab_size", f->path,
                        f->n, f->wanted);
    }
    return EST_OK;
}

/* Lines as strings: they stay where they were read, and the file's bytes go to the column. */
static est_status take_strings(line_file *f, est_lookup_column *out)
{
    size_t at = 0;

    out->strings = est_alloc((size_t)f->n * sizeof *out->strings);
    if (out->strings == NULL) return est_no_memory();
    for (int64_t i = 0; i < f->n && next_line(f, &at, &out->strings[i]);) i++;
    out->bytes = f->bytes;
    f->bytes   = NULL;
    return EST_OK;
}

static est_status take_ints(const line_file *f, est_lookup_column *out)
{
    est_str line;
    size_t  at = 0;

    out->ints = est_alloc((size_t)f->n * sizeof *out->ints);
    if (out->ints == NULL) return est_no_memory();
    for (int64_t i = 0; i < f->n && next_line(f, &at, &line); i++) {
        if (est_number_i64(line.data, line.size, &out->ints[i]) != EST_NUMBER_OK) {
            return est_fail(EST_INVALID_ARGUMENT, "%s, line %" PRId64 ": \"%.*s\" is no int64", f->path, i + 1,
                            line.size < 64 ? (int)line.size : 64, line.data);
        }
    }
    return EST_OK;
}

static est_status read_column(line_file *f, est_dtype dtype, est_lookup_column *out)
{
    est_status status = est_file_read(f->path, &f->bytes, &f->size);

    if (status == EST_OK) status = count_lines(f);
    if (status == EST_OK) status = dtype == EST_STRING ? take_strings(f, out) : take_ints(f, out);
    est_free(f->bytes);
    f->bytes = NULL;
    return status;
}

est_status est_vocabulary_count(const char *path, int64_t *out)
{
    line_file  f = { .path = path, .wanted = -1 };
    est_status status;

    EST_REQUIRE(path);
    EST_REQUIRE(out);
    status = est_file_read(path, &f.bytes, &f.size);
    if (status == EST_OK) status = count_lines(&f);
    est_free(f.bytes);
    if (status == EST_OK) *out = f.n;
    return status;
}

est_status est_vocabulary_read(const char *path, est_tensor **out)
{
    line_file         f      = { .path = path, .wanted = -1 };
    est_lookup_column column = { 0 };
    est_status        status = read_column(&f, EST_STRING, &column);

    if (status == EST_OK) status = est_tensor_create_from(EST_STRING, EST_SHAPE(f.n), column.strings, out);
    est_lookup_column_clear(&column);
    return status;
}

/* The numbers of n lines; a column without numbers has those from 0 on. */
static est_status number_lines(int64_t n, int64_t offset, est_lookup_column *out)
{
    if (offset == 0) return EST_OK;
    out->ints = est_alloc((size_t)n * sizeof *out->ints);
    if (out->ints == NULL) return est_no_memory();
    for (int64_t i = 0; i < n; i++) out->ints[i] = i + offset;
    return EST_OK;
}

static est_status fill_from_lines(est_lookup_table *t, bool lines_are_keys, int64_t offset, line_file *f)
{
    est_lookup_column column = { 0 }, numbers = { 0 };
    int64_t           twice[2];
    est_status        status = read_column(f, lines_are_keys ? t->key_dtype : t->value_dtype, &column);

    if (status == EST_OK) status = number_lines(f->n, offset, &numbers);
    if (status != EST_OK) {
        est_lookup_column_clear(&column);
        return status;
    }
    status = lines_are_keys ? est_lookup_table_fill(t, column, numbers, f->n, twice)
                            : est_lookup_table_fill(t, numbers, column, f->n, twice);
    if (status == EST_OK || twice[0] < 0) return status;
    return est_fail(status, "%s: line %" PRId64 " says the same as line %" PRId64, f->path, twice[1] + 1, twice[0] + 1);
}

static est_status file_prepare(est_call *c)
{
    const est_lookup_table *t      = est_call_table(c, 0);
    bool                    number = est_node_int(c->node, "key_index") == LINE_NUMBER;

    c->param[0].i = !number;
    c->param[1].i = est_node_int(c->node, "vocab_size");
    c->param[2].i = est_node_int(c->node, "offset");
    if (number ? t->key_dtype == EST_I64 && t->value_dtype == EST_STRING : t->value_dtype == EST_I64) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "table '%s' is from %s to %s; the number of a line is int64, %s", t->name,
                    est_dtype_name(t->key_dtype), est_dtype_name(t->value_dtype),
                    number ? "its text a string" : "its text string or int64");
}

/* Runs once a session, and so may allocate. */
static est_status file_cpu(est_call *c)
{
    const est_str *name = c->in[1]->data;
    char          *path = est_alloc(name->size + 1);
    line_file      f    = { .path = path, .wanted = c->param[1].i };
    est_status     status;

    if (path == NULL) return est_no_memory();
    memcpy(path, name->data, name->size);
    path[name->size] = '\0';
    status           = fill_from_lines(est_call_table(c, 0), c->param[0].i != 0, c->param[2].i, &f);
    est_free(path);
    return status;
}

/* --- lowering ----------------------------------------------------------------------------------------------------- */

static void vocabulary_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    (void)in;
    out[0] = est_build0(graph, &est_op_hash_table,
                        EST_ATTRS(est_attr_string("shared_name", est_node_string(node, "shared_name")),
                                  est_attr_type("key_dtype", est_node_type(node, "key_dtype")),
                                  est_attr_type("value_dtype", est_node_type(node, "value_dtype"))));
}

static void find_or_hash_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    est_node none  = est_scalar(graph, EST_I64, -1);
    est_node found = est_build3(&est_op_lookup_table_find, in[0], in[1], none, EST_NO_ATTRS);
    est_node text  = est_node_dtype(in[1]) == EST_STRING ? in[1] : est_as_string(in[1]);
    est_node hash  = est_string_to_hash_bucket(text, est_node_int(node, "num_oov_buckets"));
    est_node size  = est_build1(&est_op_lookup_table_size, in[0], EST_NO_ATTRS);

    out[0] = est_select(est_not_equal(found, none), found, est_add(hash, size));
}

/* --- descriptors -------------------------------------------------------------------------------------------------- */

const est_op est_op_hash_table = {
    .name      = "HashTableV2",
    .signature = "() -> table_handle: resource; container: string = \"\"; shared_name: string = \"\"; "
                 "use_node_name_sharing: bool = false; key_dtype: {string, int64}; value_dtype: {string, int64}",
    .infer     = est_infer_scalar,
    .stateful  = true,
    .source    = EST_SOURCE_TABLE,
};

const est_op est_op_vocabulary = {
    .name      = "EstVocabulary",
    .signature = "() -> table_handle: resource; shared_name: string = \"\"; key_dtype: {string, int64}; "
                 "value_dtype: {int64} = int64; num_oov_buckets: int = 0; default_id: int = -1",
    .infer     = est_infer_scalar,
    .lower     = vocabulary_lower,
    .stateful  = true,
    .source    = EST_SOURCE_TABLE,
};

const est_op est_op_lookup_table_import = {
    .name        = "LookupTableImportV2",
    .signature   = "table_handle: resource, keys: Tin, values: Tout -> (); Tin: {string, int64}; Tout: {string, int64}",
    .infer       = import_infer,
    .cpu         = EST_KERNELS({ .run = import_cpu, .prepare = import_prepare }),
    .heavy       = true, /* alone: two of them may fill one table */
    .stateful    = true,
    .fills_var   = true,
    .takes_table = true,
};

const est_op est_op_initialize_table_from_text_file = {
    .name        = "InitializeTableFromTextFileV2",
    .signature   = "table_handle: resource, filename: string -> (); key_index: int; value_index: int; "
                   "vocab_size: int = -1; delimiter: string = \"\t\"; offset: int = 0",
    .infer       = file_infer,
    .cpu         = EST_KERNELS({ .run = file_cpu, .prepare = file_prepare }),
    .heavy       = true, /* as above */
    .stateful    = true,
    .fills_var   = true,
    .takes_table = true,
};

const est_op est_op_lookup_table_find = {
    .name        = "LookupTableFindV2",
    .signature   = "table_handle: resource, keys: Tin, default_value: Tout -> values: Tout; Tin: {string, int64}; "
                   "Tout: {string, int64}",
    .infer       = find_infer,
    .cpu         = EST_KERNELS({ .run = find_cpu, .prepare = find_prepare }),
    .takes_table = true,
};

const est_op est_op_lookup_table_size = {
    .name        = "LookupTableSizeV2",
    .signature   = "table_handle: resource -> size: int64",
    .infer       = est_infer_scalar,
    .cpu         = EST_KERNELS({ .run = size_cpu }),
    .takes_table = true,
};

const est_op est_op_lookup_or_hash = {
    .name        = "EstLookupOrHash",
    .signature   = "table_handle: resource, keys: Tin -> values: int64; num_oov_buckets: int; Tin: {string, int64}",
    .infer       = find_or_hash_infer,
    .cpu         = EST_KERNELS({ .run = find_or_hash_cpu, .prepare = find_or_hash_prepare }),
    .lower       = find_or_hash_lower,
    .takes_table = true,
};

/* --- builders ----------------------------------------------------------------------------------------------------- */

static est_status check_options(const est_table_options *o, est_dtype key)
{
    if (key != EST_STRING && key != EST_I64) {
        return est_fail(EST_INVALID_ARGUMENT, "a vocabulary is of strings or of int64, not of %s", est_dtype_name(key));
    }
    if (o->size < 0 || o->num_oov_buckets < 0) {
        return est_fail(EST_INVALID_ARGUMENT, "a vocabulary of size %" PRId64 " with %" PRId64 " num_oov_buckets",
                        o->size, o->num_oov_buckets);
    }
    if (o->default_id != 0 && !o->has_default) {
        return est_fail(EST_INVALID_ARGUMENT, "default_id is %" PRId64 " without has_default", o->default_id);
    }
    if (o->has_default && o->num_oov_buckets > 0) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "a vocabulary has a default_id (%" PRId64 ") or num_oov_buckets (%" PRId64 "), not both",
                        o->default_id, o->num_oov_buckets);
    }
    return EST_OK;
}

/* "<name of the handle>/<part>" for what belongs to a table. Names of handles are whole: scopes are in them. */
static est_node named_part(est_node node, est_node handle, const char *part)
{
    est_graph  *graph = node.graph;
    char       *text;
    const char *name;

    if (est_def(node) == NULL || est_def(handle) == NULL) return node;
    text = est_arena_printf(est_graph_arena(graph), "%s/%s", est_node_name(handle), part);
    name = text != NULL ? est_graph_unique_name(graph, text) : NULL;
    if (name == NULL) return est_graph_poison(graph, est_no_memory());
    est_graph_node(graph, node.id)->name = name;
    return node;
}

/* The name is unique only now; the attribute is what the table goes by. */
static est_node share_by_name(est_node handle)
{
    est_node_def *def = est_def(handle) != NULL ? est_graph_node(handle.graph, handle.id) : NULL;

    for (int32_t i = 0; def != NULL && i < def->n_attr; i++) {
        if (strcmp(def->attr[i].name, "shared_name") == 0) def->attr[i].s = def->name;
    }
    return handle;
}

static const char *name_or(const est_table_options *o)
{
    return o->name != NULL ? o->name : "vocabulary";
}

static est_node vocabulary(est_graph *graph, est_dtype key, const est_table_options *o)
{
    est_node handle = est_build0(graph, &est_op_vocabulary,
                                 EST_ATTRS(est_attr_type("key_dtype", key),
                                           est_attr_int("num_oov_buckets", o->num_oov_buckets),
                                           est_attr_int("default_id", o->has_default ? o->default_id : -1)));

    handle = share_by_name(est_named(handle, name_or(o)));
    est_reuse_keep(handle);
    return handle;
}

/* The table of the first build or replica, which fills it; EST_NO_NODE: it is to be made. */
static est_node shared_vocabulary(est_graph *graph, est_dtype key, const est_table_options *o)
{
    est_node            handle = est_reuse_find(graph, &est_op_vocabulary, name_or(o), false);
    const est_node_def *def    = est_def(handle);

    if (def == NULL ||
        (est_node_type(def, "key_dtype") == key && est_node_int(def, "num_oov_buckets") == o->num_oov_buckets &&
         est_node_int(def, "default_id") == (o->has_default ? o->default_id : -1))) {
        return handle;
    }
    return est_graph_poison(graph, est_fail(EST_INVALID_ARGUMENT,
                                            "vocabulary '%s' has other keys or another default in the first build or "
                                            "replica: all of them share it",
                                            def->name));
}

/* Lists the operation that fills a table, for exports. */
static void add_initializer(est_node handle, est_node initializer)
{
    (void)named_part(initializer, handle, "init");
    if (!est_graph_poisoned(handle.graph)) est_graph_collect(handle.graph, EST_TABLE_INITIALIZERS, initializer);
}

static est_node add_text_file(est_node handle, est_node filename, bool lines_are_keys, int64_t size, int64_t offset)
{
    add_initializer(handle, est_build2(&est_op_initialize_table_from_text_file, handle, filename,
                                       EST_ATTRS(est_attr_int("key_index", lines_are_keys ? WHOLE_LINE : LINE_NUMBER),
                                                 est_attr_int("value_index", lines_are_keys ? LINE_NUMBER : WHOLE_LINE),
                                                 est_attr_int("vocab_size", size), est_attr_int("offset", offset))));
    return handle;
}

est_node est_vocabulary_file(est_graph *graph, const char *path, est_dtype key, const est_table_options *options)
{
    est_table_options o;
    est_tensor       *text   = NULL;
    est_status        status = est_options_take(EST_STRUCT_SIZE(est_table_options), options, &o);
    est_node          handle, filename;

    if (est_graph_poisoned(graph)) return est_graph_poison(graph, EST_OK);
    if (status == EST_OK) status = check_options(&o, key);
    if (status == EST_OK && (path == NULL || path[0] == '\0')) {
        status = est_fail(EST_INVALID_ARGUMENT, "a vocabulary file needs a path");
    }
    if (status != EST_OK) return est_graph_poison(graph, status);
    handle = shared_vocabulary(graph, key, &o);
    if (handle.graph != NULL) return handle;
    status = est_tensor_string(path, strlen(path), &text);
    if (status != EST_OK) return est_graph_poison(graph, status);
    handle   = vocabulary(graph, key, &o);
    filename = named_part(est_const(graph, text), handle, "filename");
    est_tensor_free(text);
    if (!est_graph_poisoned(graph)) est_graph_collect(graph, EST_ASSET_FILEPATHS, filename);
    return add_text_file(handle, filename, true, o.size > 0 ? o.size : -1, 0);
}

/* 0, 1, ..., n - 1 */
static est_node count_to(est_graph *graph, int64_t n)
{
    est_tensor *tensor = NULL;
    est_status  status = est_tensor_create(EST_I64, EST_SHAPE(n), &tensor);
    est_node    node;

    if (status != EST_OK) return est_graph_poison(graph, status);
    for (int64_t i = 0; i < n; i++) ((int64_t *)est_tensor_mutable_data(tensor))[i] = i;
    node = est_const(graph, tensor);
    est_tensor_free(tensor);
    return node;
}

est_node est_vocabulary_ids(est_graph *graph, est_tensor *keys, est_tensor *ids, const est_table_options *options)
{
    est_table_options o;
    est_status        status = est_options_take(EST_STRUCT_SIZE(est_table_options), options, &o);
    est_node          handle, list, values;

    if (est_graph_poisoned(graph)) return est_graph_poison(graph, EST_OK);
    if (status == EST_OK && (keys == NULL || est_tensor_shape(keys)->rank != 1 || est_tensor_count(keys) == 0)) {
        status = est_fail(EST_INVALID_ARGUMENT, "a vocabulary list is a vector of at least one key");
    }
    if (status == EST_OK) status = check_options(&o, est_tensor_dtype(keys));
    if (status == EST_OK && o.size != 0 && o.size != est_tensor_count(keys)) {
        status = est_fail(EST_INVALID_ARGUMENT,
                          "a vocabulary list is used whole: it has %" PRId64 " keys, size is %" PRId64,
                          est_tensor_count(keys), o.size);
    }
    if (status != EST_OK) return est_graph_poison(graph, status);
    handle = shared_vocabulary(graph, est_tensor_dtype(keys), &o);
    if (handle.graph != NULL) return handle;
    handle = vocabulary(graph, est_tensor_dtype(keys), &o);
    list   = named_part(est_const(graph, keys), handle, "keys");
    values = ids != NULL ? est_const(graph, ids) : count_to(graph, est_tensor_count(keys));
    add_initializer(handle, est_build3(&est_op_lookup_table_import, handle, list, named_part(values, handle, "values"),
                                       EST_NO_ATTRS));
    return handle;
}

est_node est_vocabulary_list(est_graph *graph, est_tensor *keys, const est_table_options *options)
{
    return est_vocabulary_ids(graph, keys, NULL, options);
}

/* A handle's node, or NULL after the graph was told what was given instead. */
static const est_node_def *handle_of(est_node table)
{
    const est_node_def *def = est_def(table);

    if (def == NULL || def->op->source == EST_SOURCE_TABLE) return def;
    (void)est_graph_poison(table.graph,
                           est_fail(EST_INVALID_ARGUMENT, "'%s' (%s) is no vocabulary", def->name, def->op->name));
    return NULL;
}

est_node est_lookup(est_node table, est_node keys)
{
    const est_node_def *def     = handle_of(table);
    bool                ours    = def != NULL && def->op == &est_op_vocabulary;
    int64_t             buckets = ours ? est_node_int(def, "num_oov_buckets") : 0;
    est_node            unknown;

    if (def != NULL && est_node_type(def, "key_dtype") == EST_STRING && est_node_dtype(keys) == EST_I64) {
        keys = est_as_string(keys);
    }
    if (def == NULL || est_def(keys) == NULL) { /* est_build tells what is missing */
        return est_build2(&est_op_lookup_or_hash, table, keys, EST_ATTRS(est_attr_int("num_oov_buckets", 1)));
    }
    if (est_node_type(def, "key_dtype") != est_node_dtype(keys) || est_node_type(def, "value_dtype") != EST_I64) {
        return est_graph_poison(table.graph,
                                est_fail(EST_INVALID_ARGUMENT, "table '%s' is from %s to %s, the keys '%s' are %s",
                                         def->name, est_dtype_name(est_node_type(def, "key_dtype")),
                                         est_dtype_name(est_node_type(def, "value_dtype")), est_node_name(keys),
                                         est_dtype_name(est_node_dtype(keys))));
    }
    if (buckets > 0) {
        return est_build2(&est_op_lookup_or_hash, table, keys, EST_ATTRS(est_attr_int("num_oov_buckets", buckets)));
    }
    unknown = est_const_i64(table.graph, EST_SHAPE_SCALAR, (int64_t[]){ ours ? est_node_int(def, "default_id") : -1 });
    return est_build3(&est_op_lookup_table_find, table, keys, unknown, EST_NO_ATTRS);
}

/* The operation that fills a table; EST_NO_NODE when it is not known. */
static est_node initializer_of(est_node table)
{
    est_nodes all = est_graph_collection(table.graph, EST_TABLE_INITIALIZERS);

    for (int i = 0; i < all.n; i++) {
        if (est_def(all.data[i])->in[0].node == table.id) return all.data[i];
    }
    return EST_NO_NODE;
}

/* The table from ids to entries, filled from what fills `table`, which a vocabulary of strings is. */
static est_node entries_of(est_node table, const est_node_def *init)
{
    est_graph *graph  = table.graph;
    est_node   source = { graph, init->in[1].node, init->in[1].output };
    est_node   handle;
    char      *name = est_arena_printf(est_graph_arena(graph), "%s/entries", est_node_name(table));

    if (name == NULL) return est_graph_poison(graph, est_no_memory());
    handle = est_reuse_find(graph, &est_op_hash_table, name, true);
    if (handle.graph != NULL) return handle;
    handle = est_build0(graph, &est_op_hash_table,
                        EST_ATTRS(est_attr_type("key_dtype", EST_I64), est_attr_type("value_dtype", EST_STRING)));
    handle = share_by_name(named_part(handle, table, "entries"));
    est_reuse_keep(handle);
    if (init->op == &est_op_initialize_table_from_text_file) {
        return add_text_file(handle, source, false, est_node_int(init, "vocab_size"), est_node_int(init, "offset"));
    }
    add_initializer(handle,
                    est_build3(&est_op_lookup_table_import, handle,
                               (est_node){ graph, init->in[2].node, init->in[2].output }, source, EST_NO_ATTRS));
    return handle;
}

est_node est_lookup_entry(est_node table, est_node ids, const char *unknown)
{
    const est_node_def *def  = handle_of(table);
    est_node            init = def != NULL ? initializer_of(table) : EST_NO_NODE, fallback;
    est_tensor         *text = NULL;
    est_status          status;

    if (def == NULL) return est_build1(&est_op_lookup_table_size, table, EST_NO_ATTRS);
    if (init.graph == NULL || est_node_type(def, "key_dtype") != EST_STRING) {
        return est_graph_poison(table.graph,
                                est_fail(EST_INVALID_ARGUMENT, "'%s' is no vocabulary of strings", def->name));
    }
    unknown = unknown != NULL ? unknown : "UNK";
    status  = est_tensor_string(unknown, strlen(unknown), &text);
    if (status != EST_OK) return est_graph_poison(table.graph, status);
    fallback = est_const(table.graph, text);
    est_tensor_free(text);
    return est_build3(&est_op_lookup_table_find, entries_of(table, est_def(init)), ids, fallback, EST_NO_ATTRS);
}
