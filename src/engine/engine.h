/* SPDX-License-Identifier: BSD-2-Clause */
/* engine.h - runs plans: the requests of an open array, as events arrive.
 *
 * The engine owns no thread.  Its caller submits a request and drives the struct io
 * that the engine was given until the request's callback has run:
 *
 *     engine_read(engine, &read);
 *     while (!finished)
 *         io_run(io, IO_NEVER);
 *
 * All memory is allocated by engine_create(); a request allocates nothing. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <stdint.h>

#include "io/io.h"
#include "parity/parity.h"
#include "plan/plan.h"

struct engine;

/* Something that happened to a member while it was used. */
enum engine_notice_kind {
    ENGINE_MEMBER_FAILED, /* it is not used any more */
    ENGINE_RANGE_BAD,     /* these sectors of it can't be read; the rest is used on */
};

struct engine_notice {
    enum engine_notice_kind kind;
    uint32_t io_member;
    int error;              /* negative errno of the I/O that told */
    uint64_t member_sector; /* ENGINE_RANGE_BAD: from the start of the member's data area */
    uint64_t sectors;
};

struct engine_options {
    const struct geometry *geometry; /* not copied, nor is `untrusted` */
    const struct plan_slot *slots;   /* copied, with the bad ranges that they point to */
    const struct range_set *untrusted;
    const uint64_t *data_offset_bytes; /* of each I/O member: where its data area starts; copied */
    uint32_t io_member_count;
    struct io *io;
    const struct parity_kernels *kernels;
    uint64_t io_timeout_ns; /* of each member I/O; 0: 30 s */
    /* Called from io_run(); may be NULL. */
    void (*notice)(void *context, const struct engine_notice *notice);
    void *context;
};

/* A range of the request that came out badly. */
enum engine_flaw {
    ENGINE_UNREADABLE, /* the buffer holds zeros there */
    ENGINE_IN_DOUBT,   /* computed from parity that may not match */
};

struct engine_read {
    uint64_t volume_sector;
    uint64_t sectors; /* >= 1, inside the volume */
    uint8_t *buffer;  /* sectors * 512 bytes, the caller's until done() */
    /* For each flaw, in order of place; may be NULL. */
    void (*flaw)(struct engine_read *read, enum engine_flaw flaw, uint64_t volume_sector,
                 uint64_t sectors);
    /* Once, from io_run().  Flaws are not errors: this says that all of it was gone through. */
    void (*done)(struct engine_read *read);
};

/* A place where what is stored twice disagrees. */
struct engine_mismatch {
    uint64_t sector; /* as in struct engine_check */
    uint64_t sectors;
    /* The one that is wrong, if but one chunk is: where P and Q both are there to tell, or most
     * copies agree.  UINT32_MAX: it can't be told. */
    uint32_t suspect_slot;
    uint32_t suspect_io_member;
    enum plan_role suspect_role;
    bool in_doubt; /* parity wasn't trusted there anyway */
};

/* Compare rows with their parity (RAID 4/5/6; sectors of the members) or copies with each other
 * (mirrors; sectors of the volume). */
struct engine_check {
    uint64_t sector;
    uint64_t sectors; /* >= 1, inside plan_check_sectors() */
    void (*mismatch)(struct engine_check *check, const struct engine_mismatch *mismatch);
    /* For what could not be compared, since nothing is left over there; in order of place. */
    void (*unchecked)(struct engine_check *check, uint64_t sector, uint64_t sectors);
    /* Once, from io_run(). */
    void (*done)(struct engine_check *check);
};

/* Returns 0 or -ENOMEM. */
int engine_create(const struct engine_options *options, struct engine **out);

/* Start a read or a check.  One at a time: the next may start when done() has run. */
void engine_read(struct engine *engine, struct engine_read *read);
void engine_check(struct engine *engine, struct engine_check *check);

/* No request may be under way.  NULL is fine. */
void engine_destroy(struct engine *engine);

#endif
