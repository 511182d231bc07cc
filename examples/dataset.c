/* SPDX-License-Identifier: Apache-2.0
 *
 * Datasets, one transformation after the other: slices of arrays, reading a few elements, map, filter, shuffle, repeat
 * and batch, and the input_fn that is made of them. Above each part, the TensorFlow calls that it stands for. */
#include <estoc/estoc.h>
#include <stdio.h>

#define ROWS 10

/* Prints the first n elements of a dataset, which is taken: every component in turn.
 *
 * iterator = dataset.make_one_shot_iterator(), iterator.get_next() and Session.run(), or `for element in
 * dataset.take(n)` */
static est_status print_elements(const char *title, est_dataset *stages, int n)
{
    est_dataset  *dataset  = NULL;
    est_iterator *iterator = NULL;
    est_field     element[2];
    est_status    status = est_dataset_finish(stages, &dataset); /* the first error of any stage */

    printf("%s:", title);
    if (status == EST_OK) status = est_iterator_create(dataset, &iterator);
    for (int i = 0; i < n && status == EST_OK; i++) {
        status = est_iterator_next(iterator, element);
        if (status != EST_OK) break;
        for (int k = 0; k < est_dataset_components(dataset); k++) {
            int64_t count = est_tensor_count(element[k].values);

            printf(k == 0 ? " [" : " | ");
            for (int64_t j = 0; j < count; j++) {
                printf(j > 0 ? " %g" : "%g", (double)((const float *)est_tensor_data(element[k].values))[j]);
            }
        }
        printf("]");
        est_element_clear(element, est_dataset_components(dataset));
    }
    printf("\n");
    est_iterator_free(iterator);
    est_dataset_free(dataset);
    return status == EST_OUT_OF_RANGE ? EST_OK : status; /* the end */
}

/* --- sources ------------------------------------------------------------------------------------------------------ */

/* tf.data.Dataset.from_tensor_slices(np.array([1.0, 2.0, 3.0, 4.0, 5.0])) */
static est_dataset *numbers(void)
{
    static const float values[] = { 1, 2, 3, 4, 5 };
    est_tensor        *x        = NULL;
    est_status         status   = est_tensor_f32(EST_SHAPE(5), values, &x);
    est_dataset       *d        = status == EST_OK ? est_dataset_slices(EST_NAMED_TENSORS({ "x", x })) : NULL;

    est_tensor_free(x); /* the dataset shares it */
    return d;
}

/* Images of two pixels and their labels, as arrays. */
static est_status make_images(est_tensor **images, est_tensor **labels)
{
    float pixels[ROWS][2], classes[ROWS];

    for (int i = 0; i < ROWS; i++) {
        pixels[i][0] = (float)(2 * i);
        pixels[i][1] = (float)(2 * i + 1);
        classes[i]   = (float)(i % 3);
    }
    EST_TRY(est_tensor_f32(EST_SHAPE(ROWS, 2), pixels[0], images));
    return est_tensor_f32(EST_SHAPE(ROWS), classes, labels);
}

/* --- transformations ---------------------------------------------------------------------------------------------- */

/* dataset.map(lambda x: x * x): the function of a map is a graph, as TensorFlow makes one of a lambda */
static est_status square(est_dataset **d)
{
    est_graph *graph = NULL;

    EST_TRY(est_graph_create(0, &graph));
    est_node x = est_placeholder(graph, "x", EST_F32, EST_SHAPE_SCALAR);
    *d         = est_dataset_map_graph(*d, EST_NAMED_NODES({ "x", x }), EST_NAMED_NODES({ "x", est_mul(x, x) }), NULL);
    est_graph_free(graph); /* the dataset has a copy */
    return EST_OK;
}

/* dataset.map(tf.py_function(...)): a function in the language of the program */
static est_status halve(void *user, const est_field *in, est_field *out)
{
    float half = *(const float *)est_tensor_data(in[0].values) / 2;

    (void)user;
    return est_tensor_f32(EST_SHAPE_SCALAR, &half, &out[0].values);
}

/* dataset.filter(lambda x: x > 2) */
static est_status above_two(void *user, const est_field *element, bool *keep)
{
    (void)user;
    *keep = *(const float *)est_tensor_data(element[0].values) > 2;
    return EST_OK;
}

static est_status show_transformations(void)
{
    est_dataset *squares = numbers();

    EST_TRY(square(&squares));
    EST_TRY(print_elements("map", squares, ROWS));
    EST_TRY(print_elements("map with a function", est_dataset_map(numbers(), halve, NULL), ROWS));
    EST_TRY(print_elements("filter", est_dataset_filter(numbers(), above_two, NULL), ROWS));
    EST_TRY(print_elements("batch", est_dataset_batch(numbers(), 2, NULL), ROWS)); /* the last one is smaller */
    EST_TRY(print_elements(
        "batch, drop_remainder", est_dataset_batch(numbers(), 2, EST_BATCH(.drop_remainder = true)), ROWS));
    EST_TRY(print_elements("repeat", est_dataset_repeat(numbers(), 2), 2 * ROWS));
    EST_TRY(print_elements("skip and take", est_dataset_take(est_dataset_skip(numbers(), 1), 3), ROWS));
    EST_TRY(print_elements("concatenate", est_dataset_concatenate(numbers(), est_dataset_take(numbers(), 1)), ROWS));
    EST_TRY(print_elements("shard 1 of 2", est_dataset_shard(numbers(), 2, 1), ROWS));

    /* Each pass has another order, and the same in every run: the seed decides. */
    return print_elements("shuffle and repeat", est_dataset_repeat(est_dataset_shuffle(numbers(), 5, 1), 2), 2 * ROWS);
}

/* --- an input_fn -------------------------------------------------------------------------------------------------- */

/* def input_fn(X, y, shuffle, batch_size):
 *     dataset = tf.data.Dataset.from_tensor_slices((X, y))
 *     if shuffle:
 *         dataset = dataset.shuffle(buffer_size=100000)
 *     return dataset.repeat().batch(batch_size) */
static est_dataset *input_fn(est_tensor *x, est_tensor *y, bool shuffle, int64_t batch_size)
{
    est_dataset *d = est_dataset_slices(EST_NAMED_TENSORS({ "image", x }, { "label", y }));

    if (shuffle) d = est_dataset_shuffle(d, 100000, 1);
    return est_dataset_batch(est_dataset_repeat(d, EST_FOREVER), batch_size, NULL);
}

static est_status show_input_fn(void)
{
    est_tensor *x = NULL, *y = NULL;
    est_status  status = make_images(&x, &y);

    /* for i in range(5): print(session.run(one_element)) */
    if (status == EST_OK) {
        est_dataset *d = est_dataset_slices(EST_NAMED_TENSORS({ "image", x }, { "label", y }));
        status         = print_elements("from_tensor_slices, five of ten", d, 5);
    }
    if (status == EST_OK) status = print_elements("input_fn, three batches", input_fn(x, y, false, 4), 3);
    if (status == EST_OK) status = print_elements("input_fn, shuffled", input_fn(x, y, true, 4), 3);
    est_tensor_free(x);
    est_tensor_free(y);
    return status;
}

int main(void)
{
    est_status status = show_input_fn();

    if (status == EST_OK) status = show_transformations();
    if (status != EST_OK) fprintf(stderr, "dataset: %s: %s\n", est_status_name(status), est_error_message());
    return est_exit_code(status);
}
