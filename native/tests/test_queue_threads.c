/* Threads that share the ends of two queues, on one device of the CPU backend: more at once than Python's lock would
 * let in. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "vkshare.h"

#define SURFACES 8u
#define MAKERS 3
#define VIEWERS 3
#define MS UINT64_C(1000000)

typedef struct round_trip {
    vks_device *device;
    vks_surface *surfaces[SURFACES];
    uint32_t pixels[SURFACES][16];
    vks_queue *free_in, *free_out, *seen_in, *seen_out; /* the root, full, and its clone */
    uint32_t frames;
    _Atomic uint32_t begun, looked_at, wrong;
    _Atomic uint32_t *times; /* that each frame was seen */
} round_trip;

static vks_status take(vks_queue *queue, uint32_t *index, void *metadata)
{
    size_t length;
    vks_status status;
    do
        status = vks_queue_dequeue(queue, vks_now() + 100 * MS, index, metadata, &length);
    while (status == VKS_TIMEOUT || status == VKS_INTERRUPTED);
    return status;
}

static bool put(vks_queue *queue, vks_surface *surface, const void *metadata, size_t length, vks_enqueue_mode mode)
{
    bool committed;
    vks_status status;
    do
        status = vks_queue_enqueue(queue, surface, metadata, length, mode, VKS_FOREVER, &committed);
    while (status == VKS_INTERRUPTED);
    return status == VKS_OK;
}

static void *make(void *argument)
{
    round_trip *r = argument;
    uint32_t number, index;
    while ((number = r->begun++) < r->frames) {
        if (take(r->free_out, &index, NULL) != VKS_OK) {
            r->wrong++;
            break;
        }
        r->pixels[index][0] = number;
        vks_enqueue_mode mode = number % 2 ? VKS_ENQUEUE_GPU : VKS_ENQUEUE_WAIT;
        if (!put(r->seen_in, r->surfaces[index], &number, sizeof number, mode))
            r->wrong++;
    }
    return NULL;
}

static void *view(void *argument)
{
    round_trip *r = argument;
    uint32_t number, index;
    while (take(r->seen_out, &index, &number) == VKS_OK) {
        if (number >= r->frames || r->pixels[index][0] != number)
            r->wrong++;
        else
            r->times[number]++;
        r->looked_at++;
        if (!put(r->free_in, r->surfaces[index], NULL, 0, VKS_ENQUEUE_GPU))
            r->wrong++;
    }
    return NULL;
}

static void open_queues(round_trip *r)
{
    vks_queue_info root = {.width = 4, .height = 4, .count = SURFACES, .full = true}, clone;
    int fds[2];
    CHECK(vks_queue_page_make(&root, &fds[0]) == VKS_OK && vks_queue_page_read(fds[0], &root) == VKS_OK, "%s",
          vks_last_error()->text);
    clone = (vks_queue_info){
        .width = 4, .height = 4, .count = SURFACES, .metadata_size = sizeof(uint32_t), .network = root.network};
    CHECK(vks_queue_page_make(&clone, &fds[1]) == VKS_OK, "%s", vks_last_error()->text);
    for (uint32_t i = 0; i < SURFACES; i++) {
        vks_surface_info info = {
            .width = 4, .height = 4, .pixels = r->pixels[i], .size = sizeof r->pixels[i], .stride = 16};
        CHECK(vks_surface_create(r->device, &info, &r->surfaces[i]) == VKS_OK &&
                  vks_surface_join(r->surfaces[i], root.network, i) == VKS_OK,
              "%s", vks_last_error()->text);
    }
    CHECK(vks_queue_open(r->device, fds[0], VKS_PRODUCER, r->surfaces, SURFACES, &r->free_in) == VKS_OK &&
              vks_queue_open(r->device, fds[0], VKS_CONSUMER, r->surfaces, SURFACES, &r->free_out) == VKS_OK &&
              vks_queue_open(r->device, fds[1], VKS_PRODUCER, r->surfaces, SURFACES, &r->seen_in) == VKS_OK &&
              vks_queue_open(r->device, fds[1], VKS_CONSUMER, r->surfaces, SURFACES, &r->seen_out) == VKS_OK,
          "%s", vks_last_error()->text);
    close(fds[0]);
    close(fds[1]);
}

static void drop(vks_queue *queue)
{
    vks_queue_close(queue);
    vks_queue_unref(queue);
}

/* rules: Q17 */
static void threads_that_share_both_ends_lose_no_frame_and_see_none_twice(void)
{
    round_trip r = {.frames = (uint32_t)check_scale("VKSHARE_QUEUE_FRAMES", 20000)};
    r.times = calloc(r.frames, sizeof *r.times);
    CHECK(vks_device_create(&(vks_device_info){.name = "all"}, &r.device) == VKS_OK, "%s", vks_last_error()->text);
    open_queues(&r);
    pthread_t makers[MAKERS], viewers[VIEWERS];
    for (int i = 0; i < MAKERS; i++)
        pthread_create(&makers[i], NULL, make, &r);
    for (int i = 0; i < VIEWERS; i++)
        pthread_create(&viewers[i], NULL, view, &r);
    for (int i = 0; i < MAKERS; i++)
        pthread_join(makers[i], NULL);
    vks_queue_close(r.seen_in); /* the viewers see what is left, and end */
    for (int i = 0; i < VIEWERS; i++)
        pthread_join(viewers[i], NULL);
    uint32_t once = 0;
    for (uint32_t i = 0; i < r.frames; i++)
        once += r.times[i] == 1;
    CHECK(once == r.frames && r.looked_at == r.frames && !r.wrong,
          "%u of %u frames were seen once, %u in all, %u wrong", once, r.frames, r.looked_at, r.wrong);
    vks_queue_unref(r.seen_in);
    drop(r.seen_out);
    drop(r.free_in);
    drop(r.free_out);
    for (uint32_t i = 0; i < SURFACES; i++) {
        vks_surface_close(r.surfaces[i]);
        vks_surface_unref(r.surfaces[i]);
    }
    vks_device_shutdown(r.device);
    vks_device_unref(r.device);
    free(r.times);
}

int main(void)
{
    RUN(threads_that_share_both_ends_lose_no_frame_and_see_none_twice);
    return check_result();
}
