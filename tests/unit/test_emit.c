/*
 * Each case is emitted once and judged twice: GNU as must make the same bytes from its text, and
 * Zydis must read the same text back. (Where the address matters, the two texts differ.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "control/base/cleanup.h"
#include "control/code/decode.h"
#include "control/code/emit.h"
#include "place.h"

#define PC 0x400000ULL

static const char *const name64[] = { "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
				      "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15" };
static const char *const name32[] = {"eax", "ecx", "edx",  "ebx",  "esp",  "ebp",  "esi",  "edi",
				     "r8d", "r9d", "r10d", "r11d", "r12d", "r13d", "r14d", "r15d"};
static const char *const name8[] = { "al", "cl", "dl", "bl" };
static const char *const name_cc[] = { "o", "no", "b", "nb", "z",  "nz", "be",  "nbe",
				       "s", "ns", "p", "np", "l", "nl", "le", "nle" };

/* What was emitted so far, and the listing for GNU as. */
struct listing {
	struct emitter e;
	uint8_t bytes[1 << 20];
	FILE *source;
	char path[64];
	size_t start; /* of the case at work */
	size_t cases;
};

static void listing_begin(struct listing *l)
{
	emit_init(&l->e, l->bytes, sizeof(l->bytes), taddr_of(PC));
	l->start = l->cases = 0;
	snprintf(l->path, sizeof(l->path), "%s/test_emit.XXXXXX", place_disk());
	assert_non_null(mkdtemp(l->path));

	char name[96];

	snprintf(name, sizeof(name), "%s/a.s", l->path);
	l->source = fopen(name, "w");
	assert_non_null(l->source);
	fprintf(l->source, ".intel_syntax noprefix\n");
}

/* Strict and short: sizes always, signs, no leading zeros. */
static void format_insn(const struct insn *insn, char *text, size_t room)
{
	static const ZydisFormatterProperty plain[] = {
		ZYDIS_FORMATTER_PROP_ADDR_PADDING_ABSOLUTE,
		ZYDIS_FORMATTER_PROP_DISP_PADDING,
		ZYDIS_FORMATTER_PROP_IMM_PADDING,
	};
	ZydisFormatter f;

	ZydisFormatterInit(&f, ZYDIS_FORMATTER_STYLE_INTEL);
	ZydisFormatterSetProperty(&f, ZYDIS_FORMATTER_PROP_FORCE_SIZE, ZYAN_TRUE);
	ZydisFormatterSetProperty(&f, ZYDIS_FORMATTER_PROP_IMM_SIGNEDNESS, ZYDIS_SIGNEDNESS_SIGNED);
	for (size_t i = 0; i < sizeof(plain) / sizeof(*plain); i++)
		ZydisFormatterSetProperty(&f, plain[i], ZYDIS_PADDING_DISABLED);
	assert_true(ZYAN_SUCCESS(ZydisFormatterFormatInstruction(
		&f, &insn->zydis, insn->operands, insn->zydis.operand_count_visible, text, room,
		insn->pc.v, NULL)));
}

/* Ends a case: one instruction was emitted; Zydis must read `text`, as must make these bytes of
 * `source`. */
static void case_is(struct listing *l, const char *text, const char *source)
{
	struct insn insn;
	char got[128];

	assert_false(emit_failed(&l->e));
	assert_true(
		decode(l->bytes + l->start, l->e.size - l->start, taddr_of(PC + l->start), &insn));
	assert_int_equal(insn.length, l->e.size - l->start);
	format_insn(&insn, got, sizeof(got));
	assert_string_equal(got, text);
	fprintf(l->source, ".org %zu\n%s\n", l->start, source);
	l->start = l->e.size;
	l->cases++;
}

__attribute__((format(printf, 2, 3))) static void same(struct listing *l, const char *format, ...)
{
	char text[128];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	case_is(l, text, text);
}

static void listing_end(struct listing *l, size_t least)
{
	static uint8_t made[sizeof(l->bytes)];
	char command[512];

	fclose(l->source);
	assert_true(l->cases >= least);
	snprintf(command, sizeof(command),
		 "cd %s && as --64 a.s -o a.o && objcopy -O binary -j .text a.o a.bin", l->path);
	assert_int_equal(system(command), 0);
	snprintf(command, sizeof(command), "%s/a.bin", l->path);

	FILE *file = fopen(command, "r");

	assert_non_null(file);
	size_t n = fread(made, 1, sizeof(made), file);
	fclose(file);
	snprintf(command, sizeof(command), "rm -r %s", l->path);
	assert_int_equal(system(command), 0);
	assert_int_equal(n, l->e.size);
	assert_memory_equal(made, l->bytes, n);
}

/* ---- every register in every place ---------------------------------------------------------- */

static void test_registers(void **state)
{
	static struct listing l;

	listing_begin(&l);
	for (int a = RAX; a <= R15; a++) {
		emit_push(&l.e, a), same(&l, "push %s", name64[a]);
		emit_pop(&l.e, a), same(&l, "pop %s", name64[a]);
		emit_not(&l.e, a), same(&l, "not %s", name64[a]);
		emit_rdfsbase(&l.e, a), same(&l, "rdfsbase %s", name64[a]);
		emit_shl_imm(&l.e, a, 32), same(&l, "shl %s, 0x20", name64[a]);
		emit_shr_imm(&l.e, a, 63), same(&l, "shr %s, 0x3F", name64[a]);
		emit_sar_imm(&l.e, a, 4), same(&l, "sar %s, 0x4", name64[a]);
		emit_add_imm(&l.e, a, 127), same(&l, "add %s, 0x7F", name64[a]);
		emit_add_imm(&l.e, a, 128), same(&l, "add %s, 0x80", name64[a]);
		emit_add_imm(&l.e, a, -128), same(&l, "add %s, -0x80", name64[a]);
		emit_or_imm(&l.e, a, 0x12345), same(&l, "or %s, 0x12345", name64[a]);
		emit_xor_imm(&l.e, a, -0x12345), same(&l, "xor %s, -0x12345", name64[a]);
		emit_and_imm32(&l.e, a, 0x7ffc0), same(&l, "and %s, 0x7FFC0", name32[a]);
		emit_and_imm32(&l.e, a, 0x40), same(&l, "and %s, 0x40", name32[a]);
		emit_shr_cl(&l.e, a), same(&l, "shr %s, cl", name64[a]);
		emit_rdpid(&l.e, a), same(&l, "rdpid %s", name64[a]);
		emit_call_reg(&l.e, a), same(&l, "call %s", name64[a]);
		emit_div(&l.e, a), same(&l, "div %s", name64[a]);
		for (int b = RAX; b <= R15; b++) {
			emit_bsr(&l.e, a, b), same(&l, "bsr %s, %s", name64[a], name64[b]);
			emit_imul(&l.e, a, b), same(&l, "imul %s, %s", name64[a], name64[b]);
			emit_alu(&l.e, ALU_CMP, a, b), same(&l, "cmp %s, %s", name64[a], name64[b]);
			emit_alu(&l.e, ALU_SUB, a, b), same(&l, "sub %s, %s", name64[a], name64[b]);
			emit_mov(&l.e, a, b), same(&l, "mov %s, %s", name64[a], name64[b]);
			emit_mov32(&l.e, a, b), same(&l, "mov %s, %s", name32[a], name32[b]);
			emit_add(&l.e, a, b), same(&l, "add %s, %s", name64[a], name64[b]);
			emit_or(&l.e, a, b), same(&l, "or %s, %s", name64[a], name64[b]);
			emit_imul_imm(&l.e, a, b, 100);
			same(&l, "imul %s, %s, 0x64", name64[a], name64[b]);
			emit_imul_imm(&l.e, a, b, 0x61c88647);
			same(&l, "imul %s, %s, 0x61C88647", name64[a], name64[b]);
		}
	}
	listing_end(&l, 16 * (13 + 16 * 6));
}

static void mov_imm_is(struct listing *l, int reg, uint64_t value, size_t length)
{
	char text[64], source[64];
	const char *name = length == 5 || length == 6 ? name32[reg] : name64[reg];
	bool wide = length == 10;

	emit_mov_imm(&l->e, reg, value);
	assert_int_equal(l->e.size - l->start, length);
	if ((int64_t)value < 0)
		snprintf(text, sizeof(text), "mov %s, -0x%lX", name, -value);
	else if (value > 0x7fffffff && !wide) /* sign is the operand's width's affair */
		snprintf(text, sizeof(text), "mov %s, -0x%X", name, 0u - (uint32_t)value);
	else
		snprintf(text, sizeof(text), "mov %s, 0x%lX", name, value);
	snprintf(source, sizeof(source), "%s %s, 0x%lx", wide ? "movabs" : "mov", name, value);
	case_is(l, text, source);
}

static void test_mov_imm(void **state)
{
	static struct listing l;

	listing_begin(&l);
	for (int a = RAX; a <= R15; a++) {
		size_t extra = a >= R8;

		mov_imm_is(&l, a, 0, 5 + extra);
		mov_imm_is(&l, a, 0x7fffffff, 5 + extra);
		mov_imm_is(&l, a, 0xffffffff, 5 + extra);
		mov_imm_is(&l, a, 0x100000000, 10);
		mov_imm_is(&l, a, 0xffffffff80000000, 7);
		mov_imm_is(&l, a, 0xffffffff7fffffff, 10);
		mov_imm_is(&l, a, 0xffffffffffffffff, 7);
		mov_imm_is(&l, a, 0x7ffff7dd1234, 10);
	}
	listing_end(&l, 16 * 8);
}

/* ---- memory operands ------------------------------------------------------------------------ */

static void disp_text(char *text, size_t room, int32_t disp)
{
	*text = '\0';
	if (disp)
		snprintf(text, room, "%c0x%X", disp < 0 ? '-' : '+',
			 disp < 0 ? 0u - (uint32_t)disp : (uint32_t)disp);
}

/* All that take memory, with register `r` beside it. `at` is the operand's text. */
static void mem_cases(struct listing *l, struct mem m, int r, const char *at)
{
	emit_push_mem(&l->e, m), same(l, "push qword ptr %s", at);
	emit_load(&l->e, r, m), same(l, "mov %s, qword ptr %s", name64[r], at);
	emit_load32(&l->e, r, m), same(l, "mov %s, dword ptr %s", name32[r], at);
	emit_store(&l->e, m, r), same(l, "mov qword ptr %s, %s", at, name64[r]);
	emit_store32(&l->e, m, r), same(l, "mov dword ptr %s, %s", at, name32[r]);
	emit_store_imm32(&l->e, m, 0x11223344), same(l, "mov dword ptr %s, 0x11223344", at);
	emit_sub_mem(&l->e, r, m), same(l, "sub %s, qword ptr %s", name64[r], at);
	emit_inc_mem32(&l->e, m), same(l, "inc dword ptr %s", at);
	emit_inc_mem16(&l->e, m), same(l, "inc word ptr %s", at);
	emit_dec_mem16(&l->e, m), same(l, "dec word ptr %s", at);
	emit_fstp80(&l->e, m), same(l, "fstp tbyte ptr %s", at);
	emit_fld80(&l->e, m), same(l, "fld tbyte ptr %s", at);
	emit_inc_mem(&l->e, m), same(l, "inc qword ptr %s", at);
	emit_cmp_mem(&l->e, r, m), same(l, "cmp %s, qword ptr %s", name64[r], at);
	emit_cmp_mem32(&l->e, r, m), same(l, "cmp %s, dword ptr %s", name32[r], at);
	emit_cmpxchg(&l->e, m, r), same(l, "cmpxchg qword ptr %s, %s", at, name64[r]);
	emit_call_mem(&l->e, m), same(l, "call qword ptr %s", at);
	emit_jmp_mem(&l->e, m), same(l, "jmp qword ptr %s", at);
	if (m.segment != SEG_NONE)
		return; /* of two prefixes GNU as puts the other one first */
	emit_lea(&l->e, r, m), same(l, "lea %s, %s", name64[r], at);
	emit_lock_inc_mem(&l->e, m), same(l, "lock inc qword ptr %s", at);
	emit_add_mem(&l->e, m, r), same(l, "add qword ptr %s, %s", at, name64[r]);
	emit_lock_add_mem(&l->e, m, r), same(l, "lock add qword ptr %s, %s", at, name64[r]);
	emit_lock_xadd(&l->e, m, r), same(l, "lock xadd qword ptr %s, %s", at, name64[r]);
	emit_lock_cmpxchg(&l->e, m, r), same(l, "lock cmpxchg qword ptr %s, %s", at, name64[r]);
	emit_xchg(&l->e, m, r), same(l, "xchg qword ptr %s, %s", at, name64[r]);
}

static const char *const name16[] = { "ax", "cx", "dx", "bx" };

/* The ones with a size, and vectors. */
static void size_cases(struct listing *l, struct mem m, int r, const char *at)
{
	emit_load_size(&l->e, r, m, 8), same(l, "mov %s, qword ptr %s", name64[r], at);
	emit_load_size(&l->e, r, m, 4), same(l, "mov %s, dword ptr %s", name32[r], at);
	emit_load_size(&l->e, r, m, 2), same(l, "movzx %s, word ptr %s", name32[r], at);
	emit_load_size(&l->e, r, m, 1), same(l, "movzx %s, byte ptr %s", name32[r], at);
	emit_store_size(&l->e, m, r, 8), same(l, "mov qword ptr %s, %s", at, name64[r]);
	emit_store_size(&l->e, m, r, 4), same(l, "mov dword ptr %s, %s", at, name32[r]);
	emit_store_size(&l->e, m, r % 4, 2), same(l, "mov word ptr %s, %s", at, name16[r % 4]);
	emit_store_size(&l->e, m, r % 4, 1), same(l, "mov byte ptr %s, %s", at, name8[r % 4]);
	emit_store_xmm(&l->e, m, r, 16), same(l, "movdqu xmmword ptr %s, xmm%d", at, r);
	emit_store_xmm(&l->e, m, r, 8), same(l, "movq qword ptr %s, xmm%d", at, r);
	emit_store_xmm(&l->e, m, r, 4), same(l, "movd dword ptr %s, xmm%d", at, r);
}

static const int32_t disps[] = { 0, 8, -8, 127, 128, -128, -129, 0x12345678, INT32_MIN + 1 };

static void test_based(void **state)
{
	static struct listing l;
	char at[64], disp[32];

	listing_begin(&l);
	for (int base = RAX; base <= R15; base++) {
		for (size_t i = 0; i < sizeof(disps) / sizeof(*disps); i++) {
			disp_text(disp, sizeof(disp), disps[i]);
			snprintf(at, sizeof(at), "[%s%s]", name64[base], disp);
			mem_cases(&l, mem_at(base, disps[i]), (base + (int)i) % 16, at);
			size_cases(&l, mem_at(base, disps[i]), (base + (int)i) % 16, at);
		}
	}
	listing_end(&l, 16 * 9 * (17 + 11));
}

static void test_indexed(void **state)
{
	static struct listing l;
	char at[64], disp[32];
	int r = 0;

	listing_begin(&l);
	for (int base = RAX; base <= R15; base++) {
		for (int index = RAX; index <= R15; index++) {
			int scale = 1 << (r++ % 4);
			int32_t d = disps[r % 9];

			if (index == RSP)
				continue;
			disp_text(disp, sizeof(disp), d);
			if (scale == 1)
				snprintf(at, sizeof(at), "[%s+%s*1%s]", name64[base], name64[index],
					 disp);
			else
				snprintf(at, sizeof(at), "[%s+%s*%d%s]", name64[base],
					 name64[index], scale, disp);
			mem_cases(&l, mem_index(base, index, (uint8_t)scale, d), r % 16, at);
		}
	}
	listing_end(&l, 16 * 15 * 17);
}

static void test_segment_and_no_base(void **state)
{
	static struct listing l;

	listing_begin(&l);
	for (int r = RAX; r <= R15; r++) {
		char at[64];

		mem_cases(&l, mem_fs(REG_NONE, 0x28), r, "fs:[0x28]");
		mem_cases(&l, mem_at(REG_NONE, 0x12345678), r, "[0x12345678]");
		snprintf(at, sizeof(at), "fs:[%s+0x10]", name64[r]);
		mem_cases(&l, mem_fs(r, 0x10), (r + 5) % 16, at);

		struct mem gs = mem_at(r, 0);

		gs.segment = SEG_GS;
		snprintf(at, sizeof(at), "gs:[%s]", name64[r]);
		mem_cases(&l, gs, (r + 3) % 16, at);
	}
	listing_end(&l, 16 * (3 * 16 + 17));
}

/* RIP-relative: what counts is the end of the instruction, immediates included. */
static void rip_is(struct listing *l, const char *before, const char *size, const char *after)
{
	char text[128], source[128];

	snprintf(text, sizeof(text), "%s%s[0x%X]%s", before, size, 0x123456u, after);
	snprintf(source, sizeof(source), "%s%s[rip + 0x123456 - 0x%llx]%s", before, size,
		 PC + l->e.size, after);
	case_is(l, text, source);
}

static void test_rip(void **state)
{
	static struct listing l;
	struct mem m = mem_rip(taddr_of(0x123456));
	char before[32], after[32];

	listing_begin(&l);
	for (int r = RAX; r <= R15; r++) {
		snprintf(before, sizeof(before), "mov %s, ", name64[r]);
		emit_load(&l.e, r, m), rip_is(&l, before, "qword ptr ", "");
		snprintf(before, sizeof(before), "lea %s, ", name64[r]);
		emit_lea(&l.e, r, m), rip_is(&l, before, "", "");
		snprintf(after, sizeof(after), ", %s", name32[r]);
		emit_store32(&l.e, m, r), rip_is(&l, "mov ", "dword ptr ", after);
	}
	emit_push_mem(&l.e, m), rip_is(&l, "push ", "qword ptr ", "");
	emit_call_mem(&l.e, m), rip_is(&l, "call ", "qword ptr ", "");
	emit_jmp_mem(&l.e, m), rip_is(&l, "jmp ", "qword ptr ", "");
	emit_store_imm32(&l.e, m, 5), rip_is(&l, "mov ", "dword ptr ", ", 0x5");
	emit_inc_mem(&l.e, m), rip_is(&l, "inc ", "qword ptr ", "");
	listing_end(&l, 16 * 3 + 5);
}

/* ---- the rest
 * ------------------------------------------------------------------------------------ */

static void test_plain(void **state)
{
	static struct listing l;

	listing_begin(&l);
	emit_rdtsc(&l.e), same(&l, "rdtsc");
	emit_lahf(&l.e), same(&l, "lahf");
	emit_sahf(&l.e), same(&l, "sahf");
	emit_ret(&l.e), same(&l, "ret");
	emit_int3(&l.e), same(&l, "int3");
	emit_add_al_imm8(&l.e, 0x7f), same(&l, "add al, 0x7F");
	emit_shl_imm(&l.e, RDX, 1), same(&l, "shl rdx, 0x1");
	emit_push_imm32(&l.e, 0x12345), same(&l, "push 0x12345");
	emit_mul(&l.e, RDX), same(&l, "mul rdx");
	emit_mul(&l.e, R12), same(&l, "mul r12");
	emit_shrd_imm(&l.e, RAX, RDX, 32), same(&l, "shrd rax, rdx, 0x20");
	emit_shrd_imm(&l.e, R9, RCX, 7), same(&l, "shrd r9, rcx, 0x7");
	emit_add_imm32(&l.e, RAX, 0x12345), same(&l, "add eax, 0x12345");
	emit_add_imm32(&l.e, R9, 5), same(&l, "add r9d, 0x5");
	emit_imul_mem32_imm(&l.e, RAX, mem_at(RSP, 56), 0x2c1b3c6d);
	same(&l, "imul eax, dword ptr [rsp+0x38], 0x2C1B3C6D");
	emit_cmp_mem32_imm(&l.e, mem_at(RCX, 52), 0x1234),
		same(&l, "cmp dword ptr [rcx+0x34], 0x1234");
	emit_store_imm(&l.e, mem_at(RSI, 32), 0), same(&l, "mov qword ptr [rsi+0x20], 0x0");
	emit_shl_cl(&l.e, RAX), same(&l, "shl rax, cl");
	emit_shl_cl(&l.e, R9), same(&l, "shl r9, cl");
	emit_shr_imm(&l.e, R9, 1), same(&l, "shr r9, 0x1");
	for (int cc = CC_O; cc <= CC_G; cc++) {
		for (int r = RAX; r <= RBX; r++)
			emit_setcc8(&l.e, cc, r), same(&l, "set%s %s", name_cc[cc], name8[r]);
	}
	listing_end(&l, 8 + 64);
}

static void test_jumps_to(void **state)
{
	static struct listing l;
	char text[64], source[64];
	static const uint64_t to[] = { PC, PC + 0x100, PC + 0x7fff0000, 0x1000 };

	listing_begin(&l);
	for (size_t i = 0; i < 4; i++) {
		emit_jmp_to(&l.e, taddr_of(to[i]));
		snprintf(text, sizeof(text), "jmp 0x%lX", to[i]);
		snprintf(source, sizeof(source), ".byte 0xe9\n.long 0x%lx - 0x%llx", to[i],
			 PC + l.e.size);
		case_is(&l, text, source);
		for (int cc = CC_O; cc <= CC_G; cc++) {
			emit_jcc_to(&l.e, cc, taddr_of(to[i]));
			snprintf(text, sizeof(text), "j%s 0x%lX", name_cc[cc], to[i]);
			snprintf(source, sizeof(source), ".byte 0x0f, 0x%x\n.long 0x%lx - 0x%llx",
				 0x80 + cc, to[i], PC + l.e.size);
			case_is(&l, text, source);
		}
	}
	listing_end(&l, 4 * 17);
}

static void test_labels(void **state)
{
	static const uint8_t expected[] = {
		0xe9, 0x17, 0x00, 0x00, 0x00, /* 00: jmp   1c */
		0xeb, 0x15, /* 05: jmp   1c */
		0x0f, 0x85, 0x0f, 0x00, 0x00, 0x00, /* 07: jne   1c */
		0x74, 0x0d, /* 0d: je    1c */
		0xe3, 0x0b, /* 0f: jrcxz 1c */
		0xeb, 0xed, /* 11: jmp   00 */
		0xeb, 0xeb, /* 13: jmp   00 */
		0xe3, 0xe9, /* 15: jrcxz 00 */
		0x7f, 0xe7, /* 17: jg    00 */
		0x75, 0xe5, /* 19: jne   00 */
		0xcc, /* 1b */
		0xc3, /* 1c */
	};
	struct label ahead = { 0 }, back = { 0 };
	struct emitter e;
	uint8_t bytes[64];

	emit_init(&e, bytes, sizeof(bytes), taddr_of(PC));
	emit_bind(&e, &back);
	emit_jmp(&e, &ahead);
	emit_jmp_short(&e, &ahead);
	emit_jcc(&e, CC_NE, &ahead);
	emit_jcc_short(&e, CC_E, &ahead);
	emit_jrcxz(&e, &ahead);
	emit_jmp(&e, &back);
	emit_jmp_short(&e, &back);
	emit_jrcxz(&e, &back);
	emit_jcc_short(&e, CC_G, &back);
	emit_jcc(&e, CC_NE, &back);
	emit_int3(&e);
	emit_bind(&e, &ahead);
	emit_ret(&e);
	assert_false(emit_failed(&e));
	assert_int_equal(e.size, sizeof(expected));
	assert_memory_equal(bytes, expected, sizeof(expected));
	assert_int_equal(emit_pc(&e).v, PC + sizeof(expected));
}

/* A jump over `distance` bytes, back or forward; gives its first byte. */
static uint8_t jump_over(size_t distance, bool back, bool tight, bool *ret_failed)
{
	struct label label = { 0 };
	uint8_t bytes[256];
	struct emitter e;

	emit_init(&e, bytes, sizeof(bytes), taddr_of(PC));
	e.tight = tight;
	if (back)
		emit_bind(&e, &label);
	else
		emit_jmp(&e, &label);
	for (size_t i = 0; i < distance; i++)
		emit_int3(&e);
	size_t at = back ? e.size : 0;
	if (back)
		emit_jmp(&e, &label);
	else
		emit_bind(&e, &label);
	*ret_failed = emit_failed(&e);
	return bytes[at];
}

/* The shortest jump that is certain to reach; a tight one that doesn't fails. */
static void test_short_jumps(void **state)
{
	bool failed;

	assert_int_equal(jump_over(126, true, false, &failed), 0xeb);
	assert_false(failed);
	assert_int_equal(jump_over(127, true, true, &failed), 0xe9);
	assert_false(failed);
	assert_int_equal(jump_over(1, false, false, &failed), 0xe9);
	assert_false(failed);
	assert_int_equal(jump_over(127, false, true, &failed), 0xeb);
	assert_false(failed);
	jump_over(128, false, true, &failed);
	assert_true(failed);
}

static void test_align(void **state)
{
	struct emitter e;
	uint8_t bytes[64];

	emit_init(&e, bytes, sizeof(bytes), taddr_of(PC + 3));
	emit_align(&e, 8);
	assert_int_equal(e.size, 5);
	assert_memory_equal(bytes, "\xcc\xcc\xcc\xcc\xcc", 5);
	emit_align(&e, 8);
	assert_int_equal(e.size, 5);
	emit_u64(&e, 0x1122334455667788);
	assert_memory_equal(bytes + 5, "\x88\x77\x66\x55\x44\x33\x22\x11", 8);
}

/* ---- failures are sticky
 * ------------------------------------------------------------------------- */

static void fails(void (*emit)(struct emitter *e))
{
	struct emitter e;
	uint8_t bytes[256];

	emit_init(&e, bytes, sizeof(bytes), taddr_of(PC));
	emit(&e);
	assert_true(emit_failed(&e));

	size_t size = e.size;

	emit_ret(&e);
	assert_true(emit_failed(&e));
	assert_int_equal(e.size, size);
}

static void jump_too_far(struct emitter *e)
{
	emit_jmp_to(e, taddr_of(PC + 5 + 0x80000000ULL));
}

static void jump_back_too_far(struct emitter *e)
{
	emit_jmp_to(e, taddr_of(PC + 5 - 0x80000001ULL));
}

static void jcc_too_far(struct emitter *e)
{
	emit_jcc_to(e, CC_E, taddr_of(0x7ffff7000000));
}

static void rip_too_far(struct emitter *e)
{
	emit_cmp_mem32_imm(e, mem_rip(taddr_of(PC + 10 + 0x80000000ULL)), 1);
}

static void short_too_far(struct emitter *e)
{
	struct label label = { 0 };

	emit_jmp_short(e, &label);
	for (int i = 0; i < 128; i++)
		emit_int3(e);
	emit_bind(e, &label);
}

static void short_too_far_back(struct emitter *e)
{
	struct label label = { 0 };

	emit_bind(e, &label);
	for (int i = 0; i < 127; i++)
		emit_int3(e);
	emit_jrcxz(e, &label);
}

static void too_many_fixups(struct emitter *e)
{
	struct label label = { 0 };

	for (int i = 0; i <= EMIT_FIXUPS_MAX; i++)
		emit_jmp(e, &label);
}

static void no_register(struct emitter *e)
{
	emit_mov(e, RAX, REG_NONE);
}

static void rsp_as_index(struct emitter *e)
{
	emit_load(e, RAX, mem_index(RAX, RSP, 1, 0));
}

static void odd_scale(struct emitter *e)
{
	emit_load(e, RAX, mem_index(RAX, RCX, 3, 0));
}

static void setcc_high(struct emitter *e)
{
	emit_setcc8(e, CC_O, RSI);
}

static void byte_of_high(struct emitter *e)
{
	emit_store_size(e, mem_at(RAX, 0), RSI, 1);
}

static void test_failures(void **state)
{
	fails(jump_too_far);
	fails(jump_back_too_far);
	fails(jcc_too_far);
	fails(rip_too_far);
	fails(short_too_far);
	fails(short_too_far_back);
	fails(too_many_fixups);
	fails(no_register);
	fails(rsp_as_index);
	fails(odd_scale);
	fails(setcc_high);
	fails(byte_of_high);
}

/* The last byte that can be reached, both ways. */
static void test_reach(void **state)
{
	struct emitter e;
	uint8_t bytes[64];

	emit_init(&e, bytes, sizeof(bytes), taddr_of(PC));
	emit_jmp_to(&e, taddr_of(PC + 5 + 0x7fffffff));
	assert_memory_equal(bytes, "\xe9\xff\xff\xff\x7f", 5);
	emit_jmp_to(&e, taddr_of(PC + 10 - 0x80000000ULL));
	assert_memory_equal(bytes + 5, "\xe9\x00\x00\x00\x80", 5);
	emit_cmp_mem32_imm(&e, mem_rip(taddr_of(PC + 20 + 0x7fffffff)), 9);
	assert_memory_equal(bytes + 10, "\x81\x3d\xff\xff\xff\x7f\x09\x00\x00\x00", 10);
	assert_false(emit_failed(&e));
	assert_true(emit_reaches(taddr_of(PC), taddr_of(PC + 0x7fffffff)));
	assert_false(emit_reaches(taddr_of(PC), taddr_of(PC + 0x80000000)));
	assert_true(emit_reaches(taddr_of(PC), taddr_of(PC - 0x80000000)));
	assert_false(emit_reaches(taddr_of(PC), taddr_of(PC - 0x80000001)));
}

static void test_overflow(void **state)
{
	for (size_t room = 0; room < 10; room++) {
		uint8_t bytes[16];
		struct emitter e;

		memset(bytes, 0x5a, sizeof(bytes));
		emit_init(&e, bytes, room, taddr_of(PC));
		emit_mov_imm(&e, R10, 0x1122334455667788);
		assert_true(emit_failed(&e));
		assert_true(e.size <= room);
		for (size_t i = room; i < sizeof(bytes); i++)
			assert_int_equal(bytes[i], 0x5a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_registers),
		cmocka_unit_test(test_mov_imm),
		cmocka_unit_test(test_based),
		cmocka_unit_test(test_indexed),
		cmocka_unit_test(test_segment_and_no_base),
		cmocka_unit_test(test_rip),
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_jumps_to),
		cmocka_unit_test(test_labels),
		cmocka_unit_test(test_short_jumps),
		cmocka_unit_test(test_align),
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_reach),
		cmocka_unit_test(test_overflow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
