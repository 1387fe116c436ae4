/*
 * The decisions of the worker's filter of system calls: a small interpreter of classic BPF runs the
 * program that libseccomp makes.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/worker/confine.h"

#define X32 0x40000000u
#define REFUSED (SECCOMP_RET_ERRNO | EPERM)
#define CALLS 1024 /* more than there are */
#define CALLS_REFUSED 92

static struct sock_filter code[BPF_MAXINSNS];
static size_t code_count;

static void export(enum confine_stage stage)
{
	int fd = memfd_create("filter", MFD_CLOEXEC);
	scmp_filter_ctx filter = confine_make_filter(stage);

	assert_non_null(filter);
	assert_int_equal(seccomp_export_bpf(filter, fd), 0);
	seccomp_release(filter);
	ssize_t size = pread(fd, code, sizeof(code), 0);
	assert_true(size > 0 && size % (ssize_t)sizeof(code[0]) == 0);
	code_count = (size_t)size / sizeof(code[0]);
	close(fd);
}

static int export_whole(void **state)
{
	(void)state;
	export(CONFINE_WHOLE);
	return 0;
}

static int export_first(void **state)
{
	(void)state;
	export(CONFINE_FIRST);
	return 0;
}

static size_t jump(const struct sock_filter *at, uint32_t a)
{
	uint32_t op = BPF_OP(at->code);
	bool taken = op == BPF_JEQ ? a == at->k :
		     op == BPF_JGE ? a >= at->k :
		     op == BPF_JGT ? a > at->k :
				     (a & at->k) != 0;

	assert_true(op == BPF_JA || op == BPF_JEQ || op == BPF_JGE || op == BPF_JGT ||
		    op == BPF_JSET);
	return op == BPF_JA ? at->k : taken ? at->jt : at->jf;
}

static uint32_t decide(const struct seccomp_data *data)
{
	uint32_t a = 0;

	for (size_t pc = 0; pc < code_count; pc++) {
		const struct sock_filter *at = &code[pc];

		if (at->code == (BPF_RET | BPF_K))
			return at->k;
		if (at->code == (BPF_LD | BPF_W | BPF_ABS))
			memcpy(&a, (const char *)data + at->k, sizeof(a));
		else if (at->code == (BPF_ALU | BPF_AND | BPF_K))
			a &= at->k;
		else if (BPF_CLASS(at->code) == BPF_JMP)
			pc += jump(at, a);
		else
			fail_msg("instruction %zu: code %#x isn't known here", pc, at->code);
	}
	fail_msg("the program has no end");
	return 0;
}

static uint32_t decide_call(uint32_t number)
{
	struct seccomp_data data = { .nr = (int)number, .arch = AUDIT_ARCH_X86_64 };

	return decide(&data);
}

static void test_calls_are_refused_by_number(void **state)
{
	static const int refused[] = { SYS_execve,  SYS_execveat, SYS_fork,	SYS_vfork,
				       SYS_setuid,  SYS_capset,	  SYS_socket,	SYS_connect,
				       SYS_openat2, SYS_unlink,	  SYS_renameat2, SYS_chmod,
				       SYS_mount,   SYS_bpf,	  SYS_userfaultfd };
	static const int needed[] = { SYS_ptrace, SYS_clone, SYS_clone3,  SYS_process_vm_readv,
				      SYS_kcmp,	  SYS_mmap,  SYS_accept4, SYS_sched_setscheduler,
				      SYS_read,	  SYS_open,  SYS_openat,  SYS_process_madvise };
	size_t count = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		assert_int_equal(decide_call((uint32_t)refused[i]), REFUSED);
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
		assert_int_equal(decide_call((uint32_t)needed[i]), SECCOMP_RET_ALLOW);
	for (uint32_t number = 0; number < CALLS; number++) {
		uint32_t decision = decide_call(number);

		assert_true(decision == REFUSED || decision == SECCOMP_RET_ALLOW);
		count += decision == REFUSED;
	}
	assert_int_equal(count, CALLS_REFUSED);
}

/* Every combination of the flags that matter, and each other bit alone. */
static void test_files_are_opened_not_made(void **state)
{
	static const uint64_t making[] = { O_CREAT, O_TRUNC, O_APPEND, O_TMPFILE & ~O_DIRECTORY };
	const uint64_t any = making[0] | making[1] | making[2] | making[3];

	(void)state;
	for (unsigned bits = 0; bits < 16; bits++) {
		for (unsigned other = 0; other < 64; other++) {
			uint64_t flags = 1ULL << other;

			for (unsigned i = 0; i < 4; i++)
				flags |= bits >> i & 1 ? making[i] : 0;
			struct seccomp_data open_call = { .nr = SYS_open,
							  .arch = AUDIT_ARCH_X86_64,
							  .args = { any, flags, any, any } };
			struct seccomp_data openat_call = { .nr = SYS_openat,
							    .arch = AUDIT_ARCH_X86_64,
							    .args = { any, any, flags, any } };
			uint32_t expected = flags & any ? REFUSED : SECCOMP_RET_ALLOW;

			assert_int_equal(decide(&open_call), expected);
			assert_int_equal(decide(&openat_call), expected);
		}
	}
}

/* -1 is how a tracer skips a call: the kernel answers ENOSYS. */
static void test_other_abis_are_fatal(void **state)
{
	struct seccomp_data old = { .nr = SYS_read, .arch = AUDIT_ARCH_I386 };

	(void)state;
	assert_int_equal(decide(&old), SECCOMP_RET_KILL_PROCESS);
	for (uint32_t number = 0; number < CALLS; number++)
		assert_int_equal(decide_call(X32 + number), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(decide_call(UINT32_MAX - 1), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(decide_call(UINT32_MAX), SECCOMP_RET_ALLOW);
}

/* Leftovers of a dead dyntrace may need new files in an open directory, and nothing else. */
static void test_first_stage_leaves_only_files_of_a_trace(void **state)
{
	struct seccomp_data make = { .nr = SYS_openat,
				     .arch = AUDIT_ARCH_X86_64,
				     .args = { 0, 0, O_RDWR | O_CREAT | O_TRUNC, 0 } };
	struct seccomp_data by_name = { .nr = SYS_open,
					.arch = AUDIT_ARCH_X86_64,
					.args = { 0, O_RDWR | O_CREAT, 0, 0 } };
	size_t count = 0;

	(void)state;
	for (uint32_t number = 0; number < CALLS; number++)
		count += decide_call(number) == REFUSED;
	assert_int_equal(count, CALLS_REFUSED - 2);
	assert_int_equal(decide_call(SYS_renameat), SECCOMP_RET_ALLOW);
	assert_int_equal(decide_call(SYS_unlinkat), SECCOMP_RET_ALLOW);
	assert_int_equal(decide(&make), SECCOMP_RET_ALLOW);
	assert_int_equal(decide(&by_name), REFUSED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls_are_refused_by_number),
		cmocka_unit_test(test_files_are_opened_not_made),
		cmocka_unit_test(test_other_abis_are_fatal),
		cmocka_unit_test_setup(test_first_stage_leaves_only_files_of_a_trace, export_first),
	};

	return cmocka_run_group_tests(tests, export_whole, NULL);
}
