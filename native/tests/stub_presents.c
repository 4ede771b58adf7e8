/* The queue, the presentation engine, and what they notice. */
#define _GNU_SOURCE
#include "stub_presents_state.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

stub_state stub_presents = {.lock = PTHREAD_MUTEX_INITIALIZER};
static _Atomic uint32_t violations;

void stub_violation(const char *text)
{
    if (atomic_fetch_add(&violations, 1) < 20)
        fprintf(stderr, "stub presents: %s\n", text);
}

uint32_t presents_violations(void) { return atomic_load(&violations); }

uint32_t stub_below(uint32_t n)
{
    the.seed ^= the.seed << 13;
    the.seed ^= the.seed >> 7;
    the.seed ^= the.seed << 17;
    return (uint32_t)(the.seed >> 33) % n;
}

/* ---- semaphores ---- */

void stub_expect_signal(uint32_t index)
{
    semaphore *s = &the.semaphores[index];
    if (!s->alive)
        stub_violation("a semaphore is signalled that does not exist");
    if (s->announced)
        stub_violation("a binary semaphore is signalled that is signalled already, or will be");
    if (s->presents)
        stub_violation("a binary semaphore is signalled that the engine still waits for");
    s->announced = true;
    s->signals++;
}

void stub_expect_wait(uint32_t index, bool by_present)
{
    semaphore *s = &the.semaphores[index];
    if (!s->alive)
        stub_violation("a semaphore is waited for that does not exist");
    if (!s->announced)
        stub_violation("a binary semaphore is waited for and no signal is to come");
    s->announced = false;
    *(by_present ? &s->presents : &s->waits) += 1;
}

static void signal(uint32_t index)
{
    semaphore *s = &the.semaphores[index];
    if (s->signalled)
        stub_violation("a signalled binary semaphore is signalled");
    s->signalled = true;
    s->signals--;
}

static void take(uint32_t index, bool by_present)
{
    semaphore *s = &the.semaphores[index];
    s->signalled = false;
    *(by_present ? &s->presents : &s->waits) -= 1;
}

/* ---- the queue ---- */

static bool is_ready(const batch *b)
{
    for (uint32_t i = 0; i < b->n_waits; i++) {
        const semaphore *s = &the.semaphores[b->waits[i].semaphore];
        if (s->is_binary ? !s->signalled : s->value < b->waits[i].value)
            return false;
    }
    return true;
}

static void work(stub_kind kind, uint32_t index)
{
    image *on = image_of(index);
    if (!on->ready)
        stub_violation("an image is drawn into before its acquire was waited for");
    if (kind == KIND_BUFFER && !on->fresh)
        stub_violation("what is drawn is discarded: the barrier from UNDEFINED comes twice");
    if (kind == KIND_DRAW && on->fresh)
        stub_violation("an image is drawn into in layout UNDEFINED");
    on->fresh = false;
    on->batches--;
    on->worked++;
}

static bool run_batch(void)
{
    batch *b = the.batches;
    if (!b || the.stalled & STALL_QUEUE || !is_ready(b))
        return false;
    for (uint32_t i = 0; i < b->n_waits; i++) {
        const semaphore *s = &the.semaphores[b->waits[i].semaphore];
        if (!s->is_binary)
            continue;
        take(b->waits[i].semaphore, false);
        if (s->image)
            image_of(s->image)->ready = true;
    }
    for (uint32_t i = 0; i < b->n_works; i++)
        work(b->works[i].kind, b->works[i].image);
    for (uint32_t i = 0; i < b->n_signals; i++) {
        semaphore *s = &the.semaphores[b->signals[i].semaphore];
        if (s->is_binary)
            signal(b->signals[i].semaphore);
        else if (b->signals[i].value <= s->value)
            stub_violation("a timeline does not grow");
        else
            s->value = b->signals[i].value;
    }
    if (!(the.batches = b->next))
        the.last_batch = &the.batches;
    free(b);
    the.counts.batches--;
    return true;
}

/* ---- the engine ---- */

static void end_present(present **link)
{
    present *p = *link;
    chain_of(p->image)->presents--;
    if (!(*link = p->next))
        the.last_present = link;
    free(p);
}

static void take_present(present *p)
{
    image *shown = image_of(p->image);
    for (uint32_t i = 0; i < p->n; i++)
        take(p->semaphores[i], true);
    if (shown->worked < p->works)
        stub_violation("an image is shown while it is drawn into");
    if (shown->fresh)
        stub_violation("an image is shown in layout UNDEFINED");
    for (acquire *a = the.acquires; a; a = a->next)
        a->presents -= a->image == p->image && a->presents;
    shown->ready = false;
    shown->presents--;
    chain_of(p->image)->shown = p->image % MOST_IMAGES;
    p->taken = true;
    the.counts.presents--;
    the.counts.taken++;
    the.counts.signals += p->fence != 0;
}

/* In order on each surface. */
static bool take_next(void)
{
    uint64_t seen = 0;
    for (present **link = &the.presents; *link && !(the.stalled & STALL_PRESENTS); link = &(*link)->next) {
        present *p = *link;
        uint64_t surface = UINT64_C(1) << chain_of(p->image)->surface;
        if (p->taken || seen & surface)
            continue;
        seen |= surface;
        bool ready = true;
        for (uint32_t i = 0; i < p->n; i++) { /* a batch before it may wait for the signal before, and signal anew */
            const semaphore *s = &the.semaphores[p->semaphores[i]];
            ready &= s->signalled && !s->signals && !s->waits;
        }
        if (!ready)
            continue;
        take_present(p);
        if (!p->fence)
            end_present(link);
        return true;
    }
    return false;
}

static bool signal_fence(void)
{
    for (present **link = &the.presents; *link && !(the.stalled & STALL_FENCES); link = &(*link)->next) {
        present *p = *link;
        if (!p->taken || (the.pace >= PRESENTS_RANDOM && p->next && stub_below(3) == 0))
            continue;
        the.fences[p->fence].signalled = true;
        the.fences[p->fence].pending = false;
        the.counts.signals--;
        end_present(link);
        return true;
    }
    return false;
}

/* The engine has done with the image: another one is shown, or none will be. */
static bool is_free(const acquire *a)
{
    const swapchain *chain = chain_of(a->image);
    return !a->presents && (chain->shown != a->image % MOST_IMAGES || chain->n == 1 || chain->retired ||
                            the.surfaces[chain->surface].is_lost);
}

static void end_acquire(acquire **link)
{
    acquire *a = *link;
    image_of(a->image)->acquires--;
    if (a->semaphore)
        signal(a->semaphore);
    if (a->fence) {
        the.fences[a->fence].signalled = true;
        the.fences[a->fence].pending = false;
        image_of(a->image)->ready = true;
    }
    the.counts.signals--;
    if (!(*link = a->next))
        the.last_acquire = link;
    free(a);
}

static bool signal_acquire(void)
{
    for (acquire **link = &the.acquires; *link && !(the.stalled & STALL_ACQUIRES); link = &(*link)->next)
        if (is_free(*link)) {
            end_acquire(link);
            return true;
        }
    return false;
}

bool stub_step(void)
{
    bool (*const actions[])(void) = {run_batch, take_next, signal_fence, signal_acquire};
    uint32_t first = stub_below(4);
    for (uint32_t i = 0; i < 4; i++)
        if (actions[(first + i) % 4]())
            return true;
    return false;
}

void stub_go_on(void)
{
    if (the.pace == PRESENTS_EAGER)
        while (stub_step())
            ;
    for (uint32_t n = the.pace == PRESENTS_RANDOM ? stub_below(3) : 0; n; n--)
        stub_step();
}

bool stub_wait(uint64_t limit)
{
    if (the.pace != PRESENTS_THREAD && stub_step())
        return true;
    if (vks_now() >= limit)
        return false;
    pthread_mutex_unlock(&the.lock); /* another thread may do what is waited for */
    usleep(20);
    pthread_mutex_lock(&the.lock);
    return true;
}

/* Also of a swapchain that is destroyed too early: it forgets what it waits for. */
void stub_drop_presents(uint32_t swapchain)
{
    for (present **link = &the.presents; *link;) {
        present *p = *link;
        if (swapchain && p->image / MOST_IMAGES != swapchain) {
            link = &p->next;
            continue;
        }
        for (uint32_t i = 0; i < p->n && !p->taken; i++)
            take(p->semaphores[i], true);
        image_of(p->image)->presents -= !p->taken;
        the.counts.presents -= !p->taken;
        the.counts.signals -= p->taken && p->fence;
        the.fences[p->fence].pending = false;
        end_present(link);
    }
    for (acquire **link = &the.acquires; *link;)
        if (!swapchain || (*link)->image / MOST_IMAGES == swapchain)
            end_acquire(link);
        else
            link = &(*link)->next;
}

void stub_lose(void)
{
    the.is_lost = true;
    while (the.batches) {
        batch *b = the.batches;
        the.batches = b->next;
        for (uint32_t i = 0; i < b->n_works; i++)
            image_of(b->works[i].image)->batches--;
        free(b);
    }
    the.last_batch = &the.batches;
    the.counts.batches = 0;
    stub_drop_presents(0);
    for (uint32_t i = 1; i <= the.n_semaphores; i++) {
        semaphore *s = &the.semaphores[i];
        s->announced = s->signalled = false;
        s->signals = s->waits = s->presents = 0;
    }
}

/* ---- for the tests ---- */

static void *run(void *unused)
{
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&the.lock);
        bool stop = the.stop;
        for (uint32_t n = stub_below(4); n && !stop; n--)
            stub_step();
        useconds_t nap = stub_below(60);
        pthread_mutex_unlock(&the.lock);
        if (stop)
            return NULL;
        usleep(nap);
    }
}

/* Only what was used is cleared: it is large. */
static void reset(void)
{
    memset(the.semaphores, 0, (the.n_semaphores + 1) * sizeof *the.semaphores);
    memset(the.fences, 0, (the.n_fences + 1) * sizeof *the.fences);
    memset(the.buffers, 0, (the.n_buffers + 1) * sizeof *the.buffers);
    memset(the.swapchains, 0, (the.n_swapchains + 1) * sizeof *the.swapchains);
    memset(the.surfaces, 0, sizeof the.surfaces);
    memset(the.calls, 0, sizeof the.calls);
    memset(the.faults, 0, sizeof the.faults);
    the.counts = (presents_counts){0};
    the.n_semaphores = the.n_fences = the.n_swapchains = the.n_buffers = the.n_surfaces = the.n_pools = the.n_views = 0;
    the.last_batch = &the.batches;
    the.last_present = &the.presents;
    the.last_acquire = &the.acquires;
    the.is_lost = the.may_give_up = the.stop = false;
    the.stalled = the.lasts = the.failures = 0;
}

vks_device *presents_open(presents_pace pace, uint64_t seed)
{
    reset();
    the.pace = pace;
    the.seed = seed * UINT64_C(0x9E3779B97F4A7C15) + 88172645463325252u;
    the.open = true;
    the.running = pace == PRESENTS_THREAD && pthread_create(&the.thread, NULL, run, NULL) == 0;
    vks_vulkan_info vulkan = {.device = 1, .queue = 1, .max_timeline_difference = UINT64_C(1) << 40};
    PFN_vkVoidFunction (*get)(VkDevice, const char *) = stub_presents_get;
    memcpy(&vulkan.get_device_proc_addr, &get, sizeof get);
    vks_device *device = NULL;
    vks_device_create(&(vks_device_info){.name = "presents", .vulkan = &vulkan}, &device);
    return device;
}

static void expect_none(uint32_t n, const char *what)
{
    char text[64];
    snprintf(text, sizeof text, "%u %s leak", n, what);
    if (n)
        stub_violation(text);
}

void presents_close(vks_device *device)
{
    vks_device_shutdown(device);
    pthread_mutex_lock(&the.lock);
    the.stop = true;
    if (the.batches)
        stub_violation("the device is destroyed while its queue has work");
    presents_counts left = the.counts;
    stub_lose();
    the.open = false;
    pthread_mutex_unlock(&the.lock);
    if (the.running)
        pthread_join(the.thread, NULL);
    expect_none(left.semaphores, "semaphores");
    if (!the.may_give_up) /* else the engine may still write to some */
        expect_none(left.fences, "fences");
    expect_none(left.swapchains, "swapchains");
    expect_none(left.views, "views");
    expect_none(left.pools, "command pools");
    expect_none(left.buffers, "command buffers");
    vks_device_unref(device);
}
