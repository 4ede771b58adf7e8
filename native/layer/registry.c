/* registry.c: the instances and devices that go through the layer.
 *
 * Every dispatchable handle begins with a pointer of the loader's, which is the same for an instance
 * and its physical devices, and for a device, its queues and its command buffers. Look-ups are on the
 * path of each wrapped call: they take no lock. An entry is freed when its object ends, because no
 * thread may use that object then.
 */
#include <stdlib.h>

#include "layer/layer.h"

enum { PLACES = 1024 };

static _Atomic(layer_instance *) instances[PLACES];
static _Atomic(layer_device *) devices[PLACES];

static size_t place(const void *key) { return ((uintptr_t)key >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 54; }

/* Another object's entry may lie between, so a search ends only after all places; most end at once. */
#define REGISTRY(type, table)                                                                                          \
    layer_##type *layer_##type##_of(const void *dispatchable)                                                          \
    {                                                                                                                  \
        void *key = *(void *const *)dispatchable;                                                                      \
        for (size_t i = 0, at = place(key); i < PLACES; i++, at = (at + 1) % PLACES) {                                 \
            layer_##type *found = atomic_load_explicit(&table[at], memory_order_acquire);                              \
            if (found && found->key == key)                                                                            \
                return found;                                                                                          \
        }                                                                                                              \
        return NULL;                                                                                                   \
    }                                                                                                                  \
    bool layer_add_##type(layer_##type *added)                                                                         \
    {                                                                                                                  \
        for (size_t i = 0, at = place(added->key); i < PLACES; i++, at = (at + 1) % PLACES) {                          \
            layer_##type *none = NULL;                                                                                 \
            if (atomic_compare_exchange_strong(&table[at], &none, added))                                              \
                return true;                                                                                           \
        }                                                                                                              \
        return false;                                                                                                  \
    }                                                                                                                  \
    void layer_remove_##type(layer_##type *removed)                                                                    \
    {                                                                                                                  \
        for (size_t at = 0; at < PLACES; at++) {                                                                       \
            layer_##type *expected = removed;                                                                          \
            atomic_compare_exchange_strong(&table[at], &expected, NULL);                                               \
        }                                                                                                              \
    }

REGISTRY(instance, instances)
REGISTRY(device, devices)

bool layer_is_device(const layer_device *device)
{
    for (size_t at = 0; at < PLACES; at++)
        if (device && atomic_load_explicit(&devices[at], memory_order_acquire) == device)
            return true;
    return false;
}
