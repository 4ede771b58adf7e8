/* memory.c: how fast this machine can fill and copy memory. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "clock.h"

/* Fills `count` blocks of `size` bytes in turn, n blocks in all. Seconds. */
double time_fills(void *const *blocks, uint32_t count, size_t size, long n)
{
    double start = seconds();
    for (long i = 0; i < n; i++)
        memset(blocks[i % count], (int)(i & 0xff), size);
    return seconds() - start;
}

/* Copies each block of `size` bytes to the next one in turn, n blocks in all. Seconds. */
double time_copies(void *const *blocks, uint32_t count, size_t size, long n)
{
    double start = seconds();
    for (long i = 0; i < n; i++)
        memcpy(blocks[(i + 1) % count], blocks[i % count], size);
    return seconds() - start;
}
