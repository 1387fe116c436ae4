/*
 * called - obeys commands on its standard input, a word and a number per line, and answers each
 * with a line. Its functions are traced with probe functions that break the rules.
 */
#include <errno.h>
#include <immintrin.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

struct point {
	int x, y;
};
enum colour { RED, GREEN = 5, BLUE };

double work(int number, double real, const char *text, struct point point, enum colour colour);
__attribute__((noinline, used)) double work(int number, double real, const char *text,
					    struct point point, enum colour colour)
{
	__asm__ volatile("" ::: "memory");
	return number + real + text[0] + point.x - point.y + (int)colour;
}

long many(long a, long b, long c, long d, long e, long f, long g, long h);
__attribute__((noinline, used)) long many(long a, long b, long c, long d, long e, long f, long g,
					  long h)
{
	__asm__ volatile("" ::: "memory");
	return a + b + c + d + e + f + g + h;
}

/* Called by probe functions. */
int inner(int number);
__attribute__((noinline, used, visibility("default"))) int inner(int number)
{
	__asm__ volatile("" ::: "memory");
	return number + 1;
}

static void do_work(int count)
{
	double sum = 0;

	for (int i = 0; i < count; i++)
		sum += work(i, i / 2.0, "text", (struct point){ i, 2 * i }, BLUE);
	printf("%.1f\n", sum);
}

static void do_many(int count)
{
	long sum = 0;

	for (int i = 0; i < count; i++)
		sum += many(i, 1, 2, 3, 4, 5, 6, 7);
	printf("%ld\n", sum);
}

/* ---- signals --------------------------------------------------------------------------------- */

static sigjmp_buf back;
sigjmp_buf jump_out; /* a probe function's */
static volatile int own;
static volatile int *nowhere = (volatile int *)8;

static void on_fault(int number, siginfo_t *info, void *context)
{
	(void)info;
	(void)context;
	own += number;
	siglongjmp(back, 1);
}

/* Faults of the program's own, with handlers of its own. */
static void do_fault(int count)
{
	for (volatile int i = 0; i < count; i++) {
		if (!sigsetjmp(back, 1))
			*nowhere = 1;
	}
	printf("%d\n", own);
}

static void do_handle(int flags)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | flags }, old;

	sigaction(SIGSEGV, &action, &old);
	sigaction(SIGSEGV, NULL, &old);
	printf("%d\n", old.sa_sigaction == on_fault && (old.sa_flags & SA_SIGINFO) ? 1 : 0);
}

static void do_default(int number)
{
	signal(SIGSEGV, SIG_DFL);
	printf("%d\n", number);
	fflush(stdout);
	*nowhere = 1;
}

static void do_jump(int count)
{
	volatile int back_again = 0;

	for (volatile int i = 0; i < count; i++) {
		if (sigsetjmp(jump_out, 1))
			back_again++;
		else
			work(1, 1, "a", (struct point){ 1, 1 }, GREEN);
	}
	printf("%d\n", back_again);
}

static void on_signal(int number)
{
	work(number, 0, "signal", (struct point){ 0, 0 }, RED);
}

/* On a small stack of their own. */
static void do_signals(int count)
{
	static char memory[16384];
	stack_t stack = { .ss_sp = memory, .ss_size = sizeof(memory) };
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };

	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < count; i++)
		raise(SIGUSR1);
	printf("%d\n", count);
}

/* ---- threads, processes ---------------------------------------------------------------------- */

static void *run(void *count)
{
	for (intptr_t i = 0; i < (intptr_t)count; i++) {
		if (work(1, 1, "a", (struct point){ 1, 1 }, GREEN) != 1 + 1 + 'a' + 5)
			abort();
	}
	return NULL;
}

static void do_threads(int count)
{
	pthread_t threads[8];

	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, run, (void *)(intptr_t)count);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	printf("%d\n", 8 * count);
}

static pthread_t loop_thread;
static volatile int looping;

static void *loop(void *nothing)
{
	while (looping)
		run((void *)1);
	return nothing;
}

static void do_loop(int on)
{
	looping = on;
	if (on)
		pthread_create(&loop_thread, NULL, loop, NULL);
	else
		pthread_join(loop_thread, NULL);
	printf("%d\n", on);
}

static void do_fork(int count)
{
	int status;
	pid_t child = fork();

	if (!child) {
		run((void *)(intptr_t)count);
		_exit(7);
	}
	waitpid(child, &status, 0);
	printf("%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
}

/* ---- stacks ---------------------------------------------------------------------------------- */

static char *stack_end; /* its lowest byte that can be used */
static int stack_calls;

/* Calls work at every depth of `step` bytes, until so many bytes are left. */
__attribute__((noinline)) static void descend(long left, long step)
{
	char here[64];
	char *volatile at = here;

	work(1, 1, "a", (struct point){ 1, 1 }, GREEN);
	stack_calls++;
	if (at - stack_end > left + step) {
		char *volatile room = __builtin_alloca((size_t)step);

		room[0] = 1;
		descend(left, step);
	}
	__asm__ volatile("" ::: "memory");
}

static ucontext_t main_context, small_context;

static void small_main(int left)
{
	descend(left, 1024);
}

/* A coroutine of 64 KiB, with a page that can't be touched below it. */
static void do_coroutine(int left)
{
	char *memory = mmap(NULL, (64 << 10) + 4096, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mprotect(memory, 4096, PROT_NONE);
	stack_end = memory + 4096;
	stack_calls = 0;
	getcontext(&small_context);
	small_context.uc_stack.ss_sp = stack_end;
	small_context.uc_stack.ss_size = 64 << 10;
	small_context.uc_link = &main_context;
	makecontext(&small_context, (void (*)(void))small_main, 1, left);
	swapcontext(&main_context, &small_context);
	munmap(memory, (64 << 10) + 4096);
	printf("%d\n", stack_calls);
}

static void *thread_main(void *left)
{
	pthread_attr_t attributes;
	void *start;
	size_t size;

	pthread_getattr_np(pthread_self(), &attributes);
	pthread_attr_getstack(&attributes, &start, &size);
	pthread_attr_destroy(&attributes);
	stack_end = start;
	stack_calls = 0;
	descend((long)(intptr_t)left, size > 1 << 20 ? 20000 : 1000);
	printf("%d\n", stack_calls);
	return NULL;
}

static void do_thread(int left)
{
	pthread_t thread;

	pthread_create(&thread, NULL, thread_main, (void *)(intptr_t)left);
	pthread_join(thread, NULL);
}

/* The first thread's stack grows as it is used. */
static void do_stack(int left)
{
	thread_main((void *)(intptr_t)left);
}

/* ---- registers ------------------------------------------------------------------------------- */

#ifdef __AVX__
#define VECTOR __m256i
#define SET(n) _mm256_set1_epi32(n)
#define LOAD "vmovdqu"
#define R(n) "%%ymm" #n
#define SIZE "32"
#else
#define VECTOR __m128i
#define SET(n) _mm_set1_epi32(n)
#define LOAD "movdqu"
#define R(n) "%%xmm" #n
#define SIZE "16"
#endif

/* Vector registers, scratch registers, errno, the rounding mode and the direction flag survive what
 * is called: gcc keeps values in all of them over calls of functions that it knows. */
static void do_registers(int count)
{
	unsigned bad = 0;

	for (int i = 0; i < count; i++) {
		VECTOR wanted[3] = { SET(i), SET(i + 1), SET(i + 2) }, is[3];
		uint64_t scratch[3] = { 0, 0, 0 };

		errno = 1000 + i;
		_mm_setcsr(0x3f80); /* rounds down */
		__asm__ volatile(LOAD " (%0), " R(2) "\n\t"
				 LOAD " " SIZE "(%0), " R(9) "\n\t"
				 LOAD " 2*" SIZE "(%0), " R(15) "\n\t"
				 "movq $10, %%r10\n\tmovq $11, %%r11\n\txorl %%edi, %%edi\n\t"
				 "leaq -136(%%rsp), %%rsp\n\tpushq %1\n\tpushq %2\n\tstd\n\t"
				 "call inner\n\tcld\n\tpopq %2\n\tpopq %1\n\t"
				 "leaq 136(%%rsp), %%rsp\n\t"
				 LOAD " " R(2) ", (%1)\n\t"
				 LOAD " " R(9) ", " SIZE "(%1)\n\t"
				 LOAD " " R(15) ", 2*" SIZE "(%1)\n\t"
				 "movq %%r10, (%2)\n\tmovq %%r11, 8(%2)"
				 :
				 : "r"(wanted), "r"(is), "r"(scratch)
				 : "rax", "rdx", "rdi", "r8", "r9", "r10", "r11", "xmm2",
				   "xmm9", "xmm15", "memory", "cc");
		bad += memcmp(wanted, is, sizeof(is)) != 0;
		bad += errno != 1000 + i || _mm_getcsr() >> 6 != 0x3f80 >> 6 || scratch[0] != 10 ||
		       scratch[1] != 11;
		_mm_setcsr(0x1f80);
	}
	printf("%u\n", bad);
}

static const struct {
	const char *word;
	void (*does)(int number);
} words[] = {
	{ "work", do_work },	       { "many", do_many },	  { "fault", do_fault },
	{ "handle", do_handle },       { "default", do_default }, { "signals", do_signals },
	{ "threads", do_threads },     { "loop", do_loop },	  { "fork", do_fork },
	{ "registers", do_registers }, { "jump", do_jump },	  { "coroutine", do_coroutine },
	{ "thread", do_thread },       { "stack", do_stack },
};

int main(void)
{
	char line[64], word[32];
	int number;

	setvbuf(stdout, NULL, _IONBF, 0);
	puts("ready");
	while (fgets(line, sizeof(line), stdin) && sscanf(line, "%31s %d", word, &number) == 2) {
		for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
			if (!strcmp(words[i].word, word))
				words[i].does(number);
		}
	}
	return 3;
}
