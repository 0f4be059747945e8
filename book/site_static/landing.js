/* The journey of one line, stepped through: a track of stages, of which one is open. Without this script all of them
   stand one under the other. */
(() => {
  "use strict";

  const { element } = window.lab;
  let journeys = 0;

  function step(list) {
    const stages = [...list.children];
    const number = (journeys += 1);
    const tabs = stages.map((stage, at) => {
      const title = stage.querySelector("h4");
      const id = `lab-stage-${number}-${at}`;
      const tab = element("button", { type: "button", role: "tab", id: `${id}-tab`, "aria-controls": id });
      tab.append(element("span", { class: "lab-dot", "aria-hidden": "true" }), ...[...title.childNodes].map((part) => part.cloneNode(true)));
      stage.id = id;
      stage.setAttribute("role", "tabpanel");
      stage.setAttribute("aria-labelledby", tab.id);
      stage.tabIndex = 0;
      return tab;
    });
    const track = element("div", { class: "lab-track", role: "tablist", "aria-label": "The stages of the line's journey" }, ...tabs);
    const back = element("button", { type: "button", class: "lab-step" }, "◂ back");
    const next = element("button", { type: "button", class: "lab-step" }, "next stage ▸");
    let open = 0;
    track.style.setProperty("--lab-stages", stages.length);

    function go(to) {
      open = Math.max(0, Math.min(to, stages.length - 1));
      stages.forEach((stage, at) => stage.classList.toggle("lab-open", at === open));
      tabs.forEach((tab, at) => {
        tab.setAttribute("aria-selected", at === open);
        tab.tabIndex = at === open ? 0 : -1;
        tab.classList.toggle("lab-passed", at < open);
      });
      track.style.setProperty("--lab-way", open / (stages.length - 1));
      back.disabled = open === 0;
      next.disabled = open === stages.length - 1;
      track.scrollLeft = tabs[open].offsetLeft - track.clientWidth / 2; // on a phone the track is wider than the page
    }

    const keys = { ArrowRight: () => open + 1, ArrowLeft: () => open - 1, Home: () => 0, End: () => stages.length - 1 };
    track.addEventListener("keydown", (event) => {
      if (!keys[event.key]) return;
      event.preventDefault();
      go(keys[event.key]());
      tabs[open].focus();
    });
    tabs.forEach((tab, at) => tab.addEventListener("click", () => go(at)));
    back.addEventListener("click", () => go(open - 1));
    next.addEventListener("click", () => go(open + 1));

    const stage = element("div", { class: "lab-stages", role: "presentation" });
    list.setAttribute("role", "presentation");
    list.before(track, stage);
    stage.append(list);
    stage.after(element("div", { class: "lab-steps" }, back, next));
    list.classList.add("lab-stepped");
    go(0);
  }

  document.querySelectorAll("ol.lab-journey").forEach(step);
})();
