# Arrays, patterns, recursion, a child: one line per round.
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) }
function one_round(    i, t, s, x, line) {
	for (i = 1; i <= 3000; i++) t["k" i * 31 % 401] += i
	for (i in t) s += length(i) * t[i]
	for (i = 1; i <= 500; i++) x = x "," i
	gsub(/[13579]+/, "<&>", x)
	"echo $((6 * 7))" | getline line
	close("echo $((6 * 7))")
	print s, length(x), line, fib(16), sprintf("%.6f", s / 7)
	fflush()
}
function is_there(name,    line, found) { found = (getline line < name) >= 0; close(name); return found }
BEGIN { for (n = ARGV[1]; n > 0 && !is_there("stop"); n--) one_round() }
