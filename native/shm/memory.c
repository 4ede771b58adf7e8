#define _GNU_SOURCE
#include "shm/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#define HUGE_PAGES_MAGIC 0x958458f6 /* HUGETLBFS_MAGIC */
#define SIZE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
#define WRITE_SEALS (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)

/* ---- creating ---- */

static vks_status refuse_memfd(int code)
{
    if (code != ENOSYS && code != EPERM && code != EACCES) /* out of fds, or out of memory */
        return vks_fail(VKS_OS_ERROR, code, "memfd_create() failed");
    return vks_fail(
        VKS_UNSUPPORTED, code,
        "memfd_create() was refused (%s), and each surface and each shared page is a memfd: allow the call in "
        "the seccomp profile of this container",
        strerror(code));
}

vks_status vks_memfd_create(const char *name, uint64_t size, bool read_only, int *fd, void **map)
{
    void *mapped = NULL;
    *fd = (int)syscall(SYS_memfd_create, name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd < 0)
        return refuse_memfd(errno);
    const char *call = "ftruncate() of a new memfd";
    if (ftruncate(*fd, (off_t)size) < 0)
        goto failed;
    call = "mmap() of a new memfd";
    if (map && (mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0)) == MAP_FAILED)
        goto failed;
    call = read_only ? "F_SEAL_FUTURE_WRITE on a new memfd (Linux 5.1 has it)" : "F_ADD_SEALS on a new memfd";
    if (fcntl(*fd, F_ADD_SEALS, SIZE_SEALS | F_SEAL_SEAL | (read_only ? F_SEAL_FUTURE_WRITE : 0)) < 0)
        goto failed;
    if (map)
        *map = mapped;
    return VKS_OK;
failed:;
    int code = errno;
    if (mapped && mapped != MAP_FAILED)
        munmap(mapped, size);
    close(*fd);
    *fd = -1;
    return vks_fail(VKS_OS_ERROR, code, "%s failed", call);
}

/* ---- checking memfds of other processes ---- */

static vks_status check_seals(int fd, const char *what, bool writes)
{
    int seals = fcntl(fd, F_GET_SEALS), flags = fcntl(fd, F_GETFL);
    if (seals < 0)
        return vks_fail(VKS_BAD_PAGE, 0, "the %s's fd is a file on disk, not a memfd", what);
    if ((seals & SIZE_SEALS) != SIZE_SEALS || !(seals & F_SEAL_SEAL))
        return vks_fail(
            VKS_BAD_PAGE, 0,
            "the %s's memfd is not sealed against shrinking, growing and further seals: its seals are 0x%x, "
            "and SEAL|SHRINK|GROW (0x7) are needed",
            what, (unsigned)seals);
    if (writes && seals & WRITE_SEALS)
        return vks_fail(VKS_BAD_PAGE, 0,
                        "the %s's memfd is sealed against writing (its seals are 0x%x), and both parties write to it: "
                        "send it without F_SEAL_WRITE and F_SEAL_FUTURE_WRITE",
                        what, (unsigned)seals);
    int mode = flags & O_ACCMODE;
    if (mode != O_RDWR && (writes || mode != O_RDONLY))
        return vks_fail(VKS_BAD_PAGE, 0, "the %s's fd is open for %s only: send one that is opened with O_RDWR", what,
                        mode == O_RDONLY ? "reading" : "writing");
    return VKS_OK;
}

vks_status vks_memfd_check(int fd, const char *what, vks_memfd_use use, uint64_t size)
{
    struct stat info;
    struct statfs system;
    if (fstat(fd, &info) < 0 || fstatfs(fd, &system) < 0)
        return vks_fail(VKS_BAD_PAGE, 0, "the %s's fd cannot be used: %s", what, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return vks_fail(VKS_BAD_PAGE, 0, "the %s's fd is not a memfd", what);
    vks_status status = check_seals(fd, what, use != VKS_MEMFD_READ);
    if (status)
        return status;
    if ((unsigned long)system.f_type == HUGE_PAGES_MAGIC) /* a huge page that the system cannot provide raises SIGBUS */
        return vks_fail(VKS_BAD_PAGE, 0, "the %s's memfd is made of huge pages: make it without MFD_HUGETLB", what);
    uint64_t there = (uint64_t)info.st_size;
    if (there < size || (use == VKS_MEMFD_PIXELS && there > size))
        return vks_fail(VKS_BAD_PAGE, 0, "the %s has %" PRIu64 " bytes, and %s%" PRIu64 " are needed", what, there,
                        use == VKS_MEMFD_PIXELS ? "exactly " : "", size);
    return VKS_OK;
}

vks_status vks_memory_check(int fd, bool is_memfd, uint64_t size)
{
    struct stat info;
    if (is_memfd || fstat(fd, &info) < 0 || S_ISREG(info.st_mode))
        return vks_memfd_check(fd, "image memory", is_memfd ? VKS_MEMFD_PIXELS : VKS_MEMFD_WRITE, size);
    if (S_ISCHR(info.st_mode) || (info.st_mode & S_IFMT) == 0) /* 0: an anonymous inode (dma-buf) */
        return VKS_OK;
    return vks_fail(VKS_BAD_PAGE, 0, "the image memory's fd is a socket, pipe, folder or block device");
}

vks_status vks_memfd_map(int fd, size_t size, bool writable, void **map)
{
    vks_status status = vks_memfd_check(fd, "shared page", writable ? VKS_MEMFD_WRITE : VKS_MEMFD_READ, size);
    if (status)
        return status;
    *map = mmap(NULL, size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
    if (*map == MAP_FAILED)
        return vks_fail(VKS_OS_ERROR, errno, "mmap() of a shared page of %zu bytes failed", size);
    return VKS_OK;
}

/* ---- replacing a driver's pages ---- */

typedef struct mapping {
    uintptr_t start, end;
    uint64_t offset; /* of `start` in the file */
} mapping;

/* Parses the digits at *text and the character after them, which must be `end`, and moves *text
 * past both. Parsed by hand, because glibc 2.38 renames sscanf (decimal.h). */
static bool read_number(const char **text, unsigned base, char end, uint64_t *value)
{
    const char *at = *text;
    for (*value = 0;; at++) {
        unsigned digit = *at >= '0' && *at <= '9'   ? (unsigned)(*at - '0')
                         : *at >= 'a' && *at <= 'f' ? (unsigned)(*at - 'a') + 10
                                                    : base;
        if (digit >= base)
            break;
        *value = *value * base + digit;
    }
    bool is_read = at > *text && *at == end;
    *text = is_read ? at + 1 : at;
    return is_read;
}

/* Parses a line of /proc/self/maps and returns whether it maps that file: "start-end rwxp offset
 * major:minor inode path", in base 16 except the inode. */
static bool read_mapping(const char *line, const struct stat *file, mapping *out)
{
    uint64_t start, end, major_id, minor_id, inode;
    if (!read_number(&line, 16, '-', &start) || !read_number(&line, 16, ' ', &end) || !(line = strchr(line, ' ')))
        return false;
    line++;
    if (!read_number(&line, 16, ' ', &out->offset) || !read_number(&line, 16, ':', &major_id) ||
        !read_number(&line, 16, ' ', &minor_id) || !read_number(&line, 10, ' ', &inode))
        return false;
    out->start = (uintptr_t)start;
    out->end = (uintptr_t)end;
    return inode == file->st_ino && makedev((unsigned)major_id, (unsigned)minor_id) == file->st_dev;
}

static vks_status find_mapping(const struct stat *file, uintptr_t address, uint64_t offset, mapping *out)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps)
        return vks_fail(VKS_OS_ERROR, errno, "/proc/self/maps cannot be read");
    char *line = NULL;
    size_t capacity = 0;
    bool found = false;
    while (!found && getline(&line, &capacity, maps) > 0)
        found = read_mapping(line, file, out) &&
                (address ? out->start <= address && address < out->end
                         : out->offset <= offset && offset - out->offset < out->end - out->start);
    free(line);
    fclose(maps);
    return found ? VKS_OK
                 : vks_fail(VKS_UNSUPPORTED, 0,
                            "the driver has not mapped the file that it exports, so its pages cannot be replaced");
}

bool vks_memory_is_mapped(int fd)
{
    struct stat file;
    if (fstat(fd, &file) < 0)
        return false;
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps)
        return true;
    char *line = NULL;
    size_t capacity = 0;
    bool found = false;
    mapping ignored;
    while (!found && getline(&line, &capacity, maps) > 0)
        found = read_mapping(line, &file, &ignored);
    free(line);
    fclose(maps);
    return found;
}

vks_status vks_memory_replace(int own, int fd, const void *address, uint64_t *offset)
{
    struct stat file;
    mapping place;
    if (fstat(own, &file) < 0)
        return vks_fail(VKS_OS_ERROR, errno, "the driver's fd cannot be used");
    vks_status status = vks_memfd_check(fd, "image memory", VKS_MEMFD_PIXELS, (uint64_t)file.st_size);
    if (status || (status = find_mapping(&file, (uintptr_t)address, *offset, &place)))
        return status;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = address ? (uintptr_t)address : place.start + (uintptr_t)(*offset - place.offset);
    uint64_t first = place.offset + (start - place.start), pages = ((uint64_t)file.st_size + page - 1) / page;
    if (start % page || first + (place.end - start) > pages * page)
        return vks_fail(VKS_UNSUPPORTED, 0, "the driver's memory begins within a page, or ends behind its file");
    if (mmap((void *)start, place.end - start, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, (off_t)first) ==
        MAP_FAILED)
        return vks_fail(VKS_OS_ERROR, errno, "mmap() of an image's memory failed");
    *offset = first;
    return VKS_OK;
}

vks_status vks_memory_cover(int own, int fd, const void *address)
{
    struct stat file, pages;
    mapping place;
    if (fstat(own, &file) < 0 || fstat(fd, &pages) < 0)
        return vks_fail(VKS_BAD_PAGE, errno, "the fd of the memory cannot be used");
    vks_status status = vks_memfd_check(fd, "image memory", VKS_MEMFD_PIXELS, (uint64_t)pages.st_size);
    if (status || (status = find_mapping(&file, (uintptr_t)address, 0, &place)))
        return status;
    uintptr_t start = (uintptr_t)address, page = (uintptr_t)sysconf(_SC_PAGESIZE);
    size_t size = ((size_t)pages.st_size + page - 1) / page * page;
    if (start % page || size > place.end - start)
        return vks_fail(VKS_UNSUPPORTED, 0,
                        "the driver's memory begins within a page, or has fewer than the %zu bytes of the other's",
                        size);
    if (mmap((void *)start, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
        return vks_fail(VKS_OS_ERROR, errno, "mmap() of an image's memory failed");
    return VKS_OK;
}

/* ---- allocating pages ---- */

vks_status vks_memory_reserve(int fd, void *address, size_t size, uint64_t offset)
{
    if (madvise(address, size, MADV_POPULATE_WRITE) == 0)
        return VKS_OK;
    int code; /* a kernel before 5.14, or out of memory, which fallocate() reports too */
    do
        code = fallocate(fd, 0, (off_t)offset, (off_t)size) == 0 ? 0 : errno;
    while (code == EINTR);
    return code ? vks_fail(VKS_OS_ERROR, code, "no memory for an image: fallocate() of %zu bytes failed", size)
                : VKS_OK;
}
