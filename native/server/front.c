/* front.c: see front.h. */
#define _GNU_SOURCE
#include "server/front.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/platform.h"
#include "core/trace.h"

enum {
    EVENTS_AT_ONCE = 64,
    LOOKS = 256 /* in a row, after which the caller looks for signals: a flood of no-ops must not keep it from that */
};

typedef struct watched {
    uint64_t token;
    uint32_t interest;
    bool is_used, answers_no_ops;
} watched;

struct vks_front {
    int epoll;
    uint32_t generation;
    watched *by_fd;
    size_t n_fds;
    _Atomic uint64_t answered;
};

vks_status vks_front_create(vks_front **out)
{
    vks_platform_init();
    vks_front *f = calloc(1, sizeof *f);
    if (!f)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a front");
    f->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (f->epoll < 0) {
        int code = errno;
        free(f);
        return vks_fail(VKS_OS_ERROR, code, "epoll_create1 failed");
    }
    *out = f;
    return VKS_OK;
}

void vks_front_destroy(vks_front *f)
{
    if (!f)
        return;
    close(f->epoll);
    free(f->by_fd);
    free(f);
}

/* ---- what it watches ---- */

static vks_status control(vks_front *f, int operation, int fd)
{
    uint32_t interest = f->by_fd[fd].interest;
    struct epoll_event event = {
        .events =
            EPOLLRDHUP | (interest & VKS_FRONT_READ ? EPOLLIN : 0u) | (interest & VKS_FRONT_WRITE ? EPOLLOUT : 0u),
        .data.fd = fd,
    };
    if (epoll_ctl(f->epoll, operation, fd, &event))
        return vks_fail(VKS_OS_ERROR, errno, "epoll_ctl failed");
    return VKS_OK;
}

static vks_status make_room(vks_front *f, size_t fd)
{
    if (fd < f->n_fds)
        return VKS_OK;
    size_t n = fd + 64;
    watched *more = realloc(f->by_fd, n * sizeof *more);
    if (!more)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a connection");
    memset(more + f->n_fds, 0, (n - f->n_fds) * sizeof *more);
    f->by_fd = more;
    f->n_fds = n;
    return VKS_OK;
}

vks_status vks_front_add(vks_front *f, int fd, uint64_t token, uint32_t interest)
{
    if (fd < 0)
        return vks_fail(VKS_BAD_CALL, 0, "%d is no file descriptor", fd);
    vks_status status = make_room(f, (size_t)fd);
    if (status != VKS_OK)
        return status;
    f->by_fd[fd] = (watched){.token = token, .interest = interest};
    status = control(f, EPOLL_CTL_ADD, fd);
    f->by_fd[fd].is_used = status == VKS_OK;
    return status;
}

static bool is_watched(const vks_front *f, int fd) { return fd >= 0 && (size_t)fd < f->n_fds && f->by_fd[fd].is_used; }

vks_status vks_front_watch(vks_front *f, int fd, uint32_t interest, bool answers_no_ops)
{
    if (!is_watched(f, fd))
        return vks_fail(VKS_BAD_CALL, 0, "file descriptor %d is not watched", fd);
    f->by_fd[fd].answers_no_ops = answers_no_ops;
    if (f->by_fd[fd].interest == interest)
        return VKS_OK;
    f->by_fd[fd].interest = interest;
    return control(f, EPOLL_CTL_MOD, fd);
}

void vks_front_remove(vks_front *f, int fd)
{
    if (!is_watched(f, fd))
        return;
    f->by_fd[fd].is_used = false;
    epoll_ctl(f->epoll, EPOLL_CTL_DEL, fd, NULL);
}

void vks_front_set_generation(vks_front *f, uint32_t generation) { f->generation = generation; }

uint64_t vks_front_answered(const vks_front *f) { return f->answered; }

/* ---- no-ops ---- */

static bool is_no_op(const vks_front *f, const vks_wire_header *h)
{
    return le32toh(h->length) == sizeof *h && le16toh(h->opcode) == VKS_WIRE_NO_OP && h->n_fds == 0 &&
           h->version == VKS_WIRE_VERSION && le32toh(h->generation) == f->generation;
}

/* The token of a client's connection is what its requests' records have, too. */
static VKS_TRACED void trace_no_ops(uint64_t token, const vks_wire_header *headers, uint32_t n, uint64_t began)
{
    for (uint32_t i = 0; i < n; i++) /* one lies beside the other */
        vks_trace_mark(VKS_TRACE_REQUEST, "reply no-op", i ? vks_now() : began, token, le32toh(headers[i].sequence));
}

/* Takes `n` headers, which were looked at already, off the stream. False: there was more to them than bytes. */
static bool consume(int fd, vks_wire_header *headers, uint32_t n)
{
    struct iovec bytes = {headers, n * sizeof *headers};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};
    ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT);
    /* No room for file descriptors was given, so that the kernel has dropped any, and says so. */
    return got == (ssize_t)bytes.iov_len && !(message.msg_flags & MSG_CTRUNC);
}

static void reply(vks_front *f, int fd, vks_wire_header *headers, uint32_t n, vks_front_event *event)
{
    uint64_t began = vks_trace_begin();
    for (uint32_t i = 0; i < n; i++)
        headers[i].opcode = htole16(VKS_WIRE_REPLY);
    ssize_t sent = send(fd, headers, n * sizeof *headers, MSG_DONTWAIT | MSG_NOSIGNAL);
    f->answered += n;
    VKS_TRACE(began, trace_no_ops(f->by_fd[fd].token, headers, n, began));
    if (sent == (ssize_t)(n * sizeof *headers))
        return;
    /* A Unix socket takes so few bytes whole or not at all. */
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
        event->what |= VKS_FRONT_GONE;
    else if (sent >= 0)
        event->what |= VKS_FRONT_BAD;
    for (uint32_t i = 0; i < n; i++)
        event->owed[i] = le32toh(headers[i].sequence);
    event->n_owed = n;
}

/* True: all that can be read now was no-ops, which were answered. */
static bool answer(vks_front *f, int fd, vks_front_event *event)
{
    vks_wire_header headers[VKS_FRONT_NO_OPS];
    ssize_t got = recv(fd, headers, sizeof headers, MSG_PEEK | MSG_DONTWAIT);
    uint32_t n = 0, whole = got > 0 ? (uint32_t)((size_t)got / sizeof *headers) : 0;
    while (n < whole && is_no_op(f, &headers[n]))
        n++;
    if (!n)
        return false;
    if (!consume(fd, headers, n))
        event->what |= VKS_FRONT_BAD;
    else
        reply(f, fd, headers, n, event);
    return event->what == VKS_FRONT_READ && !event->n_owed; /* the rest, if any, is told at the next look */
}

/* ---- sleeping ---- */

static uint32_t what_happened(uint32_t events)
{
    return (events & EPOLLIN ? VKS_FRONT_READ : 0u) | (events & EPOLLOUT ? VKS_FRONT_WRITE : 0u) |
           (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP) ? VKS_FRONT_GONE : 0u);
}

/* Milliseconds for epoll_wait, rounded up: -1 for ever. */
static int milliseconds_until(uint64_t deadline)
{
    if (deadline == VKS_FOREVER)
        return -1;
    uint64_t now = vks_now();
    if (now >= deadline)
        return 0;
    uint64_t left = (deadline - now + 999999) / 1000000;
    return left < 1000000 ? (int)left : 1000000;
}

vks_status vks_front_wait(vks_front *f, vks_front_event *events, uint32_t capacity, uint32_t *count, uint64_t deadline)
{
    struct epoll_event found[EVENTS_AT_ONCE];
    int most = capacity < EVENTS_AT_ONCE ? (int)capacity : EVENTS_AT_ONCE;
    *count = 0;
    for (int look = 0; look < LOOKS; look++) {
        int timeout = milliseconds_until(deadline);
        int n = epoll_wait(f->epoll, found, most, timeout);
        if (n < 0)
            return errno == EINTR ? VKS_INTERRUPTED : vks_fail(VKS_OS_ERROR, errno, "epoll_wait failed");
        for (int i = 0; i < n; i++) {
            const watched *of = &f->by_fd[found[i].data.fd];
            vks_front_event *event = &events[*count];
            event->token = of->token;
            event->what = what_happened(found[i].events);
            event->n_owed = 0;
            if (!of->answers_no_ops || event->what != VKS_FRONT_READ || !answer(f, found[i].data.fd, event))
                ++*count;
        }
        if (*count)
            return VKS_OK;
        if (timeout >= 0 && vks_now() >= deadline)
            return VKS_TIMEOUT;
    }
    return VKS_INTERRUPTED;
}
