/* SPDX-License-Identifier: Apache-2.0
 *
 * Fingerprints that never change: they choose hash buckets of features, so models depend on their values.
 *
 * Fingerprint64 is the 64-bit hash FarmHash calls "na"; FingerprintCat64 mixes two fingerprints into one and is what
 * feature crosses are made of. Both equal TensorFlow's. Any thread. */
#ifndef EST_BASE_FINGERPRINT_H
#define EST_BASE_FINGERPRINT_H

#include <stddef.h>
#include <stdint.h>

uint64_t est_fingerprint64(const void *bytes, size_t size);

/* Not commutative. */
uint64_t est_fingerprint_cat64(uint64_t a, uint64_t b);

#endif
