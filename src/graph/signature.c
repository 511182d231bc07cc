/* SPDX-License-Identifier: Apache-2.0
 *
 * Parser of signature texts: "a: T, b: N*T -> y: T; N: int; T: {float32, float64} = float32".
 *
 * A recursive-descent walk over one short string, done whenever a node is built: a few hundred nanoseconds, and no
 * table of parsed signatures to keep. */
#include "graph/signature.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "format/number.h"

typedef struct parser {
    const est_op *op;
    const char   *at;
} parser;

static void skip_space(parser *p)
{
    while (*p->at == ' ' || *p->at == '\n') p->at++;
}

static bool accept(parser *p, const char *token)
{
    size_t len = strlen(token);

    skip_space(p);
    if (strncmp(p->at, token, len) != 0) return false;
    p->at += len;
    return true;
}

static est_status bad(const parser *p, const char *wanted)
{
    return est_fail(EST_INTERNAL, "signature of op %s: expected %s at \"%.20s\"", p->op->name, wanted, p->at);
}

static est_status word(parser *p, char out[EST_NAME_MAX])
{
    int n = 0;

    skip_space(p);
    while (isalnum((unsigned char)*p->at) || *p->at == '_') {
        if (n == EST_NAME_MAX - 1) return bad(p, "a shorter name");
        out[n++] = *p->at++;
    }
    out[n] = '\0';
    return n > 0 ? EST_OK : bad(p, "a name");
}

est_dtype est_dtype_from_name(const char *name, size_t len)
{
    static const est_dtype all[] = { EST_F32, EST_F64, EST_I32, EST_I64, EST_BOOL, EST_STRING, EST_U8, EST_RESOURCE };

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const char *text = est_dtype_name(all[i]);
        if (strlen(text) == len && memcmp(text, name, len) == 0) return all[i];
    }
    return EST_DTYPE_NONE;
}

/* Attributes are named before they are declared, so arguments keep names until the whole text is read. */
typedef struct arg_names {
    char type[EST_NAME_MAX];
    char number[EST_NAME_MAX];
} arg_names;

static est_status arguments(parser *p, est_arg *args, arg_names *names, int *n)
{
    *n = 0;
    if (accept(p, "()")) return EST_OK;
    do {
        if (*n == EST_ARG_MAX) return bad(p, "fewer arguments");
        EST_TRY(word(p, args[*n].name));
        if (!accept(p, ":")) return bad(p, "':'");
        EST_TRY(word(p, names[*n].type));
        names[*n].number[0] = '\0';
        if (accept(p, "*")) {
            memcpy(names[*n].number, names[*n].type, EST_NAME_MAX);
            EST_TRY(word(p, names[*n].type));
        }
        (*n)++;
    } while (accept(p, ","));
    return EST_OK;
}

static est_status type_set(parser *p, uint32_t *types)
{
    char name[EST_NAME_MAX];

    do {
        est_dtype dtype;
        EST_TRY(word(p, name));
        dtype = est_dtype_from_name(name, strlen(name));
        if (dtype == EST_DTYPE_NONE) return bad(p, "a dtype");
        *types |= 1u << dtype;
    } while (accept(p, ","));
    return accept(p, "}") ? EST_OK : bad(p, "'}'");
}

static est_status kind(parser *p, est_attr_def *a)
{
    static const struct {
        const char   *name;
        est_attr_kind kind;
    } kinds[] = { { "int", EST_ATTR_INT },      { "float", EST_ATTR_FLOAT }, { "bool", EST_ATTR_BOOL },
                  { "type", EST_ATTR_TYPE },    { "shape", EST_ATTR_SHAPE }, { "string", EST_ATTR_STRING },
                  { "ints", EST_ATTR_INTS },    { "types", EST_ATTR_TYPES }, { "shapes", EST_ATTR_SHAPES },
                  { "tensor", EST_ATTR_TENSOR } };
    char name[EST_NAME_MAX];

    if (accept(p, "{")) {
        a->kind = EST_ATTR_TYPE;
        return type_set(p, &a->types);
    }
    EST_TRY(word(p, name));
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(name, kinds[i].name) == 0) {
            a->kind = kinds[i].kind;
            return a->kind == EST_ATTR_TYPES && accept(p, "{") ? type_set(p, &a->types) : EST_OK;
        }
    }
    return bad(p, "a kind of attribute");
}

static est_status int_list(parser *p, est_attr_def *a)
{
    static const int64_t ones[] = { 1, 1, 1, 1 };

    if (accept(p, "[]")) {
        a->fallback.ints = (est_i64s){ ones, 0 };
        return EST_OK;
    }
    if (accept(p, "[1, 1, 1, 1]")) { /* the only other default TensorFlow's ops use: no dilation */
        a->fallback.ints = (est_i64s){ ones, 4 };
        return EST_OK;
    }
    return bad(p, "[] or [1, 1, 1, 1]");
}

static est_status number(parser *p, double *out)
{
    size_t size = strcspn(p->at, " \n;");

    if (est_number_f64(p->at, size, out) != EST_NUMBER_OK) return bad(p, "a default value");
    p->at += size;
    return EST_OK;
}

static est_status fallback(parser *p, est_attr_def *a)
{
    char *end = NULL;

    a->optional      = true;
    a->fallback.kind = a->kind;
    skip_space(p);
    switch (a->kind) {
    case EST_ATTR_BOOL:
        a->fallback.b = accept(p, "true");
        return a->fallback.b || accept(p, "false") ? EST_OK : bad(p, "true or false");
    case EST_ATTR_TYPE:
        EST_TRY(word(p, a->text));
        a->fallback.type = est_dtype_from_name(a->text, strlen(a->text));
        return a->fallback.type != EST_DTYPE_NONE ? EST_OK : bad(p, "a dtype");
    case EST_ATTR_INT: a->fallback.i = strtoll(p->at, &end, 10); break;
    case EST_ATTR_FLOAT: return number(p, &a->fallback.f);
    case EST_ATTR_INTS: return int_list(p, a);
    case EST_ATTR_SHAPE: a->fallback.shape = EST_SHAPE_UNKNOWN; return accept(p, "?") ? EST_OK : bad(p, "'?'");
    case EST_ATTR_STRING: {
        int n = 0;
        if (!accept(p, "\"")) return bad(p, "'\"'");
        while (*p->at != '"' && *p->at != '\0' && n < EST_NAME_MAX - 1) a->text[n++] = *p->at++;
        a->text[n]    = '\0';
        a->fallback.s = a->text;
        return accept(p, "\"") ? EST_OK : bad(p, "'\"'");
    }
    case EST_ATTR_TYPES:
    case EST_ATTR_SHAPES:
    case EST_ATTR_TENSOR: break;
    }
    if (end == NULL || end == p->at) return bad(p, "a default value");
    p->at = end;
    return EST_OK;
}

static int find_attr(const est_signature *sig, const char *name)
{
    for (int i = 0; i < sig->n_attr; i++) {
        if (strcmp(sig->attr[i].name, name) == 0) return i;
    }
    return -1;
}

static bool is_kind(const est_signature *sig, int attr, est_attr_kind kind_of_attr)
{
    return attr >= 0 && sig->attr[attr].kind == kind_of_attr;
}

static est_status resolve(const parser *p, const est_signature *sig, est_arg *args, const arg_names *names, int n)
{
    for (int i = 0; i < n; i++) {
        args[i].dtype       = est_dtype_from_name(names[i].type, strlen(names[i].type));
        args[i].type_attr   = args[i].dtype == EST_DTYPE_NONE ? find_attr(sig, names[i].type) : -1;
        args[i].number_attr = names[i].number[0] != '\0' ? find_attr(sig, names[i].number) : -1;
        if (args[i].dtype == EST_DTYPE_NONE && !is_kind(sig, args[i].type_attr, EST_ATTR_TYPE) &&
            (names[i].number[0] != '\0' || !is_kind(sig, args[i].type_attr, EST_ATTR_TYPES))) {
            return bad(p, names[i].type);
        }
        if (names[i].number[0] != '\0' && !is_kind(sig, args[i].number_attr, EST_ATTR_INT))
            return bad(p, names[i].number);
    }
    return EST_OK;
}

est_status est_signature_parse(const est_op *op, est_signature *out)
{
    parser    p = { op, op->signature };
    arg_names in[EST_ARG_MAX], results[EST_ARG_MAX];

    memset(out, 0, sizeof *out);
    EST_TRY(arguments(&p, out->in, in, &out->n_in));
    if (!accept(&p, "->")) return bad(&p, "'->'");
    EST_TRY(arguments(&p, out->out, results, &out->n_out));
    while (accept(&p, ";")) {
        est_attr_def *a = &out->attr[out->n_attr];
        if (out->n_attr == EST_ATTR_MAX) return bad(&p, "fewer attributes");
        EST_TRY(word(&p, a->name));
        if (!accept(&p, ":")) return bad(&p, "':'");
        EST_TRY(kind(&p, a));
        if (accept(&p, "=")) EST_TRY(fallback(&p, a));
        a->fallback.name = a->name;
        out->n_attr++;
    }
    skip_space(&p);
    if (*p.at != '\0') return bad(&p, "';' or the end");
    EST_TRY(resolve(&p, out, out->in, in, out->n_in));
    return resolve(&p, out, out->out, results, out->n_out);
}
