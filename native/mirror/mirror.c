/* mirror.c: turns of a surface that has an image on each of two adapters (rules G1 and G2).
 *
 * Versions are the epochs of the keyed mutex, which grow with each release. The image of the other
 * adapter has the version of the last release, always; the mirror's has the version `seen`.
 */
#include "mirror/mirror.h"

#include <sched.h>
#include <stdlib.h>

#include "surface/surface.h"

typedef enum turn {
    FREE,
    PULLING, /* the surface is owned, and the copy of what others changed was begun at most */
    OWNED
} turn;

struct vks_mirror {
    _Atomic uint32_t references;
    uint32_t process;
    _Atomic bool is_busy; /* a thread is in a call of a turn */
    _Atomic bool is_closed, is_copying;
    vks_device *home; /* of the other adapter, this mirror's alone; NULL: the device opened the memory itself */
    vks_mirror_side other, own; /* `own` is empty without a home */
    turn turn;
    vks_box pending;      /* of PULLING; empty: nothing is to be copied */
    bool is_fetched;      /* the copy that this turn is at has begun */
    uint64_t key;         /* under which a failed acquire hands the surface back */
    bool hands_back;      /* false: the turn began with recover(), so a failure abandons it */
    uint64_t epoch, seen; /* of the turn; of the mirror's image. 0: not known */
    _Atomic uint64_t pulls, pushes, pulled_bytes, pushed_bytes;
};

/* ---- making --------------------------------------------------------------------------------------------------- */

static vks_status open_home(const vks_device *device, const vks_surface_body *body, vks_device **out)
{
    vks_status status;
    if (body->memory_kind == VKS_MEMFD)
        status = vks_device_create(&(vks_device_info){.name = device->name}, out);
    else
        status = vks_device_open_vulkan(
            &(vks_open_info){.name = device->name, .device_uuid = body->device_uuid, .driver_uuid = body->driver_uuid},
            out);
    if (status == VKS_UNSUPPORTED)
        return vks_fail(VKS_FOREIGN_DEVICE, 0,
                        "the surface was made on another device or driver, which is no adapter of this process "
                        "(vks_adapters() lists them), so that its pixels cannot be read");
    return status;
}

static vks_status open_own(vks_mirror *mirror, vks_device *device, const vks_surface_body *body)
{
    vks_surface *surface;
    vks_image_info info = {.width = body->width,
                           .height = body->height,
                           .format = body->format,
                           .tiling = device->timeline ? VKS_OPTIMAL : VKS_LINEAR,
                           .usage = body->usage | VKS_USAGE_COPY,
                           .color = body->color};
    vks_status status = vks_surface_create_image(device, &info, &surface);
    if (status)
        return status;
    surface->is_mirrored = true;
    return vks_mirror_side_open(&mirror->own, surface);
}

/* An image of each adapter. */
static vks_status open_both(vks_mirror *mirror, vks_device *device, const vks_surface_descriptor *descriptor)
{
    vks_surface *surface;
    vks_status status = open_home(device, &descriptor->body, &mirror->home);
    if (status)
        mirror->home = NULL;
    if (status || (status = vks_surface_open_image(mirror->home, descriptor, &surface)) ||
        (status = vks_mirror_side_open(&mirror->other, surface)))
        return status;
    return open_own(mirror, device, &descriptor->body);
}

static vks_status open_sides(vks_mirror *mirror, vks_device *device, const vks_surface_descriptor *descriptor)
{
    vks_status status = vks_surface_open_image(device, descriptor, &mirror->other.surface);
    if (!status)
        return VKS_OK;
    mirror->other.surface = NULL;
    if (status != VKS_FOREIGN_DEVICE && status != VKS_UNSUPPORTED)
        return status;
    vks_clear_error();
    return open_both(mirror, device, descriptor);
}

vks_status vks_device_mirror(vks_device *device, const vks_surface_descriptor *descriptor, vks_mirror **out)
{
    VKS_NEEDS(device, descriptor, out);
    vks_status status = vks_device_check(device);
    if (status)
        return status;
    if (descriptor->body.tiling == VKS_BUFFER)
        return vks_fail(VKS_BAD_PAGE, VKS_BUFFER, "the descriptor is a buffer's: vks_buffer_open() opens it");
    vks_mirror *mirror = calloc(1, sizeof *mirror);
    if (!mirror)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a mirror");
    mirror->references = 1;
    mirror->process = vks_process;
    if ((status = open_sides(mirror, device, descriptor))) {
        vks_error error = *vks_last_error();
        vks_mirror_unref(mirror); /* the ends of the parts may leave texts of their own */
        vks_clear_error();
        return error.status == status ? vks_fail(status, error.code, "%s", error.text) : status;
    }
    *out = mirror;
    return VKS_OK;
}

/* ---- a turn ---------------------------------------------------------------------------------------------------- */

static vks_status enter(vks_mirror *mirror)
{
    if (mirror->process != vks_process)
        return VKS_FORKED;
    if (mirror->is_closed)
        return VKS_CLOSED;
    return atomic_exchange(&mirror->is_busy, true)
               ? vks_fail(VKS_BAD_CALL, 0, "another thread is in a call of this mirror, which is for one at a time")
               : VKS_OK;
}

/* Without its device the mirror can neither copy nor give the surface on, which is abandoned then. */
static vks_status leave(vks_mirror *mirror, vks_status status)
{
    atomic_store(&mirror->is_busy, false);
    if (status == VKS_CLOSED || status == VKS_DEVICE_LOST)
        vks_mirror_close(mirror);
    return status;
}

static vks_box whole(const vks_mirror *mirror)
{
    return (vks_box){0, 0, mirror->other.surface->width, mirror->other.surface->height};
}

static bool is_empty(const vks_box *box) { return !box->width || !box->height; }

/* Boxes of planes are in pixels of luma, and may be no whole pixels of chroma. */
static vks_box to_copy(const vks_mirror *mirror, const vks_box *box)
{
    return is_empty(box) || !vks_planar_format(mirror->other.surface->format) ? *box : whole(mirror);
}

/* Copies the box from one image to the other. After VKS_INTERRUPTED the next call goes on with it. */
static vks_status try_copy(vks_mirror *mirror, vks_mirror_side *from, vks_mirror_side *to, const vks_box *box,
                           uint64_t deadline, uint64_t *nbytes)
{
    vks_status status = mirror->is_fetched ? VKS_OK : vks_mirror_side_fetch(from, box, deadline);
    mirror->is_fetched = !status;
    if (status || (status = vks_mirror_side_wait(from, deadline)) || (status = vks_mirror_side_wait(to, deadline)))
        return status;
    *nbytes = 0;
    mirror->is_copying = true; /* before the look: a close waits for the copy, and abandons the surface then */
    status = mirror->is_closed ? VKS_CLOSED : vks_mirror_copy(from, to, box, nbytes);
    mirror->is_copying = false;
    return status ? status : vks_mirror_side_store(to, box, deadline);
}

static vks_status copy(vks_mirror *mirror, vks_mirror_side *from, vks_mirror_side *to, const vks_box *box,
                       uint64_t deadline, uint64_t *nbytes)
{
    vks_status status = try_copy(mirror, from, to, box, deadline, nbytes);
    mirror->is_fetched &= status == VKS_INTERRUPTED;
    return status;
}

static void forget(vks_mirror *mirror) { mirror->seen = mirror->epoch = 0; }

/* This mirror's own image, which no other party knows. Its handle refuses other calls. */
static vks_status acquire_own(vks_mirror *mirror)
{
    vks_surface *own = mirror->own.surface;
    own->is_mirrored = false;
    vks_status status = vks_surface_acquire(own, 0, 0);
    own->is_mirrored = true;
    return status;
}

/* Ends a turn of it. Work that failed has spoilt it, and the next turn copies all of it. */
static void free_own(vks_mirror *mirror)
{
    vks_surface *own = mirror->own.surface;
    mirror->is_fetched = false;
    mirror->turn = FREE;
    if (!mirror->home)
        return;
    own->is_mirrored = false;
    if (vks_surface_release(own, 0) == VKS_ABANDONED) {
        forget(mirror);
        if (!vks_mirror_mend(own))
            vks_surface_release(own, 0);
    }
    own->is_mirrored = true;
}

/* Ends a turn whose pixels are lost: the next owner gets VKS_ABANDONED. */
static void abandon(vks_mirror *mirror)
{
    vks_mutex_poison(mirror->other.surface->handle.page);
    vks_surface_release(mirror->other.surface, 0);
    forget(mirror);
    free_own(mirror);
}

/* Gives the surface back as it was acquired. */
static vks_status hand_back(vks_mirror *mirror, uint64_t key)
{
    static const vks_box nothing;
    vks_error error = *vks_last_error();
    vks_surface_set_damage(mirror->other.surface, &nothing);
    vks_status status = vks_surface_release(mirror->other.surface, key);
    forget(mirror);
    free_own(mirror);
    vks_clear_error();
    if (error.status)
        vks_fail(error.status, error.code, "%s", error.text);
    return status;
}

/* The surface was granted. */
static vks_status begin(vks_mirror *mirror)
{
    vks_turn found;
    mirror->turn = mirror->home ? PULLING : OWNED;
    mirror->pending = whole(mirror);
    if (!mirror->home)
        return VKS_OK;
    vks_status status = acquire_own(mirror);
    if (status || (status = vks_surface_get_turn(mirror->other.surface, mirror->seen, &found)))
        return status;
    mirror->epoch = found.epoch;
    if (mirror->seen && mirror->seen == found.epoch)
        mirror->pending = (vks_box){0};
    else if (mirror->seen && found.is_known)
        mirror->pending = to_copy(mirror, &found.changed);
    return VKS_OK;
}

static vks_status pull(vks_mirror *mirror, uint64_t deadline)
{
    if (!is_empty(&mirror->pending)) {
        uint64_t nbytes;
        vks_status status = copy(mirror, &mirror->other, &mirror->own, &mirror->pending, deadline, &nbytes);
        if (status)
            return status;
        mirror->pulls++;
        mirror->pulled_bytes += nbytes;
    }
    mirror->turn = OWNED;
    return VKS_OK;
}

static vks_status begin_or_go_on(vks_mirror *mirror, uint64_t deadline)
{
    vks_status status = mirror->turn == FREE ? begin(mirror) : VKS_OK;
    if (!status && mirror->turn == PULLING)
        status = pull(mirror, deadline);
    if (!status || status == VKS_INTERRUPTED)
        return status;
    if (mirror->hands_back)
        hand_back(mirror, mirror->key);
    else
        abandon(mirror);
    return status;
}

vks_status vks_mirror_acquire(vks_mirror *mirror, uint64_t key, uint64_t deadline)
{
    VKS_NEEDS(mirror);
    vks_status status = enter(mirror);
    if (status)
        return status;
    if (mirror->turn == OWNED)
        return leave(mirror, VKS_ALREADY_OWNER);
    if (mirror->turn == PULLING && mirror->hands_back && mirror->key != key)
        hand_back(mirror, mirror->key); /* another acquire than the one that was interrupted */
    if (mirror->turn == FREE) {
        if ((status = vks_surface_acquire(mirror->other.surface, key, deadline)))
            return leave(mirror, status);
        mirror->key = key;
        mirror->hands_back = true;
    }
    return leave(mirror, begin_or_go_on(mirror, deadline));
}

vks_status vks_mirror_recover(vks_mirror *mirror, uint64_t deadline)
{
    VKS_NEEDS(mirror);
    vks_status status = enter(mirror);
    if (status)
        return status;
    if (mirror->turn == PULLING && mirror->hands_back)
        return leave(mirror, VKS_NOT_ABANDONED);
    if (mirror->turn != PULLING) {
        if ((status = vks_surface_recover(mirror->other.surface, deadline)))
            return leave(mirror, status);
        forget(mirror);
        if (mirror->turn == OWNED)
            free_own(mirror);
        mirror->hands_back = false;
    }
    return leave(mirror, begin_or_go_on(mirror, deadline));
}

static vks_status check_damage(const vks_mirror *mirror, const vks_box *box)
{
    vks_box all = whole(mirror);
    return box->x <= all.width && box->y <= all.height && box->width <= all.width - box->x &&
                   box->height <= all.height - box->y
               ? VKS_OK
               : vks_fail(VKS_BAD_VALUE, 0, "the damage is %ux%u at %u, %u, and the surface is %ux%u", box->width,
                          box->height, box->x, box->y, all.width, all.height);
}

static vks_status push(vks_mirror *mirror, const vks_box *damage, uint64_t deadline)
{
    vks_box box = damage ? to_copy(mirror, damage) : whole(mirror);
    if (!mirror->home || is_empty(&box))
        return VKS_OK;
    uint64_t nbytes;
    vks_status status = copy(mirror, &mirror->own, &mirror->other, &box, deadline, &nbytes);
    if (status)
        return status;
    mirror->pushes++;
    mirror->pushed_bytes += nbytes;
    return VKS_OK;
}

static vks_status release(vks_mirror *mirror, uint64_t key, const vks_box *damage, uint64_t deadline)
{
    vks_surface *surface = mirror->other.surface;
    const vks_box all = whole(mirror);
    vks_status status = push(mirror, damage, deadline);
    if (status == VKS_ABANDONED) /* work on the image has failed */
        abandon(mirror);
    if (status || (status = vks_surface_set_damage(surface, damage ? damage : &all)))
        return status;
    status = vks_surface_release(surface, key);
    if (status && vks_surface_is_owned(surface))
        return status;
    mirror->seen = status ? 0 : mirror->epoch + 1;
    free_own(mirror);
    return status;
}

vks_status vks_mirror_release(vks_mirror *mirror, uint64_t key, const vks_box *damage, uint64_t deadline)
{
    VKS_NEEDS(mirror);
    vks_status status = enter(mirror);
    if (status)
        return status;
    if (damage && (status = check_damage(mirror, damage)))
        return leave(mirror, status);
    if (mirror->turn == PULLING) /* its acquire was interrupted, and is given up */
        return leave(mirror, hand_back(mirror, key));
    status =
        mirror->turn == OWNED ? release(mirror, key, damage, deadline) : vks_surface_not_owned(mirror->other.surface);
    return leave(mirror, status);
}

/* ---- properties and end ---------------------------------------------------------------------------------------- */

vks_surface *vks_mirror_surface(const vks_mirror *mirror)
{
    VKS_NEEDS_OR(NULL, mirror);
    return mirror->home ? mirror->own.surface : mirror->other.surface;
}

vks_surface *vks_mirror_party(const vks_mirror *mirror)
{
    VKS_NEEDS_OR(NULL, mirror);
    return mirror->other.surface;
}

void vks_mirror_get_statistics(const vks_mirror *mirror, vks_mirror_statistics *out)
{
    VKS_NEEDS_OR(, mirror, out);
    *out = (vks_mirror_statistics){mirror->pulls, mirror->pushes, mirror->pulled_bytes, mirror->pushed_bytes};
}

void vks_mirror_close(vks_mirror *mirror)
{
    VKS_NEEDS_OR(, mirror);
    if (mirror->process != vks_process || atomic_exchange(&mirror->is_closed, true))
        return;
    while (mirror->is_copying) /* another thread writes pixels, which no other party may have before */
        sched_yield();
    vks_mirror_side_close(&mirror->own);
    vks_mirror_side_close(&mirror->other);
    if (mirror->home)
        vks_device_shutdown(mirror->home);
}

void vks_mirror_ref(vks_mirror *mirror)
{
    VKS_NEEDS_OR(, mirror);
    atomic_fetch_add_explicit(&mirror->references, 1, memory_order_relaxed);
}

void vks_mirror_unref(vks_mirror *mirror)
{
    VKS_NEEDS_OR(, mirror);
    if (atomic_fetch_sub(&mirror->references, 1) != 1)
        return;
    vks_mirror_close(mirror);
    vks_mirror_side_free(&mirror->own);
    vks_mirror_side_free(&mirror->other);
    if (mirror->home)
        vks_device_unref(mirror->home);
    free(mirror);
}
