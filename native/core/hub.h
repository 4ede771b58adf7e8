/* hub.h: see vkshare.h, "hubs". */
#ifndef VKS_HUB_H
#define VKS_HUB_H

#include "platform.h"

/* Any thread; never blocks. */
void vks_hub_push(vks_hub *hub, uint64_t token, vks_status result);

#endif
