//! Each client beside what the server sent to its node, resource by resource.
//!
//! An acknowledgement says that a client found a resource valid, and not that it uses it: the two are told
//! apart here. Versions are compared where the client states that of the resource. On a state-of-the-world
//! stream it states that of the response in which the resource last changed, which may be an earlier one. Not
//! here: the words of the client, and those of the server (`admin::status`).

use std::collections::BTreeMap;

use serde::Serialize;

use super::report::{RunningClient, RunningResource, RunningState, kept};
use crate::admin::{NODES, NodeDocument, ResourceState, StreamRow};
use crate::admin_client::{AdminClient, encoded};
use crate::exit::Failure;

/// The outcome for one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    /// The version that was sent was acknowledged, and runs.
    Same,
    /// It was acknowledged and runs, and the client does not state the version of the resource.
    Acknowledged,
    /// It was acknowledged, and another version runs.
    OtherVersion,
    /// It was acknowledged, and does not run.
    NotRunning,
    /// The server has not sent it yet, or has no answer to it.
    NotAcknowledged,
    /// The client rejected it.
    Rejected,
    /// The server did not send it: it is from a bootstrap, or from another server.
    NotSent,
}

/// A resource in the eyes of the server.
struct Sent {
    state: ResourceState,
    /// The version of the resource.
    own: Option<String>,
    /// The version of the response, which a client may state instead on a state-of-the-world stream.
    of_response: Option<String>,
}

/// The resources that were sent to a node, by type and name.
type SentByName = BTreeMap<(String, String), Sent>;

impl Verdict {
    /// Returns true if something does not run as it was sent.
    pub(super) fn is_bad(self) -> bool {
        match self {
            Self::Same | Self::Acknowledged | Self::NotSent => false,
            Self::OtherVersion | Self::NotRunning | Self::NotAcknowledged | Self::Rejected => true,
        }
    }

    /// The name in tables, as in JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Acknowledged => "acknowledged",
            Self::OtherVersion => "other-version",
            Self::NotRunning => "not-running",
            Self::NotAcknowledged => "not-acknowledged",
            Self::Rejected => "rejected",
            Self::NotSent => "not-sent",
        }
    }
}

/// Compares clients with what a server sent to their nodes. The error is the reason why that is not known.
pub(super) fn compare(server: &AdminClient, clients: &mut [RunningClient]) -> Result<(), Failure> {
    let mut nodes: Vec<String> = clients.iter().map(|client| client.node.clone()).collect();
    nodes.sort();
    nodes.dedup();
    for node in nodes.iter().filter(|node| !node.is_empty()).take(MOST_NODES) {
        let path = format!("{NODES}/{}?resources=all&limit=1000", encoded(node));
        let reply = server.get(&path)?;
        if reply.status == 404 {
            return Err(server.refused(&reply));
        }
        let document: NodeDocument = server.document(&reply)?;
        let sent = sent(&document.streams);
        let mut its: Vec<_> = clients.iter_mut().filter(|client| client.node == *node).collect();
        beside(&mut its, &sent);
    }
    Ok(())
}

/// All that was sent on the streams of a node. Of a resource on several of them the first one counts.
fn sent(streams: &[StreamRow]) -> SentByName {
    let mut all = SentByName::new();
    for stream in streams {
        for of in &stream.types {
            for resource in &of.resources {
                let of_response = (stream.protocol != "delta").then(|| of.acknowledged.clone());
                let of_response = of_response.flatten();
                let sent = Sent { state: resource.state, own: resource.held.clone(), of_response };
                all.entry((of.r#type.clone(), resource.name.clone())).or_insert(sent);
            }
        }
    }
    all
}

/// Adds the verdicts to the clients of one node. A program may have several clients, and each resource is of
/// one of them.
fn beside(clients: &mut [&mut RunningClient], sent: &SentByName) {
    let mut missing: BTreeMap<_, _> = sent.iter().collect();
    for client in clients.iter_mut() {
        for resource in &mut client.resources {
            let key = (resource.r#type.clone(), resource.name.clone());
            let found = sent.get(&key);
            missing.remove(&key);
            resource.sent = found.map(|it| it.state.word());
            resource.verdict = Some(verdict(resource, found));
        }
    }
    let Some(first) = clients.first_mut() else { return };
    for ((of, name), sent) in missing {
        let verdict = match sent.state {
            ResourceState::Missing => continue,
            ResourceState::Acknowledged | ResourceState::RemovalWaits => Verdict::NotRunning,
            ResourceState::Rejected => Verdict::Rejected,
            _ => Verdict::NotAcknowledged,
        };
        first.resources.push(RunningResource {
            r#type: kept(of),
            name: kept(name),
            version: String::new(),
            state: RunningState::Absent,
            keeps_version: false,
            error: None,
            sent: Some(sent.state.word()),
            verdict: Some(verdict),
        });
    }
    first.sort();
}

fn verdict(resource: &RunningResource, sent: Option<&Sent>) -> Verdict {
    let Some(sent) = sent else { return Verdict::NotSent };
    let is_used = matches!(resource.state, RunningState::Running | RunningState::Draining);
    match sent.state {
        _ if resource.state == RunningState::Static => Verdict::NotSent,
        ResourceState::Rejected => Verdict::Rejected,
        _ if resource.state == RunningState::Rejected => Verdict::Rejected,
        // The client says so itself.
        ResourceState::Missing => Verdict::NotSent,
        ResourceState::Acknowledged | ResourceState::RemovalWaits if !is_used => {
            Verdict::NotRunning
        }
        ResourceState::Acknowledged | ResourceState::RemovalWaits => {
            let runs = Some(&resource.version);
            if runs == sent.own.as_ref() || runs == sent.of_response.as_ref() {
                Verdict::Same
            } else if resource.version.is_empty()
                || resource.keeps_version
                || sent.of_response.is_some()
            {
                Verdict::Acknowledged
            } else {
                Verdict::OtherVersion
            }
        }
        _ => Verdict::NotAcknowledged,
    }
}

/// The nodes that are compared. A program has one, and a server many.
const MOST_NODES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn running(name: &str, version: &str, state: RunningState) -> RunningResource {
        RunningResource {
            r#type: "cds".to_owned(),
            name: name.to_owned(),
            version: version.to_owned(),
            state,
            keeps_version: false,
            error: None,
            sent: None,
            verdict: None,
        }
    }

    fn sent(state: ResourceState, version: &str, is_own: bool) -> Sent {
        let of_response = (!is_own).then(|| "7".to_owned());
        Sent { state, own: Some(version.to_owned()), of_response }
    }

    #[test]
    fn sent_acknowledged_and_running_are_three_things() {
        use ResourceState::{Acknowledged, NotSent, Rejected, Unanswered};
        use RunningState::{Running, Static, Warming};
        for (state, version, sent, expected) in [
            (Running, "1", Some(sent(Acknowledged, "1", true)), Verdict::Same),
            (Running, "1", Some(sent(Acknowledged, "2", true)), Verdict::OtherVersion),
            (Running, "1", Some(sent(Acknowledged, "2", false)), Verdict::Acknowledged),
            (Running, "7", Some(sent(Acknowledged, "2", false)), Verdict::Same),
            (Running, "2", Some(sent(Acknowledged, "2", false)), Verdict::Same),
            (Running, "", Some(sent(Acknowledged, "2", true)), Verdict::Acknowledged),
            (Warming, "1", Some(sent(Acknowledged, "1", true)), Verdict::NotRunning),
            (Running, "1", Some(sent(Unanswered, "2", true)), Verdict::NotAcknowledged),
            (Running, "1", Some(sent(NotSent, "2", true)), Verdict::NotAcknowledged),
            (Running, "1", Some(sent(Rejected, "2", true)), Verdict::Rejected),
            (Running, "1", None, Verdict::NotSent),
            (Static, "", None, Verdict::NotSent),
        ] {
            assert_eq!(verdict(&running("a", version, state), sent.as_ref()), expected);
        }
        let in_place = RunningResource { keeps_version: true, ..running("a", "1", Running) };
        let newer = sent(Acknowledged, "2", true);
        assert_eq!(verdict(&in_place, Some(&newer)), Verdict::Acknowledged);
    }

    #[test]
    fn what_was_sent_and_runs_in_no_client_of_the_node_is_told_once() {
        let resources = |name: &str| vec![running(name, "1", RunningState::Running)];
        let client =
            |name| RunningClient { resources: resources(name), ..RunningClient::default() };
        let (mut one, mut two) = (client("a"), client("b"));
        let key = |name: &str| ("cds".to_owned(), name.to_owned());
        let all =
            ["a", "b", "c"].map(|name| (key(name), sent(ResourceState::Acknowledged, "1", true)));
        let gone = (key("d"), sent(ResourceState::Missing, "", true));
        beside(&mut [&mut one, &mut two], &all.into_iter().chain([gone]).collect());
        let told = |client: &RunningClient| -> Vec<_> {
            let line = |it: &RunningResource| (it.name.clone(), it.verdict.unwrap());
            client.resources.iter().map(line).collect()
        };
        let of_one = [("a".to_owned(), Verdict::Same), ("c".to_owned(), Verdict::NotRunning)];
        assert_eq!(told(&one), of_one);
        assert_eq!(told(&two), [("b".to_owned(), Verdict::Same)]);
    }
}
