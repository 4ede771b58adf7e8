/* proofs.h: which submits have run and which presents are over, as far as the layer can tell. All under vks_lock.
 *
 * Kept as Vulkan's own rules have it: a submit has run when a fence or a timeline value that it or a later submit to
 * the same queue signals was reached. A present is over when its own fence has signalled
 * (VK_EXT_swapchain_maintenance1), or when the same image was acquired again and that acquire's fence has signalled, or
 * a submit that waited for that acquire's semaphore has run (rule A1); and with it all earlier presents of its
 * swapchain and of those that it replaced (A2, A5).
 */
#ifndef VKS_FAULTS_PROOFS_H
#define VKS_FAULTS_PROOFS_H

#include "layer.h"

enum { PROOFS = 64, IMAGES = 64, TARGETS = 4 };

struct reference { /* to an object that may be gone */
    uint64_t handle, serial;
};

struct queue {
    struct object object;
    uint64_t submits, done; /* numbers of submits: the last one; all up to this one have run */
    struct {
        uint64_t submit, value; /* value: of a timeline */
        bool is_fence;
        struct reference by;
    } proofs[PROOFS];
    uint64_t proof_count;
};

struct at_submit {
    struct reference queue;
    uint64_t submit;
};
struct at_present {
    struct reference swapchain;
    uint64_t present;
};

struct fence {
    struct object object;
    bool pending;
    enum hold_kind kind;
    uint64_t not_before; /* it looks pending until then; FOR_EVER: withheld */
    struct at_submit submit;
    struct at_present present; /* over when it signals: of a present its own, of an acquire the image's one before */
};

struct semaphore {
    struct object object;
    bool is_timeline, is_exported; /* exported or imported: others may do anything with it */
    bool frozen;                   /* withheld: the host sees `value` */
    uint64_t value;
    bool has_signal; /* a binary one that was signalled, or will be, and not waited for yet */
    struct at_submit waited, signalled;
    struct at_present presents[TARGETS]; /* that wait for it; over when any is (A18) */
    uint32_t present_count;
    struct at_present acquired; /* its signal is of this acquire: what is over when a wait for it has run */
    bool by_acquire;
    uint64_t idle_count; /* vks_idles() when it was last used */
};

struct surface {
    struct object object;
    struct reference abandoned; /* retired by a create that never reached the driver: the driver has it as current */
    struct reference orphaned;  /* what a destroyed swapchain had replaced, which was the surface's current one */
    VkResult forced;            /* VK_SUCCESS: nothing */
};

struct swapchain {
    struct object object;
    struct reference surface, replaced;
    bool retired;
    VkResult forced;          /* by a sticky rule */
    uint64_t presents, over;  /* numbers of presents: the last one; all up to this one are over */
    uint64_t last_of[IMAGES]; /* the last present of each of the driver's images */
    struct {
        uint64_t present;
        struct reference fence;  /* signals when it is over; handle 0: none */
        struct at_submit submit; /* has run when it is over */
    } proofs[PROOFS];
    uint64_t proof_count;
    uint64_t idle_count;
    uint32_t image_count, held_count; /* the driver's images; how many of them the layer keeps to itself */
    uint32_t to_driver[IMAGES], from_driver[IMAGES];
};

struct queue *vks_queue(VkQueue queue);
struct reference vks_reference(const void *object);

/* Events: a submit was made; `fence`, `timeline` signal when it and all before have run. */
void vks_proof_by_fence(struct queue *queue, struct fence *fence);
void vks_proof_by_timeline(struct queue *queue, struct semaphore *timeline, uint64_t value);
void vks_queue_idle(struct queue *queue);
void vks_device_idle(struct context *device);
uint64_t vks_idles(void); /* idle waits of the process so far */

/* A present of an image is over when...; `present` 0 is over anyway. */
void vks_present_by_fence(struct swapchain *swapchain, uint64_t present, struct fence *fence);
void vks_present_by_submit(struct swapchain *swapchain, uint64_t present, struct at_submit submit);

/* Questions; they may ask the driver. What is gone has been checked when it went, and is over. */
bool vks_has_run(struct at_submit at);
bool vks_is_over(struct at_present at);
bool vks_is_ordered(struct at_present at, const struct queue *queue); /* over before what is submitted now runs */
bool vks_is_signalled(struct fence *fence);           /* as the application may know it: not while it is withheld */
void vks_fence_ready(struct fence *fence);            /* it is signalled: what follows from that */
bool vks_semaphore_is_waited_for(struct semaphore *); /* by a present that is not known to be over */

/* Self-checks: before the object is destroyed, reset or used again. They record violations. */
void vks_check_fence(struct fence *fence, const char *what);
void vks_check_semaphore(struct semaphore *semaphore, const char *what);
void vks_check_swapchain(struct swapchain *swapchain);

#endif
