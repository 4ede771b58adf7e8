/* interface.h: the structures and constants that Python uses, too. cffi reads them from here,
 * and the functions that are not static from their definitions (compiler.py). A function that
 * times a loop returns seconds, or the negative VkResult of a failed call. */
#pragma once

#include <stddef.h>

#include "vulkan.h"

enum {
    IMAGES = 16,            /* of a swapchain, at most */
    FLIGHTS = 4,            /* frames in flight, at most */
    FRAMES = 64,            /* of record.c in flight, at most */
    TRIANGLES = 1024,       /* of such a frame, at most */
    TIMED_OUT = -2147483647 /* no VkResult */
};

/* ---- swapchain.c ----------------------------------------------------------------------------------------------- */

typedef enum chain_kind {
    WINDOW,
    HEADLESS, /* the surface of VK_EXT_headless_surface */
    RING      /* no swapchain: images in turn, and nothing is presented */
} chain_kind;

typedef struct chain_image {
    VkImage image;
    VkDeviceMemory memory; /* of a ring */
    VkImageView view;
    VkCommandBuffer commands; /* they clear it; recorded for each new image */
    VkSemaphore rendered;     /* the present waits for it. Its own for each image: the next acquire of the image says
                                 that the wait is over */
    VkFence presented;        /* VK_EXT_swapchain_maintenance1: so does this */
} chain_image;

typedef struct chain_flight {
    VkSemaphore acquired;
    VkFence done;
} chain_flight;

/* A swapchain and what its frames need, for one thread. */
typedef struct chain {
    /* The caller's: */
    gpu *gpu;
    chain_kind kind;
    VkSurfaceKHR surface;
    uint32_t wanted_images, format, n_flights; /* as many as the surface may have; VkFormat; at most FLIGHTS */
    int has_present_fences;
    VkExtent2D extent;

    int clears_by_rendering; /* with a load operation, else with vkCmdClearColorImage: drivers differ by far */
    VkSwapchainKHR swapchain;
    VkCommandPool pool;
    uint32_t n_images;
    chain_image images[IMAGES];
    chain_flight flights[FLIGHTS];
    uint32_t flight; /* the next frame's */
    uint32_t turn;   /* a ring's next image */
} chain;

/* ---- record.c -------------------------------------------------------------------------------------------------- */

/* Everything is the caller's. */
typedef struct recording {
    gpu *gpu;
    VkCommandBuffer commands[FRAMES];
    VkImageView view;
    VkPipeline pipeline;
    VkBuffer vertices; /* FRAMES times TRIANGLES */
    float *mapped;
    VkSemaphore timeline;
    uint64_t frames; /* submitted so far */
    uint32_t width, height, to_host;
} recording;

/* ---- composite.c ----------------------------------------------------------------------------------------------- */

typedef struct window {
    const uint32_t *pixels; /* premultiplied; width * height of them, row after row */
    int32_t width, height;
    int32_t x, y;    /* of its top left in the target; it may lie outside */
    int32_t opacity; /* 0..255 */
} window;

typedef struct target {
    uint32_t *pixels;
    int32_t width, height;
} target;

/* ---- cuda.c ---------------------------------------------------------------------------------------------------- */

typedef struct semaphore_parameters { /* CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, and ..._SIGNAL_PARAMS: 144 bytes */
    uint64_t value;
    uint64_t reserved[17];
} semaphore_parameters;

typedef int (*on_semaphores)(void *const *semaphores, const semaphore_parameters *parameters, unsigned n, void *stream);
typedef int (*fill_rows)(uint64_t address, size_t pitch, unsigned value, size_t width, size_t height, void *stream);

typedef struct cuda_side {
    on_semaphores wait, signal;
    fill_rows fill; /* cuMemsetD2D32Async */
    void *semaphore, *stream;
    uint64_t address;
    size_t pitch, width, height; /* bytes, words, rows */
} cuda_side;
