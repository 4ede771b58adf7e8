/* submit.h: vks_submit(): the operations that programs submit. Internal. */
#ifndef VKS_SUBMIT_H
#define VKS_SUBMIT_H

#include "fence/fence.h"
#include "surface/surface.h"

/* ---- submit_fast.c (caller holds device->lock) ---- */
bool vks_submit_is_fast(const vks_device *device, const vks_submit_info *info);
/* Submits it. The caller has checked `signals` and the device's state. */
vks_status vks_submit_fast(vks_device *device, const vks_submit_info *info, const vks_signal *signals,
                           uint64_t *serial);

/* VKS_FOREIGN_DEVICE, or VKS_BAD_VALUE: the device has not submitted such a serial. */
vks_status vks_submission_check(const vks_device *device, const vks_submission *submission);

#endif
