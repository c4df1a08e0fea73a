//! Counts that are added up over threads, processes and rounds.

/// A struct of `u64` counts, and of the first fault in words, with a sum.
macro_rules! sums {
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub(crate) struct $name {
            $($(#[$field_meta])* pub(crate) $field: u64,)*
            pub(crate) first_fault: Option<String>,
        }

        impl $name {
            pub(crate) fn add(&mut self, other: &Self) {
                $(self.$field += other.$field;)*
                self.note(|| other.first_fault.clone());
            }

            /// Keeps the first fault; `describe` runs for that one only.
            pub(crate) fn note(&mut self, describe: impl FnOnce() -> Option<String>) {
                if self.first_fault.is_none() {
                    self.first_fault = describe();
                }
            }
        }
    };
}

pub(crate) use sums;
