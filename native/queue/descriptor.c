/* descriptor.c: a descriptor of queues over one network: the pages, and all surfaces. It follows
 * vkshare/ipc/queue_descriptor.py. */
#include <string.h>
#include <unistd.h>

#include "queue/queue.h"
#include "surface/message.h"
#include "surface/surface.h"

_Static_assert(sizeof(vks_queue_body) == 12, "layout");
_Static_assert(sizeof(vks_descriptor_header) + sizeof(vks_queue_body) +
                       VKS_MAX_QUEUE_SURFACES * sizeof(vks_surface_body) <=
                   VKS_LARGEST_MESSAGE,
               "the largest descriptor fits a message");

static const vks_message_form form = {.kind = VKS_DESCRIPTOR_QUEUE,
                                      .most_items = VKS_MAX_QUEUE_SURFACES,
                                      .most_fds = VKS_MOST_FDS,
                                      .body_size = sizeof(vks_queue_body),
                                      .item_size = sizeof(vks_surface_body)};

vks_status vks_queue_check_counts(vks_status refusal, uint32_t n_queues, uint32_t n_surfaces)
{
    return n_queues < 1 || n_queues > VKS_MOST_QUEUES || n_surfaces < 1 || n_surfaces > VKS_MAX_QUEUE_SURFACES
               ? vks_fail(refusal, 0, "descriptor: %u queues over %u surfaces; allowed are 1 to %u over 1 to %u",
                          n_queues, n_surfaces, VKS_MOST_QUEUES, VKS_MAX_QUEUE_SURFACES)
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

void vks_queue_descriptor_close(vks_queue_descriptor *d)
{
    VKS_NEEDS_OR(, d);
    vks_close_all(d->page_fds, VKS_MOST_QUEUES);
    for (uint32_t i = 0; i < VKS_MAX_QUEUE_SURFACES; i++)
        vks_surface_descriptor_close(&d->surfaces[i]);
    vks_queue_descriptor_clear(d);
}

/* ---- sending ---- */

vks_status vks_queue_descriptor_send(int sock, uint64_t deadline, const vks_queue_descriptor *d)
{
    VKS_NEEDS(d);
    vks_message out;
    vks_status status = vks_queue_check_counts(VKS_BAD_VALUE, d->n_queues, d->n_surfaces);
    if (status)
        return status;
    vks_queue_body body = {d->n_queues, d->n_surfaces, d->surfaces[0].semaphore_fd < 0 ? 2 : 3};
    vks_message_begin(&out, &form, &body);
    vks_message_add_fds(&out, d->page_fds, d->n_queues);
    for (uint32_t i = 0; i < d->n_surfaces; i++) {
        const vks_surface_descriptor *surface = &d->surfaces[i];
        vks_message_add_item(&out, &surface->body, sizeof surface->body);
        vks_message_add_fds(&out, (int[]){surface->memory_fd, surface->page_fd, surface->semaphore_fd}, 3);
    }
    return vks_message_send(sock, deadline, &out);
}

/* ---- receiving ---- */

static bool is_alike(const vks_surface_body *one, const vks_surface_body *two)
{
    return one->width == two->width && one->height == two->height && one->format == two->format &&
           one->tiling == two->tiling && one->usage == two->usage;
}

static vks_status check_message(const vks_message *in, const vks_queue_body *body)
{
    vks_status status = vks_queue_check_counts(VKS_BAD_PAGE, body->n_queues, body->n_surfaces);
    if (status)
        return status;
    uint32_t per_surface = body->fds_per_surface;
    if ((per_surface != 2 && per_surface != 3) || in->n_fds != body->n_queues + body->n_surfaces * per_surface)
        return vks_fail(VKS_BAD_PAGE, 0, "descriptor: %u queues, %u surfaces with %u fds each, and %zu came",
                        body->n_queues, body->n_surfaces, per_surface, in->n_fds);
    if (in->size != sizeof(vks_descriptor_header) + sizeof *body + body->n_surfaces * sizeof(vks_surface_body))
        return vks_fail(VKS_BAD_PAGE, 0, "descriptor: %u surfaces, and %zu bytes came", body->n_surfaces, in->size);
    for (uint32_t i = 0; i < body->n_queues && !status; i++)
        status = vks_memfd_check(in->fds[i], "shared page", VKS_MEMFD_WRITE, 0);
    return status;
}

/* Fills *out with the message, whose fds it does not own before all is checked. */
static vks_status take(const vks_message *in, vks_queue_descriptor *out)
{
    vks_queue_body body;
    memcpy(&body, vks_message_part(in, 0), sizeof body);
    vks_status status = check_message(in, &body);
    for (uint32_t i = 0; i < body.n_surfaces && !status; i++) {
        const void *item = vks_message_part(in, sizeof body + i * sizeof(vks_surface_body));
        const int *fds = in->fds + body.n_queues + i * body.fds_per_surface;
        status = vks_surface_descriptor_take(item, fds, body.fds_per_surface, &out->surfaces[i]);
        if (!status && !is_alike(&out->surfaces[i].body, &out->surfaces[0].body))
            status = vks_fail(VKS_BAD_PAGE, 0,
                              "descriptor: the surfaces of a queue have one size, format, tiling and usage; these "
                              "differ");
    }
    if (status)
        return status;
    out->n_queues = body.n_queues;
    out->n_surfaces = body.n_surfaces;
    memcpy(out->page_fds, in->fds, body.n_queues * sizeof *in->fds);
    return VKS_OK;
}

vks_status vks_queue_descriptor_recv(int sock, uint64_t deadline, vks_queue_descriptor *out)
{
    VKS_NEEDS(out);
    vks_message in;
    vks_queue_descriptor_clear(out);
    vks_status status = vks_message_receive(sock, deadline, &form, &in);
    if (!status && (status = take(&in, out))) {
        vks_close_all(in.fds, in.n_fds);
        vks_queue_descriptor_clear(out);
    }
    return status;
}
