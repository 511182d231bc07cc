/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the parser of the state file of checkpoints. What was read and is printed must read again as the same. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "format/checkpoint_state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void print_and_read(const est_checkpoint_state *state)
{
    est_strbuf           text = { 0 }, again = { 0 };
    est_checkpoint_state copy = { 0 };

    est_checkpoint_state_print(state, &text);
    if (est_checkpoint_state_parse(&copy, "again", (est_str){ est_strbuf_text(&text), text.size }) != EST_OK) abort();
    est_checkpoint_state_print(&copy, &again);
    if (strcmp(est_strbuf_text(&text), est_strbuf_text(&again)) != 0) abort();
    est_checkpoint_state_clear(&copy);
    est_strbuf_clear(&text);
    est_strbuf_clear(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    est_checkpoint_state state = { 0 };

    if (est_checkpoint_state_parse(&state, "fuzz", (est_str){ (const char *)data, size }) == EST_OK) {
        print_and_read(&state);
    }
    est_checkpoint_state_clear(&state);
    return 0;
}
