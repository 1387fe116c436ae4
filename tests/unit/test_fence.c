/*
 * Filters of system calls: the evaluator against the kernel, what unknown words may be, what a
 * thread's filters are, and that every call of ours is in the table.
 */
#include <errno.h>
#include <linux/audit.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/fence/answers.h"
#include "control/remote/remote.h"

#define STACKS 2000 /* of filters, given to the kernel */
#define CALLS 16 /* made under each */
#define KILLS 2 /* of them tried in a process of their own, because they kill */
#define FIRST_FREE 600 /* no kernel has these calls: an allowed one gives ENOSYS */
#define PROGRAM_MAX 80

struct program {
	struct sock_filter code[PROGRAM_MAX];
	unsigned short count;
};

/* ---- random filters and calls ---------------------------------------------------------------- */

static uint64_t seed;

static uint32_t pick(uint32_t below)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(seed >> 33) % below;
}

/* Numbers that filters compare with, and that calls have. */
static uint32_t number(void)
{
	static const uint32_t known[] = { 0,	      1,
					  2,	      5,
					  31,	      32,
					  33,	      64,
					  0x7fff,     0xffff,
					  0x7fffffff, 0x80000000,
					  0xffffffff, AUDIT_ARCH_X86_64,
					  FIRST_FREE, FIRST_FREE + 1 };
	uint32_t at = pick(sizeof(known) / sizeof(known[0]) + 2);

	return at < sizeof(known) / sizeof(known[0]) ? known[at] : pick(1u << 31) * 2 + pick(2);
}

static uint32_t any_answer(void)
{
	static const uint32_t actions[] = {
		SECCOMP_RET_KILL_PROCESS,
		SECCOMP_RET_KILL_THREAD,
		SECCOMP_RET_TRAP,
		SECCOMP_RET_ERRNO,
		SECCOMP_RET_ERRNO,
		SECCOMP_RET_ERRNO,
		SECCOMP_RET_USER_NOTIF,
		SECCOMP_RET_TRACE,
		SECCOMP_RET_ALLOW,
		SECCOMP_RET_ALLOW,
		0x12340000,
	};

	return actions[pick(sizeof(actions) / sizeof(actions[0]))] | pick(5000);
}

static void put(struct program *program, uint16_t code, uint32_t k)
{
	program->code[program->count++] = (struct sock_filter){ code, 0, 0, k };
}

static void put_computation(struct program *program)
{
	static const uint16_t ops[] = { BPF_ADD, BPF_SUB, BPF_MUL, BPF_DIV, BPF_AND,
					BPF_OR,	 BPF_XOR, BPF_LSH, BPF_RSH, BPF_NEG };
	uint16_t op = ops[pick(10)];
	uint32_t k = number();

	if (op == BPF_LSH || op == BPF_RSH)
		k %= 32;
	if (op == BPF_NEG)
		put(program, BPF_ALU | BPF_NEG, 0);
	else if (pick(2))
		put(program, BPF_ALU | op | BPF_X, 0);
	else
		put(program, BPF_ALU | op | BPF_K, op == BPF_DIV && !k ? 1 : k);
}

static void put_move(struct program *program)
{
	static const uint16_t moves[] = { BPF_LD | BPF_IMM,
					  BPF_LDX | BPF_IMM,
					  BPF_LD | BPF_MEM,
					  BPF_LDX | BPF_MEM,
					  BPF_ST,
					  BPF_STX,
					  BPF_MISC | BPF_TAX,
					  BPF_MISC | BPF_TXA,
					  BPF_LD | BPF_W | BPF_LEN,
					  BPF_LDX | BPF_W | BPF_LEN };
	uint16_t move = moves[pick(10)];
	bool slot = BPF_MODE(move) == BPF_MEM || move == BPF_ST || move == BPF_STX;

	put(program, move, slot ? pick(3) : number());
}

static void put_jump(struct program *program, uint32_t left)
{
	static const uint16_t ops[] = { BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET };
	uint32_t reach = left < 6 ? left : 6;

	if (!pick(12)) {
		put(program, BPF_JMP | BPF_JA, pick(reach));
		return;
	}
	put(program, (uint16_t)(BPF_JMP | ops[pick(4)] | (pick(2) ? BPF_X : BPF_K)), number());
	program->code[program->count - 1].jt = (uint8_t)pick(reach);
	program->code[program->count - 1].jf = (uint8_t)pick(reach);
}

/* Allows all calls that the kernel has. Others run through `length` random instructions, and show
 * the last number in A if nothing else has answered. */
static struct program random_program(void)
{
	struct program program = { 0 };
	uint32_t length = 3 + pick(50);

	put(&program, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	put(&program, BPF_JMP | BPF_JGE | BPF_K, FIRST_FREE);
	program.code[1].jt = 1;
	put(&program, BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	for (uint32_t i = 0; i < 3; i++)
		put(&program, BPF_ST, i);
	for (uint32_t left = length; left; left--) {
		uint32_t kind = pick(16);

		if (kind < 5)
			put(&program, BPF_LD | BPF_W | BPF_ABS, pick(BPF_EVAL_WORDS) * 4);
		else if (kind < 9)
			put_computation(&program);
		else if (kind < 12)
			put_move(&program);
		else if (kind < 15)
			put_jump(&program, left);
		else
			put(&program, BPF_RET | BPF_K, any_answer());
	}
	if (!pick(4))
		put(&program, BPF_RET | BPF_A, 0);
	put(&program, BPF_ALU | BPF_AND | BPF_K, 0x7ff);
	put(&program, BPF_ALU | BPF_OR | BPF_K, SECCOMP_RET_ERRNO);
	put(&program, BPF_RET | BPF_A, 0);
	return program;
}

/* The address behind the `syscall` instruction of make(). */
extern const char call_end[];

static struct bpf_call random_call(void)
{
	uint64_t args[6];

	for (size_t i = 0; i < 6; i++)
		args[i] = (uint64_t)number() << 32 | number();
	return fence_call(FIRST_FREE + (long)pick(3), args, (uint64_t)(uintptr_t)call_end);
}

/* ---- the kernel ------------------------------------------------------------------------------ */

__attribute__((noinline)) static long make(const struct bpf_call *call)
{
	register uint64_t r10 __asm__("r10") = call->data.args[3];
	register uint64_t r8 __asm__("r8") = call->data.args[4];
	register uint64_t r9 __asm__("r9") = call->data.args[5];
	long result;

	__asm__ volatile("syscall\n\t.globl call_end\ncall_end:"
			 : "=a"(result)
			 : "a"((long)call->data.nr), "D"(call->data.args[0]),
			   "S"(call->data.args[1]), "d"(call->data.args[2]), "r"(r10), "r"(r8),
			   "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

static volatile sig_atomic_t trapped;

static void on_trap(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)context;
	trapped = info->si_errno + 1;
}

static bool install(const struct program *program)
{
	struct sock_fprog whole = { program->count, (struct sock_filter *)program->code };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &whole);
}

static bool kills(uint32_t answer)
{
	switch (answer & SECCOMP_RET_ACTION_FULL) {
	case SECCOMP_RET_TRAP:
	case SECCOMP_RET_ERRNO:
	case SECCOMP_RET_USER_NOTIF:
	case SECCOMP_RET_TRACE:
	case SECCOMP_RET_LOG:
	case SECCOMP_RET_ALLOW:
		return false;
	default:
		return true;
	}
}

/* Does the kernel do what the answer says? */
static bool agrees(const struct bpf_call *call, uint32_t answer)
{
	uint32_t data = answer & SECCOMP_RET_DATA;

	trapped = 0;
	long result = make(call);
	switch (answer & SECCOMP_RET_ACTION_FULL) {
	case SECCOMP_RET_TRAP:
		return trapped == (long)data + 1;
	case SECCOMP_RET_ERRNO:
		return !trapped && result == -(long)(data < 4095 ? data : 4095);
	default: /* without a listener or a tracer, as if there were no such call */
		return !trapped && result == -ENOSYS;
	}
}

static bool dies(const struct bpf_call *call)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		make(call);
		_exit(0);
	}
	return waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS;
}

struct tally {
	uint32_t filters, calls, kills, wrong;
};

/* In a child of the test: filters can't be taken off. */
static void try_stack(uint64_t from, struct tally *tally)
{
	struct sigaction action = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };
	struct filter items[3];
	struct program programs[3];
	struct filters filters = { .items = items };
	unsigned kill_tries = 0;

	seed = from;
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* no core files */
	sigaction(SIGSYS, &action, NULL);
	for (uint32_t i = 0, count = 1 + pick(3); i < count; i++) {
		programs[filters.count] = random_program();
		if (!install(&programs[filters.count])) /* e.g. memory that isn't written */
			continue;
		items[filters.count] = (struct filter){ programs[filters.count].code,
							programs[filters.count].count };
		filters.count++;
	}
	tally->filters += (uint32_t)filters.count;
	for (uint32_t i = 0; i < CALLS; i++) {
		struct bpf_call call = random_call();
		uint32_t answer = filters_answer(&filters, &call);

		if (kills(answer) && kill_tries++ >= KILLS)
			continue;
		tally->calls++;
		tally->kills += kills(answer);
		tally->wrong += kills(answer) ? !dies(&call) : !agrees(&call, answer);
	}
}

/* (E1) */
static void test_evaluator_is_the_kernels(void **state)
{
	struct tally *tally = mmap(NULL, sizeof(*tally), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(tally, MAP_FAILED);
	for (uint64_t i = 0; i < STACKS; i++) {
		int status = 0;
		pid_t pid = fork();

		if (!pid) {
			try_stack(i * 7919 + 1, tally);
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (status || tally->wrong)
			fail_msg("stack %lu: status %x, %u wrong", i, status, tally->wrong);
	}
	print_message("%u filters, %u calls, %u of them kill\n", tally->filters, tally->calls,
		      tally->kills);
	assert_true(tally->filters > STACKS && tally->calls > STACKS * 8 && tally->kills > 1000);
	munmap(tally, sizeof(*tally));
}

/* (E2) Whatever the unknown words are, the answer isn't stricter. */
static void test_unknown_words_may_be_anything(void **state)
{
	unsigned allowed = 0, stricter = 0;

	(void)state;
	seed = 42;
	for (unsigned i = 0; i < 20000; i++) {
		struct program program = random_program();
		struct bpf_call call = random_call(), known;
		uint32_t worst, exact;

		call.unknown = pick(1u << 16) & ~1u;
		if (!bpf_eval(program.code, program.count, &call, &worst))
			continue; /* too many paths */
		for (unsigned j = 0; j < 20; j++) {
			known = random_call();
			for (size_t w = 0; w < BPF_EVAL_WORDS; w++) {
				if (!(call.unknown >> w & 1))
					memcpy((char *)&known.data + 4 * w,
					       (char *)&call.data + 4 * w, 4);
			}
			assert_true(bpf_eval(program.code, program.count, &known, &exact));
			assert_false(bpf_is_stricter(exact, worst));
			stricter += bpf_is_stricter(worst, exact);
		}
		allowed += filters_is_allowed(worst);
	}
	assert_true(allowed > 100 && stricter > 1000);
}

static void test_what_no_filter_has_is_not_understood(void **state)
{
	static const struct sock_filter bad[] = {
		{ BPF_LD | BPF_W | BPF_IND, 0, 0, 0 },
		{ BPF_LD | BPF_H | BPF_ABS, 0, 0, 0 },
		{ BPF_LD | BPF_W | BPF_ABS, 0, 0, 2 },
		{ BPF_LD | BPF_W | BPF_ABS, 0, 0, 64 },
		{ BPF_LD | BPF_MEM, 0, 0, 16 },
		{ BPF_ST, 0, 0, 16 },
		{ BPF_ALU | BPF_MOD, 0, 0, 3 },
		{ BPF_JMP | 0x60, 0, 0, 0 },
		{ BPF_JMP | BPF_JA, 0, 0, ~0u },
		{ BPF_JMP | BPF_JEQ, 9, 9, 0 },
		{ BPF_RET | BPF_X, 0, 0, 0 },
		{ BPF_MISC | 0x40, 0, 0, 0 },
		{ 0x1006, 0, 0, 0 },
	};
	struct bpf_call call = random_call();

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct sock_filter code[] = { bad[i],
					      { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW } };
		struct filter filter = { code, 2 };
		const struct filters filters = { &filter, 1, 1 };
		uint32_t answer = 7;

		if (bpf_eval(code, 2, &call, &answer))
			fail_msg("%zu was understood", i);
		assert_int_equal(answer, 7);
		assert_int_equal(filters_answer(&filters, &call), SECCOMP_RET_KILL_PROCESS);
	}
	assert_false(bpf_eval(bad, 0, &call, &(uint32_t){ 0 }));
}

/* ---- filters of a thread --------------------------------------------------------------------- */

static struct program deny(long nr, uint32_t answer)
{
	struct program program = { 0 };

	put(&program, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	put(&program, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr);
	program.code[1].jf = 1;
	put(&program, BPF_RET | BPF_K, answer);
	put(&program, BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	return program;
}

/* A child under these filters. */
static pid_t start_running(const struct program *programs, size_t count)
{
	int ready[2];
	char byte;

	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (size_t i = 0; i < count; i++) {
			if (!install(&programs[i]))
				_exit(1);
		}
		if (write(ready[1], "r", 1) != 1)
			_exit(2);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

/* The same in a ptrace stop of ours. */
static pid_t start_fenced(const struct program *programs, size_t count)
{
	pid_t pid = start_running(programs, count);

	assert_int_equal(ptrace(PTRACE_SEIZE, pid, 0, 0), 0);
	assert_int_equal(ptrace(PTRACE_INTERRUPT, pid, 0, 0), 0);
	assert_int_equal(waitpid(pid, NULL, __WALL), pid);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void skip_unless_allowed(void)
{
	if (!filters_may_read()) {
		print_message("skipped: only root without a filter reads filters\n");
		skip();
	}
}

static void test_reads_filters(void **state)
{
	struct program programs[] = { deny(SYS_mount, SECCOMP_RET_ERRNO | 1),
				      deny(SYS_memfd_create, SECCOMP_RET_ERRNO | EPERM),
				      deny(SYS_memfd_create, SECCOMP_RET_ERRNO | ENOSYS) };
	uint64_t args[6] = { 0 };
	struct bpf_call call = fence_call(SYS_memfd_create, args, 0);
	struct filters filters;

	(void)state;
	skip_unless_allowed();
	pid_t pid = start_fenced(programs, 3);
	assert_int_equal(filters_read(pid, &filters), FILTERS_READ);
	assert_int_equal(filters.count, 3);
	for (size_t i = 0; i < 3; i++)
		assert_memory_equal(filters.items[i].code, programs[i].code,
				    sizeof(struct sock_filter) * 4);
	/* the newest one's number counts */
	assert_int_equal(filters_answer(&filters, &call), SECCOMP_RET_ERRNO | ENOSYS);
	assert_true(filters_forbid(pid, &call));
	call.data.nr = SYS_munmap;
	assert_false(filters_forbid(pid, &call));
	filters_free(&filters);
	end(pid);
	pid = start_fenced(programs, 0);
	assert_int_equal(filters_read(pid, &filters), FILTERS_NONE);
	assert_false(filters_forbid(pid, &call));
	end(pid);
}

static void expect_closed(long nr, uint32_t answer, unsigned parts, const char *text)
{
	struct program program = deny(nr, answer);
	struct answers known = { 0 };
	struct fence fence;
	pid_t pid = start_fenced(&program, 1);

	fence_begin(&fence);
	assert_null(fence_add_thread(&fence, &known, pid, true));
	assert_int_equal(fence.threads, 1);
	assert_int_equal(fence_closed(&fence), parts);
	char *said = fence_describe(&fence, ~0u);
	if (text)
		assert_string_equal(said, text);
	else
		assert_null(said);
	free(said);
	answers_free(&known);
	end(pid);
}

/* Each action but "allow" counts as a refusal. */
static void test_names_call_and_action(void **state)
{
	(void)state;
	skip_unless_allowed();
	expect_closed(SYS_mount, SECCOMP_RET_KILL_PROCESS, 0, NULL);
	expect_closed(SYS_gettid, SECCOMP_RET_ALLOW | 5, 0, NULL);
	expect_closed(SYS_memfd_create, SECCOMP_RET_KILL_PROCESS, FENCE_CONTROL,
		      "kills for memfd_create");
	expect_closed(SYS_gettid, SECCOMP_RET_KILL_THREAD, FENCE_RECORD, "kills for gettid");
	expect_closed(SYS_process_vm_readv, SECCOMP_RET_ERRNO | EPERM, FENCE_READ,
		      "answers EPERM for process_vm_readv");
	expect_closed(SYS_sigaltstack, SECCOMP_RET_ERRNO | EPERM, FENCE_STACK,
		      "answers EPERM for sigaltstack");
	expect_closed(SYS_tkill, SECCOMP_RET_TRAP, FENCE_LIVE, "sends SIGSYS for tkill");
	expect_closed(SYS_rt_tgsigqueueinfo, SECCOMP_RET_KILL_PROCESS, FENCE_INFO,
		      "kills for rt_tgsigqueueinfo");
	expect_closed(SYS_prctl, SECCOMP_RET_USER_NOTIF, FENCE_NAME | FENCE_CONTROL,
		      "asks another process for prctl");
	expect_closed(SYS_rt_sigreturn, SECCOMP_RET_TRACE, FENCE_HOME,
		      "asks a debugger for rt_sigreturn");
	expect_closed(SYS_recvmsg, SECCOMP_RET_LOG, FENCE_SHARE,
		      "writes to the system's log for recvmsg");
	expect_closed(SYS_rt_sigaction, 0x12340000, FENCE_SIGNAL | FENCE_CONTROL,
		      "kills for rt_sigaction");
}

/* (E4) Threads of one set of filters ask once; another set has answers of its own. */
static void test_answers_are_of_their_filters(void **state)
{
	static const unsigned parts[] = { FENCE_RECORD, FENCE_RECORD, FENCE_LIVE, FENCE_RECORD };
	static const uint64_t generations[] = { 1, 1, 2, 3 };
	struct program programs[] = { deny(SYS_gettid, SECCOMP_RET_KILL_PROCESS),
				      deny(SYS_tkill, SECCOMP_RET_KILL_PROCESS) };
	struct answers known = { 0 };
	const uint64_t args[6] = { 0 };

	(void)state;
	skip_unless_allowed();
	pid_t pids[] = { start_fenced(&programs[0], 1), start_fenced(&programs[1], 1) };
	for (size_t i = 0; i < 4; i++) {
		struct fence fence;

		fence_begin(&fence);
		assert_null(fence_add_thread(&fence, &known, pids[parts[i] == FENCE_LIVE], true));
		assert_int_equal(known.generation, generations[i]);
		assert_int_equal(fence_closed(&fence), parts[i]);
		assert_int_equal(answers_allow(&known, SYS_gettid, args), parts[i] == FENCE_LIVE);
		assert_true(answers_allow(&known, SYS_getpid, args));
		assert_false(answers_allow(&known, SYS_mount, args)); /* no call of ours */
	}
	answers_free(&known);
	end(pids[0]);
	end(pids[1]);
}

/* A filter that looks at the place of a call allows nothing: the agent has no place yet. */
static void test_unknown_places_are_forbidden(void **state)
{
	struct program program = { 0 };
	struct answers known = { 0 };
	struct fence fence;

	(void)state;
	skip_unless_allowed();
	put(&program, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	put(&program, BPF_JMP | BPF_JEQ | BPF_K, SYS_gettid);
	program.code[1].jf = 2;
	put(&program, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer));
	put(&program, BPF_JMP | BPF_JEQ | BPF_K, 0);
	program.code[3].jt = 1;
	put(&program, BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	put(&program, BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	pid_t pid = start_fenced(&program, 1);
	fence_begin(&fence);
	assert_null(fence_add_thread(&fence, &known, pid, true));
	assert_int_equal(fence_closed(&fence), FENCE_RECORD);
	answers_free(&known);
	end(pid);
}

/* The answer to memfd_create that the thread gets by itself, in the stop where it is. */
static long create_itself(pid_t tid, uint64_t gadget)
{
	struct user_regs_struct own, regs;

	assert_int_equal(ptrace(PTRACE_GETREGS, tid, 0, &own), 0);
	regs = own;
	regs.rip = gadget;
	regs.rax = SYS_memfd_create;
	regs.orig_rax = ~0ULL;
	regs.rdi = own.rsp;
	regs.rsi = 0;
	assert_int_equal(ptrace(PTRACE_SETREGS, tid, 0, &regs), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ptrace(PTRACE_SYSCALL, tid, 0, 0), 0);
		/* the stop's own timer may interrupt the wait */
		assert_int_equal(TEMP_FAILURE_RETRY(waitpid(tid, NULL, __WALL)), tid);
	}
	assert_int_equal(ptrace(PTRACE_GETREGS, tid, 0, &regs), 0);
	return (long)regs.rax;
}

/* (S6) Only the controller's own call is made without the filter, and only if that is allowed. */
static void test_suspension_ends_with_the_call(void **state)
{
	struct program program = deny(SYS_memfd_create, SECCOMP_RET_ERRNO | EPERM);
	const uint64_t args[6] = { 0 };
	struct stop *stop = NULL;
	struct proc *proc = NULL;
	int64_t result = 0;

	(void)state;
	skip_unless_allowed();
	pid_t pid = start_running(&program, 1);
	assert_null(proc_open(pid, &proc));
	assert_null(stop_all(proc, STOP_TIMEOUT_MS, &stop));
	struct error *refused = remote_syscall(stop, SYS_memfd_create, args, &result);
	assert_non_null(refused);
	assert_non_null(strstr(error_text(refused), "its filter answers EPERM for memfd_create"));
	error_free(refused);
	proc->may_suspend = true;
	assert_null(remote_syscall(stop, SYS_memfd_create, args, &result));
	assert_int_equal(result, -EFAULT); /* from the kernel, not from the filter */
	assert_int_equal(proc->suspended, 1);
	assert_null(remote_syscall(stop, SYS_getpid, args, &result));
	assert_int_equal(result, pid);
	assert_int_equal(proc->suspended, 1);
	assert_null(remote_syscall(stop, SYS_memfd_create, args, &result));
	assert_int_equal(create_itself(pid, proc->gadget_call), -EPERM);
	end(pid);
	stop_release(stop, NULL);
	proc_close(proc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_evaluator_is_the_kernels),
		cmocka_unit_test(test_unknown_words_may_be_anything),
		cmocka_unit_test(test_what_no_filter_has_is_not_understood),
		cmocka_unit_test(test_reads_filters),
		cmocka_unit_test(test_names_call_and_action),
		cmocka_unit_test(test_answers_are_of_their_filters),
		cmocka_unit_test(test_unknown_places_are_forbidden),
		cmocka_unit_test(test_suspension_ends_with_the_call),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
