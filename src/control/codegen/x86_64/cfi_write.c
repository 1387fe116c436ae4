#include "control/codegen/cfi_write.h"

#include <assert.h>
#include <string.h>

static void put8(struct emitter *e, unsigned value)
{
	emit_bytes(e, &(uint8_t){ (uint8_t)value }, 1);
}

void cfi_put32(struct emitter *e, uint32_t value)
{
	emit_bytes(e, &value, sizeof(value));
}

void cfi_const32(struct emitter *e, uint32_t value)
{
	put8(e, OP_CONST4U);
	cfi_put32(e, value);
}

void cfi_const64(struct emitter *e, uint64_t value)
{
	put8(e, OP_CONST8U);
	emit_u64(e, value);
}

static void put_distance(struct emitter *e, size_t at, size_t to)
{
	int64_t wide = (int64_t)to - (int64_t)(at + sizeof(int16_t));
	int16_t distance = (int16_t)wide;

	assert(distance == wide);
	if (!emit_failed(e))
		memcpy(e->bytes + at, &distance, sizeof(distance));
}

size_t cfi_jump(struct emitter *e, enum cfi_op op)
{
	cfi_ops(e, (uint8_t)op, 0, 0);
	return e->size - sizeof(int16_t);
}

void cfi_land(struct emitter *e, size_t jump)
{
	put_distance(e, jump, e->size);
}

void cfi_jump_back(struct emitter *e, enum cfi_op op, size_t to)
{
	put_distance(e, cfi_jump(e, op), to);
}

void cfi_end_record(struct emitter *e, size_t start)
{
	while (!emit_failed(e) && (e->size - start) % 8 != 0)
		put8(e, CFI_NOP);
	uint32_t length = (uint32_t)(e->size - start - sizeof(length));
	if (!emit_failed(e))
		memcpy(e->bytes + start, &length, sizeof(length));
}

size_t cfi_begin_cie(struct emitter *e)
{
	size_t start = e->size;

	cfi_put32(e, 0);
	cfi_put32(e, 0); /* marks a CIE */
	put8(e, 1); /* version */
	emit_bytes(e, "zR", 3);
	put8(e, 1); /* code alignment */
	put8(e, 0x78); /* data alignment: -8 */
	put8(e, CFI_RA);
	put8(e, 1); /* bytes of augmentation */
	put8(e, 0); /* addresses are absolute, 8 bytes */
	return start;
}

size_t cfi_begin_fde(struct emitter *e, size_t cie, taddr start, uint64_t size)
{
	size_t fde = e->size;

	cfi_put32(e, 0);
	cfi_put32(e, (uint32_t)(fde + sizeof(uint32_t) - cie)); /* distance back to the CIE */
	emit_u64(e, start.v);
	emit_u64(e, size);
	put8(e, 0); /* bytes of augmentation */
	return fde;
}

/* The length of an expression takes two bytes (LEB128). */
size_t cfi_begin_rule(struct emitter *e, enum cfi_instruction rule, enum cfi_register column)
{
	put8(e, rule);
	if (rule != CFI_DEF_CFA_EXPRESSION)
		put8(e, column);
	cfi_ops(e, 0x80, 0);
	return e->size;
}

void cfi_end_rule(struct emitter *e, size_t start)
{
	size_t length = e->size - start;

	assert(length < 1u << 14);
	if (emit_failed(e))
		return;
	e->bytes[start - 2] = (uint8_t)(0x80 | (length & 0x7f));
	e->bytes[start - 1] = (uint8_t)(length >> 7);
}
