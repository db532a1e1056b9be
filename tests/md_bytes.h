/* SPDX-License-Identifier: BSD-2-Clause */
/* md_bytes.h - superblocks as bytes, written by a second hand: for tests and fuzzers. */
#ifndef TESTS_MD_BYTES_H
#define TESTS_MD_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline void bytes_put16(uint8_t *p, uint16_t value)
{
    p[0] = (uint8_t)value;
    p[1] = (uint8_t)(value >> 8);
}

static inline void bytes_put32(uint8_t *p, uint32_t value)
{
    bytes_put16(p, (uint16_t)value);
    bytes_put16(p + 2, (uint16_t)(value >> 16));
}

static inline void bytes_put64(uint8_t *p, uint64_t value)
{
    bytes_put32(p, (uint32_t)value);
    bytes_put32(p + 4, (uint32_t)(value >> 32));
}

static inline uint32_t bytes_get32(const uint8_t *p, bool big)
{
    return big ? (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]
               : (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

/* Put the right checksum into a v1 superblock of 4096 bytes, as far as its role count allows. */
static inline void bytes_fix_v1(uint8_t *super)
{
    const uint32_t roles = bytes_get32(super + 220, false);
    const uint32_t length = 256 + 2 * (roles > 1920 ? 1920 : roles);
    uint64_t sum = 0;

    bytes_put32(super + 216, 0);
    for (uint32_t i = 0; i + 4 <= length; i += 4)
        sum += bytes_get32(super + i, false);
    if (length % 4 != 0)
        sum += (uint64_t)super[length - 2] | (uint64_t)super[length - 1] << 8;
    bytes_put32(super + 216, (uint32_t)sum + (uint32_t)(sum >> 32));
}

/* Likewise for 0.90 in either byte order. */
static inline void bytes_fix_v0(uint8_t *super)
{
    const bool big = super[0] == 0xa9;
    uint64_t sum = 0;

    memset(super + 152, 0, 4);
    for (uint32_t i = 0; i < 4096; i += 4)
        sum += bytes_get32(super + i, big);
    const uint32_t checksum = (uint32_t)sum + (uint32_t)(sum >> 32);
    for (uint32_t i = 0; i < 4; i++)
        super[152 + i] = (uint8_t)(checksum >> (big ? 24 - 8 * i : 8 * i));
}

/* Reverse the bytes of each 32-bit word: 0.90 from the one byte order to the other, but for the
 * pairs of words that swap places too. */
static inline void bytes_swap_v0(uint8_t *super)
{
    static const uint32_t pairs[] = {156, 164};

    for (uint32_t i = 0; i < 4096; i += 4) {
        const uint32_t word = bytes_get32(super + i, true);
        bytes_put32(super + i, word);
    }
    for (uint32_t i = 0; i < 2; i++) {
        uint8_t first[4];
        memcpy(first, super + pairs[i], 4);
        memcpy(super + pairs[i], super + pairs[i] + 4, 4);
        memcpy(super + pairs[i] + 4, first, 4);
    }
}

enum { BYTES_MEMBER_SECTORS = 20480, BYTES_SUPER_SECTOR = 8 };

/* A 1.2 superblock: RAID 5 of four, left-symmetric, 64 KiB chunks, device 2 in slot 2. */
static inline void bytes_make_v1(uint8_t *super)
{
    memset(super, 0, 4096);
    bytes_put32(super, 0xa92b4efc);
    bytes_put32(super + 4, 1);
    memset(super + 16, 0x11, 16);
    memcpy(super + 32, "host:name", 10);
    bytes_put64(super + 64, 1700000000 | 5ULL << 40);
    bytes_put32(super + 72, 5);
    bytes_put32(super + 76, 2);
    bytes_put64(super + 80, 8192);
    bytes_put32(super + 88, 128);
    bytes_put32(super + 92, 4);
    bytes_put64(super + 128, 2048);
    bytes_put64(super + 136, 8192);
    bytes_put64(super + 144, BYTES_SUPER_SECTOR);
    bytes_put32(super + 160, 2);
    memset(super + 168, 0x22, 16);
    bytes_put16(super + 186, 8);
    bytes_put32(super + 188, 16);
    bytes_put64(super + 192, 1700000100);
    bytes_put64(super + 200, 18);
    bytes_put64(super + 208, UINT64_MAX);
    bytes_put32(super + 220, 128);
    for (uint32_t i = 0; i < 128; i++)
        bytes_put16(super + 256 + 2 * i, i < 4 ? (uint16_t)i : 0xffff);
    bytes_fix_v1(super);
}

/* A 0.90 superblock, little endian: RAID 5 of three, device 1. */
static inline void bytes_make_v0(uint8_t *super)
{
    memset(super, 0, 4096);
    bytes_put32(super, 0xa92b4efc);
    bytes_put32(super + 8, 90);
    bytes_put32(super + 20, 0x01020304);
    bytes_put32(super + 24, 1700000000);
    bytes_put32(super + 28, 5);
    bytes_put32(super + 32, 4096);
    bytes_put32(super + 36, 3);
    bytes_put32(super + 40, 3);
    bytes_put32(super + 52, 0x05060708);
    bytes_put32(super + 128, 1700000100);
    bytes_put32(super + 132, 1);
    bytes_put32(super + 156, 19);
    bytes_put32(super + 164, 19);
    bytes_put32(super + 256, 2);
    bytes_put32(super + 260, 65536);
    for (uint32_t i = 0; i < 3; i++) {
        uint8_t *disk = super + 512 + 128 * i;
        bytes_put32(disk, i);
        bytes_put32(disk + 12, i);
        bytes_put32(disk + 16, 6);
    }
    memcpy(super + 3968, super + 512 + 128, 128);
    bytes_fix_v0(super);
}

#endif
