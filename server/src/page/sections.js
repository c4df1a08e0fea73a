// The sections of the page, each filled from a document and the samples of the last minutes.

const PHASES = [["initial", "Initial", "three"], ["catchingUp", "Catching up", "two"], ["live", "Live", "one"], ["parked", "Parked", "four"], ["draining", "Draining", "five"]];
const STAGE_LINES = [["ring", "In the ring", "one"], ["firstWrite", "First write", "two"], ["lastWrite", "Last write", "three"]];
// A watcher that has used more of the window is near its end.
const NEAR = 0.75;

const by = (id) => document.getElementById(id);

// Sets a text, and the exact value beside it. What is the same is left alone.
function put(id, text, value) {
  const element = by(id);
  if (element.textContent !== text) element.textContent = text;
  if (isNumber(value)) element.setAttribute("value", value);
}

function putPair(id, [text, unit], value) {
  put(id, text, value);
  by(`${id}-unit`).textContent = unit;
}

function make(name, className, ...children) {
  const element = document.createElement(name);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

// A bar of parts: [[share, class]].
function fillBar(bar, parts) {
  while (bar.children.length < parts.length) bar.append(document.createElement("i"));
  while (bar.children.length > parts.length) bar.lastChild.remove();
  parts.forEach(([share, className], at) => {
    const part = bar.children[at];
    part.className = className ?? "";
    part.style.setProperty("--share", `${(Math.min(Math.max(share || 0, 0), 1) * 100).toFixed(2)}%`);
  });
}

// A cell: a text, or {text, className, bar}. The first of a row is its heading.
function fillCell(cell, content) {
  const { text = "", className = "", bar } = typeof content === "object" ? content : { text: content };
  if (bar) {
    if (!cell.firstElementChild?.classList.contains("barred")) {
      cell.replaceChildren(make("span", "barred", make("span", "bar"), make("span")));
      cell.querySelector(".bar").setAttribute("aria-hidden", "true");
    }
    fillBar(cell.querySelector(".bar"), bar);
    cell.firstElementChild.lastElementChild.textContent = text;
  } else if (cell.firstElementChild || cell.textContent !== text) {
    cell.textContent = text;
  }
  if (cell.className !== className) cell.className = className;
}

// Rows are used again, so that a selection or a reader's place in them stays.
function fillTable(id, rows, none) {
  const body = by(id).tBodies[0];
  const columns = by(id).tHead.rows[0].cells.length;
  if (rows.length === 0) {
    const cell = make("td", "empty", none);
    cell.colSpan = columns;
    body.replaceChildren(make("tr", "", cell));
    return;
  }
  if (body.querySelector(".empty")) body.replaceChildren();
  while (body.rows.length > rows.length) body.rows[body.rows.length - 1].remove();
  while (body.rows.length < rows.length) {
    const heading = make("th");
    heading.scope = "row";
    body.append(make("tr", "", heading, ...Array.from({ length: columns - 1 }, () => make("td"))));
  }
  rows.forEach((row, at) => row.forEach((content, column) => fillCell(body.rows[at].cells[column], content)));
}

function count(value) {
  return { text: whole(value), className: value === 0 ? "zero" : "" };
}

function fillLegend(id, entries) {
  by(id).replaceChildren(...entries.map(([, name, line]) => {
    const mark = make("i", line);
    mark.setAttribute("aria-hidden", "true");
    return make("li", "", mark, name);
  }));
}

function header(status) {
  const state = status.source.failed ? ["store failed", "bad"]
    : status.life === "serving" && !status.source.ready ? ["loading", "fair"]
    : status.life === "serving" ? ["serving", "good"]
    : [status.life, "fair"];
  put("life", state[0]);
  by("life").className = `pill ${state[1]}`;
  put("about", `${status.version} · ${status.listen.api} · up ${uptime(status.uptimeSeconds)}`);
}

function figures(status, samples) {
  const deliveries = samples.rate((it) => it.deliveries, 2);
  const events = samples.rate((it) => it.events, 2);
  const watchers = sum(status.shards, (shard) => shard.watchers);
  const lag = Math.max(...status.shards.map((shard) => shard.lagSeconds));
  put("deliveries-now", short(deliveries), deliveries);
  put("events-now", short(events), events);
  put("watchers-now", whole(watchers), watchers);
  putPair("lag-now", duration(lag), lag);
  putPair("stale-now", status.source.staleSeconds === null ? ["unknown", ""] : duration(status.source.staleSeconds), status.source.staleSeconds);
  putPair("resident-now", bytes(status.memory.resident), status.memory.resident);
}

const charts = {};

function rates(status, samples) {
  const { deliveries, events, serialized } = samples.newest;
  charts.deliveries.show([{ name: "deliveries a second", line: "one", points: samples.rates((it) => it.deliveries) }]);
  charts.events.show([{ name: "events a second", line: "one", points: samples.rates((it) => it.events) }]);
  put("deliveries-total", whole(deliveries), deliveries);
  put("events-total", whole(events), events);
  const first = samples.kept[0];
  const made = serialized - first.serialized;
  put("sharing", made > 0 ? `One serialization served ${short((deliveries - first.deliveries) / made)} watchers lately.` : "");
}

function stages(status, samples) {
  const bounds = status.stages.boundsSeconds;
  const rows = [...STAGE_LINES, ["turnDelay", "Turn of a busy shard"]].map(([stage, name]) => {
    const counts = samples.lately(stage);
    const shares = [0.5, 0.9, 0.99, 0.999].map((share) => latency(percentile(bounds, counts, share)));
    return [name, ...shares, count(sum(counts, (it) => it))];
  });
  fillTable("stages", rows, "");
  charts.stages.show(STAGE_LINES.map(([stage, name, line]) => {
    const points = samples.percentiles(bounds, stage, 0.99, 10);
    return { name, line, points: points.map(([age, seconds]) => [age, seconds * 1000]) };
  }));
  for (const element of document.querySelectorAll(".span")) {
    const text = samples.seconds < 1 ? "the last minutes" : `the last ${uptime(Math.round(samples.seconds))}`;
    if (element.textContent !== text) element.textContent = text;
  }
}

function watchers(status) {
  const all = status.watchers.byResource.map((row) => [row, sum(PHASES, ([phase]) => row[phase])]);
  all.sort(([, one], [, other]) => other - one);
  const most = Math.max(1, ...all.map(([, total]) => total));
  const total = sum(all, ([, it]) => it);
  const shown = all.slice(0, 20);
  fillTable("watchers", shown.map(([row, own]) => {
    const bar = PHASES.map(([phase, , line]) => [row[phase] / most, line === "one" ? "" : line]).filter(([share]) => share > 0);
    return [row.resource ?? "range of keys", whole(own), { text: percent(own / total), bar }, ...PHASES.map(([phase]) => count(row[phase]))];
  }), "No watch is open.");
  put("watchers-note", all.length > shown.length ? `The ${shown.length} with the most watches, of ${all.length}.` : "");
}

// How much of the window a watcher has used: 1, and it is ended.
function used(status, slow) {
  const { events, eventsMax, bytes: held, bytesMax } = status.window;
  return events === 0 ? 0 : (slow.lagEvents / events) * Math.max(events / eventsMax, held / bytesMax);
}

function slowest(status) {
  const phases = new Map(PHASES.map(([phase, name]) => [phase, name]));
  fillTable("slowest", status.watchers.slowest.map((slow) => {
    const what = slow.resource ?? "range of keys";
    const share = used(status, slow);
    return [
      slow.client ?? "unknown",
      { text: slow.namespace ? `${what} in ${slow.namespace}` : what, className: "left" },
      { text: phases.get(slow.phase) + (slow.blocked ? ", socket full" : ""), className: "left" },
      together(duration(slow.lagSeconds)),
      whole(slow.lagEvents),
      { text: percent(share), bar: [[share, share > NEAR ? "five" : ""]], className: share > NEAR ? "alarm" : "" },
      whole(slow.shard),
    ];
  }), "No watcher lags.");
}

function windowSection(status) {
  const held = status.window;
  put("window-age", held.ageSeconds === null ? "nothing in it" : together(duration(held.ageSeconds)), held.ageSeconds);
  put("window-bytes", together(bytes(held.bytes)), held.bytes);
  put("window-bytes-max", together(bytes(held.bytesMax)));
  put("window-events", whole(held.events), held.events);
  put("window-events-max", whole(held.eventsMax));
  put("window-oldest", String(held.oldestRevision ?? "none"), held.oldestRevision);
  fillBar(by("window-bytes-bar"), [[held.bytes / held.bytesMax]]);
  fillBar(by("window-events-bar"), [[held.events / held.eventsMax]]);
  const near = status.watchers.slowest.filter((slow) => used(status, slow) > NEAR);
  put("window-near", near.length === 0 ? "no watcher" : near.map((slow) => slow.client ?? slow.resource ?? "unknown").join(", "));
  by("window-near").className = near.length === 0 ? "" : "alarm";
}

function shards(status, samples) {
  fillTable("shards", status.shards.map((shard) => {
    const busy = samples.rate((it) => it.cpu[shard.number], 10);
    return [
      whole(shard.number),
      { text: percent(busy), bar: [[busy, busy > 0.9 ? "five" : ""]], className: busy > 0.9 ? "alarm" : "" },
      whole(shard.watchers),
      whole(shard.live),
      count(shard.blocked),
      together(duration(shard.lagSeconds)),
    ];
  }), "");
}

function source(status) {
  const it = status.source;
  put("source-kind", it.kind === it.is ? it.kind : `${it.kind}: ${it.is}`);
  put("source-state", it.failed ? "failed" : it.ready ? "ready" : "loading");
  by("source-state").className = it.failed ? "alarm" : "";
  put("source-stale", it.staleSeconds === null ? "no proof yet" : together(duration(it.staleSeconds)), it.staleSeconds);
  put("source-revision", String(it.revision), it.revision);
  put("source-objects", whole(it.objects), it.objects);
  const reasons = Object.entries(it.unreadableByReason).map(([reason, objects]) => `${whole(objects)} ${reason}`);
  put("source-unreadable", reasons.length === 0 ? whole(it.unreadable) : reasons.join(", "), it.unreadable);
  put("source-epoch", whole(it.epoch), it.epoch);
}

function memory(status) {
  const { resident, ...parts } = status.memory;
  const named = { window: "Window", index: "Index", watchers: "Watchers", pages: "Pages", requests: "Requests" };
  fillTable("memory", Object.entries(parts).map(([part, held]) => {
    const share = resident ? held / resident : NaN;
    return [named[part] ?? part, together(bytes(held)), { text: percent(share), bar: [[share]] }];
  }), "");
  const most = status.limits.memory;
  put("memory-note", `Resident: ${together(bytes(resident))}${most === null ? ", without a limit" : ` of ${together(bytes(most))}`}.`);
}

function errors(samples) {
  const [first, last] = [samples.kept[0].errors, samples.newest.errors];
  const rows = [...last].filter(([, total]) => total > 0).map(([name, total]) => [name, total - (first.get(name) ?? 0), total]);
  rows.sort((one, other) => other[1] - one[1] || other[2] - one[2]);
  fillTable("errors", rows.map(([name, lately, total]) => [
    name,
    { text: whole(lately), className: lately > 0 ? "alarm" : "zero" },
    whole(total),
  ]), "None since the start.");
}

function prepareSections() {
  charts.deliveries = new Chart(by("deliveries-chart"), { label: "Deliveries a second" });
  charts.events = new Chart(by("events-chart"), { label: "Events a second" });
  charts.stages = new Chart(by("stages-chart"), { label: "99th percentile of each stage in milliseconds", isPower: true });
  fillLegend("stages-legend", STAGE_LINES);
  fillLegend("phases-legend", PHASES);
}

function showAll(status, samples) {
  header(status);
  figures(status, samples);
  rates(status, samples);
  stages(status, samples);
  watchers(status);
  slowest(status);
  windowSection(status);
  shards(status, samples);
  source(status);
  memory(status);
  errors(samples);
}
