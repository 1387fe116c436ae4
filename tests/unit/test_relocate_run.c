/*
 * Runs each instruction where it is and where it was moved, from the same registers, flags,
 * vectors, memory and stack, and compares all of them afterwards, and by which way it was left.
 *
 *   CODE    int3 everywhere, but: the instruction; the ways out (below); a lone `ret`
 *   DATA    bytes to read and write; POINTERS: addresses of a way out
 *   STACK   full of addresses of a way out
 *
 * A way out notes its number, saves the state and goes back to run_code's caller. Each case runs in
 * a child of its own: a wrong jump ends in an int3, and fails that case alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/base/cleanup.h"
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

/* ---- the cases ------------------------------------------------------------------------------ */

/* A length byte and the instruction, one behind the other. */
#define CASE(text)                                                  \
	__asm__(".pushsection .rodata.cases, \"a\"\n.intel_syntax noprefix\n" \
		".byte 2f - 1f\n1: " text "\n2:\n.att_syntax\n.popsection\n");
#define CASE_FOR_CC(cc)             \
	CASE("j" cc " .+0x40")      \
	CASE("j" cc " .-0x40")      \
	CASE("j" cc " .+0x400")     \
	CASE("set" cc " byte ptr [rip+0xf000]") \
	CASE("cmov" cc " rax, [rip+0xf000]")

__asm__(".pushsection .rodata.cases, \"a\"\n.globl cases_begin\ncases_begin:\n.popsection\n");
CASE("nop")
CASE("endbr64")
CASE("nop word ptr cs:[rax+rax*1+0]")
CASE("push rbp")
CASE("push rsp")
CASE("pop rbx")
CASE("push 0x12345678")
CASE("pushfq")
CASE("mov rbp, rsp")
CASE("sub rsp, 0x28")
CASE("lea rsp, [rsp-0x80]")
CASE("xor eax, eax")
CASE("mov rax, fs:0")
CASE("leave")
CASE("enter 0x20, 0")
CASE("mul rbx")
CASE("adc rax, 0x7f")
CASE("rcl rdx, 3")
CASE("bsf rax, rbx")
CASE("cld")
CASE("stc")
CASE("lahf")
CASE("cwde")
CASE("xchg rax, r9")
CASE("lock xadd [rsi], rax")
CASE("cmpxchg [rdi], rdx")
CASE("lock cmpxchg16b [rdi]")
CASE("movsq")
CASE("stosb")
CASE("vpaddd ymm1, ymm2, ymm3")
CASE("vzeroupper")
/* [rip + x] */
CASE("lea rax, [rip+0xf000]")
CASE("lea r15d, [rip+0xf000]")
CASE("lea rsp, [rip+0xf000]")
CASE("mov rax, [rip+0xf000]")
CASE("mov r8b, [rip+0xf001]")
CASE("mov [rip+0xf000], r9")
CASE("mov [rip+0xf000], dh")
CASE("mov byte ptr [rip+0xf000], 0x12")
CASE("mov word ptr [rip+0xf000], 0x1234")
CASE("mov dword ptr [rip+0xf000], 0x12345678")
CASE("mov qword ptr [rip+0xf000], 0x12345678")
CASE("movzx eax, byte ptr [rip+0xf000]")
CASE("movsxd r10, dword ptr [rip+0xf000]")
CASE("movbe rax, [rip+0xf000]")
CASE("add [rip+0xf000], rax")
CASE("adc rax, [rip+0xf000]")
CASE("add qword ptr [rip+0xf000], 0x7f")
CASE("sub qword ptr [rip+0xf000], 0x12345678")
CASE("cmp byte ptr [rip+0xf000], 0")
CASE("cmp dword ptr [rip+0xf000], 0x11223344")
CASE("cmp rax, [rip+0xf000]")
CASE("test byte ptr [rip+0xf000], 0x10")
CASE("test dword ptr [rip+0xf000], 0x10203040")
CASE("not qword ptr [rip+0xf000]")
CASE("neg dword ptr [rip+0xf000]")
CASE("mul qword ptr [rip+0xf000]")
CASE("imul rax, [rip+0xf000], 0x12345678")
CASE("imul rax, [rip+0xf000], 3")
CASE("shl qword ptr [rip+0xf000], 3")
CASE("rol byte ptr [rip+0xf000], cl")
CASE("shld [rip+0xf000], rax, 5")
CASE("bt qword ptr [rip+0xf000], 7")
CASE("bts qword ptr [rip+0xf000], 9")
CASE("inc qword ptr [rip+0xf000]")
CASE("lock inc dword ptr [rip+0xf000]")
CASE("lock cmpxchg [rip+0xf000], rbx")
CASE("lock xadd [rip+0xf000], rbx")
CASE("xchg [rip+0xf000], rbx")
CASE("push qword ptr [rip+0xf000]")
CASE("pop qword ptr [rip+0xf000]")
CASE("popcnt rax, [rip+0xf000]")
CASE("crc32 eax, dword ptr [rip+0xf000]")
CASE("andn rax, rbx, [rip+0xf000]")
CASE("mulx rax, rbx, [rip+0xf000]")
CASE("rorx rax, [rip+0xf000], 7")
CASE("movups xmm1, [rip+0xf000]")
CASE("movups [rip+0xf000], xmm1")
CASE("movdqa xmm1, [rip+0xf000-8]")
CASE("paddd xmm1, [rip+0xf000-8]")
CASE("pshufd xmm1, [rip+0xf000-9], 0x1b")
CASE("pcmpistri xmm1, [rip+0xf000-10], 0x0c")
CASE("movsd xmm2, qword ptr [rip+0xf000]")
CASE("addsd xmm2, qword ptr [rip+0xf000]")
CASE("cvttsd2si rax, qword ptr [rip+0xf000]")
CASE("ucomisd xmm2, qword ptr [rip+0xf000]")
CASE("vmovdqu ymm1, [rip+0xf000]")
CASE("vmovdqu [rip+0xf000], ymm1")
CASE("vpaddd ymm1, ymm2, [rip+0xf000]")
CASE("vpblendd ymm1, ymm2, [rip+0xf000], 0x5a")
CASE("vinserti128 ymm1, ymm2, [rip+0xf000], 1")
CASE("vbroadcastss ymm1, dword ptr [rip+0xf000]")
CASE("vfmadd231pd ymm1, ymm2, [rip+0xf000]")
CASE("vpaddd zmm1, zmm2, [rip+0xf000]")
CASE("vpternlogd zmm1, zmm2, [rip+0xf000], 0x96")
CASE("vpaddd zmm1{k1}, zmm2, dword ptr [rip+0xf000]{1to16}")
CASE("prefetcht0 [rip+0xf000]")
CASE("nop dword ptr [rip+0xf000]")
/* branches */
CASE_FOR_CC("o")
CASE_FOR_CC("no") CASE_FOR_CC("b") CASE_FOR_CC("ae") CASE_FOR_CC("e") CASE_FOR_CC("ne")
	CASE_FOR_CC("be") CASE_FOR_CC("a") CASE_FOR_CC("s") CASE_FOR_CC("ns") CASE_FOR_CC("p")
		CASE_FOR_CC("np") CASE_FOR_CC("l") CASE_FOR_CC("ge") CASE_FOR_CC("le")
			CASE_FOR_CC("g") CASE("jrcxz .+0x40") CASE("jrcxz .-0x40")
				CASE("jecxz .+0x40") CASE("loop .+0x40") CASE("loope .+0x40")
					CASE("loopne .-0x40") CASE("addr32 loop .+0x40")
						CASE("addr32 loopne .+0x40") CASE("jmp .+0x40")
							CASE("jmp .-0x40") CASE("jmp .+0x400")
	/* calls: to a way out, and to a function that returns */
	CASE("call .+0x400") CASE("call .+0x800") CASE("call rax") CASE("call rcx") CASE(
		"call rbp") CASE("call r8") CASE("call r12") CASE("call r13") CASE("notrack call "
										   "rax") CASE("cal"
											       "l "
											       "[ra"
											       "x]")
		CASE("call [rbx+8]") CASE("call [r12]") CASE("call [r12+8]") CASE(
			"call [r13]") CASE("call [rbp]") CASE("call [rbp+0x100]") CASE("call "
										       "[rsi+rdx*8+"
										       "0x10]")
			CASE("call [r12+r9*1]") CASE("call [rip+0xf000]") CASE("call [rsp]") CASE(
				"call [rsp+8]") CASE("call [rsp+0x70]") CASE("call [rsp+0x78]")
				CASE("call [rsp+0x7f]") CASE("call [rsp+0x80]") CASE(
					"call [rsp+0x400]") CASE("call [rsp-0x80]") CASE("call "
											 "[rsp-"
											 "0x88]")
					CASE("call [rsp-0x10]") CASE("call [rsp+rdx*8]") CASE(
						"call [rsp+r9*8+0x78]") CASE("call [0x10020000]")
						CASE("addr32 call [eax]") CASE("addr32 call "
									       "[esp+8]") CASE(
							"jmp rax") CASE("jmp r12") CASE("jmp [rax]")
							CASE("jmp [rsp+8]") CASE(
								"jmp [rip+0xf000]") CASE("notrack "
											 "jmp "
											 "[rbx+rdx*"
											 "8]")
								CASE("ret") CASE("ret 0x18") CASE(
									"rep ret") CASE("bnd ret")
									CASE("bnd jmp .+0x400")
										CASE("bnd call "
										     ".+"
										     "0x40"
										     "0") __asm__(
											".pushsecti"
											"on "
											".rodata."
											"cases, "
											"\"a\"\n."
											"globl "
											"cases_"
											"end\ncases"
											"_end:\n."
											"popsection"
											"\n");

extern const uint8_t cases_begin[], cases_end[];

/* ---- the harness ---------------------------------------------------------------------------- */

struct machine {
	uint64_t gpr[16]; /* as enum reg */
	uint64_t flags;
	uint8_t ymm[16][32];
	uint64_t way_out;
};

struct machine machine_in, machine_out;
uint64_t host_rsp, code_entry;
void run_code(void); /* from machine_in, at code_entry, to machine_out */
void way_out_0(void), way_out_1(void), way_out_2(void), way_out_3(void);

/* Offsets: gpr 0, flags 128, ymm 136, way_out 648. mov changes no flags. */
__asm__(".intel_syntax noprefix\n"
	".macro ALL_YMM op_load=0, at\n"
	".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
	".if \\op_load\n vmovdqu ymm\\n, [rip+\\at+136+32*\\n]\n"
	".else\n vmovdqu [rip+\\at+136+32*\\n], ymm\\n\n.endif\n"
	".endr\n.endm\n"
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
	"ALL_YMM 1, machine_in\n"
	"push [rip+machine_in+128]\n popfq\n"
	"ALL_GPR GPR_IN\n"
	"jmp [rip+code_entry]\n"
	".macro WAY_OUT n\n"
	".globl way_out_\\n\n"
	"way_out_\\n:\n mov qword ptr [rip+machine_out+648], \\n\n jmp left\n"
	".endm\n"
	"WAY_OUT 0\n WAY_OUT 1\n WAY_OUT 2\n WAY_OUT 3\n"
	"left:\n"
	"ALL_GPR GPR_OUT\n"
	"mov rsp, [rip+host_rsp]\n"
	"pushfq\n pop [rip+machine_out+128]\n"
	"ALL_YMM 0, machine_out\n"
	"cld\n"
	"pop r15\n pop r14\n pop r13\n pop r12\n pop rbp\n pop rbx\n"
	"vzeroupper\n"
	"ret\n"
	".att_syntax\n");

_Static_assert(offsetof(struct machine, flags) == 128, "flags");
_Static_assert(offsetof(struct machine, ymm) == 136, "ymm");
_Static_assert(offsetof(struct machine, way_out) == 648, "way_out");

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
	uint64_t out = INSN + 0x400;

	memset((void *)CODE, 0xcc, CODE_SIZE);
	memcpy((void *)INSN, insn->bytes, insn->length);
	put_way_out(INSN + insn->length, way_out_0);
	put_way_out(INSN + 0x40, way_out_1);
	put_way_out(INSN - 0x40, way_out_2);
	put_way_out(out, way_out_3);
	memset((void *)(INSN + 0x800), 0xc3, 1);
	for (uint64_t i = 0; i < DATA_SIZE; i++)
		((uint8_t *)DATA)[i] = (uint8_t)(i * 37 + 11);
	for (uint64_t i = 0; i < DATA_SIZE; i += 8)
		memcpy((void *)(POINTERS + i), &out, 8);
	for (uint64_t i = 0; i < STACK_SIZE; i += 8)
		memcpy((void *)(STACK + i), &out, 8);
	if (insn->rip_relative && insn->flow != FLOW_NEXT)
		memcpy((void *)insn->rip_target.v, &out, 8);
	/* call [rsp+0x7f] reads across two words */
	if (insn->flow == FLOW_CALL_INDIRECT && insn->zydis.raw.disp.value % 8)
		memcpy((void *)(STACK_TOP + (uint64_t)insn->zydis.raw.disp.value), &out, 8);
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
	for (size_t i = 0; i < sizeof(machine_in.ymm); i++)
		((uint8_t *)machine_in.ymm)[i] = (uint8_t)(i * 29 + 3);
}

struct result {
	struct machine machine;
	uint8_t data[DATA_SIZE], pointers[DATA_SIZE], stack[STACK_SIZE];
};

static void run_at(uint64_t at, const struct insn *insn, uint64_t rcx, uint64_t flags,
		   struct result *r)
{
	put_memory(insn);
	put_machine(insn, rcx, flags);
	machine_out = (struct machine){ .way_out = 99 };
	code_entry = at;
	run_code();
	r->machine = machine_out;
	memcpy(r->data, (void *)DATA, DATA_SIZE);
	memcpy(r->pointers, (void *)POINTERS, DATA_SIZE);
	memcpy(r->stack, (void *)STACK, STACK_SIZE);
}

/* In the child: which differs, or NULL. */
static const char *differs(const struct result *a, const struct result *b)
{
	if (a->machine.way_out != b->machine.way_out)
		return "way out";
	if (memcmp(a->machine.gpr, b->machine.gpr, sizeof(a->machine.gpr)) != 0)
		return "registers";
	if (a->machine.flags != b->machine.flags)
		return "flags";
	if (memcmp(a->machine.ymm, b->machine.ymm, sizeof(a->machine.ymm)) != 0)
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

static const uint64_t rcx_values[] = { 0, 1, 2, 0x100000000, 0x100000001 };
/* CF PF ZF SF OF in every combination that a condition tells apart, and DF */
static const uint64_t flag_values[] = {0,     0x1,  0x4,   0x40,  0x80, 0x800,
				       0x880, 0x41, 0x8c5, 0x840, 0x400};

static const char *compare_runs(const struct insn *insn, uint64_t to)
{
	static struct result a, b;

	for (size_t i = 0; i < sizeof(flag_values) / sizeof(*flag_values); i++) {
		for (size_t j = 0; j < sizeof(rcx_values) / sizeof(*rcx_values); j++) {
			const char *what;

			run_at(INSN, insn, rcx_values[j], flag_values[i], &a);
			run_at(to, insn, rcx_values[j], flag_values[i], &b);
			what = differs(&a, &b);
			if (what)
				return what;
			if (a.machine.way_out > 3)
				return "never left";
		}
	}
	return NULL;
}

static void check_case(const struct insn *insn, uint64_t to)
{
	char text[128];
	int status;
	pid_t pid;

	decode_format(insn, text, sizeof(text));
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		put_copy(insn, to);

		const char *what = compare_runs(insn, to);

		if (what)
			fprintf(stderr, "%s: %s differ\n", text, what);
		_exit(what ? 1 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (status != 0)
		fail_msg("%s at 0x%lx: status 0x%x", text, to, status);
}

static void each_case(uint64_t to, bool rip_relative_too, size_t least)
{
	size_t count = 0;

	for (const uint8_t *at = cases_begin; at < cases_end; at += 1 + *at) {
		struct insn insn;

		assert_true(decode(at + 1, *at, taddr_of(INSN), &insn));
		if (insn.rip_relative && !rip_relative_too)
			continue;
		if (insn.zydis.encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX &&
		    !__builtin_cpu_supports("avx512f"))
			continue;
		check_case(&insn, to);
		count++;
	}
	assert_true(count >= least);
}

static void test_above(void **state)
{
	each_case(NEAR_ABOVE + 3, true, 200);
}

static void test_below(void **state)
{
	each_case(NEAR_BELOW + 8, true, 200);
}

static void test_far(void **state)
{
	each_case(FAR + 5, false, 100);
}

/* A moved system call does the same; only rcx shows where it was made (relocate.c says why that is
 * fine). */
static void test_syscall(void **state)
{
	static struct result a, b;
	struct insn insn;

	assert_true(decode((const uint8_t *)"\x0f\x05", 2, taddr_of(INSN), &insn));
	put_copy(&insn, NEAR_ABOVE);
	for (int moved = 0; moved < 2; moved++) {
		put_memory(&insn);
		put_machine(&insn, 0, 0);
		machine_in.gpr[RAX] = 39; /* getpid */
		code_entry = moved ? NEAR_ABOVE : INSN;
		run_code();
		(moved ? &b : &a)->machine = machine_out;
	}
	assert_int_equal(a.machine.gpr[RAX], getpid());
	assert_int_equal(a.machine.gpr[RCX], INSN + 2);
	assert_int_equal(b.machine.gpr[RCX], NEAR_ABOVE + 2);
	b.machine.gpr[RCX] = a.machine.gpr[RCX];
	assert_memory_equal(&a.machine, &b.machine, sizeof(a.machine));
}

static int setup(void **state)
{
	map_at(CODE, CODE_SIZE);
	map_at(DATA, DATA_SIZE);
	map_at(POINTERS, DATA_SIZE);
	map_at(STACK, STACK_SIZE);
	map_at(NEAR_ABOVE, 0x1000);
	map_at(NEAR_BELOW, 0x1000);
	map_at(FAR, 0x1000);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_above),
		cmocka_unit_test(test_below),
		cmocka_unit_test(test_far),
		cmocka_unit_test(test_syscall),
	};

	if (!__builtin_cpu_supports("avx2"))
		return 77; /* meson: skipped */
	return cmocka_run_group_tests(tests, setup, NULL);
}
