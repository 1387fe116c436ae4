/*
 * throws.cpp - exceptions through frames of every kind. Built by the tests, by several compilers in several ways.
 * Prints its results and the number of objects left (none); status 1 if any is. `throws serve` runs a hundred calls per
 * input line.
 */
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <execinfo.h>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

#define NOINLINE __attribute__((noinline))

static int alive, destroyed;
static volatile int sink;

struct Guard {
	Guard() { alive++; }
	~Guard() { alive--; destroyed++; }
};

NOINLINE int thrower(int n)
{
	Guard guard;
	if (n % 3 == 0)
		throw std::runtime_error("n=" + std::to_string(n));
	sink = sink + 1;
	return n * 2;
}

NOINLINE int passer(int n, int depth)
{
	Guard guard;
	int result = depth ? passer(n, depth - 1) : thrower(n);
	sink = sink + 1;
	return result + 1;
}

NOINLINE int rethrower(int n)
{
	Guard guard;
	try {
		return passer(n, n % 7);
	} catch (std::exception &) {
		Guard another;
		if (n % 2)
			throw;
		return -1;
	}
}

NOINLINE int catcher(int n)
{
	Guard guard;
	try {
		return rethrower(n);
	} catch (const std::exception &e) {
		return -(int)std::string(e.what()).size();
	}
}

NOINLINE int quiet(int n) noexcept
{
	Guard guard;
	return catcher(n) + 1;
}

/* Each ends by jumping to the next, where the compiler makes tail calls. */
NOINLINE int tail_last(int n)
{
	if (n % 3 == 0)
		throw n;
	return n;
}

NOINLINE int tail_middle(int n)
{
	return tail_last(n + 1);
}

NOINLINE int tail_first(int n)
{
	return tail_middle(n + 1);
}

NOINLINE int tail_calls(int n)
{
	Guard guard;
	try {
		return tail_first(n);
	} catch (int value) {
		return -value;
	}
}

/* An exception out of a signal handler: where the compiler has -fnon-call-exceptions. */
#ifdef FAULTS
static void on_fault(int number)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, number);
	sigprocmask(SIG_UNBLOCK, &set, nullptr);
	throw number;
}

NOINLINE int divide(int a, volatile int *b)
{
	Guard guard;
	sink = sink + 1;
	return a / *b;
}

NOINLINE int try_divide(int b)
{
	volatile int divisor = b;
	try {
		return divide(100, &divisor);
	} catch (int number) {
		return -number;
	}
}
#endif

NOINLINE int depth_of(int n)
{
	void *frames[100];
	if (n)
		return depth_of(n - 1) + 0 * sink;
	return backtrace(frames, 100) > 0;
}

NOINLINE void cancelled_inner(int fd)
{
	Guard guard;
	char byte;
	while (read(fd, &byte, 1) >= 0)
		;
}

static void *cancelled(void *fd)
{
	Guard guard;
	cancelled_inner(*(int *)fd);
	return nullptr;
}

NOINLINE void fatal(int n) noexcept
{
	Guard guard;
	thrower(n);
	sink = sink + 1;
}

static int serve()
{
	char line[16];
	for (int n = 0; fgets(line, sizeof(line), stdin); n += 100) {
		long total = 0;
		for (int i = n; i < n + 100; i++)
			total += quiet(i);
		printf("total %ld alive %d destroyed %d\n", total, alive, destroyed);
		fflush(stdout);
	}
	return alive != 0;
}

int main(int argc, char **argv)
{
	if (argc > 1 && std::string(argv[1]) == "serve")
		return serve();
	int count = argc > 1 ? atoi(argv[1]) : 500;
	long total = 0;
	for (int i = 0; i < count; i++)
		total += quiet(i);
	for (int i = 0; i < count; i++)
		total += tail_calls(i);
	printf("total %ld alive %d destroyed %d\n", total, alive, destroyed);
#ifdef FAULTS
	signal(SIGFPE, on_fault);
	for (int i = 0; i < 20; i++)
		total += try_divide(i % 2);
	printf("total %ld alive %d\n", total, alive);
#endif
	printf("backtrace %d\n", depth_of(5));
#ifndef NO_CANCEL /* where the unwinder isn't libgcc, which glibc cancels with */
	int fds[2];
	pthread_t thread;
	if (pipe(fds))
		return 2;
	for (int i = 0; i < 5; i++) {
		pthread_create(&thread, nullptr, cancelled, fds);
		pthread_cancel(thread);
		pthread_join(thread, nullptr);
	}
	printf("cancelled alive %d\n", alive);
#endif
	fflush(stdout);
	if (argc > 2) {
		std::set_terminate([] { puts("terminate"); fflush(stdout); _exit(42); });
		fatal(3);
	}
	return alive != 0;
}
