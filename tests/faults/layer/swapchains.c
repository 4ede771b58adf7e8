/* swapchains.c: swapchains and their images; presents.c has what is done with them. */
#include <string.h>

#include "wrappers.h"

/* A create that fails before the driver sees it retires the old swapchain all the same (A12). The driver still has it
 * as the surface's current one: that is told to it when the next one is made. */
static void abandon(const VkSwapchainCreateInfoKHR *info)
{
    pthread_mutex_lock(&vks_lock);
    struct swapchain *old = vks_find(TYPE_SWAPCHAIN, HANDLE(info->oldSwapchain));
    struct surface *surface = vks_find(TYPE_SURFACE, HANDLE(info->surface));
    if (old != NULL && !old->retired) {
        old->retired = true;
        vks_event(EVENT_RETIRE, &old->object, 0, VK_SUCCESS, 0);
        if (surface != NULL)
            surface->abandoned = vks_reference(old);
    }
    pthread_mutex_unlock(&vks_lock);
}

static VkSwapchainCreateInfoKHR changed(const VkSwapchainCreateInfoKHR *info, uint32_t *images)
{
    VkSwapchainCreateInfoKHR copy = *info;
    pthread_mutex_lock(&vks_lock);
    struct swapchain *old = vks_find(TYPE_SWAPCHAIN, HANDLE(info->oldSwapchain));
    if (old != NULL && old->retired)
        vks_violation(&old->object, NO_EXCUSE, "a swapchain is made from one that is retired");
    struct surface *surface = vks_find(TYPE_SURFACE, HANDLE(info->surface));
    if (surface != NULL && info->oldSwapchain == VK_NULL_HANDLE) {
        const struct reference of = surface->abandoned;
        if (vks_find_serial(TYPE_SWAPCHAIN, of.handle, of.serial) != NULL)
            copy.oldSwapchain = (VkSwapchainKHR)(uintptr_t)of.handle;
        surface->abandoned = (struct reference){0};
    }
    *images = vks_forced.images;
    if (*images != 0)
        copy.minImageCount = *images;
    pthread_mutex_unlock(&vks_lock);
    return copy;
}

/* Acquires images and keeps them until the driver has only `images` left to give: a short image count that is one. */
static void hold_back(struct context *context, VkSwapchainKHR handle, uint32_t images, struct swapchain *swapchain)
{
    const VkDevice device = (VkDevice)(uintptr_t)context->handle;
    bool held[IMAGES] = {false};
    VkFence fence;
    const VkFenceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    if (context->CreateFence(device, &info, NULL, &fence) != VK_SUCCESS)
        return;
    while (images != 0 && swapchain->image_count - swapchain->held_count > images) {
        uint32_t index;
        VkResult result = context->AcquireNextImageKHR(device, handle, 100000000, VK_NULL_HANDLE, fence, &index);
        if ((result != VK_SUCCESS && result != VK_SUBOPTIMAL_KHR) || index >= IMAGES ||
            context->WaitForFences(device, 1, &fence, VK_TRUE, 1000000000) != VK_SUCCESS)
            break;
        context->ResetFences(device, 1, &fence);
        held[index] = true;
        swapchain->held_count++;
    }
    context->DestroyFence(device, fence, NULL);
    for (uint32_t i = 0, shown = 0; i < swapchain->image_count; i++) {
        swapchain->from_driver[i] = shown;
        if (!held[i])
            swapchain->to_driver[shown++] = i;
    }
}

static void enter(struct context *context, const VkSwapchainCreateInfoKHR *info, const struct swapchain *made)
{
    pthread_mutex_lock(&vks_lock);
    struct swapchain *swapchain = vks_add(TYPE_SWAPCHAIN, made->object.handle, 0, context);
    struct swapchain *old = vks_find(TYPE_SWAPCHAIN, HANDLE(info->oldSwapchain));
    swapchain->image_count = made->image_count;
    swapchain->held_count = made->held_count;
    memcpy(swapchain->to_driver, made->to_driver, sizeof swapchain->to_driver);
    memcpy(swapchain->from_driver, made->from_driver, sizeof swapchain->from_driver);
    swapchain->surface = vks_reference(vks_find(TYPE_SURFACE, HANDLE(info->surface)));
    struct surface *surface = vks_find(TYPE_SURFACE, HANDLE(info->surface));
    swapchain->replaced = old != NULL || surface == NULL ? vks_reference(old) : surface->orphaned;
    if (surface != NULL)
        surface->orphaned = (struct reference){0};
    vks_event(EVENT_CREATE, &swapchain->object, made->image_count - made->held_count, VK_SUCCESS, 0);
    pthread_mutex_unlock(&vks_lock);
}

static void retire(VkSwapchainKHR handle)
{
    pthread_mutex_lock(&vks_lock);
    struct swapchain *old = vks_find(TYPE_SWAPCHAIN, HANDLE(handle));
    if (old != NULL && !old->retired) {
        old->retired = true;
        vks_event(EVENT_RETIRE, &old->object, 0, VK_SUCCESS, 0);
    }
    pthread_mutex_unlock(&vks_lock);
}

static bool surface_is_lost(VkSurfaceKHR handle)
{
    pthread_mutex_lock(&vks_lock);
    const struct surface *surface = vks_find(TYPE_SURFACE, HANDLE(handle));
    const bool lost = surface != NULL && surface->forced != VK_SUCCESS;
    pthread_mutex_unlock(&vks_lock);
    return lost;
}

VkResult layer_CreateSwapchainKHR(VkDevice device, const VkSwapchainCreateInfoKHR *info,
                                  const VkAllocationCallbacks *allocator, VkSwapchainKHR *out)
{
    struct context *context = vks_context(device);
    VkResult failure = VK_SUCCESS;
    enum verdict verdict = vks_fault(ENTRY_CreateSwapchainKHR, context, &failure);
    if (verdict != INSTEAD && surface_is_lost(info->surface)) {
        verdict = INSTEAD;
        failure = VK_ERROR_SURFACE_LOST_KHR;
    }
    if (verdict == INSTEAD) {
        abandon(info);
        *out = VK_NULL_HANDLE;
        return failure;
    }
    uint32_t images = 0;
    const VkSwapchainCreateInfoKHR copy = changed(info, &images);
    VkResult result = context->CreateSwapchainKHR(device, &copy, allocator, out);
    retire(copy.oldSwapchain);
    if (result != VK_SUCCESS)
        return result;
    struct swapchain made = {.object.handle = HANDLE(*out)};
    context->GetSwapchainImagesKHR(device, *out, &made.image_count, NULL);
    if (made.image_count > IMAGES)
        made.image_count = IMAGES;
    hold_back(context, *out, images, &made);
    enter(context, &copy, &made);
    return TELL(result);
}

static void follow_what_it_replaced(struct object *object, void *argument)
{
    const struct swapchain *gone = argument;
    struct swapchain *other = (struct swapchain *)object;
    if (other->replaced.serial == gone->object.serial)
        other->replaced = gone->replaced;
}

/* A swapchain that goes leaves those that it had replaced to the one after it. */
static void hand_down(const struct swapchain *gone)
{
    struct surface *surface = vks_find_serial(TYPE_SURFACE, gone->surface.handle, gone->surface.serial);
    if (surface != NULL && !gone->retired)
        surface->orphaned = gone->replaced;
    vks_each(TYPE_SWAPCHAIN, follow_what_it_replaced, (void *)(uintptr_t)gone);
}

void layer_DestroySwapchainKHR(VkDevice device, VkSwapchainKHR swapchain, const VkAllocationCallbacks *allocator)
{
    struct context *context = vks_context(device);
    vks_fault(ENTRY_DestroySwapchainKHR, context, &(VkResult){VK_SUCCESS});
    pthread_mutex_lock(&vks_lock);
    struct swapchain *known = vks_find(TYPE_SWAPCHAIN, HANDLE(swapchain));
    if (known != NULL) {
        vks_check_swapchain(known);
        hand_down(known);
    }
    pthread_mutex_unlock(&vks_lock);
    vks_destroyed(TYPE_SWAPCHAIN, HANDLE(swapchain));
    context->DestroySwapchainKHR(device, swapchain, allocator);
}

VkResult layer_GetSwapchainImagesKHR(VkDevice device, VkSwapchainKHR handle, uint32_t *count, VkImage *out)
{
    struct context *context = vks_context(device);
    FAULT(GetSwapchainImagesKHR, context);
    pthread_mutex_lock(&vks_lock);
    struct swapchain *known = vks_find(TYPE_SWAPCHAIN, HANDLE(handle));
    const struct swapchain swapchain = known == NULL ? (struct swapchain){0} : *known;
    pthread_mutex_unlock(&vks_lock);
    VkResult result;
    if (swapchain.held_count == 0) {
        result = context->GetSwapchainImagesKHR(device, handle, count, out);
        return TELL(result);
    }
    VkImage images[IMAGES];
    uint32_t total = swapchain.image_count;
    const uint32_t shown = swapchain.image_count - swapchain.held_count;
    result = context->GetSwapchainImagesKHR(device, handle, &total, images);
    if (result < 0)
        return result;
    const uint32_t given = out == NULL || *count > shown ? shown : *count;
    for (uint32_t i = 0; out != NULL && i < given; i++)
        out[i] = images[swapchain.to_driver[i]];
    *count = given;
    result = given < shown ? VK_INCOMPLETE : VK_SUCCESS;
    return TELL(result);
}
