<?php
// Arrays, objects, generators, exceptions, patterns, collections: one line per round.
function fib($n) { return $n < 2 ? $n : fib($n - 1) + fib($n - 2); }
function numbers($n) { for ($i = 0; $i < $n; $i++) { $got = yield $i * 7919 % 1009; if ($got) $i += $got; } return $n; }
function caught($n) {
    try {
        switch ($n % 4) {
        case 0: return intdiv($n, $n - $n);
        case 1: throw new RuntimeException("no $n");
        case 2: return (function (int $x) { return $x; })("text");
        default: return strlen(null ?? "x$n");
        }
    } catch (Throwable $e) { return strlen(get_class($e)); }
    finally { $n++; }
}
class Node { public $other; public $value; function __construct($v) { $this->value = $v; } }
function round_of_work() {
    $sum = 0;
    foreach (numbers(2000) as $k => $v) $sum += $k * $v;
    $table = [];
    for ($i = 0; $i < 2000; $i++) $table["k" . $i * 31 % 401][] = $i;
    ksort($table);
    for ($i = 0; $i < 60; $i++) $sum += caught($i);
    for ($i = 0; $i < 200; $i++) { $a = new Node($i); $b = new Node($i); $a->other = $b; $b->other = $a; }
    gc_collect_cycles();
    $text = preg_replace_callback('/[13579]+/', fn($m) => "<" . strlen($m[0]) . ">", implode(",", range(1, 500)));
    echo $sum, " ", md5(json_encode($table)), " ", crc32($text), " ", fib(15), "\n";
}
for ($n = (int)$argv[1]; $n > 0 && !file_exists("stop"); $n--) { round_of_work(); clearstatcache(); }
