/*
 * relocate_check.h - checks that moved code means the same as the original, by decoding both.
 *
 * Shared by the unit test and the fuzzer. relocate_check returns NULL, or a text
 * that names the difference.
 */
#ifndef DYNTRACE_TESTS_RELOCATE_CHECK_H
#define DYNTRACE_TESTS_RELOCATE_CHECK_H

#include <string.h>

#include "control/code/decode.h"

struct moved {
	const uint8_t *bytes;
	size_t size;
	uint64_t at;
};

/* Decodes the instruction at *offset of the copy, and steps over it. */
static inline bool moved_next(const struct moved *m, size_t *offset, struct insn *insn)
{
	if (*offset > m->size ||
	    !decode(m->bytes + *offset, m->size - *offset, taddr_of(m->at + *offset), insn))
		return false;
	*offset += insn->length;
	return true;
}

/* The literal that [rip + x] reads: aligned, in the copy, behind `offset`. */
static inline bool moved_literal(const struct moved *m, const struct insn *insn, size_t offset,
				 uint64_t *value)
{
	uint64_t at = insn->rip_target.v - m->at;

	if (!insn->rip_relative || at < offset || at + 8 > m->size || insn->rip_target.v % 8)
		return false;
	memcpy(value, m->bytes + at, 8);
	return true;
}

/* Where the jump at *offset leads, direct or through a literal. */
static inline bool moved_jump(const struct moved *m, size_t *offset, uint64_t *to)
{
	struct insn insn;

	if (!moved_next(m, offset, &insn))
		return false;
	*to = insn.target.v;
	if (insn.flow == FLOW_JUMP)
		return true;
	return insn.flow == FLOW_JUMP_INDIRECT && moved_literal(m, &insn, *offset, to);
}

static inline const char *check_plain(const struct insn *insn, const struct moved *m)
{
	size_t disp = insn->zydis.raw.disp.offset, offset = 0;
	struct insn copy;

	if (m->size != insn->length || !moved_next(m, &offset, &copy) ||
	    copy.length != insn->length)
		return "another length";
	for (size_t i = 0; i < m->size; i++) {
		if (insn->rip_relative && i >= disp && i < disp + 4)
			continue;
		if (m->bytes[i] != insn->bytes[i])
			return "another byte";
	}
	if (copy.rip_relative != insn->rip_relative || copy.rip_target.v != insn->rip_target.v)
		return "[rip + x] leads elsewhere";
	return NULL;
}

static inline const char *check_jump(const struct insn *insn, const struct moved *m)
{
	size_t offset = 0;
	uint64_t to;

	return moved_jump(m, &offset, &to) && to == insn->target.v ? NULL : "jumps elsewhere";
}

static inline bool is_counted(const struct insn *insn)
{
	return insn->zydis.opcode_map == ZYDIS_OPCODE_MAP_DEFAULT && insn->zydis.opcode >= 0xe0;
}

static inline const char *check_counted(const struct insn *insn, const struct insn *first,
					const struct moved *m, size_t offset)
{
	struct insn over;
	uint64_t to;

	if (first->zydis.mnemonic != insn->zydis.mnemonic ||
	    first->zydis.address_width != insn->zydis.address_width)
		return "another counted branch";
	if (!moved_next(m, &offset, &over) || over.flow != FLOW_JUMP ||
	    over.target.v != m->at + m->size)
		return "doesn't go on behind itself";
	if (first->target.v != m->at + offset)
		return "taken, it misses the jump";
	return moved_jump(m, &offset, &to) && to == insn->target.v ? NULL : "branches elsewhere";
}

static inline const char *check_branch(const struct insn *insn, const struct moved *m)
{
	struct insn first;
	size_t offset = 0;
	uint64_t to;

	if (!moved_next(m, &offset, &first) || first.flow != FLOW_BRANCH)
		return "not a branch";
	if (is_counted(insn))
		return check_counted(insn, &first, m, offset);
	if (first.zydis.mnemonic == insn->zydis.mnemonic)
		return first.target.v == insn->target.v && offset == m->size ? NULL
									     : "branches elsewhere";
	if ((first.zydis.opcode & 15) != ((insn->zydis.opcode & 15) ^ 1))
		return "another condition";
	if (first.target.v != m->at + m->size)
		return "doesn't go on behind itself";
	return moved_jump(m, &offset, &to) && to == insn->target.v ? NULL : "branches elsewhere";
}

/* The same place in memory, seen 8 bytes further down the stack. */
static inline bool same_operand(const struct insn *insn, const struct insn *copy)
{
	const ZydisDecodedOperand *a = &insn->operands[0], *b = &copy->operands[0];
	int64_t lift = 0;

	if (a->type != b->type)
		return false;
	if (a->type == ZYDIS_OPERAND_TYPE_REGISTER)
		return a->reg.value == b->reg.value && a->reg.value != ZYDIS_REGISTER_RSP;
	if (a->mem.base == ZYDIS_REGISTER_RSP || a->mem.base == ZYDIS_REGISTER_ESP)
		lift = 8;
	if (a->mem.segment != b->mem.segment || a->mem.base != b->mem.base ||
	    a->mem.index != b->mem.index || a->mem.scale != b->mem.scale)
		return false;
	if (insn->rip_relative)
		return copy->rip_target.v == insn->rip_target.v;
	return a->mem.disp.value + lift == b->mem.disp.value;
}

static inline const char *check_call(const struct insn *insn, const struct moved *m)
{
	struct insn push, jump;
	size_t offset = 0;
	uint64_t value;

	if (!moved_next(m, &offset, &push) || push.zydis.mnemonic != ZYDIS_MNEMONIC_PUSH ||
	    !moved_literal(m, &push, offset, &value))
		return "doesn't push a literal";
	if (value != insn->pc.v + insn->length)
		return "pushes another return address";
	if (insn->flow == FLOW_CALL)
		return moved_jump(m, &offset, &value) && value == insn->target.v
			       ? NULL
			       : "calls elsewhere";
	if (!moved_next(m, &offset, &jump) || jump.flow != FLOW_JUMP_INDIRECT)
		return "doesn't jump";
	if (push.rip_target.v < m->at + offset)
		return "the literal lies in the code";
	return same_operand(insn, &jump) ? NULL : "another operand";
}

static inline const char *relocate_check(const struct insn *insn, const struct moved *m)
{
	switch (insn->flow) {
	case FLOW_JUMP:
		return check_jump(insn, m);
	case FLOW_BRANCH:
		return check_branch(insn, m);
	case FLOW_CALL:
	case FLOW_CALL_INDIRECT:
		return check_call(insn, m);
	default:
		return check_plain(insn, m);
	}
}

#endif
