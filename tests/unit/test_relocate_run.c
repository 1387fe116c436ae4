/*
 * Runs each instruction where it is and where it was moved, from the same registers, flags,
 * vectors, memory and stack, and compares all of them afterwards, and by which way it was left
 * (relocate_machine.h). Each case runs in a child of its own: a wrong jump ends in an int3, and
 * fails that case alone.
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
#include "relocate_machine.h"

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

/* ---- the runs ------------------------------------------------------------------------------- */

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
		machine_run(moved ? NEAR_ABOVE : INSN);
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
	machine_map();
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
