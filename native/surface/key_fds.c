/* key_fds.c: fds that are readable when an acquire with their key would not wait. */
#include <stdlib.h>

#include "os/ready_fd.h"
#include "surface/surface.h"

/* The watcher's thread, not one of this surface, waits for the page: all keys of a surface share the
 * word `seq`. A readable fd is not watched, because an acquire changes no word that a thread could
 * sleep on. So an acquire of another party leaves it readable, and the next try of this handle,
 * which fails, corrects it. */
struct vks_key_fd {
    vks_key_fd *next;
    uint64_t key;
    vks_ready_fd ready;
};

static bool is_ready(const vks_surface *surface, uint64_t key)
{
    if (vks_surface_check(surface))
        return true; /* the acquire reports it */
    if (vks_surface_is_owned_or_pending(surface) || surface->held_acquires || surface->has_page)
        return false; /* also where an acquire would be refused: a loop must not turn while the surface is owned */
    const vks_mutex_page *page = surface->handle.page;
    uint64_t word = atomic_load(&page->word);
    if (vks_word_state(word) == VKS_ABANDONED_STATE ||
        atomic_load(&page->generation) != atomic_load(&surface->handle.generation))
        return true;
    return vks_word_state(word) == VKS_FREE && atomic_load(&page->key) == key;
}

/* Sets all fds, and returns whether each is readable. `always`: they are, whatever the page says. */
static bool set_all(vks_surface *surface, bool always)
{
    bool all = true;
    for (vks_key_fd *each = surface->key_fds; each; each = each->next) {
        bool ready = always || is_ready(surface, each->key);
        vks_ready_fd_set(&each->ready, ready);
        all &= ready;
    }
    return all;
}

static void fire(void *owner)
{
    vks_surface *surface = owner;
    pthread_mutex_lock(&surface->device->lock);
    vks_surface_update_fds(surface);
    pthread_mutex_unlock(&surface->device->lock);
}

void vks_surface_update_fds(vks_surface *surface)
{
    if (!surface->key_fds || set_all(surface, false))
        return;
    vks_mutex_page *page = surface->handle.page;
    vks_watch word = {&page->seq, atomic_load(&page->seq)};
    for (vks_key_fd *each = surface->key_fds; each; each = each->next)
        vks_mutex_prepare_wait(page, each->key);
    /* Without a thread that watches, a loop that polls is better than one that hangs. */
    if (vks_peers_watch_page(&surface->mapping))
        set_all(surface, true);
    else if (!set_all(surface, false) && vks_watcher_set(surface, fire, &word, 1))
        set_all(surface, true);
}

void vks_surface_acquire_failed(vks_surface *surface, vks_status status)
{
    if (surface->key_fds && status != VKS_FORKED) /* a forked child must not take the lock */
        fire(surface);
}

static vks_key_fd *find(const vks_surface *surface, uint64_t key)
{
    vks_key_fd *found = surface->key_fds;
    while (found && found->key != key)
        found = found->next;
    return found;
}

static vks_status add(vks_surface *surface, uint64_t key, vks_key_fd **out)
{
    vks_status status = vks_surface_check(surface);
    if (status || (status = vks_surface_refuse_managed(surface)))
        return status;
    vks_key_fd *made = calloc(1, sizeof *made);
    if (!made)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a file descriptor");
    if ((status = vks_ready_fd_open(&made->ready))) {
        free(made);
        return status;
    }
    made->key = key;
    made->next = surface->key_fds;
    surface->key_fds = *out = made;
    surface->was_watched = true;
    vks_surface_update_fds(surface);
    return VKS_OK;
}

vks_status vks_surface_acquire_fd(vks_surface *surface, uint64_t key, int *fd)
{
    VKS_NEEDS(surface, fd);
    *fd = -1;
    if (surface->process != vks_process)
        return VKS_FORKED;
    pthread_mutex_lock(&surface->device->lock);
    vks_key_fd *found = find(surface, key);
    vks_status status = found ? VKS_OK : add(surface, key, &found);
    if (!status)
        *fd = found->ready.fd;
    pthread_mutex_unlock(&surface->device->lock);
    return status;
}

void vks_surface_close_acquire_fd(vks_surface *surface, uint64_t key)
{
    VKS_NEEDS_OR(, surface);
    if (surface->process != vks_process)
        return;
    pthread_mutex_lock(&surface->device->lock);
    vks_key_fd *found = find(surface, key), *first = surface->key_fds, **link = &first;
    while (*link != found)
        link = &(*link)->next;
    if (found)
        *link = found->next;
    surface->key_fds = first;
    pthread_mutex_unlock(&surface->device->lock);
    if (found) {
        vks_ready_fd_close(&found->ready);
        free(found);
    }
}

void vks_surface_close_fds(vks_surface *surface)
{
    for (vks_key_fd *each = surface->key_fds, *next; each; each = next) {
        next = each->next;
        vks_ready_fd_close(&each->ready);
        free(each);
    }
}
