#include "raster/bytes.h"

#include <string.h>

#include "raster/image.h"

#define CHUNK (UINT64_C(1) << 16) // bytes that a thread copies at a time

int vks_bytes_check(uint64_t size, uint64_t offset, const struct vks_byte_rows *copy, uint64_t row)
{
    if (offset > size || row > size - offset || copy->stride < row)
        return VKS_RASTER_BAD_ARGUMENT;
    uint64_t left = size - offset - row, rows = (uint64_t)copy->height - 1;
    return rows > 0 && copy->stride > left / rows ? VKS_RASTER_BAD_ARGUMENT : VKS_RASTER_OK;
}

struct span {
    const uint8_t *from;
    uint8_t *to;
    uint64_t size;
};

static void copy_chunks(void *context, uint32_t first, uint32_t end)
{
    const struct span *span = context;
    uint64_t start = first * CHUNK, stop = end * CHUNK < span->size ? end * CHUNK : span->size;
    memcpy(span->to + start, span->from + start, stop - start);
}

static int copy_plain(const struct vks_image *source, const struct vks_image *target, const struct vks_byte_rows *copy,
                      struct vks_pool *pool)
{
    const uint8_t *from = (const uint8_t *)source->pixels + copy->source_offset;
    uint8_t *to = (uint8_t *)target->pixels + copy->target_offset;
    // The numbers of chunks are 32 bits: 2^32 of them are a copy of 2^48 bytes, the most that a buffer has.
    for (uint64_t done = 0, some; done < copy->size; done += some) {
        some = copy->size - done < CHUNK << 16 ? copy->size - done : CHUNK << 16;
        struct span span = {from + done, to + done, some};
        vks_run_rows(pool, (uint32_t)((some + CHUNK - 1) / CHUNK), 2 * some, copy_chunks, &span);
    }
    return VKS_RASTER_OK;
}

// The rows in the bytes, as an image.
static struct vks_image picture(const struct vks_image *bytes, uint64_t offset, const struct vks_byte_rows *copy,
                                uint32_t format)
{
    return (struct vks_image){(uint8_t *)bytes->pixels + offset,
                              bytes->size - offset,
                              (uint32_t)copy->width,
                              (uint32_t)copy->height,
                              copy->stride,
                              format,
                              {0}};
}

int vks_copy_bytes(const struct vks_image *source, const struct vks_image *target, const struct vks_byte_rows *copy,
                   struct vks_pool *pool)
{
    if (vks_is_bytes(source) && vks_is_bytes(target))
        return copy_plain(source, target, copy, pool);
    if (vks_is_bytes(source)) {
        struct vks_image from = picture(source, copy->source_offset, copy, target->format);
        return vks_raster_copy(&from, 0, 0, copy->width, copy->height, target, copy->x, copy->y, pool);
    }
    struct vks_image to = picture(target, copy->target_offset, copy, source->format);
    return vks_raster_copy(source, copy->x, copy->y, copy->width, copy->height, &to, 0, 0, pool);
}
