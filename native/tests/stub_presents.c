/* The queue, the presentation engine, and their checks. */
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
    stub.seed ^= stub.seed << 13;
    stub.seed ^= stub.seed >> 7;
    stub.seed ^= stub.seed << 17;
    return (uint32_t)(stub.seed >> 33) % n;
}

void *stub_new(size_t size)
{
    void *made = NULL;
    if (posix_memalign(&made, 64, size))
        abort();
    return memset(made, 0, size);
}

/* ---- semaphores ---- */

void stub_expect_signal(uint32_t index)
{
    semaphore *s = &stub.semaphores[index];
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
    semaphore *s = &stub.semaphores[index];
    if (!s->alive)
        stub_violation("a semaphore is waited for that does not exist");
    if (!s->announced)
        stub_violation("a binary semaphore is waited for and no signal is to come");
    s->announced = false;
    *(by_present ? &s->presents : &s->waits) += 1;
}

static void signal(uint32_t index)
{
    semaphore *s = &stub.semaphores[index];
    if (s->signalled)
        stub_violation("a signalled binary semaphore is signalled");
    s->signalled = true;
    s->signals--;
}

static void take(uint32_t index, bool by_present)
{
    semaphore *s = &stub.semaphores[index];
    s->signalled = false;
    *(by_present ? &s->presents : &s->waits) -= 1;
}

/* ---- the queue ---- */

static bool is_ready(const batch *b)
{
    for (uint32_t i = 0; i < b->n_waits; i++) {
        const semaphore *s = &stub.semaphores[b->waits[i].semaphore];
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
    batch *b = stub.batches;
    if (!b || stub.stalled & STALL_QUEUE || !is_ready(b))
        return false;
    for (uint32_t i = 0; i < b->n_waits; i++) {
        const semaphore *s = &stub.semaphores[b->waits[i].semaphore];
        if (!s->is_binary)
            continue;
        take(b->waits[i].semaphore, false);
        if (s->image)
            image_of(s->image)->ready = true;
    }
    for (uint32_t i = 0; i < b->n_works; i++)
        work(b->works[i].kind, b->works[i].image);
    for (uint32_t i = 0; i < b->n_signals; i++) {
        semaphore *s = &stub.semaphores[b->signals[i].semaphore];
        if (s->is_binary)
            signal(b->signals[i].semaphore);
        else if (b->signals[i].value <= s->value)
            stub_violation("a timeline does not grow");
        else
            s->value = b->signals[i].value;
    }
    if (!(stub.batches = b->next))
        stub.last_batch = &stub.batches;
    free(b);
    stub.counts.batches--;
    return true;
}

/* ---- the engine ---- */

static void end_present(present **link)
{
    present *p = *link;
    swapchain_of(p->image)->presents--;
    if (!(*link = p->next))
        stub.last_present = link;
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
    for (acquire *a = stub.acquires; a; a = a->next)
        a->presents -= a->image == p->image && a->presents;
    shown->ready = false;
    shown->presents--;
    swapchain_of(p->image)->shown = p->image % MOST_IMAGES;
    p->taken = true;
    stub.counts.presents--;
    stub.counts.taken++;
    stub.counts.signals += p->fence != 0;
}

/* In order on each surface. */
static bool take_next(void)
{
    uint64_t seen = 0;
    for (present **link = &stub.presents; *link && !(stub.stalled & STALL_PRESENTS); link = &(*link)->next) {
        present *p = *link;
        uint64_t surface = UINT64_C(1) << swapchain_of(p->image)->surface;
        if (p->taken || seen & surface)
            continue;
        seen |= surface;
        bool ready = true;
        for (uint32_t i = 0; i < p->n; i++) { /* a batch before it may wait for the signal before, and signal anew */
            const semaphore *s = &stub.semaphores[p->semaphores[i]];
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
    for (present **link = &stub.presents; *link && !(stub.stalled & STALL_FENCES); link = &(*link)->next) {
        present *p = *link;
        if (!p->taken || (stub.pace >= PRESENTS_RANDOM && p->next && stub_below(3) == 0))
            continue;
        stub.fences[p->fence].signalled = true;
        stub.fences[p->fence].pending = false;
        stub.counts.signals--;
        end_present(link);
        return true;
    }
    return false;
}

/* The engine has finished with the image: another one is shown, or none will be. */
static bool is_free(const acquire *a)
{
    const swapchain *chain = swapchain_of(a->image);
    return !a->presents && (chain->shown != a->image % MOST_IMAGES || chain->n == 1 || chain->retired ||
                            stub.surfaces[chain->surface].is_lost);
}

static void end_acquire(acquire **link)
{
    acquire *a = *link;
    image_of(a->image)->acquires--;
    if (a->semaphore)
        signal(a->semaphore);
    if (a->fence) {
        stub.fences[a->fence].signalled = true;
        stub.fences[a->fence].pending = false;
        image_of(a->image)->ready = true;
    }
    stub.counts.signals--;
    if (!(*link = a->next))
        stub.last_acquire = link;
    free(a);
}

static bool signal_acquire(void)
{
    for (acquire **link = &stub.acquires; *link && !(stub.stalled & STALL_ACQUIRES); link = &(*link)->next)
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

void stub_advance(void)
{
    if (stub.pace == PRESENTS_EAGER)
        while (stub_step())
            ;
    for (uint32_t n = stub.pace == PRESENTS_RANDOM ? stub_below(3) : 0; n; n--)
        stub_step();
}

bool stub_wait(uint64_t limit)
{
    if (stub.pace != PRESENTS_THREAD && stub_step())
        return true;
    if (vks_now() >= limit)
        return false;
    pthread_mutex_unlock(&stub.lock); /* another thread may cause the event */
    usleep(20);
    pthread_mutex_lock(&stub.lock);
    return true;
}

/* Drops presents; also those of a swapchain that is destroyed too early. */
void stub_drop_presents(uint32_t swapchain)
{
    for (present **link = &stub.presents; *link;) {
        present *p = *link;
        if (swapchain && p->image / MOST_IMAGES != swapchain) {
            link = &p->next;
            continue;
        }
        for (uint32_t i = 0; i < p->n && !p->taken; i++)
            take(p->semaphores[i], true);
        image_of(p->image)->presents -= !p->taken;
        stub.counts.presents -= !p->taken;
        stub.counts.signals -= p->taken && p->fence;
        stub.fences[p->fence].pending = false;
        end_present(link);
    }
    for (acquire **link = &stub.acquires; *link;)
        if (!swapchain || (*link)->image / MOST_IMAGES == swapchain)
            end_acquire(link);
        else
            link = &(*link)->next;
}

void stub_lose(void)
{
    stub.is_lost = true;
    while (stub.batches) {
        batch *b = stub.batches;
        stub.batches = b->next;
        for (uint32_t i = 0; i < b->n_works; i++)
            image_of(b->works[i].image)->batches--;
        free(b);
    }
    stub.last_batch = &stub.batches;
    stub.counts.batches = 0;
    stub_drop_presents(0);
    for (uint32_t i = 1; i <= stub.n_semaphores; i++) {
        semaphore *s = &stub.semaphores[i];
        s->announced = s->signalled = false;
        s->signals = s->waits = s->presents = 0;
    }
}

/* ---- for the tests ---- */

static void *run(void *unused)
{
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&stub.lock);
        bool stop = stub.stop;
        for (uint32_t n = stub_below(4); n && !stop; n--)
            stub_step();
        useconds_t delay_us = stub_below(60);
        pthread_mutex_unlock(&stub.lock);
        if (stop)
            return NULL;
        usleep(delay_us);
    }
}

/* Clears only the used part, because the state is large. */
static void reset(void)
{
    stub_lose(); /* what a test has leaked */
    memset(stub.semaphores, 0, (stub.n_semaphores + 1) * sizeof *stub.semaphores);
    memset(stub.fences, 0, (stub.n_fences + 1) * sizeof *stub.fences);
    memset(stub.buffers, 0, (stub.n_buffers + 1) * sizeof *stub.buffers);
    memset(stub.swapchains, 0, (stub.n_swapchains + 1) * sizeof *stub.swapchains);
    memset(stub.surfaces, 0, sizeof stub.surfaces);
    memset(stub.calls, 0, sizeof stub.calls);
    memset(stub.faults, 0, sizeof stub.faults);
    stub.counts = (presents_counts){0};
    stub.n_semaphores = stub.n_fences = stub.n_swapchains = stub.n_buffers = stub.n_surfaces = stub.n_pools =
        stub.n_views = 0;
    stub.last_batch = &stub.batches;
    stub.last_present = &stub.presents;
    stub.last_acquire = &stub.acquires;
    stub.is_lost = stub.may_destroy_early = stub.stop = false;
    stub.stalled = stub.lasts = stub.failures = 0;
}

vks_device *presents_open(presents_pace pace, uint64_t seed)
{
    reset();
    stub.pace = pace;
    stub.seed = seed * UINT64_C(0x9E3779B97F4A7C15) + 88172645463325252u;
    stub.open = true;
    stub.running = pace == PRESENTS_THREAD && pthread_create(&stub.thread, NULL, run, NULL) == 0;
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
    pthread_mutex_lock(&stub.lock);
    stub.stop = true;
    if (stub.batches)
        stub_violation("the device is destroyed while its queue has work");
    presents_counts left = stub.counts;
    stub_lose();
    stub.open = false;
    pthread_mutex_unlock(&stub.lock);
    if (stub.running)
        pthread_join(stub.thread, NULL);
    expect_none(left.semaphores, "semaphores");
    if (!stub.may_destroy_early) /* else the engine may still write to some */
        expect_none(left.fences, "fences");
    expect_none(left.swapchains, "swapchains");
    expect_none(left.views, "views");
    expect_none(left.pools, "command pools");
    expect_none(left.buffers, "command buffers");
    vks_device_unref(device);
}
