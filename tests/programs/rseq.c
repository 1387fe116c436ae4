/*
 * rseq - a thread that spends most of its time in a restartable sequence.
 *	rseq
 * Prints the address of its counter. The sequence: load a counter, spin, store it one higher. After
 * "go" main prints "ok" if sequences were aborted and each that ended (and none that was aborted)
 * counted. Status 77: the kernel or libc has no such thing.
 */
#include <pthread.h>
#include <stdint.h>
#include <sys/rseq.h>

#include "handshake.h"

static volatile int over;
static volatile uint64_t counter, completed, aborted;

/* 1: completed, 0: aborted. */
static int sequence(struct rseq *area)
{
	int done;

	__asm__ volatile(".pushsection __rseq_cs, \"aw\"\n\t"
			 ".balign 32\n\t"
			 "3: .long 0, 0\n\t"
			 ".quad 1f, 2f - 1f, 4f\n\t"
			 ".popsection\n\t"
			 "lea 3b(%%rip), %%rax\n\t"
			 "mov %%rax, %[cs]\n\t"
			 "1: mov %[counter], %%rdx\n\t"
			 "mov $3000, %%ecx\n\t"
			 "5: dec %%ecx; jnz 5b\n\t"
			 "inc %%rdx\n\t"
			 "mov %%rdx, %[counter]\n\t"
			 "2: mov $1, %[done]\n\t"
			 "jmp 6f\n\t"
			 ".byte 0x0f, 0xb9, 0x3d; .long "
			 "0x53053053\n\t" /* the signature, as an instruction */
			 "4: mov $0, %[done]\n\t"
			 "6:\n\t"
			 : [done] "=&r"(done), [counter] "+m"(counter), [cs] "=m"(area->rseq_cs)
			 :
			 : "rax", "rcx", "rdx", "memory", "cc");
	return done;
}

static void *work(void *data)
{
	struct rseq *area = (void *)((char *)__builtin_thread_pointer() + __rseq_offset);

	while (!over) {
		if (sequence(area))
			completed++;
		else
			aborted++;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (!__rseq_size)
		return 77;
	printf("%p\n", (void *)&counter);
	fflush(stdout);
	pthread_create(&thread, NULL, work, NULL);
	handshake(argc, argv);
	over = 1;
	pthread_join(thread, NULL);
	printf("%s\n", counter != completed ? "committed and aborted" :
		       !aborted		    ? "never aborted" :
					      "ok");
	return 0;
}
