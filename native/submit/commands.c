#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "raster/program.h"

static vks_status create(vks_device *device, const vks_use *uses, size_t n_uses, vks_commands **out)
{
    vks_status status = vks_device_check(device);
    if (status)
        return status;
    for (size_t i = 0; i < n_uses; i++)
        if (uses[i].surface->device != device)
            return VKS_FOREIGN_DEVICE;
    vks_commands *commands = calloc(1, sizeof *commands + n_uses * sizeof *uses);
    if (!commands)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a command list");
    commands->device = device;
    vks_device_ref(device);
    commands->references = 1;
    commands->n_uses = n_uses;
    for (size_t i = 0; i < n_uses; i++) {
        commands->uses[i] = uses[i];
        vks_surface_ref(uses[i].surface);
    }
    *out = commands;
    return VKS_OK;
}

vks_status vks_commands_create_vulkan(vks_device *device, uint64_t command_buffer, const vks_use *uses, size_t n_uses,
                                      void (*retire)(void *user), void *user, vks_commands **out)
{
    vks_status status = device->timeline ? create(device, uses, n_uses, out)
                                         : vks_fail(VKS_UNSUPPORTED, 0, "the CPU backend runs no VkCommandBuffers");
    if (status)
        return status;
    (*out)->buffers[VKS_GRAPHICS] = command_buffer;
    (*out)->retire = retire;
    (*out)->user = user;
    return VKS_OK;
}

void vks_commands_set_transfer(vks_commands *commands, uint64_t command_buffer)
{
    commands->buffers[VKS_TRANSFER] = command_buffer;
}

vks_status vks_commands_create_cpu(vks_device *device, vks_program *program, const vks_use *uses, size_t n_uses,
                                   const uint32_t *slots, size_t n_slots, vks_commands **out)
{
    if (device->timeline || !program)
        return vks_fail(VKS_UNSUPPORTED, 0, "a program needs a device of the CPU backend");
    for (size_t i = 0; i < n_slots; i++)
        if (slots[i] >= n_uses)
            return vks_fail(VKS_BAD_VALUE, slots[i], "slot %zu names use %u of %zu", i, slots[i], n_uses);
    struct vks_image *images = calloc(n_slots ? n_slots : 1, sizeof *images);
    if (!images)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a command list");
    vks_status status = create(device, uses, n_uses, out);
    if (status) {
        free(images);
        return status;
    }
    for (size_t i = 0; i < n_slots; i++) {
        const vks_surface *s = uses[slots[i]].surface;
        images[i] = (struct vks_image){s->pixels, s->size, s->width, s->height, s->stride, s->format};
    }
    (*out)->program = program;
    (*out)->images = images;
    (*out)->n_images = n_slots;
    return VKS_OK;
}

void vks_commands_ref(vks_commands *commands)
{
    atomic_fetch_add_explicit(&commands->references, 1, memory_order_relaxed);
}

static void destroy(vks_commands *commands)
{
    for (size_t i = 0; i < commands->n_uses; i++)
        vks_surface_unref(commands->uses[i].surface);
    if (commands->program && commands->device->process == vks_process)
        vks_program_destroy(commands->program);
    free(commands->images);
    vks_device_unref(commands->device);
    free(commands);
}

static void add_unused(vks_device *device, vks_commands *commands)
{
    commands->next_unused = atomic_load(&device->unused);
    while (!atomic_compare_exchange_weak(&device->unused, &commands->next_unused, commands))
        ;
}

/* Takes no lock, because held operations drop their references under device->lock. */
void vks_commands_unref(vks_commands *commands)
{
    if (atomic_fetch_sub(&commands->references, 1) != 1)
        return;
    vks_device *device = commands->device;
    if (!commands->retire || device->process != vks_process) {
        destroy(commands);
        return;
    }
    add_unused(device, commands); /* the command buffer may still run, and its creator frees it */
}

size_t vks_device_reap(vks_device *device, bool all)
{
    if (device->process != vks_process || !atomic_load_explicit(&device->unused, memory_order_relaxed) ||
        vks_device_leaks(device))
        return 0;
    vks_commands *list = atomic_exchange(&device->unused, NULL);
    uint64_t done = all ? UINT64_MAX : vks_device_completed(device);
    size_t n = 0;
    while (list) {
        vks_commands *commands = list;
        list = commands->next_unused;
        if (commands->last_serial > done) {
            add_unused(device, commands);
            continue;
        }
        commands->retire(commands->user);
        destroy(commands);
        n++;
    }
    return n;
}

const vks_use *vks_commands_uses(const vks_commands *commands, size_t *n_uses)
{
    *n_uses = commands->n_uses;
    return commands->uses;
}
