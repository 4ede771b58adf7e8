/* Several handles of one image on one device, and handles of the same memory on another: image
 * ownership by queues, and the state after they close. Uses the stub driver, which reports an image
 * owned by two queues. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "sharing_turns.h"

static void a_hand_over_on_one_device_submits_nothing_but_the_draws(void)
{
    for (int native = 0; native < 2; native++) {
        vks_device *device = stub_open("one", native);
        vks_surface *a = stub_surface(device, NULL), *b = stub_alias(a);
        for (uint64_t turn = 0; turn < 10; turn++) {
            vks_surface *owner = turn % 2 ? b : a;
            own(owner, turn);
            CHECK(draw(owner) == VKS_OK, "%s", vks_last_error()->text);
            hand_on(owner, turn + 1);
        }
        CHECK(vks_device_submitted(device) == 10, "%llu", (unsigned long long)vks_device_submitted(device));
        own(a, 10);
        CHECK(vks_surface_cpu_access(a, vks_now() + 10 * SECOND) == VKS_OK, "the draws have run");
        CHECK(vks_device_completed(device) == 10, "%llu", (unsigned long long)vks_device_completed(device));
        drop(a);
        drop(b);
        stub_close(device);
    }
}

/* States before the export: no work, work that has run, an owner with and without work, a release
 * behind held work. */
static void an_export_at_any_moment_releases_the_image_before_the_other_device_acquires_it(void)
{
    enum { FRESH, RUN, OWNED, WORKING, HELD, RAW, MOMENTS };
    for (int native = 0; native < 2; native++)
        for (int moment = 0; moment < MOMENTS; moment++) {
            vks_device *device = stub_open("one", native), *other = stub_open("two", native);
            vks_surface *a = stub_surface(device, NULL), *b = stub_alias(a);
            vks_fence *gate = NULL;
            vks_work *op = NULL;
            if (moment != FRESH) {
                own(a, 0);
                CHECK((moment == RAW ? draw_raw(a) : draw(a)) == VKS_OK, "%s", vks_last_error()->text);
                hand_on(a, 0);
            }
            if (moment == OWNED || moment == WORKING)
                own(b, 0);
            if (moment == WORKING)
                CHECK(draw(b) == VKS_OK, "%s", vks_last_error()->text);
            if (moment == HELD) {
                CHECK(vks_fence_create(device, 0, &gate) == VKS_OK, "%s", vks_last_error()->text);
                own(b, 0);
                vks_wait wait = {.fence = gate, .value = 1};
                vks_commands *commands;
                vks_submission held = {0};
                CHECK(stub_commands(b, STUB_VARIED, &commands) == VKS_OK, "memory");
                vks_submit_info info = {.commands = &commands, .n_commands = 1, .waits = &wait, .n_waits = 1};
                CHECK(vks_submit(device, &info, 0, &held) == VKS_OK && held.op, "it is held");
                op = held.op;
                hand_on(b, 0);
                vks_commands_unref(commands);
            }
            vks_surface *c = stub_surface(other, a);
            CHECK(c != NULL, "moment %d: %s", moment, vks_last_error()->text);
            if (moment == OWNED || moment == WORKING)
                hand_on(b, 0);
            own(c, 0);
            if (gate)
                CHECK(vks_fence_signal(gate, 1) == VKS_OK, "%s", vks_last_error()->text);
            CHECK(draw(c) == VKS_OK, "moment %d: %s", moment, vks_last_error()->text);
            hand_on(c, 0);
            own(a, 0);
            CHECK(draw(a) == VKS_OK, "moment %d: %s", moment, vks_last_error()->text);
            hand_on(a, 0);
            idle(device);
            idle(other);
            if (op)
                vks_work_unref(op);
            if (gate) {
                vks_fence_close(gate);
                vks_fence_unref(gate);
            }
            drop(a);
            drop(c);
            drop(b);
            stub_close(device);
            stub_close(other);
        }
}

static void an_export_that_the_driver_refuses_can_be_tried_again(void)
{
    vks_device *device = stub_open("one", true), *other = stub_open("two", true);
    vks_surface *a = stub_surface(device, NULL);
    int page, semaphore;
    own(a, 0);
    CHECK(draw(a) == VKS_OK, "%s", vks_last_error()->text);
    hand_on(a, 0);
    stub_fail_submit(device, STUB_OUT_OF_MEMORY, 1);
    CHECK(vks_surface_export(a, &page, &semaphore) == VKS_VULKAN_ERROR && page == -1, "%s", vks_last_error()->text);
    vks_surface *c = stub_surface(other, a);
    own(c, 0);
    CHECK(draw(c) == VKS_OK, "%s", vks_last_error()->text);
    hand_on(c, 0);
    drop(a);
    drop(c);
    stub_close(device);
    stub_close(other);
}

static void handles_close_in_every_order_and_the_last_one_destroys_the_semaphore(void)
{
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int i = 0; i < 6; i++) {
        vks_device *device = stub_open("one", true), *other = stub_open("two", true);
        vks_surface *h[3] = {stub_surface(device, NULL)};
        h[1] = stub_alias(h[0]);
        h[2] = stub_alias(h[1]);
        for (int n = 0; n < 3; n++) {
            vks_surface *owner = h[orders[i][n]];
            own(owner, 0);
            CHECK(draw(owner) == VKS_OK, "%s", vks_last_error()->text);
            hand_on(owner, 0);
            if (n == 2) {
                vks_surface *c = stub_surface(other, owner);
                CHECK(c != NULL, "%s", vks_last_error()->text);
                own(c, 0);
                drop(c);
            }
            drop(owner);
        }
        stub_close(device);
        stub_close(other);
        CHECK(stub_semaphores() == 0, "%u are left", stub_semaphores());
    }
}

static void a_closed_handle_and_a_swapchains_image_have_no_alias(void)
{
    vks_device *device = stub_open("one", false);
    vks_surface *a = stub_surface(device, NULL), *out = NULL;
    vks_surface_info info = {.width = 8, .height = 8, .is_presentable = true};
    vks_surface_close(a);
    CHECK(vks_surface_alias(a, &info, &out) == VKS_CLOSED && !out, "it is closed");
    vks_surface_unref(a);
    CHECK(vks_surface_create(device, &info, &a) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_surface_alias(a, &info, &out) == VKS_UNSUPPORTED && !out, "no other party may have it");
    drop(a);
    stub_close(device);
}

/* Takes one step of an external API's use, which ends after some steps. Returns whether the release
 * is next. */
static bool external_use(vks_surface *owner, stub_api *api, bool works, bool asks)
{
    uint64_t wait = 0, signal = 0;
    vks_status status;
    while ((status = vks_surface_external_begin(owner, false, vks_now() + 10 * SECOND, &wait)) == VKS_INTERRUPTED)
        ;
    CHECK(status == VKS_OK, "status %d: %s", status, vks_last_error()->text);
    if (works || asks)
        CHECK(vks_surface_external_signal_value(owner, &signal) == VKS_OK, "%s", vks_last_error()->text);
    if (works)
        stub_work(api, wait, signal);
    CHECK(vks_surface_external_end(owner, works ? signal : 0) == VKS_OK, "%s", vks_last_error()->text);
    return works;
}

/* Three handles of one image and one of another device, at random; once shared, external APIs work
 * for each of them. */
static void random_turns_never_leave_an_image_with_two_queues(void)
{
    long turns = check_scale("VKS_SHARING_TURNS", 3000);
    unsigned seed = (unsigned)check_scale("VKS_SEED", (long)vks_now());
    printf("VKS_SEED=%u\n", seed);
    for (int native = 0; native < 2; native++) {
        vks_device *device = stub_open("one", native), *other = stub_open("two", native);
        vks_surface *h[4] = {stub_surface(device, NULL)};
        h[1] = stub_alias(h[0]);
        h[2] = stub_alias(h[0]);
        stub_api *apis[2] = {NULL, NULL};
        for (long turn = 0, before = check_failures; turn < turns && check_failures == before && stub_violations() == 0;
             turn++) {
            vks_surface *owner = h[(seed = seed * 1103515245u + 12345u) >> 16 & 3];
            if (turn % 500 == 250 && !h[3])
                h[3] = stub_surface(other, h[seed >> 18 & 1]);
            if (native && h[3] && !apis[0]) {
                apis[0] = stub_import(h[1]);
                apis[1] = stub_import(h[3]);
            }
            if (!owner)
                continue;
            bool gpu = seed >> 20 & 1;
            vks_work *op = NULL;
            if (gpu)
                CHECK(vks_surface_acquire_gpu(owner, 0, &op) == VKS_OK, "%s", vks_last_error()->text);
            else
                own(owner, 0);
            unsigned how = (seed = seed * 1103515245u + 12345u) >> 16;
            bool used_externally = apis[0] && (how & 3) < 2 && vks_surface_is_owned(owner) &&
                                   external_use(owner, apis[how >> 2 & 1], how >> 3 & 3, how >> 5 & 1);
            for (unsigned n = seed >> 22 & 3; n && !used_externally; n--)
                CHECK((seed >> 24 & 3 || gpu ? draw(owner) : draw_raw(owner)) == VKS_OK, "%s", vks_last_error()->text);
            if (seed >> 26 & 1)
                CHECK(vks_surface_cpu_access(owner, vks_now() + 10 * SECOND) != VKS_ABANDONED, "it is whole");
            hand_on(owner, 0);
            if (op)
                vks_work_unref(op);
            if ((seed >> 27 & 15) == 0 && owner != h[3] && owner != h[0]) {
                int which = owner == h[1] ? 1 : 2; /* idle: a hand-over that is cancelled abandons the surface */
                idle(device);
                drop(owner);
                h[which] = stub_alias(h[0]);
            }
        }
        idle(device);
        idle(other);
        for (int i = 0; i < 2 && apis[i]; i++) {
            for (uint64_t limit = vks_now() + 10 * SECOND; !stub_is_idle(apis[i]) && vks_now() < limit;)
                usleep(200);
            CHECK(stub_is_idle(apis[i]), "its queue waits forever");
            stub_drop(apis[i]);
        }
        for (int i = 0; i < 4; i++)
            if (h[i])
                drop(h[i]);
        stub_close(device);
        stub_close(other);
    }
}

/* Its draws become ready at about the time of the release, which may run them itself. */
static void a_release_behind_held_draws_has_a_value_that_none_of_them_signals(void)
{
    vks_device *device = stub_open("one", false), *other = stub_open("two", false);
    vks_surface *a = stub_surface(device, NULL), *b = stub_surface(other, a);
    for (unsigned turn = 0; turn < 600 && stub_violations() == 0; turn++) {
        own(b, 0);
        CHECK(draw(b) == VKS_OK, "%s",
              vks_last_error()->text); /* one submission, as the next ownership seems to have */
        hand_on(b, 0);
        own(a, 0);
        CHECK(draw(a) == VKS_OK, "%s", vks_last_error()->text);
        hand_on(a, 0);
        vks_work *op = NULL;
        CHECK(vks_surface_acquire_gpu(b, 0, &op) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(draw(b) == VKS_OK && draw(b) == VKS_OK && draw(b) == VKS_OK, "%s", vks_last_error()->text);
        usleep(turn % 300);
        hand_on(b, 0);
        if (op)
            vks_work_unref(op);
        own(a, 0);
        CHECK(draw(a) == VKS_OK, "%s", vks_last_error()->text);
        hand_on(a, 0);
    }
    idle(device);
    idle(other);
    drop(a);
    drop(b);
    stub_close(device);
    stub_close(other);
    CHECK(stub_violations() == 0, "%u", stub_violations());
}

/* An owner that has drawn closes, and a handle closes whose release is behind a held draw. */
static void a_handle_that_closes_leaves_no_image_with_its_queue(void)
{
    for (int way = 0; way < 8; way++) {
        bool native = way & 1, same = way & 2, releases = way & 4;
        vks_device *device = stub_open("one", native), *other = same ? device : stub_open("two", native);
        vks_surface *a = stub_surface(device, NULL), *b = stub_surface(other, a);
        vks_fence *gate;
        CHECK(vks_fence_create(other, 0, &gate) == VKS_OK, "%s", vks_last_error()->text);
        own(b, 0);
        CHECK(draw(b) == VKS_OK, "%s", vks_last_error()->text);
        if (releases) {
            draw_after(b, gate, 1);
            hand_on(b, 0);
        }
        vks_surface_close_now(b);
        vks_surface_unref(b);
        vks_status status;
        while ((status = vks_surface_acquire(a, 0, vks_now() + 10 * SECOND)) == VKS_INTERRUPTED)
            ;
        CHECK(status == VKS_ABANDONED, "way %d: status %d", way, status);
        while ((status = vks_surface_recover(a, vks_now() + 10 * SECOND)) == VKS_INTERRUPTED)
            ;
        CHECK(status == VKS_OK && draw(a) == VKS_OK, "way %d: %s", way, vks_last_error()->text);
        hand_on(a, 0);
        idle(device);
        drop(a);
        end(gate, device, other);
    }
    CHECK(stub_violations() == 0, "%u", stub_violations());
}

int main(void)
{
    RUN(a_hand_over_on_one_device_submits_nothing_but_the_draws);
    RUN(an_export_at_any_moment_releases_the_image_before_the_other_device_acquires_it);
    RUN(an_export_that_the_driver_refuses_can_be_tried_again);
    RUN(handles_close_in_every_order_and_the_last_one_destroys_the_semaphore);
    RUN(a_closed_handle_and_a_swapchains_image_have_no_alias);
    RUN(a_release_behind_held_draws_has_a_value_that_none_of_them_signals);
    RUN(a_handle_that_closes_leaves_no_image_with_its_queue);
    RUN(random_turns_never_leave_an_image_with_two_queues);
    CHECK(stub_violations() == 0, "%u", stub_violations());
    return check_result();
}
