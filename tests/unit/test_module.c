/* Modules of a process: files, addresses, build ids. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <grp.h>
#include <sys/resource.h>

#include "control/base/cleanup.h"
#include "control/modules/module.h"
#include "scratch.h"

#define NOBODY 65534

/* A process and its modules. */
struct target {
	struct scratch_process process;
	struct proc *proc;
	struct maps maps;
	struct modules modules;
};

static void look(struct target *target)
{
	struct error *error = maps_read(target->proc, &target->maps);

	assert_null(error);
	error = modules_read(target->proc, &target->maps, &target->modules);
	if (error)
		print_error("%s\n", error_text(error));
	assert_null(error);
}

static struct target start(const char *name, void (*before)(void))
{
	struct target target = { .process = scratch_start(name, before) };
	struct error *error = proc_open_plain(target.process.pid, &target.proc);

	assert_null(error);
	look(&target);
	return target;
}

static void end(struct target *target)
{
	modules_free(&target->modules);
	maps_free(&target->maps);
	proc_close(target->proc);
	scratch_end(&target->process);
}

static struct module *find(const struct target *target, const char *name)
{
	for (size_t i = 0; i < target->modules.count; i++) {
		if (strcmp(target->modules.items[i]->name, name) == 0)
			return target->modules.items[i];
	}
	return NULL;
}

static struct symtab *symtab_of(const struct target *target, struct module *module)
{
	struct symtab *symtab = NULL;
	struct error *error = module_symtab(target->proc, module, &symtab);

	if (error)
		print_error("%s\n", error_text(error));
	assert_null(error);
	return symtab;
}

/* The bytes at a function in the process are those of the file. */
static void assert_bytes_match(const struct target *target, struct module *module, const char *name)
{
	struct symtab *symtab = symtab_of(target, module);
	const struct symbol *symbol = symtab_find(symtab, name);
	const struct text_range *text;
	uint8_t memory[16];

	assert_non_null(symbol);
	assert_true(symbol->size >= sizeof(memory));
	text = symtab_text(symtab, symbol->address);
	assert_non_null(text);
	assert_null(mem_read(target->proc, taddr_of(module->bias.v + symbol->address), memory,
			     sizeof(memory)));
	assert_memory_equal(text->bytes + (symbol->address - text->address), memory,
			    sizeof(memory));
}

static const char library_source[] =
	"int library_function(int x) { return x * x + 3 * x - 1 + (x >> 2); }\n";
static const char other_source[] = "int quite_another(int x) { return x; }\n"
				   "int library_function(int x) { return x + 2; }\n";
static const char program_source[] = SCRATCH_READY
	"int library_function(int);\n"
	"int main(int argc, char **argv) { ready(); return library_function(argc) & 0; }\n";
static const char plain_source[] =
	SCRATCH_READY "int work(int x) { return x * x + 3 * x - 1 + (x >> 2); }\n"
		      "int main(int argc, char **argv) { ready(); return work(argc) & 0; }\n";

static void test_every_kind(void **state)
{
	static const char *const builds[] = { "gcc -O1",
					      "gcc -O1 -no-pie -fno-pie",
					      "gcc -O1 -static",
					      "gcc -O1 -static-pie -fPIE",
					      "gcc -O1 -fuse-ld=lld",
					      "gcc -O1 -Wl,-z,noseparate-code",
					      "musl-gcc -O1",
					      "musl-gcc -O1 -static" };

	scratch_text("plain.c", plain_source);
	for (size_t i = 0; i < sizeof(builds) / sizeof(*builds); i++) {
		struct target target;
		struct module *program;

		if (scratch_try("%s plain.c -o plain 2>/dev/null", builds[i]) != 0) {
			print_message("not built: %s\n", builds[i]);
			continue;
		}
		target = start("plain", NULL);
		program = target.modules.items[0];
		assert_string_equal(program->name, "plain");
		assert_true(program->is_executable);
		assert_string_equal(program->path, scratch_path("plain"));
		assert_bytes_match(&target, program, "main");
		assert_bytes_match(&target, program, "work");
		for (size_t k = 1; k < target.modules.count; k++) {
			assert_false(target.modules.items[k]->is_executable);
			assert_true(k < 2 || target.modules.items[k - 1]->low.v <
						     target.modules.items[k]->low.v);
		}
		end(&target);
	}
}

/* low and high hold all mappings of the file and no mapping of another. */
static void test_bounds(void **state)
{
	struct target target;

	scratch_text("plain.c", plain_source);
	scratch_run("gcc -O1 plain.c -o plain");
	target = start("plain", NULL);
	for (size_t i = 0; i < target.maps.count; i++) {
		const struct mapping *mapping = &target.maps.items[i];

		for (size_t k = 0; k < target.modules.count; k++) {
			const struct module *module = target.modules.items[k];
			bool inside = mapping->start.v >= module->low.v &&
				      mapping->end.v <= module->high.v;

			if (mapping->inode && mapping->inode == module->inode)
				assert_true(inside);
			else if (mapping->inode)
				assert_false(inside);
		}
	}
	end(&target);
}

static void test_vdso(void **state)
{
	struct module *vdso;
	struct target target;

	scratch_text("plain.c", plain_source);
	scratch_run("gcc -O1 plain.c -o plain");
	target = start("plain", NULL);
	vdso = find(&target, "[vdso]");
	assert_non_null(vdso);
	assert_true(vdso->is_vdso);
	assert_bytes_match(&target, vdso, "__vdso_gettimeofday");
	end(&target);
}

static void build_with_library(void)
{
	scratch_text("library.c", library_source);
	scratch_text("other.c", other_source);
	scratch_text("program.c", program_source);
	scratch_run("gcc -O1 -shared -fPIC library.c -Wl,--build-id -o libthing.so");
	scratch_run("gcc -O1 -shared -fPIC other.c -Wl,--build-id -o other.so");
	scratch_run("gcc -O1 program.c -L. -lthing -Wl,-rpath,%s -o program", scratch_directory);
}

static void test_deleted(void **state)
{
	struct target target;
	struct module *library;

	build_with_library();
	if (geteuid() != 0)
		skip();
	target = start("program", NULL);
	scratch_run("rm libthing.so program");
	modules_free(&target.modules);
	maps_free(&target.maps);
	look(&target);
	library = find(&target, "libthing.so");
	assert_non_null(library);
	assert_true(library->is_deleted);
	assert_string_equal(library->path, scratch_path("libthing.so"));
	assert_bytes_match(&target, library, "library_function");
	assert_string_equal(target.modules.items[0]->name, "program");
	assert_true(target.modules.items[0]->is_executable);
	assert_bytes_match(&target, target.modules.items[0], "main");
	end(&target);
}

/* Another file under the old name: the mapped one is read, not that. */
static void test_replaced(void **state)
{
	struct target target;
	struct module *library;

	build_with_library();
	if (geteuid() != 0)
		skip();
	target = start("program", NULL);
	scratch_run("mv other.so libthing.so");
	library = find(&target, "libthing.so");
	assert_bytes_match(&target, library, "library_function");
	assert_null(symtab_find(library->symtab, "quite_another"));
	end(&target);
}

static bool drop_rights(void)
{
	return setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
	       setresuid(NOBODY, NOBODY, NOBODY) == 0;
}

/* Runs a check in a child, which may lose its rights. */
static void in_child(void (*check)(void), bool unprivileged)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		if (unprivileged && geteuid() == 0 && !drop_rights())
			_exit(3);
		setenv("CMOCKA_TEST_ABORT", "1", 1); /* a failed assert ends the child */
		check();
		exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void expect(bool fine, const char *what)
{
	if (fine)
		return;
	fprintf(stderr, "expected: %s\n", what);
	exit(1);
}

static struct error *try_library(struct target *target)
{
	struct module *library = find(target, "libthing.so");
	struct symtab *symtab;

	expect(library, "the library is listed");
	return module_symtab(target->proc, library, &symtab);
}

static void check_replaced_unprivileged(void)
{
	struct target target = start("program", NULL);
	char text[1024];

	expect(scratch_try("mv -f other.so libthing.so") == 0, "the library can be replaced");
	_cleanup_error_ struct error *error = try_library(&target);
	snprintf(text, sizeof(text),
		 "cannot read %s: changed or replaced after process %d loaded it "
		 "(restart the process, or run as root)",
		 scratch_path("libthing.so"), (int)target.process.pid);
	expect(error && strcmp(error_text(error), text) == 0, text);
	error_free(error);
	error = try_library(&target);
	expect(error && strcmp(error_text(error), text) == 0, "the same again");
	expect(!module_symtab(target.proc, target.modules.items[0],
			      &target.modules.items[0]->symtab),
	       "the program is still readable");
	end(&target);
}

static void check_deleted_unprivileged(void)
{
	struct target target = start("program", NULL);
	char text[1024];

	expect(scratch_try("rm -f libthing.so") == 0, "the library can be deleted");
	modules_free(&target.modules);
	maps_free(&target.maps);
	look(&target);
	_cleanup_error_ struct error *error = try_library(&target);
	snprintf(text, sizeof(text),
		 "cannot read %s: deleted after process %d loaded it (only root can still open "
		 "it)",
		 scratch_path("libthing.so"), (int)target.process.pid);
	expect(error && strcmp(error_text(error), text) == 0, text);
	end(&target);
}

static void check_plain_unprivileged(void)
{
	struct target target = start("program", NULL);

	assert_bytes_match(&target, find(&target, "libthing.so"), "library_function");
	end(&target);
}

/* The same content copied over: another inode, but the build id is that in memory. */
static void check_reinstalled_unprivileged(void)
{
	struct target target = start("program", NULL);

	expect(scratch_try("cp libthing.so copy.so && mv -f copy.so libthing.so") == 0,
	       "a copy in its place");
	assert_bytes_match(&target, find(&target, "libthing.so"), "library_function");
	end(&target);
}

static void test_unprivileged(void **state)
{
	static void (*const checks[])(
		void) = { check_plain_unprivileged, check_reinstalled_unprivileged,
			  check_deleted_unprivileged, check_replaced_unprivileged };

	for (size_t i = 0; i < sizeof(checks) / sizeof(*checks); i++) {
		build_with_library();
		scratch_run("chmod 777 .");
		in_child(checks[i], true);
	}
}

static char new_root[256];

static void change_root(void)
{
	if (chroot(new_root) || chdir("/") || !drop_rights())
		_exit(4);
}

static void look_at_other_root(bool drop)
{
	struct target target = { .process = scratch_start("/program", change_root) };
	struct module *library;

	if (drop)
		expect(drop_rights(), "rights can be dropped");
	assert_null(proc_open_plain(target.process.pid, &target.proc));
	look(&target);
	library = find(&target, "libreal.so");
	expect(library, "the library is listed");
	assert_string_equal(library->path, scratch_path("root/lib/libreal.so"));
	assert_bytes_match(&target, library, "library_function");
	assert_bytes_match(&target, find(&target, "libc.so.6"), "qsort_r");
	assert_bytes_match(&target, target.modules.items[0], "main");
	end(&target);
}

static void check_other_root(void)
{
	look_at_other_root(false);
}

static void check_other_root_unprivileged(void)
{
	look_at_other_root(true);
}

/* A program in a root of its own: its /lib isn't ours. */
static void test_other_root(void **state)
{
	if (geteuid() != 0)
		skip();
	build_with_library();
	snprintf(new_root, sizeof(new_root), "%s/root", scratch_directory);
	scratch_run("mkdir -p root/lib64 root/lib && cp /lib64/ld-linux-x86-64.so.2 root/lib64/ && "
		    "cp /lib/x86_64-linux-gnu/libc.so.6 root/lib/ && cp program root/ && "
		    "cp libthing.so root/lib/libreal.so && ln -s /lib/libreal.so "
		    "root/lib/libthing.so && "
		    "chmod -R a+rX root");
	in_child(check_other_root, false);
	in_child(check_other_root_unprivileged, false);
}

/* One file loaded twice is two modules. */
static void test_twice(void **state)
{
	struct module *copies[2] = { 0 };
	struct target target;
	size_t count = 0;

	build_with_library();
	scratch_text("twice.c",
		     "#define _GNU_SOURCE\n#include <dlfcn.h>\n" SCRATCH_READY
		     "int main(void) { if (!dlmopen(LM_ID_NEWLM, \"./libthing.so\", RTLD_NOW) || "
		     "!dlopen(\"./libthing.so\", RTLD_NOW)) return 1; ready(); return 0; }\n");
	scratch_run("gcc twice.c -o twice -ldl");
	assert_int_equal(chdir(scratch_directory), 0);
	target = start("twice", NULL);
	for (size_t i = 0; i < target.modules.count; i++) {
		if (strcmp(target.modules.items[i]->name, "libthing.so") == 0 && count < 2)
			copies[count++] = target.modules.items[i];
	}
	assert_int_equal(count, 2);
	assert_int_not_equal(copies[0]->bias.v, copies[1]->bias.v);
	assert_bytes_match(&target, copies[0], "library_function");
	assert_bytes_match(&target, copies[1], "library_function");
	end(&target);
}

/* Data files mapped executable, and other oddities, are no modules. */
static void test_not_elf(void **state)
{
	struct target target;

	scratch_text(
		"data",
		"this is no program, though it is mapped like one; it has to be longer than an ELF "
		"header, which is 64 bytes\n");
	scratch_text("mapper.c",
		     "#include <fcntl.h>\n#include <sys/mman.h>\n" SCRATCH_READY
		     "int main(void) { int fd = open(\"data\", 0); "
		     "if (mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED) "
		     "return 1; mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, "
		     "-1, 0); "
		     "ready(); return 0; }\n");
	scratch_run("gcc mapper.c -o mapper");
	assert_int_equal(chdir(scratch_directory), 0);
	target = start("mapper", NULL);
	assert_null(find(&target, "data"));
	assert_string_equal(target.modules.items[0]->name, "mapper");
	assert_int_equal(target.modules.count, 4); /* mapper, libc, ld.so, vdso */
	end(&target);
}

/* The leader has exited, a thread runs on: the leader's files in /proc are empty. */
static void test_zombie_leader(void **state)
{
	struct target target;

	build_with_library();
	scratch_text(
		"zombie.c",
		"#include <fcntl.h>\n#include <pthread.h>\n#include <sched.h>\n#include <stdio.h>\n"
		"#include <string.h>\n#include <stdlib.h>\n" SCRATCH_READY
		"int library_function(int);\n"
		"static void *run(void *x) { char text[512]; do { sched_yield(); "
		"int fd = open(\"/proc/self/stat\", O_RDONLY); "
		"text[read(fd, text, sizeof(text) - 1)] = 0; close(fd); "
		"} while (!strstr(text, \") Z \")); ready(); exit(0); }\n"
		"int main(int argc, char **argv) { pthread_t t; library_function(argc); "
		"pthread_create(&t, 0, run, 0); pthread_exit(0); }\n");
	scratch_run("gcc -O1 zombie.c -L. -lthing -lpthread -Wl,-rpath,%s -o zombie",
		    scratch_directory);
	target = start("zombie", NULL);
	assert_string_equal(target.modules.items[0]->name, "zombie");
	assert_true(target.modules.items[0]->is_executable);
	assert_bytes_match(&target, target.modules.items[0], "main");
	assert_bytes_match(&target, find(&target, "libthing.so"), "library_function");
	end(&target);
}

/* A file for which there was no descriptor is read by the next command. */
static void test_no_descriptors(void **state)
{
	struct rlimit before, none = { 0 };
	struct symtab *symtab = NULL;

	scratch_text("plain.c", plain_source);
	scratch_run("gcc -O1 plain.c -o plain");
	struct target target = start("plain", NULL);
	struct module *program = target.modules.items[0];
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	struct error *error = module_symtab(target.proc, program, &symtab);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_non_null(error);
	error_free(error);
	modules_try_again(&target.modules);
	error = module_symtab(target.proc, program, &symtab);
	assert_null(error);
	assert_non_null(symtab);
	end(&target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_kind), cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_vdso),	   cmocka_unit_test(test_deleted),
		cmocka_unit_test(test_replaced),   cmocka_unit_test(test_unprivileged),
		cmocka_unit_test(test_other_root), cmocka_unit_test(test_twice),
		cmocka_unit_test(test_not_elf),	   cmocka_unit_test(test_zombie_leader),
		cmocka_unit_test(test_no_descriptors),
	};

	return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
