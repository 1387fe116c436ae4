/*
 * module_head.h - shared by module.c (load addresses), module_file.c (checked files) and
 * module_debug.c. Private to modules/.
 */
#ifndef DYNTRACE_MODULE_HEAD_H
#define DYNTRACE_MODULE_HEAD_H

#include <elf.h>

#include "module.h"

#define HEAD_PHDRS_MAX 64

/* The start of an ELF file. */
struct head {
	Elf64_Ehdr header;
	Elf64_Phdr phdrs[HEAD_PHDRS_MAX];
};

/* module.c */
bool head_is_valid(const Elf64_Ehdr *header);

/* module_debug.c */
void module_debug_free(struct module *module);

/* module_file.c */
bool head_from_file(struct proc *proc, const struct mapping *mapping, struct head *ret_head);
/* Opens /proc/PID/task/TID/NAME. -1: see errno. */
int module_open_thread(struct proc *proc, pid_t tid, const char *name, int flags);
/* Opens the module's file; fails if it isn't the one in memory. */
struct error *module_open(struct proc *proc, const struct module *module, int *ret_fd);

#endif
