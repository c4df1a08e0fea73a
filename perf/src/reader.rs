//! A client that reads while others watch: nine GETs of one object, then a LIST of a namespace, one call after the other,
//! with a short pause. It checks that each LIST has every object and each GET the one that was asked for.

use crate::clock::now_ns;
use crate::http::{Connection, excerpt};
use crate::latency::Latency;
use crate::object::{Recipe, name_of};
use fastrand::Rng;
use memchr::memmem;
use std::thread;
use std::time::Duration;

const GETS_PER_LIST: u64 = 9;
/// Between an answer and the next call: who reads does something with it.
const PAUSE: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) server: Connection,
    pub(crate) recipe: Recipe,
    pub(crate) number: u32,
    pub(crate) from_ns: u64,
    pub(crate) end_ns: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) lists: Latency,
    pub(crate) gets: Latency,
    /// Answers with another status than 200, or without what was asked for.
    pub(crate) failed: u64,
    pub(crate) first_fault: Option<String>,
}

impl Read {
    pub(crate) fn add(&mut self, other: Self) {
        self.lists.add(&other.lists.pairs());
        self.gets.add(&other.gets.pairs());
        self.failed += other.failed;
        self.first_fault = self.first_fault.take().or(other.first_fault);
    }
}

impl Reader {
    pub(crate) fn run(mut self) -> Read {
        let mut read = Read::default();
        let mut random = Rng::with_seed(self.recipe.seed ^ (u64::from(self.number) << 40));
        crate::clock::sleep_until(self.from_ns);
        for turn in 0u64.. {
            let asked_ns = now_ns();
            if asked_ns >= self.end_ns {
                break;
            }
            let object = random.u32(..self.recipe.objects());
            let is_list = turn % (GETS_PER_LIST + 1) == GETS_PER_LIST;
            let outcome = if is_list { self.list(object) } else { self.get(object) };
            let latency = if is_list { &mut read.lists } else { &mut read.gets };
            match outcome {
                Ok(()) => latency.record(now_ns().saturating_sub(asked_ns)),
                Err(why) => {
                    read.failed += 1;
                    read.first_fault.get_or_insert(why);
                }
            }
            thread::sleep(PAUSE);
        }
        read
    }

    fn list(&mut self, object: u32) -> Result<(), String> {
        let path = self.recipe.resource.collection(self.recipe.namespace_of(object));
        let wanted = self.recipe.per_namespace as usize;
        let body = self.server.get(&path)?;
        let listed = memmem::find_iter(body, br#""stamp":""#).count();
        if listed == wanted {
            return Ok(());
        }
        Err(format!("GET {path} has {listed} of {wanted} objects"))
    }

    fn get(&mut self, object: u32) -> Result<(), String> {
        let path = self.recipe.path_of(object);
        let name = format!(r#""name":"{}""#, name_of(object % self.recipe.per_namespace));
        let body = self.server.get(&path)?;
        if memmem::find(body, name.as_bytes()).is_some() {
            return Ok(());
        }
        Err(format!("GET {path} is another object: {}", excerpt(body)))
    }
}
