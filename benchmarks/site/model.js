// The data, and the page's state: everything that is shown follows from the address, so that every
// view can be linked to. Addresses name environments and records by what stays in a longer history.
"use strict";

const Model = (() => {
  const data = window.benchmarkData;
  const VIEWS = ["overview", "benchmarks", "compare", "raw"];
  const FILTERS = ["component", "type", "size", "device"];
  const SIZES = ["none", "to 1 Ki", "to 64 Ki", "to 4 Mi", "beyond 4 Mi"]; // those of records.py
  const bySize = (x, y) => SIZES.indexOf(x) - SIZES.indexOf(y);

  const key = (environment, id) => `${environment} ${id}`;
  const byId = new Map(data.benchmarks.map((b) => [key(b.environment, b.id), b]));

  function state() {
    const found = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
    const environment = data.environments.findIndex((e) => e.id === found.environment);
    found.unknown = environment < 0 && found.environment;
    found.environment = environment < 0 ? data.newest : environment;
    if (!VIEWS.includes(found.view) && found.view !== "benchmark") found.view = "overview";
    return found;
  }

  // An address; entries that are empty are left out.
  function address({ environment, unknown, ...entries }) {
    const parameters = new URLSearchParams();
    for (const [name, value] of Object.entries(entries)) {
      if (value !== undefined && value !== null && value !== "") parameters.set(name, value);
    }
    if (environment !== undefined) parameters.set("environment", data.environments[environment].id);
    return "#" + parameters;
  }

  function change(entries) {
    location.hash = address({ ...state(), ...entries });
  }

  // Without a step in the browser's history: a zoom that the chart itself has done.
  function note(entries) {
    history.replaceState(null, "", address({ ...state(), ...entries }));
  }

  // The same, and drawn again: what changes with every key that is typed.
  function replace(entries) {
    note(entries);
    window.dispatchEvent(new HashChangeEvent("hashchange"));
  }

  const environment = (s) => data.environments[s.environment];
  const lastRecord = (s) => environment(s).records.at(-1);
  const benchmarks = (s) => data.benchmarks.filter((b) => b.environment === s.environment);
  const benchmark = (s) => byId.get(key(s.environment, s.id));
  const judged = (b) => b.component !== "roofline";
  // Whether a session was to measure the component: only then it can lack anything.
  const asked = (record, component) => !(data.records[record].unasked || []).includes(component);

  function filtered(s) {
    const text = (s.text || "").toLowerCase();
    return benchmarks(s).filter((b) =>
      FILTERS.every((name) => !s[name] || b[name] === s[name]) && b.id.toLowerCase().includes(text));
  }

  const point = (b, record) => b.points.find((p) => p.record === record);
  const bestPeer = (p) => {
    const peers = Object.values(p.peers);
    return peers.length ? Math.min(...peers) / Statistics.median(p.seconds) : null;
  };

  function recordName(number) {
    const record = data.records[number];
    const tags = (record.tags || []).join(" ");
    const day = (record.commit_date || record.date || "").slice(0, 10);
    const changed = record.dirty ? " with local changes" : "";
    return `${(record.commit || "unknown").slice(0, 10)}${changed} ${day} ${tags}`.trim();
  }
  const recordNumber = (id) => data.records.findIndex((record) => record.id === id);

  function duration(seconds) {
    if (seconds === undefined || seconds === null || Number.isNaN(seconds)) return "–";
    for (const [scale, unit] of [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]]) {
      if (seconds >= scale) return `${Number((seconds / scale).toPrecision(4))} ${unit}`;
    }
    return `${Number((seconds / 1e-9).toPrecision(4))} ns`;
  }

  const known = (value) => value !== null && value !== undefined && !Number.isNaN(value);
  const percent = (value) => (known(value)
    ? `${value < 0.1 ? Number((value * 100).toPrecision(2)) : Math.round(value * 100)} %` : "–");
  const times = (value) => (known(value) ? `${value.toFixed(2)}×` : "–");

  // "12.3 GB/s" for 12.3e9 and "B".
  function rate(value, unit) {
    const [scale, prefix] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([least]) => value >= least) || [1, ""];
    const number = Number((value / scale).toPrecision(3));
    return unit === "items" ? `${number}${prefix && ` ${prefix}`} items/s` : `${number} ${prefix}${unit}/s`;
  }

  function verdicts(s, before, after) {
    const pairs = benchmarks(s).filter(judged).map((b) => ({
      id: b.id,
      before: (point(b, before) || {}).seconds,
      after: (point(b, after) || {}).seconds,
      asked: asked(after, b.component),
    })).filter((pair) => pair.after || (pair.before && pair.asked));
    return Statistics.compare(pairs, data.level, data.threshold);
  }

  // Cases of the roofline whose best time moved: [name, after / before].
  function machineChanges(s, before, after) {
    return benchmarks(s).filter((b) => !judged(b) && point(b, before) && point(b, after))
      .map((b) => [b.name, Math.min(...point(b, after).seconds) / Math.min(...point(b, before).seconds)])
      .filter(([, ratio]) => ratio > 1 + data.threshold || ratio < 1 / (1 + data.threshold));
  }

  return { data, VIEWS, FILTERS, SIZES, bySize, state, address, change, note, replace, environment, lastRecord,
    benchmarks, benchmark, filtered, point, bestPeer, recordName, recordNumber, asked, duration, percent,
    times, rate, verdicts, machineChanges };
})();
