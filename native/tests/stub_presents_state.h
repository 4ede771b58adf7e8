/* stub_presents_state.h: state that the files of the stub with a presentation engine share. */
#ifndef VKS_STUB_PRESENTS_STATE_H
#define VKS_STUB_PRESENTS_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "stub_presents.h"
#include "vulkan/vulkan_core.h"

/* clang-format needs many runs to reach a stable result with these. */
/* clang-format off */
#define STUB_WSI_CALLS(X)                                                                                              \
    X(CreateSwapchainKHR)                                                                                              \
    X(DestroySwapchainKHR)                                                                                             \
    X(GetSwapchainImagesKHR) X(AcquireNextImageKHR) X(QueuePresentKHR) X(GetPhysicalDeviceSurfaceCapabilitiesKHR)
#define STUB_PLAIN_CALLS(X)                                                                                            \
    X(CreateSemaphore)                                                                                                 \
    X(DestroySemaphore)                                                                                                \
    X(GetSemaphoreCounterValue)                                                                                        \
    X(WaitSemaphores)                                                                                                  \
    X(SignalSemaphore)                                                                                                 \
    X(QueueSubmit2)                                                                                                    \
    X(QueueWaitIdle)                                                                                                   \
    X(CreateFence)                                                                                                     \
    X(DestroyFence) X(ResetFences) X(GetFenceStatus) X(WaitForFences) X(CreateImageView) X(DestroyImageView)           \
        X(CreateCommandPool) X(DestroyCommandPool) X(AllocateCommandBuffers) X(FreeCommandBuffers)                     \
            X(BeginCommandBuffer) X(EndCommandBuffer) X(CmdPipelineBarrier2)
#define STUB_CALLS(X) STUB_WSI_CALLS(X) STUB_PLAIN_CALLS(X)
/* clang-format on */

typedef enum stub_call {
#define NUMBER(name) CALL_##name,
    STUB_CALLS(NUMBER)
#undef NUMBER
        N_CALLS
} stub_call;

/* A handle is one of these above an index that is never used again. */
typedef enum stub_kind {
    KIND_SEMAPHORE = 1,
    KIND_FENCE,
    KIND_SWAPCHAIN,
    KIND_IMAGE,
    KIND_VIEW,
    KIND_POOL,
    KIND_BUFFER,
    KIND_SURFACE,
    KIND_DRAW,
    KIND_ENGINE /* barrier and drawing */
} stub_kind;

enum { MANY = 1 << 17, POINTS = 24, MOST_IMAGES = 32 };

typedef struct semaphore {
    bool alive, is_binary, signalled;
    bool announced;                    /* in order of submission: signalled, without a wait yet */
    uint32_t signals, waits, presents; /* that are to come */
    uint32_t image;                    /* whose acquire signals it; 0 for none */
    uint64_t value;
} semaphore;

typedef struct fence {
    bool alive, signalled, pending;
} fence;

typedef struct image {
    bool acquired;
    bool ready;             /* in order of execution: its acquire was waited for */
    bool fresh;             /* layout UNDEFINED */
    uint32_t batches;       /* that touch it and have not run */
    uint64_t works, worked; /* drawings ever submitted, and run */
    uint32_t presents;      /* not taken */
    uint32_t acquires;      /* that have not signalled */
} image;

typedef struct swapchain {
    bool alive, retired;
    atomic_int inside;
    uint32_t surface, n, width, height;
    uint32_t presents;      /* not taken, or whose fence is not signalled */
    uint32_t newest, shown; /* images */
    image images[MOST_IMAGES];
} swapchain;

typedef struct buffer {
    bool alive;
    uint32_t pool, image;
} buffer;

typedef struct surface {
    atomic_int inside;
    bool is_lost, is_outdated; /* the latter: the current swapchain was said to be OUT_OF_DATE */
    uint32_t current;          /* swapchain that is not retired; 0 for none */
    uint32_t width, height, least, most, images, most_pixels;
} surface;

typedef struct point {
    uint32_t semaphore;
    uint64_t value;
} point;

typedef struct batch {
    struct batch *next;
    uint32_t n_waits, n_signals, n_works;
    point waits[POINTS], signals[POINTS];
    struct {
        stub_kind kind;
        uint32_t image;
    } works[POINTS];
} batch;

typedef struct present {
    struct present *next;
    uint32_t image, fence, n;
    bool taken;
    uint64_t works; /* that it shows */
    uint32_t semaphores[VKS_FRAME_SEMAPHORES + 1];
} present;

/* An acquire, which signals its semaphore and fence when the image is free. */
typedef struct acquire {
    struct acquire *next;
    uint32_t image, semaphore, fence;
    uint32_t presents; /* of the image, made before and not taken */
} acquire;

typedef struct stub_fault {
    VkResult code;
    uint32_t left, times;
} stub_fault_of_call;

typedef struct stub_state {
    pthread_mutex_t lock;
    presents_pace pace;
    uint64_t seed;
    bool open, is_lost, may_destroy_early, running, stop;
    unsigned stalled;
    uint32_t lasts;
    pthread_t thread;
    atomic_int queue_inside, pool_inside;
    uint32_t n_semaphores, n_fences, n_swapchains, n_buffers, n_surfaces, n_pools, n_views;
    semaphore semaphores[MANY];
    fence fences[MANY];
    buffer buffers[MANY];
    swapchain swapchains[MANY / 4];
    surface surfaces[64];
    batch *batches, **last_batch;
    present *presents, **last_present;
    acquire *acquires, **last_acquire;
    stub_fault_of_call faults[N_CALLS];
    uint32_t calls[N_CALLS], failures;
    presents_counts counts;
} stub_state;

extern stub_state stub_presents;
#define stub stub_presents

static inline uint32_t stub_index(uint64_t handle) { return (uint32_t)(handle & 0xFFFFFF); }
static inline uint64_t stub_handle(stub_kind kind, uint32_t index) { return (uint64_t)kind << 40 | index; }
#define INDEX(handle) stub_index((uint64_t)(uintptr_t)(handle))
#define HANDLE(type, kind, index) ((type)(uintptr_t)stub_handle(kind, index))

static inline swapchain *swapchain_of(uint32_t image) { return &stub.swapchains[image / MOST_IMAGES]; }
static inline image *image_of(uint32_t index) { return &swapchain_of(index)->images[index % MOST_IMAGES]; }

/* ---- stub_presents.c ---- */
void *stub_new(size_t size); /* zeroed; not by calloc(), which a test may let fail (failing_memory.h) */
void stub_violation(const char *text);
uint32_t stub_below(uint32_t n); /* at random */
/* Caller holds stub.lock: */
bool stub_step(void);
void stub_advance(void); /* one call's steps, by the pace */
/* One step while the application waits; false: no further event happens by itself before
 * `limit`. */
bool stub_wait(uint64_t limit);
void stub_lose(void); /* the device: nothing is pending any more */
void stub_expect_signal(uint32_t index);
void stub_expect_wait(uint32_t index, bool by_present);
void stub_drop_presents(uint32_t swapchain);

/* ---- stub_presents_calls.c, stub_presents_wsi.c ---- */
PFN_vkVoidFunction stub_presents_get(VkDevice device, const char *name);
PFN_vkVoidFunction stub_presents_get_wsi(const char *name);
/* Called around every call: begin takes the lock and returns the failure to inject; end releases
 * the lock. */
VkResult stub_begin(stub_call call);
VkResult stub_end(VkResult code);
/* Vulkan's external synchronisation: no other thread is inside. */
void stub_enter(atomic_int *inside, const char *what);
void stub_leave(atomic_int *inside);
fence *stub_use_fence(VkFence handle, bool may_be_pending);

#endif
