/*
 * relocate.c - make an instruction do the same at another address.
 *
 * Most instructions read nothing but registers and memory: their bytes are copied. Instructions
 * that depend on RIP are rewritten:
 *
 *   [rip + x]         the same bytes with another x
 *   jmp, jcc rel      jmp, jcc rel32
 *   jrcxz, loop rel8  <the same> taken; jmp over; taken: jmp rel32; over:
 *   call              push [rip + return]; jmp ...; return: .quad the ORIGINAL return address
 *
 * One instruction pushes the call's return address (H3), and the program sees the original address:
 * the call returns to the original code, after the call. Where a rel32 doesn't reach the target,
 * "jmp rel32" is "jmp [rip + far]; far: .quad target". Literals are 8-byte aligned (with EFLAGS.AC
 * set an unaligned read is a SIGBUS, H2) and follow unconditional jumps.
 *
 * Two kinds are copied although they depend on RIP: syscall, which leaves the address after itself
 * in rcx (no program reads it: the ABI gives rcx up), and x87 state saves, which hold the address
 * of the last x87 instruction. A shadow stack (CET) would reject the pushed return addresses: there
 * the planner moves no call.
 */
#include "control/code/relocate.h"

#include <string.h>

#define PREFIX_OPERAND_SIZE 0x66
#define INSN_SIZE_MAX 15u
#define MODRM_REG_MASK 0x38u
#define MODRM_REG_JMP (4u << 3)
#define MODRM_MOD_MASK 0xc0u
#define MODRM_DISP8 0x40u
#define MODRM_DISP32 0x80u
#define RM_SIB 4u
#define PUSH_RIP_SIZE 6u
#define JMP_RIP_SIZE 6u
#define JMP_REL32_SIZE 5u
#define JCC_REL32_SIZE 6u
#define LITERAL_ALIGN 8u

static struct error *refuse(const struct insn *insn, const char *reason)
{
	char text[128];

	decode_format(insn, text, sizeof(text));
	return error_new(ERROR_REFUSED, "'%s' can't be moved: %s", text, reason);
}

/* ---- pieces --------------------------------------------------------------------------------- */

static taddr insn_end(const struct insn *insn)
{
	return taddr_add(insn->pc, insn->length);
}

/* The address of a literal that follows `size` more bytes of code. */
static taddr literal_behind(const struct emitter *e, size_t size)
{
	return taddr_of((emit_pc(e).v + size + LITERAL_ALIGN - 1) & ~(uint64_t)(LITERAL_ALIGN - 1));
}

static void put_literal(struct emitter *e, taddr value)
{
	emit_align(e, LITERAL_ALIGN);
	emit_u64(e, value.v);
}

/* Jumps to `to`, however far it is. No code falls through the jump. */
static void put_jump(struct emitter *e, taddr to)
{
	if (emit_reaches(taddr_add(emit_pc(e), JMP_REL32_SIZE), to)) {
		emit_jmp_to(e, to);
		return;
	}
	emit_jmp_mem(e, mem_rip(literal_behind(e, JMP_RIP_SIZE)));
	put_literal(e, to);
}

/* Makes the [rip + x] of an instruction that will end at `end` lead to its original address. */
static struct error *rebase(const struct insn *insn, taddr end, uint8_t *bytes)
{
	int32_t distance = (int32_t)taddr_diff(insn->rip_target, end);

	if (insn->zydis.address_width != 64)
		return refuse(insn, "its operand is relative to eip");
	if (!emit_reaches(end, insn->rip_target))
		return refuse(insn, "its operand is out of reach of the copy");
	memcpy(bytes + insn->zydis.raw.disp.offset, &distance, sizeof(distance));
	return NULL;
}

/* ---- kinds ---------------------------------------------------------------------------------- */

static struct error *move_plain(const struct insn *insn, struct emitter *e)
{
	uint8_t bytes[sizeof(insn->bytes)];
	struct error *err = NULL;

	memcpy(bytes, insn->bytes, sizeof(bytes));
	if (insn->rip_relative)
		err = rebase(insn, taddr_add(emit_pc(e), insn->length), bytes);
	emit_bytes(e, bytes, insn->length);
	return err;
}

static struct error *move_jump(const struct insn *insn, struct emitter *e)
{
	put_jump(e, insn->target);
	return NULL;
}

/* The condition is in the opcode's low four bits, in short and near form alike. */
static void put_condition(struct emitter *e, enum cond cc, taddr target)
{
	struct label over = { 0 };

	if (emit_reaches(taddr_add(emit_pc(e), JCC_REL32_SIZE), target)) {
		emit_jcc_to(e, cc, target);
		return;
	}
	emit_jcc_short(e, cc ^ 1, &over); /* the opposite */
	put_jump(e, target);
	emit_bind(e, &over);
}

/* jrcxz, jecxz and loop have no long form. */
static void put_counted(const struct insn *insn, struct emitter *e)
{
	static const int8_t taken = 2; /* over the short jump */
	struct label over = { 0 };

	emit_bytes(e, insn->bytes, insn->length - 1u);
	emit_bytes(e, &taken, sizeof(taken));
	emit_jmp_short(e, &over);
	put_jump(e, insn->target);
	emit_bind(e, &over);
}

static struct error *move_branch(const struct insn *insn, struct emitter *e)
{
	bool near = insn->zydis.opcode_map == ZYDIS_OPCODE_MAP_0F;

	if (insn->zydis.mnemonic == ZYDIS_MNEMONIC_XBEGIN)
		return refuse(insn, "an aborted transaction would go on in other code");
	if (near || (insn->zydis.opcode & 0xf0) == 0x70)
		put_condition(e, insn->zydis.opcode & 15, insn->target);
	else
		put_counted(insn, e);
	return NULL;
}

static struct error *move_call(const struct insn *insn, struct emitter *e)
{
	taddr behind = literal_behind(e, PUSH_RIP_SIZE + JMP_REL32_SIZE);

	/* the far jump has a literal of its own, and the return address follows that one */
	if (!emit_reaches(taddr_add(emit_pc(e), PUSH_RIP_SIZE + JMP_REL32_SIZE), insn->target))
		behind = taddr_add(literal_behind(e, PUSH_RIP_SIZE + JMP_RIP_SIZE), 8);
	emit_push_mem(e, mem_rip(behind));
	put_jump(e, insn->target);
	put_literal(e, insn_end(insn));
	return NULL;
}

/* ---- call through a register or memory ------------------------------------------------------ */

static bool has_rex_b(const struct insn *insn)
{
	return (insn->zydis.attributes & ZYDIS_ATTRIB_HAS_REX) && insn->zydis.raw.rex.B;
}

/*
 * After the push an rsp-based operand lies 8 bytes further up. *size grows with the displacement.
 */
static struct error *lift_rsp_operand(const struct insn *insn, uint8_t *bytes, size_t *size)
{
	const ZydisDecodedInstructionRaw *raw = &insn->zydis.raw;
	int64_t disp = raw->disp.size ? raw->disp.value : 0;
	size_t at = raw->sib.offset + 1u;

	/* a call reads its operand before it pushes; the copy would read it after the push */
	if (disp > -16 && disp < 0)
		return refuse(insn, "it reads the stack slot that it writes");
	disp += 8;

	bool is_short = disp == (int8_t)disp;
	int32_t disp32 = (int32_t)disp;

	if (disp != disp32 || at + (is_short ? 1 : 4) > INSN_SIZE_MAX)
		return refuse(insn, "its displacement can't grow by 8");
	bytes[raw->modrm.offset] = (uint8_t)((is_short ? MODRM_DISP8 : MODRM_DISP32) |
					     (bytes[raw->modrm.offset] & ~MODRM_MOD_MASK));
	memcpy(bytes + at, &disp32, is_short ? 1 : 4);
	*size = at + (is_short ? 1 : 4);
	return NULL;
}

/* Turns the call into a jump that starts PUSH_RIP_SIZE after the emitter's pc. *size: the call's
 * length, then the jump's. */
static struct error *jump_of_call(const struct insn *insn, const struct emitter *e, uint8_t *bytes,
				  size_t *size)
{
	const ZydisDecodedInstructionRaw *raw = &insn->zydis.raw;
	bool in_register = raw->modrm.mod == 3;

	if (insn->zydis.meta.branch_type == ZYDIS_BRANCH_TYPE_FAR)
		return refuse(insn, "it is a far call");
	memcpy(bytes, insn->bytes, sizeof(insn->bytes));
	bytes[raw->modrm.offset] &= (uint8_t)~MODRM_REG_MASK;
	bytes[raw->modrm.offset] |= MODRM_REG_JMP;
	if (in_register && raw->modrm.rm == RSP && !has_rex_b(insn))
		return refuse(insn, "it calls the stack itself");
	if (!in_register && raw->modrm.rm == RM_SIB && raw->sib.base == RSP && !has_rex_b(insn))
		return lift_rsp_operand(insn, bytes, size);
	if (insn->rip_relative)
		return rebase(insn, taddr_add(emit_pc(e), PUSH_RIP_SIZE + insn->length), bytes);
	return NULL;
}

static struct error *move_call_indirect(const struct insn *insn, struct emitter *e)
{
	uint8_t bytes[sizeof(insn->bytes) + 4];
	size_t size = insn->length;
	struct error *err = jump_of_call(insn, e, bytes, &size);

	if (err)
		return err;
	emit_push_mem(e, mem_rip(literal_behind(e, PUSH_RIP_SIZE + size)));
	emit_bytes(e, bytes, size);
	put_literal(e, insn_end(insn));
	return NULL;
}

/* ---- dispatch ------------------------------------------------------------------------------- */

typedef struct error *move_fn(const struct insn *insn, struct emitter *e);

static move_fn *const moves[] = {
	[FLOW_NEXT] = move_plain,
	[FLOW_JUMP] = move_jump,
	[FLOW_BRANCH] = move_branch,
	[FLOW_CALL] = move_call,
	[FLOW_JUMP_INDIRECT] = move_plain,
	[FLOW_CALL_INDIRECT] = move_call_indirect,
	[FLOW_RETURN] = move_plain,
	[FLOW_STOP] = move_plain,
};

/* With a 66 prefix some processors take a branch's distance and return address as 16 bits. */
static bool has_short_operand(const struct insn *insn)
{
	const ZydisDecodedInstruction *zydis = &insn->zydis;

	if ((zydis->attributes & ZYDIS_ATTRIB_HAS_REX) && zydis->raw.rex.W)
		return false; /* REX.W has precedence */
	for (size_t i = 0; i < zydis->raw.prefix_count; i++) {
		if (zydis->raw.prefixes[i].value == PREFIX_OPERAND_SIZE)
			return true;
	}
	return false;
}

struct error *relocate(const struct insn *insn, struct emitter *e)
{
	struct emitter before = *e;
	struct error *err;

	if (emit_failed(e))
		return NULL; /* sticky: the caller checks emit_failed at the end */
	if (moves[insn->flow] != move_plain &&
	    insn->zydis.encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY)
		return refuse(insn,
			      "a branch on a mask register, which no processor of this kind has");
	if (moves[insn->flow] != move_plain && has_short_operand(insn))
		return refuse(insn, "processors differ in what its 66 prefix means");
	err = moves[insn->flow](insn, e);
	if (!err && emit_failed(e))
		err = refuse(insn, "no room left for the copy");
	if (err)
		*e = before;
	return err;
}
