/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrow: tables of other libraries as datasets, through the Arrow C stream interface. Whatever produces an
 * ArrowArrayStream (pandas, Polars, pyarrow, DuckDB, nanoarrow) can be trained on; Estoc itself does not need Arrow.
 *
 *     static est_status open_table(void *user, struct ArrowArrayStream *stream)
 *     {
 *         return export_table(user, stream) == 0 ? EST_OK : est_fail(EST_UNAVAILABLE, "the table is closed");
 *     }
 *
 *     d = est_dataset_arrow_stream(open_table, table, EST_ARROW(.batch = 128, .nulls = EST_ARROW_MISSING));
 *
 * Passes: a stream can be read once, so the function is called for every pass over the dataset (repeat, another
 * iterator, a restored position). It is called once when the dataset is made, for the schema; the first pass reads that
 * stream, so that a producer which can be opened only once is good for one pass. All streams have the same columns.
 *
 * Position: the number of rows so far. Restoring one reads the stream up to there again, without converting the rows.
 *
 * Types: every column is a component of its name.
 *
 *     Arrow                                                  component
 *     int32, int64, uint8, float32, float64                  the same; without a copy if no value is null
 *     date32, time32; date64, time64, timestamp, duration    int32; int64: the number in its unit; without a copy
 *     int8, int16, uint16; uint32, uint64                    int32; int64 (a uint64 above 2^63 - 1 is an error)
 *     float16                                                float32
 *     bool                                                   bool
 *     utf8, binary, their large and view forms, fixed-size   string
 *     dictionary of one of these                             its values
 *     fixed-size list of one of these, or of such lists      another dimension; without a copy as its items
 *     list, large list of one of these                       batches: ragged; rows: a first dimension of any length
 *
 * Columns of other types (decimals, structs, maps, unions, null, run-end encoded, list views, lists of lists) are
 * errors that name the column; `columns` leaves them out.
 *
 * A tensor that is not a copy keeps the producer's record batch alive: the batch is released with the last tensor, by
 * any thread.
 *
 * Everything that the interface lets a consumer check is checked: numbers of buffers and children, lengths, offsets,
 * dictionary indices, views. The interface does not tell the sizes of buffers; they are trusted. */
#ifndef ESTOC_ARROW_H
#define ESTOC_ARROW_H

#include <stdbool.h>
#include <stdint.h>

#include "estoc/dataset.h"
#include "estoc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The structs and names of the interface's specification; headers of other libraries define the same ones. */
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

/* A type, and the columns of a table as the children of a struct type. */
struct ArrowSchema {
    const char          *format;
    const char          *name;
    const char          *metadata;
    int64_t              flags;
    int64_t              n_children;
    struct ArrowSchema **children;
    struct ArrowSchema  *dictionary;
    void (*release)(struct ArrowSchema *schema);
    void *private_data;
};

/* Values of such a type. */
struct ArrowArray {
    int64_t             length;
    int64_t             null_count;
    int64_t             offset;
    int64_t             n_buffers;
    int64_t             n_children;
    const void        **buffers;
    struct ArrowArray **children;
    struct ArrowArray  *dictionary;
    void (*release)(struct ArrowArray *array);
    void *private_data;
};

#endif

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

/* Record batches of one schema, one after the other. */
struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *stream, struct ArrowSchema *out);
    int (*get_next)(struct ArrowArrayStream *stream, struct ArrowArray *out);
    const char *(*get_last_error)(struct ArrowArrayStream *stream);
    void (*release)(struct ArrowArrayStream *stream);
    void *private_data;
};

#endif

/* Opens the stream of one pass: fills `stream`, which the library releases. */
typedef est_status (*est_arrow_open_fn)(void *user, struct ArrowArrayStream *stream);

/* What a null is, in columns that have no default. */
typedef enum est_arrow_nulls {
    EST_ARROW_NO_NULLS = 0, /* an error with the column and the row */
    /* NaN in float columns, -1 in integer columns, "" in strings, an empty list: what feature columns take for missing.
     * bool and uint8 have no such value: an error */
    EST_ARROW_MISSING = 1
} est_arrow_nulls;

/* The value for nulls of a column (in lists: of the items; a list that is null is empty): `text` is read as a field of
 * a CSV file; of bool columns it is "true" or "false". */
typedef struct est_arrow_default {
    const char *column;
    const char *text;
    uint64_t    reserved[2]; /* zeros: room for members to come */
} est_arrow_default;

/* A list of them: EST_ARROW_DEFAULTS({ "age", "0" }, { "city", "unknown" }). */
typedef struct est_arrow_defaults {
    const est_arrow_default *data;
    int                      n;
} est_arrow_defaults;

#define EST_ARROW_DEFAULTS(...) EST_SPAN(est_arrow_defaults, const est_arrow_default, __VA_ARGS__)

typedef struct est_arrow_options {
    size_t             struct_size;    /* filled by EST_ARROW */
    int64_t            batch;          /* rows of an element; 0: an element is a single row, without that dimension */
    bool               drop_remainder; /* with batch: drop a last batch of fewer rows */
    est_arrow_nulls    nulls;          /* 0: an error */
    est_strings        columns;        /* these, in this order; empty: all. Copied */
    est_arrow_defaults defaults;       /* for nulls of these columns. Copied */
} est_arrow_options;

#define EST_ARROW(...) (&(const est_arrow_options){ .struct_size = EST_STRUCT_SIZE(est_arrow_options), __VA_ARGS__ })

/* The rows of Arrow streams, or batches of them; `user` is borrowed until the last iterator is freed. Batches of one
 * record batch are views of it; one that spans several is a copy. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_arrow_stream(est_arrow_open_fn open, void *user,
                                                             const est_arrow_options *options);

#ifdef __cplusplus
}
#endif
#endif
