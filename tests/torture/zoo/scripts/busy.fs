\ Recursion, exceptions, memory faults that become exceptions.
: fib ( n -- n ) dup 2 < if exit then dup 1- recurse swap 2 - recurse + ;
: divide 1 0 / ;
: fetch 0 @ ;
: deep recurse 1 ;
: work 20 fib . ['] divide catch . ['] fetch catch . clearstack 123 ['] throw catch . cr ;
work work
