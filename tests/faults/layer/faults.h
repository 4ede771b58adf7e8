/* faults.h: how a test commands the Vulkan layer VK_LAYER_VKSHARE_faults. tests/support/fault_layer.py wraps it.
 *
 * The layer stands between the loader and a driver (or another layer). Without a rule everything passes through; it
 * counts, records and checks all the same. The functions below are exported by the very library that the loader loads:
 * dlopen() it by the path that is in its manifest and there is one copy of its state, however many instances and
 * devices there are. A child process is commanded by the environment variable VKSHARE_FAULTS, read when the layer is
 * loaded, in the same language. All functions may be called from any thread at any time.
 *
 * The language: statements, separated by ';' or newlines. ENTRY is a Vulkan function (an alias as vkQueueSubmit2KHR is
 * the same entry as vkQueueSubmit2), RESULT a VkResult's name, with or without VK_, or its number.
 *
 * - fail ENTRY RESULT [nth=N] [count=C] [every=K] [after=0|1] [sticky=0|1] [idle=0|1]
 *   Of the calls from now on the N-th, N+K-th, N+2K-th, ... return RESULT, C of them (all 1 by default; count=0: for
 *   ever). Left to itself the layer keeps to the specification:
 *   - A present that says SUBOPTIMAL, OUT_OF_DATE or SURFACE_LOST runs its waits and signals its fence (the driver is
 *     called, its result replaced); an acquire that says SUBOPTIMAL acquires. Nothing else reaches the driver. after=1
 *     calls it all the same, after=0 does not. (What a vkCreate... with after=1 makes stays counted: no caller has it.)
 *   - DEVICE_LOST loses the whole device: what can say so then says so for ever. The layer lets the driver finish first
 *     (unless idle=0), for an application may now destroy what the device used.
 *   - sticky=1: OUT_OF_DATE stays with the swapchain, SURFACE_LOST with the surface and its swapchains.
 *   - A vkCreateSwapchainKHR that fails retires its oldSwapchain (A12).
 * - delay KIND MS [nth=N] [count=C]
 *   Fences that the N-th, N+1-th, ... operation of the KIND signals look pending for MS more milliseconds. KIND:
 * submit, present, acquire, or fences (all three). count=0, for ever, is the default.
 * - withhold KIND [nth=N] [count=C]
 *   ... until `release`. With nth=1 and count=0, as by default, those pending now are taken in.
 * - withhold semaphores
 *   The host sees no progress of timeline semaphores; its own signals it does see.
 * - release
 *   Ends every delay and withholding.
 * - images [count=N] [min=N] [max=N]
 *   Swapchains have exactly `count` images, whatever is asked for (0: no longer); reported limits (max=0: none).
 * - extent [current=WxH|undefined] [min=WxH] [max=WxH]
 *   Reported; undefined is 0xFFFFFFFF.
 * - modes MODE,MODE
 *   Of the present modes that there are only these are reported: fifo, fifo_relaxed, mailbox, immediate, ...
 * - hide EXTENSION
 *   A device extension is not enumerated, and a device that wants it not created. An instance extension too, where the
 *   layer is an implicit one: only such are asked (environment() in fault_layer.py).
 * - log on|off
 *   Whether events are recorded; they are unless told otherwise.
 * - reset
 *   vks_faults_reset()
 */
#ifndef VKS_FAULTS_H
#define VKS_FAULTS_H

#include <stddef.h>
#include <stdint.h>

#define VKS_FAULTS_API __attribute__((visibility("default")))
#define VKS_FAULTS_NAME 40 /* bytes of a debug name or type name, with the 0 */

/* Runs statements up to the first bad one. 0, or -1 with what is wrong with it in `error`. */
VKS_FAULTS_API int vks_faults_control(const char *statements, char *error, size_t size);

/* Drops all rules, counters, peaks, events and violations. Objects that are alive stay counted as such; a lost device
 * stays lost, and what a sticky rule has done to a swapchain or surface stays done. */
VKS_FAULTS_API void vks_faults_reset(void);

typedef struct vks_faults_count {
    char type[VKS_FAULTS_NAME]; /* "swapchain", "semaphore", ... */
    uint64_t live, peak;        /* since reset() */
    uint64_t created;           /* since reset() */
} vks_faults_count;
/* Fills at most `room` and returns how many there are; so do the following. */
VKS_FAULTS_API size_t vks_faults_live(vks_faults_count *out, size_t room);

typedef struct vks_faults_calls {
    char entry[56];
    uint64_t calls;  /* since reset() */
    uint64_t failed; /* of these, those that a rule or a lost device answered */
} vks_faults_calls;
VKS_FAULTS_API size_t vks_faults_called(vks_faults_calls *out, size_t room);

/* What is alive now, the oldest first. */
typedef struct vks_faults_object {
    uint64_t handle, serial; /* a serial is never used again, unlike a handle */
    uint64_t created;        /* CLOCK_MONOTONIC ns */
    char type[VKS_FAULTS_NAME], name[VKS_FAULTS_NAME];
} vks_faults_object;
VKS_FAULTS_API size_t vks_faults_objects(vks_faults_object *out, size_t room);

/* One thing that happened. `object` is a handle, `serial` tells apart objects that had the same one. */
typedef struct vks_faults_event {
    uint64_t number; /* counts from 0 since reset() */
    uint64_t ns;     /* CLOCK_MONOTONIC */
    uint64_t object, serial;
    uint64_t value; /* of a timeline; of a present or acquire: the image's index */
    uint64_t group; /* events of one vkQueueSubmit or vkQueuePresentKHR have the same; 0: of none */
    int32_t result; /* VkResult */
    uint32_t thread;
    char what[16];              /* see vks_event_names in events.c */
    char type[24];              /* of the object */
    char name[VKS_FAULTS_NAME]; /* the object's debug name as it was then; of an injected fault: the entry */
} vks_faults_event;
/* Those that are still in the ring, the oldest first, from event `first` on. The ring holds 32768. */
VKS_FAULTS_API size_t vks_faults_events(uint64_t first, vks_faults_event *out, size_t room);

/* Uses that Vulkan forbids, as far as the layer can tell, and two kinds that it may allow and our rules do not.
 * `proven_by_idle`: the queue or device was idle since the present, which by rule A17 proves nothing about it.
 * `proven_by_order`: a present's semaphore is signalled again by a submit that waits itself, or comes after one that
 * waits, for the image's next acquire; by rule A1 that submit must have run first. */
typedef struct vks_faults_violation {
    uint64_t event; /* number of the last event before */
    uint64_t object, serial;
    uint32_t proven_by_idle, proven_by_order;
    char name[VKS_FAULTS_NAME];
    char text[160];
} vks_faults_violation;
VKS_FAULTS_API size_t vks_faults_violations(vks_faults_violation *out, size_t room);

#endif
