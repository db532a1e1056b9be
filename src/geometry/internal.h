/* SPDX-License-Identifier: BSD-2-Clause */
/* internal.h - what the files of src/geometry share with each other alone. */
#ifndef GEOMETRY_INTERNAL_H
#define GEOMETRY_INTERNAL_H

#include "geometry/geometry.h"

/* Each takes a volume sector inside the volume, and fills *out. */
void zones_map(const struct geometry *g, uint64_t volume_sector, struct place *out);
void parity_layout_map(const struct geometry *g, uint64_t volume_sector, struct place *out);
void mirror_map(const struct geometry *g, uint64_t volume_sector, struct place *out);

/* Each takes a member sector that the array uses, and fills *out.  Volume sectors past the end of
 * the volume, and runs across it, are for geometry_unmap() to deal with. */
void zones_unmap(const struct geometry *g, uint32_t slot, uint64_t member_sector, struct home *out);
void parity_layout_unmap(const struct geometry *g, uint32_t slot, uint64_t member_sector,
                         struct home *out);
void mirror_unmap(const struct geometry *g, uint32_t slot, uint64_t member_sector,
                  struct home *out);

/* Each derives its level's part of a geometry from a shape whose counts and chunk
 * have been checked; returns 0 or -EINVAL with *err. */
int zones_init(struct geometry *g, const struct shape *shape, struct braid_error *err);
int parity_layout_init(struct geometry *g, const struct shape *shape, struct braid_error *err);
int mirror_init(struct geometry *g, const struct shape *shape, struct braid_error *err);

/* Layout names and numbers of one level; see shape_set_layout_name(). */
int parity_layout_from_name(struct shape *shape, const char *name);
int parity_layout_from_number(struct shape *shape, uint32_t number);
const char *parity_layout_name(const struct shape *shape);
uint32_t parity_layout_number(const struct shape *shape);
int mirror_from_name(struct shape *shape, const char *name);
int mirror_from_number(struct shape *shape, uint32_t number);
uint32_t mirror_number(const struct shape *shape);
void mirror_name(const struct shape *shape, char *text, uint32_t bytes);

#endif
