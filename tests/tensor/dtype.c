/* SPDX-License-Identifier: Apache-2.0
 *
 * Element types: numbers as in TensorFlow's files, sizes, names. */
#include "estoc/tensor.h"
#include "support/test.h"

TEST(table)
{
    static const struct {
        est_dtype   dtype;
        int         number;
        size_t      size;
        const char *name;
    } types[] = {
        { EST_DTYPE_NONE, 0, 0, "none" },    { EST_F32, 1, 4, "float32" }, { EST_F64, 2, 8, "float64" },
        { EST_I32, 3, 4, "int32" },          { EST_U8, 4, 1, "uint8" },    { EST_STRING, 7, sizeof(est_str), "string" },
        { EST_I64, 9, 8, "int64" },          { EST_BOOL, 10, 1, "bool" },  { EST_RESOURCE, 20, 0, "resource" },
        { (est_dtype)99, 99, 0, "unknown" },
    };

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        assert_int_equal(types[i].dtype, types[i].number);
        assert_int_equal(est_dtype_size(types[i].dtype), types[i].size);
        assert_string_equal(est_dtype_name(types[i].dtype), types[i].name);
    }
}
