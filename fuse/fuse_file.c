/* SPDX-License-Identifier: BSD-2-Clause */
/* fuse_file.c - an array as a file, through libfuse's low-level interface.
 *
 *      /dev/fuse ---> threads, each: receive, read or write the array, reply
 *
 * There are two inodes, the directory and the file, and neither ever changes.  The kernel is told not to
 * cache the file: the same array may be written through NBD at the same time, and what is cached once
 * more above (a loop device, a virtual machine) needn't be cached here.
 *
 * libfuse's own loop can't be ended from outside without a signal, so the threads wait themselves,
 * for the kernel or the end, on a descriptor that doesn't block: who comes late finds nothing. */
#define FUSE_USE_VERSION 314
#include "fuse/fuse_file.h"

#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <linux/falloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    INODE_FILE = 2, /* FUSE_ROOT_ID is the directory */
    THREADS_MAX = 16,
};

struct fuse_file {
    struct braid_array *array;
    char *name;
    struct fuse_session *session;
    struct timespec since;
    bool mounted;
    int end; /* readable: leave */
    atomic_uint users;
    pthread_t threads[THREADS_MAX];
    uint32_t thread_count;
};

static struct fuse_file *file_of(fuse_req_t request)
{
    return fuse_req_userdata(request);
}

static void fill(const struct fuse_file *file, fuse_ino_t inode, struct stat *status)
{
    const bool writable = braid_is_writable(file->array);

    *status = (struct stat){
        .st_ino = inode,
        .st_uid = geteuid(),
        .st_gid = getegid(),
        .st_atim = file->since,
        .st_mtim = file->since,
        .st_ctim = file->since,
        .st_blksize = 4096,
    };
    if (inode == FUSE_ROOT_ID) {
        status->st_mode = S_IFDIR | 0500;
        status->st_nlink = 2;
        return;
    }
    status->st_mode = S_IFREG | (writable ? 0600 : 0400);
    status->st_nlink = 1;
    status->st_size = (off_t)braid_size(file->array);
    status->st_blocks = status->st_size / 512;
}

/* ---- names ---- */

static void do_lookup(fuse_req_t request, fuse_ino_t parent, const char *name)
{
    const struct fuse_file *file = file_of(request);
    struct fuse_entry_param entry = {.ino = INODE_FILE, .attr_timeout = 60, .entry_timeout = 60};

    if (parent != FUSE_ROOT_ID || strcmp(name, file->name) != 0) {
        (void)fuse_reply_err(request, ENOENT);
        return;
    }
    fill(file, INODE_FILE, &entry.attr);
    (void)fuse_reply_entry(request, &entry);
}

static void do_getattr(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info *info)
{
    struct stat status;

    (void)info;
    fill(file_of(request), inode, &status);
    (void)fuse_reply_attr(request, &status, 60);
}

/* Times and the size it has already may be set, to no effect: that is what `truncate` and a
 * careful copy do. */
static void do_setattr(fuse_req_t request, fuse_ino_t inode, struct stat *wanted, int what,
                       struct fuse_file_info *info)
{
    const struct fuse_file *file = file_of(request);
    const bool resizes =
        (what & FUSE_SET_ATTR_SIZE) != 0 && (uint64_t)wanted->st_size != braid_size(file->array);
    const int owner = FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID;

    if (inode != INODE_FILE || resizes || (what & owner) != 0)
        (void)fuse_reply_err(request, EPERM);
    else
        do_getattr(request, inode, info);
}

static void do_readdir(fuse_req_t request, fuse_ino_t inode, size_t bytes, off_t offset,
                       struct fuse_file_info *info)
{
    const struct fuse_file *file = file_of(request);
    const char *names[] = {".", "..", file->name};
    const fuse_ino_t inodes[] = {FUSE_ROOT_ID, FUSE_ROOT_ID, INODE_FILE};
    char buffer[1024];
    size_t used = 0;

    (void)info;
    if (inode != FUSE_ROOT_ID) {
        (void)fuse_reply_err(request, ENOTDIR);
        return;
    }
    if (bytes > sizeof buffer)
        bytes = sizeof buffer;
    for (off_t i = offset; i < 3; i++) {
        struct stat status;
        fill(file, inodes[i], &status);
        const size_t more =
            fuse_add_direntry(request, buffer + used, bytes - used, names[i], &status, i + 1);
        if (more > bytes - used)
            break;
        used += more;
    }
    (void)fuse_reply_buf(request, buffer, used);
}

static void do_open(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info *info)
{
    const bool writes = (info->flags & O_ACCMODE) != O_RDONLY;

    if (inode != INODE_FILE) {
        (void)fuse_reply_err(request, EISDIR);
        return;
    }
    if (writes && !braid_is_writable(file_of(request)->array)) {
        (void)fuse_reply_err(request, EROFS);
        return;
    }
    info->direct_io = 1;
    if (writes)
        braid_upkeep(file_of(request)->array, true);
    atomic_fetch_add(&file_of(request)->users, 1);
    if (fuse_reply_open(request, info) < 0) /* who asked has gone, and won't close it */
        atomic_fetch_sub(&file_of(request)->users, 1);
}

static void do_release(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info *info)
{
    (void)inode;
    (void)info;
    atomic_fetch_sub(&file_of(request)->users, 1);
    (void)fuse_reply_err(request, 0);
}

/* ---- contents ---- */

/* As much of a range as the array has; 0 from its end on. */
static size_t clip(const struct fuse_file *file, size_t bytes, off_t offset)
{
    const uint64_t size = braid_size(file->array);

    if (offset < 0 || (uint64_t)offset >= size)
        return 0;
    return bytes < size - (uint64_t)offset ? bytes : (size_t)(size - (uint64_t)offset);
}

static void do_read(fuse_req_t request, fuse_ino_t inode, size_t bytes, off_t offset,
                    struct fuse_file_info *info)
{
    struct fuse_file *file = file_of(request);
    const size_t there = clip(file, bytes, offset);
    char *buffer = malloc(there > 0 ? there : 1);

    (void)inode;
    (void)info;
    const int result =
        buffer != NULL ? braid_read(file->array, buffer, there, (uint64_t)offset) : -ENOMEM;
    if (result < 0)
        (void)fuse_reply_err(request, -result);
    else
        (void)fuse_reply_buf(request, buffer, there);
    free(buffer);
}

static void do_write(fuse_req_t request, fuse_ino_t inode, const char *buffer, size_t bytes,
                     off_t offset, struct fuse_file_info *info)
{
    struct fuse_file *file = file_of(request);
    const size_t fits = clip(file, bytes, offset);
    int result = fits > 0 || bytes == 0 ? 0 : -ENOSPC;

    (void)inode;
    if (result == 0 && (info->flags & (O_SYNC | O_DSYNC)) != 0)
        result = braid_write_through(file->array, buffer, fits, (uint64_t)offset);
    else if (result == 0)
        result = braid_write(file->array, buffer, fits, (uint64_t)offset);
    if (result < 0)
        (void)fuse_reply_err(request, -result);
    else
        (void)fuse_reply_write(request, fits);
}

static void do_fsync(fuse_req_t request, fuse_ino_t inode, int data_only,
                     struct fuse_file_info *info)
{
    struct fuse_file *file = file_of(request);

    (void)inode;
    (void)data_only;
    (void)info;
    const int result = braid_is_writable(file->array) ? braid_flush(file->array) : 0;
    (void)fuse_reply_err(request, -result);
}

/* Holes and zeros inside the file; it doesn't grow. */
static void do_fallocate(fuse_req_t request, fuse_ino_t inode, int mode, off_t offset, off_t length,
                         struct fuse_file_info *info)
{
    struct fuse_file *file = file_of(request);
    const int zeros = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE;
    int result = 0;

    (void)inode;
    (void)info;
    if ((mode & ~(zeros | FALLOC_FL_KEEP_SIZE)) != 0)
        result = -EOPNOTSUPP;
    else if (clip(file, (size_t)length, offset) != (size_t)length)
        result = -ENOSPC;
    else if ((mode & zeros) != 0)
        result = braid_write(file->array, NULL, (size_t)length, (uint64_t)offset);
    (void)fuse_reply_err(request, -result);
}

static void do_statfs(fuse_req_t request, fuse_ino_t inode)
{
    const struct fuse_file *file = file_of(request);
    const struct statvfs status = {
        .f_bsize = 4096,
        .f_frsize = 512,
        .f_blocks = braid_size(file->array) / 512,
        .f_files = 2,
        .f_namemax = 255,
    };

    (void)inode;
    (void)fuse_reply_statfs(request, &status);
}

static const struct fuse_lowlevel_ops operations = {
    .lookup = do_lookup,
    .getattr = do_getattr,
    .setattr = do_setattr,
    .readdir = do_readdir,
    .open = do_open,
    .release = do_release,
    .read = do_read,
    .write = do_write,
    .fsync = do_fsync,
    .fallocate = do_fallocate,
    .statfs = do_statfs,
};

/* ---- threads ---- */

static void *thread_main(void *argument)
{
    struct fuse_file *file = argument;
    struct fuse_buf buffer = {.mem = NULL};
    struct pollfd polls[] = {
        {.fd = file->end,                      .events = POLLIN},
        {.fd = fuse_session_fd(file->session), .events = POLLIN},
    };

    while (!fuse_session_exited(file->session)) {
        if (poll(polls, 2, -1) < 0 && errno != EINTR)
            break;
        if (polls[0].revents != 0)
            break;
        const int got = fuse_session_receive_buf(file->session, &buffer);
        if (got > 0)
            fuse_session_process_buf(file->session, &buffer);
        else if (got != -EAGAIN && got != -EINTR)
            break; /* unmounted */
    }
    free(buffer.mem);
    return NULL;
}

static int start_threads(struct fuse_file *file, uint32_t count)
{
    sigset_t all;
    sigset_t before;
    int error = 0;

    (void)sigfillset(&all); /* signals are for the program */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    while (error == 0 && file->thread_count < count && file->thread_count < THREADS_MAX) {
        error = pthread_create(&file->threads[file->thread_count], NULL, thread_main, file);
        file->thread_count += error == 0;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -error;
}

/* ---- life ---- */

static int say(struct braid_error *error, int code, const char *directory, const char *why)
{
    if (error != NULL)
        (void)snprintf(error->text, sizeof error->text, "%.300s: %.300s", directory, why);
    return code;
}

static struct fuse_session *new_session(struct fuse_file *file)
{
    char options[200];
    char program[] = "braid";
    char flag[] = "-o";
    char *words[] = {program, flag, options};
    struct fuse_args arguments = FUSE_ARGS_INIT(3, words);

    (void)snprintf(options, sizeof options, "fsname=braid:%.64s,subtype=braid,default_permissions",
                   file->name);
    struct fuse_session *session =
        fuse_session_new(&arguments, &operations, sizeof operations, file);
    fuse_opt_free_args(&arguments);
    return session;
}

int fuse_file_start(struct braid_array *array, const struct fuse_file_options *options,
                    struct fuse_file **out, struct braid_error *error)
{
    struct fuse_file *file = calloc(1, sizeof *file);
    int result = -ENOMEM;

    if (file == NULL)
        return say(error, -ENOMEM, options->directory, "no memory");
    file->array = array;
    file->name = strdup(options->name);
    file->end = eventfd(0, EFD_CLOEXEC);
    (void)clock_gettime(CLOCK_REALTIME, &file->since);
    if (file->name == NULL || file->end < 0) {
        (void)say(error, result, options->directory, "no memory");
        goto fail;
    }
    file->session = new_session(file);
    if (file->session == NULL || fuse_session_mount(file->session, options->directory) != 0) {
        result = say(error, -EIO, options->directory,
                     "cannot be mounted over; is it an empty directory, and are /dev/fuse and "
                     "fusermount3 there?");
        goto fail;
    }
    file->mounted = true;
    const int fd = fuse_session_fd(file->session);
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0) {
        result = say(error, -errno, options->directory, strerror(errno));
        goto fail;
    }
    result = start_threads(file, options->threads);
    if (result < 0) {
        (void)say(error, result, options->directory, "no thread can be started");
        goto fail;
    }
    *out = file;
    return 0;

fail:
    fuse_file_stop(file);
    return result;
}

uint32_t fuse_file_users(struct fuse_file *file)
{
    return atomic_load(&file->users);
}

void fuse_file_stop(struct fuse_file *file)
{
    const uint64_t one = 1;

    if (file == NULL)
        return;
    if (file->thread_count > 0 && write(file->end, &one, sizeof one) == sizeof one)
        for (uint32_t i = 0; i < file->thread_count; i++)
            (void)pthread_join(file->threads[i], NULL);
    if (file->mounted)
        fuse_session_unmount(file->session);
    if (file->session != NULL)
        fuse_session_destroy(file->session);
    if (file->end >= 0)
        (void)close(file->end);
    free(file->name);
    free(file);
}
