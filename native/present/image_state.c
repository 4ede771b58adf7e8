/* image_state.c: the states of the current generation's images. Every change of `state`, and of the
 * counts that follow from it, is here. Caller holds swapchain->lock and device->lock. */
#include "swapchain_state.h"

vks_generation *vks_generation_find(vks_swapchain *s, uint64_t number, uint32_t index)
{
    vks_generation *found = s->current;
    return found && found->number == number && index < found->n ? found : NULL;
}

vks_status vks_image_find(vks_swapchain *s, const vks_frame *frame, vks_present_image **out)
{
    vks_generation *generation = vks_generation_find(s, frame->generation, frame->index);
    if (!generation)
        return vks_fail(VKS_BAD_CALL, 0, "the frame is from before the swapchain was resized: acquire another");
    *out = &generation->images[frame->index];
    return vks_image_has_caller(*out) && !(*out)->is_dropped
               ? VKS_OK
               : vks_fail(VKS_BAD_CALL, 0, "the frame was presented or closed already: acquire another");
}

void vks_image_receive(vks_swapchain *s, vks_present_image *image, uint64_t semaphore)
{
    image->acquire_semaphore = image->frame.acquired = semaphore;
    image->frame.waited = 0;
    image->by_engine = false;
    image->state = VKS_IMAGE_RETURNED;
    s->n_returned++;
}

void vks_image_take(vks_swapchain *s, uint32_t index, vks_image_state as, vks_frame *out)
{
    vks_generation *generation = s->current;
    vks_present_image *image = &generation->images[index];
    pthread_mutex_lock(&s->device->lock);
    s->n_returned -= image->state == VKS_IMAGE_RETURNED;
    s->counts.acquired += as == VKS_IMAGE_ACQUIRED;
    image->n_read = image->frame.n_rendered ? image->n_read : 0;
    image->state = as;
    if (generation->shown == index && as == VKS_IMAGE_ACQUIRED)
        generation->shown = UINT32_MAX; /* the caller may draw over it and never present it */
    image->is_dropped = false;
    if (image->surface)
        vks_surface_set_accessible(image->surface, true);
    pthread_mutex_unlock(&s->device->lock);
    *out = (vks_frame){index, generation->width, generation->height, generation->number};
}

void vks_image_put_back(vks_swapchain *s, vks_present_image *image)
{
    image->is_dropped = image->by_engine = false;
    if (image->state == VKS_IMAGE_CAPTURED)
        image->n_read = image->frame.n_rendered;
    else
        s->counts.acquired--;
    image->state = s->info.vulkan ? VKS_IMAGE_RETURNED : VKS_IMAGE_NOT_ACQUIRED;
    s->n_returned += s->info.vulkan != NULL;
}

void vks_image_end_use(const vks_present_image *image)
{
    if (!image->surface)
        return;
    vks_surface_fail_held(image->surface, false, VKS_CLOSED);
    vks_surface_set_accessible(image->surface, false);
}

void vks_images_put_back_dropped(vks_swapchain *s)
{
    pthread_mutex_lock(&s->device->lock);
    s->has_dropped = false;
    for (uint32_t i = 0; s->current && i < s->current->n; i++)
        if (s->current->images[i].is_dropped && vks_image_has_caller(&s->current->images[i]))
            vks_image_put_back(s, &s->current->images[i]);
    pthread_mutex_unlock(&s->device->lock);
}

void vks_image_presented(vks_swapchain *s, vks_present_image *image)
{
    if (image->surface)
        vks_surface_set_accessible(image->surface, false);
    image->is_dropped = false; /* dropped too late: it is presented */
    s->counts.acquired -= image->state == VKS_IMAGE_ACQUIRED;
    image->state = VKS_IMAGE_NOT_ACQUIRED;
}

void vks_image_give_up(vks_swapchain *s, vks_present_image *image)
{
    s->counts.acquired -= image->state == VKS_IMAGE_ACQUIRED;
    s->n_returned -= image->state == VKS_IMAGE_RETURNED;
    image->by_engine = image->is_dropped = false;
    image->state = VKS_IMAGE_NOT_ACQUIRED;
}
