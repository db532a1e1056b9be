/* SPDX-License-Identifier: BSD-2-Clause */
/* without_uring.c - runs a command in which io_uring_setup() fails with EPERM, as where containers or
 * policies refuse it:
 *
 *     without_uring COMMAND [ARGUMENT...]
 *
 * The call has the same number on every architecture.  The filter is inherited by all that the command
 * starts, and can't be taken off. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof filter / sizeof filter[0], .filter = filter};

    if (argc < 2) {
        (void)fprintf(stderr, "usage: without_uring COMMAND [ARGUMENT...]\n");
        return 2;
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0) {
        (void)fprintf(stderr, "without_uring: no filter: %s\n", strerror(errno));
        return 1;
    }
    (void)execvp(argv[1], argv + 1);
    (void)fprintf(stderr, "without_uring: %s: %s\n", argv[1], strerror(errno));
    return 1;
}
