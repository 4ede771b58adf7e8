/* check.h: the least that a C test needs. A test is a function whose name is a sentence; CHECK says what was expected
 * and where. */
#ifndef VKS_CHECK_H
#define VKS_CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* ns: a limit that only ends a hang. A busy machine stops a test for as long as it likes, so no test says that
 * something takes less. */
#define HANG UINT64_C(10000000000)

static int check_failures;

#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: expected %s; ", __FILE__, __LINE__, #condition);                                   \
            fprintf(stderr, "" __VA_ARGS__);                                                                           \
            fputc('\n', stderr);                                                                                       \
            check_failures++;                                                                                          \
        }                                                                                                              \
    } while (0)

#define RUN(test)                                                                                                      \
    do {                                                                                                               \
        int before = check_failures;                                                                                   \
        test();                                                                                                        \
        printf("%s %s\n", check_failures == before ? "ok  " : "FAIL", #test);                                          \
        fflush(stdout);                                                                                                \
    } while (0)

static inline int check_result(void)
{
    printf("%d failures\n", check_failures);
    return check_failures ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* A number from the environment: tests run short by default and long in `make soak`. */
static inline long check_scale(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : otherwise;
}

#endif
