/* failing_memory.h: allocations of this program's own code that fail on command. Include it in one
 * file of a test. The three functions are hidden in the program (-fvisibility=hidden): shared
 * libraries keep the C library's. */
#ifndef VKS_FAILING_MEMORY_H
#define VKS_FAILING_MEMORY_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static _Thread_local struct {
    uint32_t left; /* the allocation that fails; 0: none */
    bool has_failed;
} memory;

/* The n-th allocation of this thread from now on fails, and none after it; 0: none does. */
static inline void memory_fail(uint32_t n) { memory.left = n; }

static bool fails_now(void)
{
    if (!memory.left || --memory.left)
        return false;
    return memory.has_failed = true;
}

static void *find_function(const char *name) { return dlsym(RTLD_DEFAULT, name); }

void *malloc(size_t size)
{
    static void *(*function)(size_t);
    if (!function)
        *(void **)&function = find_function("malloc");
    return fails_now() ? NULL : function(size);
}

void *calloc(size_t n, size_t size)
{
    static void *(*function)(size_t, size_t);
    if (!function)
        *(void **)&function = find_function("calloc");
    return fails_now() ? NULL : function(n, size);
}

void *realloc(void *old, size_t size)
{
    static void *(*function)(void *, size_t);
    if (!function)
        *(void **)&function = find_function("realloc");
    return fails_now() ? NULL : function(old, size);
}

#endif
