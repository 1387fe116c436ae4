/*
 * relocate.h - move an instruction to another address.
 *
 * Pure: reads the decoded instruction, writes the emitter (whose pc is the new address). The moved
 * code does exactly what the original did: RIP-relative operands are re-based, branches widened,
 * jrcxz/loop expanded, a call pushes the original return address with one instruction (H3) and
 * jumps. Fails with ERROR_REFUSED and a reason, and leaves the emitter unchanged.
 */
#ifndef DYNTRACE_RELOCATE_H
#define DYNTRACE_RELOCATE_H

#include "control/base/error.h"
#include "decode.h"
#include "emit.h"

struct error *relocate(const struct insn *insn, struct emitter *e);

#endif
