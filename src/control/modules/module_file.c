/*
 * module_file.c - opens the file behind a mapping, by the first of these ways that works:
 *
 *   /proc/PID/exe           the program, even if renamed or deleted
 *   /proc/PID/map_files/..  any file, deleted or not; for root only
 *   /proc/PID/root + path   for everyone; the file may have been replaced meanwhile
 *   path                    for targets in a root below ours: maps gives paths as we see them
 *
 * A file is accepted only if its headers and notes (the build id is one) equal those in memory.
 * Without a note to compare, the inode must be the mapped one. The device isn't compared: on btrfs
 * and overlayfs, maps and stat disagree about it. (On overlayfs they may disagree about the inode
 * too; hence the build id first.)
 *
 * Paths are resolved in the target's root (links can't lead out of it), and only files that can't
 * block are opened.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "module_head.h"

#define OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
#define NOTE_MAX 256
#define VDSO_MAX (1u << 20)
#define PAGE 4096ULL
#define CHUNK (64u << 10)

int module_open_thread(struct proc *proc, pid_t tid, const char *name, int flags)
{
	char path[128];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int)proc->pid, (int)tid, name);
	return open(path, flags | O_CLOEXEC);
}

/* Opens /proc/PID/NAME; if the leader has exited, that of a running thread. -1: see errno. */
static int open_proc(struct proc *proc, const char *name, int flags)
{
	struct tids tids = { 0 };
	char path[128];
	int fd, saved;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)proc->pid, name);
	fd = open(path, flags | O_CLOEXEC);
	if (fd >= 0 || errno != ENOENT)
		return fd;
	saved = errno;
	_cleanup_error_ struct error *error = threads_list(proc, &tids);
	for (size_t i = 0; i < tids.count && fd < 0; i++)
		fd = module_open_thread(proc, tids.items[i], name, flags);
	vec_free(&tids);
	errno = saved;
	return fd;
}

static int open_map_file(struct proc *proc, taddr start, taddr end)
{
	char name[64];

	snprintf(name, sizeof(name), "map_files/%" PRIx64 "-%" PRIx64, start.v, end.v);
	return open_proc(proc, name, OPEN_FLAGS);
}

static int open_in_root(struct proc *proc, const char *path, uint64_t flags)
{
	struct open_how how = { .flags = flags,
				.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	_cleanup_close_ int root = open_proc(proc, "root", O_PATH | O_DIRECTORY);

	if (root < 0)
		return -1;
	return (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

/* Is the file of that name in the end? Asked where devices disagree (see above). */
static bool ends_in(int fd, const char *name)
{
	char link[64], path[PATH_MAX];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	if (length <= 0)
		return false;
	path[length] = '\0';
	return strcmp(strrchr(path, '/') ? strrchr(path, '/') + 1 : path, name) == 0;
}

bool module_file_is(struct proc *proc, const struct module *module, const char *path)
{
	_cleanup_close_ int fd = open_in_root(proc, path, O_PATH | O_CLOEXEC);
	struct stat stat;

	return fd >= 0 && module->inode && fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode) &&
	       stat.st_ino == module->inode &&
	       (stat.st_dev == module->device || ends_in(fd, module->name));
}

static bool read_all(int fd, uint64_t offset, void *to, size_t n)
{
	return pread(fd, to, n, (off_t)offset) == (ssize_t)n;
}

static bool head_from_fd(int fd, struct head *ret)
{
	return read_all(fd, 0, &ret->header, sizeof(ret->header)) && head_is_valid(&ret->header) &&
	       read_all(fd, ret->header.e_phoff, ret->phdrs,
			ret->header.e_phnum * sizeof(*ret->phdrs));
}

static bool is_regular(int fd, uint64_t *ret_inode)
{
	struct stat stat;

	if (fstat(fd, &stat) < 0 || !S_ISREG(stat.st_mode))
		return false;
	*ret_inode = stat.st_ino;
	return true;
}

bool head_from_file(struct proc *proc, const struct mapping *mapping, struct head *ret_head)
{
	_cleanup_close_ int fd = open_map_file(proc, mapping->start, mapping->end);
	uint64_t inode;

	if (fd < 0)
		fd = open_in_root(proc, mapping->path, OPEN_FLAGS);
	return fd >= 0 && is_regular(fd, &inode) && inode == mapping->inode &&
	       head_from_fd(fd, ret_head);
}

enum comparison { NOTHING_TO_COMPARE, SAME, DIFFERENT };

/* Compares n bytes of the file with the memory they are mapped to. */
static enum comparison compare_bytes(struct proc *proc, int fd, uint64_t offset, taddr address,
				     size_t n)
{
	uint8_t file[sizeof(struct head)], memory[sizeof(struct head)];

	if (n == 0 || n > sizeof(file) || !read_all(fd, offset, file, n))
		return DIFFERENT;
	_cleanup_error_ struct error *error = mem_read(proc, address, memory, n);
	if (error)
		return NOTHING_TO_COMPARE;
	return memcmp(file, memory, n) == 0 ? SAME : DIFFERENT;
}

/* Compares the notes, which hold the build id. */
static enum comparison compare_notes(struct proc *proc, int fd, const struct head *head, taddr bias)
{
	enum comparison all = NOTHING_TO_COMPARE;

	for (size_t i = 0; i < head->header.e_phnum; i++) {
		const Elf64_Phdr *p = &head->phdrs[i];
		enum comparison one;

		if (p->p_type != PT_NOTE || p->p_filesz == 0)
			continue;
		one = compare_bytes(proc, fd, p->p_offset, taddr_of(bias.v + p->p_vaddr),
				    p->p_filesz < NOTE_MAX ? p->p_filesz : NOTE_MAX);
		if (one == DIFFERENT)
			return DIFFERENT;
		if (one == SAME)
			all = SAME;
	}
	return all;
}

/* Compares the ELF header and the program headers, in the segment with the file's start. */
static enum comparison compare_headers(struct proc *proc, int fd, const struct head *head,
				       taddr bias)
{
	size_t size = head->header.e_phnum * sizeof(*head->phdrs);

	for (size_t i = 0; i < head->header.e_phnum; i++) {
		const Elf64_Phdr *p = &head->phdrs[i];
		taddr start = taddr_of(bias.v + p->p_vaddr - p->p_offset);
		enum comparison header;

		if (p->p_type != PT_LOAD || p->p_offset >= PAGE)
			continue;
		header = compare_bytes(proc, fd, 0, start, sizeof(head->header));
		if (header == SAME && head->header.e_phoff + size <= p->p_offset + p->p_filesz)
			header = compare_bytes(proc, fd, head->header.e_phoff,
					       taddr_of(start.v + head->header.e_phoff), size);
		return header;
	}
	return NOTHING_TO_COMPARE;
}

/* Is this the mapped file? */
static bool is_mapped_file(struct proc *proc, const struct module *module, int fd)
{
	enum comparison notes, headers;
	struct head head;
	uint64_t inode;

	if (!is_regular(fd, &inode) || !head_from_fd(fd, &head))
		return false;
	headers = compare_headers(proc, fd, &head, module->bias);
	notes = compare_notes(proc, fd, &head, module->bias);
	if (headers == DIFFERENT || notes == DIFFERENT)
		return false;
	return notes == SAME || inode == module->inode;
}

static struct error *open_vdso(struct proc *proc, const struct module *module, int *ret_fd)
{
	_cleanup_close_ int fd = memfd_create("vdso", MFD_CLOEXEC);
	size_t size = module->map_end.v - module->map_start.v;
	_cleanup_free_ uint8_t *bytes = size <= VDSO_MAX ? malloc(size) : NULL;
	struct error *error;

	if (fd < 0 || !bytes)
		return error_errno(bytes ? errno : ENOMEM, "cannot copy the vdso");
	error = mem_read(proc, module->map_start, bytes, size);
	if (error)
		return error_wrap(error, "cannot read the vdso");
	if (write(fd, bytes, size) != (ssize_t)size)
		return error_errno(errno, "cannot copy the vdso");
	*ret_fd = take_fd(&fd);
	return NULL;
}

/* Takes fd: returns it in *ret_fd if it is the mapped file, else closes it and sets *why. */
static bool try_file(struct proc *proc, const struct module *module, int fd, int *why, int *ret_fd)
{
	if (fd < 0) {
		*why = *why ? *why : errno;
		return false;
	}
	if (!is_mapped_file(proc, module, fd)) {
		*why = ESTALE;
		close(fd);
		return false;
	}
	*ret_fd = fd;
	return true;
}

struct error *module_open(struct proc *proc, const struct module *module, int *ret_fd)
{
	int why = 0;

	if (module->is_vdso)
		return open_vdso(proc, module, ret_fd);
	if (module->is_executable &&
	    try_file(proc, module, open_proc(proc, "exe", OPEN_FLAGS), &why, ret_fd))
		return NULL;
	if (try_file(proc, module, open_map_file(proc, module->map_start, module->map_end), &why,
		     ret_fd))
		return NULL;
	why = why == ESTALE ? why : 0;
	if (try_file(proc, module, open_in_root(proc, module->path, OPEN_FLAGS), &why, ret_fd))
		return NULL;
	if (try_file(proc, module, open(module->path, OPEN_FLAGS), &why, ret_fd))
		return NULL;
	if (!proc_is_alive(proc))
		return error_new(ERROR_GONE, "cannot read %s: process %d has ended", module->path,
				 (int)proc->pid);
	if (why == ESTALE)
		return error_new(
			ERROR_FAILED,
			"cannot read %s: changed or replaced after process %d loaded it "
			"(restart the process, or run as root)",
			module->path, (int)proc->pid);
	if (module->is_deleted)
		return error_new(ERROR_FAILED,
				 "cannot read %s: deleted after process %d loaded it "
				 "(only root can still open it)",
				 module->path, (int)proc->pid);
	return error_errno(why, "cannot read %s", module->path);
}

/* Searches without keeping what it reads: most libraries don't have the bytes. */
static bool range_has_bytes(int fd, const struct mapping *mapping, const void *bytes, size_t n)
{
	uint8_t chunk[CHUNK];
	uint64_t size = mapping->end.v - mapping->start.v;

	/* the bytes may lie across two chunks */
	for (uint64_t at = 0; at < size; at += sizeof(chunk) - (n - 1)) {
		ssize_t got = pread(fd, chunk, sizeof(chunk), (off_t)(mapping->offset + at));

		if (got < 0 || (got > 0 && memmem(chunk, (size_t)got, bytes, n)))
			return true;
	}
	return false;
}

struct error *module_has_code(struct proc *proc, const struct module *module,
			      const struct maps *maps, const void *bytes, size_t n, bool *ret_found)
{
	_cleanup_close_ int fd = -1;
	struct error *error = module_open(proc, module, &fd);
	bool found = false;

	if (error)
		return error;
	for (size_t i = 0; i < maps->count && !found; i++) {
		const struct mapping *mapping = &maps->items[i];

		found = (mapping->prot & PROT_EXEC) && mapping->inode == module->inode &&
			mapping->device == module->device && range_has_bytes(fd, mapping, bytes, n);
	}
	*ret_found = found;
	return NULL;
}
