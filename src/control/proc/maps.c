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
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "shared/sorted.h"
#include "control/base/cleanup.h"
#include "proc.h"
#include "proc_status.h"

/* Since Linux 6.11, newer than some headers: one mapping of a process, asked for by an address. */
struct maps_query {
	uint64_t size;
	uint64_t query_flags; /* 0: the mapping with this address */
	uint64_t query_addr;
	uint64_t vma_start;
	uint64_t vma_end;
	uint64_t vma_flags;
	uint64_t vma_page_size;
	uint64_t vma_offset;
	uint64_t inode;
	uint32_t dev_major;
	uint32_t dev_minor;
	uint32_t vma_name_size; /* 0: not wanted */
	uint32_t build_id_size;
	uint64_t vma_name_addr;
	uint64_t build_id_addr;
};
#define MAPS_QUERY _IOWR('f', 17, struct maps_query) /* PROCMAP_QUERY */
enum { QUERY_READABLE = 1, QUERY_WRITABLE = 2, QUERY_EXECUTABLE = 4, QUERY_SHARED = 8 };

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
	bool is_empty = text && !*text; /* as those of a process that is about to end are */
	if ((!text && number == ESRCH) || !proc_is_alive(proc) ||
	    (is_empty && proc_status_ends(proc->pid)))
		return error_new(ERROR_GONE, "process %d has ended", proc->pid);
	if (!text)
		return error_errno(number, "cannot read /proc/%d/maps", proc->pid);
	return error_wrap(maps_parse(text, ret_maps), "cannot understand /proc/%d/maps", proc->pid);
}

bool mapped_path_is_ours(const char *path)
{
	static const char ours[] = "/memfd:dyntrace-";

	return strncmp(path, ours, sizeof(ours) - 1) == 0;
}

bool mapping_is_ours(const struct mapping *mapping)
{
	return mapped_path_is_ours(mapping->path);
}

const struct mapping *maps_find(const struct maps *maps, taddr address)
{
	size_t n = sorted_count(maps->count, i, maps->items[i].end.v <= address.v);

	if (n < maps->count && maps->items[n].start.v <= address.v)
		return &maps->items[n];
	return NULL;
}

bool mapping_is_private_data(const struct mapping *mapping)
{
	const int data = PROT_READ | PROT_WRITE;

	return !mapping->shared && !mapping->inode && (mapping->prot & data) == data;
}

bool maps_has_exactly(const struct maps *maps, taddr at, uint64_t size)
{
	const struct mapping *m = maps_find(maps, at);

	return m && taddr_equal(m->start, at) && m->end.v - m->start.v == size &&
	       mapping_is_private_data(m);
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

bool maps_ask(int fd, taddr at, struct mapping *ret_mapping)
{
	struct maps_query query = { .size = sizeof(query), .query_addr = at.v };

	*ret_mapping = (struct mapping){ 0 };
	if (fd < 0 || ioctl(fd, MAPS_QUERY, &query))
		return fd >= 0 && errno == ENOENT;
	*ret_mapping = (struct mapping){
		.start = taddr_of(query.vma_start),
		.end = taddr_of(query.vma_end),
		.prot = (query.vma_flags & QUERY_READABLE ? PROT_READ : 0) |
			(query.vma_flags & QUERY_WRITABLE ? PROT_WRITE : 0) |
			(query.vma_flags & QUERY_EXECUTABLE ? PROT_EXEC : 0),
		.shared = query.vma_flags & QUERY_SHARED,
		.offset = query.vma_offset,
		.device = makedev(query.dev_major, query.dev_minor),
		.inode = query.inode,
	};
	return true;
}

bool maps_confirm(const struct proc *proc, const struct mapping *mapping)
{
	struct mapping now;
	_cleanup_close_ int fd = -1;

	if (proc->maps_current)
		return true;
	fd = proc_status_open(proc->pid, "maps", O_RDONLY);
	return maps_ask(fd, mapping->start, &now) && taddr_equal(now.start, mapping->start) &&
	       taddr_equal(now.end, mapping->end) && now.prot == mapping->prot &&
	       now.shared == mapping->shared && now.offset == mapping->offset &&
	       now.inode == mapping->inode && now.device == mapping->device;
}

void maps_free(struct maps *maps)
{
	for (size_t i = 0; i < maps->count; i++)
		free(maps->items[i].path);
	vec_free(maps);
}
