/* The present history against a model of a presentation engine, by a seeded million of steps. The engine may go on
 * using what a present waits for long after the frame's own work has run; what the history gives out too early, twice,
 * or never is found here. */
#include <string.h>

#include "check.h"
#include "present/tracker.h"

/* Of one world: a history from its beginning to its end. */
enum { STEPS = 4000, MANY = 2 * STEPS + 64, IMAGES = 5, SEMAPHORES = 3 };

typedef enum state { UNUSED, KEPT, OUT } state; /* UNUSED: never seen, or in the pool; OUT: destroyed */

typedef struct presented {
    uint64_t after; /* the submission that signals what it waits for */
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
typedef struct world {
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
} world;

static world the;

static uint32_t below(uint32_t n)
{
    the.seed ^= the.seed << 13;
    the.seed ^= the.seed >> 7;
    the.seed ^= the.seed << 17;
    return (uint32_t)(the.seed >> 33) % n;
}

static bool chance(uint32_t percent) { return below(100) < percent; }

/* ---- the presentation engine and the device ---- */

static void signal(uint32_t index)
{
    fence *of = &the.fences[index];
    if (of->is_signalled || of->state != KEPT || of->present > the.consumed)
        return;
    of->is_signalled = true;
    the.swapchains[the.present[of->present].swapchain].fences--;
}

static bool consume(void)
{
    if (the.consumed == the.presents || the.present[the.consumed + 1].after > the.completed)
        return false;
    uint32_t index = the.present[++the.consumed].fence;
    if (index && the.fences[index].comes && chance(80))
        signal(index);
    return true;
}

/* A11 takes for granted that a shared present is over when its submission has run, which runs after all that was
 * presented before it. */
static bool complete(void)
{
    if (the.completed == the.submitted || the.needs[the.completed + 1] > the.consumed)
        return false;
    the.completed++;
    const presented *next = &the.present[the.consumed + 1];
    if (the.consumed < the.presents && the.swapchains[next->swapchain].is_shared && next->after == the.completed)
        consume();
    return true;
}

static void run_dry(void)
{
    while (consume() || complete())
        ;
}

/* ---- decisions ---- */

static bool probe(void *user, uint64_t fence)
{
    (void)user;
    CHECK(the.fences[fence].state == KEPT, "fence %d is not the history's", (int)fence);
    return the.fences[fence].is_signalled;
}

static void check_semaphore(uint32_t index, vks_decision_kind kind, bool is_end)
{
    semaphore *of = &the.semaphores[index];
    CHECK(of->state == KEPT, "semaphore %u comes out twice", index);
    CHECK(is_end || of->present <= the.consumed, "present %d still waits", (int)of->present);
    CHECK(is_end || of->serial <= the.completed, "submission %d still waits", (int)of->serial);
    CHECK((kind == VKS_DESTROY_SEMAPHORE) == (is_end || of->is_spoiled), "semaphore %u", index);
    of->state = kind == VKS_DESTROY_SEMAPHORE ? OUT : UNUSED;
    if (of->state == UNUSED)
        the.pool[the.n_pool++] = index;
}

static void check_swapchain(uint32_t index, bool is_end)
{
    swapchain *of = &the.swapchains[index];
    CHECK(of->state == KEPT && (is_end || index != the.current), "swapchain %u", index);
    CHECK(is_end || of->newest <= the.consumed, "present %d of it is not over", (int)of->newest);
    CHECK(is_end || of->last_use <= the.completed, "submission %d touches it", (int)of->last_use);
    CHECK(is_end || !of->fences, "%u fences of it are not signalled", of->fences);
    of->state = OUT;
}

static void check_fence(uint32_t index, vks_decision_kind kind, bool is_end)
{
    CHECK(the.fences[index].state == KEPT, "fence %u comes out twice", index);
    CHECK(is_end || (the.fences[index].is_signalled && kind == VKS_RESET_FENCE), "fence %u", index);
    the.fences[index].state = OUT; /* each present has a new one, so that one that comes twice is noticed */
}

static void take_decisions(bool is_end)
{
    vks_decision decision;
    bool seen_another = false;
    while (vks_tracker_next(the.tracker, &decision)) {
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
    vks_tracker_get_statistics(the.tracker, &told);
    return told;
}

/* Presents that the history keeps of swapchains that were retired. */
static uint64_t carried(void)
{
    bool is_counted[MANY] = {false};
    uint64_t count = 0;
    for (uint32_t i = 1; i <= the.n_semaphores; i++) {
        const semaphore *of = &the.semaphores[i];
        if (of->state != KEPT || !of->present || is_counted[of->present])
            continue;
        is_counted[of->present] = true;
        count += the.present[of->present].swapchain != the.current;
    }
    return count;
}

static void collect(void)
{
    vks_status status = vks_tracker_collect(the.tracker, the.completed, the.now, probe, NULL);
    CHECK(status == VKS_OK, "status %d", status);
    take_decisions(false);
    bool is_bounded = !the.by_fences && !the.presents_acquires && the.current && !the.is_shared;
    if (is_bounded && the.completed == the.submitted && statistics().presents > 2 * the.images)
        CHECK(statistics().presents <= 2 * the.images + carried(), "%d presents", (int)statistics().presents);
}

/* ---- the application ---- */

static uint32_t new_semaphore(uint64_t present, uint64_t serial, bool is_spoiled)
{
    uint32_t index = the.n_pool ? the.pool[--the.n_pool] : ++the.n_semaphores;
    the.semaphores[index] = (semaphore){KEPT, present, serial, is_spoiled};
    return index;
}

static void somebody_elses(uint64_t serial, bool is_spoiled)
{
    vks_status status = vks_tracker_semaphore(the.tracker, new_semaphore(0, serial, is_spoiled), serial, is_spoiled);
    CHECK(status == VKS_OK, "status %d", status);
}

static void waited(uint32_t image, uint64_t serial)
{
    CHECK(vks_tracker_waited(the.tracker, image, serial) == VKS_OK, "image %u", image);
}

static uint64_t submit(uint64_t needs)
{
    the.needs[++the.submitted] = needs;
    return the.last_use = the.submitted;
}

static void present(uint32_t image, uint64_t after, uint32_t n)
{
    uint64_t number = ++the.presents, handles[SEMAPHORES];
    uint32_t index = the.by_fences ? ++the.n_fences : 0;
    if (index)
        the.fences[index] = (fence){.state = KEPT, .present = number, .comes = chance(97)};
    the.present[number] = (presented){after, the.current, index};
    the.swapchains[the.current].newest = the.newest[image] = number;
    the.swapchains[the.current].fences += index != 0;
    for (uint32_t i = 0; i < n; i++)
        handles[i] = new_semaphore(number, 0, false);
    CHECK(vks_tracker_presented(the.tracker, image, handles, n, index, the.now) == VKS_OK, "image %u", image);
}

static void shared_frame(void)
{
    bool told_after = chance(50);
    uint64_t serial = submit(the.presents);
    if (!told_after)
        waited(0, serial);
    present(0, serial, 0);
    if (told_after)
        waited(0, serial);
}

static void frame(uint32_t image)
{
    if (the.is_shared) {
        shared_frame();
    } else if (the.presents_acquires && chance(10)) {
        present(image, 0, 1); /* the acquire's semaphore itself: the engine signals it after the image's last present */
    } else {
        uint64_t serial = submit(the.newest[image]);
        bool by_fence = the.newest[image] <= the.consumed && chance(10);
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
    if (the.current)
        the.swapchains[the.current].last_use = the.last_use;
    the.current = fails ? 0 : ++the.n_swapchains;
    the.is_shared = !the.by_fences && chance(5);
    the.images = the.is_shared ? 1 : 1 + below(IMAGES);
    the.starved = chance(30) ? below(IMAGES) : IMAGES;
    memset(the.newest, 0, sizeof the.newest);
    if (the.current)
        the.swapchains[the.current] = (swapchain){.state = KEPT, .is_shared = the.is_shared};
    vks_status status = vks_tracker_swapchain(the.tracker, the.current, the.images, the.is_shared, the.last_use);
    CHECK(status == VKS_OK, "status %d", status);
    the.last_use = 0;
}

static void step(void)
{
    uint32_t dice = below(1000);
    the.now += below(20);
    if (dice < 300) {
        uint32_t image = the.current ? below(the.images) : 0;
        if (the.current && (image != the.starved || chance(1)))
            frame(image);
        if (chance(90))
            collect();
    } else if (dice < 550) {
        consume();
    } else if (dice < 800) {
        complete();
    } else if (dice < 850 && the.n_fences) {
        uint32_t index = the.n_fences - below(the.n_fences < 20 ? the.n_fences : 20);
        if (the.fences[index].comes)
            signal(index);
    } else if (dice < 970) {
        collect();
    } else if (dice < 975) {
        run_dry();
    } else if (dice < 985 || !the.current) {
        resize(chance(20));
    }
}

/* ---- the end ---- */

/* Does what the history says that it waits for; false when it waits for nothing. */
static bool bring(vks_wanted wanted)
{
    run_dry();
    if (wanted.kind == VKS_WANTS_NOTHING)
        return false;
    if (wanted.kind == VKS_WANTS_PRESENT && !the.current)
        resize(false);
    if (wanted.kind == VKS_WANTS_PRESENT && the.is_shared)
        shared_frame();
    else if (wanted.kind == VKS_WANTS_PRESENT)
        present(0, 0, 1);
    else if (wanted.kind == VKS_WANTS_IMAGE)
        waited((uint32_t)wanted.value, submit(the.newest[wanted.value]));
    else if (wanted.kind == VKS_WANTS_FENCE)
        signal((uint32_t)wanted.value);
    else
        CHECK(wanted.value <= the.completed || wanted.value <= the.submitted, "nobody submitted it");
    run_dry();
    return true;
}

/* Everything comes out where it is waited for as the history says. */
static void signal_all(void)
{
    int limit = MANY;
    do {
        for (collect(); bring(vks_tracker_wanted(the.tracker)) && limit; limit--)
            collect();
        for (collect(); bring(vks_tracker_unproven(the.tracker)) && limit; limit--)
            collect();
    } while (limit-- > 0 && vks_tracker_wanted(the.tracker).kind != VKS_WANTS_NOTHING);
    collect();
    vks_tracker_statistics left = statistics();
    CHECK(!left.presents && !left.semaphores && !left.fences && !left.retired && !left.quarantined,
          "left: %d presents, %d semaphores, %d fences, %d swapchains", (int)left.presents, (int)left.semaphores,
          (int)left.fences, (int)left.retired);
}

static void check_that_all_are_out(void)
{
    for (uint32_t i = 1; i <= the.n_semaphores; i++)
        CHECK(the.semaphores[i].state != KEPT, "semaphore %u never came out", i);
    for (uint32_t i = 1; i <= the.n_fences; i++)
        CHECK(the.fences[i].state != KEPT, "fence %u never came out", i);
    for (uint32_t i = 1; i <= the.n_swapchains; i++)
        CHECK(the.swapchains[i].state != KEPT, "swapchain %u never came out", i);
}

static void a_world(vks_present_policy policy, uint64_t seed, int steps)
{
    memset(&the, 0, sizeof the);
    the.by_fences = policy == VKS_PRESENTS_BY_FENCES;
    the.seed = seed;
    the.presents_acquires = chance(30);
    CHECK(vks_tracker_create(policy, chance(50) ? 500 : VKS_FOREVER, &the.tracker) == VKS_OK, "memory");
    for (int i = 0; i < steps && !check_failures; i++)
        step();
    if (chance(70))
        signal_all();
    collect();
    uint64_t kept = statistics().presents, unproven = vks_tracker_close(the.tracker);
    CHECK(unproven <= kept, "%d of %d", (int)unproven, (int)kept);
    take_decisions(true);
    check_that_all_are_out();
    vks_tracker_destroy(the.tracker);
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
static void by_acquires_nothing_comes_out_before_the_engine_is_done_with_it(void) { walk(VKS_PRESENTS_BY_ACQUIRES); }

/* rules: A7, A8, A15, A16, A18 */
static void by_fences_nothing_comes_out_before_the_engine_is_done_with_it(void) { walk(VKS_PRESENTS_BY_FENCES); }

int main(void)
{
    RUN(by_acquires_nothing_comes_out_before_the_engine_is_done_with_it);
    RUN(by_fences_nothing_comes_out_before_the_engine_is_done_with_it);
    return check_result();
}
