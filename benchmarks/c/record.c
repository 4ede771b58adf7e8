/* record.c: a program in C that records each frame anew: it clears an image and draws triangles,
 * each with vertices and state of its own, into a command buffer of a ring, and submits it.
 */
#include <string.h>

#include "clock.h"
#include "interface.h"

#define FLOATS 10u /* x y z w, r g b a, u v */

static void barrier(const recording *r, VkCommandBuffer commands, VkFlags64 stage, VkFlags64 access)
{
    VkMemoryBarrier2 memory = {VK_STRUCTURE_TYPE_MEMORY_BARRIER_2, NULL,  VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
                               VK_ACCESS_2_MEMORY_WRITE_BIT,       stage, access};
    VkDependencyInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO, .memoryBarrierCount = 1, .pMemoryBarriers = &memory};
    r->gpu->CmdPipelineBarrier2(commands, &info);
}

static void draw(const recording *r, VkCommandBuffer commands, const float *triangle, uint32_t at)
{
    VkRect2D all = {.extent = {r->width, r->height}};
    VkDeviceSize offset = at * 3 * FLOATS * sizeof(float);
    float *out = r->mapped + at * 3 * FLOATS;
    for (int i = 0; i < 3; i++, out += FLOATS, triangle += 6) {
        float position[4] = {triangle[0], triangle[1], 0, 1};
        memcpy(out, position, sizeof position);
        memcpy(out + 4, triangle + 2, 4 * sizeof *out);
        out[8] = out[9] = 0;
    }
    r->gpu->CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_GRAPHICS, r->pipeline);
    r->gpu->CmdSetScissor(commands, 0, 1, &all);
    r->gpu->CmdBindVertexBuffers(commands, 0, 1, &r->vertices, &offset);
    r->gpu->CmdDraw(commands, 3, 1, 0, 0);
}

static VkResult record(const recording *r, VkCommandBuffer commands, const float *triangle, uint32_t n, uint32_t first)
{
    TRY(begin(r->gpu, commands));
    VkViewport viewport = {.width = (float)r->width, .height = (float)r->height, .maxDepth = 1};
    barrier(r, commands, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
            VK_ACCESS_2_MEMORY_READ_BIT | VK_ACCESS_2_MEMORY_WRITE_BIT);
    begin_cleared(r->gpu, commands, r->view, VK_IMAGE_LAYOUT_GENERAL, (VkExtent2D){r->width, r->height},
                  (VkClearColorValue){0});
    r->gpu->CmdSetViewport(commands, 0, 1, &viewport);
    for (uint32_t i = 0; i < n; i++)
        draw(r, commands, triangle, first + i);
    r->gpu->CmdEndRendering(commands);
    if (r->to_host)
        barrier(r, commands, VK_PIPELINE_STAGE_2_HOST_BIT, VK_ACCESS_2_HOST_READ_BIT | VK_ACCESS_2_HOST_WRITE_BIT);
    return r->gpu->EndCommandBuffer(commands);
}

/* The frame that used these objects has run. */
static VkResult wait(const recording *r)
{
    uint64_t value = 0, wanted = r->frames < FRAMES ? 0 : r->frames - FRAMES + 1;
    VkResult result = r->gpu->GetSemaphoreCounterValue(r->gpu->device, r->timeline, &value);
    VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                .semaphoreCount = 1,
                                .pSemaphores = &r->timeline,
                                .pValues = &wanted};
    return result != VK_SUCCESS || value >= wanted ? result : r->gpu->WaitSemaphores(r->gpu->device, &info, PATIENCE);
}

static VkResult frame(recording *r, const float *triangle, uint32_t triangles)
{
    uint32_t turn = (uint32_t)(r->frames % FRAMES);
    VkSemaphoreSubmitInfo signal = semaphore_info(r->timeline, r->frames + 1, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT);
    SUCCEED(wait(r));
    SUCCEED(record(r, r->commands[turn], triangle, triangles, turn * TRIANGLES));
    SUCCEED(submit_one(r->gpu->QueueSubmit2, r->gpu->queue, r->commands[turn], 0, NULL, 1, &signal, 0));
    r->frames++;
    return VK_SUCCESS;
}

/* n frames of a clear and `triangles` times the same triangle (rows x y r g b a). */
double time_recorded(recording *r, const float *triangle, uint32_t triangles, long n)
{
    if (triangles > TRIANGLES)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    TIMED(n, SUCCEED(frame(r, triangle, triangles)))
}
