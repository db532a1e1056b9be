/* SPDX-License-Identifier: BSD-2-Clause */
/* balance.h - what members are busy with and how fast they are, for choosing among copies. */
#ifndef ENGINE_BALANCE_H
#define ENGINE_BALANCE_H

#include <stdatomic.h>

#include "engine/engine.h"

/* Of an I/O member; names as in struct plan_load.  See balance.c. */
struct balance_member {
    _Atomic uint64_t pending_ns;
    _Atomic uint64_t pending_ios;
    _Atomic uint64_t turn;
    _Atomic uint64_t mib_ns;      /* 0: not measured yet */
    _Atomic uint64_t position_ns; /* likewise */
    _Atomic uint64_t resume_ns;   /* likewise */
    _Atomic uint64_t done_ns;     /* when its last I/O was */
    _Atomic uint64_t head_sector;
    _Atomic uint64_t run_ends[PLAN_RUNS];
    _Atomic uint32_t next_run;
    bool rotational;
};

struct balance {
    enum plan_policy policy;
    struct balance_member *members; /* by I/O member; NULL: there is nothing to choose */
    uint32_t member_count;
    uint64_t span_sectors;
    _Atomic uint64_t turn;
};

/* An I/O that is under way. */
struct balance_io {
    uint32_t io_member;
    enum io_kind kind;
    uint64_t member_sector;
    uint64_t sectors;
    uint64_t expected_ns;
    uint64_t submitted_ns;
    bool after_idle; /* what was measured before it is old */
    enum balance_place {
        BALANCE_NEXT, /* where the member's last I/O ends */
        BALANCE_RUN,  /* where an earlier one does */
        BALANCE_ELSEWHERE,
    } place;
};

/* Returns 0 or -ENOMEM. */
int balance_init(struct balance *balance, const struct engine_options *options);
void balance_clear(struct balance *balance);

/* How things stand on the lane's clock, into out->loads[member_count], for one plan.  Returns out;
 * NULL: the first copy is to be read always. */
struct plan_balance *balance_look(struct balance *balance, struct io *clock,
                                  struct plan_balance *out);

/* An I/O sets off: io_member, kind, member_sector and sectors are set, the rest is noted. */
void balance_submitted(struct balance *balance, struct balance_io *io, uint64_t now_ns);
/* It has been done; result is 0 or a negative errno. */
void balance_done(struct balance *balance, const struct balance_io *io, int result,
                  struct io *clock);

#endif
