/* clock.h: seconds for the timed loops. */
#pragma once

#include <time.h>

static inline double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The body of a function: executes the statement n times, i counts them, and returns the seconds. */
#define TIMED(n, statement)                                                                                            \
    double start = seconds();                                                                                          \
    for (long i = 0; i < n; i++) {                                                                                     \
        statement;                                                                                                     \
    }                                                                                                                  \
    return seconds() - start;

/* In such a statement: a call whose only good result is VK_SUCCESS. The function returns another one, negative. */
#define SUCCEED(call)                                                                                                  \
    do {                                                                                                               \
        int result = (call);                                                                                           \
        if (result)                                                                                                    \
            return result > 0 ? -result : result;                                                                      \
    } while (0)
