// Vectors of LANES pixels, for the loops of shade_kernel.h, and the values that vary over a triangle.
// Included by shade_kernel.h alone, after LANES and its neighbours are defined.

typedef float F __attribute__((vector_size(4 * LANES)));
typedef int32_t I __attribute__((vector_size(4 * LANES)));
typedef uint32_t U __attribute__((vector_size(4 * LANES)));
typedef uint16_t H __attribute__((vector_size(4 * LANES)));

// Unrolled, so that arrays of four vectors live in registers.
#define EACH_COMPONENT(c) _Pragma("GCC unroll 4") for (int c = 0; c < 4; c++)

static inline F splat(float v) { return v - (F){0}; }

static inline F lane_numbers(void)
{
    F f;
    for (int i = 0; i < LANES; i++)
        f[i] = (float)i;
    return f;
}

static inline F clamp(F v, F low, F high) { return MIN(MAX(v, low), high); }

static inline I to_int(F f) { return __builtin_convertvector(f, I); }

static inline F to_float(I i) { return __builtin_convertvector(i, F); }

// The values of the planes at a pixel, and their steps along the row.
struct ramps {
    float at[VKS_PLANES];
    const float *dx;
};

static inline struct ramps ramps_at(const struct vks_triangle *t, int32_t x, int32_t y)
{
    typedef float eight __attribute__((vector_size(32)));
    struct ramps ramps = {.dx = t->planes.dx};
    eight at, dx, dy;
    memcpy(&at, t->planes.at, sizeof at);
    memcpy(&dx, t->planes.dx, sizeof dx);
    memcpy(&dy, t->planes.dy, sizeof dy);
    at += dx * (float)(x - t->x0) + dy * (float)(y - t->y0);
    memcpy(ramps.at, &at, sizeof at);
    return ramps;
}

static inline F ramp_value(const struct ramps *ramps, int plane, F index)
{
    return splat(ramps->at[plane]) + splat(ramps->dx[plane]) * index;
}

// A value of the vertices, `index` pixels from where the ramps start.
static inline F interpolate(const struct ramps *ramps, int plane, bool perspective, F w, F index)
{
    F value = ramp_value(ramps, plane, index);
    return perspective ? value * w : value;
}

// Returns the factor that undoes the division by w.
static inline F unprojection(const struct ramps *ramps, bool perspective, F index)
{
    return perspective ? splat(1.0f) / ramp_value(ramps, VKS_INVERSE_W, index) : splat(1.0f);
}

static inline void vertex_colour(const struct vks_triangle *t, const struct ramps *ramps, bool perspective, F w,
                                 F index, F out[4])
{
    if (t->flat) {
        EACH_COMPONENT(c)
        out[c] = splat(t->colour[c]);
    } else {
        EACH_COMPONENT(c)
        out[c] = interpolate(ramps, c, perspective, w, index);
    }
}

// One axis of the texture: the pixels that are read, inside it, and the second ones' weights.
struct taps {
    I first, second;
    F weight;
};

// `u` is 0..1 over `extent` pixels. Clamping here is clamping to the edge.
static inline struct taps find_taps(F u, float extent, bool linear)
{
    F last = splat(extent - 1.0f);
    F at = clamp(u * splat(extent) - splat(linear ? 0.5f : 0.0f), splat(0.0f), last);
    struct taps taps = {.first = to_int(at)};
    taps.second = linear ? to_int(MIN(to_float(taps.first) + splat(1.0f), last)) : taps.first;
    taps.weight = at - to_float(taps.first);
    return taps;
}
