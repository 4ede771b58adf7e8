// Planar images where colours are needed, and the other way: by way of an image of colours in between.
#pragma once

#include "raster/ycbcr.h"

// Copies of planes of one format and colour.
int vks_planar_copy(const struct vks_image *source, int32_t source_x, int32_t source_y, int32_t width, int32_t height,
                    const struct vks_image *target, int32_t x, int32_t y, struct vks_pool *pool);

// A clear or a fill of a planar target.
int vks_planar_fill(const struct vks_image *target, int32_t x, int32_t y, int32_t width, int32_t height,
                    const float rgba[4], struct vks_pool *pool);

// A blit from or to a planar image, or both. Arguments were checked.
int vks_planar_blit(const struct vks_image *source, struct vks_blit_rect from, const struct vks_image *target,
                    struct vks_blit_rect to, enum vks_filter filter, struct vks_pool *pool);

// The colours of a part of a planar image, in memory that the caller frees (`pixels`). The format is one of 8 bits, or
// of 16 where the source has more; -srgb for a target that blends in linear light.
int vks_planar_colours(const struct vks_image *source, const struct vks_area *area, bool is_srgb, struct vks_pool *pool,
                       struct vks_image *out);
