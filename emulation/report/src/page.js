"use strict";
// Draws the sections for the reader's choices. All figures come from the data; this program only
// computes positions.

const data = JSON.parse(document.getElementById("data").textContent);
const { board, metrics, series } = data;
const at = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const HEAT_ROWS = 60;
const COLOURS = 6;

// ---- small things ------------------------------------------------------------------------------

function element(name, attributes, ...children) {
  const it = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) it.setAttribute(key, value);
  it.append(...children);
  return it;
}

function shape(name, attributes, text) {
  const it = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) it.setAttribute(key, value);
  if (text !== undefined) it.textContent = text;
  return it;
}

function figure(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size >= 100 || value === 0) return value.toFixed(0);
  return size >= 10 ? value.toFixed(1) : value.toFixed(2);
}

// The text of a tick, without trailing zeros.
const tickText = (value) => `${Number(value.toPrecision(6))}`;

function spread(interval, factor) {
  const middle = figure(interval.middle * factor);
  // Where nothing varied there is no interval.
  if (!interval.bounds || interval.bounds[0] === interval.bounds[1]) return middle;
  const [low, high] = interval.bounds.map((it) => figure(it * factor));
  return `${middle} (${low} to ${high})`;
}

function table(columns, rows) {
  const head = columns.map((it) => it instanceof Node ? it : element("th", { scope: "col" }, it));
  const body = rows.map(({ cells, chosen }) => {
    const row = element("tr", chosen ? { class: "chosen" } : {});
    cells.forEach((cell, place) => {
      const it = cell instanceof Node ? cell : place === 0
        ? element("th", { scope: "row" }, cell)
        : element("td", {}, cell);
      row.append(it);
    });
    return row;
  });
  return element("table", {}, element("thead", {}, element("tr", {}, ...head)),
    element("tbody", {}, ...body));
}

// ---- what is chosen ----------------------------------------------------------------------------

const slice = () => board.slices.find((it) => it.label === at("slice").value);
const chosen = () => at("arm").value;
const driverAt = (name) => board.drivers.indexOf(name);

// The values of an arm's metric in the chosen environments, ascending.
function values(driver, metric) {
  const { key, factor, least } = metric;
  const [inside, column] = [new Set(slice().environments), driverAt(driver)];
  const places = board.ascending[metrics.indexOf(metric)][column].filter((it) => inside.has(it));
  return places.map((it) => Math.max(board.cells[it][column][key] * factor, least ?? -Infinity));
}

const labelOf = (key) => metrics.find((it) => it.key === key).label;

// The arms that are highlighted: the best ones and the chosen one, at most as many as colours.
function marked() {
  const names = slice().ranks.slice(0, COLOURS - 1).map((rank) => rank.driver);
  return chosen() && !names.includes(chosen()) ? [...names, chosen()] : names;
}

// The colour of an arm: its own if it is highlighted, otherwise grey.
function colour(name) {
  const place = marked().indexOf(name);
  return place < 0 ? "var(--soft)" : `var(--c${place})`;
}

function fillControls() {
  const groups = { all: null, path: "Kinds of path", group: "Groups", suite: "Suites" };
  const made = {};
  board.slices.forEach((it) => {
    const label = `${it.label} (${it.environments.length})`;
    const option = element("option", { value: it.label }, label);
    if (!groups[it.by]) return at("slice").append(option);
    made[it.by] ??= at("slice").appendChild(element("optgroup", { label: groups[it.by] }));
    made[it.by].append(option);
  });
  at("arm").append(element("option", { value: "" }, "all"));
  board.drivers.forEach((name) => at("arm").append(element("option", { value: name }, name)));
  metrics.forEach((it) => {
    at("metric").append(element("option", { value: it.name }, it.label));
  });
  const draws = { slice: drawAll, arm: drawAll, metric: drawDistributions, order: drawHeat,
    run: drawSeries };
  for (const [id, draw] of Object.entries(draws)) {
    at(id)?.addEventListener("change", () => {
      draw();
      remember();
    });
  }
  at("more").addEventListener("click", () => {
    allRows = true;
    drawHeat();
    remember();
  });
}

// ---- links -------------------------------------------------------------------------------------

// The address stores each choice that is not the first option, so a link shows what its sender saw.
// A value that is not among the options is ignored.
const CHOICES = { paths: "slice", arm: "arm", metric: "metric", order: "order", run: "run" };
const sections = [...document.querySelectorAll("nav a")].map((it) => it.hash.slice(1));
let section = "";
let allRows = false;
let isDrawn = false;

function remember() {
  const said = new URLSearchParams();
  if (section) said.set("at", section);
  for (const [name, id] of Object.entries(CHOICES)) {
    if (at(id)?.selectedIndex > 0) said.set(name, at(id).value);
  }
  if (allRows) said.set("rows", "all");
  const [page] = location.href.split("#");
  history.replaceState(null, "", said.size > 0 ? `${page}#${said}` : page);
}

function choose(said) {
  section = sections.find((it) => it === said.get("at")) ?? "";
  for (const [name, id] of Object.entries(CHOICES)) {
    const options = [...(at(id)?.options ?? [])];
    const place = options.findIndex((it) => it.value === said.get(name));
    if (at(id)) at(id).selectedIndex = Math.max(place, 0);
  }
  allRows = said.get("rows") === "all";
}

function recall() {
  const text = location.hash.slice(1);
  // A link to a section of this page keeps the choices.
  const stays = sections.includes(text);
  if (stays) section = text;
  else choose(new URLSearchParams(text));
  if (!stays || !isDrawn) {
    drawAll();
    drawSeries();
    isDrawn = true;
  }
  remember();
  if (section) at(section).scrollIntoView();
}

// ---- ranking -----------------------------------------------------------------------------------

// The arm that is best on average can be behind in the median. If the next arm has almost no merit,
// the lead is a large factor.
function lead({ middle, bounds }) {
  if (middle > 10) return `ahead of it by a factor of ${figure(middle + 1)}`;
  if (middle >= 0) return `${spread({ middle, bounds }, 100)} % ahead of it`;
  const range = bounds ? ` (${figure(-bounds[1] * 100)} to ${figure(-bounds[0] * 100)})` : "";
  return `${figure(-middle * 100)}${range} % behind it`;
}

function drawRanking() {
  const { ranks, label } = slice();
  const [first, second] = ranks;
  let text = `On ${label}, ${first.driver} is best: it misses ${spread(first.regret, 100)} % of ` +
    `the best of each environment on average, and wins ${first.wins} of ${first.environments}.`;
  if (second) {
    text += ` Next is ${second.driver}, missing ${spread(second.regret, 100)} %; in the median ` +
      `environment ${first.driver} is ${lead(first.ahead)}.`;
    const [low] = first.ahead.bounds || [0];
    if (!first.ahead.bounds) text += " These are too few environments and seeds to be sure.";
    else if (low <= 0) text += " So one may be as good as the other.";
  }
  at("sentence").textContent = text;
  const columns = ["arm", "misses of the best, %", "by the merit of b1bd1fe, %", "wins", "ahead of the next, %",
    "misses of the best fixed arm, %", "misses of the oracle, %", "of the link, %",
    "p95 queueing, ms", "sent again, %", "starved", "starves others"];
  const rows = ranks.map((rank) => ({
    chosen: rank.driver === chosen(),
    cells: [rank.driver, spread(rank.regret, 100), spread(rank.former_regret, 100), `${rank.wins}`, spread(rank.ahead, 100),
      spread(rank.regret_to_fixed, 100), spread(rank.regret_to_oracle, 100),
      spread(rank.utilisation, 100),
      spread(rank.queueing_p95_ms, 1), spread(rank.retransmitted_percent, 1),
      `${rank.starved[0]}`, `${rank.starved[1]}`],
  }));
  at("ranks").replaceChildren(table(columns, rows));
}

// ---- plots -------------------------------------------------------------------------------------

// A plot as wide as its place, so that letters keep their size.
function sized(id, height) {
  const width = Math.min(Math.max(at(id).clientWidth - 22, 300), 1140);
  return { width, height, left: 58, right: 16, top: 14, bottom: 46 };
}

function scale([low, high], [from, to], log) {
  const of = log ? Math.log10 : (it) => it;
  const span = of(high) - of(low) || 1;
  return (value) => from + ((of(value) - of(low)) / span) * (to - from);
}

function ticks([low, high], log) {
  if (log) {
    const all = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high) + 1; power++) {
      for (const digit of [1, 2, 5]) all.push(digit * 10 ** power);
    }
    return all.filter((it) => it >= low * 0.999 && it <= high * 1.001);
  }
  const rough = (high - low) / 5 || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((it) => it * power).find((it) => it >= rough);
  const all = [];
  for (let it = Math.ceil(low / step) * step; it <= high + step / 1e6; it += step) all.push(it);
  return all;
}

function frame(size, label) {
  const box = `0 0 ${size.width} ${size.height}`;
  return shape("svg", { viewBox: box, role: "img", "aria-label": label });
}

function axes(svg, size, x, y) {
  const { left, top, width, height, right, bottom } = size;
  for (const tick of ticks(x.range, x.log)) {
    const place = x.of(tick);
    const line = { class: "grid", x1: place, x2: place, y1: top, y2: height - bottom };
    svg.append(shape("line", line));
    const text = { class: "mid", x: place, y: height - bottom + 16 };
    svg.append(shape("text", text, tickText(tick)));
  }
  for (const tick of ticks(y.range, y.log)) {
    const place = y.of(tick);
    svg.append(shape("line", { class: "grid", x1: left, x2: width - right, y1: place, y2: place }));
    svg.append(shape("text", { class: "end", x: left - 6, y: place + 4 }, tickText(tick)));
  }
  const middle = (left + width - right) / 2;
  svg.append(shape("text", { class: "mid", x: middle, y: height - 8 }, x.label));
  const turned = `rotate(-90 14 ${(top + height - bottom) / 2})`;
  const sideways = { class: "mid", x: 14, y: (top + height - bottom) / 2, transform: turned };
  svg.append(shape("text", sideways, y.label));
}

function axis(range, pixels, label, log) {
  return { range, label, log, of: scale(range, pixels, log) };
}

function ellipse(of, x, y) {
  // The half axes and the angle, in pixels, from the covariance.
  const perX = x.of(10 ** (of.x + 1)) - x.of(10 ** of.x);
  const perY = y.of(of.y + 1) - y.of(of.y);
  const [a, b, c] = of.ellipse;
  const [xx, yy, xy] = [a * perX * perX, b * perY * perY, c * perX * perY];
  const middle = (xx + yy) / 2;
  const apart = Math.hypot((xx - yy) / 2, xy);
  const [rx, ry] = [middle + apart, Math.max(middle - apart, 0)].map(Math.sqrt);
  const turn = (0.5 * Math.atan2(2 * xy, xx - yy) * 180) / Math.PI;
  const [cx, cy] = [x.of(10 ** of.x), y.of(of.y)];
  const transform = `rotate(${turn} ${cx} ${cy})`;
  return { cx, cy, rx: rx.toFixed(1), ry: ry.toFixed(1), transform };
}

// The approximate width of a letter and the height of a line, in pixels.
const LETTER = 7;
const LINE = 13;

// A free place for a name: beside its dot, or as near to the dot as possible.
function placed(name, [cx, cy], size, taken) {
  const width = LETTER * name.length;
  const bottom = size.height - size.bottom;
  const isFree = ([a, b, c, d]) => a >= size.left && c <= size.width && b >= size.top &&
    d <= bottom && !taken.some(([e, f, g, h]) => a < g && e < c && b < h && f < d);
  for (let step = 0; step < 60; step++) {
    const shift = (step * LINE) / 2;
    for (const [left, middle] of [[cx + 7, cy + shift], [cx - 7 - width, cy + shift],
      [cx + 7, cy - shift], [cx - 7 - width, cy - shift]]) {
      const box = [left, middle - LINE / 2, left + width, middle + LINE / 2];
      if (isFree(box)) {
        taken.push(box);
        return [left, middle];
      }
    }
  }
  return [Math.min(cx + 7, size.width - width), cy];
}

function drawScatter() {
  const clouds = slice().clouds.map((it) => ({ name: it.driver, x: it.delay_log10_ms,
    y: it.utilisation_percent, ellipse: it.ellipse }));
  if (clouds.length === 0) {
    const text = "None of these environments has a capacity limit.";
    at("scatter-plot").replaceChildren(text);
    return;
  }
  const size = sized("scatter-plot", 420);
  const xs = clouds.map((it) => it.x);
  const ys = clouds.map((it) => it.y);
  const low = Math.max(0, Math.floor((Math.min(...ys) - 4) / 5) * 5);
  const x = axis([10 ** (Math.min(...xs) - 0.12), 10 ** (Math.max(...xs) + 0.2)],
    [size.left, size.width - size.right], `${labelOf("queueing_p95_ms")}, logarithmic`, true);
  const y = axis([low, Math.max(...ys) + 3], [size.height - size.bottom, size.top],
    labelOf("utilisation"));
  const svg = frame(size, `Throughput and delay of ${clouds.length} arms on ${slice().label}`);
  const clip = shape("clipPath", { id: "inside" });
  clip.append(shape("rect", { x: size.left, y: size.top, width: size.width - size.left - size.right,
    height: size.height - size.top - size.bottom }));
  // The clip is on a group around the ellipses, because a rotated element rotates its own clip too.
  const clipped = shape("g", { "clip-path": "url(#inside)" });
  svg.append(clip);
  axes(svg, size, x, y);
  svg.append(clipped);
  for (const of of clouds.filter((it) => marked().includes(it.name))) {
    const style = `--c: ${colour(of.name)}`;
    clipped.append(shape("ellipse", { class: "ellipse", style, ...ellipse(of, x, y) }));
  }
  const dots = clouds.map((of) => [x.of(10 ** of.x), y.of(of.y)]);
  const taken = dots.map(([cx, cy]) => [cx - 4, cy - 4, cx + 4, cy + 4]);
  clouds.forEach((of, place) => {
    const [name, [cx, cy]] = [of.name, dots[place]];
    const dot = shape("circle", { class: "dot", style: `--c: ${colour(name)}`, cx, cy, r: 4 });
    dot.append(shape("title", {}, `${name}: ${figure(of.y)} %, ${figure(10 ** of.x)} ms`));
    svg.append(dot);
    const [left, middle] = placed(name, dots[place], size, taken);
    if (Math.abs(middle - cy) > 14) {
      const near = left > cx ? left : left + LETTER * name.length;
      svg.append(shape("line", { class: "leader", x1: cx, y1: cy, x2: near, y2: middle }));
    }
    const kind = name === chosen() ? "chosen" : marked().includes(name) ? "" : "other";
    svg.append(shape("text", { class: `name ${kind}`, x: left, y: middle + 4 }, name));
  });
  at("scatter-plot").replaceChildren(svg);
}

function legend(names) {
  const items = names.map((name) => element("li", {},
    element("i", { style: `--c: ${colour(name)}` }), name));
  return element("ul", { class: "legend" }, ...items);
}

function drawDistributions() {
  const metric = metrics.find((it) => it.name === at("metric").value);
  const log = metric.least !== null;
  const lines = marked().map((name) => ({ name, all: values(name, metric) }))
    .filter((it) => it.all.length > 0);
  if (lines.length === 0) {
    at("cdf-plot").replaceChildren("None of these environments has this metric.");
    return;
  }
  const every = lines.flatMap((it) => it.all);
  const range = [Math.min(...every), Math.max(...every)];
  if (range[0] === range[1]) range[1] += log ? range[0] : 1;
  const size = sized("cdf-plot", 340);
  const label = log ? `${metric.label}, logarithmic` : metric.label;
  const x = axis(range, [size.left, size.width - size.right], label, log);
  const y = axis([0, 100], [size.height - size.bottom, size.top], "of the environments (%)");
  const svg = frame(size, `Distribution of ${metric.label} on ${slice().label}`);
  axes(svg, size, x, y);
  for (const { name, all } of lines) {
    const steps = all.map((value, place) => {
      const [from, to] = [place, place + 1].map((it) => y.of((it / all.length) * 100).toFixed(1));
      const across = x.of(value).toFixed(1);
      return `${across},${from} ${across},${to}`;
    });
    const style = `--c: ${colour(name)}`;
    const kind = name === chosen() ? "line chosen" : "line";
    svg.append(shape("polyline", { class: kind, style, points: steps.join(" ") }));
  }
  at("cdf-plot").replaceChildren(svg, legend(lines.map((it) => it.name)));
}

// ---- environments ------------------------------------------------------------------------------

const heatHead = (name) => element("th", { scope: "col", class: "heat" }, name);

function heatField(share, title) {
  const mix = Math.round(Math.max(Math.min(share, 1), 0) * 55);
  const style = `background: color-mix(in srgb, var(--heat) ${mix}%, var(--card))`;
  return element("td", { class: "heat", style, title }, `${Math.round(share * 100)}`);
}

function heatCell(cell) {
  if (!cell) return element("td", { class: "heat" }, "");
  const title = `${figure(cell.goodput_mbit_per_sec)} Mbit/s, ` +
    `${figure(cell.queueing_p95_ms)} ms p95 queueing, ` +
    `${figure(cell.retransmitted_percent)} % sent again`;
  return heatField(cell.of_best, title);
}

// One row an arm, in the order of the ranking; one column a group: the mean over its environments.
function drawGroups() {
  const groups = board.slices.filter((it) => it.by === "group");
  const words = groups.map((it) => it.label.replace(/^group /, ""));
  const rows = slice().ranks.map(({ driver }) => ({
    chosen: driver === chosen(),
    cells: [driver, ...groups.map((group) => {
      const rank = group.ranks.find((it) => it.driver === driver);
      if (!rank || rank.environments === 0) return element("td", { class: "heat" }, "");
      return heatField(1 - rank.regret.middle, `${driver}, ${group.label}`);
    })],
  }));
  const key = words.filter((it) => it.includes(":")).join("; ");
  const letters = words.map((it) => it.split(":")[0]);
  at("groups").replaceChildren(table(["arm", ...letters.map(heatHead)], rows));
  at("group-words").textContent = key;
}

// The environments in the order of the suites, or by the merit of the chosen arm (or the best one),
// the worst first.
function ordered() {
  const { environments, ranks } = slice();
  if (at("order").value !== "worst") return environments;
  const column = driverAt(chosen() || ranks[0].driver);
  const merit = (place) => board.cells[place][column]?.of_best ?? Infinity;
  return [...environments].sort((a, b) => merit(a) - merit(b));
}

function drawHeat() {
  const environments = ordered();
  const names = slice().ranks.map((rank) => rank.driver);
  const own = chosen();
  const most = allRows ? Infinity : HEAT_ROWS;
  const of = own ? [`${own}: Mbit/s`, "p95 ms", "sent again %"] : [];
  const rows = environments.slice(0, most).map((place) => {
    const it = board.environments[place];
    const cell = own ? board.cells[place][driverAt(own)] : null;
    const details = own ? [figure(cell?.goodput_mbit_per_sec), figure(cell?.queueing_p95_ms),
      figure(cell?.retransmitted_percent)] : [];
    const heat = names.map((name) => heatCell(board.cells[place][driverAt(name)]));
    const path = `${figure(it.capacity_mbit_per_sec)} Mbit/s, ${figure(it.rtt_ms)} ms`;
    return { cells: [`${it.suite}/${it.name}`, path, ...details, ...heat] };
  });
  at("heat").replaceChildren(table(["environment", "path", ...of,
    ...names.map(heatHead)], rows));
  at("more").hidden = environments.length <= most;
  at("more").textContent = `Show all ${environments.length}`;
}

// ---- starved flows, missed lines ---------------------------------------------------------------

const nameOf = (place) => {
  const it = board.environments[place];
  return `${it.suite}/${it.name}`;
};

// The names in a column, each with the number of its environments, the most frequent first.
function counted(all, name) {
  const places = new Map();
  for (const it of all) {
    for (const whom of (it[name] || "no single driver").split(", ")) {
      places.set(whom, (places.get(whom) ?? new Set()).add(it.environment));
    }
  }
  const said = [...places].map(([whom, where]) => [whom, where.size]);
  said.sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]));
  return said.map(([whom, count]) => `${whom} (${count})`).join(", ");
}

// The number of environments in which one of the two is tested and the other is its neighbour.
function meetings(one, other) {
  const meets = (tested, neighbour, place) => board.cells[place][driverAt(tested)] &&
    board.environments[place].neighbours.split(", ").includes(neighbour);
  return board.environments.filter((_, place) => meets(one, other, place) ||
    meets(other, one, place)).length;
}

// The drivers that the chosen arm meets and never starves, with the number of environments.
function neverStarved(whom) {
  const own = chosen();
  const starved = new Set(whom.flatMap((it) => it.loser.split(", ")));
  const neighbours = board.environments.flatMap((it) => it.neighbours.split(", "));
  const others = [...new Set([...board.drivers, ...neighbours])].sort();
  const met = others.filter((name) => name && name !== own && !starved.has(name))
    .map((name) => [name, meetings(own, name)]).filter(([, count]) => count > 0);
  return met.map(([name, count]) => `${name} (${count})`);
}

function starvingSentence(all) {
  const own = chosen();
  if (!own) return `Starved drivers (number of environments): ${counted(all, "loser")}.`;
  const has = (it, name) => it[name].split(", ").includes(own);
  const [whom, by] = [all.filter((it) => has(it, "winner")), all.filter((it) => has(it, "loser"))];
  const parts = [];
  if (whom.length > 0) parts.push(`${own} starves: ${counted(whom, "loser")}`);
  if (by.length > 0) parts.push(`${own} is starved by: ${counted(by, "winner")}`);
  const said = parts.length > 0
    ? [`${parts.join("; ")}; alone or with others (number of environments).`]
    : [];
  const never = neverStarved(whom);
  if (never.length > 0) {
    said.push(`${own} meets these drivers and starves none of them (number of environments): ` +
      `${never.join(", ")}.`);
  }
  if (whom.length === 0 && never.length === 0) {
    said.push(`No environment has ${own} beside another driver.`);
  }
  const hasSharing = board.environments.some((it) => it.suite === "sharing");
  if (whom.length === 0 && !hasSharing) {
    said.push("To see it beside others: remuda matrix --suite sharing.");
  }
  return said.join(" ");
}

function drawStarving() {
  const parts = (it) => [it.driver, ...it.winner.split(", "), ...it.loser.split(", ")];
  const all = board.starved.filter((it) => !chosen() || parts(it).includes(chosen()));
  at("starving-sentence").textContent = all.length > 0 || chosen() ? starvingSentence(all) : "";
  if (all.length === 0) {
    at("starved").replaceChildren(chosen()
      ? `${chosen()} starves no other driver and is not starved.`
      : "No driver starves another.");
    return;
  }
  const rows = all.map((it) => ({
    cells: [it.winner || "–", it.loser, it.driver, nameOf(it.environment), figure(it.share),
      `${it.seeds}`],
  }));
  rows.sort((a, b) => `${a.cells[0]} ${a.cells[1]}`.localeCompare(`${b.cells[0]} ${b.cells[1]}`));
  const columns = ["driver", "starves", "tested", "environment",
    "share of the tested flow (1 is even)", "seeds"];
  at("starved").replaceChildren(table(columns, rows));
}

function drawHarm() {
  const all = board.harms.filter((it) => !chosen() || it.driver === chosen());
  if (all.length === 0) {
    const text = "No environment has a neighbour whose own driver was tested there too.";
    at("harm").replaceChildren(text);
    return;
  }
  const percent = (share) => figure(share === null ? null : share * 100);
  const rows = all.map((it) => {
    const [place, most] = it.worst || ["", null];
    const cells = [it.driver, it.neighbour, `${it.runs}`, percent(it.goodput), percent(it.delay)];
    return { cells: [...cells, percent(most), place] };
  });
  const columns = ["driver", "takes of", "runs", "goodput, %", "delay, %", "most, %", "in"];
  at("harm").replaceChildren(table(columns, rows));
}

function drawMissed() {
  if (!at("missed")) return;
  const all = board.missed.filter((it) => !chosen() || it.driver === chosen());
  if (all.length === 0) {
    at("missed").replaceChildren("Every line passes.");
    return;
  }
  const rows = all.map((it) => ({
    cells: [nameOf(it.environment), it.driver, `${it.seed}`,
      element("td", { class: "fail" }, "FAIL"), it.lines],
  }));
  at("missed").replaceChildren(table(["environment", "arm", "seed", "", "misses"], rows));
}

// ---- time series -------------------------------------------------------------------------------

const SERIES = [
  { key: "goodput_mbit_per_sec", label: "goodput (Mbit/s)" },
  { key: "srtt_ms", label: "smoothed round trip (ms)" },
  { key: "cwnd_pkts", label: "window (packets)" },
];

function armColours(run) {
  const tested = run.flows.filter((flow) => flow.tested);
  const names = [...new Set(tested.flatMap((flow) => flow.arms.map(([, arm]) => arm)))];
  return Object.fromEntries(names.map((name, place) => [name, `var(--c${place % COLOURS})`]));
}

// The lines of a panel: the link's queue, or one line a flow.
function lines(run, key) {
  if (key === "queue_pkts") {
    return [{ t_s: run.link.t_s, values: run.link.queue_pkts, kind: "line queue", style: "" }];
  }
  return run.flows.map((flow, place) => ({ t_s: flow.t_s, values: flow[key],
    kind: flow.tested ? "line chosen" : "line", style: `--c: var(--c${place % COLOURS})` }));
}

function panel(run, { key, label }, colours) {
  const size = { ...sized("series-plot", 210), bottom: 40 };
  const all = lines(run, key);
  const limit = key === "goodput_mbit_per_sec" ? run.link.capacity_mbit_per_sec : [];
  if (limit.length > 0) {
    all.unshift({ t_s: run.link.t_s, values: limit, kind: "limit", style: "" });
  }
  const every = all.flatMap((line) => line.values.filter((it) => it !== null));
  const x = axis([0, run.duration_s], [size.left, size.width - size.right], "time (s)");
  const most = Math.max(...every, 1e-9) * 1.05;
  const y = axis([0, most], [size.height - size.bottom, size.top], label);
  const svg = frame(size, `${label} over time, ${run.driver} in ${run.environment}`);
  const tested = run.flows.find((flow) => flow.tested) || run.flows[0];
  tested.arms.forEach(([from, arm], place) => {
    const to = tested.arms[place + 1]?.[0] ?? run.duration_s;
    svg.append(shape("rect", { class: "band", style: `--c: ${colours[arm]}`, x: x.of(from),
      y: size.top, width: Math.max(x.of(to) - x.of(from), 0),
      height: size.height - size.top - size.bottom }));
  });
  axes(svg, size, x, y);
  const marks = tested.decisions.map((it) => decisionMark(it, x.of(it.t_s), size));
  svg.append(...marks.map(({ line }) => line));
  for (const { t_s: times, values: of, kind, style } of all) {
    const points = times.map((t, n) => [t, of[n]]).filter(([, value]) => value !== null)
      .map(([t, value]) => `${x.of(t).toFixed(1)},${y.of(value).toFixed(1)}`);
    svg.append(shape("polyline", { class: kind, style, points: points.join(" ") }));
  }
  // Drawn last, so that they lie on top and receive the pointer.
  svg.append(...marks.map(({ hit }) => hit));
  return svg;
}

// ---- decisions ---------------------------------------------------------------------------------

const BECAME = {
  switched: ({ arm, to }) => `${arm} → ${to}`,
  rolled_back: ({ arm, to }) => `${arm} → ${to}, rolled back by the guard`,
  vetoed: ({ arm, to }) => `${arm} stays, ${to} refused`,
  stayed: ({ arm }) => `${arm} stays`,
};
const became = (it) => BECAME[it.became](it);
const pairs = (all, by) => all.map(([name, value]) => `${name} ${value}`).join(by);
const RANGE_PX = 9;

// A line over the whole panel for a change or a veto; a short tick if the arm stays.
function decisionMark(it, x, { top, height, bottom }) {
  const low = height - bottom;
  const from = it.became === "stayed" ? low - 8 : top;
  const line = shape("line", { class: `decision ${it.became}`, x1: x, x2: x, y1: from, y2: low });
  const hit = shape("rect", { class: "hit", x: x - RANGE_PX / 2, width: RANGE_PX, y: from,
    height: low - from });
  const lines = [`${figure(it.t_s)} s: ${became(it)}: ${it.why}`, pairs(it.scores, ", "),
    pairs(it.features, ", ")];
  hit.append(shape("title", {}, lines.filter((text) => text !== "").join("\n")));
  hit.addEventListener("click", () => tellDecision(it));
  return { line, hit };
}

// Shows one decision in full: the expected score of each arm, and the features behind it.
function tellDecision(it) {
  const head = element("p", {}, element("b", {}, `${figure(it.t_s)} s: ${became(it)}`),
    `: ${it.why}`);
  const rows = (all) => all.map((cells) => ({ chosen: cells[0] === it.to, cells }));
  const tables = [[["arm", "expected"], it.scores], [["feature", "value"], it.features]]
    .filter(([, all]) => all.length > 0).map(([columns, all]) => table(columns, rows(all)));
  at("decision").replaceChildren(head, ...tables);
}

function drawDecisions(run) {
  const hint = "Hover over a dashed line or a tick for its reasons; click it to see all here.";
  at("decision").replaceChildren(run.flows.some((flow) => flow.decisions.length > 0) ? hint : "");
  const rows = run.flows.flatMap((flow) => flow.decisions.map((it) => ({
    cells: [`${figure(it.t_s)} s`, flow.name, became(it), it.why,
      element("td", { class: "places" }, pairs(it.scores, "\n")),
      element("td", { class: "places" }, pairs(it.features, "\n"))],
  })));
  const more = run.flows.reduce((sum, flow) => sum + flow.decisions_left_out, 0);
  const said = more > 0 ? [element("p", {}, `${more} more decisions are not shown.`)] : [];
  const columns = ["when", "flow", "arm", "why", "expected of arms", "features"];
  at("decisions").replaceChildren(...(rows.length > 0
    ? [table(columns, rows), ...said]
    : ["This run has no decisions about an arm."]));
}

const runName = (run) => `${run.driver} in ${run.environment}, seed ${run.seed}`;

function drawSeries() {
  if (!at("run")) return;
  const run = series.find((it) => runName(it) === at("run").value);
  const colours = armColours(run);
  const flows = run.flows.map((flow, place) => element("li", {},
    element("i", { style: `--c: var(--c${place % COLOURS})` }),
    flow.name === "tested" ? run.driver : flow.name));
  const arms = Object.entries(colours).map(([name, of]) => element("li", {},
    element("i", { style: `--c: ${of}; border-top-width: 10px; opacity: .4` }), `arm ${name}`));
  const { name, capacity_mbit_per_sec: capacity } = run.link;
  const panels = name ? [...SERIES, { key: "queue_pkts", label: `queue, link ${name} (packets)` }]
    : SERIES;
  const limit = capacity.length === 0 ? [] : [element("li", {}, element("i", { class: "limit" }),
    `capacity of ${name}`)];
  const more = run.flows_left_out > 0 ? [element("li", {}, `and ${run.flows_left_out} more flows`)]
    : [];
  at("series-plot").replaceChildren(...panels.map((it) => panel(run, it, colours)),
    element("ul", { class: "legend" }, ...flows, ...more, ...arms, ...limit));
  drawDecisions(run);
}

// ---- policies compared with arms ---------------------------------------------------------------

// The comparisons of the chosen driver if it is a policy, otherwise of the best policy.
function besides() {
  const of = (name) => board.versus.filter((it) => it.driver === name);
  const ranked = board.slices[0].ranks.map((rank) => of(rank.driver));
  const [best] = ranked.filter((it) => it.length > 0);
  const own = of(chosen());
  return own.length > 0 ? own : best ?? [];
}

function drawVersus() {
  const beside = [...besides()].sort((a, b) => a.difference.middle - b.difference.middle);
  if (beside.length === 0) {
    at("versus-sentence").textContent = "The table has no policy, or no arm to compare it with.";
    return at("beside").replaceChildren();
  }
  const [{ driver, environments }] = beside;
  const isSure = (it) => it.difference.bounds && it.difference.bounds[0] > 0;
  const sure = beside.filter(isSure).length;
  at("versus-sentence").textContent = `${driver} does better than ${sure} of the ` +
    `${beside.length} others with 95 % confidence, over ${environments} environments.`;
  const places = ({ losses, behind_in: count }) => {
    const worst = losses.map((it) => `${it.suite}/${it.environment}: ` +
      `${figure(it.own * 100)} % to ${figure(it.other * 100)} %`);
    const more = count > losses.length ? [`and ${count - losses.length} more`] : [];
    return element("td", { class: "places" }, [...worst, ...more].join("\n"));
  };
  const rows = beside.map((it) => ({
    chosen: it.other === chosen(),
    cells: [it.other, spread(it.difference, 100), `${it.ahead_in}`, `${it.behind_in}`, places(it)],
  }));
  const columns = ["compared with", `${driver} has more, points`, "ahead in", "behind in",
    `environments where ${driver} has least in comparison`];
  at("beside").replaceChildren(table(columns, rows));
}

function fillRuns() {
  if (!at("run")) return;
  series.forEach((run) => at("run").append(element("option", {}, runName(run))));
}

function drawAll() {
  drawRanking();
  drawVersus();
  drawScatter();
  drawDistributions();
  drawGroups();
  drawHeat();
  drawStarving();
  drawHarm();
  drawMissed();
}

let width = window.innerWidth;
window.addEventListener("resize", () => {
  if (width === window.innerWidth) return;
  width = window.innerWidth;
  drawScatter();
  drawDistributions();
  drawSeries();
});
fillControls();
fillRuns();
recall();
window.addEventListener("hashchange", recall);
