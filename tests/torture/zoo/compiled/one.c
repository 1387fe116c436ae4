/* Recursion, a jump table, qsort, setjmp, signals: for compilers, linkers and emulators. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static jmp_buf back;

int fib(int n)
{
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

static void on_signal(int number)
{
	longjmp(back, number);
}

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static const char *word(int n)
{
	switch (n % 7) {
	case 0:
		return "zero";
	case 1:
		return "one";
	case 2:
		return "two";
	case 3:
		return "three";
	case 4:
		return "four";
	case 5:
		return "five";
	default:
		return "many";
	}
}

int main(int count, char **words)
{
	int numbers[100], length = 0;

	signal(SIGUSR1, on_signal);
	for (int n = count > 1 ? atoi(words[1]) : 1; n > 0; n--) {
		for (int i = 0; i < 100; i++)
			numbers[i] = i * 7919 % 1009;
		qsort(numbers, 100, sizeof(numbers[0]), compare);
		for (int i = 0; i < 100; i++)
			length += (int)strlen(word(numbers[i]));
		int number = setjmp(back);
		if (!number)
			raise(SIGUSR1);
		printf("%d %d %d %d\n", fib(15), length, numbers[50], number);
		signal(SIGUSR1, on_signal);
	}
	return 0;
}
