/* bytes.c: appends copies from and to buffers. Checked here, once, as list.c does. */
#include "raster/format.h"
#include "record/recording.h"

#define ULL(number) ((unsigned long long)(number))

static vks_status check_inside(const char *name, vks_operand buffer, uint64_t offset, uint64_t needed)
{
    uint64_t size = buffer.drawable->info.size;
    return offset <= size && needed <= size - offset
               ? VKS_OK
               : vks_fail(VKS_BAD_VALUE, 0, "%s is a buffer of %llu bytes; %llu bytes from offset %llu on do not fit",
                          name, ULL(size), ULL(needed), ULL(offset));
}

static vks_status check_unit(const char *name, uint64_t value, uint64_t pixel)
{
    return value % pixel ? vks_fail(VKS_BAD_VALUE, 0, "%s is %llu; allowed are multiples of %llu, the bytes of a pixel",
                                    name, ULL(value), ULL(pixel))
                         : VKS_OK;
}

static vks_status check_rect(const char *name, vks_rect rect, const vks_drawable_info *image)
{
    bool inside = rect.x >= 0 && rect.y >= 0 && rect.width >= 0 && rect.height >= 0 &&
                  (int64_t)rect.x + rect.width <= image->width && (int64_t)rect.y + rect.height <= image->height;
    return inside ? VKS_OK
                  : vks_fail(VKS_BAD_VALUE, 0, "%s is (%d, %d, %d, %d), which is not inside the surface of %ux%u", name,
                             rect.x, rect.y, rect.width, rect.height, image->width, image->height);
}

/* The rows of an image's rectangle, in a buffer. Sides are below 2^31 and a pixel has at most 16 bytes,
 * so only the stride may overflow. */
static vks_status check_rows(vks_operand source, vks_operand target, vks_bytes_copy *copy)
{
    bool reads = vks_drawable_is_buffer(source.drawable);
    const vks_drawable_info *image = &(reads ? target : source).drawable->info;
    uint64_t pixel = vks_format_bytes(image->format), row = copy->rect.width * pixel, needed;
    uint64_t offset = reads ? copy->source_offset : copy->target_offset;
    if (!pixel)
        return vks_fail(VKS_UNSUPPORTED, (int)image->format,
                        "%s has format %s, and copies between planes and buffers are not there; use read_planes() or "
                        "write_planes()",
                        reads ? "target" : "source", vks_format_name(image->format));
    vks_status status = check_rect(reads ? "target_rect" : "source_rect", copy->rect, image);
    if (!status && (reads ? copy->target_offset : copy->source_offset))
        status = vks_fail(VKS_BAD_VALUE, 0, "%s is %llu, and %s is a surface; its rectangle says where",
                          reads ? "target_offset" : "source_offset",
                          ULL(reads ? copy->target_offset : copy->source_offset), reads ? "target" : "source");
    if (!status)
        /* VUID-vkCmdCopyBufferToImage-dstImage-07978: those of depth are multiples of 4 too. */
        status = check_unit(reads ? "source_offset" : "target_offset", offset,
                            vks_format_is_depth(image->format) ? 4 : pixel);
    if (!status && copy->stride)
        status = check_unit("stride", copy->stride, pixel);
    if (!status && copy->stride && copy->stride < row)
        status = vks_fail(VKS_BAD_VALUE, 0, "stride is %llu; a row of %d pixels has %llu bytes", ULL(copy->stride),
                          copy->rect.width, ULL(row));
    if (status || !copy->rect.width || !copy->rect.height)
        return status;
    copy->stride = copy->stride ? copy->stride : row;
    if (copy->stride / pixel > INT32_MAX) /* VkBufferImageCopy.bufferRowLength */
        return vks_fail(VKS_BAD_VALUE, 0, "stride is %llu; allowed are up to %d pixels", ULL(copy->stride), INT32_MAX);
    copy->size = 0;
    if (__builtin_mul_overflow(copy->stride, (uint64_t)copy->rect.height - 1, &needed) ||
        __builtin_add_overflow(needed, row, &needed))
        needed = UINT64_MAX;
    return check_inside(reads ? "source" : "target", reads ? source : target, offset, needed);
}

vks_status vks_recording_copy_bytes(vks_recording *recording, vks_operand source, vks_operand target,
                                    const vks_bytes_copy *wanted)
{
    bool reads = vks_drawable_is_buffer(source.drawable), writes = vks_drawable_is_buffer(target.drawable);
    vks_command command = {.kind = VKS_COMMAND_COPY_BYTES, .bytes = *wanted};
    vks_status status = VKS_OK;
    if (!reads && !writes)
        return vks_fail(VKS_BAD_VALUE, 0, "neither source nor target is a buffer");
    if (source.surface == target.surface)
        return vks_fail(VKS_BAD_VALUE, 0, "source and target are the same buffer; go through another one");
    if (!reads || !writes) {
        if ((status = check_rows(source, target, &command.bytes)) || !wanted->rect.width || !wanted->rect.height)
            return status;
        return vks_recording_add(recording, command, target, source, vks_no_operand);
    }
    if (!(status = check_inside("source", source, wanted->source_offset, wanted->size)))
        status = check_inside("target", target, wanted->target_offset, wanted->size);
    return status || !wanted->size ? status : vks_recording_add(recording, command, target, source, vks_no_operand);
}
