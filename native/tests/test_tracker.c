/* The present tracker, rule by rule: events go in, decisions come out. Handles: swapchains from 100
 * on, semaphores from 1 on, fences from 50 on. test_tracker_walk.c makes random calls in any
 * order. */
#include <string.h>

#include "check_macros.h"
#include "present/tracker.h"

enum { FENCES = 100 };
static bool is_signalled[FENCES];
static int probed[FENCES];

static bool probe(void *user, uint64_t fence)
{
    (void)user;
    probed[fence]++;
    return is_signalled[fence];
}

static vks_tracker *new_history(vks_present_policy policy, uint64_t fence_deadline)
{
    vks_tracker *tracker;
    memset(is_signalled, 0, sizeof is_signalled);
    memset(probed, 0, sizeof probed);
    CHECK(vks_tracker_create(policy, fence_deadline, &tracker) == VKS_OK, "memory");
    return tracker;
}

static vks_tracker *by_acquires(void) { return new_history(VKS_PRESENTS_BY_ACQUIRES, VKS_FOREVER); }
static vks_tracker *by_fences(void) { return new_history(VKS_PRESENTS_BY_FENCES, VKS_FOREVER); }

/* The decisions so far as text: "recycle 1, reset 50, destroy swapchain 100". */
static const char *taken(vks_tracker *tracker)
{
    static const char *const words[] = {"recycle", "reset", "destroy semaphore", "destroy fence", "destroy swapchain"};
    static char text[1000];
    vks_decision decision;
    size_t n = 0;
    text[0] = 0;
    while (vks_tracker_next(tracker, &decision) && n < sizeof text)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s %d", n ? ", " : "", words[decision.kind],
                              (int)decision.handle);
    return text;
}

static const char *collect(vks_tracker *tracker, uint64_t completed, uint64_t now)
{
    CHECK(vks_tracker_collect(tracker, completed, now, probe, NULL) == VKS_OK, "a probe");
    return taken(tracker);
}

#define DECIDES(decided, expected)                                                                                     \
    do {                                                                                                               \
        const char *text = (decided);                                                                                  \
        CHECK(!strcmp(text, expected), "%s, but: %s", expected, text);                                                 \
    } while (0)

static void swapchain(vks_tracker *tracker, uint64_t handle, uint32_t images, uint64_t last_use)
{
    CHECK(vks_tracker_swapchain(tracker, handle, images, false, last_use) == VKS_OK, "swapchain %d", (int)handle);
}

/* Semaphore 0: none. */
static void present(vks_tracker *tracker, uint32_t image, uint64_t semaphore, uint64_t fence, uint64_t now)
{
    CHECK(vks_tracker_presented(tracker, image, &semaphore, semaphore != 0, fence, now) == VKS_OK, "image %u", image);
}

/* A frame by acquires: its submission waited for the acquire's semaphore. */
static void frame(vks_tracker *tracker, uint32_t image, uint64_t serial, uint64_t semaphore)
{
    CHECK(vks_tracker_waited(tracker, image, serial) == VKS_OK, "image %u", image);
    present(tracker, image, semaphore, 0, 0);
}

static bool wants(vks_wanted wanted, vks_wanted_kind kind, uint64_t value)
{
    return wanted.kind == kind && wanted.value == value;
}

static vks_tracker_statistics statistics(const vks_tracker *tracker)
{
    vks_tracker_statistics told;
    vks_tracker_get_statistics(tracker, &told);
    return told;
}

/* ---- by acquires ---- */

/* rule: A1 */
static void a_semaphore_is_recycled_after_a_wait_for_the_next_acquire_of_its_image(void)
{
    vks_tracker *tracker = by_acquires();
    swapchain(tracker, 100, 2, 0);
    frame(tracker, 0, 1, 1);
    DECIDES(collect(tracker, 9, 0), "");
    CHECK(wants(vks_tracker_unproven(tracker), VKS_WANTS_IMAGE, 0), "only an acquire of it proves it");
    frame(tracker, 1, 2, 2);
    DECIDES(collect(tracker, 9, 0), "");
    frame(tracker, 0, 10, 3);
    CHECK(wants(vks_tracker_unproven(tracker), VKS_WANTS_SERIAL, 10), "it is submitted");
    DECIDES(collect(tracker, 9, 0), "");
    DECIDES(collect(tracker, 10, 0), "recycle 1");
    DECIDES(collect(tracker, 10, 0), "");
    vks_tracker_destroy(tracker);
}

/* rules: A1, A20 */
static void an_acquire_that_is_never_presented_is_a_proof_too(void)
{
    vks_tracker *tracker = by_acquires();
    swapchain(tracker, 100, 2, 0);
    frame(tracker, 0, 1, 1);
    CHECK(vks_tracker_waited(tracker, 0, 0) == VKS_OK, "its fence was seen signalled");
    DECIDES(collect(tracker, 0, 0), "recycle 1");
    CHECK(statistics(tracker).presents == 0, "nothing is left");
    vks_tracker_destroy(tracker);
}

/* rule: A1 */
static void an_image_that_is_presented_twice_without_a_submission_is_proven_once_for_both(void)
{
    vks_tracker *tracker = by_acquires();
    swapchain(tracker, 100, 2, 0);
    present(tracker, 0, 1, 0, 0);
    present(tracker, 0, 2, 0, 0);
    DECIDES(collect(tracker, 9, 0), "");
    frame(tracker, 0, 10, 3);
    DECIDES(collect(tracker, 10, 0), "recycle 1, recycle 2");
    vks_tracker_destroy(tracker);
}

/* rule: A2 */
static void presents_complete_in_order_whatever_is_proven_first(void)
{
    vks_tracker *tracker = by_acquires();
    swapchain(tracker, 100, 3, 0);
    frame(tracker, 0, 1, 1);
    frame(tracker, 1, 2, 2);
    frame(tracker, 2, 3, 3);
    frame(tracker, 1, 4, 4);
    DECIDES(collect(tracker, 4, 0), "");
    frame(tracker, 0, 5, 5);
    DECIDES(collect(tracker, 5, 0), "recycle 1, recycle 2");
    vks_tracker_destroy(tracker);
}

/* rules: A3, A5 */
static void a_starved_present_moves_to_the_back_and_its_carried_swapchains_to_the_new_front(void)
{
    vks_tracker *tracker = by_acquires();
    swapchain(tracker, 100, 3, 0);
    frame(tracker, 0, 1, 1);
    swapchain(tracker, 101, 3, 1);
    frame(tracker, 0, 2, 2); /* carries swapchain 100 */
    uint64_t most = 0;
    const char *first = "";
    for (uint64_t i = 3; i < 1003; i++) {
        frame(tracker, 1 + i % 2, i, i);
        const char *decided = collect(tracker, i, 0);
        if (!*first && *decided) {
            CHECK(!strcmp(decided, "recycle 1, recycle 3, recycle 4, recycle 5, recycle 6, destroy swapchain 100"),
                  "%s", decided);
            CHECK(statistics(tracker).moved == 1, "the front went to the back");
            first = "told";
        }
        most = statistics(tracker).semaphores > most ? statistics(tracker).semaphores : most;
    }
    CHECK(most <= 2 * 3 + 1, "%d semaphores at most", (int)most);
    CHECK(*first, "swapchain 100 went");
    CHECK(vks_tracker_waited(tracker, 0, 1003) == VKS_OK, "it comes at last");
    CHECK(strstr(collect(tracker, 1003, 0), "recycle 2"), "wherever it stands by now");
    vks_tracker_destroy(tracker);
}

/* rule: A4 */
static void a_swapchain_without_presents_is_destroyed_at_once_and_older_ones_stay(void)
{
    vks_tracker *tracker = by_acquires();
    swapchain(tracker, 100, 3, 0);
    frame(tracker, 0, 1, 1);
    swapchain(tracker, 101, 3, 1);
    CHECK(wants(vks_tracker_wanted(tracker), VKS_WANTS_PRESENT, 0), "101 has none");
    CHECK(vks_tracker_waited(tracker, 0, 2) == VKS_OK, "acquired, but not presented");
    swapchain(tracker, 102, 3, 2);
    CHECK(statistics(tracker).retired == 2, "100 and 101");
    DECIDES(collect(tracker, 1, 0), "");
    DECIDES(collect(tracker, 2, 0), "destroy swapchain 101");
    frame(tracker, 2, 3, 3);
    frame(tracker, 2, 4, 4);
    DECIDES(collect(tracker, 4, 0), "recycle 1, recycle 3, destroy swapchain 100");
    vks_tracker_destroy(tracker);
}

/* rule: A5 */
static void unproven_presents_complete_with_the_first_present_of_the_next_swapchain(void)
{
    vks_tracker *tracker = by_acquires();
    swapchain(tracker, 100, 2, 0);
    frame(tracker, 0, 1, 1);
    frame(tracker, 1, 2, 2);
    frame(tracker, 0, 3, 3); /* gives the first present its serial; it stays tracked */
    swapchain(tracker, 101, 2, 3);
    DECIDES(collect(tracker, 3, 0), "recycle 1");
    frame(tracker, 1, 4, 4);
    swapchain(tracker, 102, 2, 4); /* a present of 101, which is pending now, carried 100 */
    DECIDES(collect(tracker, 4, 0), "");
    CHECK(statistics(tracker).semaphores == 3 && statistics(tracker).retired == 2, "all are kept");
    frame(tracker, 0, 5, 5);
    CHECK(wants(vks_tracker_wanted(tracker), VKS_WANTS_IMAGE, 0), "image 0 carries them");
    DECIDES(collect(tracker, 5, 0), "");
    frame(tracker, 0, 6, 6);
    CHECK(wants(vks_tracker_wanted(tracker), VKS_WANTS_SERIAL, 6), "its proof is submitted");
    DECIDES(collect(tracker, 6, 0),
            "recycle 2, recycle 3, recycle 4, recycle 5, destroy swapchain 100, destroy swapchain 101");
    vks_tracker_destroy(tracker);
}

static void a_swapchain_is_not_destroyed_before_its_last_use_has_run(void)
{
    vks_tracker *tracker = by_acquires();
    swapchain(tracker, 100, 2, 0);
    frame(tracker, 0, 1, 1);
    swapchain(tracker, 101, 2, 8);
    frame(tracker, 0, 2, 2);
    CHECK(vks_tracker_waited(tracker, 0, 3) == VKS_OK, "acquired again");
    DECIDES(collect(tracker, 7, 0), "recycle 1, recycle 2");
    CHECK(wants(vks_tracker_wanted(tracker), VKS_WANTS_SERIAL, 8), "its last use");
    DECIDES(collect(tracker, 8, 0), "destroy swapchain 100");
    CHECK(wants(vks_tracker_wanted(tracker), VKS_WANTS_NOTHING, 0), "none is retired");
    vks_tracker_destroy(tracker);
}

/* rule: A6 */
static void ten_thousand_resizes_keep_no_proven_swapchain(void)
{
    vks_tracker *tracker = by_acquires();
    uint64_t serial = 0, most = 0;
    for (uint64_t i = 0; i < 10000; i++) {
        swapchain(tracker, 100 + i, 3, serial);
        for (uint64_t k = 0; k < i % 3; k++)
            frame(tracker, 0, ++serial, 1);
        collect(tracker, serial, 0);
        most = statistics(tracker).retired > most ? statistics(tracker).retired : most;
    }
    CHECK(most <= 3, "%d were retired at once", (int)most);
    vks_tracker_destroy(tracker);
}

/* rule: A11 */
static void a_shared_present_is_proven_by_its_own_submission(void)
{
    for (int told_after = 0; told_after < 2; told_after++) {
        vks_tracker *tracker = by_acquires();
        swapchain(tracker, 100, 2, 0);
        frame(tracker, 1, 1, 1);
        CHECK(vks_tracker_swapchain(tracker, 101, 1, true, 1) == VKS_OK, "shared");
        uint64_t semaphore = 2;
        CHECK(vks_tracker_presented(tracker, 0, &semaphore, 1, 0, 0) == VKS_BAD_VALUE, "it waits for none");
        for (uint64_t serial = 2; serial < 5; serial++) {
            if (!told_after)
                CHECK(vks_tracker_waited(tracker, 0, serial) == VKS_OK, "before");
            present(tracker, 0, 0, 0, 0);
            if (told_after)
                CHECK(vks_tracker_waited(tracker, 0, serial) == VKS_OK, "after");
        }
        CHECK(statistics(tracker).presents == 4, "none is proven");
        DECIDES(collect(tracker, 2, 0), "recycle 1, destroy swapchain 100");
        swapchain(tracker, 102, 2, 4);
        DECIDES(collect(tracker, 3, 0), "");
        DECIDES(collect(tracker, 4, 0), "destroy swapchain 101"); /* no acquire of 102 was needed */
        vks_tracker_destroy(tracker);
    }
}

/* rule: A12 */
static void a_failed_creation_retires_the_old_swapchain_which_is_kept_until_it_is_proven(void)
{
    vks_tracker *tracker = by_acquires();
    swapchain(tracker, 100, 2, 0);
    frame(tracker, 0, 1, 1);
    swapchain(tracker, 0, 0, 1);
    swapchain(tracker, 0, 0, 1);
    DECIDES(collect(tracker, 9, 0), "");
    CHECK(wants(vks_tracker_wanted(tracker), VKS_WANTS_PRESENT, 0), "there is no swapchain");
    CHECK(vks_tracker_waited(tracker, 0, 2) == VKS_BAD_VALUE, "there is no swapchain");
    CHECK(vks_tracker_presented(tracker, 0, NULL, 0, 0, 0) == VKS_BAD_VALUE, "there is no swapchain");
    swapchain(tracker, 101, 2, 0);
    frame(tracker, 0, 2, 2);
    frame(tracker, 0, 3, 3);
    DECIDES(collect(tracker, 9, 0), "recycle 1, recycle 2, destroy swapchain 100");
    vks_tracker_destroy(tracker);
}

/* ---- by fences ---- */

static void a_present_is_complete_when_its_fence_is_signalled_and_not_before(void)
{
    vks_tracker *tracker = by_fences();
    swapchain(tracker, 100, 2, 0);
    present(tracker, 0, 1, 50, 0);
    present(tracker, 1, 2, 51, 0);
    CHECK(vks_tracker_waited(tracker, 0, 0) == VKS_OK, "it is ignored");
    is_signalled[51] = true;
    DECIDES(collect(tracker, 9, 0), "");
    CHECK(!probed[51], "only the front is looked at");
    CHECK(wants(vks_tracker_unproven(tracker), VKS_WANTS_FENCE, 50), "the front");
    is_signalled[50] = true;
    DECIDES(collect(tracker, 9, 0), "recycle 1, reset 50, recycle 2, reset 51"); /* rule: A8 */
    CHECK(wants(vks_tracker_unproven(tracker), VKS_WANTS_NOTHING, 0), "none is left");
    vks_tracker_destroy(tracker);
}

/* rules: A7, A8 */
static void only_the_newest_fence_of_a_retired_swapchain_is_probed_until_it_is_signalled(void)
{
    vks_tracker *tracker = by_fences();
    swapchain(tracker, 100, 3, 0);
    for (uint64_t i = 0; i < 3; i++)
        present(tracker, (uint32_t)i, 1 + i, 50 + i, 0);
    swapchain(tracker, 101, 3, 7);
    is_signalled[50] = true;
    for (int i = 0; i < 10; i++)
        DECIDES(collect(tracker, 6, 0), "");
    CHECK(!probed[50] && !probed[51] && probed[52] == 10, "%d, %d, %d", probed[50], probed[51], probed[52]);
    CHECK(wants(vks_tracker_wanted(tracker), VKS_WANTS_FENCE, 52), "the newest");
    is_signalled[52] = true;
    DECIDES(collect(tracker, 6, 0), "recycle 3, reset 52"); /* 51 is not signalled: it is not reset */
    CHECK(wants(vks_tracker_wanted(tracker), VKS_WANTS_FENCE, 51), "the newest that is left");
    is_signalled[51] = true;
    DECIDES(collect(tracker, 6, 0), "recycle 2, reset 51, recycle 1, reset 50");
    CHECK(wants(vks_tracker_wanted(tracker), VKS_WANTS_SERIAL, 7), "its last use");
    DECIDES(collect(tracker, 7, 0), "destroy swapchain 100");
    vks_tracker_destroy(tracker);
}

/* rule: A16 */
static void a_fence_past_its_deadline_is_quarantined_with_its_semaphores_and_delays_no_other(void)
{
    vks_tracker *tracker = new_history(VKS_PRESENTS_BY_FENCES, 1000);
    swapchain(tracker, 100, 3, 0);
    present(tracker, 0, 1, 50, 10);
    present(tracker, 1, 2, 51, 20);
    swapchain(tracker, 101, 3, 0);
    present(tracker, 0, 3, 52, 30);
    present(tracker, 1, 4, 53, 2000);
    is_signalled[50] = is_signalled[53] = true;
    DECIDES(collect(tracker, 9, 1019), "");
    CHECK(statistics(tracker).quarantined == 0, "a nanosecond is left");
    DECIDES(collect(tracker, 9, 1030), "recycle 4, reset 53, recycle 1, reset 50");
    CHECK(statistics(tracker).quarantined == 2 && statistics(tracker).fences == 2, "51 and 52");
    CHECK(statistics(tracker).retired == 1 && statistics(tracker).semaphores == 2, "they keep what they guard");
    CHECK(wants(vks_tracker_wanted(tracker), VKS_WANTS_FENCE, 51), "swapchain 100 still needs it");
    CHECK(wants(vks_tracker_unproven(tracker), VKS_WANTS_FENCE, 52), "so does the current one");
    swapchain(tracker, 102, 3, 0);
    swapchain(tracker, 103, 3, 5);
    CHECK(wants(vks_tracker_wanted(tracker), VKS_WANTS_SERIAL, 5), "what may come is asked for first");
    DECIDES(collect(tracker, 5, 9999), "destroy swapchain 102");
    is_signalled[51] = true;
    DECIDES(collect(tracker, 9, 9999), "recycle 2, reset 51, destroy swapchain 100");
    CHECK(vks_tracker_close(tracker) == 1, "52 was never signalled");
    DECIDES(taken(tracker), "destroy swapchain 101, destroy swapchain 103, destroy semaphore 3, destroy fence 52");
    vks_tracker_destroy(tracker);
}

/* rule: A18 */
static void windows_of_one_present_each_keep_their_swapchain_until_their_own_fence(void)
{
    vks_tracker *first = by_fences(), *second = new_history(VKS_PRESENTS_BY_FENCES, VKS_FOREVER);
    swapchain(first, 100, 2, 0);
    swapchain(second, 200, 2, 0);
    present(first, 0, 1, 50, 0); /* one of them has the semaphore: its fence alone frees it */
    present(second, 0, 0, 51, 0);
    swapchain(first, 101, 2, 0);
    swapchain(second, 201, 2, 0);
    is_signalled[50] = true;
    DECIDES(collect(first, 9, 0), "recycle 1, reset 50, destroy swapchain 100");
    DECIDES(collect(second, 9, 0), "");
    is_signalled[51] = true;
    DECIDES(collect(second, 9, 0), "reset 51, destroy swapchain 200");
    vks_tracker_destroy(first);
    vks_tracker_destroy(second);
}

/* ---- both ---- */

/* rules: A15, A19 */
static void a_semaphore_of_another_submission_is_recycled_when_that_has_run(void)
{
    for (int fences = 0; fences < 2; fences++) {
        vks_tracker *tracker = fences ? by_fences() : by_acquires();
        CHECK(vks_tracker_semaphore(tracker, 1, 5, false) == VKS_OK, "an acquire's, waited for by 5");
        CHECK(vks_tracker_semaphore(tracker, 2, 3, true) == VKS_OK,
              "of a present that ran out of memory: no wait follows");
        CHECK(vks_tracker_semaphore(tracker, 3, 4, false) == VKS_OK, "in any order");
        DECIDES(collect(tracker, 2, 0), "");
        DECIDES(collect(tracker, 3, 0), "destroy semaphore 2");
        DECIDES(collect(tracker, 5, 0), "recycle 3, recycle 1");
        vks_tracker_destroy(tracker);
    }
}

static void close_destroys_everything_with_the_swapchains_first(void)
{
    vks_tracker *tracker = by_acquires();
    swapchain(tracker, 100, 2, 0);
    frame(tracker, 0, 1, 1);
    swapchain(tracker, 101, 2, 1);
    frame(tracker, 0, 2, 2);
    frame(tracker, 0, 3, 3);
    CHECK(vks_tracker_semaphore(tracker, 4, 9, false) == VKS_OK, "an acquire's");
    DECIDES(collect(tracker, 1, 0), "");
    CHECK(vks_tracker_close(tracker) == 3, "none had a proof");
    DECIDES(taken(tracker), "destroy swapchain 100, destroy swapchain 101, destroy semaphore 1, destroy semaphore 2, "
                            "destroy semaphore 3, destroy semaphore 4");
    CHECK(vks_tracker_close(tracker) == 0 && !*taken(tracker), "nothing is left");
    vks_tracker_destroy(tracker);
}

static void invalid_events_are_refused_and_change_nothing(void)
{
    vks_tracker *acquires = by_acquires(), *fences = by_fences();
    const uint64_t nine[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, with_zero[2] = {1, 0};
    swapchain(acquires, 100, 2, 0);
    swapchain(fences, 100, 2, 0);
    CHECK(vks_tracker_swapchain(acquires, 101, 0, false, 0) == VKS_BAD_VALUE, "no images");
    CHECK(vks_tracker_swapchain(acquires, 101, VKS_MAX_IMAGES + 1, false, 0) == VKS_BAD_VALUE, "too many");
    CHECK(vks_tracker_swapchain(acquires, 100, 2, false, 0) == VKS_BAD_VALUE, "it is current");
    CHECK(vks_tracker_waited(acquires, 2, 1) == VKS_BAD_VALUE, "two images");
    CHECK(vks_tracker_waited(acquires, 0, UINT64_MAX) == VKS_BAD_VALUE, "no serial");
    CHECK(vks_tracker_presented(acquires, 2, NULL, 0, 0, 0) == VKS_BAD_VALUE, "two images");
    CHECK(vks_tracker_presented(acquires, 0, nine, 9, 0, 0) == VKS_BAD_VALUE, "nine");
    CHECK(vks_tracker_presented(acquires, 0, with_zero, 2, 0, 0) == VKS_BAD_VALUE, "0");
    CHECK(vks_tracker_presented(acquires, 0, nine, 1, 50, 0) == VKS_BAD_VALUE, "a fence");
    CHECK(vks_tracker_presented(fences, 0, nine, 1, 0, 0) == VKS_BAD_VALUE, "no fence");
    CHECK(vks_tracker_semaphore(acquires, 0, 0, false) == VKS_BAD_VALUE, "0");
    CHECK(vks_tracker_collect(fences, 0, 0, NULL, NULL) == VKS_BAD_VALUE, "no probe");
    CHECK(statistics(acquires).retired == 0 && statistics(acquires).semaphores == 0, "nothing changed");
    vks_tracker_destroy(acquires);
    vks_tracker_destroy(fences);
}

int main(void)
{
    RUN(a_semaphore_is_recycled_after_a_wait_for_the_next_acquire_of_its_image);
    RUN(an_acquire_that_is_never_presented_is_a_proof_too);
    RUN(an_image_that_is_presented_twice_without_a_submission_is_proven_once_for_both);
    RUN(presents_complete_in_order_whatever_is_proven_first);
    RUN(a_starved_present_moves_to_the_back_and_its_carried_swapchains_to_the_new_front);
    RUN(a_swapchain_without_presents_is_destroyed_at_once_and_older_ones_stay);
    RUN(unproven_presents_complete_with_the_first_present_of_the_next_swapchain);
    RUN(a_swapchain_is_not_destroyed_before_its_last_use_has_run);
    RUN(ten_thousand_resizes_keep_no_proven_swapchain);
    RUN(a_shared_present_is_proven_by_its_own_submission);
    RUN(a_failed_creation_retires_the_old_swapchain_which_is_kept_until_it_is_proven);
    RUN(a_present_is_complete_when_its_fence_is_signalled_and_not_before);
    RUN(only_the_newest_fence_of_a_retired_swapchain_is_probed_until_it_is_signalled);
    RUN(a_fence_past_its_deadline_is_quarantined_with_its_semaphores_and_delays_no_other);
    RUN(windows_of_one_present_each_keep_their_swapchain_until_their_own_fence);
    RUN(a_semaphore_of_another_submission_is_recycled_when_that_has_run);
    RUN(close_destroys_everything_with_the_swapchains_first);
    RUN(invalid_events_are_refused_and_change_nothing);
    return check_result();
}
