/* bridge.h: ticks for another process. The page is a mail (mailbox.h) in shared memory: newest wins, and a reader that was
 * stopped costs the one who tells nothing and gets one tick when it goes on (V18). The reader's display listens to it,
 * and ticks by its own timer until the bridge has proven itself, or where it falls silent (V19).
 *
 * The reader says in the page who he is and whether he wants any: a display that nobody observes there costs nothing
 * here. Any thread may call any of these. After fork() they answer VKS_FORKED, or do nothing.
 */
#ifndef VKS_BRIDGE_H
#define VKS_BRIDGE_H

#include "vsync/display.h"

typedef struct vks_bridge vks_bridge;         /* the end that tells */
typedef struct vks_bridge_end vks_bridge_end; /* the reader's */

vks_status vks_bridge_create(vks_dispatcher *dispatcher, vks_bridge **out);
int vks_bridge_fd(const vks_bridge *bridge); /* of the page; the bridge's */
/* The reader has said that he is there, and has not died. */
bool vks_bridge_has_reader(const vks_bridge *bridge);
bool vks_bridge_is_attending(const vks_bridge *bridge);
void vks_bridge_close(vks_bridge *bridge);   /* the reader falls back on its timer; idempotent */
void vks_bridge_destroy(vks_bridge *bridge); /* closes */

/* Maps a page that came from outside, and has `display` listen to it. VKS_BAD_PAGE. Does not close the fd. */
vks_status vks_bridge_open(vks_display *display, int fd, vks_bridge_end **out);
/* The display listens no more. It must not have been freed. */
void vks_bridge_leave(vks_bridge_end *end);

#endif
