#define _GNU_SOURCE
#include "stub_driver.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vulkan/vulkan_core.h"

enum { SEMAPHORES = 4096, DEVICES = 4096, POINTS = 16, IMAGES = 1 << 16 };
enum { DRAW = 3, COPY = 999 };  /* command buffers: one for each family */
enum { FIRST_IMAGE = 1 << 20 }; /* command buffers from here on: acquire and release of each image, for each queue */

typedef struct point {
    uint32_t semaphore;
    uint64_t value;
} point;

typedef struct batch {
    struct batch *next;
    uint32_t n_waits, n_signals;
    point waits[POINTS], signals[POINTS];
    uint64_t number; /* in order of submission, over all queues */
    uint32_t n_memories;
    uint32_t memories[POINTS]; /* memories of the images that it acquires, releases or works on */
} batch;

typedef struct stub_device {
    vks_device *core;
    bool is_api; /* an external API's queue */
    bool is_stalled;
    bool has_memory;             /* it imported an image too */
    struct stub_device *part_of; /* the device that it is lost with: an API's device, or the device of a second queue */
    struct stub_device *transfer; /* the second queue */
    uint32_t api_memory, api_semaphore;
    batch *first, **last;
    bool open, lost;
    stub_fault fail_submit;
    uint32_t submits_left;
} stub_device;

/* A semaphore is a name for a payload. An import makes another name for the same payload. */
static struct {
    pthread_mutex_t lock;
    uint64_t counters[SEMAPHORES];
    uint32_t payload[SEMAPHORES]; /* 0: the name is not in use */
    uint32_t n_names, n_payloads, alive, violations;
    stub_device devices[DEVICES];
    uint32_t n_devices;
    uint64_t n_batches;
    bool stalled, failed, running, has_transfer, was_asked; /* whether the environment was */
    uint32_t n_commands;
    stub_fault fault;
    uint32_t calls_left;
    struct image {
        uint32_t memory; /* imported images share it */
        bool here;       /* its device's queue has acquired it from VK_QUEUE_FAMILY_EXTERNAL */
    } images[IMAGES];
    uint32_t n_images;
    struct {
        const vks_surface *surface;
        uint32_t image;
    } handles[IMAGES];
    uint32_t n_handles;
} stub = {.lock = PTHREAD_MUTEX_INITIALIZER, .n_names = 1, .n_payloads = 1};

static void violation(const char *text)
{
    fprintf(stderr, "stub driver: %s\n", text);
    stub.violations++;
}

static stub_device *device_of(const void *handle) { return &stub.devices[(uintptr_t)handle]; }

static uint64_t *counter_of(uint32_t name)
{
    static uint64_t nothing;
    if (name < SEMAPHORES && stub.payload[name])
        return &stub.counters[stub.payload[name]];
    violation("a semaphore is used that does not exist");
    return &nothing;
}

static uint32_t name_of(VkSemaphore semaphore) { return (uint32_t)(uintptr_t)semaphore; }

/* ---- the queues ---- */

static void set(uint32_t name, uint64_t value)
{
    uint64_t *counter = counter_of(name);
    if (value <= *counter) /* NVIDIA moves the counter back, lavapipe loses the device (docs/spec/drivers.md) */
        violation("a signal does not increase the value");
    else
        *counter = value;
}

static bool is_ready(const batch *b)
{
    for (uint32_t i = 0; i < b->n_waits; i++)
        if (*counter_of(b->waits[i].semaphore) < b->waits[i].value)
            return false;
    return true;
}

static bool works_on(const batch *b, uint32_t memory)
{
    for (uint32_t i = 0; i < b->n_memories; i++)
        if (b->memories[i] == memory)
            return true;
    return false;
}

/* Checks that work on an image runs in the order of its submission, over all queues. */
static void check_order(const batch *b)
{
    for (uint32_t i = 0; i < b->n_memories; i++)
        for (uint32_t d = 1; d <= stub.n_devices; d++)
            for (const batch *other = stub.devices[d].first; other; other = other->next)
                if (other->number < b->number && works_on(other, b->memories[i]))
                    violation("work on an image overtakes earlier work on it");
}

/* Caller holds stub.lock. */
static void run_queue(stub_device *device)
{
    while (device->first && !device->is_stalled && (device->is_api || !stub.stalled) && is_ready(device->first)) {
        batch *b = device->first;
        check_order(b);
        for (uint32_t i = 0; i < b->n_signals; i++)
            set(b->signals[i].semaphore, b->signals[i].value);
        if (!(device->first = b->next))
            device->last = &device->first;
        free(b);
    }
}

static void drop_queue(stub_device *device)
{
    while (device->first) {
        batch *b = device->first;
        device->first = b->next;
        free(b);
    }
    device->last = &device->first;
}

static void *run_queues(void *unused)
{
    (void)unused;
    for (;; usleep(200)) { /* so that counters advance late */
        pthread_mutex_lock(&stub.lock);
        for (uint32_t i = 1; i <= stub.n_devices; i++)
            run_queue(&stub.devices[i]);
        pthread_mutex_unlock(&stub.lock);
    }
    return NULL;
}

static bool is_used(uint32_t name)
{
    for (uint32_t d = 1; d <= stub.n_devices; d++)
        for (const batch *b = stub.devices[d].first; b; b = b->next) {
            for (uint32_t i = 0; i < b->n_waits; i++)
                if (b->waits[i].semaphore == name)
                    return true;
            for (uint32_t i = 0; i < b->n_signals; i++)
                if (b->signals[i].semaphore == name)
                    return true;
        }
    return false;
}

/* ---- failing ---- */

static VkResult fail_device(stub_device *device, stub_fault fault)
{
    stub.failed = true;
    if (fault == STUB_OUT_OF_MEMORY)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 1; i <= stub.n_devices; i++) {
        stub_device *other = &stub.devices[i];
        if (other == device || other->part_of == device) {
            other->lost = true;
            drop_queue(other);
        }
    }
    return VK_ERROR_DEVICE_LOST;
}

/* Called first in each call that may fail. Caller holds stub.lock. */
static VkResult enter(stub_device *device)
{
    if (!device->open)
        violation("a call comes after the device was destroyed");
    if (device->lost)
        return VK_ERROR_DEVICE_LOST;
    if (stub.fault == STUB_NO_FAULT || --stub.calls_left)
        return VK_SUCCESS;
    stub_fault fault = stub.fault;
    stub.fault = STUB_NO_FAULT;
    return fail_device(device, fault);
}

/* ---- the calls ---- */

static VkResult CreateSemaphore(VkDevice handle, const VkSemaphoreCreateInfo *info, const VkAllocationCallbacks *unused,
                                VkSemaphore *out)
{
    (void)unused;
    pthread_mutex_lock(&stub.lock);
    VkResult code = enter(device_of(handle));
    if (code == VK_ERROR_DEVICE_LOST) /* not one of this call's codes */
        code = VK_ERROR_OUT_OF_HOST_MEMORY;
    if (code == VK_SUCCESS) {
        uint32_t name = 1;
        while (stub.payload[name])
            name++;
        stub.payload[name] = stub.n_payloads++ % (SEMAPHORES - 1) + 1;
        stub.counters[stub.payload[name]] = ((const VkSemaphoreTypeCreateInfo *)info->pNext)->initialValue;
        stub.alive++;
        *out = (VkSemaphore)(uintptr_t)name;
    }
    pthread_mutex_unlock(&stub.lock);
    return code;
}

static void DestroySemaphore(VkDevice handle, VkSemaphore semaphore, const VkAllocationCallbacks *unused)
{
    (void)unused;
    pthread_mutex_lock(&stub.lock);
    if (!device_of(handle)->open)
        violation("a semaphore is destroyed after its device");
    counter_of(name_of(semaphore));
    if (is_used(name_of(semaphore)))
        violation("a semaphore is destroyed that the queue still uses");
    stub.payload[name_of(semaphore)] = 0;
    stub.alive--;
    pthread_mutex_unlock(&stub.lock);
}

static VkResult GetSemaphoreCounterValue(VkDevice handle, VkSemaphore semaphore, uint64_t *value)
{
    pthread_mutex_lock(&stub.lock);
    VkResult code = enter(device_of(handle));
    if (code == VK_SUCCESS)
        *value = *counter_of(name_of(semaphore));
    pthread_mutex_unlock(&stub.lock);
    return code;
}

static VkResult WaitSemaphores(VkDevice handle, const VkSemaphoreWaitInfo *info, uint64_t timeout)
{
    uint64_t limit = vks_now() + timeout;
    pthread_mutex_lock(&stub.lock);
    VkResult code = enter(device_of(handle));
    while (code == VK_SUCCESS && *counter_of(name_of(info->pSemaphores[0])) < info->pValues[0]) {
        pthread_mutex_unlock(&stub.lock);
        usleep(50);
        pthread_mutex_lock(&stub.lock);
        if (device_of(handle)->lost)
            code = VK_ERROR_DEVICE_LOST;
        else if (vks_now() >= limit)
            code = VK_TIMEOUT;
    }
    pthread_mutex_unlock(&stub.lock);
    return code;
}

static VkResult SignalSemaphore(VkDevice handle, const VkSemaphoreSignalInfo *info)
{
    pthread_mutex_lock(&stub.lock);
    VkResult code = enter(device_of(handle));
    if (code == VK_SUCCESS)
        set(name_of(info->semaphore), info->value);
    pthread_mutex_unlock(&stub.lock);
    return code;
}

/* Runs an ownership transfer. Each image alternates between acquire and release, and only one image
 * of a memory is owned by a queue. */
static void transfer(const stub_device *queue, batch *b, uint64_t buffer)
{
    if ((buffer < FIRST_IMAGE ? buffer == COPY : (buffer - FIRST_IMAGE) / 2 % 2) != (queue->part_of != NULL))
        violation("a command buffer is of another family than the queue");
    if (buffer < FIRST_IMAGE)
        return;
    struct image *image = &stub.images[(buffer - FIRST_IMAGE) / 4];
    bool takes = buffer % 2 == 0;
    if (takes == image->here)
        violation(takes ? "an image is taken that the queue has" : "an image is given that the queue does not have");
    for (uint32_t i = 0; takes && i < stub.n_images; i++)
        if (stub.images[i].here && stub.images[i].memory == image->memory && &stub.images[i] != image)
            violation("an image is taken that another device's queue has");
    image->here = takes;
    if (b->n_memories < POINTS)
        b->memories[b->n_memories++] = image->memory;
}

static void append(stub_device *device, batch *b)
{
    b->number = ++stub.n_batches;
    *device->last = b;
    device->last = &b->next;
}

static VkResult QueueSubmit2(VkQueue queue, uint32_t n, const VkSubmitInfo2 *infos, VkFence fence)
{
    (void)fence;
    pthread_mutex_lock(&stub.lock);
    stub_device *device = device_of(queue), *whole = device->part_of ? device->part_of : device;
    VkResult code = enter(whole);
    if (code == VK_SUCCESS && whole->fail_submit && --whole->submits_left == 0) {
        code = fail_device(whole, whole->fail_submit);
        whole->fail_submit = STUB_NO_FAULT;
    }
    for (uint32_t i = 0; i < n && code == VK_SUCCESS; i++) {
        batch *b = calloc(1, sizeof *b);
        for (uint32_t k = 0; k < infos[i].waitSemaphoreInfoCount && k < POINTS; k++)
            b->waits[b->n_waits++] =
                (point){name_of(infos[i].pWaitSemaphoreInfos[k].semaphore), infos[i].pWaitSemaphoreInfos[k].value};
        for (uint32_t k = 0; k < infos[i].signalSemaphoreInfoCount && k < POINTS; k++)
            b->signals[b->n_signals++] =
                (point){name_of(infos[i].pSignalSemaphoreInfos[k].semaphore), infos[i].pSignalSemaphoreInfos[k].value};
        for (uint32_t k = 0; k < infos[i].commandBufferInfoCount; k++)
            transfer(device, b, (uintptr_t)infos[i].pCommandBufferInfos[k].commandBuffer);
        append(device, b);
    }
    pthread_mutex_unlock(&stub.lock);
    return code;
}

/* Exports a memfd that contains the payload's number. */
static VkResult GetSemaphoreFdKHR(VkDevice handle, const VkSemaphoreGetFdInfoKHR *info, int *fd)
{
    pthread_mutex_lock(&stub.lock);
    VkResult code = enter(device_of(handle));
    if (code == VK_ERROR_DEVICE_LOST)
        code = VK_ERROR_OUT_OF_HOST_MEMORY;
    if (code == VK_SUCCESS) {
        *fd = memfd_create("semaphore", 0);
        if (pwrite(*fd, &stub.payload[name_of(info->semaphore)], sizeof(uint32_t), 0) != sizeof(uint32_t))
            abort();
    }
    pthread_mutex_unlock(&stub.lock);
    return code;
}

static VkResult ImportSemaphoreFdKHR(VkDevice handle, const VkImportSemaphoreFdInfoKHR *info)
{
    pthread_mutex_lock(&stub.lock);
    VkResult code = enter(device_of(handle));
    if (code == VK_ERROR_DEVICE_LOST)
        code = VK_ERROR_INVALID_EXTERNAL_HANDLE;
    uint32_t payload;
    if (code == VK_SUCCESS && pread(info->fd, &payload, sizeof payload, 0) != sizeof payload)
        code = VK_ERROR_INVALID_EXTERNAL_HANDLE; /* not a file of this driver */
    if (code == VK_SUCCESS) {
        stub.payload[name_of(info->semaphore)] = payload;
        close(info->fd);
    }
    pthread_mutex_unlock(&stub.lock);
    return code;
}

static PFN_vkVoidFunction get_proc_addr(VkDevice device, const char *name)
{
    (void)device;
#define FUNCTION(f)                                                                                                    \
    if (strcmp(name, "vk" #f) == 0)                                                                                    \
        return (PFN_vkVoidFunction)f;
    FUNCTION(CreateSemaphore)
    FUNCTION(DestroySemaphore)
    FUNCTION(GetSemaphoreCounterValue)
    FUNCTION(WaitSemaphores)
    FUNCTION(SignalSemaphore)
    FUNCTION(QueueSubmit2)
    FUNCTION(GetSemaphoreFdKHR)
    FUNCTION(ImportSemaphoreFdKHR)
#undef FUNCTION
    return NULL;
}

/* ---- for the tests ---- */

/* Caller holds stub.lock. */
static uint32_t new_queue(void)
{
    if (!stub.running) {
        pthread_t thread;
        stub.running = pthread_create(&thread, NULL, run_queues, NULL) == 0;
        pthread_detach(thread);
    }
    if (stub.n_devices == DEVICES - 1)
        abort();
    uint32_t i = ++stub.n_devices;
    stub.devices[i] = (stub_device){.open = true, .last = &stub.devices[i].first};
    return i;
}

static vks_device *open_device(const char *name, bool native, bool is_adopted)
{
    pthread_mutex_lock(&stub.lock);
    if (!stub.was_asked) {
        stub.has_transfer = getenv("STUB_TRANSFER") != NULL;
        stub.was_asked = true;
    }
    uint32_t i = new_queue(), transfer = 0;
    if (stub.has_transfer && !is_adopted) {
        transfer = new_queue();
        stub.devices[transfer].part_of = &stub.devices[i];
        stub.devices[i].transfer = &stub.devices[transfer];
    }
    pthread_mutex_unlock(&stub.lock);
    vks_vulkan_info vulkan = {.device = i,
                              .queue = i,
                              .transfer_queue = transfer,
                              .export_timelines = native,
                              .is_adopted = is_adopted,
                              .max_timeline_difference = UINT64_C(1) << 40};
    PFN_vkVoidFunction (*get)(VkDevice, const char *) = get_proc_addr;
    memcpy(&vulkan.get_device_proc_addr, &get, sizeof get);
    vks_device *device = NULL;
    vks_status status = vks_device_create(&(vks_device_info){.name = name, .vulkan = &vulkan}, &device);
    pthread_mutex_lock(&stub.lock);
    stub.devices[i].core = device;
    stub.devices[i].open = status == VKS_OK;
    pthread_mutex_unlock(&stub.lock);
    return device;
}

void stub_have_transfer(bool has)
{
    pthread_mutex_lock(&stub.lock);
    stub.has_transfer = has;
    stub.was_asked = true;
    pthread_mutex_unlock(&stub.lock);
}

vks_device *stub_open(const char *name, bool native) { return open_device(name, native, false); }
vks_device *stub_adopt(const char *name, bool native) { return open_device(name, native, true); }

/* Returns the image of a handle; the newest first, because memory is reused. */
static uint32_t image_of(const vks_surface *surface)
{
    uint32_t i = stub.n_handles;
    while (i && stub.handles[i - 1].surface != surface)
        i--;
    return i ? stub.handles[i - 1].image : 0;
}

static vks_surface_info info_of(uint32_t image)
{
    return (vks_surface_info){.width = 8,
                              .height = 8,
                              .acquire_commands = FIRST_IMAGE + 4 * image,
                              .release_commands = FIRST_IMAGE + 4 * image + 1};
}

static vks_surface *note_handle(vks_surface *surface, uint32_t image)
{
    vks_surface_set_transfer_commands(surface, FIRST_IMAGE + 4 * image + 2, FIRST_IMAGE + 4 * image + 3);
    pthread_mutex_lock(&stub.lock);
    if (stub.n_handles == IMAGES)
        abort();
    stub.handles[stub.n_handles].surface = surface;
    stub.handles[stub.n_handles++].image = image;
    pthread_mutex_unlock(&stub.lock);
    return surface;
}

static uint32_t new_image(const vks_surface *of)
{
    pthread_mutex_lock(&stub.lock);
    if (stub.n_images == IMAGES)
        abort();
    uint32_t image = stub.n_images++;
    stub.images[image].memory = of ? stub.images[image_of(of)].memory : image;
    pthread_mutex_unlock(&stub.lock);
    return image;
}

vks_surface *stub_surface(vks_device *device, vks_surface *of)
{
    vks_surface *surface = NULL;
    int page, semaphore;
    uint32_t image = new_image(of);
    vks_surface_info info = info_of(image);
    vks_status status = VKS_OK;
    while (of && (status = vks_surface_export(of, &page, &semaphore)) == VKS_INTERRUPTED)
        ;
    if (status)
        return NULL;
    status =
        of ? vks_surface_open(device, &info, page, semaphore, &surface) : vks_surface_create(device, &info, &surface);
    return status == VKS_OK ? note_handle(surface, image) : NULL;
}

void stub_take_over(vks_surface *surface)
{
    vks_surface_set_transfer_commands(surface, 0, 0);
    vks_surface_set_initial_commands(surface, FIRST_IMAGE + 4 * image_of(surface));
}

vks_status stub_commands(vks_surface *surface, stub_work_kind kind, vks_commands **out)
{
    vks_use use = {surface, true};
    vks_device *device = vks_surface_device(surface);
    vks_status status = vks_commands_create_vulkan(device, DRAW, &use, 1, NULL, NULL, out);
    pthread_mutex_lock(&stub.lock);
    bool copies = kind == STUB_COPIES || (kind == STUB_VARIED && stub.n_commands++ % 2);
    pthread_mutex_unlock(&stub.lock);
    if (status == VKS_OK && copies)
        vks_commands_set_transfer(*out, COPY);
    return status;
}

vks_surface *stub_alias(vks_surface *of)
{
    vks_surface *surface = NULL;
    uint32_t image = image_of(of);
    vks_surface_info info = info_of(image);
    return vks_surface_alias(of, &info, &surface) == VKS_OK ? note_handle(surface, image) : NULL;
}

static stub_device *find(const vks_device *core)
{
    uint32_t i = stub.n_devices;
    while (i && stub.devices[i].core != core)
        i--;
    return &stub.devices[i];
}

void stub_close(vks_device *device)
{
    if (!device)
        return;
    vks_device_shutdown(device);
    pthread_mutex_lock(&stub.lock);
    stub_device *mine = find(device);
    for (stub_device *queue = mine; queue; queue = queue->transfer) {
        if (queue->first && !queue->lost)
            violation("a device is destroyed while its queue has work");
        drop_queue(queue);
    }
    mine->open = false;
    mine->core = NULL;
    pthread_mutex_unlock(&stub.lock);
    vks_device_unref(device);
}

void stub_fail(stub_fault fault, uint32_t n)
{
    pthread_mutex_lock(&stub.lock);
    stub.fault = fault;
    stub.calls_left = n;
    stub.failed = false;
    pthread_mutex_unlock(&stub.lock);
}

void stub_fail_submit(vks_device *device, stub_fault fault, uint32_t n)
{
    pthread_mutex_lock(&stub.lock);
    find(device)->fail_submit = fault;
    find(device)->submits_left = n;
    stub.failed = false;
    pthread_mutex_unlock(&stub.lock);
}

static uint32_t read_locked(const uint32_t *value)
{
    pthread_mutex_lock(&stub.lock);
    uint32_t copy = *value;
    pthread_mutex_unlock(&stub.lock);
    return copy;
}

uint32_t stub_semaphores(void) { return read_locked(&stub.alive); }
uint32_t stub_violations(void) { return read_locked(&stub.violations); }

bool stub_has_failed(void)
{
    pthread_mutex_lock(&stub.lock);
    bool failed = stub.failed;
    pthread_mutex_unlock(&stub.lock);
    return failed;
}

void stub_stall(bool stalled)
{
    pthread_mutex_lock(&stub.lock);
    stub.stalled = stalled;
    pthread_mutex_unlock(&stub.lock);
}

void stub_stall_transfers(vks_device *device, bool stalled)
{
    pthread_mutex_lock(&stub.lock);
    find(device)->transfer->is_stalled = stalled;
    pthread_mutex_unlock(&stub.lock);
}

void stub_submit(vks_device *device, vks_semaphore_point wait, vks_semaphore_point signal)
{
    pthread_mutex_lock(&stub.lock);
    uintptr_t queue = (uintptr_t)(find(device) - stub.devices);
    pthread_mutex_unlock(&stub.lock);
    VkSemaphoreSubmitInfo points[] = {{.semaphore = (VkSemaphore)(uintptr_t)wait.semaphore, .value = wait.value},
                                      {.semaphore = (VkSemaphore)(uintptr_t)signal.semaphore, .value = signal.value}};
    VkSubmitInfo2 info = {.waitSemaphoreInfoCount = 1,
                          .pWaitSemaphoreInfos = &points[0],
                          .signalSemaphoreInfoCount = 1,
                          .pSignalSemaphoreInfos = &points[1]};
    while (QueueSubmit2((VkQueue)queue, 1, &info, VK_NULL_HANDLE) == VK_ERROR_OUT_OF_HOST_MEMORY)
        ; /* an engine must submit the signal that sync() returned */
}

/* ---- external APIs ---- */

struct stub_api {
    stub_device device;
};

/* Takes ownership of the fds. Caller holds stub.lock. */
static stub_device *new_api(const vks_device *of, int page, int semaphore)
{
    uint32_t payload;
    if (semaphore < 0 || pread(semaphore, &payload, sizeof payload, 0) != sizeof payload)
        abort();
    close(page);
    close(semaphore);
    stub_device *api = &stub.devices[new_queue()];
    api->part_of = find(of);
    uint32_t name = SEMAPHORES - 1;
    while (stub.payload[name])
        name--;
    stub.payload[name] = payload;
    api->is_api = true;
    api->api_semaphore = name;
    return api;
}

stub_api *stub_import(vks_surface *surface)
{
    int page, semaphore;
    if (vks_surface_export(surface, &page, &semaphore) != VKS_OK)
        return NULL;
    pthread_mutex_lock(&stub.lock);
    stub_device *api = new_api(vks_surface_device(surface), page, semaphore);
    api->has_memory = true;
    api->api_memory = stub.images[image_of(surface)].memory;
    pthread_mutex_unlock(&stub.lock);
    return (stub_api *)api;
}

stub_api *stub_import_fence(vks_fence *fence)
{
    int page, semaphore;
    if (vks_fence_export(fence, &page, &semaphore) != VKS_OK)
        return NULL;
    pthread_mutex_lock(&stub.lock);
    stub_device *api = new_api(vks_fence_device(fence), page, semaphore);
    api->has_memory = false;
    pthread_mutex_unlock(&stub.lock);
    return (stub_api *)api;
}

void stub_work(stub_api *api, uint64_t wait, uint64_t signal)
{
    stub_device *device = &api->device;
    batch *b = calloc(1, sizeof *b);
    pthread_mutex_lock(&stub.lock);
    for (uint32_t i = 0; i < stub.n_images; i++)
        if (device->has_memory && stub.images[i].here && stub.images[i].memory == device->api_memory)
            violation("another API works on an image that a device's queue has");
    b->n_waits = wait != 0;
    b->waits[0] = (point){device->api_semaphore, wait};
    b->n_signals = signal != 0;
    b->signals[0] = (point){device->api_semaphore, signal};
    b->n_memories = device->has_memory;
    b->memories[0] = device->api_memory;
    if (device->lost)
        free(b);
    else
        append(device, b);
    pthread_mutex_unlock(&stub.lock);
}

void stub_stall_api(stub_api *api, bool stalled)
{
    pthread_mutex_lock(&stub.lock);
    api->device.is_stalled = stalled;
    pthread_mutex_unlock(&stub.lock);
}

bool stub_is_idle(const stub_api *api)
{
    pthread_mutex_lock(&stub.lock);
    bool idle = !api->device.first;
    pthread_mutex_unlock(&stub.lock);
    return idle;
}

uint64_t stub_value(const stub_api *api)
{
    pthread_mutex_lock(&stub.lock);
    uint64_t value = *counter_of(api->device.api_semaphore);
    pthread_mutex_unlock(&stub.lock);
    return value;
}

void stub_lose_api(stub_api *api)
{
    pthread_mutex_lock(&stub.lock);
    api->device.lost = true;
    drop_queue(&api->device);
    pthread_mutex_unlock(&stub.lock);
}

void stub_drop(stub_api *api)
{
    pthread_mutex_lock(&stub.lock);
    drop_queue(&api->device);
    stub.payload[api->device.api_semaphore] = 0;
    api->device.open = false;
    pthread_mutex_unlock(&stub.lock);
}
