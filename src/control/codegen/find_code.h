/*
 * find_code.h - the part of a trampoline at libgcc's _Unwind_Find_FDE that answers for our code:
 * return stubs, trampolines, the agent.
 *
 * Pure: writes the emitter.
 */
#ifndef DYNTRACE_FIND_CODE_H
#define DYNTRACE_FIND_CODE_H

#include "tramp_env.h"

/* After record_emit_save, at the function's first instruction: rdi = an address, rsi = struct
 * dwarf_eh_bases (target/x86_64/find.S). */
void find_emit(struct emitter *e, const struct tramp_env *env, bool keep_red_zone);

#endif
