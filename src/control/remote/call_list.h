/*
 * call_list.h - the loop that makes the calls of a list (ahead.h), as code for the target.
 *
 * It reads the list, writes a result per call, stops behind the first that is an error, unblocks
 * signals, and returns.
 */
#ifndef DYNTRACE_CALL_LIST_H
#define DYNTRACE_CALL_LIST_H

#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

struct call_list_row {
	uint64_t number;
	uint64_t args[6];
	uint64_t fd_from; /* address of a result that is args[4]; 0: none */
};

struct call_list_run {
	uint64_t code; /* addresses in the target */
	uint64_t rows;
	uint64_t results;
	uint64_t count;
	uint64_t open; /* of a mask of signals to unblock */
	uint64_t rsp; /* where the address to return to is */
};

/* Copies the code to `to`; returns its size. It runs anywhere. */
size_t call_list_code(uint8_t *to, size_t room);
/* Where its `syscall` for the calls is, from its beginning, and where the one that unblocks. */
size_t call_list_syscall(void);
size_t call_list_unblock(void);
/* Its arguments. */
void call_list_unblock_args(uint64_t open, uint64_t args[6]);
void call_list_set(struct user_regs_struct *regs, const struct call_list_run *run);

#endif
