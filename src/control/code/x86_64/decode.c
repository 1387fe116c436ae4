#include "control/code/decode.h"

#include <string.h>

/* Instructions whose category doesn't give the right flow. */
static const struct {
	ZydisMnemonic mnemonic;
	enum insn_flow flow;
} flow_of_mnemonic[] = {
	{ ZYDIS_MNEMONIC_HLT, FLOW_STOP },
	{ ZYDIS_MNEMONIC_INT3, FLOW_STOP },
	{ ZYDIS_MNEMONIC_UD0, FLOW_STOP },
	{ ZYDIS_MNEMONIC_UD1, FLOW_STOP },
	{ ZYDIS_MNEMONIC_UD2, FLOW_STOP },
	{ ZYDIS_MNEMONIC_XABORT, FLOW_NEXT }, /* does nothing outside a transaction */
	{ ZYDIS_MNEMONIC_XBEGIN, FLOW_BRANCH },
};

static enum insn_flow flow_of(const ZydisDecodedInstruction *zydis)
{
	bool direct = zydis->raw.imm[0].is_relative;

	for (size_t i = 0; i < sizeof(flow_of_mnemonic) / sizeof(*flow_of_mnemonic); i++) {
		if (zydis->mnemonic == flow_of_mnemonic[i].mnemonic)
			return flow_of_mnemonic[i].flow;
	}
	switch (zydis->meta.category) {
	case ZYDIS_CATEGORY_CALL:
		return direct ? FLOW_CALL : FLOW_CALL_INDIRECT;
	case ZYDIS_CATEGORY_UNCOND_BR:
		return direct ? FLOW_JUMP : FLOW_JUMP_INDIRECT;
	case ZYDIS_CATEGORY_COND_BR:
		return direct ? FLOW_BRANCH : FLOW_NEXT; /* FLOW_NEXT: xend */
	case ZYDIS_CATEGORY_RET:
	case ZYDIS_CATEGORY_SYSRET:
		return FLOW_RETURN;
	default:
		return FLOW_NEXT;
	}
}

/* In 64-bit mode mod 0 with rm 5 and no SIB byte is always [rip + disp32]. */
static bool is_rip_relative(const ZydisDecodedInstruction *zydis)
{
	return (zydis->attributes & ZYDIS_ATTRIB_HAS_MODRM) && zydis->raw.modrm.mod == 0 &&
	       zydis->raw.modrm.rm == 5 && zydis->raw.disp.size == 32;
}

/* Fills in everything but the operands. */
static void describe(const uint8_t *bytes, taddr pc, struct insn *insn)
{
	const ZydisDecodedInstruction *zydis = &insn->zydis;
	taddr end = taddr_add(pc, zydis->length);

	insn->pc = pc;
	insn->length = zydis->length;
	insn->flow = flow_of(zydis);
	insn->has_target = zydis->raw.imm[0].is_relative;
	insn->target = insn->has_target ? taddr_add(end, zydis->raw.imm[0].value.s) : taddr_of(0);
	insn->rip_relative = is_rip_relative(zydis);
	insn->rip_target = insn->rip_relative ? taddr_add(end, zydis->raw.disp.value) : taddr_of(0);
	if (insn->rip_relative && zydis->address_width == 32)
		insn->rip_target.v = (uint32_t)insn->rip_target.v;
	memset(insn->bytes, 0, sizeof(insn->bytes));
	memcpy(insn->bytes, bytes, zydis->length);
}

/* Made before any thread starts, and only read after that. */
static ZydisDecoder decoder;

__attribute__((constructor)) static void make_decoder(void)
{
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
}

bool decode(const uint8_t *bytes, size_t size, taddr pc, struct insn *ret_insn)
{
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, size, &ret_insn->zydis,
						 ret_insn->operands)))
		return false;
	describe(bytes, pc, ret_insn);
	return true;
}

bool decode_quick(const uint8_t *bytes, size_t size, taddr pc, struct insn *ret_insn)
{
	if (!ZYAN_SUCCESS(
		    ZydisDecoderDecodeInstruction(&decoder, NULL, bytes, size, &ret_insn->zydis)))
		return false;
	describe(bytes, pc, ret_insn);
	return true;
}

void decode_format(const struct insn *insn, char *text, size_t room)
{
	ZydisFormatter formatter;
	struct insn full; /* insn may come from decode_quick */

	if (room == 0)
		return;
	text[0] = '\0';
	if (!decode(insn->bytes, insn->length, insn->pc, &full))
		return;
	ZydisFormatterInit(&formatter, ZYDIS_FORMATTER_STYLE_INTEL);
	if (!ZYAN_SUCCESS(ZydisFormatterFormatInstruction(&formatter, &full.zydis, full.operands,
							  full.zydis.operand_count_visible, text,
							  room, full.pc.v, NULL)))
		text[0] = '\0';
}
