/* Modules that use more than the lower halves of xmm0 to xmm15. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/base/cleanup.h"
#include "control/tracers/loading/wide.h"
#include "scratch.h"

static const char source[] =
	"#include <unistd.h>\n"
	"int main(void) { char c; double a[64]; for (int i = 0; i < 64; i++) a[i] = i * 0.5;\n"
	"write(3, \"r\", 1); return read(4, &c, 1) + (int)a[c & 63]; }\n";

/* The program, built with those options. */
static bool is_wide(const char *options, const char *module)
{
	bool wide = false;

	scratch_text("program.c", source);
	scratch_run("gcc -O3 -w %s program.c -o program", options);

	struct scratch_process process = scratch_start("program", NULL);
	struct modules modules = { 0 };
	struct maps maps = { 0 };
	struct proc *proc;
	bool found = false;

	assert_null(proc_open_plain(process.pid, &proc));
	assert_null(maps_read(proc, &maps));
	assert_null(modules_read(proc, &maps, &modules));
	for (size_t i = 0; i < modules.count; i++) {
		if (strcmp(modules.items[i]->name, module) != 0)
			continue;
		assert_null(wide_look(proc, modules.items[i], &wide));
		found = true;
	}
	assert_true(found);
	modules_free(&modules);
	maps_free(&maps);
	proc_close(proc);
	scratch_end(&process);
	return wide;
}

static void test_programs(void **state)
{
	assert_false(is_wide("", "program"));
	assert_false(is_wide("-msse4.2", "program"));
	assert_true(is_wide("-mavx", "program"));
	assert_true(is_wide("-mavx512f -mprefer-vector-width=512", "program"));
}

/* It has functions for every processor. */
static void test_the_libc(void **state)
{
	assert_true(is_wide("", "libc.so.6"));
}

/* What isn't an instruction may be anything. */
static void test_data_in_code(void **state)
{
	scratch_text("data.h", "__asm__(\".text\\n.byte 0x06, 0x07, 0x0e\\n\");\n");
	assert_true(is_wide("-include data.h", "program"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_programs),
		cmocka_unit_test(test_data_in_code),
		cmocka_unit_test(test_the_libc),
	};

	return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
