/* The decoder: lengths, kinds and operands of instructions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "binary_text.h"
#include "control/code/prescan.h"

#define PC 0x401000ULL
#define NONE 0

static const struct {
	const char *bytes;
	uint8_t length;
	enum insn_flow flow;
	uint64_t target; /* NONE: has none */
	uint64_t rip_target;
	const char *text;
} cases[] = {
	{"\x55", 1, FLOW_NEXT, NONE, NONE, "push rbp"},
	{"\x48\x89\xe5", 3, FLOW_NEXT, NONE, NONE, "mov rbp, rsp"},
	{"\xf3\x0f\x1e\xfa", 4, FLOW_NEXT, NONE, NONE, "endbr64"},
	{"\x0f\x05", 2, FLOW_NEXT, NONE, NONE, "syscall"},
	{"\xcd\x80", 2, FLOW_NEXT, NONE, NONE, "int 0x80"},
	/* direct jumps and branches */
	{"\xe9\x10\x00\x00\x00", 5, FLOW_JUMP, PC + 0x15, NONE, "jmp 0x0000000000401015"},
	{"\xeb\xfe", 2, FLOW_JUMP, PC, NONE, "jmp 0x0000000000401000"},
	{"\xf2\xe9\x10\x00\x00\x00", 6, FLOW_JUMP, PC + 0x16, NONE, "bnd jmp 0x0000000000401016"},
	{"\x74\x80", 2, FLOW_BRANCH, PC - 0x7e, NONE, "jz 0x0000000000400F82"},
	{"\x0f\x8f\xfa\xff\xff\xff", 6, FLOW_BRANCH, PC, NONE, "jnle 0x0000000000401000"},
	{"\xe3\x7f", 2, FLOW_BRANCH, PC + 0x81, NONE, "jrcxz 0x0000000000401081"},
	{"\x67\xe3\x7f", 3, FLOW_BRANCH, PC + 0x82, NONE, "jecxz 0x0000000000401082"},
	{"\xe2\x00", 2, FLOW_BRANCH, PC + 2, NONE, "loop 0x0000000000401002"},
	{"\xe1\x00", 2, FLOW_BRANCH, PC + 2, NONE, "loope 0x0000000000401002"},
	{"\xe0\x00", 2, FLOW_BRANCH, PC + 2, NONE, "loopne 0x0000000000401002"},
	{"\xc7\xf8\x00\x01\x00\x00", 6, FLOW_BRANCH, PC + 0x106, NONE, "xbegin 0x0000000000401106"},
	{"\xc6\xf8\x01", 3, FLOW_NEXT, NONE, NONE, "xabort 0x01"},
	{"\x0f\x01\xd5", 3, FLOW_NEXT, NONE, NONE, "xend"},
	/* calls */
	{"\xe8\xfb\xff\xff\xff", 5, FLOW_CALL, PC, NONE, "call 0x0000000000401000"},
	{"\xff\xd0", 2, FLOW_CALL_INDIRECT, NONE, NONE, "call rax"},
	{"\xff\x15\x00\x02\x00\x00", 6, FLOW_CALL_INDIRECT, NONE, PC + 0x206,
	 "call [0x0000000000401206]"},
	{"\xff\x18", 2, FLOW_CALL_INDIRECT, NONE, NONE, "call far [rax]"},
	/* indirect jumps */
	{"\xff\xe0", 2, FLOW_JUMP_INDIRECT, NONE, NONE, "jmp rax"},
	{"\x3e\xff\xe0", 3, FLOW_JUMP_INDIRECT, NONE, NONE, "notrack jmp rax"},
	{"\xff\x25\x00\x02\x00\x00", 6, FLOW_JUMP_INDIRECT, NONE, PC + 0x206,
	 "jmp [0x0000000000401206]"},
	{"\xff\x28", 2, FLOW_JUMP_INDIRECT, NONE, NONE, "jmp far [rax]"},
	/* returns */
	{"\xc3", 1, FLOW_RETURN, NONE, NONE, "ret"},
	{"\xc2\x08\x00", 3, FLOW_RETURN, NONE, NONE, "ret 0x08"},
	{"\xf3\xc3", 2, FLOW_RETURN, NONE, NONE, "ret"},
	{"\xcb", 1, FLOW_RETURN, NONE, NONE, "ret far"},
	{"\x48\xcf", 2, FLOW_RETURN, NONE, NONE, "iretq"},
	{"\x48\x0f\x07", 3, FLOW_RETURN, NONE, NONE, "sysret"},
	/* nothing behind these runs */
	{"\xf4", 1, FLOW_STOP, NONE, NONE, "hlt"},
	{"\xcc", 1, FLOW_STOP, NONE, NONE, "int3"},
	{"\x0f\x0b", 2, FLOW_STOP, NONE, NONE, "ud2"},
	{"\x0f\xb9\xc0", 3, FLOW_STOP, NONE, NONE, "ud1 eax, eax"},
	{"\x0f\xff\xc0", 3, FLOW_STOP, NONE, NONE, "ud0 eax, eax"},
	/* RIP-relative operands count from the end, immediates included */
	{"\x48\x8d\x05\xf9\xff\xff\xff", 7, FLOW_NEXT, NONE, PC, "lea rax, [0x0000000000401000]"},
	{"\x80\x3d\x00\x10\x00\x00\x00", 7, FLOW_NEXT, NONE, PC + 0x1007,
	 "cmp byte ptr [0x0000000000402007], 0x00"},
	{"\xc5\xfd\x6f\x05\x00\x10\x00\x00", 8, FLOW_NEXT, NONE, PC + 0x1008,
	 "vmovdqa ymm0, [0x0000000000402008]"},
	{"\x62\xf1\xfd\x48\x6f\x05\x00\x10\x00\x00", 10, FLOW_NEXT, NONE, PC + 0x100a,
	 "vmovdqa64 zmm0, zmmword ptr [0x000000000040200A]"},
	{"\x67\x8b\x05\xf9\xff\xff\xff", 7, FLOW_NEXT, NONE, PC, "mov eax, [0x0000000000401000]"},
	/* disp32 without RIP */
	{"\x8b\x04\x25\x00\x10\x00\x00", 7, FLOW_NEXT, NONE, NONE, "mov eax, [0x0000000000001000]"},
	{"\x8b\x85\x00\x10\x00\x00", 6, FLOW_NEXT, NONE, NONE, "mov eax, [rbp+0x1000]"},
	{"\x41\x8b\x45\x00", 4, FLOW_NEXT, NONE, NONE, "mov eax, [r13]"},
};

static void check(const struct insn *insn, size_t i)
{
	char text[128];

	assert_int_equal(insn->pc.v, PC);
	assert_int_equal(insn->length, cases[i].length);
	assert_int_equal(insn->flow, cases[i].flow);
	assert_int_equal(insn->has_target, cases[i].target != NONE);
	assert_int_equal(insn->target.v, cases[i].target);
	assert_int_equal(insn->rip_relative, cases[i].rip_target != NONE);
	assert_int_equal(insn->rip_target.v, cases[i].rip_target);
	assert_memory_equal(insn->bytes, cases[i].bytes, cases[i].length);
	decode_format(insn, text, sizeof(text));
	assert_string_equal(text, cases[i].text);
}

static void test_cases(void **state)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const uint8_t *bytes = (const uint8_t *)cases[i].bytes;
		struct insn insn;

		assert_true(decode(bytes, cases[i].length, taddr_of(PC), &insn));
		check(&insn, i);
		assert_true(decode_quick(bytes, cases[i].length, taddr_of(PC), &insn));
		check(&insn, i);
		for (size_t cut = 0; cut < cases[i].length; cut++) {
			struct insn shorter;

			/* cut short: no instruction, whatever the part looks like */
			assert_false(decode(bytes, cut, taddr_of(PC), &shorter));
			assert_false(decode_quick(bytes, cut, taddr_of(PC), &shorter));
		}
	}
}

static void test_not_instructions(void **state)
{
	static const char *const bad[] = {"\x06", "\x0f\x04", "\xff\xff", "\xf0\x90",
					  "\xc4\xe2\x79\xff\xc0"};
	static const uint8_t longest[] = { 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66,
					   0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x90 };
	struct insn insn;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_false(decode((const uint8_t *)bad[i], strlen(bad[i]), taddr_of(PC), &insn));
		assert_false(
			decode_quick((const uint8_t *)bad[i], strlen(bad[i]), taddr_of(PC), &insn));
	}
	assert_false(decode(longest, sizeof(longest), taddr_of(PC), &insn)); /* 16 bytes */
	assert_true(decode(longest + 1, sizeof(longest) - 1, taddr_of(PC), &insn)); /* 15 */
	assert_int_equal(insn.length, 15);
}

/* What the operands say, computed by Zydis itself. */
static void check_operands(const struct insn *insn)
{
	bool rip_relative = false;
	bool direct =
		insn->flow == FLOW_JUMP || insn->flow == FLOW_BRANCH || insn->flow == FLOW_CALL;

	assert_int_equal(direct, insn->has_target);
	for (size_t i = 0; i < insn->zydis.operand_count; i++) {
		const ZydisDecodedOperand *o = &insn->operands[i];
		uint64_t absolute;

		if (o->type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    (o->mem.base == ZYDIS_REGISTER_RIP || o->mem.base == ZYDIS_REGISTER_EIP)) {
			rip_relative = true;
			assert_true(ZYAN_SUCCESS(
				ZydisCalcAbsoluteAddress(&insn->zydis, o, insn->pc.v, &absolute)));
			assert_int_equal(absolute, insn->rip_target.v);
		}
		if (o->type == ZYDIS_OPERAND_TYPE_IMMEDIATE && o->imm.is_relative) {
			assert_true(insn->has_target);
			assert_true(ZYAN_SUCCESS(
				ZydisCalcAbsoluteAddress(&insn->zydis, o, insn->pc.v, &absolute)));
			assert_int_equal(absolute, insn->target.v);
		}
	}
	assert_int_equal(rip_relative, insn->rip_relative);
}

/* A prescan says what Zydis does. */
static void check_prescan(const uint8_t *bytes, size_t size, taddr pc)
{
	struct insn insn;
	struct prescan g;
	bool ok = decode_quick(bytes, size, pc, &insn);

	if (prescan(bytes, size, pc, &g) != ok || !ok) {
		assert_int_equal(prescan(bytes, size, pc, &g), ok);
		return;
	}
	const ZydisDecodedInstruction *z = &insn.zydis;
	bool has_modrm = z->attributes & ZYDIS_ATTRIB_HAS_MODRM,
	     has_sib = z->attributes & ZYDIS_ATTRIB_HAS_SIB;
	bool is_padding = z->mnemonic == ZYDIS_MNEMONIC_NOP || z->mnemonic == ZYDIS_MNEMONIC_INT3;
	bool same = g.pc.v == pc.v && g.length == insn.length && g.flow == insn.flow &&
		    g.has_target == insn.has_target && g.target.v == insn.target.v &&
		    g.rip_relative == insn.rip_relative && g.rip_target.v == insn.rip_target.v &&
		    g.modrm == (has_modrm ? bytes[z->raw.modrm.offset] : 0) &&
		    g.sib == (has_sib ? bytes[z->raw.sib.offset] : 0) &&
		    (g.kind == PRESCAN_PADDING) == is_padding &&
		    (g.kind == PRESCAN_LEA) == (z->mnemonic == ZYDIS_MNEMONIC_LEA) &&
		    (g.kind == PRESCAN_ADD) == (z->mnemonic == ZYDIS_MNEMONIC_ADD) &&
		    (g.kind == PRESCAN_MOVSXD) == (z->mnemonic == ZYDIS_MNEMONIC_MOVSXD);
	char text[128];

	if (same)
		return;
	decode_format(&insn, text, sizeof(text));
	fail_msg("%02x %02x %02x %02x, %s: %d bytes, not %d", bytes[0], bytes[1], bytes[2],
		 bytes[3], text, insn.length, g.length);
}

static size_t sweep(const struct binary_text *text)
{
	struct insn full, quick;
	size_t count = 0;

	for (size_t at = 0; at < text->size;) {
		taddr pc = taddr_of(text->address + at);
		bool ok = decode(text->bytes + at, text->size - at, pc, &full);

		assert_int_equal(ok, decode_quick(text->bytes + at, text->size - at, pc, &quick));
		check_prescan(text->bytes + at, text->size - at, pc);
		if (!ok) {
			at++;
			continue;
		}
		assert_int_equal(full.length, quick.length);
		assert_int_equal(full.flow, quick.flow);
		assert_int_equal(full.has_target, quick.has_target);
		assert_int_equal(full.target.v, quick.target.v);
		assert_int_equal(full.rip_relative, quick.rip_relative);
		assert_int_equal(full.rip_target.v, quick.rip_target.v);
		check_operands(&full);
		at += full.length;
		count++;
	}
	return count;
}

/* Quick and full agree on every instruction of real programs, and with what the operands say. */
static void test_real_programs(void **state)
{
	size_t count = 0;

	for (size_t i = 0; i < BINARY_COUNT; i++) {
		struct binary_text text = binary_text_map(binary_paths[i]);

		count += sweep(&text);
		binary_text_unmap(&text);
	}
	assert_true(count > 300000); /* libc alone has that many */
}

/* Every opcode of the first two maps and every ModRM, under all prefixes that matter, whole and cut
 * short. */
static void test_prescan_forms(void **state)
{
	static const char *const prefixes[] = { "",	"\x66",		"\xf3",	    "\xf2",
						"\x2e", "\x66\x3e\x66", "\xf3\x66", "\xf2\xf3",
						"\xf0", "\x67" };
	static const uint8_t rexes[] = { 0, 0x40, 0x41, 0x48, 0x4d };
	uint32_t mix = 1;

	for (size_t p = 0; p < sizeof(prefixes) / sizeof(*prefixes); p++) {
		for (uint32_t n = 0; n < sizeof(rexes) << 17; n++) {
			uint8_t bytes[24] = { 0 };
			size_t at = strlen(prefixes[p]);

			memcpy(bytes, prefixes[p], at);
			if (rexes[n >> 17])
				bytes[at++] = rexes[n >> 17];
			if (n >> 16 & 1)
				bytes[at++] = 0x0f;
			bytes[at++] = (uint8_t)(n >> 8);
			bytes[at++] = (uint8_t)n;
			for (; at < sizeof(bytes); at++)
				bytes[at] = (uint8_t)((mix = mix * 1664525 + 1013904223) >> 24);
			check_prescan(bytes, sizeof(bytes), taddr_of(PC));
			check_prescan(bytes, mix >> 28, taddr_of(PC));
		}
	}
}

/* Not only where instructions begin: whoever scans may be out of step. */
static void test_prescan_every_byte(void **state)
{
	struct binary_text text = binary_text_map(binary_paths[0]);

	for (size_t at = 0; at < text.size; at++)
		check_prescan(text.bytes + at, text.size - at, taddr_of(text.address + at));
	binary_text_unmap(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases),
		cmocka_unit_test(test_not_instructions),
		cmocka_unit_test(test_real_programs),
		cmocka_unit_test(test_prescan_forms),
		cmocka_unit_test(test_prescan_every_byte),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
