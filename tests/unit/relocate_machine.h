/*
 * relocate_machine.h - runs one instruction at its place or at the copy's, from a prepared state,
 * and keeps everything that it can change.
 *
 *   CODE    int3 everywhere, but: the instruction; the ways out (below); a lone `ret`
 *   DATA    bytes to read and write; POINTERS: addresses of a way out
 *   STACK   full of addresses of a way out
 *
 * A way out notes its number, saves the state and goes back to run_code's caller. The vector, mask
 * and x87 registers are those of XSAVE, as far as this processor has them. Header only; one user
 * per program. For tests on one thread.
 */
#ifndef DYNTRACE_TESTS_RELOCATE_MACHINE_H
#define DYNTRACE_TESTS_RELOCATE_MACHINE_H

#include <cpuid.h>
#include <string.h>
#include <sys/mman.h>

#include "control/code/relocate.h"

#define CODE 0x10000000ULL
#define CODE_SIZE 0x2000ULL
#define INSN (CODE + 0x1000) /* where the instruction is */
#define DATA (CODE + 0x10000)
#define DATA_SIZE 0x4000ULL
#define POINTERS (CODE + 0x20000)
#define STACK (CODE + 0x30000)
#define STACK_SIZE 0x4000ULL
#define STACK_TOP (STACK + 0x2000)
#define NEAR_ABOVE 0x50000000ULL
#define NEAR_BELOW 0x04000000ULL
#define FAR 0x200000000000ULL

#define VECTORS_SIZE 2688 /* x87, SSE, AVX, mask registers, AVX-512 */
#define VECTORS_MASK 0xe7
#define WAY_FAULT 100

struct machine {
	uint64_t gpr[16]; /* as enum reg */
	uint64_t flags;
	uint64_t way_out; /* or WAY_FAULT + the signal */
	uint64_t fault_offset; /* where: from the code's start, if in it */
	_Alignas(64) uint8_t vectors[VECTORS_SIZE]; /* as XSAVE has them */
};

struct machine machine_in, machine_out;
uint64_t host_rsp, code_entry;
bool code_runs;
void run_code(void); /* from machine_in, at code_entry, to machine_out */
void way_out_0(void), way_out_1(void), way_out_2(void), way_out_3(void);
void left_by_fault(void); /* with the registers in machine_out already */

/* Offsets: gpr 0, flags 128, way_out 136, vectors 192. mov changes no flags. */
__asm__(".intel_syntax noprefix\n"
	".macro GPR_IN reg, n\n mov \\reg, [rip+machine_in+8*\\n]\n.endm\n"
	".macro GPR_OUT reg, n\n mov [rip+machine_out+8*\\n], \\reg\n.endm\n"
	".macro ALL_GPR what\n"
	"\\what rax, 0\n \\what rcx, 1\n \\what rdx, 2\n \\what rbx, 3\n \\what rsp, 4\n"
	"\\what rbp, 5\n \\what rsi, 6\n \\what rdi, 7\n \\what r8, 8\n \\what r9, 9\n"
	"\\what r10, 10\n \\what r11, 11\n \\what r12, 12\n \\what r13, 13\n \\what r14, 14\n"
	"\\what r15, 15\n.endm\n"
	".text\n"
	"run_code:\n"
	"push rbx\n push rbp\n push r12\n push r13\n push r14\n push r15\n"
	"mov [rip+host_rsp], rsp\n"
	"mov eax, 0xe7\n xor edx, edx\n xrstor64 [rip+machine_in+192]\n"
	"push [rip+machine_in+128]\n popfq\n"
	"ALL_GPR GPR_IN\n"
	"jmp [rip+code_entry]\n"
	".macro WAY_OUT n\n"
	".globl way_out_\\n\n"
	"way_out_\\n:\n mov qword ptr [rip+machine_out+136], \\n\n jmp left\n"
	".endm\n"
	"WAY_OUT 0\n WAY_OUT 1\n WAY_OUT 2\n WAY_OUT 3\n"
	"left:\n"
	"ALL_GPR GPR_OUT\n"
	".globl left_by_fault\n"
	"left_by_fault:\n"
	"mov rsp, [rip+host_rsp]\n"
	"pushfq\n pop [rip+machine_out+128]\n"
	"mov eax, 0xe7\n xor edx, edx\n xsave64 [rip+machine_out+192]\n"
	"cld\n fninit\n push 0x1f80\n ldmxcsr [rsp]\n add rsp, 8\n"
	"pop r15\n pop r14\n pop r13\n pop r12\n pop rbp\n pop rbx\n"
	"vzeroupper\n"
	"ret\n"
	".att_syntax\n");

_Static_assert(offsetof(struct machine, flags) == 128, "flags");
_Static_assert(offsetof(struct machine, way_out) == 136, "way_out");
_Static_assert(offsetof(struct machine, vectors) == 192, "vectors");

static void *map_at(uint64_t at, uint64_t size)
{
	void *got = mmap((void *)at, size, PROT_READ | PROT_WRITE | PROT_EXEC,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	assert_ptr_equal(got, (void *)at);
	return got;
}

/* jmp [rip+0]; .quad to */
static void put_way_out(uint64_t at, void (*to)(void))
{
	memcpy((void *)at, "\xff\x25\x00\x00\x00\x00", 6);
	memcpy((void *)(at + 6), &to, 8);
}

static void put_memory(const struct insn *insn)
{
	static uint8_t data[DATA_SIZE];
	uint64_t out = INSN + 0x400;

	memset((void *)CODE, 0xcc, CODE_SIZE);
	memcpy((void *)INSN, insn->bytes, insn->length);
	put_way_out(INSN + insn->length, way_out_0);
	put_way_out(INSN + 0x40, way_out_1);
	put_way_out(INSN - 0x40, way_out_2);
	put_way_out(out, way_out_3);
	memset((void *)(INSN + 0x800), 0xc3, 1);
	for (uint64_t i = 0; !data[1] && i < DATA_SIZE; i++)
		data[i] = (uint8_t)(i * 37 + 11);
	memcpy((void *)DATA, data, DATA_SIZE);
	for (uint64_t i = 0; i < DATA_SIZE; i += 8)
		memcpy((void *)(POINTERS + i), &out, 8);
	for (uint64_t i = 0; i < STACK_SIZE; i += 8)
		memcpy((void *)(STACK + i), &out, 8);
	if (insn->rip_relative && insn->flow != FLOW_NEXT)
		memcpy((void *)insn->rip_target.v, &out, 8);
	/* call [rsp+0x7f] reads across two words */
	if (insn->flow == FLOW_CALL_INDIRECT && !insn->rip_relative &&
	    insn->zydis.raw.disp.value % 8)
		memcpy((void *)(STACK_TOP + (uint64_t)insn->zydis.raw.disp.value), &out, 8);
}

/* Those of the parts of XSAVE's area that are in `mask` and that this processor has. */
static uint64_t vectors_fill(uint8_t *area, uint64_t mask)
{
	uint64_t has = 3;

	for (unsigned int part = 2; part < 8; part++) {
		unsigned int size, offset, c, d;

		if (!(mask >> part & 1))
			continue;
		__cpuid_count(0xd, part, size, offset, c, d);
		if (!size || offset + size > VECTORS_SIZE)
			continue;
		for (size_t i = 0; i < size; i++)
			area[offset + i] = (uint8_t)(i * 31 + part * 7 + 5);
		has |= 1ULL << part;
	}
	return has;
}

static void put_vectors(uint8_t *area)
{
	static _Alignas(64) uint8_t filled[VECTORS_SIZE];
	uint32_t low, high, mxcsr = 0x1f80;
	uint16_t control = 0x37f;

	if (!filled[0]) {
		__asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));

		uint64_t has = vectors_fill(filled, low & VECTORS_MASK);

		for (size_t i = 160; i < 416; i++)
			filled[i] = (uint8_t)(i * 29 + 3);
		memcpy(filled, &control, 2);
		memcpy(filled + 24, &mxcsr, 4);
		memcpy(filled + 512, &has, 8);
	}
	memcpy(area, filled, VECTORS_SIZE);
}

static uint64_t *machine_gpr(ZydisRegister reg)
{
	ZydisRegister whole =
		ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);

	if (whole < ZYDIS_REGISTER_RAX || whole > ZYDIS_REGISTER_R15)
		return NULL;
	return &machine_in.gpr[whole - ZYDIS_REGISTER_RAX];
}

/* Base and index of what it reads or writes, so that they lead into `area`. */
static void machine_aim(const struct insn *insn, uint64_t area)
{
	for (size_t i = 0; i < insn->zydis.operand_count_visible; i++) {
		const ZydisDecodedOperand *o = &insn->operands[i];
		uint64_t *base, *index;

		if (o->type != ZYDIS_OPERAND_TYPE_MEMORY)
			continue;
		base = machine_gpr(o->mem.base);
		index = machine_gpr(o->mem.index);
		if (index && index != base)
			*index = 8;
		if (base && base != &machine_in.gpr[RSP] && base != &machine_in.gpr[RBP])
			*base = area + 0x1000;
	}
}

static void put_machine(const struct insn *insn, uint64_t rcx, uint64_t flags)
{
	const ZydisDecodedOperand *o = &insn->operands[0];
	bool indirect = insn->flow == FLOW_CALL_INDIRECT || insn->flow == FLOW_JUMP_INDIRECT;

	memset(&machine_in, 0, sizeof(machine_in));
	for (size_t i = 0; i < 16; i++)
		machine_in.gpr[i] = (indirect ? POINTERS : DATA) + 0x1000 + i * 0x40;
	machine_in.gpr[RDX] = machine_in.gpr[R9] = 8;
	machine_in.gpr[RSP] = STACK_TOP;
	machine_in.gpr[RBP] = indirect ? POINTERS : STACK_TOP + 0x100;
	machine_in.gpr[RCX] = rcx;
	if (indirect && o->type == ZYDIS_OPERAND_TYPE_REGISTER)
		machine_in.gpr[o->reg.value - ZYDIS_REGISTER_RAX] = INSN + 0x400;
	machine_in.flags = 0x202 | flags;
	put_vectors(machine_in.vectors);
	machine_aim(insn, indirect ? POINTERS : DATA);
}

struct result {
	struct machine machine;
	uint8_t data[DATA_SIZE], pointers[DATA_SIZE], stack[STACK_SIZE];
};

/* What depends on where the code is, or on the processor's mood: the last x87 instruction's
 * address, which parts are in their initial state. */
static void machine_run(uint64_t at)
{
	memset(&machine_out, 0, sizeof(machine_out));
	machine_out.way_out = 99;
	code_entry = at;
	code_runs = true;
	run_code();
	code_runs = false;
	memset(machine_out.vectors + 8, 0, 8);
	memset(machine_out.vectors + 512, 0, 64);
}

static void run_at(uint64_t at, const struct insn *insn, uint64_t rcx, uint64_t flags,
		   struct result *r)
{
	put_memory(insn);
	put_machine(insn, rcx, flags);
	machine_run(at);
	r->machine = machine_out;
	memcpy(r->data, (void *)DATA, DATA_SIZE);
	memcpy(r->pointers, (void *)POINTERS, DATA_SIZE);
	memcpy(r->stack, (void *)STACK, STACK_SIZE);
}

/* In the child: which differs, or NULL. */
static const char *differs(const struct result *a, const struct result *b)
{
	if (a->machine.way_out != b->machine.way_out ||
	    a->machine.fault_offset != b->machine.fault_offset)
		return "way out";
	if (memcmp(a->machine.gpr, b->machine.gpr, sizeof(a->machine.gpr)) != 0)
		return "registers";
	if (a->machine.flags != b->machine.flags)
		return "flags";
	if (memcmp(a->machine.vectors, b->machine.vectors, VECTORS_SIZE) != 0)
		return "vectors";
	if (memcmp(a->stack, b->stack, sizeof(a->stack)) != 0)
		return "stack";
	if (memcmp(a->data, b->data, sizeof(a->data)) != 0 ||
	    memcmp(a->pointers, b->pointers, sizeof(a->pointers)) != 0)
		return "memory";
	return NULL;
}

/* Writes the copy and the jump back behind it, as a trampoline does. */
static void put_copy(const struct insn *insn, uint64_t to)
{
	struct emitter e;
	uint64_t back = INSN + insn->length;

	emit_init(&e, (uint8_t *)to, 0x100, taddr_of(to));
	assert_null(relocate(insn, &e));
	assert_false(emit_failed(&e));
	memcpy((void *)(to + e.size), "\xff\x25\x00\x00\x00\x00", 6);
	memcpy((void *)(to + e.size + 6), &back, 8);
}

static void machine_map(void)
{
	map_at(CODE, CODE_SIZE);
	map_at(DATA, DATA_SIZE);
	map_at(POINTERS, DATA_SIZE);
	map_at(STACK, STACK_SIZE);
	map_at(NEAR_ABOVE, 0x1000);
	map_at(NEAR_BELOW, 0x1000);
	map_at(FAR, 0x1000);
}

#endif
