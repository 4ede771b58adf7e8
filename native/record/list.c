/* list.c: the memory of a recording: its commands, their surfaces, each once, and vertices. */
#include <stdlib.h>
#include <string.h>

#include "record/recording.h"

#define FEW 16u /* uses that are searched one by one */

/* ---- memory ---- */

vks_status vks_recording_no_memory(void) { return vks_fail(VKS_NO_MEMORY, 0, "no memory for a command list"); }

/* Makes room for `more` elements. */
static bool grow(void **array, size_t used, size_t more, size_t *capacity, size_t element)
{
    if (more <= *capacity - used)
        return true;
    size_t wanted = *capacity ? *capacity : 8;
    while (wanted - used < more) {
        if (wanted > SIZE_MAX / 2 / element)
            return false;
        wanted *= 2;
    }
    void *larger = realloc(*array, wanted * element);
    if (!larger)
        return false;
    *array = larger;
    *capacity = wanted;
    return true;
}

vks_recording *vks_recording_create(void) { return calloc(1, sizeof(vks_recording)); }

static void drop_uses(vks_recording *recording, size_t first)
{
    for (size_t i = first; i < recording->n_uses; i++) {
        vks_surface_unref(recording->uses[i].surface);
        vks_drawable_unref(recording->drawables[i]);
    }
    recording->n_uses = first;
}

void vks_recording_empty(vks_recording *recording)
{
    drop_uses(recording, 0);
    free(recording->commands);
    free(recording->uses);
    free(recording->drawables);
    free(recording->table);
    free(recording->vertices);
    *recording = (vks_recording){.commands = NULL};
}

void vks_recording_destroy(vks_recording *recording)
{
    if (!recording)
        return;
    vks_recording_empty(recording);
    free(recording);
}

size_t vks_recording_length(const vks_recording *recording) { return recording->length; }

const vks_use *vks_recording_uses(const vks_recording *recording, size_t *n_uses)
{
    *n_uses = recording->n_uses;
    return recording->uses;
}

/* ---- uses ---- */

static size_t hash(const vks_surface *surface)
{
    uint64_t bits = (uint64_t)(uintptr_t)surface * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(bits >> 32);
}

static void put(vks_recording *recording, size_t use)
{
    size_t mask = recording->table_size - 1, at = hash(recording->uses[use].surface) & mask;
    while (recording->table[at])
        at = (at + 1) & mask;
    recording->table[at] = (uint32_t)use + 1;
}

static bool grow_table(vks_recording *recording)
{
    size_t size = recording->table_size ? 2 * recording->table_size : 8 * FEW;
    uint32_t *table = calloc(size, sizeof *table);
    if (!table)
        return false;
    free(recording->table);
    recording->table = table;
    recording->table_size = size;
    for (size_t i = 0; i < recording->n_uses; i++)
        put(recording, i);
    return true;
}

static uint32_t find(const vks_recording *recording, const vks_surface *surface)
{
    if (recording->table_size) {
        size_t mask = recording->table_size - 1, at = hash(surface) & mask;
        while (recording->table[at] && recording->uses[recording->table[at] - 1].surface != surface)
            at = (at + 1) & mask;
        return recording->table[at] - 1; /* 0 - 1 is VKS_NO_USE */
    }
    for (size_t i = 0; i < recording->n_uses; i++)
        if (recording->uses[i].surface == surface)
            return (uint32_t)i;
    return VKS_NO_USE;
}

static bool add(vks_recording *recording, vks_operand operand)
{
    size_t capacity = recording->use_capacity;
    if (!grow((void **)&recording->drawables, recording->n_uses, 1, &capacity, sizeof *recording->drawables) ||
        !grow((void **)&recording->uses, recording->n_uses, 1, &recording->use_capacity, sizeof *recording->uses))
        return false;
    if (recording->n_uses >= FEW && 2 * recording->n_uses >= recording->table_size && !grow_table(recording))
        return false;
    vks_surface_ref(operand.surface);
    vks_drawable_ref(operand.drawable);
    recording->uses[recording->n_uses] = (vks_use){operand.surface, false};
    recording->drawables[recording->n_uses++] = operand.drawable;
    if (recording->table_size)
        put(recording, recording->n_uses - 1);
    return true;
}

/* The index of an operand's use, which is added if it is new; VKS_NO_USE: no memory. */
static uint32_t use_of(vks_recording *recording, vks_operand operand)
{
    uint32_t index = find(recording, operand.surface);
    if (index != VKS_NO_USE)
        return index;
    return add(recording, operand) ? (uint32_t)recording->n_uses - 1 : VKS_NO_USE;
}

/* ---- commands ---- */

/* Undoes the uses from `first` on, which a command had added that was not appended. */
static vks_status give_up(vks_recording *recording, size_t first)
{
    drop_uses(recording, first);
    if (recording->table_size)
        memset(recording->table, 0, recording->table_size * sizeof *recording->table);
    for (size_t i = 0; i < first && recording->table_size; i++)
        put(recording, i);
    return vks_recording_no_memory();
}

vks_status vks_recording_add(vks_recording *recording, vks_command command, vks_operand target, vks_operand source,
                             vks_operand depth)
{
    size_t n_uses = recording->n_uses;
    if (n_uses >= UINT32_MAX / 2 ||
        !grow((void **)&recording->commands, recording->length, 1, &recording->capacity, sizeof *recording->commands))
        return vks_recording_no_memory();
    command.target = use_of(recording, target);
    command.source = source.surface ? use_of(recording, source) : VKS_NO_USE;
    uint32_t depth_use = depth.surface ? use_of(recording, depth) : VKS_NO_USE;
    if (command.target == VKS_NO_USE || (source.surface && command.source == VKS_NO_USE) ||
        (depth.surface && depth_use == VKS_NO_USE))
        return give_up(recording, n_uses);
    if (command.kind == VKS_COMMAND_DRAW)
        command.draw.depth = depth_use;
    recording->uses[command.target].writes = true;
    if (depth.surface)
        recording->uses[depth_use].writes |= command.draw.writes_depth;
    recording->commands[recording->length++] = command;
    return VKS_OK;
}

float *vks_recording_vertices(vks_recording *recording, size_t count)
{
    if (count > UINT32_MAX - recording->n_vertices || !grow((void **)&recording->vertices, recording->n_vertices, count,
                                                            &recording->vertex_capacity, VKS_VERTEX_BYTES))
        return NULL;
    return recording->vertices + recording->n_vertices * VKS_VERTEX_FLOATS;
}

/* ---- a list from another ---- */

static vks_status append_one(vks_recording *to, const vks_recording *from, const vks_command *command, const bool *keep,
                             const vks_operand *sources)
{
    vks_operand target = {from->uses[command->target].surface, from->drawables[command->target]};
    vks_operand source = command->source == VKS_NO_USE ? vks_no_operand : sources[command->source];
    if (command->kind != VKS_COMMAND_DRAW)
        return vks_recording_add(to, *command, target, source, vks_no_operand);
    uint32_t use = command->draw.depth;
    vks_depth_operand depth = {.test = command->draw.depth_test};
    if (use != VKS_NO_USE) {
        depth.image = sources[use];
        depth.writes = command->draw.writes_depth && keep[use];
    }
    return vks_recording_draw_triangles(to, target, from->vertices + (size_t)command->draw.first * VKS_VERTEX_FLOATS,
                                        command->draw.count, VKS_VERTEX_FLOATS, source, command->linear,
                                        use != VKS_NO_USE ? &depth : NULL);
}

vks_status vks_recording_append(vks_recording *to, const vks_recording *from, size_t n_uses, const bool *keep,
                                const vks_operand *sources)
{
    vks_status status = n_uses == from->n_uses
                            ? VKS_OK
                            : vks_fail(VKS_BAD_VALUE, 0, "the list uses %zu surfaces, not %zu", from->n_uses, n_uses);
    for (size_t i = 0; i < from->length && !status; i++)
        if (keep[from->commands[i].target])
            status = append_one(to, from, &from->commands[i], keep, sources);
    return status;
}
