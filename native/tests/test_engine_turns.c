/* An engine's turns on a shared image, through the device's own queue or with semaphores. Uses the stub
 * driver, which reports an image owned by two queues. */
#include <pthread.h>
#include <unistd.h>

#include "sharing_turns.h"

static void *signal_later(void *gate)
{
    usleep(20000);
    CHECK(vks_fence_signal(gate, 1) == VKS_OK, "%s", vks_last_error()->text);
    return NULL;
}

/* rules: A27 */
static void an_engines_turn_waits_until_the_release_before_it_is_submitted(void)
{
    for (int way = 0; way < 4; way++) {
        bool native = way & 1, same = way & 2;
        vks_device *device = stub_open("one", native), *other = same ? device : stub_open("two", native);
        vks_surface *a = stub_surface(device, NULL), *b = same ? stub_alias(a) : stub_surface(other, a);
        vks_fence *gate;
        CHECK(vks_fence_create(device, 0, &gate) == VKS_OK, "%s", vks_last_error()->text);
        own(a, 0);
        draw_after(a, gate, 1);
        hand_on(a, 1);
        own(b, 1);
        vks_semaphore_point before, after;
        vks_status status;
        CHECK(vks_surface_sync(b, vks_now() + SECOND / 1000, &before, &after) == VKS_TIMEOUT, "way %d: %s", way,
              vks_last_error()->text);
        pthread_t thread;
        pthread_create(&thread, NULL, signal_later, gate);
        while ((status = vks_surface_sync(b, vks_now() + 10 * SECOND, &before, &after)) == VKS_INTERRUPTED)
            ;
        CHECK(status == VKS_OK, "way %d: status %d: %s", way, status, vks_last_error()->text);
        pthread_join(thread, NULL);
        stub_submit(other, before, after);
        hand_on(b, 2);
        idle(other);
        drop(a);
        drop(b);
        end(gate, device, other);
    }
    CHECK(stub_violations() == 0, "%u", stub_violations());
}

static void an_engines_image_is_taken_over_once_before_its_first_use(void) /* rules: E2 */
{
    enum { DRAWN, BY_AN_ALIAS, RAW, UNUSED, OWNED, MOMENTS };
    for (int native = 0; native < 2; native++)
        for (int moment = 0; moment < MOMENTS; moment++) {
            vks_device *device = stub_open("one", native), *other = stub_open("two", native);
            vks_surface *a = stub_surface(device, NULL), *b = stub_alias(a);
            stub_take_over(a);
            vks_surface_set_transfer_commands(b, 0, 0);
            vks_surface *first = moment == BY_AN_ALIAS || moment == OWNED ? b : a;
            if (moment != UNUSED)
                own(first, 0);
            if (moment == DRAWN || moment == BY_AN_ALIAS || moment == RAW) {
                CHECK((moment == RAW ? draw_raw(first) : draw(first)) == VKS_OK, "%s", vks_last_error()->text);
                hand_on(first, 0);
            }
            vks_surface *c = stub_surface(other, a);
            CHECK(c != NULL, "moment %d: %s", moment, vks_last_error()->text);
            if (moment == OWNED)
                hand_on(b, 0);
            for (int turn = 0; turn < 2; turn++) {
                own(c, 0);
                CHECK(draw(c) == VKS_OK, "moment %d: %s", moment, vks_last_error()->text);
                hand_on(c, 0);
                own(a, 0);
                CHECK(draw(a) == VKS_OK, "moment %d: %s", moment, vks_last_error()->text);
                hand_on(a, 0);
            }
            idle(device);
            idle(other);
            drop(c);
            drop(b);
            drop(a);
            stub_close(other);
            stub_close(device);
        }
}

/* The number of batches that the device submits for an engine's turn on its own queue. */
static uint64_t sync_in_order(vks_device *device, vks_surface *surface)
{
    vks_semaphore_point before;
    uint64_t submitted = vks_device_submitted(device);
    vks_status status;
    while ((status = vks_surface_sync(surface, vks_now() + 10 * SECOND, &before, NULL)) == VKS_INTERRUPTED)
        ;
    CHECK(status == VKS_OK && before.semaphore && before.value <= vks_device_submitted(device), "%s",
          vks_last_error()->text);
    return vks_device_submitted(device) - submitted;
}

/* rules: E12 */
static void an_engine_on_the_devices_queue_needs_a_barrier_before_and_a_batch_behind(void)
{
    for (int way = 0; way < 4; way++) {
        bool native = way & 1, same = way & 2;
        vks_device *device = stub_open("one", native), *other = same ? device : stub_open("two", native);
        vks_surface *a = stub_surface(device, NULL), *b = same ? stub_alias(a) : stub_surface(other, a);
        vks_semaphore_point ignored;
        CHECK(vks_surface_sync(b, vks_now() + SECOND, &ignored, NULL) == VKS_NOT_OWNER, "way %d", way);
        for (uint64_t key = 0; key < 6; key += 2) {
            own(a, key);
            CHECK(draw(a) == VKS_OK, "%s", vks_last_error()->text);
            hand_on(a, key + 1);
            own(b, key + 1);
            CHECK(sync_in_order(other, b) == 1, "way %d: the acquire", way);
            CHECK(sync_in_order(other, b) == 0, "way %d: what follows is in order", way);
            CHECK(draw(b) == VKS_OK, "%s", vks_last_error()->text);
            CHECK(sync_in_order(other, b) == 1, "way %d: a barrier behind the device's own work", way);
            uint64_t submitted = vks_device_submitted(other);
            hand_on(b, key + 2);
            CHECK(vks_device_submitted(other) == submitted + 1, "way %d: the release ends with the engine's work", way);
        }
        idle(other);
        drop(a);
        drop(b);
        stub_close(device);
        if (!same)
            stub_close(other);
    }
    CHECK(stub_violations() == 0, "%u", stub_violations());
}

/* rules: E12 */
static void an_engines_turn_behind_another_one_on_its_queue_needs_no_batch_before(void)
{
    for (int native = 0; native < 2; native++) {
        vks_device *device = stub_open("one", native), *other = stub_open("two", native);
        vks_surface *a = stub_surface(device, NULL), *b = stub_alias(a);
        uint64_t key = 0;
        for (int turn = 0; turn < 6; turn++) { /* by each of both handles: the release has the barrier */
            vks_surface *handle = turn & 1 ? a : b;
            own(handle, key);
            CHECK(sync_in_order(device, handle) == (turn ? 0 : 1), "native %d, turn %d", native, turn);
            uint64_t submitted = vks_device_submitted(device);
            hand_on(handle, ++key);
            CHECK(vks_device_submitted(device) == submitted + 1, "native %d, turn %d", native, turn);
        }
        vks_surface *drawn = stub_alias(a); /* no engine has used this handle */
        own(drawn, key);
        CHECK(draw(drawn) == VKS_OK, "%s", vks_last_error()->text);
        hand_on(drawn, ++key);
        own(b, key);
        CHECK(sync_in_order(device, b) == 1, "native %d: the device's own work came between", native);
        hand_on(b, ++key);
        vks_surface *c = stub_surface(other, a); /* and another device's work may, from now on */
        for (int turn = 0; turn < 2; turn++) {
            own(b, key);
            CHECK(sync_in_order(device, b) == 1, "native %d: shared", native);
            hand_on(b, ++key);
            if (turn)
                continue;
            own(c, key);
            CHECK(draw(c) == VKS_OK, "%s", vks_last_error()->text);
            hand_on(c, ++key);
        }
        idle(device);
        idle(other);
        drop(c);
        drop(drawn);
        drop(b);
        drop(a);
        stub_close(other);
        stub_close(device);
    }
    CHECK(stub_violations() == 0, "%u", stub_violations());
}

/* rules: E14 */
static void a_close_waits_for_what_an_engine_has_submitted_to_the_devices_queue(void)
{
    for (int way = 0; way < 4; way++) {
        bool native = way & 1, is_shared = way & 2;
        vks_device *device = stub_open("one", native), *other = stub_open("two", native);
        vks_surface *a = stub_surface(device, NULL), *b = is_shared ? stub_surface(other, a) : stub_alias(a);
        own(a, 0);
        CHECK(sync_in_order(device, a) == 1, "way %d", way);
        uint64_t submitted = vks_device_submitted(device); /* the engine's own batch comes here */
        uint64_t last = vks_surface_close(a);
        CHECK(last > submitted && vks_device_submitted(device) == last, "way %d: %llu after %llu", way,
              (unsigned long long)last, (unsigned long long)submitted);
        CHECK(vks_device_completed(device) >= last, "way %d: the close has not waited", way);
        drop(a);
        drop(b);
        stub_close(other);
        stub_close(device);
    }
    CHECK(stub_violations() == 0, "%u", stub_violations());
}

int main(void)
{
    RUN(an_engines_image_is_taken_over_once_before_its_first_use);
    RUN(an_engine_on_the_devices_queue_needs_a_barrier_before_and_a_batch_behind);
    RUN(an_engines_turn_behind_another_one_on_its_queue_needs_no_batch_before);
    RUN(a_close_waits_for_what_an_engine_has_submitted_to_the_devices_queue);
    RUN(an_engines_turn_waits_until_the_release_before_it_is_submitted);
    return check_result();
}
