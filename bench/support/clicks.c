/* SPDX-License-Identifier: Apache-2.0 */
#include "support/clicks.h"

#include <stdbool.h>
#include <stdio.h>

const char *clicks_name(int k)
{
    static const char *const names[CLICKS_N_ALL] = {
        "label", "I1",  "I2",  "I3",  "I4",  "I5",  "I6",  "I7",  "I8",  "I9",  "I10", "I11", "I12", "I13",
        "C1",    "C2",  "C3",  "C4",  "C5",  "C6",  "C7",  "C8",  "C9",  "C10", "C11", "C12", "C13", "C14",
        "C15",   "C16", "C17", "C18", "C19", "C20", "C21", "C22", "C23", "C24", "C25", "C26",
    };

    return names[k];
}

uint32_t clicks_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

void clicks_next(uint64_t *state, clicks_row *row)
{
    for (int k = 0; k < CLICKS_N_ALL; k++) {
        uint32_t r     = clicks_random(state);
        bool     empty = k > 0 && clicks_random(state) % 10 == 0;
        char    *text  = row->text[k];

        text[0] = '\0';
        if (k == 0) {
            (void)snprintf(text, CLICKS_TEXT, "%u", (unsigned)(r & 1));
        } else if (!empty && k <= CLICKS_N_NUM && k % 2 == 0) {
            (void)snprintf(text, CLICKS_TEXT, "%d", (int)(r % (k % 4 == 0 ? 100 : 30000)) - 2);
        } else if (!empty && k <= CLICKS_N_NUM) {
            (void)snprintf(text, CLICKS_TEXT, "%.*f", k % 5, (double)r / 1e6);
        } else if (!empty) {
            (void)snprintf(text, CLICKS_TEXT, "%08x", (unsigned)r);
        }
    }
}
