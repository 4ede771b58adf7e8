/* client.h: what both clients do alike: their arguments, the connection, and calls that signals
 * interrupt. */
#ifndef CLIENT_H
#define CLIENT_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "vkshare.h"

#define SECOND UINT64_C(1000000000)
#define PATIENCE (10 * SECOND) /* for the descriptor, and for the key */

/* Says why and ends. The kernel closes what is open, and peers see an owner's death. */
static inline void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, vks_last_error()->text);
    exit(EXIT_FAILURE);
}

static inline void check(vks_status status, const char *what)
{
    if (status == VKS_TIMEOUT)
        fprintf(stderr, "%s: nothing came in time\n", what);
    if (status == VKS_ABANDONED)
        fprintf(stderr, "%s: the surface was abandoned by its owner\n", what);
    if (status)
        fail(what);
}

/* The call again for as long as signals interrupt it: deadlines are absolute. */
#define PATIENTLY(call)                                                                                                \
    ({                                                                                                                 \
        vks_status patiently_status;                                                                                   \
        while ((patiently_status = (call)) == VKS_INTERRUPTED)                                                         \
            ;                                                                                                          \
        patiently_status;                                                                                              \
    })

typedef struct arguments {
    const char *path;
    uint64_t acquire, release; /* keys */
    double hold;               /* seconds between drawing and release() */
} arguments;

static inline arguments read_arguments(int count, char **words)
{
    if (count < 4 || count > 5) {
        fprintf(stderr, "usage: %s SOCKET ACQUIRE_KEY RELEASE_KEY [SECONDS TO HOLD IT]\n", words[0]);
        exit(2);
    }
    return (arguments){words[1], strtoull(words[2], NULL, 0), strtoull(words[3], NULL, 0),
                       count > 4 ? strtod(words[4], NULL) : 0};
}

static inline vks_surface_descriptor receive(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        fprintf(stderr, "%s: a socket's path has at most %zu bytes\n", path, sizeof address.sun_path - 1);
        exit(2);
    }
    strcpy(address.sun_path, path);
    int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sock < 0 || connect(sock, (struct sockaddr *)&address, sizeof address) < 0) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    vks_surface_descriptor descriptor;
    uint64_t deadline = vks_now() + PATIENCE;
    check(PATIENTLY(vks_surface_descriptor_recv(sock, deadline, &descriptor)), "descriptor");
    close(sock);
    return descriptor;
}

static inline void close_all(vks_device *device, vks_surface *surface, vks_surface_descriptor *descriptor)
{
    vks_surface_close(surface);
    vks_surface_unref(surface);
    vks_surface_descriptor_close(descriptor);
    vks_device_shutdown(device);
    vks_device_unref(device);
}

/* Reports that the surface is owned and drawn to. */
static inline void tell_and_hold(const arguments *given)
{
    puts("drawing");
    fflush(stdout);
    struct timespec left = {(time_t)given->hold, (long)((given->hold - (double)(time_t)given->hold) * 1e9)};
    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
}

#endif
