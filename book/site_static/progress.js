/* How far a reader has come, kept in this browser alone: a mark beside each chapter, and a way to go on from the landing
   page. What is kept: for each chapter which parts have been on the screen, and the section that was read last. Who jumps
   to the exercises has not read what lies between. */
(() => {
  "use strict";

  const KEY = "lab-progress";
  const READ = 0.95;
  const STARTED = 0.05;
  const PARTS = 60; // of a page: each is "1" once it has been on the screen

  const isText = (value, form) => typeof value === "string" && form.test(value);
  const isPage = (value) => isText(value, /^notebooks\/[\w-]+$/);
  const isParts = (value) => isText(value, new RegExp(`^[01]{${PARTS}}$`));
  const isSection = (value) => isText(value, /^[a-z][a-z0-9-]*$/); // an id, as Sphinx makes them

  /* Whatever is kept there: the parts by chapter and the last place, as far as it holds what `note` writes. */
  function load() {
    let kept;
    try {
      kept = JSON.parse(localStorage.getItem(KEY));
    } catch {
      // damaged
    }
    const chapters = Object.entries(kept?.chapters ?? {}).filter(([page, seen]) => isPage(page) && isParts(seen));
    const { page, section } = kept?.last ?? {};
    const last = isPage(page) ? { page, section: isSection(section) ? section : "" } : undefined;
    return { chapters: Object.fromEntries(chapters), last };
  }

  const save = (progress) => localStorage.setItem(KEY, JSON.stringify(progress));

  const name = (address) => new URL(address, location.href).pathname.split("/").slice(-2).join("/").replace(".html", "");
  const here = name(location.href);
  const links = () => [...document.querySelectorAll(".bd-sidebar-primary .toctree-l1 > a")];
  const shareOf = (seen = "") => [...seen].filter((part) => part === "1").length / PARTS;
  const percent = (share) => (share >= READ ? "✓" : `${Math.round(100 * share)}\u00a0%`);

  /* ---- note how far this chapter was read ------------------------------------------------------------------------- */

  function note() {
    const progress = load();
    const page = document.documentElement.scrollHeight / PARTS;
    const onScreen = (at) => at * page < scrollY + innerHeight && (at + 1) * page > scrollY;
    const before = progress.chapters[here] ?? "0".repeat(PARTS);
    const seen = [...before].map((part, at) => (onScreen(at) ? "1" : part)).join("");
    const passed = [...document.querySelectorAll("article section[id]")].filter(
      (section) => section.getBoundingClientRect().top < innerHeight / 2,
    );
    save({ chapters: { ...progress.chapters, [here]: seen }, last: { page: here, section: passed.at(-1)?.id ?? "" } });
  }

  /* ---- show it ---------------------------------------------------------------------------------------------------- */

  function marks() {
    const { chapters } = load();
    for (const link of links()) {
      const share = shareOf(chapters[name(link.href)]);
      if (!(share >= STARTED)) continue;
      const mark = document.createElement("span");
      mark.className = "lab-read";
      mark.title = share >= READ ? "read" : "read so far";
      mark.textContent = percent(share);
      link.append(" ", mark);
    }
  }

  function goOn() {
    const start = [...document.querySelectorAll("a.lab-start")].at(-1);
    const { last, chapters } = load();
    const at = links().findIndex(({ href }) => name(href) === last?.page);
    const isDone = at >= 0 && shareOf(chapters[last.page]) >= READ;
    const link = links()[isDone ? at + 1 : at];
    if (!start || !link) return;
    const line = document.createElement("p");
    line.className = "lab-reading";
    const on = document.createElement("a");
    on.href = isDone || !last.section ? link.href : `${link.href}#${last.section}`;
    on.textContent = `Go on with ${link.firstChild.textContent.trim()}`;
    const forget = document.createElement("button");
    forget.type = "button";
    forget.textContent = "Forget what I have read";
    forget.addEventListener("click", () => {
      localStorage.removeItem(KEY);
      line.remove();
      document.querySelectorAll(".lab-read").forEach((mark) => mark.remove());
    });
    line.append(on, " · ", forget);
    start.closest("p").after(line);
  }

  goOn();
  marks();
  if (!here.startsWith("notebooks/")) return;
  let waiting = 0;
  const later = () => {
    waiting ||= setTimeout(() => {
      waiting = 0;
      note();
    }, 400);
  };
  addEventListener("scroll", later, { passive: true });
  addEventListener("pagehide", () => scrollY && note());
})();
