//! The `csds` key: who may ask on the discovery port how clients stand.

use chancery_server::CsdsReaders;
use serde::{Deserialize, Serialize};

/// The peers that may ask for the status of clients.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CsdsAccess {
    /// `off`: nobody, and the methods are not there.
    Off,
    /// `local`: processes on the same machine.
    #[default]
    Local,
    /// `certified`: these, and clients with a certificate (`tls.client-ca`).
    Certified,
}

impl From<CsdsAccess> for CsdsReaders {
    fn from(access: CsdsAccess) -> Self {
        match access {
            CsdsAccess::Off => Self::Nobody,
            CsdsAccess::Local => Self::Local,
            CsdsAccess::Certified => Self::Certified,
        }
    }
}
