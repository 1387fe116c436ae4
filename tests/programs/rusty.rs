// A &str, numbers, a reference; small structs by value, bytes, text.
mod inner { #[inline(never)] pub fn greet(name: &str, n: i32) -> i32 { unsafe { std::ptr::read_volatile(&n) + name.len() as i32 } } 
 pub struct P { pub x: i32, pub y: f64 }
 #[inline(never)] pub fn point(p: &P, k: u8, b: bool) -> f64 { unsafe { std::ptr::read_volatile(&p.y) + k as f64 + b as i32 as f64 } } }
#[derive(Clone, Copy)] pub struct Two { a: u32, b: u64 }
#[derive(Clone, Copy)] pub struct Mix { a: u64, b: f64 }
#[derive(Clone, Copy)] pub struct Small { a: u8, b: u8 }
#[derive(Clone, Copy)] pub struct Three { a: u32, b: u32, c: u32 }
#[inline(never)] pub fn two(t: Two, z: i32) -> Two { unsafe { std::ptr::read_volatile(&z) }; Two { a: t.a + 1, b: t.b + z as u64 } }
#[inline(never)] pub fn mix(t: Mix, z: i32) -> Mix { unsafe { std::ptr::read_volatile(&z) }; Mix { a: t.a + 1, b: t.b + z as f64 } }
#[inline(never)] pub fn small(t: Small, m: &[u8], z: i32) -> u8 { unsafe { std::ptr::read_volatile(&z) }; t.a + t.b + m[0] }
#[inline(never)] pub fn three(t: Three, z: i32) -> u32 { unsafe { std::ptr::read_volatile(&z) }; t.a + t.b + t.c }
#[inline(never)] pub fn many(a: u64, b: u64, c: u64, d: u64, e: u64, t: Two, z: i32) -> u64 { unsafe { std::ptr::read_volatile(&z) }; a + b + c + d + e + t.b }
#[inline(never)] pub fn text(z: u32) -> String { unsafe { std::ptr::read_volatile(&z) }; format!("text {}", z) }
fn more() {
    println!("{} {}", two(Two { a: 1, b: 2 }, 3).b, mix(Mix { a: 4, b: 1.5 }, 5).b);
    println!("{} {}", small(Small { a: 6, b: 7 }, b"bytes\xff", 8), three(Three { a: 9, b: 10, c: 11 }, 12));
    println!("{} {}", many(1, 2, 3, 4, 5, Two { a: 13, b: 14 }, 15), text(16));
}
fn main() { more(); let s = String::from("hello rust"); println!("{}", inner::greet(&s, 5) + inner::greet("lit", 6)); println!("{}", inner::point(&inner::P{x:1,y:2.0},3,true)); }
