/*
 * The stack while the function runs, below the saved registers (record_code.h):
 *
 *	rsp	the image: a word with the probe's address, then the fields at the event's offsets
 *	below	the registers that the gate saves
 */
#include "control/tracers/code/foreign_code.h"

#include <cpuid.h>
#include <string.h>

#include "shared/layout.h"
#include "shared/program.h"
#include "control/tracers/code/call_code.h"
#include "control/exits/code/exit_code.h"
#include "control/codegen/gather_code.h"
#include "control/codegen/record_code.h"

#define CALL_ROOM 200
#define FIELD_ROOM 40
#define EXIT_ROOM 512
#define DATA_ALIGN 16u
#define XCR0_AVX 0x4u
#define XCR0_AVX512 0xe0u
#define OSXSAVE_BIT (1u << 27)
#define AVX512BW_BIT (1u << 30)

/* ---- gates ----------------------------------------------------------------------------------- */

#define GATE(name) extern const uint8_t foreign_gate_##name[], foreign_gate_##name##_end[]
GATE(none);
GATE(xmm);
GATE(ymm);
GATE(zmm);
GATE(zmm_bw);

struct gate {
	const uint8_t *start, *end;
};

#define ROW(name) { foreign_gate_##name, foreign_gate_##name##_end }
static const struct gate gates[] = {
	[FOREIGN_SAVES_NONE] = ROW(none),     [FOREIGN_SAVES_XMM] = ROW(xmm),
	[FOREIGN_SAVES_YMM] = ROW(ymm),	      [FOREIGN_SAVES_ZMM] = ROW(zmm),
	[FOREIGN_SAVES_ZMM_BW] = ROW(zmm_bw),
};

/* The register state that programs can use: what the kernel saves per thread. */
static uint32_t enabled_state(void)
{
	unsigned a, b, c, d;
	uint32_t low = 0, high;

	if (__get_cpuid(1, &a, &b, &c, &d) && (c & OSXSAVE_BIT))
		__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return low;
}

enum foreign_saves foreign_choose(enum foreign_state state)
{
	uint32_t enabled = enabled_state();
	unsigned a, b = 0, c, d;

	if (state == FOREIGN_NOTHING)
		return FOREIGN_SAVES_NONE;
	if (state == FOREIGN_LOW || !(enabled & XCR0_AVX))
		return FOREIGN_SAVES_XMM;
	if ((enabled & XCR0_AVX512) != XCR0_AVX512)
		return FOREIGN_SAVES_YMM;
	__get_cpuid_count(7, 0, &a, &b, &c, &d);
	return b & AVX512BW_BIT ? FOREIGN_SAVES_ZMM_BW : FOREIGN_SAVES_ZMM;
}

size_t foreign_write_gate(enum foreign_state state, taddr inside, uint8_t *bytes, size_t room)
{
	struct gate gate = gates[foreign_choose(state)];
	size_t size = (size_t)(gate.end - gate.start);

	if (size > room)
		return 0;
	memcpy(bytes, gate.start, size);
	memcpy(bytes, &inside.v, sizeof(inside.v));
	return size;
}

/* ---- hits ------------------------------------------------------------------------------------ */

static size_t data_room(const struct tramp_foreign *foreign)
{
	return foreign->data_size + foreign->exit_data_size + 2 * DATA_ALIGN;
}

size_t foreign_room(const struct tramp_event *event)
{
	if (!event->foreign.function.v && !event->foreign.is_wanted)
		return 0;
	return CALL_ROOM + call_room(event) + data_room(&event->foreign) +
	       event->field_count * FIELD_ROOM +
	       (event->exit ?
			EXIT_ROOM +
				(event->at_exit ? event->at_exit->field_count * FIELD_ROOM : 0) :
			0);
}

/* The image's size, a multiple of 16: the alignment of rsp stays. */
static int32_t image_size(const struct tramp_event *event)
{
	uint32_t size = event->program ? event->program->size_max : event->size;

	return (int32_t)DT_ROUND_UP(size < 16 ? 16 : size, 16);
}

/* Jumps to `out` while the event is not recorded. rax is lost. */
static void emit_enabled(struct emitter *e, taddr word, struct label *out)
{
	if (!word.v)
		return;
	emit_note(e, "is the event recorded?");
	emit_mov_imm(e, RAX, word.v);
	emit_cmp_mem32_imm(e, mem_at(RAX, 0), 0);
	emit_jcc(e, CC_E, out);
}

/* The call, with the image at rsp. *ret_field: the place for the distance to the site. */
static void emit_call(struct emitter *e, const struct tramp_event *event, size_t *ret_field)
{
	emit_note(e, "call the function, with the probe's address and the fields");
	emit_mov_imm(e, RAX, event->foreign.address.v);
	emit_store(e, mem_at(RSP, 0), RAX);
	emit_mov(e, RCX, RSP);
	emit_lea(e, RBX, mem_rip(taddr_add(emit_pc(e), 7)));
	*ret_field = e->size;
	emit_mov_imm(e, RAX, event->foreign.gate.v);
	emit_call_reg(e, RAX);
}

void foreign_emit_hit(struct emitter *e, const struct tramp_env *env,
		      const struct tramp_event *event, int32_t saved, struct foreign_labels *l,
		      struct label *out)
{
	int32_t image = image_size(event);

	emit_enabled(e, event->foreign.enabled, out);
	if (event->foreign.own_only)
		record_emit_own_only(e, env, out);
	emit_lea(e, RSP, mem_at(RSP, -image));
	if (event->program) {
		struct label kept = { 0 };

		gather_emit_call(e, env, event, image, saved + image, &l->program_field);
		emit_or(e, RAX, RAX);
		emit_jcc(e, CC_NE, &kept);
		struct emit_row with_image = e->row;
		emit_lea(e, RSP, mem_at(RSP, image));
		emit_jmp(e, out);
		emit_bind(e, &kept);
		emit_row(e, with_image.depth, with_image.origin, with_image.kept);
	} else {
		emit_mov(e, RBX, RSP);
		for (size_t i = 0; i < event->field_count; i++)
			record_emit_field(e, image, saved + image, &event->fields[i]);
	}
	l->call.looks = event->foreign.call && event->foreign.call->stride;
	if (event->foreign.call)
		call_emit(e, env, event->foreign.address, image, &l->call, &l->site_field);
	else
		emit_call(e, event, &l->site_field);
	emit_lea(e, RSP, mem_at(RSP, image));
}

void foreign_emit_slow(struct emitter *e, const struct tramp_env *env,
		       const struct tramp_event *event, struct foreign_labels *l, struct label *out)
{
	if (event->foreign.call)
		call_emit_slow(e, env, event, image_size(event), &l->call, out);
}

/* Data: { function, argument }, for the gate; then what the argument points to, if that is here. */
static void emit_site(struct emitter *e, taddr function, taddr argument, const void *data,
		      uint32_t data_size, size_t field)
{
	int32_t distance;

	emit_align(e, DATA_ALIGN);
	distance = (int32_t)(e->size - field);
	if (!emit_failed(e))
		memcpy(e->bytes + field - sizeof(distance), &distance, sizeof(distance));
	emit_u64(e, function.v);
	emit_u64(e, data ? emit_pc(e).v + sizeof(uint64_t) : argument.v);
	if (data)
		emit_bytes(e, data, data_size);
}

void foreign_emit_data(struct emitter *e, const struct tramp_event *event, int32_t saved,
		       const struct foreign_labels *l)
{
	const struct tramp_foreign *foreign = &event->foreign;

	if (foreign->call)
		call_emit_site(e, foreign->call, foreign->call_size, (uint32_t)saved,
			       l->site_field);
	else
		emit_site(e, foreign->function, foreign->argument, foreign->data,
			  foreign->data_size, l->site_field);
	if (event->program)
		gather_emit_program(e, event, l->program_field);
}

/* ---- exits ----------------------------------------------------------------------------------- */

/* rsi = the stub's slot. Writes the image at rsp; or drops it and jumps to `back` if the condition
 * says no. rax, rdx, rbx are lost. */
static void emit_exit_image(struct emitter *e, const struct tramp_env *env,
			    const struct tramp_event *event, int32_t image, struct label *back,
			    size_t *ret_field)
{
	record_emit_clock(e);
	exit_emit_duration(e, env);
	emit_mov(e, RDX, RAX);
	if (event->program) {
		struct label wanted = { 0 };

		gather_emit_call(e, env, event, image, EXIT_RA + image, ret_field);
		emit_or(e, RAX, RAX);
		emit_jcc(e, CC_NE, &wanted);
		emit_lea(e, RSP, mem_at(RSP, image));
		emit_jmp(e, back);
		emit_bind(e, &wanted);
		return;
	}
	emit_mov(e, RBX, RSP);
	for (size_t i = 0; i < event->field_count; i++) {
		if (event->fields[i].source == SOURCE_DURATION)
			emit_store(e, mem_at(RBX, event->fields[i].offset), RDX);
		else
			record_emit_field(e, image, EXIT_RA + image, &event->fields[i]);
	}
}

void foreign_emit_exit(struct emitter *e, const struct tramp_env *env,
		       const struct tramp_event *event)
{
	const struct tramp_event *exit = event->at_exit ? event->at_exit : exit_plain_event();
	struct tramp_event own = { .foreign = event->foreign };
	struct label unrecorded = { 0 }, back = { 0 };
	struct foreign_labels l = { 0 };
	int32_t image = image_size(exit);

	own.foreign.argument = event->foreign.exit_argument;
	emit_note(e, "the function returns: find the stub");
	exit_emit_row(e, 0);
	emit_push(e, RSI);
	record_emit_save(e, false);
	exit_emit_identify(e, env, &unrecorded);
	exit_emit_fresh(e, env, &unrecorded, &back);
	emit_enabled(e, event->foreign.exit_enabled, &back);
	if (exit->filter)
		exit_emit_filter(e, env, exit, &back);
	emit_lea(e, RSP, mem_at(RSP, -image));
	emit_exit_image(e, env, exit, image, &back, &l.program_field);
	l.call.looks = own.foreign.call && own.foreign.call->stride;
	if (own.foreign.call)
		call_emit(e, env, own.foreign.address, image, &l.call, &l.site_field);
	else
		emit_call(e, &own, &l.site_field);
	emit_lea(e, RSP, mem_at(RSP, image));
	emit_bind(e, &back);
	exit_emit_give_back(e, env);
	record_emit_restore(e, false);
	emit_pop(e, RSI);
	emit_ret(e);
	emit_bind(e, &unrecorded);
	exit_emit_row(e, EXIT_RA);
	exit_emit_unrecorded(e, env);
	emit_jmp(e, &back);
	if (own.foreign.call) {
		call_emit_slow(e, env, event, image, &l.call, &back);
		call_emit_site(e, own.foreign.exit_call, own.foreign.exit_call_size,
			       EXIT_RA + sizeof(uint64_t), l.site_field);
	} else {
		emit_site(e, own.foreign.function, own.foreign.argument, own.foreign.exit_data,
			  own.foreign.exit_data_size, l.site_field);
	}
	if (exit->program)
		gather_emit_program(e, exit, l.program_field);
}
