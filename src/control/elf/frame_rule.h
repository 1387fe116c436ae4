/*
 * frame_rule.h - where a function has its return address when it is entered, by its unwind table.
 *
 * Read with libdw from a file of its own descriptor. Files are hostile: whatever can't be read
 * proves nothing.
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
	FRAME_PLAIN, /* the return address is at [rsp] */
	FRAME_OTHER, /* it isn't: part of a function, an entry point with nobody to return to */
	FRAME_SIGNAL, /* a signal handler returns there */
};

/* For the instruction at this address of the file. */
enum frame_rule frame_rule_at(struct frame_rules *rules, uint64_t address);

#endif
