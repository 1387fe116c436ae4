% Matrices, cells, errors, patterns: one line per round.
1;
function r = fib(n)
  if n < 2, r = n; else r = fib(n - 1) + fib(n - 2); end
end
function r = caught(n)
  try
    if mod(n, 2), error("no %d", n); else x = [1 2 3](n + 3); end
  catch e
    r = numel(e.message);
  end
end
function one_round()
  m = reshape(mod((1:900) * 7919, 1009), 30, 30);
  x = (m + eye(30) * 2000) \ (1:30)';
  errors = 0;
  for i = 1:30, errors += caught(i); end
  text = regexprep(sprintf("%d,", 1:500), "[13579]+", "x");
  c = num2cell(sort(m(:))');
  printf("%.6e %.6e %d %d %d %d\n", det(m / 1009 + eye(30)), sum(x), errors, numel(text), fib(10), sum([c{1:50}]));
  fflush(stdout);
end
count = str2num(argv(){end});
while count > 0 && !exist("stop", "file"), one_round(); count--; end
