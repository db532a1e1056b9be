/* SPDX-License-Identifier: BSD-2-Clause */
/* md0.h - the 0.90 superblock; see md_super_decode() for the contract. */
#ifndef FORMAT_MD0_H
#define FORMAT_MD0_H

#include "format/md.h"

int md0_decode(const uint8_t *bytes, uint64_t super_sector, struct md_super *out,
               struct braid_error *err);

void md0_encode(const struct md_super *super, uint8_t *bytes);

#endif
