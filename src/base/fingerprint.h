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

/* The id of a feature cross, TensorFlow's crossed_column: 0 .. n_buckets - 1, or 0 .. INT64_MAX - 1 when n_buckets is
 * 0. A value is the est_fingerprint64 of a string, or an integer itself; the order of the values counts. hash_key 0
 * stands for EST_CROSS_HASH_KEY. */
#define EST_CROSS_HASH_KEY UINT64_C(0xDECAFCAFFE)
int64_t est_fingerprint_cross(const uint64_t *values, size_t n, uint64_t hash_key, uint64_t n_buckets);

#endif
