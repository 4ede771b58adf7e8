/* proofs.c: see proofs.h. */
#include "proofs.h"

static uint64_t idles; /* waits for a queue or device to be idle, so far */

struct reference vks_reference(const void *object)
{
    const struct object *of = object;
    return of == NULL ? (struct reference){0} : (struct reference){of->handle, of->serial};
}

struct queue *vks_queue(VkQueue queue)
{
    struct queue *found = vks_find(TYPE_QUEUE, HANDLE(queue));
    if (found != NULL)
        return found;
    struct context *context = vks_context(queue);
    return vks_add(TYPE_QUEUE, HANDLE(queue), context->handle, context);
}

/* ---- submits --------------------------------------------------------------------------------------------------- */

static void prove(struct queue *queue, struct reference by, bool is_fence, uint64_t value)
{
    const size_t i = queue->proof_count++ % PROOFS;
    queue->proofs[i].submit = queue->submits;
    queue->proofs[i].value = value;
    queue->proofs[i].is_fence = is_fence;
    queue->proofs[i].by = by;
}

void vks_proof_by_fence(struct queue *queue, struct fence *fence) { prove(queue, vks_reference(fence), true, 0); }

void vks_proof_by_timeline(struct queue *queue, struct semaphore *timeline, uint64_t value)
{
    prove(queue, vks_reference(timeline), false, value);
}

static VkDevice device_of(const struct object *object) { return (VkDevice)(uintptr_t)object->context->handle; }

bool vks_is_signalled(struct fence *fence)
{
    const struct object *object = &fence->object;
    if (device_of(object) == VK_NULL_HANDLE || (fence->not_before != 0 && vks_now() < fence->not_before))
        return false;
    return object->context->GetFenceStatus(device_of(object), (VkFence)(uintptr_t)object->handle) == VK_SUCCESS;
}

static bool has_reached(struct semaphore *timeline, uint64_t value)
{
    const struct object *object = &timeline->object;
    uint64_t now = 0;
    if (device_of(object) == VK_NULL_HANDLE || object->context->GetSemaphoreCounterValue == NULL)
        return false;
    if (timeline->frozen)
        return timeline->value >= value;
    return object->context->GetSemaphoreCounterValue(device_of(object), (VkSemaphore)(uintptr_t)object->handle, &now) ==
               VK_SUCCESS &&
           now >= value;
}

static bool holds(struct queue *queue, size_t i)
{
    const struct reference by = queue->proofs[i].by;
    if (!queue->proofs[i].is_fence) {
        struct semaphore *timeline = vks_find_serial(TYPE_SEMAPHORE, by.handle, by.serial);
        return timeline != NULL && has_reached(timeline, queue->proofs[i].value);
    }
    struct fence *fence = vks_find_serial(TYPE_FENCE, by.handle, by.serial);
    return fence != NULL && fence->pending && fence->submit.submit == queue->proofs[i].submit &&
           vks_is_signalled(fence);
}

bool vks_has_run(struct at_submit at)
{
    struct queue *queue = vks_find_serial(TYPE_QUEUE, at.queue.handle, at.queue.serial);
    if (queue == NULL || atomic_load(&queue->object.context->lost))
        return true;
    const uint64_t oldest = queue->proof_count > PROOFS ? queue->proof_count - PROOFS : 0;
    for (uint64_t i = oldest; queue->done < at.submit && i < queue->proof_count; i++) {
        if (queue->proofs[i % PROOFS].submit >= at.submit && holds(queue, i % PROOFS))
            queue->done = queue->proofs[i % PROOFS].submit;
    }
    return queue->done >= at.submit;
}

void vks_queue_idle(struct queue *queue)
{
    idles++;
    queue->done = queue->submits;
    vks_event(EVENT_IDLE, &queue->object, 0, VK_SUCCESS, 0);
}

static void idle_if_of(struct object *object, void *context)
{
    if (object->context == context)
        ((struct queue *)object)->done = ((struct queue *)object)->submits;
}

void vks_device_idle(struct context *device)
{
    idles++;
    vks_each(TYPE_QUEUE, idle_if_of, device);
    vks_event(EVENT_IDLE, vks_find(TYPE_DEVICE, device->handle), 0, VK_SUCCESS, 0);
}

uint64_t vks_idles(void) { return idles; }

/* ---- presents -------------------------------------------------------------------------------------------------- */

/* All presents up to this one are over, and all of the swapchains that this one replaced (A2, A5). */
static void set_over(struct swapchain *swapchain, uint64_t present)
{
    if (present <= swapchain->over)
        return;
    swapchain->over = present;
    struct reference older = swapchain->replaced;
    for (struct swapchain *s; (s = vks_find_serial(TYPE_SWAPCHAIN, older.handle, older.serial)) != NULL;) {
        s->over = s->presents;
        older = s->replaced;
    }
}

static void ask_proofs(struct swapchain *swapchain)
{
    const uint64_t oldest = swapchain->proof_count > PROOFS ? swapchain->proof_count - PROOFS : 0;
    for (uint64_t i = oldest; i < swapchain->proof_count; i++) {
        const uint64_t present = swapchain->proofs[i % PROOFS].present;
        const struct reference by = swapchain->proofs[i % PROOFS].fence;
        if (present <= swapchain->over)
            continue;
        if (by.handle != 0) {
            struct fence *fence = vks_find_serial(TYPE_FENCE, by.handle, by.serial);
            if (fence != NULL && fence->pending && fence->present.present == present && vks_is_signalled(fence))
                set_over(swapchain, present);
        } else if (vks_has_run(swapchain->proofs[i % PROOFS].submit)) {
            set_over(swapchain, present);
        }
    }
}

static void prove_present(struct swapchain *swapchain, uint64_t present, struct reference fence,
                          struct at_submit submit)
{
    if (present == 0)
        return;
    if (swapchain->proof_count >= PROOFS)
        ask_proofs(swapchain); /* before the oldest is forgotten */
    const size_t i = swapchain->proof_count++ % PROOFS;
    swapchain->proofs[i].present = present;
    swapchain->proofs[i].fence = fence;
    swapchain->proofs[i].submit = submit;
}

void vks_present_by_fence(struct swapchain *swapchain, uint64_t present, struct fence *fence)
{
    prove_present(swapchain, present, vks_reference(fence), (struct at_submit){0});
}

void vks_present_by_submit(struct swapchain *swapchain, uint64_t present, struct at_submit submit)
{
    prove_present(swapchain, present, (struct reference){0}, submit);
}

static void ask_those_that_replaced(struct object *object, void *argument)
{
    const struct swapchain *old = argument;
    struct swapchain *other = (struct swapchain *)object;
    if (other->object.serial > old->object.serial && other->surface.serial == old->surface.serial)
        ask_proofs(other);
}

bool vks_is_over(struct at_present at)
{
    struct swapchain *swapchain = vks_find_serial(TYPE_SWAPCHAIN, at.swapchain.handle, at.swapchain.serial);
    if (at.present == 0 || swapchain == NULL || atomic_load(&swapchain->object.context->lost))
        return true;
    if (swapchain->over < at.present)
        ask_proofs(swapchain);
    if (swapchain->over < at.present && swapchain->retired)
        vks_each(TYPE_SWAPCHAIN, ask_those_that_replaced, swapchain);
    return swapchain->over >= at.present;
}

bool vks_is_ordered(struct at_present at, const struct queue *queue)
{
    const struct swapchain *swapchain = vks_find_serial(TYPE_SWAPCHAIN, at.swapchain.handle, at.swapchain.serial);
    const uint64_t count = swapchain == NULL ? 0 : swapchain->proof_count;
    for (uint64_t i = count > PROOFS ? count - PROOFS : 0; i < count; i++) {
        if (swapchain->proofs[i % PROOFS].present >= at.present &&
            swapchain->proofs[i % PROOFS].submit.queue.serial == queue->object.serial)
            return true;
    }
    return false;
}

void vks_fence_ready(struct fence *fence)
{
    if (!fence->pending)
        return;
    vks_event(EVENT_READY, &fence->object, 0, VK_SUCCESS, 0);
    fence->pending = false;
    fence->not_before = 0;
    if (fence->kind == HOLD_SUBMIT) {
        struct queue *queue = vks_find_serial(TYPE_QUEUE, fence->submit.queue.handle, fence->submit.queue.serial);
        if (queue != NULL && queue->done < fence->submit.submit)
            queue->done = fence->submit.submit;
        return;
    }
    const struct reference of = fence->present.swapchain;
    struct swapchain *swapchain = vks_find_serial(TYPE_SWAPCHAIN, of.handle, of.serial);
    if (swapchain != NULL)
        set_over(swapchain, fence->present.present);
}

bool vks_semaphore_is_waited_for(struct semaphore *semaphore)
{
    for (uint32_t i = 0; i < semaphore->present_count; i++) {
        if (vks_is_over(semaphore->presents[i]))
            semaphore->present_count = 0;
    }
    return semaphore->present_count > 0;
}

/* ---- self-checks ----------------------------------------------------------------------------------------------- */

static bool is_lost(const struct object *object) { return atomic_load(&object->context->lost); }

void vks_check_fence(struct fence *fence, const char *what)
{
    if (!fence->pending || is_lost(&fence->object))
        return;
    if (vks_is_signalled(fence)) {
        vks_fence_ready(fence);
        return;
    }
    static const char *const by[HOLD_KINDS] = {"submit", "present", "acquire"};
    vks_violation(&fence->object, NO_EXCUSE, "a fence is %s while a%s %s has yet to signal it%s", what,
                  fence->kind == HOLD_ACQUIRE ? "n" : "", by[fence->kind],
                  fence->not_before != 0 ? " (as the layer has it)" : "");
}

void vks_check_semaphore(struct semaphore *semaphore, const char *what)
{
    if (semaphore->is_exported || is_lost(&semaphore->object))
        return;
    if (!vks_has_run(semaphore->waited))
        vks_violation(&semaphore->object, NO_EXCUSE, "a semaphore is %s while a submit that waits for it may run",
                      what);
    if (!vks_has_run(semaphore->signalled))
        vks_violation(&semaphore->object, NO_EXCUSE, "a semaphore is %s while a submit that signals it may run", what);
    if (vks_semaphore_is_waited_for(semaphore))
        vks_violation(&semaphore->object, idles > semaphore->idle_count ? BY_IDLE : NO_EXCUSE,
                      "a semaphore is %s while present %llu may still wait for it", what,
                      (unsigned long long)semaphore->presents[0].present);
}

void vks_check_swapchain(struct swapchain *swapchain)
{
    const struct at_present last = {vks_reference(swapchain), swapchain->presents};
    if (!vks_is_over(last))
        vks_violation(&swapchain->object, idles > swapchain->idle_count ? BY_IDLE : NO_EXCUSE,
                      "a swapchain is destroyed while its present %llu may still use it; known to be over: %llu",
                      (unsigned long long)last.present, (unsigned long long)swapchain->over);
}
