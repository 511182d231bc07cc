/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints in TensorFlow's V2 format: named tensors in `<prefix>.data-00000-of-00001` (and more such files), found
 * through `<prefix>.index`.
 *
 * Invariants of writing:
 *   B1  Neither file has its final name before all its bytes are on disk.
 *   B2  The data gets its name before the index does.
 *   B3  A checkpoint that has the name already stays whole until the new index replaces its index in one step.
 * So a checkpoint whose index exists is whole, and the index is the commit mark. For B3 the new data needs another name
 * than the old: `-of-00002` where the old one is `-of-00001`, and the other way round; the number is part of the
 * header, and readers open only the files that entries name. What checkpoints are called, how many are kept and which
 * is the latest is not decided here.
 *
 * Reading: every byte that reaches a tensor has been checked against its CRC; a damaged file is an error that names the
 * file, the offset and the tensor, never a wrong value. Only est_bundle_map can be told not to.
 *
 * A partitioned tensor is written slice by slice, by one writer or by several whose bundles are merged; it is read
 * whole or in any other partition.
 *
 * Threading: a writer belongs to one thread at a time; an open bundle may be read by any thread. */
#ifndef EST_FORMAT_BUNDLE_H
#define EST_FORMAT_BUNDLE_H

#include "base/mapping.h"
#include "base/pool.h"
#include "format/bundle_entry.h"

/* EST_BUNDLE_SLICE(start, length, start, length ...): a box with one pair an axis; length -1 takes the whole axis. */
#define EST_BUNDLE_SLICE(...) est_bundle_slice_of(EST_I64S(__VA_ARGS__))
est_bundle_slice est_bundle_slice_of(est_i64s pairs);

/* --- writing ------------------------------------------------------------------------------------------------------ */

typedef struct est_bundle_writer est_bundle_writer;

#define EST_BUNDLE_ALIGNMENT 64 /* of tensors that are to be mapped: as of memory of their own */

/* Starts a checkpoint of one data file. Every tensor begins at a multiple of `alignment` bytes; 0: packed, as
 * TensorFlow does. The directory must exist. */
EST_MUST_CHECK est_status est_bundle_writer_create(const char *prefix, size_t alignment, est_bundle_writer **out);

/* Writes a tensor, or one slice (copied) of a partitioned tensor of shape `full`. The data is not copied: it goes from
 * the tensor to the file. After a failed write the writer can only be freed. */
EST_MUST_CHECK est_status est_bundle_add(est_bundle_writer *writer, const char *name, const est_tensor *tensor);
EST_MUST_CHECK est_status est_bundle_add_slice(est_bundle_writer *writer, const char *name, const est_shape *full,
                                               const est_bundle_slice *slice, const est_tensor *tensor);

/* The same in pieces, for numbers that never lie in memory all at once: begin, append any number of times until all
 * bytes of the tensor or slice are there, end. `slice` NULL: the whole tensor. */
EST_MUST_CHECK est_status est_bundle_begin(est_bundle_writer *writer, const char *name, est_dtype dtype,
                                           const est_shape *full, const est_bundle_slice *slice);
EST_MUST_CHECK est_status est_bundle_append(est_bundle_writer *writer, const void *bytes, size_t size);
EST_MUST_CHECK est_status est_bundle_end(est_bundle_writer *writer);

/* Commits: both files are on disk under their names when it returns (B1 to B3). A checkpoint of the same name is
 * replaced, or left as it was on failure. */
EST_MUST_CHECK est_status est_bundle_finish(est_bundle_writer *writer);

/* Frees the writer; one that was not finished leaves no file behind. NULL is fine. */
void est_bundle_writer_free(est_bundle_writer *writer);

/* Makes one checkpoint of several: the data files of all are renamed to those of `prefix`, the slices of partitioned
 * tensors are brought together, then the index is written (B2) and the partial indexes are removed. A checkpoint of the
 * same name is replaced (B3). A tensor that is in two of them is an error and leaves everything as it was; so does any
 * failure before the first file moves. After one while files move the parts are gone, and a checkpoint that had the
 * name is as it was. */
EST_MUST_CHECK est_status est_bundle_merge(const char *const *parts, int n_parts, const char *prefix);

/* --- reading ------------------------------------------------------------------------------------------------------ */

typedef struct est_bundle est_bundle;

/* Reads the index; the data is read when it is asked for. */
EST_MUST_CHECK est_status est_bundle_open(const char *prefix, est_bundle **out);
void                      est_bundle_close(est_bundle *bundle); /* NULL is fine */

/* The tensors by name in rising order; entries are borrowed until the bundle is closed. A partitioned tensor is one
 * entry, with its full shape. find: NULL when there is none. */
int                     est_bundle_count(const est_bundle *bundle);
const est_bundle_entry *est_bundle_at(const est_bundle *bundle, int i);
const est_bundle_entry *est_bundle_find(const est_bundle *bundle, const char *name);

/* Where slice i of a partitioned tensor is stored; NULL when the index lacks it. */
const est_bundle_entry *est_bundle_find_slice(const est_bundle *bundle, const est_bundle_entry *entry, int i);

/* Reads a tensor, or a slice of it (NULL: all of it), however it is stored. */
EST_MUST_CHECK est_status est_bundle_read(const est_bundle *bundle, const char *name, const est_bundle_slice *slice,
                                          est_tensor **out);

/* The same into memory that is there already, of exactly the dtype and shape in the checkpoint. After a failure the
 * tensor holds no particular values. */
EST_MUST_CHECK est_status est_bundle_read_into(const est_bundle *bundle, const char *name,
                                               const est_bundle_slice *slice, est_tensor *into);

/* The smallest tensor that est_bundle_map maps: below it a copy costs less than pages of its own. */
#define EST_BUNDLE_MAP_MIN ((size_t)64 << 10)

/* Maps a tensor, or a slice of it (NULL: all of it), where it lies in its file. *out has no pages when that cannot be:
 * it is small, is not numbers, is stored in several runs, or lies at an offset that its elements cannot be read from.
 * `verify`: every byte of it is checked against its CRC; else only that the file has all bytes. */
EST_MUST_CHECK est_status est_bundle_map(const est_bundle *bundle, const char *name, const est_bundle_slice *slice,
                                         bool verify, est_mapping *out);

/* Reads every byte of a tensor, also of one whose dtype est_tensor does not know, and checks it against its CRC.
 * Variants (TensorFlow's 21) and strings of more than EST_RANK_MAX axes are only checked to be there. */
EST_MUST_CHECK est_status est_bundle_verify(const est_bundle *bundle, const char *name);

/* Whether all data files that entries name exist and are large enough, without reading them. */
EST_MUST_CHECK est_status est_bundle_check_files(const est_bundle *bundle);

/* Has the threads of `pool` (borrowed until the bundle is closed) read and sum large tensors. From then on only one
 * thread at a time may read. NULL: the calling thread does it. */
void est_bundle_set_pool(est_bundle *bundle, est_pool *pool);

/* "<prefix>.data-00001-of-00004" and "<prefix>.index", to be freed with est_free. */
EST_MUST_CHECK est_status est_bundle_data_path(const char *prefix, int32_t shard, int32_t n_shards, char **out);
EST_MUST_CHECK est_status est_bundle_index_path(const char *prefix, char **out);

/* Data of a string tensor in a file: the lengths as varints, a masked CRC of the lengths, the strings. Both sides use
 * this: the CRC covers a length as 4 bytes, or as 8 when it does not fit. */
uint32_t est_bundle_crc_length(uint32_t crc, uint64_t length);

#endif
