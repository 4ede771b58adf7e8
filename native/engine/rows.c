/* rows.c: the padding of rows of linear images. */
#include "engine/engine.h"
#include "raster/raster.h"

#define LEAST 16u /* the largest pixel */
#define MOST 4096u

/* Whether rows of so many bytes have no padding; -1: the driver has no such images. */
static int is_tight(vks_engine *engine, uint32_t format, uint32_t nbytes)
{
    static const uint8_t usages[] = {VKS_USAGE_RENDER | VKS_USAGE_SAMPLE | VKS_USAGE_COPY, VKS_USAGE_COPY};
    int answer = -1;
    for (size_t i = 0; answer < 0 && i < sizeof usages; i++) {
        vks_surface_body body = {.width = nbytes / vks_format_bytes(format),
                                 .height = 2,
                                 .format = format,
                                 .tiling = VKS_LINEAR,
                                 .usage = usages[i]};
        vks_surface_image *image = vks_image_new(engine, &body);
        if (!image)
            return -1;
        if (!vks_image_check_support(image, VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT,
                                     VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT) &&
            !vks_image_create_handle(image, VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT))
            answer = image->body.stride == nbytes;
        vks_image_free(image);
    }
    return answer;
}

static uint32_t row_alignment(vks_engine *engine)
{
    for (uint32_t alignment = LEAST; alignment <= MOST; alignment *= 2) {
        bool holds = true, is_known = false;
        for (uint32_t format = 1; holds && vks_format_bytes(format); format++)
            for (uint32_t n = 1; holds && n <= 3; n += 2) {
                int answer = is_tight(engine, format, alignment * n);
                holds = answer != 0;
                is_known |= answer > 0;
            }
        if (holds)
            return is_known ? alignment : 0;
    }
    return 0;
}

vks_status vks_row_alignment(vks_device *device, uint32_t *bytes)
{
    VKS_NEEDS(device, bytes);
    vks_engine *engine;
    vks_status status = vks_device_check(device);
    *bytes = VKS_ROW_ALIGNMENT;
    if (status || !device->timeline)
        return status;
    *bytes = 0;
    if (!vks_device_enter(device))
        return VKS_CLOSED;
    if (!(status = vks_engine_of(device, &engine)))
        *bytes = row_alignment(engine);
    vks_device_leave(device);
    vks_clear_error();
    return status;
}

vks_status vks_image_check_tight(const vks_surface_image *image)
{
    const vks_surface_body *body = &image->body;
    uint64_t pixel = vks_format_bytes(vks_plane_format(body->format, 0)), row = body->width * pixel;
    if (body->stride == row && vks_planes_are_tight(image))
        return VKS_OK;
    uint32_t bytes = image->engine ? row_alignment(image->engine) : VKS_PLANE_ALIGNMENT;
    /* Rows of chroma may have half the bytes of luma's. */
    uint32_t step = bytes / (uint32_t)pixel * (image->engine && vks_image_is_planar(image) ? 2 : 1);
    const char *name = image->engine ? image->engine->physical.adapter.name : "the CPU backend";
    return vks_fail(VKS_UNSUPPORTED, 0,
                    "a row is %llu bytes, and on %s rows are %llu bytes apart; widths that are multiples of %u need no "
                    "padding",
                    (unsigned long long)row, name, (unsigned long long)body->stride, step);
}
