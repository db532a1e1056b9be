/* SPDX-License-Identifier: BSD-2-Clause */
/* internal.h - what the files of the engine share. */
#ifndef ENGINE_INTERNAL_H
#define ENGINE_INTERNAL_H

#include "engine/engine.h"

enum {
    SECTOR_BYTES = 512,
    ENGINE_PIECE_SECTORS = 1 << 11, /* 1 MiB: no piece of a plan is longer, nor a member I/O */
};

/* One member I/O of a window. */
struct member_io {
    struct io_request request; /* first, so that one is the other */
    struct engine *engine;
    uint64_t member_sector;
    uint64_t sectors;
    uint32_t first_iov;
    int result;
};

/* The member I/O that may still grow, one for each member. */
struct open_io {
    uint32_t io_index; /* UINT32_MAX: none */
};

struct engine {
    struct engine_options options;
    struct plan_slot *slots;
    struct plan_view view;
    struct range_set *bad; /* by I/O member */
    uint64_t *data_offset_bytes;

    /* The request: one of these. */
    struct engine_read *read;
    struct engine_check *check;
    uint64_t window_start;   /* sectors of the request that are through */
    uint64_t window_sectors; /* of the present window */
    uint64_t piece_limit;
    struct plan plan;
    uint8_t **source_buffers; /* by index in plan.sources */
    struct member_io *ios;
    uint32_t io_count;
    struct iovec *iovs; /* of all member I/O of a window; each I/O's are adjacent */
    struct iovec_place {
        uint32_t io_index;
        uint8_t *buffer;
        uint32_t bytes;
    } * transfers; /* what becomes the iovs, in order of planning */
    uint32_t transfer_count;
    struct open_io *open_ios;
    uint32_t outstanding;
    bool failed; /* some member I/O of the window failed */
    uint8_t *scratch;
    uint64_t scratch_used_sectors;
    const uint8_t **recover_buffers;
    struct parity_chunk *recover_chunks;
    uint8_t *computed[2];    /* P and Q as they should be: ENGINE_PIECE_SECTORS each */
    struct io_timer restart; /* gets the window out of a callback of the last I/O */
};

enum parity_role engine_parity_role(enum plan_role role);

/* All sources of the piece have been read: compare, and tell the check. */
void engine_check_piece(struct engine *engine, const struct plan_piece *piece);

#endif
