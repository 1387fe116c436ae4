(* Trees, hash tables, exceptions, an overflowing stack, collections: one line per round. *)
exception Found of int

type tree = Leaf | Node of tree * int * tree

let rec build depth = if depth = 0 then Leaf else Node (build (depth - 1), depth, build (depth - 1))
let rec sum = function Leaf -> 0 | Node (left, value, right) -> sum left + value + sum right
let rec find depth = if depth = 0 then raise (Found 7) else 1 + find (depth - 1)
let rec deep n = 1 + deep (n + 1)

let round () =
  let total = ref (sum (build 12)) in
  for i = 1 to 20 do
    (try total := !total + find 100 with Found n -> total := !total + n + i);
    (try total := !total + (i / (i - i)) with Division_by_zero -> incr total);
    try total := !total + (Array.make 3 0).(i + 3) with Invalid_argument _ -> incr total
  done;
  (try ignore (deep 0) with Stack_overflow -> incr total);
  let table = Hashtbl.create 16 in
  for i = 1 to 3000 do Hashtbl.replace table ("k" ^ string_of_int (i * 31 mod 401)) i done;
  Gc.full_major ();
  Printf.printf "%d %d\n%!" !total (Hashtbl.fold (fun key n sum -> (String.length key * n) + sum) table 0)

let () =
  let count = ref (int_of_string Sys.argv.(1)) in
  while !count > 0 && not (Sys.file_exists "stop") do round (); decr count done
