/* The damage of the last turns in a mutex page. */
#include <stdlib.h>

#include "check_macros.h"
#include "shm/damage.h"

static vks_mutex_page *new_page(vks_mutex_handle *handle)
{
    vks_mutex_page *page = aligned_alloc(64, VKS_MUTEX_PAGE_SIZE);
    vks_page_init(&page->header, VKS_PAGE_MUTEX, VKS_MUTEX_PAGE_SIZE);
    vks_mutex_init(page);
    CHECK(vks_mutex_join(page, "test", handle) == VKS_OK, "a slot");
    return page;
}

/* One turn; `box` NULL: its owner says nothing. */
static void turn(vks_mutex_handle *handle, const vks_box *box)
{
    vks_wait_point wait_point = {0};
    uint64_t seen;
    CHECK(vks_mutex_try(handle, 0, &wait_point, &seen) == VKS_OK, "an acquire");
    if (box)
        vks_mutex_set_damage(handle, *box);
    CHECK(vks_mutex_release(handle, 0, &wait_point) == VKS_OK, "a release");
}

static uint64_t now(const vks_mutex_handle *handle) { return vks_word_epoch(atomic_load(&handle->page->word)); }

static bool is_box(vks_box box, uint32_t x, uint32_t y, uint32_t width, uint32_t height)
{
    return box.x == x && box.y == y && box.width == width && box.height == height;
}

/* rules: G2 */
static void the_box_around_several_turns_has_all_of_them(void)
{
    vks_mutex_handle handle;
    vks_mutex_page *page = new_page(&handle);
    uint64_t before = now(&handle);
    vks_box found = {9, 9, 9, 9};
    CHECK(vks_mutex_get_damage(&handle, before, &found) && is_box(found, 0, 0, 0, 0), "no turn, no damage");
    turn(&handle, &(vks_box){4, 5, 2, 1});
    turn(&handle, &(vks_box){0});
    turn(&handle, &(vks_box){1, 7, 1, 3});
    CHECK(vks_mutex_get_damage(&handle, before, &found) && is_box(found, 1, 5, 5, 5), "%u %u %u %u", found.x, found.y,
          found.width, found.height);
    CHECK(vks_mutex_get_damage(&handle, before + 1, &found) && is_box(found, 1, 7, 1, 3), "the last two turns");
    free(page);
}

/* rules: G2 */
static void a_turn_about_which_nothing_is_said_may_have_changed_everything(void)
{
    vks_mutex_handle handle;
    vks_mutex_page *page = new_page(&handle);
    vks_box found;
    turn(&handle, &(vks_box){1, 1, 1, 1});
    uint64_t before = now(&handle);
    turn(&handle, NULL);
    turn(&handle, &(vks_box){1, 1, 1, 1});
    CHECK(!vks_mutex_get_damage(&handle, before, &found), "the turn between");
    CHECK(vks_mutex_get_damage(&handle, before + 1, &found), "the turn behind it");
    CHECK(!vks_mutex_get_damage(&handle, before + 3, &found), "a turn that has not been");
    free(page);
}

/* rules: G2 */
static void the_page_remembers_the_last_eight_turns(void)
{
    vks_mutex_handle handle;
    vks_mutex_page *page = new_page(&handle);
    vks_box found;
    uint64_t before = now(&handle);
    for (uint32_t i = 0; i <= VKS_DAMAGES; i++)
        turn(&handle, &(vks_box){i, 0, 1, 1});
    CHECK(!vks_mutex_get_damage(&handle, before, &found), "nine turns");
    CHECK(vks_mutex_get_damage(&handle, before + 1, &found) && is_box(found, 1, 0, VKS_DAMAGES, 1), "eight turns");
    free(page);
}

/* rules: G2, X15 */
static void sides_that_another_process_made_up_do_not_overflow(void)
{
    vks_mutex_handle handle;
    vks_mutex_page *page = new_page(&handle);
    vks_box found;
    uint64_t before = now(&handle);
    turn(&handle, &(vks_box){UINT32_MAX, 3, UINT32_MAX, UINT32_MAX});
    turn(&handle, &(vks_box){7, UINT32_MAX, 1, 1});
    CHECK(vks_mutex_get_damage(&handle, before, &found) && is_box(found, 7, 3, UINT32_MAX - 7, UINT32_MAX - 3),
          "%u %u %u %u", found.x, found.y, found.width, found.height);
    free(page);
}

int main(void)
{
    RUN(the_box_around_several_turns_has_all_of_them);
    RUN(a_turn_about_which_nothing_is_said_may_have_changed_everything);
    RUN(the_page_remembers_the_last_eight_turns);
    RUN(sides_that_another_process_made_up_do_not_overflow);
    return check_result();
}
