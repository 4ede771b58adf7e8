#include "raster/srgb.h"

#include <math.h>
#include <pthread.h>

static struct vks_srgb tables;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static double decode(double encoded)
{
    return encoded <= 0.04045 ? encoded / 12.92 : pow((encoded + 0.055) / 1.055, 2.4);
}

static float float_at_or_above(double value)
{
    float f = (float)value;
    return (double)f < value ? nextafterf(f, INFINITY) : f;
}

static void make_tables(void)
{
    for (int i = 0; i < 256; i++) {
        tables.linear[i] = (float)decode(i / 255.0);
        tables.threshold[i] = i < 255 ? float_at_or_above(decode((i + 0.5) / 255.0)) : INFINITY;
    }
    uint8_t code = 0;
    for (uint32_t bucket = 0; bucket < VKS_SRGB_BUCKETS; bucket++) {
        uint32_t bits = (bucket + VKS_SRGB_FIRST_BUCKET) << 16;
        float low;
        memcpy(&low, &bits, sizeof low);
        while (low >= tables.threshold[code])
            code++;
        tables.code[bucket] = code;
    }
}

const struct vks_srgb *vks_srgb(void)
{
    pthread_once(&once, make_tables);
    return &tables;
}
