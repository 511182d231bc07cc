/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections whose peers wait for admission: one queue per source. */
#include "net/unfinished.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/fingerprint.h"

#define SHARE     4 /* of the descriptors: one in so many */
#define N_MAX_MIN 16
#define N_MAX_MAX 1024

void est_unfinished_init(est_unfinished *all, int descriptors_max)
{
    int share = descriptors_max / SHARE;

    *all = (est_unfinished){ .n_max = share < N_MAX_MIN ? N_MAX_MIN : share > N_MAX_MAX ? N_MAX_MAX : share };
}

static int source_of(const char *address)
{
    const char     *colon   = strrchr(address, ':');
    bool            bracket = address[0] == '[';
    char            host[64];
    struct in_addr  four;
    struct in6_addr six;
    uint64_t        hash = 0;

    if (colon == NULL) return 0;
    snprintf(host, sizeof host, "%.*s", (int)(colon - address) - 2 * bracket, address + bracket);
    if (inet_pton(AF_INET, host, &four) == 1) {
        hash = est_fingerprint64(&four, sizeof four);
    } else if (inet_pton(AF_INET6, host, &six) == 1) {
        hash = est_fingerprint64(&six, sizeof six / 2);
    }
    return (int)(hash % EST_SOURCES);
}

void est_unfinished_add(est_unfinished *all, est_unfinished_entry *entry, const char *address)
{
    int i = source_of(address);

    *entry = (est_unfinished_entry){
        .older = all->sources[i].newest, .number = all->n_added++, .source = i, .listed = true
    };
    if (entry->older != NULL) {
        entry->older->newer = entry;
    } else {
        all->sources[i].oldest = entry;
    }
    all->sources[i].newest = entry;
    all->sources[i].n++;
    all->n++;
}

void est_unfinished_remove(est_unfinished *all, est_unfinished_entry *entry)
{
    int i = entry->source;

    if (!entry->listed) return;
    if (entry->older != NULL) {
        entry->older->newer = entry->newer;
    } else {
        all->sources[i].oldest = entry->newer;
    }
    if (entry->newer != NULL) {
        entry->newer->older = entry->older;
    } else {
        all->sources[i].newest = entry->older;
    }
    all->sources[i].n--;
    all->n--;
    *entry = (est_unfinished_entry){ 0 };
}

est_unfinished_entry *est_unfinished_victim(const est_unfinished *all)
{
    const est_unfinished_entry *oldest;
    int                         busiest = 0;

    for (int i = 1; i < EST_SOURCES; i++) {
        oldest = all->sources[i].oldest;
        if (all->sources[i].n > all->sources[busiest].n ||
            (oldest != NULL && all->sources[i].n == all->sources[busiest].n &&
             oldest->number < all->sources[busiest].oldest->number)) {
            busiest = i;
        }
    }
    return all->sources[busiest].oldest;
}
