//! A network, as `chancery.yaml` has it: `10.1.0.0/16`.

use chancery_server::{InvalidNetwork, Network};
use serde::{Deserialize, Serialize};

/// A network. The text is checked when it is read.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct NetworkText(pub(crate) Network);

impl TryFrom<String> for NetworkText {
    type Error = InvalidNetwork;
    fn try_from(text: String) -> Result<Self, InvalidNetwork> {
        text.parse().map(Self)
    }
}

impl From<NetworkText> for String {
    fn from(network: NetworkText) -> Self {
        network.0.to_string()
    }
}
