/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc convert`: files written here, converted by the tool and read back with our own parsers. */
#include "cli/tool.h"

#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <zlib.h>

#include "estoc/example.h"
#include "estoc/tfrecord.h"

#define PEOPLE                                                                                                         \
    "age,name,score,note\r\n"                                                                                          \
    "31,\"Ann \"\"A\"\" Lee, Dr.\",1.5,\r\n"                                                                           \
    "-4,,NA,\"two\nlines\"\r\n"                                                                                        \
    "\r\n"                                                                                                             \
    ",Bob,2,NA\r\n"

static void expect_str(est_str got, const char *want)
{
    assert_int_equal(got.size, strlen(want));
    assert_memory_equal(got.data, want, got.size);
}

/* All records of a file, at most 8, with copies of their bytes. */
static size_t read_records(const char *path, est_str records[8])
{
    est_tfrecord_reader *reader;
    est_str              record;
    size_t               n = 0;

    tool_check(est_tfrecord_open(path, NULL, &reader));
    while (est_tfrecord_next(reader, &record) == EST_OK) {
        char *copy = est_alloc(record.size + 1);

        assert_true(n < 8);
        assert_non_null(copy);
        memcpy(copy, record.data, record.size);
        records[n++] = (est_str){ copy, record.size };
    }
    est_tfrecord_close(reader);
    return n;
}

static void free_records(est_str *records, size_t n)
{
    for (size_t i = 0; i < n; i++) est_free((void *)(uintptr_t)records[i].data);
}

/* Quoted, empty and NA fields come back through the Example parser. */
TEST(csv_round_trip)
{
    static const est_feature_spec specs[] = {
        { .name = "age", .dtype = EST_I64, .rows = EST_ROWS_RAGGED },
        { .name = "name", .dtype = EST_STRING, .rows = EST_ROWS_RAGGED },
        { .name = "score", .dtype = EST_F32, .rows = EST_ROWS_RAGGED },
        { .name = "note", .dtype = EST_STRING, .rows = EST_ROWS_RAGGED },
    };
    static const int64_t splits[4][4] = { { 0, 1, 2, 2 }, { 0, 1, 2, 3 }, { 0, 1, 1, 2 }, { 0, 1, 2, 2 } };
    est_example_parser  *parser;
    est_feature_batch    batch[4];
    est_str              records[8];
    size_t               n;
    tool_run             run;

    tool_write_text("people.csv", PEOPLE);
    run = TOOL(0, "convert", tool_path("people.csv"), "-o", tool_path("people.tfrecord"), "--na", "NA");
    tool_run_free(&run);
    n = read_records(tool_path("people.tfrecord"), records);
    assert_int_equal(n, 3);
    tool_check(est_example_parser_create((est_feature_specs){ specs, 4 }, &parser));
    tool_check(est_example_parse(parser, records, n, batch));
    for (int k = 0; k < 4; k++) assert_memory_equal(est_tensor_data(batch[k].splits), splits[k], sizeof splits[k]);
    assert_int_equal(((const int64_t *)est_tensor_data(batch[0].values))[1], -4);
    expect_str(((const est_str *)est_tensor_data(batch[1].values))[0], "Ann \"A\" Lee, Dr.");
    expect_str(((const est_str *)est_tensor_data(batch[1].values))[1], "");
    assert_true(((const float *)est_tensor_data(batch[2].values))[1] == 2);
    expect_str(((const est_str *)est_tensor_data(batch[3].values))[1], "two\nlines");
    est_feature_batch_clear(batch, 4);
    est_example_parser_free(parser);
    free_records(records, n);
}

/* Converts a text with these further arguments, and compares what `estoc inspect` shows of the output. */
#define CONVERTS(text, lines, ...)                                                                                     \
    do {                                                                                                               \
        tool_run run_;                                                                                                 \
                                                                                                                       \
        tool_write_text("in.csv", text);                                                                               \
        run_ = TOOL(0, "convert", tool_path("in.csv"), "-o", tool_path("out.tfrecord"), __VA_ARGS__);                  \
        tool_run_free(&run_);                                                                                          \
        TOOL_OUT(0, lines, "", "inspect", tool_path("out.tfrecord"));                                                  \
    } while (0)

TEST(types)
{
    CONVERTS("a,b,c,d,e\n1,1,1,,x\n-2,2.5,z,,\n",
             "{\"a\": [1], \"b\": [1.0], \"c\": [\"1\"], \"d\": [\"\"], \"e\": [\"x\"]}\n"
             "{\"a\": [-2], \"b\": [2.5], \"c\": [\"z\"], \"d\": [\"\"], \"e\": [\"\"]}\n",
             "--json");
    CONVERTS("a,b\n9223372036854775807,9223372036854775808\n",
             "{\"a\": [9223372036854775807], \"b\": [9.223372e+18]}\n", "--json");
    CONVERTS("a\n1\n\n2\n", "{\"a\": [1]}\n{}\n{\"a\": [2]}\n",
             "--json"); /* one column: an empty line is an empty field */
    CONVERTS("a,b,c\n1,2,3\n", "{\"a\": [\"1\"], \"c\": [3.0]}\n", "--columns", "c:float,a:string");
    CONVERTS("a,b,c\n1,2,3\n", "{\"b\": [2], \"c\": [3.0]}\n", "--columns", "c:float,b");
    CONVERTS("1,x\n2,y\n", "{\"n\": [1], \"w\": [\"x\"]}\n{\"n\": [2], \"w\": [\"y\"]}\n", "--no-header", "--columns",
             "n:int64,w:bytes");
    CONVERTS("a;b\n1;\"x;y\"\n", "{\"a\": [1], \"b\": [\"x;y\"]}\n", "--delimiter", ";");
    CONVERTS("a;b\n1;\"x\ny\"\n2;z\n", "{\"a\": [1], \"b\": [\"x\\ny\"]}\n{\"a\": [2], \"b\": [\"z\"]}\n",
             "--delimiter", ";");
    CONVERTS("a\tb\n1\t2\n", "{\"a\": [1], \"b\": [2]}\n", "--delimiter", "\\t");
    CONVERTS("a,b\n?,1\n2,?\n", "{\"b\": [1]}\n{\"a\": [2]}\n", "--na", "?");
}

TEST(trim)
{
    CONVERTS("a , b\n 1 ,\" x \" \n\t? , y z\n", "{\"a\": [1], \"b\": [\" x \"]}\n{\"b\": [\"y z\"]}\n", "--trim",
             "--na", "?");
    CONVERTS("a;b\n 1;  \"x\n;y\"\n", "{\"a\": [1], \"b\": [\"x\\n;y\"]}\n", "--trim", "--delimiter", ";");
    CONVERTS("a,b\n 1 , x\n", "{\"a\": [1], \"b\": [\" x\"]}\n", "--json"); /* only numbers may have blanks */
}

/* Converts a text and looks for a part of the messages; "": there must be none. */
#define NOTES(text, part, ...)                                                                                         \
    do {                                                                                                               \
        tool_run run_;                                                                                                 \
                                                                                                                       \
        tool_write_text("in.csv", text);                                                                               \
        run_ = TOOL(0, "convert", tool_path("in.csv"), "-o", tool_path("out.tfrecord"), __VA_ARGS__);                  \
        if (part[0] == '\0') tool_expect_text(run_.err, "", "standard error");                                         \
        tool_expect_part(run_.err, part, "standard error");                                                            \
        tool_run_free(&run_);                                                                                          \
    } while (0)

/* What is probably a mistake is said, once, and done all the same. */
TEST(warnings)
{
    NOTES("a,5.1,-3\n1,2,3\n",
          "in.csv:1: a column is called \"5.1\": if the first line is a row and not a header, give --no-header",
          "--json");
    NOTES("a,b1,1st\n1,2,3\n", "", "--json");
    NOTES("5.1,-3\n1,2\n", "", "--no-header", "--columns", "a,b");
    NOTES("a,b\n1,NA \n2,x\n", "--na \"NA\" matches no field (with --trim blanks", "--na", "NA");
    NOTES("a,b\n1,NA \n2,x\n", "", "--na", "NA", "--trim");
    NOTES("a,b\n1,NA\n2,x\n", "--na \"NA\" matches no field", "--na", "NA", "--columns", "a");
    NOTES("a,b\n", "", "--na", "NA"); /* nothing to find it in */
}

/* Several files with their columns in different orders, plain and compressed; the names say the format. */
TEST(inputs)
{
    gzFile   packed;
    tool_run run;

    tool_write_text("first.csv", "a,b\n1,x\n");
    packed = gzopen(tool_path("second.csv.gz"), "wb");
    assert_int_equal(gzputs(packed, "b,a\ny,2.5\n"), 10);
    assert_int_equal(gzclose(packed), Z_OK);
    run = TOOL(0, "convert", tool_path("first.csv"), tool_path("second.csv.gz"), "-o", tool_path("both.tfrecord"));
    tool_expect_part(run.out, "a: float\nb: bytes\n2 records in ", "standard output");
    tool_run_free(&run);
    TOOL_OUT(0, "{\"a\": [1.0], \"b\": [\"x\"]}\n{\"a\": [2.5], \"b\": [\"y\"]}\n", "", "inspect",
             tool_path("both.tfrecord"));
    tool_write_text("third.tsv", "a\tb\n7\t,\n");
    run = TOOL(0, "convert", tool_path("third.tsv"), "-o", tool_path("tabs.tfrecord"));
    tool_run_free(&run);
    TOOL_OUT(0, "{\"a\": [7], \"b\": [\",\"]}\n", "", "inspect", tool_path("tabs.tfrecord"));
    tool_write_text("fourth.csv", "a,c\n1,2\n");
    TOOL_OUT(1, "", "fourth.csv:1: the header has no column \"b\"", "convert", tool_path("first.csv"),
             tool_path("fourth.csv"), "-o", tool_path("none.tfrecord"));
    assert_int_equal(tool_count_files("none"), 0);
}

TEST(shards)
{
    static const char *const kinds[] = { "none", "gzip", "zlib" };

    tool_write_text("five.csv", "n\n0\n1\n2\n3\n4\n");
    for (int i = 0; i < 3; i++) {
        tool_run  run  = TOOL(0, "convert", tool_path("five.csv"), "-o", tool_path("s.tfrecord"), "--shards", "2",
                              "--compression", kinds[i], "--json");
        est_json *root = tool_json(run.out);
        int64_t   n;

        tool_check(est_json_i64(root, &n, "records"));
        assert_int_equal(n, 5);
        assert_string_equal(json_string_value(est_json_get(root, "files[1]")), tool_path("s-00001-of-00002.tfrecord"));
        assert_string_equal(json_string_value(est_json_get(root, "columns[0].type")), "int64");
        est_json_free(root);
        tool_run_free(&run);
        TOOL_OUT(0, "{\"n\": [0]}\n{\"n\": [2]}\n{\"n\": [4]}\n", "", "inspect",
                 tool_path("s-00000-of-00002.tfrecord"));
        TOOL_OUT(0, "{\"n\": [1]}\n{\"n\": [3]}\n", "", "inspect", tool_path("s-00001-of-00002.tfrecord"));
    }
    assert_int_equal(tool_count_files("s-"), 2);
    assert_int_equal(tool_count_files("s."), 0);
}

/* What is wrong with a row is said with its place; nothing is left behind; an old file stays as it was. */
TEST(bad_rows)
{
    static const struct {
        const char *text, *columns, *says;
    } cases[] = {
        { "a,b\n1,2\n1,2,3\n", "a,b", "bad.csv:3: 3 fields, not 2" },
        { "a,b\n1,2\n\"x\ny\",2\n3\n", "a,b", "bad.csv:5: 1 fields, not 2" },
        { "a,b\n1,2\nx,2\n", "a:int64,b", "bad.csv:3: column \"a\": \"x\" is not an int64" },
        { "a,b\n1,2\n99999999999999999999,2\n", "a:int64,b", "is not an int64" },
        { "a,b\n1,2\n1,x\033\n", "a,b:float", "bad.csv:3: column \"b\": \"x\\x1b\" is not a number" },
        { "a,b\n1,2\n1,\"x\n", "a,b", "bad.csv:3: field 2: \"\"x\" has no closing quote" },
        { "a,b\n1,2\n\"x\"y,2\n", "a,b", "bad.csv:3: field 1: \"x\" is followed by more after its quote" },
        { "a,b\n1,2\nx\"y\",2\n", "a,b", "bad.csv:3: field 1: \"x\"y\"\" has a quote inside" },
        { "a,b\n1,2\n1,x\ry\n", "a,b", "bad.csv:3: field 2: \"x?y\" has a line break outside quotes" },
        { "a,b\n1,2\n", "a,c", "bad.csv:1: the header has no column \"c\", only \"a\", \"b\"" },
        { "id,name,age\n1,2,3\n", "Age", "the header has no column \"Age\", only \"age\", \"id\", \"name\"" },
        { "a,b,c,d,e,f,g,h,i,price\n", "prize",
          "only \"price\", \"e\", \"i\", \"a\", \"b\", \"c\", \"d\", \"f\" and 2 more" },
        { "a;b\n1;2\n", "a", "only \"a;b\"; is the --delimiter right?" },
        { "a,a\n1,2\n", "a", "bad.csv:1: the header has more than one column \"a\"" },
        { "", "a", "bad.csv: is empty; a header is expected" },
    };

    tool_write_text("old.tfrecord", "as it was");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *left;

        tool_write_text("bad.csv", cases[i].text);
        TOOL_OUT(1, "", cases[i].says, "convert", tool_path("bad.csv"), "-o", tool_path("old.tfrecord"), "--columns",
                 cases[i].columns);
        left = tool_read_file(tool_path("old.tfrecord"), NULL);
        assert_string_equal(left, "as it was");
        est_free(left);
        assert_int_equal(tool_count_files("old"), 1); /* no temporary file */
    }
    tool_write_text("bad.csv", "a,,c\n1,2,3\n");
    TOOL_OUT(1, "", "field 2 of the header has no name", "convert", tool_path("bad.csv"), "-o",
             tool_path("new.tfrecord"));
    assert_int_equal(tool_count_files("new"), 0);
}

TEST(skip_bad)
{
    tool_run run;

    tool_write_text("some.csv", "a,b\n1,2\n3\n4,5\nx,6\n");
    run = TOOL(0, "convert", tool_path("some.csv"), "-o", tool_path("some.tfrecord"), "--skip-bad", "2", "--columns",
               "a:int64,b");
    tool_expect_part(run.out, "a: int64\nb: int64\n2 records in ", "standard output");
    tool_expect_part(run.err, "estoc convert: left out 2 bad rows; the first: ", "standard error");
    tool_expect_part(run.err, "some.csv:3: 1 fields, not 2\n", "standard error");
    tool_run_free(&run);
    TOOL_OUT(0, "{\"a\": [1], \"b\": [2]}\n{\"a\": [4], \"b\": [5]}\n", "", "inspect", tool_path("some.tfrecord"));
    TOOL_OUT(1, "", "more than 1 bad rows, the last: ", "convert", tool_path("some.csv"), "-o",
             tool_path("less.tfrecord"), "--skip-bad", "1", "--columns", "a:int64,b");
    assert_int_equal(tool_count_files("less"), 0);
}

TEST(libsvm)
{
    tool_run run;

    tool_write_text("in.libsvm", "1 3:0.5 7:-2\n# a comment\n\n-1\n0.5 1:1\nx 1:1\n1 2:z\n2 4:4\n");
    TOOL_OUT(1, "", "in.libsvm:6: column 1: ", "convert", tool_path("in.libsvm"), "-o", tool_path("svm.tfrecord"));
    assert_int_equal(tool_count_files("svm"), 0);
    run = TOOL(0, "convert", tool_path("in.libsvm"), "-o", tool_path("svm.tfrecord"), "--skip-bad", "2");
    tool_expect_part(run.out, "4 records in ", "standard output");
    tool_expect_part(run.err, "left out 2 bad rows; the first: ", "standard error");
    tool_run_free(&run);
    TOOL_OUT(0,
             "{\"index\": [3, 7], \"label\": [1.0], \"value\": [0.5, -2.0]}\n"
             "{\"index\": [], \"label\": [-1.0], \"value\": []}\n"
             "{\"index\": [1], \"label\": [0.5], \"value\": [1.0]}\n"
             "{\"index\": [4], \"label\": [2.0], \"value\": [4.0]}\n",
             "", "inspect", tool_path("svm.tfrecord"));
}

TEST(wrong_usage)
{
    const char *in = tool_write_text("in.csv", "a\n1\n");

    TOOL_OUT(2, "", "an input file is missing", "convert", "-o", "x");
    TOOL_OUT(2, "", "--output is missing", "convert", in);
    TOOL_OUT(2, "", "is unknown; give --from", "convert", tool_path("in"), "-o", "x");
    TOOL_OUT(2, "", "--from takes csv or libsvm, not \"cvs\" (did you mean \"csv\"?)", "convert", in, "-o", "x",
             "--from", "cvs");
    TOOL_OUT(2, "", "--compression takes none, gzip or zlib, not \"gz\" (did you mean \"gzip\"?)", "convert", in, "-o",
             "x", "--compression", "gz");
    TOOL_OUT(2, "", "a type is int64, float, bytes or string (did you mean \"int64\"?)", "convert", in, "-o", "x",
             "--columns", "a:in64");
    TOOL_OUT(2, "", "two columns are called \"a\"", "convert", in, "-o", "x", "--columns", "a,a");
    TOOL_OUT(2, "", "--no-header needs --columns", "convert", in, "-o", "x", "--no-header");
    TOOL_OUT(2, "", "--delimiter takes one character", "convert", in, "-o", "x", "--delimiter", "ab");
    TOOL_OUT(2, "", "--shards takes a number from 1 to 10000", "convert", in, "-o", "x", "--shards", "0");
    TOOL_OUT(2, "", "--delimiter", "convert", "--from", "libsvm", in, "-o", "x", "--delimiter", ";");
    TOOL_OUT(2, "", "are for csv", "convert", "--from", "libsvm", in, "-o", "x", "--columns", "a", "--no-header");
    TOOL_OUT(2, "", "is both input and output", "convert", in, "-o", in);
    TOOL_OUT(3, "", "cannot read ", "convert", in, tool_path("none.csv"), "-o", tool_path("x"));
    TOOL_OUT(1, "", "No such file or directory", "convert", in, "-o", tool_path("nowhere/x.tfrecord"));
    TOOL_OUT(1, "", "is not a regular file", "convert", "--from", "csv", "/dev/null", "-o", tool_path("x"));
    assert_int_equal(tool_count_files("x"), 0);
}

/* A value that does not fit int64 makes a column that has integers only one of floats, which is said. */
TEST(integers_that_do_not_fit)
{
    tool_run run;

    tool_write_text("big.csv",
                    "a,b,c\n1,1.5,1\n9223372036854775808,9223372036854775808,2\n-99999999999999999999,1,3\n");
    run = TOOL(0, "convert", tool_path("big.csv"), "-o", tool_path("big.tfrecord"));
    tool_expect_part(run.out, "a: float\nb: float\nc: int64\n", "standard output");
    tool_expect_part(run.err, "big.csv:3: column \"a\": 9223372036854775808 does not fit int64, so the column is float",
                     "standard error");
    assert_null(strstr(run.err, "column \"b\"")); /* a float in any case */
    assert_null(strstr(run.err, ":4:"));          /* once a column */
    tool_run_free(&run);
}

/* With --from names do not matter; without, a tab stands between the fields of a .tsv beside a .csv. */
TEST(names)
{
    tool_run run;

    tool_write_text("one.svm", "a,b\n1,x\n");
    tool_write_text("two.svm", "a,b\n2,y\n");
    run = TOOL(0, "convert", "--from", "csv", tool_path("one.svm"), tool_path("two.svm"), "-o",
               tool_path("n.tfrecord"));
    tool_run_free(&run);
    TOOL_OUT(0, "{\"a\": [1], \"b\": [\"x\"]}\n{\"a\": [2], \"b\": [\"y\"]}\n", "", "inspect", tool_path("n.tfrecord"));
    tool_write_text("one.csv", "a,b\n1,x\n");
    tool_write_text("two.tsv", "a\tb\n2\ty,\n");
    for (int i = 0; i < 2; i++) {
        run = TOOL(0, "convert", tool_path(i == 0 ? "one.csv" : "two.tsv"), tool_path(i == 0 ? "two.tsv" : "one.csv"),
                   "-o", tool_path("n.tfrecord"));
        tool_run_free(&run);
        TOOL_OUT(0,
                 i == 0 ? "{\"a\": [1], \"b\": [\"x\"]}\n{\"a\": [2], \"b\": [\"y,\"]}\n"
                        : "{\"a\": [2], \"b\": [\"y,\"]}\n{\"a\": [1], \"b\": [\"x\"]}\n",
                 "", "inspect", tool_path("n.tfrecord"));
    }
    TOOL_OUT(2, "", "are of different formats", "convert", tool_path("one.csv"), tool_path("one.svm"), "-o",
             tool_path("n.tfrecord"));
}

/* Shards of a name without an ending have none either. */
TEST(shards_without_ending)
{
    tool_run run;

    tool_write_text("two.csv", "n\n0\n1\n");
    run = TOOL(0, "convert", tool_path("two.csv"), "-o", tool_path("bare"), "--shards", "2");
    tool_run_free(&run);
    assert_true(est_file_exists(tool_path("bare-00000-of-00002")));
    assert_int_equal(tool_count_files("bare"), 2);
}

static void make_socket(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int                fd      = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd);
}

/* What is no regular file is never replaced. */
TEST(output_that_is_no_file)
{
    struct stat info;
    char        in[128];

    snprintf(in, sizeof in, "%s", tool_write_text("in.csv", "a\n1\n"));
    assert_int_equal(mkfifo(tool_path("special-fifo"), 0600), 0);
    make_socket(tool_path("special-socket"));
    assert_int_equal(mkdir(tool_path("special-dir"), 0700), 0);
    assert_int_equal(symlink("special-fifo", tool_path("special-link")), 0);
    assert_int_equal(symlink("nothing", tool_path("special-loose")), 0);
    assert_int_equal(mkfifo(tool_path("special-00001-of-00002"), 0600), 0);
    TOOL_OUT(2, "", "special-fifo: exists and is not a regular file", "convert", in, "-o", tool_path("special-fifo"));
    TOOL_OUT(2, "", "is not a regular file", "convert", in, "-o", tool_path("special-socket"));
    TOOL_OUT(2, "", "is not a regular file", "convert", in, "-o", tool_path("special-dir"));
    TOOL_OUT(2, "", "is not a regular file", "convert", in, "-o", tool_path("special-link"));
    TOOL_OUT(2, "", "special-loose: is a symbolic link to nothing", "convert", in, "-o", tool_path("special-loose"));
    TOOL_OUT(2, "", "is not a regular file", "convert", in, "-o", tool_path("special"), "--shards", "2");
    assert_int_equal(tool_count_files("special"), 6);
    assert_int_equal(lstat(tool_path("special-fifo"), &info), 0);
    assert_true(S_ISFIFO(info.st_mode));
    assert_int_equal(lstat(tool_path("special-socket"), &info), 0);
    assert_true(S_ISSOCK(info.st_mode));
}

/* Through a symbolic link the file that it points at is replaced. */
TEST(output_through_link)
{
    const char *in = tool_write_text("in.csv", "a\n1\n");
    struct stat info;
    tool_run    run;

    assert_int_equal(mkdir(tool_path("elsewhere"), 0700), 0);
    tool_write_text("elsewhere/real.tfrecord", "old");
    assert_int_equal(symlink("elsewhere/real.tfrecord", tool_path("link.tfrecord")), 0);
    run = TOOL(0, "convert", in, "-o", tool_path("link.tfrecord"));
    tool_run_free(&run);
    assert_int_equal(lstat(tool_path("link.tfrecord"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    TOOL_OUT(0, "{\"a\": [1]}\n", "", "inspect", tool_path("elsewhere/real.tfrecord"));
    TOOL_OUT(2, "", "is both input and output", "convert", "--from", "csv", tool_path("elsewhere/real.tfrecord"), "-o",
             tool_path("link.tfrecord"));
}

/* Starts the tool without waiting for it. */
static pid_t start(const char *const *argv)
{
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        int null = open("/dev/null", O_WRONLY);

        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        alarm(TOOL_DEADLINE_SECS);
        execv(EST_TOOL, (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    return child;
}

static void expect_end_by(pid_t child, int signal_number)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), signal_number);
    assert_int_equal(tool_count_files("late"), 0);
}

/* A signal while it waits for more of its input, which never comes: it ends, and nothing is left behind. */
TEST(interrupted)
{
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
    const char      *fifo = tool_path("pipe.csv"), *out = tool_path("late.tfrecord");

    assert_int_equal(mkfifo(fifo, 0600), 0);
    for (int i = 0; i < 3; i++) {
        pid_t child = start(TOOL_ARGV("convert", fifo, "-o", out, "--columns", "a:int64"));
        int   fd    = open(fifo, O_WRONLY); /* waits for the tool to open the other end */

        assert_true(fd >= 0);
        assert_int_equal(write(fd, "a\n1\n", 4), 4);
        assert_int_equal(tool_count_files("late.tfrecord.tmp"), 1);
        assert_int_equal(kill(child, signals[i]), 0);
        expect_end_by(child, signals[i]);
        close(fd);
    }
}

/* Bytes that the process has read so far. */
static long long bytes_read(pid_t child)
{
    char      path[64], line[128];
    long long n = 0;
    FILE     *file;

    snprintf(path, sizeof path, "/proc/%ld/io", (long)child);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    assert_int_equal(sscanf(line, "rchar: %lld", &n), 1);
    fclose(file);
    return n;
}

/* A signal while types are found out: the file is named so often that reading all takes many times longer. */
TEST(interrupted_first_pass)
{
    enum { ROWS = 1 << 20, TIMES = 500 };
    static const char *argv[TIMES + 5] = { "estoc", "convert", "-o" };
    static char        text[2 * ROWS + 2];
    const char        *path;
    pid_t              child;

    text[0] = 'a';
    text[1] = '\n';
    for (size_t i = 2; i < sizeof text; i += 2) {
        text[i]     = '1';
        text[i + 1] = '\n';
    }
    path    = tool_write_file("long.csv", text, sizeof text);
    argv[3] = tool_path("late.tfrecord");
    for (int i = 0; i < TIMES; i++) argv[4 + i] = path;
    child = start(argv);
    while (bytes_read(child) < (long long)sizeof text) sched_yield(); /* it has an alarm */
    assert_int_equal(tool_count_files("late.tfrecord.tmp"), 1);
    assert_int_equal(kill(child, SIGINT), 0);
    expect_end_by(child, SIGINT);
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
