/* SPDX-License-Identifier: BSD-2-Clause */
/* test_parity.c - the parity kernels and the recovery of lost chunks.
 *
 * Three computations are held against each other: the kernels of ISA-L, those in
 * plain C, and an oracle that multiplies by tables of logarithms, one byte at a time
 * and with nothing in common with either.  P and Q are made and updated for every number
 * of data chunks.  Recovery is tried for every loss of one or two of 3 to 32 members. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"
#include "parity/parity.h"
#include "util/compiler.h"

#define SEED         UINT64_C(0x6272616964)
#define POOL_BYTES   ((size_t)4 << 20)
#define OUTPUT_BYTES (((size_t)1 << 20) + 4096)
#define GUARD_BYTES  ((size_t)64)
#define GUARD        0xa5
#define DATA_MAX     255
#define MEMBERS_MAX  (DATA_MAX + 2)
#define CHUNK_BYTES  4099 /* of a row to recover; odd, so that all have tails */

static const struct parity_kernels *const kernel_sets[] = {&parity_reference, &parity_isal};

/* ---- random bytes and the oracle ---- */

static uint64_t random_state = SEED;

static uint64_t next_random(void)
{
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static void fill_random(uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)next_random();
}

static uint8_t power_of[255]; /* power_of[e] = g^e */
static uint8_t log_of[256];   /* log_of[g^e] = e */

static void make_tables(void)
{
    unsigned value = 1;
    for (unsigned e = 0; e < 255; e++) {
        power_of[e] = (uint8_t)value;
        log_of[value] = (uint8_t)e;
        value *= 2;
        if (value >= 256)
            value ^= 0x11d;
    }
}

static uint8_t oracle_mul(uint8_t a, uint8_t b)
{
    if (a == 0 || b == 0)
        return 0;
    return power_of[(log_of[a] + log_of[b]) % 255];
}

/* ---- buffers ---- */

/* Sources lie in `pool`, which nothing may change: `pool_copy` tells. */
static _Alignas(64) uint8_t pool[POOL_BYTES];
static _Alignas(64) uint8_t pool_copy[POOL_BYTES];
static _Alignas(64) uint8_t expected[2][OUTPUT_BYTES];
static _Alignas(64) uint8_t output[2][OUTPUT_BYTES];
static uint8_t coefficients[PARITY_SOURCES_MAX];
static const uint8_t *sources[PARITY_SOURCES_MAX];

static void set_up(void)
{
    make_tables();
    fill_random(pool, sizeof pool);
    memcpy(pool_copy, pool, sizeof pool);
    fill_random(coefficients, sizeof coefficients);
    coefficients[0] = 0;
    coefficients[1] = 1;
}

/* Lay `count` sources of `bytes` into the pool, the i-th misaligned by first + i * step. */
static void place_sources(uint32_t count, size_t bytes, size_t first, size_t step)
{
    const size_t stride = (bytes + 63) / 64 * 64 + 64;
    for (uint32_t i = 0; i < count; i++)
        sources[i] = pool + i * stride + (first + i * step) % 64;
}

/* An output misaligned by `shift`, with guards on both sides. */
static uint8_t *guarded(uint32_t index, size_t shift, size_t bytes)
{
    uint8_t *start = output[index] + GUARD_BYTES + shift;
    memset(start - GUARD_BYTES, GUARD, bytes + 2 * GUARD_BYTES);
    return start;
}

static bool guards_hold(const uint8_t *start, size_t bytes)
{
    for (size_t i = 0; i < GUARD_BYTES; i++)
        if (start[bytes + i] != GUARD || *(start - 1 - i) != GUARD)
            return false;
    return true;
}

#define CHECK_OUTPUT(what, buffer, index)                                                          \
    do {                                                                                           \
        if (memcmp((buffer), expected[index], bytes) != 0)                                         \
            FAIL("%s differs: %u sources, %zu bytes", what, count, bytes);                         \
        if (!guards_hold((buffer), bytes))                                                         \
            FAIL("%s overran: %u sources, %zu bytes", what, count, bytes);                         \
    } while (0)

static void check_xor(uint32_t count, size_t bytes, size_t shift)
{
    uint8_t *dst = guarded(0, shift, bytes);

    parity_reference.xor_gen(expected[0], sources, count, bytes);
    parity_isal.xor_gen(dst, sources, count, bytes);
    CHECK_OUTPUT("xor", dst, 0);
}

static void check_pq(uint32_t count, size_t bytes, size_t p_shift, size_t q_shift)
{
    uint8_t *p = guarded(0, p_shift, bytes);
    uint8_t *q = guarded(1, q_shift, bytes);

    parity_reference.pq_gen(expected[0], expected[1], sources, count, bytes);
    parity_isal.pq_gen(p, q, sources, count, bytes);
    CHECK_OUTPUT("p", p, 0);
    CHECK_OUTPUT("q", q, 1);
}

static void check_combine(uint32_t count, size_t bytes, size_t shift)
{
    uint8_t *dst = guarded(0, shift, bytes);

    parity_reference.combine(expected[0], sources, coefficients, count, bytes);
    parity_isal.combine(dst, sources, coefficients, count, bytes);
    CHECK_OUTPUT("combine", dst, 0);
}

static void check_all(uint32_t count, size_t bytes)
{
    place_sources(count, bytes, 0, 0);
    check_xor(count, bytes, 0);
    check_pq(count, bytes, 0, 0);
    check_combine(count, bytes, 0);
}

/* ---- kernels ---- */

static void check_against_oracle(const struct parity_kernels *kernels, uint32_t count)
{
    enum { BYTES = 97 };
    uint8_t xored[BYTES];
    uint8_t p[BYTES];
    uint8_t q[BYTES];
    uint8_t combined[BYTES];

    place_sources(count, BYTES, 0, 1);
    kernels->xor_gen(xored, sources, count, BYTES);
    kernels->pq_gen(p, q, sources, count, BYTES);
    kernels->combine(combined, sources, coefficients, count, BYTES);
    for (size_t b = 0; b < BYTES; b++) {
        uint8_t sum = 0;
        uint8_t weighted = 0;
        uint8_t mixed = 0;
        for (uint32_t i = 0; i < count; i++) {
            sum ^= sources[i][b];
            weighted ^= oracle_mul(power_of[i], sources[i][b]);
            mixed ^= oracle_mul(coefficients[i], sources[i][b]);
        }
        CHECK_EQ(xored[b], sum);
        CHECK_EQ(p[b], sum);
        CHECK_EQ(q[b], weighted);
        CHECK_EQ(combined[b], mixed);
    }
}

TEST(kernels_agree_with_tables_of_logarithms)
{
    for (uint32_t k = 0; k < ARRAY_COUNT(kernel_sets); k++)
        for (uint32_t count = 1; count <= DATA_MAX; count++) {
            check_against_oracle(kernel_sets[k], count);
            CHECK_SO_FAR();
        }
}

/* Worked out by hand: 1 ^ 2 ^ 4 = 7; 2 * 0x80 = 0x100 = 0x1d; 4 * 0xc0 = 0x300, and
 * 0x300 ^ 2 * 0x11d ^ 0x11d = 0x27; the last power of g is the inverse of 2. */
TEST(known_answers)
{
    static const uint8_t one[] = {0x01, 0x01, 0x01, 0x00, 0x00, 0x00};
    static const uint8_t two[] = {0x01, 0x80, 0x00, 0x00, 0x00, 0x01};
    static const uint8_t three[] = {0x01, 0x00, 0x00, 0xc0, 0x00, 0x01};
    static const uint8_t sum[] = {0x01, 0x81, 0x01, 0xc0, 0x00, 0x00};
    static const uint8_t weighted[] = {0x07, 0x1c, 0x01, 0x27, 0x00, 0x06};
    const uint8_t *rows[DATA_MAX] = {one, two, three};
    uint8_t p[sizeof sum];
    uint8_t q[sizeof sum];

    for (uint32_t k = 0; k < ARRAY_COUNT(kernel_sets); k++) {
        kernel_sets[k]->pq_gen(p, q, rows, 3, sizeof sum);
        CHECK_MEM(p, sum, sizeof sum);
        CHECK_MEM(q, weighted, sizeof sum);
    }

    static const uint8_t zeros[sizeof one];
    for (uint32_t i = 0; i < DATA_MAX; i++)
        rows[i] = zeros;
    rows[DATA_MAX - 1] = one;
    for (uint32_t k = 0; k < ARRAY_COUNT(kernel_sets); k++) {
        kernel_sets[k]->pq_gen(p, q, rows, DATA_MAX, sizeof sum);
        CHECK_MEM(p, one, sizeof sum);
        CHECK_EQ(q[0], 0x8e);
        CHECK_EQ(q[5], 0);
    }
}

TEST(every_count_and_short_length)
{
    for (uint32_t count = 1; count <= 32; count++)
        for (size_t bytes = 0; bytes <= 200; bytes++) {
            check_all(count, bytes);
            CHECK_SO_FAR();
        }
    CHECK_MEM(pool, pool_copy, sizeof pool);
}

TEST(lengths_around_pages_and_chunks)
{
    static const size_t around[] = {4096, 65536};
    static const uint32_t counts[] = {1, 2, 3, 8, 17, 32};

    for (size_t a = 0; a < ARRAY_COUNT(around); a++)
        for (size_t c = 0; c < ARRAY_COUNT(counts); c++)
            for (size_t off = 0; off <= 66; off += 11) {
                check_all(counts[c], around[a] - 33 + off);
                CHECK_SO_FAR();
            }
}

TEST(lengths_around_a_slice)
{
    static const size_t lengths[] = {(1 << 20) - 1, 1 << 20, (1 << 20) + 1, (1 << 20) + 33};

    for (uint32_t count = 1; count <= 3; count++)
        for (size_t i = 0; i < ARRAY_COUNT(lengths); i++) {
            check_all(count, lengths[i]);
            CHECK_SO_FAR();
            place_sources(count, lengths[i], 1, 1); /* through the other family */
            check_xor(count, lengths[i], 0);
            check_pq(count, lengths[i], 0, 0);
            CHECK_SO_FAR();
        }
}

TEST(wide_rows)
{
    static const uint32_t counts[] = {33, 63, 64, 65, 66, 127, 128, 129, 200, 254, 255};
    static const uint32_t wider[] = {256, 257, 1000, PARITY_SOURCES_MAX};
    static const size_t lengths[] = {1, 31, 32, 33, 64, 127, 128, 513, 1024};

    for (size_t l = 0; l < ARRAY_COUNT(lengths); l++) {
        for (size_t c = 0; c < ARRAY_COUNT(counts); c++) {
            check_all(counts[c], lengths[l]);
            place_sources(counts[c], lengths[l], 3, 5);
            check_xor(counts[c], lengths[l], 1);
            check_pq(counts[c], lengths[l], 1, 2);
            check_combine(counts[c], lengths[l], 1);
            CHECK_SO_FAR();
        }
        for (size_t c = 0; c < ARRAY_COUNT(wider); c++) {
            place_sources(wider[c], lengths[l], 0, l % 2);
            check_xor(wider[c], lengths[l], 0);
            check_combine(wider[c], lengths[l], 0);
            CHECK_SO_FAR();
        }
    }
}

/* All alike, only the outputs off, only one source off, all different. */
TEST(every_alignment)
{
    static const uint32_t counts[] = {1, 2, 5, 8};
    static const size_t lengths[] = {1, 31, 32, 33, 64, 160, 257, 1000};

    for (size_t shift = 0; shift < 64; shift++)
        for (size_t c = 0; c < ARRAY_COUNT(counts); c++)
            for (size_t l = 0; l < ARRAY_COUNT(lengths); l++) {
                const uint32_t count = counts[c];
                const size_t bytes = lengths[l];

                place_sources(count, bytes, shift, 0);
                check_xor(count, bytes, shift);
                check_pq(count, bytes, shift, shift);
                check_combine(count, bytes, shift);
                place_sources(count, bytes, 0, 0);
                check_xor(count, bytes, shift);
                check_pq(count, bytes, shift, 0);
                check_pq(count, bytes, 0, shift);
                sources[count - 1] += shift;
                check_xor(count, bytes, 0);
                check_pq(count, bytes, 0, 0);
                place_sources(count, bytes, shift, 7);
                check_xor(count, bytes, 63 - shift);
                check_pq(count, bytes, 63 - shift, shift);
                check_combine(count, bytes, 63 - shift);
                CHECK_SO_FAR();
            }
}

/* Every buffer between two pages that can't be touched, at the start or at the end of
 * what lies between them: a byte too far in either direction ends the test program. */
TEST(nothing_outside_the_buffers_is_touched)
{
    enum { BUFFERS = 7, SOURCES = BUFFERS - 2 };
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *buffers[BUFFERS];

    uint8_t *base =
        mmap(NULL, (2 * BUFFERS + 1) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(base != MAP_FAILED);
    for (size_t i = 0; i < BUFFERS; i++) {
        buffers[i] = base + (2 * i + 1) * page;
        CHECK_EQ(mprotect(buffers[i], page, PROT_READ | PROT_WRITE), 0);
        fill_random(buffers[i], page);
    }
    for (size_t bytes = 0; bytes <= 300; bytes++)
        for (int at_end = 0; at_end <= 1; at_end++)
            for (uint32_t count = 1; count <= SOURCES; count++) {
                const size_t offset = at_end != 0 ? page - bytes : 0;
                for (uint32_t i = 0; i < count; i++)
                    sources[i] = buffers[i] + offset;
                uint8_t *p = buffers[SOURCES] + offset;
                uint8_t *q = buffers[SOURCES + 1] + offset;

                parity_isal.xor_gen(p, sources, count, bytes);
                parity_isal.combine(q, sources, coefficients, count, bytes);
                parity_reference.xor_gen(expected[0], sources, count, bytes);
                parity_reference.combine(expected[1], sources, coefficients, count, bytes);
                CHECK_MEM(p, expected[0], bytes);
                CHECK_MEM(q, expected[1], bytes);
                parity_isal.pq_gen(p, q, sources, count, bytes);
                parity_reference.pq_gen(expected[0], expected[1], sources, count, bytes);
                CHECK_MEM(p, expected[0], bytes);
                CHECK_MEM(q, expected[1], bytes);
            }
    CHECK_EQ(munmap(base, (2 * BUFFERS + 1) * page), 0);
}

/* ---- generating and updating ---- */

static struct parity_chunk data_chunks[PARITY_SOURCES_MAX];
static const uint8_t *new_data[PARITY_SOURCES_MAX];

/* Lay `count` buffers of `bytes` into the pool, each anywhere at a multiple of `align`.  They
 * may overlap each other: nothing that only reads can tell. */
static void scatter(const uint8_t **buffers, uint32_t count, size_t bytes, size_t align)
{
    for (uint32_t i = 0; i < count; i++) {
        const size_t offset = (size_t)(next_random() % (POOL_BYTES - bytes));
        buffers[i] = pool + offset - offset % align;
    }
}

/* `count` of the numbers 0 .. among - 1, in any order; the others follow. */
static void draw(uint32_t *numbers, uint32_t count, uint32_t among)
{
    for (uint32_t i = 0; i < among; i++)
        numbers[i] = i;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t j = i + (uint32_t)(next_random() % (among - i));
        const uint32_t swap = numbers[i];
        numbers[i] = numbers[j];
        numbers[j] = swap;
    }
}

/* Data chunks with `count` of the exponents 0 .. among - 1, in any order. */
static void draw_exponents(uint32_t count, uint32_t among)
{
    uint32_t exponents[DATA_MAX];

    draw(exponents, count, among);
    for (uint32_t i = 0; i < count; i++)
        data_chunks[i] = (struct parity_chunk){PARITY_ROLE_DATA, exponents[i]};
}

/* P and Q of `data_chunks`, as the formulas have it, into `expected`. */
static void oracle_generate(const uint8_t *const *buffers, uint32_t count, size_t bytes)
{
    memset(expected[0], 0, bytes);
    memset(expected[1], 0, bytes);
    for (uint32_t i = 0; i < count; i++)
        for (size_t b = 0; b < bytes; b++) {
            expected[0][b] ^= buffers[i][b];
            expected[1][b] ^= oracle_mul(power_of[data_chunks[i].exponent], buffers[i][b]);
        }
}

/* P and Q together and each alone, of `sources`, against `expected`. */
static void check_generate(const struct parity_kernels *kernels, uint32_t count, size_t bytes,
                           size_t p_shift, size_t q_shift)
{
    uint8_t *p = guarded(0, p_shift, bytes);
    uint8_t *q = guarded(1, q_shift, bytes);

    parity_generate(kernels, data_chunks, sources, count, p, q, bytes);
    CHECK_OUTPUT("p of both", p, 0);
    CHECK_OUTPUT("q of both", q, 1);
    p = guarded(0, p_shift, bytes);
    parity_generate(kernels, data_chunks, sources, count, p, NULL, bytes);
    CHECK_OUTPUT("p alone", p, 0);
    q = guarded(1, q_shift, bytes);
    parity_generate(kernels, data_chunks, sources, count, NULL, q, bytes);
    CHECK_OUTPUT("q alone", q, 1);
}

/* For exponents that one pass can do, and for any; with all aligned, and with nothing. */
static void check_generation(uint32_t count, size_t bytes)
{
    for (uint32_t any = 0; any <= 1; any++)
        for (size_t align = 1; align <= 64; align *= 64) {
            draw_exponents(count, any == 1 ? DATA_MAX : count);
            scatter(sources, count, bytes, align);
            oracle_generate(sources, count, bytes);
            for (uint32_t k = 0; k < ARRAY_COUNT(kernel_sets); k++) {
                const size_t shift = align == 64 ? 0 : (size_t)(next_random() % 64);
                check_generate(kernel_sets[k], count, bytes, shift, shift * 7 % 64);
            }
        }
}

TEST(p_and_q_of_every_count)
{
    for (uint32_t count = 1; count <= DATA_MAX; count++) {
        check_generation(count, 97);
        CHECK_SO_FAR();
    }
    CHECK_MEM(pool, pool_copy, sizeof pool);
}

TEST(p_and_q_of_every_short_length)
{
    static const uint32_t counts[] = {1, 2, 3, 4, 7, 8, 16, 33, 65};

    for (size_t c = 0; c < ARRAY_COUNT(counts); c++)
        for (size_t bytes = 0; bytes <= 200; bytes++) {
            check_generation(counts[c], bytes);
            CHECK_SO_FAR();
        }
    for (size_t bytes = 4095; bytes <= 4097; bytes++)
        check_generation(6, bytes);
}

/* Without Q there may be more data than exponents, which then are all 0. */
TEST(p_of_the_widest_rows)
{
    static const uint32_t counts[] = {256, 257, 1000, PARITY_SOURCES_MAX - 1, PARITY_SOURCES_MAX};
    const size_t bytes = 161;

    for (size_t c = 0; c < ARRAY_COUNT(counts); c++) {
        const uint32_t count = counts[c];

        memset(data_chunks, 0, sizeof data_chunks);
        scatter(sources, count, bytes, 1);
        oracle_generate(sources, count, bytes);
        for (uint32_t k = 0; k < ARRAY_COUNT(kernel_sets); k++) {
            uint8_t *p = guarded(0, 0, bytes);
            parity_generate(kernel_sets[k], data_chunks, sources, count, p, NULL, bytes);
            CHECK_OUTPUT("p", p, 0);
        }
    }
}

/* Kernels that count how often they are called. */
static uint32_t xor_calls;
static uint32_t pq_calls;
static uint32_t combine_calls;

static void counting_xor_gen(uint8_t *dst, const uint8_t *const *from, uint32_t count, size_t bytes)
{
    xor_calls++;
    parity_reference.xor_gen(dst, from, count, bytes);
}

static void counting_pq_gen(uint8_t *p, uint8_t *q, const uint8_t *const *from, uint32_t count,
                            size_t bytes)
{
    pq_calls++;
    parity_reference.pq_gen(p, q, from, count, bytes);
}

static void counting_combine(uint8_t *dst, const uint8_t *const *from, const uint8_t *factors,
                             uint32_t count, size_t bytes)
{
    combine_calls++;
    parity_reference.combine(dst, from, factors, count, bytes);
}

/* What is generated is right in either way, so only this tells that the fast one is taken. */
TEST(one_pass_makes_both_where_it_can)
{
    static const struct parity_kernels counting = {"counting", counting_xor_gen, counting_pq_gen,
                                                   counting_combine};
    enum { BYTES = 97 };
    uint8_t p[BYTES];
    uint8_t q[BYTES];

    for (uint32_t count = 1; count < DATA_MAX; count++) {
        scatter(sources, count, BYTES, 1);
        draw_exponents(count, count);
        xor_calls = pq_calls = combine_calls = 0;
        parity_generate(&counting, data_chunks, sources, count, p, q, BYTES);
        CHECK(pq_calls == 1 && xor_calls == 0 && combine_calls == 0);
        parity_generate(&counting, data_chunks, sources, count, p, NULL, BYTES);
        CHECK(pq_calls == 1 && xor_calls == 1 && combine_calls == 0);

        /* A gap, and one exponent too high: in two passes. */
        data_chunks[count / 2].exponent = count;
        parity_generate(&counting, data_chunks, sources, count, p, q, BYTES);
        CHECK(pq_calls == 1 && xor_calls == 2 && combine_calls == 1);
    }
    /* No row has exponents of 0, 0 and 1, but they have a sum. */
    for (uint32_t i = 0; i < 3; i++)
        data_chunks[i] = (struct parity_chunk){PARITY_ROLE_DATA, i / 2};
    oracle_generate(sources, 3, BYTES);
    parity_generate(&counting, data_chunks, sources, 3, p, q, BYTES);
    CHECK_MEM(p, expected[0], BYTES);
    CHECK_MEM(q, expected[1], BYTES);
}

/* From P and Q of the row that `sources` are to those of the row in which each chunk that is
 * named by `changed` is its new_data instead. */
static void check_update(const uint32_t *changed, uint32_t changed_count, uint32_t count,
                         size_t bytes, size_t shift)
{
    static _Alignas(64) uint8_t old_parity[2][OUTPUT_BYTES];
    static struct parity_chunk chunks[PARITY_SOURCES_MAX];
    static const uint8_t *before[PARITY_SOURCES_MAX];
    static const uint8_t *after[PARITY_SOURCES_MAX];
    static const uint8_t *row[PARITY_SOURCES_MAX];

    oracle_generate(sources, count, bytes);
    for (uint32_t r = 0; r < 2; r++)
        memcpy(old_parity[r] + shift, expected[r], bytes);
    memcpy(row, sources, count * sizeof row[0]);
    for (uint32_t c = 0; c < changed_count; c++) {
        chunks[c] = data_chunks[changed[c]];
        before[c] = sources[changed[c]];
        after[c] = new_data[changed[c]];
        row[changed[c]] = new_data[changed[c]];
    }
    oracle_generate(row, count, bytes);
    for (uint32_t k = 0; k < ARRAY_COUNT(kernel_sets); k++)
        for (uint32_t r = 0; r < 2; r++) {
            uint8_t *dst = guarded(r, shift, bytes);
            parity_update(kernel_sets[k], r == 0 ? PARITY_ROLE_P : PARITY_ROLE_Q,
                          old_parity[r] + shift, chunks, before, after, changed_count, dst, bytes);
            CHECK_OUTPUT(r == 0 ? "p" : "q", dst, r);
        }
}

static void check_some_update(uint32_t changed_count, uint32_t count, size_t bytes, size_t align)
{
    static uint32_t changed[PARITY_SOURCES_MAX];

    draw(changed, changed_count, count);
    scatter(sources, count, bytes, align);
    scatter(new_data, count, bytes, align);
    check_update(changed, changed_count, count, bytes,
                 align == 64 ? 0 : (size_t)(next_random() % 64));
}

TEST(an_update_is_what_the_changed_row_generates)
{
    for (uint32_t count = 1; count <= 24; count++)
        for (uint32_t changed_count = 1; changed_count <= count; changed_count++)
            for (size_t align = 1; align <= 64; align *= 64) {
                draw_exponents(count, align == 64 ? count : DATA_MAX);
                check_some_update(changed_count, count, 97, align);
                CHECK_SO_FAR();
            }
    for (uint32_t count = 25; count <= DATA_MAX; count++) {
        draw_exponents(count, DATA_MAX);
        check_some_update(1 + (uint32_t)(next_random() % count), count, 33, 1);
        CHECK_SO_FAR();
    }
    CHECK_MEM(pool, pool_copy, sizeof pool);
}

TEST(updates_of_every_short_length)
{
    for (uint32_t changed_count = 1; changed_count <= 4; changed_count++)
        for (size_t bytes = 0; bytes <= 200; bytes++)
            for (size_t align = 1; align <= 64; align *= 64) {
                draw_exponents(5, DATA_MAX);
                check_some_update(changed_count, 5, bytes, align);
                CHECK_SO_FAR();
            }
}

/* Around what fits into one sum, into two and into three, and around the pieces that these
 * take.  There aren't as many exponents, so those of Q repeat; the sum is one all the same. */
TEST(updates_of_more_than_one_sum)
{
    static const uint32_t counts[] = {1022, 1023, 1024, 2045, 2046, 2047, 2048};
    static const size_t lengths[] = {0, 1, 64, 4095, 4096, 4097, 8192, 8200};

    for (uint32_t i = 0; i < PARITY_SOURCES_MAX; i++)
        data_chunks[i] = (struct parity_chunk){PARITY_ROLE_DATA, i * 7 % 255};
    for (size_t c = 0; c < ARRAY_COUNT(counts); c++)
        for (size_t l = 0; l < ARRAY_COUNT(lengths); l++) {
            if (lengths[l] > 64 && counts[c] != 1024 && counts[c] != PARITY_SOURCES_MAX)
                continue;
            check_some_update(counts[c], counts[c], lengths[l], l % 2 == 0 ? 64 : 1);
            CHECK_SO_FAR();
        }
    CHECK_MEM(pool, pool_copy, sizeof pool);
}

/* ---- recovery ---- */

/* A row with all its chunks: data, then P, then Q where there is one. */
struct row {
    uint32_t member_count;
    size_t bytes;
    struct parity_chunk chunks[MEMBERS_MAX];
};

static _Alignas(64) uint8_t row_bytes[MEMBERS_MAX][CHUNK_BYTES + 61];
static uint64_t recoveries;

static void make_row(struct row *row, uint32_t data_count, const uint32_t *exponents, bool with_q,
                     size_t bytes)
{
    const uint32_t p = data_count;
    const uint32_t q = data_count + 1;

    row->member_count = data_count + (with_q ? 2 : 1);
    row->bytes = bytes;
    row->chunks[p] = (struct parity_chunk){.role = PARITY_ROLE_P};
    row->chunks[q] = (struct parity_chunk){.role = PARITY_ROLE_Q};
    memset(row_bytes[p], 0, bytes);
    memset(row_bytes[q], 0, bytes);
    for (uint32_t i = 0; i < data_count; i++) {
        row->chunks[i] = (struct parity_chunk){PARITY_ROLE_DATA, exponents[i]};
        fill_random(row_bytes[i], bytes);
        for (size_t b = 0; b < bytes; b++) {
            row_bytes[p][b] ^= row_bytes[i][b];
            row_bytes[q][b] ^= oracle_mul(power_of[exponents[i]], row_bytes[i][b]);
        }
    }
}

/* Recover `wanted` from all members but itself, `other` (or none: equal to wanted) and
 * `withheld` (likewise), offered in an order that starts anywhere. */
static void check_recovery(const struct row *row, uint32_t wanted, uint32_t other,
                           uint32_t withheld)
{
    struct parity_chunk offered[MEMBERS_MAX];
    const uint32_t start = (uint32_t)(next_random() % row->member_count);
    const size_t bytes = row->bytes;
    uint32_t count = 0;

    for (uint32_t i = 0; i < row->member_count; i++) {
        const uint32_t member = (start + i) % row->member_count;
        if (member == wanted || member == other || member == withheld)
            continue;
        offered[count] = row->chunks[member];
        sources[count] = row_bytes[member];
        count++;
    }
    for (uint32_t k = 0; k < ARRAY_COUNT(kernel_sets); k++) {
        uint8_t *dst = guarded(0, next_random() % 2 * 13, bytes);
        const struct parity_chunk *second = other == wanted ? NULL : &row->chunks[other];

        const int result = parity_recover(kernel_sets[k], &row->chunks[wanted], second, offered,
                                          sources, count, dst, bytes);
        if (result != 0 || memcmp(dst, row_bytes[wanted], bytes) != 0 || !guards_hold(dst, bytes))
            FAIL("%s: %u members, %u lost with %u, %u withheld: result %d", kernel_sets[k]->name,
                 row->member_count, wanted, other, withheld, result);
        recoveries++;
    }
}

static void check_every_loss(const struct row *row)
{
    const uint32_t p = row->member_count - 2;
    const uint32_t q = row->member_count - 1;

    for (uint32_t wanted = 0; wanted < row->member_count; wanted++) {
        check_recovery(row, wanted, wanted, wanted);
        check_recovery(row, wanted, wanted, p); /* through Q, or without what isn't needed */
        check_recovery(row, wanted, wanted, q); /* through P, likewise */
        for (uint32_t other = 0; other < row->member_count; other++)
            check_recovery(row, wanted, other, wanted);
        CHECK_SO_FAR();
    }
}

TEST(every_loss_with_contiguous_exponents)
{
    uint32_t exponents[DATA_MAX];
    struct row row;

    for (uint32_t i = 0; i < DATA_MAX; i++)
        exponents[i] = i;
    recoveries = 0;
    for (uint32_t members = 3; members <= 32; members++) {
        make_row(&row, members - 2, exponents, true, 97);
        check_every_loss(&row);
        CHECK_SO_FAR();
    }
    printf("# %" PRIu64 " recoveries\n", recoveries);
}

/* DDF counts the places of P and Q too: the exponents of data leave a gap of two, which
 * wraps round when P is on the last member. */
TEST(every_loss_with_gaps_in_the_exponents)
{
    uint32_t exponents[DATA_MAX];
    struct row row;

    recoveries = 0;
    for (uint32_t members = 3; members <= 32; members++)
        for (uint32_t p = 0; p < members; p++) {
            const uint32_t q = (p + 1) % members;
            uint32_t data_count = 0;

            if (members > 12 && p != 0 && p != members / 2 && p < members - 2)
                continue;
            for (uint32_t place = 0; place < members; place++)
                if (place != p && place != q)
                    exponents[data_count++] = place;
            make_row(&row, data_count, exponents, true, 97);
            check_every_loss(&row);
            CHECK_SO_FAR();
        }
    printf("# %" PRIu64 " recoveries\n", recoveries);
}

TEST(every_loss_with_exponents_in_any_order)
{
    uint32_t exponents[DATA_MAX];
    struct row row;

    for (uint32_t i = 0; i < DATA_MAX; i++)
        exponents[i] = i;
    for (uint32_t i = DATA_MAX - 1; i > 0; i--) {
        const uint32_t j = (uint32_t)(next_random() % (i + 1));
        const uint32_t swap = exponents[i];
        exponents[i] = exponents[j];
        exponents[j] = swap;
    }
    for (uint32_t members = 3; members <= 32; members++) {
        make_row(&row, members - 2, exponents, true, 33);
        check_every_loss(&row);
        CHECK_SO_FAR();
    }
}

TEST(every_loss_without_q)
{
    static const uint32_t exponents[DATA_MAX]; /* all 0 */
    struct row row;

    for (uint32_t members = 2; members <= 32; members++) {
        make_row(&row, members - 1, exponents, false, 97);
        for (uint32_t wanted = 0; wanted < members; wanted++) {
            check_recovery(&row, wanted, wanted, wanted);
            CHECK_SO_FAR();
        }
    }
}

TEST(losses_of_long_chunks)
{
    static const uint32_t exponents[] = {0, 1, 4, 5, 6};
    struct row row;

    for (uint32_t data_count = 1; data_count <= ARRAY_COUNT(exponents); data_count++) {
        make_row(&row, data_count, exponents, true, CHUNK_BYTES);
        check_every_loss(&row);
        CHECK_SO_FAR();
    }
}

TEST(losses_of_the_widest_row)
{
    uint32_t exponents[DATA_MAX];
    struct row row;

    for (uint32_t i = 0; i < DATA_MAX; i++)
        exponents[i] = i;
    make_row(&row, DATA_MAX, exponents, true, 65);
    for (uint32_t i = 0; i < 100; i++) {
        const uint32_t wanted = (uint32_t)(next_random() % MEMBERS_MAX);
        const uint32_t other = (uint32_t)(next_random() % MEMBERS_MAX);
        check_recovery(&row, wanted, other, wanted);
        CHECK_SO_FAR();
    }
    check_recovery(&row, 0, DATA_MAX - 1, 0);
    check_recovery(&row, DATA_MAX - 1, 0, 0);
}

/* One lost chunk comes by XOR wherever P is there: a rebuild mustn't read Q, and mustn't
 * go through the slower kernel. */
TEST(one_lost_chunk_is_plain_xor_of_data_and_p)
{
    static const struct parity_chunk offered[] = {
        {PARITY_ROLE_Q,    0},
        {PARITY_ROLE_DATA, 1},
        {PARITY_ROLE_P,    0},
        {PARITY_ROLE_DATA, 4}
    };
    static const uint8_t for_data[] = {0, 1, 1, 1};
    static const uint8_t for_p[] = {0, 1, 0, 1};
    static const uint8_t for_q[] = {0, 2, 0, 16};
    const struct parity_chunk data = {PARITY_ROLE_DATA, 2};
    const struct parity_chunk p = {PARITY_ROLE_P, 0};
    const struct parity_chunk q = {PARITY_ROLE_Q, 0};
    uint8_t solved[ARRAY_COUNT(offered)];

    CHECK_EQ(parity_solve(&data, NULL, offered, ARRAY_COUNT(offered), solved), 0);
    CHECK_MEM(solved, for_data, sizeof solved);
    CHECK_EQ(parity_solve(&data, &q, offered + 1, 3, solved), 0);
    CHECK_MEM(solved, for_data + 1, 3);
    CHECK_EQ(parity_solve(&p, NULL, offered, ARRAY_COUNT(offered), solved), 0);
    CHECK_MEM(solved, for_p, sizeof solved);
    CHECK_EQ(parity_solve(&q, &p, offered, ARRAY_COUNT(offered), solved), 0);
    CHECK_MEM(solved, for_q, sizeof solved);
}

/* ---- what can't be solved ---- */

static void check_unsolvable(const struct parity_chunk *wanted, const struct parity_chunk *other,
                             const struct parity_chunk *offered, uint32_t count)
{
    uint8_t solved[8];
    uint8_t dst[16];
    uint8_t untouched[16];

    memset(solved, GUARD, sizeof solved);
    memset(dst, GUARD, sizeof dst);
    memset(untouched, GUARD, sizeof untouched);
    place_sources(count, sizeof dst, 0, 0);
    CHECK(count <= sizeof solved);
    CHECK_EQ(parity_solve(wanted, other, offered, count, solved), -EINVAL);
    CHECK_MEM(solved, untouched, sizeof solved);
    for (uint32_t k = 0; k < ARRAY_COUNT(kernel_sets); k++) {
        CHECK_EQ(
            parity_recover(kernel_sets[k], wanted, other, offered, sources, count, dst, sizeof dst),
            -EINVAL);
        CHECK_MEM(dst, untouched, sizeof dst);
    }
}

TEST(too_little_is_refused)
{
    static const struct parity_chunk data = {PARITY_ROLE_DATA, 0};
    static const struct parity_chunk second = {PARITY_ROLE_DATA, 1};
    static const struct parity_chunk twin = {PARITY_ROLE_DATA, 0};
    static const struct parity_chunk p = {PARITY_ROLE_P, 0};
    static const struct parity_chunk q = {PARITY_ROLE_Q, 0};
    static const struct parity_chunk offered[] = {
        {PARITY_ROLE_P,    0},
        {PARITY_ROLE_DATA, 2},
        {PARITY_ROLE_DATA, 3},
        {PARITY_ROLE_Q,    0}
    };

    check_unsolvable(&data, NULL, offered + 1, 2);    /* neither P nor Q */
    check_unsolvable(&data, NULL, offered, 0);        /* nothing at all */
    check_unsolvable(&data, &p, offered + 1, 2);      /* no Q */
    check_unsolvable(&data, &q, offered + 1, 2);      /* no P */
    check_unsolvable(&p, &data, offered + 1, 2);      /* no Q */
    check_unsolvable(&q, &data, offered + 1, 2);      /* no P */
    check_unsolvable(&data, &second, offered, 3);     /* P alone for two */
    check_unsolvable(&data, &second, offered + 1, 3); /* Q alone for two */
    check_unsolvable(&data, &second, offered + 1, 2); /* neither for two */
    check_unsolvable(&data, &twin, offered, 4);       /* two that Q can't tell apart */
    check_unsolvable(&p, NULL, offered, 0);           /* parity of a row without data */
    check_unsolvable(&p, &q, offered, 0);
    check_unsolvable(&q, NULL, offered, 1);
}

/* Every exponent, every change of a byte; then all that one wrong chunk doesn't explain. */
TEST(the_wrong_chunk_is_located)
{
    uint8_t p[3];
    uint8_t q[3];
    uint8_t stored_p[3];
    uint8_t stored_q[3];

    fill_random(p, sizeof p);
    fill_random(q, sizeof q);
    CHECK_EQ(parity_locate(p, p, q, q, sizeof p), -1);
    for (int e = 0; e < 255; e++)
        for (unsigned change = 1; change < 256; change++) {
            const uint8_t other = (uint8_t)(change % 255 + 1);
            for (unsigned i = 0; i < sizeof p; i++) {
                const uint8_t d = (uint8_t)(i == 0 ? change : i == 1 ? 0 : other);
                stored_p[i] = p[i] ^ d;
                stored_q[i] = q[i] ^ oracle_mul(d, power_of[e]);
            }
            CHECK_EQ(parity_locate(p, stored_p, q, stored_q, sizeof p), e);
            stored_q[0] ^= 1;
            CHECK_EQ(parity_locate(p, stored_p, q, stored_q, sizeof p), -1);
            CHECK_EQ(parity_locate(p, stored_p, q, q, sizeof p), -1);
            CHECK_EQ(parity_locate(p, p, q, stored_q, sizeof p), -1);
            CHECK_SO_FAR();
        }
}

TEST_MAIN({
    set_up();
    RUN(kernels_agree_with_tables_of_logarithms);
    RUN(known_answers);
    RUN(every_count_and_short_length);
    RUN(lengths_around_pages_and_chunks);
    RUN(lengths_around_a_slice);
    RUN(wide_rows);
    RUN(every_alignment);
    RUN(nothing_outside_the_buffers_is_touched);
    RUN(p_and_q_of_every_count);
    RUN(p_and_q_of_every_short_length);
    RUN(p_of_the_widest_rows);
    RUN(one_pass_makes_both_where_it_can);
    RUN(an_update_is_what_the_changed_row_generates);
    RUN(updates_of_every_short_length);
    RUN(updates_of_more_than_one_sum);
    RUN(every_loss_with_contiguous_exponents);
    RUN(every_loss_with_gaps_in_the_exponents);
    RUN(every_loss_with_exponents_in_any_order);
    RUN(every_loss_without_q);
    RUN(losses_of_long_chunks);
    RUN(losses_of_the_widest_row);
    RUN(one_lost_chunk_is_plain_xor_of_data_and_p);
    RUN(too_little_is_refused);
    RUN(the_wrong_chunk_is_located);
})
