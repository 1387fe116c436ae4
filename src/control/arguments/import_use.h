/*
 * import_use.h - what a call that leads out of the file does with argument registers, by the name
 * of the function and its prototype. Pure.
 */
#ifndef DYNTRACE_IMPORT_USE_H
#define DYNTRACE_IMPORT_USE_H

#include "control/code/decode.h"
#include "control/elf/symtab.h"

struct import_use {
	uint8_t reads; /* registers of its parameters */
	uint8_t doubts; /* registers that it reads perhaps */
	uint8_t clobbers; /* registers that callers count on nothing in, behind the call */
	bool returns; /* surely, unless it ends the process */
	uint8_t results; /* registers that may hold a part of its result */
};

/* Decodes the instruction at an address of the file. */
bool import_read_insn(const struct symtab *symtab, uint64_t at, struct insn *ret_insn);

/* Of a jump or call through a word of memory, or through anything else. */
struct import_use import_use_of(const struct symtab *symtab, const struct insn *insn);
/* Of a direct call or jump, if it leads to an entry of the linkage table; false: it doesn't. */
bool import_use_at(const struct symtab *symtab, uint64_t target, struct import_use *ret_use);

#endif
