/* message.c: one message over a Unix socket: a header, a body and file descriptors. Peers are
 * untrusted. */
#define _GNU_SOURCE
#include "surface/message.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

_Static_assert(sizeof(vks_descriptor_header) == 28, "layout");
_Static_assert(sizeof VKS_DESCRIPTOR_MAGIC == sizeof((vks_descriptor_header *)0)->magic, "layout");

void vks_close_all(const int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* ---- the socket ---- */

static vks_status check_peer(int sock)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    int type = 0;
    socklen_t type_size = sizeof type;
    if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ||
        getsockopt(sock, SOL_SOCKET, SO_TYPE, &type, &type_size) < 0)
        return vks_fail(VKS_OS_ERROR, errno, "fd %d is no connected Unix socket", sock);
    if (type != SOCK_STREAM && type != SOCK_SEQPACKET)
        return vks_fail(VKS_UNSUPPORTED, 0, "descriptors come over SOCK_STREAM or SOCK_SEQPACKET, not type %d", type);
    if (peer.uid != geteuid())
        return vks_fail(VKS_BAD_PAGE, 0, "the peer is user %u, this process user %u", peer.uid, geteuid());
    return VKS_OK;
}

static vks_status wait_for(int sock, short event, uint64_t deadline)
{
    for (;;) {
        uint64_t now = vks_now();
        uint64_t left = deadline == VKS_FOREVER ? INT_MAX : deadline > now ? (deadline - now + 999999) / 1000000 : 0;
        struct pollfd what = {.fd = sock, .events = event};
        int n = poll(&what, 1, left < INT_MAX ? (int)left : INT_MAX);
        if (n > 0)
            return VKS_OK;
        if (n < 0)
            return errno == EINTR ? VKS_INTERRUPTED : vks_fail(VKS_OS_ERROR, errno, "poll");
        if (left < INT_MAX)
            return VKS_TIMEOUT;
    }
}

static void take_fds(vks_message *in, struct msghdr *from)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(from); c; c = CMSG_NXTHDR(from, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0, n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (in->n_fds < in->most_fds)
                in->fds[in->n_fds++] = fd;
            else /* fds of a second message in the stream */
                close(fd);
        }
    }
}

/* Receives up to `size` more bytes, and the fds that come with them. */
static vks_status receive_some(int sock, uint64_t deadline, vks_message *in, size_t size)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(VKS_MOST_FDS * sizeof(int))];
    struct iovec part = {in->data + in->size, size};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control};
    ssize_t n;
    do {
        vks_status status = wait_for(sock, POLLIN, deadline);
        if (status)
            return status;
        header.msg_controllen = CMSG_SPACE(in->most_fds * sizeof(int));
        n = recvmsg(sock, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    } while (n < 0 && (errno == EAGAIN || errno == EINTR));
    if (n < 0)
        return vks_fail(VKS_OS_ERROR, errno, "recvmsg");
    take_fds(in, &header);
    int spare = header.msg_flags & MSG_CTRUNC ? fcntl(sock, F_DUPFD_CLOEXEC, 0) : -2;
    if (spare == -1)
        return vks_fail(VKS_OS_ERROR, errno, "no file descriptor is free for those that the message has");
    if (spare >= 0)
        close(spare);
    if (header.msg_flags & (MSG_CTRUNC | MSG_TRUNC))
        return vks_fail(VKS_BAD_PAGE, 0, "the message was truncated (too long, or with more fds than fit)");
    if (n == 0)
        return in->size ? vks_fail(VKS_BAD_PAGE, 0, "the peer closed the connection after %zu bytes of a descriptor",
                                   in->size)
                        : vks_fail(VKS_CLOSED, 0, "the peer closed the connection");
    in->size += (size_t)n;
    return VKS_OK;
}

static vks_status receive_exactly(int sock, uint64_t deadline, vks_message *in, size_t size)
{
    vks_status status = VKS_OK;
    while (!status && in->size < size)
        status = receive_some(sock, deadline, in, size - in->size);
    return status;
}

/* ---- the bytes ---- */

static vks_status check_versions(const vks_descriptor_header *h)
{
    if (memcmp(h->magic, VKS_DESCRIPTOR_MAGIC, sizeof h->magic) != 0)
        return vks_fail(VKS_BAD_PAGE, 0, "this is not a descriptor of vkshare");
    bool is_ours = h->version == VKS_DESCRIPTOR_VERSION;
    if (!is_ours || h->page_version != VKS_LAYOUT_VERSION)
        return vks_fail(VKS_BAD_PAGE, 0,
                        "the sender's %s have layout version %u, this vkshare's have %u: run the same version of "
                        "vkshare on both sides",
                        is_ours ? "shared pages" : "descriptors", is_ours ? h->page_version : h->version,
                        is_ours ? VKS_LAYOUT_VERSION : VKS_DESCRIPTOR_VERSION);
    return VKS_OK;
}

vks_status vks_message_check_header(const vks_message_form *form, const void *data, size_t size, uint32_t *whole)
{
    vks_descriptor_header h;
    if (size < sizeof h)
        return vks_fail(VKS_BAD_PAGE, 0, "a descriptor has at least %zu bytes; %zu came", sizeof h, size);
    memcpy(&h, data, sizeof h);
    vks_status status = check_versions(&h);
    if (status)
        return status;
    if (h.kind != form->kind)
        return vks_fail(VKS_BAD_PAGE, 0, "this is not a %s: its kind is %u, expected is %u", form->name, h.kind,
                        form->kind);
    size_t least = sizeof h + form->body_size + form->item_size, most = least;
    if (form->most_items)
        most += (form->most_items - 1) * form->item_size;
    if (h.size < least || h.size > most || (form->item_size && (h.size - least) % form->item_size))
        return vks_fail(VKS_BAD_PAGE, 0, "%s says %u bytes; expected are %zu%s", form->name, h.size, least,
                        most > least ? " or more" : "");
    *whole = h.size;
    return VKS_OK;
}

vks_status vks_message_check(const vks_message_form *form, const void *data, size_t size, const int *fds, size_t n_fds)
{
    vks_descriptor_header h;
    uint32_t whole;
    vks_status status = vks_message_check_header(form, data, size, &whole);
    if (status)
        return status;
    if (size != whole)
        return vks_fail(VKS_BAD_PAGE, 0, "%s says %u bytes and has %zu", form->name, whole, size);
    memcpy(&h, data, sizeof h);
    if (n_fds != h.n_fds)
        return vks_fail(VKS_BAD_PAGE, 0, "%s says it carries %u fds, and %zu came", form->name, h.n_fds, n_fds);
    return form->check((const unsigned char *)data + sizeof h, size - sizeof h, fds, n_fds);
}

/* ---- a message ---- */

vks_status vks_message_receive(int sock, uint64_t deadline, const vks_message_form *form, vks_message *in)
{
    in->size = in->n_fds = 0;
    in->most_fds = form->most_fds;
    int type = 0;
    socklen_t type_size = sizeof type;
    vks_status status = check_peer(sock);
    if (status)
        return status;
    getsockopt(sock, SOL_SOCKET, SO_TYPE, &type, &type_size);
    if (type == SOCK_STREAM) { /* other messages may follow, so read no more than the header declares */
        uint32_t whole;
        status = receive_exactly(sock, deadline, in, sizeof(vks_descriptor_header));
        if (!status && !(status = vks_message_check_header(form, in->data, in->size, &whole)))
            status = receive_exactly(sock, deadline, in, whole);
    } else {
        status = receive_some(sock, deadline, in, VKS_LARGEST_MESSAGE);
    }
    if (!status)
        status = vks_message_check(form, in->data, in->size, in->fds, in->n_fds);
    if (status == VKS_TIMEOUT && in->size)
        status = vks_fail(VKS_BAD_PAGE, 0, "the descriptor stopped after %zu bytes", in->size);
    if (status == VKS_INTERRUPTED && in->size)
        status = vks_fail(VKS_BAD_PAGE, EINTR, "a signal came after %zu bytes of the descriptor", in->size);
    if (status)
        vks_close_all(in->fds, in->n_fds);
    return status;
}

/* ---- sending ---- */

static void attach_fds(struct msghdr *header, const int *fds, size_t n_fds)
{
    struct cmsghdr *control = CMSG_FIRSTHDR(header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(n_fds * sizeof *fds);
    memcpy(CMSG_DATA(control), fds, n_fds * sizeof *fds);
}

/* Sends the rest of the message, with the fds on its first byte. *sent counts bytes. No event
 * reports when fewer fds of this user are in flight (unix(7)), so that is polled. */
static vks_status send_some(int sock, uint64_t deadline, const vks_message *out, size_t *sent)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(VKS_MOST_FDS * sizeof(int))] = {0};
    struct iovec part = {(void *)(out->data + *sent), out->size - *sent};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (!*sent) {
        header.msg_control = control;
        header.msg_controllen = CMSG_SPACE(out->n_fds * sizeof(int));
        attach_fds(&header, out->fds, out->n_fds);
    }
    ssize_t n;
    while ((n = sendmsg(sock, &header, MSG_NOSIGNAL | MSG_DONTWAIT)) < 0) {
        if (errno == ETOOMANYREFS) {
            if (vks_now() >= deadline)
                return VKS_TIMEOUT;
            usleep(1000);
        } else if (errno == EAGAIN) {
            vks_status status = wait_for(sock, POLLOUT, deadline);
            if (status)
                return status;
        } else if (errno != EINTR) {
            return vks_fail(VKS_OS_ERROR, errno, "sendmsg");
        }
    }
    *sent += (size_t)n;
    return VKS_OK;
}

void vks_message_begin(vks_message *out, const vks_message_form *form, const void *body)
{
    vks_descriptor_header header = {VKS_DESCRIPTOR_MAGIC, form->kind, VKS_DESCRIPTOR_VERSION, VKS_LAYOUT_VERSION, 0, 0};
    memcpy(out->data, &header, sizeof header);
    out->size = sizeof header;
    out->n_fds = 0;
    vks_message_add_item(out, body, form->body_size);
}

void vks_message_add_item(vks_message *out, const void *item, size_t size)
{
    memcpy(out->data + out->size, item, size);
    out->size += size;
}

void vks_message_add_fds(vks_message *out, const int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (fds[i] >= 0)
            out->fds[out->n_fds++] = fds[i];
}

void vks_message_complete(vks_message *out)
{
    vks_descriptor_header header;
    memcpy(&header, out->data, sizeof header);
    header.size = (uint32_t)out->size;
    header.n_fds = (uint32_t)out->n_fds;
    memcpy(out->data, &header, sizeof header);
}

vks_status vks_message_send(int sock, uint64_t deadline, vks_message *out)
{
    size_t sent = 0;
    vks_status status = check_peer(sock);
    vks_message_complete(out);
    while (!status && sent < out->size)
        status = send_some(sock, deadline, out, &sent);
    return status && sent ? vks_fail(VKS_BAD_PAGE, vks_last_error()->code,
                                     "the descriptor stopped after %zu bytes: close the connection", sent)
                          : status;
}
