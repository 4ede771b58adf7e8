/* damage.h: which pixels the last turns of a surface changed (rule G2). Internal. */
#ifndef VKS_DAMAGE_H
#define VKS_DAMAGE_H

#include "shm/mutex_page.h"

/* Says for the caller's turn, in which it owns the surface, that nothing outside the box changes.
 * Turns about which nothing is said may change the whole. */
void vks_mutex_set_damage(const vks_mutex_handle *handle, vks_box box);
/* The least box around what turns have changed whose releases came after the epoch `since`; false:
 * that may be anything. The caller owns the surface. */
bool vks_mutex_get_damage(const vks_mutex_handle *handle, uint64_t since, vks_box *out);

#endif
