/* SPDX-License-Identifier: BSD-2-Clause */
/* member.h - a member as the user named it: finding, opening and locking it.
 *
 *   PATH                    a regular file or block device
 *   PATH@OFFSET[+LENGTH]    a range of it
 *   PATH#N                  partition N of a GPT, MBR or BSD label inside it
 *   missing                 no member, but its place
 *
 * A literal @, # or \ in a path is written \@, \#, \\. */
#ifndef IO_MEMBER_H
#define IO_MEMBER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "braid/error.h"

struct member_spec {
    char path[PATH_MAX];
    bool missing;
    bool has_range;
    uint64_t offset_bytes;
    uint64_t length_bytes; /* 0: up to the end */
    uint32_t partition;    /* 0: none */
};

/* Pure.  Returns 0, -EDOM for a text that is no MEMBER, or -EOPNOTSUPP for a URI. */
int member_spec_parse(const char *text, struct member_spec *out, struct braid_error *err);

/* An open member: bytes [offset_bytes, offset_bytes + length_bytes) of fd. */
struct member {
    char *name; /* as the user would name it, for messages */
    char *path; /* absolute, of a writable regular file; else NULL */
    int fd;     /* read-only, or both, as it was opened */
    bool writable;
    uint64_t offset_bytes;
    uint64_t length_bytes;
    uint64_t device_bytes; /* of the whole file or device */
    uint32_t block_bytes;  /* the device's own sector: 512 for files */
    bool block_device;
    bool
        rotational; /* the device, or the one that the file lies on; false also if that isn't known */
    bool whole;     /* named by path alone, so that its partitions may be looked at */
    dev_t device;
    ino_t inode;
};

#define MEMBER_SIGNATURE_BYTES 200

/* Open a member for reading and take the reader's lock on its range (D9).
 *
 *   shared  go on though somebody is writing to it
 *
 * Returns 0 and a member for member_close(); -EBUSY when somebody holds it for writing,
 * *err says who; the parse errors of member_spec_parse(); -ENXIO for a partition that isn't
 * there; -ENOTBLK for what is no file or block device; -ENODATA for one that is empty; or
 * what open() said.
 * A spec `missing` is -EINVAL here. */
int member_open(const char *text, bool shared, struct member **out, struct braid_error *err);

/* Open a member for reading and writing, and hold it alone (D9): an OFD write lock on its range of
 * a file, O_EXCL on a block device, which keeps mounts and the kernel's md out as well.
 * Arguments and errors as for member_open(); -EBUSY also when somebody reads it. */
int member_open_writable(const char *text, struct member **out, struct braid_error *err);

/* What is told of a member that another process has opened, and holds. */
struct member_passed {
    const char *name;
    const char *path; /* as in struct member; NULL: none */
    uint64_t offset_bytes;
    uint64_t length_bytes; /* 0: up to the end */
};

/* A member from a descriptor that another process has opened for writing, with the lock that belongs
 * to it.  Takes fd over, also on failure.  Errors as for member_open(); -EBADF for what can't be
 * written to. */
int member_adopt(int fd, const struct member_passed *passed, struct member **out,
                 struct braid_error *err);

/* Whether the kernel says so of a device, or of the disk that it is a partition of; sysfs: "/sys".
 * False for what isn't there, as file systems that lie on no one device. */
bool device_is_rotational(const char *sysfs, dev_t device);

/* The partition of an already open whole member, as a member of its own. */
int member_open_partition(const struct member *disk, uint32_t partition, bool shared,
                          struct member **out, struct braid_error *err);

void member_close(struct member *member);

/* Read exactly `bytes` at `offset` of the member, waiting for it: for metadata.
 * Returns 0, -ENXIO past the member's end, or a negative errno. */
int member_read(const struct member *member, void *buffer, uint64_t bytes, uint64_t offset);

/* Write exactly `bytes` at `offset`, which lie inside the member; durable after member_sync().
 * Both return 0 or a negative errno. */
int member_write(const struct member *member, const void *buffer, uint64_t bytes, uint64_t offset);
int member_sync(const struct member *member);

/* Whether the two have bytes in common: the same file, and ranges in it that overlap. */
bool member_overlaps(const struct member *a, const struct member *b);

/* Whether zeros can be written to it as a hole: true for a file whose file system does that. */
bool member_punches(const struct member *member);

/* What libblkid finds on the member that would be overwritten: a file system, a partition table,
 * RAID metadata.  Fills `what` ("ext4 file system, label data") and returns 1; 0 if there is
 * nothing; or a negative errno. */
int member_signature(const struct member *member, char what[MEMBER_SIGNATURE_BYTES]);

/* The first byte of [offset, offset + bytes) that isn't zero, or UINT64_MAX; holes are skipped.
 * Returns 0 or a negative errno. */
int member_find_nonzero(const struct member *member, uint64_t offset, uint64_t bytes,
                        uint64_t *found);

struct partition {
    uint32_t number;
    uint64_t offset_bytes; /* from the member's start */
    uint64_t length_bytes;
    char type[40]; /* GPT type UUID or MBR type, as libblkid writes it; "" if unknown */
};
#define PARTITIONS_MAX 256

/* The partitions inside [offset, offset + length) of fd; extended MBR partitions, which
 * only hold others, are left out.  Returns how many (0: no table), at most PARTITIONS_MAX,
 * or a negative errno. */
int partitions_list(int fd, uint64_t offset_bytes, uint64_t length_bytes,
                    struct partition out[PARTITIONS_MAX]);

/* member_lock.c: the two halves of D9.  Return 0 or -EBUSY with *err. */
int member_lock_shared(const struct member *member, uint32_t partition, struct braid_error *err);
int member_lock_exclusive(const struct member *member, uint32_t partition, struct braid_error *err);
/* A device could not be opened with O_EXCL: who has claimed it?  Returns -EBUSY with *err. */
int member_claimed(const struct member *member, uint32_t partition, struct braid_error *err);

#endif
