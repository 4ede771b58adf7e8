/* objects.c: every object that is alive, by type and handle, and how many there are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proofs.h"

enum { BUCKETS = 4096 };

pthread_mutex_t vks_lock = PTHREAD_MUTEX_INITIALIZER;

const char *const vks_type_names[TYPE_COUNT] = {
    [TYPE_IMAGE] = "image",
    [TYPE_IMAGE_VIEW] = "image_view",
    [TYPE_BUFFER] = "buffer",
    [TYPE_BUFFER_VIEW] = "buffer_view",
    [TYPE_SHADER_MODULE] = "shader_module",
    [TYPE_PIPELINE_LAYOUT] = "pipeline_layout",
    [TYPE_PIPELINE_CACHE] = "pipeline_cache",
    [TYPE_DESCRIPTOR_SET_LAYOUT] = "descriptor_set_layout",
    [TYPE_DESCRIPTOR_POOL] = "descriptor_pool",
    [TYPE_SAMPLER] = "sampler",
    [TYPE_QUERY_POOL] = "query_pool",
    [TYPE_RENDER_PASS] = "render_pass",
    [TYPE_FRAMEBUFFER] = "framebuffer",
    [TYPE_EVENT] = "event",
    [TYPE_INSTANCE] = "instance",
    [TYPE_DEVICE] = "device",
    [TYPE_QUEUE] = "queue",
    [TYPE_SURFACE] = "surface",
    [TYPE_SWAPCHAIN] = "swapchain",
    [TYPE_FENCE] = "fence",
    [TYPE_SEMAPHORE] = "semaphore",
    [TYPE_MEMORY] = "memory",
    [TYPE_COMMAND_POOL] = "command_pool",
    [TYPE_COMMAND_BUFFER] = "command_buffer",
    [TYPE_PIPELINE] = "pipeline",
};

static struct object *buckets[BUCKETS];
static struct {
    uint64_t live, peak, created;
} counts[TYPE_COUNT];
static uint64_t last_serial;

static size_t size_of(enum object_type type)
{
    switch (type) {
    case TYPE_QUEUE:
        return sizeof(struct queue);
    case TYPE_FENCE:
        return sizeof(struct fence);
    case TYPE_SEMAPHORE:
        return sizeof(struct semaphore);
    case TYPE_SURFACE:
        return sizeof(struct surface);
    case TYPE_SWAPCHAIN:
        return sizeof(struct swapchain);
    default:
        return sizeof(struct object);
    }
}

static struct object **bucket(enum object_type type, uint64_t handle)
{
    uint64_t hash = (handle ^ (uint64_t)type << 56) * 0x9E3779B97F4A7C15u;
    return &buckets[hash >> 52];
}

void *vks_add(enum object_type type, uint64_t handle, uint64_t parent, struct context *context)
{
    struct object *object = calloc(1, size_of(type));
    if (object == NULL)
        abort(); /* a test's layer that loses count is worse than none */
    object->handle = handle;
    object->serial = ++last_serial;
    object->created = vks_now();
    object->parent = parent;
    object->context = context;
    object->type = type;
    struct object **head = bucket(type, handle);
    object->next = *head;
    *head = object;
    counts[type].created++;
    if (++counts[type].live > counts[type].peak)
        counts[type].peak = counts[type].live;
    return object;
}

void *vks_find(enum object_type type, uint64_t handle)
{
    struct object *object = handle == 0 ? NULL : *bucket(type, handle);
    while (object != NULL && (object->handle != handle || object->type != type))
        object = object->next;
    return object;
}

void *vks_find_serial(enum object_type type, uint64_t handle, uint64_t serial)
{
    struct object *object = handle == 0 ? NULL : *bucket(type, handle);
    while (object != NULL && (object->serial != serial || object->type != type))
        object = object->next;
    return object;
}

static void remove_at(struct object **place)
{
    struct object *object = *place;
    *place = object->next;
    counts[object->type].live--;
    free(object);
}

void vks_remove(enum object_type type, uint64_t handle)
{
    for (struct object **place = bucket(type, handle); *place != NULL; place = &(*place)->next) {
        if ((*place)->handle == handle && (*place)->type == type) {
            remove_at(place);
            return;
        }
    }
}

void vks_remove_children(enum object_type type, uint64_t parent)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct object **place = &buckets[i]; *place != NULL;) {
            if ((*place)->parent == parent && (*place)->type == type)
                remove_at(place);
            else
                place = &(*place)->next;
        }
    }
}

void vks_each(enum object_type type, void (*visit)(struct object *object, void *argument), void *argument)
{
    if (counts[type].live == 0)
        return;
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct object *object = buckets[i]; object != NULL; object = object->next) {
            if (object->type == type)
                visit(object, argument);
        }
    }
}

void vks_objects_reset(void)
{
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        counts[i].peak = counts[i].live;
        counts[i].created = 0;
    }
}

void vks_created(enum object_type type, uint64_t handle, uint64_t parent, struct context *context)
{
    pthread_mutex_lock(&vks_lock);
    vks_event(EVENT_CREATE, vks_add(type, handle, parent, context), 0, VK_SUCCESS, 0);
    pthread_mutex_unlock(&vks_lock);
}

void vks_destroyed(enum object_type type, uint64_t handle)
{
    if (handle == 0)
        return;
    pthread_mutex_lock(&vks_lock);
    struct object *object = vks_find(type, handle);
    if (object != NULL) {
        vks_event(EVENT_DESTROY, object, 0, VK_SUCCESS, 0);
        vks_remove(type, handle);
    }
    pthread_mutex_unlock(&vks_lock);
}

/* ---- for the test ---------------------------------------------------------------------------------------------- */

size_t vks_faults_live(vks_faults_count *out, size_t room)
{
    pthread_mutex_lock(&vks_lock);
    for (size_t i = 0; i < TYPE_COUNT && i < room; i++) {
        out[i] = (vks_faults_count){.live = counts[i].live, .peak = counts[i].peak, .created = counts[i].created};
        snprintf(out[i].type, sizeof out[i].type, "%s", vks_type_names[i]);
    }
    pthread_mutex_unlock(&vks_lock);
    return TYPE_COUNT;
}

static int by_serial(const void *a, const void *b)
{
    const uint64_t x = ((const vks_faults_object *)a)->serial, y = ((const vks_faults_object *)b)->serial;
    return (x > y) - (x < y);
}

size_t vks_faults_objects(vks_faults_object *out, size_t room)
{
    size_t total = 0;
    pthread_mutex_lock(&vks_lock);
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct object *object = buckets[i]; object != NULL; object = object->next, total++) {
            if (total >= room)
                continue;
            out[total] =
                (vks_faults_object){.handle = object->handle, .serial = object->serial, .created = object->created};
            snprintf(out[total].type, sizeof out[total].type, "%s", vks_type_names[object->type]);
            snprintf(out[total].name, sizeof out[total].name, "%s", object->name);
        }
    }
    pthread_mutex_unlock(&vks_lock);
    if (room > 0)
        qsort(out, total < room ? total : room, sizeof *out, by_serial);
    return total;
}
