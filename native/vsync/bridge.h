/* bridge.h: ticks for another process. The page is a mailbox (mailbox.h) in shared memory, which
 * keeps the latest tick: a stopped reader costs the writer nothing, and gets one tick when it
 * continues (V18). The reader's display takes ticks from it. It ticks by its own timer until the
 * bridge is steady, and again when the bridge falls silent (V19).
 *
 * The page has the reader's identity and a flag that requests ticks: a reader without observers
 * costs the writer nothing. Any thread may call these functions. After fork() they return
 * VKS_FORKED, or have no effect. */
#ifndef VKS_BRIDGE_H
#define VKS_BRIDGE_H

#include "surface/message.h"
#include "vsync/display.h"

/* Python calls functions of this header: native/vkshare.map.in. */
#pragma GCC visibility push(default)

typedef struct vks_bridge vks_bridge;         /* the writer's end */
typedef struct vks_bridge_end vks_bridge_end; /* the reader's end */

vks_status vks_bridge_create(vks_dispatcher *dispatcher, vks_bridge **out);
int vks_bridge_fd(const vks_bridge *bridge); /* the page; owned by the bridge */
/* Whether a reader has opened the page and its process is alive. */
bool vks_bridge_has_reader(const vks_bridge *bridge);
bool vks_bridge_is_attending(const vks_bridge *bridge);
void vks_bridge_close(vks_bridge *bridge);   /* the reader falls back to its timer; idempotent */
void vks_bridge_destroy(vks_bridge *bridge); /* closes */

/* Maps a page from another process, and makes it the source of `display`, of which the end has a
 * reference. VKS_BAD_PAGE. Does not close the fd. */
vks_status vks_bridge_open(vks_display *display, int fd, vks_bridge_end **out);
/* Removes the source from its display, and frees the end. */
void vks_bridge_leave(vks_bridge_end *end);
/* The descriptor of a bridge: flags, and the page's fd. */
typedef struct vks_vsync_body {
    uint32_t flags; /* 0 */
} vks_vsync_body;
const vks_message_form *vks_vsync_form(void);

#pragma GCC visibility pop

#endif
