; Macros, repetitions and sections for nasm to work on.
%macro leaf 2
global %1
%1:
	lea rax, [rdi + %2]
	ret
%endmacro
section .text
%assign n 0
%rep 200
leaf f %+ n, n
%assign n n + 1
%endrep
section .data
table:
%assign n 0
%rep 200
	dq f %+ n
%assign n n + 1
%endrep
