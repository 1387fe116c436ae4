/*
 * steady - notices any change of its registers, vectors, flags, red zone, signal mask or results.
 *	steady [--threads T] [--eintr 1]
 * Each thread loops: fills every general register, xmm/ymm registers and the red zone with a
 * pattern, spins a while, and compares; then sleeps in system calls and checks what they return.
 * SIGUSR1 ends it: prints "ok" or what was off. With --eintr 1 epoll_wait may end with EINTR, as
 * after SIGSTOP and SIGCONT.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>

#include "handshake.h"

static volatile sig_atomic_t over;
static volatile long rounds;
static const char *volatile trouble;
static long may_interrupt;

/* 13 general registers, the red zone, flags. Returns 0 if all of them are what they were. */
static __attribute__((noinline)) long check_registers(uint64_t seed)
{
	long bad;

	__asm__ volatile("sub $256, %%rsp\n\t" /* over the compiler's own red zone */
			 "push %%rbp\n\t"
			 "mov %1, %%rax\n\t"
			 "lea 1(%%rax), %%rbx; lea 2(%%rax), %%rdx; lea 3(%%rax), %%rsi\n\t"
			 "lea 4(%%rax), %%rdi; lea 5(%%rax), %%rbp; lea 6(%%rax), %%r8\n\t"
			 "lea 7(%%rax), %%r9;  lea 8(%%rax), %%r10; lea 9(%%rax), %%r11\n\t"
			 "lea 10(%%rax), %%r12; lea 11(%%rax), %%r13; lea 12(%%rax), %%r14\n\t"
			 "mov %%rax, -8(%%rsp); mov %%rbx, -64(%%rsp); mov %%rdx, -128(%%rsp)\n\t"
			 "movq %%rax, %%xmm0; movq %%rbx, %%xmm7; movq %%rdx, %%xmm15\n\t"
			 "pinsrq $1, %%r8, %%xmm0; pinsrq $1, %%r9, %%xmm7; pinsrq $1, %%r10, "
			 "%%xmm15\n\t"
			 "vinsertf128 $1, %%xmm0, %%ymm15, %%ymm3\n\t"
			 "fld1\n\t"
			 "mov $20000, %%ecx\n\t"
			 "stc\n\t"
			 "1: dec %%ecx; jnz 1b\n\t" /* dec keeps the carry */
			 "setnc %%cl\n\t"
			 "movzx %%cl, %%ecx\n\t"
			 "mov %%rax, %%r15\n\t"
			 "xor %%rax, %%r15\n\t"
			 "sub $1, %%rbx; xor %%rax, %%rbx; or %%rbx, %%r15\n\t"
			 "sub $2, %%rdx; xor %%rax, %%rdx; or %%rdx, %%r15\n\t"
			 "sub $3, %%rsi; xor %%rax, %%rsi; or %%rsi, %%r15\n\t"
			 "sub $4, %%rdi; xor %%rax, %%rdi; or %%rdi, %%r15\n\t"
			 "sub $5, %%rbp; xor %%rax, %%rbp; or %%rbp, %%r15\n\t"
			 "sub $6, %%r8;  xor %%rax, %%r8;  or %%r8, %%r15\n\t"
			 "sub $7, %%r9;  xor %%rax, %%r9;  or %%r9, %%r15\n\t"
			 "sub $8, %%r10; xor %%rax, %%r10; or %%r10, %%r15\n\t"
			 "sub $9, %%r11; xor %%rax, %%r11; or %%r11, %%r15\n\t"
			 "sub $10, %%r12; xor %%rax, %%r12; or %%r12, %%r15\n\t"
			 "sub $11, %%r13; xor %%rax, %%r13; or %%r13, %%r15\n\t"
			 "sub $12, %%r14; xor %%rax, %%r14; or %%r14, %%r15\n\t"
			 "mov -8(%%rsp), %%rbx; xor %%rax, %%rbx; or %%rbx, %%r15\n\t"
			 "mov -64(%%rsp), %%rbx; sub $1, %%rbx; xor %%rax, %%rbx; or %%rbx, "
			 "%%r15\n\t"
			 "mov -128(%%rsp), %%rbx; sub $2, %%rbx; xor %%rax, %%rbx; or %%rbx, "
			 "%%r15\n\t"
			 "movq %%xmm0, %%rbx; xor %%rax, %%rbx; or %%rbx, %%r15\n\t"
			 "pextrq $1, %%xmm7, %%rbx; sub $7, %%rbx; xor %%rax, %%rbx; or %%rbx, "
			 "%%r15\n\t"
			 "pextrq $1, %%xmm15, %%rbx; sub $8, %%rbx; xor %%rax, %%rbx; or %%rbx, "
			 "%%r15\n\t"
			 "vextractf128 $1, %%ymm3, %%xmm4; pextrq $1, %%xmm4, %%rbx\n\t"
			 "sub $6, %%rbx; xor %%rax, %%rbx; or %%rbx, %%r15\n\t"
			 "fstpl -16(%%rsp); mov -16(%%rsp), %%rbx; mov $0x3ff0000000000000, "
			 "%%rdx\n\t"
			 "xor %%rdx, %%rbx; or %%rbx, %%r15\n\t"
			 "or %%rcx, %%r15\n\t"
			 "vzeroupper\n\t"
			 "pop %%rbp\n\t"
			 "add $256, %%rsp\n\t"
			 "mov %%r15, %0\n\t"
			 : "=&a"(bad), "+c"(seed)
			 :
			 : "rbx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
			   "r14", "r15", "xmm0", "xmm3", "xmm4", "xmm7", "xmm15", "cc", "memory",
			   "st");
	return bad;
}

/* SIGUSR1, the end, may wake one thread and be taken by another: `over` follows soon. */
static int ends_soon(void)
{
	for (int i = 0; i < 200 && !over; i++)
		usleep(1000);
	return over;
}

static void check_calls(int epoll)
{
	struct timespec nap = { 0, 300000 };
	struct epoll_event event;
	sigset_t mask;

	/* SIGUSR1, the end, is the only thing that may interrupt them */
	if (syscall(SYS_getppid) <= 0)
		trouble = "getppid";
	if (nanosleep(&nap, NULL) && !ends_soon())
		trouble = "nanosleep";
	if (syscall(SYS_epoll_wait, epoll, &event, 1, 1) && !(may_interrupt && errno == EINTR) &&
	    !ends_soon())
		trouble = "epoll_wait";
	if (poll(NULL, 0, 1) && !ends_soon())
		trouble = "poll";
	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	for (int signal = 1; signal < 32; signal++)
		if (sigismember(&mask, signal) != (signal == SIGUSR2))
			trouble = "signal mask";
}

static void *steady(void *data)
{
	int epoll = epoll_create1(0);
	uint64_t seed = (uint64_t)(uintptr_t)&data;

	for (long mine = 0; !over; mine++) {
		for (int i = 0; i < 8; i++)
			if (check_registers(seed += 0x9e3779b97f4a7c15ULL))
				trouble = "registers";
		check_calls(epoll);
		__atomic_fetch_add(&rounds, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void end(int signal)
{
	over = 1;
}

int main(int argc, char **argv)
{
	long threads = handshake_option(argc, argv, "threads", 1);
	pthread_t extra[16];
	sigset_t mask;

	may_interrupt = handshake_option(argc, argv, "eintr", 0);
	sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = end, .sa_flags = SA_RESTART }, NULL);
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &mask, NULL);
	for (long i = 1; i < threads && i < 16; i++)
		pthread_create(&extra[i], NULL, steady, NULL);
	handshake(argc, argv);
	steady(NULL);
	for (long i = 1; i < threads && i < 16; i++)
		pthread_join(extra[i], NULL);
	printf("%s\n", trouble ? trouble : rounds > 0 ? "ok" : "did nothing");
	return 0;
}
