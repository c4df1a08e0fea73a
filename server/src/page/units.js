// Numbers as people read them, with their units.

const UNKNOWN = "–";

function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

// 1234567 as "1,234,567".
function whole(value) {
  return isNumber(value) ? Math.round(value).toLocaleString("en-US") : UNKNOWN;
}

// Three digits: 0.123, 12.3, 123, 12,345.
function short(value) {
  if (!isNumber(value)) return UNKNOWN;
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 99.95) return whole(value);
  return value.toFixed(size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3);
}

// At an axis: 0.1, 25, 1,500, 250K.
function tickText(value) {
  const options = value >= 1e5 ? { notation: "compact" } : { maximumSignificantDigits: 3 };
  return value.toLocaleString("en-US", options);
}

// A number and its unit, of a list from small to large: [name, size].
function scaled(value, units) {
  if (!isNumber(value)) return [UNKNOWN, ""];
  let [name, size] = units[0];
  for (const [next, from] of units) {
    if (Math.abs(value) >= from * 0.9995) [name, size] = [next, from];
  }
  return [short(value / size), name];
}

const TIMES = [["µs", 1e-6], ["ms", 1e-3], ["s", 1]];
const LONG_TIMES = [...TIMES, ["min", 60], ["h", 3600], ["d", 86400]];
const BYTES = [["B", 1], ["KiB", 1024], ["MiB", 1024 ** 2], ["GiB", 1024 ** 3], ["TiB", 1024 ** 4]];

function duration(seconds) {
  return seconds === 0 ? ["0", "s"] : scaled(seconds, LONG_TIMES);
}

function latency(seconds) {
  if (seconds === Infinity) return "> 10 s";
  return scaled(seconds, TIMES).join(" ").trim();
}

function bytes(count) {
  return scaled(count, BYTES);
}

function together(parts) {
  return parts.join(" ").trim();
}

function percent(share) {
  if (!isNumber(share)) return UNKNOWN;
  const value = share * 100;
  return `${value >= 9.95 || value === 0 ? value.toFixed(0) : value.toFixed(1)} %`;
}

// 5400 s as "1 h 30 min".
function uptime(seconds) {
  const parts = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = parts.findIndex(([, size]) => seconds >= size);
  if (first < 0) return "0 s";
  let left = Math.floor(seconds);
  return parts.slice(first, first + 2).map(([name, size]) => {
    const count = Math.floor(left / size);
    left -= count * size;
    return `${count} ${name}`;
  }).join(" ");
}
