/* Another API takes a surface's turn by the surface's own semaphore (CUDA): no batch of the device's queue comes
 * between. Over the stub driver, which notices work that overtakes earlier work, an image that two have, and a signal
 * that does not increase the value. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "stub_driver.h"

#define MS UINT64_C(1000000)

/* ---- threads that cannot be started ---- */

static _Atomic bool no_threads;

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!real) {
        void *symbol = dlsym(RTLD_NEXT, "pthread_create");
        memcpy(&real, &symbol, sizeof real);
    }
    return no_threads ? 11 /* EAGAIN, as under RLIMIT_NPROC */ : real(thread, attributes, run, argument);
}

/* ---- the cast ---- */

typedef struct party {
    vks_device *device;
    vks_surface *surface;
    vks_commands *commands;
    bool is_alias;
} party;

static void can_draw(party *p)
{
    CHECK(p->surface != NULL, "%s", vks_last_error()->text);
    vks_use use = {p->surface, true};
    CHECK(vks_commands_create_vulkan(p->device, 3, &use, 1, NULL, NULL, &p->commands) == VKS_OK, "%s",
          vks_last_error()->text);
}

static party new_party(const char *name, const party *of)
{
    party p = {.device = stub_open(name, true)};
    p.surface = stub_surface(p.device, of ? of->surface : NULL);
    can_draw(&p);
    return p;
}

static party new_alias(const party *of)
{
    party p = {.device = of->device, .surface = stub_alias(of->surface), .is_alias = true};
    can_draw(&p);
    return p;
}

static stub_api *new_api(const party *p)
{
    stub_api *api = stub_import(p->surface);
    CHECK(api != NULL, "%s", vks_last_error()->text);
    return api;
}

static void drop_party(party *p)
{
    vks_commands_unref(p->commands);
    vks_surface_close(p->surface);
    vks_surface_unref(p->surface);
    if (!p->is_alias)
        stub_close(p->device);
}

static vks_status draw(const party *p, vks_submission *out)
{
    vks_submission ignored = {0};
    vks_submit_info info = {.commands = &p->commands, .n_commands = 1};
    vks_status status = vks_submit(p->device, &info, 0, out ? out : &ignored);
    if (ignored.op)
        vks_op_unref(ignored.op);
    return status;
}

static vks_page_view look(const party *p)
{
    int page;
    vks_page_view view = {0};
    CHECK(vks_surface_page(p->surface, &page) == VKS_OK && vks_page_look(page, &view) == VKS_OK, "%s",
          vks_last_error()->text);
    close(page);
    return view;
}

static uint64_t owed(const party *p)
{
    vks_page_view view = look(p);
    uint64_t owes = 0;
    for (uint32_t i = 0; i < view.n_slots; i++)
        owes += view.slots[i].owes;
    return owes;
}

#define SOON(condition)                                                                                                \
    ({                                                                                                                 \
        uint64_t limit_ = vks_now() + 3000 * MS;                                                                       \
        while (!(condition) && vks_now() < limit_)                                                                     \
            usleep(200);                                                                                               \
        (condition);                                                                                                   \
    })

#define AGAIN(call)                                                                                                    \
    ({                                                                                                                 \
        vks_status again_;                                                                                             \
        while ((again_ = (call)) == VKS_INTERRUPTED)                                                                   \
            ;                                                                                                          \
        again_;                                                                                                        \
    })

static void drop_api(stub_api *api)
{
    stub_stall_api(api, false);
    CHECK(SOON(stub_is_idle(api)), "it is stuck");
    stub_drop(api);
}

/* ---- turns ---- */

static void own(const party *p, uint64_t key)
{
    vks_status status = AGAIN(vks_surface_acquire(p->surface, key, vks_now() + 3000 * MS));
    CHECK(status == VKS_OK, "status %d: %s", status, vks_last_error()->text);
}

static void hand_on(const party *p, uint64_t key)
{
    vks_status status = vks_surface_release(p->surface, key);
    CHECK(status == VKS_OK, "status %d: %s", status, vks_last_error()->text);
}

static void queue_turn(const party *p, uint64_t key)
{
    own(p, key);
    CHECK(draw(p, NULL) == VKS_OK, "%s", vks_last_error()->text);
    hand_on(p, key + 1);
}

/* What the API does between the acquire and the release. Returns the value that it waited for. */
static uint64_t lend(const party *p, stub_api *api)
{
    uint64_t wait = 0, signal = 0;
    vks_status status = AGAIN(vks_surface_lend_out(p->surface, vks_now() + 3000 * MS, &wait));
    CHECK(status == VKS_OK, "status %d: %s", status, vks_last_error()->text);
    CHECK(vks_surface_lent_value(p->surface, &signal) == VKS_OK && signal > wait, "%s", vks_last_error()->text);
    stub_work(api, wait, signal);
    CHECK(vks_surface_lent_back(p->surface, signal) == VKS_OK, "%s", vks_last_error()->text);
    return wait;
}

static uint64_t outside_turn(const party *p, stub_api *api, uint64_t key)
{
    own(p, key);
    uint64_t wait = lend(p, api);
    hand_on(p, key + 1);
    return wait;
}

static void idle(const party *p)
{
    vks_status status = AGAIN(vks_device_wait_idle(p->device, vks_now() + 3000 * MS));
    CHECK(status == VKS_OK, "status %d: %s", status, vks_last_error()->text);
}

static void lose(const party *p)
{
    stub_fail_submit(p->device, STUB_DEVICE_LOST, 1);
    CHECK(vks_submit(p->device, &(vks_submit_info){0}, 0, &(vks_submission){0}) == VKS_DEVICE_LOST, "lost");
}

/* Of the page: everything that was promised has come. */
static bool is_settled(const party *p)
{
    vks_page_view view = look(p);
    return view.completed >= view.value && view.queued >= view.value && !owed(p);
}

/* ---- whose turn it is, and after what ---- */

/* rules: I3, K18 */
static void turns_go_from_queues_to_another_api_and_back_in_order(void)
{
    party a = new_party("a", NULL), b = new_alias(&a), c = new_party("c", &a);
    const party *turns[] = {&a, &b, &c};
    stub_api *apis[] = {new_api(&a), new_api(&c)};
    for (uint64_t key = 0; key < 54; key++) { /* every pair of handles, and of ways */
        const party *owner = turns[(key / 2 + key / 18) % 3];
        if (key & 1 || key / 18 == 1)
            outside_turn(owner, apis[owner == &c], key);
        else
            queue_turn(owner, key);
    }
    idle(&a);
    idle(&c);
    CHECK(SOON(is_settled(&a)), "%d is owed", (int)owed(&a));
    CHECK(stub_is_idle(apis[0]) && stub_is_idle(apis[1]) && stub_value(apis[0]) == look(&a).value, "all has run");
    drop_api(apis[0]);
    drop_api(apis[1]);
    drop_party(&c);
    drop_party(&b);
    drop_party(&a);
}

/* rules: I3, K18 */
static void nobodys_cpu_waits_where_a_gpu_can(void)
{
    party a = new_party("a", NULL), b = new_alias(&a), c = new_party("c", &a);
    stub_api *api = new_api(&a);
    stub_stall(true);
    stub_stall_api(api, true);
    queue_turn(&a, 0);
    uint64_t submitted = vks_device_submitted(a.device);
    CHECK(outside_turn(&a, api, 1) == 1, "the API waits for the queue");
    CHECK(outside_turn(&b, api, 2) == 2, "and for its own turn before");
    CHECK(outside_turn(&c, api, 3) == 3, "whoever's");
    CHECK(vks_device_submitted(a.device) == submitted, "the queue had nothing to do");
    queue_turn(&b, 4);
    queue_turn(&c, 5);
    queue_turn(&a, 6);
    vks_device_statistics held;
    vks_device_get_statistics(a.device, &held);
    CHECK(held.held_total == 0, "%d were held", (int)held.held_total);
    CHECK(stub_value(api) == 0 && look(&a).completed == 0 && look(&a).queued == 7, "and nothing has run");
    stub_stall(false);
    CHECK(SOON(stub_value(api) == 1), "now the queue's");
    usleep(3000);
    CHECK(stub_value(api) == 1, "what comes after waits for the API");
    stub_stall_api(api, false);
    idle(&a);
    idle(&c);
    CHECK(SOON(is_settled(&a)) && stub_value(api) == 7, "all has run");
    drop_api(api);
    drop_party(&c);
    drop_party(&b);
    drop_party(&a);
}

/* rules: I3, K18 */
static void the_next_owner_on_the_same_device_waits_for_the_other_api(void)
{
    party a = new_party("a", NULL), b = new_alias(&a);
    const party *next[] = {&a, &b};
    stub_api *api = new_api(&a);
    for (uint64_t i = 0; i < 2; i++) {
        vks_submission submission = {0};
        stub_stall_api(api, true);
        outside_turn(&a, api, 2 * i);
        own(next[i], 2 * i + 1);
        CHECK(draw(next[i], &submission) == VKS_OK && !vks_submission_is_held(a.device, &submission),
              "the driver has it");
        hand_on(next[i], 2 * i + 2);
        usleep(5000);
        CHECK(vks_submission_poll(a.device, &submission) == VKS_TIMEOUT, "it waits there");
        stub_stall_api(api, false);
        CHECK(AGAIN(vks_submission_wait(a.device, &submission, vks_now() + 1000 * MS)) == VKS_OK, "and runs");
    }
    idle(&a);
    drop_api(api);
    drop_party(&b);
    drop_party(&a);
}

/* Its own queue is at work still: nobody is dead. rules: I3, K9 */
static void who_lends_what_his_own_queue_draws_is_not_taken_for_dead(void)
{
    party a = new_party("a", NULL), b = new_alias(&a), c = new_party("c", &a);
    stub_api *api = new_api(&a);
    const party *lenders[] = {&a, &b};
    for (uint64_t i = 0; i < 2; i++) {
        stub_stall(true);
        queue_turn(&a, 3 * i);
        CHECK(outside_turn(lenders[i], api, 3 * i + 1) == 3 * i + 1, "it waits for the queue");
        usleep(40000); /* for the publisher to look for the dead */
        CHECK(stub_value(api) == 3 * i, "the value came before its work: %d", (int)stub_value(api));
        stub_stall(false);
        queue_turn(&c, 3 * i + 2);
        idle(&c);
    }
    CHECK(SOON(is_settled(&a)), "all has come");
    drop_api(api);
    drop_party(&c);
    drop_party(&b);
    drop_party(&a);
}

/* An earlier promise that is kept does not take the API's with it. rules: I3, K9, K27 */
static void a_later_promise_of_the_api_stays_when_an_earlier_one_is_kept(void)
{
    party a = new_party("a", NULL), c = new_party("c", &a);
    stub_api *api = new_api(&a);
    stub_stall_api(api, true);
    stub_stall(true);
    queue_turn(&a, 0);
    outside_turn(&a, api, 1);
    CHECK(owed(&a) == 1, "the first: %d", (int)owed(&a));
    stub_stall(false);
    CHECK(SOON(owed(&a) == 2), "then the API's: %d", (int)owed(&a));
    queue_turn(&c, 2); /* waits on the GPU, where nobody else promised */
    usleep(60000);
    CHECK(stub_value(api) == 1 && look(&a).state == 0, "c does not take a for dead");
    stub_stall_api(api, false);
    idle(&c);
    CHECK(SOON(is_settled(&a)) && stub_value(api) == 3, "all has come");
    drop_api(api);
    drop_party(&c);
    drop_party(&a);
}

typedef struct sleeper {
    const party *party;
    vks_status (*call)(vks_surface *surface, uint64_t deadline);
    vks_status status;
    uint64_t took;
} sleeper;

static void *sleep_in_call(void *argument)
{
    sleeper *s = argument;
    uint64_t start = vks_now();
    s->status = AGAIN(s->call(s->party->surface, start + 3000 * MS));
    s->took = vks_now() - start;
    return NULL;
}

/* rules: I3, K18 */
static void the_value_wakes_those_who_sleep_until_it_comes(void)
{
    party a = new_party("a", NULL), b = new_alias(&a), c = new_party("c", &a);
    const party *next[] = {&a, &b, &c};
    stub_api *api = new_api(&a);
    for (uint64_t i = 0; i < 3; i++) {
        stub_stall_api(api, true);
        outside_turn(&a, api, 2 * i);
        CHECK(owed(&a) == look(&a).value && look(&a).queued == look(&a).value, "promised, and with a queue");
        own(next[i], 2 * i + 1);
        sleeper s = {.party = next[i], .call = vks_surface_cpu_access};
        pthread_t thread;
        pthread_create(&thread, NULL, sleep_in_call, &s);
        usleep(20000);
        CHECK(look(&a).completed < look(&a).value, "not yet");
        stub_stall_api(api, false);
        pthread_join(thread, NULL);
        CHECK(s.status == VKS_OK && s.took < 1000 * MS, "status %d after %.1f ms", s.status, s.took / 1e6);
        CHECK(owed(&a) == 0 && look(&a).completed == look(&a).value, "the page says so");
        hand_on(next[i], 2 * i + 2);
    }
    drop_api(api);
    drop_party(&c);
    drop_party(&b);
    drop_party(&a);
}

/* rules: I3 */
static void the_cpu_may_look_in_the_same_tenure_once_the_apis_work_has_run(void)
{
    party a = new_party("a", NULL);
    stub_api *api = new_api(&a);
    own(&a, 0);
    stub_stall_api(api, true);
    lend(&a, api);
    CHECK(vks_surface_cpu_access(a.surface, vks_now() + 5 * MS) == VKS_TIMEOUT, "it runs");
    stub_stall_api(api, false);
    CHECK(AGAIN(vks_surface_cpu_access(a.surface, vks_now() + 1000 * MS)) == VKS_OK, "it has");
    hand_on(&a, 1);
    CHECK(vks_surface_cpu_access(a.surface, 0) == VKS_NOT_OWNER, "and it went on");
    drop_api(api);
    drop_party(&a);
}

/* ---- what may be called when ---- */

/* rules: I3, K3, K21 */
static void every_call_out_of_turn_is_refused_and_changes_nothing(void)
{
    party a = new_party("a", NULL);
    stub_api *api = new_api(&a);
    uint64_t wait = 7, signal = 0, twice = 0;
    vks_op *op = NULL;
    vks_semaphore_point point;
    CHECK(vks_surface_lend_out(a.surface, 0, &wait) == VKS_NOT_OWNER, "nobody owns it");
    CHECK(vks_surface_lent_value(a.surface, &signal) == VKS_NOT_OWNER, "nor lent it");
    CHECK(vks_surface_lent_back(a.surface, 1) == VKS_NOT_OWNER, "nor has it back");
    own(&a, 0);
    CHECK(vks_surface_lent_value(a.surface, &signal) == VKS_NOT_OWNER, "it is not lent");
    CHECK(vks_surface_lent_back(a.surface, 0) == VKS_NOT_OWNER, "still");
    CHECK(vks_surface_lend_out(a.surface, 0, &wait) == VKS_OK && wait == 0, "nothing to wait for: %d", (int)wait);
    for (int back = 0; back < 2; back++) {
        CHECK(vks_surface_is_owned(a.surface), "the handle owns it");
        CHECK(vks_surface_lend_out(a.surface, 0, &wait) == VKS_BAD_CALL, "once a tenure");
        CHECK(vks_surface_acquire(a.surface, 0, 0) == VKS_ALREADY_OWNER, "K3");
        CHECK(vks_surface_acquire_soon(a.surface, 0) == VKS_ALREADY_OWNER, "K3");
        CHECK(vks_surface_acquire_gpu(a.surface, 0, &op) == VKS_ALREADY_OWNER, "K3");
        CHECK(draw(&a, NULL) == VKS_NOT_OWNER, "another API has it");
        CHECK(vks_surface_sync(a.surface, 0, &point, &point) == VKS_NOT_OWNER, "nor engines");
        CHECK(vks_surface_hand_out(a.surface, 0, 0) == VKS_NOT_OWNER, "nor OpenGL");
        CHECK(vks_surface_take_back(a.surface, 0) == VKS_NOT_OWNER, "nor OpenGL");
        CHECK(vks_surface_recover(a.surface, 0) == VKS_NOT_ABANDONED, "it is not");
        if (back)
            break;
        CHECK(vks_surface_release(a.surface, 1) == VKS_BAD_CALL, "the API has it");
        CHECK(vks_surface_cpu_access(a.surface, 0) == VKS_NOT_OWNER, "the API has it");
        CHECK(vks_surface_lent_back(a.surface, 1) == VKS_BAD_VALUE, "nobody asked for a value");
        CHECK(vks_surface_lent_value(a.surface, &signal) == VKS_OK && signal == 1, "%d", (int)signal);
        CHECK(vks_surface_lent_value(a.surface, &twice) == VKS_OK && twice == 1, "it stays: %d", (int)twice);
        CHECK(vks_surface_lent_back(a.surface, 2) == VKS_BAD_VALUE, "not that one");
        CHECK(vks_surface_release(a.surface, 1) == VKS_BAD_CALL, "the API has it still");
        stub_work(api, wait, signal);
        CHECK(vks_surface_lent_back(a.surface, signal) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(vks_surface_lent_back(a.surface, signal) == VKS_NOT_OWNER, "once");
        CHECK(vks_surface_lent_back(a.surface, 0) == VKS_NOT_OWNER, "and not undone");
        CHECK(vks_surface_lent_value(a.surface, &signal) == VKS_NOT_OWNER, "once");
    }
    hand_on(&a, 1);
    CHECK(vks_surface_release(a.surface, 1) == VKS_NOT_OWNER && !vks_surface_is_owned(a.surface), "it went on");
    own(&a, 1);
    CHECK(draw(&a, NULL) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_surface_lend_out(a.surface, 0, &wait) == VKS_BAD_CALL, "commands were submitted");
    hand_on(&a, 2);
    CHECK(vks_surface_lend_out(a.surface, 0, &wait) == VKS_NOT_OWNER, "it went on");
    CHECK(SOON(is_settled(&a)) && stub_value(api) == 2, "two turns, two values");
    vks_surface_close(a.surface);
    CHECK(vks_surface_lend_out(a.surface, 0, &wait) == VKS_CLOSED, "closed");
    CHECK(vks_surface_lent_value(a.surface, &signal) == VKS_CLOSED, "closed");
    CHECK(vks_surface_lent_back(a.surface, 0) == VKS_CLOSED, "closed");
    drop_api(api);
    drop_party(&a);
}

/* rules: I3 */
static void a_surface_without_a_semaphore_that_others_have_is_unsupported(void)
{
    uint64_t value;
    party a = new_party("a", NULL), b = new_alias(&a);
    own(&a, 0);
    CHECK(vks_surface_lend_out(a.surface, 0, &value) == VKS_UNSUPPORTED, "it was never exported");
    stub_api *api = new_api(&b);
    CHECK(vks_surface_lend_out(a.surface, 0, &value) == VKS_OK, "by another handle is enough: %s",
          vks_last_error()->text);
    CHECK(vks_surface_lent_back(a.surface, 0) == VKS_OK, "%s", vks_last_error()->text);
    drop_api(api);
    drop_party(&b);
    drop_party(&a);
    for (int cpu = 0; cpu < 2; cpu++) {
        static uint8_t pixels[64];
        vks_surface_info info = {.width = 8, .height = 8, .pixels = pixels, .size = sizeof pixels, .stride = 8};
        vks_device *device = cpu ? NULL : stub_open("bridged", false);
        CHECK(!cpu || vks_device_create(&(vks_device_info){.name = "cpu"}, &device) == VKS_OK, "memory");
        vks_surface *surface;
        int page, semaphore;
        CHECK(vks_surface_create(device, &info, &surface) == VKS_OK &&
                  vks_surface_export(surface, &page, &semaphore) == VKS_OK && semaphore == -1 &&
                  vks_surface_acquire(surface, 0, 0) == VKS_OK,
              "%s", vks_last_error()->text);
        close(page);
        CHECK(vks_surface_lend_out(surface, 0, &value) == VKS_UNSUPPORTED, "it has no semaphore");
        CHECK(vks_surface_release(surface, 0) == VKS_OK, "and nothing changed");
        vks_surface_close(surface);
        vks_surface_unref(surface);
        if (cpu)
            vks_device_shutdown(device), vks_device_unref(device);
        else
            stub_close(device);
    }
}

/* rules: I3 */
static void an_api_that_did_nothing_leaves_the_tenure_as_it_was(void)
{
    party a = new_party("a", NULL), c = new_party("c", &a);
    stub_api *api = new_api(&a);
    stub_stall(true);
    queue_turn(&c, 0);
    own(&a, 1);
    for (int asked = 0; asked < 2; asked++) { /* and it may be lent again */
        uint64_t wait, signal;
        vks_submission submission = {0};
        CHECK(vks_surface_lend_out(a.surface, 0, &wait) == VKS_OK && wait == 1, "%s", vks_last_error()->text);
        if (asked)
            CHECK(vks_surface_lent_value(a.surface, &signal) == VKS_OK && owed(&a) != 1, "it is promised");
        CHECK(vks_surface_lent_back(a.surface, 0) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(owed(&a) == 1, "what c owes, no more: %d", (int)owed(&a));
        if (!asked)
            continue;
        CHECK(draw(&a, &submission) == VKS_OK && !vks_submission_is_held(a.device, &submission), "its own commands");
        hand_on(&a, 2);
        usleep(3000);
        CHECK(vks_submission_poll(a.device, &submission) == VKS_TIMEOUT, "they wait for c's");
        stub_stall(false);
        CHECK(AGAIN(vks_submission_wait(a.device, &submission, vks_now() + 1000 * MS)) == VKS_OK, "and run");
    }
    CHECK(SOON(is_settled(&a)) && stub_value(api) == look(&a).value, "%d", (int)owed(&a));
    drop_api(api);
    drop_party(&c);
    drop_party(&a);
}

/* rules: I3, K25 */
static void what_the_owner_before_holds_back_is_waited_for_up_to_the_deadline(void)
{
    party a = new_party("a", NULL), b = new_alias(&a), c = new_party("c", &a);
    const party *next[] = {&a, &b, &c};
    stub_api *api = new_api(&a);
    for (uint64_t i = 0; i < 3; i++) {
        vks_fence *gate;
        vks_submission held = {0};
        uint64_t wait;
        CHECK(vks_fence_create(a.device, 0, &gate) == VKS_OK, "%s", vks_last_error()->text);
        vks_submit_info info = {
            .commands = &a.commands, .n_commands = 1, .waits = &(vks_wait){.fence = gate, .value = 1}, .n_waits = 1};
        own(&a, 2 * i);
        CHECK(vks_submit(a.device, &info, 0, &held) == VKS_OK && held.op, "it is held");
        if (i == 0)
            CHECK(vks_surface_lend_out(a.surface, 0, &wait) == VKS_BAD_CALL, "it is the API's turn no more");
        hand_on(&a, 2 * i + 1);
        own(next[i], 2 * i + 1);
        uint64_t start = vks_now();
        CHECK(vks_surface_lend_out(next[i]->surface, 0, &wait) == VKS_TIMEOUT, "deadline 0 tests");
        vks_status status = vks_surface_lend_out(next[i]->surface, start + 30 * MS, &wait);
        CHECK(status == VKS_TIMEOUT && vks_now() - start >= 30 * MS, "status %d after %.1f ms", status,
              (vks_now() - start) / 1e6);
        CHECK(vks_fence_signal(gate, 1) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(AGAIN(vks_submission_wait(a.device, &held, vks_now() + 1000 * MS)) == VKS_OK, "it runs");
        lend(next[i], api);
        hand_on(next[i], 2 * i + 2);
        vks_op_unref(held.op);
        vks_fence_close(gate);
        vks_fence_unref(gate);
    }
    drop_api(api);
    drop_party(&c);
    drop_party(&b);
    drop_party(&a);
}

static vks_status lend_within(vks_surface *surface, uint64_t deadline)
{
    uint64_t wait;
    return vks_surface_lend_out(surface, deadline, &wait);
}

/* How a wait for held work ends: the work goes, its owner is lost, the handle is closed, its device is lost. rules: I3,
 * X21 */
static void a_wait_for_held_work_ends_with_whatever_happens(void)
{
    static const vks_status ends[] = {VKS_OK, VKS_ABANDONED, VKS_CLOSED, VKS_DEVICE_LOST};
    for (int i = 0; i < 4; i++) {
        party a = new_party("a", NULL), c = new_party("c", &a);
        stub_api *api = new_api(&a);
        vks_fence *gate;
        vks_submission held = {0};
        CHECK(vks_fence_create(a.device, 0, &gate) == VKS_OK, "%s", vks_last_error()->text);
        vks_submit_info info = {
            .commands = &a.commands, .n_commands = 1, .waits = &(vks_wait){.fence = gate, .value = 1}, .n_waits = 1};
        own(&a, 0);
        CHECK(vks_submit(a.device, &info, 0, &held) == VKS_OK && held.op, "it is held");
        hand_on(&a, 1);
        own(&c, 1);
        sleeper s = {.party = &c, .call = lend_within};
        pthread_t thread;
        pthread_create(&thread, NULL, sleep_in_call, &s);
        usleep(20000);
        if (i == 0)
            vks_fence_signal(gate, 1);
        else if (i == 2)
            vks_surface_close(c.surface);
        else
            vks_device_mark_lost(i == 1 ? a.device : c.device);
        pthread_join(thread, NULL);
        /* What a lost device promised is settled and its chain broken: the API may work, its release abandons. */
        CHECK((s.status == ends[i] || (i == 1 && s.status == VKS_OK)) && s.took < 1000 * MS,
              "end %d: status %d after %.1f ms", i, s.status, s.took / 1e6);
        vks_op_unref(held.op);
        if (i > 1) /* a's work must not be left held: its promise would be kept by nobody */
            vks_fence_signal(gate, 1);
        vks_fence_close(gate);
        vks_fence_unref(gate);
        drop_api(api);
        drop_party(&c);
        drop_party(&a);
    }
}

/* An alias owns when the first export comes, and its device's queue has the image and draws to it: no semaphore tells
 * of that. rules: I3 */
static void an_image_that_was_exported_in_the_midst_of_a_tenure_is_handed_out_first(void)
{
    party a = new_party("a", NULL), b = new_alias(&a);
    uint64_t wait = 9;
    stub_stall(true);
    queue_turn(&a, 0);
    own(&b, 1);
    stub_api *api = new_api(&b);
    CHECK(vks_surface_lend_out(b.surface, 0, &wait) == VKS_TIMEOUT, "a's queue draws");
    CHECK(vks_surface_lend_out(b.surface, vks_now() + 5 * MS, &wait) == VKS_TIMEOUT, "still");
    stub_stall(false);
    CHECK(AGAIN(vks_surface_lend_out(b.surface, vks_now() + 1000 * MS, &wait)) == VKS_OK && wait == 0,
          "nothing is left to wait for: %d", (int)wait);
    CHECK(vks_surface_lent_value(b.surface, &wait) == VKS_OK, "%s", vks_last_error()->text);
    stub_work(api, 0, wait);
    CHECK(vks_surface_lent_back(b.surface, wait) == VKS_OK, "%s", vks_last_error()->text);
    hand_on(&b, 2);
    queue_turn(&a, 2);
    idle(&a);
    CHECK(SOON(is_settled(&a)), "all has come");
    drop_api(api);
    drop_party(&b);
    drop_party(&a);
}

/* A surface that two devices send round, by two queues. */
typedef struct ring {
    vks_device *devices[2];
    vks_surface *surfaces[2];
    vks_queue *there_in, *there_out, *back_in, *back_out; /* from device 0 to 1; `back` starts with the surface in it */
    int fds[2];
} ring;

static ring new_ring(void)
{
    ring r = {.devices = {stub_open("producer", true), stub_open("consumer", true)}};
    r.surfaces[0] = stub_surface(r.devices[0], NULL);
    r.surfaces[1] = stub_surface(r.devices[1], r.surfaces[0]);
    vks_queue_info there = {.width = 8, .height = 8, .count = 1}, back = {.width = 8, .height = 8, .count = 1};
    back.full = true;
    CHECK(vks_queue_page_make(&back, &r.fds[0]) == VKS_OK && vks_queue_page_read(r.fds[0], &back) == VKS_OK, "%s",
          vks_last_error()->text);
    there.network = back.network;
    CHECK(vks_queue_page_make(&there, &r.fds[1]) == VKS_OK, "%s", vks_last_error()->text);
    for (int i = 0; i < 2; i++)
        CHECK(vks_surface_join(r.surfaces[i], back.network, 0) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_queue_open(r.devices[1], r.fds[0], VKS_PRODUCER, &r.surfaces[1], 1, &r.back_in) == VKS_OK &&
              vks_queue_open(r.devices[0], r.fds[0], VKS_CONSUMER, &r.surfaces[0], 1, &r.back_out) == VKS_OK &&
              vks_queue_open(r.devices[0], r.fds[1], VKS_PRODUCER, &r.surfaces[0], 1, &r.there_in) == VKS_OK &&
              vks_queue_open(r.devices[1], r.fds[1], VKS_CONSUMER, &r.surfaces[1], 1, &r.there_out) == VKS_OK,
          "%s", vks_last_error()->text);
    return r;
}

static void drop_ring(ring *r)
{
    vks_queue *queues[] = {r->there_in, r->there_out, r->back_in, r->back_out};
    for (int i = 0; i < 4; i++) {
        vks_queue_close(queues[i]);
        vks_queue_unref(queues[i]);
    }
    for (int i = 0; i < 2; i++) {
        close(r->fds[i]);
        vks_surface_close(r->surfaces[i]);
        vks_surface_unref(r->surfaces[i]);
    }
    stub_close(r->devices[0]);
    stub_close(r->devices[1]);
}

static void dequeue(vks_queue *queue)
{
    uint32_t index;
    size_t length;
    CHECK(AGAIN(vks_queue_dequeue(queue, vks_now() + 1000 * MS, &index, NULL, &length)) == VKS_OK, "%s",
          vks_last_error()->text);
}

static vks_status enqueue(vks_queue *queue, vks_surface *surface, int mode, uint64_t ms, bool *committed)
{
    return AGAIN(
        vks_queue_enqueue(queue, surface, NULL, 0, (vks_enqueue_mode)mode, ms ? vks_now() + ms * MS : 0, committed));
}

/* rules: I3, Q10, Q11, Q19 */
static void a_queues_surface_travels_on_after_another_apis_turn(void)
{
    ring r = new_ring();
    stub_api *api = stub_import(r.surfaces[0]);
    vks_surface *surface = r.surfaces[0];
    for (int mode = VKS_ENQUEUE_WAIT; mode <= VKS_ENQUEUE_GPU; mode++) {
        uint32_t flushed, pending;
        uint64_t wait, signal;
        bool committed;
        dequeue(r.back_out);
        CHECK(vks_surface_release(surface, 0) == VKS_BAD_CALL, "it is a queue's");
        CHECK(AGAIN(vks_surface_lend_out(surface, vks_now() + 1000 * MS, &wait)) == VKS_OK, "%s",
              vks_last_error()->text);
        CHECK(enqueue(r.there_in, surface, mode, 0, &committed) == VKS_BAD_CALL, "the API has it");
        CHECK(vks_surface_lent_value(surface, &signal) == VKS_OK, "%s", vks_last_error()->text);
        stub_stall_api(api, true);
        stub_work(api, wait, signal);
        CHECK(vks_surface_lent_back(surface, signal) == VKS_OK, "%s", vks_last_error()->text);
        if (mode == VKS_ENQUEUE_WAIT) {
            CHECK(enqueue(r.there_in, surface, mode, 30, &committed) == VKS_TIMEOUT && !committed,
                  "Q10: the API works still");
            stub_stall_api(api, false);
        }
        CHECK(enqueue(r.there_in, surface, mode, 1000, &committed) == VKS_OK && committed == (mode != VKS_ENQUEUE_TRY),
              "mode %d: %s", mode, vks_last_error()->text);
        if (mode == VKS_ENQUEUE_TRY) {
            CHECK(AGAIN(vks_queue_flush(r.there_in, false, 0, &flushed, &pending)) == VKS_OK && pending == 1,
                  "Q11: the API works still");
            stub_stall_api(api, false);
            CHECK(AGAIN(vks_queue_flush(r.there_in, true, vks_now() + 1000 * MS, &flushed, &pending)) == VKS_OK &&
                      flushed == 1,
                  "and has finished");
        }
        dequeue(r.there_out);
        stub_stall_api(api, false);
        CHECK(AGAIN(vks_surface_cpu_access(r.surfaces[1], vks_now() + 1000 * MS)) == VKS_OK && stub_is_idle(api),
              "the consumer sees what the API did");
        CHECK(enqueue(r.back_in, r.surfaces[1], VKS_ENQUEUE_GPU, 0, &committed) == VKS_OK, "%s",
              vks_last_error()->text);
    }
    drop_api(api);
    drop_ring(&r);
}

/* rules: I3, K27 */
static void a_queues_surface_is_recovered_though_its_producer_was_lost_in_another_apis_turn(void)
{
    ring r = new_ring();
    stub_api *api = stub_import(r.surfaces[1]);
    party producer = {.device = r.devices[0], .surface = r.surfaces[0]}, consumer = {.surface = r.surfaces[1]};
    bool committed;
    can_draw(&producer);
    dequeue(r.back_out);
    stub_stall(true);
    CHECK(draw(&producer, NULL) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(enqueue(r.there_in, producer.surface, VKS_ENQUEUE_GPU, 0, &committed) == VKS_OK, "%s",
          vks_last_error()->text);
    dequeue(r.there_out);
    CHECK(lend(&consumer, api) == 1, "it waits for the producer");
    lose(&producer);
    stub_stall(false);
    CHECK(AGAIN(vks_surface_recover(consumer.surface, vks_now() + 1000 * MS)) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_surface_is_owned(consumer.surface) && stub_is_idle(api), "it is the consumer's, and whole again");
    vks_commands_unref(producer.commands);
    drop_api(api);
    drop_ring(&r);
}

/* ---- the end ---- */

static void *let_go_soon(void *api)
{
    usleep(50000);
    stub_stall_api(api, false);
    return NULL;
}

/* rules: I3, K7 */
static void a_handle_that_is_closed_while_it_is_lent_abandons_the_surface(void)
{
    party a = new_party("a", NULL), c = new_party("c", &a);
    stub_api *api = new_api(&a);
    uint64_t wait;
    own(&a, 0);
    CHECK(vks_surface_lend_out(a.surface, 0, &wait) == VKS_OK, "%s", vks_last_error()->text);
    uint64_t start = vks_now();
    vks_surface_close(a.surface);
    CHECK(vks_now() - start < 1000 * MS && !vks_surface_is_owned(a.surface), "nothing was promised");
    CHECK(vks_surface_acquire(c.surface, 0, vks_now() + 1000 * MS) == VKS_ABANDONED, "K7");
    CHECK(vks_surface_recover(c.surface, vks_now() + 1000 * MS) == VKS_OK, "%s", vks_last_error()->text);
    hand_on(&c, 1);
    drop_api(api);
    drop_party(&c);
    drop_party(&a);
}

/* Lent with a value to signal, lent back, and released: each waits for the signal that is under way. rules: I3, K7 */
static void close_waits_for_the_value_that_another_api_is_to_signal(void)
{
    for (int step = 0; step < 3; step++) {
        party a = new_party("a", NULL), c = new_party("c", &a);
        stub_api *api = new_api(&a);
        uint64_t wait, signal;
        own(&a, 0);
        CHECK(vks_surface_lend_out(a.surface, 0, &wait) == VKS_OK &&
                  vks_surface_lent_value(a.surface, &signal) == VKS_OK,
              "%s", vks_last_error()->text);
        stub_stall_api(api, true);
        stub_work(api, wait, signal);
        if (step > 0)
            CHECK(vks_surface_lent_back(a.surface, signal) == VKS_OK, "%s", vks_last_error()->text);
        if (step > 1)
            hand_on(&a, 1);
        pthread_t thread;
        uint64_t start = vks_now();
        pthread_create(&thread, NULL, let_go_soon, api);
        vks_surface_close(a.surface);
        CHECK(vks_now() - start > 40 * MS && vks_now() - start < 3000 * MS && stub_is_idle(api),
              "step %d: closed after %.1f ms", step, (vks_now() - start) / 1e6);
        vks_status status = vks_surface_acquire(c.surface, 1, vks_now() + 1000 * MS);
        CHECK(status == (step > 1 ? VKS_OK : VKS_ABANDONED), "step %d: %d", step, status);
        pthread_join(thread, NULL);
        if (step < 2)
            CHECK(vks_surface_recover(c.surface, vks_now() + 1000 * MS) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(draw(&c, NULL) == VKS_OK, "%s", vks_last_error()->text);
        hand_on(&c, 2);
        drop_api(api);
        drop_party(&c);
        drop_party(&a);
    }
}

/* rules: I3 */
static void a_device_is_shut_down_once_what_another_api_does_has_come(void)
{
    party a = new_party("a", NULL), c = new_party("c", &a);
    stub_api *api = new_api(&a);
    stub_stall_api(api, true);
    outside_turn(&a, api, 0);
    queue_turn(&a, 1);
    outside_turn(&a, api, 2);
    pthread_t thread;
    pthread_create(&thread, NULL, let_go_soon, api);
    vks_commands_unref(a.commands);
    stub_close(a.device);
    CHECK(stub_is_idle(api) && stub_value(api) == 3, "all has run: %d", (int)stub_value(api));
    pthread_join(thread, NULL);
    vks_surface_unref(a.surface);
    queue_turn(&c, 3);
    drop_api(api);
    drop_party(&c);
}

/* rules: I3, X21 */
static void a_device_that_is_lost_ends_what_it_lent(void)
{
    for (int step = 0; step < 4; step++) {
        party a = new_party("a", NULL), b = new_alias(&a), c = new_party("c", &a);
        stub_api *api = new_api(&a);
        uint64_t wait, signal = 0;
        own(&a, 0);
        CHECK(vks_surface_lend_out(a.surface, 0, &wait) == VKS_OK, "%s", vks_last_error()->text);
        if (step > 0)
            CHECK(vks_surface_lent_value(a.surface, &signal) == VKS_OK, "%s", vks_last_error()->text);
        if (step > 1)
            CHECK(vks_surface_lent_back(a.surface, signal) == VKS_OK, "%s", vks_last_error()->text);
        if (step > 2)
            hand_on(&a, 1);
        lose(&a);
        CHECK(vks_surface_lend_out(a.surface, 0, &wait) == VKS_DEVICE_LOST, "lost");
        CHECK(vks_surface_lent_value(a.surface, &wait) == VKS_DEVICE_LOST, "lost");
        CHECK(vks_surface_lent_back(a.surface, signal) == VKS_DEVICE_LOST, "lost");
        CHECK(vks_surface_release(a.surface, 1) == VKS_DEVICE_LOST, "lost");
        CHECK(!vks_surface_is_owned(a.surface) && owed(&c) == 0, "step %d: %d is owed", step, (int)owed(&c));
        CHECK(vks_surface_acquire(c.surface, 1, vks_now() + 1000 * MS) == VKS_ABANDONED, "step %d", step);
        CHECK(vks_surface_recover(c.surface, vks_now() + 1000 * MS) == VKS_OK, "%s", vks_last_error()->text);
        uint64_t start = vks_now();
        drop_party(&b);
        drop_party(&a);
        CHECK(vks_now() - start < 1000 * MS, "step %d: closing took %.1f ms", step, (vks_now() - start) / 1e6);
        drop_api(api);
        drop_party(&c);
    }
}

/* The device's own queue is idle: nobody but the publisher asks. By the counter, and by what a submission says alone.
 * rules: X21 */
static void a_loss_is_noticed_while_only_another_api_is_waited_for(void)
{
    for (int by_submit = 0; by_submit < 2; by_submit++) {
        party a = new_party("a", NULL);
        stub_api *api = new_api(&a);
        stub_stall_api(api, true);
        outside_turn(&a, api, 0);
        own(&a, 1);
        if (by_submit)
            stub_fail_submit(a.device, STUB_DEVICE_LOST, 1);
        else
            stub_fail(STUB_DEVICE_LOST, 1);
        sleeper s = {.party = &a, .call = vks_surface_cpu_access};
        sleep_in_call(&s);
        CHECK(s.status == VKS_DEVICE_LOST && s.took < 1000 * MS, "status %d after %.1f ms", s.status, s.took / 1e6);
        drop_api(api);
        drop_party(&a);
    }
}

/* rules: I3, K9 */
static void what_a_lost_debtor_owed_the_api_is_signalled_for_it(void)
{
    party a = new_party("a", NULL), c = new_party("c", &a);
    stub_api *api = new_api(&a);
    stub_stall(true);
    queue_turn(&c, 0);
    CHECK(outside_turn(&a, api, 1) == 1, "the API waits for c");
    usleep(30000);
    CHECK(stub_value(api) == 0, "c is alive");
    lose(&c); /* its work is gone with it */
    CHECK(SOON(stub_is_idle(api)) && stub_value(api) == 2, "its queue goes on: %d", (int)stub_value(api));
    CHECK(vks_surface_acquire(a.surface, 2, vks_now() + 1000 * MS) == VKS_ABANDONED, "but it is no whole frame");
    CHECK(AGAIN(vks_surface_recover(a.surface, vks_now() + 1000 * MS)) == VKS_OK, "%s", vks_last_error()->text);
    stub_stall(false);
    CHECK(draw(&a, NULL) == VKS_OK, "%s", vks_last_error()->text);
    hand_on(&a, 3);
    idle(&a);
    drop_api(api);
    drop_party(&c);
    drop_party(&a);
}

/* The same with the handle closed, whose API waits still. rules: I3, K9 */
static void a_handle_is_closed_only_when_its_api_is_not_stuck(void)
{
    party a = new_party("a", NULL), c = new_party("c", &a);
    stub_api *api = new_api(&a);
    uint64_t wait;
    stub_stall(true);
    queue_turn(&c, 0);
    own(&a, 1);
    CHECK(vks_surface_lend_out(a.surface, 0, &wait) == VKS_OK && wait == 1, "%s", vks_last_error()->text);
    stub_work(api, wait, 0);
    lose(&c);
    vks_surface_close(a.surface);
    CHECK(SOON(stub_is_idle(api)), "nobody else would have signalled");
    stub_stall(false);
    drop_api(api);
    drop_party(&c);
    drop_party(&a);
}

/* rules: I3, K27 */
static void recover_waits_for_the_value_that_another_api_is_to_signal(void)
{
    for (int by_itself = 0; by_itself < 2; by_itself++) {
        party a = new_party("a", NULL), c = new_party("c", &a), d = new_party("d", &a);
        const party *p = by_itself ? &a : &c;
        stub_api *api = new_api(&a);
        stub_stall_api(api, true);
        outside_turn(&a, api, 0);
        own(&d, 1);
        vks_surface_close(d.surface); /* K7: it owned */
        uint64_t start = vks_now();
        CHECK(AGAIN(vks_surface_recover(p->surface, start + 20 * MS)) == VKS_TIMEOUT, "a's API works still");
        CHECK(vks_now() - start >= 20 * MS, "it waited");
        pthread_t thread;
        pthread_create(&thread, NULL, let_go_soon, api);
        CHECK(AGAIN(vks_surface_recover(p->surface, vks_now() + 1000 * MS)) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(stub_is_idle(api) && stub_value(api) == look(p).value, "nothing is under way");
        pthread_join(thread, NULL);
        CHECK(draw(p, NULL) == VKS_OK, "%s", vks_last_error()->text);
        hand_on(p, 2);
        idle(p);
        drop_api(api);
        drop_party(&d);
        drop_party(&c);
        drop_party(&a);
    }
}

/* In a broken chain no batch's signal overtakes that of this handle's own API. rules: I3, K9 */
static void work_in_a_broken_chain_waits_for_the_api_whose_signal_would_fall(void)
{
    party a = new_party("a", NULL), c = new_party("c", &a);
    stub_api *api = new_api(&a);
    vks_submission held = {0};
    stub_stall(true);
    stub_stall_api(api, true);
    outside_turn(&a, api, 0);
    queue_turn(&c, 1);
    own(&a, 2);
    lose(&c);
    stub_stall(false);
    CHECK(draw(&a, &held) == VKS_OK && vks_submission_is_held(a.device, &held), "its own API's signal comes first");
    CHECK(vks_surface_release(a.surface, 3) == VKS_ABANDONED, "the chain is broken");
    stub_stall_api(api, false);
    CHECK(AGAIN(vks_submission_wait(a.device, &held, vks_now() + 1000 * MS)) == VKS_OK, "then it goes");
    idle(&a);
    vks_op_unref(held.op);
    drop_api(api);
    drop_party(&c);
    drop_party(&a);
}

/* rules: X11 */
static void in_a_forked_child_every_call_says_so(void)
{
    party a = new_party("a", NULL);
    stub_api *api = new_api(&a);
    uint64_t wait, signal;
    own(&a, 0);
    CHECK(vks_surface_lend_out(a.surface, 0, &wait) == VKS_OK, "%s", vks_last_error()->text);
    pid_t child = fork();
    if (child == 0)
        _exit(vks_surface_lend_out(a.surface, 0, &wait) == VKS_FORKED &&
                      vks_surface_lent_value(a.surface, &signal) == VKS_FORKED &&
                      vks_surface_lent_back(a.surface, 0) == VKS_FORKED && !vks_surface_is_owned(a.surface)
                  ? 0
                  : 1);
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "%d", status);
    CHECK(vks_surface_lent_value(a.surface, &signal) == VKS_OK, "the parent goes on");
    stub_work(api, 0, signal);
    CHECK(vks_surface_lent_back(a.surface, signal) == VKS_OK, "%s", vks_last_error()->text);
    hand_on(&a, 1);
    drop_api(api);
    drop_party(&a);
}

static void without_threads_nothing_is_lent(void)
{
    party a = new_party("a", NULL);
    stub_api *api = new_api(&a);
    uint64_t wait;
    own(&a, 0);
    no_threads = true;
    CHECK(vks_surface_lend_out(a.surface, 0, &wait) == VKS_OS_ERROR, "nobody would look for the value");
    no_threads = false;
    CHECK(owed(&a) == 0 && vks_surface_cpu_access(a.surface, 0) == VKS_OK, "nothing changed");
    lend(&a, api);
    hand_on(&a, 1);
    CHECK(SOON(is_settled(&a)), "and now somebody does");
    vks_clear_error();
    drop_api(api);
    drop_party(&a);
}

/* ---- all at once ---- */

typedef struct crowd {
    party *party;
    stub_api *api;
    pthread_mutex_t by_api; /* one thread speaks for the API at a time */
    _Atomic bool over;
    _Atomic uint32_t turns;
} crowd;

static void take_api_turn(crowd *c)
{
    const party *p = c->party;
    uint64_t wait, value = 0;
    if (vks_surface_lend_out(p->surface, vks_now() + MS, &wait) != VKS_OK ||
        vks_surface_lent_value(p->surface, &value) != VKS_OK)
        return;
    stub_work(c->api, wait, value);
    if (vks_surface_lent_back(p->surface, value) == VKS_OK)
        c->turns++;
}

/* Calls in any order, of several threads on one handle; what comes of it is whole turns. */
static void *call_anything(void *argument)
{
    crowd *c = argument;
    const party *p = c->party;
    unsigned seed = (unsigned)(uintptr_t)&seed;
    while (!c->over)
        switch ((seed = seed * 1103515245u + 12345u) >> 16 & 7) {
        case 0:
            vks_surface_acquire(p->surface, 0, vks_now() + MS);
            break;
        case 1:
            draw(p, NULL);
            break;
        case 2:
            vks_surface_cpu_access(p->surface, vks_now() + MS);
            break;
        case 3:
            vks_surface_release(p->surface, 0);
            break;
        default:
            pthread_mutex_lock(&c->by_api);
            take_api_turn(c);
            pthread_mutex_unlock(&c->by_api);
        }
    return NULL;
}

/* rules: I3, K19 */
static void threads_may_call_anything_at_any_time_and_close_the_handle(void)
{
    for (long i = 0, n = check_scale("VKS_ROUNDS", 6); i < n; i++) {
        party a = new_party("a", NULL), c = new_party("c", &a);
        crowd crowds[2] = {{.party = &a, .api = new_api(&a)}, {.party = &c, .api = new_api(&c)}};
        for (int k = 0; k < 2; k++)
            pthread_mutex_init(&crowds[k].by_api, NULL);
        pthread_t threads[4];
        for (int t = 0; t < 4; t++)
            pthread_create(&threads[t], NULL, call_anything, &crowds[t & 1]);
        usleep(60000);
        vks_surface_close(a.surface); /* under their hands */
        usleep(1000);
        crowds[0].over = crowds[1].over = true;
        for (int t = 0; t < 4; t++)
            pthread_join(threads[t], NULL);
        if (i == 0)
            printf("     %u and %u turns\n", crowds[0].turns, crowds[1].turns);
        CHECK(SOON(stub_is_idle(crowds[0].api) && stub_is_idle(crowds[1].api)), "nothing is stuck");
        drop_party(&c);
        drop_party(&a);
        drop_api(crowds[0].api);
        drop_api(crowds[1].api);
    }
}

/* What is broken shows in the first of them; many would wait for seconds. */
#define STEP(test)                                                                                                     \
    if (check_failures < 5)                                                                                            \
    RUN(test)

int main(void)
{
    STEP(without_threads_nothing_is_lent); /* first: the process's threads are not there yet */
    STEP(turns_go_from_queues_to_another_api_and_back_in_order);
    STEP(nobodys_cpu_waits_where_a_gpu_can);
    STEP(the_next_owner_on_the_same_device_waits_for_the_other_api);
    STEP(who_lends_what_his_own_queue_draws_is_not_taken_for_dead);
    STEP(a_later_promise_of_the_api_stays_when_an_earlier_one_is_kept);
    STEP(the_value_wakes_those_who_sleep_until_it_comes);
    STEP(the_cpu_may_look_in_the_same_tenure_once_the_apis_work_has_run);
    STEP(every_call_out_of_turn_is_refused_and_changes_nothing);
    STEP(a_surface_without_a_semaphore_that_others_have_is_unsupported);
    STEP(an_api_that_did_nothing_leaves_the_tenure_as_it_was);
    STEP(what_the_owner_before_holds_back_is_waited_for_up_to_the_deadline);
    STEP(a_wait_for_held_work_ends_with_whatever_happens);
    STEP(an_image_that_was_exported_in_the_midst_of_a_tenure_is_handed_out_first);
    STEP(a_queues_surface_travels_on_after_another_apis_turn);
    STEP(a_queues_surface_is_recovered_though_its_producer_was_lost_in_another_apis_turn);
    STEP(a_handle_that_is_closed_while_it_is_lent_abandons_the_surface);
    STEP(close_waits_for_the_value_that_another_api_is_to_signal);
    STEP(a_device_is_shut_down_once_what_another_api_does_has_come);
    STEP(a_device_that_is_lost_ends_what_it_lent);
    STEP(a_loss_is_noticed_while_only_another_api_is_waited_for);
    STEP(what_a_lost_debtor_owed_the_api_is_signalled_for_it);
    STEP(a_handle_is_closed_only_when_its_api_is_not_stuck);
    STEP(recover_waits_for_the_value_that_another_api_is_to_signal);
    STEP(work_in_a_broken_chain_waits_for_the_api_whose_signal_would_fall);
    STEP(in_a_forked_child_every_call_says_so);
    STEP(threads_may_call_anything_at_any_time_and_close_the_handle);
    CHECK(stub_violations() == 0, "%u violations", stub_violations());
    return check_result();
}
