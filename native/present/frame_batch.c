/* frame_batch.c: batches of the core's own for a frame: they wait for its acquire, come behind its
 * last submission, and signal for its present or for an engine. Caller holds swapchain->lock and
 * device->lock, and has the queue. */
#include <string.h>

#include "swapchain_state.h"

vks_status vks_submit_frame(vks_swapchain *s, vks_present_image *image, uint64_t signal)
{
    vks_presentable *frame = &image->frame;
    bool is_resignal =
        frame->n_rendered &&
        signal ==
            frame->rendered[frame->n_rendered - 1]; /* the last binary semaphore is waited for, then signalled again */
    vks_point wait = {is_resignal ? signal : frame->acquired, 0}, signalled = {signal, 0};
    vks_batch batch = {
        .waits = &wait,
        .signals = &signalled,
        .buffers = &frame->initial_commands,
        .n_waits = wait.semaphore != 0,
        .n_signals = signal != 0,
        .n_buffers = signal && frame->initial_commands,
    };
    vks_status status = vks_device_submit(s->device, &batch);
    if (status)
        return status;
    if (image->surface)
        atomic_store_explicit(&image->surface->last_serial, batch.serial, memory_order_release);
    if (frame->acquired)
        frame->waited = batch.serial;
    frame->acquired = 0;
    if (signal)
        frame->initial_commands = 0;
    return VKS_OK;
}

/* Submits one more batch, whose signal the present waits for. */
static vks_status submit_last(vks_swapchain *s, vks_present_image *image)
{
    vks_presentable *frame = &image->frame;
    if (frame->n_rendered == VKS_FRAME_SEMAPHORES)
        return vks_submit_frame(s, image, frame->rendered[VKS_FRAME_SEMAPHORES - 1]);
    vks_status status = vks_refill_frame(frame);
    if (!status && !(status = vks_submit_frame(s, image, frame->spare))) {
        frame->rendered[frame->n_rendered++] = frame->spare;
        frame->spare = 0;
    }
    return status;
}

vks_status vks_close_frame(vks_swapchain *s, vks_present_image *image, uint64_t *serial)
{
    vks_status status = VKS_OK;
    if (image->by_engine || !image->frame.n_rendered) /* behind the engine's submissions; or nothing was drawn */
        status = submit_last(s, image);
    image->by_engine &= status != VKS_OK;
    *serial = image->surface ? image->surface->last_serial : s->device->submitted;
    return status;
}

void vks_track_semaphore(vks_swapchain *s, uint64_t semaphore, uint64_t serial, bool is_discarded)
{
    if (semaphore && vks_tracker_semaphore(s->tracker, semaphore, serial, is_discarded))
        vks_discard_semaphore(s, semaphore); /* no memory to track the serial */
}

void vks_release_engine_semaphores(vks_swapchain *s, vks_present_image *image, uint64_t serial)
{
    for (int i = 0; i < 2; i++)
        vks_track_semaphore(s, image->engine[i], serial, true);
    memset(image->engine, 0, sizeof image->engine);
}
