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
  const NOUNS = ["regression", "improvement"];

  const mark = (label, text) => h("span", { class: `mark ${label}` }, text || label);
  const several = (count, name) => `${count} ${name}${count === 1 ? "" : "s"}`;
  // Long names break behind their parts, and within one only where it alone is too long.
  const breakable = (name) => name.split(/(?<=[/_,]|\dx)/).flatMap((part, i) => (i ? [h("wbr"), part] : [part]));
  const benchmarkLink = (s, id) =>
    h("a", { href: Model.address({ view: "benchmark", environment: s.environment, id }) }, breakable(id));

  // Wide tables scroll by themselves, with the keyboard too, so that the page never does.
  function table(name, heads, rows) {
    return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name },
      h("table", { id: name.replace(/\W+/g, "-").toLowerCase() },
        h("thead", {}, h("tr", {}, heads.map((head) =>
          h("th", { scope: "col", "aria-sort": head.dataset && head.dataset.sort }, head)))),
        h("tbody", {}, rows)));
  }
  const row = (...cells) => h("tr", {}, cells.map((cell) => h("td", {}, cell)));

  function sortedByWeight(verdicts) {
    return [...verdicts].sort((x, y) => ORDER.indexOf(x.label) - ORDER.indexOf(y.label) ||
      x.id.localeCompare(y.id));
  }

  // A link to the same view with something else chosen; buttons that are pressed or not, without state.
  const choice = (s, id, entries, chosen, text) =>
    h("a", { id, class: "choice", href: Model.address({ ...s, ...entries }), "aria-current": chosen ? "true" : null }, text);

  // --- Overview ---------------------------------------------------------------------------------

  const SPANS = { commit: "last commit", week: "last week", release: "last release" };
  const NO_BASELINE = { commit: "no earlier commit", week: "no earlier week", release: "no earlier release" };

  // Not measured at last, and not meant to be.
  const absent = (s, c) => !c.benchmarks && !Model.asked(Model.lastRecord(s), c.name);

  function spanRow(s, c, span) {
    const counts = c.changes[span];
    const shown = counts && ORDER.filter((label) => counts[label] && label !== "noise")
      .map((label) => mark(label, NOUNS.includes(label) ? several(counts[label], label) : `${counts[label]} ${label}`));
    const none = absent(s, c) ? "not measured" : !counts && NO_BASELINE[span];
    return h("li", {}, h("span", {}, `since ${SPANS[span]}`), none
      ? h("span", { class: "faint" }, none)
      : h("a", { href: Model.address({ environment: s.environment, since: span, component: c.name }) },
        shown.length ? shown : mark("noise")));
  }

  // All components in three lists for each span; one may have got worse and improved too.
  const OUTCOMES = {
    "got worse": (counts) => counts.regression || counts.missing,
    improved: (counts) => counts.improvement,
    noise: (counts) => counts.noise && !counts.regression && !counts.missing && !counts.improvement,
  };
  function glance(s, components) {
    const shown = components.filter((c) => !absent(s, c));
    const since = (span) => h("th", { scope: "row" }, `since ${SPANS[span]}`);
    return table("At a glance", ["", ...Object.keys(OUTCOMES)], Object.keys(SPANS).map((span) => {
      if (!shown.some((c) => c.changes[span])) {
        return h("tr", {}, since(span), h("td", { colspan: "3", class: "faint" }, NO_BASELINE[span]));
      }
      return h("tr", {}, since(span), Object.entries(OUTCOMES).map(([name, holds]) =>
        h("td", { class: name.replace(" ", "-") }, shown.filter((c) => holds(c.changes[span]))
          .flatMap((c, i) => [i ? ", " : null, h("a", { href: Model.address(
            { environment: s.environment, since: span, component: c.name }) }, c.name)]))));
    }));
  }

  // The time of all benchmarks of a component together, record by record: lower is better.
  function sparkline(course) {
    const points = course.map((y, i) => [i, y]).filter(([, y]) => y);
    if (points.length < 2) return null;
    const values = points.map(([, y]) => y);
    // A move of less than 5 % looks small.
    const low = Math.min(...values, 0.975), high = Math.max(...values, 1.025);
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
    line.setAttribute("points", points.map(([x, y]) =>
      `${(x / (course.length - 1)) * 100},${24 - ((y - low) / (high - low)) * 24}`).join(" "));
    for (const [name, value] of Object.entries({ class: "sparkline", viewBox: "-1 -2 102 28", role: "img",
      preserveAspectRatio: "none", "aria-label": `Time over the commits, from ${Model.times(values[0])} of today's` })) {
      svg.setAttribute(name, value);
    }
    svg.append(line);
    return svg;
  }

  function headline(kind, value, text, caption) {
    return h("div", { class: `headline ${kind}` }, h("strong", {}, value), h("span", {}, text),
      h("span", { class: "faint" }, caption));
  }

  function card(s, c) {
    const changes = c.changes.commit || {};
    const worst = ORDER.find((label) => changes[label]) || "noise";
    return h("li", { class: `card ${worst}`, "data-component": c.name },
      h("h3", {},
        h("a", { href: Model.address({ view: "benchmarks", environment: s.environment, component: c.name }) }, c.name),
        h("span", { class: "faint" }, ` ${absent(s, c) ? "not in the last session" : several(c.benchmarks, "benchmark")}`)),
      h("div", { class: "headlines" },
        headline("roofline", Model.percent(c.fraction), "of the roofline",
          c.fractions ? `mean of ${c.fractions}` : c.benchmarks ? "none counts bytes or flops" : "not measured"),
        headline("peer", Model.times(c.ratio), "of the best peer",
          c.ratios ? `mean of ${c.ratios}` : c.benchmarks ? "no peers here" : "not measured")),
      sparkline(c.course),
      h("ul", { class: "spans" }, Object.keys(SPANS).map((span) => spanRow(s, c, span))));
  }

  function missingPeers(s) {
    const missing = Object.entries(data.records[Model.lastRecord(s)].missing);
    if (!missing.length) return null;
    return h("section", {}, h("h2", {}, "Missing from the last session"),
      h("ul", { id: "missing" }, missing.map(([name, reason]) => h("li", {}, `${name}: ${reason}`))));
  }

  // What moved on the machine itself, which the benchmarks' times cannot be blamed for.
  function machineWarning(s, before, after) {
    const moved = Model.machineChanges(s, before, after);
    if (!moved.length) return null;
    return h("p", { class: "warning", id: "machine" },
      "The machine itself was not the same in the two sessions. Time for the same work: ",
      moved.map(([name, ratio]) => `${name} ${Model.times(ratio)}`).join(", "), ".");
  }

  function changeList(s, span) {
    const changes = Model.environment(s).changes[span];
    if (!changes) {
      return h("p", { class: "faint", id: "no-baseline" },
        `There is ${NO_BASELINE[span]} of this machine and build to compare with.`);
    }
    const all = Object.entries(changes.verdicts).map(([id, [label, ratio, p]]) => ({ id, label, ratio, p }))
      .filter((verdict) => !s.component || verdict.id.startsWith(`${s.component}/`));
    const found = sortedByWeight(all.filter((verdict) => verdict.label !== "noise"));
    const last = Model.lastRecord(s);
    return [
      h("p", {}, `Against ${Model.recordName(changes.record)}: ${found.length} of ${all.length} benchmarks changed. `,
        h("a", { href: Model.address({ view: "compare", environment: s.environment, component: s.component,
          before: data.records[changes.record].id, after: data.records[last].id }) }, "Side by side")),
      changes.powerless
        ? h("p", { class: "warning" }, `${changes.powerless} benchmarks have too few repetitions for any verdict but noise.`)
        : null,
      found.length
        ? table("Changes", ["benchmark", "verdict", "time after / before", "p"],
          found.map((v) => row(benchmarkLink(s, v.id), mark(v.label), Model.times(v.ratio), v.p ?? "–")))
        : h("p", { id: "quiet" }, "Nothing changed beyond the noise."),
    ];
  }

  function overview(s) {
    const environment = Model.environment(s);
    const last = data.records[Model.lastRecord(s)];
    const since = Object.hasOwn(SPANS, s.since) ? s.since : "commit";
    return [
      s.unknown
        ? h("p", { class: "warning" }, "The address names a machine and build that is not here; this is another.") : null,
      h("h2", {}, "Components at ", Model.recordName(Model.lastRecord(s))),
      h("p", {}, `${last.subject || ""} (${last.author || "unknown"}; `,
        `measured ${(last.date || "").slice(0, 16).replace("T", " ")} UTC)`),
      glance(s, environment.components),
      environment.changes[since] ? machineWarning(s, environment.changes[since].record, Model.lastRecord(s)) : null,
      h("ul", { id: "components", class: "cards" }, environment.components.map((c) => card(s, c))),
      h("p", { class: "faint" }, "Of the roofline: how much of what one core can copy or compute a benchmark reaches, ",
        "which may be more than 100 % for one that uses several. ",
        "Of the best peer: its time over ours, so above 1 ours is faster. ",
        "Both are geometric means over the benchmarks that have them. ",
        "The line: the time of all benchmarks over the commits; lower is better."),
      h("h2", {}, "Changes", s.component ? ` of ${s.component}` : ""),
      h("p", { class: "choices", id: "since" }, Object.keys(SPANS).map((span) =>
        choice(s, `since-${span}`, { since: span }, span === since, `since ${SPANS[span]}`)),
      s.component ? choice(s, "all-components", { component: "" }, false, "all components") : null),
      changeList(s, since), missingPeers(s),
    ];
  }

  // --- Benchmarks -------------------------------------------------------------------------------

  function filters(s) {
    const all = Model.benchmarks(s);
    return h("form", { class: "filters", onsubmit: (event) => event.preventDefault() },
      Model.FILTERS.map((name) => {
        const values = [...new Set(all.map((b) => b[name]))].sort(name === "size" ? Model.bySize : undefined);
        return h("label", {}, name, " ", h("select", {
          id: `filter-${name}`, onchange: (event) => Model.change({ [name]: event.target.value }),
        }, h("option", { value: "" }, "all"),
        values.map((v) => h("option", { value: v, selected: s[name] === v }, v))));
      }),
      h("label", {}, "name ", h("input", {
        id: "filter-text", type: "search", value: s.text || "",
        oninput: (event) => Model.replace({ text: event.target.value }),
      })));
  }

  // Columns by which the list can be sorted, each with what it sorts by; what is unknown comes last.
  const COLUMNS = {
    benchmark: (r) => r.b.id,
    time: (r) => r.seconds,
    "since last commit": (r) => (r.label ? ORDER.indexOf(r.label) : null),
    "of the roofline": (r) => r.point && r.point.fraction,
    "of the best peer": (r) => r.peer,
    type: (r) => r.b.type, size: (r) => Model.SIZES.indexOf(r.b.size), device: (r) => r.b.device,
  };

  function sorted(rows, sort) {
    const name = sort.replace(/^-/, "");
    const of = COLUMNS[Object.hasOwn(COLUMNS, name) ? name : "benchmark"];
    const sign = sort.startsWith("-") ? -1 : 1;
    const lacks = (value) => value === null || value === undefined;
    return [...rows].sort((x, y) => {
      const a = of(x), b = of(y);
      if (lacks(a) || lacks(b)) return lacks(a) - lacks(b);
      return sign * (a < b ? -1 : a > b ? 1 : 0);
    });
  }

  function sortHead(s, name) {
    const [now, back] = [s.sort === name, s.sort === `-${name}`];
    return h("a", { id: `sort-${name.replaceAll(" ", "-")}`, class: "sort", "data-sort": now ? "ascending" : back ? "descending" : null,
      href: Model.address({ ...s, sort: now ? `-${name}` : back ? "" : name }) }, name);
  }

  function benchmarkList(s) {
    const changes = Model.environment(s).changes.commit;
    const last = Model.lastRecord(s);
    const found = Model.filtered(s).map((b) => {
      // What an earlier session measured is not what is true now.
      const point = Model.point(b, last);
      const [label] = (changes && changes.verdicts[b.id]) ||
        [point || !Model.asked(last, b.component) ? null : "missing"];
      return { b, point, label, seconds: point && Statistics.median(point.seconds), peer: point && Model.bestPeer(point) };
    });
    const rows = sorted(found, s.sort || "benchmark").map(({ b, point, label, seconds, peer }) => row(
      benchmarkLink(s, b.id), point ? Model.duration(seconds) : "not measured", label ? mark(label) : "–",
      Model.percent(point && point.fraction), Model.times(peer), b.type, b.size, b.device));
    return [filters(s), h("p", { id: "count", "aria-live": "polite" }, several(found.length, "benchmark")),
      found.length
        ? table("Benchmarks", Object.keys(COLUMNS).map((name) => sortHead(s, name)), rows)
        : h("p", {}, "No benchmark passes these filters. ",
          h("a", { href: Model.address({ view: "benchmarks", environment: s.environment }) }, "Show all"))];
  }

  // --- One benchmark ----------------------------------------------------------------------------

  function pointText(benchmark, index) {
    if (index === null) return "Point at the chart, or move through it with the arrow keys; drag or + and − zoom.";
    const point = benchmark.points[index];
    const record = data.records[point.record];
    const median = Model.duration(Statistics.median(point.seconds));
    const band = [0.25, 0.75].map((q) => Model.duration(Statistics.quantile(point.seconds, q))).join(" to ");
    const peer = Model.bestPeer(point);
    return `${(record.commit || "unknown").slice(0, 12)}${record.dirty ? " with local changes" : ""}` +
      ` · ${record.author} · ${(record.commit_date || record.date).slice(0, 16).replace("T", " ")}` +
      ` · ${median} (${band})${point.fraction ? ` · ${Model.percent(point.fraction)} of the roofline` : ""}` +
      `${peer ? ` · best peer ${Model.times(peer)}` : ""} · ${record.subject}`;
  }

  // The three fastest; the table below has all.
  function peersText(point) {
    const named = Object.entries(point.peers).sort(([, x], [, y]) => x - y)
      .map(([name, t]) => `${name} ${Model.duration(t)}`);
    return named.slice(0, 3).join(", ") + (named.length > 3 ? `, ${named.length - 3} slower` : "");
  }

  function summary(s, benchmark) {
    const point = Model.point(benchmark, Model.lastRecord(s));
    if (!point) {
      return h("p", { class: "warning", id: "stale" }, "Not measured in the last session; last in ",
        Model.recordName(benchmark.points.at(-1).record), ".");
    }
    const changes = Model.environment(s).changes;
    const rates = Object.entries(benchmark.work || {}).map(([unit, amount]) =>
      Model.rate(amount / Statistics.median(point.seconds), unit));
    return h("div", { class: "headlines" },
      headline("time", Model.duration(Statistics.median(point.seconds)), "median", `${point.seconds.length} repetitions`),
      rates.length ? headline("work", rates[0], "throughput", rates.slice(1).join(", ")) : null,
      point.fraction ? headline("roofline", Model.percent(point.fraction), "of the roofline", "one core’s limit") : null,
      Model.bestPeer(point) ? headline("peer", Model.times(Model.bestPeer(point)), "of the best peer",
        peersText(point)) : null,
      Object.keys(SPANS).filter((span) => changes[span] && changes[span].verdicts[benchmark.id]).map((span) => {
        const [label, ratio] = changes[span].verdicts[benchmark.id];
        return headline("since", mark(label), `since ${SPANS[span]}`, ratio ? `${Model.times(ratio)} the time` : "");
      }));
  }

  function benchmarkView(s) {
    const benchmark = Model.benchmark(s);
    if (!benchmark) return [h("p", { id: "unknown" }, `No benchmark ${s.id} on this machine and build.`)];
    const info = h("p", { id: "point", "aria-live": "polite" }, pointText(benchmark, null));
    const chart = h("div", { id: "chart", tabindex: "0", role: "application",
      "aria-label": "History: arrow keys move, plus and minus zoom, 0 shows everything" });
    const metrics = Chart.metricsOf(benchmark), peers = Chart.peersOf(benchmark);
    const metric = metrics.includes(s.metric) ? s.metric : "time";
    const withPeers = s.peers === "1" && metric === "time";
    const toggle = (id, name, text) => h("button", { id, type: "button", "aria-pressed": String(s[name] === "1"),
      onclick: () => Model.change({ [name]: s[name] === "1" ? "" : "1" }) }, text);
    const rows = benchmark.points.map((point) => row(
      Model.recordName(point.record), data.records[point.record].author,
      Model.duration(Statistics.median(point.seconds)), Model.percent(point.fraction),
      Object.entries(point.peers).map(([name, t]) => `${name} ${Model.duration(t)}`).join(", ") || "–",
      data.records[point.record].subject)).reverse();
    const content = [
      h("h2", {}, breakable(benchmark.id)), summary(s, benchmark),
      h("div", { class: "buttons" },
        h("label", {}, "Show ", h("select", {
          id: "metric", onchange: (event) => Model.change({ metric: event.target.value }),
        }, metrics.map((name) => h("option", { value: name, selected: name === metric }, Chart.METRICS[name].title)))),
        toggle("log", "log", "Log scale"),
        peers.length && metric === "time" ? toggle("peers", "peers", "Peers") : null,
        h("button", { id: "closer", type: "button", "aria-label": "Zoom in", onclick: () => Chart.zoom(0.5) }, "+"),
        h("button", { id: "farther", type: "button", "aria-label": "Zoom out", onclick: () => Chart.zoom(2) }, "−"),
        h("button", { id: "everything", type: "button", onclick: () => Chart.everything() }, "Show everything"),
        h("a", { href: Model.address({ view: "raw", environment: s.environment, text: benchmark.id }) }, "Raw data")),
      info, chart,
      withPeers ? h("p", { id: "legend" }, Chart.looks(peers).map(({ line, colour }, i) =>
        h("span", {}, h("i", { style: `border-top: .2rem ${line} ${colour}` }), ["ours", ...peers][i]))) : null,
      h("p", { class: "faint" }, "Medians with a band from the first to the third quartile; upright lines are releases, ",
        "hollow points records with local changes."),
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
    const pick = (id, fallback) => (records.includes(Model.recordNumber(id)) ? Model.recordNumber(id) : fallback);
    const before = pick(s.before, records.at(-2)), after = pick(s.after, records.at(-1));
    const lost = ["before", "after"].filter((name) => s[name] && !records.includes(Model.recordNumber(s[name])));
    const id = (number) => data.records[number].id;
    const select = (name, chosen) => h("label", {}, name, " ", h("select", {
      id: name, onchange: (event) => Model.change({ before: id(before), after: id(after), [name]: event.target.value }),
    }, records.map((r) => h("option", { value: id(r), selected: r === chosen }, Model.recordName(r)))));
    const shown = new Set(Model.filtered(s).map((b) => b.id));
    const verdicts = sortedByWeight(Model.verdicts(s, before, after)).filter((v) => shown.has(v.id));
    const counts = ORDER.map((label) => `${verdicts.filter((v) => v.label === label).length} ${label}`);
    return [
      h("h2", {}, "Two commits side by side"),
      lost.length
        ? h("p", { class: "warning" }, `This machine and build has no such record as the address names: ${lost.join(", ")}.`)
        : null,
      h("form", { class: "filters" }, select("before", before), select("after", after)),
      h("p", { class: "faint" },
        [before, after].map((r) => `${data.records[r].author}: ${data.records[r].subject}`).join(" → ")),
      filters(s), machineWarning(s, before, after),
      h("p", { id: "counts" }, counts.join(", ")),
      table("Comparison", ["benchmark", "before", "after", "after / before", "U", "p", "verdict"],
        verdicts.map((v) => row(benchmarkLink(s, v.id), Model.duration(v.before), Model.duration(v.after),
          v.before && v.after ? Model.times(v.after / v.before) : "–", v.u ?? "–",
          v.p === undefined ? "–" : v.p.toPrecision(2), mark(v.label)))),
    ];
  }

  // --- Raw data ---------------------------------------------------------------------------------

  const RAW_HEADS = ["benchmark", "seconds", "repetition", "commit", "local changes", "author", "commit_date", "date",
    "type", "size", "device"];
  const SHOWN_LENGTH = { commit: 10, commit_date: 16, date: 16 }; // of characters, in the table

  function* rawRows(s) {
    for (const b of Model.filtered(s)) {
      for (const point of b.points) {
        const r = data.records[point.record];
        for (const [repetition, seconds] of point.seconds.entries()) {
          yield [b.id, seconds, repetition, r.commit, Boolean(r.dirty), r.author, r.commit_date, r.date,
            b.type, b.size, b.device];
        }
      }
    }
  }

  function csvOf(rows) {
    const cell = (value) => (/[",\r\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value ?? ""));
    return rows.map((cells) => cells.map(cell).join(",") + "\r\n").join("");
  }

  function rawView(s) {
    const rows = [...rawRows(s)];
    const shown = rows.slice(-500);
    const csv = () => csvOf([RAW_HEADS, ...rows]);
    const json = () => JSON.stringify(rows.map((cells) =>
      Object.fromEntries(cells.map((cell, i) => [RAW_HEADS[i], cell]))));
    // A link, so that it works like any other with the keyboard too; what it leads to is made when it is asked for.
    const link = (text, type, name) => h("a", { id: name.replace(".", "-"), class: "download", download: name, href: "#",
      onclick: (event) => {
        const blob = URL.createObjectURL(new Blob([text()], { type }));
        event.currentTarget.href = blob;
        setTimeout(() => URL.revokeObjectURL(blob), 60000);
      } }, `Download ${name}`);
    return [filters(s),
      h("p", {}, `${rows.length} times; `, rows.length > shown.length ? "the last 500 are shown. " : "",
        link(csv, "text/csv", "benchmarks.csv"), " ", link(json, "application/json", "benchmarks.json")),
      table("Raw data", RAW_HEADS, shown.map((cells) => row(...cells.map((cell, i) =>
        breakable(String(cell ?? "").slice(0, SHOWN_LENGTH[RAW_HEADS[i]]))))))];
  }

  return { overview, benchmarks: benchmarkList, benchmark: benchmarkView, compare: compareView, raw: rawView };
})();
