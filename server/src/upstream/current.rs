//! The current terms of the upstream, and the thread that renews them.
//!
//! Owns one thread. It reads the files every few seconds (a pod's token and CA rotate), resolves names, and resolves them again
//! soon after no endpoint could be reached: resolving waits, and a shard must not.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

use super::material::Material;
use super::options::UpstreamOptions;
use super::terms::Terms;
use crate::debounce::{CHECK_INTERVAL, Debounce, Fingerprint};

/// How often names are resolved that are in use.
const RESOLVE: Duration = Duration::from_secs(30);

/// The upstream as it is now.
#[derive(Debug)]
pub struct Current {
    options: UpstreamOptions,
    terms: ArcSwap<Terms>,
    /// No endpoint could be reached since names were last resolved.
    is_lost: AtomicBool,
}

impl Current {
    /// Reads the files and resolves the names, once.
    ///
    /// # Errors
    /// A file that cannot be used, as one line. A name that is not known is no error.
    pub fn open(options: UpstreamOptions) -> Result<Arc<Self>, String> {
        Self::read(options).map(|(current, _)| current)
    }

    /// The same, and starts the thread, which runs as long as the process.
    ///
    /// # Errors
    /// The same; or no thread can be started.
    pub fn start(options: UpstreamOptions) -> Result<Arc<Self>, String> {
        let (current, fingerprint) = Self::read(options)?;
        let renewed = Arc::clone(&current);
        std::thread::Builder::new()
            .name("upstream".into())
            .spawn(move || renewed.renew(fingerprint))
            .map_err(|error| format!("no thread for the upstream: {error}; raise nproc (ulimit -u)"))?;
        Ok(current)
    }

    fn read(options: UpstreamOptions) -> Result<(Arc<Self>, Fingerprint), String> {
        let material = Material::read(&options)?;
        let terms = ArcSwap::from_pointee(Terms::new(&material, 0)?);
        let current = Arc::new(Self { options, terms, is_lost: AtomicBool::new(false) });
        current.resolve();
        Ok((current, Fingerprint::of(&Ok::<_, String>(material))))
    }

    /// The terms of a connection that begins now.
    #[must_use]
    pub fn terms(&self) -> Arc<Terms> {
        self.terms.load_full()
    }

    /// What the operator says about it.
    #[must_use]
    pub const fn options(&self) -> &UpstreamOptions {
        &self.options
    }

    /// No endpoint could be reached: names may mean other addresses now.
    pub fn is_unreachable(&self) {
        self.is_lost.store(true, Ordering::Relaxed);
    }

    fn renew(&self, fingerprint: Fingerprint) {
        let mut debounce = Debounce::after(fingerprint);
        let mut fault = None;
        let mut resolved = Instant::now();
        loop {
            std::thread::sleep(CHECK_INTERVAL);
            let read = Material::read(&self.options);
            if debounce.take(Fingerprint::of(&read), false) {
                let newer = read.and_then(|material| Terms::new(&material, self.terms().generation + 1));
                match newer {
                    Ok(terms) => {
                        self.terms.store(Arc::new(terms));
                        self.resolve();
                        crate::log::info("upstream: its files were read again and have changed");
                        fault = None;
                    }
                    Err(why) if fault.as_ref() != Some(&why) => {
                        crate::log::warn(&format!("upstream: {why}; what was read before stays in use"));
                        fault = Some(why);
                    }
                    Err(_) => {}
                }
            }
            if self.is_lost.swap(false, Ordering::Relaxed) || resolved.elapsed() >= RESOLVE {
                self.resolve();
                resolved = Instant::now();
            }
        }
    }

    /// Resolves the names. One that is not known any more keeps its last addresses.
    fn resolve(&self) {
        let terms = self.terms();
        let addresses = terms.places.iter().map(|place| {
            let named = (place.endpoint.host.as_str(), place.endpoint.port).to_socket_addrs();
            match named.map(Iterator::collect::<Vec<SocketAddr>>) {
                Ok(found) if !found.is_empty() => found,
                Ok(_) | Err(_) => place.addresses.clone(),
            }
        });
        let addresses: Vec<_> = addresses.collect();
        if terms.places.iter().zip(&addresses).any(|(place, found)| place.addresses != *found) {
            self.terms.store(Arc::new(terms.with_addresses(addresses)));
        }
    }
}
