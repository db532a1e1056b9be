/* SPDX-License-Identifier: BSD-2-Clause */
/* undo.h - changes of metadata that can be taken back.
 *
 * A change is a list of small writes.  Before the first of them what they overwrite is saved in
 * a file, with what they write beside it: so undoing can tell whether anything has come in
 * between, and refuse. */
#ifndef API_UNDO_H
#define API_UNDO_H

#include "api/internal.h"

struct change_write {
    const struct member *member;
    const char *what; /* "superblock", "old superblock" */
    uint64_t offset_bytes;
    uint32_t bytes;
    uint8_t *after;   /* owned */
    uint8_t *before;  /* owned; read by change_prepare() */
    uint8_t *between; /* owned; what all such writes put first, before any puts `after`; or NULL */
};

struct change {
    const char *command; /* "create" */
    struct change_write *writes;
    uint32_t count;
    uint32_t capacity;
    char *undo_path; /* owned; set by change_apply() */
};

/* Add a write; `after` is copied.  Returns 0 or -ENOMEM. */
int change_add(struct change *change, const struct member *member, const char *what,
               uint64_t offset_bytes, const uint8_t *after, uint32_t bytes);

/* Let the last write that was added go in two steps.  Returns 0 or -ENOMEM. */
int change_between(struct change *change, const uint8_t *between);

/* Read what the writes would overwrite.  Returns 0 or a negative errno with *err. */
int change_prepare(struct change *change, struct braid_error *err);

/* Save, write, make durable, read back.  directory: as in braid_create_options.  Returns 0 or a
 * negative errno with *err; change->undo_path is set if anything may have been written. */
int change_apply(struct change *change, const char *directory, struct braid_error *err);

/* The same without saving, for an array that is at work: what is written to it next would make
 * undoing impossible anyway. */
int change_apply_unsaved(struct change *change, struct braid_error *err);

/* The writes as JSON, for people: member, what, offset_bytes, bytes. */
json_t *change_facts(const struct change *change);

void change_clear(struct change *change);

#endif
