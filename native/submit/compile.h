/* compile.h: from a recording to commands that can be submitted. */
#ifndef VKS_COMPILE_H
#define VKS_COMPILE_H

#include "record/record.h"

#pragma GCC visibility push(default) /* Python uses it: native/vkshare.map.in */

/* Compiles what was recorded: with `recorder` to command buffers, without to a program of the
 * rasteriser, whose draws have `subpixel_bits`. *out is a reference; the recording stays as it was.
 * On failure `problem` says what is missing; VKS_FOREIGN_DEVICE: a surface of another device.
 * The caller keeps the images alive, as for vks_recorder_record(). */
vks_status vks_commands_compile(vks_device *device, const vks_recording *recording, vks_recorder *recorder,
                                uint32_t subpixel_bits, vks_record_problem *problem, vks_commands **out);

/* One request for a device with a relay (backend/relay.h), with the surfaces that it uses. On success the
 * list owns `body`, which was malloc()ed. */
vks_status vks_commands_create_relayed(vks_device *device, uint8_t *body, size_t size, const vks_use *uses,
                                       size_t n_uses, vks_commands **out);
/* As vks_commands_create_vulkan() takes them. Before the list is submitted. */
void vks_commands_on_retire(vks_commands *commands, void (*retire)(void *user), void *user);

#pragma GCC visibility pop

#endif
