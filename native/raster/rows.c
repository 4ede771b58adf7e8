// Operations go down the target together, a band of rows at a time: an operation's output is still in the second-level
// cache when the next one blends over it, and the pool's threads are woken once for all of them.
#include "raster/rows.h"

#define BAND_BYTES (128u * 1024u) // of the target; leaves room for the pixels read

struct descent {
    const struct vks_rows *rows;
    uint32_t count;
    uint32_t top;  // the target's first row that is drawn
    uint32_t band; // rows
};

static uint32_t end_of(const struct vks_rows *rows) { return rows->area.y + rows->area.height; }

static void draw_between(const struct vks_rows *rows, uint32_t top, uint32_t bottom)
{
    uint32_t first = top > rows->area.y ? top : rows->area.y;
    uint32_t end = bottom < end_of(rows) ? bottom : end_of(rows);
    if (rows->draw != NULL && first < end)
        rows->draw(rows, first - rows->area.y, end - rows->area.y);
}

static void descend(void *context, uint32_t first, uint32_t end)
{
    const struct descent *d = context;
    for (uint32_t top = first, bottom; top < end; top = bottom) {
        bottom = end - top > d->band ? top + d->band : end;
        for (uint32_t i = 0; i < d->count; i++)
            draw_between(&d->rows[i], d->top + top, d->top + bottom);
    }
}

void vks_draw_rows(const struct vks_rows *rows, uint32_t count, struct vks_pool *pool)
{
    uint32_t top = UINT32_MAX, bottom = 0, drawn = 0;
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].draw == NULL)
            continue;
        drawn++;
        top = rows[i].area.y < top ? rows[i].area.y : top;
        bottom = end_of(&rows[i]) > bottom ? end_of(&rows[i]) : bottom;
        bytes += rows[i].bytes;
    }
    if (drawn == 0)
        return;
    struct descent d = {.rows = rows, .count = count, .top = top, .band = bottom - top};
    if (drawn > 1) { // one alone comes to each row once
        uint32_t band = (uint32_t)(BAND_BYTES / rows->target->stride);
        d.band = band > 0 ? band : 1;
    }
    vks_run_rows(pool, bottom - top, bytes, descend, &d);
}
