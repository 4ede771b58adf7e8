/* encode.c: a recording as the commands of the render server, in msgpack (docs/server.md). */
#include <stdlib.h>
#include <string.h>

#include "raster/format.h"
#include "record/recording.h"

typedef struct bytes {
    uint8_t *data;
    size_t size, capacity;
    bool failed; /* no memory: what follows is dropped */
} bytes;

static void put(bytes *out, const void *data, size_t size)
{
    if (out->failed || !size)
        return;
    if (size > out->capacity - out->size) {
        size_t wanted = out->capacity ? 2 * out->capacity : 512;
        wanted = wanted < out->size + size ? out->size + size : wanted;
        uint8_t *larger = realloc(out->data, wanted);
        if (!larger) {
            out->failed = true;
            return;
        }
        out->data = larger;
        out->capacity = wanted;
    }
    memcpy(out->data + out->size, data, size);
    out->size += size;
}

/* ---- msgpack ---- */

/* A type's byte, and `size` bytes of a number, the most significant first. */
static void put_number(bytes *out, uint8_t type, uint64_t value, unsigned size)
{
    uint8_t found[9] = {type};
    for (unsigned i = 0; i < size; i++)
        found[1 + i] = (uint8_t)(value >> 8 * (size - 1 - i));
    put(out, found, 1 + size);
}

static void put_unsigned(bytes *out, uint64_t value)
{
    if (value < 0x80)
        put_number(out, (uint8_t)value, 0, 0);
    else if (value <= UINT16_MAX)
        put_number(out, 0xcd, value, 2);
    else if (value <= UINT32_MAX)
        put_number(out, 0xce, value, 4);
    else
        put_number(out, 0xcf, value, 8);
}

static void put_signed(bytes *out, int32_t value)
{
    if (value >= 0)
        put_unsigned(out, (uint64_t)value);
    else
        put_number(out, 0xd2, (uint32_t)value, 4);
}

static void put_array(bytes *out, uint32_t length)
{
    if (length < 16)
        put_number(out, (uint8_t)(0x90 | length), 0, 0);
    else
        put_number(out, 0xdd, length, 4);
}

static void put_text(bytes *out, const char *text) /* of fewer than 32 bytes */
{
    size_t length = strlen(text);
    put_number(out, (uint8_t)(0xa0 | length), 0, 0);
    put(out, text, length);
}

static void put_bool(bytes *out, bool value) { put_number(out, value ? 0xc3 : 0xc2, 0, 0); }
static void put_nil(bytes *out) { put_number(out, 0xc0, 0, 0); }

static void put_float(bytes *out, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_number(out, 0xca, bits, 4);
}

static void put_double(bytes *out, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_number(out, 0xcb, bits, 8);
}

/* ---- commands ---- */

static void put_rect(bytes *out, int32_t x, int32_t y, int32_t width, int32_t height)
{
    put_array(out, 4);
    put_signed(out, x);
    put_signed(out, y);
    put_signed(out, width);
    put_signed(out, height);
}

static void put_blit_rect(bytes *out, struct vks_blit_rect rect)
{
    put_rect(out, rect.x0, rect.y0, rect.x1 - rect.x0, rect.y1 - rect.y0);
}

static void put_point(bytes *out, int32_t x, int32_t y)
{
    put_array(out, 2);
    put_signed(out, x);
    put_signed(out, y);
}

/* Red of r32uint is a code (commands.c), and a float has no room for all of them. */
static void put_colour(bytes *out, const vks_recording *recording, const vks_command *c)
{
    uint32_t code;
    memcpy(&code, &c->fill.colour[0], sizeof code);
    bool is_code = vks_format_is_integer(recording->drawables[c->target]->info.format);
    put_array(out, 4);
    if (is_code)
        put_double(out, code);
    for (int i = is_code; i < 4; i++)
        put_float(out, c->fill.colour[i]);
}

static void put_use(bytes *out, uint32_t use) /* ids begin with 1 */
{
    if (use == VKS_NO_USE)
        put_nil(out);
    else
        put_unsigned(out, use + 1u);
}

static void put_head(bytes *out, uint32_t fields, const char *name, uint32_t first, uint32_t second)
{
    put_array(out, fields);
    put_text(out, name);
    put_use(out, first);
    if (second != VKS_NO_USE)
        put_use(out, second);
}

/* Rows of x y z w r g b a, with a texture also u v. */
static void put_vertices(bytes *out, const vks_recording *recording, const vks_command *c)
{
    uint32_t columns = c->source == VKS_NO_USE ? VKS_VERTEX_FLOATS - 2 : VKS_VERTEX_FLOATS;
    put_number(out, 0xc6, (uint64_t)c->draw.count * columns * sizeof(float), 4);
    const float *row = recording->vertices + (size_t)c->draw.first * VKS_VERTEX_FLOATS;
    if (columns == VKS_VERTEX_FLOATS)
        put(out, row, (size_t)c->draw.count * VKS_VERTEX_BYTES);
    else
        for (uint32_t i = 0; i < c->draw.count; i++)
            put(out, row + (size_t)i * VKS_VERTEX_FLOATS, columns * sizeof(float));
    put_unsigned(out, columns);
}

static void put_draw(bytes *out, const vks_recording *recording, const vks_command *c)
{
    static const char *const tests[] = {"never",   "less",      "equal",         "less_equal",
                                        "greater", "not_equal", "greater_equal", "always"};
    put_head(out, 9, "draw_triangles", c->target, VKS_NO_USE);
    put_vertices(out, recording, c);
    put_use(out, c->source);
    put_text(out, c->linear ? "linear" : "nearest");
    put_use(out, c->draw.depth);
    put_text(out, tests[c->draw.depth_test < 8 ? c->draw.depth_test : 1]);
    put_bool(out, c->draw.writes_depth);
}

static void put_command(bytes *out, const vks_recording *recording, const vks_command *c)
{
    switch (c->kind) {
    case VKS_COMMAND_CLEAR:
        put_head(out, 3, "clear", c->target, VKS_NO_USE);
        return put_colour(out, recording, c);
    case VKS_COMMAND_FILL:
        put_head(out, 4, "fill_rect", c->target, VKS_NO_USE);
        put_rect(out, c->fill.rect.x, c->fill.rect.y, c->fill.rect.width, c->fill.rect.height);
        return put_colour(out, recording, c);
    case VKS_COMMAND_COPY:
        put_head(out, 5, "copy", c->source, c->target);
        put_rect(out, c->copy.from.x, c->copy.from.y, c->copy.from.width, c->copy.from.height);
        return put_point(out, c->copy.x, c->copy.y);
    case VKS_COMMAND_BLIT:
        put_head(out, 6, "blit", c->source, c->target);
        put_blit_rect(out, c->blit.from);
        put_blit_rect(out, c->blit.to);
        return put_text(out, c->linear ? "linear" : "nearest");
    case VKS_COMMAND_COMPOSITE:
        put_head(out, 7, "composite", c->source, c->target);
        put_point(out, c->composite.x, c->composite.y);
        put_float(out, c->composite.opacity);
        put_text(out, c->composite.how & VKS_COMPOSITE_STRAIGHT ? "straight" : "premultiplied");
        return put_bool(out, c->composite.how & VKS_COMPOSITE_CODES);
    case VKS_COMMAND_DRAW:
        return put_draw(out, recording, c);
    case VKS_COMMAND_COPY_BYTES:
        break; /* refused before */
    }
}

static vks_status check(const vks_recording *recording)
{
    for (size_t i = 0; i < recording->length; i++)
        if (recording->commands[i].kind == VKS_COMMAND_COPY_BYTES)
            return vks_fail(VKS_UNSUPPORTED, 0, "copies from and to buffers do not travel to another machine");
    return VKS_OK;
}

vks_status vks_recording_encode(const vks_recording *recording, uint8_t **data, size_t *size)
{
    vks_status status = check(recording);
    if (status)
        return status;
    bytes commands = {NULL}, out = {NULL};
    put_array(&commands, (uint32_t)recording->length);
    for (size_t i = 0; i < recording->length; i++)
        put_command(&commands, recording, &recording->commands[i]);
    put_array(&out, 2);
    put_array(&out, (uint32_t)recording->n_uses);
    for (size_t i = 0; i < recording->n_uses; i++) {
        put_array(&out, 2);
        put_unsigned(&out, recording->drawables[i]->info.image);
        put_bool(&out, recording->uses[i].writes);
    }
    put_number(&out, 0xc6, commands.size, 4);
    put(&out, commands.data, commands.size);
    free(commands.data);
    if (commands.failed || out.failed || commands.size > UINT32_MAX) {
        free(out.data);
        return vks_recording_no_memory();
    }
    *data = out.data;
    *size = out.size;
    return VKS_OK;
}
