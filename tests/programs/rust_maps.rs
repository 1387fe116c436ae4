// Maps, sets and rings as arguments, once per line of input: empty, small, many, with holes, in each other. With an argument:
// bytes that look like maps and aren't, and a map that another thread changes.
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::io::BufRead;
use std::mem::transmute;
use std::ptr::read_volatile;
#[inline(never)] pub fn hashes(texts: &HashMap<String, i32>, bytes: &HashSet<u8>, empty: &HashMap<u64, u64>, holes: &HashMap<u32, [u8; 3]>, y: i32) -> usize { unsafe { read_volatile(&y) }; texts.len() + bytes.len() + empty.len() + holes.len() }
#[inline(never)] pub fn trees(texts: &BTreeMap<u32, String>, numbers: &BTreeSet<i64>, empty: &BTreeMap<u8, u8>, small: &BTreeMap<u8, (u16, f64)>, y: i32) -> usize { unsafe { read_volatile(&y) }; texts.len() + numbers.len() + empty.len() + small.len() }
#[inline(never)] pub fn rings(turned: &VecDeque<u16>, whole: &VecDeque<String>, empty: &VecDeque<u64>, y: i32) -> usize { unsafe { read_volatile(&y) }; turned.len() + whole.len() + empty.len() }
#[inline(never)] pub fn nested(map: &HashMap<u8, Vec<BTreeMap<u8, u8>>>, sets: &BTreeMap<String, HashSet<i16>>, y: i32) -> usize { unsafe { read_volatile(&y) }; map.len() + sets.len() }
#[inline(never)] pub fn broken_table(map: &HashMap<u64, u64>, y: i32) -> i32 { unsafe { read_volatile(&y); read_volatile(&map as *const _ as *const usize); } y }
#[inline(never)] pub fn broken_tree(map: &BTreeMap<u64, u64>, y: i32) -> i32 { unsafe { read_volatile(&y); read_volatile(&map as *const _ as *const usize); } y }
#[inline(never)] pub fn watched(map: &HashMap<u64, u64>, tree: &BTreeMap<u64, u64>, y: i32) -> i32 { unsafe { read_volatile(&y); read_volatile(&map as *const _ as *const usize); read_volatile(&tree as *const _ as *const usize); } y }

#[inline(never)] pub fn too_short(map: &HashMap<u64, u64>, tree: &BTreeMap<u64, u64>, y: i32) -> i32 { unsafe { read_volatile(&y); read_volatile(&map as *const _ as *const usize); read_volatile(&tree as *const _ as *const usize); } y }

// Maps whose number of entries is more than they have, as while another thread takes one out.
fn count_wrong() {
    let mut table: HashMap<u64, u64> = vec![(1, 10), (2, 20)].into_iter().collect();
    let mut tree: BTreeMap<u64, u64> = vec![(3, 30), (4, 40)].into_iter().collect();
    unsafe {
        let words: &mut [usize; 6] = transmute(&mut table);
        let items = words.iter().position(|&word| word == 2).unwrap();
        words[items] = 7;
        let length: &mut [usize; 3] = transmute(&mut tree);
        length[2] = 7;
        too_short(&*(words as *const _ as *const HashMap<u64, u64>), &*(length as *const _ as *const BTreeMap<u64, u64>), 1);
        words[items] = 2;
        length[2] = 2;
    }
}

// Every word of a map in turn says something else.
fn break_all() {
    let mut table: HashMap<u64, u64> = (0..20).map(|i| (i, i)).collect();
    let mut tree: BTreeMap<u64, u64> = (0..200).map(|i| (i, i)).collect();
    for &value in &[0usize, 1, 0x1000, usize::MAX, 1 << 62, 3] {
        for word in 0..4 {
            unsafe {
                let words: &mut [usize; 6] = transmute(&mut table);
                let before = words[word];
                words[word] = value;
                broken_table(&*(words as *const _ as *const HashMap<u64, u64>), word as i32);
                words[word] = before;
                if word < 3 {
                    let words: &mut [usize; 3] = transmute(&mut tree);
                    let before = words[word];
                    words[word] = value;
                    broken_tree(&*(words as *const _ as *const BTreeMap<u64, u64>), word as i32);
                    words[word] = before;
                }
            }
        }
    }
}

fn change_while_watched() {
    let (mut table, mut tree): (HashMap<u64, u64>, BTreeMap<u64, u64>) = (HashMap::new(), BTreeMap::new());
    let (one, other) = (&mut table as *mut _ as usize, &mut tree as *mut _ as usize);
    let ends = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_over = ends.clone();
    let changer = std::thread::spawn(move || {
        let (table, tree) = unsafe { (&mut *(one as *mut HashMap<u64, u64>), &mut *(other as *mut BTreeMap<u64, u64>)) };
        let mut i = 0u64;
        while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
            if i % 300 == 0 { *table = HashMap::new(); *tree = BTreeMap::new(); }
            table.insert(i * 7919 % 1001, i);
            tree.insert(i * 7919 % 1001, i);
            i += 1;
        }
    });
    for _ in 0..1000 { watched(&table, &tree, 1); }
    ends.store(true, std::sync::atomic::Ordering::Relaxed);
    changer.join().unwrap();
}

fn main() {
    if std::env::args().count() > 1 { break_all(); count_wrong(); change_while_watched(); return; }
    let texts: HashMap<String, i32> = (0..5).map(|i| (format!("text {}", i), i * i)).collect();
    let mut holes: HashMap<u32, [u8; 3]> = (0..400).map(|i| (i, [i as u8, 1, 2])).collect();
    holes.retain(|key, _| key % 40 == 0);
    let many: BTreeMap<u32, String> = (0..300).map(|i| (i * 3, format!("{}", i))).collect();
    let small: BTreeMap<u8, (u16, f64)> = vec![(3, (300, 3.5)), (1, (100, 1.5))].into_iter().collect();
    let mut turned: VecDeque<u16> = (0..8).collect();
    for i in 0..5 { turned.pop_front(); turned.push_back(100 + i); }
    let whole: VecDeque<String> = vec!["a".to_string(), "b".to_string()].into_iter().collect();
    let inner: BTreeMap<u8, u8> = vec![(1, 2), (3, 4)].into_iter().collect();
    let map: HashMap<u8, Vec<BTreeMap<u8, u8>>> = vec![(7, vec![inner, BTreeMap::new()])].into_iter().collect();
    let sets: BTreeMap<String, HashSet<i16>> = vec![("one".to_string(), vec![-1].into_iter().collect()), ("none".to_string(), HashSet::new())].into_iter().collect();
    let bytes: HashSet<u8> = vec![1, 2, 3, 200].into_iter().collect(); // each table has an order of its own
    println!("ready");
    for _ in std::io::stdin().lock().lines() {
        let sum = hashes(&texts, &bytes, &HashMap::new(), &holes, 1)
            + trees(&many, &vec![-5, 7, 0].into_iter().collect(), &BTreeMap::new(), &small, 1)
            + rings(&turned, &whole, &VecDeque::new(), 1) + nested(&map, &sets, 1);
        println!("{}", sum);
    }
}
