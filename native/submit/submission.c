/* submission.c: what became of a submission. */
#include "submit/submit.h"

uint64_t vks_submission_serial(const vks_submission *submission)
{
    return submission->op ? atomic_load(&submission->op->serial) : submission->serial;
}

bool vks_submission_is_held(vks_device *device, const vks_submission *submission)
{
    return device->process == vks_process && submission->op && vks_work_is_held(submission->op);
}

/* VKS_OK and the serial once submitted; VKS_TIMEOUT while held; else the reason why it never ran. */
static vks_status find_serial(const vks_submission *submission, uint64_t *serial)
{
    vks_status status = submission->op ? vks_work_status(submission->op) : VKS_OK;
    *serial = submission->op ? atomic_load(&submission->op->serial) : submission->serial;
    return status;
}

vks_status vks_submission_poll(vks_device *device, const vks_submission *submission)
{
    if (device->process != vks_process)
        return VKS_FORKED;
    uint64_t serial;
    vks_status status = find_serial(submission, &serial);
    return status ? status : vks_device_poll_serial(device, serial);
}

static bool is_decided(const void *submission)
{
    uint64_t serial;
    return find_serial(submission, &serial) != VKS_TIMEOUT;
}

vks_status vks_submission_wait(vks_device *device, const vks_submission *submission, uint64_t deadline)
{
    if (device->process != vks_process)
        return VKS_FORKED;
    uint64_t serial;
    vks_status status = find_serial(submission, &serial);
    if (status == VKS_TIMEOUT && !(status = vks_device_wait_until(device, is_decided, submission, deadline)))
        status = find_serial(submission, &serial);
    return status ? status : vks_device_wait_serial(device, serial, deadline);
}

vks_status vks_submission_notify(vks_device *device, const vks_submission *submission, vks_event_queue *event_queue,
                                 uint64_t token)
{
    if (device->process != vks_process)
        return VKS_FORKED;
    uint64_t serial;
    pthread_mutex_lock(&device->lock);
    vks_status status = find_serial(submission, &serial), result = VKS_OK;
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
