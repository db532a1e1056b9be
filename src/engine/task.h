/* SPDX-License-Identifier: BSD-2-Clause */
/* task.h - tasks: what carries out a request, or a part of it, on a lane.
 *
 * A task is a state machine over a batch of member I/O: task->step is what comes next.  Steps run
 * from io_run() alone, never inside a call of the engine's user. */
#ifndef ENGINE_TASK_H
#define ENGINE_TASK_H

#include "engine/internal.h"

/* ---- lane.c ---- */

/* Let the lane look for what can go on; soon, from io_run(). */
void lane_kick(struct lane *lane);
/* Go on with step() when the batch is done; soon, if there is nothing in it. */
void task_submit(struct task *task, void (*step)(struct task *task));
/* Go on with step(), soon: lets others have their turn, and keeps steps from nesting. */
void task_yield(struct task *task, void (*step)(struct task *task));
/* Own task->claims[0 .. claim_count), units in ascending order, then step().  So nobody waits in
 * a circle: who waits for a unit has only lower ones. */
void task_acquire(struct task *task, void (*step)(struct task *task));
void task_release(struct task *task);
/* Go on with step() when that round of superblocks is durable, or task->round_failed tells that it
 * never will be. */
void task_await_round(struct task *task, uint64_t round, void (*step)(struct task *task));
/* The task's request is done with: back to the free ones. */
void task_free(struct task *task);

/* A member has failed, as an I/O of the lane tells. */
void lane_member_failed(struct lane *lane, uint32_t io_member, int error);
/* Another member has taken its place. */
void lane_member_replaced(struct lane *lane, uint32_t io_member);
/* Errors that say something of the member as a whole: it is gone, shorter, or hangs. */
bool error_is_member_wide(int error);
/* Reads of the batch failed: make less usable, or look closer.  Under ownership, with `mend`:
 * note what is to be rewritten.  Afterwards it has to be planned anew. */
void task_read_failed(struct task *task, bool mend);
void lane_notify(struct lane *lane, const struct engine_notice *notice);
/* The unit's writes have been carried out, or failed: acknowledge and let go. */
void lane_work_done(struct lane *lane, struct unit_work *work);
/* Let all waiting lanes look again: a round is done, or there will be none. */
void lanes_wake_waiting(struct engine *engine);
/* The committer is to have a look. */
void lane_want_commit(struct lane *lane);

int lane_create(struct lane *lane, struct engine *engine, uint32_t index);
/* Nothing of the lane is under way; its io goes on without it. */
void lane_leave(struct lane *lane);
void lane_clear(struct lane *lane); /* frees; also after a lane_create() that failed */

/* Durability of the whole array; called back from this lane. */
void lane_flush(struct lane *lane, struct engine_flush *flush);

/* ---- window.c ---- */

/* So much of the task's scratch memory. */
uint8_t *task_scratch(struct task *task, uint64_t sectors);
/* Fill the batch with what task->plan has to read. */
void window_gather(struct task *task);
/* Compute what was lost of it. */
void window_compute(struct task *task);
enum parity_role engine_parity_role(enum plan_role role);

/* ---- read.c, write.c, sweep.c ---- */

void read_start(struct task *task, struct engine_read *read);
/* task->works hold their claims. */
void write_start(struct task *task);
/* Scratch memory that a unit takes. */
uint64_t write_block_sectors(const struct units *units);
void sweep_start(struct task *task, struct engine_sweep *sweep);

/* ---- mend.c ---- */

/* Rewrite what task->mends name, then step(). */
void mend_start(struct task *task, void (*step)(struct task *task));

/* ---- check.c ---- */

/* All sources of the piece have been read: compare, tell the sweep, and add to the task's batch
 * what repairs it. */
void check_piece(struct task *task, const struct plan_piece *piece);

/* ---- commit.c and background.c, on lane 0 ---- */

int committer_create(struct engine *engine, struct committer **out);
void committer_destroy(struct committer *committer);
void committer_poll(struct committer *committer);
bool committer_busy(const struct committer *committer);
void background_init(struct engine *engine);
void background_poll(struct lane *lane);

#endif
