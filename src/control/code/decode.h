/*
 * decode.h - decode one instruction, with Zydis.
 *
 * Pure. Fails (returns false) on bytes that aren't an instruction or are cut short; *ret_insn is
 * undefined then. (It is filled in place: at millions of instructions a copy of 1 KiB counts.)
 */
#ifndef DYNTRACE_DECODE_H
#define DYNTRACE_DECODE_H

#include <Zydis/Zydis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/taddr.h"

enum insn_flow {
	FLOW_NEXT, /* goes on with the next instruction */
	FLOW_JUMP, /* direct jmp; target known */
	FLOW_BRANCH, /* jcc, jrcxz, loop: target known, or goes on */
	FLOW_CALL, /* direct call; target known */
	FLOW_JUMP_INDIRECT,
	FLOW_CALL_INDIRECT,
	FLOW_RETURN,
	FLOW_STOP, /* hlt, ud2, int3: doesn't go on with the next instruction */
};

struct insn {
	taddr pc;
	uint8_t length;
	enum insn_flow flow;
	bool has_target;
	taddr target; /* of a direct jump, branch or call */
	bool rip_relative; /* has a [rip + x] operand */
	taddr rip_target; /* address of that operand */
	uint8_t bytes[16];
	ZydisDecodedInstruction zydis;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
};

bool decode(const uint8_t *bytes, size_t size, taddr pc, struct insn *ret_insn);

/* Cheaper: fills in length, flow and targets, but no operands, for scanning whole modules. */
bool decode_quick(const uint8_t *bytes, size_t size, taddr pc, struct insn *ret_insn);

/* Writes "mov rbp, rsp" into `text`, for messages and --explain. */
void decode_format(const struct insn *insn, char *text, size_t room);

#endif
