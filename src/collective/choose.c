/* SPDX-License-Identifier: Apache-2.0
 *
 * Which algorithm is used when none is asked for. */
#include <string.h>

#include "collective/collective.h"

/* Direct exchange has one round but sends everything n - 1 times; halving has few rounds, the ring keeps all links busy at once. */
static const est_collective_rule rules[] = {
    { .n_max = 2, .bytes_max = 64 << 10, .choice = EST_COMMUNICATION_DIRECT },
    { .n_max = 4, .bytes_max = 32 << 10, .choice = EST_COMMUNICATION_DIRECT },
    { .n_max = 8, .bytes_max = 8 << 10, .choice = EST_COMMUNICATION_DIRECT },
    { .bytes_max = 1 << 10, .choice = EST_COMMUNICATION_DIRECT },
    { .bytes_max = 256 << 10, .choice = EST_COMMUNICATION_HALVING },
    { .choice = EST_COMMUNICATION_RING },
};

#define N_RULES (int)(sizeof rules / sizeof rules[0])

const est_collective_rule *est_collective_rules(int *n)
{
    *n = N_RULES;
    return rules;
}

est_communication est_collective_choose(int n, size_t bytes)
{
    int i = 0;

    while ((rules[i].n_max > 0 && n > rules[i].n_max) || (rules[i].bytes_max > 0 && bytes > rules[i].bytes_max)) i++;
    return rules[i].choice;
}

static const char *const names[] = {
    [EST_COMMUNICATION_AUTO] = "auto",     [EST_COMMUNICATION_RING] = "ring", [EST_COMMUNICATION_HALVING] = "halving",
    [EST_COMMUNICATION_DIRECT] = "direct", [EST_COMMUNICATION_NCCL] = "nccl",
};

#define N_NAMES (int)(sizeof names / sizeof names[0])

const char *est_communication_name(est_communication communication)
{
    return (int)communication >= 0 && (int)communication < N_NAMES ? names[communication] : "unknown";
}

est_status est_communication_find(const char *name, est_communication *out)
{
    for (int i = 0; i < N_NAMES; i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = (est_communication)i;
            return EST_OK;
        }
    }
    return est_fail(EST_INVALID_ARGUMENT,
                    "there is no communication \"%s\"; expected auto, ring, halving, direct or nccl", name);
}
