// See raster_reference.h. Compile with -DSUFFIX=baseline, or -DSUFFIX=native -march=native.
#include "raster_reference.h"

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
#define NAME(name) JOIN(name, SUFFIX)

// Two components a word, multiplied at once: the classic packed-word source-over, rounded as x / 255 is.
static inline uint32_t over(uint32_t d, uint32_t s)
{
    uint32_t keep = 255 - (s >> 24);
    uint32_t even = (d & 0x00ff00ff) * keep + 0x00800080;
    uint32_t odd = (d >> 8 & 0x00ff00ff) * keep + 0x00800080;
    even = (even + (even >> 8 & 0x00ff00ff)) >> 8 & 0x00ff00ff;
    odd = (odd + (odd >> 8 & 0x00ff00ff)) & 0xff00ff00;
    return s + (even | odd);
}

void NAME(reference_over_)(uint32_t *restrict target, const uint32_t *restrict source, size_t pixels)
{
    for (size_t i = 0; i < pixels; i++)
        target[i] = over(target[i], source[i]);
}

static float least(float a, float b, float c)
{
    float m = a < b ? a : b;
    return m < c ? m : c;
}

// Every pixel of the bounding box is tested against three edge functions, which step by additions.
void NAME(reference_triangles_)(uint32_t *target, int width, int height, const struct reference_triangle *triangles,
                                size_t count)
{
    for (size_t t = 0; t < count; t++) {
        const float *x = triangles[t].x, *y = triangles[t].y;
        int x0 = (int)least(x[0], x[1], x[2]), x1 = (int)-least(-x[0], -x[1], -x[2]) + 1;
        int y0 = (int)least(y[0], y[1], y[2]), y1 = (int)-least(-y[0], -y[1], -y[2]) + 1;
        x0 = x0 < 0 ? 0 : x0;
        y0 = y0 < 0 ? 0 : y0;
        x1 = x1 > width ? width : x1;
        y1 = y1 > height ? height : y1;
        float area = (x[1] - x[0]) * (y[2] - y[0]) - (x[2] - x[0]) * (y[1] - y[0]);
        float sign = area < 0 ? -1.0f : 1.0f, row[3], dx[3], dy[3];
        for (int i = 0; i < 3; i++) {
            int j = (i + 1) % 3;
            dx[i] = -(y[j] - y[i]) * sign;
            dy[i] = (x[j] - x[i]) * sign;
            row[i] = dy[i] * ((float)y0 + 0.5f - y[i]) + dx[i] * ((float)x0 + 0.5f - x[i]);
        }
        for (int py = y0; py < y1; py++) {
            float e[3] = {row[0], row[1], row[2]};
            for (int px = x0; px < x1; px++) {
                if (e[0] >= 0 && e[1] >= 0 && e[2] >= 0) {
                    uint32_t *p = &target[(size_t)py * (size_t)width + (size_t)px];
                    *p = over(*p, triangles[t].colour);
                }
                for (int i = 0; i < 3; i++)
                    e[i] += dx[i];
            }
            for (int i = 0; i < 3; i++)
                row[i] += dy[i];
        }
    }
}
