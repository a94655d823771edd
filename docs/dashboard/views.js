// The views: each builds the content of <main> from the state.
"use strict";

// h("a", {href: "#"}, "text", node, [more]): an element. Text is always text, never markup.
function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined) element.append(child);
  }
  return element;
}

const Views = (() => {
  const { data } = Model;
  const ORDER = ["regression", "missing", "improvement", "new", "noise"];

  const mark = (label) => h("span", { class: `mark ${label}` }, label);
  const benchmarkLink = (s, id) =>
    h("a", { href: Model.address({ view: "benchmark", environment: s.environment, id }) }, id);

  // Wide tables scroll by themselves, with the keyboard too, so that the page never does.
  function table(name, heads, rows) {
    return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name },
      h("table", { id: name.replace(/\W+/g, "-").toLowerCase() },
        h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
        h("tbody", {}, rows)));
  }
  const row = (...cells) => h("tr", {}, cells.map((cell) => h("td", {}, cell)));

  function sortedByWeight(verdicts) {
    return [...verdicts].sort((x, y) => ORDER.indexOf(x.label) - ORDER.indexOf(y.label) ||
      x.id.localeCompare(y.id));
  }

  // --- Overview ---------------------------------------------------------------------------------

  function spanCell(counts) {
    if (!counts) return h("span", { class: "faint" }, "no record");
    const shown = ORDER.filter((label) => counts[label] && label !== "noise")
      .map((label) => h("span", { class: `mark ${label}` }, `${counts[label]} ${label}`));
    return shown.length ? shown : mark("noise");
  }

  function missingPeers(s) {
    const records = Model.environment(s).records;
    const missing = Object.entries(data.records[records[records.length - 1]].missing);
    if (!missing.length) return null;
    return h("section", {}, h("h2", {}, "Missing from the last session"),
      h("ul", { id: "missing" }, missing.map(([name, reason]) => h("li", {}, `${name}: ${reason}`))));
  }

  function changeList(s, span) {
    const changes = Model.environment(s).changes[span];
    if (!changes) return h("p", { class: "faint" }, "There is no earlier commit to compare with.");
    const found = sortedByWeight(Object.entries(changes.verdicts)
      .map(([id, [label, ratio, p]]) => ({ id, label, ratio, p }))
      .filter((verdict) => verdict.label !== "noise"));
    const weak = changes.powerless
      ? h("p", { class: "warning" }, `${changes.powerless} benchmarks have too few repetitions for any verdict but noise.`)
      : null;
    if (!found.length) return [weak, h("p", { id: "quiet" }, "Nothing changed beyond the noise.")];
    return [weak, table("Changes", ["benchmark", "verdict", "time after / before", "p"],
      found.map((v) => row(benchmarkLink(s, v.id), mark(v.label), Model.times(v.ratio), v.p ?? "–")))];
  }

  function overview(s) {
    const environment = Model.environment(s);
    const last = environment.records[environment.records.length - 1];
    const rows = environment.components.map((c) => row(
      h("a", { href: Model.address({ view: "benchmarks", environment: s.environment, component: c.name }) }, c.name),
      spanCell(c.changes.commit), spanCell(c.changes.week), spanCell(c.changes.release),
      Model.percent(c.fraction), Model.times(c.ratio), String(c.benchmarks)));
    return [
      h("h2", {}, "Components at ", Model.recordName(last)),
      table("Components", ["component", "since last commit", "since last week", "since last release",
        "of the roofline", "against the best peer", "benchmarks"], rows),
      h("p", { class: "faint" }, "Of the roofline: the geometric mean of each benchmark's share of what one core can copy ",
        "or compute. Against the best peer: the peer's time over ours, so above 1 ours is faster."),
      h("h2", {}, "Since the last commit"), changeList(s, "commit"), missingPeers(s),
    ];
  }

  // --- Benchmarks -------------------------------------------------------------------------------

  function filters(s) {
    const all = Model.benchmarks(s);
    return h("form", { class: "filters", onsubmit: (event) => event.preventDefault() },
      ["component", "type", "size", "device"].map((name) => {
        const values = [...new Set(all.map((b) => b[name]))].sort();
        return h("label", {}, name, " ", h("select", {
          id: `filter-${name}`, onchange: (event) => Model.change({ [name]: event.target.value }),
        }, h("option", { value: "" }, "all"),
        values.map((v) => h("option", { value: v, selected: s[name] === v }, v))));
      }),
      h("label", {}, "name ", h("input", {
        id: "filter-text", type: "search", value: s.text || "",
        onchange: (event) => Model.change({ text: event.target.value }),
      })));
  }

  function benchmarkList(s) {
    const changes = Model.environment(s).changes.commit;
    const found = Model.filtered(s);
    const rows = found.map((b) => {
      const point = b.points[b.points.length - 1];
      const [label] = (changes && changes.verdicts[b.id]) || [null];
      const peers = Object.values(point.peers);
      const seconds = Statistics.median(point.seconds);
      return row(benchmarkLink(s, b.id), Model.duration(seconds), label ? mark(label) : "–",
        Model.percent(point.fraction), Model.times(peers.length ? Math.min(...peers) / seconds : null),
        b.type, b.size, b.device);
    });
    return [filters(s), h("p", { id: "count", "aria-live": "polite" }, `${found.length} benchmarks`),
      table("Benchmarks", ["benchmark", "time", "since last commit", "of the roofline", "best peer",
        "type", "size", "device"], rows)];
  }

  // --- One benchmark ----------------------------------------------------------------------------

  function pointText(benchmark, index) {
    if (index === null) return "Point at the chart, or move through it with the arrow keys.";
    const point = benchmark.points[index];
    const record = data.records[point.record];
    const median = Model.duration(Statistics.median(point.seconds));
    const band = [0.25, 0.75].map((q) => Model.duration(Statistics.quantile(point.seconds, q))).join(" to ");
    return `${(record.commit || "unknown").slice(0, 12)} · ${record.author} · ${(record.commit_date || record.date).slice(0, 16)}` +
      ` · ${median} (${band}) · ${record.subject}`;
  }

  function benchmarkView(s) {
    const benchmark = Model.benchmark(s);
    if (!benchmark) return [h("p", { id: "unknown" }, `No benchmark ${s.id} on this machine and build.`)];
    const info = h("p", { id: "point", "aria-live": "polite" }, pointText(benchmark, null));
    const chart = h("div", { id: "chart", tabindex: "0", role: "application",
      "aria-label": "History: arrow keys move, plus and minus zoom, 0 shows everything" });
    const rows = benchmark.points.map((point, i) => [point, i]).reverse().map(([point]) => row(
      Model.recordName(point.record), data.records[point.record].author,
      Model.duration(Statistics.median(point.seconds)), Model.percent(point.fraction),
      Object.entries(point.peers).map(([name, t]) => `${name} ${Model.duration(t)}`).join(", ") || "–",
      data.records[point.record].subject));
    const content = [
      h("h2", {}, benchmark.id), info, chart,
      h("div", { class: "buttons" },
        h("button", { id: "log", type: "button", "aria-pressed": String(s.log === "1"),
          onclick: () => Model.change({ log: s.log === "1" ? "" : "1" }) }, "Log scale"),
        h("button", { id: "everything", type: "button", onclick: () => Chart.everything() }, "Show everything"),
        h("a", { href: Model.address({ view: "raw", environment: s.environment, text: benchmark.id }) }, "Raw data")),
      table("History", ["commit", "author", "time", "of the roofline", "peers", "subject"], rows),
    ];
    // The chart needs its place in the page before it can be drawn.
    return { content, after: () => Chart.draw(chart, benchmark, s, (index) => {
      info.textContent = pointText(benchmark, index);
    }) };
  }

  // --- Two commits ------------------------------------------------------------------------------

  function compareView(s) {
    const records = Model.environment(s).records;
    if (records.length < 2) return [h("p", {}, "There is only one record of this machine and build.")];
    const pick = (value, fallback) => (records.includes(Number(value)) && value !== undefined
      ? Number(value) : fallback);
    const before = pick(s.before, records[records.length - 2]);
    const after = pick(s.after, records[records.length - 1]);
    const select = (name, chosen) => h("label", {}, name, " ", h("select", {
      id: name, onchange: (event) => Model.change({ before, after, [name]: event.target.value }),
    }, records.map((r) => h("option", { value: r, selected: r === chosen }, Model.recordName(r)))));
    const verdicts = sortedByWeight(Model.verdicts(s, before, after));
    const counts = ORDER.map((label) => `${verdicts.filter((v) => v.label === label).length} ${label}`);
    return [
      h("h2", {}, "Two commits side by side"),
      h("form", { class: "filters" }, select("before", before), select("after", after)),
      h("p", { id: "counts" }, counts.join(", ")),
      table("Comparison", ["benchmark", "before", "after", "after / before", "U", "p", "verdict"],
        verdicts.map((v) => row(benchmarkLink(s, v.id), Model.duration(v.before), Model.duration(v.after),
          v.before && v.after ? Model.times(v.after / v.before) : "–", v.u ?? "–",
          v.p === undefined ? "–" : v.p.toPrecision(2), mark(v.label)))),
    ];
  }

  // --- Raw data ---------------------------------------------------------------------------------

  const RAW_HEADS = ["commit", "author", "commit_date", "benchmark", "type", "size", "device", "repetition", "seconds"];

  function* rawRows(s) {
    for (const b of Model.filtered(s)) {
      for (const point of b.points) {
        const record = data.records[point.record];
        for (const [repetition, seconds] of point.seconds.entries()) {
          yield [record.commit, record.author, record.commit_date, b.id, b.type, b.size, b.device, repetition, seconds];
        }
      }
    }
  }

  function csvOf(rows) {
    const cell = (value) => (/[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value ?? ""));
    return rows.map((cells) => cells.map(cell).join(",") + "\r\n").join("");
  }

  function rawView(s) {
    const rows = [...rawRows(s)];
    const shown = rows.slice(-500);
    // A link to data instead of a button that makes it: it can be saved with the keyboard too.
    const csv = new Blob([csvOf([RAW_HEADS, ...rows])], { type: "text/csv" });
    const json = new Blob([JSON.stringify(rows.map((cells) =>
      Object.fromEntries(cells.map((cell, i) => [RAW_HEADS[i], cell]))))], { type: "application/json" });
    const link = (blob, name) => h("a", { id: name.replace(".", "-"), class: "download", download: name,
      href: URL.createObjectURL(blob) }, `Download ${name}`);
    return [filters(s),
      h("p", {}, `${rows.length} times; `, rows.length > shown.length ? "the last 500 are shown. " : "",
        link(csv, "benchmarks.csv"), " ", link(json, "benchmarks.json")),
      table("Raw data", RAW_HEADS, shown.map((cells) => row(...cells.map(String))))];
  }

  return { overview, benchmarks: benchmarkList, benchmark: benchmarkView, compare: compareView, raw: rawView };
})();
