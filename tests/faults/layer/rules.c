/* rules.c: how often each entry was called, and which calls are to fail. */
#include <stdio.h>
#include <string.h>

#include "layer.h"

enum { RULES = 64 };

static const struct {
    const char *name, *alias;
    bool can_be_lost;
} entries[ENTRY_COUNT] = {
#define X(name, alias, lose) [ENTRY_##name] = {"vk" #name, alias, lose},
    X(CreateInstance, "", 0) INSTANCE_ENTRIES(X) DEVICE_ENTRIES(X)
#undef X
};

static atomic_uint_fast64_t calls[ENTRY_COUNT], failed[ENTRY_COUNT];
static struct rule rules[RULES];
static uint32_t rule_count;
static atomic_bool has_rules; /* so that without rules no lock is taken */
static _Thread_local bool last_was_sticky;
struct forced vks_forced;

const char *vks_entry_name(enum entry entry) { return entries[entry].name; }

int vks_entry_find(const char *name)
{
    for (int i = 0; i < ENTRY_COUNT; i++) {
        if (strcmp(name, entries[i].name) == 0 || (name[0] != '\0' && strcmp(name, entries[i].alias) == 0))
            return i;
    }
    return -1;
}

bool vks_sticky(void) { return last_was_sticky; }

int vks_rule_add(struct rule rule)
{
    pthread_mutex_lock(&vks_lock);
    const bool has_room = rule_count < RULES;
    if (has_room)
        rules[rule_count++] = rule;
    atomic_store(&has_rules, true);
    pthread_mutex_unlock(&vks_lock);
    return has_room ? 0 : -1;
}

void vks_rules_reset(void)
{
    pthread_mutex_lock(&vks_lock);
    rule_count = 0;
    atomic_store(&has_rules, false);
    vks_forced = (struct forced){0};
    for (int i = 0; i < ENTRY_COUNT; i++) {
        atomic_store(&calls[i], 0);
        atomic_store(&failed[i], 0);
    }
    pthread_mutex_unlock(&vks_lock);
}

static bool applies(struct rule *rule)
{
    const uint64_t n = ++rule->seen;
    if (n < rule->nth || (n - rule->nth) % rule->every != 0)
        return false;
    return rule->count == 0 || (n - rule->nth) / rule->every < rule->count;
}

/* Vulkan: presents with these results have queued their waits, and their fences signal (A15); an acquire that is
 * SUBOPTIMAL has acquired. */
static bool reaches_the_driver(enum entry entry, VkResult result)
{
    switch (entry) {
    case ENTRY_QueuePresentKHR:
        return result == VK_SUBOPTIMAL_KHR || result == VK_ERROR_OUT_OF_DATE_KHR ||
               result == VK_ERROR_SURFACE_LOST_KHR || result == VK_ERROR_FULL_SCREEN_EXCLUSIVE_MODE_LOST_EXT;
    case ENTRY_AcquireNextImageKHR:
    case ENTRY_AcquireNextImage2KHR:
        return result == VK_SUBOPTIMAL_KHR;
    default:
        return false;
    }
}

static void lose(struct context *context, const struct rule *rule)
{
    /* The driver first finishes, for the application may now destroy what it uses; nothing new reaches it. */
    if (!atomic_exchange(&context->lost, true) && rule->idle)
        context->DeviceWaitIdle((VkDevice)(uintptr_t)context->handle);
    pthread_mutex_lock(&vks_lock);
    vks_event(EVENT_LOST, vks_find(TYPE_DEVICE, context->handle), 0, VK_ERROR_DEVICE_LOST, 0);
    pthread_mutex_unlock(&vks_lock);
}

enum verdict vks_fault(enum entry entry, struct context *context, VkResult *result)
{
    atomic_fetch_add_explicit(&calls[entry], 1, memory_order_relaxed);
    last_was_sticky = false;
    if (context != NULL && entries[entry].can_be_lost && atomic_load_explicit(&context->lost, memory_order_acquire)) {
        atomic_fetch_add_explicit(&failed[entry], 1, memory_order_relaxed);
        *result = VK_ERROR_DEVICE_LOST;
        return INSTEAD;
    }
    if (!atomic_load_explicit(&has_rules, memory_order_acquire))
        return PASS;
    struct rule chosen = {.count = 0, .entry = ENTRY_COUNT};
    pthread_mutex_lock(&vks_lock);
    for (uint32_t i = 0; i < rule_count; i++) { /* all of them count the call; the first that applies decides */
        if (rules[i].entry == entry && applies(&rules[i]) && chosen.entry == ENTRY_COUNT)
            chosen = rules[i];
    }
    if (chosen.entry != ENTRY_COUNT)
        vks_fault_event(entry, chosen.result);
    pthread_mutex_unlock(&vks_lock);
    if (chosen.entry == ENTRY_COUNT)
        return PASS;
    atomic_fetch_add_explicit(&failed[entry], 1, memory_order_relaxed);
    last_was_sticky = chosen.sticky;
    *result = chosen.result;
    if (chosen.result == VK_ERROR_DEVICE_LOST && context != NULL && context->instance != NULL)
        lose(context, &chosen);
    if (chosen.after < 0 ? reaches_the_driver(entry, chosen.result) : chosen.after)
        return AFTER;
    return INSTEAD;
}

bool vks_hidden(const char *extension)
{
    for (uint32_t i = 0; i < vks_forced.hidden_count; i++) {
        if (strcmp(vks_forced.hidden[i], extension) == 0)
            return true;
    }
    return false;
}

uint64_t vks_not_before(enum hold_kind kind)
{
    struct hold *hold = &vks_forced.holds[kind];
    if (hold->delay == 0)
        return 0;
    const uint64_t n = ++hold->seen;
    if (n < hold->nth || (hold->count != 0 && n - hold->nth >= hold->count))
        return 0;
    return hold->delay == FOR_EVER ? FOR_EVER : vks_now() + hold->delay;
}

/* ---- for the test ---------------------------------------------------------------------------------------------- */

size_t vks_faults_called(vks_faults_calls *out, size_t room)
{
    for (size_t i = 0; i < ENTRY_COUNT && i < room; i++) {
        out[i] = (vks_faults_calls){.calls = atomic_load(&calls[i]), .failed = atomic_load(&failed[i])};
        snprintf(out[i].entry, sizeof out[i].entry, "%s", entries[i].name);
    }
    return ENTRY_COUNT;
}

void vks_faults_reset(void)
{
    vks_rules_reset();
    pthread_mutex_lock(&vks_lock);
    vks_events_reset();
    vks_objects_reset();
    pthread_mutex_unlock(&vks_lock);
    vks_faults_control("release", NULL, 0);
}
