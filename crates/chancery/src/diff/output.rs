//! The differences as text for people, or as JSON for programs, and the end of the command.

use std::sync::Arc;

use chancery_catalog::Audience;
use chancery_core::Resource;
use chancery_core::printable::{PrintForm, printable};
use chancery_proto::Schema;
use chancery_proto::show::{Notation, Viewer};
use serde_json::{Value, json};

use super::change::Change;
use super::compare::Comparison;
use super::effects;
use super::options::DiffFormat;
use crate::ask::plain;
use crate::colour::{Colour, Paint};
use crate::exit::Failure;
use crate::{line_diff, stdout};

/// Prints the differences. If there are some, that is a negative answer.
pub(super) fn write(
    format: DiffFormat,
    comparison: &Comparison,
    schema: &Schema,
) -> Result<(), Failure> {
    let printer = Printer { viewer: Viewer::new(schema), paint: Paint::of_stdout() };
    for (viewers, changes) in &comparison.changes {
        if format == DiffFormat::Text && !stdout::write(heading(viewers).as_bytes())? {
            return Err(Failure::told());
        }
        for change in changes {
            let text = match format {
                DiffFormat::Text => printer.text(change),
                DiffFormat::Json => printer.json(change, viewers),
            };
            if !stdout::write(text.as_bytes())? {
                return Err(Failure::told());
            }
        }
    }
    let last = match format {
        DiffFormat::Text => summary(comparison),
        DiffFormat::Json => objects(comparison),
    };
    stdout::write(last.as_bytes())?;
    if comparison.is_empty() { Ok(()) } else { Err(Failure::told()) }
}

struct Printer {
    viewer: Viewer,
    paint: Paint,
}

impl Printer {
    /// A line for the change, the lines of the resource that differ, and what clients do.
    fn text(&self, change: &Change) -> String {
        let (short, name) = (plain(change.key.type_url.short()), plain(change.key.name.as_str()));
        let colour = match word(change) {
            "added" => Colour::Green,
            "removed" => Colour::Red,
            _ => Colour::Yellow,
        };
        let word = self.paint.with(colour, word(change));
        let mut text = format!("{short} {name} {word}\n");
        if let (Some(before), Some(after)) = (&change.before, &change.after) {
            text += &self.lines(change, before, after);
        }
        for effect in effects::of(change) {
            text += &format!("  {}\n", self.paint.with(Colour::Faint, &format!("> {effect}")));
        }
        text
    }

    fn lines(&self, change: &Change, before: &Resource, after: &Resource) -> String {
        let yaml = |resource| self.shown(Notation::Yaml, change, resource);
        let lines = line_diff::lines(&yaml(before), &yaml(after), self.paint);
        if lines.is_empty() {
            return format!("  {NOT_SHOWN}\n");
        }
        let mut text: String = lines.split_inclusive('\n').take(MOST_LINES).collect();
        let more = lines.lines().count().saturating_sub(MOST_LINES);
        if more > 0 {
            text += &format!("  and {more} more lines\n");
        }
        text
    }

    /// Returns a change as JSON. The keys are a promise to users; new ones may be added at the end.
    fn json(&self, change: &Change, viewers: &[Audience]) -> String {
        let text = |text: &str| Value::from(text).to_string();
        let resource = |side: &Option<Arc<Resource>>| match side {
            Some(resource) => {
                self.shown(Notation::JsonLine, change, resource).trim_end().to_owned()
            }
            None => "null".to_owned(),
        };
        let viewers = viewers
            .iter()
            .map(|it| json!({"group": it.group.as_deref(), "node": it.node.as_deref()}));
        let object = format!(
            "{{\"change\":{},\"type\":{},\"name\":{},\"audiences\":{},\"before\":{},\"after\":{},\
             \"effects\":{}}}\n",
            text(word(change)),
            text(change.key.type_url.as_str()),
            text(change.key.name.as_str()),
            Value::from_iter(viewers),
            resource(&change.before),
            resource(&change.after),
            json!(effects::of(change)),
        );
        printable(&object, PrintForm::Json).into_owned()
    }

    fn shown(&self, notation: Notation, change: &Change, resource: &Resource) -> String {
        self.viewer.show(notation, &change.key.type_url, resource.body())
    }
}

fn word(change: &Change) -> &'static str {
    match (&change.before, &change.after) {
        (None, _) => "added",
        (_, None) => "removed",
        _ => "changed",
    }
}

/// The line above the changes, with those who see them.
fn heading(viewers: &[Audience]) -> String {
    let named = viewers.iter().take(MOST_VIEWERS).map(ToString::to_string);
    let mut named: Vec<_> = named.collect();
    if viewers.len() > MOST_VIEWERS {
        named.push(format!("and {} more", viewers.len() - MOST_VIEWERS));
    }
    format!("# {}\n", plain(&named.join(", ")))
}

fn summary(comparison: &Comparison) -> String {
    let all = || comparison.changes.iter().flat_map(|(_, changes)| changes);
    let count = |wanted| all().filter(|change| word(change) == wanted).count();
    let mut text = String::new();
    for left_out in &comparison.left_out {
        text += &format!("left out: {}\n", plain(left_out));
    }
    if comparison.rules_differ {
        text += &format!("the rules for groups differ: {MAY_MOVE}\n");
    }
    for values in &comparison.values {
        text += &format!("{}\n", plain(values));
    }
    for moved in &comparison.moves {
        text += &format!("{}\n", moved.told());
    }
    text + &format!(
        "{} added, {} changed, {} removed\n",
        count("added"),
        count("changed"),
        count("removed")
    )
}

/// The objects that are about no resource.
fn objects(comparison: &Comparison) -> String {
    let object = |change: &str, effect: &str| {
        json!({
            "change": change, "type": null, "name": null, "audiences": [], "before": null,
            "after": null, "effects": [effect],
        })
    };
    let mut all: Vec<_> = comparison.left_out.iter().map(|it| object("left-out", it)).collect();
    all.extend(comparison.rules_differ.then(|| object("rules", MAY_MOVE)));
    all.extend(comparison.values.iter().map(|it| object("values", it)));
    for moved in &comparison.moves {
        let (mut told, more) = (object("nodes", &moved.told()), moved.json());
        if let (Some(told), Value::Object(more)) = (told.as_object_mut(), more) {
            told.extend(more);
        }
        all.push(told);
    }
    let text: String = all.iter().map(|object| format!("{object}\n")).collect();
    printable(&text, PrintForm::Json).into_owned()
}

/// So many lines of one resource are shown.
const MOST_LINES: usize = 200;
/// So many of those who see a change are named.
const MOST_VIEWERS: usize = 20;
const MAY_MOVE: &str = "nodes may move to another group";
const NOT_SHOWN: &str = "nothing that is shown differs: secrets are left out, and so are TTLs";
