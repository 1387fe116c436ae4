/* Argument strings of static markers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "control/elf/sdt.h"

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R15 = 15, NONE = SDT_NO_REGISTER };

static bool find(void *context, const char *name, uint64_t *ret_address)
{
	(void)context;
	*ret_address = 0x4000;
	return strcmp(name, "table") == 0 || strcmp(name, ".Lx$1") == 0;
}

static const struct sdt_symbols symbols = { find, NULL };

static struct sdt_argument parse(const char *text)
{
	struct sdt_argument argument;

	assert_true(sdt_next_argument(&text, &symbols, &argument));
	assert_string_equal(text, "");
	return argument;
}

static void test_registers(void **state)
{
	static const struct {
		const char *text;
		uint8_t size, reg, shift;
		bool is_signed;
	} cases[] = {
		{ "8@%rax", 8, RAX, 0, false }, { "-4@%edi", 4, RDI, 0, true },
		{ "2@%si", 2, RSI, 0, false },	{ "-1@%bpl", 1, RBP, 0, true },
		{ "1@%bh", 1, RBX, 1, false },	{ "4@%r15d", 4, R15, 0, false },
		{ "-2@%r8w", 2, R8, 0, true },	{ "1@%r8b", 1, R8, 0, false },
		{ "8@%eax", 8, RAX, 0, false }, { "%rdx", 8, RDX, 0, false },
		{ "-8@%r15", 8, R15, 0, true }, { "4@%spl", 4, RSP, 0, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sdt_argument a = parse(cases[i].text);

		assert_int_equal(a.kind, SDT_REGISTER);
		assert_int_equal(a.size, cases[i].size);
		assert_int_equal(a.reg, cases[i].reg);
		assert_int_equal(a.shift, cases[i].shift);
		assert_int_equal(a.is_signed, cases[i].is_signed);
		assert_false(a.is_float);
	}
	assert_int_equal(parse("8f@%xmm0").kind, SDT_XMM);
	assert_true(parse("4f@%xmm15").is_float);
	assert_int_equal(parse("4f@%xmm15").reg, 15);
}

static void test_memory(void **state)
{
	static const struct {
		const char *text;
		uint8_t base, index, scale, segment;
		bool is_relative;
		int64_t disp;
	} cases[] = {
		{ "8@-16(%rbp)", RBP, NONE, 1, 0, false, -16 },
		{ "8@(%rax,%rbx,4)", RAX, RBX, 4, 0, false, 0 },
		{ "8@8(,%rcx,8)", NONE, RCX, 8, 0, false, 8 },
		{ "8@(%rax,%rcx)", RAX, RCX, 1, 0, false, 0 },
		{ "8@table(%rip)", NONE, NONE, 1, 0, true, 0x4000 },
		{ "8@4+table(%rip)", NONE, NONE, 1, 0, true, 0x4004 },
		{ "8@table-8(%rip)", NONE, NONE, 1, 0, true, 0x3ff8 },
		{ "8@.Lx$1(%rip)", NONE, NONE, 1, 0, true, 0x4000 },
		{ "8@table(,%rax,8)", NONE, RAX, 8, 0, true, 0x4000 },
		{ "8@0x10(%rsp)", RSP, NONE, 1, 0, false, 16 },
		{ "8@%fs:-8", NONE, NONE, 1, 'f', false, -8 },
		{ "8@%gs:16(%rax)", RAX, NONE, 1, 'g', false, 16 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sdt_argument a = parse(cases[i].text);

		assert_int_equal(a.kind, SDT_MEMORY);
		assert_int_equal(a.base, cases[i].base);
		assert_int_equal(a.index, cases[i].index);
		assert_int_equal(a.scale, cases[i].scale);
		assert_int_equal(a.segment, cases[i].segment);
		assert_int_equal(a.is_relative, cases[i].is_relative);
		assert_int_equal(a.disp, cases[i].disp);
	}
}

static void test_constants(void **state)
{
	(void)state;
	assert_int_equal(parse("4@$5").kind, SDT_CONSTANT);
	assert_int_equal(parse("-4@$-5").disp, -5);
	assert_int_equal(parse("-8@$-9223372036854775808").disp, INT64_MIN);
	assert_int_equal((uint64_t)parse("8@$0xffffffffffffffff").disp, UINT64_MAX);
	assert_int_equal(parse("2@$077").disp, 63);
	assert_true(parse("8@$table+4").is_relative);
	assert_int_equal(parse("8@$table+4").disp, 0x4004);
}

/* Nothing that is only half understood becomes a value. */
static void test_unknown(void **state)
{
	static const char *const texts[] = {
		"8@",
		"@%rax",
		"3@%rax",
		"0@%rax",
		"16@%rax",
		"8@%rxx",
		"8@%st(0)",
		"8@%ymm0",
		"8@%xmm16",
		"2@%xmm0",
		"2@%ah",
		"8@other(%rip)",
		"8@(%rip)",
		"8@8(%rip)",
		"8@table(%rip,%rax,2)",
		"8@(%eax)",
		"8@(%rax,%rip)",
		"8@(%rax,%rbx,3)",
		"8@(%rax,%rbx,",
		"8@(%rax",
		"8@table+table(%rip)",
		"8@4-table(%rip)",
		"8@-table(%rip)",
		"8@$",
		"8@$99999999999999999999",
		"8@%cs:8",
		"8@%fs:table",
		"2f@%ax",
		"8@%rax)",
		"8@1+",
		"--8@%rax",
		"8f",
		"8@table@GOTPCREL(%rip)",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_int_equal(parse(texts[i]).kind, SDT_UNKNOWN);
}

static void test_walk(void **state)
{
	const char *text = "  -4@%edi  bad 8@8(%rax)\t4@$1 ";
	struct sdt_argument argument;
	enum sdt_kind kinds[] = { SDT_REGISTER, SDT_UNKNOWN, SDT_MEMORY, SDT_CONSTANT };

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		assert_true(sdt_next_argument(&text, &symbols, &argument));
		assert_int_equal(argument.kind, kinds[i]);
	}
	assert_false(sdt_next_argument(&text, &symbols, &argument));
	text = "8@table(%rip)";
	assert_true(sdt_next_argument(&text, NULL, &argument));
	assert_int_equal(argument.kind, SDT_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_registers), cmocka_unit_test(test_memory),
		cmocka_unit_test(test_constants), cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_walk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
