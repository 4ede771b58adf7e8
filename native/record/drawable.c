#include <stdlib.h>

#include "raster/planar.h"
#include "record/recording.h"

vks_status vks_drawable_create(const vks_drawable_info *info, vks_drawable **out)
{
    if (info->format == VKS_FORMAT_NONE && !info->size)
        return vks_fail(VKS_BAD_VALUE, 0, "a buffer has 1 byte at least");
    if (info->format != VKS_FORMAT_NONE && !vks_format_planes(info->format))
        return vks_fail(VKS_BAD_VALUE, info->format, "format is %u; allowed are 1 to %u", info->format,
                        VKS_FORMAT_YUV444P);
    vks_drawable *drawable = calloc(1, sizeof *drawable);
    if (!drawable)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for an image's record");
    drawable->references = 1;
    drawable->info = *info;
    drawable->info.features &= ~(uint32_t)VKS_HAS_RAW_VIEW;
    drawable->info.features |= info->raw_view ? VKS_HAS_RAW_VIEW : 0;
    *out = drawable;
    return VKS_OK;
}

void vks_drawable_ref(vks_drawable *drawable)
{
    atomic_fetch_add_explicit(&drawable->references, 1, memory_order_relaxed);
}

void vks_drawable_unref(vks_drawable *drawable)
{
    if (atomic_fetch_sub(&drawable->references, 1) != 1)
        return;
    vks_recorder_take_sets(drawable);
    free(drawable);
}

void vks_drawable_close(vks_drawable *drawable)
{
    atomic_store(&drawable->closed, true);
    vks_recorder_take_sets(drawable);
}

const vks_drawable_info *vks_drawable_get_info(const vks_drawable *drawable) { return &drawable->info; }
