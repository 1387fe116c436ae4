/*
 * Every shape of instruction that real programs and libraries hold: read back after being moved,
 * and run in both places.
 *
 * A shape is what the decoder and the relocator look at: prefixes, opcode map and opcode,
 * modrm.mod, modrm.reg where it is part of the opcode, kinds and sizes of the operands, and whether
 * base, index and rm are the registers with an encoding of their own. One instruction per
 * shape, the first met, is judged:
 *   - with its own bytes, by relocate_check: the moved bytes decode to the same thing, and every
 *     address in them is the original one;
 *   - with its displacement and target made to fit relocate_machine.h's memory, by running it. What
 *     faults (privileged, unknown to this processor, a division by zero) must fault in both places,
 *     in the same state. What asks the world (system calls, time, segments) isn't run.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "binary_text.h"
#include "control/base/cleanup.h"
#include "relocate_check.h"
#include "relocate_machine.h"

static const char *const paths[] = {
	"/usr/bin/redis-server",
	"/usr/sbin/nginx",
	"/usr/bin/python3",
	"/usr/bin/sqlite3",
	"/usr/lib/x86_64-linux-gnu/libsqlite3.so.0",
	"/usr/bin/bash",
	"/usr/bin/git",
	"/lib/x86_64-linux-gnu/libc.so.6",
	"/lib/x86_64-linux-gnu/libcrypto.so.3",
	"/usr/lib/postgresql/15/bin/postgres",
};

/* ---- shapes --------------------------------------------------------------------------------- */

#define SHAPES 65536 /* a power of two */

struct shape {
	uint64_t key; /* 0: free */
	uint64_t pc;
	uint8_t bytes[16];
	uint8_t length;
};

static struct shape shapes[SHAPES];
static size_t shape_count, seen;

static uint64_t mix(uint64_t key, uint64_t value)
{
	return (key ^ value) * 0x9e3779b97f4a7c15ULL ^ key >> 29;
}

/* Registers whose number has a meaning of its own in modrm or sib: rsp, rbp, and r12, r13. */
static uint64_t odd_register(ZydisRegister reg)
{
	if (reg == ZYDIS_REGISTER_NONE)
		return 1;
	switch (ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg)) {
	case ZYDIS_REGISTER_RSP:
		return 2;
	case ZYDIS_REGISTER_RBP:
		return 3;
	case ZYDIS_REGISTER_R12:
		return 4;
	case ZYDIS_REGISTER_R13:
		return 5;
	case ZYDIS_REGISTER_RIP:
		return 6;
	default:
		return 0;
	}
}

static uint64_t operand_key(uint64_t key, const ZydisDecodedOperand *o)
{
	key = mix(key, o->type | (uint64_t)o->size << 8 | (uint64_t)o->encoding << 24);
	if (o->type == ZYDIS_OPERAND_TYPE_REGISTER)
		return mix(key, ZydisRegisterGetClass(o->reg.value) |
					(o->reg.value == ZYDIS_REGISTER_RSP) << 8);
	if (o->type != ZYDIS_OPERAND_TYPE_MEMORY)
		return key;
	key = mix(key, odd_register(o->mem.base) | odd_register(o->mem.index) << 8 |
			       (uint64_t)o->mem.scale << 16 | (uint64_t)(o->mem.segment) << 24);
	return mix(key, o->mem.type);
}

static uint64_t shape_key(const struct insn *insn)
{
	const ZydisDecodedInstruction *z = &insn->zydis;
	uint64_t key = mix(1, z->mnemonic | (uint64_t)z->encoding << 16 |
				      (uint64_t)z->opcode_map << 24 | (uint64_t)z->opcode << 32);

	key = mix(key, z->length | (uint64_t)z->raw.modrm.mod << 8 |
			       (uint64_t)z->raw.disp.size << 16 |
			       (uint64_t)z->raw.imm[0].size << 24 |
			       (uint64_t)z->operand_width << 32 | (uint64_t)z->address_width << 48);
	for (size_t i = 0; i < z->raw.prefix_count; i++) {
		uint8_t prefix = z->raw.prefixes[i].value;

		/* of REX, W and that it is there: R, X and B are in the operands */
		key = mix(key, (prefix & 0xf0) == 0x40 ? prefix & 0xf8u : prefix);
	}
	key = mix(key, z->avx.vector_length | (uint64_t)z->avx.broadcast.mode << 16 |
			       (uint64_t)z->avx.mask.mode << 24 |
			       (uint64_t)z->avx.rounding.mode << 32);
	for (size_t i = 0; i < z->operand_count_visible; i++)
		key = operand_key(key, &insn->operands[i]);
	return key ? key : 1;
}

static void shape_add(const struct insn *insn)
{
	uint64_t key = shape_key(insn);
	size_t at = key % SHAPES;

	seen++;
	for (; shapes[at].key; at = (at + 1) % SHAPES)
		if (shapes[at].key == key)
			return;
	assert_true(++shape_count < SHAPES / 2);
	shapes[at] = (struct shape){ .key = key, .pc = insn->pc.v, .length = insn->length };
	memcpy(shapes[at].bytes, insn->bytes, insn->length);
}

static void gather_binary(const struct binary_text *text)
{
	static struct insn insn;

	for (size_t at = 0; at < text->size;) {
		if (!decode(text->bytes + at, text->size - at, taddr_of(text->address + at),
			    &insn)) {
			at++;
			continue;
		}
		shape_add(&insn);
		at += insn.length;
	}
}

static int gather(void **state)
{
	size_t found = 0;

	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		struct binary_text text = binary_text_map(paths[i]);

		found += text.size > 0;
		gather_binary(&text);
		binary_text_unmap(&text);
	}
	machine_map();
	assert_true(found >= 3);
	return 0;
}

/* ---- read ----------------------------------------------------------------------------------- */

static bool read_back(const struct shape *shape, uint64_t to)
{
	struct insn insn;
	uint8_t bytes[64];
	struct emitter e;
	struct moved moved = { bytes, 0, to };

	assert_true(decode(shape->bytes, shape->length, taddr_of(shape->pc), &insn));
	emit_init(&e, bytes, sizeof(bytes), taddr_of(to));

	_cleanup_error_ struct error *err = relocate(&insn, &e);

	if (err) {
		assert_int_equal(error_kind(err), ERROR_REFUSED);
		return false;
	}
	moved.size = e.size;

	const char *wrong = relocate_check(&insn, &moved);

	if (wrong) {
		char text[128];

		decode_format(&insn, text, sizeof(text));
		fail_msg("0x%lx %s to 0x%lx: %s", insn.pc.v, text, to, wrong);
	}
	return true;
}

static void test_read_back(void **state)
{
	size_t refused = 0;

	for (size_t i = 0; i < SHAPES; i++) {
		if (!shapes[i].key)
			continue;
		refused += !read_back(&shapes[i], shapes[i].pc + (1ULL << 30) + i % 16);
		read_back(&shapes[i], shapes[i].pc + (1ULL << 40) + i % 16);
	}
	print_message("%zu instructions, %zu shapes, %zu of them refused\n", seen, shape_count,
		      refused);
	assert_true(shape_count > 5000);
	assert_true(refused * 50 < shape_count); /* oddities of data in the text */
}

/* ---- run ------------------------------------------------------------------------------------ */

/* With these the world answers, or they change the test itself. */
static bool is_worldly(const struct insn *insn)
{
	static const ZydisInstructionCategory categories[] = {
		ZYDIS_CATEGORY_SYSTEM, ZYDIS_CATEGORY_SYSCALL, ZYDIS_CATEGORY_SYSRET,
		ZYDIS_CATEGORY_INTERRUPT, ZYDIS_CATEGORY_IO, ZYDIS_CATEGORY_IOSTRINGOP,
		ZYDIS_CATEGORY_RDWRFSGS, ZYDIS_CATEGORY_SEGOP, ZYDIS_CATEGORY_RDRAND,
		ZYDIS_CATEGORY_RDSEED, ZYDIS_CATEGORY_XSAVE, ZYDIS_CATEGORY_XSAVEOPT,
		ZYDIS_CATEGORY_CET, ZYDIS_CATEGORY_VTX, ZYDIS_CATEGORY_PKU, ZYDIS_CATEGORY_WAITPKG,
		ZYDIS_CATEGORY_UINTR, ZYDIS_CATEGORY_MISC, ZYDIS_CATEGORY_PT,
	};

	for (size_t i = 0; i < sizeof(categories) / sizeof(*categories); i++)
		if (insn->zydis.meta.category == categories[i] &&
		    insn->zydis.mnemonic != ZYDIS_MNEMONIC_LEA)
			return true;
	if (insn->zydis.meta.branch_type == ZYDIS_BRANCH_TYPE_FAR)
		return true;
	for (size_t i = 0; i < insn->zydis.operand_count; i++) {
		const ZydisDecodedOperand *o = &insn->operands[i];

		if (o->type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    (o->mem.segment == ZYDIS_REGISTER_FS || o->mem.segment == ZYDIS_REGISTER_GS) &&
		    (o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE || insn->flow != FLOW_NEXT))
			return true; /* the thread's own block */
		if (o->type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    ZydisRegisterGetClass(o->reg.value) == ZYDIS_REGCLASS_SEGMENT)
			return true;
	}
	return false;
}

static void put_bytes(uint8_t *at, int64_t value, uint8_t bits)
{
	memcpy(at, &value, bits / 8);
}

/* The same shape, for INSN: leads into DATA or POINTERS, or to a way out. */
static bool fit(const struct shape *shape, struct insn *insn)
{
	uint8_t bytes[16];

	assert_true(decode(shape->bytes, shape->length, taddr_of(shape->pc), insn));
	memcpy(bytes, shape->bytes, sizeof(bytes));

	uint8_t *disp = bytes + insn->zydis.raw.disp.offset,
		*imm = bytes + insn->zydis.raw.imm[0].offset;
	uint8_t size = insn->zydis.raw.disp.size;
	uint64_t area = (insn->flow == FLOW_NEXT ? DATA : POINTERS) + 0x1000;
	bool based = false;

	for (size_t i = 0; i < insn->zydis.operand_count_visible; i++)
		based |= insn->operands[i].type == ZYDIS_OPERAND_TYPE_MEMORY &&
			 insn->operands[i].mem.base != ZYDIS_REGISTER_NONE;
	if (insn->rip_relative)
		put_bytes(disp, (int64_t)(area - INSN - shape->length), size);
	else if (size >= 32)
		put_bytes(disp, based ? 0x80 : (int64_t)area, size);
	else if (size)
		put_bytes(disp, 0x10, size);
	if (insn->has_target)
		put_bytes(imm, (insn->zydis.raw.imm[0].size == 8 ? 0x40 : 0x400) - shape->length,
			  insn->zydis.raw.imm[0].size);
	return decode(bytes, shape->length, taddr_of(INSN), insn);
}

static void on_fault(int number, siginfo_t *info, void *context)
{
	static const int order[16] = { REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
				       REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
				       REG_R12, REG_R13, REG_R14, REG_R15 };
	greg_t *gregs = ((ucontext_t *)context)->uc_mcontext.gregs;
	uint64_t pc = (uint64_t)gregs[REG_RIP];

	if (!code_runs)
		_exit(99); /* the test's own */
	for (size_t i = 0; i < 16; i++)
		machine_out.gpr[i] = (uint64_t)gregs[order[i]];
	machine_out.way_out = WAY_FAULT + (uint64_t)number;
	machine_out.fault_offset = pc - code_entry < 0x100 ? pc - code_entry : pc;
	gregs[REG_RIP] = (greg_t)left_by_fault;
}

static void catch_faults(void)
{
	static const int numbers[] = { SIGSEGV, SIGILL, SIGFPE, SIGBUS, SIGTRAP };
	static char stack[65536];
	stack_t alternate = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = { .sa_sigaction = on_fault,
				    .sa_flags = SA_SIGINFO | SA_ONSTACK };

	assert_int_equal(sigaltstack(&alternate, NULL), 0);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		assert_int_equal(sigaction(numbers[i], &action, NULL), 0);
}

static const uint64_t some_flags[] = { 0x8c5, 0, 0x1, 0x4, 0x40, 0x80, 0x800, 0x880, 0x41, 0x840 };

struct tally {
	size_t run, faulted, evex, vex, locked, repeated, flow[FLOW_STOP + 1];
};

static const char *run_both(const struct insn *insn, uint64_t to, bool *ret_faulted)
{
	static struct result a, b;
	size_t rounds = insn->flow == FLOW_BRANCH ? sizeof(some_flags) / sizeof(*some_flags) : 2;

	for (size_t i = 0; i < rounds; i++) {
		const char *what;

		run_at(INSN, insn, 3 - i % 3, some_flags[i], &a);
		run_at(to, insn, 3 - i % 3, some_flags[i], &b);
		*ret_faulted |= a.machine.way_out >= WAY_FAULT;
		/* a moved call that can't read its target has pushed already: the one thing
		 * that a handler of the fault can tell */
		if (insn->flow == FLOW_CALL_INDIRECT && a.machine.way_out >= WAY_FAULT &&
		    a.machine.way_out == b.machine.way_out)
			continue;
		what = differs(&a, &b);
		if (what)
			return what;
	}
	return NULL;
}

static void run_shape(const struct shape *shape, uint64_t to, struct tally *tally)
{
	static struct insn insn;
	bool faulted = false;

	if (!fit(shape, &insn) || is_worldly(&insn))
		return;

	struct emitter e;
	uint8_t scratch[64];

	emit_init(&e, scratch, sizeof(scratch), taddr_of(to));

	_cleanup_error_ struct error *err = relocate(&insn, &e);

	if (err)
		return;
	put_copy(&insn, to);

	const char *what = run_both(&insn, to, &faulted);

	if (what) {
		char text[128];

		decode_format(&insn, text, sizeof(text));
		fail_msg("%s (met at 0x%lx) to 0x%lx: %s differ", text, shape->pc, to, what);
	}
	tally->faulted += faulted;
	if (faulted)
		return;
	tally->run++;
	tally->flow[insn.flow]++;
	tally->evex += insn.zydis.encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX;
	tally->vex += insn.zydis.encoding == ZYDIS_INSTRUCTION_ENCODING_VEX;
	tally->locked += (insn.zydis.attributes & ZYDIS_ATTRIB_HAS_LOCK) != 0;
	tally->repeated += (insn.zydis.attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE |
						     ZYDIS_ATTRIB_HAS_REPNE)) != 0;
}

static void test_run(void **state)
{
	struct tally tally = { 0 };

	if (!__builtin_cpu_supports("avx2"))
		skip();
	catch_faults();
	for (size_t i = 0; i < SHAPES; i++)
		if (shapes[i].key)
			run_shape(&shapes[i], i % 2 ? NEAR_ABOVE + 3 : NEAR_BELOW + 8, &tally);
	print_message("%zu shapes ran in both places (%zu VEX, %zu EVEX, %zu lock, %zu rep), %zu "
		      "faulted alike\n",
		      tally.run, tally.vex, tally.evex, tally.locked, tally.repeated,
		      tally.faulted);
	assert_true(tally.run * 10 > shape_count * 7);
	assert_true(tally.vex > 300 && tally.locked > 50 && tally.repeated > 5);
	assert_true(tally.evex > 100 || !__builtin_cpu_supports("avx512vl"));
	for (size_t i = 0; i < FLOW_STOP; i++)
		assert_true(tally.flow[i] > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read_back),
		cmocka_unit_test(test_run),
	};

	return cmocka_run_group_tests(tests, gather, NULL);
}
