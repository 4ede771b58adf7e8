/* memory.h: shared memory: memfds that cannot change their size, the checks of those that come from another process,
 * and the pages of such a memfd in the place of a driver's own. */
#ifndef VKS_MEMORY_H
#define VKS_MEMORY_H

#include "platform.h"

/* What a memfd that comes from another process is for. */
typedef enum vks_memfd_use {
    VKS_MEMFD_READ,  /* a page that is only read; it holds at least `size` bytes */
    VKS_MEMFD_WRITE, /* a page; it holds at least `size` bytes */
    VKS_MEMFD_PIXELS /* the memory of an image: it holds `size` bytes and no more */
} vks_memfd_use;

/* A memfd of `size` bytes, CLOEXEC, sealed against shrinking, growing and further seals, mapped for writing unless
 * `map` is NULL. `read_only`: no other mapping can write to it; this one can. */
vks_status vks_memfd_create(const char *name, uint64_t size, bool read_only, int *fd, void **map);
/* X15: VKS_BAD_PAGE, with a sentence on `what` that says what to do, unless the fd is a memfd of small pages whose size
 * is fixed and right, whose seals are final, and that can be written where `use` needs that. Maps nothing. */
vks_status vks_memfd_check(int fd, const char *what, vks_memfd_use use, uint64_t size);
/* The same for the fd of an image's memory. `is_memfd`: a surface of the CPU backend, exactly `size` bytes. Else it is
 * a driver's: a sealed memfd (software drivers) of at least `size` bytes, a device or a dma-buf. */
vks_status vks_memory_check(int fd, bool is_memfd, uint64_t size);
/* The first `size` bytes of a foreign page after that check. Does not close the fd. */
vks_status vks_memfd_map(int fd, size_t size, bool writable, void **map);

/* X26: maps `fd`, memory that vks_memfd_check() passes as large as the file `own`, over the pages of `own`, which a
 * driver has mapped: from `address` to the end of that mapping. NULL: over the first mapping of `own` that has the file
 * offset *offset. *offset becomes the file offset of the first page that was replaced; the pages before it stay. */
vks_status vks_memory_replace(int own, int fd, const void *address, uint64_t *offset);
/* Takes `size` bytes of a mapping of `fd`, from file offset `offset` on, from the system now: a later write to a page
 * that the system cannot provide would be a SIGBUS. */
vks_status vks_memory_reserve(int fd, void *address, size_t size, uint64_t offset);

#endif
