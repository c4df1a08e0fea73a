//! The client at the other end of a connection, as far as it is the same for all of its requests.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::runtime::admission::{ConnPermit, CountGuard};
use crate::runtime::listener::ListenerKind;
use crate::runtime::reserve::HealthPermit;
use crate::tls::Signers;

/// As what a connection was admitted.
#[derive(Debug)]
pub(in crate::runtime) enum Permit {
    /// An operator's: it is not counted.
    Operator,
    /// A client's.
    Client(ConnPermit),
    /// From the reserve of descriptors, for one health check.
    HealthCheck {
        /// Released when it is closed.
        _permit: HealthPermit,
    },
}

/// The client of one connection.
#[derive(Debug)]
pub(in crate::runtime) struct Client {
    pub(in crate::runtime) kind: ListenerKind,
    /// Its identity, in DER: the leaf of a verified chain.
    pub(in crate::runtime) certificate: Option<Arc<[u8]>>,
    /// Who signed it.
    pub(in crate::runtime) signers: Cell<Signers>,
    /// The number of the authorities that it was verified against; `None`: it has to be verified.
    pub(in crate::runtime) authorities: Cell<Option<u64>>,
    pub(in crate::runtime) permit: RefCell<Permit>,
}

impl Client {
    /// A client with this certificate, which was not verified.
    pub(in crate::runtime) fn new(
        kind: ListenerKind,
        permit: Permit,
        certificate: Option<Arc<[u8]>>,
    ) -> Self {
        Self {
            kind,
            certificate,
            signers: Cell::default(),
            authorities: Cell::default(),
            permit: RefCell::new(permit),
        }
    }

    /// The same, whose certificate was verified by a handshake under authorities with this number.
    pub(in crate::runtime) fn verified(self, authorities: Option<u64>, signers: Signers) -> Self {
        Self { authorities: Cell::new(authorities), signers: Cell::new(signers), ..self }
    }

    /// Whether it may make one request only, a health check.
    pub(in crate::runtime) fn is_health_check(&self) -> bool {
        matches!(&*self.permit.borrow(), Permit::HealthCheck { .. })
    }

    /// Its connection is counted as that of a watch from now on. Returns how it is counted by name, if it is.
    pub(in crate::runtime) fn leave(&self) -> Option<CountGuard> {
        match self.permit.replace(Permit::Operator) {
            Permit::Client(permit) => permit.into_guard(),
            Permit::Operator | Permit::HealthCheck { .. } => None,
        }
    }
}
