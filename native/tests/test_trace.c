/* Traces: each thread's records are complete and in order, however the process ends, and a file
 * that is full, missing or truncated is harmless. Each scenario is its own process, because tracing
 * is configured once per process. Run under ASAN and TSAN. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check_macros.h"
#include "os/trace.h"
#include "vkshare.h"

#define SECOND UINT64_C(1000000000)
enum { MOST_FILES = 8, HEADER = 4096, CHUNK = 8192, IN_CHUNK = CHUNK / 64 - 1 };

/* ---- contents of the files ---- */

typedef struct content {
    size_t size;
    char *bytes;
} content;

static char directory[64];
static content files[MOST_FILES];
static int n_files;

static void forget_files(void)
{
    for (int i = 0; i < n_files; i++)
        free(files[i].bytes);
    n_files = 0;
}

static void read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    struct stat info;
    CHECK(file && fstat(fileno(file), &info) == 0 && n_files < MOST_FILES, "%s", path);
    content *c = &files[n_files++];
    c->size = (size_t)info.st_size;
    c->bytes = malloc(c->size + 1);
    CHECK(fread(c->bytes, 1, c->size, file) == c->size, "%s", path);
    fclose(file);
}

/* Reads the files and removes them. */
static void read_files(void)
{
    forget_files();
    DIR *list = opendir(directory);
    for (struct dirent *entry; list && (entry = readdir(list));) {
        char path[sizeof directory + sizeof entry->d_name];
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (strstr(entry->d_name, ".vkt")) {
            read_file(path);
            unlink(path);
        }
    }
    if (list)
        closedir(list);
    rmdir(directory);
}

static const vks_trace_header *header_of(int file) { return (const vks_trace_header *)files[file].bytes; }

/* Returns the next record of a file after `last` (NULL: the first), NULL at the end. *thread: the
 * thread that wrote it. */
static const vks_trace_record *next_record(int file, const vks_trace_record *last, uint32_t *thread)
{
    const char *bytes = files[file].bytes;
    size_t at = last ? (size_t)((const char *)last - bytes) + sizeof *last : HEADER;
    for (; at + sizeof *last <= files[file].size; at += sizeof *last) {
        if ((at - HEADER) % CHUNK == 0)
            *thread = ((const vks_trace_chunk *)(bytes + at))->thread;
        else if (((const vks_trace_record *)(bytes + at))->kind)
            return (const vks_trace_record *)(bytes + at);
    }
    return NULL;
}

static size_t count_records(int file)
{
    size_t n = 0;
    uint32_t thread;
    for (const vks_trace_record *r = NULL; (r = next_record(file, r, &thread));)
        n++;
    return n;
}

/* Returns the n-th record of a kind in the first file, from 0. */
static const vks_trace_record *find(vks_trace_kind kind, int n)
{
    uint32_t thread;
    for (const vks_trace_record *r = NULL; n_files && (r = next_record(0, r, &thread));)
        if (r->kind == kind && n-- == 0)
            return r;
    return NULL;
}

/* ---- scenarios ---- */

/* Runs a scenario in a process with tracing on. Returns the process's status and reads the written
 * files into `files`. */
static int trace(const char *size, void (*scenario)(void))
{
    snprintf(directory, sizeof directory, "/tmp/vks-test-trace-XXXXXX");
    CHECK(mkdtemp(directory), "%s", strerror(errno));
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("VKSHARE_TRACE", directory, 1);
        setenv("VKSHARE_TRACE_SIZE", size, 1);
        check_failures = 0;
        vks_platform_init();
        scenario();
        fflush(NULL);
        _exit(check_failures != 0);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    read_files();
    return status;
}

#define THREADS 8
#define MARKS 5000

static void *write_marks(void *argument)
{
    uintptr_t number = (uintptr_t)argument;
    char name[16];
    snprintf(name, sizeof name, "marker %d", (int)number);
    prctl(PR_SET_NAME, name);
    for (uint64_t i = 0; i < MARKS; i++)
        vks_trace_mark(VKS_TRACE_INSTANT, "mark", 0, number, i);
    return NULL;
}

static void mark_from_threads(void)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, write_marks, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void every_threads_records_are_there_and_in_order(void)
{
    CHECK(trace("67108864", mark_from_threads) == 0 && n_files == 1, "%d files", n_files);
    uint64_t next[THREADS] = {0}, before[THREADS] = {0};
    uint32_t thread = 0, of[THREADS] = {0};
    for (const vks_trace_record *r = NULL; (r = next_record(0, r, &thread));) {
        uint64_t t = r->object;
        if (t >= THREADS || r->value != next[t] || strcmp(r->text, "mark") != 0)
            CHECK(false, "thread %d: %d, after %d", (int)t, (int)r->value, (int)next[t % THREADS]);
        CHECK(r->begin == r->end && r->begin >= before[t], "time went back");
        CHECK(!of[t] || of[t] == thread, "a chunk is one thread's");
        before[t] = r->begin;
        of[t] = thread;
        next[t]++;
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(next[i] == MARKS, "thread %d wrote %d", i, (int)next[i]);
    const vks_trace_chunk *chunk = (const vks_trace_chunk *)(files[0].bytes + HEADER);
    CHECK(chunk->magic == VKS_TRACE_CHUNK_MAGIC && strncmp(chunk->name, "marker ", 7) == 0, "%s", chunk->name);
    CHECK(header_of(0)->dropped == 0, "%d dropped", (int)header_of(0)->dropped);
}

static void a_full_file_counts_what_it_drops_and_grows_no_more(void)
{
    char size[24];
    snprintf(size, sizeof size, "%d", HEADER + 20 * CHUNK + CHUNK / 2);
    CHECK(trace(size, mark_from_threads) == 0 && n_files == 1, "%d files", n_files);
    CHECK(files[0].size == HEADER + 20 * CHUNK, "%zu bytes", files[0].size);
    size_t there = count_records(0);
    CHECK(there <= 20 * IN_CHUNK && there > 12 * IN_CHUNK, "%zu records", there);
    CHECK(there + header_of(0)->dropped == THREADS * MARKS, "%zu and %d dropped", there, (int)header_of(0)->dropped);
}

static void mark_in_a_forked_child(void)
{
    vks_trace_mark(VKS_TRACE_INSTANT, "before", 0, 0, 0);
    pid_t pid = fork();
    for (uint64_t i = 0; i < 300; i++)
        vks_trace_mark(VKS_TRACE_INSTANT, pid ? "parent" : "child", 0, 0, i);
    if (pid == 0)
        _exit(0);
    int status;
    waitpid(pid, &status, 0);
    CHECK(status == 0, "%d", status);
}

static void a_forked_child_has_a_file_of_its_own(void)
{
    CHECK(trace("1048576", mark_in_a_forked_child) == 0 && n_files == 2, "%d files", n_files);
    for (int i = 0; i < n_files; i++) {
        bool forked = header_of(i)->is_forked;
        uint32_t thread = 0;
        for (const vks_trace_record *r = NULL; (r = next_record(i, r, &thread));) {
            CHECK((strcmp(r->text, "child") == 0) == forked, "%s", r->text);
            CHECK(thread == header_of(i)->pid, "the only thread has the process's id");
        }
        CHECK(count_records(i) == (forked ? 300 : 301), "%zu", count_records(i));
    }
    CHECK(n_files == 2 && header_of(0)->pid != header_of(1)->pid && header_of(0)->process != header_of(1)->process,
          "two processes");
}

static void die_in_the_middle(void)
{
    for (uint64_t i = 0; i < 1000; i++)
        vks_trace_mark(VKS_TRACE_INSTANT, "last words", 0, 0, i);
    kill(getpid(), SIGKILL);
}

static void a_killed_process_leaves_all_that_it_wrote(void)
{
    int status = trace("1048576", die_in_the_middle);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%d", status);
    CHECK(n_files == 1 && count_records(0) == 1000, "%zu", n_files ? count_records(0) : 0);
}

static void mark_without_a_directory(void)
{
    CHECK(rmdir(getenv("VKSHARE_TRACE")) == 0, "%s", strerror(errno));
    errno = EXDEV;
    vks_fail(VKS_FULL, 7, "kept");
    for (int i = 0; i < 1000; i++)
        vks_trace_mark(VKS_TRACE_INSTANT, "lost", 0, 0, 0);
    CHECK(errno == EXDEV && vks_last_error()->status == VKS_FULL, "what the caller has is left alone");
}

static void remove_the_file_in_the_middle(void)
{
    char path[128];
    vks_trace_mark(VKS_TRACE_INSTANT, "first", 0, 0, 0);
    snprintf(path, sizeof path, "%s/%d-0.vkt", getenv("VKSHARE_TRACE"), (int)getpid());
    CHECK(unlink(path) == 0, "%s", path);
    for (int i = 0; i < 1000; i++)
        vks_trace_mark(VKS_TRACE_INSTANT, "lost", 0, 0, 0);
}

static void a_missing_directory_or_file_is_harmless(void)
{
    CHECK(trace("1048576", mark_without_a_directory) == 0 && n_files == 0, "%d files", n_files);
    CHECK(trace("1048576", remove_the_file_in_the_middle) == 0 && n_files == 0, "%d files", n_files);
}

/* Closes all descriptors, also those that it did not open, and opens another file in their
 * place. */
static void close_every_descriptor(void)
{
    vks_trace_mark(VKS_TRACE_INSTANT, "first", 0, 0, 0);
    for (int fd = 3; fd < 64; fd++)
        close(fd);
    int fd = memfd_create("precious", 0);
    for (int i = 0; i < 1000; i++)
        vks_trace_mark(VKS_TRACE_INSTANT, "mark", 0, 0, 0);
    CHECK(lseek(fd, 0, SEEK_END) == 0, "a record was written into another file");
}

static void a_program_that_closes_all_descriptors_is_still_traced(void)
{
    CHECK(trace("1048576", close_every_descriptor) == 0 && n_files == 1, "%d files", n_files);
    CHECK(n_files && count_records(0) == 1001, "%zu", n_files ? count_records(0) : 0);
}

static void be_interrupted(void)
{
    vks_trace_interrupted(7, 100);
    vks_trace_interrupted(7, 200);
    CHECK(vks_trace_resume(7, 300) == 100, "the first time counts");
    CHECK(vks_trace_resume(8, 300) == 300, "another object was not waited for");
    CHECK(vks_trace_resume(0, 300) == 300, "nothing is nothing");
    vks_trace_mark(VKS_TRACE_INSTANT, "something else", 0, 0, 0);
    CHECK(vks_trace_resume(7, 300) == 300, "the call never came again");
}

static void a_repeated_call_began_when_it_was_first_made(void)
{
    CHECK(trace("1048576", be_interrupted) == 0, "in the child");
}

static void write_long_names(void)
{
    vks_trace_mark(VKS_TRACE_INSTANT, "12345678901234567890123", 0, 0, 0);
    vks_trace_mark(VKS_TRACE_INSTANT, "123456789012345678901234", 0, 0, 0);
    vks_trace_mark(VKS_TRACE_INSTANT, "1234567890123456789012\u00e9", 0, 0, 0);
    vks_trace_mark(VKS_TRACE_INSTANT, "", 0, 0, 0);
}

static void names_are_cut_between_characters(void)
{
    CHECK(trace("1048576", write_long_names) == 0, "in the child");
    const char *expected[] = {"12345678901234567890123", "12345678901234567890123", "1234567890123456789012", ""};
    for (int i = 0; i < 4; i++) {
        const vks_trace_record *r = find(VKS_TRACE_INSTANT, i);
        CHECK(r && strcmp(r->text, expected[i]) == 0, "%s", r ? r->text : "nothing");
    }
}

/* ---- the core's trace points ---- */

static void *resume_soon(void *fence)
{
    usleep(20000);
    vks_fence_signal(fence, 1);
    return NULL;
}

static void use_the_core(void)
{
    static uint32_t pixels[16];
    vks_device *device;
    vks_surface *surface;
    vks_fence *gate, *done;
    vks_surface_info info = {.width = 4, .height = 4, .pixels = pixels, .size = sizeof pixels, .stride = 16};
    CHECK(!vks_device_create(&(vks_device_info){.name = "traced"}, &device), "%s", vks_last_error()->text);
    CHECK(!vks_surface_create(device, &info, &surface), "%s", vks_last_error()->text);
    CHECK(!vks_fence_create(device, 0, &gate) && !vks_fence_create(device, 0, &done), "%s", vks_last_error()->text);
    for (int i = 0; i < 3; i++)
        CHECK(!vks_surface_acquire(surface, 0, VKS_FOREVER) && !vks_surface_release(surface, 0), "turn %d", i);
    CHECK(vks_surface_acquire(surface, 5, 0) == VKS_TIMEOUT, "a look");
    CHECK(vks_surface_acquire(surface, 5, vks_now() + 10000000) == VKS_TIMEOUT, "a wait");
    vks_wait wait = {.fence = gate, .value = 1};
    vks_signal signal = {done, 1};
    vks_submit_info held = {.waits = &wait, .n_waits = 1, .signals = &signal, .n_signals = 1};
    vks_submission submission;
    CHECK(!vks_submit(device, &held, VKS_FOREVER, &submission) && submission.op, "it is held");
    pthread_t thread;
    pthread_create(&thread, NULL, resume_soon, gate);
    CHECK(!vks_fence_wait(done, 1, vks_now() + 20 * SECOND), "it runs in the end");
    pthread_join(thread, NULL);
    vks_work_unref(submission.op);
    vks_fence_close(gate);
    vks_fence_close(done);
    vks_fence_unref(gate);
    vks_fence_unref(done);
    vks_surface_close(surface);
    vks_surface_unref(surface);
    vks_device_shutdown(device);
    vks_device_unref(device);
}

static void a_release_and_the_acquire_after_it_have_one_epoch(void)
{
    CHECK(trace("1048576", use_the_core) == 0 && n_files == 1, "in the child");
    const vks_trace_record *device = find(VKS_TRACE_DEVICE, 0);
    CHECK(device && strcmp(device->text, "traced") == 0, "the device's name");
    for (int i = 0; i < 2; i++) {
        const vks_trace_record *release = find(VKS_TRACE_RELEASE, i), *acquire = find(VKS_TRACE_ACQUIRE, i + 1);
        CHECK(release && acquire && release->order == acquire->order && release->object == acquire->object &&
                  release->begin < acquire->end,
              "turn %d", i);
    }
    CHECK(!find(VKS_TRACE_RELEASE, 3), "three releases");
    const vks_trace_record *wait = find(VKS_TRACE_ACQUIRE, 3);
    CHECK(wait && wait->status == VKS_TIMEOUT && wait->key == 5 && wait->end - wait->begin >= 9000000,
          "a wait in vain");
    CHECK(!find(VKS_TRACE_ACQUIRE, 4), "the look that found nothing has no record");
}

static void a_held_submission_records_its_start_and_its_outcome(void)
{
    CHECK(trace("1048576", use_the_core) == 0 && n_files == 1, "in the child");
    const vks_trace_record *submit = find(VKS_TRACE_SUBMIT, 0), *hold = find(VKS_TRACE_HOLD, 0),
                           *go = find(VKS_TRACE_LET_GO, 0), *batch = find(VKS_TRACE_BATCH, 0),
                           *run = find(VKS_TRACE_RUN, 0), *wait = find(VKS_TRACE_FENCE_WAIT, 0),
                           *signal = find(VKS_TRACE_SIGNAL, 0);
    CHECK(submit && hold && go && batch && run && wait && signal, "all of them");
    if (!submit || !hold || !go || !batch || !run || !wait || !signal)
        return;
    CHECK(hold->work && submit->work == hold->work && go->work == hold->work && batch->work == hold->work,
          "one number");
    CHECK(go->order && batch->order == go->order && run->order == go->order, "one serial");
    CHECK(hold->value == 1 && go->value == 0, "so many are held then");
    CHECK(go->begin == hold->begin && go->end - go->begin > 5000000, "some 20 ms");
    CHECK(submit->object == wait->object && submit->value == 1 && hold->object == signal->object, "the fences' ids");
    CHECK(batch->begin <= batch->end && run->begin >= batch->begin && run->end >= run->begin, "in this order");
}

static void mark_nothing(void)
{
    CHECK(!vks_tracing() && vks_trace_begin() == 0, "tracing is off");
    vks_trace_mark(VKS_TRACE_INSTANT, "nothing", 0, 0, 0);
    vks_trace_tick("display", 0, 1, 2);
    vks_trace_span("span", 0, 0, 0);
}

static void a_process_without_the_variable_writes_nothing(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        check_failures = 0;
        unsetenv("VKSHARE_TRACE");
        vks_platform_init();
        mark_nothing();
        setenv("VKSHARE_TRACE", "/tmp", 1); /* too late */
        mark_nothing();
        _exit(check_failures != 0);
    }
    int status;
    waitpid(pid, &status, 0);
    CHECK(status == 0, "%d", status);
}

static void tracing_into(const char *path, int problem)
{
    pid_t pid = fork();
    if (pid == 0) {
        check_failures = 0;
        setenv("VKSHARE_TRACE", path, 1);
        vks_platform_init();
        mark_nothing();
        CHECK(vks_trace_problem() == problem, "%s: %s", path, strerror(vks_trace_problem()));
        _exit(check_failures != 0);
    }
    int status;
    waitpid(pid, &status, 0);
    CHECK(status == 0, "%d", status);
}

static void an_unwritable_directory_traces_nothing_and_reports_the_error(void)
{
    tracing_into("/nonexistent/directory", ENOENT);
    tracing_into("/proc/self/status", ENOTDIR);
    tracing_into("", 0);
}

int main(void)
{
    RUN(every_threads_records_are_there_and_in_order);
    RUN(a_full_file_counts_what_it_drops_and_grows_no_more);
    RUN(a_forked_child_has_a_file_of_its_own);
    RUN(a_killed_process_leaves_all_that_it_wrote);
    RUN(a_missing_directory_or_file_is_harmless);
    RUN(a_program_that_closes_all_descriptors_is_still_traced);
    RUN(a_repeated_call_began_when_it_was_first_made);
    RUN(names_are_cut_between_characters);
    RUN(a_release_and_the_acquire_after_it_have_one_epoch);
    RUN(a_held_submission_records_its_start_and_its_outcome);
    RUN(a_process_without_the_variable_writes_nothing);
    RUN(an_unwritable_directory_traces_nothing_and_reports_the_error);
    forget_files();
    return check_result();
}
