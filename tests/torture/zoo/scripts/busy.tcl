# Lists, dictionaries, catch, coroutines, patterns: one line per round.
proc fib n { expr {$n < 2 ? $n : [fib [expr {$n - 1}]] + [fib [expr {$n - 2}]]} }
proc caught n {
    switch [expr {$n % 3}] {
        0 { catch {expr {1 / ($n - $n)}} message }
        1 { catch {error "no $n"} message }
        2 { catch {unknown_word $n} message }
    }
    string length $message
}
proc numbers {} { yield; for {set i 0} {$i < 100} {incr i} { yield [expr {$i * $i}] }; return 0 }
proc one_round {} {
    set sum 0
    for {set i 0} {$i < 2000} {incr i} { dict lappend table k[expr {$i * 31 % 401}] $i }
    foreach key [lsort [dict keys $table]] { incr sum [expr {[string length $key] * [llength [dict get $table $key]]}] }
    for {set i 1} {$i <= 60} {incr i} { incr sum [caught $i] }
    coroutine next numbers
    for {set i 0} {$i < 101} {incr i} { incr sum [next] }
    set text [regsub -all {[13579]+} [dict keys $table] x]
    puts "$sum [string length $text] [fib 14] [expr {7 ** 300 % 1000000007}]"
    flush stdout
}
for {set n [lindex $argv 0]} {$n > 0 && ![file exists stop]} {incr n -1} one_round
