/* SPDX-License-Identifier: Apache-2.0
 *
 * The main of test programs that have none. An object of its own: the linker takes it only where main is missing. */
#include "support/test.h"

int main(int argc, char **argv)
{
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return est_test_run(NULL, NULL);
}
