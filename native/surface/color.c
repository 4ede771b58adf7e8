/* color.c: the meaning of a surface's codes, by the numbers of ITU-T H.273 (rule Y2). */
#include <string.h>

#include "raster/planar.h"
#include "surface/surface.h"

static bool is_said(const vks_color *color)
{
    static const vks_color none;
    return memcmp(color, &none, sizeof none) != 0;
}

static bool is_known(const vks_color *c)
{
    bool is_matrix = c->matrix == VKS_MATRIX_RGB || c->matrix == VKS_MATRIX_BT709 || c->matrix == VKS_MATRIX_BT601 ||
                     c->matrix == VKS_MATRIX_BT2020;
    bool is_transfer = c->transfer == VKS_TRANSFER_BT709 || c->transfer == VKS_TRANSFER_LINEAR ||
                       c->transfer == VKS_TRANSFER_SRGB || c->transfer == VKS_TRANSFER_PQ ||
                       c->transfer == VKS_TRANSFER_HLG;
    bool is_primaries = c->primaries == VKS_PRIMARIES_BT709 || c->primaries == VKS_PRIMARIES_BT601_625 ||
                        c->primaries == VKS_PRIMARIES_BT601 || c->primaries == VKS_PRIMARIES_BT2020;
    return is_matrix && is_transfer && is_primaries && c->range <= VKS_RANGE_FULL && c->siting <= VKS_SITING_TOP_LEFT;
}

vks_status vks_color_check(vks_status refused, uint32_t format, const vks_color *color)
{
    bool is_planar = vks_planar_format(format) != NULL;
    if (!is_said(color) && !is_planar)
        return VKS_OK;
    if (!is_known(color))
        return vks_fail(refused, 0, "unknown colour: primaries %u, transfer %u, matrix %u, range %u, siting %u",
                        color->primaries, color->transfer, color->matrix, color->range, color->siting);
    return (color->matrix == VKS_MATRIX_RGB) != is_planar
               ? VKS_OK
               : vks_fail(refused, 0, "the matrix is %u, and a surface of format %s has %s", color->matrix,
                          vks_format_name(format), is_planar ? "one of Y'CbCr" : "components of R, G and B");
}

vks_color vks_color_or_default(uint32_t format, const vks_color *color)
{
    static const vks_color video = {VKS_PRIMARIES_BT709, VKS_TRANSFER_BT709, VKS_MATRIX_BT709, VKS_RANGE_LIMITED,
                                    VKS_SITING_LEFT};
    return is_said(color) || !vks_planar_format(format) ? *color : video;
}

vks_status vks_surface_get_color(const vks_surface *surface, vks_color *out)
{
    static const vks_color srgb = {VKS_PRIMARIES_BT709, VKS_TRANSFER_SRGB, VKS_MATRIX_RGB, VKS_RANGE_FULL,
                                   VKS_SITING_LEFT};
    VKS_NEEDS(surface, out);
    vks_status status = vks_surface_check(surface);
    if (!status)
        *out = is_said(&surface->color) ? surface->color : srgb;
    return status;
}
