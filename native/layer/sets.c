/* sets.c: descriptors of shared images: GENERAL takes the place of the engine's layouts, and a command buffer that
 * binds a set uses the images in it, whichever of them its shaders read.
 */
#include <stdlib.h>
#include <string.h>

#include "layer/layer.h"

static bool has_images(VkDescriptorType type)
{
    return type == VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER || type == VK_DESCRIPTOR_TYPE_SAMPLED_IMAGE ||
           type == VK_DESCRIPTOR_TYPE_STORAGE_IMAGE || type == VK_DESCRIPTOR_TYPE_INPUT_ATTACHMENT;
}

/* A write or a copy of more descriptors than a binding has goes on in the next binding. The layer does not know where a
 * binding ends, so it numbers such a descriptor as one of the first binding. */
static uint64_t place(uint32_t binding, uint32_t element) { return (uint64_t)binding << 32 | element; }

/* The descriptor set, or the command buffer of a push. */
typedef struct destination {
    bool is_push;
    uint64_t key;
} destination;

/* A descriptor at that place is written with `info`, which is changed if its image is shared. Caller holds
 * device->lock. False: no memory. */
static bool write_image(layer_device *device, destination to, uint64_t at, VkDescriptorImageInfo *info)
{
    layer_image *shared = layer_viewed(device, info->imageView);
    if (!to.is_push)
        layer_forget_one(device, LAYER_SET, to.key, at);
    if (!shared)
        return true;
    info->imageLayout = VK_IMAGE_LAYOUT_GENERAL;
    return to.is_push ? layer_add(device, LAYER_COMMANDS, to.key, 0, shared)
                      : layer_add(device, LAYER_SET, to.key, at, shared);
}

/* ---- pools and sets ---- */

/* Noted before anything is shared, because an engine makes them early. */
VKAPI_ATTR VkResult VKAPI_CALL layer_CreateDescriptorPool(VkDevice handle, const VkDescriptorPoolCreateInfo *info,
                                                          const VkAllocationCallbacks *allocator, VkDescriptorPool *out)
{
    layer_device *device = layer_device_of(handle);
    VkResult result = device->CreateDescriptorPool(handle, info, allocator, out);
    if (result != VK_SUCCESS || !(info->flags & VK_DESCRIPTOR_POOL_CREATE_UPDATE_AFTER_BIND_BIT))
        return result;
    pthread_mutex_lock(&device->lock);
    bool is_known = layer_add(device, LAYER_LATE, LAYER_KEY(*out), 0, NULL);
    pthread_mutex_unlock(&device->lock);
    if (is_known)
        return result;
    device->DestroyDescriptorPool(handle, *out, allocator);
    return VK_ERROR_OUT_OF_HOST_MEMORY;
}

VKAPI_ATTR void VKAPI_CALL layer_DestroyDescriptorPool(VkDevice handle, VkDescriptorPool pool,
                                                       const VkAllocationCallbacks *allocator)
{
    layer_device *device = layer_device_of(handle);
    if (pool && atomic_load_explicit(&device->n_late, memory_order_acquire)) {
        pthread_mutex_lock(&device->lock);
        layer_forget(device, LAYER_LATE, LAYER_KEY(pool));
        layer_forget_sub(device, LAYER_LATE, LAYER_KEY(pool)); /* its sets */
        pthread_mutex_unlock(&device->lock);
    }
    device->DestroyDescriptorPool(handle, pool, allocator);
}

/* Notes new sets, which have the handles of earlier ones, at times. */
static bool note_sets(layer_device *device, const VkDescriptorSetAllocateInfo *info, const VkDescriptorSet *sets)
{
    bool is_known = true;
    pthread_mutex_lock(&device->lock);
    bool is_late = layer_find(device, LAYER_LATE, LAYER_KEY(info->descriptorPool), NULL);
    for (uint32_t i = 0; i < info->descriptorSetCount; i++) {
        layer_forget(device, LAYER_SET, LAYER_KEY(sets[i]));
        layer_forget(device, LAYER_LATE, LAYER_KEY(sets[i]));
        is_known &=
            !is_late || layer_add(device, LAYER_LATE, LAYER_KEY(sets[i]), LAYER_KEY(info->descriptorPool), NULL);
    }
    pthread_mutex_unlock(&device->lock);
    return is_known;
}

/* On failure the sets stay in the pool until its reset, because not every pool frees them one by one. */
VKAPI_ATTR VkResult VKAPI_CALL layer_AllocateDescriptorSets(VkDevice handle, const VkDescriptorSetAllocateInfo *info,
                                                            VkDescriptorSet *out)
{
    layer_device *device = layer_device_of(handle);
    VkResult result = device->AllocateDescriptorSets(handle, info, out);
    bool has_nodes = atomic_load_explicit(&device->n_sets, memory_order_acquire) ||
                     atomic_load_explicit(&device->n_late, memory_order_acquire);
    if (result != VK_SUCCESS || !has_nodes || note_sets(device, info, out))
        return result;
    memset(out, 0, info->descriptorSetCount * sizeof *out);
    return VK_ERROR_OUT_OF_HOST_MEMORY;
}

/* ---- writes and copies ---- */

/* Descriptors without an image take the places of such with one, in sets of mutable descriptors. */
static void write_other(layer_device *device, destination to, uint64_t at, VkDescriptorType type, uint32_t n)
{
    if (to.is_push || type == VK_DESCRIPTOR_TYPE_INLINE_UNIFORM_BLOCK || !layer_find(device, LAYER_SET, to.key, NULL))
        return;
    for (uint32_t k = 0; k < n; k++)
        layer_forget_one(device, LAYER_SET, to.key, at + k);
}

static size_t count_images(uint32_t n, const VkWriteDescriptorSet *writes)
{
    size_t count = 0;
    for (uint32_t i = 0; i < n; i++)
        count += has_images(writes[i].descriptorType) ? writes[i].descriptorCount : 0;
    return count;
}

/* Copies the writes, with GENERAL for each shared image; `push`: the command buffer, or NULL to note the sets.
 * Returns the copy, which the caller frees; NULL: nothing is shared, or there is no memory, and the engine's layouts
 * are passed on: the calls have no result to report it. */
static VkWriteDescriptorSet *general_writes(layer_device *device, uint32_t n, const VkWriteDescriptorSet *writes,
                                            VkCommandBuffer push)
{
    if (!n || !layer_shares(device))
        return NULL;
    VkWriteDescriptorSet *copy = malloc(n * sizeof *copy + count_images(n, writes) * sizeof(VkDescriptorImageInfo));
    VkDescriptorImageInfo *infos = (VkDescriptorImageInfo *)(copy + n);
    bool is_known = copy != NULL;
    pthread_mutex_lock(&device->lock);
    for (uint32_t i = 0; copy && i < n; i++) {
        destination to = {push != NULL, push ? LAYER_KEY(push) : LAYER_KEY(writes[i].dstSet)};
        copy[i] = writes[i];
        if (!has_images(writes[i].descriptorType)) {
            write_other(device, to, place(writes[i].dstBinding, writes[i].dstArrayElement), writes[i].descriptorType,
                        writes[i].descriptorCount);
            continue;
        }
        copy[i].pImageInfo = infos;
        for (uint32_t k = 0; k < writes[i].descriptorCount; k++, infos++) {
            *infos = writes[i].pImageInfo[k];
            is_known &= write_image(device, to, place(writes[i].dstBinding, writes[i].dstArrayElement + k), infos);
        }
    }
    pthread_mutex_unlock(&device->lock);
    if (is_known)
        return copy;
    free(copy);
    return NULL;
}

/* Whether the descriptor that was noted at a place can be the one at `from`: it has that place, or came there by a
 * write that went on from an earlier binding; or the copy goes on in a later one. */
static bool may_be(uint64_t noted, uint64_t from, bool goes_on)
{
    uint64_t binding = noted >> 32, wanted = from >> 32;
    return noted == from || (binding < wanted && (uint32_t)noted > 0) || (goes_on && binding > wanted);
}

/* Caller holds device->lock. */
static void copy_nodes(layer_device *device, const VkCopyDescriptorSet *copy)
{
    for (uint32_t k = 0; k < copy->descriptorCount; k++) {
        uint64_t from = place(copy->srcBinding, copy->srcArrayElement + k);
        uint64_t to = place(copy->dstBinding, copy->dstArrayElement + k);
        layer_forget_one(device, LAYER_SET, LAYER_KEY(copy->dstSet), to);
        for (const layer_node *each = NULL; (each = layer_find(device, LAYER_SET, LAYER_KEY(copy->srcSet), each));)
            if (may_be(each->sub, from, k > 0))
                layer_add(device, LAYER_SET, LAYER_KEY(copy->dstSet), to, each->image);
    }
}

VKAPI_ATTR void VKAPI_CALL layer_UpdateDescriptorSets(VkDevice handle, uint32_t n, const VkWriteDescriptorSet *writes,
                                                      uint32_t n_copies, const VkCopyDescriptorSet *copies)
{
    layer_device *device = layer_device_of(handle);
    VkWriteDescriptorSet *general = general_writes(device, n, writes, NULL);
    if (n_copies && atomic_load_explicit(&device->n_sets, memory_order_acquire)) {
        pthread_mutex_lock(&device->lock);
        for (uint32_t i = 0; i < n_copies; i++)
            copy_nodes(device, &copies[i]);
        pthread_mutex_unlock(&device->lock);
    }
    device->UpdateDescriptorSets(handle, n, general ? general : writes, n_copies, copies);
    free(general);
}

VKAPI_ATTR void VKAPI_CALL layer_CmdPushDescriptorSetKHR(VkCommandBuffer commands, VkPipelineBindPoint point,
                                                         VkPipelineLayout layout, uint32_t set, uint32_t n,
                                                         const VkWriteDescriptorSet *writes)
{
    layer_device *device = layer_device_of(commands);
    VkWriteDescriptorSet *general = general_writes(device, n, writes, commands);
    device->CmdPushDescriptorSetKHR(commands, point, layout, set, n, general ? general : writes);
    free(general);
}

VKAPI_ATTR void VKAPI_CALL layer_CmdPushDescriptorSet2KHR(VkCommandBuffer commands, const VkPushDescriptorSetInfo *info)
{
    layer_device *device = layer_device_of(commands);
    VkPushDescriptorSetInfo changed = *info;
    VkWriteDescriptorSet *general =
        general_writes(device, info->descriptorWriteCount, info->pDescriptorWrites, commands);
    if (general)
        changed.pDescriptorWrites = general;
    device->CmdPushDescriptorSet2KHR(commands, &changed);
    free(general);
}

/* ---- templates ---- */

/* Bytes of one descriptor in a template's data, or of the whole entry if it is an inline block; 0: unknown. */
static size_t element_size(const VkDescriptorUpdateTemplateEntry *entry)
{
    switch (entry->descriptorType) {
    case VK_DESCRIPTOR_TYPE_SAMPLER:
    case VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER:
    case VK_DESCRIPTOR_TYPE_SAMPLED_IMAGE:
    case VK_DESCRIPTOR_TYPE_STORAGE_IMAGE:
    case VK_DESCRIPTOR_TYPE_INPUT_ATTACHMENT:
        return sizeof(VkDescriptorImageInfo);
    case VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER:
    case VK_DESCRIPTOR_TYPE_STORAGE_BUFFER:
    case VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC:
    case VK_DESCRIPTOR_TYPE_STORAGE_BUFFER_DYNAMIC:
        return sizeof(VkDescriptorBufferInfo);
    case VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER:
    case VK_DESCRIPTOR_TYPE_STORAGE_TEXEL_BUFFER:
        return sizeof(VkBufferView);
    case VK_DESCRIPTOR_TYPE_ACCELERATION_STRUCTURE_KHR:
    case VK_DESCRIPTOR_TYPE_ACCELERATION_STRUCTURE_NV:
        return sizeof(uint64_t);
    case VK_DESCRIPTOR_TYPE_INLINE_UNIFORM_BLOCK:
        return entry->descriptorCount;
    default:
        return 0;
    }
}

static uint32_t element_count(const VkDescriptorUpdateTemplateEntry *entry)
{
    return entry->descriptorType == VK_DESCRIPTOR_TYPE_INLINE_UNIFORM_BLOCK ? 1 : entry->descriptorCount;
}

/* Makes the template's data as large as the entry needs. False: the type is unknown, or the place wraps around, as of a
 * stride that goes backwards. */
static bool extend(layer_template *made, const VkDescriptorUpdateTemplateEntry *entry)
{
    size_t count = element_count(entry), size = element_size(entry), end;
    if (!count || (!size && entry->descriptorType == VK_DESCRIPTOR_TYPE_INLINE_UNIFORM_BLOCK))
        return true;
    if (!size || __builtin_mul_overflow(count - 1, entry->stride, &end) ||
        __builtin_add_overflow(end, entry->offset, &end) || __builtin_add_overflow(end, size, &end))
        return false;
    made->size = end > made->size ? end : made->size;
    return true;
}

/* NULL: no memory, or it has no images (*has: false). */
static layer_template *template_of(const VkDescriptorUpdateTemplateCreateInfo *info, bool *has)
{
    uint32_t n = info->descriptorUpdateEntryCount;
    bool is_known = true;
    *has = false;
    for (uint32_t i = 0; i < n; i++)
        *has |= has_images(info->pDescriptorUpdateEntries[i].descriptorType);
    layer_template *made = *has ? malloc(sizeof *made + n * sizeof made->entries[0]) : NULL;
    if (!made)
        return NULL;
    *made = (layer_template){.n = n};
    for (uint32_t i = 0; i < n; i++) {
        made->entries[i] = info->pDescriptorUpdateEntries[i];
        is_known &= extend(made, &made->entries[i]);
    }
    made->size = is_known ? made->size : 0;
    return made;
}

/* Templates are noted before anything is shared, because an engine makes them early. */
VKAPI_ATTR VkResult VKAPI_CALL layer_CreateDescriptorUpdateTemplate(VkDevice handle,
                                                                    const VkDescriptorUpdateTemplateCreateInfo *info,
                                                                    const VkAllocationCallbacks *allocator,
                                                                    VkDescriptorUpdateTemplate *out)
{
    layer_device *device = layer_device_of(handle);
    VkResult result = device->CreateDescriptorUpdateTemplate(handle, info, allocator, out);
    if (result != VK_SUCCESS)
        return result;
    bool has;
    layer_template *template = template_of(info, &has);
    pthread_mutex_lock(&device->lock);
    bool is_known = !has || (template && layer_add_template(device, LAYER_KEY(*out), template));
    pthread_mutex_unlock(&device->lock);
    if (is_known)
        return result;
    device->DestroyDescriptorUpdateTemplate(handle, *out, allocator);
    return VK_ERROR_OUT_OF_HOST_MEMORY;
}

VKAPI_ATTR void VKAPI_CALL layer_DestroyDescriptorUpdateTemplate(VkDevice handle, VkDescriptorUpdateTemplate template,
                                                                 const VkAllocationCallbacks *allocator)
{
    layer_device *device = layer_device_of(handle);
    pthread_mutex_lock(&device->lock);
    layer_forget(device, LAYER_TEMPLATE, LAYER_KEY(template));
    pthread_mutex_unlock(&device->lock);
    device->DestroyDescriptorUpdateTemplate(handle, template, allocator);
}

/* Copies what an entry reads, one by one, because the bytes between may be no memory. `copy` may be NULL. */
static bool write_entry(layer_device *device, const VkDescriptorUpdateTemplateEntry *entry, destination to,
                        const char *data, char *copy)
{
    bool is_known = true, is_image = has_images(entry->descriptorType);
    size_t size = element_size(entry);
    if (!is_image)
        write_other(device, to, place(entry->dstBinding, entry->dstArrayElement), entry->descriptorType,
                    entry->descriptorCount);
    for (uint32_t k = 0; k < element_count(entry); k++) {
        size_t at = entry->offset + k * entry->stride;
        VkDescriptorImageInfo info;
        if (is_image) {
            memcpy(&info, data + at, sizeof info);
            is_known &= write_image(device, to, place(entry->dstBinding, entry->dstArrayElement + k), &info);
        }
        if (copy)
            memcpy(copy + at, is_image ? (const char *)&info : data + at, size);
    }
    return is_known;
}

/* As general_writes(), of a template's data. */
static void *general_data(layer_device *device, VkDescriptorUpdateTemplate handle, destination to, const void *data)
{
    if (!layer_shares(device))
        return NULL;
    pthread_mutex_lock(&device->lock);
    const layer_node *node = layer_find(device, LAYER_TEMPLATE, LAYER_KEY(handle), NULL);
    const layer_template *template = node ? node->template : NULL;
    char *copy = template && template->size ? malloc(template->size) : NULL;
    bool is_known = true;
    for (uint32_t i = 0; template && i < template->n; i++)
        is_known &= write_entry(device, &template->entries[i], to, data, copy);
    pthread_mutex_unlock(&device->lock);
    if (is_known)
        return copy;
    free(copy);
    return NULL;
}

VKAPI_ATTR void VKAPI_CALL layer_UpdateDescriptorSetWithTemplate(VkDevice handle, VkDescriptorSet set,
                                                                 VkDescriptorUpdateTemplate template, const void *data)
{
    layer_device *device = layer_device_of(handle);
    void *general = general_data(device, template, (destination){false, LAYER_KEY(set)}, data);
    device->UpdateDescriptorSetWithTemplate(handle, set, template, general ? general : data);
    free(general);
}

VKAPI_ATTR void VKAPI_CALL layer_CmdPushDescriptorSetWithTemplateKHR(VkCommandBuffer commands,
                                                                     VkDescriptorUpdateTemplate template,
                                                                     VkPipelineLayout layout, uint32_t set,
                                                                     const void *data)
{
    layer_device *device = layer_device_of(commands);
    void *general = general_data(device, template, (destination){true, LAYER_KEY(commands)}, data);
    device->CmdPushDescriptorSetWithTemplateKHR(commands, template, layout, set, general ? general : data);
    free(general);
}

VKAPI_ATTR void VKAPI_CALL layer_CmdPushDescriptorSetWithTemplate2KHR(VkCommandBuffer commands,
                                                                      const VkPushDescriptorSetWithTemplateInfo *info)
{
    layer_device *device = layer_device_of(commands);
    VkPushDescriptorSetWithTemplateInfo changed = *info;
    void *general =
        general_data(device, info->descriptorUpdateTemplate, (destination){true, LAYER_KEY(commands)}, info->pData);
    if (general)
        changed.pData = general;
    device->CmdPushDescriptorSetWithTemplate2KHR(commands, &changed);
    free(general);
}

/* ---- binding ---- */

/* A set that may be written after this is looked at when the command buffer is submitted. */
static void bind(layer_device *device, VkCommandBuffer commands, uint32_t n, const VkDescriptorSet *sets)
{
    if (!layer_shares(device))
        return;
    pthread_mutex_lock(&device->lock);
    for (uint32_t i = 0; i < n; i++) {
        if (layer_find(device, LAYER_LATE, LAYER_KEY(sets[i]), NULL))
            layer_add(device, LAYER_BOUND, LAYER_KEY(commands), LAYER_KEY(sets[i]), NULL);
        for (const layer_node *each = NULL; (each = layer_find(device, LAYER_SET, LAYER_KEY(sets[i]), each));)
            layer_add(device, LAYER_COMMANDS, LAYER_KEY(commands), 0, each->image);
    }
    pthread_mutex_unlock(&device->lock);
}

VKAPI_ATTR void VKAPI_CALL layer_CmdBindDescriptorSets(VkCommandBuffer commands, VkPipelineBindPoint point,
                                                       VkPipelineLayout layout, uint32_t first, uint32_t n,
                                                       const VkDescriptorSet *sets, uint32_t n_offsets,
                                                       const uint32_t *offsets)
{
    layer_device *device = layer_device_of(commands);
    bind(device, commands, n, sets);
    device->CmdBindDescriptorSets(commands, point, layout, first, n, sets, n_offsets, offsets);
}

VKAPI_ATTR void VKAPI_CALL layer_CmdBindDescriptorSets2KHR(VkCommandBuffer commands,
                                                           const VkBindDescriptorSetsInfo *info)
{
    layer_device *device = layer_device_of(commands);
    bind(device, commands, info->descriptorSetCount, info->pDescriptorSets);
    device->CmdBindDescriptorSets2KHR(commands, info);
}

/* ---- descriptor buffers ---- */

/* A descriptor in a buffer of the engine, which may copy it anywhere. */
VKAPI_ATTR void VKAPI_CALL layer_GetDescriptorEXT(VkDevice handle, const VkDescriptorGetInfoEXT *info, size_t size,
                                                  void *out)
{
    layer_device *device = layer_device_of(handle);
    VkDescriptorGetInfoEXT general = *info;
    VkDescriptorImageInfo image;
    if (layer_shares(device) && has_images(info->type) &&
        info->data.pSampledImage) { /* each kind of image has this type */
        image = *info->data.pSampledImage;
        pthread_mutex_lock(&device->lock);
        layer_image *shared = layer_viewed(device, image.imageView);
        if (shared) {
            shared->is_in_memory = true;
            image.imageLayout = VK_IMAGE_LAYOUT_GENERAL;
            general.data.pSampledImage = &image;
        }
        pthread_mutex_unlock(&device->lock);
    }
    device->GetDescriptorEXT(handle, &general, size, out);
}

/* The contents of the buffers are the driver's, so each image that has a descriptor counts as used. */
VKAPI_ATTR void VKAPI_CALL layer_CmdBindDescriptorBuffersEXT(VkCommandBuffer commands, uint32_t n,
                                                             const VkDescriptorBufferBindingInfoEXT *infos)
{
    layer_device *device = layer_device_of(commands);
    if (layer_shares(device)) {
        pthread_mutex_lock(&device->lock);
        layer_add(device, LAYER_BOUND, LAYER_KEY(commands), 0, NULL);
        pthread_mutex_unlock(&device->lock);
    }
    device->CmdBindDescriptorBuffersEXT(commands, n, infos);
}

/* ---- submission ---- */

static bool uses_late(const layer_device *device, VkCommandBuffer commands, const layer_image *image)
{
    for (const layer_node *each = NULL; (each = layer_find(device, LAYER_BOUND, LAYER_KEY(commands), each));)
        if (each->sub ? layer_refers(device, LAYER_SET, each->sub, image) : image->is_in_memory)
            return true;
    return false;
}

bool layer_uses(const layer_device *device, VkCommandBuffer commands, const layer_image *image)
{
    return layer_refers(device, LAYER_COMMANDS, LAYER_KEY(commands), image) || uses_late(device, commands, image);
}
