//! The explanation as text for people, or as JSON for programs, and the end of the command.

use chancery_catalog::{Key, Layer, Origin};
use chancery_core::printable::{PrintForm, printable};
use serde_json::{Value, json};

use super::options::ExplainFormat;
use super::story::{LayerStory, ResourceStory, Story};
use super::{Explanation, GroupDecision};
use crate::ask::plain;
use crate::colour::{Colour, Paint};
use crate::exit::Failure;
use crate::stdout;

/// Prints the explanation. A node that gets nothing is a negative answer.
pub(super) fn write(format: ExplainFormat, explanation: &Explanation) -> Result<(), Failure> {
    let text = match format {
        ExplainFormat::Text => text(explanation),
        ExplainFormat::Json => printable(&json(explanation), PrintForm::Json).into_owned(),
    };
    stdout::write(text.as_bytes())?;
    match &explanation.story {
        Some(story) if !story.is_empty() && explanation.values.refused.is_none() => Ok(()),
        _ => Err(Failure::told()),
    }
}

fn text(Explanation { node, decision, story, values }: &Explanation) -> String {
    let paint = Paint::of_stdout();
    let place = decision.place.as_ref();
    let place = place.map(|(file, position)| format!(" ({}:{})", plain(file), position.line));
    let reason = match (decision.by, decision.rule) {
        ("rule", Some(rule)) => format!("rule {rule} of `groups` is the first that matches"),
        ("cluster", _) => "no rule matches, and the group is called like its cluster".to_owned(),
        _ => "no rule matches, and `unmatched` says so".to_owned(),
    };
    let fate = match &decision.group {
        Ok(Some(group)) => format!("is in group `{}`", plain(group)),
        Ok(None) => "is in no group".to_owned(),
        Err(_) => "is refused".to_owned(),
    };
    let place = place.unwrap_or_default();
    let mut text = format!("node `{}` {fate}: {reason}{place}\n", plain(&node.id));
    let Some(story) = story else { return text };
    text += "layers, the strongest first:\n";
    for layer in &story.layers {
        text += &layer_line(layer);
    }
    text += if story.resources.is_empty() { "resources: none\n" } else { "resources:\n" };
    for (key, story) in &story.resources {
        text += &resource_lines(key, story, paint);
    }
    text += &values.text();
    if let Some(why) = &values.refused {
        let line = format!("the node is refused: {}", plain(why));
        text += &format!("{}\n", paint.with(Colour::Red, &line));
    }
    text
}

fn layer_line(LayerStory { layer, files }: &LayerStory) -> String {
    let named: Vec<_> = files.iter().flatten().take(MOST_FILES).map(|file| plain(file)).collect();
    let count = files.as_ref().map_or(0, |files| files.len());
    let files = match (count, count - named.len()) {
        (0, _) => "no files".to_owned(),
        (_, 0) => named.join(", "),
        (_, more) => format!("{}, and {more} more", named.join(", ")),
    };
    format!("  {}: {files}\n", plain(&layer.to_string()))
}

fn resource_lines(key: &Key, story: &ResourceStory, paint: Paint) -> String {
    let place = |origin: &Origin| plain(&origin.to_string()).into_owned();
    let fate = match (&story.origin, &story.removed_by) {
        (Some(origin), _) => place(origin),
        (None, Some(by)) => {
            let and = if story.is_made_up { format!("; {MADE_UP}") } else { String::new() };
            paint.with(Colour::Red, &format!("removed by {}{and}", place(by)))
        }
        (None, None) if story.is_made_up => MADE_UP.to_owned(),
        (None, None) => paint.with(Colour::Red, "not there"),
    };
    let (short, name) = (plain(key.type_url.short()), plain(key.name.as_str()));
    let mut text = format!("  {short} {name}  {fate}\n");
    for patch in &story.patches {
        let line = format!("patched by {}", place(patch));
        text += &format!("    {}\n", paint.with(Colour::Yellow, &line));
    }
    for (edit, why) in &story.not_applied {
        let line = format!("not applied: {}: {}", place(edit), plain(why));
        text += &format!("    {}\n", paint.with(Colour::Red, &line));
    }
    for hidden in &story.hides {
        let line = format!("hides {}", place(hidden));
        text += &format!("    {}\n", paint.with(Colour::Faint, &line));
    }
    text
}

/// Returns the explanation as JSON. The keys are a promise to users; new ones may be added at the end.
fn json(Explanation { node, decision, story, values }: &Explanation) -> String {
    let GroupDecision { by, rule, place, group } = decision;
    let layers = story.iter().flat_map(|story| &story.layers).map(layer_object);
    let resources = story.iter().flat_map(Story::rows);
    let object = json!({
        "node": node.id,
        "group": group.as_ref().ok().cloned().flatten(),
        "refused": group.as_ref().err().map(ToString::to_string).or_else(|| values.refused.clone()),
        "decided_by": by,
        "rule": rule,
        "file": place.as_ref().map(|(file, _)| file),
        "line": place.as_ref().map(|(_, position)| position.line),
        "layers": layers.collect::<Vec<_>>(),
        "resources": resources.collect::<Vec<_>>(),
        "values": values.rows(),
    });
    format!("{object}\n")
}

impl Story {
    fn rows(&self) -> impl Iterator<Item = Value> {
        self.resources.iter().map(|(key, story)| {
            let places = |origins: &[Origin]| origins.iter().map(place).collect::<Vec<_>>();
            let not_applied = story.not_applied.iter().map(|(origin, why)| {
                let mut object = place(origin);
                object["why"] = why.as_str().into();
                object
            });
            json!({
                "type": key.type_url.as_str(),
                "name": key.name.as_str(),
                "origin": story.origin.as_ref().map(place),
                "patched_by": places(&story.patches),
                "removed_by": story.removed_by.as_ref().map(place),
                "hides": places(&story.hides),
                "not_applied": not_applied.collect::<Vec<_>>(),
                "made_up": story.is_made_up,
            })
        })
    }
}

fn layer_object(LayerStory { layer, files }: &LayerStory) -> Value {
    let (group, node) = match layer {
        Layer::Base => (None, None),
        Layer::Group(name) => (Some(&**name), None),
        Layer::Node(id) => (None, Some(&**id)),
    };
    json!({"group": group, "node": node, "files": files})
}

pub(super) fn place(origin: &Origin) -> Value {
    match origin {
        Origin::File { path, position } => json!({
            "file": path.display().to_string(), "line": position.line, "column": position.column,
        }),
        elsewhere => json!({"file": elsewhere.to_string(), "line": null, "column": null}),
    }
}

const MADE_UP: &str = "made up without endpoints, for its cluster";

/// So many files of a layer are named.
const MOST_FILES: usize = 20;
