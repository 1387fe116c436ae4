/*
 * plugins - a program that loads and unloads libraries.
 *	plugins [--rounds R] [--calls N] [--move 1] [--threads T] [--namespace 1] [--filter 1]
 *		[--fork 1] LIBRARY...
 * Each of T threads, R times: loads its LIBRARY (the last T words), calls plugin_step N times by
 * way of plugin_steps, unloads it. With --move its old place is taken, so that it is loaded
 * elsewhere the next time; with --namespace it is loaded into a namespace of its own. With --filter
 * the kernel kills the program for system calls that only a tracer makes. With --fork a child does
 * all of it. Prints "ADDRESS CALLS" for each time, with the calls that the library makes itself.
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifdef __GLIBC__ /* musl-gcc has no headers of the kernel's */
#include <linux/filter.h>
#include <linux/seccomp.h>
#endif

#include "handshake.h"

#define OWN_CALLS 4

static long rounds, calls, move, other_namespace;

struct loader {
	pthread_t thread;
	const char *path;
};

static void *load(const char *path)
{
#ifdef LM_ID_NEWLM
	if (other_namespace)
		return dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
#endif
	return dlopen(path, RTLD_NOW);
}

static void one_round(const char *path)
{
	void *library = load(path);
	int (*steps)(int, int) = library ? (int (*)(int, int))dlsym(library, "plugin_steps") : NULL;
	Dl_info info;

	if (!steps || !dladdr((void *)steps, &info)) {
		fprintf(stderr, "%s\n", dlerror());
		exit(2);
	}
	steps(0, (int)calls);
	printf("%p %ld\n", info.dli_fbase, calls + OWN_CALLS);
	dlclose(library);
	if (move)
		mmap(info.dli_fbase, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void *run(void *data)
{
	const struct loader *loader = data;

	for (long i = 0; i < rounds; i++)
		one_round(loader->path);
	return NULL;
}

static void kill_for_futex(void)
{
#ifdef __GLIBC__
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_kill, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		exit(2);
#endif
}

/* The parent waits for the child's end, and ends as it did. */
static void go_on_in_child(void)
{
	int status = 1;
	pid_t child = fork();

	if (child == 0)
		return;
	waitpid(child, &status, 0);
	exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
}

int main(int argc, char **argv)
{
	long threads = handshake_option(argc, argv, "threads", 1);
	struct loader loaders[64];

	rounds = handshake_option(argc, argv, "rounds", 10);
	calls = handshake_option(argc, argv, "calls", 5);
	move = handshake_option(argc, argv, "move", 0);
	other_namespace = handshake_option(argc, argv, "namespace", 0);
	if (threads < 1 || threads > 64 || threads >= argc)
		return 2;
	handshake(argc, argv);
	if (handshake_option(argc, argv, "filter", 0))
		kill_for_futex();
	if (handshake_option(argc, argv, "fork", 0))
		go_on_in_child();
	for (long i = 0; i < threads; i++) {
		loaders[i].path = argv[argc - 1 - i];
		if (i && pthread_create(&loaders[i].thread, NULL, run, &loaders[i]))
			return 2;
	}
	run(&loaders[0]);
	for (long i = 1; i < threads; i++)
		pthread_join(loaders[i].thread, NULL);
	fflush(stdout);
	handshake(argc, argv);
	return 0;
}
