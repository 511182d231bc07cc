/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers in text files, whatever the locale. They are read as fast as can be and exactly as the C library would; the
 * whole text must be the number; blanks and tabs around it do not matter. Any thread. */
#ifndef EST_FORMAT_NUMBER_H
#define EST_FORMAT_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Why a text is not a number of the wanted type. */
typedef enum est_number_result {
    EST_NUMBER_OK = 0,
    EST_NUMBER_NONE,  /* it is no number, or not of this kind */
    EST_NUMBER_RANGE, /* an integer that does not fit */
} est_number_result;

/* "-12"; no plus sign, no point, no exponent, as in TensorFlow. */
est_number_result est_number_i32(const char *text, size_t size, int32_t *out);
est_number_result est_number_i64(const char *text, size_t size, int64_t *out);

/* "-1.5e-3", ".5", "5.", "+1", "inf", "Infinity", "nan"; no hexadecimal. Too large is infinite, too small is zero or
 * subnormal; the sign of zero and of nan stays. */
est_number_result est_number_f32(const char *text, size_t size, float *out);
est_number_result est_number_f64(const char *text, size_t size, double *out);

#define EST_NUMBER_TEXT_MAX 32 /* with the terminator */

/* The shortest text that reads back as the same number, as Python writes it: 0.1, 1.0, 1e-05, 1e+16, nan, inf, -inf (of
 * a float32 the shortest from 6 digits up, as protobuf has it, without zeros at the end). Returns `text`. */
const char *est_number_f32_text(float value, char text[EST_NUMBER_TEXT_MAX]);
const char *est_number_f64_text(double value, char text[EST_NUMBER_TEXT_MAX]);

#endif
