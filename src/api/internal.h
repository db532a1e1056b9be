/* SPDX-License-Identifier: BSD-2-Clause */
/* internal.h - what the files of src/api share: probed members and assembled arrays. */
#ifndef API_INTERNAL_H
#define API_INTERNAL_H

#include <jansson.h>
#include <stdatomic.h>

#include "braid/braid.h"
#include "engine/engine.h"
#include "format/md.h"
#include "format/md_assemble.h"
#include "io/io.h"
#include "io/member.h"
#include "plan/plan_promise.h"
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

/* Look for superblocks of all versions.  *out has the member, also on failure, for probe_clear().
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
    atomic_bool failed;   /* while the array was at work; or another has replaced it */
};

/* A sentence for people, in a list (notes.c). */
struct note {
    char *text;
    struct note *next;
};

void notes_free(struct note *list);

/* A member that failed while the array was at work, and was left out since. */
struct gone {
    struct member *member; /* owned: nobody else is to use it */
    uint32_t device_number;
    uint32_t slot;
};

struct braid_array {
    struct braid_options options; /* callbacks and policies; no strings */
    enum plan_policy read_policy;
    struct array_member *members; /* as given, those named missing left out */
    uint32_t member_count;

    bool has_metadata;
    struct md_assembly *assembly; /* NULL with --as */
    struct md_assembly_member *assembly_members;
    struct geometry *geometry; /* NULL if it could not be made */
    struct shape shape;
    bool redundant; /* copies or parity: there are superblocks to keep up to date */
    bool in_doubt;  /* D6: computed data may be wrong somewhere */
    struct range_set untrusted;
    bool has_bitmap;       /* a usable one, for what is untrusted */
    bool refused;          /* it can't start */
    struct note *problems; /* why */
    struct note *warnings;

    /* While it is at work. */
    struct plan_slot *slots;
    struct io *lower; /* under the overlay; NULL: there is none */
    struct io **ios;  /* of each lane */
    uint32_t lane_count;
    struct engine *engine;
    struct service *service; /* who drives the lanes; NULL: the caller the one there is */
    struct control *control; /* NULL: none */
    struct events *events;   /* NULL: nobody wants to know */
    struct gone gone[GEOMETRY_SLOTS_MAX]; /* members that failed at work, until they are removed */
    uint32_t gone_count;
    atomic_bool failed; /* more is lost than the level bears: it takes no writes any more */
    bool counted; /* superblocks know that something was written, where that is all they know */
    atomic_bool stopped; /* for writing it is over */
    /* Set when it is opened, or begins; any thread may look at them. */
    uint64_t size_bytes;
    uint64_t stripe_bytes; /* what writes best */
    atomic_bool punches;   /* zeros are written to all members as holes */
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
/* The same from members that are open, and held if they are to be written to; not with --as.  On
 * success the array has them, and options->missing counts for nothing.  On failure they stay the
 * caller's, and *culprit is the one that could not be read, or UINT32_MAX. */
int array_assemble_held(struct member *const *members, uint32_t count,
                        const struct braid_options *options, struct braid_array **out,
                        uint32_t *culprit, struct braid_error *err);
/* The reverse: close the array, and leave the members to whoever they were lent by. */
void array_give_back(struct braid_array *array);
/* Let `array`, which has come to rest, be what `fresh` is, which then is gone.  Members that fresh
 * doesn't have are nobody's any more. */
void array_take_over(struct braid_array *array, struct braid_array *fresh);
/* Whether this version can write to it; if not, *err says why. */
int array_check_writable(const struct braid_array *array, struct braid_error *err);

const struct md_super *array_member_super(const struct array_member *member); /* or NULL */
const char *array_member_name(const struct array_member *member);
bool array_slot_in_sync(const struct braid_array *array, uint32_t slot);
uint32_t array_degraded(const struct braid_array *array); /* slots without an in-sync member */
enum plan_missing array_missing(const struct braid_array *array); /* what they take away */
/* Whether it is up to date, and is written to when the array is. */
bool array_member_takes_part(const struct array_member *member);
void array_warn(const struct braid_array *array, const char *text);

/* ---- array_start.c: an assembled array comes to work ---- */

/* Backends for array->lane_count lanes, and the engine.  Returns 0 or a negative errno with *err. */
int array_start(struct braid_array *array, struct braid_error *err);
/* The reverse, when nothing is under way; fine when it isn't at work. */
void array_halt(struct braid_array *array);

/* ---- array_read.c, array_write.c ---- */

/* Whether the array's policy makes an error of it. */
bool array_flaw_is_bad(const struct braid_array *array, enum engine_flaw flaw);
/* In levels without redundancy superblocks know nothing of writes, and there is nothing to wait
 * for.  But what was written must not be lost to an undo of what came before it: so they count an
 * event for each opening in which something is.  Before each write. */
int array_count_opening(struct braid_array *array);
/* Flush, and have the array marked clean; the engine does nothing afterwards.  On the thread that
 * drives lane 0. */
int array_rest(struct braid_array *array);
/* What is due to make the array whole.  A resync has no member.  Returns false if nothing is. */
bool array_next_sweep(const struct braid_array *array, enum engine_sweep_kind *kind,
                      uint32_t *io_member);
void array_sweep_done(struct braid_array *array, enum engine_sweep_kind kind, uint32_t io_member);
/* Nobody has it, or who had it failed. */
bool array_slot_is_empty(const struct braid_array *array, uint32_t slot);

/* ---- scrub.c ---- */

/* What a scrub found, in terms of the array; *out points to ranges. */
void array_mismatch(const struct braid_array *array, const struct engine_mismatch *found,
                    struct braid_range ranges[GEOMETRY_SLOTS_MAX], struct braid_mismatch *out);

/* ---- change_members.c ---- */

/* The member that the user means: by name, or by slot.  NULL with *err. */
struct array_member *array_find_member(struct braid_array *array, const char *text,
                                       struct braid_error *err);
/* Whether the array can do without it.  0 or -EINVAL with *err. */
int array_check_fail(const struct braid_array *array, const struct array_member *subject,
                     struct braid_error *err);

/* ---- detail.c ---- */

/* Schema braid.detail.1.  New reference. */
json_t *detail_facts(const struct braid_array *array);

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
json_t *facts_offset(uint64_t sectors);              /* null for MD_OFFSET_NONE, else bytes */
json_t *facts_promise(const struct plan_mode *mode); /* of after_crash */
/* Finish: dump to a string for braid_free(), or -ENOMEM. */
int facts_dump(json_t *root, char **json, struct braid_error *err);

#endif
