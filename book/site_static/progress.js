/* How far a reader has come, kept in this browser alone: a mark beside each chapter, and a way to go on from the landing
   page. What is kept: for each chapter the share that has passed the screen, and the section that was read last. */
(() => {
  "use strict";

  const KEY = "lab-progress";
  const READ = 0.95;
  const STARTED = 0.05;

  /* Whatever is kept there: the shares by chapter and the last place, as far as it holds them. */
  function load() {
    let kept;
    try {
      kept = JSON.parse(localStorage.getItem(KEY));
    } catch {
      // damaged
    }
    const shares = Object.entries(kept?.chapters ?? {}).filter(([, share]) => share >= 0 && share <= 1);
    const last = typeof kept?.last?.page === "string" ? { page: kept.last.page, section: `${kept.last.section ?? ""}` } : undefined;
    return { chapters: Object.fromEntries(shares), last };
  }

  const save = (progress) => localStorage.setItem(KEY, JSON.stringify(progress));

  const name = (address) => new URL(address, location.href).pathname.split("/").slice(-2).join("/").replace(".html", "");
  const here = name(location.href);
  const links = () => [...document.querySelectorAll(".bd-sidebar-primary .toctree-l1 > a")];
  const percent = (share) => (share >= READ ? "✓" : `${Math.round(100 * share)}\u00a0%`);

  /* ---- note how far this chapter was read ------------------------------------------------------------------------- */

  function note() {
    const progress = load();
    const share = Math.min(1, (scrollY + innerHeight) / document.documentElement.scrollHeight);
    const passed = [...document.querySelectorAll("article section[id]")].filter(
      (section) => section.getBoundingClientRect().top < innerHeight / 2,
    );
    const best = Math.max(share, progress.chapters[here] ?? 0);
    const chapters = { ...progress.chapters, [here]: Number(best.toFixed(2)) };
    save({ chapters, last: { page: here, section: passed.at(-1)?.id ?? "" } });
  }

  /* ---- show it ---------------------------------------------------------------------------------------------------- */

  function marks() {
    const { chapters } = load();
    for (const link of links()) {
      const share = chapters[name(link.href)];
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
    const isDone = at >= 0 && chapters[last.page] >= READ;
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
    clearTimeout(waiting);
    waiting = setTimeout(note, 400);
  };
  addEventListener("scroll", later, { passive: true });
  addEventListener("pagehide", () => scrollY && note());
})();
