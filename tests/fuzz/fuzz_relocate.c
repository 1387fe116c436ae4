/*
 * The relocator: the input is code. Each instruction of it is moved near, as far as rel32 reaches,
 * and out of reach; the moved code is decoded again and must mean the same, or the move was
 * refused and nothing was emitted.
 */
#include <stdint.h>
#include <string.h>

#include "../unit/relocate_check.h"
#include "control/base/cleanup.h"
#include "control/code/relocate.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#define PC 0x40000000ULL

/* How far: near, about the end of reach both ways, and beyond. */
static const int64_t distances[] = {
	0x1000,	     -0x1000,	   1LL << 30,	  -(1LL << 29), 0x7fffff00LL, 0x7ffffff8LL,
	0x80000000LL, -0x3ffff000LL, 1LL << 33, 0x7fff00000000LL,
};

static void require(bool holds)
{
	if (!holds)
		__builtin_trap();
}

static void check_move(const struct insn *insn, uint64_t to, size_t room)
{
	uint8_t bytes[64 + 1];
	struct emitter e;
	struct moved moved = { bytes, 0, to };

	memset(bytes, 0x5a, sizeof(bytes));
	emit_init(&e, bytes, room, taddr_of(to));

	_cleanup_error_ struct error *err = relocate(insn, &e);

	require(bytes[room] == 0x5a && !emit_failed(&e));
	if (err) {
		require(error_kind(err) == ERROR_REFUSED && e.size == 0);
		return;
	}
	moved.size = e.size;
	require(e.size > 0 && relocate_check(insn, &moved) == NULL);
}

/* Quick and full decoding say the same. */
static void check_quick(const struct insn *insn, const uint8_t *bytes, size_t size)
{
	struct insn quick;

	require(decode_quick(bytes, size, insn->pc, &quick));
	require(quick.length == insn->length && quick.flow == insn->flow);
	require(quick.has_target == insn->has_target && quick.target.v == insn->target.v);
	require(quick.rip_relative == insn->rip_relative &&
		quick.rip_target.v == insn->rip_target.v);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	for (size_t at = 0; at < size;) {
		struct insn insn;

		if (!decode(bytes + at, size - at, taddr_of(PC + at), &insn)) {
			at++;
			continue;
		}
		check_quick(&insn, bytes + at, size - at);
		for (size_t i = 0; i < sizeof(distances) / sizeof(*distances); i++) {
			uint64_t to = PC + at + (uint64_t)distances[i] + at % 8;

			check_move(&insn, to, 64);
			check_move(&insn, to, at % 32);
		}
		at += insn.length;
	}
	return 0;
}
