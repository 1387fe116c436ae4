/*
 * call_number.h - which system call a `syscall` instruction makes, by the code of its function.
 *
 * (X11) The number is known only if every way to the instruction sets eax to the same one. Ways are
 * the direct jumps of the function itself and falling through; whatever else may lead to an
 * instruction (branch_targets_is_apart) knows no register. Called functions keep the registers that
 * the ABI has them keep.
 *
 * Pure.
 */
#ifndef DYNTRACE_CALL_NUMBER_H
#define DYNTRACE_CALL_NUMBER_H

#include "body.h"

/* The body must have been read with branch targets. False: the number isn't known, or memory ran
 * out. */
bool call_number_find(const struct body *body, size_t index, uint64_t *ret_number);

#endif
