/*
 * argument_use.h - which of its argument registers a function may read, by its code.
 *
 * Without debug information nothing tells how many arguments a function has. Its code tells which
 * registers matter: those that some path from its first instruction reads before it overwrites
 * them. A register too many costs eight bytes per hit, a missing one loses a value: so every doubt
 * counts as a read.
 *
 * (I21) A register is left out only if every path from the function's first instruction overwrites
 *       all of it, or returns to the caller, before anything could read it; or by (I24).
 * (I22) A path that can't be followed reads all registers that it hasn't overwritten: a jump or
 *       call that leads to an unknown place (jump tables: known_values.h), bytes that aren't an
 *       instruction, a return that needn't lead to the caller, and whatever exceeds the limits of
 *       the search. A system call reads as many as its number has, all if that isn't known.
 * (I23) A known function that is called, or jumped to, reads what its own code reads. One of
 *       another file reads what its prototype says; without a prototype, everything.
 * (I24) A read that no instruction proves doesn't count if two callers leave garbage in that
 *       register, and none passes it (caller_evidence.h): calls, and jumps that aren't loops of the
 *       function's own. Arguments have no gaps: below one that is read or passed, all count.
 *
 * True for code that compilers make; so is the System V ABI. Pure, but for what it remembers. One
 * thread at a time.
 */
#ifndef DYNTRACE_ARGUMENT_USE_H
#define DYNTRACE_ARGUMENT_USE_H

#include "control/elf/symtab.h"

#define ARGUMENT_REGISTERS 6u
#define ARGUMENTS_ALL ((1u << ARGUMENT_REGISTERS) - 1) /* a bit per register: rdi is bit 0 */

/* These registers and all below the last of them. */
static inline uint8_t arguments_up_to(uint8_t registers)
{
	registers |= registers >> 1;
	registers |= registers >> 2;
	return registers | registers >> 4;
}

struct argument_uses; /* what is known about the functions of one file */

/* NULL: out of memory. The symtab stays the caller's and outlives the result. */
struct argument_uses *argument_uses_new(const struct symtab *symtab);
void argument_uses_free(struct argument_uses *uses);

/* The argument registers of the System V ABI that the function at that address of the file may
 * read. */
uint8_t argument_uses_of(struct argument_uses *uses, uint64_t address);

#endif
