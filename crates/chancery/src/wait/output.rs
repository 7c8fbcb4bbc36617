//! The output of `wait`.

use crate::admin::{NodeState, WaitDocument, WaitOutcome};
use crate::status::{away, nodes_table};

/// The last output: a sentence if it has landed, or the nodes that do not have it.
pub(super) fn text(found: &WaitDocument) -> String {
    match found.outcome {
        WaitOutcome::Landed => format!("{}\n", verdict(found)),
        _ if found.nodes.is_empty() => String::new(),
        _ => nodes_table(&found.nodes, found.counted.saturating_sub(found.landed)),
    }
}

/// The outcome in a sentence.
pub(super) fn verdict(found: &WaitDocument) -> String {
    let load = match found.load {
        Some(number) => format!("load {number}"),
        None => "it".to_owned(),
    };
    let WaitDocument { counted, landed, .. } = found;
    let why = found.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    match found.outcome {
        WaitOutcome::Landed if *counted == 0 => format!("{load} has landed: no node counts"),
        WaitOutcome::Landed => format!("{load} has landed on all {}", nodes(*counted)),
        WaitOutcome::Never => {
            let count = |state| found.nodes.iter().filter(|node| node.state == state).count();
            let (rejected, silent) = (count(NodeState::Rejected), count(NodeState::Silent));
            format!(
                "{load} has not landed: rejected by {rejected}, {silent} silent, {landed} of {counted} have \
                 it{}",
                found.why.as_ref().map(|why| format!("; {why}")).unwrap_or_default()
            )
        }
        WaitOutcome::Superseded => {
            let newer = found.superseded_by.unwrap_or_default();
            format!("{load} was superseded by load {newer}: {landed} of {counted} have it or that")
        }
        WaitOutcome::Refused if found.load.is_none() => format!("it is not loaded{why}"),
        WaitOutcome::Refused => format!("{load} is not all{why}"),
        WaitOutcome::Waiting => format!("{load} has not landed on all nodes{}", progress_of(found)),
    }
}

/// A line that says how it stands.
pub(super) fn progress(found: &WaitDocument) -> String {
    let load = found.load.map_or_else(|| "the load".to_owned(), |number| format!("load {number}"));
    format!("waiting for {load}{}", progress_of(found))
}

fn progress_of(found: &WaitDocument) -> String {
    let mut text = format!(": {} of {} have it", found.landed, nodes(found.counted));
    if let Some(why) = &found.why {
        text += &format!("; {why}");
    }
    if let Some(first) = found.nodes.first() {
        text += &match &first.awaited {
            Some(awaited) if matches!(first.state, NodeState::InStep | NodeState::Gone) => {
                format!("; it waits for a stream of {} that {}", first.id, away(awaited))
            }
            _ => format!("; {} is {}", first.id, first.state.word()),
        };
    }
    text
}

fn nodes(count: usize) -> String {
    match count {
        1 => "1 node".to_owned(),
        count => format!("{count} nodes"),
    }
}
