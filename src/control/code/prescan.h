/*
 * prescan.h - length, flow and targets of an instruction, from tables.
 *
 * For whole modules, where Zydis would take most of the time. Reads common instructions by a table
 * of our own, in an eighth of the time; instructions that the table isn't certain of go to Zydis.
 * Tests compare the two on real programs, at every byte, and on random bytes. Pure; fails as decode
 * does.
 */
#ifndef DYNTRACE_PRESCAN_H
#define DYNTRACE_PRESCAN_H

#include "decode.h"

/* Kinds of instructions that scans look for. */
enum prescan_kind {
	PRESCAN_OTHER,
	PRESCAN_PADDING, /* nop of any length, int3 */
	PRESCAN_LEA,
	PRESCAN_ADD,
	PRESCAN_MOVSXD,
};

struct prescan {
	taddr pc;
	uint8_t length;
	uint8_t modrm, sib; /* 0: none */
	enum insn_flow flow;
	enum prescan_kind kind;
	bool has_target;
	taddr target;
	bool rip_relative;
	taddr rip_target;
};

bool prescan(const uint8_t *bytes, size_t size, taddr pc, struct prescan *ret_scan);

#define PRESCAN_MOD(scan) ((scan)->modrm >> 6)
#define PRESCAN_RM(scan) ((scan)->modrm & 7u)
#define PRESCAN_SCALE(scan) ((scan)->sib >> 6)

#endif
