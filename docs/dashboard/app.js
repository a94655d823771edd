// Draws the view that the address names, again whenever it changes.
"use strict";

(() => {
  const main = document.getElementById("main");
  const TITLES = { overview: "Overview", benchmarks: "Benchmarks", compare: "Two commits", raw: "Raw data" };

  function drawNavigation(s) {
    const shown = s.view === "benchmark" ? "benchmarks" : s.view;
    document.getElementById("navigation").replaceChildren(...Model.VIEWS.map((view) =>
      h("a", { id: `to-${view}`, href: Model.address({ view, environment: s.environment }),
        "aria-current": view === shown ? "page" : null }, TITLES[view])));
    const { environments } = Model.data;
    const select = document.getElementById("environment");
    select.replaceChildren(...environments.map((e, i) =>
      h("option", { value: i, selected: i === s.environment }, `${e.machine}; ${e.build}`)));
    // The list may cut it short.
    const { machine, build } = environments[s.environment];
    document.getElementById("facts").textContent = `${machine}; ${build}` + (environments.length > 1 ? ` (one of ${environments.length}, which are never compared with each other)` : "");
    document.title = `${s.view === "benchmark" ? s.id : TITLES[s.view]} · Tessera benchmarks`;
  }

  function draw() {
    const s = Model.state();
    // Somebody who types, picks or sorts stays where they were; who goes elsewhere begins at its top.
    const { id: focused, selectionStart: caret } = document.activeElement || {};
    const within = main.contains(document.activeElement);
    const shown = { view: s.view, id: s.id || "" };
    const moves = shown.view !== main.dataset.view || shown.id !== main.dataset.id;
    Chart.remove();
    drawNavigation(s);
    const made = Views[s.view](s);
    main.replaceChildren(...[made.content || made].flat(Infinity).filter(Boolean));
    if (made.after) made.after();
    Object.assign(main.dataset, shown);
    if (moves) window.scrollTo(0, 0);
    const again = (focused && document.getElementById(focused)) || (within && main);
    if (again) again.focus({ preventScroll: true });
    if (again && again.type === "search") again.setSelectionRange(caret, caret);
  }

  // The viewer's system decides, until they do.
  function setTheme(theme) {
    if (theme) document.documentElement.dataset.theme = theme;
    try {
      if (theme) localStorage.setItem("theme", theme);
    } catch (_error) {
      // Pages opened from disk may have no storage; the choice then lasts for this visit.
    }
  }
  function storedTheme() {
    try {
      return localStorage.getItem("theme");
    } catch (_error) {
      return null;
    }
  }

  // Its address would be a view's.
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  document.getElementById("theme").addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme
      ? document.documentElement.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    setTheme(dark ? "light" : "dark");
    draw();
  });
  document.getElementById("environment").addEventListener("change", (event) => {
    // Records have other numbers elsewhere, and a zoom means other commits.
    Model.change({ environment: Number(event.target.value), zoom: "", before: "", after: "" });
  });
  window.addEventListener("hashchange", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  setTheme(storedTheme());
  draw();
})();
