(* busy.ml - what a native OCaml program does with its stack: allocation and collections that walk it, exceptions,
   callbacks from C, a stack overflow. Built by the tests. *)
exception Found of int

type tree = Leaf | Node of tree * int * tree

let rec build depth = if depth = 0 then Leaf else Node (build (depth - 1), depth, build (depth - 1))

let rec sum = function Leaf -> 0 | Node (left, value, right) -> sum left + value + sum right

let rec find depth = if depth = 0 then raise (Found 7) else 1 + find (depth - 1)

let rec deep n = 1 + deep (n + 1)

let () =
  let total = ref 0 in
  for i = 1 to 20 do
    total := !total + sum (build 12);
    (try total := !total + find 100 with Found n -> total := !total + n + i);
    if i mod 5 = 0 then Gc.full_major ()
  done;
  let table = Hashtbl.create 16 in
  List.iter (fun n -> Hashtbl.replace table (string_of_int n) n) [ 3; 1; 2 ];
  Gc.compact ();
  Printf.printf "%d %d\n%!" !total (Hashtbl.fold (fun _ n sum -> n + sum) table 0);
  if Array.length Sys.argv > 1 then
    for _ = 1 to 3 do
      try ignore (deep 0) with Stack_overflow -> print_endline "overflow"
    done;
  print_endline (String.concat "," (List.sort compare [ "c"; "a"; "b" ]))
