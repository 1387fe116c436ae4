/*
 * branch_targets.h - which addresses of a module something leads to.
 *
 * Moving instructions away from an address is safe only when nothing but falling through
 * reaches it. This finds what else might: targets of direct jumps, branches and calls; addresses
 * taken with a RIP-relative operand; entries of jump tables; pointers in data, relocated or not;
 * landing pads of exceptions; starts of functions. One
 * bit for each byte of text; too many bits set cost a refusal, a missing one could cost the target,
 * so every doubt sets the bit.
 */
#ifndef DYNTRACE_BRANCH_TARGETS_H
#define DYNTRACE_BRANCH_TARGETS_H

#include "control/elf/symtab.h"

struct branch_targets;

/* Scans the whole module; tens of milliseconds for a server. */
struct error *branch_targets_scan(const struct symtab *symtab, struct branch_targets **ret_inbound);
void branch_targets_free(struct branch_targets *branch_targets);

/* The same, of a file that was scanned before at once; it may outlive the symtab. Given back by
 * branch_cache_put. One thread at a time. */
struct error *branch_cache_get(const struct symtab *symtab, struct branch_targets **ret_inbound);
void branch_cache_put(struct branch_targets *branch_targets);

/* Does anything lead to this address of the file? True as well for what lies outside its text. */
bool branch_targets_at(const struct branch_targets *branch_targets, uint64_t address);

/* Does an instruction read data that begins in [start, end)? What it reads mustn't change. */
bool branch_targets_is_read(const struct branch_targets *branch_targets, uint64_t start, uint64_t end);

/* Does something lead to the middle of the instruction [start, end)? Then it isn't one, or not the
 * only one there. */
bool branch_targets_inside(const struct branch_targets *branch_targets, uint64_t start, uint64_t end);

/* Does a restartable sequence (H11) overlap [start, end)? */
bool branch_targets_is_sequence(const struct branch_targets *branch_targets, uint64_t start, uint64_t end);

#endif
