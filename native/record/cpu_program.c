/* cpu_program.c: a recording as a program of the rasteriser. */
#include "record/recording.h"

static int add_bytes(vks_program *program, const vks_command *c)
{
    const vks_rect *rect = &c->bytes.rect;
    struct vks_byte_rows rows = {.source_offset = c->bytes.source_offset,
                                 .target_offset = c->bytes.target_offset,
                                 .size = c->bytes.size,
                                 .stride = c->bytes.stride,
                                 .x = rect->x,
                                 .y = rect->y,
                                 .width = rect->width,
                                 .height = rect->height};
    return vks_program_copy_bytes(program, c->source, c->target, &rows);
}

static int add_command(vks_program *program, const vks_recording *recording, const vks_command *c, uint32_t bits)
{
    enum vks_filter filter = c->linear ? VKS_FILTER_LINEAR : VKS_FILTER_NEAREST;
    switch (c->kind) {
    case VKS_COMMAND_CLEAR:
        return vks_program_clear(program, c->target, c->fill.colour);
    case VKS_COMMAND_FILL:
        return vks_program_fill_rect(program, c->target, c->fill.rect.x, c->fill.rect.y, c->fill.rect.width,
                                     c->fill.rect.height, c->fill.colour);
    case VKS_COMMAND_COPY:
        return vks_program_copy(program, c->source, c->copy.from.x, c->copy.from.y, c->copy.from.width,
                                c->copy.from.height, c->target, c->copy.x, c->copy.y);
    case VKS_COMMAND_COPY_BYTES:
        return add_bytes(program, c);
    case VKS_COMMAND_BLIT:
        return vks_program_blit(program, c->source, c->blit.from, c->target, c->blit.to, filter);
    case VKS_COMMAND_COMPOSITE:
        return vks_program_composite(program, c->source, c->target, c->composite.x, c->composite.y,
                                     c->composite.opacity,
                                     c->composite.how & VKS_COMPOSITE_STRAIGHT ? VKS_STRAIGHT : VKS_PREMULTIPLIED,
                                     c->composite.how & VKS_COMPOSITE_CODES);
    case VKS_COMMAND_DRAW:
        break;
    }
    const float *first = recording->vertices + (size_t)c->draw.first * VKS_VERTEX_FLOATS;
    bool has_texture = c->source != VKS_NO_USE;
    struct vks_vertex_layout layout = {first, VKS_VERTEX_FLOATS, 0, 4, has_texture ? 8 : -1};
    struct vks_depth_slot depth = {c->draw.depth, (enum vks_depth_test)c->draw.depth_test, c->draw.writes_depth};
    return vks_program_draw_triangles(program, c->target, &layout, c->draw.count, has_texture ? c->source : VKS_NO_SLOT,
                                      filter, bits, c->draw.depth != VKS_NO_USE ? &depth : NULL);
}

static int fill(vks_program *program, const vks_recording *recording, uint32_t subpixel_bits)
{
    int status = VKS_RASTER_OK;
    for (size_t i = 0; i < recording->n_uses && status >= 0; i++) {
        const vks_drawable_info *image = &recording->drawables[i]->info;
        status = image->format == VKS_FORMAT_NONE
                     ? vks_program_bytes(program, image->size)
                     : vks_program_image(program, image->width, image->height, image->format);
    }
    for (size_t i = 0; i < recording->length && status >= 0; i++)
        status = add_command(program, recording, &recording->commands[i], subpixel_bits);
    return status;
}

vks_status vks_recording_program(const vks_recording *recording, uint32_t subpixel_bits, vks_program **out)
{
    vks_program *program = vks_program_create();
    int status = program ? fill(program, recording, subpixel_bits) : VKS_RASTER_NO_MEMORY;
    if (status >= 0) {
        *out = program;
        return VKS_OK;
    }
    vks_program_destroy(program);
    return vks_fail(status == VKS_RASTER_NO_MEMORY ? VKS_NO_MEMORY : VKS_BAD_VALUE, status, "%s",
                    vks_raster_status_text(status));
}
