/* SPDX-License-Identifier: Apache-2.0
 *
 * What workers need for calls: functions, datasets, iterators. They are sent without a wait, over the same link and
 * before the first call that needs them; a failure is an error of the coordinator like that of a function. */
#include "coordinator/coordinator.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

#define WORD_BITS 64

/* --- references --------------------------------------------------------------------------------------------------- */

/* Room for the bits of all objects at all workers, so that sending allocates nothing. Under `lock`. */
static est_status grow_sent(est_coordinator *c)
{
    size_t words = (size_t)c->n_objects / WORD_BITS + 1;

    if (c->n_objects % WORD_BITS != 0 && c->n_objects > 0) return EST_OK;
    for (int i = 0; i < c->n_workers; i++) {
        uint64_t *grown = est_realloc(c->workers[i].sent, sizeof *grown * words);

        if (grown == NULL) return est_no_memory();
        grown[words - 1]   = 0;
        c->workers[i].sent = grown;
    }
    return EST_OK;
}

est_status est_object_add(est_coordinator *c, est_call_object *object)
{
    est_status status;

    pthread_mutex_lock(&c->lock);
    c->n_objects++;
    status = grow_sent(c);
    if (status == EST_OK) {
        object->coordinator = c;
        object->references  = 1;
        object->number      = c->n_objects;
        object->next        = c->objects;
        c->objects          = object;
        c->n_iterators += object->kind == EST_OBJECT_ITERATOR;
        if (object->dataset != NULL) est_object_ref(object->dataset);
        est_coordinator_ref(c);
    } else {
        c->n_objects--;
    }
    pthread_mutex_unlock(&c->lock);
    return status;
}

void est_object_ref(est_call_object *object)
{
    object->references++;
}

static void ignore(void *user, est_status status, const char *error, est_message *answer)
{
    (void)user, (void)status, (void)error, (void)answer;
}

static bool was_sent(const est_call_worker *w, uint64_t number)
{
    return (w->sent[number / WORD_BITS] >> number % WORD_BITS & 1) != 0;
}

static void forget_sent(est_call_worker *w, uint64_t number)
{
    w->sent[number / WORD_BITS] &= ~(UINT64_C(1) << number % WORD_BITS);
}

/* Tells workers to forget the object. A lost worker has forgotten it. */
static void tell_released(est_coordinator *c, const est_call_object *object)
{
    static const uint32_t fields[] = { EST_FIELD_FUNCTION, EST_FIELD_DATASET, EST_FIELD_ITERATOR };
    est_packing           packing  = { 0 };
    est_payload           payload;

    if (object->kind == EST_OBJECT_VALUE || c->closing) return;
    est_wire_put_u64(&packing.head, fields[object->kind], object->number);
    for (int i = 0; i < c->n_workers && est_packing_payload(&packing, &payload) == EST_OK; i++) {
        est_call_worker *w = &c->workers[i];

        if (w->link == NULL || !was_sent(w, object->number)) continue;
        if (est_link_ask(w->link, EST_METHOD_RELEASE, est_method_text(EST_METHOD_RELEASE), payload, EST_FOREVER, ignore,
                         NULL, NULL) != EST_OK)
            est_error_clear();
    }
    est_packing_clear(&packing);
}

void est_object_unref(est_call_object *object)
{
    est_coordinator  *c = object->coordinator;
    est_call_object **at;

    if (--object->references > 0) return;
    tell_released(c, object);
    for (at = &c->objects; *at != object; at = &(*at)->next) {}
    *at = object->next;
    if (object->dataset != NULL) est_object_unref(object->dataset);
    est_free(object->name);
    if (object->kind == EST_OBJECT_FUNCTION) {
        est_function_clear(EST_CONTAINER_OF(object, est_function, object));
    } else {
        est_per_worker_clear(EST_CONTAINER_OF(object, est_per_worker, object));
    }
}

void est_object_release(est_call_object *object)
{
    est_coordinator *c;

    if (object == NULL) return;
    c = object->coordinator;
    est_coordinator_ref(c); /* the object may have the last reference */
    pthread_mutex_lock(&c->lock);
    est_object_unref(object);
    pthread_mutex_unlock(&c->lock);
    est_coordinator_unref(c);
}

/* --- sending ------------------------------------------------------------------------------------------------------ */

/* An object on its way. */
typedef struct passage {
    est_call_worker *worker;
    const est_link  *link; /* to compare with */
    uint64_t         number;
    char             name[];
} passage;

/* An object that has failed is sent again with the next call that needs it. Under `lock`. */
static void note_failure(const passage *p, est_status status, const char *error)
{
    est_call_worker *w = p->worker;
    char             text[1024];

    if (w->link == p->link) forget_sent(w, p->number);
    if (status != EST_UNAVAILABLE && status != EST_ABORTED && status != EST_CANCELLED) {
        snprintf(text, sizeof text, "'%s': %s", p->name, error);
        est_coordinator_fail(w->coordinator, status, text);
    } else if (w->link == p->link && !est_link_is_lost(w->link)) {
        est_worker_abandon(w, error); /* it is being stopped, or waits for a ps task */
    }
}

/* In the network thread. */
static void object_arrived(void *user, est_status status, const char *error, est_message *answer)
{
    passage         *p = user;
    est_coordinator *c = p->worker->coordinator;

    (void)answer;
    if (status != EST_OK) {
        pthread_mutex_lock(&c->lock);
        note_failure(p, status, error);
        pthread_mutex_unlock(&c->lock);
    }
    est_free(p);
}

static void pack_function(const est_function *f, est_packing *out)
{
    est_function_request request = { .number     = f->object.number,
                                     .name       = { f->object.name, strlen(f->object.name) },
                                     .bytes      = { (const char *)f->bytes.data, f->bytes.size },
                                     .has_resets = f->n_resets >= 0,
                                     .n_resets   = f->n_resets };

    est_function_request_put(&request, (const char *const *)f->locals, f->n_locals, out);
}

static void pack_dataset(const est_per_worker *p, const est_call_worker *w, est_packing *out)
{
    est_dataset_request request = { .number = p->object.number, .n_pipelines = 1 };

    if (p->bytes.size > 0) {
        request.bytes = (est_str){ (const char *)p->bytes.data, p->bytes.size };
    } else {
        request.name = (est_str){ p->object.name, strlen(p->object.name) };
        if (p->params_size > 0) request.params = (est_str){ p->params, p->params_size };
    }
    if (p->shard) {
        request.pipeline    = w->rank;
        request.n_pipelines = w->coordinator->n_workers;
    } else if (!p->same_order) {
        request.reader = (uint64_t)w->rank + 1;
    }
    est_dataset_request_put(&request, out);
}

/* Under `lock`. */
static est_method pack_object(est_call_object *object, const est_call_worker *w, est_packing *out)
{
    est_per_worker *p = EST_CONTAINER_OF(object, est_per_worker, object);

    if (object->kind == EST_OBJECT_FUNCTION) {
        pack_function(EST_CONTAINER_OF(object, est_function, object), out);
        return EST_METHOD_FUNCTION;
    }
    if (object->kind == EST_OBJECT_DATASET) {
        pack_dataset(p, w, out);
        return EST_METHOD_DATASET;
    }
    est_iterator_request_put(&(est_iterator_request){ object->number, object->dataset->number, p->consumed[w->rank] },
                             out);
    return EST_METHOD_ITERATOR;
}

static est_status send_object(est_call_worker *w, est_link *link, est_call_object *object)
{
    est_coordinator *c = w->coordinator;
    est_payload      payload;
    est_method       method;
    passage         *p;
    est_status       status;

    if (object->kind == EST_OBJECT_VALUE || was_sent(w, object->number)) return EST_OK;
    if (w->link != link) return est_fail(EST_UNAVAILABLE, "%s is lost", w->name);
    p = est_alloc(sizeof *p + strlen(object->name) + 1);
    if (p == NULL) return est_no_memory();
    p->worker = w;
    p->link   = link;
    p->number = object->number;
    memcpy(p->name, object->name, strlen(object->name) + 1);
    est_packing_reset(&w->packing);
    method = pack_object(object, w, &w->packing);
    w->sent[object->number / WORD_BITS] |= UINT64_C(1) << object->number % WORD_BITS;
    pthread_mutex_unlock(&c->lock);
    status = est_packing_payload(&w->packing, &payload);
    if (status == EST_OK)
        status = est_link_ask(link, (uint16_t)method, est_method_text(method), payload, EST_FOREVER, object_arrived, p,
                              NULL);
    pthread_mutex_lock(&c->lock);
    if (status != EST_OK) est_free(p);
    if (status != EST_OK && w->link == link) forget_sent(w, object->number);
    return status;
}

est_status est_objects_send(est_call_worker *w, est_link *link, const est_scheduled *call)
{
    EST_TRY(send_object(w, link, &call->function->object));
    if (call->shard != NULL) EST_TRY(send_object(w, link, &call->shard->dataset->object));
    for (int i = 0; i < call->n_feeds; i++) {
        est_per_worker *from = call->feeds[i].from;

        if (from == NULL) continue;
        if (from->object.dataset != NULL) EST_TRY(send_object(w, link, from->object.dataset));
        EST_TRY(send_object(w, link, &from->object));
    }
    return EST_OK;
}
