/*
 * stepping.h - interrupt the agent in this process at every instruction of it.
 *
 * stepping_note runs something once, instruction by instruction, and notes which of the agent's
 * instructions it comes to. stepping_interrupt runs it again, and `act` just before one of them, as
 * a handler of the program's own would.
 */
#ifndef DYNTRACE_TESTS_STEPPING_H
#define DYNTRACE_TESTS_STEPPING_H

#include <signal.h>
#include <ucontext.h>
#include <x86intrin.h>

#include "rig.h"

#define STEPPING_FLAG 0x100ULL /* TF */
#define STEPPING_BREAK 0xcc
#define STEPPING_MAX 5000u

static struct {
	uint64_t low, high; /* the agent's code, which can be written */
	uint8_t *places[STEPPING_MAX];
	unsigned count;
	uint8_t *place; /* where it is interrupted; NULL: nowhere, or it was */
	uint8_t byte; /* what was there */
	void (*act)(void);
} stepping;

static inline void stepping_load(void)
{
	_cleanup_fclose_ FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];

	if (!rig_slow)
		rig_load_agent();
	while (maps && fgets(line, sizeof(line), maps)) {
		unsigned long low, high;

		if (sscanf(line, "%lx-%lx", &low, &high) == 2 && low <= (uint64_t)rig_slow &&
		    (uint64_t)rig_slow < high) {
			stepping.low = low;
			stepping.high = high;
		}
	}
	assert_int_equal(mprotect((void *)stepping.low, stepping.high - stepping.low,
				  PROT_READ | PROT_WRITE | PROT_EXEC),
			 0);
}

static inline void stepping_catch(void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };

	sigaction(SIGTRAP, &action, NULL);
}

static inline void stepping_on_step(int number, siginfo_t *info, void *context)
{
	uint64_t rip = (uint64_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];

	(void)number;
	(void)info;
	if (rip < stepping.low || rip >= stepping.high)
		return;
	for (unsigned i = 0; i < stepping.count; i++) {
		if (stepping.places[i] == (uint8_t *)rip)
			return;
	}
	if (stepping.count < STEPPING_MAX)
		stepping.places[stepping.count++] = (uint8_t *)rip;
}

static inline void stepping_note(void (*run)(void))
{
	if (!stepping.low)
		stepping_load();
	stepping.count = 0;
	stepping_catch(stepping_on_step);
	__writeeflags(__readeflags() | STEPPING_FLAG);
	run();
	__writeeflags(__readeflags() & ~STEPPING_FLAG);
	signal(SIGTRAP, SIG_DFL);
	assert_in_range(stepping.count, 50, STEPPING_MAX - 1);
}

static inline void stepping_on_break(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	*stepping.place = stepping.byte;
	stepping.place = NULL;
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP]--;
	stepping.act();
}

/* False: it didn't come to that place this time. */
static inline bool stepping_interrupt(unsigned at, void (*run)(void), void (*act)(void))
{
	stepping.place = stepping.places[at];
	stepping.byte = *stepping.place;
	stepping.act = act;
	stepping_catch(stepping_on_break);
	*(volatile uint8_t *)stepping.place = STEPPING_BREAK;
	run();
	signal(SIGTRAP, SIG_DFL);
	bool has_come = !*(uint8_t *volatile *)&stepping.place;
	if (!has_come)
		*stepping.place = stepping.byte;
	return has_come;
}

#endif
