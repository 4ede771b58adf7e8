/* turn.c: what a turn changes, and what others changed before it. */
#include "shm/damage.h"
#include "surface/surface.h"

static bool is_granted(const vks_surface *surface)
{
    return (surface->owned || surface->is_external) && surface->has_page && !surface->pending;
}

static bool is_inside(const vks_surface *surface, const vks_box *box)
{
    return box->x <= surface->width && box->width <= surface->width - box->x && box->y <= surface->height &&
           box->height <= surface->height - box->y;
}

vks_status vks_surface_set_damage(vks_surface *surface, const vks_box *box)
{
    VKS_NEEDS(surface, box);
    if (!is_inside(surface, box))
        return vks_fail(VKS_BAD_VALUE, 0, "the box of %ux%u at (%u, %u) is not inside the surface of %ux%u", box->width,
                        box->height, box->x, box->y, surface->width, surface->height);
    pthread_mutex_lock(&surface->device->lock);
    vks_status status = vks_surface_check(surface);
    if (!status && !is_granted(surface))
        status = vks_surface_not_owned(surface);
    if (!status)
        vks_mutex_set_damage(&surface->handle, *box);
    pthread_mutex_unlock(&surface->device->lock);
    return status;
}

static vks_box inside(const vks_surface *surface, vks_box box)
{
    box.x = box.x < surface->width ? box.x : surface->width;
    box.y = box.y < surface->height ? box.y : surface->height;
    box.width = box.width < surface->width - box.x ? box.width : surface->width - box.x;
    box.height = box.height < surface->height - box.y ? box.height : surface->height - box.y;
    return box;
}

vks_status vks_surface_get_turn(vks_surface *surface, uint64_t since, vks_turn *out)
{
    VKS_NEEDS(surface, out);
    *out = (vks_turn){0};
    pthread_mutex_lock(&surface->device->lock);
    vks_status status = vks_surface_check(surface);
    if (!status && !surface->pending && !is_granted(surface))
        status = vks_surface_not_owned(surface);
    if (!status)
        out->writes = surface->writes;
    if (!status && is_granted(surface)) {
        out->is_granted = true;
        out->epoch = vks_word_epoch(atomic_load(&surface->handle.page->word));
        out->is_known = vks_mutex_get_damage(&surface->handle, since, &out->changed);
        out->changed = inside(surface, out->changed); /* another process has written it */
    }
    pthread_mutex_unlock(&surface->device->lock);
    return status;
}
