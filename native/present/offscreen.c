/* offscreen.c: a swapchain without a window: a set of images that the caller has made, in turn. */
#include <stdlib.h>

#include "swapchain_state.h"

static vks_status open_images(vks_swapchain *s, const vks_generation *like)
{
    vks_generation *offscreen = malloc(sizeof *offscreen);
    if (!offscreen)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a swapchain");
    *offscreen = *like;
    offscreen->shown = UINT32_MAX;
    pthread_mutex_lock(&s->device->lock);
    s->generations = s->current = offscreen;
    if (like->number) {
        s->counts.recreated += s->newest_generation != 0;
        s->counts.most_alive = 1;
        s->newest_generation = like->number;
    }
    pthread_mutex_unlock(&s->device->lock);
    return VKS_OK;
}

vks_status vks_offscreen_open(vks_swapchain *s) { return open_images(s, &(vks_generation){0}); }

void vks_offscreen_close(vks_swapchain *s)
{
    vks_generation *offscreen = s->current;
    pthread_mutex_lock(&s->device->lock);
    s->generations = s->current = NULL;
    s->counts.acquired = 0;
    for (uint32_t i = 0; offscreen && i < offscreen->n; i++)
        vks_image_end_use(&offscreen->images[i]);
    pthread_mutex_unlock(&s->device->lock);
    for (uint32_t i = 0; offscreen && i < offscreen->n; i++)
        if (offscreen->images[i].surface)
            vks_surface_unref(offscreen->images[i].surface);
    free(offscreen);
}

/* Replaces the images; acquired frames were drawn for another target. Without memory for it the
 * swapchain fits no size, so that the caller makes new images before the next acquire. */
static vks_status replace(vks_swapchain *s, const vks_generation *like)
{
    vks_offscreen_close(s);
    s->made_for = 0;
    return open_images(s, like);
}

vks_status vks_offscreen_retarget(vks_swapchain *s, uint64_t surface)
{
    vks_status status = replace(s, &(vks_generation){0});
    atomic_store(&s->is_lost, surface == 0 || status);
    return status;
}

vks_status vks_swapchain_new_offscreen(vks_swapchain *s, uint32_t width, uint32_t height, uint32_t image_count,
                                       uint64_t *generation)
{
    if (s->info.vulkan || !image_count || image_count > VKS_SWAPCHAIN_IMAGES)
        return vks_fail(VKS_BAD_CALL, 0, "an offscreen swapchain has 1 to %u images, and no window",
                        VKS_SWAPCHAIN_IMAGES);
    vks_status status = vks_swapchain_enter(s, VKS_FOREVER);
    if (status)
        return status;
    uint64_t number = s->newest_generation + 1;
    vks_generation like = {.n = image_count, .width = width, .height = height, .number = number};
    if (!(status = replace(s, &like))) {
        s->made_for = (uint64_t)width << 32 | height;
        *generation = number;
    }
    vks_frames_changed(s, VKS_FRAMES_MORE);
    return vks_swapchain_leave(s, status);
}

vks_status vks_offscreen_check(const vks_swapchain *s, vks_frame *out)
{
    uint64_t wanted = atomic_load(&s->wanted);
    *out = (vks_frame){.width = (uint32_t)(wanted >> 32), .height = (uint32_t)wanted};
    if (!(wanted >> 32) || !(uint32_t)wanted)
        return VKS_HIDDEN;
    return s->made_for == wanted ? VKS_OK : VKS_OUTDATED;
}

uint32_t vks_offscreen_find(const vks_swapchain *s)
{
    const vks_generation *offscreen = s->current;
    for (uint32_t i = 0; i < offscreen->n; i++) {
        uint32_t index = (offscreen->shown + 1 + i) % offscreen->n; /* UINT32_MAX + 1 is 0 */
        if (offscreen->images[index].state == VKS_IMAGE_NOT_ACQUIRED &&
            (index != offscreen->shown || offscreen->n == 1))
            return index;
    }
    return UINT32_MAX;
}

vks_status vks_offscreen_acquire(vks_swapchain *s, vks_frame *out)
{
    uint32_t index = vks_offscreen_find(s);
    if (index == UINT32_MAX)
        return VKS_TIMEOUT;
    vks_image_take(s, index, VKS_IMAGE_ACQUIRED, out);
    return VKS_OK;
}

void vks_offscreen_present(vks_swapchain *s, uint32_t index)
{
    vks_present_image *image = &s->current->images[index];
    vks_pacing_presented(s, image->surface ? image->surface->last_serial : 0);
    s->current->shown = index;
    vks_image_presented(s, image);
}
