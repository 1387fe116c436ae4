/*
 * call_on.h - go to another stack.
 */
#ifndef DYNTRACE_CALL_ON_H
#define DYNTRACE_CALL_ON_H

/* Calls it with that stack pointer. */
void call_on(char *top, void (*run)(void));
__asm__(".globl call_on\n"
	"call_on:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	mov %rdi, %rsp\n"
	"	call *%rsi\n"
	"	mov %rbp, %rsp\n"
	"	pop %rbp\n"
	"	ret\n");

#endif
