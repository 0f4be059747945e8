/* The script of every page. Explorers: the reader chooses, the stored panel of that choice is shown.
   Figures: drawn by Plotly, which is loaded once a page and only when a figure comes near the screen. */
(() => {
  "use strict";

  const PLOTLY = new URL("vendor/plotly-basic.min.js", document.currentScript.src).href;
  const RADIOS_UP_TO = 6;
  const root = document.documentElement;

  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  const message = (text) => element("p", { class: "lab-message", role: "status" }, text);

  /* ---- figures -------------------------------------------------------------------------------------------------- */

  let plotly;

  function loadPlotly() {
    plotly ??= new Promise((loaded, failed) => {
      const script = element("script", { src: PLOTLY });
      script.onload = () => loaded(window.Plotly);
      script.onerror = () => failed(new Error("the plot library did not load"));
      document.head.append(script);
    });
    return plotly;
  }

  /* The page's colours, as Plotly wants them: one entry for each axis that the figure has. */
  function theme(layout) {
    const style = getComputedStyle(root);
    const value = (name) => style.getPropertyValue(`--lab-${name}`).trim();
    const themed = {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      "font.color": value("ink"),
      "font.family": value("text-face"),
      "hoverlabel.bgcolor": value("surface"),
      "hoverlabel.bordercolor": value("line"),
      "hoverlabel.font.color": value("ink"),
      "legend.bgcolor": "rgba(0,0,0,0)",
      "template.layout.shapedefaults.line.color": value("ink"),
    };
    const axes = Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key));
    for (const axis of axes) {
      themed[`${axis}.gridcolor`] = value("line");
      themed[`${axis}.linecolor`] = value("line");
      themed[`${axis}.zerolinecolor`] = value("soft");
    }
    return themed;
  }

  /* Axes, text and the bars of spread; the marks keep the colours of the one palette. */
  async function colour(plot) {
    const layout = theme(plot._fullLayout);
    for (const side of ["error_x", "error_y"]) {
      const spread = plot.data.flatMap((trace, index) => (trace[side] ? [index] : []));
      if (spread.length) await window.Plotly.restyle(plot, { [`${side}.color`]: layout["font.color"] }, spread);
    }
    await window.Plotly.relayout(plot, layout);
  }

  const recolour = () => document.querySelectorAll(".lab-plot.lab-drawn").forEach(colour);

  const resized = new ResizeObserver((entries) => {
    for (const { target } of entries) if (target.isConnected && target.offsetParent) window.Plotly.Plots.resize(target);
  });

  function openTable(plot) {
    const table = plot.closest(".lab-figure").querySelector("details");
    if (table) table.open = true;
    return table;
  }

  function cannotDraw(plot, why) {
    const rest = openTable(plot) ? " The table below it holds the same numbers." : "";
    plot.classList.add("lab-failed");
    plot.removeAttribute("role");
    plot.replaceChildren(message(`This figure cannot be drawn: ${why}.${rest}`));
  }

  const NARROW = 480;

  /* Plotly cuts off an axis title that is wider than the figure, as on a phone. */
  function wrapTitle(axis) {
    if (!(axis?.title?.text.length > 20)) return;
    axis.title = { ...axis.title, text: axis.title.text.replace(/(.{1,14}) /g, "$1<br>") };
    axis.automargin = true;
  }

  const drawing = new WeakMap();

  function draw(plot) {
    if (!drawing.has(plot)) drawing.set(plot, drawn(plot));
    return drawing.get(plot);
  }

  async function drawn(plot) {
    const source = plot.querySelector("script");
    let figure;
    try {
      figure = JSON.parse(source.textContent);
      if (!Array.isArray(figure?.data)) throw new SyntaxError("no data");
    } catch {
      return cannotDraw(plot, "its data is damaged");
    }
    try {
      const library = await loadPlotly();
      const layout = { height: plot.clientHeight, dragmode: false, ...figure.layout, autosize: true };
      if (plot.clientWidth < NARROW) wrapTitle(layout.xaxis);
      await library.newPlot(plot, figure.data, layout, { displayModeBar: false, ...figure.config });
      await colour(plot);
      plot.classList.add("lab-drawn");
      resized.observe(plot);
    } catch (error) {
      cannotDraw(plot, error.message);
    }
  }

  /* Once there is one figure, the others are drawn while the browser has nothing to do: a page can be printed any time. */
  const shown = () => [...document.querySelectorAll(".lab-plot")].filter((plot) => plot.offsetParent);

  const whenIdle = window.requestIdleCallback ?? ((call) => setTimeout(call, 200));

  async function drawTheRest() {
    const next = shown().find((plot) => !drawing.has(plot));
    if (!next) return;
    await draw(next);
    whenIdle(drawTheRest);
  }

  const near = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        near.unobserve(target);
        draw(target).then(() => whenIdle(drawTheRest));
      }
    },
    { rootMargin: "400px" },
  );

  function prepareFigures(place) {
    place.querySelectorAll(".lab-plot").forEach((plot) => near.observe(plot));
  }

  function discardFigures(place) {
    for (const plot of place.querySelectorAll(".lab-plot")) {
      near.unobserve(plot);
      resized.unobserve(plot);
      if (plot.classList.contains("lab-drawn")) window.Plotly.purge(plot);
    }
  }

  /* ---- explorers ------------------------------------------------------------------------------------------------ */

  let groups = 0;

  function radios(axis, choose, chosen) {
    const group = `lab-axis-${(groups += 1)}`;
    const box = element("fieldset", { class: "lab-axis" }, element("legend", {}, axis.name));
    axis.options.forEach((option, index) => {
      const input = element("input", { type: "radio", name: group, value: index, autocomplete: "off" });
      input.checked = index === chosen;
      input.addEventListener("change", () => choose(index));
      box.append(element("label", {}, input, element("span", {}, option)));
    });
    return box;
  }

  function dropdown(axis, choose, chosen) {
    const select = element("select", { autocomplete: "off" });
    axis.options.forEach((option, index) => select.append(element("option", { value: index }, option)));
    select.value = chosen;
    select.addEventListener("change", () => choose(Number(select.value)));
    return element("label", { class: "lab-axis" }, element("span", { class: "lab-axis-name" }, axis.name), select);
  }

  function show(panel, html) {
    discardFigures(panel);
    panel.innerHTML = html;
    prepareFigures(panel);
    reachable();
  }

  /* Controls for the choices whose panels are stored, with these chosen (or the first one). */
  function offerStored(explorer, { axes, panels }, controls = explorer.querySelector(".lab-controls"), chosen = axes.map(() => 0)) {
    controls.replaceChildren(); // the note for readers without scripts
    axes.forEach((axis, position) => {
      if (axis.fixed) return; // blocks that only Python can judge
      const choose = (index) => {
        chosen[position] = index;
        show(explorer.querySelector(".lab-panel"), panels[storedAt(axes, chosen)]);
      };
      controls.append(control(axis, choose, chosen[position]));
    });
  }

  const control = (axis, choose, chosen = 0) => (axis.options.length > RADIOS_UP_TO ? dropdown : radios)(axis, choose, chosen);

  /* Panels are stored in the order of their choices, the last axis quickest. */
  const storedAt = (axes, chosen) => axes.reduce((row, { options }, at) => row * options.length + chosen[at], 0);

  function startExplorer(explorer) {
    const controls = explorer.querySelector(".lab-controls");
    if (!controls) return; // stored without its choices: what is there already says so
    try {
      const choices = JSON.parse(explorer.querySelector(".lab-choices").textContent);
      if (choices.panels.length !== choices.axes.reduce((product, { options }) => product * options.length, 1)) throw 0;
      if (choices.live) live.push([explorer, choices]);
      offerStored(explorer, choices);
    } catch {
      controls.replaceChildren(message("The choices cannot be read, so only the first one is shown."));
    }
  }

  /* Those that can compute any choice; live/controls.js takes them over. */
  const live = [];
  window.lab = { live, element, message, control, show, offerStored, storedAt };

  /* ---- the page ------------------------------------------------------------------------------------------------- */

  /* What scrolls sideways must be reachable with the keyboard. */
  function reachable() {
    for (const box of document.querySelectorAll("article pre, .cell_output .text_html, .lab-panel, .lab-drawing, .lab-figure details")) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  }

  /* Paper is white: print in the light theme, with every figure drawn or, where it is too late for that, its table.
     The theme's button and the keys can wait until all are drawn; the browser's own menu cannot. */
  const veiled = () => [...document.querySelectorAll(".lab-follows[hidden]")];

  async function print() {
    const answers = veiled(); // paper has them; on the screen nobody is told
    answers.forEach((answer) => answer.classList.add("lab-preparing"));
    await Promise.all(shown().map(draw));
    answers.forEach((answer) => answer.classList.remove("lab-preparing"));
    window.print();
  }
  document.querySelectorAll("[data-lab-print]").forEach((button) => button.addEventListener("click", print));
  addEventListener("keydown", (event) => {
    const asked = (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && event.key === "p";
    const waiting = ":not(.lab-drawn, .lab-failed)";
    const undrawn = (plots) => plots.some((plot) => plot.matches(waiting));
    if (!asked || !(undrawn(shown()) || veiled().some((answer) => answer.querySelector(`.lab-plot${waiting}`)))) return;
    event.preventDefault();
    print();
  });
  let screenTheme;
  addEventListener("beforeprint", () => {
    screenTheme = root.dataset.theme;
    root.dataset.theme = "light";
    if (window.Plotly) recolour();
    for (const plot of document.querySelectorAll(".lab-plot:not(.lab-drawn)")) {
      draw(plot);
      openTable(plot);
    }
  });
  addEventListener("afterprint", () => (root.dataset.theme = screenTheme));

  /* An address that names a cell whose code is folded opens it. */
  function openFold() {
    const sought = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const fold = sought?.closest("details.lab-fold");
    if (!fold || fold.open) return;
    fold.open = true;
    sought.scrollIntoView();
  }
  openFold();
  addEventListener("hashchange", openFold);

  /* The section that is read, in the sidebar. */
  const links = [...document.querySelectorAll("ul.lab-sections a")];
  const heads = links.map((link) => document.getElementById(decodeURIComponent(link.hash.slice(1))));
  function markSection() {
    const at = heads.findLastIndex((head) => head?.getBoundingClientRect().top < innerHeight / 3);
    links.forEach((link, index) => (index === at ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current")));
  }
  if (links.length) {
    let asked = false;
    const later = () => {
      asked ||= requestAnimationFrame(() => {
        asked = false;
        markSection();
      });
    };
    addEventListener("scroll", later, { passive: true });
    markSection();
  }

  document.querySelectorAll(".lab-explorer").forEach(startExplorer);
  prepareFigures(document);
  reachable();
  addEventListener("load", reachable);
  addEventListener("resize", reachable);
  new MutationObserver(recolour).observe(root, { attributes: true, attributeFilter: ["data-theme"] });
})();
