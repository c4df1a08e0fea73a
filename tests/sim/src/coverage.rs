//! What a run exercised. A simulator that stops exercising something must fail, so every count is asserted.

use std::fmt;

macro_rules! coverage {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// Counts of one run, or the sum of many.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Coverage {
            $($(#[doc = $doc])* pub $name: u64,)*
        }

        impl Coverage {
            /// Adds the counts of another run.
            pub fn add(&mut self, other: &Self) {
                $(self.$name = self.$name.wrapping_add(other.$name);)*
            }

            /// All counts with their names.
            #[must_use]
            pub fn rows(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }
        }
    };
}

coverage! {
    /// Steps of the driver.
    steps,
    /// Turns of shards.
    turns,
    /// Turns that found nothing to do.
    sleeps,
    /// Events that were published.
    events,
    /// Batches with several events.
    batches_of_many,
    /// Batches that were refused completely.
    batches_refused,
    /// Values that were read before they were published.
    read_before,
    /// Progress without events.
    progress,
    /// Compactions.
    compactions,
    /// Objects larger than a page.
    large_objects,
    /// Batches that waited for a slow shard.
    backpressure,
    /// Events forgotten for lack of slots or bytes, or by compaction.
    forgotten,
    /// Watches that began.
    watches,
    /// ... with the whole state.
    starts_with_state,
    /// ... with the state and its end marked.
    starts_with_mark,
    /// ... after a revision.
    starts_after,
    /// ... after a revision that is forgotten.
    starts_expired,
    /// ... after a revision that is not reached.
    starts_parked,
    /// ... of which several events are sent again.
    starts_again,
    /// ... with the next change.
    starts_latest,
    /// Watches that continued where an earlier one of the client ended.
    resumes,
    /// Watches that began again with a list.
    relists,
    /// Event messages that were received completely.
    deliveries,
    /// ... of a revision that the client had seen in part, or completely.
    deliveries_again,
    /// Objects of initial states.
    initial_objects,
    /// Marks of an initial state's end.
    initial_marks,
    /// Bookmarks.
    bookmarks,
    /// Messages in another framing than the one that they are made in.
    messages_framed_otherwise,
    /// Errors in another encoding.
    errors_encoded,
    /// Heartbeats on an idle stream.
    heartbeats,
    /// ... of which a part was taken at first.
    heartbeats_begun,
    /// ... for which there was no room.
    heartbeats_refused,
    /// ... while it waited for a revision to come.
    heartbeats_parked,
    /// ADDED of an object that was there before.
    transitions_in,
    /// DELETED of an object that is still there.
    transitions_out,
    /// Messages in another encoding.
    encoded_messages,
    /// First messages in an encoding where they differ.
    first_messages,
    /// Sends that took a part.
    partial_sends,
    /// ... and ended exactly at a message's end.
    partial_at_boundary,
    /// ... and ended within the head before a payload.
    partial_within_head,
    /// ... of sockets that take whole messages.
    partial_whole,
    /// Sends that took nothing.
    refused_sends,
    /// Peers that disconnected in a send.
    gone_sends,
    /// ... or at the end.
    gone_ends,
    /// Watches that the driver removed.
    forgotten_watches,
    /// Ends with 410.
    expirations,
    /// Watches that were evicted because the window had passed them.
    evictions,
    /// Streams that were cut off inside a message.
    cut_offs,
    /// Clean ends.
    clean_ends,
    /// Ends by deadline.
    deadlines,
    /// Watches that got 410 because they did not take their initial state in time.
    unfinished_told,
    /// How often the ring grew.
    grown,
    /// Shards that were drained.
    drains,
    /// Unreadable values.
    unreadable_values,
    /// Watches that were told when one was written.
    unreadable_events,
    /// ... although their selectors did not match the state before.
    unreadable_unselected,
    /// ... while they waited for a revision to come.
    unreadable_parked,
    /// Watches that were told at their start.
    unreadable_refusals,
    /// ADDED of a key whose value was unreadable before.
    mended,
    /// Lists with an unreadable object in their scope.
    lists_unreadable,
    /// Shards that were abandoned.
    abandons,
    /// Watches that were told so.
    abandoned_told,
    /// ... after the message that they were in.
    abandoned_finished,
    /// Watches that began on an abandoned shard.
    abandoned_starts,
    /// Lists of the newest state.
    lists_newest,
    /// Lists of a past state.
    lists_past,
    /// Lists that were refused because their revision is forgotten.
    lists_expired,
    /// Lists that were read in several pages while the state changed.
    lists_paged,
    /// ... and those whose token expired on the way.
    pages_expired,
    /// Rounds that did not reach the newest event.
    rounds_split,
    /// Batches that changed every name.
    huge_batches,
    /// Turns that ended while a round was being sorted into runs.
    rounds_paused,
    /// ... and what came before the next turn: watches that began,
    paused_starts,
    /// watches that the driver removed,
    paused_forgotten,
    /// and shards that were abandoned.
    paused_abandoned,
    /// Runs that were too long to be joined.
    long_runs,
    /// Initial states of more objects than one page examines.
    long_states,
    /// Rounds that served more members of one class than a turn does.
    crowds,
    /// Messages made besides the publisher's own.
    messages_shared,
    /// Watches of ranges of keys (these counts only in worlds of ranges),
    range_watches,
    /// ... that reach several kinds,
    range_watches_across,
    /// ... or none.
    range_watches_empty,
    /// Event messages of those watches.
    range_deliveries,
    /// Event messages of opaque values.
    range_opaque,
    /// Watches that were refused because their encoding does not show such values.
    range_hidden,
    /// Lists of ranges, now and at past revisions.
    range_lists,
    /// ... with an unreadable object in them.
    range_lists_unreadable,
    /// Event messages in protobuf of objects that are stored so (these counts only in worlds of protobuf),
    protobuf_deliveries,
    /// ... in another encoding,
    protobuf_as_json,
    /// ... in protobuf, of objects that are stored in JSON.
    protobuf_of_json,
    /// Objects in protobuf that were part of an initial state.
    protobuf_initial,
    /// Changes of a key from JSON to protobuf or back.
    protobuf_changed,
    /// Events of before the loaded state that the window took (these counts only in worlds of history).
    history_events,
    /// ... in worlds where it took some, but not all.
    history_cut,
    /// ... whose window had no place for them any more.
    history_late,
    /// Watches that began within them.
    history_starts,
    /// Clients whose copy of the state was compared at the end.
    copies_compared,
    /// Hash of all bytes that were sent: equal for equal runs.
    digest,
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, count) in self.rows() {
            writeln!(f, "{name:>20} {count}")?;
        }
        Ok(())
    }
}
