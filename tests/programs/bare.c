/*
 * bare.c - a program without a C library: FS is 0, then somewhere, then 0 again. Calls, returns,
 * forks and returns in both processes. Ends with status 0 if all came out right.
 */
#define NOINLINE __attribute__((noinline, noclone))

static volatile long sink;

static long call(long number, long a, long b, long c)
{
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return result;
}

NOINLINE long recurse(long n)
{
	long below = n ? recurse(n - 1) : 0;

	sink = sink + 1;
	return below + n;
}

NOINLINE long fork_inside(long n)
{
	long child = call(57, 0, 0, 0);

	sink = sink + n;
	return child;
}

NOINLINE long wait_for(long child)
{
	int status = -1;

	call(61, child, (long)&status, 0);
	return status;
}

/* Returns with another FS than it was called with. */
NOINLINE long set_fs(long to)
{
	long result = call(158, 0x1002, to, 0);

	sink = sink + 1;
	return result;
}

NOINLINE int run(void)
{
	static long block[512];

	if (set_fs((long)(block + 256)) || recurse(5) != 15 || set_fs(0) || recurse(5) != 15)
		return 4;
	if (recurse(10) != 55)
		return 1;
	long child = fork_inside(1);
	if (!child)
		return recurse(20) == 210 ? 7 : 2;
	return wait_for(child) == 7 << 8 && recurse(30) == 465 ? 0 : 3;
}

__attribute__((used, noreturn)) void begin(void)
{
	call(231, run(), 0, 0);
	__builtin_unreachable();
}

__asm__(".globl _start\n"
	"_start:\n"
	"	xor %ebp, %ebp\n"
	"	and $-16, %rsp\n"
	"	call begin\n");
