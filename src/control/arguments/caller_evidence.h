/*
 * caller_evidence.h - registers that can't be arguments, because callers leave garbage in them.
 *
 * A function that returns leaves nothing in a register that it has overwritten. A caller that calls
 * the next function behind it, without a branch or a write in between, passes no argument in that
 * register. One such place may be a variable that was never set; two are believed, and of many
 * callers one in sixteen. A jump to another function is such a call, too. What may be the second
 * word of a result isn't garbage. Pure.
 */
#ifndef DYNTRACE_CALLER_EVIDENCE_H
#define DYNTRACE_CALLER_EVIDENCE_H

#include "use_search.h"

/* A bit per register. `plain` tells what the functions called before do, by their code alone. */
uint8_t caller_evidence(const struct symtab *symtab, struct use_search *plain, uint64_t function);

#endif
