/* Python in a worker, so that the page stays alive while it starts and computes. All of it comes from this site.
   Out: {loaded: bytes} while it loads, {ready: true}, then an {answer} or {failed: why} to each {number, question}
   (what an explorer shows) or {number, cell} (whether an exercise is right).

   Under a Content-Security-Policy this file, and no page, needs script-src 'self' 'wasm-unsafe-eval': CPython is
   WebAssembly, which runs in here and cannot touch the page. */
const here = new URL(".", import.meta.url);
const version = new URL(import.meta.url).search;

let loaded = 0;

function count(nbytes) {
  loaded += nbytes;
  postMessage({ loaded });
}

new PerformanceObserver((list) => {
  for (const { name, encodedBodySize } of list.getEntries()) if (name.endsWith(".mjs")) count(encodedBodySize);
}).observe({ type: "resource" });

/* Pyodide asks for its core and its library with fetch: both are counted on their way, and the core is unpacked. */
const get = self.fetch;
let missing; // of which Pyodide would only say that it ended
self.fetch = async (address) => {
  const packed = String(address).endsWith(".wasm");
  const response = await get(packed ? `${address}.packed` : address);
  if (!response.ok) {
    missing = new Error(`${new URL(response.url).pathname.split("/").pop()} is not there (${response.status})`);
    throw missing;
  }
  const counter = new TransformStream({
    transform(chunk, out) {
      count(chunk.byteLength);
      out.enqueue(chunk);
    },
  });
  const body = response.body.pipeThrough(counter);
  if (!packed) return new Response(body);
  return new Response(body.pipeThrough(new DecompressionStream("gzip")), { headers: { "Content-Type": "application/wasm" } });
};

try {
  await WebAssembly.compile(Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0)); // nothing, as WebAssembly: is it allowed here?
  const { loadPyodide } = await import(new URL("pyodide.mjs", here));
  const python = await loadPyodide({
    indexURL: here.href,
    stdLibURL: new URL(`python.zip${version}`, here).href,
  });
  const answer = python.runPython("from compile_lab.page.live import answer; answer");
  let judged; // most pages never ask for it
  self.onmessage = ({ data: { number, question, cell } }) => {
    try {
      if (cell !== undefined) judged ??= python.runPython("from compile_lab.exercises.in_page import judged; judged");
      postMessage({ number, answer: cell === undefined ? answer(question) : judged(cell) });
    } catch (error) {
      postMessage({ number, failed: error.message.trim().split("\n").pop() });
    }
  };
  postMessage({ ready: true });
} catch (error) {
  postMessage({ failed: String((missing ?? error).message ?? error).trim().split("\n").pop() });
}
