// Objects, closures, errors, a stack that is too deep, patterns, promises: one line per round.
const fs = require('fs'), crypto = require('crypto'), zlib = require('zlib');
const fib = n => n < 2 ? n : fib(n - 1) + fib(n - 2);
const endless = n => endless(n + 1) + 1;
function caught(n) {
  try {
    switch (n % 3) {
    case 0: return null.x;
    case 1: throw new RangeError('no ' + n);
    default: return endless(0);
    }
  } catch (e) { return e.constructor.name.length; }
}
async function round() {
  let errors = 0;
  for (let i = 0; i < 30; i++) errors += caught(i);
  const table = new Map();
  for (let i = 0; i < 20000; i++) table.set('k' + i * 31 % 4001, { i, list: [i, i + 1] });
  let sum = 0;
  for (const [k, v] of table) sum += k.length * v.list[1];
  const packed = await new Promise((done, fail) => zlib.deflate(JSON.stringify([...table]), (e, b) => e ? fail(e) : done(b)));
  const text = Array.from({ length: 500 }, (_, i) => i).join(',').replace(/[13579]+/g, m => `<${m.length}>`);
  console.log(sum, errors, crypto.createHash('md5').update(packed).digest('hex'), text.length, fib(18));
}
(async () => { for (let n = +process.argv[2]; n > 0 && !fs.existsSync('stop'); n--) await round(); })();
