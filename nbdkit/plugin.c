/* SPDX-License-Identifier: BSD-2-Clause */
/* plugin.c - nbdkit-braid-plugin: an array as an NBD export.
 *
 *      nbdkit braid member=a.img member=b.img member=c.img
 *
 * What happens when, for nbdkit may fork in between:
 *
 *      config        names are kept, as absolute paths: the working directory changes later
 *      get_ready     members are opened and locked, the array assembled; a refusal is nbdkit's
 *      after_fork    the array begins to work: rings, threads, the control socket
 *      preconnect    refused when descriptors run short
 *      open          the first connection that may write lets it look after itself
 *      cleanup       no connection is left: it is marked clean, sockets go
 *
 * Requests of all connections come in parallel; each takes one of the array's slots.  nbdkit's buffers
 * are used as they are: the library copies what it has to. */
#define NBDKIT_API_VERSION 2
#include <errno.h>
#include <fcntl.h>
#include <nbdkit-plugin.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "braid/braid.h"
#include "fuse/fuse_file.h"

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

/* nbdkit 1.32.4, 1.32.5 and 1.33.3 to 1.33.9 end with a failed assertion when a client vanishes while
 * several of its requests are worked on (their commits daef505e and 9d82aa4f). */
#define NBDKIT_NUMBER                                                                              \
    (NBDKIT_VERSION_MAJOR * 1000000 + NBDKIT_VERSION_MINOR * 1000 + NBDKIT_VERSION_MICRO)
#define DIES_WITH_ITS_CLIENT                                                                       \
    ((NBDKIT_NUMBER >= 1032004 && NBDKIT_NUMBER < 1033000) ||                                      \
     (NBDKIT_NUMBER >= 1033003 && NBDKIT_NUMBER < 1033010))

enum { MEMBERS_MAX = 512, DEFAULT_SLOTS = 16, FUSE_THREADS = 4, RESERVE_MAX = 512 };

static const char *members[MEMBERS_MAX];
static size_t member_count;
static struct braid_options options;
static const char *missing[MEMBERS_MAX];
static bool read_only;
static bool parallel; /* also where that may be the server's end */
static const char *name = "array";
static const char *control_path;
static const char *socket_path;
static const char *ready_text;
static char *fuse_directory;
static struct fuse_file *fuse_file;
static struct braid_array *array;
static atomic_bool looked_after;

static void warn(void *context, const char *text)
{
    (void)context;
    (void)fprintf(stderr, "braid: %s\n", text);
}

static void plugin_load(void)
{
    braid_options_init(&options);
    options.slots = DEFAULT_SLOTS;
    options.warn = warn;
    options.missing = missing;
}

static void plugin_unload(void)
{
    for (size_t i = 0; i < member_count; i++)
        free((void *)(uintptr_t)members[i]);
    free(fuse_directory);
}

/* ---- what nbdkit is told ---- */

static int add_member(const char *text)
{
    struct braid_error error;
    char *absolute;

    if (member_count == MEMBERS_MAX) {
        nbdkit_error("more than %d members", MEMBERS_MAX);
        return -1;
    }
    if (braid_member_absolute(text, &absolute, &error) < 0) {
        nbdkit_error("%s", error.text);
        return -1;
    }
    members[member_count++] = absolute;
    return 0;
}

static int parse_flag(const char *value, bool *flag)
{
    const int result = nbdkit_parse_bool(value);

    if (result < 0)
        return -1;
    *flag = result == 1;
    return 0;
}

static int parse_bad(const char *value)
{
    if (strcmp(value, "fail") == 0)
        options.bad = BRAID_BAD_FAIL;
    else if (strcmp(value, "zero") == 0)
        options.bad = BRAID_BAD_ZERO;
    else {
        nbdkit_error("bad=%s: expected fail or zero", value);
        return -1;
    }
    return 0;
}

static int parse_timeout(const char *value)
{
    unsigned seconds;

    if (nbdkit_parse_unsigned("io-timeout", value, &seconds) < 0)
        return -1;
    if (seconds < 1 || seconds > 1000000) {
        nbdkit_error("io-timeout=%s: expected seconds, 1 to 1000000", value);
        return -1;
    }
    options.io_timeout_ms = seconds * 1000;
    return 0;
}

static int parse_slots(const char *value)
{
    unsigned slots;

    if (nbdkit_parse_unsigned("slots", value, &slots) < 0)
        return -1;
    if (slots < 1 || slots > 31) {
        nbdkit_error("slots=%s: expected 1 to 31", value);
        return -1;
    }
    options.slots = slots;
    return 0;
}

static int plugin_config(const char *key, const char *value)
{
    if (strcmp(key, "member") == 0)
        return add_member(value);
    if (strcmp(key, "missing") == 0) {
        if (options.missing_count == MEMBERS_MAX)
            return -1;
        missing[options.missing_count++] = value;
        return 0;
    }
    if (strcmp(key, "as") == 0)
        options.as_spec = value;
    else if (strcmp(key, "layout") == 0)
        options.layout = value;
    else if (strcmp(key, "metadata") == 0)
        options.metadata = value;
    else if (strcmp(key, "read-policy") == 0)
        options.read_policy = value;
    else if (strcmp(key, "name") == 0)
        name = value;
    else if (strcmp(key, "control") == 0)
        control_path = value;
    else if (strcmp(key, "socket") == 0)
        socket_path = value;
    else if (strcmp(key, "fuse") == 0) {
        free(fuse_directory);
        fuse_directory = nbdkit_realpath(value);
        return fuse_directory != NULL ? 0 : -1;
    } else if (strcmp(key, "ready") == 0)
        ready_text = value;
    else if (strcmp(key, "parallel") == 0)
        return parse_flag(value, &parallel);
    else if (strcmp(key, "read-only") == 0)
        return parse_flag(value, &read_only);
    else if (strcmp(key, "shared") == 0)
        return parse_flag(value, &options.shared);
    else if (strcmp(key, "force") == 0)
        return parse_flag(value, &options.force);
    else if (strcmp(key, "bad") == 0)
        return parse_bad(value);
    else if (strcmp(key, "io-timeout") == 0)
        return parse_timeout(value);
    else if (strcmp(key, "slots") == 0)
        return parse_slots(value);
    else {
        nbdkit_error("`%s` is no parameter of this plugin", key);
        return -1;
    }
    return 0;
}

#define CONFIG_HELP                                                                                 \
    "member=MEMBER     (required, repeated) PATH, PATH@OFFSET[+LENGTH] or PATH#N, in any order\n"   \
    "read-only=true    open nothing for writing\n"                                                  \
    "missing=MEMBER    leave it out, or slot=N\n"                                                   \
    "as=SPEC           geometry of members without metadata\n"                                      \
    "bad=fail|zero     what to do about data that is lost or in doubt\n"                            \
    "parallel=true     work on several requests of a connection at a time though this version of\n" \
    "                  nbdkit may end when such a client vanishes\n"                                \
    "read-policy=NAME  expected-time, md, round-robin or first: which copy is read\n"               \
    "force=true        write though data is in doubt\n"                                             \
    "io-timeout=SEC    when a member that doesn't answer is given up (30)\n"                        \
    "slots=N           requests that are worked on at a time (16)\n"                                \
    "name=NAME         of the array, in what is told of it\n"                                       \
    "control=PATH      a control socket\n"                                                          \
    "fuse=DIRECTORY    mount that, with the array as a file NAME in it\n"                           \
    "socket=PATH       of nbdkit itself, to be removed at the end\n"                                \
    "ready=TEXT        printed to stderr when requests are served"

static int plugin_config_complete(void)
{
    if (member_count == 0) {
        nbdkit_error("no member is given; say member=PATH for each");
        return -1;
    }
    return 0;
}

/* ---- life ---- */

static int plugin_get_ready(void)
{
    struct braid_error error;

    options.writable = !read_only;
    options.rebuild = !read_only;
    if (braid_open(members, member_count, &options, &array, &error) < 0) {
        nbdkit_error("%s", error.text);
        return -1;
    }
    return 0;
}

static void stop_serving(void *context)
{
    (void)context;
    nbdkit_shutdown();
}

/* What is mounted from it has more in memory than it has given us. */
static const char *why_not_stop(void *context)
{
    (void)context;
    return fuse_file != NULL && fuse_file_users(fuse_file) > 0
               ? "its file is in use: unmount what is mounted from it, detach the loop device"
               : NULL;
}

static int plugin_after_fork(void)
{
    const struct braid_control_options control = {
        .path = control_path, .name = name, .stop = stop_serving, .in_use = why_not_stop};
    struct braid_error error;

    if (braid_start(array, &error) < 0 ||
        (control_path != NULL && braid_control(array, &control, &error) < 0)) {
        nbdkit_error("%s", error.text);
        return -1;
    }
    if (fuse_directory != NULL &&
        fuse_file_start(array,
                        &(struct fuse_file_options){
                            .directory = fuse_directory, .name = name, .threads = FUSE_THREADS},
                        &fuse_file, &error) < 0) {
        nbdkit_error("%s", error.text);
        return -1;
    }
    if (ready_text != NULL)
        (void)fprintf(stderr, "%s\n", ready_text);
    return 0;
}

/* After the last connection, and before nbdkit ends. */
static void plugin_cleanup(void)
{
    fuse_file_stop(fuse_file);
    fuse_file = NULL;
    if (array != NULL && braid_stop(array) < 0)
        (void)fprintf(stderr,
                      "braid: %s: not stopped cleanly: more has failed than the array "
                      "bears\n",
                      name);
    braid_close(array);
    array = NULL;
    if (socket_path != NULL)
        (void)unlink(socket_path);
}

/* ---- connections ---- */

/* Where it would be the server's end, a connection's requests are worked on one after the other;
 * connections still are in parallel. */
static int plugin_thread_model(void)
{
    return DIES_WITH_ITS_CLIENT && !parallel ? NBDKIT_THREAD_MODEL_SERIALIZE_REQUESTS
                                             : NBDKIT_THREAD_MODEL_PARALLEL;
}

/* A connection costs nbdkit three descriptors, and when there are none left it loses sockets for good,
 * and fills its log.  Some have to stay free besides: for the control socket, and for members and lanes
 * that come with a change.  So one that would leave too few is refused at once, before it has said
 * anything.  The lowest free number tells how many are in use. */
static int plugin_preconnect(int connection_read_only)
{
    struct rlimit limit;
    bool full = true;

    (void)connection_read_only;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return 0;
    const rlim_t reserve = limit.rlim_cur / 4 < RESERVE_MAX ? limit.rlim_cur / 4 : RESERVE_MAX;
    const int lowest = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    if (lowest >= 0) {
        full = (rlim_t)lowest >= limit.rlim_cur - reserve;
        (void)close(lowest);
    }
    if (full)
        nbdkit_error("a connection is refused: of %llu descriptors too few are left",
                     (unsigned long long)limit.rlim_cur);
    return full ? -1 : 0;
}

static void *plugin_open(int connection_read_only)
{
    if (!connection_read_only && braid_is_writable(array) && !atomic_exchange(&looked_after, true))
        braid_upkeep(array, true);
    return NBDKIT_HANDLE_NOT_NEEDED;
}

static int64_t plugin_get_size(void *handle)
{
    (void)handle;
    return (int64_t)braid_size(array);
}

static int is_writable(void *handle)
{
    (void)handle;
    return braid_is_writable(array);
}

static int yes(void *handle)
{
    (void)handle;
    return 1;
}

static int plugin_can_fua(void *handle)
{
    (void)handle;
    return braid_is_writable(array) ? NBDKIT_FUA_NATIVE : NBDKIT_FUA_NONE;
}

/* NBD wants a power of two: the largest that divides the stripe. */
static int plugin_block_size(void *handle, uint32_t *minimum, uint32_t *preferred,
                             uint32_t *maximum)
{
    const uint64_t stripe = braid_stripe_bytes(array);
    uint64_t best = stripe & -stripe;

    (void)handle;
    if (best > 32 << 20)
        best = 32 << 20;
    *minimum = 1;
    *preferred = best < 4096 ? 4096 : (uint32_t)best;
    *maximum = 0xffffffff;
    return 0;
}

/* Any request may find that the server is coming to its end. */
static int finish(int result, const char *what, uint64_t offset)
{
    if (result == 0)
        return 0;
    if (result == -EIO)
        nbdkit_error("%s at byte %llu: more is lost than the array bears", what,
                     (unsigned long long)offset);
    else
        nbdkit_error("%s at byte %llu: %s", what, (unsigned long long)offset, strerror(-result));
    nbdkit_set_error(-result);
    return -1;
}

static int plugin_pread(void *handle, void *buffer, uint32_t bytes, uint64_t offset, uint32_t flags)
{
    (void)handle;
    (void)flags;
    return finish(braid_read(array, buffer, bytes, offset), "reading", offset);
}

static int write_bytes(const void *buffer, uint32_t bytes, uint64_t offset, uint32_t flags)
{
    const int result = (flags & NBDKIT_FLAG_FUA) != 0
                           ? braid_write_through(array, buffer, bytes, offset)
                           : braid_write(array, buffer, bytes, offset);

    return finish(result, "writing", offset);
}

static int plugin_pwrite(void *handle, const void *buffer, uint32_t bytes, uint64_t offset,
                         uint32_t flags)
{
    (void)handle;
    return write_bytes(buffer, bytes, offset, flags);
}

static int plugin_zero(void *handle, uint32_t bytes, uint64_t offset, uint32_t flags)
{
    (void)handle;
    /* It may be a hole or not, but it has to be fast or refused at once. */
    if ((flags & NBDKIT_FLAG_FAST_ZERO) != 0 &&
        (!braid_zeroes_fast(array) || offset % braid_stripe_bytes(array) != 0 ||
         bytes % braid_stripe_bytes(array) != 0)) {
        nbdkit_set_error(EOPNOTSUPP);
        return -1;
    }
    return write_bytes(NULL, bytes, offset, flags);
}

/* What is trimmed reads as zeros: members become sparse where they can. */
static int plugin_trim(void *handle, uint32_t bytes, uint64_t offset, uint32_t flags)
{
    (void)handle;
    return write_bytes(NULL, bytes, offset, flags);
}

static int plugin_flush(void *handle, uint32_t flags)
{
    (void)handle;
    (void)flags;
    return finish(braid_flush(array), "flushing", 0);
}

static int add_extent(void *context, uint64_t offset, uint64_t bytes, bool hole)
{
    return nbdkit_add_extent(context, offset, bytes,
                             hole ? NBDKIT_EXTENT_HOLE | NBDKIT_EXTENT_ZERO : 0);
}

static int plugin_extents(void *handle, uint32_t bytes, uint64_t offset, uint32_t flags,
                          struct nbdkit_extents *extents)
{
    (void)handle;
    (void)flags;
    return finish(braid_extents(array, offset, bytes, add_extent, extents), "looking for holes",
                  offset);
}

static struct nbdkit_plugin plugin = {
    .name = "braid",
    .version = BRAID_VERSION,
    .longname = "software RAID in user space",
    .description = "Serves an array of Linux md that its members make.",
    .load = plugin_load,
    .unload = plugin_unload,
    .config = plugin_config,
    .config_complete = plugin_config_complete,
    .config_help = CONFIG_HELP,
    .magic_config_key = "member",
    .thread_model = plugin_thread_model,
    .get_ready = plugin_get_ready,
    .after_fork = plugin_after_fork,
    .cleanup = plugin_cleanup,
    .preconnect = plugin_preconnect,
    .open = plugin_open,
    .get_size = plugin_get_size,
    .block_size = plugin_block_size,
    .can_write = is_writable,
    .can_flush = is_writable,
    .can_trim = is_writable,
    .can_zero = is_writable,
    .can_fast_zero = is_writable,
    .can_fua = plugin_can_fua,
    .can_multi_conn = yes,
    .can_extents = yes,
    .pread = plugin_pread,
    .pwrite = plugin_pwrite,
    .zero = plugin_zero,
    .trim = plugin_trim,
    .flush = plugin_flush,
    .extents = plugin_extents,
};

struct nbdkit_plugin *plugin_init(void); /* what the macro defines; its header doesn't say so */
NBDKIT_REGISTER_PLUGIN(plugin)
