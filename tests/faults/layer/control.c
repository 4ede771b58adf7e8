/* control.c: the language of faults.h. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proofs.h"

enum { WORDS = 16 };

static int wrong(char *error, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int wrong(char *error, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (error != NULL && size > 0)
        vsnprintf(error, size, format, arguments);
    va_end(arguments);
    return -1;
}

/* ---- words ----------------------------------------------------------------------------------------------------- */

static bool number(const char *text, uint64_t *out)
{
    char *end;
    *out = strtoull(text, &end, 0);
    return isdigit((unsigned char)text[0]) && *end == '\0';
}

static bool extent(const char *text, VkExtent2D *out)
{
    if (strcmp(text, "undefined") == 0) {
        *out = (VkExtent2D){UINT32_MAX, UINT32_MAX};
        return true;
    }
    int used = 0;
    return sscanf(text, "%ux%u%n", &out->width, &out->height, &used) == 2 && text[used] == '\0';
}

static bool result_of(const char *text, VkResult *out)
{
    static const struct {
        const char *name;
        VkResult result;
    } results[] = {
#define R(name) {#name, VK_##name}
        R(NOT_READY),
        R(TIMEOUT),
        R(INCOMPLETE),
        R(SUBOPTIMAL_KHR),
        R(ERROR_OUT_OF_HOST_MEMORY),
        R(ERROR_OUT_OF_DEVICE_MEMORY),
        R(ERROR_INITIALIZATION_FAILED),
        R(ERROR_DEVICE_LOST),
        R(ERROR_MEMORY_MAP_FAILED),
        R(ERROR_LAYER_NOT_PRESENT),
        R(ERROR_EXTENSION_NOT_PRESENT),
        R(ERROR_FEATURE_NOT_PRESENT),
        R(ERROR_INCOMPATIBLE_DRIVER),
        R(ERROR_TOO_MANY_OBJECTS),
        R(ERROR_FORMAT_NOT_SUPPORTED),
        R(ERROR_UNKNOWN),
        R(ERROR_INVALID_EXTERNAL_HANDLE),
        R(ERROR_SURFACE_LOST_KHR),
        R(ERROR_NATIVE_WINDOW_IN_USE_KHR),
        R(ERROR_OUT_OF_DATE_KHR),
        R(ERROR_FULL_SCREEN_EXCLUSIVE_MODE_LOST_EXT),
#undef R
    };
    char *end;
    const long value = strtol(text, &end, 10);
    if (*end == '\0' && end != text) {
        *out = (VkResult)value;
        return true;
    }
    if (strncmp(text, "VK_", 3) == 0)
        text += 3;
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
        const char *name = results[i].name;
        const char *plain = strncmp(name, "ERROR_", 6) == 0 ? name + 6 : name;
        const size_t length = strlen(text); /* OUT_OF_DATE says ERROR_OUT_OF_DATE_KHR well enough */
        if (strcmp(text, name) == 0 ||
            (strncmp(text, plain, length) == 0 && (plain[length] == '\0' || strcmp(plain + length, "_KHR") == 0))) {
            *out = results[i].result;
            return true;
        }
    }
    return false;
}

/* ---- statements: words[0] is the verb -------------------------------------------------------------------------- */

typedef int statement(char **words, int count, char *error, size_t size);

static int say_fail(char **words, int count, char *error, size_t size)
{
    struct rule rule = {.nth = 1, .count = 1, .every = 1, .after = -1, .idle = true};
    const int entry = count > 2 ? vks_entry_find(words[1]) : -1;
    if (count < 3 || entry < 0)
        return wrong(error, size, "fail ENTRY RESULT: the layer does not stand before '%s'", count > 1 ? words[1] : "");
    rule.entry = (enum entry)entry;
    if (!result_of(words[2], &rule.result) || rule.result == VK_SUCCESS)
        return wrong(error, size, "'%s' is no VkResult to fail with", words[2]);
    for (int i = 3; i < count; i++) {
        uint64_t value = 0;
        char *equals = strchr(words[i], '=');
        if (equals == NULL || !number(equals + 1, &value))
            return wrong(error, size, "'%s' is not OPTION=NUMBER", words[i]);
        *equals = '\0';
        if (strcmp(words[i], "nth") == 0 && value > 0)
            rule.nth = value;
        else if (strcmp(words[i], "count") == 0)
            rule.count = value;
        else if (strcmp(words[i], "every") == 0 && value > 0)
            rule.every = value;
        else if (strcmp(words[i], "after") == 0)
            rule.after = value != 0;
        else if (strcmp(words[i], "sticky") == 0)
            rule.sticky = value != 0;
        else if (strcmp(words[i], "idle") == 0)
            rule.idle = value != 0;
        else
            return wrong(error, size, "fail has no %s=%llu", words[i], (unsigned long long)value);
    }
    return vks_rule_add(rule) == 0 ? 0 : wrong(error, size, "there are too many rules");
}

static void withhold_pending(struct object *object, void *kinds)
{
    struct fence *fence = (struct fence *)object;
    if (fence->pending && ((unsigned *)kinds)[0] >> fence->kind & 1u)
        fence->not_before = FOR_EVER;
}

static void freeze(struct object *object, void *ignored)
{
    struct semaphore *semaphore = (struct semaphore *)object;
    const VkDevice device = (VkDevice)(uintptr_t)object->context->handle;
    (void)ignored;
    if (!semaphore->is_timeline || device == VK_NULL_HANDLE)
        return;
    uint64_t value = 0;
    if (object->context->GetSemaphoreCounterValue(device, (VkSemaphore)(uintptr_t)object->handle, &value) == VK_SUCCESS)
        semaphore->value = value;
    semaphore->frozen = true;
}

static int hold(char **words, int count, uint64_t delay, int options, char *error, size_t size)
{
    static const char *const names[HOLD_KINDS] = {"submit", "present", "acquire"};
    unsigned kinds = strcmp(words[1], "fences") == 0 ? (1u << HOLD_KINDS) - 1 : 0;
    for (unsigned i = 0; i < HOLD_KINDS; i++)
        kinds |= strcmp(words[1], names[i]) == 0 ? 1u << i : 0;
    if (kinds == 0)
        return wrong(error, size, "'%s' is not submit, present, acquire or fences", words[1]);
    struct hold hold = {.delay = delay, .nth = 1};
    for (int i = options; i < count; i++) {
        if (strncmp(words[i], "nth=", 4) == 0 && number(words[i] + 4, &hold.nth) && hold.nth > 0)
            continue;
        if (strncmp(words[i], "count=", 6) != 0 || !number(words[i] + 6, &hold.count))
            return wrong(error, size, "'%s' is not nth=N or count=C", words[i]);
    }
    pthread_mutex_lock(&vks_lock);
    for (unsigned i = 0; i < HOLD_KINDS; i++) {
        if (kinds >> i & 1u)
            vks_forced.holds[i] = hold;
    }
    if (delay == FOR_EVER && hold.nth == 1 && hold.count == 0)
        vks_each(TYPE_FENCE, withhold_pending, &kinds);
    pthread_mutex_unlock(&vks_lock);
    return 0;
}

static int say_delay(char **words, int count, char *error, size_t size)
{
    uint64_t milliseconds = 0;
    if (count < 3 || !number(words[2], &milliseconds) || milliseconds > 1000000)
        return wrong(error, size, "delay KIND MILLISECONDS, up to 1000000");
    return hold(words, count, milliseconds * 1000000u, 3, error, size);
}

static int say_withhold(char **words, int count, char *error, size_t size)
{
    if (count < 2)
        return wrong(error, size, "withhold fences, submit, present, acquire or semaphores");
    if (strcmp(words[1], "semaphores") != 0)
        return hold(words, count, FOR_EVER, 2, error, size);
    pthread_mutex_lock(&vks_lock);
    vks_forced.hold_semaphores = true;
    vks_each(TYPE_SEMAPHORE, freeze, NULL);
    pthread_mutex_unlock(&vks_lock);
    return 0;
}

static void let_go(struct object *object, void *ignored)
{
    (void)ignored;
    if (object->type == TYPE_FENCE)
        ((struct fence *)object)->not_before = 0;
    else
        ((struct semaphore *)object)->frozen = false;
}

static int say_release(char **words, int count, char *error, size_t size)
{
    (void)words, (void)count, (void)error, (void)size;
    pthread_mutex_lock(&vks_lock);
    memset(vks_forced.holds, 0, sizeof vks_forced.holds);
    vks_forced.hold_semaphores = false;
    vks_each(TYPE_FENCE, let_go, NULL);
    vks_each(TYPE_SEMAPHORE, let_go, NULL);
    pthread_mutex_unlock(&vks_lock);
    return 0;
}

static int say_images(char **words, int count, char *error, size_t size)
{
    for (int i = 1; i < count; i++) {
        uint64_t value = 0;
        char *equals = strchr(words[i], '=');
        if (equals == NULL || !number(equals + 1, &value) || value > UINT32_MAX)
            return wrong(error, size, "'%s' is not OPTION=NUMBER", words[i]);
        const bool is_max = strncmp(words[i], "max=", 4) == 0;
        uint32_t *field = is_max                                ? &vks_forced.max_images
                          : strncmp(words[i], "min=", 4) == 0   ? &vks_forced.min_images
                          : strncmp(words[i], "count=", 6) == 0 ? &vks_forced.images
                                                                : NULL;
        if (field == NULL || (field == &vks_forced.images && value > PROOFS))
            return wrong(error, size, "images has no '%s=%llu'", words[i], (unsigned long long)value);
        pthread_mutex_lock(&vks_lock);
        *field = is_max && value == 0 ? UINT32_MAX : (uint32_t)value;
        pthread_mutex_unlock(&vks_lock);
    }
    return 0;
}

static int say_extent(char **words, int count, char *error, size_t size)
{
    for (int i = 1; i < count; i++) {
        VkExtent2D value;
        const char *equals = strchr(words[i], '=');
        if (equals == NULL || !extent(equals + 1, &value))
            return wrong(error, size, "'%s' is not current=, min= or max=WIDTHxHEIGHT", words[i]);
        pthread_mutex_lock(&vks_lock);
        struct forced *forced = &vks_forced;
        bool known = true;
        if (strncmp(words[i], "current=", 8) == 0)
            forced->has_current = true, forced->current = value;
        else if (strncmp(words[i], "min=", 4) == 0)
            forced->has_min = true, forced->min = value;
        else if (strncmp(words[i], "max=", 4) == 0)
            forced->has_max = true, forced->max = value;
        else
            known = false;
        pthread_mutex_unlock(&vks_lock);
        if (!known)
            return wrong(error, size, "extent has no '%s'", words[i]);
    }
    return 0;
}

static int say_modes(char **words, int count, char *error, size_t size)
{
    static const char *const names[] = {"immediate", "mailbox", "fifo", "fifo_relaxed", "demand", "continuous"};
    static const VkPresentModeKHR modes[] = {VK_PRESENT_MODE_IMMEDIATE_KHR,
                                             VK_PRESENT_MODE_MAILBOX_KHR,
                                             VK_PRESENT_MODE_FIFO_KHR,
                                             VK_PRESENT_MODE_FIFO_RELAXED_KHR,
                                             VK_PRESENT_MODE_SHARED_DEMAND_REFRESH_KHR,
                                             VK_PRESENT_MODE_SHARED_CONTINUOUS_REFRESH_KHR};
    VkPresentModeKHR wanted[8];
    uint32_t n = 0;
    char *rest = NULL;
    for (char *name = count < 2 ? NULL : strtok_r(words[1], ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        size_t i = 0;
        while (i < sizeof names / sizeof names[0] && strcmp(name, names[i]) != 0)
            i++;
        if (i == sizeof names / sizeof names[0] || n == 8)
            return wrong(error, size, "'%s' is no present mode", name);
        wanted[n++] = modes[i];
    }
    pthread_mutex_lock(&vks_lock);
    vks_forced.has_modes = true;
    vks_forced.mode_count = n;
    memcpy(vks_forced.modes, wanted, n * sizeof *wanted);
    pthread_mutex_unlock(&vks_lock);
    return 0;
}

static int say_hide(char **words, int count, char *error, size_t size)
{
    pthread_mutex_lock(&vks_lock);
    const bool can = count == 2 && vks_forced.hidden_count < 16 && strlen(words[1]) < VK_MAX_EXTENSION_NAME_SIZE;
    if (can)
        strcpy(vks_forced.hidden[vks_forced.hidden_count++], words[1]);
    pthread_mutex_unlock(&vks_lock);
    return can ? 0 : wrong(error, size, "hide EXTENSION, at most 16 of them");
}

static int say_log(char **words, int count, char *error, size_t size)
{
    if (count != 2 || (strcmp(words[1], "on") != 0 && strcmp(words[1], "off") != 0))
        return wrong(error, size, "log on or log off");
    atomic_store(&vks_logging, strcmp(words[1], "on") == 0);
    return 0;
}

static int say_reset(char **words, int count, char *error, size_t size)
{
    (void)words, (void)count, (void)error, (void)size;
    vks_faults_reset();
    return 0;
}

static int run(char *text, char *error, size_t size)
{
    static const struct {
        const char *verb;
        statement *say;
    } statements[] = {{"fail", say_fail},     {"delay", say_delay},   {"withhold", say_withhold},
                      {"images", say_images}, {"extent", say_extent}, {"release", say_release},
                      {"modes", say_modes},   {"hide", say_hide},     {"log", say_log},
                      {"reset", say_reset}};
    char *words[WORDS], *rest = NULL;
    int count = 0;
    for (char *word = strtok_r(text, " \t", &rest); word != NULL; word = strtok_r(NULL, " \t", &rest)) {
        if (count == WORDS)
            return wrong(error, size, "a statement has too many words");
        words[count++] = word;
    }
    for (size_t i = 0; count > 0 && i < sizeof statements / sizeof statements[0]; i++) {
        if (strcmp(words[0], statements[i].verb) == 0)
            return statements[i].say(words, count, error, size);
    }
    return count == 0 ? 0 : wrong(error, size, "'%s' is no statement", words[0]);
}

int vks_faults_control(const char *statements, char *error, size_t size)
{
    char *copy = strdup(statements), *rest = NULL;
    if (copy == NULL)
        return wrong(error, size, "no memory");
    int status = 0;
    for (char *text = strtok_r(copy, ";\n", &rest); text != NULL && status == 0; text = strtok_r(NULL, ";\n", &rest))
        status = run(text, error, size);
    free(copy);
    return status;
}

static void lock(void) { pthread_mutex_lock(&vks_lock); }
static void unlock(void) { pthread_mutex_unlock(&vks_lock); }

/* Once a process, when the layer is first loaded. A child after fork() finds the lock free. */
int vks_control_from_environment(void)
{
    static atomic_bool done;
    const char *statements = getenv("VKSHARE_FAULTS");
    char error[200] = "";
    if (atomic_exchange(&done, true))
        return 0;
    pthread_atfork(lock, unlock, unlock);
    if (statements == NULL || vks_faults_control(statements, error, sizeof error) == 0)
        return 0;
    fprintf(stderr, "%s: VKSHARE_FAULTS: %s\n", LAYER_NAME, error);
    return -1;
}
