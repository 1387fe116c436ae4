/*
 * emit_jump.c - labels, and jumps to them and to addresses.
 */
#include <assert.h>
#include <string.h>

#include "encode.h"
#include "shared/reads.h"

#define SHORT_SIZE 2

/* Fills in the distance at `field`, which ends its instruction. */
static void put_distance(struct emitter *e, size_t field, bool is_short, size_t to)
{
	int64_t distance = (int64_t)to - (int64_t)(field + (is_short ? 1 : 4));
	int32_t distance32 = (int32_t)distance;

	if (is_short ? !encode_fits8(distance) : distance != distance32)
		e->failed = true;
	if (!e->failed)
		memcpy(e->bytes + field, &distance32, is_short ? 1 : 4);
}

void emit_bind(struct emitter *e, struct label *label)
{
	assert(!label->bound);
	label->bound = true;
	label->at = e->size;
	for (size_t i = 0; i < label->fixup_count; i++)
		put_distance(e, label->fixups[i], label->fixup_short[i], label->at);
}

/* Writes the rel8 or rel32 field of a jump to a label. */
static void put_label(struct emitter *e, struct label *to, bool is_short)
{
	size_t field = e->size;

	emit_bytes(e, &(int32_t){ 0 }, is_short ? 1 : 4);
	if (to->bound) {
		put_distance(e, field, is_short, to->at);
	} else if (to->fixup_count == EMIT_FIXUPS_MAX) {
		e->failed = true;
	} else {
		to->fixups[to->fixup_count] = (uint32_t)field;
		to->fixup_short[to->fixup_count++] = is_short;
	}
}

static void put_rel32(struct emitter *e, taddr to)
{
	taddr end = taddr_add(emit_pc(e), 4);

	if (!emit_reaches(end, to))
		e->failed = true;
	encode_word(e, (int32_t)taddr_diff(to, end));
}

void emit_jmp_to(struct emitter *e, taddr to)
{
	encode_opcode(e, 0xe9, 0);
	put_rel32(e, to);
}

void emit_call_to(struct emitter *e, taddr to)
{
	encode_opcode(e, 0xe8, 0);
	put_rel32(e, to);
}

void emit_jcc_to(struct emitter *e, enum cond cc, taddr to)
{
	encode_opcode(e, OP_0F | 0x80 | cc, 0);
	put_rel32(e, to);
}

bool emit_is_near(const struct emitter *e, const struct label *to)
{
	return to->bound && encode_fits8((int64_t)to->at - (int64_t)(e->size + SHORT_SIZE));
}

static bool is_short(const struct emitter *e, const struct label *to)
{
	return to->bound ? emit_is_near(e, to) : e->tight;
}

void emit_jmp(struct emitter *e, struct label *to)
{
	if (is_short(e, to)) {
		emit_jmp_short(e, to);
		return;
	}
	encode_opcode(e, 0xe9, 0);
	put_label(e, to, false);
}

void emit_jmp_short(struct emitter *e, struct label *to)
{
	encode_opcode(e, 0xeb, 0);
	put_label(e, to, true);
}

void emit_mark(struct emitter *e, struct label *to)
{
	emit_bytes(e, &(uint32_t){ DT_READ_MARK }, DT_READ_MARK_LENGTH - 4);
	put_label(e, to, false);
}

void emit_jcc(struct emitter *e, enum cond cc, struct label *to)
{
	if (is_short(e, to)) {
		emit_jcc_short(e, cc, to);
		return;
	}
	encode_opcode(e, OP_0F | 0x80 | cc, 0);
	put_label(e, to, false);
}

void emit_jcc_short(struct emitter *e, enum cond cc, struct label *to)
{
	encode_opcode(e, 0x70 | cc, 0);
	put_label(e, to, true);
}

void emit_jrcxz(struct emitter *e, struct label *to)
{
	encode_opcode(e, 0xe3, 0);
	put_label(e, to, true);
}
