// Samples of the last minutes, and what differs between two of them.

const KEPT_SECONDS = 300;
const STAGES = ["ring", "firstWrite", "lastWrite", "turnDelay"];

function sum(list, read) {
  return list.reduce((total, item) => total + read(item), 0);
}

// What is kept of a document: times and what only grows.
function sample(status) {
  const counts = {};
  for (const stage of STAGES) counts[stage] = status.stages[stage].counts;
  return {
    at: status.uptimeSeconds,
    deliveries: sum(status.shards, (shard) => shard.eventsSent),
    events: status.totals.eventsReceived,
    serialized: status.totals.messagesSerialized,
    cpu: status.shards.map((shard) => shard.cpuSeconds),
    counts,
    errors: errorCounts(status.errors),
  };
}

class Samples {
  constructor() {
    this.kept = [];
  }

  add(status) {
    const last = this.kept.at(-1);
    // Another server answers, or the same after a restart.
    if (last && (status.uptimeSeconds < last.at || status.shards.length !== last.cpu.length)) this.kept = [];
    this.kept.push(sample(status));
    const oldest = status.uptimeSeconds - KEPT_SECONDS;
    while (this.kept.length > 2 && this.kept[1].at <= oldest) this.kept.shift();
  }

  get newest() {
    return this.kept.at(-1);
  }

  // How many seconds there are.
  get seconds() {
    return this.kept.length < 2 ? 0 : this.newest.at - this.kept[0].at;
  }

  // The newest sample that is at least this old; the oldest, if none is.
  before(seconds, newest = this.kept.length - 1) {
    let at = newest;
    while (at > 0 && this.kept[newest].at - this.kept[at].at < seconds - 0.25) at -= 1;
    return this.kept[at];
  }

  // What `read` gained a second over so many seconds.
  rate(read, seconds) {
    const [from, to] = [this.before(seconds), this.newest];
    return from === to ? NaN : (read(to) - read(from)) / (to.at - from.at);
  }

  // The same between each two samples: [age, value].
  rates(read) {
    return this.kept.slice(1).map((to, at) => {
      const from = this.kept[at];
      return [to.at - this.newest.at, (read(to) - read(from)) / (to.at - from.at)];
    });
  }

  // A percentile of a stage over the seconds before each sample: [age, value].
  percentiles(bounds, stage, share, seconds) {
    return this.kept.slice(1).map((to, at) => {
      const gained = difference(to.counts[stage], this.before(seconds, at + 1).counts[stage]);
      return [to.at - this.newest.at, percentile(bounds, gained, share)];
    });
  }

  // The counts of a stage over all that is kept.
  lately(stage) {
    return this.kept.length < 2 ? [] : difference(this.newest.counts[stage], this.kept[0].counts[stage]);
  }
}

function difference(now, before) {
  return now.map((count, at) => count - before[at]);
}

// As Prometheus' histogram_quantile: linear within a bucket. NaN: nothing was counted. Infinity: above the last bound.
function percentile(bounds, counts, share) {
  const rank = share * sum(counts, (count) => count);
  if (!(rank > 0)) return NaN;
  let below = 0;
  for (let at = 0; at < bounds.length; at += 1) {
    if (below + counts[at] >= rank) {
      const low = at === 0 ? 0 : bounds[at - 1];
      return low + (bounds[at] - low) * ((rank - below) / counts[at]);
    }
    below += counts[at];
  }
  return Infinity;
}

// Ends of watches that are no errors.
const USUAL_ENDS = ["closed", "deadline", "drained"];
const ERROR_GROUPS = [
  ["requests", (name) => name === "0" ? "Request broke before its reply" : `Request answered with ${name}`],
  ["watchesEnded", (name) => `Watch ended: ${name}`],
  ["connectionsRefused", (name) => `Connection refused: ${name}`],
  ["http2StreamsFailed", (name) => `HTTP/2 stream failed: ${name.replaceAll("_", " ")}`],
  ["upstream", (name) => `Upstream: ${name}`],
  ["source", (name) => name === "failures" ? "Source: request without a connection" : "Source: watch stream ended"],
];

// Errors by what they are called on the page.
function errorCounts(errors) {
  const counts = new Map();
  for (const [group, named] of ERROR_GROUPS) {
    for (const [name, count] of Object.entries(errors[group])) {
      if (group !== "watchesEnded" || !USUAL_ENDS.includes(name)) counts.set(named(name), count);
    }
  }
  counts.set("Request panicked", errors.panics);
  counts.set("Log line dropped", errors.logLinesDropped);
  counts.set("Audit line dropped", errors.auditLinesDropped);
  return counts;
}
