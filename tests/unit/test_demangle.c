/* Names as programmers write them: Rust's own mangling against its reference, and names as typed
 * against demangled ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control/names/demangle.h"

static const struct {
	const char *mangled, *readable;
} rust_names[] = {
	{ "_RNvC6_123foo3bar", "123foo::bar" },
	{ "_RINvCshhNdl82Kjmm_1g4showlKj3_EB2_", "g::show::<i32, 3>" },
	{ "_RNCNvNtNtCsjrHSEGnQ3l9_3std3sys9backtrace10__print_fmt0B7_",
	  "std::sys::backtrace::_print_fmt::{closure#0}" },
	{ "_RNvMNtCsgEmfK2I1SDS_4core3stre3lenCshhNdl82Kjmm_1g", "<str>::len" },
	{ "_RNvXs1i_NtCsgEmfK2I1SDS_4core3fmtReNtB6_7Display3fmtCsgY6Mt91CT9J_14rustc_demangle",
	  "<&str as core::fmt::Display>::fmt" },
	{ "_RINvNtCsgEmfK2I1SDS_4core3ptr13drop_in_placeNtNtCslNYArtu3iFV_5alloc6string6StringEBK_",
	  "core::ptr::drop_in_place::<alloc::string::String>" },
	{ "_RINvC1a1fFUKCxEyE", "a::f::<unsafe extern \"C\" fn(i64) -> u64>" },
	{ "_RINvC1a1fFG_RL0_hEuE", "a::f::<for<'a> fn(&'a u8)>" },
	{ "_RINvC1a1fDINtC1b5TraithEp4ItemaEL_E", "a::f::<dyn b::Trait<u8, Item = i8>>" },
	{ "_RINvC1a1fTlETENPcE", NULL },
	{ "_RINvC1a1fTlETEAhj5_SeQmPcOdE",
	  "a::f::<(i32,), (), [u8; 5], [str], &mut u32, *const char, *mut f64>" },
	{ "_RINvC1a1fKan2a_Kb1_Kc41_KpE", "a::f::<-42, true, 0x41, _>" },
	{ "_RNvC1au8gdel_5qa", "a::punycode{gdel_5qa}" },
	{ "_RNvC1a1f.llvm.1234", "a::f" },
	{ "_RNvC1a", NULL },
	{ "_RB_", NULL }, /* to itself */
	{ "_RNvB1_1a", NULL },
	{ "_R", NULL },
	{ "_RNvC99999999999999999999a1b", NULL },
};

static void test_rust_names(void **state)
{
	for (size_t i = 0; i < sizeof(rust_names) / sizeof(rust_names[0]); i++) {
		char *readable = demangle(rust_names[i].mangled);

		if (rust_names[i].readable) {
			assert_non_null(readable);
			assert_string_equal(readable, rust_names[i].readable);
		} else {
			assert_null(readable);
		}
		free(readable);
	}
}

/* Every start of a name, and every name with one letter changed: an answer or none, but an end. */
static void test_damaged_rust_names(void **state)
{
	for (size_t i = 0; i < sizeof(rust_names) / sizeof(rust_names[0]); i++) {
		size_t length = strlen(rust_names[i].mangled);

		for (size_t at = 2; at < length; at++) {
			static const char letters[] = "BCDEFGIKLMNRTXY0_suz";
			char *name = strdup(rust_names[i].mangled);

			for (size_t j = 0; letters[j]; j++) {
				name[at] = letters[j];
				free(demangle(name));
			}
			name[at] = '\0';
			free(demangle(name));
			free(name);
		}
	}
	char deep[4096] = "_R";
	memset(deep + 2, 'N', sizeof(deep) - 3);
	assert_null(demangle(deep));
	memset(deep + 2, 'S', sizeof(deep) - 3);
	memcpy(deep, "_RM", 3);
	assert_null(demangle(deep));
}

static void test_what_was_typed(void **state)
{
	assert_true(demangle_fits("g::show::<i32, 3>", "g::show", false));
	assert_true(demangle_fits("g::show::<i32, 3>", "g::show::<i32, 3>", false));
	assert_true(demangle_fits("g::show::<i32, 3>", "g::show::<i32,3>", false));
	assert_true(demangle_fits("g::show::<i32, 3>", "g::s*", true));
	assert_false(demangle_fits("g::show::<i32, 3>", "g::sho", false));
	assert_true(demangle_fits("<g::Circle as g::Shape>::area", "<g::Circle as g::Shape>::area",
				  false));
	assert_true(demangle_fits("ns::f(int)", "ns::f", false));
	assert_true(demangle_fits("ns::tmpl<int>(int)", "ns::tmpl", false));
	assert_false(demangle_fits("ns::f(int)", "ns::f(double)", false));
}

static void test_short_names(void **state)
{
	static const char *const names[][2] = {
		{ "ns::f(int)", "ns::f" },
		{ "ns::s::g(void (*)(int)) const", "ns::s::g" },
		{ "int ns::tmpl<int>(int, int)", "ns::tmpl<int>" },
		{ "ns::s::operator()(int)", "ns::s::operator()" },
		{ "operator<<(std::ostream&, ns::s const&)", "operator<<" },
		{ "(anonymous namespace)::f(int)", "(anonymous namespace)::f" },
		{ "f()::{lambda(int)#1}::operator()(int) const", NULL }, /* isn't f */
		{ "f(int) [clone .cold]", NULL },
		{ "plain", NULL },
		{ "guard variable for f()::x", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char *text = demangle_short(names[i][0]);

		if (names[i][1])
			assert_string_equal(text, names[i][1]);
		else
			assert_null(text);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rust_names),
		cmocka_unit_test(test_damaged_rust_names),
		cmocka_unit_test(test_what_was_typed),
		cmocka_unit_test(test_short_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
