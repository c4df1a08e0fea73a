//! One request on a connection of HTTP/2, from its head to the end of its stream.

use std::future::poll_fn;
use std::rc::Rc;

use futures_lite::future;

use super::carrier::Http2Carrier;
use crate::http::request::{HeadError, Parsed, parse_head};
use crate::runtime::conn::NewRequest;
use crate::runtime::exchange::{Carrier as _, Exchange};
use crate::runtime::shard::local::Local;

/// Answers one request.
pub(in crate::runtime) async fn serve(local: Rc<Local>, new: NewRequest) {
    let NewRequest { owner, key, request, stream, client } = new;
    let carrier = Http2Carrier::new(Rc::clone(&local), owner, key, Rc::clone(&stream));
    let mut exchange = Exchange::new(local, client, carrier);
    // One whose stream is reset meanwhile gives its place to the next.
    let gone = poll_fn(|cx| stream.poll_gone(cx));
    let passed = future::or(
        async {
            exchange.arrive().await;
            true
        },
        async {
            gone.await;
            false
        },
    );
    if !passed.await {
        return;
    }
    let parsed =
        if request.is_too_large { Err(HeadError::HeadersTooLong) } else { parse_head(&request.head) };
    match parsed {
        Ok(Parsed::Complete { head, .. }) => {
            if exchange.local.upstream.is_some() {
                exchange.carrier.raw_head = request.head;
            }
            // How the connection goes on is not the request's matter.
            let _ = exchange.serve(&head).await;
        }
        // A head without an end does not come out of a field block.
        Ok(Parsed::Incomplete) => exchange.refuse_head(HeadError::RequestLine).await,
        Err(error) => exchange.refuse_head(error).await,
    }
    if exchange.client.is_health_check() {
        exchange.carrier.refuse_more();
    }
}
