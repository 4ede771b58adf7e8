/* decimal.h: numbers in text. The C library's strtoull and its siblings have other names in glibc 2.38 and later
 * (__isoc23_strtoull), so a binary that was built there would not load where glibc is older. */
#ifndef VKS_DECIMAL_H
#define VKS_DECIMAL_H

#include <stdint.h>

/* The number that `text` begins with, after spaces; 0 where there is no digit, UINT64_MAX where it is too large. */
static inline uint64_t vks_decimal(const char *text)
{
    uint64_t value = 0;
    while (*text == ' ')
        text++;
    for (; *text >= '0' && *text <= '9'; text++) {
        uint64_t digit = (uint64_t)(*text - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return UINT64_MAX;
        value = value * 10 + digit;
    }
    return value;
}
#endif
