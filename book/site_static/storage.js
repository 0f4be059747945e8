/* `localStorage`, for the theme's scripts and the book's: they say getItem, setItem and removeItem, and none of these
   fails. What the browser will not keep (it is told to keep nothing, or is full) is kept until the page is left.
   Loaded before any other script. */
(() => {
  "use strict";

  let browsers;
  try {
    browsers = window.localStorage;
  } catch {
    // forbidden: each use below fails, and is caught
  }
  const pages = new Map(); // name: its text, or null for what was taken away

  function write(name, text) {
    try {
      if (text === null) browsers.removeItem(name);
      else browsers.setItem(name, text);
      pages.delete(name);
    } catch {
      pages.set(name, text);
    }
  }

  function getItem(name) {
    if (pages.has(name)) return pages.get(name);
    try {
      return browsers.getItem(name);
    } catch {
      return null;
    }
  }

  const setItem = (name, text) => write(name, String(text));
  const removeItem = (name) => write(name, null);

  Object.defineProperty(window, "localStorage", { value: { getItem, setItem, removeItem }, configurable: true });
})();
