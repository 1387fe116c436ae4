import os, strutils

type Node = ref object
  left, right: Node

proc build(depth: int): Node =
  if depth == 0: return nil
  Node(left: build(depth - 1), right: build(depth - 1))

proc leaves(node: Node): int =
  if node == nil: 1 else: leaves(node.left) + leaves(node.right)

proc fails(i: int): int =
  if i mod 3 == 0: raise newException(ValueError, "third " & $i)
  i

iterator squares(n: int): int {.closure.} =
  for i in 0 ..< n: yield i * i

for round in 1 .. parseInt(paramStr(paramCount())):
  if fileExists("stop"): break
  var sum = leaves(build(10))
  for i in 0 ..< 300:
    try: sum += fails(i)
    except ValueError as e: sum += e.msg.len
  for i in squares(100): sum += i
  echo sum
  flushFile(stdout)
