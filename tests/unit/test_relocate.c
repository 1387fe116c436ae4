/*
 * Three judges: exact bytes; running original and copy from the same state and comparing everything
 * (test_relocate_run.c); reading back every instruction of real programs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "binary_text.h"
#include "control/base/cleanup.h"
#include "control/code/relocate.h"
#include "relocate_check.h"

#define PC 0x10000000ULL
#define NEAR 0x50000000ULL /* 1 GiB further */
#define FAR 0x200000000000ULL

/* ---- bytes ---------------------------------------------------------------------------------- */

#define B(text) text, sizeof(text) - 1

static const struct {
	const char *bytes;
	size_t size;
	uint64_t to;
	const char *expected;
	size_t expected_size;
} exact[] = {
	/* as they are */
	{ B("\x55"), NEAR, B("\x55") },
	{ B("\xf3\x0f\x1e\xfa"), FAR, B("\xf3\x0f\x1e\xfa") },
	{ B("\x0f\x05"), FAR, B("\x0f\x05") },
	{ B("\xc3"), FAR, B("\xc3") },
	{ B("\xf3\xc3"), FAR, B("\xf3\xc3") },
	{ B("\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00"), FAR,
	  B("\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00") },
	{ B("\x3e\xff\xe0"), FAR, B("\x3e\xff\xe0") },
	{ B("\x8b\x04\x25\x00\x10\x00\x00"), FAR, B("\x8b\x04\x25\x00\x10\x00\x00") },
	/* re-based by -1 GiB */
	{ B("\x48\x8d\x05\x00\x10\x00\x00"), NEAR, B("\x48\x8d\x05\x00\x10\x00\xc0") },
	{ B("\x80\x3d\x00\x10\x00\x00\x05"), NEAR, B("\x80\x3d\x00\x10\x00\xc0\x05") },
	{ B("\x48\xc7\x05\x00\x10\x00\x00\x44\x33\x22\x11"), NEAR,
	  B("\x48\xc7\x05\x00\x10\x00\xc0\x44\x33\x22\x11") },
	{ B("\xc5\xfd\x6f\x05\x00\x10\x00\x00"), NEAR, B("\xc5\xfd\x6f\x05\x00\x10\x00\xc0") },
	{ B("\xc4\xe3\x7d\x38\x05\x00\x10\x00\x00\x01"), NEAR,
	  B("\xc4\xe3\x7d\x38\x05\x00\x10\x00\xc0\x01") }, /* vinserti128 with imm8 */
	{ B("\x62\xf1\xfd\x48\x6f\x05\x00\x10\x00\x00"), NEAR,
	  B("\x62\xf1\xfd\x48\x6f\x05\x00\x10\x00\xc0") },
	{ B("\xff\x25\x00\x10\x00\x00"), NEAR, B("\xff\x25\x00\x10\x00\xc0") }, /* jmp [rip] */
	/* jumps */
	{ B("\xeb\x10"), NEAR, B("\xe9\x0d\x00\x00\xc0") },
	{ B("\xe9\x0d\x00\x00\x00"), NEAR, B("\xe9\x0d\x00\x00\xc0") },
	{ B("\xf2\xe9\x0c\x00\x00\x00"), NEAR, B("\xe9\x0d\x00\x00\xc0") },
	{ B("\xeb\x10"), FAR,
	  B("\xff\x25\x02\x00\x00\x00\xcc\xcc\x12\x00\x00\x10\x00\x00\x00\x00") },
	/* branches */
	{ B("\x74\x10"), NEAR, B("\x0f\x84\x0c\x00\x00\xc0") },
	{ B("\x0f\x8f\x0c\x00\x00\x00"), NEAR, B("\x0f\x8f\x0c\x00\x00\xc0") },
	{ B("\x74\x10"), FAR,
	  B("\x75\x0e\xff\x25\x00\x00\x00\x00\x12\x00\x00\x10\x00\x00\x00\x00") },
	{ B("\xe3\x10"), NEAR, B("\xe3\x02\xeb\x05\xe9\x09\x00\x00\xc0") },
	{ B("\x67\xe3\x10"), NEAR, B("\x67\xe3\x02\xeb\x05\xe9\x09\x00\x00\xc0") },
	{ B("\xe2\x10"), NEAR, B("\xe2\x02\xeb\x05\xe9\x09\x00\x00\xc0") },
	{ B("\xe1\xf0"), FAR,
	  B("\xe1\x02\xeb\x14\xff\x25\x06\x00\x00\x00\xcc\xcc\xcc\xcc\xcc\xcc"
	    "\xf2\xff\xff\x0f\x00\x00\x00\x00") },
	/* calls: the return address is the original one */
	{ B("\xe8\x10\x00\x00\x00"), NEAR,
	  B("\xff\x35\x0a\x00\x00\x00\xe9\x0a\x00\x00\xc0\xcc\xcc\xcc\xcc\xcc"
	    "\x05\x00\x00\x10\x00\x00\x00\x00") },
	{ B("\xe8\x10\x00\x00\x00"), FAR,
	  B("\xff\x35\x12\x00\x00\x00\xff\x25\x04\x00\x00\x00\xcc\xcc\xcc\xcc"
	    "\x15\x00\x00\x10\x00\x00\x00\x00\x05\x00\x00\x10\x00\x00\x00\x00") },
	{ B("\xff\xd0"), FAR,
	  B("\xff\x35\x02\x00\x00\x00\xff\xe0\x02\x00\x00\x10\x00\x00\x00\x00") },
	{ B("\x41\xff\xd4"), FAR, /* call r12, which is no rsp */
	  B("\xff\x35\x0a\x00\x00\x00\x41\xff\xe4\xcc\xcc\xcc\xcc\xcc\xcc\xcc"
	    "\x03\x00\x00\x10\x00\x00\x00\x00") },
	{ B("\xff\x50\x08"), FAR,
	  B("\xff\x35\x0a\x00\x00\x00\xff\x60\x08\xcc\xcc\xcc\xcc\xcc\xcc\xcc"
	    "\x03\x00\x00\x10\x00\x00\x00\x00") },
	{ B("\xff\x15\x00\x10\x00\x00"), NEAR,
	  B("\xff\x35\x0a\x00\x00\x00\xff\x25\xfa\x0f\x00\xc0\xcc\xcc\xcc\xcc"
	    "\x06\x00\x00\x10\x00\x00\x00\x00") },
	{ B("\xff\x14\x24"), FAR, /* call [rsp]: no displacement -> disp8 */
	  B("\xff\x35\x0a\x00\x00\x00\xff\x64\x24\x08\xcc\xcc\xcc\xcc\xcc\xcc"
	    "\x03\x00\x00\x10\x00\x00\x00\x00") },
	{ B("\xff\x54\x24\x78"), FAR, /* call [rsp+0x78]: disp8 -> disp32 */
	  B("\xff\x35\x0a\x00\x00\x00\xff\xa4\x24\x80\x00\x00\x00\xcc\xcc\xcc"
	    "\x04\x00\x00\x10\x00\x00\x00\x00") },
	{ B("\xff\x94\x24\x00\x10\x00\x00"), FAR, /* call [rsp+0x1000] */
	  B("\xff\x35\x0a\x00\x00\x00\xff\xa4\x24\x08\x10\x00\x00\xcc\xcc\xcc"
	    "\x07\x00\x00\x10\x00\x00\x00\x00") },
	{ B("\x41\xff\x54\x24\x08"), FAR, /* call [r12+8] stays */
	  B("\xff\x35\x0a\x00\x00\x00\x41\xff\x64\x24\x08\xcc\xcc\xcc\xcc\xcc"
	    "\x05\x00\x00\x10\x00\x00\x00\x00") },
};

static struct insn insn_of(const char *bytes, size_t size)
{
	struct insn insn;

	assert_true(decode((const uint8_t *)bytes, size, taddr_of(PC), &insn));
	assert_int_equal(insn.length, size);
	return insn;
}

static void test_exact(void **state)
{
	for (size_t i = 0; i < sizeof(exact) / sizeof(*exact); i++) {
		struct insn insn = insn_of(exact[i].bytes, exact[i].size);
		uint8_t bytes[64];
		struct emitter e;

		emit_init(&e, bytes, sizeof(bytes), taddr_of(exact[i].to));
		assert_null(relocate(&insn, &e));
		assert_int_equal(e.size, exact[i].expected_size);
		assert_memory_equal(bytes, exact[i].expected, e.size);

		struct moved moved = { bytes, e.size, exact[i].to };

		assert_null(relocate_check(&insn, &moved));
	}
}

/* ---- refusals ------------------------------------------------------------------------------- */

static const struct {
	const char *bytes;
	size_t size;
	uint64_t to;
	const char *sentence;
} refused[] = {
	{B("\xc7\xf8\x00\x01\x00\x00"), NEAR,
	 "'xbegin 0x0000000010000106' can't be moved: an aborted transaction would go on in other "
	 "code"},
	{B("\x67\x8b\x05\x00\x01\x00\x00"), NEAR,
	 "'mov eax, [0x0000000010000107]' can't be moved: its operand is relative to eip"},
	{B("\x67\xff\x15\x00\x01\x00\x00"), NEAR,
	 "'call [0x0000000010000107]' can't be moved: its operand is relative to eip"},
	{B("\x48\x8d\x05\x00\x10\x00\x00"), FAR,
	 "'lea rax, [0x0000000010001007]' can't be moved: its operand is out of reach of the copy"},
	{B("\xff\x15\x00\x10\x00\x00"), FAR,
	 "'call [0x0000000010001006]' can't be moved: its operand is out of reach of the copy"},
	{B("\xff\x18"), NEAR, "'call far [rax]' can't be moved: it is a far call"},
	{B("\xff\xd4"), NEAR, "'call rsp' can't be moved: it calls the stack itself"},
	{B("\xff\x54\x24\xf8"), NEAR,
	 "'call [rsp-0x08]' can't be moved: it reads the stack slot that it writes"},
	{B("\xff\x54\x24\xf1"), NEAR,
	 "'call [rsp-0x0F]' can't be moved: it reads the stack slot that it writes"},
	{B("\xff\x94\x24\xf8\xff\xff\x7f"), NEAR,
	 "'call [rsp+0x7FFFFFF8]' can't be moved: its displacement can't grow by 8"},
	{B("\x66\xe9\x00\x01\x00\x00"), NEAR, "processors differ in what its 66 prefix means"},
	{B("\x66\xe8\x00\x01\x00\x00"), NEAR, "processors differ in what its 66 prefix means"},
	{B("\xc5\x58\x84\x00\x01\x00\x00"), NEAR, "a branch on a mask register"},
	{B("\x66\xff\xd0"), NEAR, "processors differ in what its 66 prefix means"},
};

static void test_refused(void **state)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		struct insn insn = insn_of(refused[i].bytes, refused[i].size);
		uint8_t bytes[64];
		struct emitter e;

		emit_init(&e, bytes, sizeof(bytes), taddr_of(refused[i].to - 1));
		emit_int3(&e);

		_cleanup_error_ struct error *err = relocate(&insn, &e);

		assert_non_null(err);
		assert_int_equal(error_kind(err), ERROR_REFUSED);
		assert_non_null(strstr(error_text(err), refused[i].sentence));
		assert_int_equal(e.size, 1); /* as it was */
		assert_false(emit_failed(&e));
	}
}

/* 66 66 48 e8 is how a call of __tls_get_addr looks: REX.W has precedence. */
static void test_padded_call(void **state)
{
	struct insn insn = insn_of(B("\x66\x66\x48\xe8\x10\x00\x00\x00"));
	uint8_t bytes[64];
	struct emitter e;
	struct moved moved = { bytes, 0, NEAR };

	emit_init(&e, bytes, sizeof(bytes), taddr_of(NEAR));
	assert_null(relocate(&insn, &e));
	moved.size = e.size;
	assert_null(relocate_check(&insn, &moved));
}

/* Too little room: refused, with the emitter as it was; with a failed emitter nothing happens. */
static void test_no_room(void **state)
{
	for (size_t i = 0; i < sizeof(exact) / sizeof(*exact); i++) {
		struct insn insn = insn_of(exact[i].bytes, exact[i].size);

		for (size_t room = 0; room < exact[i].expected_size; room++) {
			uint8_t bytes[64];
			struct emitter e;

			emit_init(&e, bytes, room, taddr_of(exact[i].to));

			_cleanup_error_ struct error *err = relocate(&insn, &e);

			assert_non_null(err);
			assert_non_null(strstr(error_text(err), "no room left for the copy"));
			assert_int_equal(e.size, 0);
			assert_false(emit_failed(&e));
			e.failed = true;
			assert_null(relocate(&insn, &e));
			assert_int_equal(e.size, 0);
		}
	}
}

/* ---- whole programs ------------------------------------------------------------------------- */

struct tally {
	size_t moved, refused;
	size_t flow[FLOW_STOP + 1];
	size_t rip_relative;
};

static void check_one(const struct insn *insn, uint64_t to, struct tally *tally)
{
	uint8_t bytes[64];
	struct emitter e;
	struct moved moved = { bytes, 0, to };

	emit_init(&e, bytes, sizeof(bytes), taddr_of(to));

	_cleanup_error_ struct error *err = relocate(insn, &e);

	if (err) {
		assert_int_equal(error_kind(err), ERROR_REFUSED);
		tally->refused++;
		return;
	}
	moved.size = e.size;

	const char *wrong = relocate_check(insn, &moved);

	if (wrong) {
		char text[128];

		decode_format(insn, text, sizeof(text));
		fail_msg("0x%lx %s to 0x%lx: %s", insn->pc.v, text, to, wrong);
	}
	tally->moved++;
	tally->flow[insn->flow]++;
	tally->rip_relative += insn->rip_relative;
}

/* Data in the text gives strange instructions too: refused or right, never wrong. */
static void sweep(const struct binary_text *text, struct tally *tally)
{
	struct insn insn;

	for (size_t at = 0; at < text->size;) {
		if (!decode(text->bytes + at, text->size - at, taddr_of(text->address + at),
			    &insn)) {
			at++;
			continue;
		}
		check_one(&insn, text->address + at + (1ULL << 30) + at % 16, tally);
		if (!insn.rip_relative)
			check_one(&insn, text->address + at + (1ULL << 40) + at % 16, tally);
		at += insn.length;
	}
}

static void test_real_programs(void **state)
{
	struct tally tally = { 0 };

	for (size_t i = 0; i < BINARY_COUNT; i++) {
		struct binary_text text = binary_text_map(binary_paths[i]);

		sweep(&text, &tally);
		binary_text_unmap(&text);
	}
	assert_true(tally.moved > 600000);
	assert_true(tally.refused * 10000 < tally.moved);
	for (size_t i = 0; i <= FLOW_STOP; i++)
		assert_true(tally.flow[i] > 100);
	assert_true(tally.rip_relative > 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exact),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_padded_call),
		cmocka_unit_test(test_no_room),
		cmocka_unit_test(test_real_programs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
