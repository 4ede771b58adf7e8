/* display.h: delivers ticks to observers, on one thread for each display. The model is Firefox's Silk:
 * one source and one thread a display, a dispatcher for each window, observers that this thread posts to.
 *
 *     hardware, or another process --mailbox--> display (tick_clock.h, one C thread)
 *         display --> dispatchers, one a window: ids of their own, half an interval between any two ticks
 *             dispatcher --mailbox--> observers: the reader's thread takes the newest tick
 *
 * A display's thread runs no user code and waits for no observer, so a stalled consumer delays no
 * other (V4). A display without observers sleeps without a deadline (V6).
 *
 * Any thread may call these functions. Lock order: dispatcher->lock, then display->lock; a thread that
 * joins another or waits for it holds neither. After fork() a call returns VKS_FORKED; close, shutdown
 * and unref have no effect. */
#ifndef VKS_DISPLAY_H
#define VKS_DISPLAY_H

#include "vkshare_present.h"
#include "vsync/mailbox.h"

/* Python calls functions of this header: native/vkshare.map.in. */
#pragma GCC visibility push(default)

/* Removes the inbox. After it returns the thread no longer uses it. Works after a shutdown too. */
void vks_display_drop_mailbox(vks_display *display, vks_mailbox *inbox);
#pragma GCC visibility pop

#endif
