/* SPDX-License-Identifier: Apache-2.0
 *
 * The choice of an algorithm when none is requested. */
#include <string.h>

#include "collective/algorithm.h"

/* Direct exchange has one round but sends everything n - 1 times; halving has few rounds; the ring uses all links at
 * once; the hierarchical one saves the network between hosts; shared memory needs no network. */
static const est_collective_rule rules[] = {
    { .topology = EST_TOPOLOGY_ONE_HOST, .choice = EST_COMMUNICATION_SHARED },
    { .n_max = 2, .bytes_max = 64 << 10, .choice = EST_COMMUNICATION_DIRECT },
    { .n_max = 4, .bytes_max = 32 << 10, .choice = EST_COMMUNICATION_DIRECT },
    { .n_max = 8, .bytes_max = 8 << 10, .choice = EST_COMMUNICATION_DIRECT },
    { .bytes_max = 1 << 10, .choice = EST_COMMUNICATION_DIRECT },
    { .topology = EST_TOPOLOGY_MIXED, .choice = EST_COMMUNICATION_HIERARCHICAL },
    { .bytes_max = 256 << 10, .choice = EST_COMMUNICATION_HALVING },
    { .choice = EST_COMMUNICATION_RING },
};

#define N_RULES (int)(sizeof rules / sizeof rules[0])

const est_collective_rule *est_collective_rules(int *n)
{
    *n = N_RULES;
    return rules;
}

static bool fits(const est_collective_rule *rule, int n, size_t bytes, est_topology topology)
{
    return (rule->n_max == 0 || n <= rule->n_max) && (rule->bytes_max == 0 || bytes <= rule->bytes_max) &&
           (rule->topology == EST_TOPOLOGY_ANY || topology == rule->topology);
}

est_communication est_collective_choose(int n, size_t bytes, est_topology topology)
{
    int i = 0;

    while (!fits(&rules[i], n, bytes, topology)) i++; /* the last fits all */
    return rules[i].choice;
}

static const struct {
    const char          *name, *text;
    const est_algorithm *algorithm;
} table[] = {
    [EST_COMMUNICATION_AUTO]    = { "auto", "by size, number of ranks and hosts", NULL },
    [EST_COMMUNICATION_RING]    = { "ring", "chunks go round; the least bytes on every link", &est_algorithm_ring },
    [EST_COMMUNICATION_HALVING] = { "halving", "halves are exchanged in log2 n rounds, and back",
                                    &est_algorithm_halving },
    [EST_COMMUNICATION_DIRECT]  = { "direct", "everything to everyone at once; a tree from the root",
                                    &est_algorithm_direct },
    [EST_COMMUNICATION_HIERARCHICAL] = { "hierarchical", "within a host first, then one rank of each host",
                                         &est_algorithm_hierarchical },
    [EST_COMMUNICATION_SHARED] = { "shared", "through memory that all ranks have in common", &est_algorithm_shared },
    [EST_COMMUNICATION_NCCL]   = { "nccl", "between GPUs of workers, where all have NCCL; else as auto", NULL },
};

#define N_TABLE (int)(sizeof table / sizeof table[0])

const est_algorithm *est_algorithm_of(est_communication communication)
{
    return table[communication].algorithm;
}

const char *est_communication_name(est_communication communication)
{
    return table[communication].name;
}

const char *est_communication_text(est_communication communication)
{
    return table[communication].text;
}

const char *est_topology_text(est_topology topology)
{
    static const char *const texts[] = { "any hosts", "a host each", "one host", "hosts with several ranks" };

    return texts[topology];
}

est_status est_communication_find(const char *name, est_communication *out)
{
    for (int i = 0; i < N_TABLE; i++) {
        if (strcmp(name, table[i].name) == 0) {
            *out = (est_communication)i;
            return EST_OK;
        }
    }
    return est_fail(
        EST_INVALID_ARGUMENT,
        "there is no communication \"%s\"; expected auto, ring, halving, direct, hierarchical, shared or nccl", name);
}
