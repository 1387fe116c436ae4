/*
 * module.c - the files of a process.
 *
 * The load address of a file follows from one of its executable mappings and the PT_LOAD of that
 * mapping. The program headers come from the process's memory: this needs no right but the right to
 * trace, and works for deleted files. Only module_file.c opens the file itself, for its symbols.
 */
#include "module_head.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "control/base/cleanup.h"

#define PAGE 4096ULL
#define MODULES_MAX 4096u
#define LOOK_BACK 64 /* mappings between a file's first one and its code */
#define ADDRESS_MAX (1ULL << 47)
#define DELETED " (deleted)"

static bool same_file(const struct mapping *a, const struct mapping *b)
{
	return a->inode == b->inode && a->device == b->device && strcmp(a->path, b->path) == 0;
}

bool head_is_valid(const Elf64_Ehdr *header)
{
	return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
	       header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_machine == EM_X86_64 &&
	       header->e_phentsize == sizeof(Elf64_Phdr) && header->e_phnum > 0 &&
	       header->e_phnum <= HEAD_PHDRS_MAX;
}

/* Reads the headers from the file's first mapping; false: not mapped. */
static bool head_from_memory(struct proc *proc, const struct maps *maps, size_t index,
			     struct head *ret)
{
	const struct mapping *code = &maps->items[index], *first = NULL;

	for (size_t i = index + 1; i-- > 0 && index - i < LOOK_BACK && !first;) {
		if (same_file(&maps->items[i], code) && maps->items[i].offset == 0)
			first = &maps->items[i];
	}
	if (!first)
		return false;
	_cleanup_error_ struct error *error =
		mem_read(proc, first->start, &ret->header, sizeof(ret->header));
	if (error || !head_is_valid(&ret->header) ||
	    ret->header.e_phoff > first->end.v - first->start.v - sizeof(ret->phdrs))
		return false;
	_cleanup_error_ struct error *more =
		mem_read(proc, taddr_add(first->start, (int64_t)ret->header.e_phoff), ret->phdrs,
			 ret->header.e_phnum * sizeof(*ret->phdrs));
	return !more;
}

/* The bias under which the mapping is a piece of the file; false: it isn't a piece. */
static bool head_bias(const struct head *head, const struct mapping *mapping, uint64_t *ret_bias)
{
	bool found = false;

	for (size_t i = 0; i < head->header.e_phnum; i++) {
		const Elf64_Phdr *p = &head->phdrs[i];
		uint64_t skew = p->p_offset % PAGE;

		if (p->p_type != PT_LOAD || mapping->offset < p->p_offset - skew ||
		    mapping->offset >= p->p_offset + p->p_filesz)
			continue;
		if (found && !(p->p_flags & PF_X))
			continue;
		*ret_bias = mapping->start.v - mapping->offset + p->p_offset - p->p_vaddr;
		found = true;
		if (p->p_flags & PF_X)
			break;
	}
	return found && *ret_bias % PAGE == 0;
}

/* Is the file's first segment mapped where the bias puts it? */
static bool is_start_mapped(const struct maps *maps, const struct mapping *code,
			    const struct head *head, uint64_t bias)
{
	const Elf64_Phdr *first = NULL;

	for (size_t i = 0; i < head->header.e_phnum; i++) {
		const Elf64_Phdr *p = &head->phdrs[i];

		if (p->p_type == PT_LOAD && (!first || p->p_vaddr < first->p_vaddr))
			first = p;
	}
	for (size_t i = 0; i < maps->count && first; i++) {
		const struct mapping *m = &maps->items[i];
		uint64_t into = bias + first->p_vaddr - m->start.v;

		if (into < m->end.v - m->start.v && same_file(m, code) &&
		    m->offset + into == first->p_offset)
			return true;
	}
	return false;
}

static void module_set_bounds(struct module *module, const struct head *head)
{
	uint64_t low = UINT64_MAX, high = 0;

	for (size_t i = 0; i < head->header.e_phnum; i++) {
		const Elf64_Phdr *p = &head->phdrs[i];

		if (p->p_vaddr >= ADDRESS_MAX || p->p_memsz >= ADDRESS_MAX)
			continue;
		if (p->p_type == PT_DYNAMIC)
			module->dynamic = taddr_of(module->bias.v + p->p_vaddr);
		if (p->p_type != PT_LOAD)
			continue;
		low = p->p_vaddr < low ? p->p_vaddr : low;
		high = p->p_vaddr + p->p_memsz > high ? p->p_vaddr + p->p_memsz : high;
	}
	if (low > high)
		return;
	module->low = taddr_of(module->bias.v + low / PAGE * PAGE);
	module->high = taddr_of(module->bias.v + (high + PAGE - 1) / PAGE * PAGE);
}

static struct module *module_new(const struct mapping *mapping, uint64_t bias)
{
	struct module *module = calloc(1, sizeof(*module));
	size_t length = strlen(mapping->path);
	char *slash;

	if (!module)
		return NULL;
	module->path = strdup(mapping->path);
	if (!module->path) {
		free(module);
		return NULL;
	}
	if (length > strlen(DELETED) &&
	    strcmp(module->path + length - strlen(DELETED), DELETED) == 0) {
		module->path[length - strlen(DELETED)] = '\0';
		module->is_deleted = true;
	}
	slash = strrchr(module->path, '/');
	module->name = slash && slash[1] ? slash + 1 : module->path;
	module->is_vdso = strcmp(module->path, "[vdso]") == 0;
	module->bias = taddr_of(bias);
	module->low = mapping->start;
	module->high = mapping->end;
	module->map_start = mapping->start;
	module->map_end = mapping->end;
	module->device = mapping->device;
	module->inode = mapping->inode;
	return module;
}

static bool is_known(const struct modules *modules, const struct mapping *mapping, uint64_t bias)
{
	for (size_t i = modules->count; i-- > 0;) {
		const struct module *m = modules->items[i];

		if (m->bias.v == bias && m->inode == mapping->inode && m->device == mapping->device)
			return true;
	}
	return false;
}

static void module_free(struct module *module)
{
	if (!module)
		return;
	module_debug_free(module);
	symtab_close(module->symtab);
	error_free(module->symtab_error);
	free(module->soname);
	free(module->path);
	free(module);
}

/* Takes in one executable mapping: a new module, a piece of a known module, or not an ELF file. */
static struct error *add_mapping(struct proc *proc, const struct maps *maps, size_t index,
				 struct modules *modules, bool *ret_foreign)
{
	const struct mapping *mapping = &maps->items[index];
	struct head head;
	struct module *module;
	uint64_t bias = 0;

	*ret_foreign = !head_from_memory(proc, maps, index, &head) &&
		       !head_from_file(proc, mapping, &head);
	if (*ret_foreign)
		return NULL;
	if (!head_bias(&head, mapping, &bias) || is_known(modules, mapping, bias))
		return NULL;
	if (modules->count >= MODULES_MAX)
		return error_new(ERROR_FAILED, "process %d: more than %u libraries",
				 (int)proc->pid, MODULES_MAX);
	module = module_new(mapping, bias);
	if (!module || !vec_push(modules, module)) {
		module_free(module);
		return error_errno(ENOMEM, "libraries of process %d", (int)proc->pid);
	}
	module->is_piece = !module->is_vdso && !is_start_mapped(maps, mapping, &head, bias);
	module_set_bounds(module, &head);
	return NULL;
}

static bool has_whole(const struct modules *modules, const struct module *piece)
{
	for (size_t i = 0; i < modules->count; i++) {
		const struct module *m = modules->items[i];

		if (!m->is_piece && m->inode == piece->inode && m->device == piece->device)
			return true;
	}
	return false;
}

/* Drops text that a program has mapped once more elsewhere, as node does: no loader made it a
 * module. */
static void drop_pieces(struct modules *modules)
{
	for (size_t i = modules->count; i-- > 0;) {
		struct module *module = modules->items[i];

		if (!module->is_piece || !has_whole(modules, module))
			continue;
		modules->count--;
		memmove(modules->items + i, modules->items + i + 1,
			(modules->count - i) * sizeof(*modules->items));
		module_free(module);
	}
}

static uint64_t read_thread_entry(struct proc *proc, pid_t tid)
{
	_cleanup_close_ int fd = module_open_thread(proc, tid, "auxv", O_RDONLY);
	uint64_t pair[2];

	while (fd >= 0 && read(fd, pair, sizeof(pair)) == sizeof(pair) && pair[0] != AT_NULL) {
		if (pair[0] == AT_ENTRY)
			return pair[1];
	}
	return 0;
}

/* The entry point from the auxiliary vector; 0: unknown. A leader that exited has none. */
static uint64_t read_entry(struct proc *proc)
{
	uint64_t entry = read_thread_entry(proc, proc->pid);
	struct tids tids = { 0 };

	if (entry)
		return entry;
	_cleanup_error_ struct error *error = threads_list(proc, &tids);
	for (size_t i = 0; i < tids.count && !entry; i++)
		entry = read_thread_entry(proc, tids.items[i]);
	vec_free(&tids);
	return entry;
}

struct module *modules_at(const struct modules *modules, taddr address)
{
	for (size_t i = 0; i < modules->count; i++) {
		struct module *module = modules->items[i];

		if (taddr_within(address, module->low, module->high))
			return module;
	}
	return NULL;
}

/* Adds the program if none of its text is a mapping of the file any more: programs copy their text
 * to memory of huge pages. The program's data, or headers, still are mapped from the file. */
static struct error *add_copied_program(struct proc *proc, const struct maps *maps,
					struct modules *modules)
{
	struct error *error = NULL;
	uint64_t entry = read_entry(proc);
	bool ignored;

	for (size_t i = 0; i < maps->count && !error; i++) {
		if (!entry || modules_at(modules, taddr_of(entry)))
			break;
		if (proc->exe && strcmp(maps->items[i].path, proc->exe) == 0)
			error = add_mapping(proc, maps, i, modules, &ignored);
	}
	return error;
}

static void put_program_first(struct proc *proc, struct modules *modules)
{
	struct module *program = modules_at(modules, taddr_of(read_entry(proc)));
	size_t at = 0;

	for (size_t i = 0; i < modules->count && !program; i++) {
		if (proc->exe && strcmp(modules->items[i]->path, proc->exe) == 0)
			program = modules->items[i];
	}
	if (!program)
		return;
	while (modules->items[at] != program)
		at++;
	program->is_executable = true;
	memmove(modules->items + 1, modules->items, at * sizeof(*modules->items));
	modules->items[0] = program;
}

struct error *modules_read(struct proc *proc, const struct maps *maps, struct modules *ret_modules)
{
	struct modules modules = { 0 };
	const struct mapping *foreign =
		NULL; /* the last file that isn't ELF: may be mapped a thousand times */

	for (size_t i = 0; i < maps->count; i++) {
		const struct mapping *mapping = &maps->items[i];
		struct error *error;
		bool is_foreign;

		if (!(mapping->prot & PROT_EXEC) ||
		    (mapping->inode == 0 && strcmp(mapping->path, "[vdso]") != 0) ||
		    (foreign && same_file(foreign, mapping)))
			continue;
		error = add_mapping(proc, maps, i, &modules, &is_foreign);
		if (error) {
			modules_free(&modules);
			return error;
		}
		if (is_foreign)
			foreign = mapping;
	}
	drop_pieces(&modules);
	struct error *error = add_copied_program(proc, maps, &modules);
	if (error) {
		modules_free(&modules);
		return error;
	}
	put_program_first(proc, &modules);
	*ret_modules = modules;
	return NULL;
}

struct error *modules_of(struct proc *proc, struct modules *ret_modules)
{
	_cleanup_(maps_free) struct maps maps = { 0 };
	struct error *error = maps_read(proc, &maps);

	return error ? error : modules_read(proc, &maps, ret_modules);
}

struct error *module_symtab(struct proc *proc, struct module *module, struct symtab **ret_symtab)
{
	if (!module->symtab && !module->symtab_error) {
		_cleanup_close_ int fd = -1;
		struct error *error = module_open(proc, module, &fd);

		if (!error)
			error = symtab_open(fd, module->path, &module->symtab);
		module->symtab_error = error;
	}
	if (module->symtab_error)
		return error_new(error_kind(module->symtab_error), "%s",
				 error_text(module->symtab_error));
	*ret_symtab = module->symtab;
	return NULL;
}

void modules_try_again(struct modules *modules)
{
	for (size_t i = 0; i < modules->count; i++)
		error_free(take_ptr(&modules->items[i]->symtab_error));
}

void modules_free(struct modules *modules)
{
	for (size_t i = 0; i < modules->count; i++)
		module_free(modules->items[i]);
	vec_free(modules);
}
