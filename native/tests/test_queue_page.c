/* The ring of a surface queue alone (rules Q): its page, its ends, and pages that another process
 * overwrites. */
#define _GNU_SOURCE
#include "check_macros.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "peers/peers.h"
#include "shm/queue_page.h"

static vks_queue_ring new_ring(uint32_t count, uint32_t metadata_size, bool full, int *fd)
{
    vks_queue_ring ring = {0};
    vks_queue_info info = {
        .width = 8, .height = 8, .format = 3, .count = count, .metadata_size = metadata_size, .full = full};
    CHECK(vks_queue_page_create(&info, fd, &ring) == VKS_OK, "%s", vks_last_error()->text);
    return ring;
}

static void drop(vks_queue_ring *ring, int fd)
{
    vks_queue_page_close(ring);
    close(fd);
}

/* rules: Q1 */
static void sizes_outside_the_limits_are_refused(void)
{
    static const uint32_t wrong[][2] = {{0, 0}, {VKS_MAX_QUEUE_SURFACES + 1, 0}, {1, VKS_MAX_METADATA + 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        int fd = -1;
        vks_queue_ring ring;
        vks_queue_info info = {.count = wrong[i][0], .metadata_size = wrong[i][1]};
        CHECK(vks_queue_page_create(&info, &fd, &ring) == VKS_BAD_CALL, "case %zu", i);
    }
}

/* rules: Q2, Q16 */
static void a_full_ring_gives_every_surface_in_order_and_then_nothing(void)
{
    for (uint32_t count = 1; count <= VKS_MAX_QUEUE_SURFACES; count++) {
        int fd;
        vks_queue_ring ring = new_ring(count, 0, true, &fd);
        uint32_t surface;
        uint64_t epoch;
        size_t length;
        for (uint32_t i = 0; i < count; i++) {
            CHECK(vks_queue_peek(&ring, &surface, &epoch, NULL, &length) == VKS_OK && surface == i && !length,
                  "%u of %u", i, count);
            vks_queue_pop(&ring);
        }
        CHECK(vks_queue_peek(&ring, &surface, &epoch, NULL, &length) == VKS_TIMEOUT, "it is empty");
        drop(&ring, fd);
    }
}

/* rules: Q9, Q11, Q12, Q16 */
static void pairs_are_pending_until_they_are_committed_and_come_out_as_they_went_in(void)
{
    int fd;
    vks_queue_ring ring = new_ring(5, 100, false, &fd);
    srand(7);
    unsigned next = 0, seen = 0, committed = 0;
    for (int step = 0; step < 200000; step++) {
        uint32_t surface, pending;
        uint64_t epoch;
        size_t length;
        uint8_t metadata[100], expected[100];
        switch (rand() % 3) {
        case 0:
            if (next - seen == 5)
                break;
            memset(metadata, (int)(next & 0xff), sizeof metadata);
            CHECK(vks_queue_put(&ring, next % 5, 1, metadata, next % 101) == VKS_OK, "%s", vks_last_error()->text);
            next++;
            break;
        case 1:
            CHECK(vks_queue_pending(&ring, &pending) == VKS_OK && pending == next - committed, "%u pending", pending);
            if (pending) {
                vks_queue_commit(&ring, 1);
                committed++;
            }
            break;
        default:
            if (seen == committed) {
                CHECK(vks_queue_peek(&ring, &surface, &epoch, metadata, &length) == VKS_TIMEOUT,
                      "nothing is committed");
                break;
            }
            CHECK(vks_queue_peek(&ring, &surface, &epoch, metadata, &length) == VKS_OK, "%s", vks_last_error()->text);
            memset(expected, (int)(seen & 0xff), sizeof expected);
            CHECK(surface == seen % 5 && length == seen % 101 && !memcmp(metadata, expected, length), "pair %u", seen);
            vks_queue_pop(&ring);
            seen++;
        }
    }
    drop(&ring, fd);
}

/* rules: Q4, Q18 */
static void an_end_is_open_once_and_a_death_frees_it(void)
{
    int fd;
    vks_queue_ring ring = new_ring(2, 0, true, &fd);
    uint64_t mine, other;
    CHECK(vks_queue_end_open(&ring, VKS_PRODUCER, "one", &mine) == VKS_OK, "first");
    CHECK(vks_queue_end_open(&ring, VKS_PRODUCER, "two", &other) == VKS_BAD_CALL, "second");
    CHECK(vks_queue_end_open(&ring, VKS_CONSUMER, "two", &other) == VKS_OK, "the other end");
    vks_queue_end_close(&ring, VKS_PRODUCER, mine);
    uint64_t again;
    CHECK(vks_queue_end_open(&ring, VKS_PRODUCER, "one", &again) == VKS_OK && again != mine, "after close");
    vks_queue_end_close(&ring, VKS_PRODUCER, mine); /* a late close of an earlier opening */
    CHECK(vks_end_state(atomic_load(&ring.page->ends[VKS_PRODUCER])) == VKS_END_OPEN, "it is the new one's");
    vks_queue_on_death(ring.page, 4711);
    CHECK(vks_end_state(atomic_load(&ring.page->ends[VKS_PRODUCER])) == VKS_END_OPEN, "a stranger died");
    vks_queue_on_death(ring.page, vks_self());
    vks_queue_on_death(ring.page, vks_self());
    CHECK(vks_end_state(atomic_load(&ring.page->ends[VKS_PRODUCER])) == VKS_END_CLOSED, "its process died");
    CHECK(vks_queue_end_open(&ring, VKS_PRODUCER, "three", &again) == VKS_OK, "and another opens it");
    drop(&ring, fd);
}

/* rules: Q18 */
static void pairs_of_a_dead_producer_are_committed_by_the_first_party_that_finds_them(void)
{
    for (int is_whole = 0; is_whole < 2; is_whole++)
        for (int order = 0; order < 2; order++) {
            int fd;
            vks_queue_ring ring = new_ring(4, 0, false, &fd);
            uint32_t surface, pending;
            uint64_t epoch;
            size_t length;
            for (uint32_t i = 0; i < 3; i++)
                vks_queue_put(&ring, i, 10 + i, NULL, 0);
            vks_queue_commit(&ring, 1);
            CHECK(vks_queue_last_pending(&ring, &surface, &epoch) == VKS_OK && surface == 2 && epoch == 12, "the last");
            vks_queue_adopt(&ring, is_whole, order);
            vks_queue_adopt(&ring, is_whole, true);
            CHECK(vks_queue_pending(&ring, &pending) == VKS_OK && !pending, "%u are pending", pending);
            for (uint32_t i = 0; i < (is_whole ? 3u : 2u); i++) {
                CHECK(vks_queue_peek(&ring, &surface, &epoch, NULL, &length) == VKS_OK && surface == i, "pair %u", i);
                vks_queue_pop(&ring);
            }
            CHECK(vks_queue_peek(&ring, &surface, &epoch, NULL, &length) == VKS_TIMEOUT, "and no more");
            CHECK(vks_queue_put(&ring, 3, 0, NULL, 0) == VKS_OK, "a new producer goes on");
            vks_queue_commit(&ring, 1);
            CHECK(vks_queue_peek(&ring, &surface, &epoch, NULL, &length) == VKS_OK && surface == 3, "with its own");
            drop(&ring, fd);
        }
}

/* rules: Q6 */
static void an_overwritten_page_is_refused_or_read_within_its_bounds(void)
{
    srand(11);
    for (int round = 0; round < 1000; round++) {
        int fd;
        vks_queue_ring ring = new_ring(1 + (uint32_t)rand() % 9, (uint32_t)rand() % 40, true, &fd), other;
        uint8_t *bytes = (uint8_t *)ring.page;
        for (int i = rand() % 40; i >= 0; i--)
            bytes[rand() % (int)ring.size] = (uint8_t)rand();
        if (vks_queue_page_open(fd, &other) == VKS_OK)
            vks_queue_page_close(&other);
        vks_queue_view view;
        vks_status looked = vks_queue_inspect(fd, &view);
        CHECK(looked == VKS_OK || looked == VKS_BAD_PAGE, "%d", looked);
        uint8_t metadata[64];
        uint32_t surface, pending;
        uint64_t epoch, value;
        size_t length;
        for (int i = 0; i < 20; i++) {
            if (vks_queue_peek(&ring, &surface, &epoch, metadata, &length) == VKS_OK) {
                CHECK(surface < ring.count && length <= ring.metadata_size, "%u, %zu", surface, length);
                vks_queue_pop(&ring);
            }
            vks_queue_put(&ring, 0, 0, metadata, ring.metadata_size);
            if (vks_queue_first_pending(&ring, &surface, &value) == VKS_OK)
                CHECK(surface < ring.count, "%u", surface);
            if (vks_queue_last_pending(&ring, &surface, &value) == VKS_OK)
                CHECK(surface < ring.count, "%u", surface);
            vks_queue_adopt(&ring, i & 1, i & 2);
            if (vks_queue_pending(&ring, &pending) == VKS_OK && pending)
                vks_queue_commit(&ring, pending);
        }
        drop(&ring, fd);
    }
}

/* rules: Q1, Q6 */
static void a_page_of_another_kind_or_size_is_refused(void)
{
    int fd, pipe_fds[2];
    vks_queue_ring ring = new_ring(3, 8, true, &fd), other;
    CHECK(vks_queue_page_open(fd, &other) == VKS_OK && other.count == 3 && other.metadata_size == 8, "as it is");
    vks_queue_page_close(&other);
    ring.page->count = 64; /* more than the memory holds */
    ring.page->metadata_size = VKS_MAX_METADATA;
    CHECK(vks_queue_page_open(fd, &other) == VKS_BAD_PAGE, "too small");
    drop(&ring, fd);
    CHECK(pipe(pipe_fds) == 0 && vks_queue_page_open(pipe_fds[0], &other) == VKS_BAD_PAGE, "a pipe");
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}

/* rules: K33 */
static void an_inspection_of_a_page_shows_its_contents_and_its_ends(void)
{
    int fd, pipe_fds[2];
    uint64_t word, closed;
    vks_queue_ring ring = new_ring(3, 8, true, &fd);
    vks_queue_view view;
    CHECK(vks_queue_end_open(&ring, VKS_CONSUMER, "critic", &word) == VKS_OK &&
              vks_queue_end_open(&ring, VKS_PRODUCER, "painter", &closed) == VKS_OK,
          "%s", vks_last_error()->text);
    vks_queue_end_close(&ring, VKS_PRODUCER, closed);
    vks_queue_pop(&ring);
    CHECK(vks_queue_put(&ring, 0, 0, NULL, 0) == VKS_OK, "put");
    vks_queue_set_waiting(&ring, true);
    CHECK(vks_queue_inspect(fd, &view) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(view.count == 3 && view.metadata_size == 8 && view.width == 8 && view.format == 3, "sizes");
    CHECK(view.taken == 1 && view.committed == 3 && view.written == 4, "counters");
    CHECK(view.network == ring.network && view.id == ring.page->header.id, "whose it is");
    const vks_end_view *producer = &view.ends[VKS_PRODUCER], *consumer = &view.ends[VKS_CONSUMER];
    CHECK(producer->state == VKS_END_CLOSED && !producer->pid && !producer->name[0], "closed");
    CHECK(consumer->state == VKS_END_OPEN && consumer->pid == (uint32_t)getpid() && !consumer->dead, "open");
    CHECK(!strcmp(consumer->name, "critic"), "%s", consumer->name);
    uint64_t times[] = {view.committed_at, view.taken_at, view.waiting_since, producer->since, consumer->since};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        CHECK(times[i] && times[i] <= vks_now() && vks_now() - times[i] < 10000000000u, "time %zu", i);
    vks_queue_set_waiting(&ring, false);
    CHECK(vks_queue_inspect(fd, &view) == VKS_OK && !view.waiting_since, "awake");
    atomic_store(&ring.page->ends[VKS_CONSUMER], word ^ (uint64_t)1 << 30); /* the same pid, started at another time */
    CHECK(vks_queue_inspect(fd, &view) == VKS_OK && view.ends[VKS_CONSUMER].dead, "dead");
    ring.page->header.pid_namespace ^= 1; /* then liveness is unknown */
    CHECK(vks_queue_inspect(fd, &view) == VKS_OK && !view.ends[VKS_CONSUMER].dead, "elsewhere");
    ring.page->header.version++;
    CHECK(vks_queue_inspect(fd, &view) == VKS_BAD_PAGE, "of another version");
    ring.page->header.version--;
    ring.page->header.kind = VKS_PAGE_MUTEX;
    CHECK(vks_queue_inspect(fd, &view) == VKS_BAD_PAGE, "of another kind");
    drop(&ring, fd);
    CHECK(pipe(pipe_fds) == 0 && vks_queue_inspect(pipe_fds[0], &view) == VKS_BAD_PAGE, "a pipe");
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}

enum { PASSED_ON = 20000 };

static void *produce(void *argument)
{
    vks_queue_ring *ring = argument;
    for (uint32_t i = 0; i < PASSED_ON; i++) {
        while (i - (uint32_t)atomic_load(&ring->page->taken) >= ring->count)
            sched_yield(); // or each of its turns on a busy machine is a whole time slice of looking
        if (vks_queue_put(ring, i % ring->count, 0, &i, sizeof i))
            return (void *)1;
        vks_queue_commit(ring, 1);
    }
    return NULL;
}

/* rules: Q16, Q17 */
static void a_producer_and_a_consumer_on_two_threads_lose_nothing(void)
{
    int fd;
    vks_queue_ring ring = new_ring(3, 4, false, &fd), theirs;
    CHECK(vks_queue_page_open(fd, &theirs) == VKS_OK, "%s", vks_last_error()->text);
    pthread_t thread;
    pthread_create(&thread, NULL, produce, &theirs);
    uint32_t surface, number, wrong = 0;
    uint64_t epoch;
    size_t length;
    for (uint32_t i = 0; i < PASSED_ON;) {
        uint32_t seq = vks_queue_prepare_wait(ring.page);
        vks_status status = vks_queue_peek(&ring, &surface, &epoch, &number, &length);
        if (status == VKS_TIMEOUT) {
            vks_futex_wait(&ring.page->seq, seq, VKS_ANY_BIT, vks_now() + HANG);
            continue;
        }
        wrong += status || surface != i % 3 || length != 4 || number != i;
        vks_queue_pop(&ring);
        i++;
    }
    void *failed;
    pthread_join(thread, &failed);
    CHECK(!wrong && !failed, "%u pairs are wrong", wrong);
    vks_queue_page_close(&theirs);
    drop(&ring, fd);
}

/* rules: Q18, X19 */
static void a_death_between_closing_an_end_and_waking_the_other_is_detected(void)
{
    int fd;
    vks_queue_ring ring = new_ring(2, 0, false, &fd);
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    uint64_t process = vks_identity_of((uint32_t)pid), open = (uint64_t)VKS_END_OPEN << 62 | process;
    _Atomic uint64_t none = 0;
    vks_mapping mapping = {.queue = ring.page, .watched = open}, other = {.party = &none};
    atomic_store(&ring.page->ends[VKS_PRODUCER], open);
    vks_peers_add(&mapping);
    vks_peers_add(&other);
    CHECK(vks_peer_alive(process), "it lives, and is watched");
    /* And it died before it woke this end. */
    atomic_store(&ring.page->ends[VKS_PRODUCER], (uint64_t)VKS_END_CLOSED << 62);
    vks_peers_remove(&other);
    uint32_t seq = atomic_load(&ring.page->seq);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    for (uint64_t limit = vks_now() + HANG; ring.page->seq == seq && vks_now() < limit;)
        usleep(1000);
    CHECK(ring.page->seq != seq, "the page's sleepers were woken");
    vks_peers_remove(&mapping);
    drop(&ring, fd);
}

int main(void)
{
    RUN(sizes_outside_the_limits_are_refused);
    RUN(a_full_ring_gives_every_surface_in_order_and_then_nothing);
    RUN(pairs_are_pending_until_they_are_committed_and_come_out_as_they_went_in);
    RUN(an_end_is_open_once_and_a_death_frees_it);
    RUN(pairs_of_a_dead_producer_are_committed_by_the_first_party_that_finds_them);
    RUN(an_overwritten_page_is_refused_or_read_within_its_bounds);
    RUN(a_page_of_another_kind_or_size_is_refused);
    RUN(an_inspection_of_a_page_shows_its_contents_and_its_ends);
    RUN(a_death_between_closing_an_end_and_waking_the_other_is_detected);
    RUN(a_producer_and_a_consumer_on_two_threads_lose_nothing);
    return check_result();
}
