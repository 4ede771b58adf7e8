/* shared_pages.c: memory whose pages were replaced by those of a sealed memfd for good: an engine's,
 * on a software driver (decision 0124).
 *
 * The driver gives its own file for such memory, which its mapping does not show any more. The file's
 * identity finds the memfd. The table is the process's, as the mappings are. An entry ends once the
 * memfd is mapped nowhere in the process.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/memory.h"

#define CHUNK (UINT64_C(1) << 20)

typedef struct entry {
    dev_t device; /* of the driver's file */
    ino_t inode;
    int pages;
    uint64_t offset; /* where in both files the memory begins */
} entry;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static entry *entries;
static size_t n_entries;

static void drop_unmapped(void)
{
    for (size_t i = 0; i < n_entries;) {
        if (vks_memory_is_mapped(entries[i].pages)) {
            i++;
            continue;
        }
        close(entries[i].pages);
        entries[i] = entries[--n_entries];
    }
}

void vks_memory_drop_unmapped(void)
{
    pthread_mutex_lock(&lock);
    drop_unmapped();
    pthread_mutex_unlock(&lock);
}

static const entry *find(const struct stat *own)
{
    for (size_t i = 0; i < n_entries; i++)
        if (entries[i].device == own->st_dev && entries[i].inode == own->st_ino)
            return &entries[i];
    return NULL;
}

vks_status vks_memory_find_shared(int own, int *pages, uint64_t *offset)
{
    struct stat file;
    *pages = -1;
    if (fstat(own, &file) < 0)
        return vks_fail(VKS_OS_ERROR, errno, "the driver's fd cannot be used");
    pthread_mutex_lock(&lock);
    drop_unmapped();
    vks_status status = VKS_OK;
    const entry *found = find(&file);
    if (found) {
        *offset = found->offset;
        status = vks_duplicate_fd(found->pages, "the memory's fd", pages);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static vks_status copy(int own, int pages, uint64_t offset)
{
    char *chunk = malloc(CHUNK);
    if (!chunk)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory to copy an image");
    ssize_t n;
    while ((n = pread(own, chunk, CHUNK, (off_t)offset)) > 0) {
        if (pwrite(pages, chunk, (size_t)n, (off_t)offset) != n) {
            n = -1;
            break;
        }
        offset += (uint64_t)n;
    }
    int code = errno;
    free(chunk);
    return n < 0 ? vks_fail(VKS_OS_ERROR, code, "the contents of an image could not be copied") : VKS_OK;
}

/* Enters the memfd in the table; takes over `kept`. */
static vks_status note(const struct stat *own, int kept, uint64_t offset)
{
    pthread_mutex_lock(&lock);
    entry *grown = realloc(entries, (n_entries + 1) * sizeof *entries);
    if (grown) {
        entries = grown;
        entries[n_entries++] = (entry){own->st_dev, own->st_ino, kept, offset};
    }
    pthread_mutex_unlock(&lock);
    if (!grown)
        close(kept);
    return grown ? VKS_OK : vks_fail(VKS_NO_MEMORY, 0, "no memory for an image");
}

vks_status vks_memory_share(int own, int pages, uint64_t offset)
{
    struct stat ours, theirs;
    int kept;
    if (fstat(own, &theirs) < 0 || fstat(pages, &ours) < 0)
        return vks_fail(VKS_OS_ERROR, errno, "the driver's fd cannot be used");
    if (ours.st_size != theirs.st_size)
        return vks_fail(VKS_UNSUPPORTED, 0,
                        "an engine's memory of %lld bytes with the driver's header, where others open %lld: allocate "
                        "memory for this image alone, of the size that vkGetImageMemoryRequirements2 gives",
                        (long long)theirs.st_size, (long long)ours.st_size);
    vks_status status = copy(own, pages, offset);
    if (status || (status = vks_duplicate_fd(pages, "the memory's fd", &kept)))
        return status;
    if ((status = vks_memory_replace(own, pages, NULL, &offset))) {
        close(kept);
        return status;
    }
    return note(&theirs, kept, offset);
}
