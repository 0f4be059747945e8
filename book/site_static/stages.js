/* The line follower: all stages of a line as one strip of tabs, and two neighbours of them open, so that what is lit on
   one side is found on the other; on a phone one. Without this script all stages stand side by side. */
(() => {
  "use strict";

  const { element } = window.lab;
  let followers = 0;
  let last = 0; // the stage that was open: another line is looked at there, too

  function step(stages) {
    const sections = [...stages.children];
    const number = (followers += 1);
    const tabs = sections.map((section, at) => {
      const told = section.querySelector(".lab-stage");
      const name = told.querySelector("strong").textContent;
      const id = `lab-stage-${number}-${at}`;
      const tab = element("button", { type: "button", role: "tab", id: `${id}-tab`, "aria-controls": id });
      tab.append(`${at + 1} ${name}`, element("small", {}, told.textContent.replace(name, "").trim()));
      section.id = id;
      section.setAttribute("role", "tabpanel");
      section.setAttribute("aria-labelledby", tab.id);
      tab.addEventListener("click", () => go(at));
      return tab;
    });
    const strip = element("div", { class: "lab-strip", role: "tablist", "aria-label": "The stages of the line" }, ...tabs);

    function go(to) {
      last = Math.max(0, Math.min(to, sections.length - 1));
      const next = Math.min(last + 1, sections.length - 1);
      tabs.forEach((tab, at) => {
        tab.setAttribute("aria-selected", at === last);
        tab.tabIndex = at === last ? 0 : -1;
        tab.classList.toggle("lab-next", at === next && at !== last);
      });
      sections.forEach((section, at) => {
        section.hidden = at !== last && at !== next;
        section.classList.toggle("lab-second", at === next && at !== last);
        const [listing, lit] = [section.querySelector("pre"), section.querySelector("mark")];
        if (!section.hidden && lit) listing.scrollTop = lit.offsetTop - listing.offsetTop - 60;
      });
    }

    const keys = { ArrowRight: () => last + 1, ArrowLeft: () => last - 1, Home: () => 0, End: () => sections.length - 1 };
    strip.addEventListener("keydown", (event) => {
      if (!keys[event.key]) return;
      event.preventDefault();
      go(keys[event.key]());
      tabs[last].focus();
    });
    stages.before(strip);
    stages.classList.add("lab-stepped");
    go(last);
  }

  const prepare = (place) => place.querySelectorAll(".lab-stages:not(.lab-stepped)").forEach(step);
  prepare(document);
  const changed = new MutationObserver((changes) => new Set(changes.map(({ target }) => target)).forEach(prepare));
  document.querySelectorAll(".lab-panel").forEach((panel) => changed.observe(panel, { childList: true }));
})();
