/* SPDX-License-Identifier: Apache-2.0
 *
 * Scalars that a proto3 message leaves out when they have their default. Members of a oneof are written always and do
 * not come through here. */
#ifndef EST_FORMAT_WIRE_DEFAULTS_H
#define EST_FORMAT_WIRE_DEFAULTS_H

#include "format/wire.h"

static inline void est_wire_put_i64_nonzero(est_wire_writer *w, uint32_t number, int64_t value)
{
    if (value != 0) est_wire_put_i64(w, number, value);
}

static inline void est_wire_put_true(est_wire_writer *w, uint32_t number, bool value)
{
    if (value) est_wire_put_bool(w, number, value);
}

static inline void est_wire_put_nonempty(est_wire_writer *w, uint32_t number, est_str value)
{
    if (value.size > 0) est_wire_put_bytes(w, number, value.data, value.size);
}

#endif
