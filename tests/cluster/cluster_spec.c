/* SPDX-License-Identifier: Apache-2.0
 *
 * Clusters: what they hold, every address that is refused, texts, damage. */
#include <stdio.h>
#include <string.h>

#include "cluster/cluster.h"
#include "support/fault_loop.h"
#include "support/test.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const char *const ps[]      = { "c:1", NULL, "[::1]:2", NULL };
static const char *const workers[] = { "a:1", "b:1" };
static const est_job     jobs[]    = { { .name = "worker", .addresses = { workers, 2 } },
                                       { .name = "ps", .addresses = { ps, 4 } },
                                       { .name = "empty", .addresses = { NULL, 0 } } };

static void expect_text(const est_cluster *cluster, const char *want)
{
    est_strbuf text = { 0 };

    est_cluster_text(cluster, &text);
    assert_string_equal(est_strbuf_text(&text), want);
    est_strbuf_clear(&text);
}

TEST(create)
{
    est_cluster *cluster = NULL, *again = NULL;

    assert_int_equal(est_cluster_create((est_jobs){ jobs, 3 }, &cluster), EST_OK);
    assert_int_equal(est_cluster_jobs(cluster), 3);
    assert_string_equal(est_cluster_job(cluster, 0), "empty");
    assert_string_equal(est_cluster_job(cluster, 1), "ps");
    assert_string_equal(est_cluster_job(cluster, 2), "worker");
    assert_null(est_cluster_job(cluster, 3));
    assert_null(est_cluster_job(cluster, -1));
    assert_int_equal(est_cluster_tasks(cluster, "worker"), 2);
    assert_int_equal(est_cluster_tasks(cluster, "ps"), 3); /* what is not there at the end does not count */
    assert_int_equal(est_cluster_tasks(cluster, "empty"), 0);
    assert_int_equal(est_cluster_tasks(cluster, "chief"), 0);
    assert_int_equal(est_cluster_tasks(cluster, NULL), 0);
    assert_string_equal(est_cluster_address(cluster, "worker", 1), "b:1");
    assert_string_equal(est_cluster_address(cluster, "ps", 2), "[::1]:2");
    assert_null(est_cluster_address(cluster, "ps", 1));
    assert_null(est_cluster_address(cluster, "ps", 3));
    assert_null(est_cluster_address(cluster, "ps", -1));
    assert_null(est_cluster_address(cluster, "chief", 0));
    expect_text(cluster,
                "{\"empty\": [], \"ps\": {\"0\": \"c:1\", \"2\": \"[::1]:2\"}, \"worker\": [\"a:1\", \"b:1\"]}");
    assert_int_equal(est_cluster_copy(cluster, &again), EST_OK);
    est_cluster_free(cluster);
    assert_string_equal(est_cluster_address(again, "worker", 0), "a:1");
    est_cluster_free(again);
}

TEST(empty)
{
    est_cluster *cluster = NULL;

    assert_int_equal(est_cluster_create((est_jobs){ 0 }, &cluster), EST_OK);
    assert_int_equal(est_cluster_jobs(cluster), 0);
    assert_null(est_cluster_address(cluster, "worker", 0));
    expect_text(cluster, "{}");
    est_cluster_free(cluster);
    est_cluster_free(NULL);
    assert_int_equal(est_cluster_jobs(NULL), 0);
    assert_int_equal(est_cluster_tasks(NULL, "worker"), 0);
}

/* A text that is a cluster, and the same printed. */
static const struct {
    const char *json, *text;
} good[] = {
    { "{}", "{}" },
    { "{\"worker\": [\"a:1\", \"b:1\"], \"ps\": {\"0\": \"c:1\"}}",
      "{\"ps\": [\"c:1\"], \"worker\": [\"a:1\", \"b:1\"]}" },
    { "{\"ps\": {\"2\": \"c:1\", \"0\": \"d:1\"}}", "{\"ps\": {\"0\": \"d:1\", \"2\": \"c:1\"}}" },
    { "{\"w\": {}}", "{\"w\": []}" },
    { "{\"w\": [\"10.0.0.1:65535\", \"a-b.c_d.example:1\", \"[fe80::1%eth0]:9\", \"[::ffff:10.0.0.1]:9\"]}",
      "{\"w\": [\"10.0.0.1:65535\", \"a-b.c_d.example:1\", \"[fe80::1%eth0]:9\", \"[::ffff:10.0.0.1]:9\"]}" },
};

TEST(parse)
{
    for (size_t i = 0; i < COUNT(good); i++) {
        est_cluster *cluster = NULL;

        assert_int_equal(est_cluster_parse(good[i].json, "text", &cluster), EST_OK);
        expect_text(cluster, good[i].text);
        est_cluster_free(cluster);
        assert_int_equal(est_cluster_parse(good[i].text, "text", &cluster), EST_OK);
        expect_text(cluster, good[i].text);
        est_cluster_free(cluster);
    }
}

#define WRITE_ADDRESS "write \"host:port\", as \"10.0.0.1:2222\""
#define WRITE_HOST    "write a host name or address before the colon, as \"10.0.0.1:2222\""
#define WRITE_PORT    "write a port from 1 to 65535 after the colon, as \"10.0.0.1:2222\""
#define WRITE_IPV6    "write an IPv6 address in brackets, as \"[::1]:2222\""
#define WRITE_SCHEME  "write only \"host:port\", without the scheme"

static const struct {
    const char *address, *advice;
} bad_addresses[] = {
    { "", WRITE_ADDRESS },
    { "a", WRITE_ADDRESS },
    { "10.0.0.1", WRITE_ADDRESS },
    { ":1", WRITE_HOST },
    { "-a:1", WRITE_HOST },
    { ".a:1", WRITE_HOST },
    { "a b:1", WRITE_HOST },
    { " a:1", WRITE_HOST },
    { "a/b:1", WRITE_HOST },
    { "a@b:1", WRITE_HOST },
    { "h\xc3\xb6st:1", WRITE_HOST },
    { "a:", WRITE_PORT },
    { "a:0", WRITE_PORT },
    { "a:01", WRITE_PORT },
    { "a:65536", WRITE_PORT },
    { "a:100000", WRITE_PORT },
    { "a:-1", WRITE_PORT },
    { "a:+1", WRITE_PORT },
    { "a:1 ", WRITE_PORT },
    { "a:1x", WRITE_PORT },
    { "host1:port", WRITE_PORT },
    { "[::1]:0", WRITE_PORT },
    { "[::1]", WRITE_IPV6 },
    { "::1", WRITE_IPV6 },
    { "::1:2222", WRITE_IPV6 },
    { "a:1:2", WRITE_IPV6 },
    { "[]:1", WRITE_IPV6 },
    { "[:1", WRITE_IPV6 },
    { "[::g]:1", WRITE_IPV6 },
    { "[10.0.0.1]:1", WRITE_IPV6 },
    { "[::1%]:1", WRITE_IPV6 },
    { "[::1%a b]:1", WRITE_IPV6 },
    { "[1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb]:1", WRITE_IPV6 },
    { "grpc://a:1", WRITE_SCHEME },
};

TEST(addresses)
{
    est_cluster *cluster = NULL;

    for (size_t i = 0; i < COUNT(bad_addresses); i++) {
        const char *addresses[] = { "a:1", bad_addresses[i].address };
        char        want[400];

        snprintf(want, sizeof want, "cluster: worker[1] is \"%s\"; %s", bad_addresses[i].address,
                 bad_addresses[i].advice);
        assert_int_equal(est_cluster_create(
                             (est_jobs){ &(est_job){ .name = "worker", .addresses = { addresses, 2 } }, 1 }, &cluster),
                         EST_INVALID_ARGUMENT);
        assert_string_equal(est_error_message(), want);
    }
    assert_null(cluster);
}

/* What is not a cluster, and the words for it. */
static const struct {
    const char *json, *error;
} bad[] = {
    { "", "text is not JSON: line 1, column 0: unexpected token near end of file" },
    { "[]", "text: the cluster is []; write an object of jobs, as {\"worker\": [\"10.0.0.1:2222\"]}" },
    { "null", "text: the cluster is null; write an object of jobs, as {\"worker\": [\"10.0.0.1:2222\"]}" },
    { "{\"w\": \"a:1\"}", "text: w is \"a:1\"; write a list of addresses, as [\"10.0.0.1:2222\"]" },
    { "{\"w\": null}", "text: w is null; write a list of addresses, as [\"10.0.0.1:2222\"]" },
    { "{\"w\": [\"a:1\", 5]}", "text: w[1] is 5; " WRITE_ADDRESS },
    { "{\"w\": [null]}", "text: w[0] is null; " WRITE_ADDRESS },
    { "{\"w\": {\"3\": [1, 2]}}", "text: w[3] is [1, 2]; " WRITE_ADDRESS },
    { "{\"w\": {\"3\": \"a\"}}", "text: w[3] is \"a\"; " WRITE_ADDRESS },
    { "{\"w\": {\"x\": \"a:1\"}}", "text: w has the key \"x\"; write a task's index, as \"0\"" },
    { "{\"w\": {\"-1\": \"a:1\"}}", "text: w has the key \"-1\"; write a task's index, as \"0\"" },
    { "{\"w\": {\"01\": \"a:1\"}}", "text: w has the key \"01\"; write a task's index, as \"0\"" },
    { "{\"w\": {\"\": \"a:1\"}}", "text: w has the key \"\"; write a task's index, as \"0\"" },
    { "{\"w\": {\"1234567\": \"a:1\"}}", "text: w has the key \"1234567\"; write a task's index, as \"0\"" },
    { "{\"w\": {\"100000\": \"a:1\"}}", "text: w has 100001 tasks; a cluster of at most 100000 is supported" },
    { "{\"w\": {\"60000\": \"a:1\"}, \"v\": {\"60000\": \"b:1\"}}",
      "text: v has 60001 tasks; a cluster of at most 100000 is supported" },
    { "{\"\": []}", "text: \"\" is not the name of a job; write a letter followed by letters, digits or _, as "
                    "\"worker\"" },
    { "{\"a/b\": []}", "text: \"a/b\" is not the name of a job; write a letter followed by letters, digits or _, as "
                       "\"worker\"" },
    { "{\"1\": []}", "text: \"1\" is not the name of a job; write a letter followed by letters, digits or _, as "
                     "\"worker\"" },
    { "{\"w123456789012345678901234567890123456789012345678\": []}",
      "text: the name of the job \"w123456789012345678901234567890123456789012345678\" has 49 letters; at most 48 are "
      "possible" },
    { "{\"w\": [\"a:1\", \"b:1\", \"A:1\"]}",
      "text: w[0] and w[2] are both \"A:1\"; give every task an address of its own" },
    { "{\"w\": [\"a:1\"], \"ps\": {\"7\": \"a:1\"}}",
      "text: ps[7] and w[0] are both \"a:1\"; give every task an address of its own" },
};

TEST(errors)
{
    est_cluster *cluster = NULL;

    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_int_equal(est_cluster_parse(bad[i].json, "text", &cluster), EST_INVALID_ARGUMENT);
        assert_string_equal(est_error_message(), bad[i].error);
        assert_null(cluster);
    }
    assert_int_equal(est_cluster_parse(NULL, "text", &cluster), EST_INVALID_ARGUMENT);
}

static void expect_refused(const est_job *wrong, int n, const char *error)
{
    est_cluster *cluster = NULL;

    assert_int_equal(est_cluster_create((est_jobs){ wrong, n }, &cluster), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), error));
    assert_null(cluster);
}

TEST(wrong_structs)
{
    const est_job twice[] = { { .name = "w", .addresses = { workers, 1 } },
                              { .name = "v", .addresses = { NULL, 0 } },
                              { .name = "w", .addresses = { workers + 1, 1 } } };

    expect_refused(twice, 3, "the job \"w\" is there twice; put its addresses into one list");
    expect_refused(jobs, -1, "-1 jobs");
    expect_refused(NULL, 1, "1 jobs");
    expect_refused(&(est_job){ .name = NULL, .addresses = { NULL, 0 } }, 1, "\"\" is not the name of a job");
    expect_refused(&(est_job){ .name = "w", .addresses = { workers, -1 } }, 1, "w has -1 addresses");
    expect_refused(&(est_job){ .name = "w", .addresses = { NULL, 1 } }, 1, "w has 1 addresses");
    expect_refused(&(est_job){ .name = "w", .addresses = { workers, EST_TASKS_MAX + 1 } }, 1, "at most 100000");
}

/* An offending value is cut, and not within a character. */
TEST(long_values)
{
    char         json[400] = "{\"w\": [[\"";
    est_cluster *cluster   = NULL;

    for (int i = 0; i < 100; i++) strncat(json, "\xc3\xa9", 3);
    strncat(json, "\"]]}", 5);
    assert_int_equal(est_cluster_parse(json, "text", &cluster), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "\xc3\xa9...; write"));
}

static const char whole[] = "{\"chief\": [\"a:1\"], \"ps\": {\"1\": \"[::1]:22\"}, \"worker\": [\"b:9\", \"c:9\"]}";

/* Every byte changed in turn, and the text cut after every byte: an error or a cluster, nothing else. */
TEST(damage)
{
    static const char bytes[] = { '\0', '"', '[', '}', ':', '9', 'x', '\x80' };
    char              copy[sizeof whole];

    for (size_t i = 0; i < sizeof whole - 1; i++) {
        for (size_t k = 0; k < sizeof bytes; k++) {
            est_cluster *cluster = NULL;

            memcpy(copy, whole, sizeof whole);
            copy[i] = bytes[k];
            if (est_cluster_parse(copy, "text", &cluster) == EST_OK) assert_non_null(cluster);
            est_cluster_free(cluster);
        }
    }
}

TEST(memory_failures)
{
    FAULT_LOOP(f, FAULT_ALLOCATIONS, .more_than = 4) {
        est_cluster *cluster = NULL;
        est_strbuf   text    = { 0 };
        est_status   status;

        fault_arm(&f);
        status = est_cluster_parse(whole, "text", &cluster);
        if (status == EST_OK) {
            est_cluster_text(cluster, &text);
            status = est_strbuf_status(&text);
        }
        est_strbuf_clear(&text);
        est_cluster_free(cluster);
        fault_check(&f, status);
    }
}

static bool is_alias(void *user, const char *first, const char *second)
{
    (void)user;
    return strcmp(first, "alias:1") == 0 && strcmp(second, "b:1") == 0;
}

/* What two tasks were told differently: the first such task, with what each has. */
TEST(differences)
{
    static const struct {
        const char *first, *second, *but, *want;
    } cases[] = {
        { "{\"ps\": [\"a:1\"], \"worker\": [\"b:1\"]}", "{\"worker\": [\"b:1\"], \"ps\": [\"a:1\"]}", "", NULL },
        { "{\"ps\": [\"a:1\", \"b:1\"]}", "{\"ps\": [\"a:1\", \"c:1\"]}", "worker:0", "ps:1 b:1 c:1" },
        { "{\"ps\": [\"a:1\", \"b:1\"]}", "{\"ps\": [\"a:1\"]}", "", "ps:1 b:1 -" },
        { "{\"ps\": [\"a:1\"]}", "{\"ps\": [\"a:1\"], \"chief\": [\"b:1\"]}", "", "chief:0 - b:1" },
        { "{\"ps\": [\"a:1\"], \"worker\": [\"b:1\"]}", "{\"ps\": [\"a:1\"], \"worker\": [\"c:1\"]}", "worker:0",
          NULL },
        { "{\"ps\": [\"a:1\"], \"worker\": [\"b:1\"]}", "{\"ps\": [\"a:1\"], \"worker\": [\"c:1\"]}", "worker:1",
          "worker:0 b:1 c:1" },
        { "{\"ps\": [\"a:1\"], \"evaluator\": [\"b:1\"]}", "{\"ps\": [\"a:1\"]}", "", NULL },
        { "{\"ps\": [\"a:1\"], \"worker\": {\"1\": \"c:1\"}}",
          "{\"ps\": [\"a:1\"], \"worker\": [\"b:1\", \"c:1\", \"d:1\"]}", "", NULL },
        { "{\"ps\": [\"a:1\", \"alias:1\"]}", "{\"ps\": [\"a:1\", \"b:1\"]}", "", NULL },
        { "{\"ps\": [\"alias:1\", \"d:1\"]}", "{\"ps\": [\"b:1\", \"c:1\"]}", "", "ps:1 d:1 c:1" },
        { "{\"worker\": {\"1\": \"x:1\"}}", "{\"worker\": [\"b:1\", \"c:1\"]}", "", "worker:1 x:1 c:1" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        est_cluster           *first = NULL, *second = NULL;
        est_cluster_difference d;
        char                   got[128];
        bool                   differ;

        assert_int_equal(est_cluster_parse(cases[i].first, "first", &first), EST_OK);
        assert_int_equal(est_cluster_parse(cases[i].second, "second", &second), EST_OK);
        differ = est_cluster_differ(first, second, (const char *const[2]){ cases[i].but, "" }, is_alias, NULL, &d);
        if (differ) {
            snprintf(got, sizeof got, "%s:%d %s %s", d.job, d.index, d.first != NULL ? d.first : "-",
                     d.second != NULL ? d.second : "-");
        }
        if (differ != (cases[i].want != NULL) || (differ && strcmp(got, cases[i].want) != 0)) {
            fail_msg("case %zu: %s", i, differ ? got : "no difference");
        }
        est_cluster_free(first);
        est_cluster_free(second);
    }
}

/* Only the addresses of this machine that no other can have. */
TEST(is_local)
{
    static const struct {
        const char *json;
        bool        local;
    } cases[] = {
        { "{\"ps\": [\"localhost:1\", \"LocalHost:2\"], \"worker\": [\"127.0.0.1:3\", \"[::1]:4\"]}", true },
        { "{\"ps\": {\"3\": \"127.255.0.9:1\"}}", true },
        { "{}", false },
        { "{\"ps\": [\"localhost:1\"], \"worker\": [\"a:1\"]}", false },
        { "{\"ps\": [\"128.0.0.1:1\"]}", false },
        { "{\"ps\": [\"127.0.0.1.example:1\"]}", false },
        { "{\"ps\": [\"localhost.example:1\"]}", false },
        { "{\"ps\": [\"0.0.0.0:1\"]}", false },
        { "{\"ps\": [\"[::]:1\"]}", false },
        { "{\"ps\": [\"[fe80::1%lo]:1\"]}", false },
        { "{\"ps\": [\"a-name-of-a-host-that-is-longer-than-any-address-of-the-sixth-version:1\"]}", false },
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        est_cluster *cluster = NULL;

        assert_int_equal(est_cluster_parse(cases[i].json, "cluster", &cluster), EST_OK);
        if (est_cluster_is_local(cluster) != cases[i].local) fail_msg("%s", cases[i].json);
        est_cluster_free(cluster);
    }
}
