/* cpu.c: the CPU backend's queue: one worker thread runs batches in order, and a pool of
 * tile threads runs their programs. */
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "raster/program.h"

typedef struct job {
    struct job *next;
    uint64_t serial;
    uint32_t n;
    vks_commands *commands[];
} job;

typedef struct cpu_queue {
    pthread_mutex_t lock; /* guards the list; taken inside device->lock, never the other way round */
    pthread_cond_t work;
    job *first, *last;
    bool stop, started;
    uint32_t threads;
    _Atomic uint64_t completed;
    struct vks_pool *pool;
    vks_relay *relay; /* NULL: the rasteriser draws; set before the first batch */
    uintptr_t thread;
} cpu_queue;

static bool run(cpu_queue *queue, const job *todo)
{
    for (uint32_t i = 0; i < todo->n; i++) {
        const vks_commands *c = todo->commands[i];
        bool ran = queue->relay
                       ? vks_relay_send(queue->relay, c->relayed, c->relayed_size)
                       : vks_program_run(c->program, c->images, (uint32_t)c->n_images, queue->pool) == VKS_RASTER_OK;
        if (!ran)
            return false; /* out of memory, images that do not match the program, or no relay is there any more */
    }
    return true;
}

static job *next_job(cpu_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    while (!queue->first && !queue->stop)
        pthread_cond_wait(&queue->work, &queue->lock);
    job *todo = queue->first;
    if (todo && !(queue->first = todo->next))
        queue->last = NULL;
    pthread_mutex_unlock(&queue->lock);
    return todo;
}

static void *work(void *argument)
{
    vks_device *device = argument;
    cpu_queue *queue = device->impl;
    /* Work that did not run makes the device lost, because its waiters must not take it for
     * complete. */
    bool good = true;
    for (job *todo; (todo = next_job(queue));) {
        good = good && run(queue, todo);
        if (good)
            atomic_store(&queue->completed, todo->serial);
        pthread_mutex_lock(&device->lock);
        if (good)
            vks_device_publish(device);
        else
            vks_device_lose(device);
        pthread_mutex_unlock(&device->lock);
        vks_device_progress(device);
        for (uint32_t i = 0; i < todo->n; i++)
            vks_commands_unref(todo->commands[i]);
        free(todo);
    }
    return NULL;
}

static vks_status start(vks_device *device)
{
    cpu_queue *queue = device->impl;
    if (queue->started)
        return VKS_OK;
    if (!queue->relay && !queue->pool && vks_pool_create(queue->threads, &queue->pool) != 0)
        queue->pool = NULL; /* without a pool the worker renders alone */
    vks_status status = vks_thread_start("vkshare-cpu", work, device, &queue->thread);
    queue->started = status == VKS_OK;
    return status;
}

static vks_status submit(vks_device *device, const vks_batch *batch)
{
    cpu_queue *queue = device->impl;
    /* No commands, and nothing is queued before it. */
    if (!batch->n_commands && atomic_load(&queue->completed) + 1 == batch->serial) {
        atomic_store(&queue->completed, batch->serial);
        return VKS_OK;
    }
    vks_status status = start(device);
    if (status)
        return status;
    job *todo = malloc(sizeof *todo + batch->n_commands * sizeof(vks_commands *));
    if (!todo)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a batch");
    todo->next = NULL;
    todo->serial = batch->serial;
    todo->n = batch->n_commands;
    for (uint32_t i = 0; i < todo->n; i++) {
        todo->commands[i] = batch->commands[i];
        vks_commands_ref(todo->commands[i]);
    }
    pthread_mutex_lock(&queue->lock);
    *(queue->last ? &queue->last->next : &queue->first) = todo;
    queue->last = todo;
    pthread_cond_signal(&queue->work);
    pthread_mutex_unlock(&queue->lock);
    return VKS_OK;
}

static uint64_t completed(vks_device *device) { return atomic_load(&((cpu_queue *)device->impl)->completed); }

static vks_status wait(vks_device *device, uint64_t serial, uint64_t deadline)
{
    cpu_queue *queue = device->impl;
    vks_status status = VKS_OK;
    atomic_fetch_add(&device->waiters, 1);
    while (!status) {
        uint32_t seen = atomic_load(&device->progress);
        if (atomic_load(&queue->completed) >= serial)
            break;
        if (device->lost)
            status = VKS_DEVICE_LOST;
        else
            status = vks_futex_wait(&device->progress, seen, VKS_ANY_BIT, deadline);
    }
    atomic_fetch_sub(&device->waiters, 1);
    return status;
}

static vks_status start_publisher(vks_device *device) /* its worker is started by submit() */
{
    (void)device;
    return VKS_OK;
}

static void wake_publisher(vks_device *device) { (void)device; } /* the worker publishes after every batch */

static void stop(vks_device *device)
{
    cpu_queue *queue = device->impl;
    pthread_mutex_lock(&queue->lock);
    queue->stop = true;
    pthread_cond_signal(&queue->work);
    pthread_mutex_unlock(&queue->lock);
    if (queue->relay) /* the worker may wait for an answer */
        vks_relay_end(queue->relay, VKS_RELAY_PATIENCE);
    if (queue->started)
        vks_thread_join(queue->thread);
}

static void destroy(vks_device *device)
{
    cpu_queue *queue = device->impl;
    vks_pool_destroy(queue->pool);
    queue->pool = NULL;
    vks_relay_destroy(queue->relay);
    queue->relay = NULL;
}

static vks_status create_timeline(vks_device *device, uint64_t initial, uint64_t *semaphore)
{
    (void)device, (void)initial;
    *semaphore = 0; /* the page is the timeline */
    return VKS_OK;
}

static void destroy_timeline(vks_device *device, uint64_t semaphore) { (void)device, (void)semaphore; }

static vks_status no_semaphores(void) { return vks_fail(VKS_UNSUPPORTED, 0, "the CPU backend has no semaphores"); }
static vks_status counter(vks_device *device, uint64_t semaphore, uint64_t *value)
{
    (void)device, (void)semaphore, (void)value;
    return no_semaphores();
}
static vks_status host_signal(vks_device *device, uint64_t semaphore, uint64_t value)
{
    (void)device, (void)semaphore, (void)value;
    return no_semaphores();
}
static vks_status wait_timeline(vks_device *device, uint64_t semaphore, uint64_t value, uint64_t deadline)
{
    (void)device, (void)semaphore, (void)value, (void)deadline;
    return no_semaphores();
}
static vks_status export_timeline(vks_device *device, uint64_t semaphore, int *fd)
{
    (void)device, (void)semaphore, (void)fd;
    return no_semaphores();
}
static vks_status import_timeline(vks_device *device, int fd, uint64_t *semaphore)
{
    (void)device, (void)fd, (void)semaphore;
    return no_semaphores();
}

static const vks_backend backend = {
    .submit = submit,
    .completed = completed,
    .wait = wait,
    .start_publisher = start_publisher,
    .wake_publisher = wake_publisher,
    .stop = stop,
    .destroy = destroy,
    .create_timeline = create_timeline,
    .destroy_timeline = destroy_timeline,
    .counter = counter,
    .host_signal = host_signal,
    .wait_timeline = wait_timeline,
    .export_timeline = export_timeline,
    .import_timeline = import_timeline,
};

vks_status vks_cpu_backend_init(vks_device *device, uint32_t threads)
{
    cpu_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a queue");
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->work, NULL);
    queue->threads = threads;
    /* Freed with the device's last reference, because completed() may be called after the
     * shutdown. */
    device->impl = queue;
    device->backend = &backend;
    return VKS_OK;
}

vks_status vks_device_set_relay(vks_device *device, int fd, uint32_t opcode, uint32_t version)
{
    VKS_NEEDS(device);
    if (device->timeline)
        return vks_fail(VKS_UNSUPPORTED, 0, "a relay is for devices without Vulkan");
    pthread_mutex_lock(&device->lock);
    cpu_queue *queue = device->impl;
    vks_status status = vks_device_check(device);
    if (!status && (queue->relay || atomic_load(&device->submitted)))
        status = vks_fail(VKS_BAD_CALL, 0, "the device has a relay, or has drawn already");
    if (!status)
        status = vks_relay_create(fd, opcode, version, &queue->relay);
    pthread_mutex_unlock(&device->lock);
    return status;
}

bool vks_device_is_relayed(const vks_device *device)
{
    return !device->timeline && ((const cpu_queue *)device->impl)->relay != NULL;
}
