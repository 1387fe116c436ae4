/* Thread-local variables of the program, of libc (errno) and of a library that is loaded later:
 * locals LIBRARY */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

static __thread char text[3] = "ab";
__thread __attribute__((aligned(64))) int number = 10;
static int (*library)(int);

__attribute__((noinline)) int work(int n)
{
	number += n;
	text[0]++;
	return library(n);
}

static void *run(void *argument)
{
	for (int i = 0; i < 3; i++) {
		errno = 20 + i;
		work((int)(long)argument);
	}
	return 0;
}

int main(int argc, char **argv)
{
	void *handle = argc > 1 ? dlopen(argv[1], RTLD_NOW) : 0;
	pthread_t thread;

	*(void **)&library = handle ? dlsym(handle, "library") : 0;
	if (!library)
		return 1;
	run((void *)1);
	if (pthread_create(&thread, 0, run, (void *)100))
		return 1;
	pthread_join(thread, 0);
	return 0;
}
