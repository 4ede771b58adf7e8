/* rules: K9, X9, K8. Children that share one page are killed at numbered points inside the protocol
 * (VKS_KILL_POINTS). The next acquire must report the death, and every frame that is read under a
 * successful acquire is complete. The detection time is printed, and
 * tests/processes/core/test_deaths.py measures it. VKS_KILLS=n sets the number of kills. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check_macros.h"
#include "shm/mutex_page.h"
#include "peers/peers.h"

#if !defined(VKS_KILL_POINTS)
#define WHY_NOT "built without VKS_KILL_POINTS"
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WHY_NOT "a child forked beside a running thread may find the sanitizer's own allocator locked for ever"
#endif

#ifdef WHY_NOT
int main(void)
{
    printf("skipped: %s\n", WHY_NOT);
    return 77;
}
#else

#ifdef __SANITIZE_THREAD__
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
} /* a child watches its peers in its own thread */
#endif

enum { WORDS = 512, LAST_POINT = 9, LAST_FRAME = 100 };

typedef struct shared {
    char page[VKS_MUTEX_PAGE_SIZE];
    uint32_t frame[WORDS];
} shared;

static uint64_t seed;
static uint32_t draw(uint32_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 20) % n;
}

static vks_status watch(void *mapping)
{
    vks_peers_watch_page(mapping);
    return VKS_OK;
}

/* Draws frames until a kill point or a plain SIGKILL in the middle of a frame ends it. */
static void child(shared *memory, int point, int after)
{
    vks_kill_arm(point, after);
    vks_mutex_page *page = (vks_mutex_page *)memory->page;
    vks_mutex_handle handle;
    vks_mapping mapping = {.mutex = page, .join_count = UINT32_MAX};
    if (vks_mutex_join(page, "child", &handle))
        _exit(1);
    for (uint32_t n = 1;; n++) {
        vks_wait_point wait_point;
        if (vks_mutex_wait(&handle, 1, vks_now() + HANG, watch, &mapping, &wait_point))
            _exit(2);
        for (int i = 0; i < WORDS; i++) {
            memory->frame[i] = n;
            /* Not every run passes every point. */
            if (i == WORDS / 2 && ((point == 0 && (int)n == after) || n == LAST_FRAME))
                kill(getpid(), SIGKILL);
        }
        wait_point = (vks_wait_point){page->value + 1, handle.identity, handle.slot};
        atomic_store(&page->slots[handle.slot].pending_value, wait_point.value);
        /* Half of the frames complete after the release, as a GPU's would. */
        if (n % 2)
            vks_mutex_complete(&handle, wait_point.value, 0);
        if (vks_mutex_release(&handle, 0, &wait_point))
            _exit(3);
        vks_mutex_complete(&handle, wait_point.value, 0);
    }
}

static void read_frame(const shared *memory, const vks_mutex_page *page, const vks_wait_point *wait_point)
{
    if (wait_point->value && atomic_load(&page->completed) < wait_point->value)
        return; /* its work may not have run, so a reader would wait */
    for (int i = 1; i < WORDS; i++)
        if (memory->frame[i] != memory->frame[0]) {
            CHECK(false, "a torn frame: %u and %u", memory->frame[0], memory->frame[i]);
            return;
        }
}

typedef struct tally {
    long abandoned, unharmed;
    uint64_t worst;
} tally;

/* Runs one life: passes frames to the child until it is dead, then recovers the page. */
static void one_life(shared *memory, vks_mutex_handle *handle, vks_mapping *mapping, tally *tally)
{
    vks_mutex_page *page = handle->page;
    int point = (int)draw(LAST_POINT + 1), after = 1 + (int)draw(6);
    pid_t pid = fork();
    if (pid == 0)
        child(memory, point, after);
    bool dead = false;
    uint64_t start = vks_now();
    while (!dead) {
        vks_wait_point wait_point;
        vks_status status = vks_mutex_wait(handle, 0, vks_now() + UINT64_C(10000000), watch, mapping, &wait_point);
        uint64_t took = vks_now() - start;
        if (status == VKS_OK) {
            start = vks_now();
            read_frame(memory, page, &wait_point);
            wait_point = (vks_wait_point){.value = page->value + 1};
            vks_mutex_complete(handle, wait_point.value, 0);
            vks_mutex_release(handle, 1, &wait_point);
        } else if (status == VKS_ABANDONED) {
            tally->abandoned++;
            tally->worst = took > tally->worst ? took : tally->worst;
            dead = true;
        } else {
            siginfo_t info = {0};
            waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT);
            dead = info.si_pid == pid && vks_word_state(page->word) != VKS_OWNED;
            tally->unharmed += dead; /* it died without owning, so the page is free under the last released key */
            CHECK(took < HANG, "neither a frame nor an error for %.0f ms (kill point %d, %d)", took / 1e6, point,
                  after);
            dead |= took > HANG;
        }
    }
    kill(pid, SIGKILL);
    int how;
    waitpid(pid, &how, 0);
    CHECK(WIFSIGNALED(how), "the child ended by itself with %d (kill point %d, %d)", WEXITSTATUS(how), point, after);
    watch(mapping);
    uint64_t signaller;
    vks_wait_point wait_point;
    if (vks_mutex_recover_begin(handle) == VKS_OK) {
        /* The service thread may be between the word and the slot. */
        while (vks_mutex_has_pending_values(handle, &signaller))
            vks_mutex_on_death(page, signaller & VKS_IDENTITY_MASK);
        memset(memory->frame, 0, sizeof memory->frame);
        vks_mutex_recover_finish(handle);
    } else {
        uint64_t key = atomic_load(&page->key), seen;
        CHECK(vks_mutex_try(handle, key, &wait_point, &seen) == VKS_OK, "state %u, key %llu",
              vks_word_state(page->word), (unsigned long long)key);
    }
    wait_point = (vks_wait_point){.value = page->value + 1};
    vks_mutex_complete(handle, wait_point.value, 0);
    CHECK(vks_mutex_release(handle, 1, &wait_point) == VKS_OK, "ours");
}

int main(void)
{
    seed = (uint64_t)check_scale("VKS_SEED", (long)time(NULL)) | 1;
    long kills = check_scale("VKS_KILLS", 10000);
    printf("VKS_SEED=%llu VKS_KILLS=%ld\n", (unsigned long long)seed, kills);
    shared *memory = mmap(NULL, sizeof *memory, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    vks_mutex_page *page = (vks_mutex_page *)memory->page;
    vks_page_init(&page->header, VKS_PAGE_MUTEX, VKS_MUTEX_PAGE_SIZE);
    vks_mutex_init(page);
    vks_mutex_handle handle;
    vks_mutex_join(page, "parent", &handle);
    vks_mapping mapping = {.mutex = page, .join_count = UINT32_MAX};
    vks_peers_add(&mapping);
    vks_wait_point wait_point;
    vks_mutex_wait(&handle, 0, VKS_FOREVER, watch, &mapping, &wait_point);
    wait_point = (vks_wait_point){.value = 1};
    vks_mutex_complete(&handle, 1, 0);
    vks_mutex_release(&handle, 1, &wait_point);
    tally tally = {0};
    for (long i = 0; i < kills && check_failures < 5; i++)
        one_life(memory, &handle, &mapping, &tally);
    CHECK(tally.abandoned > kills / 10, "the kills must hit owners: %ld of %ld", tally.abandoned, kills);
    vks_peers_remove(&mapping);
    printf("%ld kills: %ld abandoned, %ld of a party that did not own; slowest wake-up %.2f ms\n", kills,
           tally.abandoned, tally.unharmed, tally.worst / 1e6);
    return check_result();
}
#endif
