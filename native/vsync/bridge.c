/* bridge.c: see bridge.h. */
#include "vsync/bridge.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/memory.h"
#include "shm/page.h"
#include "peers/peers.h"
#include "os/watcher.h"
#include "vsync/display_state.h"

typedef struct vks_vsync_page {
    vks_page_header header;
    vks_mailbox mailbox;
} vks_vsync_page;

_Static_assert(sizeof(vks_page_header) == 64, "the mailbox begins on a cache line");

#define PAGE_SIZE 4096u

struct vks_bridge {
    vks_vsync_page *page;
    int fd;
    uint32_t process;
    vks_observer *observer;
    vks_mapping mapping;     /* notified of the reader's death */
    _Atomic uint64_t reader; /* the first identity in the page; later values are ignored */
    _Atomic bool is_attending, is_closed;
};

/* ---- the writer's end ---- */

/* Called on the watcher's thread after the reader has changed `wanted`. */
static void on_wanted_changed(void *pointer)
{
    vks_bridge *bridge = pointer;
    vks_mailbox *mailbox = &bridge->page->mailbox;
    uint32_t wanted = atomic_load(&mailbox->wanted);
    uint64_t none = 0, reader = atomic_load(&mailbox->reader) & VKS_IDENTITY_MASK;
    atomic_compare_exchange_strong(&bridge->reader, &none, reader);
    bool attends = wanted == 1 && vks_bridge_has_reader(bridge);
    atomic_store(&bridge->is_attending, attends);
    if (attends)
        vks_observer_attend(bridge->observer);
    else
        vks_observer_rest(bridge->observer);
    if (!atomic_load(&bridge->is_closed))
        vks_watcher_set(bridge, on_wanted_changed, &(vks_watch){&mailbox->wanted, wanted}, 1);
}

/* Called on the peers' thread after a process has died. */
static void on_process_died(void *pointer)
{
    vks_bridge *bridge = pointer;
    if (atomic_load(&bridge->reader) && !vks_bridge_has_reader(bridge)) {
        atomic_store(&bridge->is_attending, false);
        vks_observer_close(bridge->observer);
    }
}

static vks_status make_page(vks_bridge *bridge)
{
    void *map;
    vks_status status = vks_memfd_create("vkshare-vsync", PAGE_SIZE, false, &bridge->fd, &map);
    if (status)
        return status;
    bridge->page = map;
    vks_page_init(&bridge->page->header, VKS_PAGE_VSYNC, PAGE_SIZE);
    return VKS_OK;
}

static void free_bridge(vks_bridge *bridge)
{
    if (bridge->observer)
        vks_observer_destroy(bridge->observer);
    if (bridge->page)
        munmap(bridge->page, PAGE_SIZE);
    if (bridge->fd >= 0)
        close(bridge->fd);
    free(bridge);
}

vks_status vks_bridge_create(vks_dispatcher *dispatcher, vks_bridge **out)
{
    vks_bridge *bridge = calloc(1, sizeof *bridge);
    if (!bridge)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a bridge");
    vks_platform_init();
    bridge->fd = -1;
    bridge->process = vks_process;
    bridge->mapping = (vks_mapping){.party = &bridge->reader, .on_death = on_process_died, .user = bridge};
    vks_status status = make_page(bridge);
    if (!status)
        status = vks_observer_create(dispatcher, &bridge->page->mailbox, &bridge->observer);
    if (!status) {
        vks_peers_add(&bridge->mapping);
        status = vks_watcher_set(bridge, on_wanted_changed, &(vks_watch){&bridge->page->mailbox.wanted, 0}, 1);
        if (status)
            vks_peers_remove(&bridge->mapping);
    }
    if (status) {
        free_bridge(bridge);
        return status;
    }
    *out = bridge;
    return VKS_OK;
}

int vks_bridge_fd(const vks_bridge *bridge) { return bridge->fd; }

bool vks_bridge_has_reader(const vks_bridge *bridge)
{
    uint64_t reader = atomic_load(&bridge->reader);
    return bridge->process == vks_process && reader && vks_peer_alive(reader);
}

bool vks_bridge_is_attending(const vks_bridge *bridge) { return atomic_load(&bridge->is_attending); }

void vks_bridge_close(vks_bridge *bridge)
{
    if (bridge->process != vks_process || atomic_exchange(&bridge->is_closed, true))
        return;
    vks_watcher_remove(bridge);
    vks_peers_remove(&bridge->mapping);
    atomic_store(&bridge->is_attending, false);
    vks_observer_close(bridge->observer);
}

void vks_bridge_destroy(vks_bridge *bridge)
{
    vks_bridge_close(bridge);
    if (bridge->process == vks_process)
        free_bridge(bridge);
}

/* ---- the reader's end ---- */

struct vks_bridge_end {
    vks_vsync_page *page;
    vks_display *display;
    uint32_t process;
};

vks_status vks_bridge_open(vks_display *display, int fd, vks_bridge_end **out)
{
    void *map;
    vks_status status = vks_page_open_sized(fd, VKS_PAGE_VSYNC, PAGE_SIZE, &map);
    if (status)
        return status;
    vks_bridge_end *end = calloc(1, sizeof *end);
    if (end) {
        *end = (vks_bridge_end){.page = map, .display = display, .process = vks_process};
        atomic_store(&end->page->mailbox.reader, vks_self()); /* before it requests ticks */
        uint32_t source;
        status = vks_display_set_source(display, VKS_TICK_SOFTWARE, &end->page->mailbox, &source);
    } else {
        status = vks_fail(VKS_NO_MEMORY, 0, "no memory for a bridge's end");
    }
    if (status) {
        munmap(map, PAGE_SIZE);
        free(end);
        return status;
    }
    atomic_fetch_add(&display->references, 1);
    *out = end;
    return VKS_OK;
}

void vks_bridge_leave(vks_bridge_end *end)
{
    if (end->process != vks_process)
        return;
    vks_display_drop_mailbox(end->display, &end->page->mailbox);
    vks_display_unref(end->display);
    munmap(end->page, PAGE_SIZE);
    free(end);
}

/* ---- the descriptor ---- */

static vks_status check_descriptor(const void *body, size_t size, const int *fds, size_t n_fds)
{
    (void)body, (void)size;
    return n_fds == 1 ? vks_memfd_check(fds[0], "shared page", VKS_MEMFD_WRITE, 0)
                      : vks_fail(VKS_BAD_PAGE, 0, "a bridge's descriptor carries 1 fd, and %zu came", n_fds);
}

const vks_message_form *vks_vsync_form(void)
{
    static const vks_message_form form = {.name = "VsyncDescriptor",
                                          .kind = 4, /* after those of vks_descriptor_kind */
                                          .most_fds = VKS_DESCRIPTOR_MAX_FDS,
                                          .body_size = sizeof(vks_vsync_body),
                                          .check = check_descriptor};
    return &form;
}
