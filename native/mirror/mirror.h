/* mirror.h: the two images of a mirror, and the copies between them by way of the CPU. Internal. */
#ifndef VKS_MIRROR_H
#define VKS_MIRROR_H

#include "engine/engine.h"

/* One of the two images. Its handle owns it during each call. */
typedef struct vks_mirror_side {
    vks_surface *surface;     /* a reference */
    vks_surface *stage;       /* the same pixels in rows that the CPU sees, owned; NULL: those of `surface` are seen */
    VkCommandBuffer commands; /* of the copy between both */
    vks_submission last;      /* of that copy, while it may run */
    bool is_running;
} vks_mirror_side;

/* Takes the reference of `surface`, also on failure; closed by vks_mirror_side_close(). VKS_UNSUPPORTED:
 * the driver has no such pixels in rows. */
vks_status vks_mirror_side_open(vks_mirror_side *side, vks_surface *surface);
/* Begins to make the pixels of the box visible to the CPU, once all work on the image has run. VKS_ABANDONED:
 * some of it never will. */
vks_status vks_mirror_side_fetch(vks_mirror_side *side, const vks_box *box, uint64_t deadline);
/* Waits until the CPU may access the pixels that it sees: those that fetch() brings, or for store(). */
vks_status vks_mirror_side_wait(vks_mirror_side *side, uint64_t deadline);
/* Brings the box, which the CPU has written, to the image. */
vks_status vks_mirror_side_store(vks_mirror_side *side, const vks_box *box, uint64_t deadline);
/* Copies the box, of visible pixels, and adds its bytes to *nbytes. */
vks_status vks_mirror_copy(const vks_mirror_side *from, const vks_mirror_side *to, const vks_box *box,
                           uint64_t *nbytes);
/* Owns a surface anew that failed work has spoilt, and that no other party knows. Blocks for its work. */
vks_status vks_mirror_mend(vks_surface *surface);
/* Ends the activity of both surfaces; they stay. */
void vks_mirror_side_close(vks_mirror_side *side);
/* Frees everything, after a close. */
void vks_mirror_side_free(vks_mirror_side *side);

#endif
