/* network.c: a surface of a network of queues, whose pairs carry the ownership. */
#include "surface/surface.h"

vks_status vks_surface_join(vks_surface *surface, uint64_t network, uint32_t index)
{
    VKS_NEEDS(surface);
    pthread_mutex_lock(&surface->device->lock);
    vks_status status = vks_surface_check(surface);
    if (!status &&
        (surface->network || vks_surface_is_owned_or_pending(surface) || surface->has_page || surface->is_presentable))
        status = vks_fail(VKS_BAD_CALL, 0, "a queue's surface must be new and unowned");
    if (!status) {
        surface->network = network;
        surface->index = index;
    }
    pthread_mutex_unlock(&surface->device->lock);
    return status;
}

/* The ring orders the owners, so one key is enough. */
#define QUEUE_KEY 0

vks_status vks_surface_acquire_epoch(vks_surface *surface, uint64_t epoch)
{
    vks_status status = vks_surface_try(surface, QUEUE_KEY, &epoch);
    if (status != VKS_TIMEOUT || vks_surface_was_reacquired(surface, epoch))
        return status;
    vks_peers_watch_page(&surface->mapping); /* an earlier consumer may just have died as its owner */
    return vks_surface_try(surface, QUEUE_KEY, &epoch);
}

vks_status vks_surface_release_epoch(vks_surface *surface, uint64_t *value)
{
    const vks_mutex_page *page = surface->handle.page;
    vks_status status = vks_surface_release_as(surface, QUEUE_KEY, true);
    /* No party acquires it before the commit, so the page still has this release's values. */
    *value = atomic_load_explicit(&page->signaller, memory_order_relaxed)
                 ? atomic_load_explicit(&page->value, memory_order_relaxed)
                 : 0;
    return status;
}

uint64_t vks_surface_epoch_after_release(const vks_surface *surface)
{
    return vks_word_epoch(atomic_load(&surface->handle.page->word)) + 1;
}

bool vks_surface_was_released(const vks_surface *surface, uint64_t epoch)
{
    uint64_t word = atomic_load(&surface->handle.page->word);
    return vks_word_state(word) == VKS_FREE && vks_word_epoch(word) == epoch;
}

bool vks_surface_was_reacquired(const vks_surface *surface, uint64_t epoch)
{
    uint64_t word = atomic_load(&surface->handle.page->word);
    return vks_word_epoch(word) > epoch + (vks_word_state(word) == VKS_ABANDONED_STATE);
}

bool vks_surface_is_abandoned(const vks_surface *surface)
{
    return vks_word_state(atomic_load(&surface->handle.page->word)) == VKS_ABANDONED_STATE;
}

vks_status vks_surface_wait_released(vks_surface *surface, uint64_t value, uint64_t deadline)
{
    vks_wait_point wait_point = {value, surface->handle.identity, surface->handle.slot};
    vks_status status = vks_surface_check(surface);
    if (status || vks_wait_point_is_complete(surface, &wait_point))
        return status;
    uint64_t newest = atomic_load(&surface->handle.page->value); /* the highest value announced by any party */
    if (value > newest)
        return vks_fail(VKS_BAD_PAGE, 0, "the surface is to come with the value %llu, and %llu is its newest",
                        (unsigned long long)value, (unsigned long long)newest);
    atomic_fetch_add(&surface->waiting, 1);
    pthread_mutex_lock(&surface->device->lock);
    vks_device_publish(surface->device);
    pthread_mutex_unlock(&surface->device->lock);
    status = vks_wait_point_wait(surface, &wait_point, deadline);
    atomic_fetch_sub(&surface->waiting, 1);
    return status == VKS_ABANDONED ? VKS_OK : status; /* the next owner's acquire reports it */
}
