/* decimal.h: parses numbers. glibc 2.38 and later rename strtoull and its siblings
 * (__isoc23_strtoull), so a binary built there would not load on an older glibc. */
#ifndef VKS_DECIMAL_H
#define VKS_DECIMAL_H

#include <stdint.h>

/* Returns the number that `text` begins with, after spaces; 0 without a digit, UINT64_MAX if it is
 * too large. */
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
