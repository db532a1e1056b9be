/* SPDX-License-Identifier: BSD-2-Clause */
/* recover.c - a lost chunk as a linear combination of those that are left.
 *
 * One equation covers every case.  Write p(c), q(c) for the coefficients with which
 * P and Q contain data chunk c: 1 and g^e.  Ask for the lost chunk W as
 *
 *      W = a P ^ b Q ^ (sum over surviving data i) c_i D_i                       (1)
 *
 * Let w(c) be the coefficient with which W itself contains data chunk c: that is 1
 * for c = W and 0 otherwise if W is data, 1 if W is P, g^e if W is Q.  Comparing the
 * coefficients of each D on both sides of (1) gives
 *
 *      c_i = w(i) ^ a ^ b g^e_i                 for surviving data
 *      0   = w(u) ^ a ^ b g^e_u                 for every lost data chunk u      (2)
 *
 * so a and b follow from (2), which has no, one or two lines, and c_i from them:
 *
 *      no line     a = 0,     b = 0
 *      one         a = w(u),  b = 0             where P is offered: XOR is cheaper
 *                  a = 0,     b = w(u) / g^e_u  where only Q is
 *      two         b = (w(u) ^ w(v)) / (g^e_u ^ g^e_v),  a = w(u) ^ b g^e_u
 */
#include "parity/parity.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>

#include "util/gf256.h"

#define NOT_OFFERED UINT32_MAX

/* How much of P and of Q goes into the lost chunk: a and b above. */
struct share {
    uint8_t p;
    uint8_t q;
};

/* What the sources offer, as indexes of them. */
struct offer {
    uint32_t p;
    uint32_t q;
    uint32_t data_count;
};

static struct offer take_stock(const struct parity_chunk *sources, uint32_t count)
{
    struct offer offer = {.p = NOT_OFFERED, .q = NOT_OFFERED};

    for (uint32_t i = 0; i < count; i++) {
        switch (sources[i].role) {
        case PARITY_ROLE_DATA:
            offer.data_count++;
            break;
        case PARITY_ROLE_P:
            offer.p = i;
            break;
        case PARITY_ROLE_Q:
            offer.q = i;
            break;
        }
    }
    return offer;
}

/* w(data): how often the wanted chunk contains a data chunk.  `same`: it is that chunk. */
static uint8_t content(const struct parity_chunk *wanted, const struct parity_chunk *data,
                       bool same)
{
    uint8_t coefficient = 0;

    switch (wanted->role) {
    case PARITY_ROLE_DATA:
        coefficient = same ? 1 : 0;
        break;
    case PARITY_ROLE_P:
        coefficient = 1;
        break;
    case PARITY_ROLE_Q:
        coefficient = gf256_exp(data->exponent);
        break;
    }
    return coefficient;
}

static int share_without_unknowns(const struct offer *offer, struct share *share)
{
    if (offer->data_count == 0)
        return -EINVAL; /* a row without data: nothing to compute parity from */
    *share = (struct share){.p = 0, .q = 0};
    return 0;
}

static int share_with_one(const struct parity_chunk *wanted, const struct parity_chunk *lost,
                          const struct offer *offer, struct share *share)
{
    const uint8_t inside = content(wanted, lost, wanted == lost);

    if (offer->p != NOT_OFFERED) {
        *share = (struct share){.p = inside, .q = 0};
        return 0;
    }
    if (offer->q != NOT_OFFERED) {
        const uint8_t inverse = gf256_exp(255 - lost->exponent);
        *share = (struct share){.p = 0, .q = gf256_mul(inside, inverse)};
        return 0;
    }
    return -EINVAL;
}

/* Both lost chunks are data, and one of them is wanted: w is 1 and 0. */
static int share_with_two(const struct parity_chunk *wanted, const struct parity_chunk *other,
                          const struct offer *offer, struct share *share)
{
    const uint8_t power = gf256_exp(wanted->exponent);
    const uint8_t difference = power ^ gf256_exp(other->exponent);

    if (offer->p == NOT_OFFERED || offer->q == NOT_OFFERED || difference == 0)
        return -EINVAL;
    const uint8_t q = gf256_inverse(difference);
    *share = (struct share){.p = 1 ^ gf256_mul(q, power), .q = q};
    return 0;
}

static int solve_share(const struct parity_chunk *wanted, const struct parity_chunk *other,
                       const struct offer *offer, struct share *share)
{
    const bool wanted_is_data = wanted->role == PARITY_ROLE_DATA;
    const bool other_is_data = other != NULL && other->role == PARITY_ROLE_DATA;

    if (wanted_is_data && other_is_data)
        return share_with_two(wanted, other, offer, share);
    if (wanted_is_data || other_is_data)
        return share_with_one(wanted, wanted_is_data ? wanted : other, offer, share);
    return share_without_unknowns(offer, share);
}

int parity_solve(const struct parity_chunk *wanted, const struct parity_chunk *other,
                 const struct parity_chunk *sources, uint32_t count, uint8_t *coefficients)
{
    const struct offer offer = take_stock(sources, count);
    struct share share;
    const int result = solve_share(wanted, other, &offer, &share);

    if (result != 0)
        return result;
    for (uint32_t i = 0; i < count; i++) {
        const struct parity_chunk *source = &sources[i];
        coefficients[i] = 0;
        if (source->role == PARITY_ROLE_DATA)
            coefficients[i] = content(wanted, source, false) ^ share.p;
        if (source->role == PARITY_ROLE_DATA && share.q != 0)
            coefficients[i] ^= gf256_mul(share.q, gf256_exp(source->exponent));
    }
    if (offer.p != NOT_OFFERED)
        coefficients[offer.p] = share.p;
    if (offer.q != NOT_OFFERED)
        coefficients[offer.q] = share.q;
    return 0;
}

int parity_recover(const struct parity_kernels *kernels, const struct parity_chunk *wanted,
                   const struct parity_chunk *other, const struct parity_chunk *sources,
                   const uint8_t *const *buffers, uint32_t count, uint8_t *dst, size_t bytes)
{
    uint8_t coefficients[PARITY_SOURCES_MAX];
    const uint8_t *used[PARITY_SOURCES_MAX];
    uint32_t used_count = 0;
    bool ones = true;

    assert(count <= PARITY_SOURCES_MAX);
    const int result = parity_solve(wanted, other, sources, count, coefficients);
    if (result != 0)
        return result;

    for (uint32_t i = 0; i < count; i++) {
        if (coefficients[i] == 0)
            continue;
        ones = ones && coefficients[i] == 1;
        coefficients[used_count] = coefficients[i];
        used[used_count] = buffers[i];
        used_count++;
    }
    assert(used_count >= 1);
    if (ones)
        kernels->xor_gen(dst, used, used_count, bytes);
    else
        kernels->combine(dst, used, coefficients, used_count, bytes);
    return 0;
}

/* The exponent e for which g^e = power; power is not 0. */
static int gf256_log(uint8_t power)
{
    int exponent = 0;

    for (uint8_t is = 1; is != power; is = gf256_double(is))
        exponent++;
    return exponent;
}

int parity_locate(const uint8_t *computed_p, const uint8_t *stored_p, const uint8_t *computed_q,
                  const uint8_t *stored_q, size_t bytes)
{
    uint8_t factor = 0; /* dQ = factor dP */

    for (size_t i = 0; i < bytes; i++) {
        const uint8_t p = computed_p[i] ^ stored_p[i];
        const uint8_t q = computed_q[i] ^ stored_q[i];
        if (p == 0 && q == 0)
            continue;
        if (p == 0 || q == 0)
            return -1;
        if (factor == 0)
            factor = gf256_mul(q, gf256_inverse(p));
        if (gf256_mul(p, factor) != q)
            return -1;
    }
    return factor != 0 ? gf256_log(factor) : -1;
}
