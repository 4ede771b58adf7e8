/* poll.c: see poll.h. */
#define _GNU_SOURCE
#include "server/poll.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/platform.h"
#include "os/trace.h"

enum {
    MAX_EVENTS = 64,
    MAX_POLLS = 256 /* in a row; then the caller handles signals, also during a flood of no-ops */
};

typedef struct watched {
    uint64_t token;
    uint32_t interest;
    bool is_used, answers_no_ops;
} watched;

struct vks_server_poll {
    int epoll;
    uint32_t generation;
    watched *by_fd;
    size_t n_fds;
    _Atomic uint64_t answered;
};

vks_status vks_server_poll_create(vks_server_poll **out)
{
    vks_platform_init();
    vks_server_poll *f = calloc(1, sizeof *f);
    if (!f)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a server poll");
    f->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (f->epoll < 0) {
        int code = errno;
        free(f);
        return vks_fail(VKS_OS_ERROR, code, "epoll_create1 failed");
    }
    *out = f;
    return VKS_OK;
}

void vks_server_poll_destroy(vks_server_poll *f)
{
    if (!f)
        return;
    close(f->epoll);
    free(f->by_fd);
    free(f);
}

/* ---- watched file descriptors ---- */

static vks_status control(vks_server_poll *f, int operation, int fd)
{
    uint32_t interest = f->by_fd[fd].interest;
    struct epoll_event event = {
        .events = EPOLLRDHUP | (interest & VKS_POLL_READ ? EPOLLIN : 0u) | (interest & VKS_POLL_WRITE ? EPOLLOUT : 0u),
        .data.fd = fd,
    };
    if (epoll_ctl(f->epoll, operation, fd, &event))
        return vks_fail(VKS_OS_ERROR, errno, "epoll_ctl failed");
    return VKS_OK;
}

static vks_status make_room(vks_server_poll *f, size_t fd)
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

vks_status vks_server_poll_add(vks_server_poll *f, int fd, uint64_t token, uint32_t interest)
{
    if (fd < 0)
        return vks_fail(VKS_BAD_CALL, 0, "%d is not a file descriptor", fd);
    vks_status status = make_room(f, (size_t)fd);
    if (status != VKS_OK)
        return status;
    f->by_fd[fd] = (watched){.token = token, .interest = interest};
    status = control(f, EPOLL_CTL_ADD, fd);
    f->by_fd[fd].is_used = status == VKS_OK;
    return status;
}

static bool is_watched(const vks_server_poll *f, int fd)
{
    return fd >= 0 && (size_t)fd < f->n_fds && f->by_fd[fd].is_used;
}

vks_status vks_server_poll_watch(vks_server_poll *f, int fd, uint32_t interest, bool answers_no_ops)
{
    if (!is_watched(f, fd))
        return vks_fail(VKS_BAD_CALL, 0, "file descriptor %d is not watched", fd);
    f->by_fd[fd].answers_no_ops = answers_no_ops;
    if (f->by_fd[fd].interest == interest)
        return VKS_OK;
    f->by_fd[fd].interest = interest;
    return control(f, EPOLL_CTL_MOD, fd);
}

void vks_server_poll_remove(vks_server_poll *f, int fd)
{
    if (!is_watched(f, fd))
        return;
    f->by_fd[fd].is_used = false;
    epoll_ctl(f->epoll, EPOLL_CTL_DEL, fd, NULL);
}

void vks_server_poll_set_generation(vks_server_poll *f, uint32_t generation) { f->generation = generation; }

uint64_t vks_server_poll_answered(const vks_server_poll *f) { return f->answered; }

/* ---- no-ops ---- */

static bool is_no_op(const vks_server_poll *f, const vks_wire_header *h)
{
    return le32toh(h->length) == sizeof *h && le16toh(h->opcode) == VKS_WIRE_NO_OP && h->n_fds == 0 &&
           h->version == VKS_WIRE_VERSION && le32toh(h->generation) == f->generation;
}

/* The records of a client's requests have the token of its connection too. */
static VKS_TRACED void trace_no_ops(uint64_t token, const vks_wire_header *headers, uint32_t n, uint64_t began)
{
    for (uint32_t i = 0; i < n; i++) /* consecutive records */
        vks_trace_mark(VKS_TRACE_REQUEST, "reply no-op", i ? vks_now() : began, token, le32toh(headers[i].sequence));
}

/* Removes `n` peeked headers from the stream. False: file descriptors came with them. */
static bool consume(int fd, vks_wire_header *headers, uint32_t n)
{
    struct iovec bytes = {headers, n * sizeof *headers};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};
    ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT);
    /* Without room for file descriptors the kernel closes any and sets MSG_CTRUNC. */
    return got == (ssize_t)bytes.iov_len && !(message.msg_flags & MSG_CTRUNC);
}

static void reply(vks_server_poll *f, int fd, vks_wire_header *headers, uint32_t n, vks_server_poll_event *event)
{
    uint64_t began = vks_trace_begin();
    for (uint32_t i = 0; i < n; i++)
        headers[i].opcode = htole16(VKS_WIRE_REPLY);
    ssize_t sent = send(fd, headers, n * sizeof *headers, MSG_DONTWAIT | MSG_NOSIGNAL);
    f->answered += n;
    VKS_TRACE(began, trace_no_ops(f->by_fd[fd].token, headers, n, began));
    if (sent == (ssize_t)(n * sizeof *headers))
        return;
    /* A Unix socket takes so few bytes completely or not at all. */
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
        event->events |= VKS_POLL_GONE;
    else if (sent >= 0)
        event->events |= VKS_POLL_BAD;
    for (uint32_t i = 0; i < n; i++)
        event->unsent[i] = le32toh(headers[i].sequence);
    event->n_unsent = n;
}

/* True: all readable bytes were no-ops, and are answered. */
static bool answer_no_ops(vks_server_poll *f, int fd, vks_server_poll_event *event)
{
    vks_wire_header headers[VKS_POLL_NO_OPS];
    ssize_t got = recv(fd, headers, sizeof headers, MSG_PEEK | MSG_DONTWAIT);
    uint32_t n = 0, whole = got > 0 ? (uint32_t)((size_t)got / sizeof *headers) : 0;
    while (n < whole && is_no_op(f, &headers[n]))
        n++;
    if (!n)
        return false;
    if (!consume(fd, headers, n))
        event->events |= VKS_POLL_BAD;
    else
        reply(f, fd, headers, n, event);
    return event->events == VKS_POLL_READ && !event->n_unsent; /* the next poll reports the rest, if any */
}

/* ---- waiting ---- */

static uint32_t poll_events(uint32_t events)
{
    return (events & EPOLLIN ? VKS_POLL_READ : 0u) | (events & EPOLLOUT ? VKS_POLL_WRITE : 0u) |
           (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP) ? VKS_POLL_GONE : 0u);
}

/* Returns the timeout of epoll_wait in milliseconds, rounded up; -1: none. */
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

vks_status vks_server_poll_wait(vks_server_poll *f, vks_server_poll_event *events, uint32_t capacity, uint32_t *count,
                                uint64_t deadline)
{
    struct epoll_event found[MAX_EVENTS];
    int most = capacity < MAX_EVENTS ? (int)capacity : MAX_EVENTS;
    *count = 0;
    for (int poll = 0; poll < MAX_POLLS; poll++) {
        int timeout = milliseconds_until(deadline);
        int n = epoll_wait(f->epoll, found, most, timeout);
        if (n < 0)
            return errno == EINTR ? VKS_INTERRUPTED : vks_fail(VKS_OS_ERROR, errno, "epoll_wait failed");
        for (int i = 0; i < n; i++) {
            const watched *of = &f->by_fd[found[i].data.fd];
            vks_server_poll_event *event = &events[*count];
            event->token = of->token;
            event->events = poll_events(found[i].events);
            event->n_unsent = 0;
            if (!of->answers_no_ops || event->events != VKS_POLL_READ || !answer_no_ops(f, found[i].data.fd, event))
                ++*count;
        }
        if (*count)
            return VKS_OK;
        if (timeout >= 0 && vks_now() >= deadline)
            return VKS_TIMEOUT;
    }
    return VKS_INTERRUPTED;
}
