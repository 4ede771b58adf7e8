#define _GNU_SOURCE
#include "shm/queue_page.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

_Static_assert(offsetof(vks_queue_page, written) == 128, "layout");
_Static_assert(offsetof(vks_queue_page, taken) == 192, "layout");
_Static_assert(offsetof(vks_queue_page, ends) == 256, "layout");
_Static_assert(sizeof(vks_queue_page) == 384, "layout");
_Static_assert(offsetof(vks_queue_entry, metadata) == 24, "layout");

/* ---- the page ---- */

static uint32_t stride_of(uint32_t metadata_size)
{
    return (uint32_t)(offsetof(vks_queue_entry, metadata) + metadata_size + 15) & ~15u;
}

/* Twice the surfaces, because those in the ring may be abandoned with their producer, recovered,
 * and enqueued again. */
static uint32_t capacity_of(uint32_t count)
{
    uint32_t capacity = 1;
    while (capacity < 2 * count)
        capacity *= 2;
    return capacity;
}

size_t vks_queue_page_size(uint32_t count, uint32_t metadata_size)
{
    size_t bytes = sizeof(vks_queue_page) + (size_t)capacity_of(count) * stride_of(metadata_size);
    return (bytes + 4095) & ~(size_t)4095;
}

static vks_queue_entry *entry_at(const vks_queue_ring *ring, uint64_t place)
{
    return (vks_queue_entry *)(ring->page->entries + (place & (ring->capacity - 1)) * ring->stride);
}

static void read_constants(vks_queue_ring *ring, vks_queue_page *page, size_t size)
{
    *ring = (vks_queue_ring){.page = page,
                             .size = size,
                             .network = page->network,
                             .count = page->count,
                             .capacity = capacity_of(page->count),
                             .metadata_size = page->metadata_size,
                             .stride = stride_of(page->metadata_size),
                             .single_threaded = page->single_threaded,
                             .early = page->early};
}

static uint64_t random_network(void)
{
    uint64_t network = 0;
    while (!network)
        if (getrandom(&network, sizeof network, GRND_NONBLOCK) != sizeof network)
            network = vks_now();
    return network;
}

static vks_status check_sizes(uint32_t count, uint32_t metadata_size, vks_status what)
{
    if (count < 1 || count > VKS_MAX_QUEUE_SURFACES)
        return vks_fail(what, 0, "a queue of %u surfaces; allowed are 1 to %u", count, VKS_MAX_QUEUE_SURFACES);
    if (metadata_size > VKS_MAX_METADATA)
        return vks_fail(what, 0, "metadata of %u bytes; allowed are up to %u", metadata_size, VKS_MAX_METADATA);
    return VKS_OK;
}

vks_status vks_queue_page_create(const vks_queue_info *info, int *fd, vks_queue_ring *out)
{
    vks_platform_init();
    vks_status status = check_sizes(info->count, info->metadata_size, VKS_BAD_CALL);
    if (status)
        return status;
    size_t size = vks_queue_page_size(info->count, info->metadata_size);
    void *map;
    if ((status = vks_memfd_create("vkshare:queue", size, false, fd, &map)))
        return status;
    vks_queue_page *page = map;
    vks_page_init(&page->header, VKS_PAGE_QUEUE, size);
    page->header.width = info->width;
    page->header.height = info->height;
    page->header.format = info->format;
    page->header.color = info->color;
    page->network = info->network ? info->network : random_network();
    page->count = info->count;
    page->metadata_size = info->metadata_size;
    page->single_threaded = info->single_threaded;
    page->early = info->early;
    read_constants(out, page, size);
    for (uint32_t i = 0; info->full && i < info->count; i++)
        vks_queue_put(out, i, 0, NULL, 0);
    if (info->full)
        vks_queue_commit(out, info->count);
    return VKS_OK;
}

vks_status vks_queue_page_open(int fd, vks_queue_ring *out)
{
    vks_platform_init();
    void *map;
    vks_status status = vks_memfd_map(fd, sizeof(vks_queue_page), false, &map);
    if (status)
        return status;
    const vks_queue_page *seen = map;
    uint32_t count = seen->count, metadata_size = seen->metadata_size;
    munmap(map, sizeof(vks_queue_page));
    if ((status = check_sizes(count, metadata_size, VKS_BAD_PAGE)))
        return status;
    size_t size = vks_queue_page_size(count, metadata_size);
    if ((status = vks_page_open_sized(fd, VKS_PAGE_QUEUE, size, &map)))
        return status;
    vks_queue_page *page = map;
    if (page->count != count || page->metadata_size != metadata_size || !page->network) {
        munmap(map, size);
        return vks_fail(VKS_BAD_PAGE, 0, "the queue's page changes while it is read");
    }
    read_constants(out, page, size);
    return VKS_OK;
}

void vks_queue_page_close(vks_queue_ring *ring)
{
    if (ring->page)
        munmap(ring->page, ring->size);
    ring->page = NULL;
}

/* ---- the ends ---- */

/* CLOCK_MONOTONIC for vkshare ps, some milliseconds late, at a tenth of the cost. */
static uint64_t coarse_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t end_word(uint64_t before, uint32_t state, uint64_t process)
{
    uint64_t openings = (before >> VKS_IDENTITY_BITS) + (state == VKS_END_OPEN);
    return (uint64_t)state << 62 | (openings & 0x3fff) << VKS_IDENTITY_BITS | process;
}

vks_status vks_queue_end_open(vks_queue_ring *ring, vks_end end, const char *name, uint64_t *word)
{
    vks_queue_page *page = ring->page;
    uint64_t self = vks_self(), seen = atomic_load(&page->ends[end]);
    if (!self)
        return vks_fail(VKS_OS_ERROR, 0, "this process cannot be named: /proc cannot be read");
    do {
        if (vks_end_state(seen) == VKS_END_OPEN)
            return vks_fail(VKS_BAD_CALL, 0, "the queue's %s is open already (process %u): close it first",
                            end == VKS_PRODUCER ? "producer" : "consumer", vks_identity_pid(seen));
        *word = end_word(seen, VKS_END_OPEN, self);
    } while (!atomic_compare_exchange_weak(&page->ends[end], &seen, *word));
    memset(page->names[end], 0, VKS_NAME_SIZE);
    strncpy(page->names[end], name, VKS_NAME_SIZE - 1);
    atomic_store(&page->ends_since[end], coarse_now());
    if (end == VKS_CONSUMER) /* a consumer that died asleep left it set */
        atomic_store(&page->waiting_since, 0);
    vks_queue_wake(page);
    return VKS_OK;
}

static void close_end(vks_queue_page *page, vks_end end, uint64_t word)
{
    if (!atomic_compare_exchange_strong(&page->ends[end], &word, end_word(word, VKS_END_CLOSED, 0)))
        return;
    atomic_store(&page->ends_since[end], coarse_now());
    vks_queue_wake(page);
}

void vks_queue_end_close(vks_queue_ring *ring, vks_end end, uint64_t word) { close_end(ring->page, end, word); }

void vks_queue_on_death(vks_queue_page *page, uint64_t process)
{
    for (int end = VKS_PRODUCER; end <= VKS_CONSUMER; end++) {
        uint64_t word = atomic_load(&page->ends[end]);
        if (vks_end_state(word) == VKS_END_OPEN && vks_end_process(word) == process)
            close_end(page, (vks_end)end, word);
    }
    vks_queue_wake(page); /* in any case, because the process may have died between clearing `want` and its wake */
}

/* ---- sleeping ---- */

uint32_t vks_queue_prepare_wait(vks_queue_page *page)
{
    uint32_t seq = atomic_load(&page->seq);
    atomic_exchange(&page->want, 1);
    return seq;
}

void vks_queue_wake(vks_queue_page *page)
{
    atomic_fetch_add(&page->seq, 1);
    vks_futex_wake(&page->seq, VKS_ANY_BIT);
}

/* Wakes the sleepers after a commit. Only the holder of the producer end calls this: each sleeper
 * watches that process, so a death between these steps is followed by a wake. `want` is cleared
 * before seq changes; otherwise the store could clear the `want` of a sleeper that has read the new
 * seq, which no later commit would wake. */
static void wake_waiters(vks_queue_page *page)
{
    if (!atomic_load(&page->want))
        return;
    atomic_store(&page->want, 0);
    VKS_KILL_POINT(23);
    vks_queue_wake(page);
}

/* ---- producer ---- */

static vks_status bad_ring(uint64_t taken, uint64_t committed, uint64_t written)
{
    return vks_fail(VKS_BAD_PAGE, 0,
                    "the queue's page says that %llu were written, %llu committed and %llu taken: another process has "
                    "overwritten it",
                    (unsigned long long)written, (unsigned long long)committed, (unsigned long long)taken);
}

/* Reads the three counters and checks them. Even with wrong counters entry_at() stays within the
 * ring. */
static vks_status counters(const vks_queue_ring *ring, uint64_t *taken, uint64_t *committed, uint64_t *written)
{
    *taken = atomic_load_explicit(&ring->page->taken, memory_order_acquire);
    *committed = atomic_load_explicit(&ring->page->committed, memory_order_acquire);
    *written = atomic_load_explicit(&ring->page->written, memory_order_acquire);
    /* The consumer continues meanwhile, so a value that was read first may be behind, never
     * ahead. */
    if (*committed - *taken > ring->capacity || *written - *committed > ring->capacity)
        return bad_ring(*taken, *committed, *written);
    return VKS_OK;
}

vks_status vks_queue_put(vks_queue_ring *ring, uint32_t surface, uint64_t epoch, const void *metadata, size_t length)
{
    uint64_t taken, committed, written;
    vks_status status = counters(ring, &taken, &committed, &written);
    if (status)
        return status;
    if (written - taken >= ring->capacity)
        return vks_fail(VKS_BAD_CALL, 0,
                        "the queue holds %u pairs, most of them of surfaces that were recovered since: its consumer "
                        "must dequeue first; the surface is yours still",
                        ring->capacity);
    VKS_TSAN_ACQUIRE(ring->page->header.id + 1);
    vks_queue_entry *entry = entry_at(ring, written);
    entry->surface = surface;
    entry->length = (uint32_t)length;
    entry->epoch = epoch;
    entry->value = 0;
    if (length)
        memcpy(entry->metadata, metadata, length);
    atomic_store_explicit(&ring->page->written, written + 1, memory_order_release);
    return VKS_OK;
}

void vks_queue_undo_put(vks_queue_ring *ring) { atomic_fetch_sub(&ring->page->written, 1); }

void vks_queue_set_value(vks_queue_ring *ring, uint64_t value)
{
    entry_at(ring, atomic_load_explicit(&ring->page->written, memory_order_relaxed) - 1)->value = value;
}

vks_status vks_queue_pending(const vks_queue_ring *ring, uint32_t *count)
{
    uint64_t taken, committed, written;
    vks_status status = counters(ring, &taken, &committed, &written);
    *count = status ? 0 : (uint32_t)(written - committed);
    return status;
}

/* Checks a surface index from the page. */
static vks_status check_surface_index(const vks_queue_ring *ring, uint32_t surface)
{
    return surface < ring->count
               ? VKS_OK
               : vks_fail(VKS_BAD_PAGE, 0, "the queue's page names the surface %u of %u", surface, ring->count);
}

/* Returns the first or the last uncommitted pair. VKS_TIMEOUT: there is none. */
static vks_status pending(const vks_queue_ring *ring, bool last, const volatile vks_queue_entry **entry)
{
    uint64_t taken, committed, written;
    vks_status status = counters(ring, &taken, &committed, &written);
    if (status || committed == written)
        return status ? status : VKS_TIMEOUT;
    *entry = entry_at(ring, last ? written - 1 : committed);
    return VKS_OK;
}

vks_status vks_queue_first_pending(const vks_queue_ring *ring, uint32_t *surface, uint64_t *value)
{
    const volatile vks_queue_entry *entry;
    vks_status status = pending(ring, false, &entry);
    if (status)
        return status;
    *surface = entry->surface;
    *value = entry->value;
    return check_surface_index(ring, *surface);
}

vks_status vks_queue_last_pending(const vks_queue_ring *ring, uint32_t *surface, uint64_t *epoch)
{
    const volatile vks_queue_entry *entry;
    vks_status status = pending(ring, true, &entry);
    if (status)
        return status;
    *surface = entry->surface;
    *epoch = entry->epoch;
    return check_surface_index(ring, *surface);
}

void vks_queue_commit(vks_queue_ring *ring, uint32_t count)
{
    VKS_TSAN_RELEASE(ring->page->header.id);
    atomic_store_explicit(&ring->page->committed_at, coarse_now(), memory_order_relaxed);
    atomic_fetch_add(&ring->page->committed, count);
    wake_waiters(ring->page);
}

void vks_queue_adopt(vks_queue_ring *ring, bool is_whole, bool producer)
{
    uint64_t taken, committed, written;
    if (counters(ring, &taken, &committed, &written) || committed == written)
        return;
    uint64_t upto = is_whole ? written : written - 1;
    /* Both may find it. `committed` never returns to an earlier value, so only one of them moves
     * it. */
    if (atomic_compare_exchange_strong(&ring->page->committed, &committed, upto))
        vks_queue_wake(ring->page);
    if (producer) /* only the producer may, because a consumer could remove a new producer's pair */
        atomic_store(&ring->page->written, upto);
}

/* ---- consumer ---- */

vks_status vks_queue_peek(const vks_queue_ring *ring, uint32_t *surface, uint64_t *epoch, void *metadata,
                          size_t *length)
{
    uint64_t taken = atomic_load_explicit(&ring->page->taken, memory_order_relaxed);
    uint64_t committed = atomic_load_explicit(&ring->page->committed, memory_order_acquire);
    if (committed == taken)
        return VKS_TIMEOUT;
    if (committed - taken > ring->capacity)
        return bad_ring(taken, committed, atomic_load(&ring->page->written));
    VKS_TSAN_ACQUIRE(ring->page->header.id);
    const volatile vks_queue_entry *entry = entry_at(ring, taken);
    uint32_t number = entry->surface, bytes = entry->length;
    if (number >= ring->count || bytes > ring->metadata_size)
        return vks_fail(VKS_BAD_PAGE, 0, "the queue's page names the surface %u of %u, with %u of %u bytes of metadata",
                        number, ring->count, bytes, ring->metadata_size);
    if (bytes)
        memcpy(metadata, (const void *)entry->metadata, bytes);
    *surface = number;
    *epoch = entry->epoch;
    *length = bytes;
    return VKS_OK;
}

void vks_queue_pop(vks_queue_ring *ring)
{
    VKS_TSAN_RELEASE(ring->page->header.id + 1);
    atomic_store_explicit(&ring->page->taken_at, coarse_now(), memory_order_relaxed);
    atomic_fetch_add_explicit(&ring->page->taken, 1, memory_order_release);
}

void vks_queue_set_waiting(vks_queue_ring *ring, bool waits)
{
    atomic_store_explicit(&ring->page->waiting_since, waits ? coarse_now() : 0, memory_order_relaxed);
}

/* ---- the view for vkshare ps ---- */

static vks_end_view inspect_end(const vks_queue_page *page, vks_end end)
{
    uint64_t word = atomic_load(&page->ends[end]), process = vks_end_process(word);
    vks_end_view view = {.state = vks_end_state(word), .since = atomic_load(&page->ends_since[end])};
    if (view.state != VKS_END_OPEN)
        return view;
    view.pid = vks_identity_pid(process);
    view.dead = page->header.pid_namespace == vks_pid_namespace() && vks_identity_gone(process);
    memcpy(view.name, page->names[end], VKS_NAME_SIZE - 1);
    return view;
}

/* Reads all three counters of one moment, because both ends may continue meanwhile. */
static void inspect_counters(const vks_queue_page *page, uint64_t *taken, uint64_t *committed, uint64_t *written)
{
    int tries = 100; /* a page that another process overwrites may change all the time */
    do {
        *taken = atomic_load(&page->taken);
        *written = atomic_load(&page->written);
        *committed = atomic_load(&page->committed);
    } while ((*taken != atomic_load(&page->taken) || *written != atomic_load(&page->written)) && --tries);
}

vks_status vks_queue_inspect(int fd, vks_queue_view *out)
{
    VKS_NEEDS(out);
    vks_platform_init();
    void *map;
    vks_status status = vks_memfd_map(fd, sizeof(vks_queue_page), false, &map);
    if (status)
        return status;
    const vks_queue_page *page = map;
    vks_page_header header = page->header;
    uint64_t taken, committed, written;
    inspect_counters(page, &taken, &committed, &written);
    if (!(status = vks_page_check(&header, VKS_PAGE_QUEUE, header.size)))
        *out = (vks_queue_view){.id = header.id,
                                .network = page->network,
                                .width = header.width,
                                .height = header.height,
                                .format = header.format,
                                .color = header.color,
                                .count = page->count,
                                .metadata_size = page->metadata_size,
                                .single_threaded = page->single_threaded != 0,
                                .taken = taken,
                                .committed = committed,
                                .written = written,
                                .committed_at = atomic_load(&page->committed_at),
                                .taken_at = atomic_load(&page->taken_at),
                                .waiting_since = atomic_load(&page->waiting_since),
                                .ends = {inspect_end(page, VKS_PRODUCER), inspect_end(page, VKS_CONSUMER)}};
    munmap(map, sizeof(vks_queue_page));
    return status;
}
