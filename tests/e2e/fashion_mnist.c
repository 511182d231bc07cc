/* SPDX-License-Identifier: Apache-2.0
 *
 * What `make run` does, in fewer epochs: the example trains on Fashion-MNIST and is right about more than nine images
 * in ten. On a cluster it trains with the same arguments. */
#include "e2e/program.h"

static const char *find_images(void)
{
    if (access(FASHION_MNIST, R_OK) == 0) return FASHION_MNIST;
    print_message("NOT RUN on Fashion-MNIST: there is no " FASHION_MNIST "; run on generated images instead\n");
    return program_images(); /* not a Debian system */
}

TEST(accuracy, .setup_func = program_setup, .teardown_func = program_teardown)
{
    program p = PROGRAM(0, "fashion_mnist_cnn", "--epochs", "3", "--model-dir", program_path("model"), find_images());

    if (program_number(p.out, "test accuracy ") <= 0.90) fail_msg("%s", p.out);
    assert_int_equal(program_count(p.err, "Saving dict for global step "), 3); /* once after every epoch */
    assert_int_equal(program_exports(program_path("model/export/final")), 1);
    print_message("%s%.1f s\n", p.out, p.secs);
    program_free(&p);
}

/* The four that train make no step more than one would, though each learns from weights that the others have changed:
 * after two epochs one process is right about 90.2 %, and the cluster about 89.3 to 89.7 %. */
TEST(cluster, .setup_func = program_setup, .teardown_func = program_teardown)
{
    program p = PROGRAM(0, PROGRAM_LAUNCH, EST_BUILD_DIR "/examples/fashion_mnist_cnn", "--epochs", "2", "--model-dir",
                        program_path("model"), find_images());

    if (program_number(p.out, "test accuracy ") <= 0.88) fail_msg("%s", p.out);
    assert_int_equal(program_count(p.out, "test accuracy "), 1); /* of the evaluator alone */
    program_has(p.out, "evaluator:0 | test accuracy ");
    program_has(p.out, " after 1874 steps\n");
    assert_int_equal(program_count(p.err, "Loss for final step: "), 4); /* all of them made some */
    assert_int_equal(program_exports(program_path("model/export/final")), 1);
    print_message("%s%.1f s\n", p.out, p.secs);
    program_free(&p);
}
