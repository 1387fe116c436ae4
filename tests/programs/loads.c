/*
 * loads - loads libraries, and then calls work() for each line of its input.
 *	loads [deep:]LIBRARY...
 * "deep:" has the library search its own libraries first (RTLD_DEEPBIND). Prints "ready", then each
 * result.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

__attribute__((noinline)) int work(int n)
{
	__asm__ volatile("" : "+r"(n));
	return n * 2;
}

int main(int argc, char **argv)
{
	char line[16];

	for (int i = 1; i < argc; i++) {
		int deep = !strncmp(argv[i], "deep:", 5);

		if (!dlopen(argv[i] + (deep ? 5 : 0), RTLD_NOW | (deep ? RTLD_DEEPBIND : 0))) {
			fprintf(stderr, "loads: %s\n", dlerror());
			return 1;
		}
	}
	puts("ready");
	fflush(stdout);
	for (int n = 1; fgets(line, sizeof(line), stdin); n++) {
		printf("%d\n", work(n));
		fflush(stdout);
	}
	return 0;
}
