// The data, and the page's state: everything that is shown follows from the address, so that every
// view can be linked to.
"use strict";

const Model = (() => {
  const data = window.benchmarkData;
  const VIEWS = ["overview", "benchmarks", "compare", "raw"];
  const FILTERS = ["component", "type", "size", "device", "text"];

  const key = (environment, id) => `${environment} ${id}`;
  const byId = new Map(data.benchmarks.map((b) => [key(b.environment, b.id), b]));

  function state() {
    const parameters = new URLSearchParams(location.hash.slice(1));
    const found = Object.fromEntries(parameters);
    const environment = Number(found.environment);
    found.environment = data.environments[environment] && found.environment !== undefined
      ? environment : data.newest;
    if (!VIEWS.includes(found.view) && found.view !== "benchmark") found.view = "overview";
    return found;
  }

  // An address; entries that are empty are left out.
  function address(entries) {
    const parameters = new URLSearchParams();
    for (const [name, value] of Object.entries(entries)) {
      if (value !== undefined && value !== null && value !== "") parameters.set(name, value);
    }
    return "#" + parameters;
  }

  function change(entries) {
    location.hash = address({ ...state(), ...entries });
  }

  // Where nothing needs to be drawn again: a zoom that the chart itself has done.
  function note(entries) {
    history.replaceState(null, "", address({ ...state(), ...entries }));
  }

  const environment = (s) => data.environments[s.environment];
  const benchmarks = (s) => data.benchmarks.filter((b) => b.environment === s.environment);
  const benchmark = (s) => byId.get(key(s.environment, s.id));
  const judged = (b) => b.component !== "roofline";

  function filtered(s) {
    const text = (s.text || "").toLowerCase();
    return benchmarks(s).filter((b) =>
      ["component", "type", "size", "device"].every((name) => !s[name] || b[name] === s[name]) &&
      b.id.toLowerCase().includes(text));
  }

  const point = (b, record) => b.points.find((p) => p.record === record);

  function recordName(number) {
    const record = data.records[number];
    const tags = (record.tags || []).join(" ");
    const day = (record.commit_date || record.date || "").slice(0, 10);
    return `${(record.commit || "unknown").slice(0, 10)}${record.dirty ? " (changed)" : ""} ${day} ${tags}`.trim();
  }

  function duration(seconds) {
    if (seconds === undefined || seconds === null || Number.isNaN(seconds)) return "–";
    for (const [scale, unit] of [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]]) {
      if (seconds >= scale) return `${Number((seconds / scale).toPrecision(4))} ${unit}`;
    }
    return `${Number((seconds / 1e-9).toPrecision(4))} ns`;
  }

  const percent = (value) => (value === null || value === undefined ? "–" : `${Math.round(value * 100)} %`);
  const times = (value) => (value === null || value === undefined ? "–" : `${value.toFixed(2)}×`);

  function verdicts(s, before, after) {
    const pairs = benchmarks(s).filter(judged).map((b) => ({
      id: b.id,
      before: (point(b, before) || {}).seconds,
      after: (point(b, after) || {}).seconds,
    })).filter((pair) => pair.before || pair.after);
    return Statistics.compare(pairs, data.level, data.threshold);
  }

  return { data, VIEWS, FILTERS, state, address, change, note, environment, benchmarks, benchmark,
    filtered, point, recordName, duration, percent, times, verdicts };
})();
