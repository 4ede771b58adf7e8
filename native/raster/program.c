#include "raster/program.h"

#include <stdlib.h>
#include <string.h>

#include "raster/bytes.h"
#include "raster/depth.h"
#include "raster/format.h"
#include "raster/image.h"
#include "raster/planar.h"
#include "raster/rows.h"

#define TOGETHER 32u // operations that go down their target together

enum kind { FILL, COPY, COPY_BYTES, BLIT, COMPOSITE, DRAW };

struct slot {
    uint32_t width, height, format;
    uint64_t size; // of bytes
};

struct operation {
    enum kind kind;
    uint32_t target, source; // slots; source may be VKS_NO_SLOT
    union {
        struct {
            int32_t x, y, width, height;
            float rgba[4];
        } fill;
        struct {
            int32_t source_x, source_y, width, height, x, y;
        } copy;
        struct vks_byte_rows bytes;
        struct {
            struct vks_blit_rect from, to;
            enum vks_filter filter;
        } blit;
        struct {
            int32_t x, y;
            float opacity;
            enum vks_alpha alpha;
            bool codes;
        } composite;
        struct {
            struct vks_vertex_layout layout;
            uint32_t count, subpixel_bits;
            enum vks_filter filter;
            struct vks_depth_slot depth; // slot VKS_NO_SLOT: none
        } draw;
    };
};

struct vks_program {
    struct operation *operations;
    struct slot *slots;
    uint32_t length, capacity;
    uint32_t images, image_capacity;
};

struct vks_program *vks_program_create(void) { return calloc(1, sizeof(struct vks_program)); }

void vks_program_destroy(struct vks_program *program)
{
    if (program == NULL)
        return;
    for (uint32_t i = 0; i < program->length; i++)
        if (program->operations[i].kind == DRAW)
            free((void *)program->operations[i].draw.layout.data); // made by pack_vertices
    free(program->operations);
    free(program->slots);
    free(program);
}

uint32_t vks_program_length(const struct vks_program *program) { return program->length; }

uint32_t vks_program_images(const struct vks_program *program) { return program->images; }

// Room for one element more; false if out of memory.
static bool grow(void **array, uint32_t used, uint32_t *capacity, size_t element)
{
    if (used < *capacity)
        return true;
    if (*capacity > INT32_MAX / 2)
        return false;
    uint32_t wanted = *capacity == 0 ? 8 : *capacity * 2;
    void *larger = realloc(*array, wanted * element);
    if (larger == NULL)
        return false;
    *array = larger;
    *capacity = wanted;
    return true;
}

static int add_slot(struct vks_program *program, struct slot slot)
{
    if (!grow((void **)&program->slots, program->images, &program->image_capacity, sizeof *program->slots))
        return VKS_RASTER_NO_MEMORY;
    program->slots[program->images] = slot;
    return (int)program->images++;
}

int vks_program_image(struct vks_program *program, uint32_t width, uint32_t height, uint32_t format)
{
    if (vks_format_planes(format) == 0)
        return VKS_RASTER_BAD_FORMAT;
    if (width == 0 || width > VKS_RASTER_MAX_EXTENT || height == 0 || height > VKS_RASTER_MAX_EXTENT)
        return VKS_RASTER_BAD_IMAGE;
    return add_slot(program, (struct slot){.width = width, .height = height, .format = format});
}

int vks_program_bytes(struct vks_program *program, uint64_t size)
{
    return size == 0 ? VKS_RASTER_BAD_IMAGE : add_slot(program, (struct slot){.format = VKS_FORMAT_NONE, .size = size});
}

static bool is_bytes(const struct vks_program *program, uint32_t slot)
{
    return program->slots[slot].format == VKS_FORMAT_NONE;
}

// VKS_RASTER_OK if both are slots and not the same one.
static int check_slots(const struct vks_program *program, uint32_t source, uint32_t target)
{
    if (source >= program->images || target >= program->images)
        return VKS_RASTER_BAD_SLOT;
    return source == target ? VKS_RASTER_OVERLAP : VKS_RASTER_OK;
}

// check_slots(), and VKS_RASTER_BAD_FORMAT where one is bytes.
static int check_pictures(const struct vks_program *program, uint32_t source, uint32_t target)
{
    int status = check_slots(program, source, target);
    return status == VKS_RASTER_OK && (is_bytes(program, source) || is_bytes(program, target)) ? VKS_RASTER_BAD_FORMAT
                                                                                               : status;
}

// check_pictures(), and the same where one has integers or depth: for commands that compute with colours.
static int check_colours(const struct vks_program *program, uint32_t source, uint32_t target)
{
    int status = check_pictures(program, source, target);
    if (status == VKS_RASTER_OK && (!vks_format_has_colours(program->slots[source].format) ||
                                    !vks_format_has_colours(program->slots[target].format)))
        status = VKS_RASTER_BAD_FORMAT;
    return status;
}

static int append(struct vks_program *program, const struct operation *operation)
{
    if (!grow((void **)&program->operations, program->length, &program->capacity, sizeof *program->operations))
        return VKS_RASTER_NO_MEMORY;
    program->operations[program->length++] = *operation;
    return VKS_RASTER_OK;
}

int vks_program_clear(struct vks_program *program, uint32_t target, const float rgba[4])
{
    return vks_program_fill_rect(program, target, 0, 0, INT32_MAX, INT32_MAX, rgba);
}

int vks_program_fill_rect(struct vks_program *program, uint32_t target, int32_t x, int32_t y, int32_t width,
                          int32_t height, const float rgba[4])
{
    if (target >= program->images)
        return VKS_RASTER_BAD_SLOT;
    if (is_bytes(program, target))
        return VKS_RASTER_BAD_FORMAT;
    if (rgba == NULL)
        return VKS_RASTER_BAD_ARGUMENT;
    if (width <= 0 || height <= 0)
        return VKS_RASTER_OK;
    struct operation o = {.kind = FILL, .target = target, .source = VKS_NO_SLOT};
    o.fill.x = x;
    o.fill.y = y;
    o.fill.width = width;
    o.fill.height = height;
    memcpy(o.fill.rgba, rgba, sizeof o.fill.rgba);
    return append(program, &o);
}

int vks_program_copy(struct vks_program *program, uint32_t source, int32_t source_x, int32_t source_y, int32_t width,
                     int32_t height, uint32_t target, int32_t x, int32_t y)
{
    int status = check_pictures(program, source, target);
    if (status != VKS_RASTER_OK)
        return status;
    if (program->slots[source].format != program->slots[target].format)
        return VKS_RASTER_FORMAT_MISMATCH;
    if (width <= 0 || height <= 0)
        return VKS_RASTER_OK;
    struct operation o = {.kind = COPY, .target = target, .source = source};
    o.copy.source_x = source_x;
    o.copy.source_y = source_y;
    o.copy.width = width;
    o.copy.height = height;
    o.copy.x = x;
    o.copy.y = y;
    return append(program, &o);
}

// Between bytes there is one row. An image's rectangle is checked as that of a copy that is not clipped.
static int check_bytes(const struct slot *source, const struct slot *target, const struct vks_byte_rows *copy)
{
    bool reads = source->format == VKS_FORMAT_NONE, writes = target->format == VKS_FORMAT_NONE;
    const struct slot *image = reads ? target : source;
    struct vks_byte_rows rows = *copy;
    uint64_t row = copy->size;
    if (reads && writes) {
        rows.height = 1;
        rows.stride = row;
    } else {
        row = (uint64_t)copy->width * vks_format_bytes(image->format);
        if (copy->x < 0 || copy->y < 0 || copy->width <= 0 || copy->height <= 0 ||
            (int64_t)copy->x + copy->width > image->width || (int64_t)copy->y + copy->height > image->height)
            return VKS_RASTER_BAD_ARGUMENT;
    }
    int status = reads ? vks_bytes_check(source->size, copy->source_offset, &rows, row) : VKS_RASTER_OK;
    return status == VKS_RASTER_OK && writes ? vks_bytes_check(target->size, copy->target_offset, &rows, row) : status;
}

int vks_program_copy_bytes(struct vks_program *program, uint32_t source, uint32_t target,
                           const struct vks_byte_rows *copy)
{
    int status = check_slots(program, source, target);
    if (status != VKS_RASTER_OK)
        return status;
    if (!is_bytes(program, source) && !is_bytes(program, target))
        return VKS_RASTER_BAD_FORMAT;
    if (copy == NULL)
        return VKS_RASTER_BAD_ARGUMENT;
    status = check_bytes(&program->slots[source], &program->slots[target], copy);
    struct operation o = {.kind = COPY_BYTES, .target = target, .source = source, .bytes = *copy};
    return status == VKS_RASTER_OK ? append(program, &o) : status;
}

int vks_program_blit(struct vks_program *program, uint32_t source, struct vks_blit_rect from, uint32_t target,
                     struct vks_blit_rect to, enum vks_filter filter)
{
    int status = check_colours(program, source, target);
    if (status != VKS_RASTER_OK)
        return status;
    if (!vks_blit_is_valid(from, to, filter))
        return VKS_RASTER_BAD_ARGUMENT;
    if (from.x0 == from.x1 || from.y0 == from.y1 || to.x0 == to.x1 || to.y0 == to.y1)
        return VKS_RASTER_OK;
    struct operation o = {.kind = BLIT, .target = target, .source = source};
    o.blit.from = from;
    o.blit.to = to;
    o.blit.filter = filter;
    return append(program, &o);
}

int vks_program_composite(struct vks_program *program, uint32_t source, uint32_t target, int32_t x, int32_t y,
                          float opacity, enum vks_alpha alpha, bool codes)
{
    int status = check_colours(program, source, target);
    if (status == VKS_RASTER_OK && !vks_format_is_drawable(program->slots[target].format))
        status = VKS_RASTER_BAD_FORMAT;
    if (status != VKS_RASTER_OK)
        return status;
    if (!vks_opacity_is_valid(opacity) || !vks_alpha_is_valid(alpha))
        return VKS_RASTER_BAD_ARGUMENT;
    if (opacity == 0.0f)
        return VKS_RASTER_OK;
    struct operation o = {.kind = COMPOSITE, .target = target, .source = source};
    o.composite.x = x;
    o.composite.y = y;
    o.composite.opacity = opacity;
    o.composite.alpha = alpha;
    o.composite.codes = codes;
    return append(program, &o);
}

// A copy of the vertices without the bytes between their fields; the layout that describes it owns it.
static struct vks_vertex_layout pack_vertices(const struct vks_vertex_layout *from, uint32_t count)
{
    struct vks_vertex_layout to = {.stride = 4, .position = 0, .colour = -1, .uv = -1};
    if (from->colour >= 0) {
        to.colour = (int32_t)to.stride;
        to.stride += 4;
    }
    if (from->uv >= 0) {
        to.uv = (int32_t)to.stride;
        to.stride += 2;
    }
    float *data = malloc((size_t)count * to.stride * sizeof *data);
    to.data = data;
    for (size_t i = 0; data != NULL && i < count; i++) {
        const float *in = from->data + i * from->stride;
        float *out = data + i * to.stride;
        memcpy(out, in + from->position, 4 * sizeof *out);
        if (to.colour >= 0)
            memcpy(out + to.colour, in + from->colour, 4 * sizeof *out);
        if (to.uv >= 0)
            memcpy(out + to.uv, in + from->uv, 2 * sizeof *out);
    }
    return to;
}

static int check_depth(const struct vks_program *program, uint32_t target, uint32_t texture,
                       const struct vks_depth_slot *depth)
{
    if (depth->slot >= program->images)
        return VKS_RASTER_BAD_SLOT;
    if (depth->slot == target || depth->slot == texture)
        return VKS_RASTER_OVERLAP;
    const struct slot *image = &program->slots[depth->slot], *colours = &program->slots[target];
    if (!vks_format_is_depth(image->format))
        return VKS_RASTER_BAD_FORMAT;
    if (image->width != colours->width || image->height != colours->height)
        return VKS_RASTER_IMAGE_MISMATCH;
    return vks_depth_test_is_valid(depth->test) ? VKS_RASTER_OK : VKS_RASTER_BAD_ARGUMENT;
}

int vks_program_draw_triangles(struct vks_program *program, uint32_t target, const struct vks_vertex_layout *layout,
                               uint32_t count, uint32_t texture, enum vks_filter filter, uint32_t subpixel_bits,
                               const struct vks_depth_slot *depth)
{
    bool textured = texture != VKS_NO_SLOT;
    if (target >= program->images || (textured && texture >= program->images))
        return VKS_RASTER_BAD_SLOT;
    if (texture == target)
        return VKS_RASTER_OVERLAP;
    if (is_bytes(program, target) || (textured && is_bytes(program, texture)) ||
        !vks_format_is_drawable(program->slots[target].format) ||
        (textured && !vks_format_has_colours(program->slots[texture].format)))
        return VKS_RASTER_BAD_FORMAT;
    if (!vks_draw_is_valid(layout, count, textured, filter, subpixel_bits))
        return VKS_RASTER_BAD_ARGUMENT;
    int status = depth != NULL ? check_depth(program, target, texture, depth) : VKS_RASTER_OK;
    if (status != VKS_RASTER_OK)
        return status;
    count -= count % 3;
    if (count == 0)
        return VKS_RASTER_OK;
    struct operation o = {.kind = DRAW, .target = target, .source = texture};
    o.draw.layout = pack_vertices(layout, count);
    o.draw.count = count;
    o.draw.subpixel_bits = subpixel_bits;
    o.draw.filter = filter;
    o.draw.depth = depth != NULL ? *depth : (struct vks_depth_slot){.slot = VKS_NO_SLOT};
    status = o.draw.layout.data == NULL ? VKS_RASTER_NO_MEMORY : append(program, &o);
    if (status != VKS_RASTER_OK)
        free((void *)o.draw.layout.data);
    return status;
}

static bool depth_overlaps(const struct operation *o, const struct vks_image *images)
{
    const struct vks_image *depth = &images[o->draw.depth.slot];
    return vks_images_overlap(depth, &images[o->target]) ||
           (o->source != VKS_NO_SLOT && vks_images_overlap(depth, &images[o->source]));
}

static int check_images(const struct vks_program *program, const struct vks_image *images, uint32_t count)
{
    if (count != program->images || (images == NULL && count > 0))
        return VKS_RASTER_IMAGE_MISMATCH;
    for (uint32_t i = 0; i < count; i++) {
        const struct slot *slot = &program->slots[i];
        if (slot->format == VKS_FORMAT_NONE) {
            if (!vks_is_bytes(&images[i]) || images[i].pixels == NULL || images[i].size < slot->size)
                return VKS_RASTER_IMAGE_MISMATCH;
            continue;
        }
        int status = vks_image_check(&images[i]);
        if (status != VKS_RASTER_OK)
            return status;
        if (images[i].width != slot->width || images[i].height != slot->height || images[i].format != slot->format)
            return VKS_RASTER_IMAGE_MISMATCH;
    }
    for (uint32_t i = 0; i < program->length; i++) {
        const struct operation *o = &program->operations[i];
        if (o->source != VKS_NO_SLOT && vks_images_overlap(&images[o->source], &images[o->target]))
            return VKS_RASTER_OVERLAP;
        if (o->kind == DRAW && o->draw.depth.slot != VKS_NO_SLOT && depth_overlaps(o, images))
            return VKS_RASTER_OVERLAP;
    }
    return VKS_RASTER_OK;
}

static int run_draw(const struct operation *o, const struct vks_image *images, struct vks_pool *pool)
{
    const struct vks_image *texture = o->source == VKS_NO_SLOT ? NULL : &images[o->source];
    const struct vks_depth_slot *given = &o->draw.depth;
    struct vks_depth depth = {.test = given->test, .writes = given->writes};
    if (given->slot != VKS_NO_SLOT)
        depth.image = &images[given->slot];
    return vks_raster_draw_triangles(&images[o->target], &o->draw.layout, o->draw.count, texture, o->draw.filter,
                                     o->draw.subpixel_bits, depth.image != NULL ? &depth : NULL, pool);
}

static int run_operation(const struct operation *o, const struct vks_image *images, struct vks_pool *pool)
{
    const struct vks_image *target = &images[o->target];
    const struct vks_image *source = o->source == VKS_NO_SLOT ? NULL : &images[o->source];
    switch (o->kind) {
    case COPY:
        return vks_raster_copy(source, o->copy.source_x, o->copy.source_y, o->copy.width, o->copy.height, target,
                               o->copy.x, o->copy.y, pool);
    case COPY_BYTES:
        return vks_copy_bytes(source, target, &o->bytes, pool);
    case BLIT:
        return vks_raster_blit(source, o->blit.from, target, o->blit.to, o->blit.filter, pool);
    case DRAW:
        return run_draw(o, images, pool);
    case FILL: // of a planar target
        return vks_raster_fill_rect(target, o->fill.x, o->fill.y, o->fill.width, o->fill.height, o->fill.rgba, pool);
    case COMPOSITE: // run_some()
        break;
    }
    return VKS_RASTER_BAD_ARGUMENT;
}

// Whether it can go down the target of `first` together with that: check_images() has seen to it that neither reads the
// target.
static bool joins(const struct vks_image *images, const struct operation *first, const struct operation *o)
{
    bool is_fill = o->kind == FILL && vks_planar_format(images[o->target].format) == NULL;
    return (is_fill || o->kind == COMPOSITE) && o->target == first->target;
}

static int make_rows(const struct operation *o, const struct vks_image *images, struct vks_rows *out)
{
    const struct vks_image *target = &images[o->target];
    if (o->kind == FILL)
        return vks_fill_rows(target, o->fill.x, o->fill.y, o->fill.width, o->fill.height, o->fill.rgba, out);
    const struct vks_image *source = &images[o->source];
    bool is_encoded = source->format == VKS_FORMAT_RGBA8_UNORM_SRGB && o->composite.codes;
    return vks_composite_rows(source, target, o->composite.x, o->composite.y, o->composite.opacity, o->composite.alpha,
                              is_encoded ? VKS_FORMAT_RGBA8_UNORM : source->format, out);
}

// Runs operations from the first one on, as many as may be run together, and counts them.
static int run_some(const struct operation *first, uint32_t left, const struct vks_image *images, struct vks_pool *pool,
                    uint32_t *count)
{
    struct vks_rows rows[TOGETHER];
    int status = VKS_RASTER_OK;
    uint32_t n = 0;
    for (; n < left && n < TOGETHER && joins(images, first, &first[n]) && status == VKS_RASTER_OK; n++)
        status = make_rows(&first[n], images, &rows[n]);
    *count = n > 0 ? n : 1;
    if (n == 0)
        return run_operation(first, images, pool);
    if (status == VKS_RASTER_OK)
        vks_draw_rows(rows, n, pool);
    return status;
}

int vks_program_run(const struct vks_program *program, const struct vks_image *images, uint32_t count,
                    struct vks_pool *pool)
{
    int status = check_images(program, images, count);
    for (uint32_t i = 0, count; i < program->length && status == VKS_RASTER_OK; i += count)
        status = run_some(&program->operations[i], program->length - i, images, pool, &count);
    return status;
}
