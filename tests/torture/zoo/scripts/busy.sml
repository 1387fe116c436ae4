(* Lists, references, exceptions, deep recursion: one line per round. *)
exception No of int
fun fib n = if n < 2 then n else fib (n - 1) + fib (n - 2)
fun deep 0 = 0 | deep n = 1 + deep (n - 1)
fun caught n = (if n mod 2 = 0 then raise No n else n div (n - n)) handle No m => m | Div => 3
fun oneRound () =
  let
    val list = List.tabulate (3000, fn i => (i * 7919) mod 1009)
    val text = String.concatWith "," (map Int.toString list)
    val errors = foldl op+ 0 (List.tabulate (60, caught))
    val sum = foldl op+ 0 (map (fn c => ord c) (explode text))
  in
    PolyML.fullGC ();
    print (String.concatWith " " (map Int.toString [sum, errors, fib 18, deep 50000]) ^ "\n")
  end
fun exists name = (OS.FileSys.fileSize name; true) handle OS.SysErr _ => false
fun rounds 0 = () | rounds n = if exists "stop" then () else (oneRound (); rounds (n - 1))
fun main () = rounds (valOf (Int.fromString (List.last (CommandLine.arguments ()))))
val () = main ()
