/*
 * usage.c - usage COMMAND ARGS...: runs a command without input and output, and prints its exit status, CPU seconds and
 * the size of the largest of its processes in KiB.
 *
 * A process begins with the memory of the one that started it, and the kernel counts that as its own largest size. So
 * a large program, such as Python, can't measure a small one by itself.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static double seconds(struct timeval time)
{
	return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

int main(int argc, char **argv)
{
	struct rusage usage;
	int status, null = open("/dev/null", O_RDWR);

	if (argc < 2 || null < 0)
		return 2;
	pid_t child = fork();
	if (!child) {
		for (int fd = 0; fd < 3; fd++)
			dup2(null, fd);
		execvp(argv[1], argv + 1);
		_exit(127);
	}
	if (child < 0 || wait4(child, &status, 0, &usage) != child)
		return 1;
	printf("%d %.6f %ld\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128,
	       seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_maxrss);
	return 0;
}
