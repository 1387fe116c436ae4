/*
 * lone.h - a function where only a trap fits.
 */
#ifndef DYNTRACE_LONE_H
#define DYNTRACE_LONE_H

/* `ret`, and something that is jumped to directly behind it: its bytes are the only distance that a
 * jump could have, and it leads into this very function. */
void lone(void);
__asm__(".text\n .balign 64\n .globl behind_caller\n .type behind_caller, @function\n"
	"behind_caller: .cfi_startproc\n jmp behind\n .cfi_endproc\n"
	" .size behind_caller, . - behind_caller\n"
	".fill 200, 1, 0xf4\n"
	".globl lone\n .type lone, @function\n lone: .cfi_startproc\n ret\n .cfi_endproc\n"
	" .size lone, . - lone\n"
	".globl behind\n .type behind, @function\n behind: .cfi_startproc\n"
	" .byte 5, 0, 0, 0, 0\n" /* add $0, %eax */
	"ret\n .cfi_endproc\n .size behind, . - behind\n .fill 200, 1, 0xf4\n");

#endif
