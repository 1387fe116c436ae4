/*
 * known_values.h - what a path through code knows of registers: numbers, bounds, and the entries of
 * jump tables that compilers make of a switch.
 *
 * (I25) A jump through a register leads only to the entries of a table if the path loads it from
 *       there, with an index that a comparison has bounded, from memory that nobody writes. An
 *       entry that isn't code makes the whole jump unknown.
 *
 * Whatever isn't understood is forgotten: to know less is always right. Pure.
 */
#ifndef DYNTRACE_KNOWN_VALUES_H
#define DYNTRACE_KNOWN_VALUES_H

#include "control/code/decode.h"
#include "control/elf/symtab.h"

enum known_kind {
	KNOWN_NOTHING,
	KNOWN_NUMBER, /* it is `value` */
	KNOWN_BOUND, /* its lowest `width` bits are at most `most`; of 32: it has no others */
	KNOWN_ENTRY, /* one of the first `most` + 1 entries of the table of distances at `value` */
	KNOWN_TARGET, /* such an entry plus `base` */
};

struct known_value {
	uint8_t kind, reg, width;
	bool is_loose; /* no comparison tells `most`, but the size of a number or a mask */
	uint32_t most;
	uint64_t value, base;
};

/* A comparison whose flags still stand: of a register with a number. */
struct known_compare {
	bool stands;
	uint8_t reg, width;
	uint32_t number;
};

#define KNOWN_MAX 4u

struct known_values {
	struct known_value items[KNOWN_MAX];
	struct known_compare compare;
	uint8_t oldest; /* takes the next one */
};

/* Moves on, from before the instruction to behind it; *ret_taken, for a branch: to its target. */
void known_step(struct known_values *known, const struct insn *insn,
		struct known_values *ret_taken);
/* Keeps what both know. True: something was lost. */
bool known_join(struct known_values *known, const struct known_values *other);
/* The number in a register, or in its lower half; false: unknown. */
bool known_number(const struct known_values *known, ZydisRegister reg, uint64_t *ret_number);

struct jump_table {
	uint64_t at, base; /* of an entry of 4 bytes: what it is added to */
	uint32_t count;
	uint8_t width;
	bool is_loose; /* it may be shorter: what is behind it isn't its own */
};

/* The table that an indirect jump reads; false: unknown. */
bool known_jump(const struct known_values *known, const struct insn *insn,
		struct jump_table *ret_table);
/* Where an entry leads; false: not into code. */
bool jump_table_target(const struct symtab *symtab, const struct jump_table *table, uint32_t index,
		       uint64_t *ret_target);

#endif
