/*
 * A remote call takes 0.1 ms while all threads wait: so one madvise covers as many pages as it can,
 * and the calls of a stop are made in one go where that can be done (remote/ahead.h).
 * The range may include pages between two of ours unless /proc/PID/pagemap shows them as private
 * copies: dropping the file's own pages only takes them out of the page tables.
 */
#include "drop.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control/remote/ahead.h"
#include "control/remote/remote.h"
#include "control/base/cleanup.h"
#include "control/proc/proc_status.h"

#define CALLS_MAX 8u /* in one stop */
#define GAP_MAX 512 /* pages */

/* Opens the mapped file: through map_files, else by its path if that still names the same file. */
static int open_mapped(const struct proc *proc, const struct mapping *m)
{
	char path[4200];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%lx-%lx", proc->pid, m->start.v, m->end.v);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0)
		return fd;
	snprintf(path, sizeof(path), "/proc/%d/root%s", proc->pid, m->path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0 && (fstat(fd, &st) || st.st_ino != m->inode || st.st_dev != m->device)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Reads a whole page; bytes behind the file's end are zero, as in a mapping. */
static bool read_page(int fd, uint64_t offset, uint8_t *bytes)
{
	size_t done = 0;
	ssize_t got;

	while (done < DT_PAGE &&
	       (got = pread(fd, bytes + done, DT_PAGE - done, (off_t)(offset + done))) > 0)
		done += (size_t)got;
	memset(bytes + done, 0, DT_PAGE - done);
	return done > 0;
}

static void read_origins(struct drop *drop, const struct proc *proc, const struct maps *maps)
{
	const struct mapping *current = NULL;
	int fd = -1;

	for (size_t i = 0; i < drop->pages->count; i++) {
		taddr at = drop->pages->items[i].at;
		const struct mapping *m = maps_find(maps, at);

		if (!m || m->shared || !m->inode)
			continue;
		if (m != current) {
			cleanup_close(&fd);
			fd = open_mapped(proc, m);
			current = m;
		}
		uint64_t offset = m->offset + (at.v - m->start.v);

		if (fd >= 0)
			drop->origins[i] = (struct drop_page){
				read_page(fd, offset, drop->file + i * DT_PAGE), m->device,
				m->inode, offset
			};
	}
	cleanup_close(&fd);
}

struct error *drop_begin(struct drop *drop, struct proc *proc, const struct pages *pages)
{
	struct maps maps = { 0 };
	struct error *err = maps_read(proc, &maps);

	if (err)
		return err;
	*drop = (struct drop){ .pages = pages,
			       .file = malloc(pages->count * DT_PAGE + 1),
			       .origins = calloc(pages->count + 1, sizeof(*drop->origins)) };
	if (drop->file && drop->origins)
		read_origins(drop, proc, &maps);
	else
		err = error_new(ERROR_FAILED, "out of memory");
	maps_free(&maps);
	return err;
}

void drop_end(struct drop *drop)
{
	free(drop->file);
	free(drop->origins);
	*drop = (struct drop){ 0 };
}

/* Is the page private, still of the file that was read, and equal to it? `maps` is current. */
static bool is_droppable(const struct drop *drop, const struct maps *maps, size_t i)
{
	const struct page *page = &drop->pages->items[i];
	const struct drop_page *origin = &drop->origins[i];
	const struct mapping *m = maps_find(maps, page->at);

	return origin->known && page->readable && m && !m->shared && m->inode == origin->inode &&
	       m->device == origin->device &&
	       m->offset + (page->at.v - m->start.v) == origin->offset &&
	       memcmp(drop->pages->bytes + i * DT_PAGE, drop->file + i * DT_PAGE, DT_PAGE) == 0;
}

/* Are the pages of [from, to) free of private copies? */
static bool is_clean(int pagemap, uint64_t from, uint64_t to)
{
	uint64_t entries[GAP_MAX];
	size_t n = (to - from) / DT_PAGE;

	assert(from <= to);
	if (n > GAP_MAX || !proc_status_pages(pagemap, from, entries, n))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (entries[i] & PROC_PAGE_EXISTS && !(entries[i] & PROC_PAGE_OF_FILE))
			return false;
	}
	return true;
}

/* The last page of the run from `first` on (a droppable page) that one madvise can drop. */
static size_t last_of_run(const struct drop *drop, const struct maps *maps, int pagemap,
			  size_t first)
{
	const struct page *pages = drop->pages->items;
	const struct mapping *m = maps_find(maps, pages[first].at);
	size_t last = first;

	while (last + 1 < drop->pages->count && pages[last + 1].at.v < m->end.v &&
	       is_droppable(drop, maps, last + 1) &&
	       is_clean(pagemap, pages[last].at.v + DT_PAGE, pages[last + 1].at.v))
		last++;
	return last;
}

/* Are the mappings of all pages still as they were before the stop? */
static bool is_current(const struct drop *drop, const struct proc *proc, const struct maps *maps)
{
	const struct mapping *last = NULL;

	for (size_t i = drop->next; i < drop->pages->count; i++) {
		const struct mapping *m = maps_find(maps, drop->pages->items[i].at);

		if (m && m != last && !maps_confirm(proc, m))
			return false;
		last = m;
	}
	return true;
}

/* Lists the calls that drop the next pages. */
static void list_calls(struct drop *drop, const struct proc *proc, const struct maps *maps,
		       struct ahead *list)
{
	const struct page *pages = drop->pages->items;
	_cleanup_close_ int pagemap = proc_status_open(proc->pid, "pagemap", O_RDONLY);

	while (drop->next < drop->pages->count && list->count < CALLS_MAX) {
		size_t first = drop->next++;

		if (!is_droppable(drop, maps, first))
			continue;
		drop->next = last_of_run(drop, maps, pagemap, first) + 1;
		uint64_t end = pages[drop->next - 1].at.v + DT_PAGE;
		ahead_do(list, -1, SYS_madvise, pages[first].at.v, end - pages[first].at.v,
			 MADV_DONTNEED);
	}
}

static struct error *make_calls(struct stop *stop, const struct ahead *list)
{
	struct remote *remote = NULL;
	struct error *err = remote_begin(stop, &remote);

	if (err)
		return err;
	err = ahead_make(remote, list);
	for (size_t i = 0; i < list->count && !err; i++) {
		int64_t result; /* an error is fine: locked pages stay */

		err = remote_call(remote, list->calls[i].number, list->calls[i].args, &result);
	}
	struct error *end = remote_end(remote);
	if (err)
		error_free(end);
	return err ? err : end;
}

struct error *drop_some(struct drop *drop, struct proc *proc, struct stop *stop, bool *ret_more)
{
	_cleanup_(maps_free) struct maps now = { 0 };
	const struct maps *maps = proc->maps_before;
	struct ahead list = { 0 };
	struct error *err = NULL;

	if (!maps || !is_current(drop, proc, maps)) {
		err = maps_read(proc, &now);
		maps = &now;
	}
	if (!err)
		list_calls(drop, proc, maps, &list);
	if (!err && list.count)
		err = make_calls(stop, &list);
	*ret_more = !err && drop->next < drop->pages->count;
	return err;
}
