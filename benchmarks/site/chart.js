// One benchmark's history: medians with a band from the first to the third quartile. Drag to zoom;
// with the keyboard, arrows move from point to point, + and - zoom, 0 shows everything. A finger that
// moves along the chart tells the points below it; zooming has buttons.
"use strict";

const Chart = (() => {
  let current = null;

  // What can be drawn: `of` gives the value of a point for one of its times.
  const METRICS = {
    time: { title: "time of one run", text: Model.duration, of: (_point, seconds) => seconds },
    roofline: { title: "share of the roofline", text: Model.percent,
      of: (point, seconds) => point.fraction && (point.fraction * Statistics.median(point.seconds)) / seconds },
    peer: { title: "speed over the best peer's", text: Model.times,
      of: (point, seconds) => Model.bestPeer(point) &&
        (Model.bestPeer(point) * Statistics.median(point.seconds)) / seconds },
  };
  const metricsOf = (benchmark) => Object.keys(METRICS).filter((name) =>
    benchmark.points.some((point) => METRICS[name].of(point, 1)));
  const peersOf = (benchmark) =>
    [...new Set(benchmark.points.flatMap((point) => Object.keys(point.peers)))].sort();

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  // The peers' colours are Okabe and Ito's, which colour-blind people tell apart; when they are used up they
  // begin anew with other lines.
  const COLOURS = ["#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9"];
  const LINES = [["solid", null], ["dashed", [7, 4]], ["dotted", [2, 3]]];
  // Ours, and then each peer's.
  function looks(peers) {
    const look = (own, [line, pattern]) => ({ colour: own, line, pattern });
    return [look(colour("--series"), LINES[0]), ...peers.map((_name, i) =>
      look(COLOURS[i % COLOURS.length], LINES[Math.floor(i / COLOURS.length) % LINES.length]))];
  }

  // dygraphs keeps fingers to itself: a tap tells nothing, and no page scrolls from there.
  const { touchstart, touchmove, touchend, ...mouseAlone } = Dygraph.defaultInteractionModel;

  function followFinger(event) {
    if (event.touches.length !== 1) return;
    const { graph, place } = current;
    select(Math.round(graph.toDataXCoord(event.touches[0].clientX - place.getBoundingClientRect().left)));
  }

  // Columns: place in the history, then [first quartile, median, third quartile], then peers' medians.
  function rows(benchmark, metric, peers) {
    return benchmark.points.map((point, i) => {
      const band = [0.25, 0.5, 0.75]
        .map((share) => metric.of(point, Statistics.quantile(point.seconds, share)) || null)
        .sort((x, y) => x - y);
      return [i, band, ...peers.map((name) => Array(3).fill(point.peers[name] ?? null))];
    });
  }

  function visibleRange(s, count) {
    const [from, to] = (s.zoom || "").split("..").map(Number);
    return Number.isFinite(from) && Number.isFinite(to) && from < to
      ? [from, to] : [-0.5, Math.max(count - 0.5, 0.5)];
  }

  // Draws into `place`; `onPoint(index or null)` follows what the pointer or the keys are on.
  function draw(place, benchmark, s, onPoint) {
    const count = benchmark.points.length;
    const record = (i) => Model.data.records[benchmark.points[i].record];
    const hash = (i) => (Number.isInteger(i) && benchmark.points[i] ? (record(i).commit || "").slice(0, 7) : "");
    const name = metricsOf(benchmark).includes(s.metric) ? s.metric : "time";
    const metric = METRICS[name];
    const peers = s.peers === "1" && name === "time" ? peersOf(benchmark) : [];
    const labels = ["ours", ...peers.map((peer) => `peer ${peer}`)];
    const graph = new Dygraph(place, rows(benchmark, metric, peers), {
      labels: ["commit", ...labels],
      series: Object.fromEntries(looks(peers).map(({ colour: color, pattern: strokePattern }, i) =>
        [labels[i], { color, strokePattern }])),
      customBars: true,
      logscale: s.log === "1",
      drawPoints: true,
      pointSize: 3,
      highlightCircleSize: 6,
      strokeWidth: 1.5,
      fillAlpha: 0.25,
      axisLineColor: colour("--faint"),
      gridLineColor: colour("--line"),
      dateWindow: visibleRange(s, count),
      legend: "never",
      interactionModel: mouseAlone,
      ylabel: metric.title,
      xlabel: "commit",
      // A record with local changes is hollow: nobody has that commit.
      drawPointCallback: (_graph, _series, canvas, x, y, color, size, index) => {
        canvas.beginPath();
        canvas.fillStyle = record(index).dirty ? colour("--back") : color;
        canvas.strokeStyle = color;
        canvas.arc(x, y, size, 0, 2 * Math.PI);
        canvas.fill();
        canvas.stroke();
      },
      // Releases.
      underlayCallback: (canvas, area, chart) => {
        canvas.save();
        canvas.fillStyle = canvas.strokeStyle = colour("--faint");
        canvas.font = "12px sans-serif";
        canvas.setLineDash([4, 4]);
        benchmark.points.forEach((_point, i) => {
          const x = chart.toDomXCoord(i);
          if (!(record(i).tags || []).length || x < area.x || x > area.x + area.w) return;
          canvas.beginPath();
          canvas.moveTo(x, area.y);
          canvas.lineTo(x, area.y + area.h);
          canvas.stroke();
          canvas.fillText(record(i).tags.join(" "), x + 4, area.y + 12);
        });
        canvas.restore();
      },
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
        y: { axisLabelFormatter: (value) => metric.text(value), axisLabelWidth: 74 },
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
    for (const kind of ["touchstart", "touchmove"]) place.addEventListener(kind, followFinger, { passive: true });
    return graph;
  }

  function show(window) {
    current.graph.updateOptions({ dateWindow: window });
    const all = window[0] <= -0.5 && window[1] >= current.count - 0.5;
    Model.note({ zoom: all ? "" : `${window[0].toFixed(2)}..${window[1].toFixed(2)}` });
  }

  const everything = () => show([-0.5, Math.max(current.count - 0.5, 0.5)]);

  // Around what is selected, as far as there are records on both sides.
  function zoom(factor) {
    const [from, to] = current.graph.xAxisRange();
    const middle = current.selected === null ? (from + to) / 2 : current.selected;
    const width = Math.min(Math.max(1, (to - from) * factor), Math.max(current.count, 1));
    const left = Math.min(Math.max(-0.5, middle - width / 2), current.count - 0.5 - width);
    show([left, left + width]);
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

  return { METRICS, metricsOf, peersOf, looks, draw, everything, zoom, remove,
    range: () => current && current.graph.xAxisRange(),
    isLog: () => Boolean(current && current.graph.getOption("logscale")) };
})();
