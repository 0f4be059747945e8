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

  /* ---- Python: one worker a page ---------------------------------------------------------------------------------- */

  let worker; // a promise of it
  let asked = 0;
  const open = new Map(); // questions without an answer, by number
  const watching = new Set(); // told how many bytes have come

  function started() {
    worker ??= new Promise((ready, failed) => {
      const python = new Worker(WORKER, { type: "module" });
      python.onerror = (event) => failed(new Error(event.message || "its program is not there"));
      python.onmessage = ({ data }) => {
        if (data.ready) ready(python);
        else if (data.loaded) watching.forEach((tell) => tell(data.loaded));
        else if (open.has(data.number)) open.get(data.number)(data);
        else failed(new Error(data.failed));
      };
    });
    return worker;
  }

  async function sent(letter) {
    const python = await started();
    const number = (asked += 1);
    python.postMessage({ number, ...letter });
    const { answer, failed } = await new Promise((answered) => open.set(number, answered));
    open.delete(number);
    return answer ?? message(`This cannot be computed: ${failed}`).outerHTML;
  }

  const ask = (question) => sent({ question: JSON.stringify(question) });
  const judge = (cell) => sent({ cell });

  /* Python is busy and does not stop by itself: end it. What was asked of it fails, the next question starts another. */
  async function stop(why) {
    const python = await worker;
    python.terminate();
    worker = undefined;
    for (const answered of open.values()) answered({ failed: why });
  }

  /* A bar for the page while Python is loaded, and `awake`, which waits until it has started. */
  function loader(status) {
    const bar = element("progress", { max: NBYTES, value: 0, "aria-label": "Python is loading" });
    const count = element("span", { "aria-hidden": "true" }); // the bar has it for those who listen
    const progress = element("div", { class: "lab-progress", hidden: "" }, bar, count);

    function loading(nbytes) {
      bar.value = nbytes;
      const all = nbytes >= 0.99 * NBYTES; // hosts compress a little more, or less
      count.textContent = all ? "starting" : `${megabytes(nbytes)} of ${megabytes(NBYTES)}`;
    }

    async function awake() {
      if (!worker) loading(0);
      const waiting = setTimeout(() => {
        status.textContent = "Python is loading …";
        progress.hidden = false;
      });
      watching.add(loading);
      try {
        await started();
      } finally {
        clearTimeout(waiting);
        watching.delete(loading);
        progress.hidden = true;
      }
    }

    return { progress, awake };
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
    const { progress, awake } = loader(status);
    const choice = Object.fromEntries(axes.map(({ key, stored }) => [key, stored[0]]));
    const told = element("p", { class: "lab-told", role: "status" });
    const rows = axes.find((axis) => axis.rows);
    const set = (key, value) => {
      choice[key] = value;
      offer();
      update();
    };
    const ready = rows ? movable(panel, () => choice[rows.key], (value) => set(rows.key, value), told) : () => {};
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
      const answer = await ask({ panel: address, choice: asked });
      clearTimeout(slow);
      status.textContent = "Python runs in this page: any value, computed here.";
      explorer.dataset.ms = Math.round(performance.now() - begun);
      return answer;
    }

    /* What is stored is shown at once. Else one question at a time, and then the newest: a slider may ask faster than
       Python answers. */
    async function update() {
      const known = storedPanel();
      if (known !== undefined) return shown(known, choice);
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
        giveUp(`Python does not run here: ${error.message}. The choices below were computed beforehand.`);
      } finally {
        busy = false;
      }
    }

    function giveUp(why) {
      offerStored(explorer, choices);
      show(panel, choices.panels[0]);
      status.textContent = why;
      controls.append(status);
    }

    if (location.protocol === "file:") {
      giveUp("Opened from a file, a page may not start Python: only these choices are here. Over a web server, any value is.");
      return;
    }
    controls.replaceChildren(
      ...axes.map((axis, at) => {
        const { name } = choices.axes[at];
        const choose = (value) => set(axis.key, value);
        if (axis.rows) return startOver(axis, choose);
        const made = axis.all
          ? control({ name, options: axis.all }, (index) => choose(axis.all[index]))
          : slider(axis, name, choose);
        made.dataset.axis = axis.key;
        return made;
      }),
      element("div", { class: "lab-python" }, status, progress, told),
    );
    offer();
    ready();
  }

  window.lab.ask = ask;
  window.lab.python = { judge, loader, stop, asleep };
  for (const [explorer, choices] of live) begin(explorer, choices);
})();
