/* SPDX-License-Identifier: Apache-2.0
 *
 * What the stages that read files share: the end of their constructors, a dataset for each file, and their options as
 * numbers. */
#include <string.h>

#include "data/encode.h"
#include "data/interleave.h"

est_dataset *est_interleave_files(est_interleave *own, const char *component)
{
    est_status status = est_dataset_need_strings(own->base.input[0], "paths of files");

    if (status != EST_OK) return est_dataset_fail(&own->base, status);
    return est_dataset_with(&own->base, &(est_component){ .name = component, .dtype = EST_STRING }, 1);
}

void est_interleave_encode(const est_interleave *own, int64_t number[EST_INTERLEAVE_NUMBERS])
{
    const est_interleave_options *o = &own->options;

    number[0] = o->cycle;
    number[1] = o->block;
    number[2] = o->workers;
    number[3] = o->unordered;
    number[4] = o->bad_rows_max;
}

est_interleave_options est_interleave_decode(const est_encoded *from)
{
    return (est_interleave_options){ .struct_size  = EST_STRUCT_SIZE(est_interleave_options),
                                     .cycle        = est_encoded_int(from, 0),
                                     .block        = est_encoded_int(from, 1),
                                     .workers      = est_encoded_int(from, 2),
                                     .unordered    = from->number[3] != 0,
                                     .bad_rows_max = from->number[4] };
}

static est_status take_path(est_interleaved *it, const est_element *element, const char **out)
{
    const est_str *bytes = est_tensor_data(element->field[0].values);

    if (memchr(bytes->data, '\0', bytes->size) != NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "a path with a zero byte in it, after \"%s\"", bytes->data);
    }
    *out = est_pass_intern(it->base.pass, bytes->data, bytes->size);
    return *out != NULL ? EST_OK : est_no_memory();
}

est_dataset *est_interleave_open_file(est_interleaved *it, const est_element *element, const est_stage *stage)
{
    est_interleave_file *file = est_dataset_new(stage, sizeof *file, NULL, NULL);
    est_status           status;

    if (!est_dataset_sound(&file->base)) return &file->base;
    file->all = it->base.dataset;
    status    = take_path(it, element, &file->path);
    if (status != EST_OK) return est_dataset_fail(&file->base, status);
    return est_dataset_like(&file->base, it->base.dataset);
}
