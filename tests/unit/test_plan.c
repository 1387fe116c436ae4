/*
 * Branch targets, and the sites that the planner chooses: on functions of this very program, whose
 * labels the test knows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/stat.h>
#include <stdio.h>
#include <cmocka.h>

#include "control/base/cleanup.h"
#include "control/placement/branch_targets.h"
#include "control/placement/plan.h"
#include "place.h"

#define SCAN_CPU_SECONDS 5 /* with sanitizers, too */

/* Labels are global so that their addresses are known here; function sizes are what matters to the
 * planner. */
#define FUNCTION(name, body)                                                                       \
	".globl " #name "\n.type " #name ", @function\n.balign 16\n" #name                         \
	":\n.cfi_startproc\n" body ".cfi_endproc\n.size " #name ", . - " #name "\n"

__asm__(".text\n"
	/* 3 + 2 bytes, and a loop back to the second instruction. */
	FUNCTION(plan_loop, "mov %rdi, %rax\n"
			    ".globl plan_loop_inside\nplan_loop_inside:\n"
			    "dec %eax\n jne plan_loop_inside\n ret\n")
	/* A loop back to the very first instruction. */
	FUNCTION(plan_first, "dec %edi\n xor %eax, %eax\n test %edi, %edi\n jne plan_first\n ret\n")
	/* Somebody takes the address of what is inside. */
	FUNCTION(plan_taken, "xor %eax, %eax\n"
			     ".globl plan_taken_inside\nplan_taken_inside:\n"
			     "mov $1, %eax\n ret\n")
		FUNCTION(plan_taker, "lea plan_taken_inside(%rip), %rax\n ret\n")
	/* A pointer in data leads inside. */
	FUNCTION(plan_pointed, "xor %eax, %eax\n"
			       ".globl plan_pointed_inside\nplan_pointed_inside:\n"
			       "mov $1, %eax\n ret\n")
	/* A jump table leads inside. */
	FUNCTION(plan_tabled, "xor %eax, %eax\n"
			      ".globl plan_tabled_inside\nplan_tabled_inside:\n"
			      "mov $1, %eax\n ret\n")
		FUNCTION(
			plan_jumper,
			"lea plan_table(%rip), %rdx\n movslq (%rdx,%rdi,4), %rax\n add %rdx, %rax\n"
			" jmp *%rax\n")
	/* A computed goto: distances from a label, in a table that the function takes. */
	FUNCTION(
		plan_goto,
		"lea plan_goto_base(%rip), %rdx\n lea plan_labels(%rip), %rcx\n"
		" movslq (%rcx,%rdi,4), %rax\n"
		"add %rdx, %rax\n jmp *%rax\n"
		".globl plan_goto_base\nplan_goto_base: xor %eax, %eax\n inc %eax\n"
		/* No number near the table is as large as this distance. */
		".fill 7777, 1, 0x90\n dec %ecx\n dec %edx\n"
		".globl plan_goto_inside\nplan_goto_inside: inc %eax\n inc %ecx\n ret\n")
	/* The same with a jump that nothing is known of: all of it may be reached. */
	FUNCTION(plan_anywhere,
		 "lea plan_anywhere_base(%rip), %rdx\n shl $2, %rdi\n add %rdi, %rdx\n jmp *%rdx\n"
		 "plan_anywhere_base: xor %eax, %eax\n"
		 ".globl plan_anywhere_inside\nplan_anywhere_inside: inc %eax\n ret\n")
	/* The jump of plan_goto, among thousands of labels and of addresses of data: to read all
	 * words around each address as distances from each label would take minutes. */
	FUNCTION(plan_crowded, "lea plan_labels(%rip), %rdx\n lea plan_crowded_base(%rip), %rcx\n"
		 "movslq (%rdx, %rdi, 4), %rax\n add %rcx, %rax\n jmp *%rax\n"
		 "plan_crowded_base: .rept 4000\n 1: lea 1b(%rip), %rdx\n .endr\n"
		 ".set place, 0\n .rept 4000\n lea plan_crowd + place(%rip), %rdx\n"
		 ".set place, place + 20\n .endr\n ret\n")
	/* A jump past a lock prefix, as a libc has it where there is one thread only. */
	FUNCTION(plan_lock,
		 "test %edi, %edi\n je 1f\n lock\n 1: incl (%rsi)\n mov $1, %eax\n ret\n")
	/* Two bytes, then padding. */
	FUNCTION(plan_short, "nop\n ret\n") ".balign 16\n"
	/* Two bytes, then the next function at once. */
	FUNCTION(
		plan_tight,
		"nop\n ret\n") ".globl plan_next\n.type plan_next, @function\n"
		"plan_next: .cfi_startproc\n mov $7, %eax\n ret\n .cfi_endproc\n"
			       ".size plan_next, . - plan_next\n"
	/* A call that isn't the last of what would move. */
	FUNCTION(plan_call, "call *%rax\n nop\n nop\n nop\n ret\n")
	/* A plain prologue. */
	FUNCTION(plan_plain, "push %rbx\n mov %rdi, %rbx\n mov $5, %eax\n pop %rbx\n ret\n")
	/* One byte, and then something that is jumped to; its bytes are the only distance there
	 * is. */
	FUNCTION(
		plan_lone,
		"ret\n.globl plan_lone_inside\nplan_lone_inside:\n mov $0x40, %al\n"
		".byte 0x48, 0xb9\n"
		".quad 0x4948474645444342\n jmp plan_lone_inside\n")
	/* A restartable sequence. */
	FUNCTION(
		plan_rseq,
		"mov %rdi, %rax\n plan_rseq_start: mov %rsi, %rdx\n mov %rdx, (%rax)\n"
		"plan_rseq_end:\n"
		"ret\n .long 0x53053053\n plan_rseq_abort: mov $1, %eax\n ret\n")
	".section __rseq_cs, \"aw\"\n .balign 32\n .long 0, 0\n .quad plan_rseq_start\n"
	".quad plan_rseq_end - plan_rseq_start, plan_rseq_abort\n"
	".section .data\n .balign 8\nplan_pointer: .quad plan_pointed_inside\n"
	".section .rodata\n .balign 4\nplan_table: .long plan_tabled_inside - plan_table\n"
	".long plan_jumper - plan_table\n .long 0x70000000\n"
	"plan_labels: .long plan_goto_base - plan_goto_base, plan_goto_inside - plan_goto_base\n"
	"plan_crowd: .fill 80000, 1, 0x70\n"
	".text\n");

extern const char plan_loop_inside[], plan_first[], plan_taken_inside[], plan_pointed_inside[],
	plan_tabled_inside[], plan_plain[], plan_goto_inside[], plan_anywhere_inside[],
	plan_crowded[];

struct fixture {
	struct proc *proc;
	struct modules modules;
	bool shadow_stack;
};

static int setup(void **state)
{
	static struct fixture fixture;
	struct maps maps = { 0 };

	memset(&fixture, 0, sizeof(fixture));
	assert_null(proc_open_plain(getpid(), &fixture.proc));
	assert_null(maps_read(fixture.proc, &maps));
	assert_null(modules_read(fixture.proc, &maps, &fixture.modules));
	maps_free(&maps);
	*state = &fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;

	modules_free(&fixture->modules);
	proc_close(fixture->proc);
	return 0;
}

static void test_branch_targets(void **state)
{
	struct fixture *fixture = *state;
	struct module *module = fixture->modules.items[0];
	struct symtab *symtab;
	struct branch_targets *branch_targets;
	const char *const reached[] = { plan_loop_inside,    plan_first,	 plan_taken_inside,
					plan_pointed_inside, plan_tabled_inside, plan_goto_inside,
					plan_anywhere_inside };

	assert_null(module_symtab(fixture->proc, module, &symtab));
	clock_t before = clock();
	assert_null(branch_targets_scan(symtab, &branch_targets));
	assert_true(clock() - before < SCAN_CPU_SECONDS * CLOCKS_PER_SEC);
	for (size_t i = 0; i < sizeof(reached) / sizeof(reached[0]); i++)
		assert_true(
			branch_targets_at(branch_targets, (uint64_t)reached[i] - module->bias.v));
	/* Added at run time: the compiler would take plan_plain + 1 with a lea, and so lead
	 * there. */
	volatile uint64_t plain = (uint64_t)plan_plain;
	assert_false(branch_targets_at(branch_targets, plain + 1 - module->bias.v));
	assert_false(branch_targets_at(branch_targets, plain + 4 - module->bias.v));
	volatile uint64_t inside = (uint64_t)plan_goto_inside;
	assert_false(branch_targets_at(branch_targets, inside - 2 - module->bias.v));
	/* inside an instruction: with so many labels every byte counts */
	volatile uint64_t crowded = (uint64_t)plan_crowded;
	assert_true(branch_targets_at(branch_targets, crowded + 1 - module->bias.v));
	assert_true(branch_targets_at(branch_targets, 1)); /* outside the text: nothing is known */
	branch_targets_free(branch_targets);
}

/* Plans one location; gives the refusal's text, or NULL, the tactic and the site's length. */
static const char *plan_one(struct fixture *fixture, const char *text, const char **ret_tactic,
			    size_t *ret_length)
{
	static char reason[256];
	struct location location;
	struct places places = { 0 };
	struct planner *planner;
	struct probe probe = { .event.size = 8 }, *probes[] = { &probe };

	assert_null(location_parse(text, &location));
	assert_null(locate(fixture->proc, &fixture->modules, &location, false, &places));
	assert_int_equal(places.count, 1);
	probe.place = places.items[0];
	assert_null(planner_create(fixture->proc, &planner));
	if (fixture->shadow_stack)
		planner_keep_calls(planner);
	assert_null(planner_decide(planner, probes, 1));
	reason[0] = '\0';
	if (probe.refusal)
		snprintf(reason, sizeof(reason), "%s", error_text(probe.refusal));
	else
		*ret_length = probe.site->length;
	*ret_tactic = probe.refusal ? NULL : site_tactic(probe.site);
	error_free(probe.refusal);
	planner_destroy(planner);
	places_free(&places);
	location_clear(&location);
	return reason[0] ? reason : NULL;
}

static void test_places(void **state)
{
	static const struct {
		const char *location, *tactic;
		size_t length;
	} placed[] = {
		{ "plan_plain", "jump", 9 },
		{ "plan_plain+4", "jump", 5 },
		{ "plan_plain+9", "jump", 5 }, /* a pop: the site begins before it */
		{ "plan_plain+10", "jump", 5 }, /* a ret */
		{ "plan_first", "jump", 6 },
		{ "plan_next", "jump", 5 },
		{ "plan_loop+3", "jump", 5 },
		{ "plan_short", "jump", 5 },
		{ "plan_loop", "short-jump", 3 },
		{ "plan_taken", "short-jump", 2 },
		{ "plan_pointed", "short-jump", 2 },
		{ "plan_tabled", "short-jump", 2 },
		{ "plan_tight", "short-jump", 2 },
		{ "plan_call", "short-jump", 2 },
		{ "plan_call+5", "jump", 5 },
		{ "plan_lone", "pun", 1 },
	};

	for (size_t i = 0; i < sizeof(placed) / sizeof(placed[0]); i++) {
		const char *tactic;
		size_t length = 0;
		const char *reason = plan_one(*state, placed[i].location, &tactic, &length);

		if (reason)
			fail_msg("%s: %s", placed[i].location, reason);
		if (strcmp(tactic, placed[i].tactic))
			fail_msg("%s: by %s", placed[i].location, tactic);
		assert_in_range(length, placed[i].length, placed[i].length + 10);
	}
}

static void test_refuses(void **state)
{
	static const struct {
		const char *location, *part;
	} refused[] = {
		{ "plan_plain+2",
		  "not the start of an instruction (the nearest are plan_plain+0x1 and "
		  "plan_plain+0x4)" },
		{ "plan_rseq+3", "restartable sequence" },
		/* half of it is another instruction */
		{ "plan_lock+4", "its instruction cannot be moved" },
	};
	const char *tactic;
	size_t length;

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		const char *reason = plan_one(*state, refused[i].location, &tactic, &length);

		if (!reason || !strstr(reason, refused[i].part))
			fail_msg("%s: %s", refused[i].location, reason ? reason : "placed");
	}
}

/* In a process with a shadow stack no call moves, by whatever tactic; everything else is placed as
 * ever. */
static void test_shadow_stack(void **state)
{
	struct fixture *fixture = *state;
	const char *tactic, *reason;
	size_t length;

	fixture->shadow_stack = true;
	reason = plan_one(fixture, "plan_call", &tactic, &length);
	assert_non_null(reason);
	assert_non_null(
		strstr(reason,
		       "would have to move, which the process's shadow stack (CET) forbids"));
	assert_null(plan_one(fixture, "plan_call+5", &tactic, &length)); /* what is behind it */
	assert_string_equal(tactic, "jump");
	assert_null(plan_one(fixture, "plan_plain", &tactic, &length));
	assert_string_equal(tactic, "jump");
	fixture->shadow_stack = false;
	assert_null(plan_one(fixture, "plan_call", &tactic, &length));
}

/* L1: all instructions of a function at once; each has its place in the order of the code. */
static void test_every_instruction(void **state)
{
	struct fixture *fixture = *state;
	static const char *const locations[] = { "plan_plain", "plan_plain+1", "plan_plain+4",
						 "plan_plain+9", "plan_plain+10" };
	struct places places[5] = { 0 };
	struct probe probes[10] = { 0 }, *list[10];
	struct planner *planner;

	assert_null(planner_create(fixture->proc, &planner));
	for (size_t i = 0; i < 10; i++) { /* two at each */
		struct location location;

		if (i < 5) {
			assert_null(location_parse(locations[i], &location));
			assert_null(locate(fixture->proc, &fixture->modules, &location, false,
					   &places[i]));
			location_clear(&location);
		}
		probes[i].place = places[i % 5].items[0];
		probes[i].event.size = 8;
		list[9 - i] = &probes[i];
	}
	assert_null(planner_decide(planner, list, 10));
	for (size_t i = 0; i < 10; i++)
		assert_null(probes[i].refusal);
	assert_int_equal(planner_site_count(planner), 2); /* push, mov, mov; pop, ret and padding */
	assert_int_equal(planner_site(planner, 0)->length, 9);
	assert_int_equal(planner_site(planner, 0)->probes.count, 6);
	assert_int_equal(planner_site(planner, 1)->probes.count, 4);
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(planner_site(planner, 0)->probes.items[i]->event.insn, i / 2);
	planner_destroy(planner);
	for (size_t i = 0; i < 5; i++)
		places_free(&places[i]);
}

/* ---- later: probes among those that are placed ----------------------------------------------- */

#define ROOM (64 * 1024)

/* What emitting needs, as if the target had mapped it. */
struct later {
	struct fixture *fixture;
	struct planner *planner;
	struct near_pool *pool;
	uint8_t *code;
	struct places places[4];
	struct probe probes[4];
	size_t count;
};

static void later_begin(struct later *later, struct fixture *fixture)
{
	struct module *module = fixture->modules.items[0];

	*later = (struct later){ .fixture = fixture,
				 .pool = near_pool_create(),
				 .code = calloc(1, ROOM) };
	assert_null(planner_create(fixture->proc, &later->planner));
	assert_true(near_pool_add(later->pool, taddr_of((module->high.v + 0x100000) & ~0xfffULL), 0,
				  ROOM / 2));
}

static void later_end(struct later *later)
{
	for (size_t i = 0; i < later->count; i++) {
		error_free(later->probes[i].refusal);
		places_free(&later->places[i]);
	}
	planner_destroy(later->planner);
	near_pool_destroy(later->pool);
	free(later->code);
}

static struct probe *later_add(struct later *later, const char *text)
{
	struct probe *probe = &later->probes[later->count], *list[] = { probe };
	struct tramp_env env = { .control = taddr_of(0x10000),
				 .slots = taddr_of(0x20000),
				 .pool = taddr_of(0x30000) };
	struct location location;

	assert_null(location_parse(text, &location));
	assert_null(locate(later->fixture->proc, &later->fixture->modules, &location, false,
			   &later->places[later->count]));
	location_clear(&location);
	probe->place = later->places[later->count++].items[0];
	probe->event.size = 8;
	assert_null(planner_decide(later->planner, list, 1));
	assert_null(planner_emit(later->planner, &env, later->pool, later->code));
	return probe;
}

/* What patch_place would do. */
static void later_place(struct later *later, enum patch_state state)
{
	for (size_t i = 0; i < planner_site_count(later->planner); i++) {
		struct patch_site *patch = &planner_site(later->planner, i)->patch;

		if (patch->state != PATCH_PLANNED)
			continue;
		patch->state = state;
		patch->error =
			state == PATCH_FAILED ? error_new(ERROR_REFUSED, "it is in use") : NULL;
	}
}

static void later_settle(struct later *later, size_t expected)
{
	struct site_list gone = { 0 };

	assert_true(planner_settle(later->planner, &gone));
	assert_int_equal(gone.count, expected);
	assert_int_equal(planner_superseded(later->planner)->count, 0);
	for (size_t i = 0; i < gone.count; i++)
		planner_free_site(gone.items[i], later->pool);
	vec_free(&gone);
}

/* (L2, L4) A new site takes over the probes of the old one, which stays as it was emitted. */
static void test_added_later(void **state)
{
	struct later later;

	later_begin(&later, *state);
	struct probe *first = later_add(&later, "plan_plain");
	later_place(&later, PATCH_PLACED);
	struct site *old = first->site;
	struct probe *second = later_add(&later, "plan_plain+4"); /* inside */
	assert_null(second->refusal);
	assert_ptr_equal(first->site, second->site);
	assert_ptr_not_equal(first->site, old);
	assert_int_equal(planner_superseded(later.planner)->count, 1);
	assert_ptr_equal(planner_superseded(later.planner)->items[0], old);
	assert_int_not_equal(old->patch.group, 0);
	assert_int_equal(old->patch.group, first->site->patch.group);
	assert_int_equal(planner_site_count(later.planner), 1);
	later_place(&later, PATCH_PLACED);
	later_settle(&later, 1);
	assert_int_equal(first->site->patch.group, 0);
	struct probe *third = later_add(&later, "plan_plain"); /* the same place again */
	assert_ptr_equal(third->site, first->site);
	assert_int_equal(third->site->probes.count, 3);
	later_place(&later, PATCH_PLACED);
	later_settle(&later, 1);
	later_end(&later);
}

/* (L4) If the new site can't be placed, all is as before, and the new probe alone is refused. */
static void test_added_later_in_vain(void **state)
{
	struct later later;

	later_begin(&later, *state);
	struct probe *first = later_add(&later, "plan_plain");
	later_place(&later, PATCH_PLACED);
	struct site *old = first->site;
	uint32_t offset = first->event.switch_offset;
	taddr on = first->event.on;
	struct probe *second = later_add(&later, "plan_plain+4");
	assert_true(first->site != old);
	later_place(&later, PATCH_FAILED);
	later_settle(&later, 1);
	assert_ptr_equal(first->site, old);
	assert_int_equal(old->patch.state, PATCH_PLACED);
	assert_int_equal(old->patch.group, 0);
	assert_int_equal(first->event.switch_offset, offset);
	assert_int_equal(first->event.on.v, on.v);
	assert_null(first->refusal);
	assert_null(second->site);
	assert_string_equal(error_text(second->refusal), "it is in use");
	later_end(&later);
}

/* What is no instruction is none in a site that is placed either. */
static void test_added_later_inside_an_instruction(void **state)
{
	struct later later;

	later_begin(&later, *state);
	later_add(&later, "plan_plain");
	later_place(&later, PATCH_PLACED);
	struct probe *second = later_add(&later, "plan_plain+2");
	assert_string_equal(
		error_text(second->refusal),
		"not the start of an instruction (the nearest are plan_plain+0x1 and "
		"plan_plain+0x4)");
	later_settle(&later, 0);
	later_end(&later);
}

static struct branch_targets *get_branch_targets(const char *path, struct symtab **symtab)
{
	struct branch_targets *branch_targets = NULL;
	int fd = open(path, O_RDONLY);

	assert_true(fd >= 0);
	assert_null(symtab_open(fd, path, symtab));
	close(fd);
	assert_null(branch_cache_get(*symtab, &branch_targets));
	return branch_targets;
}

/* A file is scanned once, also when its first user is gone; but again when it has changed. */
static void test_files_are_remembered(void **state)
{
	char path[64], command[128];
	struct symtab *first, *second, *third;

	snprintf(path, sizeof(path), "%s/dyntrace-plan-XXXXXX", place_memory());
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	snprintf(command, sizeof(command), "cp /bin/true %s", path);
	assert_int_equal(system(command), 0);
	struct branch_targets *branch_targets = get_branch_targets(path, &first);
	symtab_close(first);
	assert_ptr_equal(get_branch_targets(path, &second), branch_targets);
	branch_cache_put(branch_targets);
	assert_true(branch_targets_at(branch_targets, 0)); /* there is still one user */
	const struct timespec times[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
	struct branch_targets *other = get_branch_targets(path, &third);
	assert_ptr_not_equal(other, branch_targets);
	branch_cache_put(branch_targets);
	branch_cache_put(other);
	symtab_close(second);
	symtab_close(third);
	unlink(path);
}

static struct error *allow(void *context, const struct module *module)
{
	return NULL;
}

/* The page that a pun needs isn't there after all: the next tactic is asked, and what the pun's
 * reason was is known. */
static void test_code_that_cannot_be_written(void **state)
{
	struct later later;

	later_begin(&later, *state);
	struct probe *probe = later_add(&later, "plan_lone"), *list[] = { probe };
	assert_true(probe->again);
	assert_null(probe->site);
	assert_string_equal(error_text(probe->refusal),
			    "no memory can be mapped where its jump leads");
	assert_null(planner_decide(later.planner, list, 1));
	assert_false(probe->again);
	assert_non_null(strstr(error_text(probe->refusal),
			       "pun: no memory can be mapped where its jump leads"));
	planner_allow_traps(later.planner, allow, NULL);
	assert_null(planner_decide(later.planner, list, 1));
	assert_null(probe->refusal);
	assert_string_equal(site_tactic(probe->site), "trap");
	later_end(&later);
}

static void add_fixed(struct later *later)
{
	struct plan_needs needs = { 0 };

	assert_null(planner_needs(later->planner, &needs));
	for (size_t i = 0; i < needs.count; i++) {
		if (needs.items[i].fixed)
			assert_true(near_pool_add_fixed(later->pool, needs.items[i].low, ROOM / 2,
							DT_PAGE));
	}
	vec_free(&needs);
}

/* The first by a jump that can lead to one place only. */
static struct probe *begin_pun(struct later *later, struct fixture *fixture)
{
	struct tramp_env env = { .control = taddr_of(0x10000),
				 .slots = taddr_of(0x20000),
				 .pool = taddr_of(0x30000) };

	later_begin(later, fixture);
	struct probe *first = later_add(later, "plan_lone"), *list[] = { first };
	first->spent = 0;
	assert_null(planner_decide(later->planner, list, 1));
	add_fixed(later);
	assert_false(planner_hop_is_taken(later->planner, later->pool));
	assert_null(planner_emit(later->planner, &env, later->pool, later->code));
	assert_string_equal(site_tactic(first->site), "pun");
	later_place(later, PATCH_PLACED);
	return first;
}

/* A second one where there is one way only, and threads are on it: the way leads to the new code
 * when that takes the old one's place. */
static void test_added_later_to_a_pun(void **state)
{
	struct later later;
	struct probe *first = begin_pun(&later, *state);
	struct site *old = first->site;
	taddr hop = old->hop;

	for (int fails = 1; fails >= 0; fails--) {
		struct probe *second = later_add(&later, "plan_lone");

		assert_null(second->refusal);
		assert_ptr_equal(second->site, first->site);
		assert_ptr_not_equal(first->site, old);
		assert_true(taddr_equal(first->site->hop, hop));
		assert_true(planner_redirects(later.planner, 0));
		assert_memory_equal(first->site->patch.patched, old->patch.patched,
				    old->patch.length);
		assert_true(taddr_equal(first->site->patch.hop.end, taddr_add(hop, HOP_LENGTH)));
		assert_int_equal(first->site->patch.hop.distance[-1], 0xe9);
		old->patch.state = fails ? PATCH_PLACED : PATCH_REMOVED;
		later_place(&later, fails ? PATCH_FAILED : PATCH_PLACED);
		later_settle(&later, 1);
		assert_true(fails == (first->site == old));
		assert_int_equal(first->site->hop_piece.size, 16);
		assert_false(planner_redirects(later.planner, 0));
	}
	later_end(&later);
}

/* Removed, but somebody may be in it still: its place isn't free, and then it is. */
static void test_hop_that_is_taken(void **state)
{
	struct later later;
	struct site_list gone = { 0 };
	struct probe *probe = begin_pun(&later, *state), *list[] = { probe };

	assert_true(planner_release(later.planner, &probe, 1, &gone));
	assert_int_equal(gone.count, 1);
	assert_null(planner_decide(later.planner, list, 1));
	assert_true(planner_hop_is_taken(later.planner, later.pool));
	planner_free_site(gone.items[0], later.pool);
	assert_false(planner_hop_is_taken(later.planner, later.pool));
	vec_free(&gone);
	later_end(&later);
}

/* (L3) The code whose slot is jumped through stays until the last probe behind the slot is gone. */
static void test_slots_outlive_their_own_probe(void **state)
{
	struct later later;
	struct site_list gone = { 0 };

	later_begin(&later, *state);
	struct probe *first = later_add(&later, "plan_tight");
	later_place(&later, PATCH_PLACED);
	assert_string_equal(site_tactic(first->site), "short-jump");
	struct probe *second = later_add(&later, "plan_tight"); /* the same place again */
	later_place(&later, PATCH_PLACED);
	later_settle(&later, 2);
	struct site *host = first->site->slot_host;
	assert_non_null(host);
	assert_ptr_equal(second->site, first->site);
	assert_true(planner_release(later.planner, &first, 1, &gone));
	assert_int_equal(gone.count, 0);
	assert_ptr_equal(second->site->slot_host, host);
	assert_true(planner_release(later.planner, &second, 1, &gone));
	assert_int_equal(gone.count, 2);
	assert_int_equal(planner_site_count(later.planner), 0);
	for (size_t i = 0; i < gone.count; i++)
		planner_free_site(gone.items[i], later.pool);
	vec_free(&gone);
	later_end(&later);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_branch_targets, setup, teardown),
		cmocka_unit_test_setup_teardown(test_places, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refuses, setup, teardown),
		cmocka_unit_test_setup_teardown(test_shadow_stack, setup, teardown),
		cmocka_unit_test_setup_teardown(test_every_instruction, setup, teardown),
		cmocka_unit_test_setup_teardown(test_added_later, setup, teardown),
		cmocka_unit_test_setup_teardown(test_added_later_in_vain, setup, teardown),
		cmocka_unit_test_setup_teardown(test_added_later_inside_an_instruction, setup,
						teardown),
		cmocka_unit_test(test_files_are_remembered),
		cmocka_unit_test_setup_teardown(test_code_that_cannot_be_written, setup, teardown),
		cmocka_unit_test_setup_teardown(test_added_later_to_a_pun, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hop_that_is_taken, setup, teardown),
		cmocka_unit_test_setup_teardown(test_slots_outlive_their_own_probe, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
