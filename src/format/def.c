/* SPDX-License-Identifier: Apache-2.0
 *
 * Pieces of graph messages.
 *
 *   AttrValue     one of 1 list | 2 s | 3 i | 4 f | 5 b | 6 type | 7 shape | 8 tensor | 9 placeholder | 10 func
 *   ListValue     2 s | 3 i | 4 f | 5 b | 6 type | 7 shape | 8 tensor | 9 func
 *   NameAttrList  1 name | 2 attr map
 *
 * A member of AttrValue is written even when it is 0 or empty: TensorFlow asks which member is there. */
#include "format/def.h"

#include <inttypes.h>
#include <string.h>

#include "format/tensor_proto.h"

#define LIST_FUNC 9 /* the field of functions in a ListValue; the others have the numbers of AttrValue */

/* --- pieces in an arena ------------------------------------------------------------------------------------------- */

est_status est_def_copy_bytes(est_arena *arena, est_str bytes, est_str *out)
{
    char *copy = est_arena_alloc(arena, bytes.size + 1);

    if (copy == NULL) return est_no_memory();
    if (bytes.size > 0) memcpy(copy, bytes.data, bytes.size);
    *out = (est_str){ copy, bytes.size };
    return EST_OK;
}

est_status est_def_copy_text(est_arena *arena, est_str text, const char **out)
{
    est_str copy;

    if (text.size > 0 && memchr(text.data, 0, text.size) != NULL) {
        return est_fail(EST_DATA_LOSS, "a name with a 0 byte inside, after '%s'", text.data);
    }
    EST_TRY(est_def_copy_bytes(arena, text, &copy));
    *out = copy.data;
    return EST_OK;
}

/* A power of two, so that it need not be kept, and a message of many pieces costs no more than a few times its size. */
static size_t room_for(size_t n)
{
    size_t room = 16;

    while (room < n) room *= 2;
    return room;
}

est_status est_def_append_bytes(est_arena *arena, est_str bytes, est_str *message)
{
    size_t size = message->size + bytes.size;
    char  *joined;

    if (bytes.size == 0) return EST_OK;
    memcpy(&joined, &message->data, sizeof joined); /* it is of the arena */
    if (message->size == 0 || room_for(size) > room_for(message->size)) {
        joined = est_arena_alloc(arena, room_for(size));
        if (joined == NULL) return est_no_memory();
        if (message->size > 0) memcpy(joined, message->data, message->size);
    }
    memcpy(joined + message->size, bytes.data, bytes.size);
    *message = (est_str){ joined, size };
    return EST_OK;
}

est_status est_def_read_text(est_arena *arena, est_wire_reader *r, const est_wire_field *field, const char **out)
{
    est_str text = est_wire_bytes(r, field);

    EST_TRY(est_wire_finish(r));
    return est_def_copy_text(arena, text, out);
}

est_status est_def_read_bytes(est_arena *arena, est_wire_reader *r, const est_wire_field *field, est_str *out)
{
    est_str bytes = est_wire_bytes(r, field);

    EST_TRY(est_wire_finish(r));
    return est_def_copy_bytes(arena, bytes, out);
}

/* The capacity is the smallest power of two that holds n, so it need not be kept. */
est_status est_def_grow(est_arena *arena, void *items, int n, size_t item_size)
{
    void  *old, *grown;
    size_t capacity;

    if (n > 0 && (n & (n - 1)) != 0) return EST_OK;
    memcpy(&old, items, sizeof old);
    capacity = n == 0 ? 1 : 2 * (size_t)n;
    grown    = n < INT32_MAX / 2 ? est_arena_alloc(arena, capacity * item_size) : NULL;
    if (grown == NULL) return est_no_memory();
    if (n > 0) memcpy(grown, old, (size_t)n * item_size);
    memcpy(items, &grown, sizeof grown);
    return EST_OK;
}

static est_status names_push(est_arena *arena, est_def_names *names, est_str name)
{
    EST_TRY(est_def_grow(arena, &names->items, names->n, sizeof *names->items));
    EST_TRY(est_def_copy_text(arena, name, &names->items[names->n]));
    names->n++;
    return EST_OK;
}

est_status est_def_names_add(est_arena *arena, est_def_names *names, const char *name)
{
    return names_push(arena, names, (est_str){ name, strlen(name) });
}

est_status est_def_names_read(est_arena *arena, est_wire_reader *r, const est_wire_field *field, est_def_names *names)
{
    est_str name = est_wire_bytes(r, field);

    EST_TRY(est_wire_finish(r));
    return names_push(arena, names, name);
}

void est_def_names_put(est_wire_writer *w, uint32_t number, const est_def_names *names)
{
    for (int i = 0; i < names->n; i++) est_wire_put_string(w, number, names->items[i]);
}

void est_def_put_text(est_wire_writer *w, uint32_t number, const char *text)
{
    if (text != NULL && text[0] != '\0') est_wire_put_string(w, number, text);
}

est_status est_def_read_entry(est_arena *arena, est_wire_reader *r, const est_wire_field *field, const char **key,
                              est_wire_reader *value)
{
    est_wire_reader entry;
    est_wire_field  part;
    est_str         text = { "", 0 };

    est_wire_message(r, field, "map entry", &entry);
    EST_TRY(est_wire_finish(r));
    *value    = entry; /* an empty message when the value is missing */
    value->at = value->end;
    while (est_wire_next(&entry, &part)) {
        if (part.number == 1) text = est_wire_bytes(&entry, &part);
        if (part.number == 2) est_wire_message(&entry, &part, "map value", value);
    }
    EST_TRY(est_wire_finish(&entry));
    return est_def_copy_text(arena, text, key);
}

static const char *key_of(const void *item)
{
    const char *key;

    memcpy(&key, item, sizeof key);
    return key;
}

/* Where `key` is or would go. */
static int map_position(const char *items, int n, size_t item_size, const char *key, bool *found)
{
    int low = 0, high = n;

    *found = false;
    while (low < high) {
        int middle = low + (high - low) / 2, order = strcmp(key_of(items + (size_t)middle * item_size), key);

        if (order == 0) {
            *found = true;
            return middle;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void *est_def_map_find(const void *items, int n, size_t item_size, const char *key)
{
    bool  found;
    int   at = map_position(items, n, item_size, key, &found);
    void *array;

    if (!found) return NULL;
    memcpy(&array, &items, sizeof array);
    return (char *)array + (size_t)at * item_size;
}

est_status est_def_map_put(est_arena *arena, void *items, int *n, size_t item_size, const char *key, void **item)
{
    char *array;
    bool  found;
    int   at;

    memcpy(&array, items, sizeof array);
    at = map_position(array, *n, item_size, key, &found);
    if (!found) {
        if (*n == EST_DEF_MAP_MAX) return est_fail(EST_DATA_LOSS, "a map of more than %d keys", EST_DEF_MAP_MAX);
        EST_TRY(est_def_grow(arena, items, *n, item_size));
        memcpy(&array, items, sizeof array);
        memmove(array + (size_t)(at + 1) * item_size, array + (size_t)at * item_size, (size_t)(*n - at) * item_size);
        ++*n;
    }
    *item = array + (size_t)at * item_size;
    memset(*item, 0, item_size);
    memcpy(*item, &key, sizeof key);
    return EST_OK;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

/* A varint without a tag, for packed lists. */
static void put_varint(est_wire_writer *w, uint64_t value)
{
    uint8_t bytes[EST_WIRE_VARINT_MAX];

    est_wire_put_raw(w, bytes, (size_t)(est_wire_store_varint(bytes, value) - bytes));
}

static void put_func(est_wire_writer *w, uint32_t number, const est_def_func *func)
{
    size_t mark = est_wire_begin(w, number);

    est_def_put_text(w, 1, func->name);
    est_def_attrs_put(w, 2, &func->attrs);
    est_wire_end(w, mark);
}

/* A value that is a field of its own, in AttrValue or in a list that is not packed. */
static void put_single(est_wire_writer *w, uint32_t number, const est_def_value *value)
{
    size_t mark;

    switch (value->kind) {
    case EST_DEF_S:
    case EST_DEF_TENSOR:
    case EST_DEF_PLACEHOLDER: est_wire_put_bytes(w, number, value->s.data, value->s.size); break;
    case EST_DEF_I: est_wire_put_i64(w, number, value->i); break;
    case EST_DEF_F: est_wire_put_f32(w, number, value->f); break;
    case EST_DEF_B: est_wire_put_bool(w, number, value->b); break;
    case EST_DEF_TYPE: est_wire_put_i64(w, number, value->type); break;
    case EST_DEF_SHAPE:
        mark = est_wire_begin(w, number);
        est_shape_proto_put(w, value->shape);
        est_wire_end(w, mark);
        break;
    case EST_DEF_FUNC: put_func(w, number, value->func); break;
    case EST_DEF_NONE:
    case EST_DEF_LIST: break;
    }
}

static bool is_packed(est_def_kind kind)
{
    return kind == EST_DEF_I || kind == EST_DEF_F || kind == EST_DEF_B || kind == EST_DEF_TYPE;
}

static void put_packed(est_wire_writer *w, const est_def_value *list)
{
    size_t  mark = est_wire_begin(w, (uint32_t)list->items[0].kind);
    uint8_t bytes[4];

    for (int i = 0; i < list->n; i++) {
        const est_def_value *item = &list->items[i];

        switch (item->kind) {
        case EST_DEF_I: put_varint(w, (uint64_t)item->i); break;
        case EST_DEF_B: put_varint(w, item->b); break;
        case EST_DEF_TYPE: put_varint(w, (uint64_t)(int64_t)item->type); break;
        default: { /* EST_DEF_F */
            uint32_t bits;

            memcpy(&bits, &item->f, sizeof bits);
            est_wire_store32(bytes, bits);
            est_wire_put_raw(w, bytes, sizeof bytes);
        }
        }
    }
    est_wire_end(w, mark);
}

static void put_value(est_wire_writer *w, const est_def_value *value)
{
    size_t mark;

    if (value->kind != EST_DEF_LIST) {
        put_single(w, (uint32_t)value->kind, value);
        return;
    }
    mark = est_wire_begin(w, EST_DEF_LIST);
    if (value->n > 0 && is_packed(value->items[0].kind)) {
        put_packed(w, value);
    } else {
        for (int i = 0; i < value->n; i++) {
            est_def_kind kind = value->items[i].kind;

            put_single(w, kind == EST_DEF_FUNC ? LIST_FUNC : (uint32_t)kind, &value->items[i]);
        }
    }
    est_wire_end(w, mark);
}

void est_def_attrs_put(est_wire_writer *w, uint32_t number, const est_def_attrs *attrs)
{
    for (int i = 0; i < attrs->n; i++) {
        size_t entry = est_wire_begin(w, number), value;

        est_wire_put_string(w, 1, attrs->items[i].name);
        value = est_wire_begin(w, 2);
        put_value(w, &attrs->items[i].value);
        est_wire_end(w, value);
        est_wire_end(w, entry);
    }
}

/* --- attributes --------------------------------------------------------------------------------------------------- */

const char *est_def_kind_name(est_def_kind kind)
{
    switch (kind) {
    case EST_DEF_NONE: return "nothing";
    case EST_DEF_LIST: return "list";
    case EST_DEF_S: return "string";
    case EST_DEF_I: return "int";
    case EST_DEF_F: return "float";
    case EST_DEF_B: return "bool";
    case EST_DEF_TYPE: return "type";
    case EST_DEF_SHAPE: return "shape";
    case EST_DEF_TENSOR: return "tensor";
    case EST_DEF_PLACEHOLDER: return "placeholder";
    case EST_DEF_FUNC: return "func";
    }
    return "unknown";
}

const est_def_value *est_def_attrs_find(const est_def_attrs *attrs, const char *name)
{
    const est_def_attr *attr = est_def_map_find(attrs->items, attrs->n, sizeof *attr, name);

    return attr != NULL ? &attr->value : NULL;
}

/* Takes a name and a value that are in the arena already. */
static est_status attrs_insert(est_arena *arena, est_def_attrs *attrs, const char *name, const est_def_value *value)
{
    void *item;

    EST_TRY(est_def_map_put(arena, &attrs->items, &attrs->n, sizeof *attrs->items, name, &item));
    ((est_def_attr *)item)->value = *value;
    return EST_OK;
}

static est_status copy_value(est_arena *arena, const est_def_value *from, est_def_value *to);

static est_status copy_func(est_arena *arena, const est_def_func *from, const est_def_func **out)
{
    est_def_func *func = est_arena_alloc(arena, sizeof *func);

    if (func == NULL) return est_no_memory();
    EST_TRY(est_def_copy_text(arena, (est_str){ from->name, strlen(from->name) }, &func->name));
    for (int i = 0; i < from->attrs.n; i++) {
        EST_TRY(est_def_attrs_set(arena, &func->attrs, from->attrs.items[i].name, &from->attrs.items[i].value));
    }
    *out = func;
    return EST_OK;
}

static est_status copy_shape(est_arena *arena, const est_shape *from, const est_shape **out)
{
    est_shape *shape = est_arena_alloc(arena, sizeof *shape);

    if (shape == NULL) return est_no_memory();
    *shape = *from;
    *out   = shape;
    return EST_OK;
}

static est_status copy_value(est_arena *arena, const est_def_value *from, est_def_value *to)
{
    *to = *from;
    switch (from->kind) {
    case EST_DEF_S:
    case EST_DEF_TENSOR:
    case EST_DEF_PLACEHOLDER: return est_def_copy_bytes(arena, from->s, &to->s);
    case EST_DEF_SHAPE: return copy_shape(arena, from->shape, &to->shape);
    case EST_DEF_FUNC: return copy_func(arena, from->func, &to->func);
    case EST_DEF_LIST:
        to->items = est_arena_alloc(arena, (size_t)from->n * sizeof *to->items);
        if (to->items == NULL) return est_no_memory();
        for (int i = 0; i < from->n; i++) EST_TRY(copy_value(arena, &from->items[i], &to->items[i]));
        return EST_OK;
    default: return EST_OK;
    }
}

est_status est_def_attrs_set(est_arena *arena, est_def_attrs *attrs, const char *name, const est_def_value *value)
{
    est_def_value copy;
    const char   *name_copy;

    EST_TRY(copy_value(arena, value, &copy));
    EST_TRY(est_def_copy_text(arena, (est_str){ name, strlen(name) }, &name_copy));
    return attrs_insert(arena, attrs, name_copy, &copy);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static est_status read_attr(est_arena *arena, est_wire_reader *r, const est_wire_field *field, est_def_attrs *attrs,
                            int depth);

static est_status read_func(est_arena *arena, est_wire_reader *r, const est_wire_field *field, int depth,
                            const est_def_func **out)
{
    est_def_func   *func = est_arena_alloc(arena, sizeof *func);
    est_wire_reader inner;
    est_wire_field  part;

    if (func == NULL) return est_no_memory();
    func->name = "";
    if (depth == EST_DEF_DEPTH_MAX) return est_wire_fail(r, field->start, "functions more than %d deep", depth);
    est_wire_message(r, field, "NameAttrList", &inner);
    EST_TRY(est_wire_finish(r));
    while (est_wire_next(&inner, &part)) {
        if (part.number == 1) EST_TRY(est_def_read_text(arena, &inner, &part, &func->name));
        if (part.number == 2) EST_TRY(read_attr(arena, &inner, &part, &func->attrs, depth + 1));
    }
    EST_TRY(est_wire_finish(&inner));
    *out = func;
    return EST_OK;
}

/* A value that is a field of its own. */
static est_status read_single(est_arena *arena, est_wire_reader *r, const est_wire_field *field, int depth,
                              est_def_value *value)
{
    est_wire_reader inner;
    est_shape       shape;

    switch (value->kind) {
    case EST_DEF_S:
    case EST_DEF_TENSOR:
    case EST_DEF_PLACEHOLDER: return est_def_read_bytes(arena, r, field, &value->s);
    case EST_DEF_I: value->i = est_wire_i64(r, field); break;
    case EST_DEF_F: value->f = est_wire_f32(r, field); break;
    case EST_DEF_B: value->b = est_wire_bool(r, field); break;
    case EST_DEF_TYPE: value->type = est_wire_i32(r, field); break;
    case EST_DEF_SHAPE:
        est_wire_message(r, field, "TensorShapeProto", &inner);
        EST_TRY(est_wire_finish(r));
        EST_TRY(est_shape_proto_parse(&inner, &shape));
        return copy_shape(arena, &shape, &value->shape);
    case EST_DEF_FUNC: return read_func(arena, r, field, depth, &value->func);
    case EST_DEF_NONE:
    case EST_DEF_LIST: break;
    }
    return est_wire_finish(r);
}

static est_status list_push(est_arena *arena, est_def_value *list, const est_def_value *item)
{
    EST_TRY(est_def_grow(arena, &list->items, list->n, sizeof *list->items));
    list->items[list->n++] = *item;
    return EST_OK;
}

static est_status read_packed(est_arena *arena, est_wire_reader *r, const est_wire_field *field, est_def_kind kind,
                              est_def_value *list)
{
    est_wire_list numbers;
    uint64_t      bits;

    est_wire_list_init(r, field, kind == EST_DEF_F ? EST_WIRE_FIXED32 : EST_WIRE_VARINT, &numbers);
    while (est_wire_list_next(&numbers, &bits)) {
        est_def_value item = { .kind = kind };

        switch (kind) {
        case EST_DEF_I: item.i = (int64_t)bits; break;
        case EST_DEF_B: item.b = bits != 0; break;
        case EST_DEF_TYPE: item.type = (int32_t)(uint32_t)bits; break;
        default: item.f = est_wire_bits_f32(bits); break;
        }
        EST_TRY(list_push(arena, list, &item));
    }
    return est_wire_finish(r);
}

static est_status read_list(est_arena *arena, est_wire_reader *r, int depth, est_def_value *list)
{
    est_wire_field field;

    while (est_wire_next(r, &field)) {
        est_def_value item = { .kind = field.number == LIST_FUNC ? EST_DEF_FUNC : (est_def_kind)field.number };

        if (field.number < EST_DEF_S || field.number > LIST_FUNC) continue;
        if (list->n > 0 && list->items[0].kind != item.kind) {
            return est_wire_fail(r, field.start, "a list with a %s after a %s", est_def_kind_name(item.kind),
                                 est_def_kind_name(list->items[0].kind));
        }
        if (is_packed(item.kind)) {
            EST_TRY(read_packed(arena, r, &field, item.kind, list));
        } else {
            EST_TRY(read_single(arena, r, &field, depth, &item));
            EST_TRY(list_push(arena, list, &item));
        }
    }
    return est_wire_finish(r);
}

static est_status read_value(est_arena *arena, est_wire_reader *r, int depth, est_def_value *out)
{
    est_wire_reader inner;
    est_wire_field  field;

    *out = (est_def_value){ .kind = EST_DEF_NONE };
    while (est_wire_next(r, &field)) {
        if (field.number < EST_DEF_LIST || field.number > EST_DEF_FUNC) continue;
        *out = (est_def_value){ .kind = (est_def_kind)field.number }; /* of a oneof the last member counts */
        if (out->kind == EST_DEF_LIST) {
            est_wire_message(r, &field, "AttrValue.ListValue", &inner);
            EST_TRY(est_wire_finish(r));
            EST_TRY(read_list(arena, &inner, depth, out));
        } else {
            EST_TRY(read_single(arena, r, &field, depth, out));
        }
    }
    return est_wire_finish(r);
}

static est_status read_attr(est_arena *arena, est_wire_reader *r, const est_wire_field *field, est_def_attrs *attrs,
                            int depth)
{
    est_wire_reader inner;
    est_def_value   value;
    const char     *name;
    est_status      status;

    EST_TRY(est_def_read_entry(arena, r, field, &name, &inner));
    inner.message = "AttrValue";
    status        = read_value(arena, &inner, depth, &value);
    if (status != EST_OK) return est_fail_context(status, "attribute '%s'", name);
    return attrs_insert(arena, attrs, name, &value);
}

est_status est_def_attrs_read(est_arena *arena, est_wire_reader *r, const est_wire_field *field, est_def_attrs *attrs)
{
    return read_attr(arena, r, field, attrs, 0);
}
