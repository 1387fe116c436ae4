/*
 * Trampolines, run for real in this process: registers and flags before and after, the event's
 * bytes, the slow path's two answers, the switch; and every byte decoded again.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cmocka.h>

#include "map_near.h"

#include "control/base/cleanup.h"
#include "control/codegen/read_code.h"
#include "control/codegen/shared_code.h"
#include "control/trampoline/trampoline.h"
#include "shared/layout.h"
#include "shared/program.h"

/* What the harness loads before and stores after; the order is the assembly's. */
struct regs {
	uint64_t rax, rcx, rdx, rbx, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15, flags;
	uint64_t rsp_delta;
	uint64_t red_zone[16];
};

/*
 * Loads every register from `in`, fills 128 bytes below the stack pointer, jumps to `code` (which
 * jumps to harness_back), stores every register to `out`.
 */
void harness_run(const struct regs *in, struct regs *out, uint64_t code);
extern const char harness_site[], harness_site_end[];

__asm__(".text\n"
	".globl harness_run\n"
	"harness_run:\n"
	"	push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
	"	mov %rsi, harness_out(%rip)\n"
	"	mov %rdx, harness_code(%rip)\n"
	"	mov %rsp, harness_rsp(%rip)\n"
	"	mov $16, %ecx\n"
	"1:	mov 128(%rdi,%rcx,8), %rax\n" /* red_zone[i-1] is at 136 + 8 * (i-1) */
	"	neg %rcx\n"
	"	mov %rax, (%rsp,%rcx,8)\n"
	"	neg %rcx\n"
	"	dec %ecx\n"
	"	jne 1b\n"
	"	mov 8*1(%rdi), %rcx\n mov 8*2(%rdi), %rdx\n mov 8*3(%rdi), %rbx\n"
	" mov 8*4(%rdi), %rbp\n"
	"	mov 8*5(%rdi), %rsi\n"
	"	mov 8*7(%rdi), %r8\n mov 8*8(%rdi), %r9\n mov 8*9(%rdi), %r10\n"
	" mov 8*10(%rdi), %r11\n"
	"	mov 8*11(%rdi), %r12\n mov 8*12(%rdi), %r13\n mov 8*13(%rdi), %r14\n"
	" mov 8*14(%rdi), %r15\n"
	"	lea -256(%rsp), %rsp\n"
	"	push 8*15(%rdi)\n"
	"	popf\n"
	"	lea 256(%rsp), %rsp\n"
	"	mov 8*0(%rdi), %rax\n"
	"	mov 8*6(%rdi), %rdi\n"
	"	jmp *harness_code(%rip)\n"
	/* The site that is moved: it changes nothing. */
	"harness_site:\n"
	"	.byte 0x90, 0x90\n"
	"	lea (%rsp), %rsp\n"
	"harness_site_end:\n"
	"harness_back:\n"
	"	mov %rsp, harness_rsp2(%rip)\n"
	"	lea -256(%rsp), %rsp\n"
	"	pushf\n"
	"	push %rax\n"
	"	cld\n"
	"	mov harness_out(%rip), %rax\n"
	"	mov %rcx, 8*1(%rax)\n mov %rdx, 8*2(%rax)\n mov %rbx, 8*3(%rax)\n"
	" mov %rbp, 8*4(%rax)\n"
	"	mov %rsi, 8*5(%rax)\n mov %rdi, 8*6(%rax)\n mov %r8, 8*7(%rax)\n"
	" mov %r9, 8*8(%rax)\n"
	"	mov %r10, 8*9(%rax)\n mov %r11, 8*10(%rax)\n mov %r12, 8*11(%rax)\n"
	" mov %r13, 8*12(%rax)\n"
	"	mov %r14, 8*13(%rax)\n mov %r15, 8*14(%rax)\n"
	"	pop 8*0(%rax)\n"
	"	pop 8*15(%rax)\n"
	"	lea 256(%rsp), %rsp\n"
	"	mov harness_rsp2(%rip), %rdx\n"
	"	mov harness_rsp(%rip), %rcx\n"
	"	sub %rcx, %rdx\n"
	"	mov %rdx, 8*16(%rax)\n"
	"	mov $16, %rcx\n"
	"2:	neg %rcx\n"
	"	mov (%rsp,%rcx,8), %rdx\n"
	"	neg %rcx\n"
	"	mov %rdx, 128(%rax,%rcx,8)\n"
	"	dec %rcx\n"
	"	jne 2b\n"
	"	pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n"
	"	ret\n"
	".data\n"
	"harness_out: .quad 0\n"
	"harness_code: .quad 0\n"
	"harness_rsp: .quad 0\n"
	"harness_rsp2: .quad 0\n"
	".text\n");

/* Stand-ins for dt_slow: note how they were called; one says lost, one gives the slot. */
void slow_lost(void);
void slow_slot(void);
extern uint64_t slow_id, slow_size, slow_control, slow_calls, slow_answer;
__asm__(".text\n"
	"slow_lost:\n"
	"	mov %rax, slow_id(%rip)\n mov %rdx, slow_size(%rip)\n"
	" mov %rbx, slow_control(%rip)\n"
	"	incq slow_calls(%rip)\n"
	"	xor %ecx, %ecx\n"
	"	ret\n"
	"slow_slot:\n"
	"	mov %rax, slow_id(%rip)\n mov %rdx, slow_size(%rip)\n"
	" mov %rbx, slow_control(%rip)\n"
	"	incq slow_calls(%rip)\n"
	"	mov slow_answer(%rip), %rcx\n"
	"	movl $4096, 16(%rcx)\n" /* room: slot.limit */
	"	movq $0, 32(%rcx)\n" /* slot.last, set below by the caller's clock */
	"	mov %rsi, %rbx\n"
	"	rdtsc\n"
	"	shl $32, %rdx\n"
	"	or %rdx, %rax\n"
	"	mov %rax, 32(%rcx)\n"
	"	ret\n"
	".data\n"
	"slow_id: .quad 0\n slow_size: .quad 0\n slow_control: .quad 0\n slow_calls: .quad 0\n"
	"slow_answer: .quad 0\n"
	".text\n");

/* Another, for trampolines that ask the agent: notes what they ask, and a word at that time. */
#define ASKS_MAX 8
void slow_asked(void);
extern uint64_t slow_asks[ASKS_MAX], slow_words[ASKS_MAX];
extern const uint32_t *slow_word;
__asm__(".text\n"
	"slow_asked:\n"
	"	mov slow_calls(%rip), %rcx\n"
	"	lea slow_asks(%rip), %rdx\n"
	"	mov %rax, (%rdx,%rcx,8)\n"
	"	mov slow_word(%rip), %rax\n"
	"	mov (%rax), %eax\n"
	"	lea slow_words(%rip), %rdx\n"
	"	mov %rax, (%rdx,%rcx,8)\n"
	"	incq slow_calls(%rip)\n"
	"	xor %ecx, %ecx\n"
	"	ret\n"
	".data\n"
	"slow_asks: .fill 8, 8, 0\n slow_words: .fill 8, 8, 0\n slow_word: .quad 0\n"
	".text\n");

#define POOL_SIZE 65536

static __thread uint32_t block_tid = 4711;

struct world {
	struct dt_control *control;
	struct dt_state *state;
	uint8_t *pool;
	uint8_t *code;
	size_t code_room;
	struct dt_slot *slot;
	struct tramp_env env;
	struct insn insns[4];
	size_t insn_count;
	bool shares; /* trampolines call routines, in the second half of the code */
};

static uint64_t fs_base(void)
{
	uint64_t base;

	__asm__("rdfsbase %0" : "=r"(base));
	return base;
}

static void *map_anywhere(size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(at != MAP_FAILED);
	return at;
}

static int setup(void **state)
{
	static struct world world;
	size_t length = (size_t)(harness_site_end - harness_site);

	world.control = map_anywhere(sizeof(*world.control));
	world.state = map_anywhere(sizeof(*world.state));
	world.pool = map_anywhere(POOL_SIZE);
	world.code_room = 8192;
	world.code = map_near(harness_site, 16 << 20, world.code_room);
	world.env.control = taddr_of((uint64_t)world.control);
	world.env.slots = taddr_of((uint64_t)world.state->slots);
	world.env.pool = taddr_of((uint64_t)world.pool);
	world.insn_count = 0;
	world.shares = false;
	for (size_t at = 0; at < length; at += world.insns[world.insn_count++].length)
		assert_true(decode((const uint8_t *)harness_site + at, length - at,
				   taddr_of((uint64_t)harness_site + at),
				   &world.insns[world.insn_count]));
	world.slot = (struct dt_slot *)((uint8_t *)world.state->slots + dt_hash(fs_base()));
	*world.slot = (struct dt_slot){ .key = ~fs_base(),
					.reserve = (7ULL << 32) | 256,
					.limit = 4096,
					.tid = block_tid,
					.tid_offset = (uint64_t)&block_tid - fs_base(),
					.last = __builtin_ia32_rdtsc() };
	world.control->slow = (uint64_t)slow_lost;
	slow_calls = 0;
	slow_answer = (uint64_t)world.slot;
	*state = &world;
	return 0;
}

static int setup_shared(void **state)
{
	int result = setup(state);

	((struct world *)*state)->shares = true;
	return result;
}

static int teardown(void **state)
{
	struct world *world = *state;

	munmap(world->control, sizeof(*world->control));
	munmap(world->state, sizeof(*world->state));
	munmap(world->pool, POOL_SIZE);
	munmap(world->code, world->code_room);
	return 0;
}

static struct tramp_event make_event(uint32_t id, size_t fields)
{
	static const enum reg regs[] = { RDI, RSI, RDX, RCX, R8, R9, RAX, RBX };
	struct tramp_event event = { .id = id, .size = 8, .keep_red_zone = true };

	for (size_t i = 0; i < fields; i++) {
		event.fields[i] = (struct tramp_field){ .source = SOURCE_REGISTER,
							.reg = regs[i],
							.offset = (uint16_t)event.size };
		event.size += 8;
	}
	event.field_count = fields;
	return event;
}

/* Writes a routine per event, as if no two had one size. */
static void write_routines(struct world *world, struct tramp_event **events, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint8_t *at = world->code + world->code_room / 2 + i * SHARED_ROOM;
		size_t size;

		assert_true(trampoline_can_share(events[i]));
		events[i]->routine = taddr_of((uint64_t)at);
		assert_true(shared_emit(&world->env, events[i]->size, at, SHARED_ROOM,
					events[i]->routine, &size));
	}
}

static void emit(struct world *world, struct tramp_event **events, size_t count,
		 struct tramp *tramp)
{
	if (world->shares)
		write_routines(world, events, count);
	*tramp = (struct tramp){ .insns = world->insns,
				 .insn_count = world->insn_count,
				 .events = events,
				 .event_count = count };
	assert_true(trampoline_room(tramp) <= world->code_room / 2);
	assert_null(trampoline_emit(tramp, &world->env, world->code, trampoline_room(tramp),
				    taddr_of((uint64_t)world->code)));
}

static struct regs known_regs(uint64_t flags)
{
	struct regs regs;
	uint64_t *words = (uint64_t *)&regs;

	for (size_t i = 0; i < sizeof(regs) / 8; i++)
		words[i] = 0x1111111111111111ULL * (i % 13 + 1) + i;
	regs.flags = flags | 0x202;
	return regs;
}

static void run_and_compare(struct world *world, uint64_t flags)
{
	struct regs in = known_regs(flags), out;

	memset(&out, 0x55, sizeof(out));
	harness_run(&in, &out, (uint64_t)world->code);
	in.rsp_delta = 0;
	assert_memory_equal(&in, &out, sizeof(in));
}

/* CF, PF, AF, ZF, SF, DF, OF in every combination. */
static uint64_t flags_of(unsigned n)
{
	static const uint64_t bits[] = { 1, 4, 16, 64, 128, 1024, 2048 };
	uint64_t flags = 0;

	for (unsigned i = 0; i < 7; i++)
		flags |= n >> i & 1 ? bits[i] : 0;
	return flags;
}

static void test_keeps_everything(void **state)
{
	struct world *world = *state;
	struct tramp_event bare = make_event(5, 0), full = make_event(6, 8);
	struct tramp_event *both[] = { &bare, &full };
	struct tramp tramp;

	bare.insn = 0;
	full.insn = 1;
	emit(world, both, 2, &tramp);
	for (unsigned n = 0; n < 128; n++) {
		world->slot->reserve = (7ULL << 32) | 256;
		run_and_compare(world, flags_of(n));
		world->slot->limit = 0; /* and by the slow path that counts a loss */
		run_and_compare(world, flags_of(n));
		world->slot->limit = 4096;
	}
	assert_int_equal(slow_calls, 256);
}

static void test_writes_events(void **state)
{
	struct world *world = *state;
	struct tramp_event bare = make_event(5, 0), full = make_event(6, 8);
	struct tramp_event *both[] = { &bare, &full };
	struct regs in = known_regs(0), out;
	uint64_t before = __builtin_ia32_rdtsc() & 0xffffffffffULL;
	struct tramp tramp;

	emit(world, both, 2, &tramp);
	harness_run(&in, &out, (uint64_t)world->code);
	uint64_t after = __builtin_ia32_rdtsc() & 0xffffffffffULL;
	const uint64_t *events = (const uint64_t *)(world->pool + 256);
	assert_int_equal(events[0] & 0xffffff, 5);
	assert_in_range(events[0] >> 24, before, after);
	assert_int_equal(events[1] & 0xffffff, 6);
	assert_in_range(events[1] >> 24, events[0] >> 24, after);
	const uint64_t fields[] = { in.rdi, in.rsi, in.rdx, in.rcx, in.r8, in.r9, in.rax, in.rbx };
	assert_memory_equal(events + 2, fields, sizeof(fields));
	assert_int_equal(events[10], 0);
	assert_int_equal(world->slot->reserve, (7ULL << 32) | (256 + 80));
	assert_int_equal(world->slot->events, 2);
	assert_int_equal(slow_calls, 0);
}

/* Each reason to take the slow path, which gets the id (U4), the size and the control page. */
static void test_slow_reasons(void **state)
{
	struct world *world = *state;
	struct tramp_event full = make_event(9, 6);
	struct tramp_event *one[] = { &full };
	struct dt_slot good = *world->slot;
	struct tramp tramp;

	emit(world, one, 1, &tramp);
	for (unsigned reason = 0; reason < 6; reason++) {
		*world->slot = good;
		world->slot->last = __builtin_ia32_rdtsc();
		world->slot->key ^= reason == 0;
		world->slot->tid ^= reason == 1;
		world->slot->limit = reason == 2 ? 256 + 55 : 4096;
		world->slot->last += reason == 3 ? 1ULL << 38 : 0; /* the clock went back */
		world->slot->last -= reason == 4 ? 1ULL << 39 : 0; /* a gap */
		if (reason == 5)
			memset(world->slot, 0, sizeof(*world->slot)); /* forked a moment ago */
		slow_id = slow_size = slow_control = 0;
		run_and_compare(world, 0);
		assert_int_equal(slow_calls, reason + 1);
		assert_int_equal(slow_id, 9);
		assert_int_equal(slow_size, 56);
		assert_int_equal(slow_control, world->env.control.v);
	}
	*world->slot = good;
	world->slot->last = __builtin_ia32_rdtsc();
	world->slot->limit = 256 + 56; /* just enough */
	run_and_compare(world, 0);
	assert_int_equal(slow_calls, 6);
}

static void test_slow_gives_slot(void **state)
{
	struct world *world = *state;
	struct tramp_event bare = make_event(3, 0);
	struct tramp_event *one[] = { &bare };
	struct tramp tramp;

	world->control->slow = (uint64_t)slow_slot;
	world->slot->limit = 0;
	emit(world, one, 1, &tramp);
	run_and_compare(world, flags_of(127));
	assert_int_equal(slow_calls, 1);
	assert_int_equal(*(uint64_t *)(world->pool + 256) & 0xffffff, 3);
	run_and_compare(world, 0);
	assert_int_equal(slow_calls, 1);
	assert_int_equal(*(uint64_t *)(world->pool + 264) & 0xffffff, 3);
}

static void test_switch(void **state)
{
	struct world *world = *state;
	struct tramp_event bare = make_event(3, 0);
	struct tramp_event *one[] = { &bare };
	struct tramp tramp;

	emit(world, one, 1, &tramp);
	uint64_t *word = (uint64_t *)(world->code + bare.switch_offset);
	assert_int_equal((uint64_t)word % 8, 0);
	assert_int_equal(*word, bare.on.v);
	*word = bare.off.v;
	run_and_compare(world, flags_of(127));
	assert_int_equal(world->slot->events, 0);
	*word = bare.on.v;
	run_and_compare(world, 0);
	assert_int_equal(world->slot->events, 1);
}

/* (Q6) A thread that brings a filter forbids the agent's calls first, and waits then until nobody
 * makes one. */
static void test_filter_comes(void **state)
{
	static const uint64_t asks[] = { DT_ASK_MODULES, DT_ASK_BLOCK, DT_ASK_STILL };
	static const uint64_t forbidden[] = { 0, 0, 1 };
	struct world *world = *state;
	struct tramp_event watched = make_event(0, 0);
	struct tramp_event *one[] = { &watched };
	struct tramp tramp;

	watched.watches[0] = (struct tramp_watch){ .args = { (uint32_t)known_regs(0).rdi },
						   .count = 1 };
	watched.watch_count = 1;
	world->control->slow = (uint64_t)slow_asked;
	slow_word = &world->state->inherited.filtered;
	emit(world, one, 1, &tramp);
	run_and_compare(world, flags_of(127));
	assert_int_equal(slow_calls, 3);
	assert_memory_equal(slow_asks, asks, sizeof(asks));
	assert_memory_equal(slow_words, forbidden, sizeof(forbidden));
	assert_int_equal(((struct dt_pool *)world->pool)->filtered, 1);
}

/* From the first byte to the switches all bytes are instructions, and no jump leads to the middle
 * of one. */
static void test_decodes_again(void **state)
{
	struct world *world = *state;
	struct tramp_event bare = make_event(3, 0), full = make_event(4, 8);
	struct tramp_event *both[] = { &bare, &full };
	bool starts[8192] = { false };
	struct tramp tramp;
	struct insn insn;

	emit(world, both, 2, &tramp);
	size_t end =
		bare.switch_offset < full.switch_offset ? bare.switch_offset : full.switch_offset;
	for (size_t at = 0; at < end; at += insn.length) {
		assert_true(decode(world->code + at, end - at, taddr_of((uint64_t)world->code + at),
				   &insn));
		starts[at] = true;
	}
	for (size_t at = 0; at < end; at += insn.length) {
		decode(world->code + at, end - at, taddr_of((uint64_t)world->code + at), &insn);
		uint64_t to = insn.target.v - (uint64_t)world->code;
		if (insn.has_target && to < tramp.size)
			assert_true(starts[to]);
	}
}

/* ---- interrupted hits ------------------------------------------------------------------------ */

#define TRAP_FLAG 0x100

static struct {
	struct world *world;
	unsigned steps, nested_at;
} stepping;

/* A hit of a signal handler, as the trampoline of an event without fields makes it. */
static void nested_hit(struct world *world)
{
	uint64_t now = __builtin_ia32_rdtsc();
	uint32_t at = (uint32_t)world->slot->reserve;

	world->slot->reserve += 8;
	world->slot->last = now;
	*(uint64_t *)(world->pool + at) = now << DT_EVENT_ID_BITS | 9;
}

static void on_step(int number, siginfo_t *info, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	uint64_t offset = (uint64_t)regs[REG_RIP] - (uint64_t)stepping.world->code;

	if (offset < stepping.world->code_room && stepping.steps++ == stepping.nested_at)
		nested_hit(stepping.world);
	else if (offset >= stepping.world->code_room && stepping.steps)
		regs[REG_EFL] &= ~TRAP_FLAG;
}

/* (B3) A signal handler's hit at each instruction of another one: whichever has the first place in
 * the chunk has the smaller clock. */
static void test_clocks_in_order(void **state)
{
	struct world *world = *state;
	struct tramp_event bare = make_event(3, 0), *one[] = { &bare };
	struct sigaction action = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO }, before;
	struct regs in = known_regs(TRAP_FLAG), out;
	const uint64_t *events = (const uint64_t *)(world->pool + 256);
	struct tramp tramp;

	emit(world, one, 1, &tramp);
	assert_int_equal(sigaction(SIGTRAP, &action, &before), 0);
	for (unsigned at = 0; at == 0 || at <= stepping.steps; at++) {
		stepping = (typeof(stepping)){ .world = world, .nested_at = at };
		world->slot->reserve = (7ULL << 32) | 256;
		slow_calls = 0;
		harness_run(&in, &out, (uint64_t)world->code);
		if (slow_calls || at >= stepping.steps)
			continue; /* its clock is behind the last event's: for the agent */
		assert_int_equal((uint32_t)world->slot->reserve, 256 + 2 * 8);
		assert_true(events[0] >> DT_EVENT_ID_BITS <= events[1] >> DT_EVENT_ID_BITS);
	}
	assert_in_range(stepping.steps, 30, 100);
	assert_int_equal(sigaction(SIGTRAP, &before, NULL), 0);
}

/* What one probe may cost in memory, with what unwinders need of it. */
static void test_size(void **state)
{
	struct world *world = *state;
	struct tramp_event full = make_event(4, 6);
	struct tramp_event *one[] = { &full };
	struct tramp tramp;

	emit(world, one, 1, &tramp);
	assert_in_range(tramp.size, 1, world->shares ? 224 : 400);
}

/* (U5) Events that are lost go where nobody reads, and leave the pool alone. */
static void test_lost_in_sink(void **state)
{
	struct world *world = *state;
	struct tramp_event full = make_event(4, 8), *one[] = { &full };
	_cleanup_free_ uint8_t *before = malloc(POOL_SIZE);
	struct tramp_event large = { .size = sizeof(world->state->sink) + 8 };
	struct regs in = known_regs(0);
	struct tramp tramp;

	emit(world, one, 1, &tramp);
	world->slot->limit = 0;
	memcpy(before, world->pool, POOL_SIZE);
	run_and_compare(world, 0);
	assert_int_equal(slow_calls, 1);
	assert_memory_equal(before, world->pool, POOL_SIZE);
	assert_int_equal(world->state->sink[0], full.id);
	assert_int_equal(world->state->sink[1], in.rdi);
	assert_false(trampoline_can_share(&large));
}

/* A backtrace is the trampoline's own work, at entries and exits; a thread's name isn't. */
static void test_backtraces_are_native(void **state)
{
	struct {
		struct dt_program head;
		struct dt_op ops[2];
	} program = { { .id = 1, .size_max = 512, .op_count = 2, .rip = 0x1000 },
		      { { DT_OP_BACKTRACE, 0, 40, 0 }, { DT_OP_ALIGN, 8, 0, 0 } } };
	struct tramp_event event = { .program = &program.head };

	assert_true(read_is_native(&event, false));
	assert_true(read_is_native(&event, true));
	program.ops[1].code = DT_OP_COMM;
	assert_false(read_is_native(&event, false));
}

/* A test with trampolines that call routines. */
#define SHARED(test) cmocka_unit_test_setup_teardown(test, setup_shared, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_keeps_everything, setup, teardown),
		cmocka_unit_test_setup_teardown(test_writes_events, setup, teardown),
		cmocka_unit_test_setup_teardown(test_slow_reasons, setup, teardown),
		cmocka_unit_test_setup_teardown(test_slow_gives_slot, setup, teardown),
		cmocka_unit_test_setup_teardown(test_switch, setup, teardown),
		cmocka_unit_test_setup_teardown(test_filter_comes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_decodes_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_clocks_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(test_size, setup, teardown),
		cmocka_unit_test(test_backtraces_are_native),
		SHARED(test_keeps_everything),
		SHARED(test_writes_events),
		SHARED(test_slow_reasons),
		SHARED(test_slow_gives_slot),
		SHARED(test_switch),
		SHARED(test_decodes_again),
		SHARED(test_clocks_in_order),
		SHARED(test_size),
		SHARED(test_lost_in_sink),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
