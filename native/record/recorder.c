/* recorder.c: the Vulkan objects of command lists, made once and used again. */
#include <stdlib.h>
#include <string.h>

#include "record/vulkan_planes.h"

#define SETS_A_POOL 64u
#define LEAST_VERTICES (64u * 1024) /* bytes of a vertex buffer */
/* Kept for later lists: vertex buffers of so many bytes together, and so many command buffers, or
 * as many as are in use. */
#define MOST_BYTES (UINT64_C(16) * 1024 * 1024)
#define MOST_UNUSED 32u

static vks_status result(VkResult code, const char *call)
{
    if (code >= 0)
        return VKS_OK;
    return vks_fail(code == VK_ERROR_DEVICE_LOST ? VKS_DEVICE_LOST : VKS_VULKAN_ERROR, code, "%s", call);
}

/* ---- making one ---- */

static vks_status load(vks_recorder *r)
{
    PFN_vkGetDeviceProcAddr get = (PFN_vkGetDeviceProcAddr)r->info.get_device_proc_addr;
#define LOAD(name)                                                                                                     \
    if (!(r->name = (PFN_vk##name)get(r->device, "vk" #name)))                                                         \
        return vks_fail(VKS_UNSUPPORTED, 0, "the driver has no vk" #name);
    VKS_RECORDER_FUNCTIONS(LOAD)
#undef LOAD
    if (r->info.has_names)
        r->SetDebugUtilsObjectNameEXT =
            (PFN_vkSetDebugUtilsObjectNameEXT)get(r->device, "vkSetDebugUtilsObjectNameEXT");
    return VKS_OK;
}

vks_status vks_recorder_create(const vks_recorder_info *info, vks_recorder **out)
{
    vks_recorder *r = calloc(1, sizeof *r);
    if (!r)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a recorder");
    r->references = 1;
    pthread_mutex_init(&r->lock, NULL);
    r->info = *info;
    r->device = (VkDevice)(uintptr_t)info->device;
    r->layout = (VkPipelineLayout)(uintptr_t)info->layout;
    vks_status status = load(r);
    if (status)
        vks_recorder_unref(r);
    else
        *out = r;
    return status;
}

void vks_recorder_ref(vks_recorder *r) { atomic_fetch_add_explicit(&r->references, 1, memory_order_relaxed); }

void vks_recorder_unref(vks_recorder *r)
{
    if (atomic_fetch_sub(&r->references, 1) != 1)
        return;
    while (r->all) {
        vks_recorded *recorded = r->all;
        r->all = recorded->next_made;
        free(recorded);
    }
    while (r->set_pools) {
        vks_set_pool *pool = r->set_pools;
        r->set_pools = pool->next;
        free(pool);
    }
    free(r->unused_sets);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

static void drop_vertices(vks_recorder *r, vks_recorded *recorded)
{
    if (recorded->vertices)
        r->DestroyBuffer(r->device, recorded->vertices, NULL);
    if (recorded->memory)
        r->FreeMemory(r->device, recorded->memory, NULL);
    recorded->vertices = VK_NULL_HANDLE;
    recorded->memory = VK_NULL_HANDLE;
    recorded->mapped = NULL;
    r->statistics.vertex_bytes -= recorded->vertex_bytes;
    recorded->vertex_bytes = 0;
}

void vks_recorder_close(vks_recorder *r)
{
    pthread_mutex_lock(&r->lock);
    bool was_closed = r->closed;
    r->closed = true;
    for (vks_recorded *recorded = r->all; recorded && !was_closed; recorded = recorded->next_made)
        drop_vertices(r, recorded);
    for (vks_set_pool *pool = r->set_pools; pool && !was_closed; pool = pool->next)
        r->DestroyDescriptorPool(r->device, pool->pool, NULL);
    for (int family = 0; family < VKS_RECORDED_FAMILIES && !was_closed; family++)
        if (r->pools[family]) /* and with it its command buffers */
            r->DestroyCommandPool(r->device, r->pools[family], NULL);
    pthread_mutex_unlock(&r->lock);
}

vks_status vks_recorder_set_pipeline(vks_recorder *r, uint32_t number, uint32_t format, uint64_t pipeline)
{
    if (number >= VKS_PIPELINES || format >= VKS_PIPELINE_FORMATS || !vks_format_bytes(format))
        return vks_fail(VKS_BAD_VALUE, 0, "the pipeline is number %u on format %u; allowed are 0 to %u on 1 to %u",
                        number, format, VKS_PIPELINES - 1, VKS_PIPELINE_FORMATS - 1);
    pthread_mutex_lock(&r->lock);
    r->pipelines[number][format] = (VkPipeline)(uintptr_t)pipeline;
    pthread_mutex_unlock(&r->lock);
    return VKS_OK;
}

void vks_recorder_get_statistics(vks_recorder *r, vks_recorder_statistics *out)
{
    pthread_mutex_lock(&r->lock);
    *out = r->statistics;
    pthread_mutex_unlock(&r->lock);
}

/* ---- descriptor sets (caller holds the lock) ---- */

static vks_status make_set_pool(vks_recorder *r)
{
    VkDescriptorPoolSize sizes[] = {{VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, 3 * SETS_A_POOL},
                                    {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, SETS_A_POOL}};
    VkDescriptorPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                       .maxSets = SETS_A_POOL,
                                       .poolSizeCount = 2,
                                       .pPoolSizes = sizes};
    vks_set_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for descriptor sets");
    vks_status status = result(r->CreateDescriptorPool(r->device, &info, NULL, &pool->pool), "vkCreateDescriptorPool");
    if (status) {
        free(pool);
        return status;
    }
    pool->next = r->set_pools;
    r->set_pools = pool;
    r->set_room = SETS_A_POOL;
    return VKS_OK;
}

static vks_status allocate_set(vks_recorder *r, uint64_t *set)
{
    if (r->n_unused_sets) {
        *set = r->unused_sets[--r->n_unused_sets];
        return VKS_OK;
    }
    vks_status status = r->set_room ? VKS_OK : make_set_pool(r);
    if (status)
        return status;
    VkDescriptorSetLayout layout = (VkDescriptorSetLayout)(uintptr_t)r->info.set_layout;
    VkDescriptorSetAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                        .descriptorPool = r->set_pools->pool,
                                        .descriptorSetCount = 1,
                                        .pSetLayouts = &layout};
    VkDescriptorSet made = VK_NULL_HANDLE;
    status = result(r->AllocateDescriptorSets(r->device, &info, &made), "vkAllocateDescriptorSets");
    if (status)
        return status;
    r->set_room--;
    r->statistics.sets++;
    *set = (uint64_t)(uintptr_t)made;
    return VKS_OK;
}

/* Room for all sets that a drawable may give back, so that giving back cannot fail. */
static bool reserve_unused_sets(vks_recorder *r)
{
    if (r->unused_set_capacity >= r->statistics.sets + VKS_SETS)
        return true;
    size_t capacity = 2 * (r->statistics.sets + SETS_A_POOL);
    uint64_t *larger = realloc(r->unused_sets, capacity * sizeof *larger);
    if (!larger)
        return false;
    r->unused_sets = larger;
    r->unused_set_capacity = capacity;
    return true;
}

/* A set is made when a list first samples the image so, and lives as long as the image. */
static vks_status need_set(vks_recorder *r, vks_drawable *drawable, unsigned which)
{
    vks_recorder *owner = atomic_load(&drawable->recorder);
    if (owner && owner != r)
        return vks_fail(VKS_FOREIGN_DEVICE, 0, "an image belongs to another device");
    if (drawable->sets[which])
        return VKS_OK;
    uint64_t set = 0;
    vks_status status =
        reserve_unused_sets(r) ? allocate_set(r, &set) : vks_fail(VKS_NO_MEMORY, 0, "no memory for descriptor sets");
    if (status)
        return status;
    vks_planes_write_set(r, set, &drawable->info, which == VKS_SET_RAW ? drawable->info.raw_view : drawable->info.view,
                         which == VKS_SET_LINEAR ? r->info.linear : r->info.nearest);
    if (!owner)
        vks_recorder_ref(r);
    atomic_store(&drawable->recorder, r);
    drawable->sets[which] = set;
    return VKS_OK;
}

/* One thread at a time. A set that another thread gives it afterwards is taken with the last
 * reference. */
void vks_recorder_take_sets(vks_drawable *drawable)
{
    vks_recorder *r = atomic_load(&drawable->recorder);
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    for (int i = 0; i < VKS_SETS; i++) {
        if (drawable->sets[i])
            r->unused_sets[r->n_unused_sets++] = drawable->sets[i];
        drawable->sets[i] = 0;
    }
    atomic_store(&drawable->recorder, NULL);
    pthread_mutex_unlock(&r->lock);
    vks_recorder_unref(r);
}

/* ---- command buffers and vertices (caller holds the lock) ---- */

static void name(vks_recorder *r, VkObjectType type, uint64_t handle, const char *text)
{
    VkDebugUtilsObjectNameInfoEXT info = {VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT, NULL, type, handle, text};
    if (r->SetDebugUtilsObjectNameEXT)
        r->SetDebugUtilsObjectNameEXT(r->device, &info);
}

static vks_status make_pool(vks_recorder *r, int family)
{
    if (r->pools[family])
        return VKS_OK;
    VkCommandPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                    .queueFamilyIndex =
                                        family == VKS_RECORDED_GRAPHICS ? r->info.family : r->info.transfer_family};
    VkCommandPool made = VK_NULL_HANDLE;
    vks_status status = result(r->CreateCommandPool(r->device, &info, NULL, &made), "vkCreateCommandPool");
    r->pools[family] = status ? VK_NULL_HANDLE : made; /* a call that failed may have left anything there */
    return status;
}

static vks_status make_buffer(vks_recorder *r, vks_recorded *recorded, int family)
{
    vks_status status = recorded->buffers[family] ? VKS_OK : make_pool(r, family);
    if (status || recorded->buffers[family])
        return status;
    VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                        .commandPool = r->pools[family],
                                        .commandBufferCount = 1};
    VkCommandBuffer made = NULL;
    status = result(r->AllocateCommandBuffers(r->device, &info, &made), "vkAllocateCommandBuffers");
    if (status)
        return status;
    recorded->buffers[family] = made;
    name(r, VK_OBJECT_TYPE_COMMAND_BUFFER, (uint64_t)(uintptr_t)made, "vkshare command list");
    return VKS_OK;
}

static uint32_t memory_type(const vks_recorder *r, uint32_t allowed)
{
    for (int i = 0; i < 2; i++)
        if (allowed & r->info.host_types[i])
            return (uint32_t)__builtin_ctz(allowed & r->info.host_types[i]);
    return (uint32_t)__builtin_ctz(allowed); /* never: Vulkan 11.2.1 demands such a type for buffers */
}

static vks_status make_vertices(vks_recorder *r, vks_recorded *recorded, size_t bytes)
{
    VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = bytes, .usage = VK_BUFFER_USAGE_VERTEX_BUFFER_BIT};
    VkBuffer buffer = VK_NULL_HANDLE;
    vks_status status = result(r->CreateBuffer(r->device, &info, NULL, &buffer), "vkCreateBuffer");
    if (status)
        return status;
    recorded->vertices = buffer;
    VkMemoryRequirements needs;
    r->GetBufferMemoryRequirements(r->device, buffer, &needs);
    VkMemoryAllocateInfo allocation = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                       .allocationSize = needs.size,
                                       .memoryTypeIndex = memory_type(r, needs.memoryTypeBits)};
    VkDeviceMemory memory = VK_NULL_HANDLE;
    if ((status = result(r->AllocateMemory(r->device, &allocation, NULL, &memory), "vkAllocateMemory")))
        return status;
    recorded->memory = memory;
    if ((status = result(r->BindBufferMemory(r->device, buffer, memory, 0), "vkBindBufferMemory")))
        return status;
    return result(r->MapMemory(r->device, memory, 0, VK_WHOLE_SIZE, 0, &recorded->mapped), "vkMapMemory");
}

/* A power of two, so that lists that grow a little find a buffer. */
static size_t rounded(size_t bytes)
{
    size_t size = LEAST_VERTICES;
    while (size < bytes && size <= SIZE_MAX / 4)
        size *= 2;
    return size < bytes ? bytes : size;
}

static vks_status upload(vks_recorder *r, vks_recorded *recorded, const vks_recording *recording)
{
    size_t bytes = recording->n_vertices * VKS_VERTEX_BYTES;
    if (!bytes)
        return VKS_OK;
    if (recorded->vertex_bytes < bytes) {
        drop_vertices(r, recorded);
        vks_status status = make_vertices(r, recorded, rounded(bytes));
        if (status) {
            drop_vertices(r, recorded);
            return status;
        }
        recorded->vertex_bytes = rounded(bytes);
        r->statistics.vertex_bytes += recorded->vertex_bytes;
    }
    memcpy(recorded->mapped, recording->vertices, bytes);
    return VKS_OK;
}

static void free_buffer(vks_recorder *r, vks_recorded *recorded, int family)
{
    if (recorded->buffers[family])
        r->FreeCommandBuffers(r->device, r->pools[family], 1, &recorded->buffers[family]);
    recorded->buffers[family] = NULL;
}

static void destroy(vks_recorder *r, vks_recorded *recorded)
{
    if (recorded->next_made)
        recorded->next_made->previous_made = recorded->previous_made;
    if (recorded->previous_made)
        recorded->previous_made->next_made = recorded->next_made;
    else
        r->all = recorded->next_made;
    if (!r->closed) { /* else they went with their pools */
        drop_vertices(r, recorded);
        for (int family = 0; family < VKS_RECORDED_FAMILIES; family++)
            free_buffer(r, recorded, family);
    }
    r->statistics.made--;
    free(recorded);
}

static vks_recorded *take_unused(vks_recorder *r)
{
    vks_recorded *recorded = r->unused;
    if (!recorded)
        return NULL;
    r->unused = recorded->next_unused;
    r->unused_bytes -= recorded->vertex_bytes;
    r->statistics.unused--;
    return recorded;
}

static vks_status take(vks_recorder *r, vks_recorded **out)
{
    vks_recorded *recorded = take_unused(r);
    if (!recorded) {
        recorded = calloc(1, sizeof *recorded);
        if (!recorded)
            return vks_fail(VKS_NO_MEMORY, 0, "no memory for a command list");
        recorded->next_made = r->all;
        if (r->all)
            r->all->previous_made = recorded;
        r->all = recorded;
        r->statistics.made++;
    }
    recorded->recorder = r;
    vks_recorder_ref(r);
    *out = recorded;
    return VKS_OK;
}

static void give_back(vks_recorder *r, vks_recorded *recorded)
{
    if (r->closed) {
        destroy(r, recorded);
        return;
    }
    if (r->unused_bytes + recorded->vertex_bytes > MOST_BYTES)
        drop_vertices(r, recorded);
    recorded->recorder = NULL;
    recorded->next_unused = r->unused;
    r->unused = recorded;
    r->unused_bytes += recorded->vertex_bytes;
    r->statistics.unused++;
    /* Two at a time, so that a peak is forgotten while its lists go. */
    for (int i = 0; i < 2 && r->statistics.unused > MOST_UNUSED && 2 * r->statistics.unused > r->statistics.made; i++)
        destroy(r, take_unused(r));
}

bool vks_recorder_has_unused(vks_recorder *r)
{
    pthread_mutex_lock(&r->lock);
    bool has = r->unused != NULL;
    pthread_mutex_unlock(&r->lock);
    return has;
}

void vks_recorded_retire(void *user)
{
    vks_recorded *recorded = user;
    vks_recorder *r = recorded->recorder;
    pthread_mutex_lock(&r->lock);
    give_back(r, recorded);
    pthread_mutex_unlock(&r->lock);
    vks_recorder_unref(r);
}

uint64_t vks_recorded_graphics(const vks_recorded *recorded)
{
    return (uint64_t)(uintptr_t)recorded->buffers[VKS_RECORDED_GRAPHICS];
}

uint64_t vks_recorded_transfer(const vks_recorded *recorded)
{
    return recorded->has_transfer ? (uint64_t)(uintptr_t)recorded->buffers[VKS_RECORDED_TRANSFER] : 0;
}

/* ---- recording (caller holds the lock) ---- */

static vks_status write_buffer(vks_recorder *r, vks_recorded *recorded, const vks_recording *recording, int family)
{
    VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                     .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
    VkCommandBuffer commands = recorded->buffers[family];
    vks_status status = result(r->BeginCommandBuffer(commands, &info), "vkBeginCommandBuffer"); /* resets it, too */
    if (!status) {
        vks_vulkan_write(r, recording, commands, recorded->vertices);
        status = result(r->EndCommandBuffer(commands), "vkEndCommandBuffer");
    }
    if (status) /* it may be in the recording state, and then it could not begin again */
        free_buffer(r, recorded, family);
    return status;
}

static vks_status write_buffers(vks_recorder *r, vks_recorded *recorded, const vks_recording *recording)
{
    recorded->has_transfer = r->info.transfer_family != UINT32_MAX && vks_vulkan_only_copies(recording);
    vks_status status = upload(r, recorded, recording);
    for (int family = 0; family <= (int)recorded->has_transfer && !status; family++) {
        status = make_buffer(r, recorded, family);
        if (!status)
            status = write_buffer(r, recorded, recording, family);
    }
    return status;
}

vks_status vks_recorder_record(vks_recorder *r, const vks_recording *recording, vks_record_problem *problem,
                               vks_recorded **out)
{
    *problem = (vks_record_problem){VKS_PROBLEM_NONE};
    vks_recorded *recorded = NULL;
    pthread_mutex_lock(&r->lock);
    vks_status status = r->closed ? VKS_CLOSED : vks_vulkan_check(r, recording, problem);
    if (!status)
        status = vks_vulkan_each_set(r, recording, need_set);
    if (!status)
        status = take(r, &recorded);
    if (!status)
        status = write_buffers(r, recorded, recording);
    if (status && recorded)
        give_back(r, recorded);
    pthread_mutex_unlock(&r->lock);
    if (!status)
        *out = recorded;
    else if (recorded)
        vks_recorder_unref(r);
    return status;
}
