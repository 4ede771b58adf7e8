// Copies between memory without pixels (VKS_FORMAT_NONE: a buffer) and images, or other such memory.
#pragma once

#include "raster/program.h"

static inline bool vks_is_bytes(const struct vks_image *image) { return image->format == VKS_FORMAT_NONE; }

// VKS_RASTER_OK if memory of `size` bytes has the rows that the copy reads or writes there, of `row` bytes each.
int vks_bytes_check(uint64_t size, uint64_t offset, const struct vks_byte_rows *copy, uint64_t row);

// Runs a copy that was checked. One of the two is bytes at least.
int vks_copy_bytes(const struct vks_image *source, const struct vks_image *target, const struct vks_byte_rows *copy,
                   struct vks_pool *pool);
