/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading several datasets at a time: the common part of est_dataset_interleave and the stages that read files.
 *
 * Such a stage makes a dataset of every element of its input (for a path: one that yields the rows of that file). The
 * datasets are read through `cycle` slots. The slots are visited in turn, and `block` elements are taken at a visit. A
 * dataset that ends leaves its slot empty and ends the visit; the next visit fills the slot with the next dataset. This
 * is the order of TensorFlow's interleave.
 *
 * With workers every open slot has a thread that reads ahead, some elements at a time. When the order does not matter,
 * the threads belong to no slot: each takes one that nobody reads. What was read ahead is in the saved position, and a
 * position does not say how many workers there were.
 *
 * Threading: as all stages. Lock order: est_interleaved.lock, then the locks of the input's stages. */
#ifndef EST_DATA_INTERLEAVE_H
#define EST_DATA_INTERLEAVE_H

#include "data/parallel_jobs.h"
#include "data/stage.h"

typedef struct est_interleave      est_interleave;
typedef struct est_interleaved     est_interleaved;
typedef struct est_interleave_slot est_interleave_slot;

/* Makes a dataset of an element of the input, as constructors do. `it` outlives all iterators of it. */
typedef est_dataset *(*est_interleave_make)(est_interleaved *it, const est_element *element);

/* The first member of the dataset struct of such a stage. */
struct est_interleave {
    est_dataset            base;
    est_interleave_options options; /* checked; cycle and block are at least 1 */
    est_interleave_make    make;
    bool                   goes_on; /* its datasets can continue after a failed row; bad_rows_max limits them */
};

/* The iterator. */
struct est_interleaved {
    est_iter base;
    int64_t  bad_rows; /* left out, of all datasets */

    est_interleave_slot *slots;   /* [cycle] */
    int                  current; /* the slot that is visited */
    int                  taken;   /* elements, at this visit */
    int                  n_open;  /* slots with a dataset, or with elements of one */
    uint64_t             n_inputs;
    bool                 inputs_ended;

    /* Only when unordered: */
    est_parallel                     *ahead;
    struct est_interleave_item_block *block; /* being handed out */
    pthread_mutex_t lock;  /* guards the slots but those being read, n_open, the input and its fields */
    pthread_cond_t  freed; /* a slot is no longer being read */
    bool            has_lock, has_cond;
    int64_t         below; /* counts the rows that the input leaves out, until a slot takes them over */
};

est_status est_interleaved_open(est_iter *it);
est_status est_interleaved_next(est_iter *it, est_element *out);
void       est_interleaved_close(est_iter *it);
est_status est_interleaved_save(est_iter *it, est_wire_writer *w);
est_status est_interleaved_restore(est_iter *it, est_str state);
void       est_interleaved_pause(est_iter *it);
void       est_interleaved_resume(est_iter *it);

/* All of them, for a descriptor. */
#define EST_INTERLEAVE_FUNCTIONS                                                                                       \
    .n_inputs = 1, .iter_size = sizeof(est_interleaved), .open = est_interleaved_open, .next = est_interleaved_next,   \
    .close = est_interleaved_close, .save = est_interleaved_save, .restore = est_interleaved_restore,                  \
    .pause = est_interleaved_pause, .resume = est_interleaved_resume

/* The start of a constructor: est_dataset_new, then checks and copies the options (NULL: all zero). */
void *est_interleave_new(const est_stage *stage, size_t size, est_dataset *input, const est_interleave_options *options,
                         est_interleave_make make);

/* The end of the constructor of a stage that reads files: its input must be paths, its elements have one string
 * component called `component`. Returns the dataset, failed or not. */
est_dataset *est_interleave_files(est_interleave *own, const char *component);

/* For est_stage.encode and decode: the options as numbers, EST_INTERLEAVE_NUMBERS of them, and back. */
#define EST_INTERLEAVE_NUMBERS 5
void                   est_interleave_encode(const est_interleave *own, int64_t number[EST_INTERLEAVE_NUMBERS]);
est_interleave_options est_interleave_decode(const est_encoded *from);

/* One file of such a stage: a dataset that never leaves it. */
typedef struct est_interleave_file {
    est_dataset        base;
    const char        *path; /* lives as long as the pass */
    const est_dataset *all;  /* the stage's own; borrowed from the iterator of all files */
} est_interleave_file;

/* Makes it of an element of the input, for est_interleave_make. `stage` reads the file. */
est_dataset *est_interleave_open_file(est_interleaved *it, const est_element *element, const est_stage *stage);

#endif
