" Lists, dictionaries, patterns, exceptions, a buffer.
function! Fib(n)
  return a:n < 2 ? a:n : Fib(a:n - 1) + Fib(a:n - 2)
endfunction
let s:errors = 0
for s:n in range(30)
  try
    if s:n % 2 | throw 'no ' . s:n | else | call Nowhere() | endif
  catch
    let s:errors += strlen(v:exception)
  endtry
endfor
call setline(1, map(range(1, 200), 'printf("%d %s", v:val, repeat("x", v:val % 7))'))
%s/[13579]\+/<&>/g
g/x\{5,}/d
sort! n
call append(0, Fib(12) . ' ' . s:errors . ' ' . line('$'))
write!
quitall!
