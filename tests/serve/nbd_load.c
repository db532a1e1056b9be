/* SPDX-License-Identifier: BSD-2-Clause */
/* nbd_load.c - load on an NBD server that knows what it has to find again.
 *
 *      nbd_load URI CONNECTIONS SECONDS SEED [again]
 *
 * Each connection has a thread and a part of the export to itself.  It writes, zeroes, reads and flushes; of
 * each sector it keeps all contents that the sector may have: the last that was covered by a flush, and
 * those since.  What is read has to be the last that was acknowledged, or what a write since then would have made
 * of it that failed, which no flush makes certain; after a crash of the server, any of them.  Once a write
 * has failed the connection only reads.
 *
 * With `again` a connection that breaks off is made anew, for ten seconds, and then all of the part is
 * looked at: the server was killed and started again.
 *
 * On stdout, every 50 ms: requests done, errors, reconnections.  At the end the same behind "end".  Exit
 * code: 0, also with errors that the server told; 1 when something else was read than had to be there,
 * or a connection was lost. */
#include <errno.h>
#include <inttypes.h>
#include <libnbd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "util/prng.h"

enum {
    SECTOR = 512,
    PART_SECTORS = 2048,
    REQUEST_SECTORS_MAX = 64,
    WRITES_BETWEEN_FLUSHES = 60,
    VERSIONS_MAX = WRITES_BETWEEN_FLUSHES + 2,
    CONNECTIONS_MAX = 16,
};

/* Contents that a sector may have, by number; 0: zeros. */
struct versions {
    uint32_t count;
    uint32_t acknowledged; /* the place of the last that was; behind it are those that were not */
    uint32_t number[VERSIONS_MAX];
};

struct part {
    pthread_t thread;
    uint32_t index;
    struct prng random;
    struct nbd_handle *nbd;
    uint32_t written; /* writes, which number the contents */
    uint32_t since_flush;
    struct versions versions[PART_SECTORS];
    uint8_t buffer[PART_SECTORS * SECTOR];
};

static const char *uri;
static bool again;
static atomic_bool enough;
static atomic_ulong requests;
static atomic_ulong errors;
static atomic_ulong reconnections;
static atomic_bool wrong;
static struct part *parts;

static void fill(uint8_t *bytes, uint64_t sector, uint32_t number)
{
    uint64_t words[SECTOR / 8] = {0};

    for (uint32_t i = 0; i < SECTOR / 8 && number != 0; i++)
        words[i] = i == 0 ? number : prng_mix(sector << 32 ^ (uint64_t)number << 8 ^ i);
    memcpy(bytes, words, SECTOR);
}

static uint64_t base_of(const struct part *part)
{
    return (uint64_t)part->index * PART_SECTORS;
}

/* ---- what may be there ---- */

static void add_version(struct part *part, uint32_t first, uint32_t count, uint32_t number)
{
    for (uint32_t i = first; i < first + count; i++) {
        struct versions *versions = &part->versions[i];
        if (versions->number[versions->count - 1] != number)
            versions->number[versions->count++] = number;
    }
}

static void acknowledge(struct part *part, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++)
        part->versions[i].acknowledged = part->versions[i].count - 1;
}

/* What was acknowledged is there for sure, and nothing before it. */
static void settle(struct part *part, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++) {
        struct versions *versions = &part->versions[i];
        const uint32_t gone = versions->acknowledged;
        versions->count -= gone;
        memmove(versions->number, versions->number + gone, versions->count * sizeof(uint32_t));
        versions->acknowledged = 0;
    }
}

/* After a crash it may be any, and is that from now on; but it need not be durable. */
static bool check_sector(struct part *part, uint32_t at, const uint8_t *bytes, bool crashed)
{
    struct versions *versions = &part->versions[at];
    uint8_t expected[SECTOR];

    for (uint32_t i = crashed ? 0 : versions->acknowledged; i < versions->count; i++) {
        fill(expected, base_of(part) + at, versions->number[i]);
        if (memcmp(bytes, expected, SECTOR) != 0)
            continue;
        if (crashed) {
            versions->number[versions->count - 1] = versions->number[i];
            versions->acknowledged = versions->count - 1;
        }
        return true;
    }
    uint64_t found;
    memcpy(&found, bytes, sizeof found);
    (void)printf("WRONG: sector %" PRIu64 " of the export begins with %" PRIu64
                 "; newest %u, oldest %u of %u\n",
                 base_of(part) + at, found, versions->number[versions->count - 1],
                 versions->number[0], versions->count);
    (void)fflush(stdout);
    wrong = true;
    return false;
}

/* ---- requests ---- */

static bool connect_part(struct part *part)
{
    const time_t until = time(NULL) + 10;

    do {
        part->nbd = nbd_create();
        if (part->nbd == NULL)
            return false;
        if (nbd_connect_uri(part->nbd, uri) == 0)
            return true;
        nbd_close(part->nbd);
        part->nbd = NULL;
        (void)usleep(20000);
    } while (again && time(NULL) < until);
    return false;
}

/* After an error: is the connection still there?  If not, make it anew, and look at everything. */
static bool recover(struct part *part, bool *refused)
{
    *refused = nbd_aio_is_ready(part->nbd) == 1; /* the server is there */
    if (*refused) {
        atomic_fetch_add(&errors, 1);
        return true;
    }
    if (!again)
        return false;
    for (;;) {
        nbd_close(part->nbd);
        if (!connect_part(part))
            return false;
        atomic_fetch_add(&reconnections, 1);
        if (nbd_pread(part->nbd, part->buffer, sizeof part->buffer, base_of(part) * SECTOR, 0) == 0)
            break;
        if (nbd_aio_is_ready(part->nbd) == 1) { /* it is there, and can't be read */
            (void)printf("WRONG: %s\n", nbd_get_error());
            return false;
        }
    }
    for (uint32_t i = 0; i < PART_SECTORS && !wrong; i++)
        (void)check_sector(part, i, part->buffer + (size_t)i * SECTOR, true);
    return true;
}

static int one_write(struct part *part, uint32_t first, uint32_t count, uint64_t kind)
{
    const uint64_t offset = (base_of(part) + first) * SECTOR;
    const bool zeros = kind < 2;
    const bool fua = kind == 1 || kind == 2;
    const uint32_t flags = fua ? LIBNBD_CMD_FLAG_FUA : 0;
    const uint32_t number = zeros ? 0 : ++part->written;
    int result;

    for (uint32_t i = 0; i < count; i++)
        fill(part->buffer + (size_t)i * SECTOR, base_of(part) + first + i, number);
    add_version(part, first, count, number);
    part->since_flush++;
    result = zeros ? nbd_zero(part->nbd, (uint64_t)count * SECTOR, offset, flags)
                   : nbd_pwrite(part->nbd, part->buffer, (size_t)count * SECTOR, offset, flags);
    if (result == 0)
        acknowledge(part, first, count);
    if (result == 0 && fua)
        settle(part, first, count);
    return result;
}

static int one_read(struct part *part, uint32_t first, uint32_t count)
{
    const int result = nbd_pread(part->nbd, part->buffer, (size_t)count * SECTOR,
                                 (base_of(part) + first) * SECTOR, 0);

    for (uint32_t i = 0; i < count && result == 0 && !wrong; i++)
        (void)check_sector(part, first + i, part->buffer + (size_t)i * SECTOR, false);
    return result;
}

static void *work(void *argument)
{
    struct part *part = argument;
    bool reads_only = false;

    if (!connect_part(part)) {
        (void)printf("WRONG: %s\n", nbd_get_error());
        wrong = true;
    }
    while (!enough && !wrong) {
        const uint32_t count = (uint32_t)prng_between(&part->random, 1, REQUEST_SECTORS_MAX);
        const uint32_t first = (uint32_t)prng_below(&part->random, PART_SECTORS - count);
        const uint64_t kind = prng_below(&part->random, 16);
        int result;
        if ((part->since_flush >= WRITES_BETWEEN_FLUSHES && !reads_only) || kind == 15) {
            result = nbd_flush(part->nbd, 0);
            if (result == 0) {
                settle(part, 0, PART_SECTORS);
                part->since_flush = 0;
            }
        } else if (kind < 9 && !reads_only) {
            result = one_write(part, first, count, kind);
        } else {
            result = one_read(part, first, count);
        }
        if (result == 0) {
            atomic_fetch_add(&requests, 1);
        } else {
            bool refused;
            if (!recover(part, &refused)) {
                (void)printf("WRONG: connection lost: %s\n", nbd_get_error());
                wrong = true;
            }
            reads_only = reads_only || refused;
        }
    }
    if (part->nbd != NULL)
        nbd_close(part->nbd);
    return NULL;
}

static void report(const char *word)
{
    (void)printf("%s%lu %lu %lu\n", word, requests, errors, reconnections);
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    uri = argv[1];
    const uint32_t count = (uint32_t)atoi(argv[2]);
    const double seconds = atof(argv[3]);
    again = argc > 5 && strcmp(argv[5], "again") == 0;
    parts = calloc(count, sizeof *parts);
    if (count < 1 || count > CONNECTIONS_MAX || parts == NULL)
        return 2;
    for (uint32_t i = 0; i < count; i++) {
        parts[i].index = i;
        prng_init(&parts[i].random, (uint64_t)atoll(argv[4]), i);
        for (uint32_t s = 0; s < PART_SECTORS; s++)
            parts[i].versions[s].count = 1;
        if (pthread_create(&parts[i].thread, NULL, work, &parts[i]) != 0)
            return 2;
    }
    for (uint32_t tick = 0; tick < seconds * 20 && !wrong && !enough; tick++) {
        (void)usleep(50000);
        report("");
    }
    enough = true;
    for (uint32_t i = 0; i < count; i++)
        (void)pthread_join(parts[i].thread, NULL);
    report("end ");
    free(parts);
    return wrong ? 1 : 0;
}
