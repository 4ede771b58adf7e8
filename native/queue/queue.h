/* queue.h: one end of a surface queue. Internal. */
#ifndef VKS_QUEUE_H
#define VKS_QUEUE_H

#include "os/ready_fd.h"
#include "shm/queue_page.h"
#include "surface/message.h"
#include "surface/surface.h"

#define VKS_MIN_SPIN_NS 50000

/* `lock` serializes the threads that share the end (Q17). A producer holds it while it waits for
 * the GPU; a consumer does not hold it while it waits for a pair. The page's words order the two
 * ends. */
struct vks_queue {
    vks_child child;
    vks_device *device;
    _Atomic uint32_t references;
    uint32_t process;
    vks_queue_ring ring;
    vks_end end;
    uint64_t word; /* the value that this end wrote to its word in the page */
    pthread_mutex_t lock;
    _Atomic uintptr_t thread; /* single-threaded queues: the first thread that used it */
    _Atomic bool closed;
    _Atomic uint32_t sleeping; /* threads that check the page without the lock */
    _Atomic uint32_t spin_ns;  /* ns of spinning before a sleep */
    vks_mapping mapping;
    pthread_mutex_t ready_lock;
    _Atomic(vks_ready_fd *) ready; /* of vks_queue_fd(); NULL: none was asked for */
    vks_surface *surfaces[];
};

vks_status vks_queue_check(const vks_queue *queue);
/* begin takes the lock; VKS_TIMEOUT: it is taken, and the caller must not sleep. finish drops it
 * and returns `status`. */
vks_status vks_queue_begin(vks_queue *queue, bool may_sleep);
vks_status vks_queue_finish(vks_queue *queue, vks_status status);
/* Returns the state of the other end, and watches its process for death from now on. */
uint32_t vks_queue_other_end(vks_queue *queue);
vks_status vks_queue_not_open_yet(const vks_queue *queue); /* the error */
/* Commits the pairs that a dead producer wrote; the last one counts if its surface was released. */
void vks_queue_adopt_pairs(vks_queue *queue);

/* ---- ready.c ---- */
/* After a call that may change whether a dequeue would wait. The queue has an fd. */
void vks_queue_update_fd(vks_queue *queue);
void vks_queue_end_watch(vks_queue *queue); /* of a closed queue, whose page is about to be unmapped */
void vks_queue_close_fd(vks_queue *queue);

/* ---- descriptor.c ---- */
__attribute__((visibility("default"))) const vks_message_form *vks_queue_form(void);           /* Python calls it */
vks_status vks_queue_check_counts(vks_status refusal, uint32_t n_queues, uint32_t n_surfaces); /* of a descriptor */
void vks_queue_descriptor_clear(vks_queue_descriptor *out); /* it has no fds; those that it had are not closed */

#endif
