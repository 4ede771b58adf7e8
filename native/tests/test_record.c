/* Command lists as data, and the calls that a driver gets of them: a driver that logs each call,
 * whose n-th call can fail. */
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "check_macros.h"
#include "raster/program.h"
#include "record/record.h"
#include "stub_driver.h"
#include "vulkan/vulkan_core.h"

/* ---- the driver ---- */

enum { MOST_OBJECTS = 1 << 16 };

static struct {
    char log[8192]; /* a word for each call since the last look at it */
    uint64_t made;  /* handles so far */
    uint32_t alive[16];
    uint32_t calls_left; /* until one fails; 0: none does */
    bool has_failed;
    VkClearColorValue cleared; /* the last colour */
    uint64_t written_view;     /* the last one of a descriptor set */
    uint32_t first_vertex, n_layouts;
    VkImageLayout layouts[16][2];
    bool is_recording[MOST_OBJECTS]; /* by command buffer */
    char vertices[1 << 20];
} driver;

static void note(const char *word)
{
    size_t length = strlen(driver.log);
    snprintf(driver.log + length, sizeof driver.log - length, "%s%s", length ? " " : "", word);
}

static const char *look(void)
{
    static char last[sizeof driver.log];
    memcpy(last, driver.log, sizeof last);
    driver.log[0] = 0;
    return last;
}

static VkResult fails(void)
{
    if (!driver.calls_left || --driver.calls_left)
        return VK_SUCCESS;
    driver.has_failed = true;
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

enum { COMMAND_POOL, BUFFER, MEMORY, SET_POOL, KINDS };

#define MAKE(Name, Info, Type, kind)                                                                                   \
    static VkResult VKAPI_CALL make_##Name(VkDevice device, const Info *info, const VkAllocationCallbacks *a,          \
                                           Type *out)                                                                  \
    {                                                                                                                  \
        (void)device, (void)info, (void)a;                                                                             \
        *out = (Type)(uintptr_t)0xbad;                                                                                 \
        if (fails())                                                                                                   \
            return VK_ERROR_OUT_OF_DEVICE_MEMORY;                                                                      \
        driver.alive[kind]++;                                                                                          \
        *out = (Type)(uintptr_t)++driver.made;                                                                         \
        return VK_SUCCESS;                                                                                             \
    }                                                                                                                  \
    static void VKAPI_CALL end_##Name(VkDevice device, Type handle, const VkAllocationCallbacks *a)                    \
    {                                                                                                                  \
        (void)device, (void)a;                                                                                         \
        CHECK((uintptr_t)handle != 0xbad, "a call that failed made nothing");                                          \
        driver.alive[kind]--;                                                                                          \
    }
MAKE(CommandPool, VkCommandPoolCreateInfo, VkCommandPool, COMMAND_POOL)
MAKE(Buffer, VkBufferCreateInfo, VkBuffer, BUFFER)
MAKE(Memory, VkMemoryAllocateInfo, VkDeviceMemory, MEMORY)
MAKE(DescriptorPool, VkDescriptorPoolCreateInfo, VkDescriptorPool, SET_POOL)

static VkResult VKAPI_CALL allocate_buffers(VkDevice d, const VkCommandBufferAllocateInfo *info, VkCommandBuffer *out)
{
    (void)d, (void)info;
    *out = (VkCommandBuffer)(uintptr_t)0xbad;
    if (fails())
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    *out = (VkCommandBuffer)(uintptr_t)++driver.made;
    return VK_SUCCESS;
}

static void VKAPI_CALL free_buffers(VkDevice d, VkCommandPool pool, uint32_t n, const VkCommandBuffer *buffers)
{
    (void)d, (void)pool, (void)n;
    driver.is_recording[(uintptr_t)buffers[0]] = false;
}

static VkResult VKAPI_CALL begin(VkCommandBuffer c, const VkCommandBufferBeginInfo *info)
{
    CHECK(info->flags == VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT, "a list may be pending several times");
    CHECK(!driver.is_recording[(uintptr_t)c], "VUID-vkBeginCommandBuffer-commandBuffer-00049");
    note("begin");
    if (fails())
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    driver.is_recording[(uintptr_t)c] = true;
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL end(VkCommandBuffer c)
{
    note("end");
    if (fails())
        return VK_ERROR_OUT_OF_DEVICE_MEMORY; /* and it stays in the recording state */
    driver.is_recording[(uintptr_t)c] = false;
    return VK_SUCCESS;
}

static void VKAPI_CALL requirements(VkDevice d, VkBuffer b, VkMemoryRequirements *out)
{
    (void)d, (void)b;
    *out = (VkMemoryRequirements){.size = sizeof driver.vertices, .alignment = 4, .memoryTypeBits = 6};
}

static VkResult VKAPI_CALL bind_memory(VkDevice d, VkBuffer b, VkDeviceMemory m, VkDeviceSize at)
{
    (void)d, (void)b, (void)m, (void)at;
    return fails();
}

static VkResult VKAPI_CALL map(VkDevice d, VkDeviceMemory m, VkDeviceSize at, VkDeviceSize size, VkMemoryMapFlags flags,
                               void **out)
{
    (void)d, (void)m, (void)at, (void)size, (void)flags;
    *out = driver.vertices;
    return fails();
}

static VkResult VKAPI_CALL allocate_sets(VkDevice d, const VkDescriptorSetAllocateInfo *info, VkDescriptorSet *out)
{
    (void)d, (void)info;
    if (fails())
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    *out = (VkDescriptorSet)(uintptr_t)++driver.made;
    return VK_SUCCESS;
}

static void VKAPI_CALL update_sets(VkDevice d, uint32_t n, const VkWriteDescriptorSet *writes, uint32_t m,
                                   const VkCopyDescriptorSet *copies)
{
    (void)d, (void)m, (void)copies;
    for (uint32_t i = 0; i < n; i++)
        if (writes[i].descriptorType == VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER) {
            CHECK(writes[i].pImageInfo->imageView, "a view at binding %u", writes[i].dstBinding);
            if (writes[i].dstBinding == 0)
                driver.written_view = (uint64_t)(uintptr_t)writes[i].pImageInfo->imageView;
        }
}

static void VKAPI_CALL barrier(VkCommandBuffer c, const VkDependencyInfo *info)
{
    (void)c;
    note(info->memoryBarrierCount && info->pMemoryBarriers->dstStageMask == VK_PIPELINE_STAGE_2_HOST_BIT ? "to-host"
                                                                                                         : "barrier");
    for (uint32_t i = 0; i < info->imageMemoryBarrierCount && driver.n_layouts < 16; i++) {
        driver.layouts[driver.n_layouts][0] = info->pImageMemoryBarriers[i].oldLayout;
        driver.layouts[driver.n_layouts++][1] = info->pImageMemoryBarriers[i].newLayout;
    }
}

static void VKAPI_CALL begin_rendering(VkCommandBuffer c, const VkRenderingInfo *info)
{
    (void)c;
    bool clears = info->pColorAttachments->loadOp == VK_ATTACHMENT_LOAD_OP_CLEAR;
    if (clears)
        driver.cleared = info->pColorAttachments->clearValue.color;
    CHECK(info->pColorAttachments->imageView, "a view");
    CHECK(!info->pDepthAttachment || info->pDepthAttachment->imageView, "a view of the depth");
    note(clears ? "render-clear" : "render");
    if (info->pDepthAttachment)
        note("with-depth");
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter" /* the stubs below have the signatures of Vulkan */
#define LOGS(function, word, ...)                                                                                      \
    static void VKAPI_CALL function(VkCommandBuffer c, ##__VA_ARGS__)                                                  \
    {                                                                                                                  \
        (void)c;                                                                                                       \
        note(word);                                                                                                    \
    }
LOGS(end_rendering, "end-render")
LOGS(test_depth, "test", VkBool32 e)
LOGS(write_depth, e ? "write" : "keep", VkBool32 e)
LOGS(compare_depth, o == VK_COMPARE_OP_LESS ? "less" : o == VK_COMPARE_OP_EQUAL ? "equal" : "other", VkCompareOp o)
LOGS(clear_depth, n == 1 && r->aspectMask == VK_IMAGE_ASPECT_DEPTH_BIT && v->depth == 1 ? "clear-depth" : "wrong",
     VkImage i, VkImageLayout l, const VkClearDepthStencilValue *v, uint32_t n, const VkImageSubresourceRange *r)
LOGS(viewport, "viewport", uint32_t a, uint32_t n, const VkViewport *v)
LOGS(scissor, "scissor", uint32_t a, uint32_t n, const VkRect2D *r)
LOGS(bind_pipeline, "pipeline", VkPipelineBindPoint p, VkPipeline q)
LOGS(bind_sets, "set", VkPipelineBindPoint p, VkPipelineLayout l, uint32_t f, uint32_t n, const VkDescriptorSet *s,
     uint32_t m, const uint32_t *o)
LOGS(bind_vertices, "vertices", uint32_t f, uint32_t n, const VkBuffer *b, const VkDeviceSize *o)
LOGS(push, "push", VkPipelineLayout l, VkShaderStageFlags s, uint32_t o, uint32_t n, const void *v)
LOGS(clear_rects, "fill", uint32_t n, const VkClearAttachment *a, uint32_t m, const VkClearRect *r)
LOGS(copy_image, "copy", VkImage s, VkImageLayout sl, VkImage t, VkImageLayout tl, uint32_t n, const VkImageCopy *r)
LOGS(copy_buffer, "copy-bytes", VkBuffer s, VkBuffer t, uint32_t n, const VkBufferCopy *r)

static VkBufferImageCopy last_rows; /* of the last copy between a buffer and an image */

static void VKAPI_CALL buffer_to_image(VkCommandBuffer c, VkBuffer s, VkImage t, VkImageLayout l, uint32_t n,
                                       const VkBufferImageCopy *r)
{
    (void)c, (void)s, (void)t, (void)l, (void)n;
    last_rows = *r;
    note("to-image");
}

static void VKAPI_CALL image_to_buffer(VkCommandBuffer c, VkImage s, VkImageLayout l, VkBuffer t, uint32_t n,
                                       const VkBufferImageCopy *r)
{
    (void)c, (void)s, (void)l, (void)t, (void)n;
    last_rows = *r;
    note("to-buffer");
}

LOGS(blit_image, "blit", VkImage s, VkImageLayout sl, VkImage t, VkImageLayout tl, uint32_t n, const VkImageBlit *r,
     VkFilter f)

static void VKAPI_CALL draw(VkCommandBuffer c, uint32_t count, uint32_t instances, uint32_t first, uint32_t instance)
{
    (void)c, (void)count, (void)instances, (void)instance;
    driver.first_vertex = first;
    note("draw");
}

static void VKAPI_CALL clear_image(VkCommandBuffer c, VkImage i, VkImageLayout l, const VkClearColorValue *value,
                                   uint32_t n, const VkImageSubresourceRange *r)
{
    (void)c, (void)i, (void)l, (void)n, (void)r;
    driver.cleared = *value;
    note("clear");
}

static PFN_vkVoidFunction VKAPI_CALL get_proc_addr(VkDevice device, const char *name)
{
    static const struct {
        const char *name;
        void *function;
    } functions[] = {
        {"vkCreateCommandPool", make_CommandPool},
        {"vkDestroyCommandPool", end_CommandPool},
        {"vkAllocateCommandBuffers", allocate_buffers},
        {"vkFreeCommandBuffers", free_buffers},
        {"vkBeginCommandBuffer", begin},
        {"vkEndCommandBuffer", end},
        {"vkCreateBuffer", make_Buffer},
        {"vkDestroyBuffer", end_Buffer},
        {"vkGetBufferMemoryRequirements", requirements},
        {"vkAllocateMemory", make_Memory},
        {"vkFreeMemory", end_Memory},
        {"vkBindBufferMemory", bind_memory},
        {"vkMapMemory", map},
        {"vkCreateDescriptorPool", make_DescriptorPool},
        {"vkDestroyDescriptorPool", end_DescriptorPool},
        {"vkAllocateDescriptorSets", allocate_sets},
        {"vkUpdateDescriptorSets", update_sets},
        {"vkCmdPipelineBarrier2", barrier},
        {"vkCmdBeginRendering", begin_rendering},
        {"vkCmdEndRendering", end_rendering},
        {"vkCmdSetViewport", viewport},
        {"vkCmdSetScissor", scissor},
        {"vkCmdBindPipeline", bind_pipeline},
        {"vkCmdBindDescriptorSets", bind_sets},
        {"vkCmdBindVertexBuffers", bind_vertices},
        {"vkCmdPushConstants", push},
        {"vkCmdDraw", draw},
        {"vkCmdClearColorImage", clear_image},
        {"vkCmdClearAttachments", clear_rects},
        {"vkCmdClearDepthStencilImage", clear_depth},
        {"vkCmdSetDepthTestEnable", test_depth},
        {"vkCmdSetDepthWriteEnable", write_depth},
        {"vkCmdSetDepthCompareOp", compare_depth},
        {"vkCmdCopyImage", copy_image},
        {"vkCmdCopyBuffer", copy_buffer},
        {"vkCmdCopyBufferToImage", buffer_to_image},
        {"vkCmdCopyImageToBuffer", image_to_buffer},
        {"vkCmdBlitImage", blit_image},
    };
    (void)device;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!strcmp(functions[i].name, name))
            return (PFN_vkVoidFunction)functions[i].function;
    return NULL;
}

/* ---- what the tests use ---- */

enum { EVERY_USE = VKS_USE_RENDER | VKS_USE_SAMPLE | VKS_USE_COPY, EVERY_FEATURE = 15, LONGEST = 16 };

static vks_device *device;
static const double red[4] = {1, 0, 0, 1};
static const float triangle[18] = {-1, -1, 1, 0, 0, 1, 3, -1, 1, 0, 0, 1, -1, 3, 1, 0, 0, 1};
static const vks_operand none = {NULL, NULL};

static vks_operand operand(vks_drawable_info info)
{
    vks_operand made = {stub_surface(device, NULL), NULL};
    info.width = info.width ? info.width : LONGEST;
    info.height = info.height ? info.height : LONGEST;
    info.format = info.format ? info.format : VKS_FORMAT_RGBA8_UNORM;
    info.usage = info.usage ? info.usage : EVERY_USE;
    info.image = ++driver.made;
    info.view = ++driver.made;
    info.raw_view = ++driver.made;
    info.features |= EVERY_FEATURE;
    CHECK(made.surface && vks_drawable_create(&info, &made.drawable) == VKS_OK, "%s", vks_last_error()->text);
    return made;
}

/* A buffer of the size. */
static vks_operand bytes(uint64_t size)
{
    vks_operand made = {stub_surface(device, NULL), NULL};
    vks_drawable_info info = {.usage = VKS_USE_BYTES, .size = size, .buffer = ++driver.made};
    CHECK(made.surface && vks_drawable_create(&info, &made.drawable) == VKS_OK, "%s", vks_last_error()->text);
    return made;
}

/* An image of planes, each with its handles; BT.709 of limited range. */
static vks_operand planes(uint32_t format)
{
    vks_drawable_info info = {.format = format, .color = {1, 1, 1, VKS_RANGE_LIMITED, VKS_SITING_LEFT}};
    for (int i = 0; i < 3; i++) {
        info.planes[i] = ++driver.made;
        info.plane_views[i] = ++driver.made;
    }
    return operand(info);
}

static vks_operand image(void) { return operand((vks_drawable_info){0}); }

static void drop(vks_operand each)
{
    vks_drawable_close(each.drawable);
    vks_drawable_unref(each.drawable);
    vks_surface_close(each.surface);
    vks_surface_unref(each.surface);
}

static vks_recorder *recorder_with(bool has_pipelines, uint32_t transfer_family)
{
    vks_recorder_info info = {.get_device_proc_addr = (void *)get_proc_addr,
                              .device = 1,
                              .transfer_family = transfer_family,
                              .host_types = {4, 2}};
    vks_recorder *made = NULL;
    CHECK(vks_recorder_create(&info, &made) == VKS_OK, "%s", vks_last_error()->text);
    for (uint32_t i = 0; i < VKS_PIPELINES && has_pipelines; i++)
        for (uint32_t format = 1; format < VKS_PIPELINE_FORMATS; format++)
            vks_recorder_set_pipeline(made, i, format, 1000 + VKS_PIPELINE_FORMATS * i + format);
    return made;
}

static vks_recorder *new_recorder(void) { return recorder_with(true, UINT32_MAX); }

static void drop_recorder(vks_recorder *recorder)
{
    vks_recorder_close(recorder);
    vks_recorder_close(recorder);
    vks_recorder_unref(recorder);
    for (int i = 0; i < KINDS; i++)
        CHECK(driver.alive[i] == 0, "%u objects of kind %d are left", driver.alive[i], i);
}

static vks_recorded *record(vks_recorder *recorder, const vks_recording *list)
{
    vks_record_problem problem;
    vks_recorded *recorded = NULL;
    look();
    CHECK(vks_recorder_record(recorder, list, &problem, &recorded) == VKS_OK, "%s", vks_last_error()->text);
    return recorded;
}

static void expect_calls(vks_recorder *recorder, const vks_recording *list, const char *calls)
{
    vks_recorded *recorded = record(recorder, list);
    const char *made = look();
    CHECK(!strcmp(made, calls), "\n  calls: %s\n  not:   %s", made, calls);
    if (recorded)
        vks_recorded_retire(recorded);
}

/* ---- the calls that the driver gets ---- */

static void a_clear_begins_the_draws_that_follow(void)
{
    vks_recorder *recorder = new_recorder();
    vks_recording *list = vks_recording_create();
    vks_operand target = image();
    vks_recording_clear(list, target, red);
    expect_calls(recorder, list, "begin barrier clear end");
    vks_recording_draw_triangles(list, target, triangle, 3, 6, none, false, NULL);
    vks_recording_draw_triangles(list, target, triangle, 3, 6, none, false, NULL);
    expect_calls(recorder, list,
                 "begin barrier render-clear viewport pipeline scissor vertices draw draw end-render end");
    CHECK(driver.first_vertex == 3, "the second triangle");
    float vertex[VKS_VERTEX_FLOATS], expected[] = {3, -1, 0, 1, 1, 0, 0, 1, 0, 0};
    memcpy(vertex, driver.vertices + VKS_VERTEX_BYTES, sizeof vertex);
    CHECK(!memcmp(vertex, expected, sizeof vertex), "z 0, w 1, u v 0");
    vks_recording_destroy(list);
    drop(target);
    drop_recorder(recorder);
}

static void what_reads_a_target_comes_after_a_barrier(void)
{
    vks_recorder *recorder = new_recorder();
    vks_recording *list = vks_recording_create();
    vks_operand one = image(), two = operand((vks_drawable_info){.is_mappable = true});
    vks_rect half = {0, 0, 8, 8}, all = {0, 0, 16, 16};
    vks_recording_fill_rect(list, one, half, red);
    vks_recording_copy(list, one, two, all, 0, 0);
    vks_recording_composite(list, two, one, 3, -2, 0.5f, VKS_COMPOSITE_STRAIGHT);
    vks_recording_blit(list, two, one, half, all, true);
    vks_recording_blit(list, one, two, all, all, true); /* as a copy */
    expect_calls(recorder, list,
                 "begin barrier render viewport fill end-render barrier copy barrier render pipeline set scissor push "
                 "draw pipeline scissor push draw end-render barrier copy to-host end");
    vks_recording_destroy(list);
    drop(one);
    drop(two);
    drop_recorder(recorder);
}

static void a_swapchains_image_leaves_its_layout_and_returns_to_it(void)
{
    vks_recorder *recorder = new_recorder();
    vks_recording *list = vks_recording_create();
    vks_operand shown = operand((vks_drawable_info){.is_presentable = true});
    vks_recording_clear(list, shown, red);
    driver.n_layouts = 0;
    expect_calls(recorder, list, "begin barrier clear barrier end");
    CHECK(driver.n_layouts == 2 && driver.layouts[0][0] == VK_IMAGE_LAYOUT_PRESENT_SRC_KHR &&
              driver.layouts[0][1] == VK_IMAGE_LAYOUT_GENERAL && driver.layouts[1][0] == VK_IMAGE_LAYOUT_GENERAL &&
              driver.layouts[1][1] == VK_IMAGE_LAYOUT_PRESENT_SRC_KHR,
          "%u changes of layout", driver.n_layouts);
    vks_recording_destroy(list);
    drop(shown);
    drop_recorder(recorder);
}

static void only_copies_go_to_a_transfer_queue(void)
{
    vks_recorder *recorder = recorder_with(true, 1);
    vks_recording *list = vks_recording_create();
    vks_operand one = image(), two = image();
    vks_recording_copy(list, one, two, (vks_rect){0, 0, 4, 4}, 0, 0);
    vks_recorded *recorded = record(recorder, list);
    CHECK(!strcmp(look(), "begin barrier copy end begin barrier copy end"), "once for each queue");
    CHECK(vks_recorded_transfer(recorded) && vks_recorded_transfer(recorded) != vks_recorded_graphics(recorded), "two");
    vks_recorded_retire(recorded);
    vks_recording_clear(list, one, red);
    recorded = record(recorder, list);
    CHECK(vks_recorded_transfer(recorded) == 0, "a clear is graphics work");
    vks_recorded_retire(recorded);
    vks_recording_destroy(list);
    drop(one);
    drop(two);
    drop_recorder(recorder);
}

static void each_plane_is_cleared_filled_copied_and_drawn_by_itself(void) /* rules: Y3 */
{
    vks_recorder *recorder = new_recorder();
    vks_operand video = planes(VKS_FORMAT_NV12), other = planes(VKS_FORMAT_NV12), three = planes(VKS_FORMAT_I420),
                colours = image();
    const vks_rect all = {0, 0, LONGEST, LONGEST}, half = {2, 4, 8, 6};
#define EXPECT(calls, command)                                                                                         \
    do {                                                                                                               \
        vks_recording *list = vks_recording_create();                                                                  \
        CHECK((command) == VKS_OK, "%s", vks_last_error()->text);                                                      \
        expect_calls(recorder, list, "begin " calls " end");                                                           \
        vks_recording_destroy(list);                                                                                   \
    } while (0)
#define DRAWN "pipeline scissor push draw end-render"
    EXPECT("barrier clear clear", vks_recording_clear(list, video, red));
    CHECK(driver.cleared.float32[0] == 102 / 255.0f && driver.cleared.float32[1] == 240 / 255.0f, "red's chroma");
    EXPECT("barrier clear clear clear", vks_recording_clear(list, three, red));
    CHECK(driver.cleared.float32[0] == 240 / 255.0f, "red's Cr");
    EXPECT("barrier render viewport fill end-render barrier render viewport fill end-render",
           vks_recording_fill_rect(list, video, half, red));
    EXPECT("barrier copy copy", vks_recording_copy(list, video, other, half, 0, 0));
    EXPECT("barrier copy copy", vks_recording_blit(list, video, other, all, all, true)); /* as a copy */
    EXPECT("barrier render viewport pipeline set scissor push draw end-render",          /* one pass converts */
           vks_recording_composite(list, three, colours, 0, 0, 1, 0));
    EXPECT("barrier render viewport pipeline set scissor push draw end-render",
           vks_recording_blit(list, video, colours, all, all, false));
    EXPECT("barrier render viewport pipeline set scissor push draw end-render barrier render viewport " DRAWN,
           vks_recording_blit(list, colours, video, all, all, false));
#undef DRAWN
#undef EXPECT
    drop(video);
    drop(other);
    drop(three);
    drop(colours);
    drop_recorder(recorder);
}

static void what_planes_cannot_take_is_refused(void) /* rules: Y1, Y3 */
{
    vks_recorder *recorder = new_recorder();
    vks_operand video = planes(VKS_FORMAT_NV12), other = planes(VKS_FORMAT_I420), colours = image(),
                buffer = bytes(4096);
    vks_rect all = {0, 0, LONGEST, LONGEST}, odd = {1, 0, 4, 4};
    vks_bytes_copy rows = {.rect = all};
    vks_recording *list = vks_recording_create();
    const struct {
        vks_status wanted, given;
    } refused[] = {
        {VKS_UNSUPPORTED, vks_recording_composite(list, colours, video, 0, 0, 1, 0)},
        {VKS_UNSUPPORTED, vks_recording_draw_triangles(list, video, triangle, 3, 6, none, true, NULL)},
        {VKS_UNSUPPORTED, vks_recording_copy_bytes(list, video, buffer, &rows)},
        {VKS_UNSUPPORTED, vks_recording_copy_bytes(list, buffer, video, &rows)},
        {VKS_BAD_VALUE, vks_recording_copy(list, video, other, all, 0, 0)},
        {VKS_BAD_VALUE, vks_recording_fill_rect(list, video, odd, red)},
        {VKS_BAD_VALUE, vks_recording_blit(list, colours, video, all, odd, false)},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        CHECK(refused[i].given == refused[i].wanted, "command %zu: %d", i, (int)refused[i].given);
    CHECK(vks_recording_length(list) == 0, "%zu commands", vks_recording_length(list));
    vks_record_problem problem;
    vks_recorded *recorded = NULL;
    CHECK(vks_recording_blit(list, video, other, all, all, false) == VKS_OK, "the rasteriser has it");
    CHECK(vks_recorder_record(recorder, list, &problem, &recorded) == VKS_UNSUPPORTED && !recorded &&
              strstr(vks_last_error()->text, "blit() to a surface of R, G and B"),
          "%s", vks_last_error()->text);
    vks_recording_destroy(list);
    drop(video);
    drop(other);
    drop(colours);
    drop(buffer);
    drop_recorder(recorder);
}

static void copies_of_buffers_are_checked_and_come_after_barriers(void) /* rules: E5 */
{
    vks_recorder *recorder = recorder_with(true, 1);
    vks_recording *list = vks_recording_create();
    vks_operand picture = image(), one = bytes(1024 + 8), two = bytes(2000);
    vks_bytes_copy rows = {.rect = {4, 2, 8, 4}, .source_offset = 8, .stride = 40};
    CHECK(vks_recording_copy_bytes(list, one, picture, &rows) == VKS_OK, "%s", vks_last_error()->text);
    vks_recorded *recorded = record(recorder, list);
    CHECK(!strcmp(look(), "begin barrier to-image end begin barrier to-image end"), "once for each queue");
    CHECK(last_rows.bufferOffset == 8 && last_rows.bufferRowLength == 10 && last_rows.imageOffset.x == 4 &&
              last_rows.imageOffset.y == 2 && last_rows.imageExtent.width == 8 && last_rows.imageExtent.height == 4,
          "the rows of 40 bytes, from byte 8 on");
    vks_recorded_retire(recorded);
    vks_bytes_copy back = {.rect = {0, 0, 16, 16}, .target_offset = 8}, plain = {.size = 5, .target_offset = 3};
    vks_recording_copy_bytes(list, picture, one, &back);
    vks_recording_copy_bytes(list, one, two, &plain);
    recorded = record(recorder, list);
    CHECK(vks_recorded_transfer(recorded), "only copies");
    CHECK(strstr(look(), "barrier to-image barrier to-buffer barrier copy-bytes end"), "in order");
    CHECK(last_rows.bufferRowLength == 16, "tight rows");
    vks_recorded_retire(recorded);
    vks_recording_destroy(list);

    list = vks_recording_create();
    vks_operand small = operand((vks_drawable_info){.format = VKS_FORMAT_R8_UNORM});
    vks_bytes_copy odd = {.rect = {0, 0, 2, 2}, .source_offset = 3};
    CHECK(vks_recording_copy_bytes(list, one, small, &odd) == VKS_OK, "%s", vks_last_error()->text);
    recorded = record(recorder, list);
    CHECK(!vks_recorded_transfer(recorded), "a transfer queue takes multiples of 4 alone");
    vks_recorded_retire(recorded);
    vks_recording_destroy(list);
    drop(picture);
    drop(small);
    drop(one);
    drop(two);
    drop_recorder(recorder);
}

static void copies_outside_a_buffer_are_refused_with_both_sizes(void) /* rules: E5 */
{
    vks_recording *list = vks_recording_create();
    vks_operand picture = image(), other = image(), one = bytes(1024), two = bytes(100);
    const uint64_t huge = UINT64_MAX / 4 * 4;
    const struct {
        vks_operand source, target;
        vks_bytes_copy copy;
        const char *text;
    } wrong[] = {
        {one, two, {.size = 101}, "target is a buffer of 100 bytes; 101 bytes from offset 0"},
        {one, two, {.size = 1, .source_offset = 1024}, "source is a buffer of 1024 bytes; 1 bytes from offset 1024"},
        {one, two, {.size = UINT64_MAX, .source_offset = 8}, "do not fit"},
        {one, picture, {.rect = {0, 0, 16, 16}, .source_offset = 4}, "1024 bytes; 1024 bytes from offset 4"},
        {picture, two, {.rect = {0, 0, 5, 6}}, "target is a buffer of 100 bytes; 120 bytes from offset 0"},
        {picture, one, {.rect = {0, 0, 16, 2}, .stride = huge}, "pixels"},
        {picture, one, {.rect = {0, 0, 16, 2}, .stride = 60}, "stride is 60; a row of 16 pixels has 64 bytes"},
        {picture, one, {.rect = {0, 0, 16, 2}, .stride = 66}, "multiples of 4"},
        {picture, one, {.rect = {0, 0, 1, 1}, .target_offset = 2}, "target_offset is 2; allowed are multiples of 4"},
        {picture, one, {.rect = {0, 0, 1, 1}, .source_offset = 4}, "source_offset is 4, and source is a surface"},
        {picture, one, {.rect = {9, 0, 8, 1}}, "source_rect is (9, 0, 8, 1), which is not inside the surface of 16x16"},
        {one, picture, {.rect = {0, -1, 8, 1}}, "target_rect is (0, -1, 8, 1)"},
        {one, picture, {.rect = {0, 0, 8, -1}}, "target_rect is (0, 0, 8, -1)"},
        {picture, other, {.rect = {0, 0, 8, 1}}, "neither source nor target is a buffer"},
        {one, one, {.size = 8}, "the same buffer"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        vks_status status = vks_recording_copy_bytes(list, wrong[i].source, wrong[i].target, &wrong[i].copy);
        CHECK(status == VKS_BAD_VALUE && strstr(vks_last_error()->text, wrong[i].text), "case %zu: %d, %s", i, status,
              vks_last_error()->text);
    }
    CHECK(vks_recording_copy_bytes(list, one, picture, &(vks_bytes_copy){.rect = {3, 3, 0, 9}}) == VKS_OK &&
              vks_recording_copy_bytes(list, one, two, &(vks_bytes_copy){.size = 0}) == VKS_OK,
          "nothing to copy");
    CHECK(vks_recording_length(list) == 0, "nothing was recorded");
    vks_drawable *drawable = NULL;
    CHECK(vks_drawable_create(&(vks_drawable_info){.usage = VKS_USE_BYTES}, &drawable) == VKS_BAD_VALUE, "no bytes");
    vks_recording_destroy(list);
    drop(picture);
    drop(other);
    drop(one);
    drop(two);
}

/* The colour that a driver is given is the very one that a code of the format stands for. */
static void a_clear_has_the_colour_that_the_format_can_hold(void)
{
    vks_recorder *recorder = new_recorder();
    for (uint32_t format = 1; format < VKS_FORMAT_R32_UINT; format++) {
        vks_operand target = operand((vks_drawable_info){.format = format});
        for (int i = 0; i < 512; i++) {
            float colour[4] = {(float)i / 510, 1 - (float)i / 511, i % 2 ? -0.0f : 0.3333f, (float)(i % 7) / 6};
            double precise[4] = {colour[0], colour[1], colour[2], colour[3]};
            uint8_t wanted[16] = {0}, given[16] = {0};
            vks_recording *list = vks_recording_create();
            vks_recording_clear(list, target, precise);
            vks_recorded_retire(record(recorder, list));
            vks_pack_colour(format, colour, wanted);
            vks_pack_colour(format, driver.cleared.float32, given);
            CHECK(!memcmp(wanted, given, sizeof given), "format %u, colour %d", format, i);
            float code = rintf(fminf(fmaxf(colour[0], 0), 1) * 255), expected = code / 255;
            CHECK(format != VKS_FORMAT_RGBA8_UNORM || driver.cleared.float32[0] == expected, "red of colour %d", i);
            CHECK(format != VKS_FORMAT_RGBA32_FLOAT || !memcmp(driver.cleared.float32, colour, sizeof colour),
                  "floats stay as they are, -0.0 too");
            vks_recording_destroy(list);
        }
        drop(target);
    }
    drop_recorder(recorder);
}

/* rules: E6 */
static void a_clear_of_integers_is_rounded_and_clamped_and_no_bit_is_lost(void)
{
    static const struct {
        double red;
        uint32_t code;
    } cases[] = {{0, 0},
                 {7, 7},
                 {16777217, 16777217}, /* no float */
                 {4294967295.0, UINT32_MAX},
                 {4294967294.0, UINT32_MAX - 1},
                 {4294967296.0, UINT32_MAX},
                 {3e38, UINT32_MAX},
                 {0.5, 0},
                 {1.5, 2},
                 {-0.0, 0},
                 {-3, 0},
                 {NAN, 0},
                 {2139095041, 2139095041},  /* the bits of a signalling NaN */
                 {2147483649, 2147483649}}; /* and of a denormal */
    vks_recorder *recorder = new_recorder();
    vks_operand target = operand((vks_drawable_info){.format = VKS_FORMAT_R32_UINT});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vks_recording *list = vks_recording_create();
        vks_recording_clear(list, target, (const double[]){cases[i].red, 1, 1, 1});
        vks_recorded_retire(record(recorder, list));
        CHECK(driver.cleared.uint32[0] == cases[i].code, "%f became %u", cases[i].red, driver.cleared.uint32[0]);
        vks_recording_destroy(list);
    }
    drop(target);
    drop_recorder(recorder);
}

/* rules: E6 */
static void draws_with_one_depth_share_a_scope_and_another_depth_ends_it(void)
{
    vks_recorder *recorder = new_recorder();
    vks_recording *list = vks_recording_create();
    vks_operand target = image(), image = operand((vks_drawable_info){.format = VKS_FORMAT_D32_FLOAT});
    vks_depth_operand less = {image, VKS_DEPTH_LESS, true}, equal = {image, VKS_DEPTH_EQUAL, false};
    vks_recording_clear(list, image, red);
    vks_recording_clear(list, target, red);
    vks_recording_draw_triangles(list, target, triangle, 3, 6, none, false, &less);
    vks_recording_draw_triangles(list, target, triangle, 3, 6, none, false, &less);
    vks_recording_draw_triangles(list, target, triangle, 3, 6, none, false, &equal);
    vks_recording_draw_triangles(list, target, triangle, 3, 6, none, false, NULL);
    vks_recording_draw_triangles(list, target, triangle, 3, 6, none, false, &equal);
    expect_calls(recorder, list,
                 "begin barrier clear-depth barrier render-clear with-depth viewport pipeline test write less scissor "
                 "vertices draw draw test keep equal draw end-render barrier render pipeline draw end-render barrier "
                 "render with-depth pipeline test keep equal draw end-render end");
    size_t n_uses;
    const vks_use *uses = vks_recording_uses(list, &n_uses);
    CHECK(n_uses == 2 && uses[0].surface == image.surface && uses[0].writes, "the depth is written");
    vks_recording_destroy(list);
    drop(target);
    drop(image);
    drop_recorder(recorder);
}

/* rules: E6 */
static void depth_is_no_work_of_a_transfer_queue(void)
{
    vks_recorder *recorder = recorder_with(true, 1);
    vks_recording *list = vks_recording_create();
    vks_operand one = operand((vks_drawable_info){.format = VKS_FORMAT_D16_UNORM}),
                two = operand((vks_drawable_info){.format = VKS_FORMAT_D16_UNORM});
    vks_recording_copy(list, one, two, (vks_rect){0, 0, 4, 4}, 0, 0);
    vks_recorded *recorded = record(recorder, list);
    CHECK(vks_recorded_transfer(recorded) == 0, "queues that only copy take no depth");
    vks_recorded_retire(recorded);
    vks_recording_destroy(list);
    drop(one);
    drop(two);
    drop_recorder(recorder);
}

/* ---- what is refused ---- */

/* rules: E6 */
static void depth_is_cleared_copied_and_the_depth_of_draws_alone(void)
{
    vks_operand deep = operand((vks_drawable_info){.format = VKS_FORMAT_D16_UNORM}),
                other = operand((vks_drawable_info){.format = VKS_FORMAT_D16_UNORM}), colours = image(),
                small = operand((vks_drawable_info){.format = VKS_FORMAT_D16_UNORM, .width = 8});
    vks_rect all = {0, 0, LONGEST, LONGEST};
    static const float corners[12] = {0, 0, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1};
    vks_recording *list = vks_recording_create();
#define DRAW_WITH(target, ...)                                                                                         \
    vks_recording_draw_triangles(list, target, triangle, 3, 6, none, true, &(vks_depth_operand){__VA_ARGS__})
    const struct {
        vks_status wanted, given;
    } refused[] = {
        {VKS_UNSUPPORTED, vks_recording_fill_rect(list, deep, all, red)},
        {VKS_UNSUPPORTED, vks_recording_blit(list, deep, other, all, all, false)},
        {VKS_UNSUPPORTED, vks_recording_blit(list, colours, deep, all, all, false)},
        {VKS_UNSUPPORTED, vks_recording_composite(list, deep, colours, 0, 0, 1, 0)},
        {VKS_UNSUPPORTED, vks_recording_composite(list, colours, deep, 0, 0, 1, VKS_COMPOSITE_STRAIGHT)},
        {VKS_UNSUPPORTED, DRAW_WITH(deep, other, VKS_DEPTH_LESS, true)},
        {VKS_UNSUPPORTED, vks_recording_draw_triangles(list, colours, corners, 3, 4, deep, false, NULL)},
        {VKS_BAD_VALUE, DRAW_WITH(colours, colours, VKS_DEPTH_LESS, true)},
        {VKS_BAD_VALUE, DRAW_WITH(colours, small, VKS_DEPTH_LESS, true)},
        {VKS_BAD_VALUE, DRAW_WITH(colours, deep, 8, true)},
        {VKS_BAD_VALUE, vks_recording_clear(list, deep, (const double[]){1.5, 0, 0, 0})},
        {VKS_BAD_VALUE, vks_recording_clear(list, deep, (const double[]){-0.5, 0, 0, 0})},
        {VKS_BAD_VALUE, vks_recording_clear(list, deep, (const double[]){NAN, 0, 0, 0})},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        CHECK(refused[i].given == refused[i].wanted, "command %zu: %d", i, (int)refused[i].given);
    CHECK(vks_recording_length(list) == 0, "%zu commands", vks_recording_length(list));
    CHECK(vks_recording_clear(list, deep, red) == VKS_OK, "clear");
    CHECK(vks_recording_copy(list, deep, other, all, 0, 0) == VKS_OK, "copy");
    CHECK(DRAW_WITH(colours, deep, VKS_DEPTH_ALWAYS, false) == VKS_OK, "draw");
    vks_recording_destroy(list);
    drop(deep);
    drop(other);
    drop(colours);
    drop(small);
}

/* rules: E6 */
static void integers_are_cleared_filled_and_copied_alone(void)
{
    vks_operand whole = operand((vks_drawable_info){.format = VKS_FORMAT_R32_UINT}),
                other = operand((vks_drawable_info){.format = VKS_FORMAT_R32_UINT}), colours = image();
    vks_rect all = {0, 0, LONGEST, LONGEST};
    static const float corners[12] = {0, 0, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1};
    vks_recording *list = vks_recording_create();
    vks_status refused[] = {
        vks_recording_blit(list, whole, other, all, all, false),
        vks_recording_blit(list, whole, colours, all, all, true),
        vks_recording_blit(list, colours, whole, all, all, false),
        vks_recording_composite(list, whole, colours, 0, 0, 1, 0),
        vks_recording_composite(list, colours, whole, 0, 0, 1, VKS_COMPOSITE_STRAIGHT),
        vks_recording_draw_triangles(list, whole, triangle, 3, 6, none, true, NULL),
        vks_recording_draw_triangles(list, colours, corners, 3, 4, whole, false, NULL),
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        CHECK(refused[i] == VKS_UNSUPPORTED, "command %zu: %d", i, (int)refused[i]);
    size_t n_uses;
    vks_recording_uses(list, &n_uses);
    CHECK(vks_recording_length(list) == 0 && n_uses == 0, "%zu commands", vks_recording_length(list));
    CHECK(vks_recording_clear(list, whole, red) == VKS_OK, "clear");
    CHECK(vks_recording_fill_rect(list, whole, all, red) == VKS_OK, "fill");
    CHECK(vks_recording_copy(list, whole, other, all, 0, 0) == VKS_OK, "copy");
    vks_recording_destroy(list);
    drop(whole);
    drop(other);
    drop(colours);
}

static void a_missing_pipeline_is_named_and_nothing_is_recorded(void)
{
    vks_recorder *recorder = recorder_with(false, UINT32_MAX);
    vks_recording *list = vks_recording_create();
    vks_operand target = operand((vks_drawable_info){.format = VKS_FORMAT_RGBA16_FLOAT}), source = image();
    vks_record_problem problem;
    vks_recorded *recorded;
    vks_recording_blit(list, source, target, (vks_rect){0, 0, 8, 8}, (vks_rect){0, 0, 16, 16}, true);
    look();
    CHECK(vks_recorder_record(recorder, list, &problem, &recorded) == VKS_BAD_CALL, "it is not there");
    CHECK(problem.kind == VKS_PROBLEM_PIPELINE && problem.pipeline == VKS_PIPELINE_BLIT + 1 + 8 &&
              problem.format == VKS_FORMAT_RGBA16_FLOAT && !look()[0],
          "pipeline %u", problem.pipeline);
    CHECK(vks_recorder_set_pipeline(recorder, problem.pipeline, problem.format, 7) == VKS_OK, "now it is");
    CHECK(vks_recorder_set_pipeline(recorder, VKS_PIPELINES, 1, 7) == VKS_BAD_VALUE, "no such pipeline");
    CHECK(vks_recorder_set_pipeline(recorder, 0, VKS_PIPELINE_FORMATS, 7) == VKS_BAD_VALUE, "no such format");
    vks_recorded_retire(record(recorder, list));
    vks_recording_destroy(list);
    drop(source);
    drop(target);
    drop_recorder(recorder);
}

static void a_closed_image_is_never_recorded(void)
{
    vks_recorder *recorder = new_recorder();
    vks_recording *list = vks_recording_create();
    vks_operand one = image(), two = image();
    vks_record_problem problem;
    vks_recorded *recorded;
    vks_recording_clear(list, one, red);
    vks_recording_clear(list, two, red);
    vks_drawable_close(two.drawable);
    CHECK(vks_recorder_record(recorder, list, &problem, &recorded) == VKS_CLOSED &&
              problem.kind == VKS_PROBLEM_CLOSED && problem.use == 1,
          "it is named");
    vks_recorder_close(recorder);
    CHECK(vks_recorder_record(recorder, list, &problem, &recorded) == VKS_CLOSED && problem.kind == VKS_PROBLEM_NONE,
          "and a closed recorder records nothing");
    vks_recording_destroy(list);
    drop(one);
    drop(two);
    drop_recorder(recorder);
}

static void what_a_format_cannot_do_is_named(void)
{
    vks_recorder *recorder = new_recorder();
    vks_drawable_info info = {.width = LONGEST,
                              .height = LONGEST,
                              .format = VKS_FORMAT_RGBA32_FLOAT,
                              .usage = EVERY_USE,
                              .features = VKS_CAN_BLIT_FROM,
                              .image = 1,
                              .view = 2,
                              .raw_view = 3};
    vks_operand poor = {stub_surface(device, NULL), NULL}, rich = image();
    CHECK(vks_drawable_create(&info, &poor.drawable) == VKS_OK, "%s", vks_last_error()->text);
    static const float quad[12] = {0, 0, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1};
    for (int i = 0; i < 2; i++) {
        vks_recording *list = vks_recording_create();
        vks_record_problem problem;
        vks_recorded *recorded;
        vks_recording_draw_triangles(list, i ? rich : poor, quad, 3, 4, i ? poor : rich, true, NULL);
        CHECK(vks_recorder_record(recorder, list, &problem, &recorded) == VKS_UNSUPPORTED &&
                  problem.kind == VKS_PROBLEM_FEATURE && problem.feature == (i ? VKS_CAN_FILTER : VKS_CAN_BLEND) &&
                  problem.use == (size_t)i,
              "feature %u of use %zu", problem.feature, problem.use);
        vks_recording_destroy(list);
    }
    drop(poor);
    drop(rich);
    drop_recorder(recorder);
}

static void arguments_outside_their_range_are_refused_and_record_nothing(void)
{
    vks_recording *list = vks_recording_create();
    vks_operand one = image(), two = operand((vks_drawable_info){.width = 8}),
                r8 = operand((vks_drawable_info){.format = 1});
    float broken[18];
    memcpy(broken, triangle, sizeof broken);
    broken[13] = INFINITY;
    vks_rect all = {0, 0, 16, 16}, beyond = {1, 0, 16, 16}, huge = {INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX};
    vks_status refused[] = {
        vks_recording_fill_rect(list, one, (vks_rect){0, 0, -1, 1}, red),
        vks_recording_copy(list, one, one, all, 0, 0),
        vks_recording_copy(list, one, r8, all, 0, 0),
        vks_recording_copy(list, one, two, all, 0, 0),
        vks_recording_copy(list, two, one, (vks_rect){0, 0, 8, 8}, 9, 0),
        vks_recording_copy(list, two, one, (vks_rect){0, 0, 8, 8}, INT32_MAX, 0),
        vks_recording_copy(list, one, two, (vks_rect){0, 0, 1, INT32_MIN}, 0, 0),
        vks_recording_blit(list, one, two, beyond, (vks_rect){0, 0, 8, 8}, false),
        vks_recording_blit(list, one, two, all, huge, false),
        vks_recording_blit(list, one, one, all, all, false),
        vks_recording_composite(list, one, two, 0, 0, 1.5f, 0),
        vks_recording_composite(list, one, two, 0, 0, NAN, 0),
        vks_recording_draw_triangles(list, one, triangle, 2, 6, none, false, NULL),
        vks_recording_draw_triangles(list, one, triangle, 3, 4, none, false, NULL),
        vks_recording_draw_triangles(list, one, triangle, 3, 6, one, false, NULL),
        vks_recording_draw_triangles(list, one, broken, 3, 6, none, false, NULL),
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        CHECK(refused[i] == VKS_BAD_VALUE, "case %zu: %d", i, refused[i]);
    CHECK(!strcmp(vks_last_error()->text, "vertices: value 1 of vertex 2 is inf; allowed are finite 32-bit floats"),
          "%s", vks_last_error()->text);
    vks_status left_out[] = {
        vks_recording_fill_rect(list, one, huge, red),
        vks_recording_copy(list, one, two, (vks_rect){0, 0, 0, 8}, 0, 0),
        vks_recording_blit(list, one, two, all, (vks_rect){8, 0, 0, 8}, false),
        vks_recording_composite(list, one, two, INT32_MIN, INT32_MAX, 1, 0),
        vks_recording_composite(list, one, two, 0, 0, 0, 0),
        vks_recording_draw_triangles(list, one, triangle, 0, 6, none, false, NULL),
    };
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        CHECK(left_out[i] == VKS_OK, "case %zu: %d", i, left_out[i]);
    CHECK(vks_recording_length(list) == 0, "nothing has an area");
    vks_drawable *drawable;
    CHECK(vks_drawable_create(&(vks_drawable_info){.format = 99}, &drawable) == VKS_BAD_VALUE, "no such format");
    vks_recording_destroy(list);
    drop(one);
    drop(two);
    drop(r8);
}

/* ---- objects that are used again ---- */

static void a_command_buffer_is_used_again_once_its_last_use_has_run(void)
{
    vks_recorder *recorder = new_recorder();
    vks_recording *list = vks_recording_create();
    vks_operand target = image();
    vks_recorder_statistics s;
    vks_recording_draw_triangles(list, target, triangle, 3, 6, none, false, NULL);
    vks_recorded *first = record(recorder, list), *second = record(recorder, list);
    uint64_t buffer = vks_recorded_graphics(first);
    CHECK(vks_recorded_graphics(second) != buffer, "the first may still run");
    vks_recorded_retire(first);
    uint32_t buffers = driver.alive[BUFFER];
    for (int i = 0; i < 100; i++) {
        first = record(recorder, list);
        CHECK(vks_recorded_graphics(first) == buffer, "it is the only unused one");
        vks_recorded_retire(first);
    }
    vks_recorder_get_statistics(recorder, &s);
    CHECK(s.made == 2 && s.unused == 1 && driver.alive[BUFFER] == buffers, "%u made, %u unused", s.made, s.unused);
    vks_recorder_close(recorder);
    vks_recorded_retire(second); /* its list outlived the device */
    vks_recording_destroy(list);
    drop(target);
    drop_recorder(recorder);
}

static void many_lists_that_go_leave_a_few_command_buffers(void)
{
    enum { MANY = 500 };
    vks_recorder *recorder = new_recorder();
    vks_recording *list = vks_recording_create();
    vks_operand target = image();
    vks_recorded *recorded[MANY];
    vks_recorder_statistics s;
    vks_recording_draw_triangles(list, target, triangle, 3, 6, none, false, NULL);
    for (int i = 0; i < MANY; i++)
        recorded[i] = record(recorder, list);
    CHECK(!vks_recorder_has_unused(recorder), "all are in use");
    for (int i = 0; i < MANY; i++)
        vks_recorded_retire(recorded[i]);
    vks_recorder_get_statistics(recorder, &s);
    CHECK(s.made == s.unused && s.made <= 40 && driver.alive[BUFFER] <= s.made && s.vertex_bytes <= 16 << 20,
          "%u made, %u buffers", s.made, driver.alive[BUFFER]);
    CHECK(vks_recorder_has_unused(recorder), "some are kept");
    vks_recording_destroy(list);
    drop(target);
    drop_recorder(recorder);
}

static void a_descriptor_set_belongs_to_an_image_and_then_to_another(void)
{
    vks_recorder *recorder = new_recorder();
    vks_operand target = image();
    vks_recorder_statistics s;
    for (int i = 0; i < 200; i++) {
        vks_operand source = image();
        vks_recording *list = vks_recording_create();
        for (int again = 0; again < 3; again++) {
            vks_recording_composite(list, source, target, again, 0, 1, 0);
            vks_recorded_retire(record(recorder, list));
        }
        CHECK(driver.written_view == vks_drawable_get_info(source.drawable)->raw_view, "it shows this image");
        vks_recording_destroy(list);
        drop(source);
    }
    vks_recorder_get_statistics(recorder, &s);
    CHECK(s.sets == 1, "%u sets", s.sets);
    drop(target);
    drop_recorder(recorder);
}

static vks_recorder *shared;
static vks_operand shared_source, shared_target;

static void *record_many(void *unused)
{
    for (int i = 0; i < 300; i++) {
        vks_recording *list = vks_recording_create();
        vks_record_problem problem;
        vks_recorded *recorded = NULL;
        vks_recording_composite(list, shared_source, shared_target, 0, 0, 1, 0);
        vks_recording_draw_triangles(list, shared_target, triangle, 3, 6, none, false, NULL);
        if (vks_recorder_record(shared, list, &problem, &recorded) == VKS_OK)
            vks_recorded_retire(recorded);
        vks_recording_destroy(list);
    }
    return unused;
}

static void several_threads_record_and_retire_while_an_image_is_closed(void)
{
    pthread_t threads[4];
    shared = new_recorder();
    shared_source = image();
    shared_target = image();
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, record_many, NULL) == 0, "a thread");
    vks_drawable_close(shared_source.drawable);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    vks_recorder_statistics s;
    vks_recorder_get_statistics(shared, &s);
    CHECK(s.made == s.unused && s.made <= 4, "%u made", s.made);
    drop(shared_source);
    drop(shared_target);
    drop_recorder(shared);
}

/* Makes each call of the driver fail in turn. */
static void after_any_call_that_failed_nothing_is_left_and_the_next_list_is_recorded(void)
{
    driver.has_failed = true;
    for (uint32_t n = 1; driver.has_failed; n++) {
        vks_recorder *recorder = recorder_with(true, 1);
        vks_recording *list = vks_recording_create(), *copies = vks_recording_create();
        vks_operand one = image(), two = image();
        vks_recording_composite(list, one, two, 0, 0, 1, 0);
        vks_recording_draw_triangles(list, two, triangle, 3, 6, none, false, NULL);
        vks_recording_copy(copies, one, two, (vks_rect){0, 0, 1, 1}, 0, 0);
        driver.has_failed = false;
        driver.calls_left = n;
        for (int i = 0; i < 4; i++) {
            vks_record_problem problem;
            vks_recorded *recorded = NULL;
            bool had_failed = driver.has_failed;
            vks_status status = vks_recorder_record(recorder, i % 2 ? copies : list, &problem, &recorded);
            CHECK(status == (driver.has_failed && !had_failed ? VKS_VULKAN_ERROR : VKS_OK), "call %u: %d", n, status);
            if (!status)
                vks_recorded_retire(recorded);
        }
        driver.calls_left = 0;
        vks_recording_destroy(list);
        vks_recording_destroy(copies);
        drop(one);
        drop(two);
        drop_recorder(recorder);
    }
}

/* ---- the data ---- */

static void each_surface_is_one_use_however_many_there_are(void)
{
    enum { MANY = 100 };
    vks_recording *list = vks_recording_create();
    vks_operand images[MANY];
    for (int i = 0; i < MANY; i++)
        images[i] = image();
    for (int round = 0; round < 3; round++)
        for (int i = 1; i < MANY; i++)
            vks_recording_composite(list, images[i], images[0], 0, 0, 1, 0);
    size_t n_uses;
    const vks_use *uses = vks_recording_uses(list, &n_uses);
    CHECK(n_uses == MANY && vks_recording_length(list) == 3 * (MANY - 1), "%zu uses", n_uses);
    for (size_t i = 0; i < n_uses; i++)
        CHECK(uses[i].surface == images[i].surface && uses[i].writes == (i == 0), "use %zu", i);
    vks_recording_empty(list);
    CHECK(vks_recording_length(list) == 0, "it is empty");
    vks_recording_clear(list, images[3], red);
    vks_recording_uses(list, &n_uses);
    CHECK(n_uses == 1, "and can be recorded to");
    vks_recording_destroy(list);
    for (int i = 0; i < MANY; i++)
        drop(images[i]);
}

static void a_variant_drops_targets_and_replaces_sources(void)
{
    vks_recording *list = vks_recording_create(), *variant = vks_recording_create();
    vks_operand kept = image(), dropped = image(), source = image(), zeros = image();
    static const float textured[12] = {0, 0, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1};
    vks_recording_clear(list, kept, red);
    vks_recording_clear(list, dropped, red);
    vks_recording_draw_triangles(list, kept, textured, 3, 4, source, true, NULL);
    bool keep[] = {true, false, true};
    vks_operand sources[] = {kept, dropped, zeros};
    CHECK(vks_recording_append(variant, list, 3, keep, sources) == VKS_OK, "%s", vks_last_error()->text);
    size_t n_uses;
    const vks_use *uses = vks_recording_uses(variant, &n_uses);
    CHECK(vks_recording_length(variant) == 2 && n_uses == 2 && uses[0].surface == kept.surface &&
              uses[1].surface == zeros.surface && !uses[1].writes,
          "%zu commands", vks_recording_length(variant));
    vks_recording_destroy(list);
    vks_recording_destroy(variant);
    drop(kept);
    drop(dropped);
    drop(source);
    drop(zeros);
}

static void the_rasteriser_runs_the_same_commands(void)
{
    vks_recording *list = vks_recording_create();
    vks_operand one = image(), two = image();
    vks_rect corner = {0, 0, 4, 4};
    vks_recording_clear(list, one, red);
    vks_recording_fill_rect(list, one, corner, (const double[]){0, 1, 0, 1});
    vks_recording_copy(list, one, two, (vks_rect){0, 0, 16, 16}, 0, 0);
    vks_recording_composite(list, one, two, 8, 8, 1, 0);
    vks_recording_blit(list, two, one, corner, (vks_rect){16, 16, -8, -8}, false);
    vks_recording_draw_triangles(list, one, triangle, 3, 6, none, false, NULL);
    vks_program *program = NULL;
    CHECK(vks_recording_program(list, 8, &program) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_program_length(program) == 6 && vks_program_images(program) == 2, "all of them");
    static uint32_t pixels[2][16 * 16];
    struct vks_image images[2];
    for (int i = 0; i < 2; i++)
        images[i] = (struct vks_image){pixels[i], sizeof pixels[i], 16, 16, 64, VKS_FORMAT_RGBA8_UNORM};
    CHECK(vks_program_run(program, images, 2, NULL) == VKS_RASTER_OK, "it runs");
    CHECK(pixels[0][0] == 0xff0000ff && pixels[1][0] == 0xff00ff00 && pixels[1][8 * 16 + 8] == 0xff00ff00 &&
              pixels[1][15] == 0xff0000ff,
          "%08x %08x", pixels[0][0], pixels[1][0]);
    CHECK(vks_recording_program(list, 3, &program) == VKS_BAD_VALUE, "too few bits");
    vks_program_destroy(program);
    vks_recording_destroy(list);
    drop(one);
    drop(two);
}

int main(void)
{
    device = stub_open("record", false);
    RUN(a_clear_begins_the_draws_that_follow);
    RUN(what_reads_a_target_comes_after_a_barrier);
    RUN(a_swapchains_image_leaves_its_layout_and_returns_to_it);
    RUN(only_copies_go_to_a_transfer_queue);
    RUN(each_plane_is_cleared_filled_copied_and_drawn_by_itself);
    RUN(what_planes_cannot_take_is_refused);
    RUN(copies_of_buffers_are_checked_and_come_after_barriers);
    RUN(copies_outside_a_buffer_are_refused_with_both_sizes);
    RUN(a_clear_has_the_colour_that_the_format_can_hold);
    RUN(a_clear_of_integers_is_rounded_and_clamped_and_no_bit_is_lost);
    RUN(integers_are_cleared_filled_and_copied_alone);
    RUN(draws_with_one_depth_share_a_scope_and_another_depth_ends_it);
    RUN(depth_is_no_work_of_a_transfer_queue);
    RUN(depth_is_cleared_copied_and_the_depth_of_draws_alone);
    RUN(a_missing_pipeline_is_named_and_nothing_is_recorded);
    RUN(a_closed_image_is_never_recorded);
    RUN(what_a_format_cannot_do_is_named);
    RUN(arguments_outside_their_range_are_refused_and_record_nothing);
    RUN(a_command_buffer_is_used_again_once_its_last_use_has_run);
    RUN(many_lists_that_go_leave_a_few_command_buffers);
    RUN(a_descriptor_set_belongs_to_an_image_and_then_to_another);
    RUN(several_threads_record_and_retire_while_an_image_is_closed);
    RUN(after_any_call_that_failed_nothing_is_left_and_the_next_list_is_recorded);
    RUN(each_surface_is_one_use_however_many_there_are);
    RUN(a_variant_drops_targets_and_replaces_sources);
    RUN(the_rasteriser_runs_the_same_commands);
    stub_close(device);
    CHECK(stub_violations() == 0, "of the stub driver");
    return check_result();
}
