// A &str, numbers, a reference.
mod inner { #[inline(never)] pub fn greet(name: &str, n: i32) -> i32 { unsafe { std::ptr::read_volatile(&n) + name.len() as i32 } } 
 pub struct P { pub x: i32, pub y: f64 }
 #[inline(never)] pub fn point(p: &P, k: u8, b: bool) -> f64 { unsafe { std::ptr::read_volatile(&p.y) + k as f64 + b as i32 as f64 } } }
fn main() { let s = String::from("hello rust"); println!("{}", inner::greet(&s, 5) + inner::greet("lit", 6)); println!("{}", inner::point(&inner::P{x:1,y:2.0},3,true)); }
