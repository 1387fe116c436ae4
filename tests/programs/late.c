/*
 * late - a C program that loads C++ at run time, and at once has an exception pass through a
 * function of its own.
 *	late PLUGIN [busy]
 * Prints the caught value. With `busy` it repeats this without a rest, until SIGTERM.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static volatile sig_atomic_t ended;
static int (*inner)(int);

static void end(int number)
{
	ended = 1;
}

__attribute__((noinline)) int pass_on(int n)
{
	return inner(n) + 1;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	void *plugin = dlopen(argv[1], RTLD_NOW);
	if (!plugin)
		return 3;
	int (*outer)(int (*)(int), int) = (int (*)(int (*)(int), int))dlsym(plugin, "outer");
	inner = (int (*)(int))dlsym(plugin, "inner");
	int caught = outer(pass_on, 5);
	printf("caught %d\n", caught);
	fflush(stdout);
	signal(SIGTERM, end);
	while (argc > 2 && !strcmp(argv[2], "busy") && !ended) {
		if (outer(pass_on, 7) != 70)
			return 1;
	}
	return 0;
}
