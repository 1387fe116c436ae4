/*
 * maps.c - /proc/PID/maps as a sorted list.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "shared/sorted.h"
#include "control/base/cleanup.h"
#include "proc.h"
#include "proc_status.h"

/* "START-END PERM OFFSET MAJ:MIN INODE    PATH", without the newline. False: malformed.
 * The path is NULL without memory. */
static bool parse_line(const char *line, struct mapping *ret_mapping)
{
	struct mapping m = { 0 };
	char perm[5];
	unsigned major_part, minor_part;
	int path_at = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 "%n", &m.start.v,
		   &m.end.v, perm, &m.offset, &major_part, &minor_part, &m.inode, &path_at) != 7 ||
	    strlen(perm) != 4)
		return false;
	m.prot = (perm[0] == 'r' ? PROT_READ : 0) | (perm[1] == 'w' ? PROT_WRITE : 0) |
		 (perm[2] == 'x' ? PROT_EXEC : 0);
	m.shared = perm[3] == 's';
	m.device = makedev(major_part, minor_part);
	m.path = strdup(line + path_at + strspn(line + path_at, " "));
	*ret_mapping = m;
	return true;
}

static struct error *parse_all(char *text, struct maps *maps)
{
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		struct mapping mapping;

		if (!parse_line(line, &mapping))
			return error_new(ERROR_FAILED, "'%s'", line);
		if (!mapping.path || !vec_push(maps, mapping)) {
			free(mapping.path);
			return error_new(ERROR_FAILED, "out of memory");
		}
	}
	return NULL;
}

struct error *maps_parse(char *text, struct maps *ret_maps)
{
	struct maps maps = { 0 };
	struct error *err = parse_all(text, &maps);

	if (err)
		maps_free(&maps);
	else
		*ret_maps = maps;
	return err;
}

struct error *maps_read(const struct proc *proc, struct maps *ret_maps)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_close_ int fd = proc_status_open(proc->pid, "maps", O_RDONLY);

	if (fd >= 0)
		text = proc_status_slurp(fd, NULL);
	int number = errno;
	if ((!text && number == ESRCH) || !proc_is_alive(proc))
		return error_new(ERROR_GONE, "process %d has ended", proc->pid);
	if (!text)
		return error_errno(number, "cannot read /proc/%d/maps", proc->pid);
	return error_wrap(maps_parse(text, ret_maps), "cannot understand /proc/%d/maps", proc->pid);
}

const struct mapping *maps_find(const struct maps *maps, taddr address)
{
	size_t n = sorted_count(maps->count, i, maps->items[i].end.v <= address.v);

	if (n < maps->count && maps->items[n].start.v <= address.v)
		return &maps->items[n];
	return NULL;
}

bool maps_has_exactly(const struct maps *maps, taddr at, uint64_t size)
{
	const struct mapping *m = maps_find(maps, at);

	return m && taddr_equal(m->start, at) && m->end.v - m->start.v == size && !m->shared &&
	       !m->inode && m->prot == (PROT_READ | PROT_WRITE);
}

bool maps_claim(struct maps *maps, taddr at, uint64_t size)
{
	const struct mapping mapping = { .start = at,
					 .end = taddr_add(at, (int64_t)size),
					 .path = strdup("") };
	size_t index = maps->count;

	assert(size && !maps_find(maps, at));
	if (!mapping.path || !vec_reserve(maps, 1)) {
		free(mapping.path);
		return false;
	}
	for (; index > 0 && maps->items[index - 1].start.v > at.v; index--)
		maps->items[index] = maps->items[index - 1];
	maps->items[index] = mapping;
	maps->count++;
	return true;
}

void maps_free(struct maps *maps)
{
	for (size_t i = 0; i < maps->count; i++)
		free(maps->items[i].path);
	vec_free(maps);
}
