/* SPDX-License-Identifier: BSD-2-Clause */
/* parity.h - XOR and P+Q over buffers: made, updated, and used to recover lost chunks.
 *
 *   P = D0 ^ D1 ^ ...                      Q = g^e0 D0 ^ g^e1 D1 ^ ...
 *
 * over GF(2^8) modulo 0x11d with g = 2.  The exponents e belong to the layout
 * (geometry.h); they differ from chunk to chunk of a row and are below 255.
 * Source: H. Peter Anvin, "The mathematics of RAID-6"; the layouts' exponents
 * are in geometry/parity_layout.c.
 *
 * All functions are pure, take any length and any alignment, and may be called
 * from any thread.  dst must not overlap a source. */
#ifndef PARITY_PARITY_H
#define PARITY_PARITY_H

#include <stddef.h>
#include <stdint.h>

/* What a chunk of a row is to the code. */
enum parity_role {
    PARITY_ROLE_DATA,
    PARITY_ROLE_P,
    PARITY_ROLE_Q,
};

/* A chunk of a row: its part and, for data, the exponent of its coefficient in Q
 * (0..254; 0 where the level has no Q). */
struct parity_chunk {
    enum parity_role role;
    uint32_t exponent;
};

/* A set of kernels.  Every pair of sets gives the same bytes. */
struct parity_kernels {
    const char *name;
    /* dst = sources[0] ^ ... ^ sources[count - 1]; count >= 1. */
    void (*xor_gen)(uint8_t *dst, const uint8_t *const *sources, uint32_t count, size_t bytes);
    /* p and q over data chunks whose exponents are 0, 1, ..., count - 1; count >= 1. */
    void (*pq_gen)(uint8_t *p, uint8_t *q, const uint8_t *const *sources, uint32_t count,
                   size_t bytes);
    /* dst = coefficients[0] * sources[0] ^ ... over GF(2^8); count >= 1. */
    void (*combine)(uint8_t *dst, const uint8_t *const *sources, const uint8_t *coefficients,
                    uint32_t count, size_t bytes);
};

extern const struct parity_kernels parity_reference; /* plain C: what the others are held to */
extern const struct parity_kernels parity_isal;      /* ISA-L, dispatched by CPU at run time */

#define PARITY_SOURCES_MAX 2048

/* P and Q of a row from all its data.
 *
 *   data     the data chunks in any order, `count` of them, 1 .. PARITY_SOURCES_MAX
 *   buffers  `bytes` of each
 *   p, q     what is wanted; NULL: not that one.  For P alone the exponents don't matter
 *
 * One pass over the data makes both where the exponents are 0 .. count - 1. */
void parity_generate(const struct parity_kernels *kernels, const struct parity_chunk *data,
                     const uint8_t *const *buffers, uint32_t count, uint8_t *p, uint8_t *q,
                     size_t bytes);

/* P or Q of a row of which some data changed, from what it was before.
 *
 *   role        which of the two
 *   old_parity  `bytes` of it; where it is wrong, the new one will be
 *   data        the data chunks that changed, in any order, `count` of them, 1 ..
 *               PARITY_SOURCES_MAX
 *   old_data    `bytes` of each, as they were when old_parity was made
 *   new_data    the same as they will be */
void parity_update(const struct parity_kernels *kernels, enum parity_role role,
                   const uint8_t *old_parity, const struct parity_chunk *data,
                   const uint8_t *const *old_data, const uint8_t *const *new_data, uint32_t count,
                   uint8_t *dst, size_t bytes);

/* How a lost chunk is a linear combination of the row's surviving chunks.
 *
 *   wanted        the lost chunk to compute
 *   other         a second lost chunk of the row, or NULL
 *   sources       the surviving chunks offered, `count` of them: *all* surviving
 *                 data, and of P and Q what is needed (see below)
 *   coefficients  filled on success, one for each source; 0 = not needed
 *
 * One lost:  data from P (or from Q, if P isn't offered), P or Q from data.
 * Two lost:  data+data from P and Q; data+P from Q; data+Q from P; P and Q from data.
 *
 * Returns 0, or -EINVAL when the sources offered don't determine the chunk. */
int parity_solve(const struct parity_chunk *wanted, const struct parity_chunk *other,
                 const struct parity_chunk *sources, uint32_t count, uint8_t *coefficients);

/* Compute a lost chunk into dst: parity_solve() and then the fastest kernel for
 * its coefficients (all ones or zeros: xor_gen).  buffers[i] holds `bytes` of
 * sources[i]; count <= PARITY_SOURCES_MAX.  Returns as parity_solve() does; dst
 * is untouched on failure. */
int parity_recover(const struct parity_kernels *kernels, const struct parity_chunk *wanted,
                   const struct parity_chunk *other, const struct parity_chunk *sources,
                   const uint8_t *const *buffers, uint32_t count, uint8_t *dst, size_t bytes);

/* Which one data chunk of a row is wrong, from P and Q as they were computed and as they are
 * stored, if one alone is and P and Q aren't.  Returns its exponent, or -1 when that explains
 * what is seen in no way, or nothing differs. */
int parity_locate(const uint8_t *computed_p, const uint8_t *stored_p, const uint8_t *computed_q,
                  const uint8_t *stored_q, size_t bytes);

#endif
