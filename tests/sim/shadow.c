/* SPDX-License-Identifier: BSD-2-Clause */
/* shadow.c - what a volume may hold: a model that the test alone writes.
 *
 * Writes to a sector come in *groups*: those that are in flight together, each with a bit.  A new
 * group begins with the first write after all of the last one are done.  A version knows its
 * group and which of the group's writes it contains; of the groups before, it contains whatever
 * was acknowledged.  So a version lacks an acknowledged write of (group, bit) exactly if it is of
 * an earlier group, or of that group without the bit. */
#include "sim/shadow.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/compiler.h"
#include "util/endian.h"
#include "util/prng.h"

enum {
    SECTOR_BYTES = 512,
    BITS_MAX = 3,      /* writes of a group */
    VERSIONS_MAX = 48, /* of a sector: then it takes no more writes until some are gone */
};

#define NEVER UINT64_MAX

struct version {
    struct version *next; /* older, or free */
    uint64_t outdated;    /* when a write that it lacks was acknowledged */
    uint32_t group;
    uint8_t mask;
    bool gone; /* for a crash; it stays for the reads that began before */
    bool wild;
    bool accepted; /* wild, and nobody has to say so */
    uint8_t bytes[SECTOR_BYTES];
};

struct sector {
    struct version *newest;
    uint32_t version_count;
    uint32_t group;
    uint32_t open; /* writes in flight */
    uint8_t bits;  /* that the group has used: */
    uint8_t acked; /* those that are acknowledged */
    uint8_t parts; /* those that write less than the sector */
    uint64_t epoch;
    uint64_t sure_since;
    bool alone; /* the write in flight shares it with none */
    bool seen;  /* since it was written last: */
    uint8_t seen_bytes[SECTOR_BYTES];
    uint64_t written_at; /* when a write began or ended last */
};

/* An acknowledged write of a sector that isn't durable yet. */
struct ack {
    uint32_t sector;
    uint32_t group;
    uint8_t bit;
    uint64_t at;
};

struct shadow {
    uint64_t now;
    uint32_t reads;    /* under way */
    uint64_t moved_at; /* when what is read may have moved last */
    uint64_t sector_count;
    struct sector sectors[SHADOW_SECTORS_MAX];
    struct version *free;
    struct ack *acks;
    size_t ack_count;
    size_t ack_capacity;
};

/* ---- versions ---- */

static struct version *take(struct shadow *shadow)
{
    struct version *version = shadow->free;

    if (version == NULL) {
        version = malloc(sizeof *version);
        if (version == NULL)
            abort();
        return version;
    }
    shadow->free = version->next;
    return version;
}

static void give(struct shadow *shadow, struct version *version)
{
    version->next = shadow->free;
    shadow->free = version;
}

static void add(struct sector *sector, struct version *version)
{
    version->next = sector->newest;
    sector->newest = version;
    sector->version_count++;
}

/* Remove those for which remove() is true. */
static void remove_if(struct shadow *shadow, struct sector *sector,
                      bool (*remove)(const struct version *version))
{
    struct version **link = &sector->newest;

    while (*link != NULL) {
        struct version *version = *link;
        if (!remove(version)) {
            link = &version->next;
            continue;
        }
        *link = version->next;
        sector->version_count--;
        give(shadow, version);
    }
}

static bool any(const struct version *version)
{
    (void)version;
    return true;
}

static bool is_gone(const struct version *version)
{
    return version->gone;
}

static bool is_outdated(const struct version *version)
{
    return version->gone || version->outdated != NEVER;
}

static bool lacks(const struct version *version, uint32_t group, uint8_t bit)
{
    return version->group < group || (version->group == group && (version->mask & bit) == 0);
}

/* A write to the sector is acknowledged, or durable as well. */
static void settle(struct shadow *shadow, struct sector *sector, uint32_t group, uint8_t bit,
                   bool durable)
{
    for (struct version *v = sector->newest; v != NULL; v = v->next) {
        if (!lacks(v, group, bit))
            continue;
        v->outdated = MIN(v->outdated, shadow->now);
        v->gone = v->gone || durable;
    }
}

static void add_ack(struct shadow *shadow, const struct ack *ack)
{
    if (shadow->ack_count == shadow->ack_capacity) {
        shadow->ack_capacity = 2 * shadow->ack_capacity + 1024;
        shadow->acks = realloc(shadow->acks, shadow->ack_capacity * sizeof shadow->acks[0]);
        if (shadow->acks == NULL)
            abort();
    }
    shadow->acks[shadow->ack_count++] = *ack;
}

/* ---- life ---- */

struct shadow *shadow_create(void)
{
    struct shadow *shadow = calloc(1, sizeof *shadow);

    if (shadow == NULL)
        abort();
    return shadow;
}

void shadow_reset(struct shadow *shadow, uint64_t sectors)
{
    assert(sectors <= SHADOW_SECTORS_MAX);
    for (uint64_t i = 0; i < shadow->sector_count; i++)
        remove_if(shadow, &shadow->sectors[i], any);
    for (uint64_t i = 0; i < sectors; i++)
        shadow->sectors[i] = (struct sector){.sure_since = NEVER};
    shadow->sector_count = sectors;
    shadow->ack_count = 0;
    shadow->reads = 0;
    shadow->now = shadow->moved_at = 1;
}

static void copy_versions(struct shadow *to, struct sector *sector)
{
    struct version **link = &sector->newest;

    for (const struct version *v = sector->newest; v != NULL; v = v->next) {
        struct version *version = take(to);
        *version = *v;
        *link = version;
        link = &version->next;
    }
}

void shadow_copy(const struct shadow *shadow, struct shadow *to)
{
    shadow_reset(to, shadow->sector_count);
    to->now = shadow->now;
    to->reads = shadow->reads;
    to->moved_at = shadow->moved_at;
    for (uint64_t i = 0; i < shadow->sector_count; i++) {
        to->sectors[i] = shadow->sectors[i];
        copy_versions(to, &to->sectors[i]);
    }
    to->ack_count = 0;
    for (size_t i = 0; i < shadow->ack_count; i++)
        add_ack(to, &shadow->acks[i]);
}

void shadow_destroy(struct shadow *shadow)
{
    shadow_reset(shadow, 0);
    while (shadow->free != NULL) {
        struct version *version = shadow->free;
        shadow->free = version->next;
        free(version);
    }
    free(shadow->acks);
    free(shadow);
}

void shadow_seed(struct shadow *shadow, uint64_t sector, const uint8_t *bytes)
{
    struct sector *s = &shadow->sectors[sector];

    for (const struct version *v = s->newest; v != NULL; v = v->next)
        if (memcmp(v->bytes, bytes, SECTOR_BYTES) == 0)
            return;
    struct version *version = take(shadow);
    *version = (struct version){.outdated = NEVER};
    memcpy(version->bytes, bytes, SECTOR_BYTES);
    add(s, version);
}

uint64_t shadow_now(const struct shadow *shadow)
{
    return shadow->now;
}

/* ---- writes ---- */

void shadow_contents(uint64_t epoch, uint64_t offset_bytes, uint64_t bytes, uint8_t *to)
{
    uint64_t done = 0;

    if (epoch == 0) {
        memset(to, 0, bytes);
        return;
    }
    while (done < bytes) {
        const uint64_t at = offset_bytes + done;
        const uint64_t piece = MIN(8 - at % 8, bytes - done);
        uint8_t word[8];
        le64_put(word, prng_mix(epoch << 32 | at / 8));
        memcpy(to + done, word + at % 8, piece);
        done += piece;
    }
}

bool shadow_can_write(struct shadow *shadow, uint64_t offset_bytes, uint64_t bytes, uint64_t *epoch)
{
    const uint64_t first = offset_bytes / SECTOR_BYTES;
    const uint64_t behind = (offset_bytes + bytes + SECTOR_BYTES - 1) / SECTOR_BYTES;
    bool overlaps = false;
    uint64_t others = 0;

    for (uint64_t i = first; i < behind; i++) {
        struct sector *sector = &shadow->sectors[i];
        if (shadow->reads == 0)
            remove_if(shadow, sector, is_gone);
        if (sector->version_count >= VERSIONS_MAX)
            return false;
        if (sector->open == 0)
            continue;
        if (sector->alone)
            return false;
        if (sector->bits == (1 << BITS_MAX) - 1 || (overlaps && others != sector->epoch))
            return false;
        overlaps = true;
        others = sector->epoch;
    }
    if (overlaps)
        *epoch = others;
    return true;
}

/* The part of a write that lies in a sector. */
struct part {
    uint32_t start;
    uint32_t end;
};

static struct part part_of(const struct shadow_write *write, uint64_t sector)
{
    const uint64_t at = sector * SECTOR_BYTES;
    const uint64_t start = MAX(at, write->offset_bytes);
    const uint64_t end = MIN(at + SECTOR_BYTES, write->offset_bytes + write->bytes);

    return (struct part){(uint32_t)(start - at), (uint32_t)(end - at)};
}

static bool is_whole(struct part part)
{
    return part.end - part.start == SECTOR_BYTES;
}

/* The list has that version already. */
static bool is_known(const struct sector *sector, const struct version *version)
{
    for (const struct version *v = sector->newest; v != NULL; v = v->next)
        if (v->group == version->group && v->mask == version->mask && v->wild == version->wild &&
            v->accepted == version->accepted && v->outdated == NEVER &&
            memcmp(v->bytes, version->bytes, SECTOR_BYTES) == 0)
            return true;
    return false;
}

static void write_sector(struct shadow *shadow, uint64_t index, const struct shadow_write *write,
                         uint64_t epoch, uint8_t bit)
{
    struct sector *sector = &shadow->sectors[index];
    const struct part part = part_of(write, index);
    const struct version *last = sector->newest;
    uint8_t bytes[SECTOR_BYTES];

    shadow_contents(epoch, index * SECTOR_BYTES + part.start, part.end - part.start, bytes);
    for (const struct version *v = last; v != NULL; v = v->next) {
        if (v->outdated != NEVER || (v->group == sector->group && (v->mask & bit) != 0))
            continue;
        struct version *version = take(shadow);
        *version = (struct version){
            .outdated = NEVER,
            .group = sector->group,
            .mask = (uint8_t)((v->group == sector->group ? v->mask : 0) | bit),
            .wild = v->wild && !is_whole(part),
            .accepted = v->accepted && !is_whole(part),
        };
        memcpy(version->bytes, v->bytes, SECTOR_BYTES);
        memcpy(version->bytes + part.start, bytes, part.end - part.start);
        if (is_known(sector, version))
            give(shadow, version);
        else
            add(sector, version);
    }
}

void shadow_write_begin(struct shadow *shadow, struct shadow_write *write)
{
    const uint64_t first = write->offset_bytes / SECTOR_BYTES;
    const uint64_t behind = (write->offset_bytes + write->bytes + SECTOR_BYTES - 1) / SECTOR_BYTES;

    shadow->now++;
    for (uint64_t i = first; i < behind; i++) {
        struct sector *sector = &shadow->sectors[i];
        if (sector->open++ == 0) {
            sector->group++;
            sector->bits = sector->acked = sector->parts = 0;
            sector->epoch = write->epoch;
        }
        const uint8_t bit = (uint8_t)(sector->bits + 1); /* the lowest that isn't used */
        sector->bits |= bit;
        sector->parts |= is_whole(part_of(write, i)) ? 0 : bit;
        write->bits[i - first] = bit;
        write_sector(shadow, i, write, write->epoch, bit);
        if (write->other_epoch != 0)
            write_sector(shadow, i, write, write->other_epoch, bit);
        sector->alone = write->other_epoch != 0;
        sector->seen = false;
        sector->written_at = shadow->now;
    }
}

static void remember(struct shadow *shadow, uint64_t sector, uint8_t bit)
{
    const struct ack ack = {
        .sector = (uint32_t)sector,
        .group = shadow->sectors[sector].group,
        .bit = bit,
        .at = shadow->now,
    };

    add_ack(shadow, &ack);
}

void shadow_write_end(struct shadow *shadow, struct shadow_write *write, int result)
{
    const uint64_t first = write->offset_bytes / SECTOR_BYTES;
    const uint64_t behind = (write->offset_bytes + write->bytes + SECTOR_BYTES - 1) / SECTOR_BYTES;

    shadow->now++;
    for (uint64_t i = first; i < behind; i++) {
        struct sector *sector = &shadow->sectors[i];
        const uint8_t bit = write->bits[i - first];
        assert(sector->open > 0);
        sector->open--;
        sector->seen = false;
        sector->written_at = shadow->now;
        if (result < 0)
            continue;
        settle(shadow, sector, sector->group, bit, write->fua);
        sector->acked |= bit;
        if (!write->fua)
            remember(shadow, i, bit);
        if (is_whole(part_of(write, i)))
            sector->sure_since = MIN(sector->sure_since, shadow->now);
    }
}

void shadow_flushed(struct shadow *shadow, uint64_t since)
{
    size_t kept = 0;

    for (size_t i = 0; i < shadow->ack_count; i++) {
        const struct ack *ack = &shadow->acks[i];
        if (ack->at > since)
            shadow->acks[kept++] = *ack;
        else
            settle(shadow, &shadow->sectors[ack->sector], ack->group, ack->bit, true);
    }
    shadow->ack_count = kept;
    shadow->now++;
}

/* ---- reads ---- */

uint64_t shadow_read_begin(struct shadow *shadow)
{
    shadow->reads++;
    return shadow->now;
}

void shadow_read_end(struct shadow *shadow)
{
    assert(shadow->reads > 0);
    shadow->reads--;
}

enum shadow_verdict shadow_judge(const struct shadow *shadow, uint64_t sector, const uint8_t *bytes,
                                 uint64_t since)
{
    enum shadow_verdict verdict = SHADOW_WRONG;

    for (const struct version *v = shadow->sectors[sector].newest; v != NULL; v = v->next) {
        if (v->outdated <= since)
            continue;
        if (v->accepted || (!v->wild && memcmp(v->bytes, bytes, SECTOR_BYTES) == 0))
            return SHADOW_RIGHT;
        if (v->wild)
            verdict = SHADOW_WILD;
    }
    return verdict;
}

bool shadow_see(struct shadow *shadow, uint64_t sector, const uint8_t *bytes, uint64_t since)
{
    struct sector *s = &shadow->sectors[sector];

    if (s->open > 0 || s->written_at > since || shadow->moved_at > since)
        return true;
    if (s->seen)
        return memcmp(s->seen_bytes, bytes, SECTOR_BYTES) == 0;
    s->seen = true;
    memcpy(s->seen_bytes, bytes, SECTOR_BYTES);
    return true;
}

void shadow_forget_seen(struct shadow *shadow)
{
    shadow->now++;
    shadow->moved_at = shadow->now;
    for (uint64_t i = 0; i < shadow->sector_count; i++)
        shadow->sectors[i].seen = false;
}

uint32_t shadow_version_count(const struct shadow *shadow, uint64_t sector)
{
    return shadow->sectors[sector].version_count;
}

void shadow_describe(const struct shadow *shadow, uint64_t sector,
                     void (*line)(void *context, const char *text), void *context)
{
    for (const struct version *v = shadow->sectors[sector].newest; v != NULL; v = v->next) {
        char text[120];
        (void)snprintf(text, sizeof text,
                       "version of group %u, writes %x%s%s%s: %02x %02x %02x %02x ... %02x %02x",
                       v->group, v->mask,
                       v->accepted ? ", accepted"
                       : v->wild   ? ", wild"
                                   : "",
                       v->gone ? ", gone" : "", v->outdated != NEVER ? ", outdated" : "",
                       v->bytes[0], v->bytes[1], v->bytes[2], v->bytes[3], v->bytes[510],
                       v->bytes[511]);
        line(context, text);
    }
}

bool shadow_is_sure(const struct shadow *shadow, uint64_t sector, uint64_t since)
{
    return shadow->sectors[sector].sure_since <= since;
}

/* ---- what becomes of the array ---- */

/* Keep one of those with equal contents. */
static void unite(struct shadow *shadow, struct sector *sector)
{
    for (struct version *v = sector->newest; v != NULL; v = v->next) {
        struct version **link = &v->next;
        while (*link != NULL) {
            struct version *other = *link;
            if (other->wild != v->wild ||
                (!v->wild && memcmp(other->bytes, v->bytes, SECTOR_BYTES) != 0)) {
                link = &other->next;
                continue;
            }
            v->accepted = v->accepted || other->accepted;
            *link = other->next;
            sector->version_count--;
            give(shadow, other);
        }
    }
}

void shadow_crashed(struct shadow *shadow, bool clean)
{
    for (uint64_t i = 0; i < shadow->sector_count; i++) {
        struct sector *sector = &shadow->sectors[i];
        remove_if(shadow, sector, clean ? is_outdated : is_gone);
        for (struct version *v = sector->newest; v != NULL; v = v->next) {
            v->outdated = NEVER;
            v->group = 0;
            v->mask = 0;
        }
        unite(shadow, sector);
        assert(sector->newest != NULL);
        sector->group = 0;
        sector->open = 0;
        sector->sure_since = NEVER;
    }
    shadow->ack_count = 0;
    shadow->reads = 0;
    shadow_forget_seen(shadow);
}

void shadow_doubt(struct shadow *shadow, uint64_t sector)
{
    struct sector *s = &shadow->sectors[sector];

    for (const struct version *v = s->newest; v != NULL; v = v->next)
        if (v->wild && v->outdated == NEVER)
            return;
    struct version *version = take(shadow);
    /* Writes of the whole sector in flight make an end of it, those of a part don't. */
    *version = (struct version){
        .outdated = NEVER,
        .group = s->group,
        .mask = s->acked | s->parts,
        .wild = true,
    };
    memset(version->bytes, 0, SECTOR_BYTES);
    add(s, version);
}

void shadow_accept(struct shadow *shadow, uint64_t sector)
{
    for (struct version *v = shadow->sectors[sector].newest; v != NULL; v = v->next)
        v->accepted = v->wild;
}

void shadow_pin(struct shadow *shadow, uint64_t sector, const uint8_t *bytes)
{
    struct sector *s = &shadow->sectors[sector];

    if (s->open > 0)
        return;
    remove_if(shadow, s, is_gone);
    for (const struct version *v = s->newest; v != NULL; v = v->next)
        if (v->outdated != NEVER)
            return;
    if (shadow_judge(shadow, sector, bytes, shadow->now) == SHADOW_WRONG)
        return;
    remove_if(shadow, s, any);
    struct version *version = take(shadow);
    *version = (struct version){.outdated = NEVER, .group = s->group, .mask = s->acked};
    memcpy(version->bytes, bytes, SECTOR_BYTES);
    add(s, version);
}
