// Boxes, maps, panics that are caught, threads: one line per round.
use std::collections::BTreeMap;
use std::panic;
use std::path::Path;
use std::thread;

struct Node(Option<Box<Node>>, Option<Box<Node>>, u64);

#[inline(never)]
fn build(depth: u64) -> Option<Box<Node>> {
    if depth == 0 { None } else { Some(Box::new(Node(build(depth - 1), build(depth - 1), depth))) }
}

#[inline(never)]
fn sum(node: &Option<Box<Node>>) -> u64 {
    node.as_ref().map_or(0, |n| n.2 + sum(&n.0) + sum(&n.1))
}

#[inline(never)]
fn thrower(n: usize, depth: usize) -> usize {
    if depth > 0 { return thrower(n, depth - 1) + 1; }
    match n % 3 {
        0 => n / (n - n),
        1 => vec![1, 2][n + 5],
        _ => panic!("no {}", n),
    }
}

fn caught(n: usize) -> usize {
    match panic::catch_unwind(|| thrower(n, 10)) {
        Ok(value) => value,
        Err(e) => e.downcast_ref::<String>().map_or(3, |s| s.len()),
    }
}

fn round() -> String {
    let threads: Vec<_> = (0..4).map(|n| thread::spawn(move || {
        let mut table = BTreeMap::new();
        for i in 0..1000u64 { table.entry(format!("k{}", i * 31 % 401)).or_insert_with(Vec::new).push(i * n); }
        sum(&build(10)) + format!("{:?}", table).bytes().map(u64::from).sum::<u64>()
    })).collect();
    let total: u64 = threads.into_iter().map(|t| t.join().unwrap()).sum();
    let errors: usize = (1..=60).map(caught).sum();
    format!("{} {}", total, errors)
}

fn main() {
    panic::set_hook(Box::new(|_| {}));
    let count: usize = std::env::args().nth(1).unwrap().parse().unwrap();
    for _ in 0..count {
        if Path::new("stop").exists() { break; }
        println!("{}", round());
    }
}
