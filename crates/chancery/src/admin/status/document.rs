//! The documents about what clients hold, as the server writes them and commands read them. Keys may be
//! added. `docs/status.md` says exactly what each state means.

use crate::admin::api::document;
use crate::admin::loaded_document::ResourceRow;

document! {
    /// The states of the nodes, and those that need somebody's attention first.
    struct StatusSummary {
        /// The load that was shown last; none before the first one.
        load: Option<LoadShown>,
        /// The seconds since the oldest load was shown after the last one that has landed; none if the last
        /// one has.
        not_landed_for: Option<u64>,
        /// Edits that are not live: layers with faults, and what the gate holds back. The first of them, in
        /// words.
        not_live: Vec<String> = default,
        /// The groups of the nodes.
        groups: Vec<GroupStatus>,
        /// The number of all nodes that were asked for.
        count: usize,
        /// The first of them: the worst states first, and the nodes by their ids.
        nodes: Vec<NodeStatusRow>,
    }
}

document! {
    /// The nodes of a group.
    struct GroupStatus {
        /// The group; none for nodes that are in none.
        group: Option<String>,
        /// The number of its nodes, but for those that are gone.
        nodes: usize,
        /// The nodes that have acknowledged all that they want.
        in_step: usize,
        /// The nodes for which something is under way.
        pending: usize,
        /// The nodes that rejected something which was not changed since.
        rejected: usize,
        /// The nodes that owe an answer for longer than a bound.
        silent: usize,
        /// The nodes that have no stream any more, as far as they are remembered.
        gone: usize,
    }
}

document! {
    /// A state of a node or a stream.
    enum NodeState {
        /// The client rejected something that was not changed since.
        Rejected = "rejected",
        /// The client owes an answer for longer than a bound.
        Silent = "silent",
        /// Something is under way.
        Pending = "pending",
        /// There is no stream any more.
        Gone = "gone",
        /// The client has acknowledged all that it wants.
        InStep = "in-step",
    }
}

document! {
    /// The state of a node: of all streams whose clients state its id.
    struct NodeStatusRow {
        /// The id; empty for a stream whose client states none.
        id: String,
        /// The cluster that it says it is of.
        cluster: String,
        /// The group by the rules; of a node that is gone, the group whose files it saw.
        group: Option<String>,
        /// The worst state of its streams.
        state: NodeState,
        /// The seconds since 1970 from which on it is in step, or is not, or is gone.
        since: u64,
        /// The number of open streams.
        streams: usize,
        /// The number of the last load that has landed on all of its streams; 0 if none has.
        landed: u64,
        /// The first of the addresses that it comes from.
        peers: Vec<String>,
        /// The first of its rejections of what was not changed since.
        rejections: Vec<RejectionRow> = default,
        /// The seconds since 1970 at which the oldest response was sent that it has not answered.
        unanswered_since: Option<u64> = default,
        /// True if its streams state different clusters, localities or metadata.
        claims_differ: Option<bool> = default,
        /// True if its streams come from several addresses: two nodes may have one id.
        several_peers: Option<bool> = default,
        /// The last of its streams that have gone, if a load waits for it because its client may come back: the load
        /// of a wait, or the last one. Other streams of the node may be in step meanwhile.
        awaited: Option<AwaitedRow> = default,
    }
}

document! {
    /// A stream that has gone, and that a load waits for.
    struct AwaitedRow {
        /// The load.
        load: u64,
        /// The seconds since 1970 at which the stream went.
        at: u64,
        /// The seconds since 1970 from which on it is not waited for any more.
        until: u64,
    }
}

document! {
    /// A rejection that waits for a change.
    struct RejectionRow {
        /// The short name of the type, or its URL.
        r#type: String,
        /// The version that was rejected.
        version: String,
        /// The reason in the words of the client, without secrets.
        reason: String,
        /// The resources that the reason names.
        named: Vec<String>,
        /// The first of the resources in the response that had changed: one of them is at fault, or several
        /// are.
        suspects: Vec<String>,
        /// The seconds since 1970 at which the client first rejected it.
        since: u64,
    }
}

document! {
    /// A load: a change of what is served.
    struct LoadShown {
        /// Its number, by which others can wait for it.
        number: u64,
        /// The digest of all resources since then.
        hash: Option<String>,
        /// The seconds since 1970 at which it was shown.
        at: u64,
        /// True if it has landed on all clients that counted.
        landed: bool,
        /// The milliseconds from the load to the last acknowledgement, if it has landed.
        landed_after_ms: Option<u64>,
        /// True if a newer load came before this one had landed.
        superseded: bool,
        /// The number of streams that it landed on.
        streams: usize,
        /// The part of the server or the program that it comes from.
        author: Option<String> = default,
        /// The first of the layers that it changed, with the numbers of resources, in words.
        changed: Vec<String> = default,
    }
}

document! {
    /// The last loads.
    struct LoadsDocument {
        /// The number of all that are remembered.
        count: usize,
        /// Those on this page, the newest first.
        loads: Vec<LoadShown>,
        /// The text to give as `after` for the next page, if there is one.
        next: Option<String>,
    }
}

document! {
    /// One node: what it wants and holds.
    struct NodeDocument {
        /// The load that was shown last.
        load: u64,
        /// The state of the node.
        node: NodeStatusRow,
        /// Edits that concern it and are not live. The first of them, in words.
        not_live: Vec<String> = default,
        /// Its open streams.
        streams: Vec<StreamRow>,
        /// Its streams that are gone, the last one first.
        gone: Vec<GoneRow>,
        /// The last events of it, the newest first, as far as they are remembered.
        history: Vec<EventRow>,
    }
}

document! {
    /// An open stream of a node.
    struct StreamRow {
        /// The number of the stream.
        number: u64,
        /// The address of the client.
        peer: String,
        /// The variant of the protocol: `sotw` or `delta`.
        protocol: String,
        /// The only type of the stream; none if it is aggregated.
        r#type: Option<String>,
        /// The audience, whose resources the client sees; none until one is chosen.
        audience: Option<String>,
        /// The state.
        state: NodeState,
        /// The seconds since 1970 from which on it is in step, or is not.
        since: u64,
        /// The seconds since 1970 at which it was opened.
        opened: u64,
        /// The seconds since 1970 at which the client last said anything.
        heard: Option<u64>,
        /// The seconds since 1970 at which it last accepted a response.
        acknowledged: Option<u64>,
        /// The seconds since 1970 at which the oldest response was sent that is not answered.
        unanswered_since: Option<u64>,
        /// The last load that it has looked at.
        seen: u64,
        /// The last load that has landed on it; 0 if none has.
        landed: u64,
        /// Its rejections of what was not changed since.
        rejections: Vec<RejectionRow>,
        /// True if the stream told what follows; false if it could not in time.
        answered: bool,
        /// The types that the client asked for.
        types: Vec<TypeRow>,
    }
}

document! {
    /// One type on one stream.
    struct TypeRow {
        /// The short name of the type, or its URL.
        r#type: String,
        /// True if the client wants all resources of the type.
        everything: bool,
        /// The number of names that it wants.
        name_count: usize,
        /// The first of them.
        names: Vec<String>,
        /// The version of the last response that was sent.
        sent: Option<String>,
        /// The version of the last response that the client accepted.
        acknowledged: Option<String>,
        /// The time at which it accepted that.
        acknowledged_at: Option<u64>,
        /// The version of the response that it rejected, as long as that waits for a change.
        rejected: Option<String>,
        /// The first of the resources in it that had changed. One of them is at fault, or several are.
        suspects: Vec<String>,
        /// The waits before more is sent, or it counts as landed, in words.
        waits: Vec<String>,
        /// The number of resources that are owed and not sent.
        not_sent: usize,
        /// The number of resources whose removal waits.
        removals: usize,
        /// True if the client has acknowledged all that it is owed, and nothing waits.
        landed: bool,
        /// The resources that were asked for: all, or those that are not acknowledged.
        resources: Vec<HeldResource>,
        /// True if there are more of them.
        more: bool,
    }
}

document! {
    /// A resource on a stream.
    struct HeldResource {
        /// The name.
        name: String,
        /// The state of it on the stream.
        state: ResourceState,
        /// The version that the client should have; none if it should have none.
        wanted: Option<String>,
        /// The version that it was given last, or says that it holds.
        held: Option<String>,
    }
}

document! {
    /// A state of a resource on a stream.
    enum ResourceState {
        /// It was in a response that was rejected, and has not changed since.
        Rejected = "rejected",
        /// The client should have it, and it is not sent yet.
        NotSent = "not-sent",
        /// It was sent, and the client has not answered.
        Unanswered = "unanswered",
        /// The client answered a later response, so that its verdict is unknown.
        PassedOver = "passed-over",
        /// It is gone, and the client keeps it until nothing uses it.
        RemovalWaits = "removal-waits",
        /// The source does not know yet whether there is such a resource.
        Undecided = "undecided",
        /// There is no such resource.
        Missing = "missing",
        /// The client acknowledged it, or said when it connected that it holds it.
        Acknowledged = "acknowledged",
    }
}

document! {
    /// A stream that is gone.
    struct GoneRow {
        /// The number of the stream.
        number: u64,
        /// The address of the client.
        peer: String,
        /// The only type of the stream; none if it was aggregated.
        r#type: Option<String>,
        /// The audience that it was in.
        audience: String,
        /// The seconds since 1970 at which it went.
        at: u64,
        /// The gRPC code with which the server ended it; none if the client left.
        code: Option<i64>,
        /// The last load that had landed on it; 0 if none had.
        landed: u64,
        /// The rejections that waited for a change.
        rejections: Vec<RejectionRow>,
    }
}

document! {
    /// Something that happened.
    struct EventRow {
        /// Its number and that of the start of the server, for `Last-Event-ID`.
        id: String,
        /// The seconds since 1970 at which it happened.
        at: u64,
        /// The kind of it.
        event: EventKind,
        /// The number of the load.
        load: Option<u64> = default,
        /// The milliseconds from a load to the last acknowledgement; of a client that has answered, those without an
        /// answer.
        after_ms: Option<u64> = default,
        /// The number of the stream.
        stream: Option<u64> = default,
        /// The id of the node, if the client states one.
        node: Option<String> = default,
        /// The cluster of the node.
        cluster: Option<String> = default,
        /// The address of the client.
        peer: Option<String> = default,
        /// The audience; of a stream that moved, the new one.
        audience: Option<String> = default,
        /// The audience before.
        from: Option<String> = default,
        /// The gRPC code with which the server ended a stream.
        code: Option<i64> = default,
        /// The rejection.
        rejection: Option<RejectionRow> = default,
        /// The type that is accepted again.
        r#type: Option<String> = default,
        /// The number of events that are not remembered any more.
        missed: Option<u64> = default,
    }
}

document! {
    /// A kind of events.
    enum EventKind {
        /// A load was shown.
        Loaded = "loaded",
        /// A load has landed on all that count.
        Landed = "landed",
        /// A stream has come.
        Appeared = "appeared",
        /// A stream belongs to another audience than before.
        Moved = "moved",
        /// A stream is gone.
        Gone = "gone",
        /// A client rejected something.
        Rejected = "rejected",
        /// A client accepts again what it had rejected.
        Repaired = "repaired",
        /// A client that was silent has answered.
        Answered = "answered",
        /// Events are not remembered any more, because the reader is too slow or was away too long.
        Missed = "missed",
    }
}

document! {
    /// A page of the resources that the layers have.
    struct ResourcesDocument {
        /// The number of all rows that were asked for.
        count: usize,
        /// Those on this page, by type, name and layer.
        resources: Vec<ListedResource>,
        /// The text to give as `after` for the next page, if there is one.
        next: Option<String>,
    }
}

document! {
    /// A resource of one layer.
    struct ListedResource {
        /// The short name of the type, or its URL.
        r#type: String,
        /// The name.
        name: String,
        /// The layer, in words.
        layer: String,
        /// `patch` or `remove`, if the layer does not have the resource whole.
        edit: Option<String> = default,
        /// The version, if the layer has the resource whole.
        version: Option<String> = default,
        /// The file it comes from, or another origin.
        file: String,
        /// The number of the line, or 0.
        line: usize,
        /// The number of open streams that reject something of this name now, whatever layer they have it from:
        /// those whose reason names it, or names nothing and may mean it.
        rejected_by: usize,
    }
}

document! {
    /// One resource: where it comes from, and who has which version.
    struct ResourceDocument {
        /// The short name of the type, or its URL.
        r#type: String,
        /// The name.
        name: String,
        /// The layers that have it, with file and line.
        origins: Vec<ResourceRow>,
        /// The number of open streams that want it.
        wanted_by: usize,
        /// The versions of it, the most frequent one first.
        versions: Vec<VersionRow>,
        /// The number of all streams in the next list.
        count: usize,
        /// Those that want it, the worst states first, as many as were asked for.
        nodes: Vec<HolderRow>,
        /// The number of streams that did not answer in time.
        unanswered: usize,
    }
}

document! {
    /// A version that clients should have, and what became of it.
    struct VersionRow {
        /// The version; none if there is no such resource for them.
        version: Option<String>,
        /// The number of streams that should have it.
        wanted_by: usize,
        /// The number of those that have acknowledged it.
        acknowledged: usize,
        /// The number of those that were in a response that was rejected.
        rejected: usize,
        /// The number of all others.
        pending: usize,
    }
}

document! {
    /// A resource on a stream of a node.
    struct HolderRow {
        /// The id of the node; empty if the client states none.
        node: String,
        /// The group, or the node whose files it sees: its audience, in words.
        audience: String,
        /// The address of the client.
        peer: String,
        /// The state of the resource on the stream.
        state: ResourceState,
        /// The version that it should have.
        wanted: Option<String>,
        /// The version that it was given last, or says that it holds.
        held: Option<String>,
        /// The rejection that it may be about.
        rejection: Option<RejectionRow> = default,
    }
}

document! {
    /// The landing of a load so far.
    struct WaitDocument {
        /// The outcome so far.
        outcome: WaitOutcome,
        /// The number of the load that is waited for; none if it is not known yet.
        load: Option<u64>,
        /// The digest of all resources since that load.
        hash: Option<String>,
        /// The newer load, if one was shown.
        superseded_by: Option<u64>,
        /// The number of nodes that count.
        counted: usize,
        /// The number of those on which it has landed.
        landed: usize,
        /// The reason of the outcome, where it is not in the nodes.
        why: Option<String> = default,
        /// The first of the nodes on which it has not landed, the worst states first.
        nodes: Vec<NodeStatusRow>,
    }
}

document! {
    /// An outcome of a load so far.
    enum WaitOutcome {
        /// Something is under way.
        Waiting = "waiting",
        /// It has landed on all nodes that count.
        Landed = "landed",
        /// Some nodes rejected it or are silent, and nothing is under way for the others.
        Never = "never",
        /// A newer load was shown before it had landed.
        Superseded = "superseded",
        /// The server did not take it as it is: a fault in a file, or the gate holds it back.
        Refused = "refused",
    }
}
