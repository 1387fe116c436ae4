/*
 * module_soname.c - the name that programs are linked with, from the dynamic section in memory.
 *
 * Reading memory needs no file, and works for deleted ones. The section belongs to the target: the
 * section may be endless, and the name anywhere. glibc has added the load address to the section's
 * addresses, musl hasn't.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "module.h"

#define ENTRIES_MAX 128u
#define SONAME_ROOM 256u

/* Reads what can be read of n bytes: near the end of a mapping only the first ones. */
static size_t read_some(struct proc *proc, uint64_t at, void *to, size_t n, size_t unit)
{
	for (; n >= unit; n = n / 2 / unit * unit) {
		_cleanup_error_ struct error *unreadable = mem_read(proc, taddr_of(at), to, n);

		if (!unreadable)
			return n;
	}
	return 0;
}

/* Where the name is; 0: there is none. */
static uint64_t find(struct proc *proc, const struct module *module)
{
	Elf64_Dyn table[ENTRIES_MAX];
	size_t size = read_some(proc, module->dynamic.v, table, sizeof(table), sizeof(*table));
	uint64_t strings = 0, offset = 0;

	for (size_t i = 0; i < size / sizeof(*table) && table[i].d_tag != DT_NULL; i++) {
		if (table[i].d_tag == DT_STRTAB)
			strings = table[i].d_un.d_ptr;
		if (table[i].d_tag == DT_SONAME)
			offset = table[i].d_un.d_val;
	}
	if (!strings || !offset)
		return 0;
	if (!taddr_within(taddr_of(strings), module->low, module->high))
		strings += module->bias.v;
	return strings + offset;
}

const char *module_soname(struct proc *proc, struct module *module)
{
	char text[SONAME_ROOM];
	uint64_t at = module->soname_read || !module->dynamic.v ? 0 : find(proc, module);
	size_t n = at ? read_some(proc, at, text, sizeof(text), 1) : 0;

	if (n && text[0] && memchr(text, 0, n))
		module->soname = strdup(text);
	module->soname_read = true;
	return module->soname;
}
