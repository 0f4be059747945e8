/* Starts the slides. What is taller than a slide is made smaller until it fits, and scrolls where letters would become too
   small to read; a plot is drawn when its slide comes. */
(() => {
  "use strict";
  const HEIGHT = 720;
  const SMALLEST = 0.4;

  function draw(plot) {
    const source = plot.querySelector("script");
    if (!source || !window.Plotly) return;
    const { data, layout } = JSON.parse(source.textContent);
    plot.replaceChildren();
    window.Plotly.newPlot(plot, data, { ...layout, width: 800, height: 320 }, { displayModeBar: false });
  }

  function show(slide) {
    if (!slide) return;
    slide.querySelectorAll(".lab-plot").forEach(draw);
    slide.style.zoom = slide.style.maxHeight = "";
    const fits = HEIGHT / slide.scrollHeight;
    if (fits >= 1) return;
    slide.style.zoom = Math.max(SMALLEST, fits).toFixed(3);
    if (fits < SMALLEST) slide.style.maxHeight = `${HEIGHT / SMALLEST}px`; // and it scrolls
  }

  window.Reveal.on("ready", ({ currentSlide }) => show(currentSlide));
  window.Reveal.on("slidechanged", ({ currentSlide }) => show(currentSlide));
  window.Reveal.on("pdf-ready", () => document.querySelectorAll(".slides section:not(:has(section))").forEach(show));
  window.Reveal.initialize({
    hash: true,
    slideNumber: "c/t",
    width: 1280,
    height: HEIGHT,
    margin: 0.05,
    center: false,
    transition: "none",
    plugins: [window.RevealNotes],
  });
})();
