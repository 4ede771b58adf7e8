/* trace_points.h: the record of a submission; see native/device/trace_points.h. */
#ifndef VKS_SUBMIT_TRACE_POINTS_H
#define VKS_SUBMIT_TRACE_POINTS_H

#include "device/trace_points.h"
#include "submit/submit.h"

void vks_traced_submit(const vks_device *device, const vks_submit_info *info, const vks_signal *signals,
                       const vks_submission *submission, uint64_t began, vks_status status);

#endif
