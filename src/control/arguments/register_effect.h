/*
 * register_effect.h - what one instruction does to argument registers and to the stack pointer.
 * Pure.
 */
#ifndef DYNTRACE_REGISTER_EFFECT_H
#define DYNTRACE_REGISTER_EFFECT_H

#include "control/code/decode.h"

/* Where rsp and rbp point, in bytes from the return address as it was at the function's first
 * instruction: rsp begins with 0. */
struct stack_state {
	int32_t rsp, rbp;
};
#define STACK_UNKNOWN INT32_MIN

/* The argument register that holds the second word of a result: rdx. */
#define RESULT_REGISTERS 4u

struct register_effect {
	uint8_t reads; /* argument registers that it may read, a bit each */
	uint8_t writes; /* argument registers of which it overwrites every bit, always */
	uint8_t touches; /* argument registers that it writes at all, or may write */
	bool asks_vectors; /* test al, al: are there arguments in vector registers? */
	uint8_t saves; /* the argument register that it stores to the stack; 0: something else */
	int32_t save_area; /* where the first one would be, if all were stored side by side */
	uint8_t pushes; /* the argument register that it pushes; 0: something else */
	uint8_t loads; /* the argument register that it loads from the stack; 0: something else */
	int32_t slot; /* where on the stack, if it saves, pushes or loads one */
	bool writes_rax;
	bool enters_kernel; /* a system call */
	bool is_opaque; /* may read any register, or change where the function returns to */
};

/* Also moves `stack` on, from before the instruction to behind it. */
struct register_effect register_effect_of(const struct insn *insn, struct stack_state *stack);

#endif
