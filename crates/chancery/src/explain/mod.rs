//! `chancery explain-node`: which rule decides on the group of a node, and where each resource comes from
//! that it gets.
//!
//! ```text
//!   ID, flags --> Node --+--> [Grouping]: the rule, the group --> the layers --> [story]: each resource
//!   DIR --> check's loading --> catalog --------------------------/                 --> [output]
//! ```
//!
//! Not here: what a server knows of a node (`ask`), and the contents of resources (`get`).

mod options;
mod output;
mod story;
mod values;

use chancery_catalog::Audience;
use chancery_core::Node;
use chancery_proto::document::Position;
use chancery_proto::syntax::yaml_position;
use chancery_server::Refusal;

pub(crate) use self::options::ExplainArgs;
use self::story::Story;
use self::values::ValuesStory;
use crate::check::LoadedDirectory;
use crate::config::{self, FileContent};
use crate::exit::Failure;
use crate::serve::{Decider, Grouping};

/// The explanation of a node.
struct Explanation {
    node: Node,
    decision: GroupDecision,
    /// The layers and resources of the node; `None` if it is refused.
    story: Option<Story>,
    values: ValuesStory,
}

/// The group of a node, and the reason.
struct GroupDecision {
    /// `rule`, `cluster` or `unmatched`.
    by: &'static str,
    /// The number of the rule, from 1.
    rule: Option<usize>,
    /// The place in `chancery.yaml`, if it says so there.
    place: Option<(String, Position)>,
    group: Result<Option<String>, Refusal>,
}

/// Runs the command.
pub(crate) fn run(flags: &ExplainArgs) -> Result<(), Failure> {
    let node = flags.node()?;
    let loaded = LoadedDirectory::faultless(&flags.resources.of_serve(&flags.dir), true)?;
    let decision = decision(flags, &node, &loaded);
    let mut values = ValuesStory::default();
    let story = decision.group.as_ref().ok().map(|group| {
        let audience =
            Audience::of(group.as_deref().map(Into::into), Some(node.id.as_str().into()));
        values = ValuesStory::of(&loaded.catalog, &audience, &node);
        let mut story = Story::of(&loaded.catalog, &audience);
        story.keep_only(flags.type_name.as_deref(), flags.name.as_deref());
        story
    });
    output::write(flags.output, &Explanation { node, decision, story, values })
}

fn decision(flags: &ExplainArgs, node: &Node, loaded: &LoadedDirectory) -> GroupDecision {
    let (grouping, groups) = (Grouping::new(&loaded.config), loaded.catalog.groups());
    let is_known = |name: &str| groups.contains(name);
    let (by, key, rule) = match grouping.decides(node, is_known) {
        Decider::Rule { at, .. } => ("rule", "groups", Some(at)),
        Decider::Cluster(_) => ("cluster", "", None),
        Decider::Unmatched => ("unmatched", "unmatched", None),
    };
    let text = match FileContent::read(&flags.dir) {
        FileContent::Text { text, .. } => text,
        FileContent::Missing | FileContent::Unreadable(_) => String::new(),
    };
    let file = flags.dir.join(config::FILE).display().to_string();
    let place = yaml_position(&text, key, rule).map(|position| (file, position));
    let group = grouping.of_node(node, is_known);
    GroupDecision { by, rule: rule.map(|at| at + 1), place, group }
}
