/* submission.c: what became of a submission. */
#include "submit/submit.h"

uint64_t vks_submission_serial(const vks_submission *submission)
{
    VKS_NEEDS_OR(0, submission);
    return submission->op ? atomic_load(&submission->op->serial) : submission->serial;
}

bool vks_submission_is_held(vks_device *device, const vks_submission *submission)
{
    VKS_NEEDS_OR(false, device, submission);
    return device->process == vks_process && submission->op && vks_work_is_held(submission->op);
}

vks_status vks_submission_check(const vks_device *device, const vks_submission *submission)
{
    if (device->process != vks_process)
        return VKS_FORKED;
    if (submission->op)
        return submission->op->device == device ? VKS_OK : VKS_FOREIGN_DEVICE;
    if (submission->serial > device->submitted)
        return vks_fail(VKS_BAD_VALUE, (int64_t)submission->serial, "the device never submitted serial %llu",
                        (unsigned long long)submission->serial);
    return VKS_OK;
}

/* VKS_OK and the serial once submitted; VKS_TIMEOUT while held; else the reason why it never
 * ran. */
static vks_status find_serial(const vks_submission *submission, uint64_t *serial)
{
    vks_status status = submission->op ? vks_work_status(submission->op) : VKS_OK;
    *serial = submission->op ? atomic_load(&submission->op->serial) : submission->serial;
    return status;
}

vks_status vks_submission_poll(vks_device *device, const vks_submission *submission)
{
    VKS_NEEDS(device, submission);
    uint64_t serial;
    vks_status status = vks_submission_check(device, submission);
    if (!status)
        status = find_serial(submission, &serial);
    return status ? status : vks_device_poll_serial(device, serial);
}

static bool is_decided(const void *submission)
{
    uint64_t serial;
    return find_serial(submission, &serial) != VKS_TIMEOUT;
}

vks_status vks_submission_wait(vks_device *device, const vks_submission *submission, uint64_t deadline)
{
    VKS_NEEDS(device, submission);
    uint64_t serial;
    vks_status status = vks_submission_check(device, submission);
    if (status)
        return status;
    status = find_serial(submission, &serial);
    if (status == VKS_TIMEOUT && !(status = vks_device_wait_until(device, is_decided, submission, deadline)))
        status = find_serial(submission, &serial);
    return status ? status : vks_device_wait_serial(device, serial, deadline);
}

vks_status vks_submission_notify(vks_device *device, const vks_submission *submission, vks_event_queue *event_queue,
                                 uint64_t token)
{
    VKS_NEEDS(device, submission, event_queue);
    uint64_t serial;
    vks_status result = vks_submission_check(device, submission);
    if (result)
        return result;
    pthread_mutex_lock(&device->lock);
    vks_status status = find_serial(submission, &serial);
    if (status == VKS_TIMEOUT) {
        result = vks_work_add_event(submission->op, event_queue, token);
    } else if (status || (status = vks_device_poll_serial(device, serial)) != VKS_TIMEOUT) {
        vks_event_queue_push(event_queue, token, status);
    } else if ((result = vks_device_reserve(device, 1)) == VKS_OK) {
        vks_device_add_completion(device, serial, &vks_event_completion, event_queue, token);
    }
    pthread_mutex_unlock(&device->lock);
    return result;
}
