/* poll.h: the part of a render server's event loop without Python. It waits for events on the
 * connections, and answers no-op requests itself.
 *
 * Reason for C: a client sends a no-op to learn whether the server is alive and has executed all
 * earlier requests. Answered here, a no-op needs neither the interpreter nor the GIL, which a
 * rendering thread may hold for milliseconds (R2). Every other event is returned to the caller,
 * which reads the connection itself.
 *
 * One thread uses a server poll. The caller owns the file descriptors, and removes each before
 * closing it. */
#ifndef VKS_SERVER_POLL_H
#define VKS_SERVER_POLL_H

#include <stdbool.h>
#include <stdint.h>

#include "vkshare.h"

/* Python calls functions of this header: native/vkshare.map.in. */
#pragma GCC visibility push(default)

/* A message's header, little-endian, as in vkshare/server/wire.py. A no-op consists of the header
 * alone. */
typedef struct vks_wire_header {
    uint32_t length; /* of the whole message, in bytes */
    uint16_t opcode;
    uint8_t n_fds;
    uint8_t version;
    uint32_t sequence;
    uint32_t generation; /* of the server's device, as known to the sender */
} vks_wire_header;

enum {
    VKS_WIRE_VERSION = 4,
    VKS_WIRE_NO_OP = 2,
    VKS_WIRE_REPLY = 0x8000,
    VKS_POLL_NO_OPS = 16 /* limit per connection and turn (R8) */
};

/* VKS_POLL_BAD: file descriptors came with a no-op. */
enum { VKS_POLL_READ = 1, VKS_POLL_WRITE = 2, VKS_POLL_GONE = 4, VKS_POLL_BAD = 8 };

typedef struct vks_server_poll_event {
    uint64_t token;
    uint32_t events;                  /* VKS_POLL_* */
    uint32_t n_unsent;                /* no-ops whose replies did not fit the socket's buffer; the caller sends them */
    uint32_t unsent[VKS_POLL_NO_OPS]; /* sequence numbers of these no-ops */
} vks_server_poll_event;

typedef struct vks_server_poll vks_server_poll;

vks_status vks_server_poll_create(vks_server_poll **out);
void vks_server_poll_destroy(vks_server_poll *front);

/* VKS_POLL_GONE (the peer has closed its end, or half of it) is always reported. */
vks_status vks_server_poll_add(vks_server_poll *front, int fd, uint64_t token, uint32_t interest);
/* answers_no_ops: answer no-ops of this connection. Requires that no bytes are outstanding in
 * either direction. */
vks_status vks_server_poll_watch(vks_server_poll *front, int fd, uint32_t interest, bool answers_no_ops);
void vks_server_poll_remove(vks_server_poll *front, int fd);

/* Sets the device generation that a no-op must name to be answered here. */
void vks_server_poll_set_generation(vks_server_poll *front, uint32_t generation);
uint64_t vks_server_poll_answered(const vks_server_poll *front); /* no-ops answered in total */

/* Blocks until there is an event other than a no-op. VKS_TIMEOUT; VKS_INTERRUPTED (also after some
 * hundred no-ops without a sleep, so that the caller can handle signals); VKS_OS_ERROR. */
vks_status vks_server_poll_wait(vks_server_poll *front, vks_server_poll_event *events, uint32_t capacity,
                                uint32_t *count, uint64_t deadline);

#pragma GCC visibility pop

#endif
