//! The side of a server that takes over: whether there is one to take over from, and when.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::channel::Channel;
use super::control_socket::ControlSocket;
use super::message::{Description, Kind, Reply, Request, Store};
use super::predecessor_link::PredecessorLink;
use crate::log;
use crate::runtime::{Bound, Handover, Inherits};

/// How long the predecessor may take to answer. It lets its shards stop to accept meanwhile.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How often it is looked whether the state is loaded.
const READY_POLL: Duration = Duration::from_millis(5);
/// How long the revision of the predecessor may take to arrive here. A watch at a later one waits for it anyway.
const REVISION_PATIENCE: Duration = Duration::from_secs(5);

/// The server of this user at an address, if it runs and one over `store` can take over from it. One that ends when it is asked does not
/// run. Changes nothing.
///
/// # Errors
/// It cannot be taken over, and why.
pub fn find(listen: SocketAddr, store: &Store) -> Result<Option<Description>, String> {
    let Some(channel) = connect(listen)? else { return Ok(None) };
    let Some(found) = ask(&channel).map_err(|why| refused(listen, &why))? else { return Ok(None) };
    match found.store.keeps_from(store) {
        Some(why) => Err(refused(format!("{listen} (process {})", found.process), &why)),
        None => Ok(Some(found)),
    }
}

/// Waits until the state is loaded, and takes over; or binds the addresses, if the predecessor has ended meanwhile. `None`: this server
/// is being closed.
///
/// # Errors
/// It is refused, or the listeners cannot be used. The predecessor goes on.
pub fn receive(
    handover: &Handover,
    store: &Store,
    inherits: Inherits,
) -> Result<Option<(PredecessorLink, Option<ControlSocket>)>, String> {
    let listen = handover.listen();
    while !handover.is_ready() {
        if handover.is_closing() {
            return Ok(None);
        }
        std::thread::sleep(READY_POLL);
    }
    let Some(channel) = connect(listen)? else { return alone(handover, inherits).map(Some) };
    let began = Instant::now();
    let taken = take(&channel, handover, store, inherits).map_err(|why| refused(listen, &why))?;
    let Some((bound, control, process)) = taken else {
        drop(channel);
        return alone(handover, inherits).map(Some);
    };
    handover.listen_on(bound);
    let took = began.elapsed();
    log::info(&format!(
        "took over from process {process} in {took:.1?}: it ends its watches one after another now"
    ));
    Ok(Some((PredecessorLink::to(channel), control)))
}

/// The predecessor has ended: nothing is taken over.
fn alone(
    handover: &Handover,
    inherits: Inherits,
) -> Result<(PredecessorLink, Option<ControlSocket>), String> {
    log::warn("the server that was to be taken over has ended: starting without it");
    let bound = handover.bind(inherits).map_err(|error| error.to_string())?;
    handover.listen_on(bound);
    Ok((PredecessorLink::default(), None))
}

/// Takes the listeners. `None`: the predecessor ended before it gave them away.
fn take(
    channel: &Channel,
    handover: &Handover,
    store: &Store,
    inherits: Inherits,
) -> Result<Option<(Bound, Option<ControlSocket>, u32)>, String> {
    let Some(description) = ask(channel)? else { return Ok(None) };
    let Description { process, store: theirs, cluster, revision, admin_listen, .. } = description;
    // It may be another one than the one that was found.
    if let Some(why) = theirs.keeps_from(store) {
        return Err(why);
    }
    if cluster != 0 && cluster != handover.cluster() {
        return Err("it follows another etcd cluster: give both the same --etcd-endpoints".to_owned());
    }
    if inherits.admin && admin_listen != handover.admin_listen() {
        return Err("its admin listener has changed meanwhile: start again".to_owned());
    }
    let began = Instant::now();
    while handover.revision() < revision && began.elapsed() < REVISION_PATIENCE {
        std::thread::sleep(READY_POLL);
    }
    let (mut public, mut admin, mut control) = (Vec::new(), None, None);
    let mut next = channel.ask(&Request::Listeners, ANSWER_TIMEOUT)?;
    loop {
        let (more, kind, sockets) = match next {
            Some((Reply::Listeners { kind, more }, sockets)) => (more, kind, sockets),
            Some((Reply::Refused { why }, _)) => return Err(why),
            Some((other, _)) => return Err(format!("it answers {other:?}, and not with listeners")),
            None => return Ok(None),
        };
        let mut sockets: Vec<OwnedFd> = sockets;
        match kind {
            Kind::TakeOver => control = sockets.pop().map(ControlSocket::inherited),
            Kind::Admin => admin = sockets.pop(),
            Kind::Public => public.append(&mut sockets),
        }
        if !more {
            break;
        }
        next = channel.hear(ANSWER_TIMEOUT)?;
    }
    if public.is_empty() {
        return Err("it has no listeners".to_owned());
    }
    let bound = handover.inherit(public, admin).map_err(|error| error.to_string())?;
    match channel.ask(&Request::Ready, ANSWER_TIMEOUT)? {
        // Without an answer it has died, and nobody else has the listeners.
        Some((Reply::Yours, _)) | None => Ok(Some((bound, control, process))),
        Some((Reply::Refused { why }, _)) => Err(why),
        Some((other, _)) => Err(format!("it answers {other:?} to the end")),
    }
}

fn connect(listen: SocketAddr) -> Result<Option<Channel>, String> {
    Channel::connect(listen).map_err(|error| {
        format!("the server at {listen} cannot be asked whether it can be taken over: {error}")
    })
}

/// What the predecessor says of itself. `None`: it has ended.
fn ask(channel: &Channel) -> Result<Option<Description>, String> {
    match channel.ask(&Request::Who, ANSWER_TIMEOUT)? {
        Some((Reply::Process(description), _)) => Ok(Some(*description)),
        Some((Reply::Refused { why }, _)) => Err(why),
        Some((other, _)) => Err(format!("it answers {other:?}")),
        None => Ok(None),
    }
}

fn refused(whom: impl std::fmt::Display, why: &str) -> String {
    format!("the server at {whom} cannot be taken over: {why}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::channel::listener;
    use super::*;

    /// Wherever the predecessor dies before it answers, there is nobody to take over from.
    #[test]
    fn one_that_ends_when_it_is_asked_is_not_there() {
        // Documentation's: nothing listens there.
        let at = |port: u16| SocketAddr::from(([192, 0, 2, 2], port));
        let store = Store::Etcd("/registry".to_owned());
        assert!(find(at(1), &store).unwrap().is_none(), "nobody is there");

        // Dies once the question waits for it, in all likelihood.
        const WAITS: Duration = Duration::from_millis(50);
        let is_gone = |channel: &Channel, when: &str| assert!(ask(channel).unwrap().is_none(), "{when}");

        // It has not accepted the connection: it dies before it is asked, and after.
        let listens = listener(at(2)).unwrap();
        let channel = connect(at(2)).unwrap().unwrap();
        drop(listens);
        is_gone(&channel, "neither accepted nor asked");
        let listens = listener(at(3)).unwrap();
        let channel = connect(at(3)).unwrap().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(WAITS);
                drop(listens);
            });
            is_gone(&channel, "not accepted, and asked");
        });

        // It has accepted it: it dies before it is asked, before it has read that, and after.
        let listens = listener(at(4)).unwrap();
        let accepted = || (connect(at(4)).unwrap().unwrap(), Channel::accept(&listens).unwrap());
        let (channel, theirs) = accepted();
        drop(theirs);
        is_gone(&channel, "not asked");
        let (channel, theirs) = accepted();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(WAITS);
                drop(theirs);
            });
            is_gone(&channel, "asked, and not read");
        });
        let (channel, theirs) = accepted();
        std::thread::scope(|scope| {
            scope.spawn(move || theirs.hear::<Request>(ANSWER_TIMEOUT).unwrap().unwrap());
            is_gone(&channel, "read");
        });
    }
}
