/* relay.h: lists that another machine draws (docs/remote.md). A device of the CPU backend with a
 * relay draws nothing itself: its worker sends each list as a request to the host, another process
 * of this user, and the batch has run once the host has answered. So the host sees batches in an
 * order in which no batch comes before one that it waits for. */
#ifndef VKS_RELAY_H
#define VKS_RELAY_H

#include "vkshare.h"

/* A list of more bytes travels in a memfd, up to VKS_RELAY_LARGEST. */
enum { VKS_RELAY_INLINE = (1 << 20) - 64, VKS_RELAY_LARGEST = 1 << 24 };
#define VKS_RELAY_PATIENCE UINT64_C(2000000000) /* ns for the batches that a closing device has left */

typedef struct vks_relay vks_relay;

/* Duplicates `fd`, a connected Unix stream socket of the render server's protocol. `opcode` is the
 * request's, `version` the protocol's. */
vks_status vks_relay_create(int fd, uint32_t opcode, uint32_t version, vks_relay **out);
void vks_relay_destroy(vks_relay *relay);
/* Sends a request and waits for its answer. For one thread. False: the host is gone, has refused it,
 * or vks_relay_end() was called. */
bool vks_relay_send(vks_relay *relay, const uint8_t *body, size_t size);
/* Requests wait for `ns` more at most. From any thread. */
void vks_relay_end(vks_relay *relay, uint64_t ns);

#pragma GCC visibility push(default) /* Python uses it: native/vkshare.map.in */

/* Has the device relay its lists. Call before it draws. VKS_UNSUPPORTED: a Vulkan device. */
vks_status vks_device_set_relay(vks_device *device, int fd, uint32_t opcode, uint32_t version);

#pragma GCC visibility pop

bool vks_device_is_relayed(const vks_device *device);

#endif
