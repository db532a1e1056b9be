/* SPDX-License-Identifier: BSD-2-Clause */
/* md1.h - the superblocks 1.0, 1.1 and 1.2; see md_super_decode() for the contract. */
#ifndef FORMAT_MD1_H
#define FORMAT_MD1_H

#include "format/md.h"

int md1_decode(enum md_version version, const uint8_t *bytes, uint64_t super_sector,
               uint64_t member_sectors, struct md_super *out, struct braid_error *err);

void md1_encode(const struct md_super *super, uint8_t *bytes);

#endif
