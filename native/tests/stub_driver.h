/* stub_driver.h: a Vulkan driver without a GPU, for tests of the core's errors. Its calls fail on
 * command, its queues run late, and it reports invalid use. One per process; thread-safe. */
#ifndef VKS_STUB_DRIVER_H
#define VKS_STUB_DRIVER_H

#include "vkshare.h"

/* Opens a device of the stub. `native`: its timelines can be exported and imported as fds. */
vks_device *stub_open(const char *name, bool native);
/* The same, as an engine's own device and queue, which are adopted. */
vks_device *stub_adopt(const char *name, bool native);
/* Sets whether devices that are opened from now on (adopted ones excepted) have a transfer queue.
 * The initial setting is whether STUB_TRANSFER is in the environment. */
void stub_have_transfer(bool has);
/* Commands that use the surface. Only copies may go to a transfer queue. With `varied` every second
 * list copies. */
typedef enum stub_work_kind { STUB_DRAWS, STUB_COPIES, STUB_VARIED } stub_work_kind;
vks_status stub_commands(vks_surface *surface, stub_work_kind kind, vks_commands **out);
/* Makes the image of a new surface one of an engine on the device: its acquire comes before the first use. */
void stub_take_over(vks_surface *surface);
/* A new surface on the device, or one opened from an export of `of`. NULL: see vks_last_error(). */
vks_surface *stub_surface(vks_device *device, vks_surface *of);
/* Another handle of the same image on the same device. */
vks_surface *stub_alias(vks_surface *of);
/* Shuts the device down and "destroys the VkDevice": every later call is a violation. */
void stub_close(vks_device *device);

typedef enum stub_fault { STUB_NO_FAULT, STUB_OUT_OF_MEMORY, STUB_DEVICE_LOST } stub_fault;
/* Makes the n-th call from now on (1 is the next) fail once: with OUT_OF_HOST_MEMORY, or with
 * DEVICE_LOST, and then its device stays lost. */
void stub_fail(stub_fault fault, uint32_t n);
/* Makes the n-th vkQueueSubmit2 of this device from now on fail (1 is the next). */
void stub_fail_submit(vks_device *device, stub_fault fault, uint32_t n);
bool stub_has_failed(void); /* whether that call has failed */

void stub_stall(bool stalled);                               /* while true, no queue of a device runs */
void stub_stall_transfers(vks_device *device, bool stalled); /* while true, its transfer queue does not run */
uint32_t stub_semaphores(void);                              /* that exist */
uint32_t stub_violations(void);                              /* each one is printed */
/* Submits as an engine does: after a wait and with a signal. */
void stub_submit(vks_device *device, vks_semaphore_point wait, vks_semaphore_point signal);

/* An external API (CUDA) that imported the surface's memory and its timeline, and has its own
 * queue. NULL: see vks_last_error(). The stub reports access to an image by this queue or a
 * device's queue while earlier work on that memory has not run, or while another queue owns the
 * image. The API is lost with the surface's device. */
typedef struct stub_api stub_api;
stub_api *stub_import(vks_surface *surface);
/* The same for a fence's timeline alone, without an image. */
stub_api *stub_import_fence(vks_fence *fence);
/* Submits work on the image, after `wait` (0: nothing) of the timeline, and with `signal`. */
void stub_work(stub_api *api, uint64_t wait, uint64_t signal);
void stub_stall_api(stub_api *api, bool stalled); /* while true, its queue does not run */
bool stub_is_idle(const stub_api *api);
uint64_t stub_value(const stub_api *api); /* of the timeline */
void stub_lose_api(stub_api *api);        /* the API's context is lost: its submitted work never runs */
void stub_drop(stub_api *api);            /* with its work */

#endif
