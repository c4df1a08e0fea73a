//! One run: prepare the server, open the watches, write, wait for the rest, and put together what was found.

use crate::calls::Beside;
use crate::clock::{SECOND_NS, nanos, now_ns};
use crate::fleet::Fleet;
use crate::latency::Latency;
use crate::ledger::Scope;
use crate::message::Command;
use crate::object::Recipe;
use crate::options::Load;
use crate::pace::{Gate, Pace};
use crate::progress::Progress;
use crate::record::{Facts, Record, Row, facts_of};
use crate::tally::Tally;
use crate::target::{Target, Trouble, client_cpu_ns, used};
use crate::units::say;
use crate::writer::{Order, Span, Writers, Written};
use crate::{process, setup};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// One row a second, with what was delivered and what the server used since the row before.
#[derive(Default)]
struct Series {
    server_pid: Option<u32>,
    began_ns: u64,
    due_ns: u64,
    before_ns: u64,
    delivered_before: u64,
    server_cpu_before_ns: Option<u64>,
    rows: Vec<Row>,
}

impl Series {
    fn new(server_pid: Option<u32>) -> Self {
        let now = now_ns();
        let (due_ns, server_cpu_before_ns) = (now + SECOND_NS, server_pid.and_then(process::cpu_ns));
        Self { server_pid, began_ns: now, due_ns, before_ns: now, server_cpu_before_ns, ..Self::default() }
    }

    /// The row of the time since the last one; `delivered` is of the whole run.
    fn sample(
        &mut self,
        now: u64,
        watchers: u64,
        delivered: u64,
        recent: &Latency,
        cpu_ns: Option<u64>,
    ) -> Row {
        let passed_ns = now.saturating_sub(self.before_ns).max(1) as f64;
        let row = Row {
            at_seconds: now.saturating_sub(self.began_ns) as f64 / 1e9,
            watchers,
            deliveries_per_second: delivered.saturating_sub(self.delivered_before) as f64 * 1e9 / passed_ns,
            latency_p99_ns: Some(recent.at(0.99)).filter(|_| !recent.is_empty()),
            server_cpu_share: used(self.server_cpu_before_ns, cpu_ns).map(|used| used as f64 / passed_ns),
            server_rss_bytes: self.server_pid.and_then(process::rss_bytes),
            server_fds: self.server_pid.and_then(process::open_fds),
        };
        (self.before_ns, self.due_ns) = (now, now + SECOND_NS);
        (self.delivered_before, self.server_cpu_before_ns) = (delivered, cpu_ns);
        self.rows.push(row);
        row
    }
}

/// After the last watch is open: how long the server may settle before its memory is read.
const SETTLE: Duration = Duration::from_millis(500);
/// Between the word "measure from" and the first write.
const LEAD_NS: u64 = 200_000_000;
const POLL_NS: u64 = 10_000_000;
/// After the last reply: what a write costs may come a little later than its reply.
const TAIL_NS: u64 = 300_000_000;
/// Filling the sockets of watchers that never read: how long at most, and how long nothing comes when it is over.
const FILL_LONGEST_NS: u64 = 60_000_000_000;
const FILL_QUIET_NS: u64 = 2_000_000_000;

/// What must not be; a watch may end.
const WRONG: &str = "lost duplicated out_of_order unexpected malformed calls_failed";

pub(crate) trait Writing {
    fn is_done(&mut self) -> Result<bool, String>;
    fn end(self: Box<Self>) -> Result<(Written, Facts), String>;
}

/// Writers with a thread each, and what goes on beside them.
impl Writing for (Writers, Beside) {
    fn is_done(&mut self) -> Result<bool, String> {
        Ok(self.0.are_done())
    }

    fn end(self: Box<Self>) -> Result<(Written, Facts), String> {
        Ok((self.0.end()?, self.1.end()?))
    }
}

pub(crate) struct Run<'a> {
    args: &'a Load,
    pub(crate) target: Target,
    recipe: Recipe,
    object_bytes: usize,
    acknowledged: Arc<AtomicU64>,
    series: Series,
    progress: Progress,
    pace: Option<Pace>,
    span: Span,
    pub(crate) record: Record,
    /// What the server uses while the watches end is not counted.
    pub(crate) ends_apart: bool,
}

impl<'a> Run<'a> {
    pub(crate) fn prepare(args: &'a Load) -> Result<Self, Trouble> {
        let target = Target::prepare(args, args.watchers)?;
        let recipe = target.recipe(args, args.namespaces(), args.objects);
        Ok(Self::new(args, target, recipe, 0))
    }

    pub(crate) fn new(args: &'a Load, target: Target, recipe: Recipe, object_bytes: usize) -> Self {
        Self {
            args,
            recipe,
            object_bytes,
            acknowledged: Arc::default(),
            series: Series::new(target.server_pid),
            progress: Progress::new(args.quiet),
            pace: None,
            span: Span::default(),
            record: Record::new("fanout", "", 1),
            ends_apart: false,
            target,
        }
    }

    pub(crate) fn set_up(&mut self) -> Result<Vec<Scope>, String> {
        let (args, target) = (self.args, &self.target);
        self.progress.phase("creating objects", None);
        self.object_bytes = setup::create_objects(target, &mut self.recipe, args.size_bytes, 1)?;
        let mut server = target.connect();
        if args.mixture.shapes {
            return setup::list_shapes(&mut server, &self.recipe);
        }
        let (labels, fields) = (args.label_selector.as_deref(), args.field_selector.as_deref());
        setup::list_scopes(&mut server, &self.recipe, labels, fields)
    }

    /// Opens the watches, has `begin` start the writes, waits for the rest, and closes the accounts.
    pub(crate) fn measure<'w>(
        mut self,
        scopes: &[Scope],
        begin: impl FnOnce(&Self, Span, &Written) -> Result<Box<dyn Writing + 'w>, String>,
    ) -> Result<Record, String> {
        let (args, target) = (self.args, self.target.clone());
        self.record.set("server_rss_before_bytes", target.server_rss());
        let mut fleet = self.open(scopes)?;
        self.wait_until(&mut fleet, now_ns() + nanos(SETTLE))?;
        self.record.set("server_rss_idle_bytes", target.server_rss());
        let mut written = self.fill(&mut fleet)?;

        let start_ns = now_ns() + LEAD_NS;
        let measure_from_ns = start_ns + nanos(args.warmup);
        let span = Span { start_ns, measure_from_ns, end_ns: measure_from_ns + nanos(args.duration) };
        self.span = span;
        fleet.tell_all(&Command::Measure { from_ns: measure_from_ns })?;
        self.progress.phase("measuring, seconds", Some((args.warmup + args.duration).as_secs()));
        let objects = self.recipe.objects();
        self.pace = Pace::new(args, scopes, objects, fleet.totals().1);
        let mut writing = begin(&self, span, &written)?;
        while now_ns() < measure_from_ns {
            self.wait_until(&mut fleet, measure_from_ns.min(now_ns() + POLL_NS))?;
            writing.is_done()?;
        }
        let (server_before, client_before) = (target.server_cpu_ns(), client_cpu_ns(fleet.pids()));
        while !writing.is_done()? {
            self.wait_until(&mut fleet, now_ns() + POLL_NS)?;
        }
        let (of_span, beside) = writing.end()?;
        written.add(of_span);
        self.keep_memory();
        let apart = if self.ends_apart { self.await_deliveries(&mut fleet)? } else { None };
        fleet.tell_all(&Command::Finish(written.finish(objects, args.drain)))?;
        self.progress.phase("draining", None);
        while !fleet.is_done() {
            self.step(&mut fleet, now_ns() + SECOND_NS)?;
        }
        let client_ns = used(client_before, client_cpu_ns(fleet.pids()));
        self.record.set("server_rss_end_bytes", target.server_rss());
        let server_ns = used(server_before, apart.or_else(|| target.server_cpu_ns()));

        let window_ns = fleet.tally.last_delivery_ns.max(span.end_ns).saturating_sub(measure_from_ns) as f64;
        let received = fleet.tally.window.deliveries;
        let mut record = self.record(&fleet, &written, measure_from_ns);
        record.add(&beside);
        record.set("server_cpu_ns", server_ns);
        let each = server_ns.filter(|_| received > 0).map(|ns| ns as f64 / received as f64);
        record.set("server_cpu_ns_per_delivery", each);
        record.set("server_cpu_share", server_ns.map(|ns| ns as f64 / window_ns));
        record.set("client_cpu_share", client_ns.map(|ns| ns as f64 / window_ns));
        record.judge(WRONG, "deliveries_checked");
        Ok(record)
    }

    /// The server's memory, and what the kernel holds for it, while all are connected and the writes are over.
    fn keep_memory(&mut self) {
        let (record, target) = (&mut self.record, &self.target);
        record.set("server_rss_loaded_bytes", target.server_rss());
        record.set("server_anon_loaded_bytes", target.server_pid.and_then(process::anon_bytes));
        if self.args.mixture.deaf_percent > 0
            && let Some(held) = process::held(target.address)
        {
            // Watchers that never read and that the server closed with bytes unsent: the kernel's table tells.
            record.set("deaf_closing", held.closing);
            record.set("kernel_unsent_bytes", held.unsent_bytes);
            record.set("kernel_unread_bytes", held.unread_bytes);
        }
    }

    /// Waits for the deliveries of writes that are due to one watcher each; gives the CPU time until then.
    fn await_deliveries(&mut self, fleet: &mut Fleet) -> Result<Option<u64>, String> {
        let give_up_ns = now_ns() + nanos(self.args.drain);
        self.wait_until(fleet, now_ns() + TAIL_NS)?;
        let due = if self.args.watchers > 0 { self.acknowledged.load(Ordering::Relaxed) } else { 0 };
        while fleet.totals().1 < due && now_ns() < give_up_ns {
            self.wait_until(fleet, now_ns() + POLL_NS)?;
        }
        Ok(self.target.server_cpu_ns())
    }

    pub(crate) fn gate(&self) -> Option<Arc<Gate>> {
        self.pace.as_ref().map(Pace::gate)
    }

    pub(crate) fn open(&mut self, scopes: &[Scope]) -> Result<Fleet, String> {
        let (args, watchers) = (self.args, self.args.watchers);
        let lasts = args.warmup + args.duration + args.drain;
        let plans = self.target.plans(args, self.recipe.run, scopes, lasts);
        let mut fleet = Fleet::start(&plans)?;
        self.progress.phase("opening watches", Some(u64::from(watchers)));
        fleet.await_open(|fleet| self.step(fleet, now_ns() + SECOND_NS))?;
        Ok(fleet)
    }

    /// Writes at full speed what fills the sockets of watchers that never read, and waits until the others have it.
    fn fill(&mut self, fleet: &mut Fleet) -> Result<Written, String> {
        let writes = self.args.mixture.fill_bytes.div_ceil(self.object_bytes.max(1)) as u64;
        if writes == 0 {
            return Ok(Written::default());
        }
        let until_ns = now_ns() + FILL_LONGEST_NS;
        let span = Span { start_ns: now_ns(), measure_from_ns: u64::MAX, end_ns: until_ns };
        let writers = self.start_writers(&[], span, writes.div_ceil(u64::from(self.args.writers)));
        while !writers.are_done() {
            self.wait_until(fleet, now_ns() + POLL_NS)?;
        }
        let written = writers.end()?;
        let (mut delivered, mut moved_ns) = (0, now_ns());
        while now_ns() < until_ns && now_ns() < moved_ns + FILL_QUIET_NS {
            self.step(fleet, now_ns() + 100_000_000)?;
            if fleet.totals().1 > delivered {
                (delivered, moved_ns) = (fleet.totals().1, now_ns());
            }
        }
        Ok(written)
    }

    pub(crate) fn part(&self, scenario: &str, round: u32) -> Record {
        let mut record = Record::new(scenario, &self.target.url(), round);
        self.target.describe(&mut record, &self.recipe, self.args);
        Record { watchers: self.args.watchers, ..record }
    }

    pub(crate) fn write(&self, span: Span, before: &Written) -> Result<Box<dyn Writing>, String> {
        let beside = Beside::start(self.args, &self.target, &self.recipe, span);
        Ok(Box::new((self.start_writers(&before.finals, span, u64::MAX), beside)))
    }

    /// Writers that go on after the numbers of `before`. Without a measured moment: as fast as it goes.
    fn start_writers(&self, before: &[(u32, u32)], span: Span, writes_max: u64) -> Writers {
        let mut order = Order::new(&self.target, self.args, &self.recipe, span);
        if span.measure_from_ns == u64::MAX {
            order.interval_ns = 0;
        }
        (order.writes_max, order.written_before) = (writes_max, before.to_vec());
        (order.gate, order.acknowledged) = (self.gate(), Arc::clone(&self.acknowledged));
        Writers::start(order)
    }

    pub(crate) fn close(&mut self, mut fleet: Fleet) -> Result<Tally, String> {
        fleet.finish(Written::default().finish(self.recipe.objects(), self.args.drain))
    }

    pub(crate) fn wait_until(&mut self, fleet: &mut Fleet, until_ns: u64) -> Result<(), String> {
        while now_ns() < until_ns {
            self.step(fleet, until_ns)?;
        }
        Ok(())
    }

    /// Listens to the fleet until `until_ns` at most, and keeps and shows the row of the second when it is due.
    fn step(&mut self, fleet: &mut Fleet, until_ns: u64) -> Result<(), String> {
        let wait_ns = until_ns.min(self.series.due_ns).saturating_sub(now_ns());
        fleet.listen(Duration::from_nanos(wait_ns))?;
        let (open, delivered) = fleet.totals();
        if let Some(pace) = &mut self.pace {
            pace.learn(open, delivered);
        }
        if !fleet.is_ready() {
            self.progress.reach(open);
        }
        let now = now_ns();
        if now < self.series.due_ns {
            return Ok(());
        }
        let cpu_ns = self.target.server_cpu_ns();
        let row = self.series.sample(now, open, delivered, &fleet.recent, cpu_ns);
        fleet.recent = Latency::default();
        if (self.span.start_ns..self.span.end_ns).contains(&now) {
            self.progress.reach((now - self.span.start_ns) / SECOND_NS);
        }
        let mut known = facts_of(serde_json::to_value(row).unwrap_or_default());
        known.insert("writes".to_owned(), self.acknowledged.load(Ordering::Relaxed).into());
        known.insert("deliveries".to_owned(), delivered.into());
        let figures = say("writes deliveries deliveries_per_second latency_p99_ns", &known);
        self.progress.say(&format!("{}  {figures}", say("at_seconds watchers", &known)), &figures);
        Ok(())
    }

    fn record(mut self, fleet: &Fleet, written: &Written, measure_from_ns: u64) -> Record {
        let (args, tally) = (self.args, &fleet.tally);
        // An open loop lasts as long as it was asked to; only a server that falls behind makes it longer.
        let seconds_until = |end_ns: u64| {
            (end_ns.saturating_sub(measure_from_ns) as f64 / 1e9).max(args.duration.as_secs_f64())
        };
        let mut record = std::mem::take(&mut self.record);
        (record.watchers, record.object_bytes) = (args.watchers, self.object_bytes);
        record.write_rate_per_second = args.rate.per_second();
        record.series = self.series.rows;
        self.target.describe(&mut record, &self.recipe, args);
        record.set("watch_open_seconds", fleet.opening_seconds());
        record.set("watch_open_rate_per_second", f64::from(args.watchers) / fleet.opening_seconds());
        let grown = record.value("server_rss_idle_bytes").zip(record.value("server_rss_before_bytes"));
        let each = grown.map(|(idle, before)| (idle - before) / f64::from(args.watchers.max(1)));
        record.set("rss_bytes_per_watcher", each);
        record.set("writes", written.measured);
        record.set("writes_failed", written.failed.len());
        record.set("writes_per_second", written.measured as f64 / seconds_until(written.last_reply_ns));
        record.set("write_send_delay_p99_ns", written.lateness.at(0.99));
        record.set_quantiles("write_latency", &written.latency);
        record.set_latency(&fleet.tally.latency);
        // All that arrived in that time, and not only what was written in it: else what was in flight when it began
        // would count as time in which nothing came, the more of it the longer the queue.
        let delivering_seconds = seconds_until(tally.last_delivery_ns);
        record.set("deliveries_per_second", tally.window.deliveries as f64 / delivering_seconds);
        record.set("stream_bytes_per_second", tally.window.bytes as f64 / delivering_seconds);
        record.set("events_per_read", tally.events_per_read());
        record.set("frame_bytes", tally.frame_bytes());
        let mut seen = tally.seen.clone();
        seen.note(|| written.first_fault.clone());
        record.add(&seen);
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_tells_what_happened_since_the_row_before() {
        let own = Some(std::process::id());
        let mut series = Series { server_cpu_before_ns: Some(SECOND_NS), ..Series::new(own) };
        let began = series.began_ns;
        let mut recent = Latency::default();
        recent.record(5_000_000);
        let first = series.sample(began + 2 * SECOND_NS, 10, 500, &recent, Some(SECOND_NS * 3 / 2));
        assert_eq!((first.at_seconds, first.watchers, first.deliveries_per_second), (2.0, 10, 250.0));
        assert_eq!((first.server_cpu_share, series.due_ns), (Some(0.25), began + 3 * SECOND_NS));
        assert!(first.latency_p99_ns.is_some_and(|ns| ns.abs_diff(5_000_000) < 5_000));
        assert!(first.server_rss_bytes.is_some_and(|bytes| bytes > 100_000) && first.server_fds >= Some(3));
        recent = Latency::default();
        series.server_pid = None;
        let second = series.sample(began + 3 * SECOND_NS, 10, 500, &recent, None);
        assert_eq!((second.deliveries_per_second, second.latency_p99_ns), (0.0, None));
        assert_eq!((second.server_cpu_share, second.server_rss_bytes), (None, None));
        assert_eq!(series.rows, [first, second]);
        let third = series.sample(began + 4 * SECOND_NS, 10, 500, &recent, Some(1));
        assert!(third.server_cpu_share.is_none(), "the row before has none");
    }
}
