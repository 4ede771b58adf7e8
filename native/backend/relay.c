/* relay.c: a request to the host for each list, over a Unix socket. */
#define _GNU_SOURCE
#include "backend/relay.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/platform.h"

enum { IN_MEMORY = 0x4000, REPLY = 0x8000, SLICE_MS = 50 };

typedef struct header { /* of each message: docs/server.md */
    uint32_t length;
    uint16_t opcode;
    uint8_t n_fds, version;
    uint32_t sequence, generation;
} header;

struct vks_relay {
    int fd;
    uint16_t opcode;
    uint8_t version;
    uint32_t sequence;
    _Atomic uint64_t until; /* when waits end; 0: never */
};

vks_status vks_relay_create(int fd, uint32_t opcode, uint32_t version, vks_relay **out)
{
    vks_relay *relay = calloc(1, sizeof *relay);
    if (!relay)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a relay");
    vks_status status = vks_duplicate_fd(fd, "relay", &relay->fd);
    if (status) {
        free(relay);
        return status;
    }
    relay->opcode = (uint16_t)opcode;
    relay->version = (uint8_t)version;
    *out = relay;
    return VKS_OK;
}

void vks_relay_destroy(vks_relay *relay)
{
    if (!relay)
        return;
    close(relay->fd);
    free(relay);
}

void vks_relay_end(vks_relay *relay, uint64_t ns) { atomic_store(&relay->until, vks_now() + ns); }

static bool is_over(vks_relay *relay)
{
    uint64_t until = atomic_load(&relay->until);
    return until && vks_now() >= until;
}

/* Waits until the socket is ready for `events`. */
static bool wait_for(vks_relay *relay, short events)
{
    struct pollfd one = {relay->fd, events, 0};
    while (!is_over(relay)) {
        int ready = poll(&one, 1, SLICE_MS);
        if (ready > 0)
            return true; /* a hang-up too: the next call reports it */
        if (ready < 0 && errno != EINTR)
            return false;
    }
    return false;
}

static bool send_all(vks_relay *relay, const void *data, size_t size, int memory)
{
    const char *at = data;
    while (size) {
        union {
            struct cmsghdr head;
            char room[CMSG_SPACE(sizeof(int))];
        } rights = {.head = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
        struct iovec part = {(void *)at, size};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        if (memory >= 0) {
            memcpy(CMSG_DATA(&rights.head), &memory, sizeof memory);
            message.msg_control = &rights;
            message.msg_controllen = sizeof rights.room;
        }
        ssize_t sent = sendmsg(relay->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            at += sent;
            size -= (size_t)sent;
            memory = -1; /* fds travel with the first byte */
        } else if (sent < 0 && errno == ETOOMANYREFS) {
            if (is_over(relay))
                return false;
            poll(NULL, 0, 1); /* other processes of this user have many fds in flight */
        } else if (sent < 0 && errno != EAGAIN && errno != EINTR) {
            return false;
        } else if (!wait_for(relay, POLLOUT)) {
            return false;
        }
    }
    return true;
}

static bool receive_all(vks_relay *relay, void *data, size_t size)
{
    char *at = data;
    while (size) {
        ssize_t got = recv(relay->fd, at, size, MSG_DONTWAIT);
        if (got > 0) {
            at += got;
            size -= (size_t)got;
        } else if (got == 0 || (errno != EAGAIN && errno != EINTR) || !wait_for(relay, POLLIN)) {
            return false;
        }
    }
    return true;
}

/* A memfd with the bytes; -1: there is none. */
static int in_memory(const uint8_t *body, size_t size)
{
    int fd = size <= VKS_RELAY_LARGEST ? memfd_create("vks-request", MFD_CLOEXEC | MFD_ALLOW_SEALING) : -1;
    for (size_t written = 0; fd >= 0 && written < size;) {
        ssize_t more = write(fd, body + written, size - written);
        if (more > 0) {
            written += (size_t)more;
        } else if (errno != EINTR) {
            close(fd);
            return -1;
        }
    }
    return fd;
}

static bool send_request(vks_relay *relay, const uint8_t *body, size_t size)
{
    header head = {.opcode = htole16(relay->opcode), .version = relay->version, .generation = htole32(1)};
    head.sequence = htole32(++relay->sequence);
    if (size <= VKS_RELAY_INLINE) {
        head.length = htole32((uint32_t)(sizeof head + size));
        return send_all(relay, &head, sizeof head, -1) && send_all(relay, body, size, -1);
    }
    int memory = in_memory(body, size);
    if (memory < 0)
        return false;
    head.length = htole32(sizeof head);
    head.opcode = htole16(relay->opcode | IN_MEMORY);
    head.n_fds = 1;
    bool sent = send_all(relay, &head, sizeof head, memory);
    close(memory);
    return sent;
}

/* The answer is an empty reply. Any other message (an error, or the reason why the host ends the
 * connection) is left to the program's own connection to report. */
bool vks_relay_send(vks_relay *relay, const uint8_t *body, size_t size)
{
    header answer;
    return send_request(relay, body, size) && receive_all(relay, &answer, sizeof answer) &&
           le16toh(answer.opcode) == REPLY && le32toh(answer.sequence) == relay->sequence &&
           le32toh(answer.length) == sizeof answer;
}
