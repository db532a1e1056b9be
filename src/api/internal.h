/* SPDX-License-Identifier: BSD-2-Clause */
/* internal.h - what the files of src/api share: probed members and assembled arrays. */
#ifndef API_INTERNAL_H
#define API_INTERNAL_H

#include <jansson.h>

#include "braid/braid.h"
#include "engine/engine.h"
#include "format/md.h"
#include "format/md_assemble.h"
#include "io/io.h"
#include "io/member.h"
#include "util/compiler.h"

/* ---- probe.c: reading what stands on a member ---- */

/* A superblock that was found, sound or damaged. */
struct found {
    struct md_super super;
    int result; /* of md_super_decode(): 0 or -EBADMSG */
    struct braid_error error;
};

struct probe {
    struct member *member; /* owned */
    struct found *found;   /* found_count of them, owned; by enum md_version */
    uint32_t found_count;
};

/* Look for superblocks of all versions.  Takes the member over, also on failure.
 * Returns 0 (also when there is none) or what reading said, with *err. */
int probe_member(struct member *member, struct probe *out, struct braid_error *err);
void probe_clear(struct probe *probe);

/* Somebody is writing to a member that is to be read: say in *err what to do. */
void advise_reader(const struct braid_options *options, struct braid_error *err);

/* The one superblock to use: the sound one, of version `only` if that isn't
 * MD_VERSION_COUNT.  Returns its index in found; -ENODATA, -EBADMSG or -ENOTUNIQ with *err. */
int probe_choose(const struct probe *probe, enum md_version only, struct braid_error *err);

/* A member's bitmap. */
struct probed_bitmap {
    struct md_bitmap bitmap; /* as far as result says that it could be read */
    int result;              /* 0, -ENODATA, -EBADMSG, -EOPNOTSUPP or of reading */
    struct braid_error error;
    uint64_t dirty_bits;
};

/* Read the bitmap that `super` points to; its dirty ranges are added to `dirty` (may be NULL). */
void probe_bitmap(const struct member *member, const struct md_super *super,
                  struct range_set *dirty, struct probed_bitmap *out);

/* Read the bad-block log that `super` points to.  Returns how many entries, in *entries,
 * to be freed; or a negative errno with *err. */
int32_t probe_bad_blocks(const struct member *member, const struct md_super *super,
                         struct md_bad_block **entries, struct braid_error *err);

/* Whether any partition of a whole disk carries md metadata: opens those that do.
 * out has room for PARTITIONS_MAX; returns how many, or a negative errno with *err. */
int probe_partitions(const struct member *disk, bool shared, struct probe *out,
                     struct braid_error *err);

/* ---- spec.c: --as ---- */

struct as_spec {
    struct shape shape;      /* slot_count and sizes are left to the members */
    uint64_t offset_sectors; /* of the data on each member */
    uint64_t size_sectors;   /* used of each member; 0: all of it behind the offset */
};

/* Returns 0 or -EDOM with *err. */
int as_spec_parse(const char *text, uint32_t slot_count, struct as_spec *out,
                  struct braid_error *err);

/* ---- array.c: from members to an array ---- */

struct array_member {
    struct probe probe;
    int chosen; /* index of its superblock in probe.found; -1 with --as */
    enum md_member_state state;
    uint32_t slot;
    uint64_t in_sync_sectors;
    uint64_t data_offset_sectors;
    struct md_bad_block *bad_blocks; /* of the log; bad_block_count */
    int32_t bad_block_count;
    struct range_set bad; /* the same relative to the data area */
    bool failed;          /* while the array was at work */
};

/* A sentence for people, in a list (notes.c). */
struct note {
    char *text;
    struct note *next;
};

void notes_free(struct note *list);

struct braid_array {
    struct braid_options options; /* callbacks and policies; no strings */
    struct array_member *members; /* as given, those named missing left out */
    uint32_t member_count;

    bool has_metadata;
    struct md_assembly *assembly; /* NULL with --as */
    struct md_assembly_member *assembly_members;
    struct geometry *geometry; /* NULL if it could not be made */
    struct shape shape;
    uint32_t degraded; /* slots without an in-sync member */
    bool in_doubt;     /* D6: computed data may be wrong somewhere */
    struct range_set untrusted;
    bool has_bitmap;       /* a usable one, for what is untrusted */
    bool refused;          /* it can't start */
    struct note *problems; /* why */
    struct note *warnings;

    struct plan_slot *slots;
    struct io *lower; /* under the overlay; NULL: there is none */
    struct io *io;
    struct engine *engine;
    bool counted; /* superblocks know that something was written, where that is all they know */
    bool stopped; /* for writing it is over */
};

/* Append a sentence; a problem also refuses the array.  Without memory the sentence is lost, for
 * there is nobody to tell; the refusal isn't. */
void note_warning(struct braid_array *array, const char *format, ...) BRAID_PRINTF(2, 3);
void note_problem(struct braid_array *array, const char *format, ...) BRAID_PRINTF(2, 3);

/* Find out what the members make.
 *
 *   hold  each alone, for writing; then a member's name means it, and not a partition on it
 *
 * Returns 0 also when the array can't start: then
 * (*out)->problems say why.  Errors as for braid_open(), when it isn't clear which array is
 * meant or a member can't be read. */
int array_assemble(const char *const *members, size_t count, const struct braid_options *options,
                   bool hold, struct braid_array **out, struct braid_error *err);
/* Whether this version can write to it; if not, *err says why. */
int array_check_writable(const struct braid_array *array, struct braid_error *err);
/* Let the superblocks of members that are up to date say of the array what the newest one does:
 * one may be an event behind.  supers[count]. */
void array_agree(struct md_super *const *supers, uint32_t count, const struct md_super *newest);

const struct md_super *array_member_super(const struct array_member *member); /* or NULL */
const char *array_member_name(const struct array_member *member);

/* ---- facts_json.c ---- */

/* One superblock with all that it points to, as in the schema of examine.  New reference,
 * NULL without memory. */
json_t *facts_super(const struct member *member, const struct found *found);

/* Add to a list or an object, which is released and NULL when there is no memory, or was NULL
 * before: `list = facts_append(list, item)`.  item, value and more are taken over. */
json_t *facts_append(json_t *list, json_t *item);
json_t *facts_set(json_t *object, const char *key, json_t *value);
json_t *facts_update(json_t *object, json_t *more);

json_t *facts_text(const char *text);
json_t *facts_text_or_null(const char *text); /* null for "" */
json_t *facts_count(uint64_t value);          /* saturates where JSON integers end */
json_t *facts_bytes(uint64_t sectors);        /* likewise */
json_t *facts_uuid(const uint8_t uuid[16]);
json_t *facts_flags(const struct md_super *super);
json_t *facts_offset(uint64_t sectors); /* null for MD_OFFSET_NONE, else bytes */
/* Finish: dump to a string for braid_free(), or -ENOMEM. */
int facts_dump(json_t *root, char **json, struct braid_error *err);

#endif
