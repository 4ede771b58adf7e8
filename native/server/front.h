/* front.h: the part of a render server's event loop that needs no Python: it sleeps until something happens, and
 * answers no-op requests by itself.
 *
 * Why in C: a no-op is how a client asks whether the server lives and has done all that was asked before. Answered
 * here, it costs neither an interpreter nor its lock, which a rendering thread that runs Python may hold for
 * milliseconds (R2). Everything else is told to the caller, which reads the connection itself.
 *
 * One thread uses a front. File descriptors stay the caller's, who removes them before closing them.
 */
#ifndef VKS_FRONT_H
#define VKS_FRONT_H

#include <stdbool.h>
#include <stdint.h>

#include "vkshare.h"

/* A message's first bytes, little-endian; vkshare/server/wire.py has the same. A no-op is nothing but this. */
typedef struct vks_wire_header {
    uint32_t length; /* of the whole message */
    uint16_t opcode;
    uint8_t n_fds;
    uint8_t version;
    uint32_t sequence;
    uint32_t generation; /* of the server's device, as the sender knows it */
} vks_wire_header;

enum {
    VKS_WIRE_VERSION = 2,
    VKS_WIRE_NO_OP = 2,
    VKS_WIRE_REPLY = 0x8000,
    VKS_FRONT_NO_OPS = 16 /* answered in one turn, before the next connection has its own (R8) */
};

/* What VKS_FRONT_BAD means: file descriptors came with a no-op. */
enum { VKS_FRONT_READ = 1, VKS_FRONT_WRITE = 2, VKS_FRONT_GONE = 4, VKS_FRONT_BAD = 8 };

typedef struct vks_front_event {
    uint64_t token;
    uint32_t what;                   /* VKS_FRONT_* */
    uint32_t n_owed;                 /* no-ops that were taken and whose replies found no room: the caller sends them */
    uint32_t owed[VKS_FRONT_NO_OPS]; /* their sequences */
} vks_front_event;

typedef struct vks_front vks_front;

vks_status vks_front_create(vks_front **out);
void vks_front_destroy(vks_front *front);

/* VKS_FRONT_GONE (the peer has closed its end, or half of it) is always told. */
vks_status vks_front_add(vks_front *front, int fd, uint64_t token, uint32_t interest);
/* answers_no_ops: the front answers no-ops of this connection. Nothing of its may be outstanding then, in or out. */
vks_status vks_front_watch(vks_front *front, int fd, uint32_t interest, bool answers_no_ops);
void vks_front_remove(vks_front *front, int fd);

/* Which device generation a no-op must name to be answered here. */
void vks_front_set_generation(vks_front *front, uint32_t generation);
uint64_t vks_front_answered(const vks_front *front); /* no-ops, ever */

/* Blocks until there is an event that is not a no-op. VKS_TIMEOUT, VKS_INTERRUPTED (also after some hundred no-ops
 * without a sleep, among which a signal may have come), VKS_OS_ERROR. */
vks_status vks_front_wait(vks_front *front, vks_front_event *events, uint32_t capacity, uint32_t *count,
                          uint64_t deadline);

#endif
