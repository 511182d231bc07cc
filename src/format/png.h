/* SPDX-License-Identifier: Apache-2.0
 *
 * PNG pictures, written only: 8 bits a channel, one IDAT chunk. Any thread. */
#ifndef EST_FORMAT_PNG_H
#define EST_FORMAT_PNG_H

#include <stddef.h>
#include <stdint.h>

#include "estoc/status.h"

/* Encodes pixels[height][width][channels] (1: gray, 2: gray and alpha, 3: RGB, 4: RGBA) into *out, to be freed with
 * est_free. */
EST_MUST_CHECK est_status est_png_encode(int height, int width, int channels, const uint8_t *pixels, uint8_t **out,
                                         size_t *size);

#endif
