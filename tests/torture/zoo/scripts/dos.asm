; a program for DOS: computes, and writes four letters to MADE.TXT
org 100h
 mov cx, 2000
 mov ax, 1
l: imul ax, ax, 31
 add ax, cx
 loop l
 mov bx, ax
 mov cx, 4
 mov di, buf
n: rol bx, 4
 mov al, bl
 and al, 15
 add al, 'A'
 stosb
 loop n
 mov ah, 3ch
 xor cx, cx
 mov dx, name
 int 21h
 mov bx, ax
 mov ah, 40h
 mov cx, 4
 mov dx, buf
 int 21h
 mov ax, 4c00h
 int 21h
name: db "MADE.TXT",0
buf: db "....",0
