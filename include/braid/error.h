/* SPDX-License-Identifier: BSD-2-Clause */
/* braid/error.h - how braid says what went wrong.
 *
 * Functions return 0 or a negative errno.  The vocabulary is small:
 *
 *   -EINVAL      impossible parameters
 *   -ENODATA     no metadata of this kind here
 *   -EBADMSG     metadata damaged
 *   -EOPNOTSUPP  recognised but unsupported
 *   -ESTALE      an out-of-date member
 *   -EIO         redundancy exhausted, or a member cannot be read
 *   -ERANGE      outside the volume
 *   -EAGAIN      all slots in use
 *   -EBUSY       somebody else holds a member
 *   -EEXIST      a member carries something that would be overwritten
 *   -EDOM        a request that cannot be read: a MEMBER, a SPEC, a size, an option
 *   -ENOTBLK     neither a regular file nor a block device
 *   -ENOTUNIQ    more than one answer: ambiguous, duplicate or foreign members
 *
 * and whatever the operating system said when a file could not be opened.
 *
 * Where a person will read it, a function takes a struct braid_error as well.
 * It is the caller's, may be NULL, and is written once, at the point of
 * failure, with what, where, expected and found. */
#ifndef BRAID_ERROR_H
#define BRAID_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

#define BRAID_ERROR_BYTES 1024

struct braid_error {
    int code;                     /* the same negative errno that was returned; 0 if none */
    char text[BRAID_ERROR_BYTES]; /* one or more lines without a final newline; "" if none */
};

#ifdef __cplusplus
}
#endif
#endif
