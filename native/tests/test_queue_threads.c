/* Threads that share the ends of two queues, on one device of the CPU backend; more at once than
 * Python's lock allows. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "check_macros.h"
#include "vkshare.h"

#define SURFACES 8u
#define THREADS 4
#define WORDS 4096u /* of metadata: large, so that two threads often copy at once */
#define MS UINT64_C(1000000)

typedef struct round_trip {
    vks_device *device;
    vks_surface *surfaces[SURFACES];
    uint32_t pixels[SURFACES][16];
    vks_queue *free_in, *free_out, *seen_in, *seen_out; /* the root, full, and its clone */
    uint32_t most;                                      /* of frames */
    _Atomic uint32_t frames;                            /* a few more are begun: at most one per thread */
    _Atomic uint32_t begun, looked_at, wrong;
    _Atomic uint32_t *times; /* how often each frame was seen */
} round_trip;

/* Dequeues. 1: a pair; 0: none now; -1: an error. */
static int take(vks_queue *queue, uint32_t *index, void *metadata)
{
    size_t length;
    vks_status status = vks_queue_dequeue(queue, 0, index, metadata, &length);
    return status == VKS_OK ? 1 : status == VKS_TIMEOUT || status == VKS_INTERRUPTED ? 0 : -1;
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

/* Takes a free surface, if there is one, and sends the next frame. */
static bool make(round_trip *r)
{
    uint32_t index, number, metadata[WORDS];
    int taken = r->begun < r->frames ? take(r->free_out, &index, NULL) : 0;
    if (taken <= 0)
        return taken == 0;
    number = r->begun++;
    for (uint32_t i = 0; i < WORDS; i++)
        metadata[i] = number;
    r->pixels[index][0] = number;
    vks_enqueue_mode mode = number % 2 ? VKS_ENQUEUE_GPU : VKS_ENQUEUE_WAIT;
    return put(r->seen_in, r->surfaces[index], metadata, sizeof metadata, mode);
}

/* Checks a frame, if there is one, and returns its surface. */
static bool view(round_trip *r)
{
    uint32_t index, metadata[WORDS];
    int taken = take(r->seen_out, &index, metadata);
    if (taken <= 0)
        return taken == 0;
    uint32_t number = metadata[0];
    bool is_whole = number < r->most && r->pixels[index][0] == number;
    for (uint32_t i = 1; i < WORDS; i++)
        is_whole &= metadata[i] == number;
    if (is_whole)
        r->times[number]++;
    r->looked_at++;
    return put(r->free_in, r->surfaces[index], NULL, 0, VKS_ENQUEUE_GPU) && is_whole;
}

/* Every thread uses both ends of both queues, so two threads are often at one end. */
static void *work(void *argument)
{
    round_trip *r = argument;
    uint64_t limit = vks_now() + HANG;
    while (r->looked_at < r->begun || r->begun < r->frames) {
        if (!make(r) || !view(r) || vks_now() > limit) {
            r->wrong++;
            r->frames = 0; /* ends the other threads too */
            break;
        }
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
        .width = 4, .height = 4, .count = SURFACES, .metadata_size = WORDS * sizeof(uint32_t), .network = root.network};
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
    round_trip r = {.frames = (uint32_t)check_scale("VKSHARE_QUEUE_FRAMES", 5000)};
    r.most = r.frames + THREADS;
    r.times = calloc(r.most, sizeof *r.times);
    CHECK(vks_device_create(&(vks_device_info){.name = "all"}, &r.device) == VKS_OK, "%s", vks_last_error()->text);
    open_queues(&r);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, &r);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    uint32_t once = 0;
    for (uint32_t i = 0; i < r.begun; i++)
        once += r.times[i] == 1;
    CHECK(once == r.begun && r.looked_at == r.begun && !r.wrong, "%u of %u frames were seen once, %u in all, %u wrong",
          once, r.begun, r.looked_at, r.wrong);
    drop(r.seen_in);
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
