/*
 * branch_targets.h - the addresses of a module that code may jump to.
 *
 * Moving instructions away from an address is safe only if execution reaches it by falling through
 * alone. branch_targets_scan finds all other addresses: targets of direct jumps, branches and
 * calls; addresses taken with a RIP-relative operand; entries of jump tables; pointers in data,
 * relocated or not; landing pads of exceptions; starts of functions. The result is one bit per byte
 * of text. A bit too many costs a refusal, a missing bit could crash the target: so every doubt
 * sets the bit.
 */
#ifndef DYNTRACE_BRANCH_TARGETS_H
#define DYNTRACE_BRANCH_TARGETS_H

#include "control/elf/symtab.h"

struct branch_targets;

/* Scans the whole module; tens of milliseconds for a server. */
struct error *branch_targets_scan(const struct symtab *symtab, struct branch_targets **ret_targets);
void branch_targets_free(struct branch_targets *targets);

/* Gives the targets from a cache of scanned files. The result may outlive the symtab; the caller
 * gives it back with branch_cache_put. One thread at a time. */
struct error *branch_cache_get(const struct symtab *symtab, struct branch_targets **ret_targets);
void branch_cache_put(struct branch_targets *targets);

/* May code jump to this address of the file? True for every address outside the text. */
bool branch_targets_at(const struct branch_targets *targets, uint64_t address);

/* Is it code of a Go program? */
bool branch_targets_has_goroutines(const struct branch_targets *targets);

/* Is it a target only because goroutines are parked at any instruction of a Go program? */
bool branch_targets_is_parking(const struct branch_targets *targets, uint64_t address);

/* Does an instruction read data that begins in [start, end)? Such bytes mustn't change. */
bool branch_targets_is_read(const struct branch_targets *targets, uint64_t start, uint64_t end);

/* Does code jump into the middle of the instruction [start, end)? Then the bytes are no
 * instruction, or hold more than one. */
bool branch_targets_inside(const struct branch_targets *targets, uint64_t start, uint64_t end);

/* Might execution get to this address otherwise than by a direct jump from between the function's
 * start before it and the next one? */
bool branch_targets_is_apart(const struct branch_targets *targets, uint64_t address);
/* The first start of a function behind this address, or the end of the text. */
uint64_t branch_targets_next_start(const struct branch_targets *targets, uint64_t address);

/* Does a restartable sequence (H11) overlap [start, end)? */
bool branch_targets_is_sequence(const struct branch_targets *targets, uint64_t start, uint64_t end);

#endif
