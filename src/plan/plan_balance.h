/* SPDX-License-Identifier: BSD-2-Clause */
/* plan_balance.h - which copy of a mirrored sector is read, where several would do.
 *
 * Where copies may differ the first is read, whatever is said here, or two reads could disagree.
 * Where they are known to agree any of them is right, and a policy chooses, by what the caller says of
 * each member's work. */
#ifndef PLAN_PLAN_BALANCE_H
#define PLAN_PLAN_BALANCE_H

#include <stdbool.h>
#include <stdint.h>

enum plan_policy {
    PLAN_EXPECTED_TIME, /* the copy that will have answered first; the default */
    PLAN_FIRST,
    PLAN_ROUND_ROBIN, /* the one whose member has not been read from for longest */
    PLAN_MD,          /* as Linux md does: on with a run; else least pending, else nearest */
};

enum { PLAN_RUNS = 8 };

/* What an I/O member is busy with, and how fast it is.  Hints: none of it makes a read wrong. */
struct plan_load {
    uint64_t pending_ns; /* the time that it will take for what is under way */
    uint64_t pending_ios;
    uint64_t turn;        /* the higher, the later it was read from */
    uint64_t mib_ns;      /* the time for a MiB that starts where its last I/O ends */
    uint64_t position_ns; /* what is added elsewhere */
    uint64_t resume_ns;   /* the same where a run goes on; 0: not known */
    uint64_t head_sector; /* member sector: where its last I/O ends */
    uint64_t
        run_ends[PLAN_RUNS]; /* where reads end with which others may go on; UINT64_MAX: none */
    uint32_t next_run;       /* of them, the one to forget next */
    bool rotational;         /* distance counts, and a run is not cut in pieces */
    /* While a plan is made: where what it reads of the member ends; UINT64_MAX: it reads nothing. */
    uint64_t planned_end;
};

/* The caller's, for one plan. */
struct plan_balance {
    enum plan_policy policy;
    uint64_t turn;      /* the last that was given out */
    uint32_t preferred; /* an I/O member to read from where it will do; UINT32_MAX: none */
    struct plan_load
        *loads; /* by I/O member; planning goes on as if what it plans were under way */
};

/* "expected-time", "first", "round-robin", "md"; NULL is the default.  Returns 0 or -EDOM. */
int plan_policy_from_name(const char *name, enum plan_policy *out);

/* Whether a read from there goes on with a run. */
bool plan_load_continues(const struct plan_load *load, uint64_t member_sector);
/* How long the member will take for it alone.  span_sectors: what distances are measured by. */
uint64_t plan_load_service_ns(const struct plan_load *load, uint64_t member_sector,
                              uint64_t sectors, uint64_t span_sectors);

#endif
