/* LOC: parsing, and finding places in the modules of a process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>

#include "control/names/locate.h"
#include "scratch.h"

/* ---- location_parse -------------------------------------------------------------------------- */

static const struct {
	const char *text;
	const char *symbol; /* NULL: an address */
	uint64_t number;
	const char *module;
	bool is_glob;
} good[] = {
	{ "main", "main", 0, NULL, false },
	{ "main+16", "main", 16, NULL, false },
	{ "main+0x10", "main", 16, NULL, false },
	{ "main+020", "main", 16, NULL, false },
	{ "main+0", "main", 0, NULL, false },
	{ "0x401136", NULL, 0x401136, NULL, false },
	{ "31", NULL, 31, NULL, false },
	{ "037", NULL, 31, NULL, false },
	{ "0", NULL, 0, NULL, false },
	{ "0xffffffffffffffff", NULL, UINT64_MAX, NULL, false },
	{ "0x1136@libfoo.so", NULL, 0x1136, "libfoo.so", false },
	{ "foo@libfoo.so", "foo", 0, "libfoo.so", false },
	{ "foo+4@libfoo.so.1", "foo", 4, "libfoo.so.1", false },
	{ "foo@bar@libfoo.so", "foo@bar", 0, "libfoo.so", false },
	{ "foo@/usr/lib/libfoo.so", "foo", 0, "/usr/lib/libfoo.so", false },
	{ "ngx_http_*", "ngx_http_*", 0, NULL, true },
	{ "foo?", "foo?", 0, NULL, true },
	{ "[ab]*@libc.so.6", "[ab]*", 0, "libc.so.6", true },
	{ "foo.part.0+3", "foo.part.0", 3, NULL, false },
	{ "ns::f(int)", "ns::f(int)", 0, NULL, false },
	{ "ns::f", "ns::f", 0, NULL, false },
	{ "ns::operator+(ns::T const&)", "ns::operator+(ns::T const&)", 0, NULL, false },
	{ "operator+", "operator+", 0, NULL, false },
	{ "operator++", "operator++", 0, NULL, false },
	{ "operator++4", "operator+", 4, NULL, false },
	{ "_ZN2ns1fEi", "_ZN2ns1fEi", 0, NULL, false },
};

static void test_parse(void **state)
{
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		struct location location;
		struct error *error = location_parse(good[i].text, &location);

		if (error)
			print_error("%s\n", error_text(error));
		assert_null(error);
		assert_string_equal(location.text, good[i].text);
		assert_int_equal(location.number, good[i].number);
		assert_int_equal(location.is_glob, good[i].is_glob);
		assert_int_equal(!location.symbol, !good[i].symbol);
		if (good[i].symbol)
			assert_string_equal(location.symbol, good[i].symbol);
		assert_int_equal(!location.module, !good[i].module);
		if (good[i].module)
			assert_string_equal(location.module, good[i].module);
		location_clear(&location);
	}
}

static const struct {
	const char *text;
	const char *error;
} bad[] = {
	{ "", "'': not a location (give SYMBOL, SYMBOL+OFFSET or ADDRESS)" },
	{ "@libc.so.6", "'@libc.so.6': not a location (give SYMBOL, SYMBOL+OFFSET or ADDRESS)" },
	{ "+5", "'+5': no symbol before the offset" },
	{ "foo+", "'foo+': '' is not an offset (write 0x1f, 31 or 037)" },
	{ "foo+zz", "'foo+zz': 'zz' is not an offset (write 0x1f, 31 or 037)" },
	{ "foo+0x", "'foo+0x': '0x' is not an offset (write 0x1f, 31 or 037)" },
	{ "foo+09", "'foo+09': '09' is not an offset (write 0x1f, 31 or 037)" },
	{ "foo+-4", "'foo+-4': '-4' is not an offset (write 0x1f, 31 or 037)" },
	{ "foo+4 ", "'foo+4 ': '4 ' is not an offset (write 0x1f, 31 or 037)" },
	{ "foo+0x10000000000000000", "'foo+0x10000000000000000': '0x10000000000000000' is not "
				     "an offset (write 0x1f, 31 or 037)" },
	{ "0x", "'0x': not an address (write 0x1f, 31 or 037)" },
	{ "09", "'09': not an address (write 0x1f, 31 or 037)" },
	{ "0x12g", "'0x12g': not an address (write 0x1f, 31 or 037)" },
	{ "18446744073709551616",
	  "'18446744073709551616': not an address (write 0x1f, 31 or 037)" },
	{ "foo@", "'foo@': no module after the '@'" },
	{ "foo*+4", "'foo*+4': a pattern can't have an offset" },
	{ "foo.c:0", "'foo.c:0': '0' is not a line number" },
	{ "foo.c:09", "'foo.c:09': '09' is not a line number" },
};

static void test_parse_errors(void **state)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct location location = { .number = 77 };
		struct error *error = location_parse(bad[i].text, &location);

		assert_non_null(error);
		assert_string_equal(error_text(error), bad[i].error);
		assert_int_equal(error_kind(error), ERROR_USAGE);
		assert_int_equal(location.number, 77);
		error_free(error);
	}
}

/* ---- locate ---------------------------------------------------------------------------------- */

static const char library_source[] = "int library_function(int x) { return x * x + 3 * x; }\n"
				     "int shared_name(int x) { return x + 5; }\n"
				     "int library_data = 3;\n"
				     "int both(int x) { return x + 11; }\n";

static const char program_source[] = SCRATCH_READY
	"int counter = 1;\n"
	"int both = 1;\n" /* data here, a function in the library */
	"int shared_name(int x) { return x + 4; }\n"
	"int library_function(int);\n"
	"int net_open(int x) { return x * 3 + counter; }\n"
	"int net_close(int x) { return x * 5 + counter; }\n"
	"int net_alias(int x) __attribute__((alias(\"net_open\")));\n"
	"static int choice_plain(int x) { return x + 9; }\n"
	"static int (*resolve(void))(int) { return choice_plain; }\n"
	"int choice(int) __attribute__((ifunc(\"resolve\")));\n"
	"int __choice_fast(int x) { return x + 8; }\n"
	"int lonely(int) __attribute__((ifunc(\"resolve\")));\n"
	"int twin_caller(int x);\n"
	"int main(int argc, char **argv) { ready(); return 0 * (net_open(argc) + net_close(argc) + "
	"net_alias(argc) + choice(argc) + lonely(argc) + library_function(argc) + "
	"twin_caller(argc)); }\n";

static const char twin_a[] = "__attribute__((noinline)) static int twin(int x) { return x * x; }\n"
			     "int twin_caller(int x) { return twin(x) + 1; }\n";
static const char twin_b[] =
	"__attribute__((noinline)) static int twin(int x) { return x * x * x; }\n"
	"int twin_other(int x) { return twin(x) + 1; }\n";

static struct {
	struct scratch_process process;
	struct proc *proc;
	struct maps maps;
	struct modules modules;
} target;

static int start_target(void **state)
{
	struct error *error;

	if (scratch_setup(state))
		return -1;
	scratch_text("library.c", library_source);
	scratch_text("program.c", program_source);
	scratch_text("a.c", twin_a);
	scratch_text("b.c", twin_b);
	scratch_run("gcc -O1 -fno-ipa-icf -shared -fPIC library.c -o libthing.so");
	scratch_run("gcc -O1 -fno-ipa-icf program.c a.c b.c -L. -lthing -Wl,-rpath,%s -o program",
		    scratch_directory);
	target.process = scratch_start("program", NULL);
	error = proc_open_plain(target.process.pid, &target.proc);
	if (!error)
		error = maps_read(target.proc, &target.maps);
	if (!error)
		error = modules_read(target.proc, &target.maps, &target.modules);
	return error ? -1 : 0;
}

static int end_target(void **state)
{
	modules_free(&target.modules);
	maps_free(&target.maps);
	proc_close(target.proc);
	scratch_end(&target.process);
	return scratch_teardown(state);
}

static struct error *try_locate(const char *text, bool want_function, struct places *ret_places)
{
	struct location location;
	struct error *error = location_parse(text, &location);

	assert_null(error);
	error = locate(target.proc, &target.modules, &location, want_function, ret_places);
	location_clear(&location);
	return error;
}

static struct places find_places(const char *text, bool want_function)
{
	struct places places = { 0 };
	struct error *error = try_locate(text, want_function, &places);

	if (error)
		print_error("%s\n", error_text(error));
	assert_null(error);
	return places;
}

__attribute__((format(printf, 3, 4))) static void assert_fails(const char *text, bool want_function,
							       const char *format, ...)
{
	struct places places = { .count = 77 };
	struct error *error = try_locate(text, want_function, &places);
	char expected[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(expected, sizeof(expected), format, arguments);
	va_end(arguments);
	assert_non_null(error);
	assert_string_equal(error_text(error), expected);
	assert_int_equal(places.count, 77);
	error_free(error);
}

/* What nm says about a name of the file, and where that is in the process, by maps. */
static uint64_t nm_address(const char *file, const char *name)
{
	return strtoul(scratch_output("nm %s | awk '$3==\"%s\" {print $1; exit}'", file, name),
		       NULL, 16);
}

static uint64_t nm_size(const char *file, const char *name)
{
	return strtoul(scratch_output("nm -S %s | awk '$4==\"%s\" {print $2; exit}'", file, name),
		       NULL, 16);
}

static uint64_t base_of(const char *file)
{
	return strtoul(scratch_output("grep -m1 /%s$ /proc/%d/maps", file, (int)target.process.pid),
		       NULL, 16);
}

static void assert_place(const char *text, bool want_function, const char *file, uint64_t address,
			 const char *symbol, const char *name)
{
	struct places places = find_places(text, want_function);

	assert_int_equal(places.count, 1);
	assert_int_equal(places.items[0].address.v, address + base_of(file));
	assert_string_equal(places.items[0].module->name, file);
	assert_string_equal(places.items[0].name, name);
	assert_non_null(places.items[0].symbol);
	assert_string_equal(places.items[0].symbol->name, symbol);
	places_free(&places);
}

static void test_names(void **state)
{
	uint64_t main_address = nm_address("program", "main");

	for (int want_function = 0; want_function < 2; want_function++) {
		assert_place("main", want_function, "program", main_address, "main", "main");
		assert_place("main+0", want_function, "program", main_address, "main", "main");
		assert_place("main@program", want_function, "program", main_address, "main",
			     "main");
		assert_place("library_function", want_function, "libthing.so",
			     nm_address("libthing.so", "library_function"), "library_function",
			     "library_function");
		assert_place("shared_name", want_function, "program",
			     nm_address("program", "shared_name"), "shared_name", "shared_name");
		assert_place("shared_name@libthing.so", want_function, "libthing.so",
			     nm_address("libthing.so", "shared_name"), "shared_name",
			     "shared_name");
		assert_place("shared_name@libthing", want_function, "libthing.so",
			     nm_address("libthing.so", "shared_name"), "shared_name",
			     "shared_name");
		assert_place("both", want_function, "libthing.so",
			     nm_address("libthing.so", "both"), "both", "both");
		assert_place("net_alias", want_function, "program",
			     nm_address("program", "net_open"), "net_alias", "net_alias");
	}
	assert_place("main+0x4", false, "program", main_address + 4, "main", "main+0x4");
	assert_place("main+4", false, "program", main_address + 4, "main", "main+0x4");
}

static void test_addresses(void **state)
{
	uint64_t file = nm_address("program", "net_close"), absolute = file + base_of("program");
	char text[64], name[64];

	snprintf(text, sizeof(text), "0x%" PRIx64, absolute);
	assert_place(text, true, "program", file, "net_close", text);
	assert_place(text, false, "program", file, "net_close", text);
	snprintf(text, sizeof(text), "%" PRIu64, absolute);
	snprintf(name, sizeof(name), "0x%" PRIx64, absolute);
	assert_place(text, true, "program", file, "net_close", name);
	snprintf(text, sizeof(text), "0x%" PRIx64 "@program", file);
	snprintf(name, sizeof(name), "0x%" PRIx64, file);
	assert_place(text, true, "program", file, "net_close", name);
	snprintf(text, sizeof(text), "0x%" PRIx64 "@program", file + 3);
	snprintf(name, sizeof(name), "0x%" PRIx64, file + 3);
	assert_place(text, false, "program", file + 3, "net_close", name);
	assert_fails(text, true,
		     "'%s': not the first instruction of a function (it is net_close+0x3)",
		     text);
	snprintf(text, sizeof(text), "0x%" PRIx64, file);
	assert_fails(text, false,
		     "'%s': not in the code of any module of program (write %s@program for an "
		     "address in the file)",
		     text, text);
	snprintf(text, sizeof(text), "0x%" PRIx64 "@program", nm_address("program", "counter"));
	assert_fails(text, false, "'%s': not in the code of program", text);
	assert_fails("0x7fffffffffffffff", false,
		     "'0x7fffffffffffffff': not in the code of any module of program");
	assert_fails("0", false,
		     "'0': not in the code of any module of program (write 0@program for an "
		     "address in the file)");
}

/* Without names, the unwind table tells where functions start. */
static void test_unnamed_functions(void **state)
{
	uint64_t function = nm_address("program", "net_close");
	struct scratch_process named = target.process, bare;
	struct modules modules = target.modules;
	struct maps maps = target.maps;
	struct proc *proc = target.proc;
	struct places places;
	char text[64], inside[64];

	scratch_run("strip program -o bare");
	bare = scratch_start("bare", NULL);
	target.process = bare;
	assert_null(proc_open_plain(bare.pid, &target.proc));
	assert_null(maps_read(target.proc, &target.maps));
	assert_null(modules_read(target.proc, &target.maps, &target.modules));
	snprintf(text, sizeof(text), "0x%" PRIx64 "@bare", function);
	snprintf(inside, sizeof(inside), "0x%" PRIx64 "@bare", function + 3);
	places = find_places(text, true);
	assert_int_equal(places.items[0].address.v, function + base_of("bare"));
	assert_null(places.items[0].symbol);
	places_free(&places);
	assert_fails(inside, true,
		     "'%s': not the first instruction of a function (it is 0x3 bytes into one "
		     "without a name)",
		     inside);
	places = find_places("main", true);
	assert_int_equal(places.items[0].address.v,
			 nm_address("program", "main") + base_of("bare"));
	places_free(&places);
	modules_free(&target.modules);
	maps_free(&target.maps);
	proc_close(target.proc);
	scratch_end(&bare);
	target.process = named;
	target.modules = modules;
	target.maps = maps;
	target.proc = proc;
}

static void test_offsets(void **state)
{
	unsigned long size = nm_size("program", "net_close");
	char text[64];

	snprintf(text, sizeof(text), "net_close+%lu", size - 1);
	struct places places = find_places(text, false);
	assert_int_equal(places.count, 1);
	places_free(&places);
	snprintf(text, sizeof(text), "net_close+%lu", size);
	assert_fails(text, false, "'%s': outside net_close, which is 0x%lx bytes long", text,
		     size);
	assert_fails(
		"net_close+3", true,
		"'net_close+3': not the first instruction of a function (it is net_close+0x3)");
}

static void test_globs(void **state)
{
	struct places places = find_places("net_*", true);

	/* net_alias and net_open are one; of the two names the shorter */
	assert_int_equal(places.count, 2);
	assert_string_equal(places.items[0].name, "net_open");
	assert_string_equal(places.items[1].name, "net_close");
	assert_int_equal(places.items[0].address.v,
			 nm_address("program", "net_open") + base_of("program"));
	assert_int_equal(places.items[1].address.v,
			 nm_address("program", "net_close") + base_of("program"));
	places_free(&places);

	places = find_places("net_[a]*", true);
	assert_int_equal(places.count, 1);
	assert_string_equal(places.items[0].name, "net_alias");
	places_free(&places);
}

/* Every function of a module, against nm: addresses in code, once each. */
static void test_glob_counts(void **state)
{
	static const char *const patterns[] = { "*", "net_*", "*_function", "shared_????",
						"[l-m]*" };
	static const char *const files[] = { "program", "libthing.so" };

	for (size_t i = 0; i < 5; i++) {
		for (size_t k = 0; k < 2; k++) {
			char text[64];
			size_t expected = strtoul(
				scratch_output(
					"readelf -W --syms %s | awk '$4==\"FUNC\" && $7!=\"UND\" "
					"{sub(/@.*/, \"\", $8); print $2, $8}' | while read a n; "
					"do "
					"case $n in %s) echo $a;; esac; done | sort -u | wc -l",
					files[k], patterns[i]),
				NULL, 10);
			struct places places = { 0 };
			struct error *error;

			snprintf(text, sizeof(text), "%s@%s", patterns[i], files[k]);
			error = try_locate(text, true, &places);
			assert_int_equal(error == NULL, expected != 0);
			assert_int_equal(places.count, expected);
			error_free(error);
			places_free(&places);
		}
	}
	struct places places = find_places("*", true); /* the program only */
	for (size_t i = 0; i < places.count; i++)
		assert_string_equal(places.items[i].module->name, "program");
	places_free(&places);
}

static void test_ambiguous(void **state)
{
	const char *list = scratch_output("nm program | awk '$3==\"twin\" {print $1}' | sort");
	uint64_t a = strtoul(list, NULL, 16), b = strtoul(strchr(list, '\n') + 1, NULL, 16);

	assert_int_not_equal(a, b);
	assert_fails("twin", true,
		     "'twin': 2 functions have this name; give one of:\n  1. 0x%" PRIx64
		     "@program\n  2. 0x%" PRIx64 "@program",
		     a, b);
	struct places places = find_places("twi?", true);
	assert_int_equal(places.count, 2);
	places_free(&places);
}

static void test_errors(void **state)
{
	int pid = (int)target.process.pid;

	assert_fails("net_opn", true,
		     "no function 'net_opn' in program or its libraries; did you mean net_open?");
	assert_fails("Net_Opne", false,
		     "no function 'Net_Opne' in program or its libraries; did you mean net_open?");
	assert_fails("library_funktion", false,
		     "no function 'library_funktion' in program or its libraries; did you mean "
		     "library_function?");
	assert_fails("xyzzyplugh", false, "no function 'xyzzyplugh' in program or its libraries");
	assert_fails("net_opn@libthing.so", false, "no function 'net_opn' in libthing.so");
	assert_fails("net_*@libthing.so", false, "no function of libthing.so matches 'net_*'");
	assert_fails("nett_*", true, "no function of program matches 'nett_*'");
	assert_fails("counter", true, "'counter': data of program, not a function");
	assert_fails("library_data", false,
		     "'library_data': data of libthing.so, not a function");
	assert_fails("library_data+4", false,
		     "'library_data': data of libthing.so, not a function");
	assert_fails(
		"main@libthink.so", false,
		"no module 'libthink.so' in program (pid %d); did you mean libthing.so? (--wait "
		"waits until it is loaded)",
		pid);
	assert_fails("0x10@xyzzy", false,
		     "no module 'xyzzy' in program (pid %d) (--wait waits until it is "
		     "loaded)", pid);
}

/* What the process uses, by the words that its loader filled in. */
static void test_chosen_at_run_time(void **state)
{
	static const char *const names[] = { "choice", "lonely" };

	for (size_t i = 0; i < 2; i++) {
		struct places places = find_places(names[i], true);

		assert_int_equal(places.count, 1);
		assert_string_equal(places.items[0].name, names[i]);
		assert_string_equal(places.items[0].symbol->name, "choice_plain");
		places_free(&places);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),	  cmocka_unit_test(test_parse_errors),
		cmocka_unit_test(test_chosen_at_run_time),
		cmocka_unit_test(test_names),	  cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_offsets),	  cmocka_unit_test(test_unnamed_functions),
		cmocka_unit_test(test_globs),	  cmocka_unit_test(test_glob_counts),
		cmocka_unit_test(test_ambiguous), cmocka_unit_test(test_errors),
	};

	return cmocka_run_group_tests(tests, start_target, end_target);
}
