#define _GNU_SOURCE
#include "os/trace.h"

#include "os/decimal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HEADER_SIZE 4096u
#define CHUNK_SIZE 8192u
#define DEFAULT_SIZE (UINT64_C(64) << 20)
#define MAX_SIZE (UINT64_C(1) << 40)
#define NAMES 1000 /* tries to find a free file name: a pid has one file for each program that it executed */

_Static_assert(sizeof(vks_trace_record) == 64 && sizeof(vks_trace_chunk) == 64, "a record is a cache line");
_Static_assert(sizeof(vks_trace_header) <= HEADER_SIZE, "the header has a page");

#define KIND_NAME(name, text) text,
const char *const vks_trace_kind_names[VKS_TRACE_KIND_COUNT] = {VKS_TRACE_KINDS(KIND_NAME)};

_Atomic bool vks_trace_is_on;

/* The process's file. */
static struct {
    pthread_mutex_t lock; /* guards opening the file */
    char directory[PATH_MAX], path[PATH_MAX + 32];
    int problem;                        /* errno that made the directory of VKSHARE_TRACE unusable */
    uint64_t most;                      /* chunks */
    _Atomic(vks_trace_header *) header; /* the mapping; NULL until the first record */
    _Atomic bool is_full;               /* full, or the file could not be created or extended */
    _Atomic bool is_forked;
    _Atomic uint64_t numbers;
} file = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The thread's position in the file. */
static _Thread_local struct {
    vks_trace_record *next, *end;
    uint32_t process;                        /* the vks_process that it belongs to */
    uint64_t interrupted, interrupted_since; /* the object */
} cursor;

uint64_t vks_trace_next(void) { return atomic_fetch_add_explicit(&file.numbers, 1, memory_order_relaxed) + 1; }

/* ---- enabling ---- */

/* Returns 0, or the errno for which no file can be created in it. */
static int open_directory(const char *directory)
{
    if (!realpath(directory, file.directory))
        return errno;
    snprintf(file.path, sizeof file.path, "%s/.", file.directory);
    return access(file.path, W_OK | X_OK) ? errno : 0;
}

bool vks_trace_enabled(void) { return vks_tracing(); }

int vks_trace_problem(void) { return file.problem; }

void vks_trace_init(void)
{
    const char *directory = secure_getenv("VKSHARE_TRACE"), *size = secure_getenv("VKSHARE_TRACE_SIZE");
    if (!directory || !*directory || (file.problem = open_directory(directory)))
        return;
    uint64_t bytes = size ? vks_decimal(size) : DEFAULT_SIZE;
    bytes = bytes < MAX_SIZE ? bytes : MAX_SIZE;
    file.most = bytes > HEADER_SIZE + CHUNK_SIZE ? (bytes - HEADER_SIZE) / CHUNK_SIZE : 1;
    atomic_store(&vks_trace_is_on, true);
}

void vks_trace_after_fork(void)
{
    vks_trace_header *header = atomic_load(&file.header);
    if (header)
        munmap(header, HEADER_SIZE + file.most * CHUNK_SIZE);
    pthread_mutex_init(&file.lock, NULL);
    atomic_store(&file.header, NULL);
    atomic_store(&file.is_full, false);
    atomic_store(&file.is_forked, true);
}

/* ---- the file ---- */

static void read_command(char *command, size_t size)
{
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, command, size - 1);
    command[n < 0 ? 0 : n] = 0;
    if (fd >= 0)
        close(fd);
}

static int create_file(void)
{
    for (int i = 0; i < NAMES; i++) {
        snprintf(file.path, sizeof file.path, "%s/%d-%d.vkt", file.directory, (int)getpid(), i);
        int fd = open(file.path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

/* Writes the header first, so that readers find it complete; then maps the largest size of the
 * file. */
static vks_trace_header *map_file(int fd)
{
    union {
        vks_trace_header header;
        char bytes[HEADER_SIZE];
    } first = {.header = {
                   .magic = VKS_TRACE_MAGIC,
                   .version = VKS_TRACE_VERSION,
                   .header_size = HEADER_SIZE,
                   .chunk_size = CHUNK_SIZE,
                   .record_size = sizeof(vks_trace_record),
                   .pid = (uint32_t)getpid(),
                   .is_forked = atomic_load(&file.is_forked),
                   .process = vks_self(),
                   .began = vks_now(),
                   .most = file.most,
               }};
    read_command(first.header.command, sizeof first.header.command);
    if (pwrite(fd, first.bytes, HEADER_SIZE, 0) != HEADER_SIZE)
        return NULL;
    void *map = mmap(NULL, HEADER_SIZE + file.most * CHUNK_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return map == MAP_FAILED ? NULL : map;
}

static vks_trace_header *find_header(void)
{
    vks_trace_header *header = atomic_load_explicit(&file.header, memory_order_acquire);
    if (header || atomic_load(&file.is_full))
        return header;
    pthread_mutex_lock(&file.lock);
    if (!(header = atomic_load(&file.header)) && !atomic_load(&file.is_full)) {
        int fd = create_file();
        header = fd < 0 ? NULL : map_file(fd);
        if (fd >= 0)
            close(fd);
        atomic_store_explicit(&file.header, header, memory_order_release);
        atomic_store(&file.is_full, header == NULL);
    }
    pthread_mutex_unlock(&file.lock);
    return header;
}

/* Opens the file by its path each time, because a program that closes all descriptors would close
 * one that stays open, and its number could then be another file's. Writes, and does not use the
 * mapping, because a full file system is an error of write() but SIGBUS in a mapping. */
static bool grow(uint64_t index)
{
    union {
        vks_trace_chunk head;
        char bytes[CHUNK_SIZE];
    } chunk = {.head = {.magic = VKS_TRACE_CHUNK_MAGIC, .thread = (uint32_t)syscall(SYS_gettid)}};
    prctl(PR_GET_NAME, chunk.head.name);
    int fd = open(file.path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = pwrite(fd, chunk.bytes, CHUNK_SIZE, (off_t)(HEADER_SIZE + index * CHUNK_SIZE));
    close(fd);
    return n == CHUNK_SIZE;
}

/* Claims a chunk for the thread. False: the file is full, and one more record is dropped. */
static bool claim(void)
{
    vks_trace_header *header = find_header();
    if (!header)
        return false;
    uint64_t index = atomic_load(&file.is_full) ? file.most : atomic_fetch_add(&header->chunks, 1);
    if (index >= file.most || !grow(index)) {
        atomic_store(&file.is_full, true);
        atomic_fetch_add_explicit(&header->dropped, 1, memory_order_relaxed);
        return false;
    }
    char *chunk = (char *)header + HEADER_SIZE + index * CHUNK_SIZE;
    cursor.next = (vks_trace_record *)chunk + 1;
    cursor.end = (vks_trace_record *)(chunk + CHUNK_SIZE);
    cursor.process = vks_process;
    return true;
}

void vks_trace_write(const vks_trace_record *record)
{
    cursor.interrupted = 0;
    if (cursor.process != vks_process || cursor.next == cursor.end) {
        int code = errno;
        cursor.next = cursor.end;
        bool has_place = claim();
        errno = code;
        if (!has_place)
            return;
    }
    vks_trace_record *place = cursor.next++;
    size_t first = offsetof(vks_trace_record, status);
    memcpy((char *)place + first, (const char *)record + first, sizeof *place - first);
    atomic_store_explicit(&place->kind, atomic_load_explicit(&record->kind, memory_order_relaxed),
                          memory_order_release);
}

/* ---- repeated calls ---- */

void vks_trace_interrupted(uint64_t object, uint64_t began)
{
    began = vks_trace_resume(object, began);
    cursor.interrupted = object;
    cursor.interrupted_since = began;
}

uint64_t vks_trace_resume(uint64_t object, uint64_t began)
{
    return cursor.interrupted == object && object ? cursor.interrupted_since : began;
}

void vks_trace_write_event(vks_trace_record *record, uint64_t began)
{
    record->begin = began;
    record->end = vks_now();
    vks_trace_write(record);
}

void vks_trace_write_wait(vks_trace_record *record, uint64_t began)
{
    vks_trace_write_event(record, vks_trace_resume(record->object, began));
}

/* ---- marks ---- */

void vks_trace_set_text(vks_trace_record *record, const char *text)
{
    size_t n = strnlen(text, VKS_TRACE_TEXT - 1);
    if (n == VKS_TRACE_TEXT - 1)
        while (n && ((unsigned char)text[n] & 0xc0) == 0x80) /* do not cut within a character */
            n--;
    memset(record->text, 0, sizeof record->text);
    memcpy(record->text, text, n);
}

void vks_trace_mark(vks_trace_kind kind, const char *name, uint64_t began, uint64_t object, uint64_t value)
{
    if (!vks_tracing())
        return;
    vks_trace_record record = {.kind = (uint16_t)kind, .end = vks_now(), .object = object, .value = value};
    record.begin = began ? began : record.end;
    vks_trace_set_text(&record, name);
    vks_trace_write(&record);
}

void vks_trace_span(const char *name, uint64_t began, uint64_t object, uint64_t value)
{
    VKS_TRACE(began, vks_trace_mark(VKS_TRACE_SPAN, name, began, object, value));
}

void vks_trace_tick(const char *display, uint64_t began, uint64_t id, uint64_t time)
{
    vks_trace_mark(VKS_TRACE_TICK, display, began, id, time);
}
