/* The present tracker against a model of a presentation engine, in a million seeded steps. The
 * engine may use a present's semaphores long after the frame's own work has run. The test fails if
 * the tracker releases a handle too early, twice, or never. */
#include <string.h>

#include "check_macros.h"
#include "present/tracker.h"

/* Limits of one model, from create to close of a tracker. */
enum { STEPS = 4000, MANY = 2 * STEPS + 64, IMAGES = 5, SEMAPHORES = 3 };

typedef enum state { UNUSED, KEPT, OUT } state; /* UNUSED: never seen, or in the pool; OUT: destroyed */

typedef struct presented {
    uint64_t after; /* the submission that signals its semaphores */
    uint32_t swapchain, fence;
} presented;

typedef struct semaphore {
    state state;
    uint64_t present; /* that waits for it, or 0: then */
    uint64_t serial;  /* the submission that uses it */
    bool is_spoiled;
} semaphore;

typedef struct fence {
    state state;
    uint64_t present;
    bool is_signalled, comes; /* comes: it is signalled in the end */
} fence;

typedef struct swapchain {
    state state;
    uint64_t newest, last_use; /* present, submission */
    uint32_t fences;           /* not signalled */
    bool is_shared;
} swapchain;

/* Handles are indices into these, from 1 on. */
typedef struct tracker_model {
    vks_tracker *tracker;
    bool by_fences, presents_acquires; /* presents that wait for the acquire's semaphore themselves */
    uint64_t seed, now;
    uint64_t submitted, completed; /* submissions */
    uint64_t needs[MANY];          /* each waits until the engine is done with that present: its acquire's semaphore */
    uint64_t presents, consumed;   /* the engine takes them in order */
    presented present[MANY];
    semaphore semaphores[MANY * SEMAPHORES];
    fence fences[MANY];
    swapchain swapchains[MANY];
    uint32_t n_semaphores, n_fences, n_swapchains, n_pool, pool[MANY * SEMAPHORES];
    uint32_t current, images, starved; /* current: 0 for none */
    bool is_shared;
    uint64_t newest[IMAGES]; /* present of that image of the current swapchain */
    uint64_t last_use;       /* submission that touched the current swapchain */
} tracker_model;

static tracker_model model;

static uint32_t below(uint32_t n)
{
    model.seed ^= model.seed << 13;
    model.seed ^= model.seed >> 7;
    model.seed ^= model.seed << 17;
    return (uint32_t)(model.seed >> 33) % n;
}

static bool chance(uint32_t percent) { return below(100) < percent; }

/* ---- the presentation engine and the device ---- */

static void signal(uint32_t index)
{
    fence *of = &model.fences[index];
    if (of->is_signalled || of->state != KEPT || of->present > model.consumed)
        return;
    of->is_signalled = true;
    model.swapchains[model.present[of->present].swapchain].fences--;
}

static bool consume(void)
{
    if (model.consumed == model.presents || model.present[model.consumed + 1].after > model.completed)
        return false;
    uint32_t index = model.present[++model.consumed].fence;
    if (index && model.fences[index].comes && chance(80))
        signal(index);
    return true;
}

/* A11 assumes that a shared present is complete when its submission has run, and that this runs
 * after all earlier presents. */
static bool complete(void)
{
    if (model.completed == model.submitted || model.needs[model.completed + 1] > model.consumed)
        return false;
    model.completed++;
    const presented *next = &model.present[model.consumed + 1];
    if (model.consumed < model.presents && model.swapchains[next->swapchain].is_shared &&
        next->after == model.completed)
        consume();
    return true;
}

static void run_until_idle(void)
{
    while (consume() || complete())
        ;
}

/* ---- decisions ---- */

static bool probe(void *user, uint64_t fence)
{
    (void)user;
    CHECK(model.fences[fence].state == KEPT, "fence %d is not the history's", (int)fence);
    return model.fences[fence].is_signalled;
}

static void check_semaphore(uint32_t index, vks_decision_kind kind, bool is_end)
{
    semaphore *of = &model.semaphores[index];
    CHECK(of->state == KEPT, "semaphore %u comes out twice", index);
    CHECK(is_end || of->present <= model.consumed, "present %d still waits", (int)of->present);
    CHECK(is_end || of->serial <= model.completed, "submission %d still waits", (int)of->serial);
    CHECK((kind == VKS_DESTROY_SEMAPHORE) == (is_end || of->is_spoiled), "semaphore %u", index);
    of->state = kind == VKS_DESTROY_SEMAPHORE ? OUT : UNUSED;
    if (of->state == UNUSED)
        model.pool[model.n_pool++] = index;
}

static void check_swapchain(uint32_t index, bool is_end)
{
    swapchain *of = &model.swapchains[index];
    CHECK(of->state == KEPT && (is_end || index != model.current), "swapchain %u", index);
    CHECK(is_end || of->newest <= model.consumed, "present %d of it is not over", (int)of->newest);
    CHECK(is_end || of->last_use <= model.completed, "submission %d touches it", (int)of->last_use);
    CHECK(is_end || !of->fences, "%u fences of it are not signalled", of->fences);
    of->state = OUT;
}

static void check_fence(uint32_t index, vks_decision_kind kind, bool is_end)
{
    CHECK(model.fences[index].state == KEPT, "fence %u comes out twice", index);
    CHECK(is_end || (model.fences[index].is_signalled && kind == VKS_RESET_FENCE), "fence %u", index);
    model.fences[index].state = OUT; /* each present has a new one, so that one that comes twice is noticed */
}

static void take_decisions(bool is_end)
{
    vks_decision decision;
    bool seen_another = false;
    while (vks_tracker_next(model.tracker, &decision)) {
        uint32_t index = (uint32_t)decision.handle;
        if (decision.kind == VKS_DESTROY_SWAPCHAIN) {
            CHECK(!is_end || !seen_another, "the swapchains come first");
            check_swapchain(index, is_end);
            continue;
        }
        seen_another = true;
        if (decision.kind == VKS_RESET_FENCE || decision.kind == VKS_DESTROY_FENCE)
            check_fence(index, decision.kind, is_end);
        else
            check_semaphore(index, decision.kind, is_end);
    }
}

static vks_tracker_statistics statistics(void)
{
    vks_tracker_statistics told;
    vks_tracker_get_statistics(model.tracker, &told);
    return told;
}

/* Tracked presents of retired swapchains. */
static uint64_t carried(void)
{
    bool is_counted[MANY] = {false};
    uint64_t count = 0;
    for (uint32_t i = 1; i <= model.n_semaphores; i++) {
        const semaphore *of = &model.semaphores[i];
        if (of->state != KEPT || !of->present || is_counted[of->present])
            continue;
        is_counted[of->present] = true;
        count += model.present[of->present].swapchain != model.current;
    }
    return count;
}

static void collect(void)
{
    vks_status status = vks_tracker_collect(model.tracker, model.completed, model.now, probe, NULL);
    CHECK(status == VKS_OK, "status %d", status);
    take_decisions(false);
    bool is_bounded = !model.by_fences && !model.presents_acquires && model.current && !model.is_shared;
    if (is_bounded && model.completed == model.submitted && statistics().presents > 2 * model.images)
        CHECK(statistics().presents <= 2 * model.images + carried(), "%d presents", (int)statistics().presents);
}

/* ---- the application ---- */

static uint32_t new_semaphore(uint64_t present, uint64_t serial, bool is_spoiled)
{
    uint32_t index = model.n_pool ? model.pool[--model.n_pool] : ++model.n_semaphores;
    model.semaphores[index] = (semaphore){KEPT, present, serial, is_spoiled};
    return index;
}

static void somebody_elses(uint64_t serial, bool is_spoiled)
{
    vks_status status = vks_tracker_semaphore(model.tracker, new_semaphore(0, serial, is_spoiled), serial, is_spoiled);
    CHECK(status == VKS_OK, "status %d", status);
}

static void waited(uint32_t image, uint64_t serial)
{
    CHECK(vks_tracker_waited(model.tracker, image, serial) == VKS_OK, "image %u", image);
}

static uint64_t submit(uint64_t needs)
{
    model.needs[++model.submitted] = needs;
    return model.last_use = model.submitted;
}

static void present(uint32_t image, uint64_t after, uint32_t n)
{
    uint64_t number = ++model.presents, handles[SEMAPHORES];
    uint32_t index = model.by_fences ? ++model.n_fences : 0;
    if (index)
        model.fences[index] = (fence){.state = KEPT, .present = number, .comes = chance(97)};
    model.present[number] = (presented){after, model.current, index};
    model.swapchains[model.current].newest = model.newest[image] = number;
    model.swapchains[model.current].fences += index != 0;
    for (uint32_t i = 0; i < n; i++)
        handles[i] = new_semaphore(number, 0, false);
    CHECK(vks_tracker_presented(model.tracker, image, handles, n, index, model.now) == VKS_OK, "image %u", image);
}

static void shared_frame(void)
{
    bool told_after = chance(50);
    uint64_t serial = submit(model.presents);
    if (!told_after)
        waited(0, serial);
    present(0, serial, 0);
    if (told_after)
        waited(0, serial);
}

static void frame(uint32_t image)
{
    if (model.is_shared) {
        shared_frame();
    } else if (model.presents_acquires && chance(10)) {
        present(image, 0, 1); /* the acquire's semaphore itself: the engine signals it after the image's last present */
    } else {
        uint64_t serial = submit(model.newest[image]);
        bool by_fence = model.newest[image] <= model.consumed && chance(10);
        waited(image, by_fence ? 0 : serial);
        if (!by_fence)
            somebody_elses(serial, false);
        if (chance(3)) /* A15: out of memory */
            somebody_elses(serial, true);
        else if (chance(95)) /* A20: else it is dropped */
            present(image, serial, chance(90) ? 1 : 1 + below(SEMAPHORES));
    }
}

static void resize(bool fails)
{
    if (model.current)
        model.swapchains[model.current].last_use = model.last_use;
    model.current = fails ? 0 : ++model.n_swapchains;
    model.is_shared = !model.by_fences && chance(5);
    model.images = model.is_shared ? 1 : 1 + below(IMAGES);
    model.starved = chance(30) ? below(IMAGES) : IMAGES;
    memset(model.newest, 0, sizeof model.newest);
    if (model.current)
        model.swapchains[model.current] = (swapchain){.state = KEPT, .is_shared = model.is_shared};
    vks_status status =
        vks_tracker_swapchain(model.tracker, model.current, model.images, model.is_shared, model.last_use);
    CHECK(status == VKS_OK, "status %d", status);
    model.last_use = 0;
}

static void step(void)
{
    uint32_t dice = below(1000);
    model.now += below(20);
    if (dice < 300) {
        uint32_t image = model.current ? below(model.images) : 0;
        if (model.current && (image != model.starved || chance(1)))
            frame(image);
        if (chance(90))
            collect();
    } else if (dice < 550) {
        consume();
    } else if (dice < 800) {
        complete();
    } else if (dice < 850 && model.n_fences) {
        uint32_t index = model.n_fences - below(model.n_fences < 20 ? model.n_fences : 20);
        if (model.fences[index].comes)
            signal(index);
    } else if (dice < 970) {
        collect();
    } else if (dice < 975) {
        run_until_idle();
    } else if (dice < 985 || !model.current) {
        resize(chance(20));
    }
}

/* ---- close ---- */

/* Makes the event happen that the tracker waits for; false: it waits for none. */
static bool bring(vks_wanted wanted)
{
    run_until_idle();
    if (wanted.kind == VKS_WANTS_NOTHING)
        return false;
    if (wanted.kind == VKS_WANTS_PRESENT && !model.current)
        resize(false);
    if (wanted.kind == VKS_WANTS_PRESENT && model.is_shared)
        shared_frame();
    else if (wanted.kind == VKS_WANTS_PRESENT)
        present(0, 0, 1);
    else if (wanted.kind == VKS_WANTS_IMAGE)
        waited((uint32_t)wanted.value, submit(model.newest[wanted.value]));
    else if (wanted.kind == VKS_WANTS_FENCE)
        signal((uint32_t)wanted.value);
    else
        CHECK(wanted.value <= model.completed || wanted.value <= model.submitted, "it was not submitted");
    run_until_idle();
    return true;
}

/* Everything comes out where it is waited for as the history says. */
static void signal_all(void)
{
    int limit = MANY;
    do {
        for (collect(); bring(vks_tracker_wanted(model.tracker)) && limit; limit--)
            collect();
        for (collect(); bring(vks_tracker_unproven(model.tracker)) && limit; limit--)
            collect();
    } while (limit-- > 0 && vks_tracker_wanted(model.tracker).kind != VKS_WANTS_NOTHING);
    collect();
    vks_tracker_statistics left = statistics();
    CHECK(!left.presents && !left.semaphores && !left.fences && !left.retired && !left.quarantined,
          "left: %d presents, %d semaphores, %d fences, %d swapchains", (int)left.presents, (int)left.semaphores,
          (int)left.fences, (int)left.retired);
}

static void check_all_released(void)
{
    for (uint32_t i = 1; i <= model.n_semaphores; i++)
        CHECK(model.semaphores[i].state != KEPT, "semaphore %u never came out", i);
    for (uint32_t i = 1; i <= model.n_fences; i++)
        CHECK(model.fences[i].state != KEPT, "fence %u never came out", i);
    for (uint32_t i = 1; i <= model.n_swapchains; i++)
        CHECK(model.swapchains[i].state != KEPT, "swapchain %u never came out", i);
}

static void a_world(vks_present_policy policy, uint64_t seed, int steps)
{
    memset(&model, 0, sizeof model);
    model.by_fences = policy == VKS_PRESENTS_BY_FENCES;
    model.seed = seed;
    model.presents_acquires = chance(30);
    CHECK(vks_tracker_create(policy, chance(50) ? 500 : VKS_FOREVER, &model.tracker) == VKS_OK, "memory");
    for (int i = 0; i < steps && !check_failures; i++)
        step();
    if (chance(70))
        signal_all();
    collect();
    uint64_t kept = statistics().presents, unproven = vks_tracker_close(model.tracker);
    CHECK(unproven <= kept, "%d of %d", (int)unproven, (int)kept);
    take_decisions(true);
    check_all_released();
    vks_tracker_destroy(model.tracker);
    if (check_failures)
        fprintf(stderr, "policy %d, seed %llu, %d steps\n", policy, (unsigned long long)seed, steps);
}

static void walk(vks_present_policy policy)
{
    long steps = check_scale("VKS_ROUNDS", 1000000) / 2;
    uint64_t seed = (uint64_t)check_scale("VKSHARE_SEED", 1);
    for (long done = 0, n; done < steps && !check_failures; done += n) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        n = 1 + (long)(seed >> 40) % STEPS;
        a_world(policy, seed, (int)n);
    }
}

/* rules: A1, A2, A3, A4, A5, A11, A12, A15, A20 */
static void by_acquires_no_handle_is_released_before_the_engine_is_done_with_it(void)
{
    walk(VKS_PRESENTS_BY_ACQUIRES);
}

/* rules: A7, A8, A15, A16, A18 */
static void by_fences_no_handle_is_released_before_the_engine_is_done_with_it(void) { walk(VKS_PRESENTS_BY_FENCES); }

int main(void)
{
    RUN(by_acquires_no_handle_is_released_before_the_engine_is_done_with_it);
    RUN(by_fences_no_handle_is_released_before_the_engine_is_done_with_it);
    return check_result();
}
