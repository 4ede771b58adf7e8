/* damage.c: the damage of the last turns, in the page that the parties share. */
#include "shm/damage.h"

static uint64_t epoch_of(const vks_mutex_handle *handle) { return vks_word_epoch(atomic_load(&handle->page->word)); }

static uint64_t pair(uint32_t low, uint32_t high) { return (uint64_t)high << 32 | low; }

void vks_mutex_set_damage(const vks_mutex_handle *handle, vks_box box)
{
    uint64_t epoch = epoch_of(handle) + 1;
    vks_damage *entry = &handle->page->damage[epoch % VKS_DAMAGES];
    atomic_store(&entry->epoch, 0); /* an owner that is killed here has said nothing */
    atomic_store(&entry->place, pair(box.x, box.y));
    atomic_store(&entry->extent, pair(box.width, box.height));
    atomic_store(&entry->epoch, epoch);
}

static uint32_t end(uint32_t start, uint32_t length)
{
    return length > UINT32_MAX - start ? UINT32_MAX : start + length;
}

static void unite(vks_box *box, vks_box other)
{
    if (!other.width || !other.height)
        return;
    if (!box->width || !box->height) {
        *box = other;
        return;
    }
    uint32_t right = end(box->x, box->width), bottom = end(box->y, box->height);
    uint32_t other_right = end(other.x, other.width), other_bottom = end(other.y, other.height);
    box->x = other.x < box->x ? other.x : box->x;
    box->y = other.y < box->y ? other.y : box->y;
    box->width = (other_right > right ? other_right : right) - box->x;
    box->height = (other_bottom > bottom ? other_bottom : bottom) - box->y;
}

bool vks_mutex_get_damage(const vks_mutex_handle *handle, uint64_t since, vks_box *out)
{
    uint64_t now = epoch_of(handle);
    vks_box box = {0};
    if (since > now || now - since > VKS_DAMAGES)
        return false;
    for (uint64_t epoch = since + 1; epoch <= now; epoch++) {
        const vks_damage *entry = &handle->page->damage[epoch % VKS_DAMAGES];
        uint64_t place = atomic_load(&entry->place), extent = atomic_load(&entry->extent);
        if (atomic_load(&entry->epoch) != epoch)
            return false;
        unite(&box, (vks_box){(uint32_t)place, (uint32_t)(place >> 32), (uint32_t)extent, (uint32_t)(extent >> 32)});
    }
    *out = box;
    return true;
}
