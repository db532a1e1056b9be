/* SPDX-License-Identifier: BSD-2-Clause */
/* plan_print.c - a plan as text, for tests and for people.
 *
 *   0+128 slot 1 read member 1 at 0
 *   128+128 slot 2 compute at 0, slot 3 lost too
 *     slot 0 D g^1: read member 0
 *     slot 1 D g^2: in request at 0
 *     slot 4 P: read member 4
 *
 * and of a write, rows of the chunk and all slots:
 *
 *   rows 8+4 RMW
 *     slot 0 D g^0 member 0: new, read, write
 *     slot 1 D g^1 lost: -
 *     slot 2 P member 2: read, write
 *   8 sectors read, 4 member I/Os
 */
#include <inttypes.h>

#include "plan/plan.h"
#include "plan/plan_write.h"

static const char *role_name(enum plan_role role)
{
    switch (role) {
    case PLAN_ROLE_DATA:
        return "D";
    case PLAN_ROLE_P:
        return "P";
    case PLAN_ROLE_Q:
        return "Q";
    }
    return "";
}

static void print_source(const struct plan_source *source, struct text *out)
{
    text_add(out, "  slot %u %s", source->slot, role_name(source->role));
    if (source->role == PLAN_ROLE_DATA)
        text_add(out, " g^%u", source->exponent);
    if (source->same_as != UINT32_MAX)
        text_add(out, ": as above\n");
    else if (source->request_sector != UINT64_MAX)
        text_add(out, ": in request at %" PRIu64 "\n", source->request_sector);
    else
        text_add(out, ": read member %u\n", source->io_member);
}

void plan_print(const struct plan *plan, struct text *out)
{
    for (uint32_t i = 0; i < plan->piece_count; i++) {
        const struct plan_piece *piece = &plan->pieces[i];
        text_add(out, "%" PRIu64 "+%" PRIu64 " slot %u ", piece->request_sector, piece->sectors,
                 piece->slot);
        switch (piece->kind) {
        case PLAN_DIRECT:
            text_add(out, "read member %u at %" PRIu64 "\n", piece->io_member,
                     piece->member_sector);
            break;
        case PLAN_RECONSTRUCT:
            text_add(out, "compute ");
            if (piece->role == PLAN_ROLE_DATA)
                text_add(out, "g^%u", piece->exponent);
            else
                text_add(out, "%s", role_name(piece->role));
            text_add(out, " at %" PRIu64, piece->member_sector);
            if (piece->has_other_lost)
                text_add(out, ", %s%s lost too", role_name(piece->other_role),
                         piece->other_role == PLAN_ROLE_DATA ? " of the row" : "");
            text_add(out, "%s\n", piece->in_doubt ? ", in doubt" : "");
            for (uint32_t s = 0; s < piece->source_count; s++)
                print_source(&plan->sources[piece->first_source + s], out);
            break;
        case PLAN_UNREADABLE:
            text_add(out, "unreadable at %" PRIu64 "\n", piece->member_sector);
            break;
        case PLAN_CHECK:
            text_add(out, "check%s\n", piece->in_doubt ? ", in doubt" : "");
            for (uint32_t s = 0; s < piece->source_count; s++)
                print_source(&plan->sources[piece->first_source + s], out);
            break;
        case PLAN_UNCHECKED:
            text_add(out, "unchecked\n");
            break;
        case PLAN_UNUSED:
            text_add(out, "unused\n");
            break;
        }
    }
}

static const char *method_name(enum plan_method method)
{
    switch (method) {
    case PLAN_FULL:
        return "FULL";
    case PLAN_RCW:
        return "RCW";
    case PLAN_RMW:
        return "RMW";
    case PLAN_RECOVER:
        return "RECOVER";
    case PLAN_DATA_ONLY:
        return "DATA ONLY";
    case PLAN_IMPOSSIBLE:
        return "impossible";
    }
    return "";
}

static void print_chunk(const struct plan_chunk *chunk, struct text *out)
{
    const char *comma = " ";
    const struct {
        bool set;
        const char *name;
    } flags[] = {
        {chunk->has_new, "new"  },
        {chunk->read,    "read" },
        {chunk->write,   "write"}
    };

    text_add(out, "  slot %u %s", chunk->slot, role_name(chunk->role));
    if (chunk->role == PLAN_ROLE_DATA)
        text_add(out, " g^%u", chunk->exponent);
    if (!chunk->usable)
        text_add(out, " lost:");
    else if (chunk->copy_member == UINT32_MAX)
        text_add(out, " member %u:", chunk->io_member);
    else
        text_add(out, " members %u and %u:", chunk->io_member, chunk->copy_member);
    if (chunk->usable && !chunk->readable)
        text_add(out, " unreadable,");
    for (uint32_t i = 0; i < ARRAY_COUNT(flags); i++) {
        if (!flags[i].set)
            continue;
        text_add(out, "%s%s", comma, flags[i].name);
        comma = ", ";
    }
    text_add(out, "%s\n", chunk->has_new || chunk->read || chunk->write ? "" : " -");
}

void plan_stripe_print(const struct plan_stripe *plan, uint32_t slot_count, struct text *out)
{
    for (uint32_t r = 0; r < plan->run_count; r++) {
        const struct plan_row_run *run = &plan->runs[r];
        text_add(out, "rows %u+%u %s%s%s\n", run->start, run->end - run->start,
                 method_name(run->method), run->trusted ? "" : ", parity not trusted",
                 run->in_doubt ? ", in doubt" : "");
        for (uint32_t i = 0; i < slot_count; i++)
            print_chunk(&plan->chunks[run->first_chunk + i], out);
    }
    text_add(out, "%" PRIu64 " sectors read, %u member I/Os\n", plan->sectors_read,
             plan->member_ios);
}
