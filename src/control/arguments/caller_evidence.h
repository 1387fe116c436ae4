/*
 * caller_evidence.h - registers that can't be arguments, because callers leave garbage in them.
 *
 * A function that returns leaves nothing in a register that it has overwritten. A caller that calls
 * the next function behind it, without a branch or a write in between, passes no argument in that
 * register. A jump to another function is such a call, too. What may be the second word of a result
 * isn't garbage.
 *
 * One such place may be a variable that was never set; two are believed, unless another caller
 * writes that register, or one of a later argument, for nobody but the function. Places don't count
 * where an argument may be absent: behind a number in the register before (Rust's None), and in
 * calls that look variadic. Pure.
 */
#ifndef DYNTRACE_CALLER_EVIDENCE_H
#define DYNTRACE_CALLER_EVIDENCE_H

#include "use_search.h"

/* A bit per register. `plain` tells what the functions called before do, by their code alone. */
uint8_t caller_evidence(const struct symtab *symtab, struct use_search *plain, uint64_t function);

#endif
