/* stub_presents.h: a stub Vulkan driver with a presentation engine, without a GPU or a window. The
 * engine takes presents in order and late, as the test or a seed chooses, and detects invalid use
 * (Vulkan 34 and 7.4): a semaphore, fence or swapchain that is reused or destroyed while the engine
 * still uses it, and calls that overlap. One device at a time; thread-safe. */
#ifndef VKS_STUB_PRESENTS_H
#define VKS_STUB_PRESENTS_H

#include "vkshare.h"

/* When the queue and the engine advance. While the application waits inside the driver, they always
 * do. */
typedef enum presents_pace {
    PRESENTS_EAGER, /* at once */
    PRESENTS_LAZY,  /* not before the application waits, or presents_step() */
    PRESENTS_RANDOM,
    PRESENTS_THREAD /* on a thread of its own, at random moments */
} presents_pace;

/* A new device, and the stub as new. */
vks_device *presents_open(presents_pace pace, uint64_t seed);
/* Shuts it down. Every object left is a violation. */
void presents_close(vks_device *device);
uint32_t presents_violations(void); /* in this process; each is printed */

/* ---- the surface ---- */

uint64_t presents_surface(void); /* a new VkSurfaceKHR of 64 x 64 with 2 to 8 images */
void presents_set_size(uint64_t surface, uint32_t width, uint32_t height); /* UINT32_MAX: the swapchain decides */
void presents_set_limits(uint64_t surface, uint32_t least_images, uint32_t most_images, uint32_t most_pixels);
void presents_set_images(uint64_t surface, uint32_t n); /* makes at least so many, whatever was asked for */
void *presents_get_capabilities(void);                  /* PFN_vkGetPhysicalDeviceSurfaceCapabilitiesKHR */

/* ---- failures ---- */

/* The n-th such call from now on (1 is the next), without "vk", and the `times` - 1 after it,
 * answer `code` (a VkResult). DEVICE_LOST and SURFACE_LOST stay; n 0: none fails. */
void presents_fail(const char *call, int code, uint32_t n, uint32_t times);
uint32_t presents_failures(void); /* calls that were made to fail since then */
uint32_t presents_calls(const char *call);
const char *presents_function(uint32_t i); /* NULL: there are no more */

enum { STALL_QUEUE = 1, STALL_PRESENTS = 2, STALL_FENCES = 4, STALL_ACQUIRES = 8 };
void presents_stall(unsigned what);      /* these events are stopped until the next call */
void presents_set_duration(uint32_t ms); /* each vkQueuePresentKHR takes so long, or until the next call */
/* Allows destroying a swapchain before the engine is done with it, and then leaking its fences. */
void presents_allow_early_destroy(bool may);

/* ---- statistics and steps ---- */

bool presents_step(void); /* one event happens, at random; false: there was none */
typedef struct presents_counts {
    uint32_t semaphores, fences, swapchains, views, pools, buffers; /* alive */
    uint32_t batches, presents, signals; /* not run; not taken; fences and acquires to come */
    uint32_t most_swapchains, given_up;  /* destroyed too early without possible proof: the next one was OUT_OF_DATE */
    uint64_t taken, signalled_again;     /* presents; semaphores by a batch that waits for them too */
    uint32_t width, height, images;      /* of the swapchain made last */
} presents_counts;
presents_counts presents_count(void);

/* A VkCommandBuffer that draws into the image. */
uint64_t presents_draw(uint64_t image);
/* As an engine does: its own vkQueueSubmit2 on a frame, barrier included. */
void presents_submit(uint64_t acquired, uint64_t rendered, uint64_t image);

#endif
