/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions as messages.
 *
 *   FunctionDef  1 signature: OpDef | 3 node_def | 4 ret map | 6 control_ret map
 *   OpDef        1 name | 2 input_arg: ArgDef | 3 output_arg: ArgDef
 *   ArgDef       1 name | 5 number_attr | 6 type_list_attr */
#include "format/function_def.h"

#include <string.h>

typedef struct entry {
    est_function_view view;
    est_function_def *def; /* NULL: not parsed yet */
} entry;

typedef struct pair { /* of a map from names to names */
    const char *key;
    const char *value;
} pair;

typedef struct pairs {
    pair *items;
    int   n;
} pairs;

/* --- the library -------------------------------------------------------------------------------------------------- */

est_status est_function_library_init(est_function_library *library, est_str message, est_arena *arena)
{
    est_function_cursor cursor;
    bool                found = true;

    *library = (est_function_library){ .arena = arena };
    est_function_cursor_init(&cursor, message);
    while (found) {
        entry *e = est_arena_alloc(arena, sizeof *e);

        if (e == NULL) return est_no_memory();
        EST_TRY(est_function_cursor_next(&cursor, &found, &e->view));
        if (!found) break;
        if (est_map_get_bytes(&library->functions, e->view.name.data, e->view.name.size) != NULL) {
            return est_fail(EST_DATA_LOSS, "two functions are called '%.*s'", (int)e->view.name.size,
                            e->view.name.data);
        }
        EST_TRY(est_map_put_bytes(&library->functions, e->view.name.data, e->view.name.size, e));
    }
    return EST_OK;
}

void est_function_library_clear(est_function_library *library)
{
    est_map_clear(&library->functions);
    *library = (est_function_library){ 0 };
}

bool est_function_library_has(const est_function_library *library, const char *name)
{
    return est_map_get(&library->functions, name) != NULL;
}

/* --- parsing ------------------------------------------------------------------------------------------------------ */

static est_status parse_arg(est_wire_reader *r, const est_wire_field *field, est_arena *arena, est_def_names *names)
{
    const char     *name = "", *number = "", *types = "";
    est_wire_reader inner;
    est_wire_field  part;

    est_wire_message(r, field, "ArgDef", &inner);
    EST_TRY(est_wire_finish(r));
    while (est_wire_next(&inner, &part)) {
        if (part.number == 1) EST_TRY(est_def_read_text(arena, &inner, &part, &name));
        if (part.number == 5) EST_TRY(est_def_read_text(arena, &inner, &part, &number));
        if (part.number == 6) EST_TRY(est_def_read_text(arena, &inner, &part, &types));
    }
    EST_TRY(est_wire_finish(&inner));
    if (number[0] != '\0' || types[0] != '\0') {
        return est_fail(EST_UNIMPLEMENTED, "argument '%s' is a list of tensors", name);
    }
    return est_def_names_add(arena, names, name);
}

static est_status parse_signature(est_wire_reader *r, const est_wire_field *field, est_arena *arena,
                                  est_function_def *def)
{
    est_wire_reader inner;
    est_wire_field  part;

    est_wire_message(r, field, "OpDef", &inner);
    EST_TRY(est_wire_finish(r));
    while (est_wire_next(&inner, &part)) {
        if (part.number == 2) EST_TRY(parse_arg(&inner, &part, arena, &def->inputs));
        if (part.number == 3) EST_TRY(parse_arg(&inner, &part, arena, &def->outputs));
    }
    return est_wire_finish(&inner);
}

/* An entry of a map<string, string>: 1 key | 2 value */
static est_status parse_pair(est_wire_reader *r, const est_wire_field *field, est_arena *arena, pairs *out)
{
    const char     *key = "", *value = "";
    est_wire_reader inner;
    est_wire_field  part;
    void           *item;

    est_wire_message(r, field, "result", &inner);
    EST_TRY(est_wire_finish(r));
    while (est_wire_next(&inner, &part)) {
        if (part.number == 1) EST_TRY(est_def_read_text(arena, &inner, &part, &key));
        if (part.number == 2) EST_TRY(est_def_read_text(arena, &inner, &part, &value));
    }
    EST_TRY(est_wire_finish(&inner));
    EST_TRY(est_def_map_put(arena, &out->items, &out->n, sizeof *out->items, key, &item));
    ((pair *)item)->value = value;
    return EST_OK;
}

static est_status take_results(est_arena *arena, const pairs *returns, const pairs *controls, est_function_def *def)
{
    for (int i = 0; i < def->outputs.n; i++) {
        const pair *p = est_def_map_find(returns->items, returns->n, sizeof *p, def->outputs.items[i]);

        if (p == NULL) return est_fail(EST_DATA_LOSS, "result '%s' has no value", def->outputs.items[i]);
        EST_TRY(est_def_names_add(arena, &def->returns, p->value));
    }
    for (int i = 0; i < controls->n; i++) EST_TRY(est_def_names_add(arena, &def->controls, controls->items[i].value));
    return EST_OK;
}

static est_status parse(const est_function_view *view, est_arena *arena, est_function_def *def)
{
    pairs           returns = { 0 }, controls = { 0 };
    est_wire_reader r;
    est_wire_field  field;

    EST_TRY(est_def_copy_text(arena, view->name, &def->name));
    est_wire_reader_init(&r, "FunctionDef", view->message.data, view->message.size);
    while (est_wire_next(&r, &field)) {
        if (field.number == 1) EST_TRY(parse_signature(&r, &field, arena, def));
        if (field.number == 4) EST_TRY(parse_pair(&r, &field, arena, &returns));
        if (field.number == 6) EST_TRY(parse_pair(&r, &field, arena, &controls));
    }
    EST_TRY(est_wire_finish(&r));
    return take_results(arena, &returns, &controls, def);
}

est_status est_function_library_get(est_function_library *library, const char *name, const est_function_def **out)
{
    entry            *e = est_map_get(&library->functions, name);
    est_function_def *def;
    est_status        status;

    if (e == NULL) return est_fail(EST_NOT_FOUND, "the graph has no function '%s'", name);
    if (e->def == NULL) {
        def = est_arena_alloc(library->arena, sizeof *def);
        if (def == NULL) return est_no_memory();
        status = parse(&e->view, library->arena, def);
        if (status != EST_OK) return est_fail_context(status, "function '%s'", name);
        EST_TRY(est_function_parse_nodes(&e->view, library->arena, &def->graph));
        e->def = def;
    }
    *out = e->def;
    return EST_OK;
}
