/*
 * page_make.c - a trace's page in a file: written beside it first, so that a file of this name is a
 * whole page.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "page.h"

#define KEPT 1500000u
#define BUCKETS 2048u

/* In the child. */
static struct error *write_page(struct view_reader *reader, void *context)
{
	const struct page_request *request = context;
	_cleanup_(view_own_close) struct own_traces traces = { 0 };
	struct error *error = view_own_open(request->path, NULL, reader, &traces, NULL);

	return error ? error : page_write(request, &traces, reader);
}

/* Tests make small pages with sums: DYNTRACE_PAGE_CALLS is the number of calls from which on. */
static struct page_limits limits(void)
{
	const char *text = getenv("DYNTRACE_PAGE_CALLS");
	uint64_t calls = text ? strtoull(text, NULL, 10) : 0;

	if (!calls || calls > PAGE_CALLS_MAX)
		return (struct page_limits){ PAGE_CALLS_MAX, KEPT, BUCKETS };
	return (struct page_limits){ calls, calls / 4, BUCKETS };
}

static struct error *make(const char *path)
{
	struct page_request request = { .path = path, .limits = limits() };
	struct view_reader_limits limited = view_reader_default_limits;
	limited.has_progress = true;
	struct error *error = view_reader_run(path, &limited, write_page, &request);

	if (error && error_kind(error) == ERROR_REFUSED)
		return error_wrap(error, "cannot make a page: this is not a whole trace of "
					 "dyntrace's");
	return error;
}

struct error *page_make(const char *path, const char *file)
{
	_cleanup_free_ char *temporary = NULL;

	if (!strcmp(file, "-"))
		return make(path);
	if (asprintf(&temporary, "%s.XXXXXX", file) < 0)
		return error_new(ERROR_FAILED, "out of memory");
	_cleanup_close_ int fd = mkostemp(temporary, O_CLOEXEC);
	/* the child writes to standard output: it becomes the file */
	_cleanup_close_ int before = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0)
		return error_errno(errno, "cannot write '%s'", file);
	mode_t mask = umask(0);
	umask(mask);
	struct error *error = make(path);
	if (before >= 0)
		dup2(before, STDOUT_FILENO);
	/* a damaged trace has a page of what could be read */
	bool is_page = lseek(fd, 0, SEEK_END) > 0;
	if (is_page && (fchmod(fd, 0666 & ~mask) || rename(temporary, file)) && !error)
		error = error_errno(errno, "cannot write '%s'", file);
	if (!is_page)
		unlink(temporary);
	return error;
}
