//! A server as the side that is there now: the contents that it gives to clients, and its nodes.
//!
//! ```text
//!   admin interface --> the nodes that are connected --> [representatives]: a node for each audience
//!     --> discovery port, as this node --> [contents] --> compared with what the directory has for it
//! ```
//!
//! Contents come as any client gets them, so what the server holds back is not among them. All that cannot
//! be known is left out, and told. Not here: the comparison (`compare`).

mod contents;
mod moves;
mod representatives;

use std::sync::Arc;

use chancery_catalog::Audience;
use chancery_core::Snapshot;
use chancery_core::printable::Printable;
use tokio::task::JoinSet;

pub(super) use self::contents::Contents;
use self::contents::{Interner, Wanted};
pub(super) use self::moves::NodeMove;
use self::representatives::Representative;
use super::options::DiffArgs;
use super::side::{DirectorySide, keys_of};
use crate::admin_client::{AdminClient, ConnectedNode, ConnectedNodes};
use crate::ask::{self, ServerArgs};
use crate::check::LoadedDirectory;
use crate::exit::Failure;

/// All that is known of a server.
pub(super) struct Served {
    pub(super) views: Vec<ServedView>,
    /// The nodes that the rules of the directory would move.
    pub(super) moves: Vec<NodeMove>,
    /// The parts that could not be compared, with the reasons.
    pub(super) left_out: Vec<String>,
}

/// The contents of the server for an audience, and what the directory has for it.
pub(super) struct ServedView {
    pub(super) shown: Audience,
    pub(super) before: Contents,
    pub(super) after: Option<Arc<Snapshot>>,
}

/// Asks a server for what its clients are given, for all audiences or those of a group.
pub(super) fn ask(flags: &DiffArgs, after: &LoadedDirectory) -> Result<Served, Failure> {
    let server = Arc::new(flags.server());
    let (nodes, unknown) = nodes(flags, &server)?;
    let side = DirectorySide::new(after);
    let group = flags.group.as_deref();
    let (all, mut left_out) = representatives::of(&side, &nodes, group);
    if let Some(name) =
        group.filter(|name| all.is_empty() && left_out.is_empty() && !side.has_rule(name))
    {
        let error = anyhow::anyhow!("there is no group `{name}`, before or after");
        return Err(Failure::broken(error));
    }
    left_out.extend(unknown);
    let runtime = ask::runtime()?;
    let (all, refused) = snapshots(&side, all);
    left_out.extend(refused);
    let asked = runtime.block_on(contents(&server, all, after));
    runtime.shutdown_background();
    let (mut views, mut interner) = (Vec::new(), Interner::default());
    for (shown, mut before, snapshot) in asked? {
        left_out.extend(before.left_out(&shown));
        if !before.is_refused() {
            interner.share(&mut before);
            views.push(ServedView { shown, before, after: snapshot });
        }
    }
    if views.is_empty() {
        let why: String = left_out.iter().map(|it| format!("left out: {it}\n")).collect();
        let error = anyhow::anyhow!("there is nothing that could be compared");
        return Err(Failure::broken(error).details(why));
    }
    views.sort_by(|one, other| one.shown.cmp(&other.shown));
    let (mut moves, unsure) = moves::of(&side, &nodes);
    left_out.extend((unsure > 0).then(|| {
        format!("{unsure} of the nodes may move: the server does not tell all of their metadata")
    }));
    moves.retain(|it| group.is_none_or(|group| it.concerns(group)));
    Ok(Served { views, moves, left_out })
}

/// The nodes that the server told of, and that there are others.
fn told(ConnectedNodes { nodes, others }: ConnectedNodes) -> (Vec<ConnectedNode>, Option<String>) {
    let unknown = (others > 0).then(|| {
        let asked = nodes.len();
        format!("{others} nodes of the server beside the first {asked}, so nobody knows whether they would move")
    });
    (nodes, unknown)
}

/// The nodes that are connected; or that nobody tells.
fn nodes(
    flags: &DiffArgs,
    server: &ServerArgs,
) -> Result<(Vec<ConnectedNode>, Option<String>), Failure> {
    if let Some(admin) = &flags.admin {
        return match admin.is_off() {
            false => Ok(told(AdminClient::at(admin, &flags.access)?.nodes(None)?)),
            true => flags.access.unused().map(|()| (Vec::new(), None)),
        };
    }
    let unknown = |why: &str| {
        let unknown = format!("the nodes of the server, so nobody knows which would move: {why}");
        Ok((Vec::new(), Some(unknown)))
    };
    let Some(admin) = AdminClient::beside(&server.servers, &flags.access)? else {
        return unknown("give the address of its admin interface with `--admin`");
    };
    match admin.nodes(None) {
        Ok(nodes) => Ok(told(nodes)),
        Err(error) if flags.access.is_given() => Err(error),
        Err(_) => unknown("its admin interface was not reached; give its address with `--admin`"),
    }
}

/// A representative, and what the directory has for it.
type WithSnapshot = (Representative, Option<Arc<Snapshot>>);

/// The representatives, each with what the directory has for it; and those that it would refuse, in words.
fn snapshots(
    side: &DirectorySide<'_>,
    all: Vec<Representative>,
) -> (Vec<WithSnapshot>, Vec<String>) {
    let (mut seen, mut refused) = (Vec::new(), Vec::new());
    for one in all {
        match side.snapshot_for(&one.after, &one.node) {
            Ok(snapshot) => seen.push((one, snapshot)),
            Err(unstated) => {
                let (shown, id) = (Printable(&one.shown), Printable(&one.node.id));
                refused.push(format!("{shown}: node `{id}` would be refused: {unstated}"));
            }
        }
    }
    (seen, refused)
}

/// The contents for each audience, and what the directory has for it.
async fn contents(
    server: &Arc<ServerArgs>,
    representatives: Vec<WithSnapshot>,
    after: &LoadedDirectory,
) -> Result<Vec<(Audience, Contents, Option<Arc<Snapshot>>)>, Failure> {
    let (mut asking, mut all, read) = (JoinSet::new(), Vec::new(), Arc::default());
    for (Representative { shown, node, .. }, snapshot) in representatives {
        if asking.len() >= AT_ONCE {
            all.extend(
                asking.join_next().await.transpose().map_err(anyhow::Error::from)?.transpose()?,
            );
        }
        let names = snapshot.as_deref().map(keys_of).unwrap_or_default();
        let (server, read) = (Arc::clone(server), Arc::clone(&read));
        let wanted = Wanted { server, node, schema: after.schema.clone(), names, read };
        asking.spawn(async move { Ok::<_, Failure>((shown, wanted.ask().await?, snapshot)) });
    }
    while let Some(done) = asking.join_next().await {
        all.push(done.map_err(anyhow::Error::from)??);
    }
    Ok(all)
}

/// The number of audiences that are asked for at the same time.
const AT_ONCE: usize = 4;
