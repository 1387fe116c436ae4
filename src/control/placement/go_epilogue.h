/*
 * go_epilogue.h - the last instructions of a Go function: its frame is left, and `ret`.
 *
 * Go's assembler writes them for one instruction of its own, so no branch leads between them:
 *
 *	mov  N(%rsp), %rbp; add $M, %rsp; ret		Go 1.17 to 1.20
 *	add  $M, %rsp; pop %rbp; ret			Go 1.21 and later
 *
 * A goroutine may be parked at each of them, and goes on there. So a site may cover them from the
 * first one on, if it changes no byte but those of the first (WAY_PARKED): five of the `mov`, or
 * all of the `add`, with the byte of `pop` as the jump's last one (tactic_pun.c). A goroutine that
 * was parked at a later one meets the bytes as they were, and its call began before the site was
 * there. Whoever comes later passes the first, and Go's runtime parks nobody in a trampoline. Pure.
 */
#ifndef DYNTRACE_GO_EPILOGUE_H
#define DYNTRACE_GO_EPILOGUE_H

#include "body.h"

/* Does the instruction, which comes after those of the body, go on with such an epilogue? */
bool go_epilogue_goes_on(const struct body *body, const struct body_insn *insn);

#endif
