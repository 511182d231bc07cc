/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc predict` of a SavedModel with inputs of its own: every kind of them from CSV and JSON lines. */
#include "cli/job_data.h"
#include "estoc/estoc.h"

/* total = bias + both of x + whole + exact; the word and the counts as they come. bias is 0.5. */
static est_status sums(est_model *model, est_mode mode, const void *params)
{
    est_graph *g    = est_model_graph(model);
    est_node   bias = est_variable(g, "bias", EST_F32, EST_SHAPE_SCALAR);
    est_node   x    = est_reduce_sum(est_model_feature(model, "x"), EST_I64S(1, 2), false);

    (void)params;
    est_variable_initializer(bias, est_scalar(g, EST_F32, 0.5));
    x = est_add(x, est_cast(est_model_feature(model, "whole"), EST_F32));
    x = est_add(x, est_cast(est_model_feature(model, "exact"), EST_F32));
    x = est_add(x, est_read_variable(bias));
    est_model_predict(model, "total", x);
    est_model_predict(model, "word", est_model_feature(model, "word"));
    est_model_predict_ragged(model, "counts", est_model_ragged(model, "counts"));
    if (mode == EST_TRAIN) {
        est_model_loss(model, est_mean(x));
        est_model_train_op(model, est_assign_add(est_model_global_step(model), est_scalar(g, EST_I64, 1)));
    }
    return est_model_status(model);
}

static const est_component inputs[] = { { .name = "x", .dtype = EST_F32, .shape = { 2, { 2, 1 } } },
                                        { .name = "whole", .dtype = EST_I32 },
                                        { .name = "exact", .dtype = EST_F64 },
                                        { .name = "word", .dtype = EST_STRING },
                                        { .name = "counts", .dtype = EST_I64, .ragged = true } };

/* One row of all inputs. */
static est_status one_row(void *state, est_field *element)
{
    static const float x[2] = { 1, 2 };

    if (++*(int *)state > 1) return EST_OUT_OF_RANGE;
    tool_check(est_tensor_f32(EST_SHAPE(1, 2, 1), x, &element[0].values));
    tool_check(est_tensor_create_from(EST_I32, EST_SHAPE(1), (const int32_t[]){ 1 }, &element[1].values));
    tool_check(est_tensor_create_from(EST_F64, EST_SHAPE(1), (const double[]){ 1 }, &element[2].values));
    tool_check(est_tensor_create_from(EST_STRING, EST_SHAPE(1), (const est_str[]){ { "w", 1 } }, &element[3].values));
    tool_check(est_tensor_i64(EST_SHAPE(2), (const int64_t[]){ 1, 2 }, &element[4].values));
    tool_check(est_tensor_i64(EST_SHAPE(2), (const int64_t[]){ 0, 2 }, &element[4].splits));
    return EST_OK;
}

static est_status input(const est_input_context *context, void *user, est_dataset **out)
{
    est_component batched[5];

    (void)context;
    for (int i = 0; i < 5; i++) {
        batched[i]       = inputs[i];
        batched[i].shape = i == 0 ? EST_SHAPE(-1, 2, 1) : EST_SHAPE(-1);
    }
    *(int *)user = 0;
    return est_dataset_finish(
        est_dataset_generator((est_components){ batched, 5 }, EST_GENERATOR(.next = one_row, .user = user)), out);
}

static int export_model(void **state)
{
    est_estimator *e;
    int            rows;

    if (make_files(state) != 0) return 1;
    est_log_set_level(EST_LOG_ERROR);
    tool_check(est_estimator_create(sums, EST_ESTIMATOR(.model_dir = "sums"), &e));
    tool_check(est_train(e, EST_TRAIN_OPTIONS(.input_fn = input, .input_user = &rows, .steps = 1)));
    tool_check(est_export_saved_model(e, "served", EST_EXPORT(.input.raw = { inputs, 5 }), NULL));
    est_estimator_free(e);
    return 0;
}

TEST(rows_of_json_fill_inputs_of_every_kind)
{
    static const char rows[] =
        "{\"x\": [1, 2.5], \"whole\": 3, \"exact\": 0.25, \"word\": \"a\", \"counts\": [4, -1, 6]}\n"
        "{\"x\": [1, 2], \"whole\": 3.5, \"exact\": 0, \"word\": \"b\"}\n"
        "{\"x\": [1], \"whole\": 3, \"exact\": 0, \"word\": \"b\"}\n"
        "{\"x\": [[0], [0]], \"whole\": -3, \"exact\": 1, \"word\": \"\", \"id\": 7}\n"
        "{\"x\": [[0, 0]], \"whole\": 3, \"exact\": 0, \"word\": \"b\"}\n"
        "{\"x\": [[0], 0], \"whole\": 3, \"exact\": 0, \"word\": \"b\"}\n"
        "{\"x\": [0, [0]], \"whole\": 3, \"exact\": 0, \"word\": \"b\"}\n"
        "{\"x\": [0, 0], \"whole\": [[3]], \"exact\": 0, \"word\": \"b\"}\n";
    tool_run run = ask(1, rows, TOOL_ARGV("predict", "served", "-q", "--format", "jsonl", "--keep", "id"));

    tool_expect_text(run.out,
                     "{\"counts\": [4, -1, 6], \"total\": 7.25, \"word\": \"a\"}\n"
                     "{\"error\": \"\\\"whole\\\" takes a whole number, or a list of them\"}\n"
                     "{\"error\": \"\\\"x\\\" has 1 values; expected 2\"}\n"
                     "{\"id\": 7, \"counts\": [], \"total\": -1.5, \"word\": \"\"}\n"
                     "{\"error\": \"the lists of \\\"x\\\" have another shape than [2,1]; a flat list of all "
                     "its values works, too\"}\n"
                     "{\"error\": \"the lists of \\\"x\\\" have another shape than [2,1]; a flat list of all "
                     "its values works, too\"}\n"
                     "{\"error\": \"\\\"x\\\" takes a number, or a list of numbers\"}\n"
                     "{\"error\": \"the lists of \\\"whole\\\" have another shape than []; a flat list of all "
                     "its values works, too\"}\n",
                     "standard output");
    tool_expect_part(run.err, "6 of 8 rows have no prediction", "standard error");
    tool_run_free(&run);
}

/* n, and the number of the word: "" is 0, "b" 2. */
static est_node numbered(est_graph *graph, est_features in, bool training, void *user)
{
    est_node ids = est_layer_call(user, est_network_input_node(in, "word"), training);

    (void)graph;
    return est_add(est_network_input_node(in, "n"), est_cast(ids, EST_F32));
}

static void save_numbered(const char *dir)
{
    est_layer   *lookup = est_layer_string_lookup(EST_STRING_LOOKUP(.vocabulary = EST_STRINGS("b"), .mask_token = ""),
                                                  NULL);
    est_network *network;

    tool_check(
        est_network_create(numbered,
                           EST_NETWORK(.user = lookup, .inputs = EST_INPUTS({ "word", EST_STRING, EST_SHAPE_SCALAR },
                                                                            { "n", EST_F32, EST_SHAPE_SCALAR })),
                           &network));
    tool_check(est_network_save(network, dir));
    est_network_free(network);
    est_layer_free(lookup);
}

TEST(an_empty_field_is_an_empty_text)
{
    tool_run run;

    save_numbered("numbered");
    run = ask(1, "word,n\nb,1\n,1\nb,\n", TOOL_ARGV("predict", "numbered", "-q", "--keep", "word"));
    tool_expect_text(run.out,
                     "word,string_lookup,error\nb,3.0,\n,1.0,\nb,,\"\"\"n\"\" is missing and has no default\"\n",
                     "standard output");
    tool_run_free(&run);
}

TEST(the_name_of_the_input_says_its_format)
{
    tool_run run;

    save_numbered("numbered");
    tool_write_text("rows.jsonl", "{\"word\": \"b\", \"n\": 1}\n");
    run = TOOL(0, "predict", "numbered", "-q", "--input", "rows.jsonl");
    tool_expect_text(run.out, "{\"string_lookup\": 3.0}\n", "of JSON lines");
    tool_run_free(&run);
    tool_write_text("rows.csv", "word,n\nb,1.5\n");
    run = TOOL(0, "convert", "rows.csv", "-o", "rows.tfrecord");
    tool_run_free(&run);
    run = TOOL(0, "predict", "numbered/saved_model.pb", "-q", "--input", "rows.tfrecord");
    tool_expect_text(run.out, "{\"string_lookup\": 3.5}\n", "of Examples");
    tool_run_free(&run);
    run = ask(1, "", TOOL_ARGV("predict", "numbered", "-q", "--format", "csv", "--input", "rows.jsonl"));
    tool_expect_part(run.err, "rows.jsonl, line 1: field 1", "of CSV, which it is not");
    tool_run_free(&run);
}

/* Values with several axes, as images have them. */
TEST(rows_of_json_have_lists_of_lists)
{
    static const char rows[] = "{\"x\": [[1, 2, 3], [4, 5, 6]]}\n"
                               "{\"x\": [1, 2, 3, 4, 5, 6]}\n"
                               "{\"x\": [[1, 2], [3, 4], [5, 6]]}\n"
                               "{\"x\": [[1, 2, 3], 4]}\n"
                               "{\"x\": [[1, 2, 3], [4, 5, [6]]]}\n";
    est_network      *turned;
    tool_run          run;

    tool_check(est_network_sequential(EST_LAYERS(est_layer_reshape(EST_I64S(3, 2), "turned")),
                                      EST_NETWORK(.inputs = EST_INPUTS({ "x", EST_F32, EST_SHAPE(2, 3) })), &turned));
    tool_check(est_network_save(turned, "turned"));
    est_network_free(turned);
    run = ask(1, rows, TOOL_ARGV("predict", "turned", "-q", "--format", "jsonl"));
    tool_expect_text(run.out,
                     "{\"turned\": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]}\n"
                     "{\"turned\": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]}\n"
                     "{\"error\": \"the lists of \\\"x\\\" have another shape than [2,3]; a flat list of all "
                     "its values works, too\"}\n"
                     "{\"error\": \"the lists of \\\"x\\\" have another shape than [2,3]; a flat list of all "
                     "its values works, too\"}\n"
                     "{\"error\": \"the lists of \\\"x\\\" have another shape than [2,3]; a flat list of all "
                     "its values works, too\"}\n",
                     "standard output");
    tool_run_free(&run);
}

TEST(csv_cannot_hold_lists)
{
    tool_run run = ask(1, "x,whole,exact,word,counts\n1,2,3,a,4\n", TOOL_ARGV("predict", "served", "-q"));

    tool_expect_part(run.err, "\"x\" has 2 values a row, which CSV cannot hold; use --format jsonl", "standard error");
    tool_run_free(&run);
}

/* The truth value, the byte and the number, as float32. */
static est_node added(est_graph *graph, est_features in, bool training, void *user)
{
    est_node sum = est_cast(est_network_input_node(in, "flag"), EST_F32);

    (void)graph;
    (void)training;
    (void)user;
    return est_add(sum, est_cast(est_network_input_node(in, "byte"), EST_F32));
}

/* Whole numbers that the input cannot hold are refused where they are read, and in Examples. */
TEST(numbers_fit_their_inputs)
{
    est_network *network;
    tool_run     run;

    tool_check(est_network_create(
        added,
        EST_NETWORK(.inputs = EST_INPUTS({ "flag", EST_BOOL, EST_SHAPE_SCALAR }, { "byte", EST_U8, EST_SHAPE_SCALAR })),
        &network));
    tool_check(est_network_save(network, "narrow"));
    est_network_free(network);
    run = ask(1, "flag,byte\ntrue,255\n0,256\n2,0\nyes,0\nfalse,-1\n1,7\n",
              TOOL_ARGV("predict", "narrow", "-q", "--keep", "byte"));
    tool_expect_text(run.out,
                     "byte,output_1,error\n255,256.0,\n256,,\"\"\"byte\"\" is 256, which is no uint8\"\n"
                     "0,,\"\"\"flag\"\" is 2, which is no bool\"\n"
                     "0,,\"\"\"flag\"\" is \"\"yes\"\"; expected true or false\"\n"
                     "-1,,\"\"\"byte\"\" is -1, which is no uint8\"\n7,8.0,\n",
                     "of CSV");
    tool_run_free(&run);
    run = ask(1,
              "{\"flag\": true, \"byte\": 1}\n{\"flag\": 0, \"byte\": [300]}\n{\"flag\": \"yes\", \"byte\": 1}\n"
              "{\"flag\": false, \"byte\": true}\n",
              TOOL_ARGV("predict", "narrow", "-q", "--format", "jsonl"));
    tool_expect_text(run.out,
                     "{\"output_1\": 2.0}\n{\"error\": \"\\\"byte\\\" is 300, which is no uint8\"}\n"
                     "{\"error\": \"\\\"flag\\\" takes true or false, or a list of them\"}\n"
                     "{\"error\": \"\\\"byte\\\" takes a whole number, or a list of them\"}\n",
                     "of JSON lines");
    tool_run_free(&run);
    tool_write_text("narrow.csv", "flag,byte\n1,9\n0,300\n");
    run = TOOL(0, "convert", "narrow.csv", "-o", "narrow.tfrecord");
    tool_run_free(&run);
    run = ask(1, "", TOOL_ARGV("predict", "narrow", "-q", "--input", "narrow.tfrecord"));
    tool_expect_text(run.out, "{\"output_1\": 10.0}\n{\"error\": \"\\\"byte\\\" is 300, which is no uint8\"}\n",
                     "of Examples");
    tool_run_free(&run);
}

/* As many ones a row as the largest n of the batch says. */
static est_node spread(est_graph *graph, est_features in, bool training, void *user)
{
    est_node n      = est_network_input_node(in, "n");
    est_node widest = est_reshape(est_cast(est_reduce_max(n, EST_I64S(0), false), EST_I32), EST_I64S(1));
    est_node shape  = est_concat(EST_NODES(est_shape_of(n), widest), 0);

    (void)training;
    (void)user;
    return est_fill(shape, est_scalar(graph, EST_F32, 1));
}

static void save_spread(void)
{
    est_network *network;

    tool_check(
        est_network_create(spread, EST_NETWORK(.inputs = EST_INPUTS({ "n", EST_F32, EST_SHAPE_SCALAR })), &network));
    tool_check(est_network_save(network, "spread"));
    est_network_free(network);
}

/* A value never gets into a column of another. */
TEST(rows_of_another_width_are_errors_in_csv)
{
    tool_run run;

    save_spread();
    run = ask(1, "id,n\na,2\nb,3\nc,1\nd,2\n", TOOL_ARGV("predict", "spread", "-q", "--batch", "1", "--keep", "id"));
    tool_expect_text(run.out,
                     "id,output_1_0,output_1_1,error\na,1.0,1.0,\n"
                     "b,,,\"\"\"output_1\"\" has 3 values and the output 2 columns for it; use --json\"\n"
                     "c,,,\"\"\"output_1\"\" has 1 values and the output 2 columns for it; use --json\"\nd,1.0,1.0,\n",
                     "standard output");
    tool_expect_part(run.err, "standard input, line 3: \"output_1\" has 3 values", "standard error");
    tool_expect_part(run.err, "2 of 4 rows have no prediction", "standard error");
    tool_run_free(&run);
    run = ask(0, "n\n2\n3\n", TOOL_ARGV("predict", "spread", "-q", "--batch", "1", "--json"));
    tool_expect_text(run.out, "{\"output_1\": [1.0, 1.0]}\n{\"output_1\": [1.0, 1.0, 1.0]}\n", "JSON lines");
    tool_run_free(&run);
}

static est_status doubled(est_model *model, est_mode mode, const void *params)
{
    est_node n = est_model_feature(model, "n");

    (void)params;
    est_model_predict(model, "twice", est_scale(n, 2));
    if (mode == EST_TRAIN) {
        est_model_loss(model, est_mean(n));
        est_model_train_op(
            model, est_assign_add(est_model_global_step(model), est_scalar(est_model_graph(model), EST_I64, 1)));
    }
    return est_model_status(model);
}

static est_status one_number(const est_input_context *context, void *user, est_dataset **out)
{
    est_tensor *n;
    est_status  status;

    (void)context;
    (void)user;
    tool_check(est_tensor_f32(EST_SHAPE(1), (const float[]){ 1 }, &n));
    status = est_dataset_finish(est_dataset_batch(est_dataset_slices(EST_NAMED_TENSORS({ "n", n })), 1, NULL), out);
    est_tensor_free(n);
    return status;
}

static est_status three_rows(est_serving *serving, void *user)
{
    (void)user;
    est_serving_feature(serving, "n", est_serving_placeholder(serving, "n", EST_F32, EST_SHAPE(3)));
    return est_serving_status(serving);
}

/* A model that takes three rows at a time, as some were frozen: the last ones are filled up. */
TEST(a_batch_of_a_fixed_size_is_filled_up)
{
    est_estimator *e;
    tool_run       run;

    tool_check(est_estimator_create(doubled, EST_ESTIMATOR(.model_dir = "doubled"), &e));
    tool_check(est_train(e, EST_TRAIN_OPTIONS(.input_fn = one_number, .steps = 1)));
    tool_check(est_export_saved_model(e, "three", EST_EXPORT(.input = { .build = three_rows }), NULL));
    est_estimator_free(e);
    run = ask(1, "n\n1\n2\nx\n3\n4\n5\ny\n", TOOL_ARGV("predict", "three", "-q", "--keep", "n"));
    tool_expect_text(run.out,
                     "n,twice,error\n1,2.0,\n2,4.0,\nx,,\"\"\"n\"\" is \"\"x\"\"; expected a number\"\n"
                     "3,6.0,\n4,8.0,\n5,10.0,\ny,,\"\"\"n\"\" is \"\"y\"\"; expected a number\"\n",
                     "standard output");
    tool_run_free(&run);
}

/* The input at these places, however many rows there are. */
static est_node picked(est_graph *graph, est_features in, bool training, void *user)
{
    (void)training;
    return est_gather(est_network_input_node(in, "n"),
                      est_const_i32(graph, EST_SHAPE(*(int *)user), (const int32_t[]){ 0, 0, 0 }), 0);
}

static void save_picked(int n)
{
    est_network *network;

    tool_check(est_network_create(
        picked, EST_NETWORK(.user = &n, .inputs = EST_INPUTS({ "n", EST_F32, EST_SHAPE_SCALAR })), &network));
    tool_check(est_network_save(network, "picked"));
    est_network_free(network);
}

/* More answers than rows, or fewer: none is that of a row, and no row is at fault. */
TEST(answers_of_other_rows_are_errors)
{
    static const struct {
        int         answers;
        const char *batch;
        int         rows;
    } cases[] = { { 0, "1", 1 }, { 0, "2", 2 },    { 0, "1024", 4 }, { 1, "1024", 4 },
                  { 3, "1", 1 }, { 3, "1024", 4 }, { 1, "2", 2 } };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tool_run run;
        char     want[256];

        save_picked(cases[i].answers);
        run = ask(1, "n\n1\n2\n3\n4\n", TOOL_ARGV("predict", "picked", "-q", "--json", "--batch", cases[i].batch));
        snprintf(want, sizeof want,
                 "estoc predict: the predictions have %d examples for %d rows, so that their first axis is not that of "
                 "the rows: choose others with --keys\n",
                 cases[i].answers, cases[i].rows);
        tool_expect_text(run.err, want, "standard error");
        tool_expect_text(run.out, "", "standard output");
        tool_run_free(&run);
    }
}

TEST(the_output_is_not_the_input)
{
    tool_run run;

    save_spread();
    tool_write_text("kept.csv", "n\n1\n");
    run = ask(1, "", TOOL_ARGV("predict", "spread", "-q", "--input", "kept.csv", "--output", "./kept.csv"));
    tool_expect_part(run.err, "./kept.csv: has the rows; name another output", "standard error");
    tool_run_free(&run);
    run = TOOL(0, "predict", "spread", "-q", "--input", "kept.csv", "--output", "other.csv");
    tool_run_free(&run);
}

TEST(keys_are_predictions)
{
    tool_run run;

    save_spread();
    run = ask(1, "n\n1\n", TOOL_ARGV("predict", "spread", "-q", "--keys", "output_1,twos"));
    tool_expect_text(run.err, "estoc predict: --keys: there is no prediction \"twos\"; there are output_1\n",
                     "standard error");
    tool_expect_text(run.out, "", "standard output");
    tool_run_free(&run);
    run = ask(1, "n\n1\n", TOOL_ARGV("predict", "spread", "-q", "--output", "/dev/full"));
    tool_expect_part(run.err, "cannot write to /dev/full", "standard error");
    tool_run_free(&run);
}

TEST(inspect_shows_what_a_signature_takes)
{
    tool_run run = TOOL(0, "inspect", "served");

    tool_expect_part(run.out, "signature_def['serving_default'], method tensorflow/serving/predict\n", "the signature");
    tool_expect_part(run.out, "  inputs['x']\n    dtype: DT_FLOAT\n    shape: (-1, 2, 1)\n    name: x:0\n", "an input");
    tool_expect_part(run.out, "  outputs['total']\n    dtype: DT_FLOAT\n    shape: (-1,)\n", "an output");
    tool_run_free(&run);
}

int main(void)
{
    return est_test_run(export_model, leave_dir);
}
