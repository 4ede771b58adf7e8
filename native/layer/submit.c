/* submit.c: the engine's submissions take their turn on the surfaces whose images they use.
 *
 * Before such a submission libvkshare submits the acquire of each surface to the same queue, if this
 * ownership has none yet: a batch that waits for the previous owner and makes its writes visible to
 * all that the queue gets afterwards. The release is submitted later, so it comes after the engine's
 * work. The engine's own submission is passed on as it is.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "layer/layer.h"

static void (*_Atomic reporter)(vks_surface *surface, int status);
static atomic_uint_least64_t misuses;

void vks_layer_on_misuse(void (*report)(vks_surface *surface, int status)) { atomic_store(&reporter, report); }

uint64_t vks_layer_misuses(void) { return atomic_load(&misuses); }

/* ---- the queue's lock ---- */

void layer_lock_queue(void *device)
{
    while (sem_wait(&((layer_device *)device)->queue_lock) && errno == EINTR) {
    }
}

void layer_unlock_queue(void *device) { sem_post(&((layer_device *)device)->queue_lock); }

/* Takes the lock if a vks_device has that queue too. */
static bool lock(layer_device *device, VkQueue queue)
{
    if (!atomic_load_explicit(&device->has_guest, memory_order_acquire) || queue != atomic_load(&device->queue))
        return false;
    layer_lock_queue(device);
    return true;
}

static void unlock(layer_device *device, bool is_locked)
{
    if (is_locked)
        layer_unlock_queue(device);
}

/* ---- what a submission uses ---- */

typedef struct turn_use {
    VkImage image;
    vks_surface *surface; /* a reference */
    vks_layer_calls calls;
} turn_use;

typedef struct turn {
    layer_device *device;
    turn_use *uses;
    size_t n, capacity;
    bool drops; /* command buffers that use a muted image */
} turn;

static bool is_muted(const layer_image *shared)
{
    return shared->is_muted && pthread_equal(shared->muted_by, pthread_self());
}

/* Caller holds device->lock. */
static void add_use(turn *t, const layer_image *shared)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->uses[i].image == shared->from.image)
            return;
    if (t->n == t->capacity) {
        size_t capacity = t->capacity ? 2 * t->capacity : 8;
        turn_use *grown = realloc(t->uses, capacity * sizeof *grown);
        if (!grown)
            return;
        t->uses = grown;
        t->capacity = capacity;
    }
    shared->from.calls.surface_ref(shared->from.surface);
    t->uses[t->n++] = (turn_use){shared->from.image, shared->from.surface, shared->from.calls};
}

static void add_commands(turn *t, VkCommandBuffer commands)
{
    layer_device *device = t->device;
    pthread_mutex_lock(&device->lock);
    for (const layer_image *each = device->images; each; each = each->next) {
        if (!layer_uses(device, commands, each))
            continue;
        t->drops |= is_muted(each);
        if (!is_muted(each))
            add_use(t, each);
    }
    pthread_mutex_unlock(&device->lock);
}

static bool is_dropped(layer_device *device, VkCommandBuffer commands)
{
    bool dropped = false;
    pthread_mutex_lock(&device->lock);
    for (const layer_image *each = device->images; each; each = each->next)
        dropped |= is_muted(each) && layer_uses(device, commands, each);
    pthread_mutex_unlock(&device->lock);
    return dropped;
}

/* ---- turns ---- */

static void report(turn *t, const turn_use *use, int status)
{
    layer_device *device = t->device;
    void (*call)(vks_surface *, int) = atomic_load(&reporter);
    pthread_mutex_lock(&device->lock);
    layer_image *shared = layer_image_of(device, use->image);
    bool is_known = !shared || (shared->is_reported && status);
    if (shared)
        shared->is_reported = status != VKS_OK;
    pthread_mutex_unlock(&device->lock);
    if (!status)
        return;
    atomic_fetch_add(&misuses, 1);
    if (is_known)
        return;
    if (call)
        call(use->surface, status);
    else
        fprintf(stderr, "vkshare: an engine's submission uses the image of a surface outside its turn (status %d)\n",
                status);
}

/* Blocks until the releases of the previous owners are submitted. Caller holds no lock. */
static void take_turns(turn *t, VkQueue queue)
{
    for (size_t i = 0; i < t->n; i++) {
        turn_use *use = &t->uses[i];
        vks_semaphore_point ignored;
        int status = VKS_LAYER_OTHER_QUEUE;
        if (queue == atomic_load(&t->device->queue))
            while ((status = use->calls.surface_sync(use->surface, VKS_FOREVER, &ignored, NULL)) == VKS_INTERRUPTED) {
            }
        report(t, use, status);
        use->calls.surface_unref(use->surface);
    }
    free(t->uses);
}

VKAPI_ATTR VkResult VKAPI_CALL layer_QueueSubmit(VkQueue queue, uint32_t n, const VkSubmitInfo *submits, VkFence fence)
{
    layer_device *device = layer_device_of(queue);
    turn t = {.device = device};
    VkSubmitInfo *changed = NULL;
    VkCommandBuffer *kept = NULL;
    size_t buffers = 0, n_kept = 0;
    for (uint32_t i = 0; layer_shares(device) && i < n; buffers += submits[i++].commandBufferCount)
        for (uint32_t k = 0; k < submits[i].commandBufferCount; k++)
            add_commands(&t, submits[i].pCommandBuffers[k]);
    take_turns(&t, queue);
    if (t.drops && (changed = malloc(n * sizeof *changed)) && (kept = malloc(buffers * sizeof(VkCommandBuffer))))
        for (uint32_t i = 0; i < n; i++) {
            changed[i] = submits[i];
            changed[i].pCommandBuffers = kept + n_kept;
            for (uint32_t k = 0; k < submits[i].commandBufferCount; k++)
                if (!is_dropped(device, submits[i].pCommandBuffers[k]))
                    kept[n_kept++] = submits[i].pCommandBuffers[k];
            changed[i].commandBufferCount = (uint32_t)(kept + n_kept - changed[i].pCommandBuffers);
        }
    VkResult result = VK_ERROR_OUT_OF_HOST_MEMORY; /* of a muted submission that would reach the driver */
    if (!t.drops || kept) {
        bool is_locked = lock(device, queue);
        result = device->QueueSubmit(queue, n, kept ? changed : submits, fence);
        unlock(device, is_locked);
    }
    free(kept);
    free(changed);
    return result;
}

VKAPI_ATTR VkResult VKAPI_CALL layer_QueueSubmit2(VkQueue queue, uint32_t n, const VkSubmitInfo2 *submits,
                                                  VkFence fence)
{
    layer_device *device = layer_device_of(queue);
    turn t = {.device = device};
    VkSubmitInfo2 *changed = NULL;
    VkCommandBufferSubmitInfo *kept = NULL;
    size_t buffers = 0, n_kept = 0;
    for (uint32_t i = 0; layer_shares(device) && i < n; buffers += submits[i++].commandBufferInfoCount)
        for (uint32_t k = 0; k < submits[i].commandBufferInfoCount; k++)
            add_commands(&t, submits[i].pCommandBufferInfos[k].commandBuffer);
    take_turns(&t, queue);
    if (t.drops && (changed = malloc(n * sizeof *changed)) && (kept = malloc(buffers * sizeof *kept)))
        for (uint32_t i = 0; i < n; i++) {
            changed[i] = submits[i];
            changed[i].pCommandBufferInfos = kept + n_kept;
            for (uint32_t k = 0; k < submits[i].commandBufferInfoCount; k++)
                if (!is_dropped(device, submits[i].pCommandBufferInfos[k].commandBuffer))
                    kept[n_kept++] = submits[i].pCommandBufferInfos[k];
            changed[i].commandBufferInfoCount = (uint32_t)(kept + n_kept - changed[i].pCommandBufferInfos);
        }
    VkResult result = VK_ERROR_OUT_OF_HOST_MEMORY;
    if (!t.drops || kept) {
        bool is_locked = lock(device, queue);
        result = device->QueueSubmit2(queue, n, kept ? changed : submits, fence);
        unlock(device, is_locked);
    }
    free(kept);
    free(changed);
    return result;
}

/* ---- the queue's other users ---- */

VKAPI_ATTR VkResult VKAPI_CALL layer_QueuePresentKHR(VkQueue queue, const VkPresentInfoKHR *info)
{
    layer_device *device = layer_device_of(queue);
    bool is_locked = lock(device, queue);
    VkResult result = device->QueuePresentKHR(queue, info);
    unlock(device, is_locked);
    return result;
}

VKAPI_ATTR VkResult VKAPI_CALL layer_QueueBindSparse(VkQueue queue, uint32_t n, const VkBindSparseInfo *infos,
                                                     VkFence fence)
{
    layer_device *device = layer_device_of(queue);
    bool is_locked = lock(device, queue);
    VkResult result = device->QueueBindSparse(queue, n, infos, fence);
    unlock(device, is_locked);
    return result;
}

VKAPI_ATTR VkResult VKAPI_CALL layer_QueueWaitIdle(VkQueue queue)
{
    layer_device *device = layer_device_of(queue);
    bool is_locked = lock(device, queue);
    VkResult result = device->QueueWaitIdle(queue);
    unlock(device, is_locked);
    return result;
}

VKAPI_ATTR VkResult VKAPI_CALL layer_DeviceWaitIdle(VkDevice handle)
{
    layer_device *device = layer_device_of(handle);
    bool is_locked = lock(device, atomic_load(&device->queue));
    VkResult result = device->DeviceWaitIdle(handle);
    unlock(device, is_locked);
    return result;
}

/* ---- devices for vkshare ---- */

LAYER_SHOWN uint32_t vks_layer_version(void) { return VKS_LAYER_VERSION; }

void vks_layer_begin(void) { layer_thread_device = NULL; }

bool vks_layer_thread_device(vks_layer_device *out)
{
    layer_device *device = layer_thread_device;
    if (!out || !layer_is_device(device)) /* another thread may have ended it since */
        return false;
    atomic_store(&device->has_guest, true);
    pthread_mutex_lock(&device->lock);
    *out = (vks_layer_device){
        .get_instance_proc_addr = (PFN_vkGetInstanceProcAddr)layer_guest_instance_function,
        .instance = device->instance->handle,
        .physical_device = device->physical_device,
        .device = device->handle,
        .queue = atomic_load(&device->queue),
        .queue_family = device->queue_family,
        .api_version = device->instance->api_version,
        .created_with = &device->created_with,
        .extensions = device->extensions,
        .lock_queue = layer_lock_queue,
        .unlock_queue = layer_unlock_queue,
        .lock_user = device,
    };
    pthread_mutex_unlock(&device->lock);
    return true;
}
