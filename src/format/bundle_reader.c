/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a checkpoint. A tensor is stored as one piece or as several slices; a requested region is assembled from the
 * parts of those pieces that overlap it.
 *
 * The CRC in the index covers a whole piece. So a piece is always read from its first byte to its last: the requested
 * runs are read directly into their destination, the rest through a small buffer, and all bytes enter the CRC. A large
 * piece that is requested as a whole is read in blocks by several threads, and their CRCs are combined in order. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/fault.h"
#include "base/file.h"
#include "format/bundle.h"
#include "format/bundle_index.h"
#include "tensor/shape.h"

#define BUFFER_SIZE ((size_t)64 << 10)
#define CHUNK_SIZE  ((size_t)256 << 10) /* summed while it is in the cache */
#define BLOCK_SIZE  ((int64_t)4 << 20)  /* of a large piece: one task */

#define DTYPE_VARIANT 21 /* TensorFlow's number; its data has a CRC of its own kind */

struct est_bundle {
    char                    *prefix;
    est_bundle_index         index;
    const est_bundle_entry **named; /* [n_named], without slices; in the order of the table: by name */
    int                      n_named;
    est_pool                *pool; /* NULL: one thread */
};

/* --- opening ------------------------------------------------------------------------------------------------------ */

static est_status list_named(est_bundle *bundle)
{
    const est_map *map = &bundle->index.entries;

    bundle->named = est_alloc(((size_t)map->n + 1) * sizeof *bundle->named);
    if (bundle->named == NULL) return est_no_memory();
    for (uint32_t i = 0; i < map->n_entries; i++) {
        if (map->entries[i].key[0] != '\0') bundle->named[bundle->n_named++] = map->entries[i].value;
    }
    return EST_OK;
}

static est_status load(est_bundle *bundle)
{
    char      *path;
    est_status status;

    EST_TRY(est_bundle_index_path(bundle->prefix, &path));
    status = est_bundle_index_load(&bundle->index, path);
    est_free(path);
    EST_TRY(status);
    return list_named(bundle);
}

est_status est_bundle_open(const char *prefix, est_bundle **out)
{
    est_bundle *bundle = est_zalloc(sizeof *bundle);
    est_status  status;

    if (bundle != NULL) bundle->prefix = est_strdup(prefix);
    if (bundle == NULL || bundle->prefix == NULL) {
        status = est_no_memory();
    } else {
        status = load(bundle);
    }
    if (status != EST_OK) {
        est_bundle_close(bundle);
        return status;
    }
    *out = bundle;
    return EST_OK;
}

void est_bundle_close(est_bundle *bundle)
{
    if (bundle == NULL) return;
    est_bundle_index_clear(&bundle->index);
    est_free(bundle->named);
    est_free(bundle->prefix);
    est_free(bundle);
}

void est_bundle_set_pool(est_bundle *bundle, est_pool *pool)
{
    bundle->pool = pool;
}

int est_bundle_count(const est_bundle *bundle)
{
    return bundle->n_named;
}

const est_bundle_entry *est_bundle_at(const est_bundle *bundle, int i)
{
    return bundle->named[i];
}

const est_bundle_entry *est_bundle_find(const est_bundle *bundle, const char *name)
{
    return name[0] != '\0' ? est_bundle_index_find_name(&bundle->index, name) : NULL;
}

const est_bundle_entry *est_bundle_find_slice(const est_bundle *bundle, const est_bundle_entry *entry, int i)
{
    return est_bundle_index_find_slice(&bundle->index, entry->name, &entry->slices[i]);
}

est_bundle_slice est_bundle_slice_of(est_i64s pairs)
{
    est_bundle_slice slice = { .rank = pairs.n / 2 };

    for (int i = 0; i < slice.rank && i < EST_RANK_MAX; i++) {
        slice.start[i]  = pairs.data[2 * i];
        slice.length[i] = pairs.data[2 * i + 1];
    }
    return slice;
}

/* --- one piece, front to back ------------------------------------------------------------------------------------- */

typedef struct piece {
    const est_bundle_entry *entry;
    char                   *path;
    int                     fd;
    est_pool               *pool;
    int64_t                 at; /* bytes of the piece handed out */
    uint32_t                crc;
    char                   *buffer; /* [BUFFER_SIZE]: bytes read but not handed out; NULL until needed */
    size_t                  n_buffered, buffer_at;
} piece;

static est_status piece_fail(const piece *p, est_status status, const char *what)
{
    return est_fail(status, "%s: \"%s\" at offset %" PRId64 ": %s", p->path, p->entry->name, p->entry->offset, what);
}

static est_status piece_open(const est_bundle *bundle, const est_bundle_entry *entry, piece *p)
{
    struct stat info;

    memset(p, 0, sizeof *p);
    p->entry = entry;
    p->fd    = -1;
    p->pool  = bundle->pool;
    EST_TRY(est_bundle_data_path(bundle->prefix, entry->shard, bundle->index.header.n_shards, &p->path));
    p->fd = EST_FAULT_POINT("bundle.open") ? (errno = EIO, -1) : open(p->path, O_RDONLY | O_CLOEXEC);
    if (p->fd < 0 || fstat(p->fd, &info) != 0) return piece_fail(p, est_status_from_errno(errno), strerror(errno));
    if (entry->offset + entry->size > info.st_size) return piece_fail(p, EST_DATA_LOSS, "the file ends before it does");
    return EST_OK;
}

static void piece_close(piece *p)
{
    if (p->fd >= 0) close(p->fd);
    est_free(p->path);
    est_free(p->buffer);
}

#define CUT_SHORT (-1) /* where an errno is expected: the file ended */

static est_status fail_read(const piece *p, int error)
{
    if (error == CUT_SHORT) return piece_fail(p, EST_DATA_LOSS, "the file ends before it does");
    return piece_fail(p, est_status_from_errno(error), strerror(error));
}

/* Reads from byte `at` of the piece; returns 0, an errno or CUT_SHORT. */
static int try_read(const piece *p, char *to, size_t size, int64_t at)
{
    while (size > 0) {
        ssize_t got = EST_FAULT_POINT("bundle.read") ? (errno = EIO, -1)
                                                     : pread(p->fd, to, size, p->entry->offset + at);

        if (got == 0) return CUT_SHORT;
        if (got < 0 && errno != EINTR) return errno;
        if (got < 0) continue;
        to += got;
        at += got;
        size -= (size_t)got;
    }
    return 0;
}

static est_status read_file(const piece *p, char *to, size_t size, int64_t at)
{
    int error = try_read(p, to, size, at);

    return error == 0 ? EST_OK : fail_read(p, error);
}

/* Fills the empty buffer with what follows. */
static est_status piece_fill(piece *p)
{
    uint64_t left = (uint64_t)(p->entry->size - p->at);

    if (p->buffer == NULL) p->buffer = est_alloc(BUFFER_SIZE);
    if (p->buffer == NULL) return piece_fail(p, EST_RESOURCE_EXHAUSTED, "no memory to read it");
    p->buffer_at  = 0;
    p->n_buffered = left < BUFFER_SIZE ? (size_t)left : BUFFER_SIZE;
    return read_file(p, p->buffer, p->n_buffered, p->at);
}

/* The next `size` bytes to `to`, or nowhere when it is NULL. The caller stays within the piece. */
static est_status piece_read(piece *p, char *to, int64_t size)
{
    while (size > 0) {
        size_t ready = p->n_buffered - p->buffer_at;
        size_t n     = (uint64_t)size < CHUNK_SIZE ? (size_t)size : CHUNK_SIZE;
        char  *from;
        bool   last = (int64_t)n == p->entry->size - p->at; /* nothing would be left for the buffer */

        if (ready == 0 && to != NULL && (n >= BUFFER_SIZE || last)) {
            EST_TRY(read_file(p, to, n, p->at));
            from = to;
        } else {
            if (ready == 0) {
                EST_TRY(piece_fill(p));
                ready = p->n_buffered;
            }
            if (n > ready) n = ready;
            from = p->buffer + p->buffer_at;
            if (to != NULL) memcpy(to, from, n);
            p->buffer_at += n;
        }
        p->crc = est_crc32c_extend(p->crc, from, n);
        p->at += (int64_t)n;
        size -= (int64_t)n;
        if (to != NULL) to += n;
    }
    return EST_OK;
}

/* Reads what is left and checks the whole. */
static est_status piece_finish(piece *p)
{
    EST_TRY(piece_read(p, NULL, p->entry->size - p->at));
    if (est_crc32c_mask(p->crc) != p->entry->crc) {
        return piece_fail(p, EST_DATA_LOSS, "wrong checksum; the file is damaged");
    }
    return EST_OK;
}

/* --- a large piece, in blocks ------------------------------------------------------------------------------------- */

typedef struct block {
    uint32_t crc;
    int      error; /* as of try_read */
} block;

typedef struct block_job {
    const piece *piece;
    char        *to; /* NULL: nowhere */
    block       *blocks;
} block_job;

static int64_t block_size(const piece *p, int64_t i)
{
    int64_t left = p->entry->size - i * BLOCK_SIZE;

    return left < BLOCK_SIZE ? left : BLOCK_SIZE;
}

static void read_block(void *arg, int64_t i, int thread)
{
    const block_job *job  = arg;
    int64_t          size = block_size(job->piece, i);
    block           *b    = &job->blocks[i];
    char             unwanted[BUFFER_SIZE];

    (void)thread;
    for (int64_t at = 0; at < size;) {
        size_t  max  = job->to != NULL ? CHUNK_SIZE : BUFFER_SIZE;
        size_t  n    = (uint64_t)(size - at) < max ? (size_t)(size - at) : max;
        int64_t from = i * BLOCK_SIZE + at;
        char   *to   = job->to != NULL ? job->to + from : unwanted;

        b->error = try_read(job->piece, to, n, from);
        if (b->error != 0) return;
        b->crc = est_crc32c_extend(b->crc, to, n);
        at += (int64_t)n;
    }
}

/* The whole piece to `to`, or nowhere when it is NULL. Nothing of it has been read yet. */
static est_status piece_read_whole(piece *p, char *to)
{
    int64_t    n      = (p->entry->size + BLOCK_SIZE - 1) / BLOCK_SIZE;
    block_job  job    = { .piece = p, .to = to };
    est_status status = EST_OK;

    if (n <= 1) return piece_read(p, to, p->entry->size);
    job.blocks = est_zalloc((size_t)n * sizeof *job.blocks);
    if (job.blocks == NULL) return piece_fail(p, EST_RESOURCE_EXHAUSTED, "no memory to read it");
    est_pool_for(p->pool, n, read_block, &job);
    for (int64_t i = 0; i < n && status == EST_OK; i++) {
        if (job.blocks[i].error != 0) status = fail_read(p, job.blocks[i].error);
        p->crc = est_crc32c_combine(p->crc, job.blocks[i].crc, (uint64_t)block_size(p, i));
    }
    p->at = p->entry->size;
    est_free(job.blocks);
    return status;
}

static est_status piece_verify(piece *p)
{
    EST_TRY(piece_read_whole(p, NULL));
    return piece_finish(p);
}

/* --- strings ------------------------------------------------------------------------------------------------------ */

/* Decodes the lengths at the front of `bytes`, checks their CRC and leaves `bytes` at the strings. */
static est_status take_lengths(const piece *p, est_str *bytes, est_str *strings, int64_t n, uint32_t *crc)
{
    const uint8_t *at = (const uint8_t *)bytes->data, *end = at + bytes->size;
    uint64_t       length, sum                             = 0;

    *crc = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!est_wire_varint(&at, end, &length) || length > bytes->size || (sum += length) > bytes->size) {
            return piece_fail(p, EST_DATA_LOSS, "bad lengths of strings; the file is damaged");
        }
        *crc            = est_bundle_crc_length(*crc, length);
        strings[i].size = (size_t)length;
    }
    if ((size_t)(end - at) != sum + 4 || est_crc32c_mask(*crc) != est_wire_load32(at)) {
        return piece_fail(p, EST_DATA_LOSS, "wrong checksum of the lengths of strings; the file is damaged");
    }
    *crc   = est_crc32c_extend(*crc, at, 4);
    *bytes = (est_str){ (const char *)at + 4, (size_t)sum };
    return EST_OK;
}

/* Makes strings[n] of a piece read whole; they point into `bytes`. */
static est_status decode_strings(const piece *p, est_str bytes, est_str *strings, int64_t n)
{
    uint32_t crc;

    if (n == 0 && bytes.size == 0) return EST_OK;
    EST_TRY(take_lengths(p, &bytes, strings, n, &crc));
    if (est_crc32c_mask(est_crc32c_extend(crc, bytes.data, bytes.size)) != p->entry->crc) {
        return piece_fail(p, EST_DATA_LOSS, "wrong checksum; the file is damaged");
    }
    for (int64_t i = 0; i < n; i++) {
        strings[i].data = bytes.data;
        bytes.data += strings[i].size;
    }
    return EST_OK;
}

/* The bytes of a whole piece, freed with est_free. */
static est_status read_all(piece *p, char **out)
{
    char      *bytes = est_alloc((size_t)p->entry->size + 1);
    est_status status;

    if (bytes == NULL) return piece_fail(p, EST_RESOURCE_EXHAUSTED, "no memory to read it");
    status = read_file(p, bytes, (size_t)p->entry->size, 0);
    if (status != EST_OK) {
        est_free(bytes);
        return status;
    }
    *out = bytes;
    return EST_OK;
}

/* --- from a piece to the result ----------------------------------------------------------------------------------- */

/* The requested part of a piece, as runs: elements that are contiguous in both. */
typedef struct overlap {
    int     rank; /* axes before the run */
    int64_t n[EST_RANK_MAX];
    int64_t from_stride[EST_RANK_MAX];
    int64_t to_stride[EST_RANK_MAX];
    int64_t from_start, to_start; /* elements before the first run */
    int64_t run;                  /* elements */
} overlap;

static overlap overlap_of(const est_bundle_slice *box, const est_bundle_slice *from, const est_bundle_slice *to)
{
    est_shape from_shape = est_bundle_slice_shape(from), to_shape = est_bundle_slice_shape(to);
    overlap   o = { .rank = box->rank, .run = 1 };

    est_shape_strides(&from_shape, o.from_stride);
    est_shape_strides(&to_shape, o.to_stride);
    for (int i = 0; i < box->rank; i++) {
        o.n[i] = box->length[i];
        o.from_start += (box->start[i] - from->start[i]) * o.from_stride[i];
        o.to_start += (box->start[i] - to->start[i]) * o.to_stride[i];
    }
    /* An axis joins the run while all axes after it are whole on both sides. */
    while (o.rank > 0) {
        bool whole;

        o.rank--;
        o.run *= o.n[o.rank];
        whole = o.n[o.rank] == from->length[o.rank] && o.n[o.rank] == to->length[o.rank];
        if (!whole) break;
    }
    return o;
}

/* Calls visit(user, from, to, run) for every run, in the order in which the piece stores them. */
static est_status for_each_run(const overlap *o, est_status (*visit)(void *user, int64_t from, int64_t to, int64_t run),
                               void          *user)
{
    int64_t index[EST_RANK_MAX] = { 0 }, from = o->from_start, to = o->to_start;

    for (;;) {
        int axis = o->rank - 1;

        EST_TRY(visit(user, from, to, o->run));
        while (axis >= 0) {
            from += o->from_stride[axis];
            to += o->to_stride[axis];
            if (++index[axis] < o->n[axis]) break;
            from -= o->n[axis] * o->from_stride[axis];
            to -= o->n[axis] * o->to_stride[axis];
            index[axis--] = 0;
        }
        if (axis < 0) return EST_OK;
    }
}

typedef struct copy_job {
    piece         *piece;
    est_tensor    *into;
    size_t         element; /* bytes */
    const est_str *strings; /* of the piece */
} copy_job;

static est_status copy_numbers(void *user, int64_t from, int64_t to, int64_t run)
{
    copy_job *job  = user;
    int64_t   size = (int64_t)job->element;

    EST_TRY(piece_read(job->piece, NULL, from * size - job->piece->at));
    return piece_read(job->piece, (char *)est_tensor_mutable_data(job->into) + to * size, run * size);
}

static est_status copy_strings(void *user, int64_t from, int64_t to, int64_t run)
{
    copy_job *job = user;

    for (int64_t i = 0; i < run; i++) {
        EST_TRY(est_tensor_set_string(job->into, to + i, job->strings[from + i].data, job->strings[from + i].size));
    }
    return EST_OK;
}

static est_status read_numbers(piece *p, const overlap *o, est_tensor *into)
{
    copy_job job = { .piece = p, .into = into, .element = est_dtype_size(p->entry->dtype) };

    if (o->rank == 0 && o->run * (int64_t)job.element == p->entry->size) {
        EST_TRY(piece_read_whole(p, (char *)est_tensor_mutable_data(into) + o->to_start * (int64_t)job.element));
    } else {
        EST_TRY(for_each_run(o, copy_numbers, &job));
    }
    return piece_finish(p);
}

static est_status read_strings(piece *p, const overlap *o, int64_t count, est_tensor *into)
{
    copy_job   job     = { .into = into };
    est_str   *strings = est_alloc((size_t)(count + 1) * sizeof *strings);
    char      *bytes   = NULL;
    est_status status;

    if (strings == NULL) return piece_fail(p, EST_RESOURCE_EXHAUSTED, "no memory for its strings");
    status = read_all(p, &bytes);
    if (status == EST_OK) status = decode_strings(p, (est_str){ bytes, (size_t)p->entry->size }, strings, count);
    job.strings = strings;
    if (status == EST_OK) status = for_each_run(o, copy_strings, &job);
    est_free(strings);
    est_free(bytes);
    return status;
}

/* --- what has to be read ------------------------------------------------------------------------------------------ */

/* A stored piece that overlaps the requested region. */
typedef struct plan_part {
    const est_bundle_entry *entry;
    est_bundle_slice        where; /* in the tensor; resolved */
    est_bundle_slice        box;   /* the requested part of it */
} plan_part;

typedef struct read_plan {
    const est_bundle_entry *entry; /* of the tensor */
    est_bundle_slice        want;  /* resolved */
    plan_part              *parts;
    int                     n_parts;
} read_plan;

static void plan_clear(read_plan *plan)
{
    est_free(plan->parts);
}

/* The piece's file is there and large enough. Not kept open: there may be many. */
static est_status check_file(const est_bundle *bundle, const est_bundle_entry *entry)
{
    piece      p;
    est_status status = piece_open(bundle, entry, &p);

    piece_close(&p);
    return status;
}

/* A piece's data must be as large as its shape says. */
static est_status check_part(const est_bundle *bundle, const plan_part *part)
{
    const est_bundle_entry *entry = part->entry;
    est_shape               shape = est_bundle_slice_shape(&part->where);
    char                    text[EST_SHAPE_TEXT_MAX];
    int64_t                 count;
    size_t                  bytes;

    EST_TRY(est_shape_size(&shape, entry->dtype, &count, &bytes));
    if (!est_shape_equal(&entry->shape, &shape)) {
        return est_fail(EST_DATA_LOSS, "%s.index: a slice of \"%s\" does not have the shape %s that it should",
                        bundle->prefix, entry->name, est_shape_text(&shape, text));
    }
    if (entry->dtype == EST_STRING ? entry->size >= count : entry->size == (int64_t)bytes) return EST_OK;
    return est_fail(
        EST_DATA_LOSS, "%s.index: \"%s\" has %" PRId64 " bytes, which do not fit %s %s; the file is damaged",
        bundle->prefix, entry->name, entry->size, est_dtype_name(entry->dtype), est_shape_text(&shape, text));
}

/* Adds a piece to the plan if it overlaps the requested region. */
static est_status plan_piece(const est_bundle *bundle, read_plan *plan, const est_bundle_entry *entry,
                             const est_bundle_slice *where)
{
    plan_part *part = &plan->parts[plan->n_parts];

    part->entry = entry;
    part->where = *where;
    if (!est_bundle_slice_intersect(where, &plan->want, &part->box)) return EST_OK;
    EST_TRY(check_part(bundle, part));
    EST_TRY(check_file(bundle, entry));
    plan->n_parts++;
    return EST_OK;
}

static est_status plan_slices(const est_bundle *bundle, read_plan *plan)
{
    const est_bundle_entry *full = plan->entry;

    for (int i = 0; i < full->n_slices; i++) {
        const est_bundle_entry *entry = est_bundle_index_find_slice(&bundle->index, full->name, &full->slices[i]);
        est_bundle_slice        where;
        char                    text[EST_BUNDLE_SLICE_TEXT_MAX];

        if (est_bundle_slice_resolve(&full->slices[i], &full->shape, &where) != EST_OK || entry == NULL ||
            entry->dtype != full->dtype || entry->n_slices != 0) {
            return est_fail(EST_DATA_LOSS, "%s.index: the slice %s of \"%s\" is missing or wrong; the file is damaged",
                            bundle->prefix, est_bundle_slice_text(&full->slices[i], text), full->name);
        }
        EST_TRY(plan_piece(bundle, plan, entry, &where));
    }
    return EST_OK;
}

/* The parts must cover the requested region without overlap. */
static est_status check_cover(const est_bundle *bundle, const read_plan *plan)
{
    const est_bundle_slice **boxes = est_alloc(((size_t)plan->n_parts + 1) * sizeof *boxes);
    est_shape                want  = est_bundle_slice_shape(&plan->want);
    int64_t                  left  = est_shape_count(&want);
    bool                     twice = false;
    est_status               status;

    if (boxes == NULL) return est_no_memory();
    for (int i = 0; i < plan->n_parts; i++) boxes[i] = &plan->parts[i].box;
    status = est_bundle_slices_overlap(boxes, plan->n_parts, &twice);
    est_free(boxes);
    EST_TRY(status);
    if (twice) return est_fail(EST_DATA_LOSS, "%s.index: slices of \"%s\" overlap", bundle->prefix, plan->entry->name);
    for (int i = 0; i < plan->n_parts; i++) {
        est_shape box = est_bundle_slice_shape(&plan->parts[i].box);

        left -= est_shape_count(&box);
    }
    if (left == 0) return EST_OK;
    return est_fail(EST_NOT_FOUND, "%s: the slices of \"%s\" lack %" PRId64 " of the requested elements",
                    bundle->prefix, plan->entry->name, left);
}

static est_status check_readable(const est_bundle *bundle, const est_bundle_entry *entry)
{
    if (entry->shape.rank < 0) {
        return est_fail(EST_UNIMPLEMENTED, "%s: \"%s\" has more than %d axes", bundle->prefix, entry->name,
                        EST_RANK_MAX);
    }
    if (est_dtype_size(entry->dtype) == 0) {
        return est_fail(EST_UNIMPLEMENTED, "%s: \"%s\" has a dtype that is not supported (TensorFlow's number %d)",
                        bundle->prefix, entry->name, (int)entry->dtype);
    }
    return EST_OK;
}

static est_status plan_want(const est_bundle_entry *entry, const est_bundle_slice *slice, est_bundle_slice *want)
{
    est_bundle_slice all = { .rank = entry->shape.rank };
    est_status       status;

    for (int i = 0; i < all.rank; i++) all.length[i] = -1;
    status = est_bundle_slice_resolve(slice != NULL ? slice : &all, &entry->shape, want);
    return status == EST_OK ? EST_OK : est_fail_context(status, "reading \"%s\"", entry->name);
}

/* Decides which pieces to read, and checks everything that is possible without reading: later allocations have the
 * sizes of existing files. Clear it also after a failure. */
static est_status plan_make(const est_bundle *bundle, const char *name, const est_bundle_slice *slice, read_plan *plan)
{
    const est_bundle_entry *entry = est_bundle_find(bundle, name);
    est_bundle_slice        all   = { 0 };
    est_shape               want;

    memset(plan, 0, sizeof *plan);
    if (entry == NULL) return est_fail(EST_NOT_FOUND, "%s: has no tensor \"%s\"", bundle->prefix, name);
    EST_TRY(check_readable(bundle, entry));
    EST_TRY(est_shape_size(&entry->shape, entry->dtype, NULL, NULL));
    plan->entry = entry;
    EST_TRY(plan_want(entry, slice, &plan->want));
    want = est_bundle_slice_shape(&plan->want);
    if (est_shape_count(&want) == 0) return EST_OK;
    plan->parts = est_zalloc((size_t)(entry->n_slices > 0 ? entry->n_slices : 1) * sizeof *plan->parts);
    if (plan->parts == NULL) return est_no_memory();
    if (entry->n_slices > 0) {
        EST_TRY(plan_slices(bundle, plan));
        return check_cover(bundle, plan);
    }
    EST_TRY(plan_want(entry, NULL, &all));
    return plan_piece(bundle, plan, entry, &all);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static est_status read_part(const est_bundle *bundle, const plan_part *part, const est_bundle_slice *want,
                            est_tensor *into)
{
    est_shape  stored = est_bundle_slice_shape(&part->where);
    overlap    o      = overlap_of(&part->box, &part->where, want);
    piece      p;
    est_status status = piece_open(bundle, part->entry, &p);

    if (status == EST_OK && part->entry->dtype == EST_STRING) {
        status = read_strings(&p, &o, est_shape_count(&stored), into);
    } else if (status == EST_OK) {
        status = read_numbers(&p, &o, into);
    }
    piece_close(&p);
    return status;
}

/* A bool in C must be 0 or 1, even if the checksum is right. */
static est_status check_bools(const est_bundle *bundle, const read_plan *plan, const est_tensor *tensor)
{
    const uint8_t *data = est_tensor_data(tensor);

    for (int64_t i = 0; i < est_tensor_count(tensor); i++) {
        if (data[i] <= 1) continue;
        return est_fail(EST_DATA_LOSS, "%s: element %" PRId64 " of \"%s\" is %d, not a bool", bundle->prefix, i,
                        plan->entry->name, data[i]);
    }
    return EST_OK;
}

static est_status plan_run(const est_bundle *bundle, const read_plan *plan, est_tensor *into)
{
    for (int i = 0; i < plan->n_parts; i++) EST_TRY(read_part(bundle, &plan->parts[i], &plan->want, into));
    return plan->entry->dtype == EST_BOOL ? check_bools(bundle, plan, into) : EST_OK;
}

est_status est_bundle_read(const est_bundle *bundle, const char *name, const est_bundle_slice *slice, est_tensor **out)
{
    est_tensor *tensor = NULL;
    read_plan   plan;
    est_status  status = plan_make(bundle, name, slice, &plan);

    if (status == EST_OK) {
        status = est_tensor_create(plan.entry->dtype, est_bundle_slice_shape(&plan.want), &tensor);
    }
    if (status == EST_OK) status = plan_run(bundle, &plan, tensor);
    plan_clear(&plan);
    if (status != EST_OK) {
        est_tensor_free(tensor);
        return status;
    }
    *out = tensor;
    return EST_OK;
}

static est_status check_into(const read_plan *plan, const est_tensor *into)
{
    est_shape want = est_bundle_slice_shape(&plan->want);
    char      a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    if (est_tensor_dtype(into) == plan->entry->dtype && est_shape_equal(est_tensor_shape(into), &want)) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "\"%s\" is %s %s in the checkpoint, not %s %s", plan->entry->name,
                    est_dtype_name(plan->entry->dtype), est_shape_text(&want, a),
                    est_dtype_name(est_tensor_dtype(into)), est_shape_text(est_tensor_shape(into), b));
}

est_status est_bundle_read_into(const est_bundle *bundle, const char *name, const est_bundle_slice *slice,
                                est_tensor *into)
{
    read_plan  plan;
    est_status status = plan_make(bundle, name, slice, &plan);

    if (status == EST_OK) status = check_into(&plan, into);
    if (status == EST_OK) status = plan_run(bundle, &plan, into);
    plan_clear(&plan);
    return status;
}

/* --- mapping ------------------------------------------------------------------------------------------------------ */

/* Where the wanted elements lie in the one run of the one piece that has them all; -1: they do not. */
static int64_t find_run(const read_plan *plan)
{
    est_shape want = est_bundle_slice_shape(&plan->want);
    size_t    size = est_dtype_size(plan->entry->dtype);
    int64_t   at;
    overlap   o;

    if (plan->n_parts != 1 || plan->entry->dtype == EST_STRING || plan->entry->dtype == EST_BOOL) return -1;
    o  = overlap_of(&plan->parts[0].box, &plan->parts[0].where, &plan->want);
    at = plan->parts[0].entry->offset + o.from_start * (int64_t)size;
    return o.rank == 0 && o.run == est_shape_count(&want) && at % (int64_t)size == 0 ? at : -1;
}

static est_status map_run(const est_bundle *bundle, const read_plan *plan, bool verify, est_mapping *out)
{
    est_shape  want = est_bundle_slice_shape(&plan->want);
    size_t     size = est_dtype_size(plan->entry->dtype) * (size_t)est_shape_count(&want);
    int64_t    at   = find_run(plan);
    piece      p;
    est_status status;

    if (at < 0 || size < EST_BUNDLE_MAP_MIN) return EST_OK;
    status = piece_open(bundle, plan->parts[0].entry, &p);
    if (status == EST_OK && verify) status = piece_verify(&p);
    if (status == EST_OK) status = est_mapping_init(out, p.fd, p.path, at, size);
    piece_close(&p);
    return status;
}

est_status est_bundle_map(const est_bundle *bundle, const char *name, const est_bundle_slice *slice, bool verify,
                          est_mapping *out)
{
    read_plan  plan;
    est_status status = plan_make(bundle, name, slice, &plan);

    *out = (est_mapping){ 0 };
    if (status == EST_OK) status = map_run(bundle, &plan, verify, out);
    plan_clear(&plan);
    return status;
}

/* --- checking ----------------------------------------------------------------------------------------------------- */

/* Calls visit(bundle, piece) for every stored piece of a tensor. */
static est_status for_each_piece(const est_bundle *bundle, const est_bundle_entry *entry,
                                 est_status (*visit)(const est_bundle *bundle, const est_bundle_entry *piece))
{
    if (entry->n_slices == 0) return visit(bundle, entry);
    for (int i = 0; i < entry->n_slices; i++) {
        const est_bundle_entry *slice = est_bundle_find_slice(bundle, entry, i);
        char                    text[EST_BUNDLE_SLICE_TEXT_MAX];

        if (slice == NULL) {
            return est_fail(EST_DATA_LOSS, "%s.index: the slice %s of \"%s\" is missing; the file is damaged",
                            bundle->prefix, est_bundle_slice_text(&entry->slices[i], text), entry->name);
        }
        EST_TRY(visit(bundle, slice));
    }
    return EST_OK;
}

static est_status verify_piece(const est_bundle *bundle, const est_bundle_entry *entry)
{
    piece      p;
    est_status status = piece_open(bundle, entry, &p);

    if (status == EST_OK && (int)entry->dtype != DTYPE_VARIANT) status = piece_verify(&p);
    piece_close(&p);
    return status;
}

/* One that can be read is checked as reading does, sizes and slices included; strings have to be read for their CRC. */
est_status est_bundle_verify(const est_bundle *bundle, const char *name)
{
    const est_bundle_entry *entry = est_bundle_find(bundle, name);
    read_plan               plan;
    est_tensor             *strings = NULL;
    est_status              status;

    if (entry == NULL) return est_fail(EST_NOT_FOUND, "%s: has no tensor \"%s\"", bundle->prefix, name);
    if (entry->dtype == EST_STRING || entry->dtype == EST_BOOL) {
        status = est_bundle_read(bundle, name, NULL, &strings);
        if (status == EST_OK) est_tensor_free(strings);
        return status == EST_UNIMPLEMENTED ? for_each_piece(bundle, entry, check_file) : status;
    }
    status = plan_make(bundle, name, NULL, &plan);
    plan_clear(&plan);
    if (status != EST_OK && status != EST_UNIMPLEMENTED) return status;
    return for_each_piece(bundle, entry, verify_piece);
}

est_status est_bundle_check_files(const est_bundle *bundle)
{
    for (int i = 0; i < bundle->n_named; i++) EST_TRY(for_each_piece(bundle, bundle->named[i], check_file));
    return EST_OK;
}
