/* The core against other parties of its pages: parties that die while no file descriptors are left,
 * two ways to acquire on one handle at once, and a party that writes arbitrary values into its
 * page. Uses the stub driver. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check_macros.h"
#include "shm/mutex_page.h"
#include "peers/peers.h"
#include "stub_driver.h"

#define MS UINT64_C(1000000)

/* ---- no file descriptors ---- */

static vks_status watch(void *mapping) { return vks_peers_watch_page(mapping); }

static vks_mutex_page *new_page(void)
{
    vks_mutex_page *page = mmap(NULL, VKS_MUTEX_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    vks_page_init(&page->header, VKS_PAGE_MUTEX, VKS_MUTEX_PAGE_SIZE);
    vks_mutex_init(page);
    return page;
}

static pid_t start_owner(vks_mutex_page *page)
{
    pid_t pid = fork();
    if (pid == 0) {
        vks_mutex_handle owner;
        vks_wait_point wait_point;
        if (vks_mutex_join(page, "owner", &owner) || vks_mutex_wait(&owner, 0, 0, NULL, NULL, &wait_point))
            _exit(1);
        pause();
        _exit(0);
    }
    while (vks_word_state(page->word) != VKS_OWNED)
        usleep(1000);
    return pid;
}

/* ---- a process whose main thread has ended ---- */

static int exit_pipe[2]; /* a pipe; the child ends once it is closed */

static void *outlive_main_thread(void *unused)
{
    char end;
    (void)unused;
    close(exit_pipe[1]);
    ssize_t n = read(exit_pipe[0], &end, 1);
    _exit(n == 0 ? 0 : 1);
}

static bool is_zombie(pid_t pid)
{
    char path[40], text[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    const char *state = fgets(text, sizeof text, file) ? strrchr(text, ')') : NULL;
    fclose(file);
    return state && state[1] == ' ' && state[2] == 'Z';
}

/* Owns the surface in a process that has only a second thread left. */
static pid_t start_headless_owner(vks_mutex_page *page)
{
    CHECK(pipe(exit_pipe) == 0, "a pipe");
    pid_t pid = fork();
    if (pid == 0) {
        vks_mutex_handle owner;
        vks_wait_point wait_point;
        pthread_t thread;
        if (vks_mutex_join(page, "owner", &owner) || vks_mutex_wait(&owner, 0, 0, NULL, NULL, &wait_point) ||
            pthread_create(&thread, NULL, outlive_main_thread, NULL))
            _exit(1);
        pthread_exit(NULL);
    }
    for (uint64_t limit = vks_now() + 10000 * MS; !is_zombie(pid) && vks_now() < limit;)
        usleep(1000);
    CHECK(is_zombie(pid), "its main thread has ended");
    return pid;
}

/* rules: K9, X19 */
static void an_owner_is_alive_until_its_last_thread_has_ended(void)
{
    vks_mutex_page *page = new_page();
    vks_mutex_handle handle;
    vks_mapping mapping = {.mutex = page};
    CHECK(vks_mutex_join(page, "ours", &handle) == VKS_OK, "join");
    vks_peers_add(&mapping);
    pid_t pid = start_headless_owner(page);
    uint64_t process = atomic_load(&page->slots[vks_word_slot(page->word)].identity) & VKS_IDENTITY_MASK;
    vks_wait_point wait_point;
    CHECK(!vks_identity_gone(process) && vks_peer_alive(process), "another thread of it runs");
    vks_status status = vks_mutex_wait(&handle, 1, vks_now() + 50 * MS, watch, &mapping, &wait_point);
    CHECK(status == VKS_TIMEOUT && vks_word_state(page->word) == VKS_OWNED, "status %d", status);
    close(exit_pipe[1]);
    close(exit_pipe[0]);
    status = vks_mutex_wait(&handle, 1, vks_now() + 10000 * MS, watch, &mapping, &wait_point);
    CHECK(status == VKS_ABANDONED, "status %d: nothing of it runs", status);
    CHECK(is_zombie(pid) && vks_identity_gone(process) && !vks_peer_alive(process), "its parent has not waited for it");
    waitpid(pid, NULL, 0);
    vks_peers_remove(&mapping);
}

static void *kill_soon(void *pid)
{
    usleep(100000);
    kill(*(pid_t *)pid, SIGKILL);
    waitpid(*(pid_t *)pid, NULL, 0);
    return NULL;
}

/* rules: K9, X19 */
static void a_process_without_free_fds_distinguishes_live_and_dead_owners(void)
{
    vks_mutex_page *page = new_page();
    vks_mutex_handle handle;
    vks_mapping mapping = {.mutex = page};
    CHECK(vks_mutex_join(page, "test", &handle) == VKS_OK, "there is room");
    vks_peers_add(&mapping);
    pid_t pid = start_owner(page);
    int next = dup(0);
    close(next);
    struct rlimit limit, none;
    getrlimit(RLIMIT_NOFILE, &limit);
    none = (struct rlimit){(rlim_t)next, limit.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    CHECK(dup(0) < 0, "no file descriptor is left");
    vks_wait_point wait_point;
    CHECK(vks_mutex_wait(&handle, 5, vks_now() + 150 * MS, watch, &mapping, &wait_point) == VKS_TIMEOUT,
          "the owner is alive, although no pidfd can be opened");
    CHECK(vks_word_state(page->word) == VKS_OWNED, "and owns");
    pthread_t thread;
    pthread_create(&thread, NULL, kill_soon, &pid);
    uint64_t start = vks_now();
    vks_status status = vks_mutex_wait(&handle, 5, vks_now() + HANG, watch, &mapping, &wait_point);
    CHECK(status == VKS_ABANDONED && vks_now() - start < HANG, "status %d after %.0f ms", status,
          (vks_now() - start) / 1e6);
    pthread_join(thread, NULL);
    setrlimit(RLIMIT_NOFILE, &limit);
    vks_peers_remove(&mapping);
}

/* Forks without the C library's handlers, as some libraries do; the child executes nothing. */
static pid_t start_bare_child(void)
{
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    while (pid == 0)
        syscall(SYS_pause);
    return pid;
}

static void count_call(void *calls) { atomic_fetch_add((_Atomic uint32_t *)calls, 1); }

/* rules: X19 */
static void a_death_is_reported_once_although_a_child_inherits_the_pidfds(void)
{
    _Atomic uint32_t calls = 0;
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    _Atomic uint64_t party = vks_identity_of((uint32_t)pid);
    vks_mapping mapping = {.party = &party, .on_death = count_call, .user = &calls};
    vks_peers_add(&mapping);
    CHECK(vks_peer_alive(party), "it lives, and is watched");
    pid_t child = start_bare_child();
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    for (uint64_t limit = vks_now() + HANG; !calls && vks_now() < limit;)
        usleep(1000);
    usleep(100000);
    CHECK(calls == 1, "reported %u times", calls);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    vks_peers_remove(&mapping);
}

/* ---- one handle, two ways to acquire ---- */

typedef struct party {
    vks_device *device;
    vks_surface *surface;
    vks_mutex_page *page; /* its own mapping, for arbitrary writes */
} party;

static party new_party(const char *name, party *of)
{
    party p = {.device = stub_open(name, true)};
    p.surface = stub_surface(p.device, of ? of->surface : NULL);
    CHECK(p.surface != NULL, "%s", vks_last_error()->text);
    int page, semaphore;
    vks_surface_export(p.surface, &page, &semaphore);
    p.page = mmap(NULL, VKS_MUTEX_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, page, 0);
    close(page);
    close(semaphore);
    return p;
}

static void drop_party(party *p)
{
    munmap(p->page, VKS_MUTEX_PAGE_SIZE);
    vks_surface_close(p->surface);
    vks_surface_unref(p->surface);
    stub_close(p->device);
}

/* Submits work that touches the surface without drawing on it, so that the queue acquires it. */
static vks_status touch(party *p)
{
    vks_submission out = {0};
    vks_status status = vks_submit(p->device, &(vks_submit_info){.raw = &(uint64_t){3}, .n_raw = 1}, 0, &out);
    if (out.op)
        vks_work_unref(out.op);
    return status;
}

static _Atomic bool started;

static void *acquire_1(void *argument)
{
    party *p = argument;
    started = true;
    vks_status status;
    uint64_t limit = vks_now() + HANG;
    while ((status = vks_surface_acquire(p->surface, 1, limit)) == VKS_INTERRUPTED)
        ;
    return status == VKS_OK              ? "owned"
           : status == VKS_ALREADY_OWNER ? "refused"
           : status == VKS_TIMEOUT       ? "timed out"
                                         : "failed";
}

/* rules: K3, K25 */
static void a_blocking_acquire_and_a_queued_one_on_one_handle_do_not_mix(void)
{
    int before = check_failures;
    for (long i = 0, n = check_scale("VKS_ROUNDS", 200); i < n && check_failures == before; i++) {
        party a = new_party("a", NULL), b = new_party("b", &a);
        CHECK(vks_surface_acquire(a.surface, 0, 0) == VKS_OK, "fresh");
        pthread_t thread;
        started = false;
        pthread_create(&thread, NULL, acquire_1, &b);
        while (i % 2 && !started) /* in every second round it still spins when the release comes */
            ;
        if (i % 2 == 0)
            usleep(2000);
        vks_work *op = NULL;
        CHECK(vks_surface_acquire_gpu(b.surface, 1, &op) == VKS_OK, "this handle does not own it yet");
        CHECK(vks_surface_release(a.surface, 1) == VKS_OK, "now one of the two gets it");
        for (uint64_t limit = vks_now() + HANG; !vks_surface_is_owned(b.surface) && vks_now() < limit;)
            usleep(100);
        CHECK(vks_surface_is_owned(b.surface) && touch(&b) == VKS_OK && vks_surface_release(b.surface, 1) == VKS_OK,
              "round %ld", i);
        void *how;
        pthread_join(thread, &how);
        bool again = strcmp(how, "owned") == 0; /* the blocking acquire came after it */
        CHECK(again ? vks_surface_release(b.surface, 2) == VKS_OK : strcmp(how, "refused") == 0, "round %ld: %s", i,
              (const char *)how);
        CHECK(vks_surface_acquire(a.surface, again ? 2 : 1, vks_now() + HANG) == VKS_OK,
              "round %ld: a comes to it again", i);
        if (op)
            vks_work_unref(op);
        drop_party(&b);
        drop_party(&a);
    }
}

/* ---- arbitrary writes to a page ---- */

static void a_page_value_never_leads_to_an_invalid_signal(void)
{
    const uint64_t values[] = {UINT64_MAX, UINT64_MAX - 1, UINT64_C(1) << 63, UINT64_C(1) << 41, 0};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        uint32_t violations = stub_violations();
        party a = new_party("a", NULL), b = new_party("b", &a);
        for (uint64_t key = 0; key < 3; key++) /* so that the semaphore has a value */
            CHECK(vks_surface_acquire(a.surface, key, 0) == VKS_OK && touch(&a) == VKS_OK &&
                      vks_surface_release(a.surface, key + 1) == VKS_OK,
                  "turn");
        CHECK(vks_surface_acquire(a.surface, 3, 0) == VKS_OK && touch(&a) == VKS_OK, "and one more");
        atomic_store(&b.page->value, values[i]);
        vks_status status = vks_surface_release(a.surface, 4);
        CHECK(status == VKS_ABANDONED, "value 0x%llx: status %d", (unsigned long long)values[i], status);
        CHECK(vks_surface_acquire(b.surface, 4, vks_now() + 100 * MS) == VKS_ABANDONED, "it is no valid frame");
        status = vks_surface_recover(b.surface, vks_now() + HANG);
        CHECK(status == VKS_OK || status == VKS_ABANDONED, "status %d", status);
        CHECK(vks_device_wait_idle(a.device, vks_now() + HANG) != VKS_TIMEOUT, "a's queue does not wait forever");
        drop_party(&b);
        drop_party(&a);
        CHECK(stub_violations() == violations, "value 0x%llx", (unsigned long long)values[i]);
    }
}

static _Atomic bool over;

static void *change_always(void *argument)
{
    vks_mutex_page *page = argument;
    while (!over) {
        atomic_fetch_add(&page->seq, 1);
        atomic_fetch_add(&page->value_seq, 1);
        atomic_fetch_xor(&page->word, UINT64_C(1) << 40);
        atomic_fetch_add(&page->join_count, 1);
    }
    return NULL;
}

/* rules: K12 */
static void a_page_that_always_changes_does_not_delay_a_deadline(void)
{
    party a = new_party("a", NULL), b = new_party("b", &a);
    CHECK(vks_surface_acquire(a.surface, 0, 0) == VKS_OK, "fresh");
    over = false;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, change_always, a.page);
    uint64_t start = vks_now();
    vks_status status = vks_surface_acquire(b.surface, 1, start + 100 * MS);
    CHECK(status == VKS_TIMEOUT && vks_now() - start < HANG, "status %d after %.0f ms", status,
          (vks_now() - start) / 1e6);
    over = true;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    drop_party(&b);
    drop_party(&a);
}

static void slots_and_words_out_of_range_are_harmless(void)
{
    party a = new_party("a", NULL), b = new_party("b", &a);
    for (uint32_t slot = 0; slot < 256; slot += 5)
        for (uint32_t bits = 0; bits < 16; bits++) {
            atomic_store(&b.page->word, vks_word(UINT64_MAX >> 12, slot, bits));
            atomic_store(&b.page->signaller_slot, UINT32_MAX - slot);
            atomic_store(&b.page->signaller, UINT64_MAX - slot);
            atomic_store(&b.page->join_count, UINT32_MAX);
            atomic_store(&b.page->slots[slot % VKS_SLOTS].pending_value, UINT64_MAX);
            vks_status status = vks_surface_acquire(a.surface, 0, slot % 50 ? 0 : vks_now() + MS);
            if (status == VKS_OK && vks_surface_is_owned(a.surface)) {
                touch(&a);
                vks_surface_release(a.surface, 0);
            }
            if (status == VKS_ABANDONED)
                vks_surface_recover(a.surface, vks_now() + MS);
        }
    atomic_store(&b.page->word, vks_word(1, 0, VKS_ABANDONED_STATE));
    drop_party(&b);
    drop_party(&a);
}

typedef struct scribble {
    uint64_t value, pending_value; /* the page's value, and the signaller's pending value */
    bool is_ours;                  /* the signaller is the reader's own handle; else another live handle */
} scribble;

static void read_behind(const scribble *s)
{
    party a = new_party("a", NULL), b = new_party("b", &a);
    uint32_t signaller = s->is_ours; /* the slots, in the order of the handles */
    CHECK(vks_surface_acquire(a.surface, 0, 0) == VKS_OK && vks_surface_release(a.surface, 1) == VKS_OK, "turn");
    atomic_store(&b.page->value, s->value);
    atomic_store(&b.page->signaller, atomic_load(&b.page->slots[signaller].identity));
    atomic_store(&b.page->signaller_slot, signaller);
    atomic_store(&b.page->slots[signaller].pending_value, s->pending_value);
    CHECK(vks_surface_acquire(b.surface, 1, 0) == VKS_OK, "it is free");
    vks_status status;
    uint64_t limit = vks_now() + 5000 * MS;
    while ((status = vks_surface_cpu_access(b.surface, limit)) == VKS_INTERRUPTED)
        ;
    CHECK(status == VKS_ABANDONED, "value %llu, pending %llu, ours %d: status %d", (unsigned long long)s->value,
          (unsigned long long)s->pending_value, s->is_ours, status);
    atomic_store(&b.page->slots[signaller].pending_value, 0);
    drop_party(&b);
    drop_party(&a);
}

/* rules: K18 */
static void a_value_that_no_live_handle_announced_is_not_waited_for(void)
{
    const scribble scribbles[] = {
        {1000, 0, false},
        {1000, 0, true},
        {1000, 1001, false},
        {1000, 1001, true},
        {1000, 7, true}, /* a pending value of our own slot that this process did not announce */
        {UINT64_MAX, UINT64_MAX, true}};
    for (size_t i = 0; i < sizeof scribbles / sizeof *scribbles; i++)
        read_behind(&scribbles[i]);
}

static void a_joining_handle_wakes_waits_for_its_slots_pending_value(void)
{
    vks_mutex_page *page = new_page();
    vks_mutex_handle handle;
    uint32_t seq = vks_mutex_prepare_value_wait(page);
    CHECK(vks_mutex_join(page, "joined", &handle) == VKS_OK && atomic_load(&page->value_seq) != seq,
          "recover() may sleep on the pending value of the slot's last party");
}

int main(void)
{
    RUN(an_owner_is_alive_until_its_last_thread_has_ended); /* first: TSAN lets a child of one thread start a second */
    RUN(a_death_is_reported_once_although_a_child_inherits_the_pidfds);
    RUN(a_process_without_free_fds_distinguishes_live_and_dead_owners);
    RUN(a_joining_handle_wakes_waits_for_its_slots_pending_value);
    RUN(a_blocking_acquire_and_a_queued_one_on_one_handle_do_not_mix);
    RUN(a_page_value_never_leads_to_an_invalid_signal);
    RUN(a_page_that_always_changes_does_not_delay_a_deadline);
    RUN(slots_and_words_out_of_range_are_harmless);
    RUN(a_value_that_no_live_handle_announced_is_not_waited_for);
    CHECK(stub_violations() == 0, "%u violations", stub_violations());
    return check_result();
}
