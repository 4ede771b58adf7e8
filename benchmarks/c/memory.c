/* memory.c: how fast this machine can fill and copy memory. */
#include <string.h>

#include "clock.h"
#include "interface.h"

/* Fills `count` blocks of `size` bytes in turn, n blocks in all. */
double time_fills(void *const *blocks, uint32_t count, size_t size, long n)
{
    TIMED(n, memset(blocks[i % count], (int)(i & 0xff), size))
}

/* Copies each block of `size` bytes to the next one in turn, n blocks in all. */
double time_copies(void *const *blocks, uint32_t count, size_t size, long n)
{
    TIMED(n, memcpy(blocks[(i + 1) % count], blocks[i % count], size))
}
