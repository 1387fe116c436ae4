/*
 * offsets.h - the offsets of src/shared/layout.h that variants.S uses.
 *
 * layout.h can't be included by the assembler; floor.c asserts that each of these is still right.
 */
#ifndef DYNTRACE_BENCH_FLOOR_OFFSETS_H
#define DYNTRACE_BENCH_FLOOR_OFFSETS_H

#define SLOT_KEY 0
#define SLOT_RESERVE 8
#define SLOT_LIMIT 16
#define SLOT_TID 20
#define SLOT_TID_OFFSET 24
#define SLOT_LAST 32
#define SLOT_EVENTS 40
#define STATE_SLOTS 64
#define HASH_MULTIPLIER 0x61c88647
#define HASH_SHIFT 26
#define HASH_MASK 0x7ffc0
#define GAP_SHIFT 39
#define PENDING 0x800000

#endif
