//! Bounds and times of the cache, and one question for all: with a clock and an executor that the tests turn.
#![allow(clippy::unwrap_used)]

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Answer, Cache, ENTRY_BYTES, From, Key, LARGEST_PART, Limits};
use crate::http::noise::Noise;

/// Yes or no, its bytes, and a number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told(bool, usize, u64);

impl Answer for Told {
    fn is_yes(&self) -> bool {
        self.0
    }

    fn bytes(&self) -> usize {
        self.1
    }
}

const TTL: Duration = Duration::from_secs(10);
const WIDE: Limits = Limits { entries: 1000, bytes: 1 << 20 };

fn at(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_000_000) + Duration::from_millis(millis)
}

const fn key(number: u64) -> Key {
    let mut key = [0; 32];
    let bytes = number.to_be_bytes();
    let mut at = 0;
    while at < 8 {
        key[at] = bytes[at];
        at += 1;
    }
    key
}

fn once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

/// Asks at a time for an answer that is given at once.
fn get(cache: &Cache<Told, &'static str>, number: u64, now: SystemTime, told: &Told) -> (Told, From) {
    let ask = async || Ok((told.clone(), now + TTL));
    let (answer, from) = once(cache.get(key(number), || now, ask));
    (answer.unwrap(), from)
}

#[test]
fn yes_and_no_are_used_until_their_time_and_not_longer() {
    for yes in [true, false] {
        let cache = Cache::new(WIDE);
        let told = |number| Told(yes, 0, number);
        assert_eq!(get(&cache, 1, at(0), &told(1)), (told(1), From::Asked));
        assert_eq!(get(&cache, 1, at(9_999), &told(2)), (told(1), From::Kept));
        assert_eq!(get(&cache, 2, at(9_999), &told(3)), (told(3), From::Asked), "another question");
        assert_eq!(get(&cache, 1, at(10_000), &told(4)), (told(4), From::Asked), "the time is over");
        // The clock is set back: how old the answer is is not known.
        assert_eq!(get(&cache, 1, at(5_000), &told(5)), (told(5), From::Asked));
        assert_eq!(
            get(&cache, 1, at(4_500), &told(6)),
            (told(5), From::Kept),
            "clocks of cores differ a little"
        );
    }
}

#[test]
fn a_turned_answer_takes_the_place_of_the_other() {
    let cache = Cache::new(WIDE);
    get(&cache, 1, at(0), &Told(true, 5, 1));
    assert_eq!(get(&cache, 1, at(10_000), &Told(false, 7, 2)).0, Told(false, 7, 2));
    assert_eq!(get(&cache, 1, at(10_001), &Told(true, 5, 3)), (Told(false, 7, 2), From::Kept));
    let inner = cache.lock();
    assert_eq!((inner.classes[0].bytes, inner.classes[1].bytes), (ENTRY_BYTES + 7, 0));
}

#[test]
fn failures_are_not_kept_and_keep_nothing_longer() {
    let cache = Cache::new(WIDE);
    let fail = |now| once(cache.get(key(1), || now, async || Err::<(Told, SystemTime), _>("down")));
    assert_eq!(fail(at(0)), (Err("down"), From::Asked));
    assert_eq!(get(&cache, 1, at(1), &Told(true, 0, 1)).1, From::Asked);
    assert_eq!(fail(at(2)), (Ok(Told(true, 0, 1)), From::Kept), "not expired, while nothing can be asked");
    assert_eq!(fail(at(10_001)), (Err("down"), From::Asked), "expired");
    assert_eq!(cache.lock().flights.len(), 0);
}

#[test]
fn an_answer_that_ends_at_once_is_used_once() {
    let cache: Cache<Told, &str> = Cache::new(WIDE);
    let ask = async || Ok((Told(true, 0, 1), at(0)));
    assert_eq!(once(cache.get(key(1), || at(0), ask)).0, Ok(Told(true, 0, 1)));
    assert_eq!(cache.len(), 0);
}

#[test]
fn what_clients_send_cannot_make_it_grow_or_displace_others() {
    let limits = Limits { entries: 100, bytes: 64 << 10 };
    let cache = Cache::new(limits);
    let kept = |number, now| get(&cache, number, now, &Told(true, 0, 0)).1 == From::Kept;
    for number in 0..50 {
        get(&cache, number, at(0), &Told(true, 10, 0));
    }
    // Refused clients with any number of tokens, and reasons of any length.
    for number in 1000..11_000 {
        let bytes = usize::try_from(number % 2000).unwrap();
        get(&cache, number, at(1), &Told(false, bytes, 0));
        let inner = cache.lock();
        assert!(inner.kept.len() <= 150 && inner.classes[0].bytes <= limits.bytes);
    }
    assert!((0..50).all(|number| kept(number, at(2))), "those that are allowed are untouched");
    // Long names of those that are allowed: bytes count, and one that is too long is not kept at all.
    let part = limits.bytes / LARGEST_PART - ENTRY_BYTES;
    get(&cache, 500, at(3), &Told(true, part + 1, 0));
    assert!(!cache.lock().kept.contains_key(&key(500)) && kept(0, at(3)));
    for number in 600..700 {
        get(&cache, number, at(4), &Told(true, part, 0));
        let inner = cache.lock();
        let of_yes: usize =
            inner.kept.values().filter(|kept| kept.answer.0).map(|kept| ENTRY_BYTES + kept.answer.1).sum();
        assert_eq!((inner.classes[1].bytes, inner.classes[1].bytes <= limits.bytes), (of_yes, true));
    }
    assert!(kept(699, at(5)) && !kept(0, at(5)), "the oldest went first");
    // What has expired goes when something comes.
    get(&cache, 800, at(20_000), &Told(true, 0, 0));
    get(&cache, 801, at(20_000), &Told(false, 0, 0));
    assert_eq!(cache.len(), 2);
}

/// Whether a task is to be polled.
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

type Outcome = (Result<Told, &'static str>, From);

struct Task<'a> {
    key: u64,
    began: SystemTime,
    future: Pin<Box<dyn Future<Output = Outcome> + 'a>>,
    flag: Arc<Flag>,
}

/// A question under way: the waker of the one that asks, and the answer.
type UnderWay = (Option<Waker>, Option<Result<u64, &'static str>>);

/// The upstream, which answers when the test says so.
#[derive(Default)]
struct Script {
    /// By key.
    asked: RefCell<HashMap<u64, UnderWay>>,
    asks: Cell<usize>,
}

/// A question under way; forgotten when its future is dropped.
struct Question<'a>(&'a Script, u64);

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.0.asked.borrow_mut().remove(&self.1);
    }
}

impl Script {
    async fn ask(&self, number: u64) -> Result<u64, &'static str> {
        let before = self.asked.borrow_mut().insert(number, (None, None));
        assert!(before.is_none(), "a question is under way twice");
        self.asks.set(self.asks.get() + 1);
        let question = Question(self, number);
        std::future::poll_fn(|context| {
            let mut asked = question.0.asked.borrow_mut();
            let (waker, answer) = asked.get_mut(&number).unwrap();
            match answer.take() {
                Some(answer) => Poll::Ready(answer),
                None => {
                    *waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    fn answer(&self, number: u64, answer: Result<u64, &'static str>) {
        if let Some((waker, slot)) = self.asked.borrow_mut().get_mut(&number) {
            *slot = Some(answer);
            waker.take().into_iter().for_each(Waker::wake);
        }
    }
}

/// Many orders of beginning, waking, giving up and answering: never two questions for one answer, and none that waits for ever.
#[test]
fn one_asks_and_another_takes_over_in_every_order() {
    for seed in 1..=3000 {
        let (script, clock) = (Script::default(), Cell::new(at(0)));
        let cache: Cache<Told, &'static str> = Cache::new(WIDE);
        let mut noise = Noise(seed);
        let mut tasks: Vec<Task<'_>> = Vec::new();
        let (mut done, mut given, mut dropped, mut began) = (0, 0_u64, 0, 0);
        let spawn = |number: u64| {
            let ask = async move |script: &Script, clock: &Cell<SystemTime>| {
                let now = clock.get();
                let told = script.ask(number).await?;
                Ok((Told(told % 3 != 0, 0, told), now + Duration::from_millis(50)))
            };
            let (cache, script, clock) = (&cache, &script, &clock);
            let future = async move {
                cache.get(key(number), || clock.get(), async || ask(script, clock).await).await
            };
            let flag = Arc::new(Flag(AtomicBool::new(true)));
            Task { key: number, began: clock.get(), future: Box::pin(future), flag }
        };
        let steps = 60;
        for step in 0..100_000 {
            let is_ending = step >= steps;
            match noise.below(if is_ending { 4 } else { 10 }) {
                0 if !script.asked.borrow().is_empty() => {
                    let number = u64::try_from(noise.below(2)).unwrap();
                    given += 1;
                    let answer = if noise.below(4) == 0 { Err("down") } else { Ok(given) };
                    script.answer(number, answer);
                }
                0..=3 => {
                    let woken: Vec<usize> =
                        (0..tasks.len()).filter(|at| tasks[*at].flag.0.load(Ordering::Relaxed)).collect();
                    if woken.is_empty() && is_ending && script.asked.borrow().is_empty() {
                        break;
                    }
                    if let Some(&place) = woken.get(noise.below(woken.len().max(1))) {
                        tasks[place].flag.0.store(false, Ordering::Relaxed);
                        let waker = Waker::from(Arc::clone(&tasks[place].flag));
                        let polled = tasks[place].future.as_mut().poll(&mut Context::from_waker(&waker));
                        if let Poll::Ready((answer, from)) = polled {
                            done += 1;
                            let task = tasks.swap_remove(place);
                            if let (Ok(_), From::Kept) = (&answer, from) {
                                assert!(clock.get() >= task.began && task.key < 2);
                            }
                        }
                    }
                }
                4 | 5 => {
                    began += 1;
                    tasks.push(spawn(u64::try_from(noise.below(2)).unwrap()));
                }
                6 if !tasks.is_empty() => {
                    dropped += 1;
                    drop(tasks.swap_remove(noise.below(tasks.len())));
                }
                _ => clock.set(clock.get() + Duration::from_millis(7)),
            }
        }
        assert!(tasks.is_empty(), "seed {seed}: {} wait for ever", tasks.len());
        assert_eq!(done + dropped, began, "seed {seed}");
        assert_eq!(cache.lock().flights.len(), 0, "seed {seed}");
    }
}

#[test]
fn ten_thousand_that_wait_cost_one_question() {
    let (script, cache) = (Script::default(), Cache::<Told, &'static str>::new(WIDE));
    let ask = async || script.ask(1).await.map(|told| (Told(true, 0, told), at(10_000)));
    let mut tasks: Vec<_> = (0..10_000).map(|_| Box::pin(cache.get(key(1), || at(0), ask))).collect();
    let mut context = Context::from_waker(Waker::noop());
    assert!(tasks.iter_mut().all(|task| task.as_mut().poll(&mut context).is_pending()));
    script.answer(1, Ok(7));
    for task in &mut tasks {
        let Poll::Ready((answer, _)) = task.as_mut().poll(&mut context) else { panic!("it waits") };
        assert_eq!(answer, Ok(Told(true, 0, 7)));
    }
    assert_eq!(script.asks.get(), 1);
}
