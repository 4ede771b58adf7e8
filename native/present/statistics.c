/* statistics.c: a snapshot of a swapchain's counts, and the trace records of its frames. */
#include "swapchain_state.h"

void vks_traced_frame(vks_trace_kind kind, const vks_swapchain *s, const vks_frame *frame, uint64_t began,
                      vks_status status)
{
    if (status == VKS_INTERRUPTED)
        vks_trace_interrupted(s->number, began);
    if (status == VKS_INTERRUPTED || status == VKS_TIMEOUT)
        return;
    vks_trace_record record = {.kind = (uint16_t)kind,
                               .status = (uint16_t)status,
                               .device = s->device->number,
                               .begin = vks_trace_resume(s->number, began),
                               .end = vks_now(),
                               .object = s->number};
    if (status == VKS_OK) {
        record.value = frame->index;
        record.key = frame->generation;
    }
    vks_trace_write(&record);
}

static void add_tracked(const vks_swapchain *s, vks_swapchain_statistics *out)
{
    vks_tracker_statistics tracked = {0};
    if (s->tracker)
        vks_tracker_get_statistics(s->tracker, &tracked);
    out->retired = tracked.retired;
    out->history = tracked.presents;
    out->quarantined = tracked.quarantined;
    out->moved = tracked.moved;
}

static void add_current(const vks_swapchain *s, vks_swapchain_statistics *out)
{
    out->shown = UINT32_MAX;
    out->is_current = !s->info.vulkan || vks_swapchain_is_current(s);
    if (!s->current)
        return;
    out->shown = s->current->shown;
    out->image_count = s->current->n;
    out->width = s->current->width;
    out->height = s->current->height;
    out->present_mode = s->info.vulkan ? s->current->mode : 0;
}

void vks_swapchain_get_statistics(vks_swapchain *swapchain, vks_swapchain_statistics *out)
{
    VKS_NEEDS_OR(, swapchain, out);
    if (swapchain->process != vks_process) {
        *out = (vks_swapchain_statistics){0};
        return;
    }
    pthread_mutex_lock(&swapchain->device->lock); /* device->lock only, because a present may last */
    *out = swapchain->counts;
    out->generation = swapchain->newest_generation;
    out->frames = swapchain->pacing.frames;
    for (const vks_generation *generation = swapchain->generations; generation; generation = generation->next)
        out->swapchains++;
    out->pooled_semaphores = swapchain->pools.semaphores.n;
    out->pooled_fences = swapchain->pools.fences.n;
    add_tracked(swapchain, out);
    add_current(swapchain, out);
    pthread_mutex_unlock(&swapchain->device->lock);
}
