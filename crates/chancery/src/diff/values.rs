//! The fields that two directories fill in another way with what nodes state. No resource of a directory tells:
//! it has the same value for all nodes.

use std::collections::BTreeSet;

use chancery_catalog::{Audience, Layer};
use chancery_core::printable::cut;

use super::side::DirectorySide;

/// The fields that are filled in another way, a sentence for each resource of a layer; of all layers, or of those
/// that a group sees.
pub(super) fn differing(sides: &[DirectorySide<'_>; 2], group: Option<&str>) -> Vec<String> {
    let of_group = |side: &DirectorySide<'_>, group: &str| {
        side.layers(&Audience::of(Some(group.into()), None))
    };
    let layers: BTreeSet<Layer> = match group {
        Some(group) => sides.iter().flat_map(|side| of_group(side, group)).collect(),
        None => sides.iter().flat_map(|side| side.catalog.layers()).collect(),
    };
    layers.iter().flat_map(|layer| of_layer(sides, layer)).take(MOST_TOLD).collect()
}

/// A field that is filled: its resource, its path, and the text with placeholders.
type Filled = (String, String, String);

fn of_layer(sides: &[DirectorySide<'_>; 2], layer: &Layer) -> Vec<String> {
    let [before, after] = sides.each_ref().map(|side| filled(side, layer));
    let resources: BTreeSet<&String> =
        before.symmetric_difference(&after).map(|(resource, ..)| resource).collect();
    let sentence = |resource: &String| {
        let lines = |one: &BTreeSet<Filled>, other: &BTreeSet<Filled>, sign: &str| {
            let gone = one.difference(other).filter(|(of, ..)| of == resource);
            let line = |(_, path, template): &Filled| {
                format!("{sign}{}: {}", cut(path, LONGEST), cut(template, LONGEST))
            };
            gone.map(line).collect::<Vec<_>>()
        };
        let mut all = lines(&before, &after, "-");
        all.extend(lines(&after, &before, "+"));
        format!("{layer}: values of {resource} that differ by node: {}", all.join(", "))
    };
    resources.into_iter().map(sentence).collect()
}

fn filled(side: &DirectorySide<'_>, layer: &Layer) -> BTreeSet<Filled> {
    let content = side.catalog.layer(layer);
    let entries = content.iter().flat_map(|content| content.iter());
    let fields = entries.flat_map(|(key, entry)| {
        let resource = format!("{} `{}`", key.type_url.short(), cut(key.name.as_str(), LONGEST));
        let declared = entry.values.iter().flat_map(|values| values.declared());
        declared.map(move |it| (resource.clone(), it.path, it.template)).collect::<Vec<_>>()
    });
    fields.collect()
}

/// The resources that are told.
const MOST_TOLD: usize = 50;

/// The bytes of a name, a path or a text that are shown.
const LONGEST: usize = 256;
