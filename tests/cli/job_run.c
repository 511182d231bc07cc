/* SPDX-License-Identifier: Apache-2.0
 *
 * Job files at work: what train, evaluate, predict and export make of one on small data with a planted rule, in every
 * format and with every model, also when they are killed on the way. */
#include "cli/job_data.h"

#include <poll.h>
#include <signal.h>
#include <time.h>

/* --- processes ---------------------------------------------------------------------------------------------------- */

/* Waits until the log of a process has a text. */
static void wait_for(const char *text)
{
    for (int i = 0; i < TOOL_DEADLINE_SECS * 1000; i++) {
        char *log   = tool_read_file("err", NULL);
        bool  found = strstr(log, text) != NULL;

        est_free(log);
        if (found) return;
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    fail_msg("\"%s\" never came", text);
}

/* --- what they do ------------------------------------------------------------------------------------------------- */

TEST(train_and_evaluate)
{
    const char *path = changed("seed: 3", "seed: 3");
    tool_run    run  = TOOL(0, "train", path, DIR("trained"), "--json"), table;
    est_json   *result, *again;

    result = tool_json(run.out);
    tool_expect_part(run.err, "Saving checkpoints for 150", "the log");
    assert_string_equal(json_string_value(est_json_get(result, "model_dir")), "trained");
    assert_true(metric(result, "metrics.accuracy") >
                0.97); /* the rule is exact; each of the columns alone gives half */
    assert_true(metric(result, "metrics.global_step") == 150);
    tool_run_free(&run);

    run = TOOL(0, "evaluate", path, DIR("trained"), "--json", "--quiet");
    tool_expect_text(run.err, "", "standard error");
    again = tool_json(run.out);
    assert_true(fabs(metric(again, "exact_auc") - metric(again, "auc")) < 0.005); /* 200 thresholds come near it */
    assert_int_equal(json_object_del((json_t *)again, "exact_auc"), 0);
    assert_true(json_equal(again, est_json_get(result, "metrics")));
    tool_run_free(&run);

    table = TOOL(0, "evaluate", path, DIR("trained"), "-q", "--set", "eval.steps=2");
    tool_expect_part(table.out, "metric ", "the table");
    tool_expect_part(table.out, "\nglobal_step                  150\n", "the table");
    tool_run_free(&table);

    /* An older checkpoint is another model. */
    run = TOOL(0, "evaluate", path, DIR("trained"), "--json", "-q", "--checkpoint", "trained/model.ckpt-50");
    est_json_free(again);
    again = tool_json(run.out);
    assert_true(metric(again, "global_step") == 50);
    tool_run_free(&run);

    /* Trained already: nothing to do, the same numbers. */
    run = TOOL(0, "train", path, DIR("trained"), "-q");
    tool_expect_part(run.out, "accuracy ", "the table");
    tool_run_free(&run);
    est_json_free(again);
    est_json_free(result);
}

TEST(train_alone)
{
    const char *path = changed("  eval: eval.csv\n", "");
    tool_run run = TOOL(0, "train", path, "-q", "--json", "--set", "export=[]", DIR("alone"), "--set", "data.epochs=1");

    tool_expect_text(run.out, "{\"model_dir\": \"alone\", \"metrics\": null}\n", "standard output");
    tool_run_free(&run);
    assert_int_equal(access("alone/model.ckpt-32.index", R_OK), 0); /* 2000 rows by 64 */
    /* Once more, and there is no end to say so. */
    run = TOOL(0, "train", path, "--set", "export=[]", DIR("alone"), "--set", "data.epochs=1", "--set", "train=null");
    tool_expect_part(run.err, "a training in alone has already ended: ", "standard error");
    tool_run_free(&run);
    assert_int_equal(access("alone/model.ckpt-64.index", R_OK), 0);
    run = TOOL(0, "train", path, "--set", "export=[]", DIR("fresh"), "--set", "data.epochs=1", "--set", "train=null");
    assert_null(strstr(run.err, "has already ended"));
    tool_run_free(&run);
    put("gap.csv", "age,trade,city,hours,rich\n,cook,Bern,40,no\n");
    TOOL_OUT(
        1, "",
        "column \"age\": \"\" is a missing value, but the column is required; give it a default or leave .required out\n",
        "train", path, "-q", "--set", "export=[]", DIR("x"), "--set", "data.train=gap.csv");
    TOOL_OUT(1, "", "no-such-file.csv", "train", path, "-q", "--set", "export=[]", DIR("x"), "--set",
             "data.train=no-such-file.csv");
}

/* CSV rows and JSON rows are the same rows; fields nobody asked for are passed over. */
TEST(predict)
{
    static const char csv[] = "note,hours,trade,age,city\n"
                              "x,44,smith,50,Bern\n"
                              ",,cook,50,\n"
                              "\"a\nb\",30,\"baker\",17.5,none\n"
                              "\n"
                              ",30,juggler,30,Chur\n";
    static const char jsonl[] =
        "{\"hours\": 44, \"trade\": \"smith\", \"age\": 50, \"city\": [\"Bern\"]}\n"
        "{\"hours\": null, \"trade\": \"cook\", \"age\": [50], \"city\": \"\"}\n"
        "\n"
        "{\"hours\": 30, \"trade\": \"baker\", \"age\": 17.5, \"city\": []}\n"
        "{\"hours\": 30, \"trade\": \"juggler\", \"age\": 30, \"city\": \"Chur\", \"more\": {}}";
    const char *path = changed("seed: 3", "seed: 3");
    tool_run    a, b, c;

    a = ask(0, csv, TOOL_ARGV("predict", path, DIR("trained"), "-q", "--keys", "classes,probabilities"));
    tool_expect_text(a.err, "", "standard error");
    tool_expect_part(a.out, "probabilities_0,probabilities_1,classes,error\n", "the header");
    assert_non_null(strstr(a.out, ",yes,\n"));
    b = ask(0, jsonl, TOOL_ARGV("predict", path, DIR("trained"), "-q", "--format", "jsonl", "--batch", "2"));
    c = ask(0, csv, TOOL_ARGV("predict", path, DIR("trained"), "-q", "--json"));
    assert_int_equal(tool_json_lines(b.out), 4);
    tool_expect_text(c.out, b.out, "the answers to CSV");
    tool_expect_part(c.out, "\"classes\": [\"yes\"]", "the first answer");
    tool_run_free(&a);
    tool_run_free(&b);
    tool_run_free(&c);
}

/* What the model says of the rows that it was evaluated on is what the evaluation counted. */
TEST(predict_as_evaluated)
{
    const char *path    = changed("seed: 3", "seed: 3");
    char       *rows    = tool_read_file("eval.csv", NULL);
    tool_run    run     = TOOL(0, "evaluate", path, DIR("trained"), "--json", "-q"), answers;
    est_json   *metrics = tool_json(run.out);
    const char *row, *answer;
    int         right = 0, n = 0;

    answers = ask(0, rows, TOOL_ARGV("predict", path, DIR("trained"), "-q", "--keys", "classes", "--batch", "77"));
    row     = strchr(rows, '\n');
    for (answer = strchr(answers.out, '\n'); answer[1] != '\0'; n++) {
        const char *label;
        size_t      size = strcspn(answer + 1, ",");

        row   = strchr(row + 1, '\n');
        label = row - size - 1; /* "yes." */
        right += strncmp(label, answer + 1, size) == 0 && label[-1] == ',';
        answer += 1 + size + 1; /* no error behind it */
        assert_int_equal(*answer, '\n');
    }
    assert_int_equal(n, N_ROWS);
    assert_true(fabs((double)right / N_ROWS - metric(metrics, "accuracy")) < 1e-6); /* float32 of the metric */
    tool_run_free(&run);
    tool_run_free(&answers);
    est_json_free(metrics);
    est_free(rows);
}

/* JSON has texts for the numbers that it cannot write. */
TEST(predict_special)
{
    const char *path = changed("seed: 3", "seed: 3");
    tool_run    csv  = ask(0, "age,trade,hours\ninf,,nan\n-inf,,inf\n50,,-inf\n",
                           TOOL_ARGV("predict", path, DIR("trained"), "-q", "--json", "--keys", "logits"));
    tool_run    json = ask(0,
                           "{\"age\": \"Infinity\", \"hours\": \"NaN\"}\n"
                              "{\"age\": \"-Infinity\", \"hours\": [\"Infinity\"]}\n"
                              "{\"age\": 50, \"hours\": \"-Infinity\", \"trade\": []}\n",
                           TOOL_ARGV("predict", path, DIR("trained"), "-q", "--format", "jsonl", "--keys", "logits"));

    tool_expect_text(json.out, csv.out, "the answers to JSON");
    assert_int_equal(tool_json_lines(json.out), 3);
    tool_run_free(&csv);
    tool_run_free(&json);
}

/* The other rows are answered, and the line of a bad one is named. */
TEST(predict_bad_rows)
{
    const char *path = changed("seed: 3", "seed: 3");
    tool_run    run;

#define ASK(rows, ...)                                                                                                 \
    ask(1, rows, TOOL_ARGV("predict", path, DIR("trained"), "-q", "--keys", "class_ids", __VA_ARGS__))
    run = ASK("age,trade,hours\n50,smith,\n\nx,cook,\n50,smith,\n", "--batch", "10");
    tool_expect_text(run.out, "class_ids,error\n1,\n,\"\"\"age\"\" is \"\"x\"\"; expected a number\"\n1,\n",
                     "standard output");
    tool_expect_text(run.err,
                     "estoc predict: standard input, line 4: \"age\" is \"x\"; expected a number\n"
                     "estoc predict: 1 of 3 rows have no prediction\n",
                     "standard error");
    tool_run_free(&run);
    run = ASK("age,trade,hours\nx\n1,2,3,4\n", "-q"); /* none is good */
    tool_expect_text(run.out, "error\n1 fields; the header has 3\n4 fields; the header has 3\n", "standard output");
    tool_run_free(&run);
    run = ASK("age,trade,hours\n1,2,3,4\n50,smith,\n", "-q"); /* a row with more fields, before the first answer */
    tool_expect_text(run.out, "class_ids,error\n,4 fields; the header has 3\n1,\n", "standard output");
    tool_run_free(&run);
    run = ASK("trade\nsmith\n", "-q");
    tool_expect_text(run.err,
                     "estoc predict: standard input, line 1: the field \"age\" is missing; the header is: trade\n",
                     "standard error");
    tool_run_free(&run);
    run = ASK("age,trade,hour\n50,smith,40\n", "-q"); /* although it has a default */
    tool_expect_part(run.err, "line 1: the field \"hours\" is missing; the header is: age,trade,hour\n",
                     "standard error");
    tool_run_free(&run);
    run = ASK("age,trade,hours\n,smith,40\n", "-q");
    tool_expect_part(run.err, "line 2: \"age\" is missing and has no default\n", "standard error");
    tool_run_free(&run);
    run = ASK("age,trade,hours\n50\n", "-q");
    tool_expect_part(run.err, "line 2: 1 fields; the header has 3\n", "standard error");
    tool_run_free(&run);
    run = ASK("age,trade,age\n", "-q");
    tool_expect_part(run.err, "line 1: two fields are called \"age\"; the header is: ", "standard error");
    tool_run_free(&run);
    run = ASK("", "-q");
    tool_expect_part(run.err, "line 1: the header with the names of the fields is missing", "standard error");
    tool_run_free(&run);
    run = ASK("{\"age\": 3}\n{\"age\": \"3\"}\n", "--format", "jsonl");
    tool_expect_text(run.out,
                     "{\"class_ids\": [0]}\n{\"error\": \"\\\"age\\\" takes a number, or a list of numbers\"}\n",
                     "standard output");
    tool_expect_part(run.err, "line 2: \"age\" takes a number, or a list of numbers\n", "standard error");
    tool_run_free(&run);
    run = ASK("{\"age\": \"NaNs\"}\n{\"age\": \"-Inf\"}\n{\"age\": \"\"}\n", "--format", "jsonl");
    assert_int_equal(tool_json_lines(run.out), 3);
    tool_expect_part(run.err, "3 of 3 rows have no prediction\n", "standard error");
    tool_run_free(&run);
    run = ASK("{\"age\": [1, 2]}\n", "--format", "jsonl");
    tool_expect_part(run.err, "line 1: \"age\" has 2 values; expected 1\n", "standard error");
    tool_run_free(&run);
    run = ASK("{\"age\": 3, \"trade\": 1}\n", "--format", "jsonl");
    tool_expect_part(run.err, "line 1: \"trade\" takes a string, or a list of strings\n", "standard error");
    tool_run_free(&run);
    run = ASK("[1]\n", "--format", "jsonl");
    tool_expect_part(run.err, "line 1: expected a JSON object\n", "standard error");
    tool_run_free(&run);
    run = ASK("{\"age\"\n", "--format", "jsonl");
    tool_expect_part(run.err, "standard input, line 1: not JSON: column 6: ", "standard error");
    tool_run_free(&run);
    run = ASK("{\"age\": 3, \"trade\": \"a\\u0000b\"}\n", "--format", "jsonl");
    tool_expect_part(run.err, "line 1: \\u0000 is not allowed in a text; remove it\n", "standard error");
    tool_run_free(&run);
#undef ASK
}

/* The first cells of all lines, each with a comma behind it. */
static void expect_cells(const char *out, const char *cells)
{
    est_strbuf text = { 0 };

    for (const char *line = out; *line != '\0'; line = strchr(line, '\n') + 1) {
        est_strbuf_printf(&text, "%.*s,", (int)strcspn(line, ",\n"), line);
    }
    tool_expect_text(est_strbuf_text(&text), cells, "the first column");
    est_strbuf_clear(&text);
}

/* Fields of the rows go along, also those of bad rows; a prediction of the same name takes the place of a field. */
TEST(predict_keeps_fields)
{
    static const char csv[] = "id,age,trade,hours,class_ids\na,50,smith,,9\n\"b,\",x,cook,,9\nc\nd,50,smith,,9\n";
    const char       *path  = changed("seed: 3", "seed: 3");
    tool_run          run;

#define ASK(code, rows, ...)                                                                                           \
    ask(code, rows, TOOL_ARGV("predict", path, DIR("trained"), "-q", "--keys", "class_ids", __VA_ARGS__))
    run = ASK(1, csv, "--keep", "id", "--batch", "2");
    tool_expect_text(run.out,
                     "id,class_ids,error\na,1,\n\"b,\",,\"\"\"age\"\" is \"\"x\"\"; expected a number\"\n"
                     "c,,1 fields; the header has 5\nd,1,\n",
                     "standard output");
    tool_run_free(&run);
    run = ASK(1, csv, "--keep", "*", "--json");
    tool_expect_part(run.out,
                     "{\"id\": \"a\", \"age\": \"50\", \"trade\": \"smith\", \"hours\": \"\", \"class_ids\": [1]}\n",
                     "the first answer");
    tool_expect_part(run.out, "{\"id\": \"c\", \"error\": \"1 fields", "the answer to a row that is cut off");
    tool_run_free(&run);
    run = ASK(
        0,
        "{\"id\": [7, null, 0.1], \"other\": 0.30000000000000004, \"error\": 1, \"age\": 50, \"trade\": \"smith\", \"hours\": 1}\n",
        "--keep", "id,other,error", "--format", "jsonl");
    tool_expect_text(run.out, "{\"id\": [7, null, 0.1], \"other\": 0.30000000000000004, \"class_ids\": [1]}\n",
                     "standard output");
    tool_run_free(&run);
    run = ASK(1, csv, "--keep", "id,none");
    tool_expect_text(run.out, "", "standard output");
    tool_expect_text(run.err, "estoc predict: --keep: no field \"none\" in the rows\n", "standard error");
    tool_run_free(&run);
#undef ASK
}

/* An id that is out of range is for the model to find, in a batch of others. Those are answered, in their places. */
TEST(predict_refused)
{
    static const char *const batches[] = { "1", "2", "3", "100" };
    const char              *path      = put("job.yaml", "model: {type: linear_classifier, columns: [trade]}\n"
                                                                           "features: {trade: {type: identity, buckets: 8}}\n"
                                                                           "data: {train: ids.csv, label: rich}\n"
                                                                           "run: {seed: 1, model_dir: ids}\n"
                                                                           "train: {max_steps: 20}\n");
    static const char        rows[]    = "trade\n7\n3\n8\n7\nx\n3\n-9\ny\n9\n";
    tool_run                 run;

    put("ids.csv", "trade,rich\n7,1\n3,0\n5,0\n"); /* most are not rich: nor is one of whom nothing is known */
    run = TOOL(0, "train", path, "-q");
    tool_run_free(&run);
    for (size_t i = 0; i < 4; i++) {
        run = ask(1, rows, TOOL_ARGV("predict", path, "-q", "--keys", "class_ids", "--batch", batches[i]));
        expect_cells(run.out, "class_ids,1,0,,1,,0,0,,,");
        tool_expect_part(run.err, "estoc predict: standard input, line 4: ", "standard error");
        tool_expect_part(run.err, "estoc predict: standard input, line 6: ", "standard error");
        tool_expect_part(run.err, "estoc predict: standard input, line 9: ", "standard error");
        tool_expect_part(run.err, "estoc predict: standard input, line 10: ", "standard error");
        tool_expect_part(run.err, "estoc predict: 4 of 9 rows have no prediction\n", "standard error");
        tool_run_free(&run);
        run = ask(1, rows, TOOL_ARGV("predict", path, "-q", "--json", "--keys", "class_ids", "--batch", batches[i]));
        assert_int_equal(tool_json_lines(run.out), 9);
        for (int k = 0; k < 9; k++) {
            const char *line = run.out;

            for (int skip = 0; skip < k; skip++) line = strchr(line, '\n') + 1;
            assert_int_equal(strncmp(line, "{\"error\": \"", 11) == 0, k == 2 || k == 4 || k >= 7);
        }
        tool_run_free(&run);
    }
}

/* Rows are as the files are: with csv.fields there is no header, and the other keys of data.csv hold, too. */
TEST(predict_as_csv_says)
{
    const char *path = changed("csv: {na: none}",
                               "csv: {fields: [age, trade, city, hours, rich], delimiter: ';', na: '?', trim: true}");
    tool_run    run, same;

#define ASK(code, rows) ask(code, rows, TOOL_ARGV("predict", path, DIR("trained"), "-q", "--keys", "probabilities"))
    run = ASK(0, "50; smith ;Bern;?;\n30;smith;;44;no\n");
    tool_expect_text(run.err, "", "standard error");
    path = changed("seed: 3", "seed: 3");
    same = ASK(0, "trade,age,hours\nsmith,50,\nsmith,30,44\n");
    tool_expect_text(run.out, same.out, "the answers to rows without a header");
    tool_run_free(&run);
    tool_run_free(&same);

    path = changed("csv: {na: none}", "csv: {fields: [age, trade, city, hours, rich]}");
    run  = ASK(1, "50,smith,40\n");
    tool_expect_part(run.err, "estoc predict: standard input, line 1: 3 fields; data.csv.fields has 5\n",
                     "standard error");
    tool_run_free(&run);
    run = ASK(1, "age,trade,city,hours,rich\n50,smith,,40,\n");
    tool_expect_part(run.err, "line 1: found a header, but data.csv.fields is given; ", "standard error");
    tool_run_free(&run);
    run = ask(0, "age,trade,city,hours,rich\n50,smith,,40,\n",
              TOOL_ARGV("predict", path, DIR("trained"), "-q", "--set", "data.csv.fields=null"));
    tool_run_free(&run);
    path = changed("csv: {na: none}", "csv: {fields: [age, trade, city, hours, rich, age]}");
    run  = ASK(1, "");
    tool_expect_text(run.err, "estoc predict: data.csv.fields: two fields are called \"age\"\n", "standard error");
    tool_run_free(&run);

    path = changed("csv: {na: none}", "csv: {quotes: false}"); /* a quote is a character of an unknown word */
    run  = ASK(0, "age,trade,hours\n50,\"smith,40\n");
    tool_run_free(&run);
#undef ASK
}

/* A key that no row has is most likely misspelt; one that some rows leave out is not. */
TEST(predict_warns)
{
    static const char rows[]    = "{\"age\": 50, \"hour\": 44}\n{\"age\": 50, \"trade\": \"cook\"}\n{\"age\": 30}\n";
    static const char warning[] = "estoc predict: no row of the first %d has \"%s\": it counts as missing\n";
    const char       *path      = changed("seed: 3", "seed: 3");
    char              hours[128], both[256];
    tool_run          run;

#define ASK(batch) ask(0, rows, TOOL_ARGV("predict", path, DIR("trained"), "-q", "--format", "jsonl", "--batch", batch))
    snprintf(hours, sizeof hours, warning, 3, "hours");
    run = ASK("1024"); /* the input ends before the batch is full */
    tool_expect_text(run.err, hours, "standard error");
    tool_run_free(&run);
    snprintf(hours, sizeof hours, warning, 2, "hours");
    run = ASK("2");
    tool_expect_text(run.err, hours, "standard error");
    tool_run_free(&run);
    snprintf(hours, sizeof hours, warning, 1, "hours");
    snprintf(both, sizeof both, warning, 1, "trade");
    run = ASK("1");
    tool_expect_part(run.err, hours, "standard error");
    tool_expect_part(run.err, both, "standard error");
    assert_int_equal(strlen(run.err), strlen(hours) + strlen(both));
    tool_run_free(&run);
#undef ASK
}

/* A program that asks row by row, over pipes, and waits for every answer. */
typedef struct client {
    pid_t child;
    int   in, out; /* its ends */
} client;

static client client_start(const char *const *argv)
{
    client c;
    int    in[2], out[2], err = tool_open_new("err");

    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    c = (client){ .child = fork(), .in = in[1], .out = out[0] };
    assert_true(c.child >= 0);
    if (c.child == 0) {
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        dup2(err, STDERR_FILENO);
        tool_exec(argv);
    }
    close(err);
    close(in[0]);
    close(out[1]);
    return c;
}

static void client_say(const client *c, const char *text)
{
    tool_check(est_file_write_all(c->in, "pipe", text, strlen(text)));
}

/* The next line is this, or begins with it, and comes without another row. */
static void client_expect(const client *c, const char *wanted)
{
    char   line[512];
    size_t n = 0;

    do {
        struct pollfd output = { .fd = c->out, .events = POLLIN };

        if (poll(&output, 1, TOOL_DEADLINE_SECS * 1000) != 1) fail_msg("there is no answer; expected %s", wanted);
        assert_int_equal(read(c->out, line + n, 1), 1);
    } while (line[n] != '\n' && ++n < sizeof line - 1);
    line[n] = '\0';
    if (strncmp(line, wanted, strlen(wanted)) != 0) fail_msg("\"%s\" is not \"%s\"", line, wanted);
}

static void client_end(client *c, int expected)
{
    int  status;
    char more;

    close(c->in);
    assert_int_equal(read(c->out, &more, 1), 0);
    close(c->out);
    assert_int_equal(waitpid(c->child, &status, 0), c->child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), expected);
}

/* Every row is answered before the next one is written: good, unreadable and refused ones, the shortest, and a good one
 * behind which half a row has come, whatever the batch is. */
TEST(predict_streams)
{
    static const char *const batches[] = { "1", "2", "1024" };
    static const char *const firsts[]  = { "{\"t\":7}\n", "x\n", "{\"t\":8}\n" };
    const char              *path      = put("job.yaml", "model: {type: linear_classifier, columns: [t]}\n"
                                                                           "features: {t: {type: identity, buckets: 8}}\n"
                                                                           "data: {train: t.csv, label: rich, csv: {fields: [t, rich]}}\n"
                                                                           "run: {seed: 1, model_dir: streams}\n"
                                                                           "train: {max_steps: 20}\n");
    tool_run                 run;
    client                   c;

    put("t.csv", "7,1\n3,0\n5,0\n");
    run = TOOL(0, "train", path, "-q");
    tool_run_free(&run);
#define START(...) client_start(TOOL_ARGV("predict", path, "-q", "--keys", "class_ids", __VA_ARGS__))
    for (size_t i = 0; i < 3; i++) {
        for (size_t first = 0; first < 3; first++) {
            c = START("--format", "jsonl", "--batch", batches[i]);
            client_say(&c, firsts[first]);
            client_expect(&c, first == 0 ? "{\"class_ids\": [1]}" : "{\"error\": ");
            client_say(&c, "{\"t\":3}\n");
            client_expect(&c, "{\"class_ids\": [0]}");
            client_say(&c, "y\n");
            client_expect(&c, "{\"error\": \"not JSON");
            client_say(&c, "{\"t\":9}\n");
            client_expect(&c, "{\"error\": ");
            client_say(&c, "{\"t\":7}\n{\"t\":9}\n{\"t\":3}\nz\n{\"t\":7}\n{\"t\"");
            client_expect(&c, "{\"class_ids\": [1]}");
            client_expect(&c, "{\"error\": ");
            client_expect(&c, "{\"class_ids\": [0]}");
            client_expect(&c, "{\"error\": \"not JSON");
            client_expect(&c, "{\"class_ids\": [1]}");
            client_say(&c, ":7}\n");
            client_expect(&c, "{\"class_ids\": [1]}");
            client_end(&c, 1);
        }
        c = START("--batch", batches[i]);
        client_say(&c, "7,\n");
        client_expect(&c, "class_ids");
        client_expect(&c, "1,");
        client_say(&c, "z,\n8,\n3,\n");
        client_expect(&c, ",");
        client_expect(&c, ",");
        client_expect(&c, "0,");
        client_end(&c, 1);
    }
#undef START
}

static int count_lines(const char *path)
{
    char *text = tool_read_file(path, NULL);
    int   n    = 0;

    for (const char *at = text; *at != '\0'; at++) n += *at == '\n';
    est_free(text);
    return n;
}

TEST(export)
{
    const char *path = changed("seed: 3", "seed: 3");
    tool_run    run  = TOOL(0, "export", path, DIR("trained"), "-q");
    char        file[512];
    est_json   *result;

    run.out[strcspn(run.out, "\n")] = '\0';
    assert_int_equal(strncmp(run.out, "trained/export/job/", 19), 0);
    snprintf(file, sizeof file, "%s/saved_model.pb", run.out);
    assert_int_equal(access(file, R_OK), 0);
    tool_run_free(&run);

    run    = TOOL(0, "export", path, DIR("trained"), "-q", "--json", "-o", "elsewhere");
    result = tool_json(run.out);
    assert_int_equal(strncmp(json_string_value(est_json_get(result, "path")), "elsewhere/", 10), 0);
    est_json_free(result);
    tool_run_free(&run);

    /* What training exported beside its evaluations. */
    assert_int_equal(access("trained/export/best", R_OK), 0);
    assert_int_equal(access("trained/export/final", R_OK), 0);
}

/* An export predicts what its job predicts, from every format of rows. */
TEST(predict_saved_model)
{
    static const char rows[]  = "age,trade,city,hours\n50,smith,Bern,44\nold,cook,,\n17.5,baker,none,30\n";
    static const char jsonl[] = "{\"hours\": 44, \"trade\": \"smith\", \"age\": 50, \"city\": \"Bern\"}\n"
                                "{\"trade\": \"cook\", \"age\": \"old\"}\n"
                                "{\"hours\": 30, \"trade\": [\"baker\"], \"age\": 17.5, \"city\": [\"none\"]}\n";
    const char       *path    = changed("seed: 3", "seed: 3");
    tool_run          job, model, lines, run;
    char             *answers;

    run = TOOL(0, "export", path, DIR("trained"), "-q", "-o", "served");
    tool_run_free(&run);
    job   = ask(1, rows,
                TOOL_ARGV("predict", path, DIR("trained"), "-q", "--keys", "logits,probabilities", "--keep", "age"));
    model = ask(1, rows,
                TOOL_ARGV("predict", "served", "-q", "--signature", "predict", "--keys", "logits,probabilities",
                          "--keep", "age"));
    tool_expect_text(model.out, job.out, "the answers of the export");
    tool_expect_part(model.out, "\nold,,,,", "the row that cannot be read");
    tool_expect_part(model.err, "standard input, line 3: \"age\" is \"old\"; expected a number", "standard error");
    lines = ask(1, rows, TOOL_ARGV("predict", "served", "-q", "--signature", "predict", "--json"));
    run   = ask(1, jsonl, TOOL_ARGV("predict", "served", "-q", "--signature", "predict", "--format", "jsonl"));
    assert_int_equal(tool_json_lines(run.out), 3);
    assert_int_equal(strncmp(run.out, lines.out, strcspn(lines.out, "\n")), 0);
    tool_run_free(&run);
    tool_run_free(&lines);
    tool_run_free(&job);

    /* Records, and files in place of the standard streams. */
    put("good.csv", "age,trade,city,hours\n50,smith,Bern,44\n17.5,baker,none,30\n");
    run = TOOL(0, "convert", "good.csv", "-o", "good.tfrecord", "--columns",
               "age:float,trade:string,city:string,hours:float");
    tool_run_free(&run);
    run = TOOL(0, "predict", "served", "-q", "--signature", "predict", "--format", "tfrecord", "--input",
               "good.tfrecord", "--output", "answers.jsonl");
    tool_expect_text(run.out, "", "standard output");
    answers = tool_read_file("answers.jsonl", NULL);
    assert_int_equal(tool_json_lines(answers), 2);
    est_free(answers);
    tool_run_free(&run);
    tool_run_free(&model);
    run = TOOL(0, "predict", "served", "-q", "--input", "good.csv"); /* serving_default */
    tool_expect_part(run.out, "scores_0,", "the header");
    tool_run_free(&run);
    TOOL_OUT(1, "", "predict", "predict", "served", "-q", "--signature", "predikt", "--input", "good.csv");
    TOOL_OUT(2, "", "--signature is for SavedModels", "predict", path, DIR("trained"), "--signature", "predict");
    TOOL_OUT(2, "", "--keep is for csv and jsonl", "predict", "served", "--format", "tfrecord", "--keep", "age");
    TOOL_OUT(3, "", "nothing.csv", "predict", "served", "--input", "nothing.csv");
}

/* --- interrupted -------------------------------------------------------------------------------------------------- */

/* Ends an endless training with a signal, goes on with it for a while, and compares the end with that of one that was
 * left alone. */
static void check_resumed(const char *dir, const char *whole_dir, int signal, int code)
{
    const char *path = changed("throttle_secs: 0", "throttle_secs: 600");
    char        set[64], whole_set[64], steps[64];
    tool_run    run, whole;
    est_json   *metrics;
    pid_t       child;

    snprintf(set, sizeof set, "run.model_dir=%s", dir);
    snprintf(whole_set, sizeof whole_set, "run.model_dir=%s", whole_dir);
    child = start(TOOL_ARGV("train", path, "--set", set, "--set", "train.max_steps=null"), -1);
    wait_for("Saving checkpoints for 100"); /* the one before it is whole */
    assert_int_equal(kill(child, signal), 0);
    run = finish(child, code);
    tool_run_free(&run);
    run     = TOOL(0, "evaluate", path, "--set", set, "-q", "--json");
    metrics = tool_json(run.out);
    assert_true(metric(metrics, "global_step") >= 50);
    snprintf(steps, sizeof steps, "train.max_steps=%d", (int)metric(metrics, "global_step") + 120);
    est_json_free(metrics);
    tool_run_free(&run);

    run   = TOOL(0, "train", path, "--set", set, "--set", steps, "-q");
    whole = TOOL(0, "train", path, "--set", whole_set, "--set", steps, "-q");
    tool_expect_part(run.out, strchr(steps, '=') + 1, "the metrics");
    tool_expect_text(run.out, whole.out, "the metrics of the resumed run");
    tool_run_free(&run);
    tool_run_free(&whole);
}

TEST(killed_and_resumed)
{
    check_resumed("killed", "not-killed", SIGKILL, 1000 + SIGKILL);
    check_resumed("stopped", "not-stopped", SIGTERM, 75);
}

TEST(endless)
{
    const char *path  = changed("train: {max_steps: 150}\n", "");
    pid_t       child = start(TOOL_ARGV("train", path, DIR("endless")), -1);
    tool_run    run;

    wait_for("neither data.epochs nor train.max_steps is given: training continues until it is stopped\n");
    wait_for("Saving checkpoints for 150");
    assert_int_equal(kill(child, SIGINT), 0);
    run = finish(child, 75);
    tool_expect_text(run.out, "", "standard output");
    tool_run_free(&run);
}

/* --- every model and format --------------------------------------------------------------------------------------- */

#define RMS_PROP "{name: RMSProp, learning_rate: 0.01, decay: 0.5, centered: true}"

TEST(models)
{
    static const char *const models[] = {
        "{type: dnn_classifier, columns: [hours, trade_vector], hidden_units: 8, optimizer: Adam, activation: gelu}",
        "{type: linear_classifier, columns: [ages, ages_x_trade], sparse_combiner: mean, n_classes: 2}",
        "{type: dnn_linear_combined_classifier, linear_columns: [place], loss_reduction: mean}",
        "{type: baseline_classifier, optimizer: {name: Momentum, learning_rate: 0.1, nesterov: true}}",
        "{type: dnn_classifier, columns: [hours], hidden_units: [4], batch_norm: true, v1: true, optimizer: " RMS_PROP
        "}",
    };
    static const char *const regressors[] = {
        "{type: dnn_regressor, columns: [trade_vector], hidden_units: 8, optimizer: {name: Adadelta, learning_rate: 0.5}}",
        "{type: linear_regressor, columns: [ages, trade], optimizer: {name: Adamax, learning_rate: 0.1}}",
        ("{type: dnn_linear_combined_regressor, dnn_columns: [trade_vector], hidden_units: 3, linear_columns: [place], "
         "dnn_optimizer: {name: Nadam, learning_rate: 0.1, beta1: 0.8}}"),
        "{type: baseline_regressor, optimizer: SGD}",
    };
    const char *path = changed("seed: 3", "seed: 3");
    char        set[512], dir[64];

    for (size_t i = 0; i < 9; i++) {
        tool_run run;

        snprintf(dir, sizeof dir, "run.model_dir=model%zu", i);
        snprintf(set, sizeof set, "model=%s", i < 5 ? models[i] : regressors[i - 5]);
        run = TOOL(0, "train", path, "-q", "--set", set, "--set", dir, "--set", "train.max_steps=60", "--set",
                   i < 5 ? "data.batch=64" : "data.label=age", "--set",
                   i < 5 ? "data.batch=64" : "features.age.key=hours", "--set", "features.age.default=30");
        tool_expect_part(run.out, "average_loss ", "the metrics");
        tool_run_free(&run);
        run = ask(0, "age,trade,hours,city\n50,smith,,Bern\n30,cook,40,\n",
                  TOOL_ARGV("predict", path, "-q", "--set", set, "--set", dir, "--keys",
                            i < 5 ? "class_ids" : "predictions", "--set", i < 5 ? "data.batch=64" : "data.label=age",
                            "--set", i < 5 ? "data.batch=64" : "features.age.key=hours", "--set",
                            "features.age.default=30"));
        assert_int_equal(count_lines("out"), 3);
        tool_run_free(&run);
        run = TOOL(0, "export", path, "-q", "--set", set, "--set", dir, "--set",
                   i < 5 ? "data.batch=64" : "data.label=age", "--set",
                   i < 5 ? "data.batch=64" : "features.age.key=hours", "--set", "features.age.default=30");
        tool_run_free(&run);
    }
}

/* The same rows as Examples give the same training, bit for bit. */
TEST(tfrecords)
{
    const char *path = changed("seed: 3", "seed: 3");
    tool_run    csv, examples;

    for (int i = 0; i < 2; i++) {
        tool_run run = TOOL(0, "convert", i == 0 ? "train.csv" : "eval.csv", "-o",
                            i == 0 ? "train.tfrecord" : "eval.tfrecord", "--na", "none", "--columns",
                            "age:float,trade:bytes,city:bytes,hours:float,rich:bytes");

        tool_run_free(&run);
    }
#define CROSS                                                                                                          \
    "--set", "features.c={type: cross, sources: [city, ages], buckets: 90}", "--set", "model.linear_columns=[c, trade]"
    csv      = TOOL(0, "train", path, "-q", DIR("of-csv"), CROSS);
    examples = TOOL(0, "train", path, "-q", DIR("of-examples"), CROSS, "--set", "data.format=tfrecord", "--set",
                    "data.train=[train.tfrecord]", "--set", "data.eval=eval.tfrecord");
#undef CROSS
    tool_expect_text(examples.out, csv.out, "the metrics of Examples");
    tool_run_free(&csv);
    tool_run_free(&examples);
    TOOL_OUT(1, "", "train.tfrecord is a TFRecord file; set data.format to tfrecord", "train", path, "-q", DIR("wrong"),
             "--set", "data.train=train.tf*");
    TOOL_OUT(1, "",
             "train.csv: record 0 at byte 0: damaged: the checksum of its length is wrong; is this a TFRecord file?",
             "train", path, "-q", DIR("wrong"), "--set", "data.format=tfrecord");
}

/* "" and -1 of a category are values where the model has learnt from Examples, as in an export, and none where from
 * CSV. */
TEST(predict_none)
{
    static const char rows[] = "{\"trade\": null, \"code\": null}\n"
                               "{\"trade\": \"\", \"code\": []}\n"
                               "{\"trade\": [\"\", null], \"code\": [null]}\n"
                               "{\"code\": -1}\n"
                               "{\"trade\": [], \"code\": [-1]}\n";
    const char       *path   = put("job.yaml", "model: {type: linear_classifier, columns: [trade, code]}\n"
                                                       "features:\n"
                                                       "  trade: {type: hash, buckets: 50}\n"
                                                       "  code: {type: hash, dtype: int64, buckets: 50}\n"
                                                       "data: {format: tfrecord, train: none.tfrecord, label: rich}\n"
                                                       "run: {seed: 1, model_dir: none}\n"
                                                       "train: {max_steps: 20}\n");
    tool_run          run;
    char             *line[5];

    put("none.csv", "trade,code,rich\n,-1,1\na,3,0\n");
    run = TOOL(0, "convert", "none.csv", "-o", "none.tfrecord", "--columns", "trade:bytes,code:int64,rich:int64");
    tool_run_free(&run);
    run = TOOL(0, "train", path, "-q");
    tool_run_free(&run);
#define ASK(...) ask(0, rows, TOOL_ARGV("predict", path, "-q", "--format", "jsonl", "--keys", "logits", __VA_ARGS__))
    run     = ASK("--set", "data.format=tfrecord");
    line[0] = run.out;
    for (int i = 1; i < 5; i++) {
        line[i]     = strchr(line[i - 1], '\n') + 1;
        line[i][-1] = '\0';
    }
    line[4][strlen(line[4]) - 1] = '\0';
    assert_string_not_equal(line[1], line[0]); /* the bias alone */
    assert_string_equal(line[2], line[1]);
    assert_string_not_equal(line[3], line[0]);
    assert_string_equal(line[4], line[3]);
    tool_run_free(&run);
    run = ASK("--set", "data.format=csv");
    for (const char *at = run.out, *next; (next = strchr(at, '\n') + 1)[0] != '\0'; at = next) {
        assert_memory_equal(next, run.out, (size_t)(next - at));
    }
    tool_run_free(&run);
#undef ASK
}

TEST(libsvm)
{
    est_strbuf  text = { 0 };
    const char *path;
    tool_run    run;
    est_json   *result;

    for (int i = 0; i < 400; i++) {
        est_strbuf_printf(&text, "%d %d:1 %d:0.5\n", i % 3 == 0 ? 1 : -1, i % 3, 3 + i % 4);
    }
    put("rows.libsvm", est_strbuf_text(&text));
    est_strbuf_clear(&text);
    path   = put("job.yaml", "model: {type: linear_classifier, columns: [words]}\n"
                               "features:\n"
                               "  ids: {type: identity, key: index, buckets: 8}\n"
                               "  words: {type: weighted, source: ids, weight: value}\n"
                               "data: {format: libsvm, train: rows.libsvm, eval: rows.libsvm, label: label}\n"
                               "run: {seed: 1, model_dir: libsvm}\n"
                               "train: {max_steps: 100}\n");
    run    = TOOL(0, "train", path, "-q", "--json");
    result = tool_json(run.out);
    assert_true(metric(result, "metrics.accuracy") == 1);
    est_json_free(result);
    tool_run_free(&run);
    run = ask(0, "{\"index\": [0, 4], \"value\": [1, 0.5]}\n{\"index\": [1], \"value\": [1]}\n",
              TOOL_ARGV("predict", path, "-q", "--format", "jsonl", "--keys", "class_ids"));
    tool_expect_text(run.out, "{\"class_ids\": [1]}\n{\"class_ids\": [0]}\n", "standard output");
    tool_run_free(&run);
    put("rows.libsvm", "7 0:1\n");
    TOOL_OUT(1, "", "rows.libsvm:1: the label is 7; expected one of 2 classes", "train", path, "-q", "--set",
             "run.model_dir=other");
}

/* --- weights ------------------------------------------------------------------------------------------------------ */

/* Trade 7 of weight 2 is what is learnt; a row may have neither. */
static const char *weighted_job(void)
{
    est_strbuf text = { 0 };

    est_strbuf_append(&text, "trade,hours,rich\n");
    for (int i = 0; i < 400; i++) {
        est_strbuf_append(&text, i % 4 == 0 ? "7,2,1\n" : i % 4 == 1 ? "3,0.5,0\n" : i % 4 == 2 ? ",,0\n" : "-1,9,0\n");
    }
    put("weighted.csv", est_strbuf_text(&text));
    est_strbuf_clear(&text);
    return put("job.yaml", "model: {type: linear_classifier, columns: [weighed]}\n"
                           "features:\n"
                           "  trade: {type: identity, buckets: 8}\n"
                           "  weighed: {type: weighted, source: trade, weight: hours}\n"
                           "data: {train: weighted.csv, eval: weighted.csv, label: rich}\n"
                           "run: {seed: 1, model_dir: weighted}\n"
                           "train: {max_steps: 100}\n");
}

/* A category that is missing takes its weight with it; one without a weight is an error with its line. */
TEST(weighted)
{
    static const char csv[]   = "trade,hours\n7,2\n,\n,5\n-1,\n";
    static const char jsonl[] = "{\"trade\": [7], \"hours\": 2}\n"
                                "{\"trade\": null, \"hours\": []}\n"
                                "{\"trade\": [], \"hours\": [5]}\n"
                                "{\"trade\": [-1, null], \"hours\": [null, 3]}\n";
    static const char mixed[] = "{\"trade\": [-1, 7, null], \"hours\": [5, 2, null]}\n"
                                "{\"trade\": 7, \"hours\": 2}\n";
    const char       *path    = weighted_job();
    tool_run          run     = TOOL(0, "train", path, "-q", "--json"), a, b;
    est_json         *result  = tool_json(run.out);
    size_t            size;

    assert_true(metric(result, "metrics.accuracy") == 1);
    est_json_free(result);
    tool_run_free(&run);
#define ASK(code, rows, format)                                                                                        \
    ask(code, rows, TOOL_ARGV("predict", path, "-q", "--json", "--format", format, "--keys", "logits"))
    a = ASK(0, csv, "csv");
    b = ASK(0, jsonl, "jsonl");
    tool_expect_text(b.out, a.out, "the answers to JSON");
    assert_int_equal(tool_json_lines(a.out), 4);
    tool_run_free(&b);
    b    = ASK(0, mixed, "jsonl"); /* both as the first row above */
    size = strcspn(a.out, "\n") + 1;
    assert_int_equal(b.out_size, 2 * size);
    assert_memory_equal(b.out, a.out, size);
    assert_memory_equal(b.out + size, a.out, size);
    tool_run_free(&a);
    tool_run_free(&b);
    a = ASK(1, "trade,hours\n7,2\n7,\n", "csv");
    tool_expect_part(a.err, "line 3: \"trade\" has no weight; write one in \"hours\", or remove both\n",
                     "standard error");
    tool_run_free(&a);
    a = ASK(1, "{\"trade\": [7, 7], \"hours\": [2, null]}\n", "jsonl");
    tool_expect_part(a.err, "line 1: \"trade\" has no weight; ", "standard error");
    tool_run_free(&a);
    a = ASK(1, "{\"trade\": 7}\n", "jsonl");
    tool_expect_part(a.err, "line 1: \"trade\" has no weight; ", "standard error");
    tool_run_free(&a);
    a = ASK(1, "{\"trade\": [7, 7], \"hours\": [2]}\n", "jsonl");
    tool_expect_part(a.err, "line 1: \"hours\" has 1 weights for 2 values of \"trade\"\n", "standard error");
    tool_run_free(&a);
#undef ASK
    put("weighted.csv", "trade,hours,rich\n7,2,1\n7,,1\n");
#define SAY "weighted.csv:3: \"trade\" has no weight: \"hours\" is empty or NaN; write a weight there, or remove both\n"
    TOOL_OUT(1, "", SAY, "train", path, "-q", DIR("no-weight"));
    put("weighted.csv", "trade,hours,rich\n7,2,1\n7,nan,1\n");
    TOOL_OUT(1, "", SAY, "train", path, "-q", DIR("no-weight"));
#undef SAY
}

/* A combination is missing where a part of it is; a field of weights follows the gaps of one kind of rows only. */
TEST(weighted_cross)
{
    const char *path = put("job.yaml", "model: {type: linear_classifier, columns: [weighed]}\n"
                                       "features:\n"
                                       "  pair: {type: cross, sources: [trade, city], buckets: 50}\n"
                                       "  weighed: {type: weighted, source: pair, weight: hours}\n"
                                       "  trade: {type: identity, buckets: 8}\n"
                                       "  other: {type: weighted, source: trade, weight: hours}\n"
                                       "data: {train: pairs.csv, label: rich}\n"
                                       "run: {seed: 1, model_dir: weighted-cross}\n"
                                       "train: {max_steps: 20}\n");
    tool_run    run, same;

    put("pairs.csv", "trade,city,hours,rich\n7,Bern,2,1\n7,,,0\n,Chur,,0\n,,,0\n3,Chur,1,0\n");
    run = TOOL(0, "train", path, "-q");
    tool_run_free(&run);
    run  = ask(0, "trade,city,hours\n7,Bern,2\n7,,9\n,Chur,\n",
               TOOL_ARGV("predict", path, "-q", "--json", "--keys", "logits"));
    same = ask(0,
               "{\"trade\": 7, \"city\": \"Bern\", \"hours\": 2}\n{\"trade\": 7, \"hours\": 9}\n"
               "{\"city\": \"Chur\"}\n",
               TOOL_ARGV("predict", path, "-q", "--format", "jsonl", "--keys", "logits"));
    tool_expect_text(same.out, run.out, "the answers to JSON");
    tool_run_free(&run);
    tool_run_free(&same);
    TOOL_OUT(2, "",
             "job.yaml:6:50: the feature \"other\": the field \"hours\" already has the weights of other fields; use "
             "another field\n",
             "train", path, "-q", "--set", "model.columns=[weighed, other]");
    put("pairs.csv", "trade,city,hours,rich\n7,Bern,,1\n");
    TOOL_OUT(1, "", "pairs.csv:2: \"trade\" has no weight: \"hours\" is empty or NaN; ", "train", path, "-q",
             DIR("gap"));
}

/* The pairs of four rows by hand, weighed and not: scores are by trade, and ties count half. */
TEST(exact_auc)
{
    const char *path = put(
        "job.yaml", "model: {type: linear_classifier, columns: [trade]}\n"
                    "features: {trade: {type: identity, buckets: 8}}\n"
                    "data: {train: pairs.csv, eval: pairs.csv, label: {name: rich, vocabulary: [n, y], strip: .}}\n"
                    "run: {seed: 1, model_dir: pairs}\n"
                    "train: {max_steps: 20}\n");
    tool_run run;

    put("pairs.csv", "trade,w,rich\n1,1,y\n1,1,y\n2,1,n\n1,1,n.\n");
    run = TOOL(0, "train", path, "-q");
    tool_run_free(&run);
    run = TOOL(0, "evaluate", path, "-q", "--json"); /* of 4 pairs two are right and two are ties */
    tool_expect_part(run.out, ", \"exact_auc\": 0.75}\n", "the metrics");
    tool_run_free(&run);
    put("heavy.csv", "trade,w,rich\n1,1,y\n2,3,n\n1,1,n.\n");
    run = TOOL(0, "evaluate", path, "-q", "--set", "data.weight=w", "--set", "data.eval=heavy.csv");
    tool_expect_part(run.out, "\nexact_auc ", "the metrics");
    tool_expect_part(run.out, " 0.875\n", "the metrics"); /* (3 + 1/2) / 4 */
    tool_run_free(&run);
}

/* A baseline with a head is the baseline of that head. Half of the rows have no weight. */
TEST(baseline_head)
{
    const char *path = put("job.yaml", "model: {type: baseline_estimator, head: binary}\n"
                                       "data: {train: half.csv, eval: half.csv, label: rich, weight: w}\n"
                                       "run: {seed: 1, model_dir: head-baseline}\n"
                                       "train: {max_steps: 20}\n");
    tool_run    run, same;
    est_json   *whole, *half;

    put("half.csv", "rich,w\n1,2\n0,0\n0,3\n1,0\n");
    run  = TOOL(0, "train", path, "-q");
    same = TOOL(0, "train", path, "-q", "--set", "model={type: baseline_classifier}", DIR("own-baseline"));
    tool_expect_text(run.out, same.out, "the metrics of a head");
    tool_run_free(&run);
    tool_run_free(&same);
    run = ask(0, "x\n1\n2\n", TOOL_ARGV("predict", path, "-q", "--keys", "class_ids"));
    tool_expect_text(run.out, "class_ids,error\n0,\n0,\n", "standard output");
    tool_run_free(&run);
    run = TOOL(0, "export", path, "-q");
    tool_run_free(&run);
    run   = TOOL(0, "evaluate", path, "-q", "--json");
    whole = tool_json(run.out);
    tool_run_free(&run);
    run  = TOOL(0, "evaluate", path, "-q", "--json", "--set",
                "model.head={type: binary, loss_reduction: sum_over_nonzero_weights}");
    half = tool_json(run.out);
    tool_run_free(&run);
    assert_true(fabs(metric(half, "loss") / metric(whole, "loss") - 2) < 1e-6); /* of float32 */
    est_json_free(whole);
    est_json_free(half);

    put("half.svm", "1 1:2\n0 3:1\n0\n");
    run = TOOL(0, "train", path, "-q", "--set", "data={format: libsvm, train: half.svm, label: label}",
               DIR("svm-baseline"));
    tool_run_free(&run);
}

/* A baseline needs no features, and its rows nothing. */
TEST(baseline_alone)
{
    const char *path = put("job.yaml", "model: {type: baseline_classifier}\n"
                                       "data: {train: labels.csv, eval: labels.csv, label: rich}\n"
                                       "run: {seed: 1, model_dir: alone-baseline}\n"
                                       "train: {max_steps: 20}\n"
                                       "export: [final]\n");
    tool_run    run;

    put("labels.csv", "age,rich\n3,1\n4,1\n5,0\n");
    run = TOOL(0, "train", path, "-q");
    tool_run_free(&run);
    run = ask(0, "{}\n{\"age\": 3}\n", TOOL_ARGV("predict", path, "-q", "--format", "jsonl", "--keys", "class_ids"));
    tool_expect_text(run.out, "{\"class_ids\": [1]}\n{\"class_ids\": [1]}\n", "standard output");
    tool_run_free(&run);
}

/* A label that nobody knows is said with its place, as a word and as a number. */
TEST(bad_labels)
{
    const char *path = changed("seed: 3", "seed: 3");

    put("labels.csv", "age,trade,city,hours,rich\n50,cook,Bern,40,no\n50,cook,Bern,40,perhaps.\n");
    TOOL_OUT(1, "", "labels.csv:3: the label \"perhaps\" is not in data.label.vocabulary\n", "train", path, "-q",
             DIR("labels"), "--set", "data.train=labels.csv");
    put("labels.csv", "age,trade,city,hours,rich\n50,cook,Bern,40,1\n50,cook,Bern,40,2\n");
    TOOL_OUT(1, "", "labels.csv:3: the label is 2; expected one of 2 classes, from 0\n", "train", path, "-q",
             DIR("labels"), "--set", "data.train=labels.csv", "--set", "data.label=rich", "--set", "data.eval=null",
             "--set", "export=null");
}

/* What is learnt, or weighs a row, cannot be a feature. */
/* An id without a row in a table is found in the data, where its line is known; a cross takes it. */
TEST(bad_ids)
{
    const char *path = put("job.yaml",
                           "model: {type: dnn_linear_combined_classifier, dnn_columns: [e], hidden_units: 2}\n"
                           "features:\n"
                           "  trade: {type: identity, buckets: 8}\n"
                           "  e: {type: embedding, source: trade, dimension: 2}\n"
                           "  x: {type: cross, sources: [trade, city], buckets: 50}\n"
                           "data: {train: ids.csv, label: rich}\n"
                           "run: {seed: 1, model_dir: bad-ids}\n"
                           "train: {max_steps: 5}\n");
    tool_run    run;

    put("ids.csv", "trade,city,rich\n7,a,1\n,b,0\n-1,a,0\n8,b,1\n");
    TOOL_OUT(1, "", "ids.csv:5: \"trade\" is 8, which is not in 0..7 (features.trade.buckets)", "train", path, "-q");
    run = TOOL(0, "train", path, "-q", "--set", "data.bad_rows=100000", DIR("bad-ids-left-out"));
    tool_run_free(&run);
    run = TOOL(0, "train", path, "-q", "--set", "features.trade.default_id=0", DIR("bad-ids-default"));
    tool_run_free(&run);
    run = TOOL(0, "train", path, "-q", "--set", "model={type: linear_classifier, columns: [x]}",
               DIR("bad-ids-crossed"));
    tool_run_free(&run);
    run = TOOL(0, "convert", "ids.csv", "-o", "ids.tfrecord", "--na", "", "--columns",
               "trade:int64,city:bytes,rich:int64");
    tool_run_free(&run);
    TOOL_OUT(1, "", "\"trade\" is 8, which is not in 0..7 (features.trade.buckets)", "train", path, "-q", "--set",
             "data.format=tfrecord", "--set", "data.train=ids.tfrecord");
}

TEST(label_is_feature)
{
    const char *path;

    TOOL_OUT(2, "", "job.yaml:20:17: the label: \"trade\" is also read for a feature of the model; ", "train",
             changed("name: rich", "name: trade"), "-q", DIR("label"));
    path = changed("batch: 64", "weight: hours");
    TOOL_OUT(2, "", "job.yaml:18:3: the weight: \"hours\" is also read for a feature of the model; ", "train", path,
             "-q", DIR("label"));
}

/* A table that has another width than before is named by its feature. */
TEST(other_dimension)
{
    const char *path = changed("dimension: 2", "dimension: 3");
    tool_run    run;

#define SAY                                                                                                            \
    "job.yaml:16:61: the feature \"trade_vector\": its dimension is 3, but 2 in trained/model.ckpt-150, an "           \
    "earlier training; restore it, or name another run.model_dir\n"
    TOOL_OUT(1, "", SAY, "train", path, "-q", DIR("trained"));
    TOOL_OUT(1, "", SAY, "predict", path, "-q", DIR("trained"));
#undef SAY
    TOOL_OUT(1, "", "its dimension is 3, but 2 in trained/model.ckpt-50, ", "evaluate", path, "-q", DIR("trained"),
             "--checkpoint", "trained/model.ckpt-50");
    path = changed("hidden_units: [8, 4]", "hidden_units: [9, 4]");
    run  = TOOL(1, "evaluate", path, "-q", DIR("trained"));
    tool_expect_part(run.err, "kernel' is float32 [9,4], but ", "standard error");
    assert_null(strstr(run.err, "vocabulary")); /* no layer has one */
    tool_run_free(&run);
}

/* A table of an earlier run goes on in another model. */
TEST(warm_start)
{
    const char *path = changed("seed: 3", "seed: 3");
    tool_run    run  = TOOL(0, "train", path, DIR("warm"), "--set", "train.max_steps=1", "--set",
                            "warm_start={path: trained, variables: '.*trade.*'}");

    tool_expect_part(run.err, "Warm-starting from: trained\n", "the log");
    tool_run_free(&run);
}

/* The same file in another role: an evaluator finds the end of the training and leaves. */
TEST(tf_config)
{
    const char *path = changed("throttle_secs: 0", "throttle_secs: 0, start_delay_secs: 0");
    tool_run    run;

    setenv("TF_CONFIG",
           "{\"cluster\": {\"chief\": [\"localhost:1\"], \"worker\": [\"localhost:2\"]},"
           " \"task\": {\"type\": \"evaluator\", \"index\": 0}}",
           1);
    run = TOOL(0, "train", path, DIR("trained"), "--json");
    tool_expect_part(run.out, "\"global_step\": 150", "the metrics");
    assert_null(strstr(run.err, "Saving checkpoints for"));
    tool_run_free(&run);
    setenv("TF_CONFIG", "{", 1);
    run = TOOL(1, "train", path, DIR("trained"));
    tool_expect_part(run.err, "TF_CONFIG", "standard error");
    tool_run_free(&run);
    unsetenv("TF_CONFIG");
}

int main(void)
{
    return est_test_run(make_files, leave_dir);
}
