/* commands.c: compiled command lists, with the surfaces that they touch. */
#include <stdlib.h>
#include <string.h>

#include "backend/relay.h"
#include "raster/program.h"
#include "submit/compile.h"
#include "submit/submit.h"

static void destroy(vks_commands *commands)
{
    for (size_t i = 0; i < commands->n_uses; i++)
        vks_surface_unref(commands->uses[i].surface);
    if (commands->program && commands->device->process == vks_process)
        vks_program_destroy(commands->program);
    free(commands->images);
    free(commands->relayed);
    vks_device_unref(commands->device);
    free(commands);
}

static vks_status create(vks_device *device, const vks_use *uses, size_t n_uses, vks_commands **out)
{
    vks_status status = vks_device_check(device);
    if (status)
        return status;
    for (size_t i = 0; i < n_uses; i++) {
        VKS_NEEDS(uses);
        VKS_NEEDS(uses[i].surface);
        if (uses[i].surface->device != device)
            return VKS_FOREIGN_DEVICE;
    }
    vks_commands *commands = calloc(1, sizeof *commands + n_uses * sizeof *uses);
    if (!commands)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a command list");
    commands->device = device;
    vks_device_ref(device);
    commands->references = 1;
    commands->destroy = destroy;
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
    VKS_NEEDS(device, out);
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
    VKS_NEEDS_OR(, commands);
    commands->buffers[VKS_TRANSFER] = command_buffer;
}

static uint32_t use_of(const uint32_t *slots, size_t i) { return slots ? slots[i] : (uint32_t)i; }

vks_status vks_commands_create_cpu(vks_device *device, vks_program *program, const vks_use *uses, size_t n_uses,
                                   const uint32_t *slots, size_t n_slots, vks_commands **out)
{
    VKS_NEEDS(device, out);
    if (device->timeline || !program)
        return vks_fail(VKS_UNSUPPORTED, 0, "a program needs a device of the CPU backend");
    for (size_t i = 0; i < n_slots; i++)
        if (use_of(slots, i) >= n_uses)
            return vks_fail(VKS_BAD_VALUE, use_of(slots, i), "slot %zu names use %u of %zu", i, use_of(slots, i),
                            n_uses);
    struct vks_image *images = calloc(n_slots ? n_slots : 1, sizeof *images);
    if (!images)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a command list");
    vks_status status = create(device, uses, n_uses, out);
    if (status) {
        free(images);
        return status;
    }
    for (size_t i = 0; i < n_slots; i++) {
        const vks_surface *s = uses[use_of(slots, i)].surface;
        images[i] = (struct vks_image){s->pixels, s->size, s->width, s->height, s->stride, s->format, s->color};
    }
    (*out)->program = program;
    (*out)->images = images;
    (*out)->n_images = n_slots;
    return VKS_OK;
}

static vks_status compile_vulkan(vks_device *device, const vks_recording *recording, vks_recorder *recorder,
                                 vks_record_problem *problem, vks_commands **out)
{
    vks_recorded *recorded;
    vks_status status = vks_recorder_record(recorder, recording, problem, &recorded);
    if (status)
        return status;
    size_t n_uses;
    const vks_use *uses = vks_recording_uses(recording, &n_uses);
    status = vks_commands_create_vulkan(device, vks_recorded_graphics(recorded), uses, n_uses, vks_recorded_retire,
                                        recorded, out);
    if (status)
        vks_recorded_retire(recorded);
    else
        vks_commands_set_transfer(*out, vks_recorded_transfer(recorded));
    return status;
}

static vks_status compile_program(vks_device *device, const vks_recording *recording, uint32_t subpixel_bits,
                                  vks_commands **out)
{
    vks_program *program;
    vks_status status = vks_recording_program(recording, subpixel_bits, &program);
    if (status)
        return status;
    size_t n_uses;
    const vks_use *uses = vks_recording_uses(recording, &n_uses);
    status = vks_commands_create_cpu(device, program, uses, n_uses, NULL, n_uses, out);
    if (status)
        vks_program_destroy(program);
    return status;
}

vks_status vks_commands_create_relayed(vks_device *device, uint8_t *body, size_t size, const vks_use *uses,
                                       size_t n_uses, vks_commands **out)
{
    VKS_NEEDS(device, body, out);
    vks_status status = vks_device_is_relayed(device)
                            ? create(device, uses, n_uses, out)
                            : vks_fail(VKS_UNSUPPORTED, 0, "the device has no relay, which draws on another machine");
    if (status)
        return status;
    (*out)->relayed = body;
    (*out)->relayed_size = size;
    return VKS_OK;
}

void vks_commands_on_retire(vks_commands *commands, void (*retire)(void *user), void *user)
{
    VKS_NEEDS_OR(, commands);
    commands->retire = retire;
    commands->user = user;
}

static vks_status compile_relayed(vks_device *device, const vks_recording *recording, vks_commands **out)
{
    uint8_t *body;
    size_t size, n_uses;
    vks_status status = vks_recording_encode(recording, &body, &size);
    if (status)
        return status;
    const vks_use *uses = vks_recording_uses(recording, &n_uses);
    status = vks_commands_create_relayed(device, body, size, uses, n_uses, out);
    if (status)
        free(body);
    return status;
}

vks_status vks_commands_compile(vks_device *device, const vks_recording *recording, vks_recorder *recorder,
                                uint32_t subpixel_bits, vks_record_problem *problem, vks_commands **out)
{
    *problem = (vks_record_problem){.kind = VKS_PROBLEM_NONE};
    vks_status status = vks_device_state(device);
    if (status) /* in a forked child the driver must not even be asked */
        return status;
    if (vks_device_is_relayed(device))
        return compile_relayed(device, recording, out);
    return recorder ? compile_vulkan(device, recording, recorder, problem, out)
                    : compile_program(device, recording, subpixel_bits, out);
}

const vks_use *vks_commands_uses(const vks_commands *commands, size_t *n_uses)
{
    VKS_NEEDS_OR(NULL, commands, n_uses);
    *n_uses = commands->n_uses;
    return commands->uses;
}
