//! What messages show, as protobuf: Kubernetes' `WatchEvent` around an object in its envelope.

use super::{Encode, Encoding, Failure, Shown, Subject, json};
use crate::codec::{Value, protobuf};
use crate::message::MessageKind;

/// Appends the payload of one message. False: it is the reason why its watch ends.
pub(crate) fn push(out: &mut Vec<u8>, shown: &Shown<'_>, encoder: &dyn Encode) -> bool {
    if let Subject::Object { value: Value::Protobuf(kept), .. } = shown.subject {
        if shown.kind == MessageKind::Deleted {
            let mut object = Vec::with_capacity(kept.object().len() + 20);
            kept.push_at(&mut object, shown.revision);
            protobuf::push_event(out, shown.kind, &object);
        } else {
            protobuf::push_event(out, shown.kind, kept.object());
        }
        return true;
    }
    let (mut text, mut object) = (Vec::new(), Vec::new());
    let made = match shown.resource() {
        Some(resource) if json::push_object(&mut text, shown) => {
            encoder.protobuf(&mut object, resource, &text)
        }
        // No watch in protobuf covers what has no such form: it is refused as it starts.
        Some(_) | None => Err("the value has no form in protobuf".to_owned()),
    };
    match made {
        Ok(()) => {
            protobuf::push_event(out, shown.kind, &object);
            true
        }
        Err(why) => {
            encoder.failure(out, Encoding::Protobuf, &Failure::NotShown { why: &why });
            false
        }
    }
}
