/*
 * worker - calls functions and counts the calls, for tests that change tracepoints meanwhile. The
 * first argument is the mode, the others are descriptors:
 *
 *	threads MEMORY		threads call functions all the time (struct shared)
 *	execs MEMORY		the same, and programs are begun by commands in MEMORY
 *	handles MEMORY		the same as threads, with a handler of a fault
 *	once			calls a function some times, and ends
 *	stay MEMORY		the same, before and after it is told in MEMORY to end
 *	fork SOCKET CHILD	obeys commands on SOCKET; its forked child does so on CHILD
 *	library SOCKET		loads, calls and unloads a library, by commands
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "worker.h"

#define CALLS_AT_ONCE 32

static struct shared *shared;

#define WORK(n)                                                                     \
	uint64_t work_##n(uint64_t, const char *);                                  \
	__attribute__((noinline, used)) uint64_t work_##n(uint64_t x, const char *s) \
	{                                                                           \
		__asm__ volatile("" : "+r"(x));                                     \
		return x * (2 * n + 1) + (uint64_t)s[0];                            \
	}
#define EACH(w) w(0) w(1) w(2) w(3) w(4) w(5) w(6) w(7) w(8) w(9) w(10) w(11) w(12) w(13) w(14)    \
		w(15) w(16) w(17) w(18) w(19) w(20) w(21) w(22) w(23)
EACH(WORK)
#define NAME(n) work_##n,
static uint64_t (*const functions[FUNCTIONS])(uint64_t, const char *) = { EACH(NAME) };

/* An instruction per byte: sites may begin anywhere. */
void straight(void);
__asm__(".pushsection .text\n"
	".globl straight\n"
	".type straight, @function\n"
	"straight:\n"
	".rept 16\n"
	"	cld\n"
	".endr\n"
	"	ret\n"
	".size straight, . - straight\n"
	".popsection\n");

/* Nothing but a trap fits here: behind it stands what other code jumps to, and the jump that these
 * bytes would make leads nowhere. */
void lone(void);
__asm__(".pushsection .text\n"
	".balign 64\n"
	"	jmp	behind\n"
	".fill	200, 1, 0xf4\n"
	".globl lone\n"
	".type lone, @function\n"
	"lone: .cfi_startproc\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size lone, . - lone\n"
	".type behind, @function\n"
	"behind: .cfi_startproc\n"
	"	.byte	5, 0, 0, 0, 0\n" /* add $0, %eax */
	"	ret\n"
	"	.cfi_endproc\n"
	".size behind, . - behind\n"
	".fill	200, 1, 0xf4\n"
	".popsection\n");

void stand_still(void);
__attribute__((noinline, used)) void stand_still(void)
{
	__asm__ volatile("");
	__atomic_fetch_add(&shared->standing, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&shared->paused, __ATOMIC_SEQ_CST))
		nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
	__atomic_fetch_sub(&shared->standing, 1, __ATOMIC_SEQ_CST);
}

static void *run_functions(void *number)
{
	uintptr_t thread = (uintptr_t)number;
	uint64_t random = thread * 2654435761u + 1;

	for (unsigned calls = 0;; calls++) {
		if (__atomic_load_n(&shared->paused, __ATOMIC_SEQ_CST))
			stand_still();
		if (calls % CALLS_AT_ONCE == 0) /* or the trace is gigabytes */
			nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		random = random * 6364136223846793005u + 1442695040888963407u;
		size_t f = (random >> 33) % FUNCTIONS;

		__atomic_fetch_add(&shared->calls[thread][f].begun, 1, __ATOMIC_SEQ_CST);
		if (functions[f](calls, "text") != calls * (2 * f + 1) + 't')
			abort();
		straight();
		lone();
		__atomic_fetch_add(&shared->calls[thread][f].done, 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

static void map_shared(int memory)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	if (shared == MAP_FAILED)
		_exit(2);
}

/* Begins a program that calls a function, and waits for its end. */
static void run_program(const char *memory)
{
	const char *mode = shared->programs_stay ? "stay" : "once";
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		execl("/proc/self/exe", "worker", mode, memory, "-1", NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	shared->program_status = status;
	__atomic_fetch_add(&shared->programs_ended, 1, __ATOMIC_SEQ_CST);
}

static int call_some(void)
{
	for (uint64_t i = 0; i < PROGRAM_CALLS; i++) {
		if (work_1(i, "text") != i * 3 + 't')
			return 1;
	}
	return 0;
}

static int stay(int memory)
{
	int status = call_some();

	map_shared(memory);
	__atomic_store_n(&shared->program_pid, getpid(), __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&shared->programs_stay, __ATOMIC_SEQ_CST))
		nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
	return status ? status : call_some();
}

static void end(int signal)
{
	_exit(8);
}

/* (H42) The agent's handler is in front of it, and never seen. */
static void check_handler(void)
{
	struct sigaction action;

	if (sigaction(SIGFPE, NULL, &action) || action.sa_handler != end)
		_exit(9);
}

static void call_for_ever(const char *memory, int mode)
{
	pthread_t thread;

	map_shared(atoi(memory));
	if (mode == 'h')
		signal(SIGFPE, end);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&thread, NULL, run_functions, (void *)i);
	for (;;) {
		if (mode == 'e' && __atomic_load_n(&shared->programs_wanted, __ATOMIC_SEQ_CST) >
				     shared->programs_ended)
			run_program(memory);
		if (mode == 'h')
			check_handler();
		nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
	}
}

/* ---- a call that is interrupted in the middle ------------------------------------------------ */

#define TRAP_FLAG 0x100
#define LENGTH_BEFORE 4 /* of the instruction before the clock is read */

static int step_socket;
static uint8_t step_stack[65536];

static bool reads_clock(const uint8_t *code)
{
	return code[0] == 0x0f && code[1] == 0x31; /* rdtsc */
}

/* Waits for a word where the clock is read, which the functions here don't do: a probe does. That
 * handler has a stack of its own, without the frames of the steps before. */
static void on_step(int signal, siginfo_t *info, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	const uint8_t *code = (const uint8_t *)regs[REG_RIP];
	char word = 's';

	if (reads_clock(code + LENGTH_BEFORE))
		((ucontext_t *)context)->uc_stack =
			(stack_t){ .ss_sp = step_stack, .ss_size = sizeof(step_stack) };
	if (!reads_clock(code))
		return;
	regs[REG_EFL] &= ~TRAP_FLAG;
	work_12((uint64_t)work_11, "text"); /* whose backtrace shows it */
	if (write(step_socket, &word, 1) != 1 || read(step_socket, &word, 1) != 1)
		_exit(5);
}

/* Calls a function step by step, up to its probe's clock. */
static void call_stepping(int socket)
{
	struct sigaction action = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO | SA_ONSTACK };

	step_socket = socket;
	sigaction(SIGTRAP, &action, NULL);
	__asm__ volatile("pushfq; orq %0, (%%rsp); popfq" : : "i"(TRAP_FLAG) : "cc", "memory");
	uint64_t result = work_11(7, "text");
	__asm__ volatile("pushfq; andq %0, (%%rsp); popfq" : : "i"(~TRAP_FLAG) : "cc", "memory");
	if (result != 7 * 23 + 't')
		_exit(6);
}

/* ---- commands -------------------------------------------------------------------------------- */

/* Calls every function once; each result tells whether its own code ran. */
static void call_all(void)
{
	for (uint64_t n = 0; n < FUNCTIONS; n++) {
		if (functions[n](7, "text") != 7 * (2 * n + 1) + 't')
			_exit(6);
	}
}

/* Forks a child that calls functions whenever it is told to; each answers. */
static void obey_forking(int socket, int child_socket)
{
	char word;

	while (read(socket, &word, 1) == 1) {
		if (word == 'f' && fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			socket = child_socket;
		} else if (word == 'f') {
			close(child_socket); /* its end shows there */
		}
		for (int i = 0; word == 'c' && i < CHILD_CALLS; i++)
			work_11((uint64_t)i, "text");
		if (word == 'w')
			call_all();
		if (word == 's')
			call_stepping(socket);
		if (write(socket, &word, 1) != 1)
			_exit(5);
	}
	_exit(0);
}

/* 'o' loads the library, 'c' calls it, 'x' unloads it and puts something else in its place; each is
 * answered. */
static void obey(int socket)
{
	double (*cbrt)(double) = NULL;
	void *library = NULL;
	char word;

	while (read(socket, &word, 1) == 1) {
		if (word == 'o') {
			library = dlopen(LIBRARY, RTLD_NOW);
			*(void **)&cbrt = library ? dlsym(library, "cbrt") : NULL;
		}
		for (int i = 0; word == 'c' && i < LIBRARY_CALLS; i++) {
			if (!cbrt || cbrt(64.0) < 3.99)
				_exit(3);
		}
		if (word == 'x') {
			uintptr_t page = (uintptr_t)*(void **)&cbrt & ~4095UL;

			dlclose(library);
			if (mmap((void *)page, 4096, PROT_READ | PROT_EXEC,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
				 0) != (void *)page)
				_exit(4);
		}
		if (write(socket, &word, 1) != 1)
			_exit(5);
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	int fd = argc > 2 ? atoi(argv[2]) : -1;

	if (argc < 4)
		return 2;
	if (!strcmp(argv[1], "once"))
		return call_some();
	if (!strcmp(argv[1], "threads") || !strcmp(argv[1], "execs") || !strcmp(argv[1], "handles"))
		call_for_ever(argv[2], argv[1][0]);
	if (!strcmp(argv[1], "stay"))
		return stay(fd);
	if (write(fd, "r", 1) != 1)
		return 5;
	if (!strcmp(argv[1], "fork"))
		obey_forking(fd, atoi(argv[3]));
	obey(fd);
}
