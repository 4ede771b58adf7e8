/* argument_pools.h: the arguments that test_arguments.c draws (C8): pools of live and closed
 * objects of several devices, edge values, files of many kinds and structures with random
 * fields. */
#ifndef VKS_ARGUMENT_POOLS_H
#define VKS_ARGUMENT_POOLS_H

#include "vkshare.h"
#include "vkshare_present.h"
#include "vkshare_vulkan.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

enum { ARGUMENT_ELEMENTS = 8 }; /* of each array */

/* Fills the pools of a process. The same seed draws the same arguments. */
void arguments_open(uint64_t seed);
/* Destroys all that the pools hold. */
void arguments_close(void);
/* Replaces an object that no public function makes on a stub. */
void arguments_refresh(void);

uint64_t argument_random(void);
uint64_t argument_number(void); /* an edge value or a random number */
bool argument_chance(uint32_t one_in);
uint64_t argument_deadline(void); /* past or near: no call blocks long */
uint32_t argument_count(void);    /* of elements in an array: up to ARGUMENT_ELEMENTS */
int argument_fd(void);            /* none, closed, or of any kind; the pools keep it */
int argument_owned_fd(void);      /* a duplicate of a file for the callee */
int argument_owned_partner(void); /* and of the timeline that belongs to it, or of a wrong file */
void argument_keep_fds(int fd, int partner);
int argument_wrong_fd(void); /* none, or not of vkshare */
int argument_duplicate(int fd);
extern uint64_t argument_window; /* VkSurfaceKHR */

/* draw_X: a member of the pool, or NULL. keep_X takes ownership; a random member is destroyed in its
 * place. take_X removes the member from the pool. */
#define ARGUMENT_POOL(type)                                                                                            \
    type *draw_##type(void);                                                                                           \
    void keep_##type(type *made);                                                                                      \
    type *take_##type(void);
ARGUMENT_POOL(vks_device)
ARGUMENT_POOL(vks_surface)
ARGUMENT_POOL(vks_fence)
ARGUMENT_POOL(vks_commands)
ARGUMENT_POOL(vks_work)
ARGUMENT_POOL(vks_event_queue)
ARGUMENT_POOL(vks_queue)
ARGUMENT_POOL(vks_mirror)
ARGUMENT_POOL(vks_swapchain)
ARGUMENT_POOL(vks_display)
ARGUMENT_POOL(vks_dispatcher)
ARGUMENT_POOL(vks_observer)
vks_device *draw_mortal_device(void); /* NULL, closed, or one that may be shut down or lost */

/* Structures, valid until the next call of the same function. */
const vks_use *draw_vks_use(void); /* ARGUMENT_ELEMENTS of them */
vks_surface *const *draw_surfaces(void);
const uint32_t *draw_uint32_t(void);
const int *draw_fds(void);
const uint8_t *draw_uint8_t(void);
const vks_box *draw_vks_box(void);
const vks_submission *draw_vks_submission(void);
const vks_submit_info *draw_vks_submit_info(void);
const vks_device_info *draw_vks_device_info(void);
const vks_surface_info *draw_vks_surface_info(void);
const vks_queue_info *draw_vks_queue_info(void);
const vks_image_info *draw_vks_image_info(void);
const vks_import_info *draw_vks_import_info(void);
const vks_array_info *draw_vks_array_info(void);
const vks_adopt_image_info *draw_vks_adopt_image_info(void);
const vks_buffer_info *draw_vks_buffer_info(void);
const vks_open_info *draw_vks_open_info(void);
const vks_adopt_info *draw_vks_adopt_info(void);
const vks_window_info *draw_vks_window_info(void);
const vks_frame *draw_vks_frame(void);
vks_interval draw_vks_interval(void);
const vks_surface_descriptor *draw_vks_surface_descriptor(void);
const vks_fence_descriptor *draw_vks_fence_descriptor(void);
const vks_queue_descriptor *draw_vks_queue_descriptor(void);
void keep_vks_submission(const vks_submission *made);
void keep_vks_frame(const vks_frame *made);
void keep_vks_surface_descriptor(vks_surface_descriptor *made);
void keep_vks_fence_descriptor(vks_fence_descriptor *made);
void keep_vks_queue_descriptor(vks_queue_descriptor *made);
void argument_no_submissions(void); /* destroys those that are kept */
void argument_no_descriptors(void);

/* After vks_surface_sync() or vks_swapchain_take_semaphores(), an engine submits the signal that it
 * was given. The first needs a surface of the stub driver; argument_of_stub() returns it or
 * NULL. */
vks_surface *argument_of_stub(vks_surface *surface);
void argument_submit(vks_surface *surface, vks_semaphore_point wait, vks_semaphore_point signal);
vks_semaphore_point argument_point(const VkSemaphoreSubmitInfo *info);
void argument_draw(vks_swapchain *swapchain, const vks_frame *frame, uint64_t acquired, uint64_t rendered);
void *argument_memory(void); /* 1 MiB */

#endif
