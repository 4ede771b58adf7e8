/* descriptor.c: a descriptor of queues over one network: the pages, and all surfaces. */
#include <string.h>

#include "queue/queue.h"
#include "surface/surface.h"

_Static_assert(sizeof(vks_queue_body) == 12, "layout");
_Static_assert(sizeof(vks_descriptor_header) + sizeof(vks_queue_body) +
                       VKS_MAX_QUEUE_SURFACES * sizeof(vks_surface_body) <=
                   VKS_LARGEST_MESSAGE,
               "the largest descriptor fits a message");

vks_status vks_queue_check_counts(vks_status refusal, uint32_t n_queues, uint32_t n_surfaces)
{
    return n_queues < 1 || n_queues > VKS_MOST_QUEUES || n_surfaces < 1 || n_surfaces > VKS_MAX_QUEUE_SURFACES
               ? vks_fail(refusal, 0, "%u queues over %u surfaces; allowed are 1 to %u over 1 to %u", n_queues,
                          n_surfaces, VKS_MOST_QUEUES, VKS_MAX_QUEUE_SURFACES)
               : VKS_OK;
}

void vks_queue_descriptor_clear(vks_queue_descriptor *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < VKS_MOST_QUEUES; i++)
        out->page_fds[i] = -1;
    for (uint32_t i = 0; i < VKS_MAX_QUEUE_SURFACES; i++)
        out->surfaces[i].memory_fd = out->surfaces[i].page_fd = out->surfaces[i].semaphore_fd = -1;
}

void vks_queue_descriptor_close(vks_queue_descriptor *descriptor)
{
    VKS_NEEDS_OR(, descriptor);
    vks_close_all(descriptor->page_fds, VKS_MOST_QUEUES);
    for (uint32_t i = 0; i < VKS_MAX_QUEUE_SURFACES; i++)
        vks_surface_descriptor_close(&descriptor->surfaces[i]);
    vks_queue_descriptor_clear(descriptor);
}

/* ---- messages ---- */

static vks_status check_numbers(const vks_queue_body *body, size_t size, size_t n_fds)
{
    vks_status status = vks_queue_check_counts(VKS_BAD_PAGE, body->n_queues, body->n_surfaces);
    if (status)
        return status;
    uint32_t per_surface = body->fds_per_surface;
    if ((per_surface != 2 && per_surface != 3) || n_fds != body->n_queues + body->n_surfaces * per_surface)
        return vks_fail(VKS_BAD_PAGE, 0, "%u queues, %u surfaces with %u fds each, and %zu came", body->n_queues,
                        body->n_surfaces, per_surface, n_fds);
    if (size != sizeof *body + body->n_surfaces * sizeof(vks_surface_body))
        return vks_fail(VKS_BAD_PAGE, 0, "%u surfaces, and the fields are of another number", body->n_surfaces);
    return VKS_OK;
}

/* The surfaces of a network are all images, or all buffers (E5). */
static const vks_message_form *form_of(const unsigned char *item)
{
    vks_surface_body body;
    memcpy(&body, item, sizeof body);
    return body.tiling == VKS_BUFFER ? vks_buffer_form() : vks_surface_form();
}

static vks_status check_queue(const void *parts, size_t size, const int *fds, size_t n_fds)
{
    vks_queue_body body;
    memcpy(&body, parts, sizeof body);
    vks_status status = check_numbers(&body, size, n_fds);
    for (uint32_t i = 0; !status && i < body.n_queues; i++)
        status = vks_memfd_check(fds[i], "shared page", VKS_MEMFD_WRITE, 0);
    const unsigned char *first = (const unsigned char *)parts + sizeof body, *item = first;
    fds += body.n_queues;
    for (uint32_t i = 0; !status && i < body.n_surfaces; i++) {
        status = form_of(item)->check(item, sizeof(vks_surface_body), fds, body.fds_per_surface);
        if (!status && !vks_surface_is_alike(item, first))
            status = vks_fail(VKS_BAD_PAGE, 0,
                              "the surfaces of a queue have one size, format, tiling, usage and colour; these differ");
        item += sizeof(vks_surface_body);
        fds += body.fds_per_surface;
    }
    return status;
}

const vks_message_form *vks_queue_form(void)
{
    static const vks_message_form form = {.name = "QueueDescriptor",
                                          .kind = VKS_DESCRIPTOR_QUEUE,
                                          .most_items = VKS_MAX_QUEUE_SURFACES,
                                          .most_fds = VKS_MOST_FDS,
                                          .body_size = sizeof(vks_queue_body),
                                          .item_size = sizeof(vks_surface_body),
                                          .check = check_queue};
    return &form;
}

vks_status vks_queue_descriptor_send(int sock, uint64_t deadline, const vks_queue_descriptor *descriptor)
{
    VKS_NEEDS(descriptor);
    vks_message out;
    vks_status status = vks_queue_check_counts(VKS_BAD_VALUE, descriptor->n_queues, descriptor->n_surfaces);
    if (status)
        return status;
    vks_queue_body body = {descriptor->n_queues, descriptor->n_surfaces,
                           descriptor->surfaces[0].semaphore_fd < 0 ? 2 : 3};
    vks_message_begin(&out, vks_queue_form(), &body);
    vks_message_add_fds(&out, descriptor->page_fds, descriptor->n_queues);
    for (uint32_t i = 0; i < descriptor->n_surfaces; i++) {
        const vks_surface_descriptor *surface = &descriptor->surfaces[i];
        vks_message_add_item(&out, &surface->body, sizeof surface->body);
        vks_message_add_fds(&out, (int[]){surface->memory_fd, surface->page_fd, surface->semaphore_fd}, 3);
    }
    return vks_message_send(sock, deadline, &out);
}

vks_status vks_queue_descriptor_recv(int sock, uint64_t deadline, vks_queue_descriptor *out)
{
    VKS_NEEDS(out);
    vks_message in;
    vks_queue_body body;
    vks_queue_descriptor_clear(out);
    vks_status status = vks_message_receive(sock, deadline, vks_queue_form(), &in);
    if (status)
        return status;
    memcpy(&body, vks_message_part(&in, 0), sizeof body);
    out->n_queues = body.n_queues;
    out->n_surfaces = body.n_surfaces;
    memcpy(out->page_fds, in.fds, body.n_queues * sizeof *in.fds);
    for (uint32_t i = 0; i < body.n_surfaces; i++)
        vks_surface_descriptor_fill(vks_message_part(&in, sizeof body + i * sizeof(vks_surface_body)),
                                    in.fds + body.n_queues + i * body.fds_per_surface, body.fds_per_surface,
                                    &out->surfaces[i]);
    return VKS_OK;
}
