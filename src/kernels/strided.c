/* SPDX-License-Identifier: Apache-2.0
 *
 * Strided copies. A layout is first reduced: axes of size 1 go, axes that are contiguous on both sides merge. The rest
 * is a loop over planes of rows and columns, and one of three ways to copy a plane: runs of bytes (columns contiguous
 * on both sides), a blocked transpose (rows contiguous at the source), or element by element. */
#include "kernels/strided.h"

#include <string.h>

#include "kernels/parallel.h"

/* Elements are moved as integers whatever their type is. */
typedef uint8_t __attribute__((may_alias)) bits8;
typedef uint32_t __attribute__((may_alias)) bits32;
typedef uint64_t __attribute__((may_alias)) bits64;
typedef struct __attribute__((may_alias)) bits128 {
    uint64_t half[2];
} bits128;

/* Vectors for the small transposes; aligned as elements are. */
typedef uint32_t __attribute__((vector_size(32))) vec8x32;
typedef uint32_t __attribute__((vector_size(32), aligned(4), may_alias)) vec8x32_at;
typedef uint64_t __attribute__((vector_size(32))) vec4x64;
typedef uint64_t __attribute__((vector_size(32), aligned(8), may_alias)) vec4x64_at;

/* --- rows of bytes ------------------------------------------------------------------------------------------------ */

/* A copy the compiler opens up: whole vectors and one last vector that may overlap the one before. */
static inline void copy_inline(char *dst, const char *src, size_t n)
{
    if (n >= 32) {
        for (size_t i = 0; i + 32 <= n; i += 32) memcpy(dst + i, src + i, 32);
        memcpy(dst + n - 32, src + n - 32, 32);
    } else if (n >= 16) {
        memcpy(dst, src, 16);
        memcpy(dst + n - 16, src + n - 16, 16);
    } else if (n >= 8) {
        memcpy(dst, src, 8);
        memcpy(dst + n - 8, src + n - 8, 8);
    } else if (n >= 4) {
        memcpy(dst, src, 4);
        memcpy(dst + n - 4, src + n - 4, 4);
    } else {
        for (size_t i = 0; i < n; i++) dst[i] = src[i];
    }
}

#define COPY_ROWS(n)                                                                                                   \
    for (int64_t r = 0; r < rows; r++, d += dst_step, s += src_step) memcpy(d, s, n);                                  \
    break

void est_copy_rows(void *dst, int64_t dst_step, const void *src, int64_t src_step, size_t bytes, int64_t rows)
{
    char       *d = dst;
    const char *s = src;

    switch (bytes) {
    case 0: break;
    case 4: COPY_ROWS(4);
    case 8: COPY_ROWS(8);
    case 16: COPY_ROWS(16);
    case 32: COPY_ROWS(32);
    case 64: COPY_ROWS(64);
    case 128: COPY_ROWS(128);
    default:
        if (bytes <= 1024) {
            for (int64_t r = 0; r < rows; r++, d += dst_step, s += src_step) copy_inline(d, s, bytes);
        } else {
            for (int64_t r = 0; r < rows; r++, d += dst_step, s += src_step) memcpy(d, s, bytes);
        }
    }
}

/* --- planes ------------------------------------------------------------------------------------------------------- */

typedef struct plane plane;

/* Moves `rows` x `cols` elements from src to dst with the plane's strides. */
typedef void (*plane_fn)(const plane *p, char *dst, const char *src, int64_t rows, int64_t cols);

struct plane {
    plane_fn    move;
    size_t      element;
    int64_t     rows, cols;                         /* of the last two axes */
    int64_t     from_row, from_col, to_row, to_col; /* strides in bytes */
    int         outer_rank;                         /* the axes before those two */
    int64_t     dim[EST_STRIDED_RANK_MAX], from[EST_STRIDED_RANK_MAX], to[EST_STRIDED_RANK_MAX]; /* in bytes */
    char       *dst;
    const char *src;
};

static void move_runs(const plane *p, char *dst, const char *src, int64_t rows, int64_t cols)
{
    est_copy_rows(dst, p->to_row, src, p->from_row, (size_t)cols * p->element, rows);
}

/* Element by element; the usual special cases are a dense target and a repeated source. */
#define MOVE_ELEMENTS(T)                                                                                               \
    static void move_##T(const plane *p, char *dst, const char *src, int64_t rows, int64_t cols)                       \
    {                                                                                                                  \
        for (int64_t r = 0; r < rows; r++, dst += p->to_row, src += p->from_row) {                                     \
            T *restrict d       = (T *)(void *)dst;                                                                    \
            const T *restrict s = (const T *)(const void *)src;                                                        \
            const int64_t from = p->from_col / (int64_t)sizeof(T), to = p->to_col / (int64_t)sizeof(T);                \
            if (to == 1 && from == 0) {                                                                                \
                const T value = *s;                                                                                    \
                for (int64_t i = 0; i < cols; i++) d[i] = value;                                                       \
            } else if (to == 1) {                                                                                      \
                for (int64_t i = 0; i < cols; i++) d[i] = s[i * from];                                                 \
            } else {                                                                                                   \
                for (int64_t i = 0; i < cols; i++) d[i * to] = s[i * from];                                            \
            }                                                                                                          \
        }                                                                                                              \
    }
MOVE_ELEMENTS(bits8)
MOVE_ELEMENTS(bits32)
MOVE_ELEMENTS(bits64)
MOVE_ELEMENTS(bits128)

/* --- transposes --------------------------------------------------------------------------------------------------- */

/* 8 source columns of 8 rows become 8 target rows: three rounds of pairwise interleaving. */
static inline void transpose_8x8(char *dst, int64_t to_row, const char *src, int64_t from_col)
{
    vec8x32 a[8], b[8];

    for (int i = 0; i < 8; i++) a[i] = *(const vec8x32_at *)(const void *)(src + i * from_col);
    for (int i = 0; i < 8; i += 2) {
        b[i]     = __builtin_shufflevector(a[i], a[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        b[i + 1] = __builtin_shufflevector(a[i], a[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; i += 4) {
        a[i]     = __builtin_shufflevector(b[i], b[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        a[i + 1] = __builtin_shufflevector(b[i], b[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        a[i + 2] = __builtin_shufflevector(b[i + 1], b[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
        a[i + 3] = __builtin_shufflevector(b[i + 1], b[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
    }
    for (int i = 0; i < 4; i++) {
        b[i]     = __builtin_shufflevector(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        b[i + 4] = __builtin_shufflevector(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
    for (int i = 0; i < 8; i++) *(vec8x32_at *)(void *)(dst + i * to_row) = b[i];
}

static inline void transpose_4x4(char *dst, int64_t to_row, const char *src, int64_t from_col)
{
    vec4x64 a[4], b[4];

    for (int i = 0; i < 4; i++) a[i] = *(const vec4x64_at *)(const void *)(src + i * from_col);
    for (int i = 0; i < 4; i += 2) {
        b[i]     = __builtin_shufflevector(a[i], a[i + 1], 0, 4, 2, 6);
        b[i + 1] = __builtin_shufflevector(a[i], a[i + 1], 1, 5, 3, 7);
    }
    for (int i = 0; i < 2; i++) {
        a[i]     = __builtin_shufflevector(b[i], b[i + 2], 0, 1, 4, 5);
        a[i + 2] = __builtin_shufflevector(b[i], b[i + 2], 2, 3, 6, 7);
    }
    for (int i = 0; i < 4; i++) *(vec4x64_at *)(void *)(dst + i * to_row) = a[i];
}

/* Tiles of `step` x `step`, two by two, so that whole cache lines are read and written while they are near; partial
 * tiles are copied element by element. Rows are contiguous at the source, columns at the target. */
#define TRANSPOSE_PLANE(name, T, step, tile)                                                                           \
    static void name(const plane *p, char *dst, const char *src, int64_t rows, int64_t cols)                           \
    {                                                                                                                  \
        int64_t whole_rows = rows / (step) * (step), whole_cols = cols / (step) * (step);                              \
        for (int64_t r0 = 0; r0 < whole_rows; r0 += 2 * (step)) {                                                      \
            for (int64_t i0 = 0; i0 < whole_cols; i0 += 2 * (step)) {                                                  \
                for (int64_t r = r0; r < r0 + 2 * (step) && r < whole_rows; r += (step)) {                             \
                    for (int64_t i = i0; i < i0 + 2 * (step) && i < whole_cols; i += (step)) {                         \
                        tile(dst + r * p->to_row + i * (int64_t)sizeof(T), p->to_row,                                  \
                             src + r * (int64_t)sizeof(T) + i * p->from_col, p->from_col);                             \
                    }                                                                                                  \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        move_##T(p, dst + whole_cols * (int64_t)sizeof(T), src + whole_cols * p->from_col, whole_rows,                 \
                 cols - whole_cols);                                                                                   \
        move_##T(p, dst + whole_rows * p->to_row, src + whole_rows * (int64_t)sizeof(T), rows - whole_rows, cols);     \
    }
TRANSPOSE_PLANE(transpose_32, bits32, 8, transpose_8x8)
TRANSPOSE_PLANE(transpose_64, bits64, 4, transpose_4x4)

/* Without a vector form, blocks keep both sides in the first-level cache. */
static void transpose_other(const plane *p, char *dst, const char *src, int64_t rows, int64_t cols)
{
    plane_fn move = p->element == 1 ? move_bits8 : move_bits128;

    for (int64_t r = 0; r < rows; r += 32) {
        for (int64_t i = 0; i < cols; i += 32) {
            move(p, dst + r * p->to_row + i * p->to_col, src + r * p->from_row + i * p->from_col,
                 rows - r < 32 ? rows - r : 32, cols - i < 32 ? cols - i : 32);
        }
    }
}

/* --- the loop over planes ----------------------------------------------------------------------------------------- */

/* Leaves at least one axis. False: there is nothing to copy. */
static bool reduce(const est_strided *in, est_strided *out)
{
    out->rank = 0;
    for (int i = 0; i < in->rank; i++) {
        int last = out->rank - 1;

        if (in->dim[i] == 0) return false;
        if (in->dim[i] == 1) continue;
        if (last >= 0 && out->from[last] == in->from[i] * in->dim[i] && out->to[last] == in->to[i] * in->dim[i]) {
            out->dim[last] *= in->dim[i];
            out->from[last] = in->from[i];
            out->to[last]   = in->to[i];
        } else {
            est_strided_push(out, in->dim[i], in->from[i], in->to[i]);
        }
    }
    if (out->rank == 0) est_strided_push(out, 1, 1, 1);
    return true;
}

static void take_axis(est_strided *layout, int axis)
{
    for (int i = axis; i + 1 < layout->rank; i++) {
        layout->dim[i]  = layout->dim[i + 1];
        layout->from[i] = layout->from[i + 1];
        layout->to[i]   = layout->to[i + 1];
    }
    layout->rank--;
}

/* Chooses rows, columns and how to move them; the other axes stay outside. */
static void make_plane(plane *p, size_t element, est_strided *layout)
{
    int     last = layout->rank - 1, rows = last - 1;
    int64_t bytes = (int64_t)element;
    bool    runs  = layout->from[last] == 1 && layout->to[last] == 1;

    p->element = element;
    p->move    = runs           ? move_runs
                 : element == 1 ? move_bits8
                 : element == 4 ? move_bits32
                 : element == 8 ? move_bits64
                                : move_bits128;
    for (int i = 0; i < last && !runs && layout->to[last] == 1 && layout->from[last] != 0; i++) {
        if (layout->from[i] != 1) continue;
        rows    = i;
        p->move = element == 4 ? transpose_32 : element == 8 ? transpose_64 : transpose_other;
    }
    p->cols     = layout->dim[last];
    p->from_col = layout->from[last] * bytes;
    p->to_col   = layout->to[last] * bytes;
    p->rows     = 1;
    take_axis(layout, last);
    if (rows >= 0) {
        p->rows     = layout->dim[rows];
        p->from_row = layout->from[rows] * bytes;
        p->to_row   = layout->to[rows] * bytes;
        take_axis(layout, rows);
    }
    p->outer_rank = layout->rank;
    for (int i = 0; i < layout->rank; i++) {
        p->dim[i]  = layout->dim[i];
        p->from[i] = layout->from[i] * bytes;
        p->to[i]   = layout->to[i] * bytes;
    }
}

/* Where plane number `index` starts. */
static void find_plane(const plane *p, int64_t index, char **dst, const char **src)
{
    *dst = p->dst;
    *src = p->src;
    for (int i = p->outer_rank - 1; i >= 0; i--) {
        int64_t at = index % p->dim[i];

        index /= p->dim[i];
        *dst += at * p->to[i];
        *src += at * p->from[i];
    }
}

/* Rows of all planes, numbered through. */
static void copy_rows_of_planes(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const plane *p = arg;

    (void)block;
    while (begin < end) {
        int64_t     row = begin % p->rows, n = p->rows - row;
        char       *dst;
        const char *src;

        if (n > end - begin) n = end - begin;
        find_plane(p, begin / p->rows, &dst, &src);
        p->move(p, dst + row * p->to_row, src + row * p->from_row, n, p->cols);
        begin += n;
    }
}

/* Columns of one row, for layouts of few but long rows. */
static void copy_columns(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const plane *p = arg;

    (void)block;
    p->move(p, p->dst + begin * p->to_col, p->src + begin * p->from_col, 1, end - begin);
}

#define FEW_ROWS 8

/* In nanoseconds, measured: whole rows and repeated elements go at memory speed. */
static double cost_of_element(const plane *p)
{
    if (p->move == move_runs || (p->from_col == 0 && p->to_col == (int64_t)p->element)) {
        return 0.03 * (double)p->element;
    }
    return p->move == transpose_32 || p->move == transpose_64 ? 0.25 : 0.6;
}

void est_strided_copy(est_pool *pool, size_t element, const est_strided *layout, void *dst, const void *src)
{
    est_strided reduced;
    plane       p        = { .dst = dst, .src = src };
    int64_t     n_planes = 1;
    double      ns;

    if (!reduce(layout, &reduced)) return;
    make_plane(&p, element, &reduced);
    for (int i = 0; i < p.outer_rank; i++) n_planes *= p.dim[i];
    ns = cost_of_element(&p);
    if (n_planes * p.rows > FEW_ROWS) {
        est_parallel_for(pool, n_planes * p.rows, 16, ns * (double)p.cols + 2, copy_rows_of_planes, &p);
        return;
    }
    for (int64_t i = 0; i < n_planes * p.rows; i++) {
        plane       row = p;
        char       *to;
        const char *from;

        find_plane(&p, i / p.rows, &to, &from);
        row.dst = to + i % p.rows * p.to_row;
        row.src = from + i % p.rows * p.from_row;
        est_parallel_for(pool, p.cols, 64, ns, copy_columns, &row);
    }
}

void est_strided_fill(est_pool *pool, size_t element, void *dst, const void *value, int64_t count)
{
    est_strided layout = { 0 };

    est_strided_push(&layout, count, 0, 1);
    est_strided_copy(pool, element, &layout, dst, value);
}

/* --- strips ------------------------------------------------------------------------------------------------------- */

typedef struct strips_job {
    const est_strips *strips;
    int64_t           row_bytes; /* of the whole */
} strips_job;

static const est_view *strip_at(const est_strips *s, int i)
{
    return s->in != NULL ? s->in[i] : &s->out[i];
}

static int64_t strip_bytes(const est_strips *s, int i)
{
    return strip_at(s, i)->count / s->outer * (int64_t)s->element;
}

/* Few rows at a time through all strips, so that the rows of the whole stay in the cache. */
#define STRIP_ROWS 32

static void copy_strip_rows(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const strips_job *job = arg;
    const est_strips *s   = job->strips;

    (void)block;
    for (int64_t row = begin; row < end; row += STRIP_ROWS) {
        int64_t rows  = end - row < STRIP_ROWS ? end - row : STRIP_ROWS;
        char   *whole = (char *)s->whole + row * job->row_bytes;

        for (int i = 0; i < s->n; i++) {
            int64_t bytes = strip_bytes(s, i);
            char   *strip = (char *)strip_at(s, i)->data + row * bytes;

            if (s->in != NULL) {
                est_copy_rows(whole, job->row_bytes, strip, bytes, (size_t)bytes, rows);
            } else {
                est_copy_rows(strip, bytes, whole, job->row_bytes, (size_t)bytes, rows);
            }
            whole += bytes;
        }
    }
}

/* Few rows, so each piece of a row is one long copy. */
static void copy_strip_pieces(est_pool *pool, const est_strips *s)
{
    char *whole = s->whole;

    for (int64_t row = 0; row < s->outer; row++) {
        for (int i = 0; i < s->n; i++) {
            int64_t     count  = strip_at(s, i)->count / s->outer;
            size_t      bytes  = (size_t)count * s->element;
            char       *strip  = (char *)strip_at(s, i)->data + (size_t)row * bytes;
            est_strided layout = { 0 };

            est_strided_push(&layout, count, 1, 1);
            est_strided_copy(pool, s->element, &layout, s->in != NULL ? whole : strip, s->in != NULL ? strip : whole);
            whole += bytes;
        }
    }
}

void est_strips_copy(est_pool *pool, const est_strips *strips)
{
    strips_job job = { strips, 0 };

    if (strips->outer == 0) return;
    if (strips->outer <= FEW_ROWS) {
        copy_strip_pieces(pool, strips);
        return;
    }
    for (int i = 0; i < strips->n; i++) job.row_bytes += strip_bytes(strips, i);
    est_parallel_for(pool, strips->outer, 1, 0.025 * (double)job.row_bytes + 0.5 * strips->n, copy_strip_rows, &job);
}
