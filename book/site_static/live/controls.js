/* Live explorers: any choice, computed by Python in the reader's browser. The first panel is stored, and there at once.
   Python is loaded on the first choice that is not stored, and never before; if it cannot run, what is stored stays. */
(() => {
  "use strict";

  const { live, element, message, control, show, offerStored, storedAt } = window.lab;
  const { content, dataset } = document.querySelector('meta[name="lab-live"]');
  const NBYTES = Number(content);
  const WORKER = new URL(`worker.mjs?v=${dataset.version}`, document.currentScript.src); // not a kept one of an older book
  const SLOW_MS = 300;
  const megabytes = (nbytes) => `${(nbytes / 1e6).toFixed(1)} MB`;
  const asleep = (at) => `At the first ${at}, Python is loaded from this site, once for all pages: ${megabytes(NBYTES)}.`;

  /* ---- Python: a worker for panels, and another for what a reader types --------------------------------------------- */

  /* How long to wait, in ms: while it loads without any sign and in all, for a panel, for a typed answer. */
  const limits = { silent: 30_000, whole: 180_000, panel: 20_000, answer: 10_000 };
  const seconds = (ms) => `${ms / 1000} s`;

  /* A worker has the policy that its file is served with. From a host that sends none it is made by the page, and has
     the page's: this one. */
  const POLICY = "connect-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self' blob:";

  function confined() {
    if (!document.querySelector("meta[http-equiv]")) {
      document.head.append(element("meta", { "http-equiv": "Content-Security-Policy", content: POLICY }));
    }
    return URL.createObjectURL(new Blob([`import ${JSON.stringify(WORKER.href)};`], { type: "text/javascript" }));
  }

  async function program(signal, again) {
    let came;
    try {
      came = await fetch(WORKER, { signal, cache: again ? "reload" : "default" });
    } catch {
      throw new Error("its program could not be fetched (worker.mjs)");
    }
    if (!came.ok) throw new Error(`its program is not there (worker.mjs: ${came.status})`);
    return came.headers.has("content-security-policy") ? WORKER : confined();
  }

  /* One Python. The first question starts it. Whatever goes wrong ends it, and all that was asked of it fails with the
     reason; the next question starts another. */
  function interpreter({ typed, limit, late }) {
    let run; // {ready: a promise of its port, end}
    let asked = 0;
    let failures = 0;
    const watching = new Set(); // told how many bytes have come
    const recovered = new Set(); // told when it runs

    function begin() {
      const { port1: port, port2 } = new MessageChannel();
      const fetching = new AbortController();
      const open = new Map(); // questions without an answer, by number
      const mine = { port, open };
      let worker;
      let awaited = ["worker.mjs"];
      let silence;

      const end = (mine.end = (why) => {
        if (run !== mine) return;
        run = undefined;
        failures += 1;
        [silence, whole].forEach(clearTimeout);
        fetching.abort();
        worker?.terminate();
        port.close();
        const error = new Error(mine.started ? `Python gave no answer: ${why}.` : `Python does not run here: ${why}.`);
        mine.fail(error);
        for (const { failed } of open.values()) failed(error);
      });

      const missing = (ms) => `${awaited.length ? `${awaited.join(", ")} did not come` : "it did not start"} within ${seconds(ms)}`;
      const heard = () => {
        clearTimeout(silence);
        silence = setTimeout(() => end(missing(limits.silent)), limits.silent);
      };
      const whole = setTimeout(() => end(missing(limits.whole)), limits.whole);

      mine.ready = new Promise((ready, fail) => {
        mine.fail = fail;
        port.onmessage = ({ data }) => {
          if (typeof data.broken === "string") return end(data.broken);
          if (open.has(data.number)) return open.get(data.number).answered(data);
          if (mine.started) return;
          heard();
          if (typeof data.loaded === "number") watching.forEach((told) => told(data.loaded));
          if (Array.isArray(data.awaited)) awaited = data.awaited;
          if (!data.ready) return;
          mine.started = true;
          [silence, whole].forEach(clearTimeout);
          ready();
          recovered.forEach((told) => told());
        };
      });
      mine.ready.catch(() => {}); // whoever asked is told
      heard();
      program(fetching.signal, failures > 0).then(
        (address) => {
          if (run !== mine) return;
          worker = new Worker(address, { type: "module" });
          awaited = [];
          worker.onerror = (event) => {
            event.preventDefault();
            end(event.message || "its program (worker.mjs) did not come whole, or this page's security policy, or the browser, does not let it run");
          };
          worker.postMessage({ typed, again: failures > 0 }, [port2]);
        },
        (error) => end(error.message),
      );
      return mine;
    }

    async function start() {
      run ??= begin();
      await run.ready;
    }

    /* The answer, a string; an Error whose message is for the reader if there is none. */
    async function ask(question) {
      await start();
      const { port, open, end } = run;
      const number = (asked += 1);
      const overdue = setTimeout(() => end(late(limits[limit])), limits[limit]);
      try {
        const { answer, failed } = await new Promise((answered, failed) => {
          open.set(number, { answered, failed });
          port.postMessage({ number, asked: question });
        });
        if (typeof answer === "string") return { answer };
        return { failed: String(failed) };
      } finally {
        clearTimeout(overdue);
        open.delete(number);
      }
    }

    return { start, ask, watching, recovered, asleep: () => !run };
  }

  const panels = interpreter({
    typed: false,
    limit: "panel",
    late: (ms) => `nothing came back within ${seconds(ms)}, and it was stopped`,
  });
  const answers = interpreter({
    typed: true,
    limit: "answer",
    late: (ms) => `the answer ran for more than ${seconds(ms)}, and was stopped`,
  });

  /* What Python knows to say in Spanish, JSON, for a Spanish page. Without it Python speaks English. */
  const SENTENCES = new URL("../sentences.json", document.currentScript.src);
  let sentences = "";

  async function fetchSentences() {
    try {
      const came = await (await fetch(SENTENCES)).text();
      if (JSON.parse(came)) sentences = came; // a host may answer with a page of its own
    } catch {}
  }

  const spoken = () => (spoken.once ??= document.documentElement.lang === "es" ? fetchSentences() : undefined);

  /* What an explorer shows, HTML. No reader's code runs in that worker. */
  async function ask(question) {
    await spoken();
    const { answer, failed } = await panels.ask(JSON.stringify({ ...question, sentences }));
    return answer ?? message(`This cannot be computed: ${failed}`).outerHTML;
  }

  /* Whether an exercise is right, HTML that is written here: of what comes back only texts are taken, whatever it is.
     (A document that is parsed runs nothing and loads nothing.) */
  async function judge(cell) {
    await spoken();
    const { answer, failed } = await answers.ask(JSON.stringify({ cell, sentences }));
    const said = new DOMParser().parseFromString(answer ?? "", "text/html");
    const outcome = said.querySelector("p.lab-outcome");
    if (!outcome) return message(`The answer gave nothing that can be read${failed ? `: ${failed}` : ""}.`).outerHTML;
    const kind = outcome.classList.contains("lab-passed") ? "lab-passed" : "lab-open";
    const printed = said.querySelector("pre");
    const made = [element("p", { class: `lab-outcome ${kind}` }, outcome.textContent)];
    if (printed) made.push(element("pre", {}, printed.textContent));
    return made.map((each) => each.outerHTML).join("");
  }

  /* A bar for the page while Python is loaded, and `awake`, which waits until it has started. */
  function loader(status, python) {
    const bar = element("progress", { max: NBYTES, value: 0, "aria-label": "Python is loading" });
    const count = element("span", { "aria-hidden": "true" }); // the bar has it for those who listen
    const progress = element("div", { class: "lab-progress", hidden: "" }, bar, count);

    function loading(nbytes) {
      bar.value = nbytes;
      const all = nbytes >= 0.99 * NBYTES; // hosts compress a little more, or less
      count.textContent = all ? "starting" : `${megabytes(nbytes)} of ${megabytes(NBYTES)}`;
    }

    async function awake() {
      if (python.asleep()) loading(0);
      const waiting = setTimeout(() => {
        status.textContent = "Python is loading …";
        progress.hidden = false;
      });
      python.watching.add(loading);
      try {
        await python.start();
      } finally {
        clearTimeout(waiting);
        python.watching.delete(loading);
        progress.hidden = true;
      }
    }

    return { progress, awake };
  }

  /* "Try again", hidden until something has failed. */
  function retrying(retry) {
    const button = element("button", { type: "button", class: "lab-again", hidden: "" }, "Try again");
    button.addEventListener("click", retry);
    return button;
  }

  /* ---- controls --------------------------------------------------------------------------------------------------- */

  let sliders = 0;

  /* A slider, and beside it a field for any number. With a grid, the slider stands at a place of that. */
  function slider({ low, high, start, step, unit, grid }, name, choose) {
    const id = `lab-slider-${(sliders += 1)}`;
    const ends = grid ? { min: 0, max: grid.length - 1, step: 1 } : { min: low, max: high, step };
    const at = (value) => (grid ? grid.findLastIndex((each) => each <= Math.max(value, low)) : value);
    const range = element("input", { type: "range", id, ...ends, value: at(start), autocomplete: "off" });
    const field = element("input", { type: "number", step: "any", value: start, autocomplete: "off", "aria-label": `${name}: any number` });
    const set = (value) => {
      range.value = at(value);
      range.setAttribute("aria-valuetext", `${value} ${unit}`.trim());
      choose(value);
    };
    range.addEventListener("input", () => {
      field.value = grid ? grid[range.valueAsNumber] : range.value;
      set(field.valueAsNumber);
    });
    field.addEventListener("input", () => Number.isFinite(field.valueAsNumber) && set(field.valueAsNumber));
    const label = element("label", { class: "lab-axis-name", for: id }, name);
    const line = element("div", { class: "lab-range" }, range, field, element("span", {}, unit));
    return element("div", { class: "lab-axis" }, label, line);
  }

  /* ---- blocks that are moved within their rows: dragged, or with the arrow keys ------------------------------------- */

  const rowsOf = (text) => text.split("|").map((row) => row.trim().split(/\s+/));
  const placeOf = (block) => block.dataset.block.split(" ").map(Number);
  const middle = (block) => {
    const { left, width } = block.getBoundingClientRect();
    return left + width / 2;
  };

  /* Makes the blocks in `panel` movable. `read` gives the rows as they are, `write` takes them as they are to be. */
  function movable(panel, read, write, told) {
    let moved; // the block that the reader holds, by its place; it keeps the focus when the panel is drawn anew
    const blocks = () => [...panel.querySelectorAll("[data-block]")];
    const at = (row, index) => blocks().find((block) => block.dataset.block === `${row} ${index}`);

    function move(block, to) {
      const [row, from] = placeOf(block);
      const rows = rowsOf(read());
      if (to < 0 || to >= rows[row].length || to === from) return;
      const own = blocks().filter((each) => placeOf(each)[0] === row).sort((a, b) => placeOf(a)[1] - placeOf(b)[1]);
      own.splice(to, 0, ...own.splice(from, 1));
      own.forEach((each, index) => (each.dataset.block = `${row} ${index}`)); // until it is drawn anew
      rows[row].splice(to, 0, ...rows[row].splice(from, 1));
      moved = [row, to];
      write(rows.map((each) => each.join(" ")).join(" | "));
    }

    panel.addEventListener("keydown", (event) => {
      const block = event.target.closest("[data-block]");
      const [across, down] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [0, 0];
      if (!block || !(across || down) || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      const [row, index] = placeOf(block);
      if (across) move(block, index + across);
      else at(row + down, index)?.focus();
    });

    panel.addEventListener("pointerdown", (event) => {
      const block = event.target.closest("[data-block]");
      if (!block || event.button) return;
      event.preventDefault();
      block.focus({ preventScroll: true });
      const begun = event.clientX;
      const scale = panel.querySelector("svg").viewBox.baseVal.width / panel.querySelector("svg").clientWidth;
      const follow = ({ clientX }) => block.setAttribute("transform", `translate(${(clientX - begun) * scale} 0)`);
      const drop = ({ type }) => {
        block.removeEventListener("pointermove", follow);
        const row = placeOf(block)[0];
        const before = blocks().filter((each) => each !== block && placeOf(each)[0] === row && middle(each) < middle(block));
        block.removeAttribute("transform");
        if (type === "pointerup") move(block, before.length);
      };
      block.setPointerCapture(event.pointerId);
      block.addEventListener("pointermove", follow);
      block.addEventListener("pointerup", drop, { once: true });
      block.addEventListener("pointercancel", drop, { once: true });
    });

    /* The panel is new: its blocks can be reached, and the one that was moved is held again. */
    return () => {
      panel.setAttribute("aria-live", "off"); // what a move did is told in a sentence, and not the whole picture
      for (const block of blocks()) {
        block.closest("[role=img]")?.setAttribute("role", "group");
        const name = block.querySelector("title").textContent;
        for (const [key, value] of Object.entries({ tabindex: 0, role: "button", "aria-label": name })) block.setAttribute(key, value);
      }
      const held = moved && at(...moved);
      if (!held) return;
      held.focus({ preventScroll: true });
      told.textContent = `${held.getAttribute("aria-label")} ${panel.querySelector("p").textContent}`;
    };
  }

  function startOver({ rows }, choose) {
    const button = element("button", { type: "button", class: "lab-again" }, "Start over");
    button.addEventListener("click", () => choose(rows));
    const how = "Drag a block, or focus it (Tab) and move it with ← and →; ↑ and ↓ go to the next rank.";
    return element("div", { class: "lab-axis lab-rows" }, element("span", {}, how), button);
  }

  /* ---- an explorer ------------------------------------------------------------------------------------------------ */

  function begin(explorer, choices) {
    const { panel: address, axes } = choices.live;
    const panel = explorer.querySelector(".lab-panel");
    const controls = explorer.querySelector(".lab-controls");
    const status = element("p", { class: "lab-note", role: "status" }, asleep("move"));
    const { progress, awake } = loader(status, panels);
    const choice = Object.fromEntries(axes.map(({ key, stored }) => [key, stored[0]]));
    const told = element("p", { class: "lab-told", role: "status" });
    const retry = retrying(() => compute());
    const beforehand = element("div", { class: "lab-controls lab-beforehand" });
    const rows = axes.find((axis) => axis.rows);
    const set = (key, value) => {
      choice[key] = value;
      offer();
      update();
    };
    const ready = rows ? movable(panel, () => choice[rows.key], (value) => set(rows.key, value), told) : () => {};
    const inWords = (at, value) => choices.axes[at].options[axes[at].stored.indexOf(value)] ?? value;
    let busy = false;
    let again = false;

    /* A slider that does not matter where the other controls stand is not there. */
    function offer() {
      for (const { key, where } of axes) {
        if (where) controls.querySelector(`[data-axis=${key}]`).hidden = choice[where[0]] !== where[1];
      }
    }

    function storedPanel() {
      const chosen = axes.map(({ key, stored }) => stored.indexOf(choice[key]));
      return chosen.includes(-1) ? undefined : choices.panels[storedAt(choices.axes, chosen)];
    }

    function shown(html, asked) {
      if (rows && asked[rows.key] !== choice[rows.key]) return; // blocks have moved on: the next answer has them
      show(panel, html);
      ready();
      explorer.dataset.shown = JSON.stringify(asked);
    }

    async function computed(asked) {
      const slow = setTimeout(() => (status.textContent = "computing …"), SLOW_MS);
      const begun = performance.now();
      const answer = await ask({ panel: address, choice: asked }).finally(() => clearTimeout(slow));
      status.textContent = "Python runs in this page: any value, computed here.";
      explorer.dataset.ms = Math.round(performance.now() - begun);
      return answer;
    }

    /* What is stored is shown at once. Else one question at a time, and then the newest: a slider may ask faster than
       Python answers. */
    function update() {
      const known = storedPanel();
      if (known !== undefined) shown(known, choice);
      else if (!retry.hidden) nearest();
      else compute();
    }

    async function compute() {
      again = busy;
      if (busy) return;
      busy = true;
      try {
        await awake();
        do {
          again = false;
          const asked = { ...choice };
          const answer = await computed(asked);
          if (storedPanel() === undefined) shown(answer, asked);
        } while (again);
      } catch (error) {
        failed(error.message);
      } finally {
        busy = false;
      }
    }

    /* Without Python: the sliders stay as the reader left them, and what was computed beforehand can be chosen. */
    function failed(why) {
      if (retry.hidden) {
        retry.hidden = false;
        offerStored(explorer, choices, beforehand);
      }
      const told = `${why} The choices below were computed beforehand.`;
      status.textContent = told;
      if (storedPanel() === undefined) nearest();
    }

    /* The stored panel whose choice is nearest to the reader's. */
    function nearest() {
      const chosen = axes.map(({ key, stored }) => {
        const far = (value) => (typeof value === "number" ? Math.abs(value - choice[key]) : Number(value !== choice[key]));
        return stored.reduce((best, value, at) => (far(value) < far(stored[best]) ? at : best), 0);
      });
      show(panel, choices.panels[storedAt(choices.axes, chosen)]);
      delete explorer.dataset.shown;
      offerStored(explorer, choices, beforehand, chosen);
      if (rows) choice[rows.key] = rows.stored[0]; // the blocks are drawn where they were
      ready();
    }

    function recovered() {
      if (retry.hidden) return;
      if (retry === document.activeElement) controls.querySelector("input, select, button").focus();
      retry.hidden = true;
      beforehand.replaceChildren();
      status.textContent = "Python runs in this page: any value, computed here.";
      update();
    }

    if (location.protocol === "file:") {
      offerStored(explorer, choices);
      show(panel, choices.panels[0]);
      status.textContent = "Opened from a file, a page may not start Python: only these choices are here. Over a web server, any value is.";
      controls.append(status);
      return;
    }
    panels.recovered.add(recovered);
    controls.replaceChildren(
      ...axes.map((axis, at) => {
        const { name } = choices.axes[at];
        const choose = (value) => set(axis.key, value);
        if (axis.rows) return startOver(axis, choose);
        const made = axis.all
          ? control({ name, options: axis.labels ?? axis.all.map((value) => inWords(at, value)) }, (index) => choose(axis.all[index]))
          : slider(axis, name, choose);
        made.dataset.axis = axis.key;
        return made;
      }),
      element("div", { class: "lab-python" }, status, progress, retry, beforehand, told),
    );
    offer();
    ready();
  }

  window.lab.ask = ask;
  window.lab.python = { judge, loader: (status) => loader(status, answers), retrying, asleep, limits };
  for (const [explorer, choices] of live) begin(explorer, choices);
})();
