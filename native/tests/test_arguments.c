/* Each public function with NULL, closed, foreign and garbage arguments: it refuses them, and never
 * crashes, hangs or leaks. VKS_ARGUMENT_CALLS: how many calls; VKS_ARGUMENT_SEED: the first
 * seed. */
/* rules: C8 */
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "argument_pools.h"
#include "check_macros.h"

enum { CALLS = 25000, LIMIT = 120 }; /* of a process; seconds that only end a hang */

static void expect_refusal(const char *function, vks_status status, bool has_null)
{
    CHECK(!has_null || status != VKS_OK, "%s takes NULL for a pointer that it needs", function);
}

#include "argument_calls.h"

static const char *volatile current = "the pools";

/* Ends the process: which function was called is what a crash or a hang needs to say. */
static void report(int number)
{
    dprintf(STDERR_FILENO, "signal %d in %s\n", number, current);
    signal(number, SIG_DFL);
    raise(number);
}

static void call_at_random(uint64_t seed, long n)
{
    static const uint32_t n_callers = sizeof callers / sizeof *callers;
    int before = count_fds();
    uint64_t random = seed;
    alarm(LIMIT);
    arguments_open(seed);
    for (long i = 0; i < n && check_failures < 20; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        uint32_t which = (uint32_t)(random >> 33) % (n_callers + 12);
        if (which < n_callers && callers[which].ends && !argument_chance(8))
            continue; /* else most of the objects are closed */
        current = which < n_callers ? callers[which].name : "arguments_refresh";
        which < n_callers ? callers[which].call() : arguments_refresh();
    }
    current = "the end of the pools";
    arguments_close();
    for (int tries = 0; tries < 500 && count_fds() != before; tries++)
        usleep(10000); /* the watcher closes its own a little later */
    CHECK(count_fds() == before, "%d files were open before, and %d are now", before, count_fds());
}

/* Each process has a seed of its own, so that a failure can be repeated alone. */
static void bad_arguments_are_refused(void)
{
    long left = check_scale("VKS_ARGUMENT_CALLS", 50000), seed = check_scale("VKS_ARGUMENT_SEED", 1);
    for (; left > 0; left -= CALLS, seed++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            call_at_random((uint64_t)seed, left < CALLS ? left : CALLS);
            exit(check_failures ? EXIT_FAILURE : EXIT_SUCCESS);
        }
        int status = -1;
        waitpid(child, &status, 0);
        CHECK(status == 0, "the process of VKS_ARGUMENT_SEED=%ld ended with wait status %#x", seed, status);
    }
}

static void a_refusal_names_the_argument(void)
{
    vks_device *device = NULL;
    CHECK(vks_device_create(NULL, &device) == VKS_BAD_VALUE && strstr(vks_last_error()->text, " info,"), "%s",
          vks_last_error()->text);
    CHECK(vks_device_create(&(vks_device_info){0}, NULL) == VKS_BAD_VALUE && strstr(vks_last_error()->text, " out,"),
          "%s", vks_last_error()->text);
    CHECK(vks_submission_wait(NULL, NULL, 0) == VKS_BAD_VALUE && strstr(vks_last_error()->text, " device,"), "%s",
          vks_last_error()->text);
}

int main(void)
{
    setenv("VK_DRIVER_FILES", "/nonexistent", 1); /* the library's own devices are tested on real drivers */
    setenv("VK_ICD_FILENAMES", "/nonexistent", 1);
    signal(SIGALRM, report);
    signal(SIGABRT, report);
#ifndef __SANITIZE_ADDRESS__ /* which reports it with the stack */
    signal(SIGSEGV, report);
#endif
    RUN(bad_arguments_are_refused);
    RUN(a_refusal_names_the_argument);
    return check_result();
}
