/*
 * copies - a program that loads one library several times.
 *	copies [--copies N] [--late M] LIBRARY
 * Loads LIBRARY N times, all but the first into namespaces of their own, each with a libc. After
 * "go" it calls plugin_step i * 10 and getppid i * 7 times in the copy number i = 1 .. N, and says
 * "ready"; after "go" it loads M more copies, calls in each of these likewise, and unloads them;
 * after "go" again it loads and calls in M more. Prints "ADDRESS STEPS GETPPIDS" for each copy.
 */
#include <dlfcn.h>
#include <link.h>

#include "handshake.h"


struct copy {
	void *library, *libc;
};

static const char *path;
static long number;

static void *symbol_of(void *library, const char *name)
{
	void *symbol = library ? dlsym(library, name) : NULL;

	if (!symbol) {
		fprintf(stderr, "%s\n", dlerror());
		exit(2);
	}
	return symbol;
}

static struct copy load_copy(void)
{
	struct copy copy = { number ? dlmopen(LM_ID_NEWLM, path, RTLD_NOW) : dlopen(path, RTLD_NOW),
			     NULL };
	Lmid_t space;

	if (!copy.library || dlinfo(copy.library, RTLD_DI_LMID, &space)) {
		fprintf(stderr, "%s\n", dlerror());
		exit(2);
	}
	copy.libc = dlmopen(space, "libc.so.6", RTLD_NOW);
	return copy;
}

static void call_copy(const struct copy *copy, long factor)
{
	int (*steps)(int, int) = (int (*)(int, int))symbol_of(copy->library, "plugin_steps");
	pid_t (*parent)(void) = (pid_t (*)(void))symbol_of(copy->libc, "getppid");
	Dl_info info;

	steps(0, (int)factor * 10);
	for (long i = 0; i < factor * 7; i++)
		parent();
	if (!dladdr((void *)steps, &info))
		exit(2);
	printf("%p %ld %ld\n", info.dli_fbase, factor * 10, factor * 7);
}

/* Loads some, calls in all of them, and gives them back. */
static void call_late(long late)
{
	struct copy copies[8];

	for (long i = 0; i < late; i++)
		copies[i] = load_copy();
	for (long i = 0; i < late; i++)
		call_copy(&copies[i], ++number);
	for (long i = 0; i < late; i++) {
		dlclose(copies[i].libc);
		dlclose(copies[i].library);
	}
}

int main(int argc, char **argv)
{
	long count = handshake_option(argc, argv, "copies", 3);
	long late = handshake_option(argc, argv, "late", 0);
	struct copy copies[8];

	path = argv[argc - 1];
	if (count > 8 || late > 8)
		return 2;
	for (; number < count; number++)
		copies[number] = load_copy();
	handshake(argc, argv);
	for (long i = 0; i < count; i++)
		call_copy(&copies[i], i + 1);
	for (int round = 0; round < 2 && late; round++) {
		handshake(argc, argv);
		call_late(late);
	}
	handshake(argc, argv);
	return 0;
}
