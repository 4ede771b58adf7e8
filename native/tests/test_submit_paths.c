/* The two paths of a submission, native/submit/submit_fast.c and native/scheduler/batch.c: with the
 * same input they give the driver the same batch and leave the same state. Uses the stub driver. */
#include "external_parties.h"
#include "submit/submit.h"

/* ---- a backend that records the last batch ---- */

#define MOST 8

typedef struct record {
    vks_family family;
    uint32_t n_waits, n_signals, n_buffers;
    vks_point signals[MOST];
    uint64_t buffers[MOST];
    uint64_t serial;
} record;

static const vks_backend *original;
static vks_backend recording;
static record last;

static vks_status record_submit(vks_device *device, const vks_batch *batch)
{
    last = (record){.family = batch->family,
                    .n_waits = batch->n_waits,
                    .n_signals = batch->n_signals,
                    .n_buffers = batch->n_buffers,
                    .serial = batch->serial};
    CHECK(batch->n_signals <= MOST && batch->n_buffers <= MOST, "%u, %u", batch->n_signals, batch->n_buffers);
    memcpy(last.signals, batch->signals, batch->n_signals * sizeof *batch->signals);
    memcpy(last.buffers, batch->buffers, batch->n_buffers * sizeof *batch->buffers);
    return original->submit(device, batch);
}

static void record_batches(vks_device *device)
{
    original = device->backend;
    recording = *original;
    recording.submit = record_submit;
    device->backend = &recording;
}

/* ---- one submission by either path ---- */

typedef struct state {
    uint64_t surface_serial, announced, queued, signal_serial, commands_serial;
    uint32_t submissions;
    bool uses_graphics;
} state;

static state look_at(const party *p, const vks_fence *fence)
{
    return (state){.surface_serial = p->surface->last_serial,
                   .submissions = p->surface->submissions,
                   .uses_graphics = p->surface->uses_graphics,
                   .announced = fence->announced,
                   .queued = vks_fence_page_of(fence)->queued,
                   .signal_serial = fence->last_serial,
                   .commands_serial = p->commands->last_serial};
}

/* A wait for a value that was reached adds nothing to the batch, but the submission is no longer
 * fast. */
static record submit(const party *p, uint32_t n_commands, vks_fence *const *fences, uint32_t n_signals, vks_fence *gate,
                     bool is_fast)
{
    vks_commands *commands[] = {p->commands, p->commands};
    vks_signal signals[MOST] = {{0}};
    vks_wait wait = {.fence = gate, .value = 1};
    vks_submission out = {0};
    for (uint32_t i = 0; i < n_signals; i++)
        signals[i] = (vks_signal){fences[i], 0};
    vks_submit_info info = {.commands = commands,
                            .n_commands = n_commands,
                            .signals = signals,
                            .n_signals = n_signals,
                            .waits = &wait,
                            .n_waits = !is_fast};
    CHECK(vks_submit_is_fast(p->device, &info) == is_fast, "the other path");
    CHECK(vks_submit(p->device, &info, 0, &out) == VKS_OK && !out.op && out.serial == last.serial, "%s",
          vks_last_error()->text);
    return last;
}

static void compare(const record *fast, const record *usual, uint32_t n_signals)
{
    CHECK(fast->family == usual->family && fast->n_waits == 0 && usual->n_waits == 0,
          "families %d and %d, waits %u, %u", fast->family, usual->family, fast->n_waits, usual->n_waits);
    CHECK(fast->n_buffers == usual->n_buffers && !memcmp(fast->buffers, usual->buffers, sizeof fast->buffers),
          "%u buffers and %u", fast->n_buffers, usual->n_buffers);
    CHECK(fast->n_signals == n_signals && usual->n_signals == n_signals, "%u signals and %u", fast->n_signals,
          usual->n_signals);
    for (uint32_t i = 0; i < n_signals; i++)
        CHECK(fast->signals[i].semaphore == usual->signals[i].semaphore &&
                  fast->signals[i].value + 1 == usual->signals[i].value,
              "signal %u", i);
    CHECK(fast->serial + 1 == usual->serial, "serials %d and %d", (int)fast->serial, (int)usual->serial);
}

static void compare_states(const state *a, const state *b, const state *c, bool draws, bool signals)
{
    CHECK(!draws || c->surface_serial == b->surface_serial + 1, "last_serial");
    CHECK(c->submissions - b->submissions == b->submissions - a->submissions && c->uses_graphics == b->uses_graphics,
          "%u, %u and %u submissions", a->submissions, b->submissions, c->submissions);
    CHECK(c->announced - b->announced == (signals ? 1u : 0u) && b->announced - a->announced == (signals ? 1u : 0u),
          "announced");
    CHECK(c->queued == c->announced && b->queued == b->announced, "queued");
    CHECK(!signals || (c->signal_serial == b->signal_serial + 1), "the serial of the signal");
    CHECK(!draws || (c->commands_serial == b->commands_serial + 1), "the serial of the commands");
}

static void both_paths_emit_the_same(void)
{
    party p = new_party("device", NULL), other = new_party("other", &p);
    vks_fence *fences[2], *gate;
    CHECK(vks_fence_create(p.device, 0, &fences[0]) == VKS_OK && vks_fence_create(p.device, 7, &fences[1]) == VKS_OK &&
              vks_fence_create(p.device, 1, &gate) == VKS_OK,
          "%s", vks_last_error()->text);
    record_batches(p.device);
    own(&p, 0);
    CHECK(draw(&p, NULL) == VKS_OK, "the ownership's first work acquires the image");
    for (uint32_t n_commands = 0; n_commands < 2; n_commands++)
        for (uint32_t n_signals = 0; n_signals < 3; n_signals++) {
            state before = look_at(&p, fences[0]);
            record fast = submit(&p, n_commands, fences, n_signals, gate, true);
            state between = look_at(&p, fences[0]);
            record usual = submit(&p, n_commands, fences, n_signals, gate, false);
            state after = look_at(&p, fences[0]);
            compare(&fast, &usual, n_signals);
            compare_states(&before, &between, &after, n_commands > 0, n_signals > 0);
        }
    hand_on(&p, 0);
    idle(&p);
    vks_fence *const all[] = {fences[0], fences[1], gate};
    for (int i = 0; i < 3; i++) {
        vks_fence_close(all[i]);
        vks_fence_unref(all[i]);
    }
    drop_party(&other);
    drop_party(&p);
    CHECK(stub_violations() == 0, "%u violations", stub_violations());
}

/* A surface counts once for each list that uses it on the fast path, which is why only "exactly
 * one" may be read from the count. */
static void a_list_that_is_given_twice_runs_twice_on_both_paths(void)
{
    party p = new_party("device", NULL);
    vks_fence *gate;
    CHECK(vks_fence_create(p.device, 1, &gate) == VKS_OK, "%s", vks_last_error()->text);
    record_batches(p.device);
    own(&p, 0);
    CHECK(draw(&p, NULL) == VKS_OK, "%s", vks_last_error()->text);
    record fast = submit(&p, 2, NULL, 0, gate, true), usual = submit(&p, 2, NULL, 0, gate, false);
    compare(&fast, &usual, 0);
    CHECK(fast.n_buffers == 2 && fast.buffers[0] == fast.buffers[1], "%u buffers", fast.n_buffers);
    hand_on(&p, 0);
    idle(&p);
    vks_fence_close(gate);
    vks_fence_unref(gate);
    drop_party(&p);
}

int main(void)
{
    RUN(both_paths_emit_the_same);
    RUN(a_list_that_is_given_twice_runs_twice_on_both_paths);
    return check_result();
}
