// One benchmark's history: medians with a band from the first to the third quartile. Drag to zoom;
// with the keyboard, arrows move from point to point, + and - zoom, 0 shows everything.
"use strict";

const Chart = (() => {
  let current = null;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Columns: place in the history, then [first quartile, median, third quartile].
  function rows(benchmark) {
    return benchmark.points.map((point, i) => [i, [
      Statistics.quantile(point.seconds, 0.25),
      Statistics.median(point.seconds),
      Statistics.quantile(point.seconds, 0.75),
    ]]);
  }

  function visibleRange(s, count) {
    const [from, to] = (s.zoom || "").split("..").map(Number);
    return Number.isFinite(from) && Number.isFinite(to) && from < to
      ? [from, to] : [-0.5, Math.max(count - 0.5, 0.5)];
  }

  // Draws into `place`; `onPoint(index or null)` follows what the pointer or the keys are on.
  function draw(place, benchmark, s, onPoint) {
    const count = benchmark.points.length;
    const hash = (i) => Number.isInteger(i) && benchmark.points[i]
      ? (Model.data.records[benchmark.points[i].record].commit || "").slice(0, 7) : "";
    const graph = new Dygraph(place, rows(benchmark), {
      labels: ["commit", "time"],
      customBars: true,
      logscale: s.log === "1",
      drawPoints: true,
      pointSize: 4,
      highlightCircleSize: 6,
      strokeWidth: 1.5,
      fillAlpha: 0.25,
      colors: [colour("--series")],
      axisLineColor: colour("--faint"),
      gridLineColor: colour("--line"),
      dateWindow: visibleRange(s, count),
      legend: "never",
      axes: {
        x: {
          ticker: (from, to) => {
            const first = Math.max(0, Math.ceil(from)), last = Math.min(count - 1, Math.floor(to));
            const step = Math.max(1, Math.ceil((last - first + 1) / Math.max(2, place.clientWidth / 90)));
            const ticks = [];
            for (let i = first; i <= last; i += step) ticks.push({ v: i, label: hash(i) });
            return ticks;
          },
          valueFormatter: hash,
          axisLabelWidth: 72,
        },
        y: { axisLabelFormatter: (seconds) => Model.duration(seconds), axisLabelWidth: 74 },
      },
      highlightCallback: (_event, _x, _points, row) => onPoint(row),
      unhighlightCallback: () => onPoint(null),
      zoomCallback: (from, to) => {
        const everything = graph && !graph.isZoomed("x");
        Model.note({ zoom: everything ? "" : `${from.toFixed(2)}..${to.toFixed(2)}` });
      },
    });
    current = { graph, place, count, onPoint, selected: null };
    place.onkeydown = onKey;
    return graph;
  }

  function show(window) {
    current.graph.updateOptions({ dateWindow: window });
    const all = window[0] <= -0.5 && window[1] >= current.count - 0.5;
    Model.note({ zoom: all ? "" : `${window[0].toFixed(2)}..${window[1].toFixed(2)}` });
  }

  const everything = () => show([-0.5, Math.max(current.count - 0.5, 0.5)]);

  function zoom(factor) {
    const [from, to] = current.graph.xAxisRange();
    const middle = current.selected === null ? (from + to) / 2 : current.selected;
    const half = Math.max(0.5, ((to - from) / 2) * factor);
    show([Math.max(-0.5, middle - half), Math.min(current.count - 0.5, middle + half)]);
  }

  function select(index) {
    current.selected = Math.min(Math.max(index, 0), current.count - 1);
    current.graph.setSelection(current.selected);
    current.onPoint(current.selected);
  }

  function onKey(event) {
    const last = current.count - 1;
    const at = current.selected;
    const actions = {
      ArrowRight: () => select(at === null ? 0 : at + 1),
      ArrowLeft: () => select(at === null ? last : at - 1),
      Home: () => select(0),
      End: () => select(last),
      "+": () => zoom(0.5),
      "=": () => zoom(0.5),
      "-": () => zoom(2),
      0: everything,
      Escape: everything,
    };
    if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    actions[event.key]();
  }

  function remove() {
    if (current) current.graph.destroy();
    current = null;
  }

  return { draw, everything, remove, range: () => current && current.graph.xAxisRange(),
    isLog: () => Boolean(current && current.graph.getOption("logscale")) };
})();
