/* The work ring between two threads, and the server poll's no-ops. Rules R2, R3, R6, R8, R13. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check_macros.h"
#include "server/poll.h"
#include "server/work_ring.h"

/* ---- the work ring ---- */

typedef struct job {
    uint64_t number, square;
    int taken;
} job;

static void *render(void *argument)
{
    vks_work_ring *h = argument;
    void *request;
    while (vks_work_ring_take(h, &request) == VKS_OK) {
        job *it = request;
        it->taken++;
        it->square = it->number * it->number;
        vks_work_ring_done(h, it);
    }
    vks_work_ring_leave(h);
    return NULL;
}

static void drain(vks_event_queue *event_queue)
{
    uint64_t tokens[64];
    vks_status results[64];
    size_t n;
    while ((n = vks_event_queue_drain(event_queue, tokens, results, 64)))
        for (size_t i = 0; i < n; i++)
            CHECK(tokens[i] == 7 && results[i] == VKS_OK, "token %llu", (unsigned long long)tokens[i]);
}

static void wait_for(vks_event_queue *event_queue)
{
    struct pollfd fd = {vks_event_queue_fd(event_queue), POLLIN, 0};
    CHECK(poll(&fd, 1, 20000) == 1, "no completion was reported");
    drain(event_queue);
}

/* Gives `total` jobs, as many at a time as the ring can hold, and collects them all in order. */
static void every_command_returns_once_in_order_with_its_result(void)
{
    vks_event_queue *event_queue;
    vks_work_ring *h;
    vks_command command;
    pthread_t thread;
    enum { ROOM = VKS_WORK_RING_CAPACITY };
    static job jobs[ROOM];
    uint64_t given = 0, collected = 0, total = (uint64_t)check_scale("VKS_HAND_OFFS", 200000);
    CHECK(vks_event_queue_create(&event_queue) == VKS_OK && vks_work_ring_create(event_queue, 7, &h) == VKS_OK, "made");
    CHECK(pthread_create(&thread, NULL, render, h) == 0, "%d", errno);
    while (collected < total) {
        while (given < total && given - collected < 1 + given % ROOM) {
            jobs[given % ROOM] = (job){.number = given};
            CHECK(vks_work_ring_give(h, &jobs[given % ROOM]) == VKS_OK, "%llu", (unsigned long long)given);
            given++;
        }
        if (!vks_work_ring_collect(h, &command)) {
            wait_for(event_queue);
            continue;
        }
        job *it = command.result;
        if (command.request != it || it->number != collected || it->square != collected * collected || it->taken != 1)
            CHECK(false, "%llu came for %llu", (unsigned long long)it->number, (unsigned long long)collected);
        collected++;
    }
    CHECK(!vks_work_ring_collect(h, &command), "nothing is left");
    vks_work_ring_close(h);
    pthread_join(thread, NULL);
    CHECK(vks_work_ring_has_left(h), "it said so");
    vks_work_ring_destroy(h);
    vks_event_queue_unref(event_queue);
}

static void at_most_66_commands_are_held_and_a_closed_ring_returns_those_not_taken(void)
{
    vks_event_queue *event_queue;
    vks_work_ring *h;
    vks_command command;
    void *request;
    int n, things[VKS_WORK_RING_CAPACITY + 1];
    CHECK(vks_event_queue_create(&event_queue) == VKS_OK && vks_work_ring_create(event_queue, 7, &h) == VKS_OK, "made");
    for (n = 0; vks_work_ring_give(h, &things[n]) == VKS_OK; n++)
        ;
    CHECK(n == 66, "%d", n);
    CHECK(vks_work_ring_take(h, &request) == VKS_OK && request == &things[0], "the first");
    vks_work_ring_done(h, NULL);
    CHECK(vks_work_ring_take(h, &request) == VKS_OK && request == &things[1], "the second");
    vks_work_ring_close(h);
    CHECK(vks_work_ring_give(h, &things[66]) == VKS_CLOSED, "closed");
    CHECK(vks_work_ring_take(h, &request) == VKS_CLOSED, "closed");
    CHECK(!vks_work_ring_drop(h, &request), "one is done");
    CHECK(vks_work_ring_collect(h, &command) && command.request == &things[0], "that one");
    for (n = 1; vks_work_ring_drop(h, &request); n++)
        CHECK(request == &things[n], "%d", n);
    CHECK(n == 66, "%d", n);
    vks_work_ring_destroy(h);
    vks_event_queue_unref(event_queue);
}

/* ---- the server poll ---- */

typedef struct connection {
    vks_server_poll *server_poll;
    int near, far;
} connection;

static connection connected(void)
{
    connection c;
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "%d", errno);
    c.near = ends[0], c.far = ends[1];
    CHECK(vks_server_poll_create(&c.server_poll) == VKS_OK, "made");
    vks_server_poll_set_generation(c.server_poll, 4);
    CHECK(vks_server_poll_add(c.server_poll, c.near, 11, VKS_POLL_READ) == VKS_OK, "added");
    CHECK(vks_server_poll_watch(c.server_poll, c.near, VKS_POLL_READ, true) == VKS_OK, "watched");
    return c;
}

static void end(connection *c)
{
    vks_server_poll_remove(c->server_poll, c->near);
    close(c->near);
    close(c->far);
    vks_server_poll_destroy(c->server_poll);
}

static vks_wire_header no_op(uint32_t sequence)
{
    return (vks_wire_header){16, VKS_WIRE_NO_OP, 0, VKS_WIRE_VERSION, sequence, 4};
}

static void no_ops_are_answered_and_not_reported(void)
{
    connection c = connected();
    vks_server_poll_event events[4];
    vks_wire_header headers[5];
    uint32_t count;
    for (uint32_t n = 0; n < 5; n++)
        headers[n] = no_op(100 + n);
    CHECK(write(c.far, headers, sizeof headers) == sizeof headers, "%d", errno);
    CHECK(vks_server_poll_wait(c.server_poll, events, 4, &count, 0) == VKS_TIMEOUT && count == 0, "%u events", count);
    memset(headers, 0, sizeof headers);
    CHECK(read(c.far, headers, sizeof headers) == sizeof headers, "%d", errno);
    for (uint32_t n = 0; n < 5; n++)
        CHECK(headers[n].opcode == VKS_WIRE_REPLY && headers[n].sequence == 100 + n && headers[n].generation == 4,
              "reply %u", n);
    CHECK(vks_server_poll_answered(c.server_poll) == 5, "counted");
    end(&c);
}

static void other_requests_stay_in_the_socket_and_are_reported(void)
{
    connection c = connected();
    vks_server_poll_event events[4];
    vks_wire_header other = no_op(1), got[2];
    uint32_t count;
    other.generation = 3;
    CHECK(write(c.far, &other, sizeof other) == sizeof other, "%d", errno);
    CHECK(vks_server_poll_wait(c.server_poll, events, 4, &count, VKS_FOREVER) == VKS_OK && count == 1, "%u events",
          count);
    CHECK(events[0].token == 11 && events[0].events == VKS_POLL_READ && !events[0].n_unsent, "%u", events[0].events);
    CHECK(recv(c.near, got, sizeof got, MSG_DONTWAIT) == sizeof other, "it is there");
    close(c.far);
    c.far = -1;
    CHECK(vks_server_poll_wait(c.server_poll, events, 4, &count, VKS_FOREVER) == VKS_OK &&
              events[0].events & VKS_POLL_GONE,
          "gone");
    end(&c);
}

static void a_flood_of_no_ops_does_not_keep_the_caller_from_its_signals(void)
{
    connection c = connected();
    vks_server_poll_event events[4];
    enum { MANY = 16 * 300 };
    static vks_wire_header headers[MANY];
    int size = 1 << 20;
    uint32_t count;
    setsockopt(c.far, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    setsockopt(c.near, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    for (uint32_t n = 0; n < MANY; n++)
        headers[n] = no_op(n);
    ssize_t sent = send(c.far, headers, sizeof headers, MSG_DONTWAIT);
    CHECK(sent == sizeof headers, "%zd", sent);
    CHECK(vks_server_poll_wait(c.server_poll, events, 4, &count, VKS_FOREVER) == VKS_INTERRUPTED, "after 256 looks");
    CHECK(vks_server_poll_answered(c.server_poll) == 16 * 256, "%llu",
          (unsigned long long)vks_server_poll_answered(c.server_poll));
    end(&c);
}

int main(void)
{
    RUN(every_command_returns_once_in_order_with_its_result);
    RUN(at_most_66_commands_are_held_and_a_closed_ring_returns_those_not_taken);
    RUN(no_ops_are_answered_and_not_reported);
    RUN(other_requests_stay_in_the_socket_and_are_reported);
    RUN(a_flood_of_no_ops_does_not_keep_the_caller_from_its_signals);
    return check_result();
}
