/* SPDX-License-Identifier: BSD-2-Clause */
/* control.h - the control socket of an array that is served: who may ask, and what for.
 *
 * A line each way, JSON:
 *
 *     {"id":1,"cmd":"fail","member":"d2.img"}
 *     {"id":1,"result":{"schema":"braid.done.1", ...}}
 *     {"id":1,"error":{"errno":22,"text":"..."}}
 *
 * `add` and `replace` come with the descriptor of the new member, opened and locked by who asks.
 * After `events` every event is sent as a line of its own. */
#ifndef API_CONTROL_H
#define API_CONTROL_H

#include "api/internal.h"

enum {
    CONTROL_LINE_BYTES = 64 << 10, /* no request is longer */
    CONTROL_CLIENTS = 32,
};

struct control;

/* What control_answer() made of a request. */
struct answer {
    char *line;  /* with its newline, for free(); NULL: no memory */
    bool events; /* from now on the client wants to hear of all events from number `from` on */
    uint64_t from;
    bool stop; /* when the answer is on its way, the server is to stop */
};

/* Answer one request; any thread, but it waits for the service's.
 *
 *   in_use  why the server should better not stop, or NULL
 *   line  `length` bytes of whatever somebody sent, without the newline
 *   fd    that came with it, or -1; taken over */
void control_answer(struct braid_array *array, const char *name, const char *in_use,
                    const char *line, size_t length, int fd, struct answer *out);

/* Listen at options->path until control_end().  Returns 0 or a negative errno with *err. */
int control_start(struct braid_array *array, const struct braid_control_options *options,
                  struct control **out, struct braid_error *err);
/* Answer nobody any more.  Connections stay, for some wait for their end.  NULL is fine. */
void control_end(struct control *control);
/* Close all, and remove the socket.  NULL is fine. */
void control_destroy(struct control *control);

#endif
