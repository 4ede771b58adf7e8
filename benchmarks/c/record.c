/* record.c: a program in C that records each frame anew: it clears an image and draws triangles, each with vertices
 * and state of its own, into a command buffer of a ring, and submits it.
 */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "vulkan.h"

#define RING 64u   /* frames in flight, at most */
#define MOST 1024u /* triangles of a frame, at most */
#define FLOATS 10u /* x y z w, r g b a, u v */
#define PATIENCE UINT64_C(10000000000)

/* clang-format off */
#define FUNCTIONS(X)                                                                                                   \
    X(CreateCommandPool) X(DestroyCommandPool) X(AllocateCommandBuffers) X(BeginCommandBuffer) X(EndCommandBuffer)     \
    X(CmdPipelineBarrier2) X(CmdBeginRendering) X(CmdEndRendering) X(CmdSetViewport) X(CmdSetScissor)                  \
    X(CmdBindPipeline) X(CmdBindVertexBuffers) X(CmdDraw) X(QueueSubmit2) X(GetSemaphoreCounterValue)                  \
    X(WaitSemaphores)
/* clang-format on */

/* Everything but the command pool is the caller's. */
typedef struct target {
    uint64_t device, queue;
    VkImageView view;
    VkPipeline pipeline;
    VkBuffer vertices; /* RING times MOST triangles */
    float *mapped;
    VkSemaphore timeline;
    uint32_t family, width, height, to_host;
} target;

typedef struct recorder {
    target to;
    VkDevice device;
    VkQueue queue;
    VkCommandPool pool;
    VkCommandBuffer commands[RING];
    uint64_t frames;
#define DECLARE(name) PFN_vk##name name;
    FUNCTIONS(DECLARE)
#undef DECLARE
} recorder;

void recorder_close(recorder *r)
{
    if (r && r->pool)
        r->DestroyCommandPool(r->device, r->pool, NULL);
    free(r);
}

/* NULL: a function is missing, or a call failed. */
recorder *recorder_open(PFN_vkGetDeviceProcAddr get, const target *to)
{
    recorder *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->to = *to;
    r->device = (VkDevice)(uintptr_t)to->device;
    r->queue = (VkQueue)(uintptr_t)to->queue;
#define LOAD(name)                                                                                                     \
    if (!(r->name = (PFN_vk##name)get(r->device, "vk" #name))) {                                                       \
        free(r);                                                                                                       \
        return NULL;                                                                                                   \
    }
    FUNCTIONS(LOAD)
#undef LOAD
    VkCommandPoolCreateInfo pool = {VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, NULL,
                                    VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT, to->family};
    VkResult result = r->CreateCommandPool(r->device, &pool, NULL, &r->pool);
    VkCommandBufferAllocateInfo buffers = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, NULL, r->pool, 0, RING};
    if (result == VK_SUCCESS && r->AllocateCommandBuffers(r->device, &buffers, r->commands) == VK_SUCCESS)
        return r;
    recorder_close(r);
    return NULL;
}

static void barrier(const recorder *r, VkCommandBuffer commands, VkFlags64 stage, VkFlags64 access)
{
    VkMemoryBarrier2 memory = {VK_STRUCTURE_TYPE_MEMORY_BARRIER_2, NULL,  VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
                               VK_ACCESS_2_MEMORY_WRITE_BIT,       stage, access};
    VkDependencyInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO, .memoryBarrierCount = 1, .pMemoryBarriers = &memory};
    r->CmdPipelineBarrier2(commands, &info);
}

static void draw(const recorder *r, VkCommandBuffer commands, const float *triangle, uint32_t at)
{
    VkRect2D all = {.extent = {r->to.width, r->to.height}};
    VkDeviceSize offset = at * 3 * FLOATS * sizeof(float);
    float *out = r->to.mapped + at * 3 * FLOATS;
    for (int i = 0; i < 3; i++, out += FLOATS, triangle += 6) {
        float position[4] = {triangle[0], triangle[1], 0, 1};
        memcpy(out, position, sizeof position);
        memcpy(out + 4, triangle + 2, 4 * sizeof *out);
        out[8] = out[9] = 0;
    }
    r->CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_GRAPHICS, r->to.pipeline);
    r->CmdSetScissor(commands, 0, 1, &all);
    r->CmdBindVertexBuffers(commands, 0, 1, &r->to.vertices, &offset);
    r->CmdDraw(commands, 3, 1, 0, 0);
}

static VkResult record(const recorder *r, VkCommandBuffer commands, const float *triangle, uint32_t n, uint32_t first)
{
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                      .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
    VkResult result = r->BeginCommandBuffer(commands, &begin);
    if (result != VK_SUCCESS)
        return result;
    VkRenderingAttachmentInfo attachment = {.sType = VK_STRUCTURE_TYPE_RENDERING_ATTACHMENT_INFO,
                                            .imageView = r->to.view,
                                            .imageLayout = VK_IMAGE_LAYOUT_GENERAL,
                                            .loadOp = VK_ATTACHMENT_LOAD_OP_CLEAR,
                                            .storeOp = VK_ATTACHMENT_STORE_OP_STORE};
    VkRenderingInfo info = {.sType = VK_STRUCTURE_TYPE_RENDERING_INFO,
                            .renderArea = {.extent = {r->to.width, r->to.height}},
                            .layerCount = 1,
                            .colorAttachmentCount = 1,
                            .pColorAttachments = &attachment};
    VkViewport viewport = {.width = (float)r->to.width, .height = (float)r->to.height, .maxDepth = 1};
    barrier(r, commands, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
            VK_ACCESS_2_MEMORY_READ_BIT | VK_ACCESS_2_MEMORY_WRITE_BIT);
    r->CmdBeginRendering(commands, &info);
    r->CmdSetViewport(commands, 0, 1, &viewport);
    for (uint32_t i = 0; i < n; i++)
        draw(r, commands, triangle, first + i);
    r->CmdEndRendering(commands);
    if (r->to.to_host)
        barrier(r, commands, VK_PIPELINE_STAGE_2_HOST_BIT, VK_ACCESS_2_HOST_READ_BIT | VK_ACCESS_2_HOST_WRITE_BIT);
    return r->EndCommandBuffer(commands);
}

/* The frame that used these objects has run. */
static VkResult wait(const recorder *r)
{
    uint64_t value = 0, wanted = r->frames < RING ? 0 : r->frames - RING + 1;
    VkResult result = r->GetSemaphoreCounterValue(r->device, r->to.timeline, &value);
    VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                .semaphoreCount = 1,
                                .pSemaphores = &r->to.timeline,
                                .pValues = &wanted};
    return result != VK_SUCCESS || value >= wanted ? result : r->WaitSemaphores(r->device, &info, PATIENCE);
}

/* n frames of a clear and `triangles` times the same triangle (rows x y r g b a). Seconds; a negative result: a
 * VkResult. */
double time_recorded(recorder *r, const float *triangle, uint32_t triangles, long n)
{
    if (triangles > MOST)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    double start = seconds();
    for (long i = 0; i < n; i++) {
        VkSemaphoreSubmitInfo signal =
            semaphore_info(r->to.timeline, r->frames + 1, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT);
        uint32_t turn = (uint32_t)(r->frames % RING);
        VkResult result = wait(r);
        if (result == VK_SUCCESS)
            result = record(r, r->commands[turn], triangle, triangles, turn * MOST);
        if (result == VK_SUCCESS)
            result = submit_one(r->QueueSubmit2, r->queue, r->commands[turn], 0, NULL, 1, &signal, 0);
        if (result != VK_SUCCESS)
            return result > 0 ? -result : result;
        r->frames++;
    }
    return seconds() - start;
}
