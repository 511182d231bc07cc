/* SPDX-License-Identifier: Apache-2.0
 *
 * Element types: sizes and names. */
#include "estoc/tensor.h"

size_t est_dtype_size(est_dtype dtype)
{
    switch (dtype) {
    case EST_F32: return sizeof(float);
    case EST_F64: return sizeof(double);
    case EST_I32: return sizeof(int32_t);
    case EST_U8: return sizeof(uint8_t);
    case EST_STRING: return sizeof(est_str);
    case EST_I64: return sizeof(int64_t);
    case EST_BOOL: return sizeof(uint8_t);
    case EST_DTYPE_NONE:
    case EST_RESOURCE: break;
    }
    return 0;
}

const char *est_dtype_name(est_dtype dtype)
{
    switch (dtype) {
    case EST_F32: return "float32";
    case EST_F64: return "float64";
    case EST_I32: return "int32";
    case EST_U8: return "uint8";
    case EST_STRING: return "string";
    case EST_I64: return "int64";
    case EST_BOOL: return "bool";
    case EST_RESOURCE: return "resource";
    case EST_DTYPE_NONE: return "none";
    }
    return "unknown";
}
