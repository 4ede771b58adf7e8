/* The entry points of surfaces and swapchains, and the tests' controls of them. */
#define _GNU_SOURCE
#include "stub_presents_state.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- surfaces ---- */

static VkResult lose_surface(surface *of, VkResult code)
{
    of->is_lost |= code == VK_ERROR_SURFACE_LOST_KHR;
    return of->is_lost && code != VK_ERROR_DEVICE_LOST ? VK_ERROR_SURFACE_LOST_KHR : code;
}

static VkResult GetPhysicalDeviceSurfaceCapabilitiesKHR(VkPhysicalDevice device, VkSurfaceKHR handle,
                                                        VkSurfaceCapabilitiesKHR *out)
{
    (void)device;
    VkResult code = stub_begin(CALL_GetPhysicalDeviceSurfaceCapabilitiesKHR);
    surface *of = &stub.surfaces[INDEX(handle)];
    if ((code = lose_surface(of, code)) == VK_SUCCESS)
        *out = (VkSurfaceCapabilitiesKHR){.minImageCount = of->least,
                                          .maxImageCount = of->most,
                                          .currentExtent = {of->width, of->height},
                                          .minImageExtent = {1, 1},
                                          .maxImageExtent = {of->most_pixels, of->most_pixels},
                                          .currentTransform = VK_SURFACE_TRANSFORM_IDENTITY_BIT_KHR};
    return stub_end(code);
}

/* ---- swapchains ---- */

static VkResult make_swapchain(surface *of, const VkSwapchainCreateInfoKHR *info, VkSwapchainKHR *out)
{
    uint32_t index = ++stub.n_swapchains;
    if (index >= MANY / 4)
        abort();
    if (info->minImageCount < of->least || (of->most && info->minImageCount > of->most))
        stub_violation("minImageCount is not what the surface allows");
    if (!info->imageExtent.width || !info->imageExtent.height || info->imageExtent.width > of->most_pixels ||
        info->imageExtent.height > of->most_pixels)
        stub_violation("imageExtent is not what the surface allows");
    swapchain *chain = &stub.swapchains[index];
    *chain = (swapchain){.alive = true,
                         .surface = INDEX(info->surface),
                         .n = info->minImageCount < of->images ? of->images : info->minImageCount,
                         .width = info->imageExtent.width,
                         .height = info->imageExtent.height,
                         .newest = UINT32_MAX,
                         .shown = UINT32_MAX};
    for (uint32_t i = 0; i < chain->n; i++)
        chain->images[i].fresh = true;
    of->current = index;
    of->is_outdated = false;
    if (++stub.counts.swapchains > stub.counts.most_swapchains)
        stub.counts.most_swapchains = stub.counts.swapchains;
    stub.counts.width = chain->width;
    stub.counts.height = chain->height;
    stub.counts.images = chain->n;
    *out = HANDLE(VkSwapchainKHR, KIND_SWAPCHAIN, index);
    return VK_SUCCESS;
}

static VkResult CreateSwapchainKHR(VkDevice device, const VkSwapchainCreateInfoKHR *info,
                                   const VkAllocationCallbacks *unused, VkSwapchainKHR *out)
{
    (void)device, (void)unused;
    surface *of = &stub.surfaces[INDEX(info->surface)];
    swapchain *old = info->oldSwapchain ? &stub.swapchains[INDEX(info->oldSwapchain)] : NULL;
    stub_enter(&of->inside, "two threads use the surface");
    if (old)
        stub_enter(&old->inside, "two threads use the swapchain that is replaced");
    VkResult code = lose_surface(of, stub_begin(CALL_CreateSwapchainKHR));
    if (old && (!old->alive || old->retired || old->surface != INDEX(info->surface)))
        stub_violation("oldSwapchain is gone, retired already, or another surface's");
    if (old) {
        old->retired = true; /* also by a call that fails (A12) */
        if (of->current == INDEX(info->oldSwapchain))
            of->current = 0;
    }
    if (code == VK_SUCCESS && of->current) {
        stub_violation("the surface has a swapchain already");
        code = VK_ERROR_NATIVE_WINDOW_IN_USE_KHR;
    }
    if (code == VK_SUCCESS)
        code = make_swapchain(of, info, out);
    if (old)
        stub_leave(&old->inside);
    stub_leave(&of->inside);
    return stub_end(code);
}

static void DestroySwapchainKHR(VkDevice device, VkSwapchainKHR handle, const VkAllocationCallbacks *unused)
{
    (void)device, (void)unused;
    swapchain *chain = &stub.swapchains[INDEX(handle)];
    stub_enter(&chain->inside, "two threads use the swapchain that is destroyed");
    stub_begin(CALL_DestroySwapchainKHR);
    if (!chain->alive)
        stub_violation("a swapchain is destroyed twice");
    surface *of = &stub.surfaces[chain->surface];
    bool may = stub.may_destroy_early || of->is_lost;
    if (chain->presents && !may && chain->retired && of->is_outdated && of->current)
        stub.counts.given_up++;
    else if (chain->presents && !may)
        stub_violation("a swapchain is destroyed before the engine is done with its presents");
    for (uint32_t i = 0; i < chain->n; i++) {
        if (chain->images[i].batches)
            stub_violation("a swapchain is destroyed while its images are in submitted work");
        if (chain->images[i].acquires && !may)
            stub_violation("a swapchain is destroyed while an acquire of it is to be signalled");
    }
    stub_drop_presents(INDEX(handle));
    chain->alive = false;
    if (of->current == INDEX(handle))
        of->current = 0;
    stub.counts.swapchains--;
    stub_leave(&chain->inside);
    stub_end(VK_SUCCESS);
}

static VkResult GetSwapchainImagesKHR(VkDevice device, VkSwapchainKHR handle, uint32_t *n, VkImage *out)
{
    (void)device;
    VkResult code = stub_begin(CALL_GetSwapchainImagesKHR);
    const swapchain *chain = &stub.swapchains[INDEX(handle)];
    if (code == VK_SUCCESS && *n < chain->n)
        code = VK_INCOMPLETE;
    else
        *n = chain->n;
    for (uint32_t i = 0; i < *n; i++)
        out[i] = HANDLE(VkImage, KIND_IMAGE, INDEX(handle) * MOST_IMAGES + i);
    return stub_end(code);
}

/* ---- acquire ---- */

/* Any image without the application, except the one presented last; UINT32_MAX: none. It may be in
 * use still: then the signal comes late. */
static uint32_t choose_image(const swapchain *chain)
{
    uint32_t first = stub.pace >= PRESENTS_RANDOM ? stub_below(chain->n) : chain->newest + 1;
    for (uint32_t i = 0; i < chain->n; i++) {
        uint32_t at = (first + i) % chain->n;
        if (!chain->images[at].acquired && (at != chain->newest || chain->n == 1))
            return at;
    }
    return UINT32_MAX;
}

static bool has_changed(const swapchain *chain)
{
    const surface *of = &stub.surfaces[chain->surface];
    return of->width != UINT32_MAX && (of->width != chain->width || of->height != chain->height);
}

static void start_acquire(VkSemaphore semaphore_handle, VkFence fence_handle, uint32_t index)
{
    acquire *a = stub_new(sizeof *a);
    *a = (acquire){.image = index,
                   .semaphore = INDEX(semaphore_handle),
                   .fence = INDEX(fence_handle),
                   .presents = image_of(index)->presents};
    if (a->semaphore) {
        semaphore *s = &stub.semaphores[a->semaphore];
        if (s->signalled || s->signals || s->waits)
            stub_violation("an acquire is given a semaphore that is signalled, or in use");
        stub_expect_signal(a->semaphore);
        s->image = index;
    }
    if (a->fence) {
        fence *of = stub_use_fence(fence_handle, false);
        if (of->signalled)
            stub_violation("an acquire is given a signalled fence");
        of->pending = true;
    }
    image_of(index)->acquired = true;
    image_of(index)->acquires++;
    *stub.last_acquire = a;
    stub.last_acquire = &a->next;
    stub.counts.signals++;
}

static VkResult AcquireNextImageKHR(VkDevice device, VkSwapchainKHR handle, uint64_t timeout, VkSemaphore semaphore,
                                    VkFence fence, uint32_t *out)
{
    (void)device;
    swapchain *chain = &stub.swapchains[INDEX(handle)];
    stub_enter(&chain->inside, "two threads use a swapchain");
    VkResult code = lose_surface(&stub.surfaces[chain->surface], stub_begin(CALL_AcquireNextImageKHR));
    if (!chain->alive)
        stub_violation("an image is acquired of a swapchain that is gone");
    bool stays = code == VK_SUCCESS && has_changed(chain);
    if (code == VK_SUCCESS && (chain->retired || (stays && (stub.pace < PRESENTS_RANDOM || stub_below(2)))))
        code = VK_ERROR_OUT_OF_DATE_KHR;
    if (code == VK_SUCCESS || code == VK_SUBOPTIMAL_KHR) {
        uint32_t i = choose_image(chain);
        while (i == UINT32_MAX && timeout && stub.pace != PRESENTS_THREAD && stub_step())
            ; /* the application waits */
        if (i == UINT32_MAX)
            code = timeout ? VK_TIMEOUT : VK_NOT_READY;
        else
            start_acquire(semaphore, fence, INDEX(handle) * MOST_IMAGES + (*out = i));
        if (i != UINT32_MAX && stays)
            code = VK_SUBOPTIMAL_KHR;
    }
    stub.surfaces[chain->surface].is_outdated |= code == VK_ERROR_OUT_OF_DATE_KHR;
    stub_leave(&chain->inside);
    return stub_end(code);
}

/* ---- present ---- */

static bool runs_its_waits(VkResult code)
{
    return code == VK_SUCCESS || code == VK_SUBOPTIMAL_KHR || code == VK_ERROR_OUT_OF_DATE_KHR ||
           code == VK_ERROR_SURFACE_LOST_KHR;
}

static VkFence fence_of(const VkPresentInfoKHR *info)
{
    for (const VkBaseInStructure *in = info->pNext; in; in = in->pNext)
        if (in->sType == VK_STRUCTURE_TYPE_SWAPCHAIN_PRESENT_FENCE_INFO_EXT)
            return ((const VkSwapchainPresentFenceInfoEXT *)in)->pFences[0];
    return VK_NULL_HANDLE;
}

static void add_present(swapchain *chain, const VkPresentInfoKHR *info)
{
    VkFence fence_handle = fence_of(info);
    present *p = stub_new(sizeof *p);
    uint32_t i = info->pImageIndices[0];
    p->image = INDEX(info->pSwapchains[0]) * MOST_IMAGES + i;
    p->fence = INDEX(fence_handle);
    p->works = chain->images[i].works;
    if (!chain->images[i].acquired)
        stub_violation("an image is presented that was not acquired");
    if (!info->waitSemaphoreCount)
        stub_violation("a present waits for nothing");
    for (uint32_t k = 0; k < info->waitSemaphoreCount && k <= VKS_FRAME_SEMAPHORES; k++) {
        p->semaphores[p->n++] = INDEX(info->pWaitSemaphores[k]);
        stub_expect_wait(p->semaphores[k], true);
    }
    if (fence_handle) {
        fence *of = stub_use_fence(fence_handle, false);
        if (of->signalled)
            stub_violation("a present is given a signalled fence");
        of->pending = true;
    }
    chain->images[i].acquired = false;
    chain->images[i].presents++;
    chain->newest = i;
    chain->presents++;
    *stub.last_present = p;
    stub.last_present = &p->next;
    stub.counts.presents++;
}

static VkResult QueuePresentKHR(VkQueue queue, const VkPresentInfoKHR *info)
{
    (void)queue;
    swapchain *chain = &stub.swapchains[INDEX(info->pSwapchains[0])];
    stub_enter(&stub.queue_inside, "two threads use the queue");
    stub_enter(&chain->inside, "two threads use a swapchain");
    VkResult code = lose_surface(&stub.surfaces[chain->surface], stub_begin(CALL_QueuePresentKHR));
    if (!chain->alive)
        stub_violation("a present goes to a swapchain that is gone");
    if (code == VK_SUCCESS && has_changed(chain))
        code = stub.pace < PRESENTS_RANDOM || stub_below(2) ? VK_ERROR_OUT_OF_DATE_KHR : VK_SUBOPTIMAL_KHR;
    stub.surfaces[chain->surface].is_outdated |= code == VK_ERROR_OUT_OF_DATE_KHR;
    if (runs_its_waits(code))
        add_present(chain, info);
    for (uint32_t ms = 0; ms < stub.lasts; ms++) {
        pthread_mutex_unlock(&stub.lock);
        usleep(1000);
        pthread_mutex_lock(&stub.lock);
    }
    stub_leave(&chain->inside);
    stub_leave(&stub.queue_inside);
    return stub_end(code);
}

PFN_vkVoidFunction stub_presents_get_wsi(const char *name)
{
#define FIND(call)                                                                                                     \
    if (strcmp(name, "vk" #call) == 0)                                                                                 \
        return (PFN_vkVoidFunction)call;
    STUB_WSI_CALLS(FIND)
#undef FIND
    return NULL;
}

/* ---- for the tests ---- */

static surface *lock_surface(uint64_t handle)
{
    pthread_mutex_lock(&stub.lock);
    return &stub.surfaces[stub_index(handle)];
}

static void unlock(void) { pthread_mutex_unlock(&stub.lock); }

uint64_t presents_surface(void)
{
    pthread_mutex_lock(&stub.lock);
    uint32_t index = ++stub.n_surfaces;
    stub.surfaces[index] = (surface){.width = 64, .height = 64, .least = 2, .most = 8, .most_pixels = 4096};
    unlock();
    return stub_handle(KIND_SURFACE, index);
}

void presents_set_size(uint64_t handle, uint32_t width, uint32_t height)
{
    surface *of = lock_surface(handle);
    of->width = width;
    of->height = height;
    unlock();
}

void presents_set_limits(uint64_t handle, uint32_t least_images, uint32_t most_images, uint32_t most_pixels)
{
    surface *of = lock_surface(handle);
    of->least = least_images;
    of->most = most_images;
    of->most_pixels = most_pixels;
    unlock();
}

void presents_set_images(uint64_t handle, uint32_t n)
{
    lock_surface(handle)->images = n;
    unlock();
}

void *presents_get_capabilities(void)
{
    PFN_vkGetPhysicalDeviceSurfaceCapabilitiesKHR function = GetPhysicalDeviceSurfaceCapabilitiesKHR;
    void *pointer;
    memcpy(&pointer, &function, sizeof pointer);
    return pointer;
}
