//! What the generator asks of a server, answered from etcd: create, update, list, watch. Anything else is refused, so that
//! nobody takes the bridge for a server.

use super::store::{Listed, Store, lines};
use futures_lite::Stream;
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

type Answer = Response<Either<Full<Bytes>, Events>>;

/// Events as they come, one chunk a message of etcd.
pub(super) struct Events(etcd_client::WatchStream);

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        loop {
            match std::task::ready!(Pin::new(&mut self.0).poll_next(context)) {
                // The word that the watch stands.
                Some(Ok(message)) if message.events().is_empty() && !message.canceled() => {}
                Some(Ok(message)) if !message.canceled() => {
                    return Poll::Ready(Some(Ok(Frame::data(lines(message.events()).into()))));
                }
                // Cancelled or broken: the stream ends, which the generator counts.
                Some(Ok(_) | Err(_)) | None => return Poll::Ready(None),
            }
        }
    }
}

pub(super) async fn answer(store: Rc<Store>, request: Request<Incoming>) -> Result<Answer, Infallible> {
    Ok(match reply(&store, request).await {
        Ok(answer) => answer,
        Err(why) => text(StatusCode::BAD_GATEWAY, why.into()),
    })
}

async fn reply(store: &Store, request: Request<Incoming>) -> Result<Answer, String> {
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    if query.contains("Selector=") {
        return Ok(text(StatusCode::BAD_REQUEST, "etcd has no selectors".into()));
    }
    match *request.method() {
        Method::GET if value(&query, "watch").is_some() => {
            let after = value(&query, "resourceVersion").and_then(|text| text.parse().ok()).unwrap_or(0);
            let events = Events(store.watch(&path, after).await?);
            Ok(Response::new(Either::Right(events)))
        }
        Method::GET if path == "/version" => Ok(text(StatusCode::NOT_FOUND, Vec::new())),
        Method::GET => {
            let Listed { revision, objects } = store.list(&path).await?;
            let head = format!(r#"{{"kind":"List","metadata":{{"resourceVersion":"{revision}"}},"items":["#);
            Ok(text(StatusCode::OK, [head.as_bytes(), &objects.join(&b','), b"]}"].concat()))
        }
        Method::POST | Method::PUT => {
            let create = request.method() == Method::POST;
            let json = request.into_body().collect().await.map_err(|fault| fault.to_string())?.to_bytes();
            let path = if create { format!("{path}/{}", name_of(&json)?) } else { path };
            let code = if create { StatusCode::CREATED } else { StatusCode::OK };
            Ok(text(code, store.put(&path, &json).await?))
        }
        _ => Ok(text(StatusCode::METHOD_NOT_ALLOWED, Vec::new())),
    }
}

fn text(code: StatusCode, body: Vec<u8>) -> Answer {
    let mut answer = Response::new(Either::Left(Full::new(body.into())));
    *answer.status_mut() = code;
    answer
}

fn name_of(json: &[u8]) -> Result<String, String> {
    let object: serde_json::Value = serde_json::from_slice(json).map_err(|fault| fault.to_string())?;
    let name = object["metadata"]["name"].as_str().ok_or("an object without a name")?;
    Ok(name.to_owned())
}

fn value<'a>(query: &'a str, key: &str) -> Option<&'a str> {
    query.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
}
