/* frame.c: calls on the images of frames: their handles and surfaces, and frames that are dropped.
 */
#include "swapchain_state.h"

vks_status vks_swapchain_drop(vks_swapchain *swapchain, const vks_frame *frame)
{
    VKS_NEEDS(swapchain, frame);
    vks_present_image *image;
    vks_status status = vks_swapchain_check(swapchain);
    if (status)
        return status;
    bool locked = vks_swapchain_try_lock(swapchain);
    pthread_mutex_lock(&swapchain->device->lock); /* device->lock suffices to read the states */
    if (!(status = vks_image_find(swapchain, frame, &image))) {
        if (image->surface)
            vks_surface_set_accessible(image->surface, false);
        image->is_dropped = true;
        if (locked)
            vks_image_put_back(swapchain, image);
        else
            swapchain->has_dropped = true; /* the next holder of the lock takes the frame back */
    }
    pthread_mutex_unlock(&swapchain->device->lock);
    if (locked)
        vks_swapchain_unlock(swapchain);
    vks_frames_changed(swapchain, VKS_FRAMES_MORE);
    return status;
}

static vks_status make_view(vks_swapchain *s, vks_present_image *image)
{
    VkImageViewCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO,
        .image = (VkImage)(uintptr_t)image->image,
        .viewType = VK_IMAGE_VIEW_TYPE_2D,
        .format = (VkFormat)s->vulkan.format,
        .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1},
    };
    VkImageView view = VK_NULL_HANDLE;
    vks_status status =
        vks_driver_result(s, s->vk.CreateImageView(s->vk_device, &info, NULL, &view), "vkCreateImageView");
    image->view = status ? 0 : (uint64_t)(uintptr_t)view;
    return status;
}

static vks_status outdated(void)
{
    return vks_fail(VKS_BAD_CALL, 0, "the image is from before the swapchain was resized; acquire() another frame");
}

vks_status vks_swapchain_image(vks_swapchain *swapchain, uint32_t index, uint64_t generation, vks_frame_image *out)
{
    VKS_NEEDS(swapchain, out);
    vks_status status = vks_swapchain_enter(swapchain, VKS_FOREVER);
    if (status)
        return status;
    vks_generation *of = vks_generation_find(swapchain, generation, index);
    if (!of)
        return vks_swapchain_leave(swapchain, outdated());
    vks_present_image *image = &of->images[index];
    if (swapchain->info.vulkan && swapchain->vulkan.has_views && !image->view)
        status = make_view(swapchain, image);
    *out = (vks_frame_image){image->image, image->view, of->width, of->height};
    return vks_swapchain_leave(swapchain, status);
}

vks_status vks_swapchain_attach(vks_swapchain *s, uint32_t index, uint64_t generation, vks_surface *surface)
{
    if (surface->device != s->device)
        return VKS_FOREIGN_DEVICE;
    vks_status status = vks_swapchain_enter(s, VKS_FOREVER);
    if (status)
        return status;
    vks_generation *of = vks_generation_find(s, generation, index);
    if (!of || of->images[index].surface)
        return vks_swapchain_leave(s,
                                   vks_fail(VKS_BAD_CALL, 0, "image %u has a surface already, or is destroyed", index));
    vks_present_image *image = &of->images[index];
    if (!(status = vks_surface_present_from(surface, s->info.vulkan ? &image->frame : NULL))) {
        vks_surface_ref(surface);
        image->surface = surface;
        if (vks_image_has_caller(image))
            vks_surface_set_accessible(surface, true);
    }
    return vks_swapchain_leave(s, status);
}

/* The surface that the image of an acquired frame has, with a reference for the caller; NULL: none
 * yet. */
static vks_status attached(vks_swapchain *s, const vks_frame *frame, vks_surface **out)
{
    vks_present_image *image;
    vks_status status = vks_swapchain_enter(s, VKS_FOREVER);
    if (status)
        return status;
    if (!(status = vks_image_find(s, frame, &image)) && (*out = image->surface))
        vks_surface_ref(*out);
    return vks_swapchain_leave(s, status);
}

/* Makes a surface for the image of the frame. VKS_BAD_CALL: another thread did meanwhile. */
static vks_status make_surface(vks_swapchain *s, const vks_frame *frame)
{
    vks_surface_info info = {
        .width = frame->width, .height = frame->height, .format = s->vulkan.surface_format, .is_presentable = true};
    vks_surface *made;
    if (!s->vulkan.surface_format)
        return vks_fail(VKS_UNSUPPORTED, 0, "the surfaces of this swapchain are attached by its creator");
    vks_status status = vks_surface_create(s->device, &info, &made);
    if (status)
        return status;
    if ((status = vks_swapchain_attach(s, frame->index, frame->generation, made)))
        vks_surface_close(made);
    vks_surface_unref(made);
    return status;
}

vks_status vks_swapchain_surface(vks_swapchain *swapchain, const vks_frame *frame, vks_surface **out)
{
    VKS_NEEDS(swapchain, frame, out);
    *out = NULL;
    vks_status status = attached(swapchain, frame, out);
    if (status || *out)
        return status;
    status = make_surface(swapchain, frame);
    return status && status != VKS_BAD_CALL ? status : attached(swapchain, frame, out);
}

vks_status vks_swapchain_pin(vks_swapchain *s, uint64_t generation)
{
    vks_status status = vks_swapchain_check(s);
    if (status)
        return status;
    bool found = false;
    pthread_mutex_lock(&s->device->lock);
    for (const vks_generation *alive = s->generations; alive; alive = alive->next)
        found |= alive->number == generation;
    s->pins += found;
    pthread_mutex_unlock(&s->device->lock);
    return found ? VKS_OK : outdated();
}

void vks_swapchain_unpin(vks_swapchain *s)
{
    pthread_mutex_lock(&s->device->lock);
    s->pins--;
    pthread_mutex_unlock(&s->device->lock);
}
