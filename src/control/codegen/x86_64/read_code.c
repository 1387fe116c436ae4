/*
 * The stack while the code reads:
 *
 *	rsp+image	struct read_frame
 *	rsp		the image, once the condition has said yes; until then `image` is 0
 *
 * The code is there three times. The second and third one are for threads whose stack isn't known
 * (coroutines, handlers) and read frames of the page that the thread is on (T7). The second makes
 * plain loads, whose faults go to the alternate stack (X18). The third is also for threads that may
 * make none, and reads memory that nothing unmaps (X13).
 *
 * (T8) They take no more of the stack than the call of the agent that it stands for, or with a
 *      backtrace READ_FAR_MOST. So their image is small: what doesn't fit is left to the agent.
 *      Behind the stack check of a Go function there are 928 bytes: there they may take
 *      READ_CHECKED_MOST, below what every hit saves.
 */
#include "control/codegen/read_code.h"

#include "shared/layout.h"
#include "shared/program.h"
#include "shared/reads.h"
#include "shared/returns.h"
#include "control/codegen/gather_code.h"
#include "control/codegen/record_code.h"
#include "control/codegen/slot_code.h"
#include "control/codegen/value_code.h"

#define READ_ROOM 1024
#define QUITS_MAX (EMIT_FIXUPS_MAX - 4) /* jumps to a label; some come from here */
#define ROWS_ROOM 128
#define OPENED_ROOM 24 /* for dt_state.opened, per operation */
#define FRAMES_HEAD 8 /* of a backtrace: their number, and what aligns them */
/* less is no use in a small image */
#define STRING_LEAST 16
#define FRAMES_LEAST 8
#define READ_FAR_MOST 544 /* as a call with vector registers */
#define READ_CHECKED_MOST 704

struct read_frame {
	uint64_t slot;
	uint64_t duration; /* at an exit */
	uint64_t rsi, rdi, r8, r9, r10, r11; /* saved with the image */
};
#define FRAME_SIZE ((int32_t)sizeof(struct read_frame))
#define FRAME(field) ((int32_t)offsetof(struct read_frame, field))
/* from a slot to a word of its struct dt_own_stack */
#define OWN(field)                                                                                 \
	((int32_t)(offsetof(struct dt_state, own_stacks) - offsetof(struct dt_state, slots) +      \
		   offsetof(struct dt_own_stack, field)))

static const struct {
	enum reg reg;
	int32_t at;
} image_regs[] = { { RSI, FRAME(rsi) }, { RDI, FRAME(rdi) }, { R8, FRAME(r8) },
		   { R9, FRAME(r9) },	{ R10, FRAME(r10) }, { R11, FRAME(r11) } };
#define READ_SLACK (DT_READ_BEYOND + 15) /* its start is aligned */
#define IMAGE_REGS (sizeof(image_regs) / sizeof(image_regs[0]))

/* Shares of a small image: bytes of all strings, and frames of each backtrace. */
struct read_share {
	uint32_t strings, frames;
};

struct read {
	struct value_walk values;
	struct value_reads reads;
	const struct tramp_env *env;
	const struct tramp_event *event;
	int32_t saved; /* bytes between rsp before, and rsp at the site */
	int32_t image; /* bytes on the stack; 0: not yet */
	/* where the next field goes: in bytes from the image's start, or `varies`, at r9 */
	uint32_t at;
	bool varies;
	size_t first_field; /* the operation behind the condition */
	bool wants_key; /* the program has still to find a key */
	size_t walks; /* backtraces so far: these need no plain loads */
	size_t strings;
	uint32_t fixed; /* bytes that the other fields take at most */
	bool loads; /* some operation makes plain loads */
	bool is_far; /* the second or third code */
	bool is_third; /* of memory that stays */
	int32_t far_image;
	struct read_share share; /* of far_image */
	struct label unwanted; /* by the condition; without an image */
	struct label early; /* the loads end, and the agent gathers; without an image */
	struct label quit; /* likewise with an image */
	struct label full; /* there is no room; the loads have ended */
	struct label never; /* no load was made */
	struct label far; /* no load is allowed */
	struct slot_labels near;
};

static int32_t image_size(const struct read *r)
{
	int32_t whole = (int32_t)DT_ROUND_UP(r->event->program->size_max + READ_SLACK, 16);

	return r->is_far && r->far_image < whole ? r->far_image : whole;
}

static int32_t saved_at(const struct value_reads *reads, enum reg reg)
{
	int32_t frame = reads->frame - FRAME_SIZE;

	for (size_t i = 0; i < IMAGE_REGS && frame; i++) {
		if (image_regs[i].reg == reg)
			return frame + image_regs[i].at;
	}
	return -1;
}

/* `by`: a register that the routine neither wants nor keeps. */
static void emit_call(const struct read *r, enum reg by, unsigned routine)
{
	struct emitter *e = r->values.e;

	emit_mov_imm(e, by, r->env->control.v);
	emit_call_mem(e, mem_at(by, (int32_t)(offsetof(struct dt_control, reads) + 8 * routine)));
}

/* Everything that depends on the image's size. */
static void set_image(struct read *r, int32_t image)
{
	r->image = image;
	r->reads.frame = image + FRAME_SIZE;
	r->reads.duration = image + FRAME(duration);
	r->reads.quit = image ? &r->quit : &r->early;
	r->values.saved = r->saved + image + FRAME_SIZE;
}

static void emit_image_start(struct emitter *e, enum reg to)
{
	emit_lea(e, to, mem_at(RSP, 15));
	emit_alu_imm(e, ALU_AND, to, -16);
}

/* Makes the image before the first field. */
static void open_image(struct read *r)
{
	struct emitter *e = r->values.e;

	if (r->image)
		return;
	if (e)
		emit_lea(e, RSP, mem_at(RSP, -image_size(r)));
	set_image(r, image_size(r));
	if (!e)
		return;
	emit_note(e, "an image of the event on the stack");
	for (size_t i = 0; i < IMAGE_REGS; i++)
		emit_store(e, mem_at(RSP, r->image + image_regs[i].at), image_regs[i].reg);
	emit_image_start(e, R9);
}

/* ---- fields ---------------------------------------------------------------------------------- */

/* Byte by byte: an unaligned store may be a signal (H2). rax may be in use. */
static void align_here(struct emitter *e, uint32_t to)
{
	struct label next = { 0 }, done = { 0 };

	emit_bind(e, &next);
	emit_test_imm(e, R9, (int32_t)to - 1);
	emit_jcc_short(e, CC_E, &done);
	emit_store_imm8(e, mem_at(R9, 0), 0);
	emit_add_imm(e, R9, 1);
	emit_jmp(e, &next);
	emit_bind(e, &done);
}

/* Aligns the next field; what lies between is 0. */
static void align(struct read *r, uint32_t to)
{
	struct emitter *e = r->values.e;

	if (to < 2)
		return;
	r->fixed += to - 1;
	if (!r->varies) {
		for (; r->at % to; r->at++) {
			if (e)
				emit_store_imm8(e, mem_at(R9, (int32_t)r->at), 0);
		}
		return;
	}
	if (e)
		align_here(e, to);
}

static void store(struct read *r, uint32_t size)
{
	struct emitter *e = r->values.e;

	if (r->values.depth != 1 || (size != 1 && size != 2 && size != 4 && size != 8)) {
		r->values.failed = true;
		return;
	}
	align(r, size);
	r->fixed += size;
	if (e)
		emit_store_size(e, mem_at(R9, (int32_t)r->at), value_top(&r->values, 0), size);
	if (e && r->varies)
		emit_add_imm(e, R9, (int32_t)size);
	if (!r->varies)
		r->at += size;
	r->values.depth = 0;
}

/* r9 = where the next field goes: from here on its place isn't known before. */
static void vary(struct read *r)
{
	if (r->values.e && !r->varies && r->at)
		emit_add_imm(r->values.e, R9, (int32_t)r->at);
	r->varies = true;
	r->at = 0;
}

/* rdi = the most bytes of the string that the image has room for. */
static void emit_string_room(struct read *r, uint32_t most)
{
	struct emitter *e = r->values.e;
	struct label enough = { 0 };

	/* as if the image's start were 15 bytes above rsp: there is room for that */
	emit_lea(e, RDI, mem_at(RSP, 15 + (int32_t)(r->fixed + r->share.strings) - 1));
	emit_alu(e, ALU_SUB, RDI, R9);
	emit_jcc(e, CC_B, &r->quit);
	emit_alu_imm(e, ALU_CMP, RDI, (int32_t)most);
	emit_jcc_short(e, CC_BE, &enough);
	emit_mov_imm(e, RDI, most);
	emit_bind(e, &enough);
}

static void copy_string(struct read *r, const struct dt_op *op)
{
	struct emitter *e = r->values.e;
	bool is_counted = op->c == DT_STRING_COUNTED;

	if (op->a > 1 || (op->c != DT_STRING_NUL && !is_counted) ||
	    r->values.depth != 1u + is_counted) {
		r->values.failed = true;
		return;
	}
	vary(r);
	r->strings++;
	r->reads.quits += r->is_far ? 2 : 1;
	if (e) {
		emit_mov(e, R10, value_top(&r->values, is_counted));
		if (is_counted)
			emit_mov(e, RSI, value_top(&r->values, 0));
		if (r->is_far)
			emit_string_room(r, op->b);
		else
			emit_mov_imm(e, RDI, op->b);
		emit_mov_imm(e, RBX, r->reads.pages.v);
		emit_call(r, RAX, is_counted ? DT_READ_BYTES : DT_READ_TEXT);
		emit_jcc(e, CC_AE, &r->quit);
	}
	r->values.depth = 0;
}

/* The number of frames wanted, as DT_READ_FRAMES has it. */
static uint32_t frames_asked(const struct read *r, uint32_t most)
{
	uint32_t asked = r->values.at_exit ? DT_READ_RETURNS : 0;

	if (!r->is_far)
		return asked | most;
	asked |= DT_READ_SHALLOW;
	return most <= r->share.frames ? asked | most : asked | DT_READ_PART | r->share.frames;
}

/* The callers: from the stack that the thread is on, which is there. */
static void store_frames(struct read *r, const struct dt_op *op)
{
	struct emitter *e = r->values.e;
	bool at_exit = r->values.at_exit;

	if (r->values.depth) {
		r->values.failed = true;
		return;
	}
	align(r, 4);
	vary(r);
	r->fixed += FRAMES_HEAD;
	r->reads.quits++;
	r->walks++;
	if (!e)
		return;
	emit_note(e, "walk up the stack");
	emit_store_imm32(e, mem_at(R9, 0), frames_asked(r, op->b));
	if (at_exit) {
		emit_load(e, RDX, mem_at(RSP, r->image + FRAME(rsi)));
		emit_load(e, RDX, mem_at(RDX, (int32_t)offsetof(struct dt_return_slot, ra)));
	} else {
		emit_mov_imm(e, RDX, r->event->program->rip);
	}
	emit_load(e, RSI, mem_at(RSP, r->image + FRAME(slot)));
	/* at an exit the function has returned */
	emit_lea(e, RCX, mem_at(RSP, r->values.saved + (at_exit ? 8 : 0)));
	emit_mov(e, R8, RBP);
	emit_call(r, RDI, DT_READ_FRAMES);
	emit_mov(e, R9, RAX);
	emit_or(e, RAX, RAX);
	emit_jcc(e, CC_E, &r->quit);
}

/* A string without characters: everything could be read. */
static void store_nothing(struct read *r)
{
	vary(r);
	r->fixed++;
	if (!r->values.e)
		return;
	emit_store_imm8(r->values.e, mem_at(R9, 0), 0);
	emit_add_imm(r->values.e, R9, 1);
}

static void require(struct read *r)
{
	if (r->values.depth != 1 || r->image) {
		r->values.failed = true;
		return;
	}
	if (r->values.e) {
		emit_or(r->values.e, RAX, RAX);
		emit_jcc(r->values.e, CC_E, &r->unwanted);
	}
	r->values.depth = 0;
}

/* The condition's last comparison; returns the number of operations, or 0. */
static size_t require_comparison(struct read *r, size_t at)
{
	const struct dt_op *ops = r->values.ops;
	enum cond cc;
	size_t length;

	if (at + 1 >= r->first_field || ops[r->first_field - 1].code != DT_OP_REQUIRE ||
	    r->first_field - 1 - at != (ops[at].code == DT_OP_CONST ? 3 : 1))
		return 0;
	length = value_emit_condition(&r->values, at, &cc);
	if (!length)
		return 0;
	if (r->values.depth)
		r->values.failed = true;
	else if (r->values.e)
		emit_jcc(r->values.e, cc ^ 1, &r->unwanted); /* the opposite */
	return length + 1;
}

/* The program's last operation: the key is all fields. */
static void find_key(struct read *r, const struct dt_op *op)
{
	if (!r->wants_key || op->a || r->values.depth)
		r->values.failed = true;
	r->wants_key = false;
}

/* The addresses of strings that a system call would read together. */
static size_t skip_prefetch(const struct read *r, size_t at)
{
	const struct dt_op *ops = r->values.ops;
	size_t end = at;

	while (end < r->values.count &&
	       (ops[end].code == DT_OP_REG || ops[end].code == DT_OP_OFFSET))
		end++;
	return end < r->values.count && ops[end].code == DT_OP_PREFETCH ? end + 1 - at : 0;
}

/* Emits one operation, or a few; returns their number. */
static size_t one(struct read *r, size_t at)
{
	const struct dt_op *op = &r->values.ops[at];
	size_t skipped = r->values.depth ? 0 : skip_prefetch(r, at);

	if (skipped)
		return skipped;
	skipped = require_comparison(r, at);
	if (skipped)
		return skipped;
	if (at >= r->first_field)
		open_image(r);
	switch (op->code) {
	case DT_OP_ALIGN: align(r, op->a); break;
	case DT_OP_STORE: store(r, op->a); break;
	case DT_OP_STRING: copy_string(r, op); break;
	case DT_OP_BACKTRACE: store_frames(r, op); break;
	case DT_OP_UNREADABLE: store_nothing(r); break;
	case DT_OP_REQUIRE: require(r); break;
	case DT_OP_KEY: find_key(r, op); return 2;
	default: return value_emit(&r->values, at);
	}
	return 1;
}

static bool walk_all(struct read *r)
{
	struct value_walk *w = &r->values;

	for (size_t at = 0; at < w->count && !w->failed;) {
		if (w->e)
			emit_bind(w->e, &w->labels[at]);
		at += one(r, at);
	}
	return !w->failed && !w->depth && !r->wants_key && r->reads.quits <= QUITS_MAX;
}

static void set_up(struct read *r, bool at_exit)
{
	const struct dt_program *program = r->event->program;

	for (size_t i = 0; i < program->op_count; i++) {
		if (program->ops[i].code == DT_OP_REQUIRE)
			r->first_field = i + 1;
		if (program->ops[i].code == DT_OP_CONST || program->ops[i].code == DT_OP_KEY)
			i++; /* its operand */
	}
	r->reads.saved_at = saved_at;
	if (r->env)
		r->reads.pages =
			record_state_word(r->env, r->is_third ? offsetof(struct dt_state, stays) :
								offsetof(struct dt_state, pages));
	r->reads.opened = r->is_third;
	r->values.ops = program->ops;
	r->values.count = program->op_count;
	r->values.at_exit = at_exit;
	r->values.reads = &r->reads;
	set_image(r, 0);
}

static bool is_native(struct read *r, bool at_exit)
{
	const struct dt_program *program = r->event->program;

	if (!program || program->pair != DT_PAIR_NONE || program->op_count > VALUE_OPS_MAX)
		return false;
	set_up(r, at_exit);
	return walk_all(r) && r->reads.quits;
}

bool read_is_native(const struct tramp_event *event, bool at_exit)
{
	struct read r = { .event = event };

	return is_native(&r, at_exit);
}

bool read_is_native_key(const struct tramp_event *event, bool may_turn_away)
{
	struct read r = { .event = event, .wants_key = true };

	return is_native(&r, false) && r.varies && (may_turn_away || !r.first_field);
}

size_t read_room(const struct tramp_event *event)
{
	return READ_ROOM + ROWS_ROOM +
	       (3 * VALUE_OP_ROOM + OPENED_ROOM) * event->program->op_count;
}

/* ---- on stacks that aren't known ------------------------------------------------------------- */

/* (T8) */
static int32_t far_stack(const struct tramp_event *event, bool walks, bool at_exit)
{
	if (event->is_checked && !at_exit)
		return READ_CHECKED_MOST;
	return walks ? READ_FAR_MOST : gather_stack(event);
}

/* Shares a small image out. False: even short fields don't fit. (T8) */
static bool share_out(struct read *r, bool at_exit)
{
	struct read look = { .event = r->event, .wants_key = r->wants_key, .is_far = true };
	int32_t stack, rest;

	if (!is_native(&look, at_exit))
		return false;
	stack = far_stack(r->event, look.walks, at_exit);
	stack -= look.walks ? DT_READ_FRAMES_STACK : DT_READ_STACK;
	r->far_image = (stack - FRAME_SIZE) & -16;
	rest = r->far_image - READ_SLACK - (int32_t)look.fixed;
	if (rest < (int32_t)(look.strings * STRING_LEAST + look.walks * FRAMES_LEAST * 8))
		return false;
	r->share.strings = (uint32_t)(look.walks ? rest * (look.strings > 0) / 4 : rest);
	if (look.walks)
		r->share.frames = ((uint32_t)rest - r->share.strings) / 8 / (uint32_t)look.walks;
	return true;
}

int32_t read_far_stack(const struct tramp_event *event, bool at_exit)
{
	struct read plain = { .event = event }, key = { .event = event, .wants_key = true };
	size_t walks = 0;

	if (is_native(&plain, at_exit))
		walks = plain.walks;
	else if (is_native(&key, at_exit))
		walks = key.walks;
	else
		return 0;
	return far_stack(event, walks, at_exit);
}

/* ---- around them ----------------------------------------------------------------------------- */

/* rcx = the thread's slot, rax = dt_state.slots. rdx and rbx are lost. */
static void emit_begin(struct read *r)
{
	struct emitter *e = r->values.e;

	emit_lea(e, RSP, mem_at(RSP, -FRAME_SIZE));
	if (r->values.at_exit)
		emit_store(e, mem_at(RSP, FRAME(duration)), RDX);
	slot_emit_near(e, r->env, &r->near);
	emit_store(e, mem_at(RSP, FRAME(slot)), RCX);
}

/* rcx = slot, rax = dt_state.slots. Jumps to `no` unless a fault of the thread's is mended. */
static void emit_is_open(struct emitter *e, struct label *no)
{
	emit_load32(e, RBX, mem_at(RCX, OWN(open)));
	emit_cmp_mem32(e, RBX,
		       mem_at(RAX, (int32_t)offsetof(struct dt_state, loads) -
					   (int32_t)offsetof(struct dt_state, slots)));
	emit_jcc(e, CC_NE, no);
}

/* (X7) Counts the thread as loading, then looks whether it may. A handler that has interrupted a
 * load makes none, and goes to `no`: here a hit would wait for the store of the hit before. (X20)
 * Where that was is noted if the thread is on its own stack. */
static void emit_loading(struct read *r, struct label *no)
{
	struct emitter *e = r->values.e;

	emit_note(e, "the thread loads from now on");
	emit_cmp_mem32_imm(e, mem_at(RCX, OWN(loading)), 0);
	emit_jcc(e, CC_NE, no);
	if (r->is_far) {
		emit_store_imm32(e, mem_at(RCX, OWN(loading)), 1);
	} else {
		emit_mov(e, RBX, RSP);
		emit_or_imm(e, RBX, 1);
		emit_store32(e, mem_at(RCX, OWN(loading)), RBX);
	}
	emit_note(e, "unless a fault would not be mended");
	emit_is_open(e, &r->early);
}

/* Jumps to r->far if the thread has no room on its stack (target/x86_64/gather.S). */
static void emit_may_load(struct read *r)
{
	struct emitter *e = r->values.e;

	emit_note(e, "room on its own stack?");
	emit_lea(e, RBX, mem_at(RSP, -(int32_t)DT_STACK_ROOM));
	emit_sub_mem(e, RBX, mem_at(RCX, OWN(start)));
	emit_cmp_mem(e, RBX, mem_at(RCX, OWN(size)));
	emit_jcc(e, CC_AE, &r->far);
	if (!r->loads)
		return;
	emit_loading(r, &r->far);
}

/* rcx = slot. Jumps to `no` unless a fault goes to the alternate stack. */
static void emit_goes_elsewhere(struct emitter *e, struct label *no)
{
	emit_note(e, "does a fault go to its alternate stack?");
	emit_mov(e, RBX, RSP);
	emit_sub_mem(e, RBX, mem_at(RCX, OWN(elsewhere)));
	emit_cmp_mem(e, RBX, mem_at(RCX, OWN(elsewhere_size)));
	emit_jcc(e, CC_AE, no);
}

/* The same on another stack: jumps to `no` unless a fault goes to the alternate stack (X18). That
 * may be another one, or none, behind a handler that came before the thread counted as loading,
 * and that has looked: the thread is open again then. */
static void emit_may_load_elsewhere(struct read *r, struct label *no)
{
	struct emitter *e = r->values.e;

	emit_mov_imm(e, RAX, r->env->slots.v);
	emit_is_open(e, no);
	emit_goes_elsewhere(e, no);
	emit_loading(r, no);
	emit_goes_elsewhere(e, &r->early);
}

/* The thread loads no more. `by` = slot. */
static void emit_loaded(const struct read *r, int32_t image, enum reg by)
{
	struct emitter *e = r->values.e;

	emit_load(e, by, mem_at(RSP, image + FRAME(slot)));
	if (r->loads)
		emit_store_imm32(e, mem_at(by, OWN(loading)), 0);
}

static void emit_restore(struct emitter *e, int32_t image)
{
	for (size_t i = 0; i < IMAGE_REGS; i++)
		emit_load(e, image_regs[i].reg, mem_at(RSP, image + image_regs[i].at));
}

/* The stack and the registers are as before, but for rax, rcx, rdx and rbx. */
static void emit_leave(const struct read *r, struct label *done)
{
	struct emitter *e = r->values.e;

	emit_restore(e, r->image);
	emit_lea(e, RSP, mem_at(RSP, r->image + FRAME_SIZE));
	emit_jmp(e, done);
}

static void emit_written(struct read *r, struct label *done)
{
	struct emitter *e = r->values.e;

	emit_note(e, "write the event");
	if (!r->varies && r->at)
		emit_add_imm(e, R9, (int32_t)r->at);
	emit_loaded(r, r->image, R8);
	emit_image_start(e, R11);
	emit_mov_imm(e, RDI, r->event->program->id);
	emit_mov_imm(e, RBX, r->env->pool.v);
	emit_call(r, RAX, DT_READ_END);
	emit_jcc(e, CC_AE, &r->full);
	emit_leave(r, done);
}

static void emit_found(struct read *r, struct label *done)
{
	struct emitter *e = r->values.e;

	emit_note(e, "find the key");
	emit_loaded(r, r->image, R8);
	emit_image_start(e, RSI);
	emit_mov(e, RDX, R9);
	emit_alu(e, ALU_SUB, RDX, RSI);
	emit_mov_imm(e, RDI, r->event->count.keys.table.v);
	emit_call(r, RAX, DT_READ_KEY);
	emit_mov32(e, RCX, RAX);
	emit_or(e, RCX, RCX);
	emit_jcc(e, CC_E, &r->full);
	emit_leave(r, done);
}

/* Reads and writes the event, or says no. `depth`: of the stack with the frame. */
static void emit_way(struct read *r, int32_t depth,
		     void (*emit_end)(struct read *r, struct label *done), struct read_ways *ways)
{
	struct emitter *e = r->values.e;
	uint8_t origin = e->row.origin, kept = e->row.kept;

	emit_note(e, "read the values");
	if (!walk_all(r)) {
		e->failed = true;
		return;
	}
	emit_bind(e, &r->values.labels[r->values.count]);
	open_image(r);
	emit_end(r, &ways->done);
	if (r->unwanted.fixup_count) {
		emit_note(e, "the condition says no");
		emit_bind(e, &r->unwanted);
		emit_row(e, depth, origin, kept);
		emit_loaded(r, 0, RCX);
		emit_lea(e, RSP, mem_at(RSP, FRAME_SIZE));
		emit_jmp(e, ways->no);
	}
	emit_note(e, "it can't be read here: the agent gathers");
	emit_bind(e, &r->quit);
	emit_row(e, depth + r->image, origin, kept);
	emit_loaded(r, r->image, R8);
	emit_bind(e, &r->full);
	emit_restore(e, r->image);
	emit_lea(e, RSP, mem_at(RSP, r->image));
}

/* Plain loads by a small image, if the thread may make them on this stack. */
static void emit_elsewhere(struct read *r, int32_t depth,
			   void (*emit_end)(struct read *r, struct label *done),
			   struct read_ways *ways, struct label *never)
{
	struct emitter *e = r->values.e;
	uint8_t origin = e->row.origin, kept = e->row.kept;
	struct label no = { 0 };

	r->loads = true;
	set_up(r, r->values.at_exit);
	emit_may_load_elsewhere(r, &no);
	emit_way(r, depth, emit_end, ways);
	emit_jmp(e, never);
	emit_row(e, depth, origin, kept);
	emit_bind(e, &r->early);
	emit_loaded(r, 0, RCX);
	emit_bind(e, &no);
}

static void emit_all(struct read *r, void (*emit_end)(struct read *r, struct label *done),
		     struct read_ways *ways)
{
	struct emitter *e = r->values.e;
	int32_t depth = e->row.depth + FRAME_SIZE;
	uint8_t origin = e->row.origin, kept = e->row.kept;
	bool at_exit = r->values.at_exit;
	struct read look = { .event = r->event, .wants_key = r->wants_key };
	struct read elsewhere = *r, far;

	e->failed |= !is_native(&look, at_exit);
	r->loads = look.reads.quits > look.walks;
	emit_begin(r);
	emit_may_load(r);
	emit_way(r, depth, emit_end, ways);
	emit_jmp(e, &r->never);
	emit_row(e, depth, origin, kept);
	slot_emit_far(e, r->env, &r->near, &r->never);
	emit_bind(e, &r->early);
	emit_loaded(r, 0, RCX);
	emit_bind(e, &r->far);
	elsewhere.is_far = true;
	if (share_out(&elsewhere, at_exit)) {
		far = elsewhere;
		if (r->loads)
			emit_elsewhere(&elsewhere, depth, emit_end, ways, &r->never);
		emit_note(e, "no plain loads: of memory that stays, by a small image");
		far.is_third = true;
		set_up(&far, at_exit);
		emit_way(&far, depth, emit_end, ways);
		emit_bind(e, &far.early);
	}
	emit_bind(e, &r->never);
	if (at_exit)
		emit_load(e, RDX, mem_at(RSP, FRAME(duration)));
	emit_lea(e, RSP, mem_at(RSP, FRAME_SIZE));
}

void read_emit(struct emitter *e, const struct tramp_env *env, const struct tramp_event *event,
	       int32_t saved, bool at_exit, struct read_ways *ways)
{
	struct read r = { .values.e = e, .env = env, .event = event, .saved = saved };

	set_up(&r, at_exit);
	emit_all(&r, emit_written, ways);
}

void read_emit_key(struct emitter *e, const struct tramp_env *env, const struct tramp_event *event,
		   int32_t saved, struct read_ways *ways)
{
	struct read r = {
		.values.e = e, .env = env, .event = event, .saved = saved, .wants_key = true
	};

	set_up(&r, false);
	emit_all(&r, emit_found, ways);
}
