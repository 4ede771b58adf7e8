/* events.c: what happened, in a ring, and what should not have. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "layer.h"

enum { EVENTS = 32768, VIOLATIONS = 256 };

/* `group` ties the waits, signals and fence of one submit or present to its event of that kind. */
static const char *const names[EVENT_KINDS] = {
    [EVENT_CREATE] = "create",       [EVENT_DESTROY] = "destroy", [EVENT_NAME] = "name",
    [EVENT_SUBMIT] = "submit",   /* object: the queue; value: the submit's number on it */
    [EVENT_WAIT] = "wait",       /* object: a semaphore that the submit or present waits for; value: of a timeline */
    [EVENT_SIGNAL] = "signal",   /* object: a semaphore that the submit, acquire or host signals */
    [EVENT_FENCE] = "fence",     /* object: a fence that the submit, present or acquire signals */
    [EVENT_PRESENT] = "present", /* object: a swapchain; value: the image */
    [EVENT_ACQUIRE] = "acquire", /* object: a swapchain; value: the image */
    [EVENT_RELEASE] = "release", /* object: a swapchain; value: the image */
    [EVENT_READY] = "ready",     /* object: a fence that the application has seen signalled */
    [EVENT_RESET] = "reset",     /* object: a fence */
    [EVENT_RETIRE] = "retire",   /* object: the oldSwapchain of a create */
    [EVENT_IDLE] = "idle",       /* object: a queue, or a device */
    [EVENT_FAULT] = "fault",     /* name: the entry; result: what was said */
    [EVENT_LOST] = "lost",       /* the device of a fault */
    [EVENT_VIOLATION] = "violation",
};

static vks_faults_event ring[EVENTS];
static uint64_t next_event;
static vks_faults_violation violations[VIOLATIONS];
static size_t violation_count;
atomic_bool vks_logging = true;

uint64_t vks_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t vks_group(void)
{
    static atomic_uint_fast64_t last;
    return atomic_fetch_add(&last, 1) + 1;
}

static vks_faults_event *append(enum event_kind kind, VkResult result)
{
    static _Thread_local uint32_t thread;
    if (thread == 0)
        thread = (uint32_t)gettid();
    vks_faults_event *event = &ring[next_event % EVENTS];
    *event = (vks_faults_event){.number = next_event++, .ns = vks_now(), .result = result, .thread = thread};
    strcpy(event->what, names[kind]);
    return event;
}

void vks_event(enum event_kind kind, const struct object *object, uint64_t value, VkResult result, uint64_t group)
{
    if (!atomic_load_explicit(&vks_logging, memory_order_relaxed))
        return;
    vks_faults_event *event = append(kind, result);
    event->value = value;
    event->group = group;
    if (object == NULL)
        return;
    event->object = object->handle;
    event->serial = object->serial;
    strncpy(event->type, vks_type_names[object->type], sizeof event->type - 1);
    memcpy(event->name, object->name, sizeof event->name);
}

void vks_fault_event(enum entry entry, VkResult result)
{
    if (atomic_load_explicit(&vks_logging, memory_order_relaxed))
        snprintf(append(EVENT_FAULT, result)->name, VKS_FAULTS_NAME, "%s", vks_entry_name(entry));
}

void vks_violation(const struct object *object, unsigned excuses, const char *format, ...)
{
    vks_event(EVENT_VIOLATION, object, 0, VK_SUCCESS, 0);
    if (violation_count == VIOLATIONS)
        return; /* the first ones tell */
    vks_faults_violation *violation = &violations[violation_count++];
    *violation = (vks_faults_violation){
        .event = next_event, .proven_by_idle = (excuses & BY_IDLE) != 0, .proven_by_order = (excuses & BY_ORDER) != 0};
    if (object != NULL) {
        violation->object = object->handle;
        violation->serial = object->serial;
        memcpy(violation->name, object->name, sizeof violation->name);
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(violation->text, sizeof violation->text, format, arguments);
    va_end(arguments);
}

void vks_events_reset(void)
{
    next_event = 0;
    violation_count = 0;
}

/* ---- for the test ---------------------------------------------------------------------------------------------- */

size_t vks_faults_events(uint64_t first, vks_faults_event *out, size_t room)
{
    pthread_mutex_lock(&vks_lock);
    const uint64_t oldest = next_event > EVENTS ? next_event - EVENTS : 0;
    if (first < oldest)
        first = oldest;
    const size_t total = first < next_event ? (size_t)(next_event - first) : 0;
    for (size_t i = 0; i < total && i < room; i++)
        out[i] = ring[(first + i) % EVENTS];
    pthread_mutex_unlock(&vks_lock);
    return total;
}

size_t vks_faults_violations(vks_faults_violation *out, size_t room)
{
    pthread_mutex_lock(&vks_lock);
    const size_t total = violation_count;
    for (size_t i = 0; i < total && i < room; i++)
        out[i] = violations[i];
    pthread_mutex_unlock(&vks_lock);
    return total;
}
