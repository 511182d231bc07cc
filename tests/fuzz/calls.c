/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the requests of a coordinator (cluster/calls.h): each reader on any head. What is read must be written and
 * read again as the same. */
#include "cluster/calls.h"

#include <stdlib.h>

#include "../support/message_test.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static est_blocks *blocks;

static void require(bool holds)
{
    if (!holds) abort();
}

/* The message of a packing, which it clears. */
static est_message *take(est_packing *packing)
{
    est_payload  payload;
    est_message *message;

    require(est_packing_payload(packing, &payload) == EST_OK);
    require(message_make(blocks, payload, &message) == EST_OK);
    est_packing_clear(packing);
    return message;
}

static bool same(est_str a, est_str b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static void fuzz_setup(const est_message *message)
{
    est_packing  packing = { 0 };
    est_message *again;
    est_setup    once, twice;

    if (est_setup_read(message, &once) != EST_OK) return;
    est_setup_put(&once, NULL, 0, &packing);
    again = take(&packing);
    require(est_setup_read(again, &twice) == EST_OK);
    require(once.origin == twice.origin && once.seed == twice.seed && once.at_least_once == twice.at_least_once);
    est_message_free(again);
}

static void fuzz_function(const est_message *message)
{
    est_packing          packing = { 0 };
    est_message         *again;
    est_function_request once, twice;

    if (est_function_request_read(message, &once) != EST_OK) return;
    est_function_request_put(&once, NULL, 0, &packing);
    again = take(&packing);
    require(est_function_request_read(again, &twice) == EST_OK);
    require(once.number == twice.number && same(once.name, twice.name) && same(once.bytes, twice.bytes));
    require(once.has_resets == twice.has_resets && once.n_resets == twice.n_resets);
    est_message_free(again);
}

static void fuzz_dataset(const est_message *message)
{
    est_packing         packing = { 0 };
    est_message        *again;
    est_dataset_request once, twice;

    if (est_dataset_request_read(message, &once) != EST_OK) return;
    est_dataset_request_put(&once, &packing);
    again = take(&packing);
    require(est_dataset_request_read(again, &twice) == EST_OK);
    require(once.number == twice.number && same(once.name, twice.name) && same(once.bytes, twice.bytes));
    require(same(once.params, twice.params) && once.pipeline < once.n_pipelines);
    require(once.pipeline == twice.pipeline && once.n_pipelines == twice.n_pipelines && once.reader == twice.reader);
    est_message_free(again);
}

static void fuzz_call(const est_message *message, bool is_shard)
{
    est_packing        packing = { 0 };
    est_message       *again;
    est_call_request   once, twice;
    est_call_arguments arguments = { 0 }, same_arguments = { 0 };

    if (est_call_request_read(message, is_shard, &once) == EST_OK &&
        est_call_arguments_read(message, &arguments) == EST_OK) {
        est_call_request_put(&once, is_shard, &packing);
        for (int i = 0; i < arguments.n; i++) est_call_argument_put(&arguments.data[i], &packing);
        again = take(&packing);
        require(est_call_request_read(again, is_shard, &twice) == EST_OK);
        require(once.call == twice.call && once.first == twice.first && once.function == twice.function);
        require(!is_shard || (once.shard < once.n_shards && once.shard == twice.shard));
        require(est_call_arguments_read(again, &same_arguments) == EST_OK && same_arguments.n == arguments.n);
        for (int i = 0; i < arguments.n; i++) {
            require(arguments.data[i].feed >= 0 && arguments.data[i].feed == same_arguments.data[i].feed);
            require(same(arguments.data[i].component, same_arguments.data[i].component));
        }
        est_message_free(again);
    }
    est_call_arguments_clear(&arguments);
    est_call_arguments_clear(&same_arguments);
}

static void fuzz_failure(const est_message *message)
{
    est_packing  packing = { 0 };
    est_message *again;
    est_status   status = est_call_failure_read(message);

    est_call_failure_put(status, est_error_message(), &packing);
    again = take(&packing);
    require(est_call_failure_read(again) == status);
    est_message_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    est_message         *message;
    est_iterator_request iterator;

    if (blocks == NULL) require(est_blocks_create(&blocks) == EST_OK);
    require(message_make(blocks, (est_payload){ data, size, NULL, 0 }, &message) == EST_OK);
    fuzz_setup(message);
    fuzz_function(message);
    fuzz_dataset(message);
    fuzz_call(message, false);
    fuzz_call(message, true);
    fuzz_failure(message);
    if (est_iterator_request_read(message, &iterator) == EST_OK) require(iterator.skip >= 0);
    est_message_free(message);
    return 0;
}
