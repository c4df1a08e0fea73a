// A chart of lines over the last minutes, as SVG.

const SVG = "http://www.w3.org/2000/svg";
const EDGE = { left: 52, right: 10, top: 8, bottom: 22 };

function svg(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// Round numbers from 0 to at least `most`.
function linearTicks(most) {
  const rough = Math.max(most, 1) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough - 1e-9);
  const ticks = [];
  for (let tick = 0; ticks.length < 2 || ticks.at(-1) < most; tick += step) ticks.push(tick);
  return ticks;
}

// Powers of ten around all values.
function powerTicks(least, most) {
  const ticks = [];
  const first = Math.floor(Math.log10(least) + 1e-9);
  const last = Math.max(Math.ceil(Math.log10(most) - 1e-9), first + 1);
  for (let power = first; power <= last; power += 1) ticks.push(10 ** power);
  return ticks;
}

class Chart {
  // `isPower`: the axis of values is logarithmic.
  constructor(place, { label, isPower = false }) {
    Object.assign(this, { place, label, isPower, series: [] });
    new ResizeObserver(() => this.draw()).observe(place);
  }

  // `series`: [{name, line, points: [[age, value]]}]; what is no number is a gap.
  show(series) {
    this.series = series;
    this.draw();
  }

  draw() {
    const [width, height] = [this.place.clientWidth, this.place.clientHeight];
    if (width === 0) return;
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": this.told() });
    const values = this.series.flatMap(({ points }) => points.map(([, value]) => value)).filter((value) =>
      isNumber(value) && (!this.isPower || value > 0));
    if (values.length === 0) {
      root.append(svg("text", { x: width / 2, y: height / 2, class: "empty" }, "nothing yet"));
    } else {
      this.fill(root, values, width, height);
    }
    this.place.replaceChildren(root);
  }

  fill(root, values, width, height) {
    const [least, most] = [Math.min(...values), Math.max(...values)];
    const ticks = this.isPower ? powerTicks(least, most) : linearTicks(most);
    const scale = this.isPower ? Math.log10 : (value) => value;
    const [low, high] = [scale(ticks[0]), scale(ticks.at(-1))];
    const bottom = height - EDGE.bottom;
    // A minute at first, then all that is kept.
    const span = Math.min(...this.series.flatMap(({ points }) => points.map(([age]) => age))) < -60 ? KEPT_SECONDS : 60;
    const x = (age) => EDGE.left + (width - EDGE.left - EDGE.right) * (1 + age / span);
    const y = (value) => bottom - (bottom - EDGE.top) * ((scale(value) - low) / (high - low));
    for (const tick of ticks) {
      root.append(svg("line", { class: "grid", x1: EDGE.left, x2: width - EDGE.right, y1: y(tick), y2: y(tick) }));
      root.append(svg("text", { class: "axis", x: EDGE.left - 6, y: y(tick) + 4, "text-anchor": "end" }, tickText(tick)));
    }
    const steps = span === 60 ? [45, 30, 15, 0] : [240, 180, 120, 60, 0];
    for (const seconds of steps) {
      const text = seconds === 0 ? "now" : span === 60 ? `−${seconds} s` : `−${seconds / 60} min`;
      root.append(svg("text", { class: "axis", x: x(-seconds), y: height - 5, "text-anchor": seconds === 0 ? "end" : "middle" }, text));
    }
    for (const { line, points } of this.series) {
      for (const run of this.runs(points)) {
        const path = run.map(([age, value], at) => `${at ? "L" : "M"}${x(age).toFixed(1)} ${y(value).toFixed(1)}`).join("");
        if (this.series.length === 1 && !this.isPower) {
          const closed = `${path}L${x(run.at(-1)[0]).toFixed(1)} ${bottom}L${x(run[0][0]).toFixed(1)} ${bottom}Z`;
          root.append(svg("path", { class: `area ${line}`, d: closed }));
        }
        // One point alone is a dot.
        root.append(svg("path", { class: `series ${line}`, d: run.length > 1 ? path : `${path}h0` }));
      }
    }
  }

  // The parts of a line between gaps.
  runs(points) {
    const runs = [[]];
    for (const [age, value] of points) {
      const drawn = isNumber(value) && age >= -KEPT_SECONDS && (!this.isPower || value > 0);
      if (drawn) runs.at(-1).push([age, value]);
      else if (runs.at(-1).length > 0) runs.push([]);
    }
    return runs.filter((run) => run.length > 0);
  }

  told() {
    const parts = this.series.map(({ name, points }) => {
      const values = points.map(([, value]) => value).filter(isNumber);
      if (values.length === 0) return `${name}: nothing yet`;
      const [now, most] = [short(values.at(-1)), short(Math.max(...values))];
      return `${name}: last ${now}, highest ${most}`;
    });
    return `${this.label}, up to five minutes. ${parts.join("; ")}`;
  }
}
