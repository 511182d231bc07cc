/* SPDX-License-Identifier: Apache-2.0
 *
 * Datasets and iterators of a coordinator at a worker.
 *
 * A call advances all iterators that it uses, each once, before its function runs. Where one of them fails or has
 * ended, the call has used no element of any, and neither has a call that failed because a ps task was lost: the next
 * call gets those that were taken. So the coordinator knows how many elements were used when it has a new iterator read
 * over them (SKIP): one for each call that completed or whose function failed. */
#include "cluster/calling.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "data/encode.h"
#include "data/stage.h"

static est_called_dataset *find_dataset(const est_calling *c, uint64_t number)
{
    for (int i = 0; i < c->n_datasets; i++) {
        if (c->datasets[i]->number == number) return c->datasets[i];
    }
    return NULL;
}

static est_called_iterator *find_iterator(const est_calling *c, uint64_t number)
{
    for (int i = 0; i < c->n_iterators; i++) {
        if (c->iterators[i]->number == number) return c->iterators[i];
    }
    return NULL;
}

static void free_dataset(est_called_dataset *d)
{
    est_dataset_free(d->dataset);
    est_free(d->params);
    est_free(d);
}

static void free_iterator(est_called_iterator *p)
{
    if (p->element != NULL) est_element_clear(p->element, p->n);
    est_free(p->element);
    est_iterator_free(p->iterator);
    est_dataset_free(p->dataset);
    est_free(p);
}

void est_calling_release_dataset(est_calling *c, uint64_t number)
{
    for (int i = 0; i < c->n_datasets; i++) {
        if (c->datasets[i]->number != number) continue;
        free_dataset(c->datasets[i]);
        c->datasets[i] = c->datasets[--c->n_datasets];
        return;
    }
}

void est_calling_release_iterator(est_calling *c, uint64_t number)
{
    for (int i = 0; i < c->n_iterators; i++) {
        if (c->iterators[i]->number != number) continue;
        free_iterator(c->iterators[i]);
        c->iterators[i] = c->iterators[--c->n_iterators];
        return;
    }
}

void est_calling_drop_datasets(est_calling *c)
{
    while (c->n_iterators > 0) free_iterator(c->iterators[--c->n_iterators]);
    while (c->n_datasets > 0) free_dataset(c->datasets[--c->n_datasets]);
}

/* Room for one more pointer. */
static est_status reserve(void *list, int n, int *max)
{
    int    wanted = *max == 0 ? 8 : 2 * *max;
    void **old, **more;

    if (n < *max) return EST_OK;
    memcpy(&old, list, sizeof old);
    more = est_realloc(old, sizeof *more * (size_t)wanted);
    if (more == NULL) return est_no_memory();
    memcpy(list, &more, sizeof more);
    *max = wanted;
    return EST_OK;
}

/* The coordinator takes EST_UNAVAILABLE and EST_ABORTED for a lost ps task, EST_CANCELLED for a worker that is being
 * stopped, and would repeat the call. */
static est_status data_error(est_status status)
{
    return status == EST_UNAVAILABLE || status == EST_ABORTED || status == EST_CANCELLED ? EST_INTERNAL : status;
}

/* --- functions by name -------------------------------------------------------------------------------------------- */

static const est_worker_function *find_named(const est_server *s, est_str name)
{
    for (int i = 0; i < s->functions.n; i++) {
        const est_worker_function *f = &s->functions.data[i];

        if (strlen(f->name) == name.size && memcmp(f->name, name.data, name.size) == 0) return f;
    }
    return NULL;
}

static est_status fail_unknown(const est_server *s, est_str name)
{
    est_strbuf names = { 0 };
    est_status status;

    for (int i = 0; i < s->functions.n; i++)
        est_strbuf_printf(&names, "%s'%s'", i > 0 ? ", " : "", s->functions.data[i].name);
    status = est_fail(EST_NOT_FOUND,
                      "no function '%.*s'; this server was given %s: give all servers of the job the same "
                      "est_server_options.functions",
                      est_text_precision(name), name.data, names.size > 0 ? est_strbuf_text(&names) : "none");
    est_strbuf_clear(&names);
    return status;
}

est_status est_calling_check_names(const est_calling *c, const est_message *message, est_packing *out)
{
    const est_server *s = c->server;
    est_wire_reader   r;
    est_wire_field    field;

    est_head_open(message, &r);
    while (est_wire_next(&r, &field)) {
        est_str name;

        if (field.number != EST_FIELD_NAME) continue;
        name = est_wire_bytes(&r, &field);
        if (find_named(s, name) == NULL) return fail_unknown(s, name);
    }
    EST_TRY(est_wire_finish(&r));
    for (int i = 0; i < s->functions.n; i++) est_wire_put_string(&out->head, EST_FIELD_NAME, s->functions.data[i].name);
    return EST_OK;
}

static est_status make_by_name(const est_calling *c, const est_dataset_request *request, est_called_dataset *d)
{
    const est_worker_function *f       = find_named(c->server, request->name);
    est_input_context          context = { .seed        = c->setup.seed + request->reader + (uint64_t)request->pipeline,
                                           .job_seed    = c->setup.seed,
                                           .n_pipelines = request->n_pipelines,
                                           .pipeline    = request->pipeline,
                                           .num_replicas_in_sync = 1 };

    if (f == NULL) return fail_unknown(c->server, request->name);
    if (request->params.data != NULL) { /* aligned, which bytes of a message are not */
        d->params = est_alloc(request->params.size + 1);
        if (d->params == NULL) return est_no_memory();
        if (request->params.size > 0) memcpy(d->params, request->params.data, request->params.size);
    }
    context.params = d->params;
    if (context.seed == 0) context.seed = 1;
    EST_TRY(f->input_fn(&context, f->user, &d->dataset));
    if (d->dataset != NULL) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "the function returned no dataset");
}

static est_status make_of_bytes(const est_dataset_request *request, est_called_dataset *d)
{
    est_dataset *whole;

    EST_TRY(est_dataset_decode_for(request->bytes, request->reader, &whole));
    if (request->n_pipelines > 1)
        whole = est_dataset_autoshard(whole, request->n_pipelines, request->pipeline, EST_AUTO_SHARD_AUTO);
    return est_dataset_finish(whole, &d->dataset);
}

/* --- DATASET, ITERATOR -------------------------------------------------------------------------------------------- */

static est_status make_dataset(const est_calling *c, const est_message *message, est_called_dataset *d)
{
    est_dataset_request request;
    est_status          status;

    EST_TRY(est_dataset_request_read(message, &request));
    if (find_dataset(c, request.number) != NULL) {
        return est_fail(EST_ALREADY_EXISTS, "dataset %" PRIu64 " is here already", request.number);
    }
    d->number = request.number;
    if (request.bytes.data != NULL) return make_of_bytes(&request, d);
    status = make_by_name(c, &request, d);
    if (status == EST_OK || find_named(c->server, request.name) == NULL) return status;
    return est_fail_context(status, "function '%.*s'", est_text_precision(request.name), request.name.data);
}

static void pack_components(const est_dataset *dataset, est_packing *out)
{
    for (int i = 0; i < est_dataset_components(dataset); i++) {
        est_wire_put_string(&out->head, EST_FIELD_COMPONENT, est_dataset_component(dataset, i)->name);
        est_wire_put_i64(&out->head, EST_FIELD_DTYPE, (int64_t)est_dataset_component(dataset, i)->dtype);
    }
}

est_status est_calling_add_dataset(est_calling *c, const est_message *message, est_packing *out)
{
    est_called_dataset *d;
    est_status          status;

    EST_TRY(reserve(&c->datasets, c->n_datasets, &c->max_datasets));
    d = est_zalloc(sizeof *d);
    if (d == NULL) return est_no_memory();
    status = make_dataset(c, message, d);
    if (status != EST_OK) {
        free_dataset(d);
        return data_error(status);
    }
    c->datasets[c->n_datasets++] = d;
    pack_components(d->dataset, out);
    return EST_OK;
}

static est_status next_element(est_called_iterator *p)
{
    est_status status;

    est_element_clear(p->element, p->n);
    status = est_iterator_next(p->iterator, p->element);
    if (status == EST_OK) {
        p->taken++;
        return EST_OK;
    }
    if (status != EST_OUT_OF_RANGE) return data_error(status);
    return est_fail(EST_OUT_OF_RANGE,
                    "the dataset has ended after %" PRId64 " elements: repeat it (est_dataset_repeat) and let the "
                    "number of calls end an epoch",
                    p->taken);
}

static est_status make_iterator(est_calling *c, const est_message *message, est_called_iterator *p)
{
    est_iterator_request request;
    est_called_dataset  *d;

    EST_TRY(est_iterator_request_read(message, &request));
    d = find_dataset(c, request.dataset);
    if (d == NULL) return est_fail(EST_NOT_FOUND, "there is no dataset %" PRIu64, request.dataset);
    if (find_iterator(c, request.number) != NULL) {
        return est_fail(EST_ALREADY_EXISTS, "iterator %" PRIu64 " is here already", request.number);
    }
    p->number  = request.number;
    p->dataset = est_dataset_ref(d->dataset);
    p->n       = est_dataset_components(p->dataset);
    p->element = est_zalloc(sizeof *p->element * ((size_t)p->n + 1));
    if (p->element == NULL) return est_no_memory();
    EST_TRY(data_error(est_iterator_create(p->dataset, &p->iterator)));
    while (p->taken < request.skip) {
        EST_TRY(next_element(p));
        if (est_calling_is_over(c)) return est_fail(EST_CANCELLED, "the coordinator has left");
    }
    return EST_OK;
}

est_status est_calling_add_iterator(est_calling *c, const est_message *message)
{
    est_called_iterator *p;
    est_status           status;

    EST_TRY(reserve(&c->iterators, c->n_iterators, &c->max_iterators));
    p = est_zalloc(sizeof *p);
    if (p == NULL) return est_no_memory();
    status = make_iterator(c, message, p);
    if (status != EST_OK) {
        free_iterator(p);
        return status;
    }
    c->iterators[c->n_iterators++] = p;
    return EST_OK;
}

/* --- elements ----------------------------------------------------------------------------------------------------- */

static bool is_named(est_str text, const char *name, const char *end)
{
    size_t size = strlen(name), end_size = strlen(end);

    return text.size == size + end_size && memcmp(text.data, name, size) == 0 &&
           memcmp(text.data + size, end, end_size) == 0;
}

static est_status fail_component(const est_dataset *dataset, est_str component)
{
    est_strbuf names = { 0 };
    est_status status;

    est_dataset_list(dataset, &names);
    status = est_fail(EST_NOT_FOUND, "the dataset has no component '%.*s'; it has: %s", est_text_precision(component),
                      component.data, est_strbuf_text(&names));
    est_strbuf_clear(&names);
    return status;
}

est_status est_find_component(const est_dataset *dataset, const est_field *element, est_str component, est_tensor **out)
{
    for (int i = 0; i < est_dataset_components(dataset); i++) {
        const est_component *known = est_dataset_component(dataset, i);

        *out = NULL;
        if (is_named(component, known->name, "")) *out = element[i].values;
        if (known->ragged && is_named(component, known->name, ":splits")) *out = element[i].splits;
        if (*out != NULL) return EST_OK;
    }
    return fail_component(dataset, component);
}

static est_status take_element(const est_calling *c, uint64_t iterator)
{
    est_called_iterator *p = find_iterator(c, iterator);

    if (p == NULL) return est_fail(EST_NOT_FOUND, "there is no iterator %" PRIu64, iterator);
    if (p->serial == c->serial) return EST_OK;
    if (!p->kept) EST_TRY(next_element(p));
    p->kept   = false;
    p->serial = c->serial;
    return EST_OK;
}

est_status est_calling_take_elements(est_calling *c)
{
    est_status status = EST_OK;

    for (int i = 0; i < c->arguments.n && status == EST_OK; i++) {
        const est_call_argument *argument = &c->arguments.data[i];

        if (argument->from_iterator) status = take_element(c, argument->iterator);
    }
    if (status != EST_OK) est_calling_keep_elements(c);
    c->used = status == EST_OK;
    return status;
}

est_status est_calling_element(const est_calling *c, uint64_t iterator, est_str component, est_tensor **out)
{
    const est_called_iterator *p = find_iterator(c, iterator);

    return est_find_component(p->dataset, p->element, component, out);
}

void est_calling_keep_elements(est_calling *c)
{
    for (int i = 0; i < c->n_iterators; i++) c->iterators[i]->kept |= c->iterators[i]->serial == c->serial;
}

/* Each shard of an evaluation is read by an iterator of its own, and all of them must see one sequence that ends. */
static est_status check_shards(const est_dataset *dataset)
{
    const est_dataset *varying = est_dataset_varying(dataset);

    if (est_dataset_endless(dataset)) {
        return est_fail(EST_INVALID_ARGUMENT, "the dataset never ends, and so would its evaluation: take a part of it "
                                              "(est_dataset_take) or do not repeat it");
    }
    if (varying == NULL) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT,
                    "stage %s of the dataset has another order each time, so that shards of an evaluation would "
                    "overlap: leave out .unordered",
                    varying->stage->name);
}

static est_status walk(est_calling *c, const est_call_request *call, est_called_iterator *p, est_element_use use,
                       void *user)
{
    for (int64_t i = 0;; i++) {
        est_status status;

        est_element_clear(p->element, p->n);
        status = est_iterator_next(p->iterator, p->element);
        if (status == EST_OUT_OF_RANGE) return EST_OK;
        if (status != EST_OK) return data_error(status);
        if (est_calling_is_over(c)) return est_fail(EST_CANCELLED, "the coordinator has left");
        if (i % call->n_shards == call->shard) EST_TRY(use(user, p->dataset, p->element));
    }
}

est_status est_calling_each(est_calling *c, const est_call_request *call, est_element_use use, void *user)
{
    est_called_dataset *d = find_dataset(c, call->dataset);
    est_called_iterator p = { 0 };
    est_status          status;

    if (d == NULL) return est_fail(EST_NOT_FOUND, "there is no dataset %" PRIu64, call->dataset);
    EST_TRY(check_shards(d->dataset));
    p.dataset = d->dataset;
    p.n       = est_dataset_components(d->dataset);
    p.element = est_zalloc(sizeof *p.element * ((size_t)p.n + 1));
    if (p.element == NULL) return est_no_memory();
    status = data_error(est_iterator_create(p.dataset, &p.iterator));
    if (status == EST_OK) status = walk(c, call, &p, use, user);
    est_element_clear(p.element, p.n);
    est_iterator_free(p.iterator);
    est_free(p.element);
    return status;
}
