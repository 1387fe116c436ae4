/* Names as programmers write them: Rust's own mangling against its reference, and names as typed
 * against demangled ones. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "control/base/strbuf.h"
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

/* Each argument names the one before twice: the readable name doubles with every ten characters. */
static char *doubling_name(unsigned levels)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	struct strbuf name = { 0 };

	strbuf_printf(&name, "_Z1f1AIiiE");
	for (unsigned i = 0; i < levels; i++)
		strbuf_printf(&name, "S_IS%c_S%c_E", digits[i], digits[i]);
	return name.text;
}

/* 36 levels are 2.3 TB. A limit of the process's time ends the test if nothing else does. */
static void test_hostile_names(void **state)
{
	struct rusage before, after;

	(void)state;
	getrusage(RUSAGE_SELF, &before);
	setrlimit(RLIMIT_CPU, &(struct rlimit){ 30, 60 });
	for (unsigned levels = 0; levels <= 36; levels++) {
		char *name = doubling_name(levels), *readable = demangle(name);

		assert_int_equal(readable != NULL, levels <= 10);
		free(readable);
		free(name);
	}
	getrusage(RUSAGE_SELF, &after);
	assert_true(after.ru_maxrss - before.ru_maxrss < 16 << 10); /* KiB */
	setrlimit(RLIMIT_CPU, &(struct rlimit){ RLIM_INFINITY, 60 });
}

/* Names of real programs read as by the demangler that everybody uses. */
static void test_cxx_names(void **state)
{
	char *(*reference)(const char *name, char *buffer, size_t *size, int *status);
	void *library = dlopen("libstdc++.so.6", RTLD_NOW);
	FILE *names = popen("nm -D --format=just-symbols --without-symbol-versions "
			    "/usr/lib/x86_64-linux-gnu/libstdc++.so.6", "r");
	char name[4096];
	unsigned count = 0;
	int status;

	(void)state;
	assert_non_null(library);
	assert_non_null(names);
	*(void **)&reference = dlsym(library, "__cxa_demangle");
	while (fgets(name, sizeof(name), names)) {
		name[strcspn(name, "\n")] = '\0';
		if (strncmp(name, "_Z", 2) != 0)
			continue;
		char *expected = reference(name, NULL, NULL, &status), *found = demangle(name);
		assert_non_null(found);
		assert_string_equal(found, expected);
		free(expected);
		free(found);
		count++;
	}
	assert_int_equal(pclose(names), 0);
	assert_true(count > 4000);
	dlclose(library);
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
	assert_true(demangle_fits("Box<std::pair<int, int> >::push(int)", "Box::push", false));
	assert_true(demangle_fits("int A<1>::B<2>::f<3>(int)", "A::B::f", false));
	assert_true(demangle_fits("int A<1>::f(int)", "int A<1>::f(int)", false));
	assert_true(demangle_fits("Box<int>::operator<(int)", "Box::operator<", false));
	assert_false(demangle_fits("Box<int>::push(int)", "Box<long>::push", false));
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
		{ "ns::f(int) const.isra.0.cold", "ns::f.isra.0.cold" },
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
		cmocka_unit_test(test_hostile_names),
		cmocka_unit_test(test_cxx_names),
		cmocka_unit_test(test_what_was_typed),
		cmocka_unit_test(test_short_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
