/* stub_driver.h: a Vulkan driver without a GPU, for the tests of the core's errors: its calls fail on command, its
 * queues run late, and it notices what an application must not do. One a process; all of it is thread-safe. */
#ifndef VKS_STUB_DRIVER_H
#define VKS_STUB_DRIVER_H

#include "vkshare.h"

/* A device of the stub's. `native`: its timelines go out and in as fds. */
vks_device *stub_open(const char *name, bool native);
/* The same, as an engine's own device and queue that are adopted. */
vks_device *stub_adopt(const char *name, bool native);
/* Devices that are opened from now on (not adopted ones) have a transfer queue too, or have none. At first they have if
 * STUB_TRANSFER is in the environment. */
void stub_have_transfer(bool has);
/* Commands that use the surface. Copies alone may go to a transfer queue. With `varied` every second list copies. */
typedef enum stub_work_kind { STUB_DRAWS, STUB_COPIES, STUB_VARIED } stub_work_kind;
vks_status stub_commands(vks_surface *surface, stub_work_kind kind, vks_commands **out);
/* A surface on it: a new one, or one that `of` is exported to and imported from. NULL: vks_last_error() says why. */
vks_surface *stub_surface(vks_device *device, vks_surface *of);
/* Another handle of the same image on the same device. */
vks_surface *stub_alias(vks_surface *of);
/* Shuts the device down and "destroys the VkDevice": every call that comes later is noticed. */
void stub_close(vks_device *device);

typedef enum stub_fault { STUB_NO_FAULT, STUB_OUT_OF_MEMORY, STUB_DEVICE_LOST } stub_fault;
/* The n-th call from now on (1 is the next) fails once: with OUT_OF_HOST_MEMORY, or with DEVICE_LOST, and then its
 * device stays lost. */
void stub_fail(stub_fault fault, uint32_t n);
/* The n-th vkQueueSubmit2 of this device from now on fails (1 is the next). */
void stub_fail_submit(vks_device *device, stub_fault fault, uint32_t n);
bool stub_has_failed(void); /* whether that has happened */

void stub_stall(bool stalled);                               /* while true no queue of a device runs anything */
void stub_stall_transfers(vks_device *device, bool stalled); /* while true its transfer queue runs nothing */
uint32_t stub_semaphores(void);                              /* alive */
uint32_t stub_violations(void);                              /* and each is printed */
/* As an engine does: its own submission, after a wait and with a signal. */
void stub_submit(vks_device *device, vks_semaphore_point wait, vks_semaphore_point signal);

/* Another API (CUDA) that imported the surface's memory and its timeline: it has a queue of its own. NULL:
 * vks_last_error() says why. Whatever it or a device's queue does to an image, while earlier work on that memory has
 * not run or another queue has the image, is noticed. It is lost with the surface's device. */
typedef struct stub_api stub_api;
stub_api *stub_import(vks_surface *surface);
/* The same of a fence's timeline alone: its work is on no image. */
stub_api *stub_import_fence(vks_fence *fence);
/* Work on the image, after `wait` (0: nothing) of the timeline, and with `signal`. */
void stub_work(stub_api *api, uint64_t wait, uint64_t signal);
void stub_stall_api(stub_api *api, bool stalled); /* while true its queue runs nothing */
bool stub_is_idle(const stub_api *api);
uint64_t stub_value(const stub_api *api); /* of the timeline */
void stub_lose_api(stub_api *api);        /* it died: what it was given never runs */
void stub_drop(stub_api *api);            /* with its work */

#endif
