/* capture.c: acquires the shown image, to be read. */
#include "swapchain_state.h"

/* VKS_INTERRUPTED: another thread's capture has the image, another thread presents soon, or the
 * driver still has the image. This does not wait in the driver, because other threads would wait
 * for the lock. */
static vks_status acquire_shown(vks_swapchain *s, uint64_t deadline, vks_frame *out)
{
    vks_proof_poll(s);
    const vks_generation *generation = s->current;
    bool is_late = vks_now() >= deadline;
    if (!generation || generation->shown >= generation->n) {
        if (generation && s->pacing.frames && !is_late)
            return VKS_INTERRUPTED;
        return vks_fail(VKS_BAD_CALL, 0,
                        "nothing was presented since the last resize, or all images are acquired, with the shown one: "
                        "present a frame first");
    }
    uint32_t shown = generation->shown, index;
    bool is_suboptimal;
    vks_status status = vks_image_has_caller(&generation->images[shown]) ? VKS_TIMEOUT : VKS_OK;
    while (!status && s->info.vulkan && generation->images[shown].state == VKS_IMAGE_NOT_ACQUIRED)
        status = vks_acquire_next(s, 0, &index, &is_suboptimal);
    if (!status)
        vks_image_take(s, shown, VKS_IMAGE_CAPTURED, out);
    if (status == VKS_STALE)
        return vks_fail(VKS_BAD_CALL, 0, "the window has changed: its images are out of date");
    return status == VKS_TIMEOUT && !is_late ? VKS_INTERRUPTED : status;
}

vks_status vks_swapchain_acquire_shown(vks_swapchain *s, uint64_t deadline, vks_frame *out)
{
    vks_status status = vks_swapchain_enter(s, deadline);
    if (status)
        return status;
    status = vks_swapchain_leave(s, acquire_shown(s, deadline, out));
    if (status == VKS_INTERRUPTED)
        vks_pacing_poll(deadline);
    return status;
}
