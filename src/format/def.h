/* SPDX-License-Identifier: Apache-2.0
 *
 * Building blocks of graph messages: pieces in an arena, and AttrValue.
 *
 * A GraphDef, MetaGraphDef or SavedModel in memory lives in one arena of the caller: parsing copies everything there, a
 * builder copies what it is given, and all of it is freed with the arena. Names are C strings, other bytes are est_str.
 *
 * Tensors stay in their encoded form (a TensorProto), so that a graph with elements of types we do not have can still
 * be read, shown and written; est_tensor_proto_parse makes a tensor of one.
 *
 * Threading: one thread at a time an arena. */
#ifndef EST_FORMAT_DEF_H
#define EST_FORMAT_DEF_H

#include "base/alloc.h"
#include "format/wire.h"

#define EST_DEF_DEPTH_MAX 32    /* of functions as attributes of functions */
#define EST_DEF_MAP_MAX   16384 /* keys of one map; more is damage, and would be slow to sort */

/* --- pieces in an arena ------------------------------------------------------------------------------------------- */

/* Copies a text that is a name: an error when it has a 0 byte inside. */
EST_MUST_CHECK est_status est_def_copy_text(est_arena *arena, est_str text, const char **out);
EST_MUST_CHECK est_status est_def_copy_bytes(est_arena *arena, est_str bytes, est_str *out);

/* Adds bytes at the end of an encoded message: how protobuf merges a field that comes twice. The message is empty, or
 * was made here. */
EST_MUST_CHECK est_status est_def_append_bytes(est_arena *arena, est_str bytes, est_str *message);

/* The text or the bytes of a field, copied. */
EST_MUST_CHECK est_status est_def_read_text(est_arena *arena, est_wire_reader *r, const est_wire_field *field,
                                            const char **out);
EST_MUST_CHECK est_status est_def_read_bytes(est_arena *arena, est_wire_reader *r, const est_wire_field *field,
                                             est_str *out);

/* Makes room for one more item behind the n of an array that only ever grew here; `items` is the address of the pointer
 * to it. */
EST_MUST_CHECK est_status est_def_grow(est_arena *arena, void *items, int n, size_t item_size);

/* A list of names. A zeroed struct is an empty one. */
typedef struct est_def_names {
    const char **items;
    int          n;
} est_def_names;

EST_MUST_CHECK est_status est_def_names_add(est_arena *arena, est_def_names *names, const char *name); /* copied */
EST_MUST_CHECK est_status est_def_names_read(est_arena *arena, est_wire_reader *r, const est_wire_field *field,
                                             est_def_names *names);
void                      est_def_names_put(est_wire_writer *w, uint32_t number, const est_def_names *names);

/* A text, left out when it is empty or NULL. */
void est_def_put_text(est_wire_writer *w, uint32_t number, const char *text);

/* The entry of a map: its key, copied, and the bytes of its value, borrowed from the message. */
EST_MUST_CHECK est_status est_def_read_entry(est_arena *arena, est_wire_reader *r, const est_wire_field *field,
                                             const char **key, est_wire_reader *value);

/* Maps are arrays sorted by key. Their items are structs whose first member is the key, a const char *. */

/* Finds the item of `key` (in the arena already) or makes a new one; either way the rest of it is zeroed. `items` is
 * the address of the pointer to the array. */
EST_MUST_CHECK est_status est_def_map_put(est_arena *arena, void *items, int *n, size_t item_size, const char *key,
                                          void **item);

/* The item of `key`; NULL when there is none. */
void *est_def_map_find(const void *items, int n, size_t item_size, const char *key);

/* --- AttrValue ---------------------------------------------------------------------------------------------------- */

typedef enum est_def_kind { /* its field number in AttrValue */
                            EST_DEF_NONE        = 0,
                            EST_DEF_LIST        = 1,
                            EST_DEF_S           = 2, /* bytes */
                            EST_DEF_I           = 3,
                            EST_DEF_F           = 4,
                            EST_DEF_B           = 5,
                            EST_DEF_TYPE        = 6,
                            EST_DEF_SHAPE       = 7,
                            EST_DEF_TENSOR      = 8,
                            EST_DEF_PLACEHOLDER = 9, /* the name of an attribute of the function around it */
                            EST_DEF_FUNC        = 10
} est_def_kind;

typedef struct est_def_func est_def_func;

/* One value. Those of a list all have one kind, which is never LIST or PLACEHOLDER. */
typedef struct est_def_value {
    est_def_kind kind;
    int32_t      n; /* items of a LIST */
    union {
        est_str               s; /* S, PLACEHOLDER; of TENSOR its TensorProto */
        int64_t               i;
        float                 f;
        bool                  b;
        int32_t               type; /* a DataType of TensorFlow, which may be none of est_dtype */
        const est_shape      *shape;
        const est_def_func   *func;
        struct est_def_value *items; /* of a LIST */
    };
} est_def_value;

typedef struct est_def_attr {
    const char   *name;
    est_def_value value;
} est_def_attr;

/* Sorted by name. A zeroed struct is an empty one. */
typedef struct est_def_attrs {
    est_def_attr *items;
    int           n;
} est_def_attrs;

struct est_def_func { /* NameAttrList */
    const char   *name;
    est_def_attrs attrs;
};

/* "int", "list", ...: for errors. */
const char *est_def_kind_name(est_def_kind kind);

/* The value of an attribute; NULL when there is none of that name. */
const est_def_value *est_def_attrs_find(const est_def_attrs *attrs, const char *name);

/* Sets an attribute, new or not; name and value are copied. */
EST_MUST_CHECK est_status est_def_attrs_set(est_arena *arena, est_def_attrs *attrs, const char *name,
                                            const est_def_value *value);

/* Writes the entries of map field `number`. */
void est_def_attrs_put(est_wire_writer *w, uint32_t number, const est_def_attrs *attrs);

/* Reads one entry of such a map; of two with the same key the later one counts. Errors name the attribute. */
EST_MUST_CHECK est_status est_def_attrs_read(est_arena *arena, est_wire_reader *r, const est_wire_field *field,
                                             est_def_attrs *attrs);

#endif
