/* rules: Q9, Q16, Q18, K27, X9. The ends of a pipe's two queues are killed in turn, at a numbered
 * point inside the queues and the keyed mutex (VKS_KILL_POINTS) or at any moment. The survivor
 * recovers, and a new process replaces the dead process. Every dequeued pair has the pixels that
 * were drawn for it, and every frame comes once and in order, except frames that a process took
 * with it. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check_macros.h"
#include "os/platform.h"
#include "vkshare.h"

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

enum { SURFACES = 3, WORDS = 64, LAST_POINT = 23, MOST_FRAMES = 200 };
#define MS UINT64_C(1000000)

/* State that the processes of a test share, besides the pages. */
static struct shared {
    uint32_t pixels[SURFACES][WORDS];
    _Atomic uint32_t ready;       /* lives whose ends are open */
    _Atomic uint32_t drawn, seen; /* the last frame */
    _Atomic uint32_t wrong;       /* pairs with other pixels, or out of order */
    char what[160];               /* an undocumented error */
} *shared;

static int pages[2], surface_pages[SURFACES]; /* fds: the way there, the way back */

static uint64_t seed;
static uint32_t draw(uint32_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 20) % n;
}

/* ---- a party: its device, its handles, its end of each queue ---- */

typedef struct party {
    vks_device *device;
    vks_surface *surfaces[SURFACES];
    vks_queue *source, *target;
    bool sends;
    bool kept[SURFACES]; /* owned and in no queue: recovered, or refused by a queue whose other end is gone */
} party;

static bool failed(vks_status status, const char *what)
{
    if (status)
        snprintf(shared->what, sizeof shared->what, "%s: status %d, %.100s", what, status, vks_last_error()->text);
    return status != VKS_OK;
}

static vks_surface_info info_of(int i)
{
    return (vks_surface_info){.width = WORDS,
                              .height = 1,
                              .pixels = shared->pixels[i],
                              .size = sizeof shared->pixels[i],
                              .stride = 4 * WORDS};
}

static bool join_network(party *p, uint64_t network)
{
    for (uint32_t i = 0; i < SURFACES; i++)
        if (failed(vks_surface_join(p->surfaces[i], network, i), "join"))
            return false;
    return true;
}

static bool open_ends(party *p)
{
    int source = p->sends ? 1 : 0;
    return !failed(vks_queue_open(p->device, pages[source], VKS_CONSUMER, p->surfaces, SURFACES, &p->source), "open") &&
           !failed(vks_queue_open(p->device, pages[!source], VKS_PRODUCER, p->surfaces, SURFACES, &p->target), "open");
}

/* Opens a party in a child, on the pages of the survivor. */
static bool open_party(party *p, bool sends)
{
    vks_queue_info network;
    *p = (party){.sends = sends};
    if (failed(vks_device_create(&(vks_device_info){.name = "mortal", .raster_threads = 1}, &p->device), "device") ||
        failed(vks_queue_page_read(pages[0], &network), "page"))
        return false;
    for (int i = 0; i < SURFACES; i++) {
        vks_surface_info info = info_of(i);
        if (failed(vks_surface_open(p->device, &info, dup(surface_pages[i]), -1, &p->surfaces[i]), "surface"))
            return false;
    }
    return join_network(p, network.network) && open_ends(p);
}

/* Makes the survivor and the pages. */
static bool make_party(party *p, bool sends)
{
    *p = (party){.sends = sends};
    vks_queue_info back = {
        .width = WORDS, .height = 1, .count = SURFACES, .metadata_size = 4, .full = true, .early = true};
    if (failed(vks_device_create(&(vks_device_info){.name = "survivor", .raster_threads = 1}, &p->device), "device") ||
        failed(vks_queue_page_make(&back, &pages[1]), "page") || failed(vks_queue_page_read(pages[1], &back), "page"))
        return false;
    vks_queue_info there = back;
    there.full = false;
    if (failed(vks_queue_page_make(&there, &pages[0]), "page"))
        return false;
    for (int i = 0; i < SURFACES; i++) {
        vks_surface_info info = info_of(i);
        if (failed(vks_surface_create(p->device, &info, &p->surfaces[i]), "surface") ||
            failed(vks_surface_page(p->surfaces[i], &surface_pages[i]), "page"))
            return false;
    }
    return join_network(p, back.network) && open_ends(p);
}

static void drop_party(party *p)
{
    vks_queue_close(p->source);
    vks_queue_close(p->target);
    vks_queue_unref(p->source);
    vks_queue_unref(p->target);
    vks_device_shutdown(p->device);
    for (int i = 0; i < SURFACES; i++) {
        vks_surface_close(p->surfaces[i]);
        vks_surface_unref(p->surfaces[i]);
        close(surface_pages[i]);
    }
    vks_device_unref(p->device);
    close(pages[0]);
    close(pages[1]);
}

/* ---- actions of a party ---- */

static void recover(party *p)
{
    for (int i = 0; i < SURFACES; i++) {
        vks_status status;
        do
            status = vks_surface_recover(p->surfaces[i], vks_now() + 5000 * MS);
        while (status == VKS_INTERRUPTED);
        p->kept[i] |= status == VKS_OK;
    }
}

static vks_status put(party *p, uint32_t i)
{
    uint32_t frame = 0;
    size_t length = 0;
    vks_status status = vks_surface_cpu_access(p->surfaces[i], vks_now() + 5000 * MS);
    if (!status && p->sends) {
        frame = ++shared->drawn;
        for (int w = 0; w < WORDS; w++)
            shared->pixels[i][w] = frame;
        length = sizeof frame;
    }
    bool committed;
    while (!status && (status = vks_queue_enqueue(p->target, p->surfaces[i], &frame, length, VKS_ENQUEUE_GPU,
                                                  vks_now() + 5000 * MS, &committed)) == VKS_INTERRUPTED)
        status = VKS_OK;
    p->kept[i] = status != VKS_OK;
    return status;
}

/* Checks a frame. Frames may be missing, because parties died with them. */
static void look(uint32_t i, uint32_t frame)
{
    bool is_whole = frame > shared->seen;
    for (int w = 0; w < WORDS; w++)
        is_whole &= shared->pixels[i][w] == frame;
    shared->wrong += !is_whole;
    shared->seen = frame;
}

/* Sends or receives one frame. VKS_CLOSED: the other end is gone. */
static vks_status work(party *p)
{
    for (uint32_t i = 0; i < SURFACES; i++)
        if (p->kept[i])
            return put(p, i);
    uint32_t i, frame = 0;
    size_t length;
    vks_status status;
    do
        status = vks_queue_dequeue(p->source, vks_now() + 3000 * MS, &i, &frame, &length);
    while (status == VKS_INTERRUPTED);
    if (status == VKS_ABANDONED) {
        recover(p);
        return VKS_OK;
    }
    if (status)
        return status;
    p->kept[i] = true;
    if (!p->sends && !(status = vks_surface_cpu_access(p->surfaces[i], vks_now() + 5000 * MS)))
        look(i, frame);
    return status ? status : put(p, i);
}

static void mortal(bool sends, int point, int after)
{
    party p;
    if (!open_party(&p, sends))
        _exit(1);
    recover(&p);
    atomic_fetch_add(&shared->ready, 1);
    vks_kill_arm(point, after);
    for (int i = 0; i < MOST_FRAMES; i++)
        if (failed(work(&p), "mortal"))
            _exit(2);
    kill(getpid(), SIGKILL); /* not every life passes every point */
}

/* Works until the other process is dead, then recovers its surfaces, or leaves them to the next
 * life. */
static bool survive(party *p, uint32_t life)
{
    vks_status status = VKS_OK;
    while (shared->ready < life) /* wait until its ends are open, so that a closed end means a death */
        usleep(100);
    while (!status || status == VKS_ABANDONED) /* VKS_ABANDONED: the dead process drew the dequeued surface */
        if ((status = work(p)) == VKS_ABANDONED)
            recover(p);
    if (draw(2))
        recover(p);
    return status == VKS_CLOSED || failed(status, "survivor") == false;
}

/* ---- the lives ---- */

static void kill_one_after_the_other(bool survivor_sends, long kills)
{
    party p;
    memset(shared, 0, sizeof *shared);
    CHECK(make_party(&p, survivor_sends), "%s", shared->what);
    for (long life = 1; life <= kills && check_failures < 5; life++) {
        int point = (int)draw(LAST_POINT + 1), after = 1 + (int)draw(20);
        point = draw(2) ? 20 + (int)draw(4) : point; /* points of the queues more often */
        pid_t pid = fork();
        if (pid == 0)
            mortal(!survivor_sends, point, after);
        bool detected = survive(&p, (uint32_t)life);
        CHECK(detected && !shared->wrong, "life %ld, point %d, %d: %u wrong pairs; %s", life, point, after,
              shared->wrong, shared->what);
        kill(pid, SIGKILL);
        int how;
        waitpid(pid, &how, 0);
        CHECK(WIFSIGNALED(how), "life %ld, point %d, %d: ended by itself with %d: %s", life, point, after,
              WEXITSTATUS(how), shared->what);
    }
    printf("%ld kills of the %s: %u frames drawn, %u seen last\n", kills, survivor_sends ? "receiver" : "sender",
           shared->drawn, shared->seen);
    drop_party(&p);
}

static long kills;

static void receivers_may_die_anywhere(void) { kill_one_after_the_other(true, kills); }
static void senders_may_die_anywhere(void) { kill_one_after_the_other(false, kills); }

int main(void)
{
    seed = (uint64_t)check_scale("VKS_SEED", (long)time(NULL)) | 1;
    kills = check_scale("VKS_KILLS", 300);
    printf("VKS_SEED=%llu VKS_KILLS=%ld\n", (unsigned long long)seed, kills);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    RUN(receivers_may_die_anywhere);
    RUN(senders_may_die_anywhere);
    return check_result();
}
#endif
