/* check_macros.h: a minimal C test harness. A test is a function whose name is a sentence. CHECK
 * reports the failed expectation and its location. */
#ifndef VKS_CHECK_MACROS_H
#define VKS_CHECK_MACROS_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* ns: a limit that only ends a hang. A busy machine can stop a test for any time, so no test
 * expects a shorter duration. */
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

/* The file descriptors of this process, and three more: of the folder that lists them, "." and "..". */
static inline int count_fds(void)
{
    int n = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

/* A number from the environment: tests run short by default and long in `make soak`. */
static inline long check_scale(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : otherwise;
}

#endif
