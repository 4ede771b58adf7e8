#include "history_state.h"

#include "core/platform.h"

#define QUARANTINED_A_LOOK 16u /* fences */

static vks_status no_memory(void) { return vks_fail(VKS_NO_MEMORY, 0, "out of memory for the present history"); }

/* Its wait is over. It is in no list any more. */
static void finish(vks_history *history, uint32_t index)
{
    const present *over = &history->presents[index];
    for (uint32_t i = 0; i < over->count; i++)
        decide(history, VKS_RECYCLE_SEMAPHORE, over->semaphores[i]);
    if (over->fence)
        decide(history, VKS_RESET_FENCE, over->fence);
    vks_history_free_present(history, index);
}

/* ---- by acquires ---- */

/* What was presented on the carried swapchains came before the present that is proven: it is over too. */
static void finish_carried(vks_history *history, chain_list *carried)
{
    for (uint32_t i = carried->first; i != NONE; i = history->chains[i].next) {
        present_list *presents = &history->chains[i].presents;
        while (presents->first != NONE) {
            uint32_t over = presents->first;
            take_out(history, presents, over);
            finish(history, over);
        }
    }
    join(history, &history->leaving, carried);
}

static void clean_front(vks_history *history)
{
    while (history->queue.first != NONE && history->presents[history->queue.first].serial <= history->completed) {
        uint32_t front = history->queue.first;
        take_out(history, &history->queue, front);
        finish_carried(history, &history->presents[front].carried);
        finish(history, front);
    }
}

/* A3. All presents without a serial are of the current swapchain and all others came before them, so every present
 * behind a front without a serial was made after the carried swapchains were retired: its proof is theirs too. */
static void move_to_back(vks_history *history)
{
    uint32_t front = history->queue.first;
    take_out(history, &history->queue, front);
    join(history, &history->presents[history->queue.first].carried, &history->presents[front].carried);
    append(history, &history->queue, front);
    history->moved++;
}

static void collect_queue(vks_history *history)
{
    clean_front(history);
    if (history->current == NONE)
        return;
    uint32_t images = history->chains[history->current].image_count;
    for (uint32_t moves = 0; moves < images && history->queue.count > 2 * images; moves++) {
        if (history->presents[history->queue.first].serial != UNKNOWN)
            break;
        move_to_back(history);
        clean_front(history);
    }
}

/* The presents of the swapchain that have no serial will never get one: there are no more acquires. They, and what
 * they carried, wait for the next swapchain's first present (A5). */
static void retire_by_acquires(vks_history *history, uint32_t old)
{
    chain *retired = &history->chains[old];
    uint32_t last = NONE; /* present of it that has a serial */
    for (uint32_t i = history->queue.first, next; i != NONE; i = next) {
        present *item = &history->presents[i];
        next = item->next;
        if (item->serial == UNKNOWN) {
            take_out(history, &history->queue, i);
            join(history, &history->pending, &item->carried);
            append(history, &retired->presents, i);
        } else if (item->chain == old) {
            last = i;
        }
    }
    if (retired->presents.count)
        join_one(history, &history->pending, old);
    else if (last != NONE) /* all of its presents can be proven, as in shared-present mode: no acquire is needed */
        join_one(history, &history->presents[last].carried, old);
    else
        join_one(history, &history->leaving, old);
}

/* ---- by fences ---- */

typedef struct look {
    uint64_t now;
    vks_fence_probe probe;
    void *user;
} look;

/* From the oldest present on, or from the newest back, up to the first that is not over. */
static void look_at_presents(vks_history *history, chain *of, bool newest_first, const look *look)
{
    while (of->presents.first != NONE) {
        uint32_t index = newest_first ? of->presents.last : of->presents.first;
        const present *item = &history->presents[index];
        bool is_over = look->probe(look->user, item->fence);
        if (!is_over && (look->now < item->time || look->now - item->time < history->fence_deadline))
            return;
        take_out(history, &of->presents, index);
        if (is_over) {
            finish(history, index);
        } else { /* A16 */
            append(history, &history->quarantine, index);
            of->quarantined++;
        }
    }
}

/* A few in turn: with a driver that signals no fence there are ever more. */
static void look_at_quarantine(vks_history *history, const look *look)
{
    uint32_t count = history->quarantine.count < QUARANTINED_A_LOOK ? history->quarantine.count : QUARANTINED_A_LOOK;
    while (count--) {
        uint32_t index = history->quarantine.first;
        const present *item = &history->presents[index];
        take_out(history, &history->quarantine, index);
        if (look->probe(look->user, item->fence)) {
            history->chains[item->chain].quarantined--;
            finish(history, index);
        } else {
            append(history, &history->quarantine, index);
        }
    }
}

static void collect_fences(vks_history *history, const look *look)
{
    look_at_quarantine(history, look);
    if (history->current != NONE)
        look_at_presents(history, &history->chains[history->current], false, look);
    for (uint32_t i = history->leaving.first; i != NONE; i = history->chains[i].next)
        look_at_presents(history, &history->chains[i], true, look); /* A7 */
}

/* ---- in both ---- */

static void collect_leaving(vks_history *history)
{
    chain_list left = history->leaving;
    history->leaving = no_chains;
    for (uint32_t i = left.first, next; i != NONE; i = next) {
        const chain *item = &history->chains[i];
        next = item->next;
        if (item->presents.count || item->quarantined || item->last_use > history->completed) {
            join_one(history, &history->leaving, i);
        } else {
            decide(history, VKS_DESTROY_SWAPCHAIN, item->handle);
            vks_history_free_chain(history, i);
        }
    }
}

static void collect_waiting(vks_history *history)
{
    for (; history->waiting_first < history->waiting_end; history->waiting_first++) {
        const waiting *item = &history->waiting[history->waiting_first & (history->waiting_capacity - 1)];
        if (item->serial > history->completed)
            break;
        decide(history, item->is_spoiled ? VKS_DESTROY_SEMAPHORE : VKS_RECYCLE_SEMAPHORE, item->semaphore);
    }
}

vks_status vks_history_collect(vks_history *history, uint64_t completed, uint64_t now, vks_fence_probe probe,
                               void *user)
{
    bool by_fences = history->policy == VKS_PRESENTS_BY_FENCES;
    if (by_fences && !probe)
        return vks_fail(VKS_BAD_VALUE, 0, "a history by fences cannot look without a fence probe");
    if (completed == UNKNOWN)
        completed--;
    if (history->completed < completed)
        history->completed = completed;
    if (by_fences)
        collect_fences(history, &(look){now, probe, user});
    else
        collect_queue(history);
    collect_leaving(history);
    collect_waiting(history);
    return VKS_OK;
}

/* ---- events ---- */

static vks_status check_swapchain(const vks_history *history, uint64_t swapchain, uint32_t image_count)
{
    if (swapchain && (image_count < 1 || image_count > VKS_MAX_IMAGES))
        return vks_fail(VKS_BAD_VALUE, 0, "image_count is %u, allowed is 1 to %u", image_count, VKS_MAX_IMAGES);
    for (uint32_t i = 0; swapchain && i < history->chain_end; i++)
        if (history->chains[i].handle == swapchain)
            return vks_fail(VKS_BAD_VALUE, 0, "the swapchain 0x%llx is in the history already",
                            (unsigned long long)swapchain);
    return VKS_OK;
}

static uint32_t new_chain(vks_history *history, uint64_t swapchain, uint32_t image_count, bool is_shared)
{
    uint32_t index = vks_history_new_chain(history);
    history->chains[index] = (chain){
        .handle = swapchain, .presents = no_presents, .image_count = image_count, .next = NONE, .is_shared = is_shared};
    for (uint32_t i = 0; i < image_count; i++)
        history->unproven[i] = NONE;
    return index;
}

vks_status vks_history_swapchain(vks_history *history, uint64_t swapchain, uint32_t image_count, bool is_shared,
                                 uint64_t last_use)
{
    vks_status status = check_swapchain(history, swapchain, image_count);
    if (status)
        return status;
    if (swapchain && !(vks_history_reserve_chain(history, image_count) && vks_history_reserve_decisions(history, 1)))
        return no_memory();
    uint32_t old = history->current;
    if (old != NONE) {
        history->chains[old].last_use = last_use;
        history->chains[old].retired = ++history->retirements;
        if (history->policy == VKS_PRESENTS_BY_ACQUIRES)
            retire_by_acquires(history, old);
        else
            join_one(history, &history->leaving, old);
    }
    history->shared_serial = UNKNOWN;
    history->current = swapchain ? new_chain(history, swapchain, image_count, is_shared) : NONE;
    return VKS_OK;
}

static vks_status check_image(const vks_history *history, uint32_t image)
{
    if (history->current == NONE)
        return vks_fail(VKS_BAD_VALUE, 0, "there is no current swapchain that image %u could be of", image);
    uint32_t count = history->chains[history->current].image_count;
    return image < count ? VKS_OK : vks_fail(VKS_BAD_VALUE, 0, "image is %u, the swapchain has %u", image, count);
}

vks_status vks_history_waited(vks_history *history, uint32_t image, uint64_t serial)
{
    if (history->policy == VKS_PRESENTS_BY_FENCES)
        return VKS_OK;
    vks_status status = check_image(history, image);
    if (status)
        return status;
    if (serial == UNKNOWN)
        return vks_fail(VKS_BAD_VALUE, 0, "the serial is 2**64 - 1, which no submission has");
    uint32_t i = history->unproven[image];
    if (i == NONE && history->chains[history->current].is_shared)
        history->shared_serial = serial;
    for (; i != NONE; i = history->presents[i].older)
        history->presents[i].serial = serial;
    history->unproven[image] = NONE;
    return VKS_OK;
}

static vks_status check_present(const vks_history *history, uint32_t image, const uint64_t *semaphores, uint32_t n,
                                uint64_t fence)
{
    vks_status status = check_image(history, image);
    if (status)
        return status;
    if (n > VKS_FRAME_SEMAPHORES)
        return vks_fail(VKS_BAD_VALUE, 0, "a present waits for %u semaphores, allowed are %u", n, VKS_FRAME_SEMAPHORES);
    if (n && history->chains[history->current].is_shared)
        return vks_fail(VKS_BAD_VALUE, 0, "a present in shared-present mode waits for no semaphores, here for %u", n);
    for (uint32_t i = 0; i < n; i++)
        if (!semaphores[i])
            return vks_fail(VKS_BAD_VALUE, 0, "semaphore %u of %u is 0", i, n);
    if (!fence == (history->policy == VKS_PRESENTS_BY_FENCES))
        return vks_fail(VKS_BAD_VALUE, 0, "a present signals %s, here it is 0x%llx",
                        fence ? "no fence in a history by acquires" : "a fence in a history by fences",
                        (unsigned long long)fence);
    return VKS_OK;
}

static void enqueue_by_acquires(vks_history *history, uint32_t index)
{
    present *item = &history->presents[index];
    uint32_t *unproven = &history->unproven[item->image];
    item->serial = history->shared_serial;
    history->shared_serial = UNKNOWN;
    if (item->serial == UNKNOWN) {
        item->older = *unproven;
        *unproven = index;
    }
    join(history, &item->carried, &history->pending);
    append(history, &history->queue, index);
}

vks_status vks_history_presented(vks_history *history, uint32_t image, const uint64_t *semaphores, uint32_t n,
                                 uint64_t fence, uint64_t now)
{
    vks_status status = check_present(history, image, semaphores, n, fence);
    if (status)
        return status;
    if (!vks_history_reserve_present(history) || !vks_history_reserve_decisions(history, n + 1))
        return no_memory();
    uint32_t index = vks_history_new_present(history);
    present *item = &history->presents[index];
    item->fence = fence;
    item->time = now;
    item->count = n;
    item->image = image;
    item->chain = history->current;
    item->older = NONE;
    item->carried = no_chains;
    for (uint32_t i = 0; i < n; i++)
        item->semaphores[i] = semaphores[i];
    history->kept_semaphores += n;
    history->kept_fences += fence != 0;
    if (history->policy == VKS_PRESENTS_BY_ACQUIRES)
        enqueue_by_acquires(history, index);
    else
        append(history, &history->chains[history->current].presents, index);
    return VKS_OK;
}

vks_status vks_history_semaphore(vks_history *history, uint64_t semaphore, uint64_t serial, bool is_spoiled)
{
    if (!semaphore)
        return vks_fail(VKS_BAD_VALUE, 0, "the semaphore is 0");
    if (!vks_history_reserve_waiting(history) || !vks_history_reserve_decisions(history, 1))
        return no_memory();
    uint32_t mask = history->waiting_capacity - 1;
    uint64_t at = history->waiting_end++;
    for (; at > history->waiting_first && history->waiting[(at - 1) & mask].serial > serial; at--)
        history->waiting[at & mask] = history->waiting[(at - 1) & mask];
    history->waiting[at & mask] = (waiting){semaphore, serial, is_spoiled};
    history->kept_semaphores++;
    return VKS_OK;
}
