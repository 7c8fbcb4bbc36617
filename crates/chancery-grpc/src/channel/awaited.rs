//! The things that calls and explanations wait for, in words: the status of a call whose time is over says which it
//! was. Not here: the waits themselves (`call`, `pick`, `attempts`).

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::sync::Arc;

use chancery_calls::Failure;
use chancery_calls::balancing::{Endpoint, Pick, Picked, SubchannelState};
use chancery_core::printable::{MAX_MESSAGE_BYTES, Printable, cut};
use tonic::Status;

use super::explanation::quoted;
use super::pick::Asked;
use super::published::{ClusterHandle, Published};
use crate::dice::ThreadDice;

/// The connection to an endpoint that was last asked for, or has last failed.
#[derive(Clone, Debug)]
pub(super) struct Connecting {
    endpoint: Arc<Endpoint>,
    address: SocketAddr,
    /// The reason why the last attempt has failed.
    failed: Option<Arc<str>>,
}

impl Connecting {
    /// Takes a state of a connection. `None` if calls do not wait for one any more because of this.
    pub(super) fn after(
        before: Option<Self>,
        endpoint: &Arc<Endpoint>,
        address: SocketAddr,
        state: &SubchannelState,
    ) -> Option<Self> {
        let failed = match state {
            SubchannelState::Ready => return None,
            SubchannelState::Idle => return before,
            SubchannelState::Failed(why) => Some(Arc::clone(why)),
            SubchannelState::Connecting => {
                let same = before.filter(|it| it.address == address);
                same.and_then(|before| before.failed)
            }
        };
        Some(Self { endpoint: Arc::clone(endpoint), address, failed })
    }
}

/// The end of a sentence about a connection.
impl Display for Connecting {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let shown = self.endpoint.shown(self.address);
        match &self.failed {
            Some(why) => write!(f, "{shown} has failed: {}", message(why)),
            None => write!(f, "{shown} does not answer"),
        }
    }
}

/// Returns the status of a call whose time is over, and that has waited for this.
pub(super) fn exceeded(awaited: impl Display) -> Status {
    Status::deadline_exceeded(format!("the deadline of the call is over; it waited for {awaited}"))
}

/// Tells a wait for a configuration that can be used.
pub(super) fn configuration(published: &Published) -> String {
    match published {
        Published::Waiting { for_names: false } => {
            "the configuration, which the control plane has not sent".to_owned()
        }
        Published::Waiting { for_names: true } => {
            "the addresses of a name in the configuration, which DNS has not told".to_owned()
        }
        Published::Failed(failure) => format!("a configuration: {}", message(&failure.message)),
        Published::Config(_) => "the configuration".to_owned(),
    }
}

/// Tells a wait for an endpoint of a cluster.
pub(super) fn connection(cluster: &ClusterHandle, asked: Asked<'_>) -> String {
    let (state, name) = (cluster.state(), quoted(&cluster.name));
    let Some(picker) = &state.picker else {
        return format!("the addresses of cluster `{name}`");
    };
    let mut dice = ThreadDice;
    let mut args = asked.args(&mut dice);
    match (picker.preview(&mut args), &state.connecting) {
        // The failure names the cluster.
        (Pick::Fail(Failure { message: why, .. }), _) => {
            format!("a connection: {}", message(&why))
        }
        (_, Some(connecting)) => {
            format!("a connection to an endpoint of cluster `{name}`: {connecting}")
        }
        (_, None) => format!("a connection to an endpoint of cluster `{name}`"),
    }
}

/// Tells a wait for the server that the call was sent to.
pub(super) fn answer(picked: &Picked) -> String {
    format!("the answer of {}", picked.endpoint.shown(picked.address))
}

fn message(text: &str) -> impl Display + use<'_> {
    Printable(cut(text, MAX_MESSAGE_BYTES))
}

#[cfg(test)]
mod tests {
    use chancery_calls::balancing::{EndpointLocality, Health};
    use chancery_core::Locality;

    use super::*;

    fn told(states: &[(u16, SubchannelState)]) -> Option<String> {
        let locality = EndpointLocality { name: Locality::default(), weight: 1 };
        let endpoint = Arc::new(Endpoint {
            addresses: [].into(),
            weight: 1,
            locality: Arc::new(locality),
            health: Health::Unknown,
            hostname: "".into(),
            hash_key: None,
        });
        let last = states.iter().fold(None, |before, (port, state)| {
            Connecting::after(before, &endpoint, ([10, 0, 0, 1], *port).into(), state)
        });
        last.map(|it| it.to_string())
    }

    #[test]
    fn the_last_error_of_an_address_stays_until_it_is_connected() {
        use SubchannelState::{Connecting, Failed, Idle, Ready};
        let failed = || (1, Failed("no\u{1b}".into()));
        assert_eq!(told(&[(1, Idle)]), None);
        assert_eq!(told(&[(1, Connecting)]).as_deref(), Some("10.0.0.1:1 does not answer"));
        let error = Some("10.0.0.1:1 has failed: no\\u{1b}");
        assert_eq!(told(&[(1, Connecting), failed()]).as_deref(), error);
        assert_eq!(told(&[failed(), (1, Idle), (1, Connecting)]).as_deref(), error);
        let other = told(&[failed(), (2, Connecting)]);
        assert_eq!(other.as_deref(), Some("10.0.0.1:2 does not answer"));
        assert_eq!(told(&[failed(), (1, Ready)]), None);
    }
}
