fib(N, N) :- N < 2, !.
fib(N, F) :- A is N - 1, B is N - 2, fib(A, X), fib(B, Y), F is X + Y.
caught(N, L) :- catch(thrower(N), E, (write_to_atom(A, E), atom_length(A, L))).
thrower(N) :- 0 is N mod 2, !, throw(no(N)).
thrower(N) :- _ is 1 // (N - N).
main :- fib(14, F), caught(2, A), caught(3, B), write([F, A, B]), nl, halt.
