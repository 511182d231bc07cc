/* SPDX-License-Identifier: Apache-2.0
 *
 * Segments as a task gets them: equal ones are one segment; what is no segment, or does not fit the variables that are
 * there, is refused and changes nothing. */
#include "runtime/host.h"
#include "base/alloc.h"
#include "base/fault.h"
#include "support/fault_loop.h"
#include "support/nn_test.h"

/* y = w + x, and w += x, with w of n elements. */
static est_wire_writer make_segment(int64_t n)
{
    est_wire_writer bytes = { 0 };
    est_graph      *graph = NULL;
    est_node        w, x, y, add;
    est_segment     segment = { .writes = true };

    assert_ok(est_graph_create(1, &graph));
    w             = est_variable(graph, "w", EST_F32, EST_SHAPE(n));
    x             = est_placeholder(graph, "x", EST_F32, EST_SHAPE(n));
    y             = est_add(est_read_variable(w), x);
    add           = est_after(est_assign_add(w, x), y);
    segment.graph = graph;
    segment.io = (est_io){ .feeds = &x, .n_feeds = 1, .fetches = &y, .n_fetches = 1, .targets = &add, .n_targets = 1 };
    assert_ok(est_graph_status(graph));
    assert_ok(est_segment_encode(&segment, &bytes));
    est_graph_free(graph);
    return bytes;
}

static est_host *make_host(void)
{
    est_host *host = NULL;

    assert_ok(est_host_create(1, &host));
    return host;
}

/* A slot is used again; a number is not. */
TEST(numbers)
{
    est_host       *host    = make_host();
    est_wire_writer bytes   = make_segment(3);
    int             segment = -1, again = -1;
    uint64_t        number, print;

    assert_ok(est_host_enter(host, bytes.data, bytes.size, &segment));
    number = est_host_number(host, segment);
    print  = est_host_print(host, segment);
    assert_int_equal(est_host_find(host, number), segment);
    est_host_leave(host, segment);
    assert_int_equal(est_host_find(host, number), -1);
    assert_null(est_host_graph(host, segment));
    assert_ok(est_host_enter(host, bytes.data, bytes.size, &again));
    assert_int_equal(again, segment);
    assert_int_equal(est_host_segments(host), 1);
    assert_int_equal(est_host_find(host, number), -1);
    assert_int_equal(est_host_find(host, est_host_number(host, again)), again);
    assert_int_equal(est_host_find(host, UINT64_MAX), -1);
    assert_true(est_host_number(host, again) != number && est_host_print(host, again) == print);
    est_wire_writer_clear(&bytes);
    est_host_free(host);
}

TEST(equal_segments)
{
    est_host       *host  = make_host();
    est_wire_writer bytes = make_segment(3), other = make_segment(2);
    int             segment = -1, again = -1;

    assert_ok(est_host_enter(host, bytes.data, bytes.size, &segment));
    assert_ok(est_host_enter(host, bytes.data, bytes.size, &again));
    assert_int_equal(segment, 0);
    assert_int_equal(again, 0);
    assert_int_equal(est_host_segments(host), 1);
    assert_int_equal(est_host_inputs(host, 0), 1);
    assert_string_equal(est_node_name(est_host_input(host, 0, 0)), "x");
    assert_int_equal(est_host_outputs(host, 0), 1);
    assert_true(est_host_writes(host, 0));
    assert_true(est_host_counts(host, 0, "w"));
    assert_false(est_host_counts(host, 0, "global_step"));
    assert_int_not_equal(est_host_enter(host, other.data, other.size, &again), EST_OK); /* another shape of w */
    assert_non_null(strstr(est_error_message(), "'w'"));
    assert_int_equal(est_host_segments(host), 1);
    est_wire_writer_clear(&bytes);
    est_wire_writer_clear(&other);
    est_host_free(host);
    est_host_free(NULL);
}

TEST(run)
{
    est_host       *host  = make_host();
    est_wire_writer bytes = make_segment(2);
    est_tensor     *x     = NULL;
    est_var        *w;
    int             segment;

    assert_ok(est_host_enter(host, bytes.data, bytes.size, &segment));
    assert_ok(est_tensor_f32(EST_SHAPE(2), (const float[]){ 1, 2 }, &x));
    assert_int_equal(est_host_run(host, segment, 0, (const est_tensor *[]){ x }), EST_FAILED_PRECONDITION);
    assert_ok(est_store_get(est_host_store(host), "w", EST_F32, EST_SHAPE(2), &w));
    memset(w->value.data, 0, 8);
    w->initialized = true;
    for (int i = 1; i <= 2; i++) {
        assert_ok(est_host_run(host, segment, 0, (const est_tensor *[]){ x }));
        assert_true(((const float *)est_host_output(host, segment, 0)->data)[1] == (float)(2 * i));
        assert_true(((const float *)w->value.data)[0] == (float)i);
    }
    est_tensor_free(x);
    est_wire_writer_clear(&bytes);
    est_host_free(host);
}

/* Nodes and outputs that the graph does not have. */
TEST(names)
{
    static const struct {
        uint32_t    field;
        const char *name, *says;
    } bad[] = { { 2, "nobody:0", "which is not in its graph" },
                { 2, "x", "which is not in its graph" },
                { 2, "x:", "which is not in its graph" },
                { 2, "", "which is not in its graph" },
                { 3, "x:1", "no such output" },
                { 3, "x:-1", "no such output" },
                { 3, "x:0x", "no such output" },
                { 3, "x:2147483648", "no such output" },
                { 3, "x:999999999999", "is not in its graph" },
                { 4, "x:7", "no such output" } };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        est_host       *host  = make_host();
        est_wire_writer bytes = make_segment(2);
        int             segment;

        est_wire_put_string(&bytes, bad[i].field, bad[i].name);
        assert_int_equal(est_host_enter(host, bytes.data, bytes.size, &segment), EST_INVALID_ARGUMENT);
        if (strstr(est_error_message(), bad[i].says) == NULL) fail_msg("'%s': %s", bad[i].name, est_error_message());
        assert_int_equal(est_host_segments(host), 0);
        est_wire_writer_clear(&bytes);
        est_host_free(host);
    }
}

/* Cut at every byte, and every allocation failing: refused, and the whole is taken afterwards. */
TEST(damage)
{
    est_host       *host    = make_host();
    est_wire_writer bytes   = make_segment(2);
    int             segment = -1, n_segments;

    for (size_t size = 1; size < bytes.size; size++) {
        char      *copy = est_alloc(size);
        est_status status;

        assert_non_null(copy);
        memcpy(copy, bytes.data, size);
        status = est_host_enter(host, copy, size, &segment);
        if (status != EST_OK) assert_true(status == EST_DATA_LOSS || status == EST_INVALID_ARGUMENT);
        est_free(copy);
    }
    est_host_free(host);
    host       = make_host();
    n_segments = est_host_segments(host);
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_status status;

        fault_arm(&f);
        status = est_host_enter(host, bytes.data, bytes.size, &segment);
        fault_check_lenient(&f, status);
        if (status == EST_OK) break; /* one that it can do without */
        assert_int_equal(est_host_segments(host), n_segments);
    }
    assert_int_equal(segment, 0);
    est_wire_writer_clear(&bytes);
    est_host_free(host);
}
