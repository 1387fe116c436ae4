/*
 * call.c - operations for called functions of the user (include/dyntrace/probe.h), and the check
 * whether a thread is still in one (C2).
 *
 * Functions call dt_call_op as any function, on the thread's own stack, with signals as they are.
 */
#include "shared/call.h"
#include "agent_parts.h"
#include "gather.h"


long dt_call_op(const struct dyntrace_hit *hit, unsigned what, const void *from, void *to,
		uint64_t size) __attribute__((visibility("default")));

static const struct dt_call_frame *frame_of(const struct dyntrace_hit *hit)
{
	return (const struct dt_call_frame *)hit;
}

static const struct dt_call_site *site_of(const struct dyntrace_hit *hit)
{
	return (const struct dt_call_site *)frame_of(hit)->site;
}

/* ---- values by name -------------------------------------------------------------------------- */

static bool same_text(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

static uint64_t text_length(const char *text)
{
	uint64_t length = 0;

	while (text[length])
		length++;
	return length;
}

/* Offset of the field from `at` on, aligned as in a chunk. */
static uint64_t find_field(const struct dt_bridge_field *field, uint64_t at)
{
	return field->offset ? field->offset : DT_ROUND_UP(at, field->align);
}

/* Describes the field at `at` in *value; gives the offset after the field. */
static uint64_t take_field(const struct dt_bridge_field *field, const uint8_t *image, uint64_t at,
			   struct dyntrace_value *value)
{
	static const uint8_t types[] = {
		[DT_BRIDGE_INT] = DYNTRACE_TYPE_INT,
		[DT_BRIDGE_UINT] = DYNTRACE_TYPE_UINT,
		[DT_BRIDGE_HEX] = DYNTRACE_TYPE_HEX,
		[DT_BRIDGE_FLOAT] = DYNTRACE_TYPE_FLOAT,
		[DT_BRIDGE_STRING] = DYNTRACE_TYPE_STRING,
		[DT_BRIDGE_SEQUENCE] = DYNTRACE_TYPE_SEQUENCE,
		[DT_BRIDGE_ADDRESS] = DYNTRACE_TYPE_HEX,
	};

	value->type = types[field->type];
	value->size = field->size;
	value->count = field->count ? field->count : 1;
	value->data = image + at;
	if (field->type == DT_BRIDGE_STRING) {
		value->count = text_length((const char *)image + at);
		return at + value->count + 1;
	}
	if (field->type == DT_BRIDGE_SEQUENCE) {
		value->count = *(const uint32_t *)(image + at);
		value->size = 8;
		at = DT_ROUND_UP(at + 4, 8);
		value->data = image + at;
	}
	return at + value->count * value->size;
}

static long find_value(const struct dyntrace_hit *hit, const char *name,
		       struct dyntrace_value *ret_value)
{
	const struct dt_call_site *site = site_of(hit);
	const uint8_t *image = (const uint8_t *)frame_of(hit)->image;
	struct dyntrace_value value;
	uint64_t at = site->start;

	for (uint32_t i = 0; i < site->field_count; i++) {
		const struct dt_bridge_field *field = &site->fields[i];

		if (field->type == DT_BRIDGE_ADDRESS)
			take_field(field, image, 0, &value);
		else
			at = take_field(field, image, find_field(field, at), &value);
		if (same_text(field->name, name)) {
			*ret_value = value;
			return 0;
		}
	}
	return -1;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* The words of the values are in place of the xmm registers of a program: two per register. */
static long emit(const struct dt_control *control, const struct dyntrace_event_type *event,
		 const uint64_t (*words)[2], uint64_t count)
{
	const struct dt_program *program = (const struct dt_program *)event->program;
	struct dt_regs regs;
	uint64_t written;
	const void *given = &regs;

	if (!program || count > DYNTRACE_EVENT_FIELDS_MAX ||
	    event->version != DYNTRACE_PROBE_VERSION)
		return -1;
	for (uint64_t i = 0; i < count; i++) {
		regs.xmm[i][0] = words[i][0];
		regs.xmm[i][1] = words[i][1];
	}
	regs.image = 0;
	__asm__ volatile("leaq -128(%%rsp), %%rsp\n\tcall dt_gather\n\tleaq 128(%%rsp), %%rsp"
			 : "=a"(written), "+D"(given), "+S"(program)
			 : "b"(control)
			 : "rcx", "rdx", "r8", "r9", "r10", "r11", "memory", "cc");
	return 0;
}

/* The lower half of a vector register that the gate has saved. */
static long read_vector(const struct dyntrace_hit *hit, uint64_t *to, uint64_t number)
{
	uint32_t stride = site_of(hit)->stride;

	if (!stride || number > 15)
		return -1;
	*to = *(const uint64_t *)(frame_of(hit)->sp + stride * number);
	return 0;
}

static uint32_t find_tid(const struct dt_control *control)
{
	uint32_t pid, tid;

	if (!agent_begin_call(control, &pid))
		return thread_block_tid(control);
	tid = sys_gettid();
	agent_end_call(control, pid);
	return tid;
}

long dt_call_op(const struct dyntrace_hit *hit, unsigned what, const void *from, void *to,
		uint64_t size)
{
	const struct dt_control *control = (const struct dt_control *)site_of(hit)->control;

	switch (what) {
	case DYNTRACE_OP_FIND: return find_value(hit, from, to);
	case DYNTRACE_OP_READ:
		return agent_is_quiet(control) ?
			       0 :
			       (long)safe_read(control, (uint64_t)from, to, size);
	case DYNTRACE_OP_EMIT: return emit(control, from, to, size);
	case DYNTRACE_OP_VECTOR: return read_vector(hit, to, size);
	case DYNTRACE_OP_TID: return (long)find_tid(control);
	default: return -1;
	}
}

/* ---- jumps out of a function ----------------------------------------------------------------- */

uint64_t *call_word(const struct dt_control *control, const struct dt_slot *slot)
{
	struct dt_state *state = agent_state(control);

	return &state->calls[slot - state->slots];
}

static bool find_altstack(const struct dt_control *control, struct sys_altstack *ret_stack)
{
	uint32_t pid;

	if (agent_flags(control) & DT_NO_ALTSTACK || !agent_begin_call(control, &pid))
		return false;
	int64_t error = sys_call3(SYS_SIGALTSTACK, 0, (uint64_t)ret_stack, 0);
	agent_end_call(control, pid);
	return !error;
}

/* (C2) */
uint64_t call_is_left(const struct dt_control *control)
{
	struct sys_altstack stack = { 0, SYS_SS_DISABLE, 0, 0 };
	struct dt_slot *slot = slow_find_ours(control);
	uint64_t here = (uint64_t)&stack, frame = slot ? *call_word(control, slot) : 0;

	if (!frame || here <= frame || !find_altstack(control, &stack))
		return 0;
	if (!(stack.flags & SYS_SS_DISABLE) && here - stack.start < stack.size &&
	    frame - stack.start >= stack.size)
		return 0; /* a signal handler, on a stack of its own */
	return (uint64_t)slot;
}

/* ---- room on the stack ----------------------------------------------------------------------- */

#define ROOM_PAGES (DT_CALL_ROOM / DT_PAGE)
#define PIECE_MOST (64 * DT_PAGE)

static bool can_read(const struct dt_control *control, uint64_t page)
{
	uint8_t bytes[ROOM_PAGES + 1];
	struct sys_iovec remote[ROOM_PAGES + 1], local = { (uint64_t)bytes, sizeof(bytes) };

	for (uint32_t i = 0; i < sizeof(bytes); i++)
		remote[i] = (struct sys_iovec){ page - i * DT_PAGE, 1 };
	return !agent_is_quiet(control) &&
	       safe_read_list(control, &local, 1, remote, sizeof(bytes)) == sizeof(bytes);
}

/* Joins two pieces if they touch and the result isn't too long. */
static struct dt_range join(uint64_t word, struct dt_range piece)
{
	struct dt_range old = { word & ~(DT_PAGE - 1ULL), 0 }, both = piece;

	old.end = old.start + ((word & (DT_PAGE - 1)) + ROOM_PAGES) * DT_PAGE;
	if (word && old.start <= piece.end && piece.start <= old.end) {
		both.start = old.start < piece.start ? old.start : piece.start;
		both.end = old.end > piece.end ? old.end : piece.end;
	}
	return both.end - both.start > PIECE_MOST ? piece : both;
}

/* (C4) Writes one word: a hit in a signal handler may write it meanwhile. */
uint64_t call_has_room(const struct dt_control *control)
{
	struct dt_slot *slot = slow_find_ours(control);
	uint64_t page = (uint64_t)&slot & ~(DT_PAGE - 1ULL);
	struct dt_range piece = { page - ROOM_PAGES * DT_PAGE, page + DT_PAGE };
	const struct dt_range *first = &control->stack;
	bool grows = page >= first->start && page < first->end;

	if (!slot || (grows ? piece.start < first->start : !can_read(control, page)))
		return 0;
	struct dt_state *state = agent_state(control);
	uint64_t *word = &state->rooms[slot - state->slots];
	piece = join(__atomic_load_n(word, __ATOMIC_RELAXED), piece);
	__atomic_store_n(word, piece.start | ((piece.end - piece.start) / DT_PAGE - ROOM_PAGES),
			 __ATOMIC_RELAXED);
	return (uint64_t)slot;
}
