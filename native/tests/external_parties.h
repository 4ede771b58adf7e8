/* external_parties.h: shared parts of the tests of external APIs: the parties, their turns, and
 * waiting. */
#ifndef VKS_EXTERNAL_PARTIES_H
#define VKS_EXTERNAL_PARTIES_H

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "check_macros.h"
#include "stub_driver.h"

#define MS UINT64_C(1000000)

/* ---- parties ---- */

typedef struct party {
    vks_device *device;
    vks_surface *surface;
    vks_commands *commands;
    bool is_alias;
} party;

static inline void can_draw(party *p)
{
    CHECK(p->surface != NULL, "%s", vks_last_error()->text);
    CHECK(stub_commands(p->surface, STUB_VARIED, &p->commands) == VKS_OK, "%s", vks_last_error()->text);
}

static inline party new_party(const char *name, const party *of)
{
    party p = {.device = stub_open(name, true)};
    p.surface = stub_surface(p.device, of ? of->surface : NULL);
    can_draw(&p);
    return p;
}

static inline party new_alias(const party *of)
{
    party p = {.device = of->device, .surface = stub_alias(of->surface), .is_alias = true};
    can_draw(&p);
    return p;
}

static inline stub_api *new_api(const party *p)
{
    stub_api *api = stub_import(p->surface);
    CHECK(api != NULL, "%s", vks_last_error()->text);
    return api;
}

static inline void drop_party(party *p)
{
    vks_commands_unref(p->commands);
    vks_surface_close(p->surface);
    vks_surface_unref(p->surface);
    if (!p->is_alias)
        stub_close(p->device);
}

static inline vks_status draw(const party *p, vks_submission *out)
{
    vks_submission ignored = {0};
    vks_submit_info info = {.commands = &p->commands, .n_commands = 1};
    vks_status status = vks_submit(p->device, &info, 0, out ? out : &ignored);
    if (ignored.op)
        vks_work_unref(ignored.op);
    return status;
}

static inline vks_page_view look(const party *p)
{
    int page;
    vks_page_view view = {0};
    CHECK(vks_surface_page(p->surface, &page) == VKS_OK && vks_page_inspect(page, &view) == VKS_OK, "%s",
          vks_last_error()->text);
    close(page);
    return view;
}

static inline uint64_t sum_pending(const party *p)
{
    vks_page_view view = look(p);
    uint64_t pending_value = 0;
    for (uint32_t i = 0; i < view.n_slots; i++)
        pending_value += view.slots[i].pending_value;
    return pending_value;
}

#define SOON(condition)                                                                                                \
    ({                                                                                                                 \
        uint64_t limit_ = vks_now() + HANG;                                                                            \
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

static inline void drop_api(stub_api *api)
{
    stub_stall_api(api, false);
    CHECK(SOON(stub_is_idle(api)), "its queue waits forever");
    stub_drop(api);
}

/* ---- turns ---- */

static inline void own(const party *p, uint64_t key)
{
    vks_status status = AGAIN(vks_surface_acquire(p->surface, key, vks_now() + HANG));
    CHECK(status == VKS_OK, "status %d: %s", status, vks_last_error()->text);
}

static inline void hand_on(const party *p, uint64_t key)
{
    vks_status status = vks_surface_release(p->surface, key);
    CHECK(status == VKS_OK, "status %d: %s", status, vks_last_error()->text);
}

static inline void queue_turn(const party *p, uint64_t key)
{
    own(p, key);
    CHECK(draw(p, NULL) == VKS_OK, "%s", vks_last_error()->text);
    hand_on(p, key + 1);
}

/* Runs the API's work between the acquire and the release. Returns the value that it waited for. */
static inline uint64_t external_use(const party *p, stub_api *api)
{
    uint64_t wait = 0, signal = 0;
    vks_status status = AGAIN(vks_surface_external_begin(p->surface, false, vks_now() + HANG, &wait));
    CHECK(status == VKS_OK, "status %d: %s", status, vks_last_error()->text);
    CHECK(vks_surface_external_signal_value(p->surface, &signal) == VKS_OK && signal > wait, "%s",
          vks_last_error()->text);
    stub_work(api, wait, signal);
    CHECK(vks_surface_external_end(p->surface, signal) == VKS_OK, "%s", vks_last_error()->text);
    return wait;
}

static inline uint64_t external_turn(const party *p, stub_api *api, uint64_t key)
{
    own(p, key);
    uint64_t wait = external_use(p, api);
    hand_on(p, key + 1);
    return wait;
}

static inline void idle(const party *p)
{
    vks_status status = AGAIN(vks_device_wait_idle(p->device, vks_now() + HANG));
    CHECK(status == VKS_OK, "status %d: %s", status, vks_last_error()->text);
}

static inline void lose(const party *p)
{
    stub_fail_submit(p->device, STUB_DEVICE_LOST, 1);
    CHECK(vks_submit(p->device, &(vks_submit_info){0}, 0, &(vks_submission){0}) == VKS_DEVICE_LOST, "lost");
}

/* Returns whether every announced value of the page has completed. */
static inline bool is_complete(const party *p)
{
    vks_page_view view = look(p);
    return view.completed >= view.value && view.queued >= view.value && !sum_pending(p);
}

typedef struct sleeper {
    const party *party;
    vks_status (*call)(vks_surface *surface, uint64_t deadline);
    vks_status status;
    uint64_t took;
} sleeper;

static inline void *sleep_in_call(void *argument)
{
    sleeper *s = argument;
    uint64_t start = vks_now();
    s->status = AGAIN(s->call(s->party->surface, start + HANG));
    s->took = vks_now() - start;
    return NULL;
}

/* Skips the remaining tests after some failures, because each of them could wait for seconds. */
#define STEP(test)                                                                                                     \
    if (check_failures < 5)                                                                                            \
    RUN(test)

#endif
