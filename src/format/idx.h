/* SPDX-License-Identifier: Apache-2.0
 *
 * IDX files, the format of MNIST: two zero bytes, a type, a rank, the dimensions as big-endian 32-bit numbers, the
 * elements in row-major order, big-endian. The file may be gzipped. Any thread.
 *
 * uint8, int32, float32 and float64 keep their type; int8 and int16, which tensors do not have, become int32. */
#ifndef EST_FORMAT_IDX_H
#define EST_FORMAT_IDX_H

#include "estoc/status.h"
#include "estoc/tensor.h"

/* Reads a whole file into a new tensor, which the caller frees. A header that promises more than the file can hold
 * fails before memory is asked for; bytes after the last element are an error too. */
EST_API EST_MUST_CHECK est_status est_idx_read(const char *path, est_tensor **out);

#endif
