/*
 * personality.c - a personality routine that believes what the unwinder tells it about frames.
 *
 *	personality N [0]	N times each: an exception through plain and tail calls to
 *				`guarded`, whose personality routine compares CFA, IP and
 *				enclosing function with the truth; a forced unwind and a
 *				backtrace whose frames are compared likewise
 *
 * Prints the numbers of frames (not with 0), looks and wrong answers.
 */
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unwind.h>

#define NOINLINE __attribute__((noinline))

uint64_t guarded(uint64_t n, void (*call)(uint64_t n), uint64_t *stack);
extern const char guarded_return[], guarded_end[];
extern const char guarded_landing[];

static uint64_t stack_at_call; /* rsp of `guarded` */
static unsigned long looks, wrong, caught;

static void look(struct _Unwind_Context *context)
{
	int before = 0;

	looks++;
	if (_Unwind_GetCFA(context) != stack_at_call ||
	    _Unwind_GetIP(context) != (uint64_t)guarded_return ||
	    _Unwind_GetIPInfo(context, &before) != (uint64_t)guarded_return || before ||
	    _Unwind_FindEnclosingFunction((void *)_Unwind_GetIP(context)) != (void *)guarded ||
	    _Unwind_GetRegionStart(context) != (uint64_t)guarded)
		wrong++;
}

_Unwind_Reason_Code believer(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
			     struct _Unwind_Exception *exception, struct _Unwind_Context *context);
_Unwind_Reason_Code believer(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
			     struct _Unwind_Exception *exception, struct _Unwind_Context *context)
{
	(void)version;
	(void)class;
	(void)exception;
	look(context);
	if (actions & _UA_SEARCH_PHASE)
		return _URC_HANDLER_FOUND;
	if (!(actions & _UA_HANDLER_FRAME) && !(actions & _UA_FORCE_UNWIND)) {
		wrong++;
		return _URC_CONTINUE_UNWIND;
	}
	if (actions & _UA_FORCE_UNWIND)
		return _URC_CONTINUE_UNWIND;
	_Unwind_SetGR(context, 0, 7);
	_Unwind_SetIP(context, (uint64_t)guarded_landing);
	return _URC_INSTALL_CONTEXT;
}

/* Its rbx is at CFA - 16: a landing pad that finds another rsp returns to nowhere. */
__asm__(".text\n"
	".globl guarded\n"
	".type guarded, @function\n"
	"guarded:\n"
	"	.cfi_startproc\n"
	"	.cfi_personality 0x1b, believer\n"
	"	push %rbx\n"
	"	.cfi_def_cfa_offset 16\n"
	"	.cfi_offset %rbx, -16\n"
	"	mov %rsp, (%rdx)\n"
	"	mov $5, %ebx\n"
	"	call *%rsi\n"
	"guarded_return:\n"
	"	xor %eax, %eax\n"
	"guarded_landing:\n"
	"	add %rbx, %rax\n"
	"	pop %rbx\n"
	"	.cfi_def_cfa_offset 8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"guarded_end:\n"
	".size guarded, . - guarded\n");

/* ---- exceptions ------------------------------------------------------------------------------ */

static void forget(_Unwind_Reason_Code reason, struct _Unwind_Exception *exception)
{
	(void)reason;
	free(exception);
}

NOINLINE void raise_one(uint64_t n)
{
	struct _Unwind_Exception *exception = calloc(1, sizeof(*exception));

	exception->exception_class = 0x7465737400000000 + n;
	exception->exception_cleanup = forget;
	_Unwind_RaiseException(exception);
	abort();
}

NOINLINE void tail(uint64_t n)
{
	raise_one(n * 3);
}

NOINLINE void deep(uint64_t n)
{
	volatile uint64_t local = n;

	if (n)
		deep(n - 1);
	else
		tail(local);
	local = n + 1;
}

NOINLINE void plain(uint64_t n)
{
	caught += n & 1;
}

/* ---- other walks ----------------------------------------------------------------------------- */

static _Unwind_Reason_Code at_frame(struct _Unwind_Context *context, void *count)
{
	(*(unsigned long *)count)++;
	if (_Unwind_GetIP(context) == (uint64_t)guarded_return)
		look(context);
	return _URC_NO_REASON;
}

static unsigned long frames;

NOINLINE void walk(uint64_t n)
{
	_Unwind_Backtrace(at_frame, &frames);
	caught += n & 1;
}

static jmp_buf leave;

static _Unwind_Reason_Code stop(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
				struct _Unwind_Exception *exception,
				struct _Unwind_Context *context, void *argument)
{
	(void)version;
	(void)class;
	(void)exception;
	(void)argument;
	frames++;
	if (_Unwind_GetIP(context) == (uint64_t)guarded_return)
		look(context);
	else if (looks % 3 == 0 || actions & _UA_END_OF_STACK ||
		 _Unwind_GetCFA(context) > stack_at_call)
		longjmp(leave, 1);
	return _URC_NO_REASON;
}

NOINLINE void forced(uint64_t n)
{
	static struct _Unwind_Exception exception;

	(void)n;
	_Unwind_ForcedUnwind(&exception, stop, NULL);
	abort();
}

NOINLINE void force(void)
{
	if (!setjmp(leave))
		guarded(0, forced, &stack_at_call);
}

int main(int argc, char **argv)
{
	uint64_t sum = 0;
	unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;

	for (uint64_t i = 0; i < count; i++) {
		sum += guarded(i, plain, &stack_at_call);
		sum += guarded(i, raise_one, &stack_at_call);
		sum += guarded(i, tail, &stack_at_call);
		sum += guarded(i % 9, deep, &stack_at_call);
		sum += guarded(i, walk, &stack_at_call);
		force();
	}
	if (argc > 2) /* don't tell how many */
		frames = 0;
	printf("sum %lu caught %lu frames %lu looks %lu wrong %lu\n", (unsigned long)sum, caught,
	       frames, looks, wrong);
	return wrong != 0;
}
