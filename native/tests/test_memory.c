/* Shared memory: memfds that this process creates, the checks of memfds from other processes, and
 * the replacement of a driver's pages. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check_macros.h"
#include "shm/memory.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#define FINAL (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW)

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

static int new_memfd(off_t size, int seals)
{
    int fd = memfd_create("foreign", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(ftruncate(fd, size) == 0 && fcntl(fd, F_ADD_SEALS, seals) == 0, "a memfd");
    return fd;
}

static int again(int fd, int flags)
{
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, flags | O_CLOEXEC);
}

/* rules: X15, X20 */
static void a_created_memfd_has_a_fixed_size_and_final_seals(void)
{
    for (int read_only = 0; read_only < 2; read_only++) {
        void *map;
        int fd;
        CHECK(vks_memfd_create("test", 8192, read_only, &fd, &map) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(fcntl(fd, F_GET_SEALS) == (FINAL | (read_only ? F_SEAL_FUTURE_WRITE : 0)), "%x", fcntl(fd, F_GET_SEALS));
        CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC, "not inherited");
        CHECK(ftruncate(fd, 0) < 0 && errno == EPERM && ftruncate(fd, 1 << 20) < 0, "its size is fixed");
        memset(map, 5, 8192);
        void *other = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        CHECK((other == MAP_FAILED) == read_only, "only the first mapping of a read-only one can write");
        if (other != MAP_FAILED)
            munmap(other, 8192);
        munmap(map, 8192);
        close(fd);
    }
    int fd;
    CHECK(vks_memfd_create("test", 1, false, &fd, NULL) == VKS_OK, "%s", vks_last_error()->text);
    close(fd);
}

static void refused(int fd, vks_memfd_use use, uint64_t size, const char *why)
{
    vks_status status = vks_memfd_check(fd, "thing", use, size);
    CHECK(status == VKS_BAD_PAGE && strstr(vks_last_error()->text, why), "%s: %d %s", why, status,
          status ? vks_last_error()->text : "");
}

/* rules: X15 */
static void a_resizable_or_unwritable_memfd_is_refused_with_the_reason(void)
{
    int good = new_memfd(8192, FINAL), frozen = new_memfd(8192, FINAL | F_SEAL_FUTURE_WRITE), ends[2];
    int reader = again(good, O_RDONLY), writer = again(good, O_WRONLY), disk = open("/proc/self/exe", O_RDONLY);
    CHECK(pipe(ends) == 0, "a pipe");
    for (int use = VKS_MEMFD_READ; use <= VKS_MEMFD_PIXELS; use++) {
        CHECK(vks_memfd_check(good, "thing", use, 8192) == VKS_OK, "%s", vks_last_error()->text);
        for (int seals = 0; seals < FINAL; seals++) {
            int fd = new_memfd(8192, seals);
            refused(fd, use, 8192, "not sealed against shrinking");
            close(fd);
        }
        refused(good, use, 8193, "has 8192 bytes");
        refused(ends[0], use, 0, "not a memfd");
        refused(disk, use, 0, "not a memfd");
        refused(-1, use, 0, "cannot be used: Bad file descriptor");
    }
    CHECK(vks_memfd_check(good, "thing", VKS_MEMFD_WRITE, 4096) == VKS_OK, "at least");
    refused(good, VKS_MEMFD_PIXELS, 4096, "exactly 4096");
    CHECK(vks_memfd_check(reader, "thing", VKS_MEMFD_READ, 0) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_memfd_check(frozen, "thing", VKS_MEMFD_READ, 0) == VKS_OK, "%s", vks_last_error()->text);
    refused(reader, VKS_MEMFD_WRITE, 0, "open for reading only");
    for (int use = VKS_MEMFD_READ; use <= VKS_MEMFD_PIXELS; use++)
        refused(writer, use, 0, "open for writing only");
    refused(frozen, VKS_MEMFD_WRITE, 0, "sealed against writing");
    for (int i = 0, all[] = {good, frozen, reader, writer, disk, ends[0], ends[1]}; i < 7; i++)
        close(all[i]);
}

/* A driver: a file of four pages and a part; the first page is a header. */
typedef struct driver {
    int fd;
    unsigned char *map;
    size_t size, length;
} driver;

static driver start_driver(void)
{
    driver d = {.size = 4 * page_size() + 40, .length = 5 * page_size()};
    d.fd = memfd_create("driver", MFD_CLOEXEC);
    CHECK(ftruncate(d.fd, (off_t)d.size) == 0, "its file");
    d.map = mmap(NULL, d.size, PROT_READ | PROT_WRITE, MAP_SHARED, d.fd, 0);
    memset(d.map, 1, d.size);
    return d;
}

/* rules: X26 */
static void pages_are_replaced_from_an_address_or_an_offset_to_the_end_and_the_header_stays(void)
{
    size_t page = page_size();
    for (int by_offset = 0; by_offset < 2; by_offset++) {
        driver d = start_driver();
        uint64_t offset = by_offset ? page : 77;
        int fd;
        void *theirs;
        CHECK(vks_memfd_create("pages", d.size, false, &fd, &theirs) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(vks_memory_replace(d.fd, fd, by_offset ? NULL : d.map + page, &offset) == VKS_OK, "%s",
              vks_last_error()->text);
        CHECK(offset == page, "%llu", (unsigned long long)offset);
        memset(theirs, 9, d.size);
        CHECK(d.map[0] == 1 && d.map[page - 1] == 1, "the header is the driver's own");
        CHECK(d.map[page] == 9 && d.map[d.size - 1] == 9, "%d %d", d.map[page], d.map[d.size - 1]);
        d.map[page] = 4;
        CHECK(((unsigned char *)theirs)[page] == 4, "both see one memory");
        munmap(theirs, d.size);
        CHECK(munmap(d.map, d.size) == 0, "the driver unmaps what it mapped");
        close(fd);
        close(d.fd);
    }
}

static void not_replaced(int own, int fd, const void *address, uint64_t offset, vks_status status, const char *why)
{
    vks_status found = vks_memory_replace(own, fd, address, &offset);
    CHECK(found == status && strstr(vks_last_error()->text, why), "%s: %d %s", why, found, vks_last_error()->text);
}

/* rules: X26, X16 */
static void nothing_but_a_drivers_own_mapping_is_ever_replaced(void)
{
    driver d = start_driver();
    size_t page = page_size();
    static unsigned char elsewhere[3 * 4096];
    int good = new_memfd((off_t)d.size, FINAL), small = new_memfd((off_t)d.size - 1, FINAL);
    int large = new_memfd((off_t)1 << 40, FINAL), open_ended = new_memfd((off_t)d.size, 0);
    not_replaced(d.fd, small, d.map, 0, VKS_BAD_PAGE, "exactly");
    not_replaced(d.fd, large, d.map, 0, VKS_BAD_PAGE, "exactly");
    not_replaced(d.fd, open_ended, d.map, 0, VKS_BAD_PAGE, "not sealed");
    not_replaced(d.fd, good, elsewhere, 0, VKS_UNSUPPORTED, "has not mapped");
    not_replaced(d.fd, good, NULL, d.length, VKS_UNSUPPORTED, "has not mapped");
    not_replaced(d.fd, good, d.map + 16, 0, VKS_UNSUPPORTED, "begins within a page");
    not_replaced(d.fd, good, NULL, page + 16, VKS_UNSUPPORTED, "begins within a page");
    not_replaced(good, good, d.map, 0, VKS_UNSUPPORTED, "has not mapped");
    not_replaced(-1, good, d.map, 0, VKS_OS_ERROR, "cannot be used");
    /* A mapping longer than its file; pages behind the end raise SIGBUS. */
    int tail = memfd_create("short", MFD_CLOEXEC);
    CHECK(ftruncate(tail, (off_t)page) == 0, "a file");
    void *long_map = mmap(NULL, 2 * page, PROT_READ, MAP_SHARED, tail, 0);
    int same = new_memfd((off_t)page, FINAL);
    not_replaced(tail, same, long_map, 0, VKS_UNSUPPORTED, "ends behind its file");
    for (size_t i = 0; i < d.size; i++)
        CHECK(d.map[i] == 1, "byte %zu is %d", i, d.map[i]);
    munmap(long_map, 2 * page);
    munmap(d.map, d.size);
    for (int i = 0, all[] = {d.fd, good, small, large, open_ended, tail, same}; i < 7; i++)
        close(all[i]);
}

/* rules: E2, X26 */
static void an_engines_pages_are_replaced_once_with_their_contents(void)
{
    driver d = start_driver();
    size_t page = page_size();
    uint64_t offset = 0;
    int found, pages, small = new_memfd((off_t)page, FINAL);
    void *theirs;
    CHECK(vks_memfd_create("pages", d.size, false, &pages, &theirs) == VKS_OK, "%s", vks_last_error()->text);
    memset(d.map + page, 6, d.size - page);
    CHECK(vks_memory_find_shared(d.fd, &found, &offset) == VKS_OK && found == -1, "they are the driver's own");
    CHECK(vks_memory_share(d.fd, small, page) == VKS_UNSUPPORTED && d.map[page] == 6, "another size");
    CHECK(vks_memory_share(-1, pages, page) == VKS_OS_ERROR, "no file");
    CHECK(vks_memory_share(d.fd, pages, page) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(((unsigned char *)theirs)[page] == 6 && ((unsigned char *)theirs)[d.size - 1] == 6, "the contents");
    CHECK(((unsigned char *)theirs)[0] == 0 && d.map[0] == 1, "the header is the driver's own");
    d.map[page] = 7;
    CHECK(((unsigned char *)theirs)[page] == 7, "both see one memory");
    munmap(theirs, d.size);
    for (int i = 0; i < 2; i++) {
        struct stat one, two;
        CHECK(vks_memory_find_shared(d.fd, &found, &offset) == VKS_OK && found >= 0 && offset == page, "it is known");
        CHECK(fstat(found, &one) == 0 && fstat(pages, &two) == 0 && one.st_ino == two.st_ino, "the same memfd");
        close(found);
    }
    munmap(d.map, d.size); /* the engine frees its memory */
    vks_memory_drop_unmapped();
    CHECK(vks_memory_find_shared(d.fd, &found, &offset) == VKS_OK && found == -1, "it is forgotten");
    for (int i = 0, all[] = {d.fd, pages, small}; i < 3; i++)
        close(all[i]);
}

static void only_the_reserved_pages_are_allocated(void)
{
    struct stat info;
    size_t page = page_size();
    void *map;
    int fd;
    CHECK(vks_memfd_create("pages", 8 * page, false, &fd, &map) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_memory_reserve(fd, (char *)map + 2 * page, 3 * page, 2 * page) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(fstat(fd, &info) == 0 && (size_t)info.st_blocks * 512 == 3 * page, "%ld", (long)info.st_blocks);
    munmap(map, 8 * page);
    close(fd);
}

int main(void)
{
    RUN(a_created_memfd_has_a_fixed_size_and_final_seals);
    RUN(a_resizable_or_unwritable_memfd_is_refused_with_the_reason);
    RUN(pages_are_replaced_from_an_address_or_an_offset_to_the_end_and_the_header_stays);
    RUN(nothing_but_a_drivers_own_mapping_is_ever_replaced);
    RUN(an_engines_pages_are_replaced_once_with_their_contents);
    RUN(only_the_reserved_pages_are_allocated);
    return check_result();
}
