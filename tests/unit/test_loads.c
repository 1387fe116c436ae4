/*
 * Plain loads (X3 to X20): who may make them. A signal comes at every instruction of a guard, whose
 * handler hits (X5); the handlers themselves are in tests/e2e/test_plain_loads.py.
 */
#include "../../src/shared/program.h"
#include "rig.h"

#define TEXT RIG_SIX /* the rig's event, with a string instead */
#define LONGEST 256
#define TRAP_FLAG 0x100
#define INSIDE (64u << 10) /* bytes of an alternate stack */
#define ARCH_GET_XCOMP_PERM 0x1022
#define ARCH_REQ_XCOMP_PERM 0x1023

static struct {
	struct dt_program head;
	struct dt_op ops[2];
} program = { { .id = TEXT, .size_max = 16 + LONGEST + 32, .op_count = 2, .rip = 1 },
	      { { DT_OP_REG, 7, 0, 0 }, { DT_OP_STRING, 1, LONGEST, DT_STRING_NUL } } };

static struct dt_fronts fronts;
static void *guard;
static volatile unsigned steps;

static int gather(const char *text)
{
	struct dt_regs regs = { .general = { [4] = (uint64_t)__builtin_frame_address(0),
					     [7] = (uint64_t)text } };

	return (int)rig_gather_raw(&regs, &program);
}

static struct dt_own_stack *own(void)
{
	return &rig_state->own_stacks[rig_my_slot() - rig_slots];
}

static bool is_open(void)
{
	return own()->open == rig_state->loads;
}

/* The guard of a system call of the libc: has it made the call itself? `stepped`: with a signal at
 * each instruction. */
static bool pass_guard(uint64_t number, uint64_t first, const void *second, bool stepped,
		       uint64_t *ret_result)
{
	uint64_t made = (uint64_t)rig_control;
	register uint64_t size __asm__("r10") = 8;
	register uint64_t flags __asm__("r8") = stepped ? TRAP_FLAG : 0;

	__asm__ volatile("leaq	-128(%%rsp), %%rsp\n\t"
			 "pushfq\n\t"
			 "orq	%%r8, (%%rsp)\n\t"
			 "popfq\n\t"
			 "call	*%[guard]\n\t"
			 "pushfq\n\t"
			 "andq	%[off], (%%rsp)\n\t"
			 "popfq\n\t"
			 "leaq	128(%%rsp), %%rsp"
			 : "+a"(number), "+c"(made)
			 : "D"(first), "S"(second), "d"(0ULL), "r"(size), "r"(flags),
			   [guard] "m"(guard), [off] "i"(~TRAP_FLAG)
			 : "r9", "r11", "memory", "cc");
	*ret_result = number;
	return made;
}

static void call_guarded(uint64_t number, uint64_t first, const void *second, bool stepped)
{
	uint64_t result;

	assert_true(pass_guard(number, first, second, stepped, &result));
	assert_int_equal(result, 0);
}

static void on_step(int number)
{
	(void)number;
	steps++;
	gather("twenty bytes of text");
}

static void up(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	struct sigaction action = { .sa_handler = on_step };
	char line[512];
	unsigned long start, end;
	Dl_info agent;

	rig_up(4, 64, DT_LOADS);
	assert_true(dladdr(rig_slow, &agent));
	guard = dlsym(dlopen(agent.dli_fname, RTLD_NOW | RTLD_NOLOAD), "dt_guard");
	assert_true(guard && maps);
	while (fgets(line, sizeof(line), maps)) {
		if (strstr(line, "[stack]") && sscanf(line, "%lx-%lx", &start, &end) == 2)
			rig_control->stack = (struct dt_range){ start - (1 << 20), end };
	}
	fclose(maps);
	rig_control->slow = (uint64_t)rig_slow;
	rig_control->sizes[TEXT] = DT_SIZE_VARIES;
	fronts = (struct dt_fronts){ .full = DT_LOADS_FULL, .frame = 8192 };
	rig_control->fronts = (uint64_t)&fronts;
	steps = 0;
	assert_int_equal(sigaction(SIGTRAP, &action, NULL), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(gather("twenty bytes of text"), 1);
	assert_true(is_open());
}

/* X5 */
static void test_a_guard_with_hits(void **unused)
{
	static const uint64_t none, faults = DT_LOADS_BITS;

	up();
	call_guarded(SYS_rt_sigprocmask, SIG_SETMASK, &faults, true);
	assert_true(steps > 50);
	assert_false(is_open());
	gather("twenty bytes of text");
	assert_false(is_open()); /* the signals are blocked now */
	call_guarded(SYS_rt_sigprocmask, SIG_SETMASK, &none, false);
	gather("twenty bytes of text");
	gather("twenty bytes of text");
	assert_true(is_open());
	rig_down();
}

/* X5: in a handler that comes during a wait with another mask the signals are open, but not behind
 * it. */
static void test_a_wait_with_another_mask(void **unused)
{
	static const uint64_t none, faults = DT_LOADS_BITS;
	uint64_t result;

	up();
	assert_false(pass_guard(SYS_rt_sigsuspend, (uint64_t)&none, NULL, false, &result));
	gather("twenty bytes of text");
	assert_true(is_open());
	assert_false(pass_guard(SYS_rt_sigsuspend, (uint64_t)&faults, NULL, false, &result));
	for (int i = 0; i < 3; i++)
		gather("twenty bytes of text");
	assert_false(is_open());
	call_guarded(SYS_rt_sigprocmask, SIG_SETMASK, &none, false);
	gather("twenty bytes of text");
	assert_true(is_open());
	rig_down();
}

/* X3: an alternate stack without room for a frame; X6: a handler that blocks the signals. */
static void test_who_may_load(void **unused)
{
	static char memory[65536];
	stack_t small = { .ss_sp = memory, .ss_size = 4096 }, none = { .ss_flags = SS_DISABLE };

	up();
	call_guarded(SYS_sigaltstack, (uint64_t)&small, NULL, false);
	for (int i = 0; i < 3; i++)
		gather("twenty bytes of text");
	assert_false(is_open());
	small.ss_size = sizeof(memory);
	call_guarded(SYS_sigaltstack, (uint64_t)&small, NULL, false);
	gather("twenty bytes of text");
	assert_true(is_open());
	call_guarded(SYS_sigaltstack, (uint64_t)&none, NULL, false);
	rig_down();
}

/* X8: the process asks for AMX's tiles, of whose frames nobody has thought. */
static void test_nobody_loads_with_larger_frames(void **unused)
{
	uint64_t result;

	up();
	assert_false(pass_guard(SYS_arch_prctl, ARCH_GET_XCOMP_PERM, NULL, false, &result));
	assert_false(pass_guard(SYS_prctl, ARCH_REQ_XCOMP_PERM, NULL, false, &result));
	gather("twenty bytes of text");
	assert_true(is_open());
	assert_false(pass_guard(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, NULL, false, &result));
	assert_int_equal(result, SYS_arch_prctl); /* the program makes the call */
	gather("twenty bytes of text");
	assert_false(is_open());
	rig_down();
}

/* X10: calls that no guard makes safe, of code whose calls nobody knew before. */
static void test_nobody_loads_after_unsafe_calls(void **unused)
{
	static const struct {
		uint64_t number, first;
	} calls[] = {
		{ SYS_clone, 0x100 }, { SYS_clone3, 0 }, { SYS_vfork, 0 },
		{ SYS_seccomp, 1 },   { SYS_prctl, 22 }, { SYS_prctl, 59 },
	};
	uint64_t result;

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		up();
		assert_false(pass_guard(SYS_clone, 17, NULL, false, &result)); /* a fork */
		assert_false(pass_guard(SYS_prctl, 15, NULL, false, &result));
		gather("twenty bytes of text");
		assert_true(is_open());
		assert_false(pass_guard(calls[i].number, calls[i].first, NULL, false, &result));
		assert_int_equal(result, calls[i].number);
		gather("twenty bytes of text");
		assert_false(is_open());
		rig_down();
	}
}

/* X4: not before both signals have the agent's handler. */
static void test_nobody_loads_without_handlers(void **unused)
{
	up();
	own()->open = DT_NOT_OPEN;
	fronts.full = 0;
	for (int i = 0; i < 3; i++)
		gather("twenty bytes of text");
	assert_false(is_open());
	fronts.full = DT_LOADS_FULL;
	fronts.closed = 1;
	gather("twenty bytes of text");
	assert_false(is_open());
	fronts.closed = 0;
	gather("twenty bytes of text");
	assert_true(is_open());
	rig_down();
}

/* Do faults of that signal go to the alternate stack, as the kernel has it? */
static bool goes_elsewhere(int signal)
{
	struct dt_sigaction action;

	assert_int_equal(syscall(SYS_rt_sigaction, signal, NULL, &action, 8), 0);
	return action.flags & SA_ONSTACK;
}

/* The program sets a handler of SIGSEGV. Where do faults of both signals go? */
static void set_and_expect(uint64_t flags, bool expected)
{
	struct dt_sigaction action = { .handler = (uint64_t)on_step, .flags = flags };

	call_guarded(SYS_rt_sigaction, SIGSEGV, &action, false);
	assert_int_equal(goes_elsewhere(SIGSEGV), expected);
	assert_int_equal(goes_elsewhere(SIGBUS), expected);
}

/* Does the thread, which the agent looks at, load on whatever stack? */
static bool loads_on_any_stack(void)
{
	assert_false(is_open());
	gather("twenty bytes of text");
	assert_true(is_open());
	return own()->elsewhere_size;
}

static void check_where_faults_go(const char *memory, size_t size)
{
	struct dt_own_stack *other = own() == rig_state->own_stacks ? own() + 1 : own() - 1;

	own()->open = DT_NOT_OPEN;
	assert_false(loads_on_any_stack()); /* no handler of the program's runs there */
	set_and_expect(SA_ONSTACK, true);
	assert_true(loads_on_any_stack());
	assert_int_equal(own()->elsewhere, (uint64_t)memory + size + 1);
	assert_int_equal(own()->elsewhere_size, 0 - (size + DT_PAGE));

	other->loading = 1; /* and stays so */
	set_and_expect(0, true);
	assert_false(loads_on_any_stack());
	other->loading = 0;
	set_and_expect(SA_ONSTACK, true);
	assert_true(loads_on_any_stack());
	other->loading = 1; /* again, after it has looked */
	other->open = rig_state->loads + 1;
	set_and_expect(0, false);
	assert_false(loads_on_any_stack());
	other->loading = 0;

	fronts.elsewhere = DT_ELSEWHERE_CHANGES; /* another thread is changing an action */
	set_and_expect(SA_ONSTACK, true);
	assert_int_equal(fronts.elsewhere, DT_ELSEWHERE_NEVER);
	assert_false(loads_on_any_stack());

	other->loading = 1;
	other->open = DT_NOT_OPEN;
	set_and_expect(0, true);
	assert_int_equal(fronts.elsewhere, DT_ELSEWHERE_NEVER);
	other->loading = 0;
	set_and_expect(0, false);
	assert_false(loads_on_any_stack());
	other->loading = 1; /* nobody is waited for from here on */
	set_and_expect(SA_ONSTACK, true);
	set_and_expect(0, false);
	assert_true(is_open());
	other->loading = 0;
}

/* X18: faults go to the alternate stack where the program's handlers run there, until no thread
 * relies on that any more. */
static void test_where_faults_go(void **unused)
{
	static char memory[1 << 16];
	stack_t stack = { .ss_sp = memory, .ss_size = sizeof(memory) },
		none = { .ss_flags = SS_DISABLE };

	up();
	fronts.pid = (uint32_t)getpid();
	assert_int_equal(sigaltstack(&stack, NULL), 0);
	check_where_faults_go(memory, sizeof(memory));
	assert_int_equal(sigaltstack(&none, NULL), 0);
	signal(SIGSEGV, SIG_DFL);
	signal(SIGBUS, SIG_DFL);
	rig_down();
}

/* As if a handler had jumped away from a load, so far below. */
static void jump_away(uint64_t below)
{
	own()->loading = (uint32_t)((uint64_t)__builtin_frame_address(0) - below) | 1;
}

/* X20: a thread that has left a load by a jump doesn't count as loading any more, but one does
 * whose load has a handler on top. */
static void test_loads_that_were_left(void **unused)
{
	struct dt_sigaction action = { .handler = (uint64_t)on_step };

	up();
	fronts.pid = (uint32_t)getpid();
	jump_away(64);
	gather("twenty bytes of text");
	assert_int_equal(own()->loading, 0);
	jump_away(64);
	call_guarded(SYS_rt_sigaction, SIGSEGV, &action, false);
	assert_int_equal(own()->loading, 0);
	jump_away(0ULL - 4096);
	uint32_t before = own()->loading;
	gather("twenty bytes of text");
	call_guarded(SYS_rt_sigaction, SIGSEGV, &action, false);
	assert_int_equal(own()->loading, before);
	own()->open = DT_NOT_OPEN;
	gather("twenty bytes of text");
	assert_false(is_open());
	own()->loading = 1;
	gather("twenty bytes of text");
	call_guarded(SYS_rt_sigaction, SIGSEGV, &action, false);
	assert_int_equal(own()->loading, 1);
	signal(SIGSEGV, SIG_DFL);
	signal(SIGBUS, SIG_DFL);
	rig_down();
}

static void shut_and_gather(uint32_t passing)
{
	own()->open = DT_NOT_OPEN;
	own()->passing = passing;
	gather("twenty bytes of text");
}

/* X5, X20: a thread in a guard doesn't look, but others do, and one that has left it by a jump. */
static void test_guards_that_were_left(void **unused)
{
	uint32_t here = (uint32_t)(uint64_t)__builtin_frame_address(0);
	struct dt_sigaction action = { .handler = (uint64_t)on_step };

	up();
	fronts.pid = (uint32_t)getpid();
	struct dt_own_stack *other = &rig_state->own_stacks[own() == rig_state->own_stacks];
	other->passing = 1;
	shut_and_gather(0);
	assert_true(is_open());
	shut_and_gather(1);
	assert_false(is_open());
	shut_and_gather((here + 4096) | 1);
	assert_false(is_open());
	shut_and_gather((here - 4096) | 1);
	assert_true(is_open());
	assert_int_equal(own()->passing, 0);
	own()->passing = (here - 4096) | 1;
	call_guarded(SYS_rt_sigaction, SIGSEGV, &action, false);
	assert_int_equal(own()->passing, 0);
	rig_state->passing = 1; /* a thread without a slot */
	shut_and_gather(0);
	assert_false(is_open());
	rig_state->passing = other->passing = 0;
	signal(SIGSEGV, SIG_DFL);
	signal(SIGBUS, SIG_DFL);
	rig_down();
}

/* X20: a handler on an alternate stack inside of the thread's own is above the guard that it has
 * interrupted. */
static void test_an_alternate_stack_inside(void **unused)
{
	static const uint64_t none, faults = DT_LOADS_BITS;
	struct sigaction action = { .sa_handler = on_step, .sa_flags = SA_ONSTACK };
	stack_t inside = { .ss_sp = __builtin_alloca(INSIDE), .ss_size = INSIDE },
		disabled = { .ss_flags = SS_DISABLE };

	up();
	call_guarded(SYS_sigaltstack, (uint64_t)&inside, NULL, false);
	assert_int_equal(sigaction(SIGTRAP, &action, NULL), 0);
	call_guarded(SYS_rt_sigprocmask, SIG_SETMASK, &faults, true);
	assert_true(steps > 50);
	assert_false(is_open());
	call_guarded(SYS_rt_sigprocmask, SIG_SETMASK, &none, false);
	call_guarded(SYS_sigaltstack, (uint64_t)&disabled, NULL, false);
	gather("twenty bytes of text");
	assert_true(is_open());
	rig_down();
}

static unsigned jump_at; /* so many steps inside of the inner guard */
static bool is_inner, has_jumped;
static sigjmp_buf outer;

/* Once, where the thread is in a guard: begins another one, and jumps away from there. */
static void on_step_inside(int number)
{
	static const uint64_t none;
	uint64_t result;

	(void)number;
	if (is_inner && ++steps == jump_at)
		siglongjmp(outer, 1);
	if (is_inner || has_jumped || !own()->passing || is_open())
		return;
	is_inner = true;
	if (!sigsetjmp(outer, 1))
		pass_guard(SYS_rt_sigprocmask, SIG_SETMASK, &none, true, &result);
	is_inner = false;
	has_jumped = true;
	gather("twenty bytes of text");
}

/* X20: the thread is still in the outer guard. */
static void test_a_guard_inside_of_another(void **unused)
{
	static const uint64_t none, faults = DT_LOADS_BITS;
	struct sigaction action = { .sa_handler = on_step_inside, .sa_flags = SA_NODEFER };

	up();
	assert_int_equal(sigaction(SIGTRAP, &action, NULL), 0);
	steps = jump_at = 0;
	while (steps >= jump_at) {
		steps = 0;
		jump_at++;
		has_jumped = false;
		call_guarded(SYS_rt_sigprocmask, SIG_SETMASK, &faults, true);
		assert_true(has_jumped);
		assert_false(is_open());
		call_guarded(SYS_rt_sigprocmask, SIG_SETMASK, &none, false);
		gather("twenty bytes of text");
		assert_true(is_open());
	}
	assert_true(jump_at > 50);
	rig_down();
}

/* H42, X4: dyntrace has given the handlers back, maybe in another process only, when a thread is in
 * the guard: its handler is the program's own, and nobody loads any more. */
static void test_a_handler_that_comes_late(void **unused)
{
	struct dt_sigaction action = { .handler = (uint64_t)on_step }, now;

	up();
	fronts.pid = (uint32_t)getpid();
	__atomic_fetch_or(&rig_control->flags, DT_FRONTS_GONE, __ATOMIC_SEQ_CST);
	call_guarded(SYS_rt_sigaction, SIGSEGV, &action, false);
	assert_int_equal(syscall(SYS_rt_sigaction, SIGSEGV, NULL, &now, 8), 0);
	assert_true(now.handler == (uint64_t)on_step);
	gather("twenty bytes of text");
	assert_false(is_open());
	signal(SIGSEGV, SIG_DFL);
	signal(SIGBUS, SIG_DFL);
	rig_down();
}

/* The part of a signal's frame, from the stack pointer on, that the guard of rt_sigreturn reads. */
struct frame {
	uint64_t flags, link;
	stack_t alternate;
	uint64_t registers[32], mask;
};

/* The end of a handler with that frame, but for its system call. Gives the mask then. */
static uint64_t pass_end(struct frame *frame)
{
	uint64_t number = SYS_rt_sigreturn, made = (uint64_t)rig_control, mask = 0;
	register uint64_t sp __asm__("r12") = (uint64_t)frame;

	__asm__ volatile("xchgq	%%rsp, %[sp]\n\t"
			 "leaq	-128(%%rsp), %%rsp\n\t"
			 "call	*%[guard]\n\t"
			 "movq	%[sp], %%rsp"
			 : "+a"(number), "+c"(made), [sp] "+r"(sp)
			 : [guard] "r"(guard)
			 : "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc");
	assert_false(made);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &mask, 8);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &(uint64_t){ 0 }, NULL, 8);
	return mask;
}

/* X19: a thread makes no plain loads until the first handler on its alternate stack has ended. */
static void test_handlers_on_the_alternate_stack(void **unused)
{
	static char memory[1 << 16];
	stack_t stack = { .ss_sp = memory, .ss_size = sizeof(memory) },
		none = { .ss_flags = SS_DISABLE };
	struct frame *frame = (struct frame *)(memory + sizeof(memory) / 2);
	uint64_t came = (uint64_t)__builtin_frame_address(0) + 512;

	up();
	call_guarded(SYS_sigaltstack, (uint64_t)&stack, NULL, false);
	*frame = (struct frame){ .alternate = stack };
	own()->looked = (uint64_t)memory + sizeof(memory);
	own()->used = came;
	for (int i = 0; i < 3; i++)
		gather("twenty bytes of text");
	assert_false(is_open());
	frame->registers[15] = (uint64_t)memory + 4096; /* of a handler on top of it */
	assert_int_equal(pass_end(frame), 0);
	assert_int_equal(own()->used, came);
	frame->registers[15] = (uint64_t)&stack;
	assert_int_equal(pass_end(frame) & DT_LOADS_BITS, DT_LOADS_BITS);
	assert_int_equal(own()->used, 0);
	assert_false(is_open());
	gather("twenty bytes of text");
	assert_true(is_open());
	assert_int_equal(pass_end(frame), 0);
	assert_true(is_open());
	call_guarded(SYS_sigaltstack, (uint64_t)&stack, NULL, false);
	own()->looked = (uint64_t)memory + sizeof(memory);
	own()->used = (uint64_t)memory - 4096; /* on a stack that nobody knows */
	gather("twenty bytes of text");
	assert_true(is_open());
	assert_int_equal(own()->used, 1);
	call_guarded(SYS_sigaltstack, (uint64_t)&none, NULL, false);
	rig_down();
}

static uint64_t ask(uint64_t id)
{
	uint64_t slot, none = 0;

	__asm__ volatile("lea -128(%%rsp), %%rsp; call *%%rsi; lea 128(%%rsp), %%rsp"
			 : "=c"(slot), "+a"(id), "+d"(none)
			 : "b"(rig_control), "S"(rig_slow)
			 : "memory", "cc");
	return slot;
}

/* X7: no trampoline reads memory once a filter is about to come. */
static void test_forbidden_loads(void **unused)
{
	up();
	assert_int_equal(ask(DT_ASK_STILL), 0);
	assert_false(is_open());
	gather("twenty bytes of text");
	assert_true(is_open()); /* nothing forbids it: the thread was looked at again */
	rig_down();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_guard_with_hits),
		cmocka_unit_test(test_a_wait_with_another_mask),
		cmocka_unit_test(test_who_may_load),
		cmocka_unit_test(test_nobody_loads_with_larger_frames),
		cmocka_unit_test(test_nobody_loads_after_unsafe_calls),
		cmocka_unit_test(test_nobody_loads_without_handlers),
		cmocka_unit_test(test_where_faults_go),
		cmocka_unit_test(test_loads_that_were_left),
		cmocka_unit_test(test_guards_that_were_left),
		cmocka_unit_test(test_an_alternate_stack_inside),
		cmocka_unit_test(test_a_guard_inside_of_another),
		cmocka_unit_test(test_a_handler_that_comes_late),
		cmocka_unit_test(test_handlers_on_the_alternate_stack),
		cmocka_unit_test(test_forbidden_loads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
