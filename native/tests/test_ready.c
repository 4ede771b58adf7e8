/* Fds for event loops, with a thread for each party: readable when an acquire would not wait. */
#include <poll.h>
#include <pthread.h>

#include "check_macros.h"
#include "vkshare_ipc.h"

#define TURNS 300

typedef struct party {
    vks_device *device;
    vks_surface *surface;
} party;

static party new_party(const vks_surface_descriptor *from)
{
    party p;
    vks_image_info info = {.width = 4, .height = 4, .format = 3};
    CHECK(vks_device_create(&(vks_device_info){.name = "party"}, &p.device) == VKS_OK, "a device");
    vks_status status = from ? vks_surface_open_image(p.device, from, &p.surface)
                             : vks_surface_create_image(p.device, &info, &p.surface);
    CHECK(status == VKS_OK, "%s", vks_last_error()->text);
    return p;
}

static void drop_party(party *p)
{
    vks_surface_close(p->surface);
    vks_surface_unref(p->surface);
    vks_device_shutdown(p->device);
    vks_device_unref(p->device);
}

static void new_pair(party pair[2])
{
    vks_surface_descriptor descriptor;
    pair[0] = new_party(NULL);
    CHECK(vks_surface_export_descriptor(pair[0].surface, &descriptor) == VKS_OK, "%s", vks_last_error()->text);
    pair[1] = new_party(&descriptor);
    vks_surface_descriptor_close(&descriptor);
}

static bool is_readable(int fd, int timeout_ms)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    return poll(&one, 1, timeout_ms) == 1;
}

static void *give_turns(void *user)
{
    party *p = user;
    for (int i = 0; i < TURNS; i++) {
        CHECK(vks_surface_acquire(p->surface, 0, vks_now() + HANG) == VKS_OK, "turn %d", i);
        CHECK(vks_surface_release(p->surface, 1) == VKS_OK, "turn %d", i);
    }
    return NULL;
}

/* rules: E9 */
static void a_readable_fd_means_a_turn(void)
{
    party pair[2];
    pthread_t thread;
    int fd, other;
    new_pair(pair);
    CHECK(vks_surface_acquire_fd(pair[1].surface, 1, &fd) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(!is_readable(fd, 0), "no turn is there");
    CHECK(pthread_create(&thread, NULL, give_turns, &pair[0]) == 0, "a thread");
    for (int i = 0; i < TURNS; i++) {
        CHECK(is_readable(fd, 30000), "turn %d came", i);
        CHECK(vks_surface_acquire(pair[1].surface, 1, 0) == VKS_OK, "turn %d: %s", i, vks_last_error()->text);
        CHECK(!is_readable(fd, 0), "turn %d is this handle's own", i);
        CHECK(vks_surface_acquire_fd(pair[1].surface, 7, &other) == VKS_OK && other != fd, "another key");
        CHECK(vks_surface_release(pair[1].surface, 0) == VKS_OK, "turn %d", i);
        CHECK(!is_readable(other, 0), "no release has the other key");
        vks_surface_close_acquire_fd(pair[1].surface, 7);
    }
    pthread_join(thread, NULL);
    CHECK(!is_readable(fd, 0), "the last turn is over");
    drop_party(&pair[1]);
    drop_party(&pair[0]);
}

static void *close_surface(void *user)
{
    vks_surface_close(((party *)user)->surface);
    return NULL;
}

/* rules: E9 */
static void a_close_on_another_thread_makes_the_fd_readable(void)
{
    for (int i = 0; i < 30; i++) {
        party pair[2];
        pthread_t thread;
        int fd;
        new_pair(pair);
        CHECK(vks_surface_acquire_fd(pair[1].surface, 1, &fd) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(pthread_create(&thread, NULL, close_surface, &pair[1]) == 0, "a thread");
        CHECK(is_readable(fd, 30000), "the close is seen");
        CHECK(vks_surface_acquire(pair[1].surface, 1, 0) == VKS_CLOSED, "the acquire reports it");
        pthread_join(thread, NULL);
        drop_party(&pair[1]);
        drop_party(&pair[0]);
    }
}

int main(void)
{
    RUN(a_readable_fd_means_a_turn);
    RUN(a_close_on_another_thread_makes_the_fd_readable);
    return check_result();
}
