//! What happened, as lines in a log: one event, one line, no body of any resource (C-139).

use chancery_core::client::load::{Asked, LoadEvent};
use chancery_core::client::{ClientEvent, ServerId, Setup};
use tracing::{debug, info, warn};

/// Writes down what the machine tells.
pub(crate) fn events(setup: &Setup, events: &[ClientEvent]) {
    events.iter().for_each(|event| self::event(setup, event));
}

fn event(setup: &Setup, event: &ClientEvent) {
    let uri = |server: ServerId| setup.find(server).map_or("", |server| &*server.key.uri);
    let node = setup.node.id.as_str();
    match event {
        ClientEvent::Opened(stream) => info!(node, server = uri(stream.server), "stream opened"),
        ClientEvent::Ended { stream, error, is_trouble: true } => {
            warn!(node, server = uri(stream.server), "cannot reach the server: {}", error.message);
        }
        ClientEvent::Ended { stream, error, is_trouble: false } => {
            info!(node, server = uri(stream.server), "stream ended: {}", error.message);
        }
        ClientEvent::Received { stream, type_url, version, nonce, good, flaws } => {
            let (server, type_url) = (uri(stream.server), type_url.short());
            if flaws.is_empty() {
                debug!(node, server, type_url, %version, %nonce, good, "response accepted");
            }
            // A response may hold thousands; the answer to the server names them all.
            for flaw in flaws.iter().take(LINES) {
                warn!(node, server, type_url, %version, %nonce, "rejected {flaw}");
            }
            if flaws.len() > LINES {
                let more = flaws.len() - LINES;
                warn!(node, server, type_url, %version, %nonce, "rejected {more} more");
            }
        }
        ClientEvent::Unusable { stream, why } => {
            let type_url = stream.type_url.as_ref().map_or("", |type_url| type_url.short());
            warn!(node, server = uri(stream.server), type_url, "nothing can be used: {why}");
        }
        ClientEvent::Unasked { stream, type_url } => {
            let (server, type_url) = (uri(stream.server), type_url.as_str());
            warn!(node, server, type_url, "a response of a type nobody asked for is ignored");
        }
        ClientEvent::Overdue { server, type_url, name } => {
            let (server, type_url) = (uri(*server), type_url.short());
            warn!(node, server, type_url, %name, "did not come in time");
        }
        ClientEvent::FellBack { authority, server } => {
            warn!(node, %authority, server = uri(*server), "fell back to another server");
        }
        ClientEvent::CameBack { authority, server } => {
            info!(node, %authority, server = uri(*server), "back at a better server");
        }
    }
}

/// Writes down what becomes of load reports.
pub(crate) fn loads(node: &str, server: &str, events: &[LoadEvent]) {
    for event in events {
        match event {
            LoadEvent::Opened => info!(node, server, "stream of load reports opened"),
            LoadEvent::Ended { error, is_trouble: true } => {
                warn!(node, server, "cannot report loads to the server: {}", error.message);
            }
            LoadEvent::Ended { error, is_trouble: false } => {
                info!(node, server, "stream of load reports ended: {}", error.message);
            }
            LoadEvent::Answered { clusters, interval } => {
                let clusters = match clusters {
                    Asked::All => "all".to_owned(),
                    Asked::Named(names) => names.len().to_string(),
                };
                info!(node, server, ?interval, "the server asks for loads of {clusters} clusters");
            }
            LoadEvent::Unusable { why } => warn!(node, server, "loads are not reported: {why}"),
            LoadEvent::Untold { calls } => {
                warn!(node, server, calls, "calls were counted that could not be reported");
            }
        }
    }
}

/// How many resources of one response get a line of their own.
const LINES: usize = 10;
