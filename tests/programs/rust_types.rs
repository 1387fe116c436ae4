// Structs, enumerations with values in them, text: as arguments and as results.
use std::collections::{HashMap, HashSet};
use std::ptr::read_volatile;
#[derive(Clone, Copy)] pub struct Three { a: u32, b: u32, c: u32 }
#[derive(Clone, Copy)] pub struct ThreeF { a: f32, b: f32, c: f32 }
#[derive(Clone, Copy)] pub struct FourB { a: u8, b: u8, c: u16, d: u8 }
#[derive(Clone, Copy)] pub struct Mixed { a: u64, b: u32, c: f32 }
#[derive(Clone, Copy)] pub struct Big { a: u64, b: u64, c: u64 }
pub enum Shape { Circle(f64), Rect { w: i32, h: i32 }, Empty }
pub enum Answer { Nothing, Code(u32), Named { name: String, n: i64 } } // the tag may lie in the text's capacity
pub enum Maybe { Never, Unknown, Sure(bool) } // the tag lies in the bool
pub enum Middle { Low, Text(Box<i32>, bool), High }
pub enum Color { Red, Green = 200, Blue }
pub struct Person { name: String, age: u32 }
#[inline(never)] pub fn three(z: i32, t: Three, y: i32) -> u32 { unsafe { read_volatile(&z); read_volatile(&y) }; t.a + t.b + t.c }
#[inline(never)] pub fn threef(z: i32, t: ThreeF, y: i32) -> f32 { unsafe { read_volatile(&z); read_volatile(&y) }; t.a + t.b + t.c }
#[inline(never)] pub fn fourb(z: i32, t: FourB, y: i32) -> u8 { unsafe { read_volatile(&z); read_volatile(&y) }; t.a + t.b + t.d }
#[inline(never)] pub fn mixed(z: i32, t: Mixed, y: i32) -> u64 { unsafe { read_volatile(&z); read_volatile(&y) }; t.a + t.b as u64 + t.c as u64 }
#[inline(never)] pub fn big(z: i32, t: Big, y: i32) -> Big { unsafe { read_volatile(&z); read_volatile(&y) }; Big { a: t.a + 1, ..t } }
#[inline(never)] pub fn shape(s: Shape, y: i32) -> f64 { unsafe { read_volatile(&y) }; match s { Shape::Circle(r) => r, Shape::Rect { w, h } => (w * h) as f64, Shape::Empty => 0.0 } }
#[inline(never)] pub fn niche(a: &Answer, b: &Maybe, c: &Middle, y: i32) -> i32 { unsafe { read_volatile(&y) }; (match a { Answer::Nothing => 0, Answer::Code(c) => *c as i32, Answer::Named { name, n } => name.len() as i32 + *n as i32 }) + (match b { Maybe::Never => 100, Maybe::Unknown => 200, Maybe::Sure(s) => *s as i32 }) + (match c { Middle::Low => 1000, Middle::Text(x, s) => **x + *s as i32, Middle::High => 2000 }) }
#[inline(never)] pub fn color(c: Color, y: i32) -> i32 { unsafe { read_volatile(&y) }; c as i32 }
#[inline(never)] pub fn opts(a: Option<&str>, b: Option<i32>, c: Option<Box<i32>>, y: i32) -> Option<i32> { unsafe { read_volatile(&y) }; b.map(|x| x + a.map_or(0, |s| s.len() as i32) + c.map_or(0, |x| *x)) }
#[inline(never)] pub fn vecs(a: Vec<u8>, b: Vec<i32>, c: &[i32], d: &Vec<u8>, e: &mut [u8], y: i32) -> Vec<u8> { unsafe { read_volatile(&y) }; let mut r = a.clone(); r.push((b.len() + c.len() + d.len() + e.len()) as u8); r }
#[inline(never)] pub fn strs(a: String, b: &String, c: &mut String, d: &str, e: Box<str>, y: i32) -> String { unsafe { read_volatile(&y) }; format!("{}{}{}{}{}", a, b, c, d, e) }
#[inline(never)] pub fn prims(a: u128, b: char, c: bool, d: f32, e: i8, f: usize, g: [u8; 4], h: (i32, i64), y: i32) -> (i32, i64) { unsafe { read_volatile(&y) }; (h.0 + b as i32 + c as i32 + d as i32 + e as i32 + g[0] as i32, h.1 + a as i64 + f as i64) }
#[inline(never)] pub fn refs(p: &Person, q: Box<Person>, r: std::rc::Rc<Person>, d: &dyn Fn(i32) -> i32, y: i32) -> Result<i32, String> { unsafe { read_volatile(&y) }; if y > 0 { Ok(d((p.age + q.age + r.age) as i32)) } else { Err(p.name.clone()) } }
#[inline(never)] pub fn unit(_: (), y: i32) -> Result<(), i32> { unsafe { read_volatile(&y) }; if y > 5 { Ok(()) } else { Err(y) } }
#[inline(never)] pub fn rthree(z: u32) -> Three { unsafe { read_volatile(&z) }; Three { a: z, b: z + 1, c: z + 2 } }
#[inline(never)] pub fn rarray(z: u32) -> [u8; 12] { unsafe { read_volatile(&z) }; [z as u8; 12] }
#[inline(never)] pub fn rsmall(z: u32) -> [u8; 5] { unsafe { read_volatile(&z) }; [z as u8; 5] }
#[inline(never)] pub fn maps(a: &HashMap<String, i32>, b: HashSet<u8>, y: i32) -> usize { unsafe { read_volatile(&y) }; a.len() + b.len() }
fn main() {
    let mut named = HashMap::new(); named.insert("x".to_string(), 1); named.insert("y".to_string(), 2);
    println!("{}", maps(&named, vec![1, 2, 3].into_iter().collect(), 1));
    println!("{} {:?} {:?}", rthree(5).b, rarray(6), rsmall(7));
    println!("{}", three(1, Three { a: 2, b: 3, c: 4 }, 5));
    println!("{}", threef(1, ThreeF { a: 2.5, b: 3.5, c: 4.5 }, 5));
    println!("{}", fourb(1, FourB { a: 2, b: 3, c: 4, d: 6 }, 5));
    println!("{}", mixed(1, Mixed { a: 2, b: 3, c: 4.5 }, 5));
    println!("{}", big(1, Big { a: 2, b: 3, c: 4 }, 5).a);
    println!("{} {} {}", shape(Shape::Circle(1.5), 1), shape(Shape::Rect { w: 2, h: 3 }, 2), shape(Shape::Empty, 3));
    println!("{} {} {}", niche(&Answer::Nothing, &Maybe::Sure(true), &Middle::High, 1), niche(&Answer::Code(7), &Maybe::Never, &Middle::Low, 2), niche(&Answer::Named { name: "ann".into(), n: -5 }, &Maybe::Unknown, &Middle::Text(Box::new(8), true), 3));
    println!("{} {} {}", color(Color::Red, 1), color(Color::Green, 2), color(Color::Blue, 3));
    println!("{:?} {:?}", opts(Some("opt"), Some(7), Some(Box::new(9)), 1), opts(None, None, None, 2));
    let mut m = [1u8, 2]; println!("{:?}", vecs(vec![65, 66], vec![1, 2, 3], &[4, 5], &vec![67], &mut m, 1));
    let mut s = String::from("mutable"); println!("{}", strs("owned".to_string(), &"byref".to_string(), &mut s, "slice", "boxed".into(), 1));
    println!("{:?}", prims(5 << 64 | 3, 'ä', true, 1.5, -3, 99, [1, 2, 3, 4], (11, 12), 1));
    let p = Person { name: "ann".into(), age: 30 }; println!("{:?} {:?}", refs(&p, Box::new(Person { name: "bob".into(), age: 1 }), std::rc::Rc::new(Person { name: "cy".into(), age: 2 }), &|x| x + 1, 1), refs(&p, Box::new(Person { name: "bob".into(), age: 1 }), std::rc::Rc::new(Person { name: "cy".into(), age: 2 }), &|x| x + 1, 0));
    println!("{:?} {:?}", unit((), 1), unit((), 9));
}
