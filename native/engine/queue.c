/* queue.c: queues and pipes of other parties: their surfaces are opened and joined together. */
#include "queue/queue.h"

#include <unistd.h>

#include "engine/engine.h"
#include "surface/surface.h"

vks_status vks_queue_export_descriptor(const int *page_fds, uint32_t n_queues, vks_surface *const *surfaces,
                                       uint32_t count, vks_queue_descriptor *out)
{
    VKS_NEEDS(page_fds, surfaces, out);
    vks_status status;
    vks_queue_descriptor_clear(out);
    if ((status = vks_queue_check_counts(VKS_BAD_VALUE, n_queues, count)))
        return status;
    for (uint32_t i = 0; i < n_queues && !status; i++)
        status = vks_duplicate_fd(page_fds[i], "the queue's page", &out->page_fds[i]);
    for (uint32_t i = 0; i < count && !status; i++)
        if (!(status = vks_surface_export_descriptor(surfaces[i], &out->surfaces[i])) &&
            !vks_surface_is_alike(&out->surfaces[i].body, &out->surfaces[0].body))
            status = vks_fail(VKS_BAD_VALUE, i,
                              "surface %u has another size, format, tiling, usage or colour than surface 0", i);
    if (status) {
        vks_queue_descriptor_close(out);
        return status;
    }
    out->n_queues = n_queues;
    out->n_surfaces = count;
    return VKS_OK;
}

/* The queues are over one network with as many surfaces as the descriptor has. */
static vks_status read_network(const vks_queue_descriptor *descriptor, uint64_t *network)
{
    vks_status status = vks_queue_check_counts(VKS_BAD_PAGE, descriptor->n_queues, descriptor->n_surfaces);
    for (uint32_t i = 0; i < descriptor->n_queues && !status; i++) {
        vks_queue_info info;
        status = vks_queue_page_read(descriptor->page_fds[i], &info);
        if (status)
            return status;
        if (i && info.network != *network)
            return vks_fail(VKS_BAD_PAGE, 0, "descriptor: its queues are not over the same surfaces");
        if (info.count != descriptor->n_surfaces)
            return vks_fail(VKS_BAD_PAGE, 0, "descriptor: %u surfaces, and the queue's page says %u",
                            descriptor->n_surfaces, info.count);
        *network = info.network;
    }
    return status;
}

vks_status vks_queue_open_surfaces(vks_device *device, const vks_queue_descriptor *descriptor, vks_surface **surfaces)
{
    VKS_NEEDS(device, descriptor, surfaces);
    uint64_t network = 0;
    uint32_t opened = 0;
    vks_status status = read_network(descriptor, &network);
    while (!status && opened < descriptor->n_surfaces) {
        status = vks_surface_open_memory(device, &descriptor->surfaces[opened], &surfaces[opened]);
        if (!status && (status = vks_surface_join(surfaces[opened], network, opened)))
            opened++; /* to be closed */
        opened += !status;
    }
    while (status && opened > 0) {
        vks_surface_close(surfaces[--opened]);
        vks_surface_unref(surfaces[opened]);
    }
    return status;
}
