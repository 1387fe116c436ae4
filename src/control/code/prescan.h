/*
 * prescan.h - length, flow and targets of an instruction, from tables.
 *
 * For whole modules, where Zydis would take most of the time: common instructions are read by a
 * table of our own, an eighth of the time; whatever isn't certain to be as the table says goes to
 * Zydis. Tests compare the two on real programs, at every byte, and on random bytes. Pure. false,
 * with nothing useful in *ret_glance: as decode.
 */
#ifndef DYNTRACE_PRESCAN_H
#define DYNTRACE_PRESCAN_H

#include "decode.h"

/* What those who scan want to know beyond that. */
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
	uint8_t modrm, sib; /* 0 where there is none */
	enum insn_flow flow;
	enum prescan_kind kind;
	bool has_target;
	taddr target;
	bool rip_relative;
	taddr rip_target;
};

bool prescan(const uint8_t *bytes, size_t size, taddr pc, struct prescan *ret_glance);

#define PRESCAN_MOD(g) ((g)->modrm >> 6)
#define PRESCAN_RM(g) ((g)->modrm & 7u)
#define PRESCAN_SCALE(g) ((g)->sib >> 6)

#endif
