/* message.h: one message with a descriptor and its fds: its bytes, and a Unix socket that carries
 * it. Internal. Python has sockets of its own (vkshare/ipc/transport.py) and the bytes from
 * here. */
#ifndef VKS_MESSAGE_H
#define VKS_MESSAGE_H

#include <stddef.h>
#include <string.h>

#include "os/platform.h"

#define VKS_LARGEST_MESSAGE 8192
#define VKS_MOST_QUEUES 2u                     /* of one descriptor: a pipe has two */
#define VKS_LARGEST_MEMORY (UINT64_C(1) << 48) /* bytes that a descriptor may name */
#define VKS_MOST_FDS (VKS_MOST_QUEUES + 3 * VKS_MAX_QUEUE_SURFACES)

/* The form of a kind of descriptor: a body, and then 1 to `most_items` items (0: none). */
typedef struct vks_message_form {
    const char *name; /* of the class in Python */
    uint32_t kind, most_items, most_fds;
    size_t body_size, item_size;
    /* Checks body, items and fds after the header, of which the number is right. VKS_BAD_PAGE. */
    vks_status (*check)(const void *body, size_t size, const int *fds, size_t n_fds);
} vks_message_form;

typedef struct vks_message {
    unsigned char data[VKS_LARGEST_MESSAGE]; /* header, body, items */
    size_t size;
    int fds[VKS_MOST_FDS];
    size_t n_fds, most_fds;
} vks_message;

/* Python calls these functions: native/vkshare.map.in. */
#pragma GCC visibility push(default)

const vks_message_form *vks_surface_form(void);
const vks_message_form *vks_buffer_form(void); /* the body of a surface */
const vks_message_form *vks_fence_form(void);

/* Copies as much of a device's name as fits, in whole characters of UTF-8, padded with 0. */
void vks_descriptor_name(const char *text, char name[VKS_NAME_SIZE]);
/* Checks magic, versions, kind and size in the first bytes of a message. *whole is its size.
 * VKS_BAD_PAGE. */
vks_status vks_message_check_header(const vks_message_form *form, const void *data, size_t size, uint32_t *whole);
/* Checks all of a message of an untrusted peer, before anything is mapped (X13, X15, X16). Bytes
 * and fds stay the caller's. VKS_BAD_PAGE. */
vks_status vks_message_check(const vks_message_form *form, const void *data, size_t size, const int *fds, size_t n_fds);
/* Checks the memory of a surface or a buffer of the CPU backend (X16): it has the size of the rows or
 * the bytes, in whole pages. Rows are tight or padded. VKS_BAD_PAGE. */
vks_status vks_surface_check_memfd(const vks_surface_body *body);
/* The bytes of a buffer. */
static inline uint64_t vks_buffer_size(const vks_surface_body *body)
{
    return body->width | (uint64_t)body->height << 32;
}
/* Whether two surfaces can be of one network: they have one size, format, tiling, usage and colour. The bodies may
 * be unaligned. */
static inline bool vks_surface_is_alike(const void *body, const void *other)
{
    const size_t color = offsetof(vks_surface_body, color);
    return !memcmp(body, other, offsetof(vks_surface_body, memory_kind)) &&
           !memcmp((const char *)body + color, (const char *)other + color, sizeof(vks_color));
}
/* Begins a message with a body; then items and fds are added, of which negative ones are left out.
 * The fds stay the caller's. */
void vks_message_begin(vks_message *out, const vks_message_form *form, const void *body);
void vks_message_add_item(vks_message *out, const void *item, size_t size);
void vks_message_add_fds(vks_message *out, const int *fds, size_t n);
/* Writes the size and the number of fds into the header. */
void vks_message_complete(vks_message *out);

#pragma GCC visibility pop

/* Receives one message, checked in full. On success the caller owns the fds. */
vks_status vks_message_receive(int sock, uint64_t deadline, const vks_message_form *form, vks_message *in);
/* Completes the message and sends it. */
vks_status vks_message_send(int sock, uint64_t deadline, vks_message *out);
/* The body, or an item that begins `offset` bytes after the header. */
static inline const void *vks_message_part(const vks_message *in, size_t offset)
{
    return in->data + sizeof(vks_descriptor_header) + offset;
}
void vks_close_all(const int *fds, size_t n);

#endif
