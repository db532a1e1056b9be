/* SPDX-License-Identifier: BSD-2-Clause */
/* ask.c - asking the control socket of a served array. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "api/internal.h"
#include "util/error.h"

enum { ANSWER_BYTES_MAX = 4 << 20 };

struct asking {
    int fd;
    char *buffer;
    size_t used;
    size_t taken; /* lines before it have been looked at */
};

static int connect_to(const char *path, struct braid_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (strlen(path) >= sizeof address.sun_path)
        return error_set(err, -ENAMETOOLONG, "%s: longer than the path of a socket can be", path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return error_set(err, -errno, "no socket: %s", strerror(errno));
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) < 0) {
        const int error = errno;
        (void)close(fd);
        return error_set(err, -error, "%s: no server answers: %s", path, strerror(error));
    }
    return fd;
}

/* Send the line, with the descriptor at its first byte. */
static int send_line(int fd, const char *line, int passed)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } part = {0};
    size_t sent_bytes = 0;

    while (line[sent_bytes] != '\0') {
        struct iovec iov = {.iov_base = (char *)(uintptr_t)(line + sent_bytes),
                            .iov_len = strlen(line + sent_bytes)};
        struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
        if (passed >= 0 && sent_bytes == 0) {
            message.msg_control = part.bytes;
            message.msg_controllen = sizeof part.bytes;
            struct cmsghdr *header = CMSG_FIRSTHDR(&message);
            header->cmsg_level = SOL_SOCKET;
            header->cmsg_type = SCM_RIGHTS;
            header->cmsg_len = CMSG_LEN(sizeof passed);
            memcpy(CMSG_DATA(header), &passed, sizeof passed);
        }
        const ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            return -errno;
        sent_bytes += sent > 0 ? (size_t)sent : 0;
    }
    return 0;
}

/* The next line, without its newline, valid until the next call.  Returns 0, -ECONNRESET at the end,
 * or a negative errno. */
static int read_line(struct asking *asking, const char **line)
{
    for (;;) {
        char *start = asking->buffer != NULL ? asking->buffer + asking->taken : NULL;
        char *newline = start != NULL ? memchr(start, '\n', asking->used - asking->taken) : NULL;
        if (newline != NULL) {
            *newline = '\0';
            *line = start;
            asking->taken = (size_t)(newline - asking->buffer) + 1;
            return 0;
        }
        if (asking->taken > 0) {
            asking->used -= asking->taken;
            memmove(asking->buffer, start, asking->used);
            asking->taken = 0;
        }
        if (asking->used >= ANSWER_BYTES_MAX)
            return -EMSGSIZE;
        char *grown = realloc(asking->buffer, asking->used + 65536);
        if (grown == NULL)
            return -ENOMEM;
        asking->buffer = grown;
        const ssize_t got = recv(asking->fd, asking->buffer + asking->used, 65536, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got == 0 ? -ECONNRESET : -errno;
        asking->used += (size_t)got;
    }
}

/* The request as a line; with what there is to say of the member that goes along. */
static char *make_line(const char *request, const struct member *member)
{
    json_t *object = json_loads(request, 0, NULL);
    char *line = NULL;

    if (member != NULL) {
        object = facts_set(object, "offset_bytes", facts_count(member->offset_bytes));
        object = facts_set(object, "length_bytes", facts_count(member->length_bytes));
        if (member->path != NULL)
            object = facts_set(object, "path", facts_text(member->path));
    }
    char *text = object != NULL ? json_dumps(object, JSON_COMPACT) : NULL;
    if (text != NULL)
        line = realloc(text, strlen(text) + 2);
    if (line != NULL)
        (void)strcat(line, "\n");
    else
        free(text);
    json_decref(object);
    return line;
}

/* What the server answered. */
static int take_answer(const char *line, char **answer, struct braid_error *err)
{
    json_t *object = json_loads(line, 0, NULL);
    const json_t *error = json_object_get(object, "error");
    const json_t *result = json_object_get(object, "result");
    int code = 0;

    if (error != NULL) {
        const int number = (int)json_integer_value(json_object_get(error, "errno"));
        const char *text = json_string_value(json_object_get(error, "text"));
        code = error_set(err, number > 0 && number < 4096 ? -number : -EIO, "%s",
                         text != NULL ? text : "the server failed, and didn't say how");
    } else if (result == NULL) {
        code = error_set(err, -EBADMSG, "the server's answer can't be understood: %.200s", line);
    } else {
        *answer = json_dumps(result, 0);
        if (*answer == NULL)
            code = error_set(err, -ENOMEM, "no memory");
    }
    json_decref(object);
    return code;
}

int braid_ask(const char *path, const char *request, const char *member,
              bool (*event)(void *context, const char *line), void *context, char **answer,
              struct braid_error *error)
{
    struct asking asking = {.fd = -1};
    struct member *passed = NULL;
    char *line = NULL;
    const char *got;

    int result = connect_to(path, error);
    if (result >= 0) {
        asking.fd = result;
        result = member != NULL ? member_open_writable(member, &passed, error) : 0;
    }
    if (result < 0)
        goto out;
    line = make_line(request, passed);
    result = line != NULL ? send_line(asking.fd, line, passed != NULL ? passed->fd : -1) : -ENOMEM;
    if (result == 0)
        result = read_line(&asking, &got);
    if (result < 0) {
        (void)error_set(error, result, "%s: the server can't be asked: %s", path,
                        strerror(-result));
        goto out;
    }
    result = take_answer(got, answer, error);
    while (result == 0 && event != NULL && read_line(&asking, &got) == 0 && event(context, got))
        continue;
out:
    if (asking.fd >= 0)
        (void)close(asking.fd);
    member_close(passed);
    free(asking.buffer);
    free(line);
    return result;
}
