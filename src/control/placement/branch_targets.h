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

#include "control/elf/sym.h"

struct inbound;

/* Scans the whole module; tens of milliseconds for a server. */
struct error *inbound_scan(const struct symtab *symtab, struct inbound **ret_inbound);
void inbound_free(struct inbound *inbound);

/* The same, of a file that was scanned before at once; it may outlive the symtab. Given back by
 * inbound_put. One thread at a time. */
struct error *inbound_get(const struct symtab *symtab, struct inbound **ret_inbound);
void inbound_put(struct inbound *inbound);

/* Does anything lead to this address of the file? True as well for what lies outside its text. */
bool inbound_at(const struct inbound *inbound, uint64_t address);

/* Does an instruction read data that begins in [start, end)? What it reads mustn't change. */
bool inbound_is_read(const struct inbound *inbound, uint64_t start, uint64_t end);

/* Does something lead to the middle of the instruction [start, end)? Then it isn't one, or not the
 * only one there. */
bool inbound_inside(const struct inbound *inbound, uint64_t start, uint64_t end);

/* Does a restartable sequence (H11) overlap [start, end)? */
bool inbound_is_sequence(const struct inbound *inbound, uint64_t start, uint64_t end);

#endif
