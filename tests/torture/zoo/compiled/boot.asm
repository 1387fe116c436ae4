; A boot sector that computes, writes a line to the serial port, and ends the emulator with status 33.
bits 16
org 0x7c00
	xor ax, ax
	mov ds, ax
	mov ss, ax
	mov sp, 0x7c00
	mov bx, 1
	mov cx, 20000
again:	imul bx, bx, 31
	add bx, cx
	loop again
	mov cx, 4
digit:	rol bx, 4
	mov al, bl
	and al, 15
	add al, 'A'
	mov dx, 0x3f8
	out dx, al
	loop digit
	mov al, 10
	out dx, al
	mov al, 16
	mov dx, 0x501
	out dx, al
	hlt
	times 510 - ($ - $$) db 0
	dw 0xaa55
