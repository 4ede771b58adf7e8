#define _GNU_SOURCE
#include "shm/page.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

_Static_assert(sizeof(vks_page_header) == 64, "layout");
_Static_assert(sizeof(vks_slot) == 64, "layout");
_Static_assert(offsetof(vks_fence_page, queued) == 128, "layout");
_Static_assert(offsetof(vks_mutex_page, word) == 64, "layout");
_Static_assert(offsetof(vks_mutex_page, queued) == 128, "layout");
_Static_assert(offsetof(vks_mutex_page, seq) == 192, "layout");
_Static_assert(offsetof(vks_mutex_page, slots) == 256, "layout");
_Static_assert(offsetof(vks_mutex_page, damage) == 7936, "layout");
_Static_assert(sizeof(vks_fence_page) % 64 == 0, "aligned_alloc");
_Static_assert(sizeof(vks_fence_page) <= VKS_FENCE_PAGE_SIZE, "layout");
_Static_assert(sizeof(vks_mutex_page) <= VKS_MUTEX_PAGE_SIZE, "layout");

static size_t size_of(uint32_t kind) { return kind == VKS_PAGE_FENCE ? VKS_FENCE_PAGE_SIZE : VKS_MUTEX_PAGE_SIZE; }

void vks_page_init(vks_page_header *header, uint32_t kind, uint64_t size)
{
    memset(header, 0, sizeof *header);
    header->magic = VKS_PAGE_MAGIC;
    header->version = VKS_LAYOUT_VERSION;
    header->kind = kind;
    header->size = size;
    header->pid_namespace = vks_pid_namespace();
    if (getrandom(&header->id, sizeof header->id, GRND_NONBLOCK) != sizeof header->id)
        header->id = vks_now() ^ (uint64_t)(uintptr_t)header; /* only vkshare ps relies on rare collisions */
}

vks_status vks_page_check(const vks_page_header *header, uint32_t kind, size_t size)
{
    if (header->magic != VKS_PAGE_MAGIC)
        return vks_fail(VKS_BAD_PAGE, 0, "the page starts with 0x%llx: it is not one of vkshare's",
                        (unsigned long long)header->magic);
    if (header->version != VKS_LAYOUT_VERSION)
        return vks_fail(
            VKS_BAD_PAGE, 0,
            "the page has layout version %u, and this vkshare speaks version %u: use the same vkshare on both sides",
            header->version, VKS_LAYOUT_VERSION);
    if (header->kind != kind || header->size != size)
        return vks_fail(VKS_BAD_PAGE, 0, "the page is of kind %u and %llu bytes, and kind %u of %zu bytes is needed",
                        header->kind, (unsigned long long)header->size, kind, size);
    return VKS_OK;
}

static vks_status open_page(int fd, uint32_t kind, size_t size, bool writable, void **page)
{
    vks_status status = vks_memfd_map(fd, size, writable, page);
    if (status)
        return status;
    const vks_page_header *header = *page;
    status = vks_page_check(header, kind, size);
    if (!status && header->pid_namespace != vks_pid_namespace())
        status = vks_fail(VKS_BAD_PAGE, 0,
                          "the page comes from another pid namespace: the death of its parties could not be seen; run "
                          "both in one container");
    if (status)
        munmap(*page, size);
    return status;
}

vks_status vks_page_open(int fd, uint32_t kind, bool writable, void **page)
{
    return open_page(fd, kind, size_of(kind), writable, page);
}

vks_status vks_page_open_sized(int fd, uint32_t kind, size_t size, void **page)
{
    return open_page(fd, kind, size, true, page);
}

/* ---- the view for vkshare ps ---- */

static void inspect_fence(const vks_fence_page *page, vks_page_view *out)
{
    out->owner_pid = vks_identity_pid(page->owner);
    out->state = atomic_load(&page->status);
    out->queued = atomic_load(&page->queued);
    out->completed = atomic_load(&page->completed);
    out->n_slots = 1;
    out->slots[0].pid = out->owner_pid;
    memcpy(out->slots[0].name, page->name, VKS_NAME_SIZE - 1);
}

static void inspect_mutex(const vks_mutex_page *page, vks_page_view *out)
{
    uint64_t word = atomic_load(&page->word);
    out->state = word & 3;
    out->owner_slot = (uint32_t)(word >> 4 & 0xff);
    out->epoch = word >> 12;
    out->key = atomic_load(&page->key);
    out->value = atomic_load(&page->value);
    out->queued = atomic_load(&page->queued);
    out->completed = atomic_load(&page->completed);
    if (!atomic_load(&page->signaller) && out->completed < out->value) /* hand-overs without work do not raise it */
        out->completed = out->value;
    out->generation = atomic_load(&page->generation);
    for (uint32_t i = 0; i < VKS_SLOTS; i++) {
        const vks_slot *slot = &page->slots[i];
        uint32_t pid = vks_identity_pid(atomic_load(&slot->identity));
        if (!pid)
            continue;
        if (out->state == 1 && i == out->owner_slot)
            out->owner_pid = pid;
        vks_slot_view *view = &out->slots[out->n_slots++];
        view->slot = i;
        view->pid = pid;
        memcpy(view->name, slot->name, VKS_NAME_SIZE - 1);
        view->pending_value = atomic_load(&slot->pending_value);
        view->waiting_since = atomic_load(&slot->waiting_since);
        view->waiting = view->waiting_since != 0;
        view->waiting_key = atomic_load(&slot->waiting_key);
    }
}

vks_status vks_page_inspect(int fd, vks_page_view *out)
{
    VKS_NEEDS(out);
    memset(out, 0, sizeof *out);
    void *map;
    vks_status status = vks_memfd_map(fd, sizeof(vks_page_header), false, &map);
    if (status)
        return status;
    vks_page_header header = *(const vks_page_header *)map;
    munmap(map, sizeof(vks_page_header));
    if (header.kind != VKS_PAGE_FENCE && header.kind != VKS_PAGE_MUTEX)
        return vks_fail(VKS_BAD_PAGE, 0, "the page is of the unknown kind %u", header.kind);
    if ((status = vks_page_check(&header, header.kind, size_of(header.kind))) ||
        (status = vks_memfd_map(fd, size_of(header.kind), false, &map)))
        return status;
    out->kind = header.kind;
    out->version = header.version;
    out->id = header.id;
    out->width = header.width;
    out->height = header.height;
    out->format = header.format;
    out->color = header.color;
    if (header.kind == VKS_PAGE_FENCE)
        inspect_fence(map, out);
    else
        inspect_mutex(map, out);
    munmap(map, size_of(header.kind));
    return VKS_OK;
}
