/* SPDX-License-Identifier: BSD-2-Clause */
/* control.c - the control socket of a served array: connections, lines, descriptors.
 *
 * One thread waits for all of them.  It answers one request after the other, so a slow change holds
 * up the next question, and no two changes ever meet.  What a client sends or leaves unread costs it
 * its own connection at most: a line is bounded, so is what waits to be sent.  Who doesn't read the
 * answers gets no more of them, and whoever reads events too slowly misses some, which their numbers
 * tell. */
#include "api/control.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "api/events.h"
#include "util/compiler.h"
#include "util/error.h"

enum {
    OUT_BYTES_MAX = 1 << 20,
    AHEAD_BYTES = 64 << 10, /* a client that has so much unread gets no more answers or events */
    PASSED_MAX = 4,         /* descriptors that are looked at in one message */
    DEAF_MS = 100,          /* nobody is let in for so long when there are no descriptors */
};

struct client {
    int fd;   /* -1: free */
    char *in; /* CONTROL_LINE_BYTES */
    size_t in_used;
    bool line_waits; /* in `in`, for what was answered before to be read */
    char *out;
    size_t out_used;
    int passed_fd; /* with the line that is coming in; -1: none */
    bool said_all; /* nothing more comes; closed when all is answered */
    bool ends;     /* nothing more is answered; closed when all is sent */
    bool streams;
    uint64_t next_event;
};

struct control {
    struct braid_array *array;
    struct braid_control_options options;
    char *path;
    char *name;
    int listener;
    int end; /* readable: leave */
    bool ended;
    bool deaf; /* for DEAF_MS */
    pthread_t thread;
    struct client clients[CONTROL_CLIENTS];
};

/* ---- a client's lines ---- */

static void forget_passed(struct client *client)
{
    if (client->passed_fd >= 0)
        (void)close(client->passed_fd);
    client->passed_fd = -1;
}

static void drop(struct client *client)
{
    (void)close(client->fd);
    forget_passed(client);
    free(client->in);
    free(client->out);
    *client = (struct client){.fd = -1, .passed_fd = -1};
}

static bool queue(struct client *client, const char *line)
{
    const size_t bytes = line != NULL ? strlen(line) : 0;
    char *grown;

    if (line == NULL || client->out_used + bytes > OUT_BYTES_MAX)
        return false;
    grown = realloc(client->out, client->out_used + bytes + 1);
    if (grown == NULL)
        return false;
    client->out = grown;
    memcpy(client->out + client->out_used, line, bytes);
    client->out_used += bytes;
    return true;
}

static void answer_line(struct control *control, struct client *client, const char *line,
                        size_t bytes)
{
    struct answer answer;
    const int fd = client->passed_fd;

    client->passed_fd = -1;
    const struct braid_control_options *options = &control->options;
    const char *in_use = options->in_use != NULL ? options->in_use(options->context) : NULL;
    control_answer(control->array, control->name, in_use, line, bytes, fd, &answer);
    if (!queue(client, answer.line))
        client->ends = true;
    free(answer.line);
    if (answer.events) {
        client->streams = true;
        client->next_event = answer.from;
    }
    if (answer.stop && control->options.stop != NULL)
        control->options.stop(control->options.context);
}

/* Answer what is there, as far as the client keeps up with the answers. */
static void take_lines(struct control *control, struct client *client)
{
    const char *newline = NULL;
    size_t start = 0;

    while (!client->ends) {
        const char *from = client->in + start;
        newline = memchr(from, '\n', client->in_used - start);
        if (newline == NULL || client->out_used >= AHEAD_BYTES)
            break;
        answer_line(control, client, from, (size_t)(newline - from));
        start += (size_t)(newline - from) + 1;
    }
    client->line_waits = newline != NULL && !client->ends;
    client->in_used -= start;
    memmove(client->in, client->in + start, client->in_used);
    if (client->in_used == CONTROL_LINE_BYTES && !client->line_waits && !client->ends) {
        (void)queue(client, "{\"id\":null,\"error\":{\"errno\":90,\"text\":\"the line is too "
                            "long\"}}\n");
        client->ends = true;
    }
}

/* Descriptors that came along: the last one is kept, nobody passes two. */
static void take_descriptors(struct client *client, struct msghdr *message)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part != NULL;
         part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
            forget_passed(client);
            client->passed_fd = fd;
        }
    }
}

/* A descriptor belongs to the line that begins with what it came with.  The kernel may hand over what
 * was sent before in the same piece: then nobody knows which line that is, and none gets it. */
static bool tells_whose(const struct client *client, size_t before)
{
    const char *newline = memchr(client->in, '\n', client->in_used);

    return before == 0 && (newline == NULL || newline == client->in + client->in_used - 1);
}

static void receive(struct client *client)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(PASSED_MAX * sizeof(int))];
    } parts;
    struct iovec iov = {.iov_base = client->in + client->in_used,
                        .iov_len = CONTROL_LINE_BYTES - client->in_used};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = parts.bytes,
                             .msg_controllen = sizeof parts.bytes};
    const ssize_t got = recvmsg(client->fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

    if (got > 0) {
        const size_t before = client->in_used;
        client->in_used += (size_t)got;
        take_descriptors(client, &message);
        if (message.msg_controllen > 0 && !tells_whose(client, before))
            forget_passed(client);
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
        client->said_all = true;
    }
}

/* Send what waits.  Returns false when the client is gone. */
static bool send_out(struct client *client)
{
    while (client->out_used > 0) {
        const ssize_t sent =
            send(client->fd, client->out, client->out_used, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0)
            return errno == EAGAIN || errno == EINTR;
        client->out_used -= (size_t)sent;
        memmove(client->out, client->out + sent, client->out_used);
    }
    return true;
}

static void queue_events(struct control *control, struct client *client)
{
    char line[EVENT_BYTES];
    uint64_t number;

    while (client->streams && client->out_used < AHEAD_BYTES &&
           (number = events_get(control->array->events, client->next_event, line)) != 0) {
        if (!queue(client, line))
            client->ends = true;
        client->next_event = number + 1;
    }
}

/* ---- the thread ---- */

static bool may_ask(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof peer;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
           (peer.uid == 0 || peer.uid == geteuid());
}

static struct client *free_client(struct control *control)
{
    for (uint32_t i = 0; i < CONTROL_CLIENTS; i++)
        if (control->clients[i].fd < 0)
            return &control->clients[i];
    return NULL;
}

static void welcome(struct control *control)
{
    struct client *client = free_client(control);
    const int fd = accept4(control->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0) {
        control->deaf = errno != EAGAIN && errno != EINTR && errno != ECONNABORTED;
        return;
    }
    client->in = may_ask(fd) ? malloc(CONTROL_LINE_BYTES) : NULL;
    if (client->in == NULL) {
        (void)close(fd);
        return;
    }
    client->fd = fd;
}

static bool wants_more(const struct client *client)
{
    return !client->said_all && !client->ends && client->in_used < CONTROL_LINE_BYTES &&
           client->out_used < AHEAD_BYTES;
}

/* There is a line to answer or an event to send, without anything else to wait for. */
static bool is_due(const struct control *control, const struct client *client)
{
    return client->fd >= 0 && client->out_used < AHEAD_BYTES &&
           (client->line_waits ||
            (client->streams && client->next_event < events_next(control->array->events)));
}

static short wanted(const struct client *client)
{
    return (short)((wants_more(client) ? POLLIN : 0) | (client->out_used > 0 ? POLLOUT : 0));
}

/* A client's turn: so much is answered as may be ahead, then the next one is served. */
static void serve(struct control *control, struct client *client, short events)
{
    if ((events & (POLLIN | POLLHUP | POLLERR)) != 0 && wants_more(client))
        receive(client);
    take_lines(control, client);
    queue_events(control, client);
    const bool over = client->ends || (client->said_all && !client->line_waits);
    if (!send_out(client) || (over && client->out_used == 0))
        drop(client);
}

static void *thread_main(void *argument)
{
    struct control *control = argument;
    const int news = events_fd(control->array->events);
    struct pollfd polls[3 + CONTROL_CLIENTS];
    uint64_t count;

    for (;;) {
        int timeout_ms = control->deaf ? DEAF_MS : -1;
        polls[0] = (struct pollfd){.fd = control->end, .events = POLLIN};
        polls[1] = (struct pollfd){.fd = news, .events = POLLIN};
        const bool opens = !control->deaf && free_client(control) != NULL;
        polls[2] = (struct pollfd){.fd = opens ? control->listener : -1, .events = POLLIN};
        for (uint32_t i = 0; i < CONTROL_CLIENTS; i++) {
            polls[3 + i] = (struct pollfd){.fd = control->clients[i].fd,
                                           .events = wanted(&control->clients[i])};
            if (is_due(control, &control->clients[i]))
                timeout_ms = 0;
        }
        control->deaf = false;
        if (poll(polls, ARRAY_COUNT(polls), timeout_ms) < 0 && errno != EINTR)
            return NULL;
        if (polls[0].revents != 0)
            return NULL;
        if (polls[1].revents != 0 && read(news, &count, sizeof count) < 0)
            return NULL;
        for (uint32_t i = 0; i < CONTROL_CLIENTS; i++) {
            struct client *client = &control->clients[i];
            if (client->fd >= 0 && (polls[3 + i].revents != 0 || is_due(control, client)))
                serve(control, client, polls[3 + i].revents);
        }
        if (polls[2].revents != 0)
            welcome(control);
    }
}

/* ---- life ---- */

static int listen_at(const char *path, struct braid_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd;

    if (strlen(path) >= sizeof address.sun_path)
        return error_set(err, -ENAMETOOLONG, "%s: longer than the path of a socket can be", path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set(err, -errno, "no socket: %s", strerror(errno));
    if (bind(fd, (const struct sockaddr *)&address, sizeof address) < 0 || chmod(path, 0600) < 0 ||
        listen(fd, 128) < 0) {
        const int error = errno;
        (void)close(fd);
        return error_set(err, -error, "%s: cannot be listened at: %s", path, strerror(error));
    }
    return fd;
}

static int start_thread(struct control *control)
{
    sigset_t all;
    sigset_t before;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&control->thread, NULL, thread_main, control);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -error;
}

static void release(struct control *control)
{
    if (control->listener >= 0) {
        (void)close(control->listener);
        (void)unlink(control->path);
    }
    if (control->end >= 0)
        (void)close(control->end);
    free(control->path);
    free(control->name);
    free(control);
}

int control_start(struct braid_array *array, const struct braid_control_options *options,
                  struct control **out, struct braid_error *err)
{
    struct control *control = calloc(1, sizeof *control);
    int result;

    if (control == NULL)
        return error_set(err, -ENOMEM, "no memory");
    control->array = array;
    control->options = *options;
    control->listener = -1;
    for (uint32_t i = 0; i < CONTROL_CLIENTS; i++)
        control->clients[i] = (struct client){.fd = -1, .passed_fd = -1};
    control->path = strdup(options->path);
    control->name = strdup(options->name);
    control->end = eventfd(0, EFD_CLOEXEC);
    if (control->path == NULL || control->name == NULL || control->end < 0) {
        result = error_set(err, -ENOMEM, "no memory");
        goto fail;
    }
    result = listen_at(control->path, err);
    if (result < 0)
        goto fail;
    control->listener = result;
    result = start_thread(control);
    if (result < 0) {
        (void)error_set(err, result, "no thread can be started: %s", strerror(-result));
        goto fail;
    }
    *out = control;
    return 0;

fail:
    release(control);
    return result;
}

void control_end(struct control *control)
{
    const uint64_t one = 1;

    if (control == NULL || control->ended)
        return;
    control->ended = write(control->end, &one, sizeof one) == sizeof one;
    (void)pthread_join(control->thread, NULL);
}

void control_destroy(struct control *control)
{
    if (control == NULL)
        return;
    control_end(control);
    for (uint32_t i = 0; i < CONTROL_CLIENTS; i++)
        if (control->clients[i].fd >= 0)
            drop(&control->clients[i]);
    release(control);
}
