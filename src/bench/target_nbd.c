/* SPDX-License-Identifier: BSD-2-Clause */
/* target_nbd.c - what an NBD server serves, as a target: any server's by URI, braid's own by name.
 *
 * Each lane has a connection of its own, so it flushes what it has written itself, and a server that
 * doesn't promise more (multi-conn) needn't.
 *
 *      submit() ---> libnbd sends, now or as the socket takes it
 *      run()    ---> nbd_poll() ---> on_done(): finished[] ---> done()
 *
 * libnbd may run on_done() in any of its calls, with its lock held: so it only notes what is over, and
 * run() tells.  When the connection breaks, libnbd ends what is in flight, and what is submitted
 * later fails at once. */
#include <errno.h>
#include <libnbd.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/target_internal.h"
#include "braid/braid.h"
#include "util/compiler.h"
#include "util/error.h"

enum {
    REQUEST_BYTES_MAX = 32 << 20, /* what every server takes, unless it says less */
    POLL_MS_MAX = 1000,
};

struct nbd {
    struct target target;
    char *place; /* a URI, or the path of a socket */
    bool is_socket;
};

struct slot {
    struct nbd_lane *lane;
    struct target_request *request; /* while it is in flight */
    int result;
};

struct nbd_lane {
    struct target_lane lane;
    struct nbd_handle *handle;
    uint32_t depth;
    uint32_t finished_first; /* in the ring finished[depth] */
    uint32_t finished_count;
    uint32_t *finished;  /* indexes of slots that are over, in order */
    struct slot slots[]; /* by target_request.index */
};

static struct nbd *nbd_of(struct target *target)
{
    return CONTAINER_OF(target, struct nbd, target);
}

static struct nbd_lane *lane_of(struct target_lane *lane)
{
    return CONTAINER_OF(lane, struct nbd_lane, lane);
}

/* ---- connections ---- */

/* What libnbd's last failure on this thread was, as a negative errno; it doesn't always have one. */
static int last_error(void)
{
    const int error = nbd_get_errno();

    return error > 0 ? -error : -EIO;
}

static int connect_to(const struct nbd *nbd, struct nbd_handle **out, struct braid_error *err)
{
    struct nbd_handle *handle = nbd_create();
    int result = -1;

    if (handle != NULL) {
        /* Buffers are all ours; clearing them before each read would count as the server's time. */
        (void)nbd_set_pread_initialize(handle, false);
        result = nbd->is_socket ? nbd_connect_unix(handle, nbd->place)
                                : nbd_connect_uri(handle, nbd->place);
    }
    if (result < 0) {
        result = error_set(err, last_error(), "%s", nbd_get_error());
        nbd_close(handle);
        return result;
    }
    *out = handle;
    return 0;
}

static void disconnect(struct nbd_handle *handle)
{
    if (handle == NULL)
        return;
    (void)nbd_shutdown(handle, 0); /* it may be gone already */
    nbd_close(handle);
}

/* ---- lanes ---- */

static int open_lane(struct target *target, uint32_t depth, struct target_lane **out)
{
    struct nbd_lane *lane = calloc(1, sizeof *lane + depth * sizeof lane->slots[0]);

    if (lane == NULL)
        return -ENOMEM;
    lane->lane = (struct target_lane){.ops = target->ops, .backend = "libnbd"};
    lane->depth = depth;
    lane->finished = calloc(depth, sizeof *lane->finished);
    for (uint32_t i = 0; i < depth; i++)
        lane->slots[i].lane = lane;
    const int result =
        lane->finished != NULL ? connect_to(nbd_of(target), &lane->handle, NULL) : -ENOMEM;
    if (result < 0) {
        free(lane->finished);
        free(lane);
        return result;
    }
    *out = &lane->lane;
    return 0;
}

static void finish(struct slot *slot, int result)
{
    struct nbd_lane *lane = slot->lane;

    const uint32_t last = lane->finished_first + lane->finished_count++;

    assert(lane->finished_count <= lane->depth);
    slot->result = result;
    lane->finished[last < lane->depth ? last : last - lane->depth] = slot->request->index;
}

/* Returns 1: libnbd may forget the command. */
static int on_done(void *user_data, int *error)
{
    finish(user_data, *error > 0 ? -*error : 0);
    return 1;
}

static nbd_completion_callback note_in(struct slot *slot)
{
    return (nbd_completion_callback){.callback = on_done, .user_data = slot};
}

static void submit(struct target_lane *target_lane, struct target_request *request)
{
    struct nbd_lane *lane = lane_of(target_lane);
    struct slot *slot = &lane->slots[request->index];
    int64_t cookie = -1;

    assert(request->index < lane->depth);
    slot->request = request;
    switch (request->op) {
    case TARGET_READ:
        cookie = nbd_aio_pread(lane->handle, request->buffer, request->bytes, request->offset_bytes,
                               note_in(slot), 0);
        break;
    case TARGET_WRITE:
        cookie = nbd_aio_pwrite(lane->handle, request->buffer, request->bytes,
                                request->offset_bytes, note_in(slot), 0);
        break;
    case TARGET_FLUSH:
        /* A server without it says that it keeps nothing back. */
        cookie =
            nbd_can_flush(lane->handle) == 0 ? 0 : nbd_aio_flush(lane->handle, note_in(slot), 0);
        break;
    }
    if (cookie < 0)
        finish(slot, last_error()); /* it wasn't taken, and on_done() won't run */
    else if (cookie == 0)
        finish(slot, 0);
}

/* Report what is over when this begins; what callbacks submit may be over before it ends. */
static void report(struct nbd_lane *lane)
{
    for (uint32_t left = lane->finished_count; left > 0; left--) {
        const struct slot *slot = &lane->slots[lane->finished[lane->finished_first]];

        lane->finished_first =
            lane->finished_first + 1 < lane->depth ? lane->finished_first + 1 : 0;
        lane->finished_count--;
        slot->request->done(slot->request, slot->result);
    }
}

static int wait_ms(uint64_t wait_until_ns)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    const uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    if (wait_until_ns <= now_ns)
        return 0;
    return (int)MIN((wait_until_ns - now_ns) / 1000000 + 1, (uint64_t)POLL_MS_MAX);
}

static void run(struct target_lane *target_lane, uint64_t wait_until_ns)
{
    struct nbd_lane *lane = lane_of(target_lane);

    /* An error is one of the connection, and all that was in flight is over with it. */
    if (lane->finished_count == 0)
        (void)nbd_poll(lane->handle, wait_ms(wait_until_ns));
    report(lane);
}

static void close_lane(struct target_lane *target_lane)
{
    struct nbd_lane *lane = lane_of(target_lane);

    disconnect(lane->handle);
    free(lane->finished);
    free(lane);
}

static void close_nbd(struct target *target)
{
    struct nbd *nbd = nbd_of(target);

    free(nbd->place);
    free(nbd);
}

static const struct target_ops nbd_ops = {
    .lane_open = open_lane,
    .submit = submit,
    .run = run,
    .lane_close = close_lane,
    .close = close_nbd,
};

/* ---- opening ---- */

static int look_at(struct nbd *nbd, struct nbd_handle *handle, const struct target_options *options,
                   struct braid_error *err)
{
    struct target *target = &nbd->target;
    const int64_t size = nbd_get_size(handle);
    const int64_t least = nbd_get_block_size(handle, LIBNBD_SIZE_MINIMUM);
    const int64_t most = nbd_get_block_size(handle, LIBNBD_SIZE_MAXIMUM);

    if (size < 0)
        return error_set(err, last_error(), "%s", nbd_get_error());
    if (options->writes && nbd_is_read_only(handle) != 0)
        return error_set(err, -EROFS, "is served read-only");
    target->block_bytes = (uint32_t)MAX(least, (int64_t)512);
    target->request_bytes_max = most > 0 ? (uint64_t)most : REQUEST_BYTES_MAX;
    target->writable = options->writes;
    return target_choose_size(target, options, (uint64_t)size, err);
}

/* `place` is the caller's. */
static int open_place(const char *place, bool is_socket, const struct target_options *options,
                      struct target **out, struct braid_error *err)
{
    struct nbd *nbd = calloc(1, sizeof *nbd);
    struct nbd_handle *handle = NULL;

    if (nbd == NULL)
        return error_set(err, -ENOMEM, "no memory");
    nbd->target =
        (struct target){.ops = &nbd_ops, .kind = TARGET_NBD, .cache = TARGET_CACHE_UNKNOWN};
    nbd->is_socket = is_socket;
    nbd->place = strdup(place);
    int result =
        nbd->place != NULL ? connect_to(nbd, &handle, err) : error_set(err, -ENOMEM, "no memory");
    if (result == 0)
        result = look_at(nbd, handle, options, err);
    disconnect(handle);
    if (result < 0) {
        target_close(&nbd->target);
        return result;
    }
    *out = &nbd->target;
    return 0;
}

int target_nbd_open(const char *text, const struct target_options *options, struct target **out,
                    struct braid_error *err)
{
    char path[PATH_MAX];
    int result = 0;

    if (options->writes && options->destroy == NULL)
        return target_refuse(text, "", err);
    const bool is_socket = text[0] == ':';
    if (is_socket)
        result = braid_place(options->runtime_directory, text + 1, "nbd", path, sizeof path, err);
    if (result == 0)
        result = open_place(is_socket ? path : text, is_socket, options, out, err);
    if (result < 0)
        error_prefix(err, text);
    return result;
}
