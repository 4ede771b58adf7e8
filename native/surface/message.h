/* message.h: one message with a descriptor and its fds, over a Unix socket. Internal. */
#ifndef VKS_MESSAGE_H
#define VKS_MESSAGE_H

#include "os/platform.h"

#define VKS_LARGEST_MESSAGE 8192
#define VKS_MOST_QUEUES 2u /* of one descriptor: a pipe has two */
#define VKS_MOST_FDS (VKS_MOST_QUEUES + 3 * VKS_MAX_QUEUE_SURFACES)

/* The form of a kind of descriptor: a body, and then 1 to `most_items` items (0: none). */
typedef struct vks_message_form {
    uint32_t kind, most_items, most_fds;
    size_t body_size, item_size;
} vks_message_form;
extern const vks_message_form vks_surface_form, vks_fence_form;

typedef struct vks_message {
    unsigned char data[VKS_LARGEST_MESSAGE]; /* header, body, items */
    size_t size;
    int fds[VKS_MOST_FDS];
    size_t n_fds, most_fds;
} vks_message;

/* Receives one message with a valid header and fd count. On success the caller owns the fds. */
vks_status vks_message_receive(int sock, uint64_t deadline, const vks_message_form *form, vks_message *in);
/* Begins a message with a body; then items and fds are added, of which negative ones are left out.
 * The fds stay the caller's. */
void vks_message_begin(vks_message *out, const vks_message_form *form, const void *body);
void vks_message_add_item(vks_message *out, const void *item, size_t size);
void vks_message_add_fds(vks_message *out, const int *fds, size_t n);
/* Completes the header and sends the message. */
vks_status vks_message_send(int sock, uint64_t deadline, vks_message *out);
/* The body, or an item that begins `offset` bytes after the header. */
static inline const void *vks_message_part(const vks_message *in, size_t offset)
{
    return in->data + sizeof(vks_descriptor_header) + offset;
}
void vks_close_all(const int *fds, size_t n);

#endif
