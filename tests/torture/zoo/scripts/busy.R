# Vectors, matrices, conditions, environments, patterns: one line per round.
fib <- function(n) if (n < 2) n else fib(n - 1) + fib(n - 2)
endless <- function(n) endless(n + 1) + 1
caught <- function(n) tryCatch({
  if (n %% 3 == 0) stop(paste("no", n))
  if (n %% 3 == 1) warning("odd")
  list()[[n]]
}, error = function(e) nchar(conditionMessage(e)), warning = function(w) 3)
one_round <- function() {
  m <- matrix((1:900 * 7919) %% 1009, 30)
  d <- det(m / 1009 + diag(30))
  s <- solve(m + diag(30) * 2000, 1:30)
  text <- gsub("[13579]+", "x", paste(1:500, collapse = ","))
  deep <- tryCatch(endless(0), error = function(e) 7)
  invisible(gc())
  cat(sprintf("%.6e %.6e", d, sum(s)), nchar(text), sum(sapply(1:30, caught)), deep, fib(14), sum(sort(m)[1:50]), "\n")
}
count <- as.integer(commandArgs(TRUE)[1])
while (count > 0 && !file.exists("stop")) { one_round(); count <- count - 1 }
