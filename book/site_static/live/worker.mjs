/* Python in a worker, so that the page stays alive while it starts and computes. All of it comes from this site.
   In: one message with a port, {typed, again}; everything else goes over that port, which nothing that is typed can reach.
   Out: {loaded: bytes} and {awaited: [file]} while it loads, {ready: true}, then an {answer} or {failed: why} to each
   {number, asked}. {broken: why} ends it.

   A worker runs panels, which are the book's own, or what a reader types, and never both. What guards the page and the
   network from a typed answer, outermost first:
   - the page reads what comes from it as text;
   - its policy reaches this site alone: the one that this file is served with or, from a host that sends none, the
     page's (controls.js): script-src 'self' 'wasm-unsafe-eval', since CPython is WebAssembly, and connect-src 'self';
   - once all is loaded nothing is left in here but the language (below);
   - Python is not told the way to JavaScript (chapters/exercises/in_page.py, seal); who finds one finds nothing there. */
const { port, typed, again } = await new Promise((given) => {
  self.onmessage = ({ data, ports }) => given({ port: ports[0], ...data });
});
const here = new URL(".", import.meta.url);
const version = new URL(import.meta.url).search;
const tell = (letter) => port.postMessage(letter);

let broke;
const broken = new Promise((_, failed) => (broke = failed)); // Pyodide does not settle if its core does not come
broken.catch(() => {});
self.addEventListener("unhandledrejection", ({ reason }) => broke(reason));

/* ---- what is loaded --------------------------------------------------------------------------------------------- */

let loaded = 0;
const awaited = new Set();
const get = self.fetch;

function count(nbytes) {
  loaded += nbytes;
  tell({ loaded });
}

function waits(name, is) {
  awaited[is ? "add" : "delete"](name);
  tell({ awaited: [...awaited] });
}

async function response(address, cache = again ? "reload" : "default") {
  const name = new URL(address).pathname.split("/").pop();
  let came;
  try {
    came = await get(address, { cache });
  } catch {
    throw new Error(`${name} could not be fetched`);
  }
  if (!came.ok) throw new Error(`${name} is not there (${came.status})`);
  return came;
}

new PerformanceObserver((list) => {
  for (const { name, encodedBodySize } of list.getEntries()) if (name.endsWith(".mjs")) count(encodedBodySize);
}).observe({ type: "resource" });

async function script(name) {
  const address = new URL(name, here);
  waits(name, true);
  try {
    if (again) await response(address);
    return await import(address);
  } catch (error) {
    await response(address, "no-store"); // says why, if it is not there
    throw new Error(`${name} did not come whole, or may not run in this browser (${why(error)})`);
  } finally {
    waits(name, false);
  }
}

const END_OF_ZIP = [0x50, 0x4b, 5, 6]; // its last 22 bytes begin so
const WHOLE = {
  "python.zip": (bytes) => END_OF_ZIP.every((byte, at) => bytes.at(at - 22) === byte),
  "pyodide-lock.json": (bytes) => JSON.parse(new TextDecoder().decode(bytes)),
};

/* Pyodide asks for its core and its library with fetch: they are counted on their way, checked, and the core unpacked. */
async function fetched(address) {
  const packed = String(address).endsWith(".wasm");
  const full = packed ? `${address}.packed` : String(address);
  const name = new URL(full).pathname.split("/").pop();
  waits(name, true);
  try {
    const counter = new TransformStream({
      transform(chunk, out) {
        count(chunk.byteLength);
        out.enqueue(chunk);
      },
    });
    let body = (await response(full)).body.pipeThrough(counter);
    if (packed) body = body.pipeThrough(new DecompressionStream("gzip"));
    let bytes;
    try {
      bytes = new Uint8Array(await new Response(body).arrayBuffer());
      if (name in WHOLE && !WHOLE[name](bytes)) throw new Error("its end is missing");
    } catch (error) {
      throw new Error(`${name} did not come whole (${why(error)})`);
    }
    return new Response(bytes, packed ? { headers: { "Content-Type": "application/wasm" } } : {});
  } catch (error) {
    broke(error);
    throw error;
  } finally {
    waits(name, false);
  }
}

/* ---- what is left ------------------------------------------------------------------------------------------------- */

/* The language, and what CPython itself asks for: time, chance, text, and a place for its last words. close() ends this
   worker, and nothing else. */
const KEPT = new Set(
  `Object Function Array Number parseFloat parseInt Infinity NaN undefined Boolean String Symbol Date Promise RegExp Error
  AggregateError EvalError RangeError ReferenceError SyntaxError TypeError URIError SuppressedError globalThis JSON Math
  Intl ArrayBuffer SharedArrayBuffer Atomics DataView Int8Array Uint8Array Uint8ClampedArray Int16Array Uint16Array
  Int32Array Uint32Array Float16Array Float32Array Float64Array BigInt BigInt64Array BigUint64Array Map Set WeakMap
  WeakSet WeakRef FinalizationRegistry Proxy Reflect Iterator decodeURI decodeURIComponent encodeURI encodeURIComponent
  escape unescape isFinite isNaN WebAssembly TextDecoder TextEncoder performance crypto console setTimeout clearTimeout
  queueMicrotask self close constructor`.split(/\s+/),
);

function strip() {
  for (let at = globalThis; at && at !== Object.prototype; at = Object.getPrototypeOf(at)) {
    for (const name of Reflect.ownKeys(at)) {
      if (KEPT.has(name) || name === Symbol.toStringTag || Reflect.deleteProperty(at, name)) continue;
      if (typeof Reflect.get(at, name) === "number") continue; // a constant: TEMPORARY, PERSISTENT
      throw new Error(`${String(name)} cannot be taken from a worker in this browser`);
    }
  }
}

/* ---- Python ------------------------------------------------------------------------------------------------------- */

function why(error) {
  const said = String(error?.message ?? error).trim().split("\n").pop();
  return /^exit\(|^$/.test(said) ? "Python ended while it started" : said;
}

const BEGIN = typed
  ? "from chapters.exercises.in_page import answer, seal; seal(); answer"
  : "from compile_lab.page.live import answer; answer";

try {
  self.fetch = fetched;
  await WebAssembly.compile(Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0)); // nothing, as WebAssembly: is it allowed here?
  const [{ loadPyodide }] = await Promise.all([script("pyodide.mjs"), script("pyodide.asm.mjs")]);
  const options = { indexURL: here.href, stdLibURL: new URL(`python.zip${version}`, here).href };
  if (typed) options.jsglobals = Object.create(null); // what Python would call js
  const python = await Promise.race([loadPyodide(options), broken]);
  const answer = python.runPython(BEGIN);
  port.onmessage = ({ data: { number, asked } }) => {
    try {
      tell({ number, answer: String(answer(asked)) });
    } catch (error) {
      if (typed || error.name !== "PythonError") tell({ broken: why(error) }); // CPython itself has ended
      else tell({ number, failed: why(error) });
    }
  };
  strip();
  tell({ ready: true });
} catch (error) {
  tell({ broken: why(error) });
}
