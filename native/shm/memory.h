/* memory.h: shared memory: memfds of fixed size, the checks of memfds from other processes, and the
 * replacement of a driver's pages by those of such a memfd. */
#ifndef VKS_MEMORY_H
#define VKS_MEMORY_H

#include "os/platform.h"

/* Python calls functions of this header: native/vkshare.map.in. */
#pragma GCC visibility push(default)

/* The use of a memfd from another process. */
typedef enum vks_memfd_use {
    VKS_MEMFD_READ,  /* a page that is only read; it holds at least `size` bytes */
    VKS_MEMFD_WRITE, /* a page; it holds at least `size` bytes */
    VKS_MEMFD_PIXELS /* the memory of an image: it holds `size` bytes and no more */
} vks_memfd_use;

/* Creates a memfd of `size` bytes, CLOEXEC, sealed against shrinking, growing and further seals,
 * and maps it for writing unless `map` is NULL. `read_only`: other mappings cannot write to it. */
vks_status vks_memfd_create(const char *name, uint64_t size, bool read_only, int *fd, void **map);
/* Checks a memfd (X15): small pages, a fixed size that is large enough, final seals, and writable
 * where `use` needs that. Else VKS_BAD_PAGE, with a text about `what`. Maps nothing. */
vks_status vks_memfd_check(int fd, const char *what, vks_memfd_use use, uint64_t size);
/* The same for the fd of an image's memory. `is_memfd`: a surface of the CPU backend, exactly
 * `size` bytes. Else memory of a driver: a sealed memfd (software drivers) of at least `size`
 * bytes, a device or a dma-buf. */
vks_status vks_memory_check(int fd, bool is_memfd, uint64_t size);
/* Maps the first `size` bytes of another process's page after that check. Does not close the fd. */
vks_status vks_memfd_map(int fd, size_t size, bool writable, void **map);

/* Maps `fd` over the pages of the file `own` that a driver has mapped (X26), from `address` to the
 * end of that mapping. `fd` has passed vks_memfd_check() for the size of `own`. `address` NULL:
 * over the first mapping of `own` that contains the file offset *offset. *offset becomes the file
 * offset of the first replaced page; earlier pages stay. */
vks_status vks_memory_replace(int own, int fd, const void *address, uint64_t *offset);
/* The same for good, with the contents of the driver's memory: an engine's, which may have mapped it.
 * `offset`: where in both files the memory begins. Nothing uses the memory during the call.
 * VKS_UNSUPPORTED: the files have not the same size. */
vks_status vks_memory_share(int own, int pages, uint64_t offset);
/* Maps `fd`, a memfd of any sealed size, from its beginning over the start of such a mapping: the memory
 * of another driver's surface, header included, becomes a buffer of this one. VKS_BAD_PAGE, with a text:
 * `fd` is no such memfd; VKS_UNSUPPORTED: the mapping at `address` is too short, or begins within a page. */
vks_status vks_memory_cover(int own, int fd, const void *address);
/* *pages: a new fd of the memfd that vks_memory_share() put in the place of the memory of `own`, the
 * caller's, and *offset as it was given; -1: none. */
vks_status vks_memory_find_shared(int own, int *pages, uint64_t *offset);
/* Forgets memory that engines have freed. */
void vks_memory_drop_unmapped(void);
/* Returns whether the process has a mapping of the file, or cannot tell. */
bool vks_memory_is_mapped(int fd);
/* Allocates the pages of `size` bytes of a mapping of `fd`, from file offset `offset` on. Otherwise
 * a later write to a page that the system cannot provide would raise SIGBUS. */
vks_status vks_memory_reserve(int fd, void *address, size_t size, uint64_t offset);

#pragma GCC visibility pop

#endif
