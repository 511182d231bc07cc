/* SPDX-License-Identifier: Apache-2.0
 *
 * What `make run` does, whole: the example trains on Fashion-MNIST and is right about more than nine images in ten. */
#include "e2e/program.h"

static void test_accuracy(void **state)
{
    const char *dir = program_path("model"), *data = FASHION_MNIST;
    program     p;

    (void)state;
    if (access(data, R_OK) != 0) { /* not a Debian system */
        print_message("NOT RUN on Fashion-MNIST: there is no " FASHION_MNIST "; run on generated images instead\n");
        data = program_images();
    }
    p = PROGRAM(0, "fashion_mnist_cnn", "--model-dir", dir, data);
    if (program_number(p.out, "test accuracy ") <= 0.90) fail_msg("%s", p.out);
    assert_int_equal(program_count(p.err, "Saving dict for global step "), 5); /* once after every epoch */
    assert_int_equal(program_exports(program_path("model/export/final")), 1);
    print_message("%s%.1f s\n", p.out, p.secs);
    program_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_accuracy, program_setup, program_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
