/*
 * Rules of exits, without a target: functions that may have them, safe points of a thread, sums of
 * durations, the unwind table's bytes.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/base/cleanup.h"
#include "control/remote/safepoint.h"
#include "control/base/vec.h"
#include "control/exits/check/exit_body.h"
#include "control/exits/check/exit_check.h"
#include "control/exits/exits.h"
#include "control/record/histogram.h"
#include "control/record/latency.h"
#include "control/session/session.h"
#include "shared/layout.h"

/* ---- functions ------------------------------------------------------------------------------- */

void rule_plain(void);
void rule_reads_return(void);
void rule_pops_return(void);
void rule_without_table(void);
void rule_part(void);
void rule_reads_later(void);
void rule_reads_by_rbp(void);
void rule_reads_others(void);
__asm__(".text\n"
	".globl rule_plain\n.type rule_plain, @function\n"
	"rule_plain: .cfi_startproc\n push %rbx\n .cfi_adjust_cfa_offset 8\n mov (%rsp), %rax\n "
	"pop %rbx\n"
	" .cfi_adjust_cfa_offset -8\n ret\n .cfi_endproc\n.size rule_plain, . - rule_plain\n"
	".globl rule_reads_return\n.type rule_reads_return, @function\n"
	"rule_reads_return: .cfi_startproc\n nop\n mov (%rsp), %rax\n ret\n .cfi_endproc\n"
	".size rule_reads_return, . - rule_reads_return\n"
	".globl rule_pops_return\n.type rule_pops_return, @function\n"
	"rule_pops_return: .cfi_startproc\n pop %rcx\n .cfi_adjust_cfa_offset -8\n .cfi_register "
	"rip, rcx\n"
	" jmp *%rcx\n .cfi_endproc\n.size rule_pops_return, . - rule_pops_return\n"
	".globl rule_part\n.type rule_part, @function\n"
	"rule_part: .cfi_startproc\n .cfi_def_cfa_offset 32\n add $24, %rsp\n .cfi_def_cfa_offset "
	"8\n ret\n"
	" .cfi_endproc\n.size rule_part, . - rule_part\n"
	".globl rule_reads_later\n.type rule_reads_later, @function\n"
	"rule_reads_later: .cfi_startproc\n push %rbx\n .cfi_adjust_cfa_offset 8\n"
	" sub $0x100, %rsp\n"
	" .cfi_adjust_cfa_offset 0x100\n mov %rdi, (%rsp)\n mov 0x108(%rsp), %rax\n"
	" add $0x100, %rsp\n"
	" .cfi_adjust_cfa_offset -0x100\n pop %rbx\n .cfi_adjust_cfa_offset -8\n ret\n"
	" .cfi_endproc\n"
	".size rule_reads_later, . - rule_reads_later\n"
	".globl rule_reads_by_rbp\n.type rule_reads_by_rbp, @function\n"
	"rule_reads_by_rbp: .cfi_startproc\n push %rbp\n .cfi_adjust_cfa_offset 8\n"
	" .cfi_offset rbp, -16\n mov %rsp, %rbp\n"
	" .cfi_def_cfa_register rbp\n sub $16, %rsp\n mov 8(%rbp), %rax\n leave\n"
	" .cfi_def_cfa rsp, 8\n ret\n .cfi_endproc\n"
	".size rule_reads_by_rbp, . - rule_reads_by_rbp\n"
	/* an argument on the stack, a saved register, the address behind an array, and rbp as any
	 * register */
	".globl rule_reads_others\n.type rule_reads_others, @function\n"
	"rule_reads_others: .cfi_startproc\n push %rbp\n .cfi_adjust_cfa_offset 8\n"
	" sub $0x18, %rsp\n .cfi_adjust_cfa_offset 0x18\n"
	" mov 0x28(%rsp), %rax\n mov 0x18(%rsp), %rcx\n lea 0x20(%rsp), %rdx\n mov 8(%rbp), %rsi\n"
	" add $0x18, %rsp\n"
	" .cfi_adjust_cfa_offset -0x18\n pop %rbp\n .cfi_adjust_cfa_offset -8\n ret\n"
	" .cfi_endproc\n"
	".size rule_reads_others, . - rule_reads_others\n"
	".globl rule_without_table\n.type rule_without_table, @function\n"
	"rule_without_table: nop\n ret\n.size rule_without_table, . - rule_without_table\n");

static void test_functions(void **state)
{
	static const struct {
		const char *symbol, *name, *why;
	} cases[] = {
		{ "rule_plain", "rule_plain", NULL },
		{ "main", "main", NULL },
		{ "rule_reads_return", "f", "its own return address" },
		{ "rule_pops_return", "f", "its own return address" },
		{ "rule_without_table", "f", "no unwind information" },
		{ "rule_part", "f.cold", "not a regular function" },
		{ "_start", "_start", "not a regular function" },
		{ "rule_plain", "_setjmp", "keeps" },
		{ "rule_plain", "__sigsetjmp", "keeps" },
		{ "rule_plain", "setjmper", NULL },
		{ "rule_plain", "vfork", "twice" },
		{ "rule_plain", "dlsym", "its caller" },
		{ "rule_plain", "_dl_runtime_resolve_xsavec", "PLT" },
		{ "rule_plain", "_Unwind_RaiseException", "unwinder" },
	};
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY);
	struct symtab *symtab;

	assert_null(symtab_open(fd, "test", &symtab));
	struct frame_rules *rules = frame_rules_open(symtab);
	assert_non_null(rules);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct symbol *symbol = symtab_find(symtab, cases[i].symbol);

		assert_non_null(symbol);
		_cleanup_error_ struct error *error =
			exit_check(symtab, rules, symbol->address, cases[i].name);
		if (!cases[i].why && error)
			fail_msg("%s: %s", cases[i].name, error_text(error));
		if (cases[i].why && (!error || !strstr(error_text(error), cases[i].why)))
			fail_msg("%s (%s): %s", cases[i].symbol, cases[i].name,
				 error ? error_text(error) : "-");
	}
	assert_false(symtab_is_go(symtab));
	assert_false(symtab_is_stripped(symtab));
	frame_rules_close(rules);
	symtab_close(symtab);
}

static void test_shadow_stack(void **state)
{
	assert_false(exits_has_shadow_stack("Name:\tx\nPid:\t1\n"));
	assert_false(exits_has_shadow_stack(
		"Name:\tshstk\nx86_Thread_features:\t\nx86_Thread_features_locked:\tshstk\n"));
	assert_true(exits_has_shadow_stack(
		"Name:\tx\nx86_Thread_features:\tshstk wrss \nx86_Thread_features_locked:\t\n"));
}

/* ---- safe points ----------------------------------------------------------------------------- */

static bool is_even(void *context, int fd)
{
	return fd % 2 == 0;
}

static void test_safe_points(void **state)
{
	static const struct {
		const char *line;
		enum safepoint_rest is;
	} cases[] = {
		{ "232 0x5 0x7f6e 0x2790 0x64 0x2 0x0 0x7ffc 0x7f6e\n",
		  REST_CERTAIN }, /* epoll_wait */
		{ "7 0x7ffc 0x1 0xffffffff 0x0 0x0 0x0 0x7ffc 0x7f6e\n", REST_CERTAIN }, /* poll */
		{ "230 0x0 0x0 0x7ffc 0x0 0x0 0x0 0x7ffc 0x7f6e\n",
		  REST_CERTAIN }, /* clock_nanosleep */
		{ "61 0xffffffff 0x0 0x0 0x0 0x0 0x0 0x7ffc 0x7f6e\n", REST_CERTAIN }, /* wait4 */
		{ "202 0x5640 0x189 0x0 0x0 0x0 0xffffffff 0x7f6e 0x7f6e\n",
		  REST_BY_STACK }, /* futex */
		{ "219 0x5640 0x189 0x0 0x0 0x0 0x0 0x7f6e 0x7f6e\n",
		  REST_BY_STACK }, /* restart_syscall */
		{ "0 0x4 0x7ffc 0x1 0x0 0x0 0x0 0x7ffc 0x7f6e\n",
		  REST_CERTAIN }, /* read of a pipe */
		{ "0 0x3 0x7ffc 0x1 0x0 0x0 0x0 0x7ffc 0x7f6e\n", REST_NOT }, /* read of a file */
		{ "257 0x3 0x7ffc 0x1 0x0 0x0 0x0 0x7ffc 0x7f6e\n", REST_NOT }, /* openat */
		{ "-1 0x7ffc 0x7f6e\n", REST_NOT },
		{ "running\n", REST_NOT },
		{ "", REST_NOT },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (safepoint_judge(cases[i].line, is_even, NULL) != cases[i].is)
			fail_msg("%s", cases[i].line);
	}
}

/* ---- durations ------------------------------------------------------------------------------- */

static void test_buckets(void **state)
{
	uint32_t before = 0;

	for (uint64_t value = 0; value < 1u << 20; value += value / 64 + 1) {
		uint32_t bucket = histogram_bucket(value, DISTRIBUTION_BITS);
		uint64_t middle = histogram_middle(bucket, DISTRIBUTION_BITS);
		uint64_t off = middle > value ? middle - value : value - middle;

		assert_true(bucket >= before && bucket < 60u << DISTRIBUTION_BITS);
		assert_true(off * 1000 <= value * 17); /* 1.6% */
		before = bucket;
	}
	assert_true(histogram_bucket(UINT64_MAX, DISTRIBUTION_BITS) < 60u << DISTRIBUTION_BITS);
}

/* Events of two functions, ids 0 and 2, as the reader hands them on. */
struct script {
	uint64_t words[256];
	size_t count;
};

static void entry(struct script *script, uint32_t id)
{
	script->words[script->count++] = id;
}

static void leave(struct script *script, uint32_t id, uint64_t duration)
{
	script->words[script->count++] = id + 1;
	script->words[script->count++] = 0;
	script->words[script->count++] = duration;
}

static void read_script(struct latency *latency, const struct script *script, uint64_t lost)
{
	latency_events(latency, &(struct latency_batch){ .stream = 7,
							 .events = script->words,
							 .words = script->count,
							 .begin = 1ULL << 40,
							 .lost = lost,
							 .frequency = 1000000000 });
}

static void test_self_time(void **state)
{
	struct event_type items[] = {
		{ .size = 8 }, { .size = 24 }, { .size = 8 }, { .size = 24 }
	};
	struct event_types types = { .items = items, .count = 4 };
	struct tracepoint_times outer, inner;
	struct latency latency = { 0 };
	struct script script = { 0 };

	latency_init(&latency, &types);
	assert_true(latency_add(&latency, 0));
	assert_true(latency_add(&latency, 2));
	entry(&script, 0);
	for (unsigned i = 1; i <= 10; i++) {
		entry(&script, 2);
		leave(&script, 2, i * 10);
	}
	leave(&script, 0, 1000);
	read_script(&latency, &script, 0);
	latency_times(&latency, 0, &outer);
	latency_times(&latency, 2, &inner);
	assert_int_equal(inner.calls, 10);
	assert_int_equal(inner.total, 550);
	assert_int_equal(inner.self, 550);
	assert_int_equal(inner.max, 100);
	assert_in_range(inner.p50, 59, 61);
	assert_in_range(inner.p90, 98, 100);
	assert_int_equal(outer.total, 1000);
	assert_int_equal(outer.self, 450);
	assert_true(outer.self_known && inner.self_known);
	script.count = 0;
	entry(&script, 0);
	entry(&script, 2); /* never returns: unwound */
	leave(&script, 0, 50);
	read_script(&latency, &script, 0);
	latency_times(&latency, 0, &outer);
	latency_times(&latency, 2, &inner);
	assert_int_equal(outer.self, 500);
	assert_true(outer.self_known && inner.self_known);
	latency_free(&latency);
}

/* (O1) The total of a recursive function is the time of its outermost call, also if events of
 * another thread come in between; mean and percentiles are per call. (O2) A loss cuts what is
 * open. */
static void test_recursion_and_loss(void **state)
{
	struct event_type items[] = { { .size = 8 }, { .size = 24 } };
	struct event_types types = { .items = items, .count = 2 };
	struct latency latency = { 0 };
	struct tracepoint_times times;
	struct script script = { 0 };

	latency_init(&latency, &types);
	assert_true(latency_add(&latency, 0));
	for (unsigned i = 0; i < 10; i++)
		entry(&script, 0);
	for (unsigned i = 0; i < 4; i++)
		leave(&script, 0, 20 + i);
	read_script(&latency, &script, 0);
	script.count = 0;
	entry(&script, 0);
	leave(&script, 0, 1000);
	latency_events(&latency, &(struct latency_batch){ .stream = 8,
							  .events = script.words,
							  .words = script.count });
	script.count = 0;
	for (unsigned i = 4; i < 10; i++)
		leave(&script, 0, 20 + i);
	read_script(&latency, &script, 0);
	latency_times(&latency, 0, &times);
	assert_int_equal(times.calls, 11);
	assert_int_equal(times.total, 29 + 1000);
	assert_int_equal(times.self, 29 + 1000);
	assert_int_equal(times.durations, 245 + 1000);
	script.count = 0;
	entry(&script, 0);
	entry(&script, 0);
	read_script(&latency, &script, 0);
	script.count = 0;
	leave(&script, 0, 5000);
	leave(&script, 0, 6000);
	leave(&script, 0, 7000);
	read_script(&latency, &script, 3);
	latency_times(&latency, 0, &times);
	assert_int_equal(times.calls, 11);
	assert_int_equal(times.cut, 3);
	latency_free(&latency);
}

/* In the middle of a function, at any depth. */
static void test_bodies(void **state)
{
	static const struct {
		const char *symbol;
		bool touches;
	} cases[] = { { "rule_plain", false },	     { "main", false },
		      { "rule_reads_return", true }, { "rule_reads_later", true },
		      { "rule_reads_by_rbp", true }, { "rule_reads_others", false } };
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY);
	struct cfi_rows rows = { 0 };
	struct symtab *symtab;

	assert_null(symtab_open(fd, "test", &symtab));
	assert_null(cfi_compile(symtab, &rows));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct symbol *symbol = symtab_find(symtab, cases[i].symbol);

		assert_non_null(symbol);
		if (exit_body_touches_return(symtab, &rows, symbol->address, symbol->size) !=
		    cases[i].touches)
			fail_msg("%s", cases[i].symbol);
	}
	vec_free(&rows);
	symtab_close(symtab);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_functions),   cmocka_unit_test(test_shadow_stack),
		cmocka_unit_test(test_bodies),
		cmocka_unit_test(test_safe_points), cmocka_unit_test(test_buckets),
		cmocka_unit_test(test_self_time),
		cmocka_unit_test(test_recursion_and_loss),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
