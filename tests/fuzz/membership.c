/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the messages of workers that join. The first byte says how many tasks there are; the rest is the
 * message, read as an arrival and as an agreement. What is read must be written and read again as the same. */
#include <stdlib.h>
#include <string.h>

#include "collective/membership_round.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds) abort();
}

static bool same_numbers(est_numbers a, est_numbers b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.data, b.data, sizeof *a.data * (size_t)a.n) == 0);
}

static void fuzz_arrival(const uint8_t *data, size_t size, int n)
{
    est_proposal    once = { 0 }, twice = { 0 };
    est_wire_writer out = { 0 };

    if (est_proposal_read(data, size, n, 0, &once) == EST_OK) {
        est_proposal_write(&once, &out);
        require(est_proposal_read(out.data, out.size, n, 0, &twice) == EST_OK);
        require(once.number == twice.number && once.terms.list == twice.terms.list && once.step == twice.step);
        require(once.generation == twice.generation && same_numbers(once.members, twice.members));
        require(strcmp(once.address, twice.address) == 0 && strcmp(once.payload, twice.payload) == 0);
        require(strcmp(once.why, twice.why) == 0 && strcmp(once.terms.tasks, twice.terms.tasks) == 0);
        require(strcmp(once.terms.options, twice.terms.options) == 0);
    }
    est_wire_writer_clear(&out);
    est_proposal_clear(&once);
    est_proposal_clear(&twice);
}

static void fuzz_agreement(const uint8_t *data, size_t size, int n)
{
    est_decision    once = { 0 }, twice = { 0 };
    est_wire_writer out = { 0 };

    if (est_decision_read(data, size, n, &once) == EST_OK) {
        est_decision_write(&once, &out);
        require(est_decision_read(out.data, out.size, n, &twice) == EST_OK);
        require(once.kind == twice.kind && once.generation == twice.generation && once.source == twice.source);
        require(once.step == twice.step && once.status == twice.status && same_numbers(once.members, twice.members));
        for (int i = 0; i < once.members.n; i++) {
            require(est_decision_rank(&once, once.members.data[i], twice.incarnations[i]) == i);
            require(strcmp(once.addresses[i], twice.addresses[i]) == 0);
        }
    }
    est_wire_writer_clear(&out);
    est_decision_clear(&once);
    est_decision_clear(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int n = size > 0 ? data[0] % 16 + 1 : 0;

    if (size == 0) return 0;
    fuzz_arrival(data + 1, size - 1, n);
    fuzz_agreement(data + 1, size - 1, n);
    return 0;
}
