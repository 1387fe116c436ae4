/*
 * frame_rule.h - where a function finds its return address on entry, by its unwind table.
 *
 * libdw reads the file through a descriptor of its own. Files are hostile: a table that can't be
 * read proves nothing.
 */
#ifndef DYNTRACE_FRAME_RULE_H
#define DYNTRACE_FRAME_RULE_H

#include "symtab.h"

struct frame_rules;

/* NULL: the file has no unwind table that can be read. */
struct frame_rules *frame_rules_open(const struct symtab *symtab);
void frame_rules_close(struct frame_rules *rules);

enum frame_rule {
	FRAME_UNKNOWN, /* no unwind table covers the address, or it starts elsewhere */
	FRAME_PLAIN, /* the return address is on top of the stack */
	FRAME_OTHER, /* elsewhere: part of a function, or an entry point without a caller */
	FRAME_SIGNAL, /* a signal handler returns there */
};

/* The rule at the instruction at this address of the file. */
enum frame_rule frame_rule_at(struct frame_rules *rules, uint64_t address);

#endif
