//! The option `validate.rules` of a field, as checks.
//!
//! An option that this engine cannot enforce is named ([`Reading::unsupported`]); it is never left
//! out in silence. Not here: which messages and fields there are (`plan`).

use prost_reflect::{DynamicMessage, EnumDescriptor, Kind, ReflectMessage};
use regex::bytes::Regex;

use super::check::{Check, EnumRules, duration, float, integer, timestamp};
use super::fields::Fields;
use super::formats::{Format, HeaderForm};
use super::lengths::Lengths;
use super::limits::Limits;
use super::name::{DURATION, ENUM, NUMBER, TIMESTAMP};
use super::pattern;
use super::text::{BytesRules, TextRules};

/// The options of one field, or of its items, keys or values.
#[derive(Default)]
pub(super) struct FieldOptions {
    /// True if the messages of the field are not looked into.
    pub(super) skip: bool,
    /// True if the message, the wrapper, the duration, the time or the `Any` must be set.
    pub(super) required: bool,
    pub(super) kind: KindOptions,
}

/// The options by kind.
#[derive(Default)]
pub(super) enum KindOptions {
    #[default]
    None,
    Check(Box<Check>),
    Any {
        one_of: Vec<String>,
        none_of: Vec<String>,
    },
    List {
        lengths: Lengths,
        unique: bool,
        ignore_empty: bool,
        items: Option<DynamicMessage>,
    },
    Map {
        lengths: Lengths,
        ignore_empty: bool,
        keys: Option<DynamicMessage>,
        values: Option<DynamicMessage>,
    },
}

/// Reads the options of one field after the other, and gathers what is not supported.
#[derive(Default)]
pub(super) struct Reading {
    /// The rules that cannot be enforced: the field and the rule.
    pub(super) unsupported: Vec<(String, String)>,
}

impl Reading {
    /// The options in a `FieldRules` for values of this kind; `place` names the field.
    pub(super) fn field(
        &mut self,
        rules: &DynamicMessage,
        kind: &Kind,
        place: &str,
    ) -> FieldOptions {
        let mut options = FieldOptions::default();
        if let Some(message) = message(rules, "message") {
            let mut fields = Fields::of(&message);
            options.skip = fields.flag("skip");
            options.required = fields.flag("required");
            self.note(place, &fields);
        }
        let Some((name, of_kind)) = of_kind(rules) else { return options };
        let mut fields = Fields::of(&of_kind);
        if matches!(name.as_str(), "any" | "duration" | "timestamp") {
            // These have a flag of their own, and that of `message` does not count beside it.
            options.required = fields.flag("required");
        }
        let check = self.check(&name, &mut fields, kind, place);
        if fits(&check, &name, kind) {
            options.kind = check;
        } else {
            self.unsupported.push((place.to_owned(), format!("{name} on another kind of field")));
        }
        self.note(place, &fields);
        options
    }

    fn check(
        &mut self,
        name: &str,
        fields: &mut Fields<'_>,
        kind: &Kind,
        place: &str,
    ) -> KindOptions {
        let check = match name {
            "float" | "double" => Check::Float(fields.limits(&NUMBER, float)),
            "bool" => match fields.value("const").and_then(|value| value.as_bool()) {
                Some(constant) => Check::Bool(constant),
                None => return KindOptions::None,
            },
            "string" => Check::Text(self.text(fields, place)),
            "bytes" => Check::Bytes(self.bytes(fields, place)),
            "enum" => match kind.as_enum() {
                Some(of) => Check::Enum(enum_rules(fields, of)),
                None => return KindOptions::None,
            },
            "duration" => {
                Check::Duration(fields.limits(&DURATION, |value| duration(value.as_message()?)))
            }
            "timestamp" => {
                Check::Timestamp(fields.limits(&TIMESTAMP, |value| timestamp(value.as_message()?)))
            }
            "any" => {
                let (one_of, none_of) = (fields.texts("in"), fields.texts("not_in"));
                return KindOptions::Any { one_of, none_of };
            }
            "repeated" => {
                return KindOptions::List {
                    lengths: fields.lengths("", "min_items", "max_items"),
                    unique: fields.flag("unique"),
                    ignore_empty: fields.flag("ignore_empty"),
                    items: fields.message("items"),
                };
            }
            "map" => {
                // A message in a map is there, so no map is sparse.
                fields.flag("no_sparse");
                return KindOptions::Map {
                    lengths: fields.lengths("", "min_pairs", "max_pairs"),
                    ignore_empty: fields.flag("ignore_empty"),
                    keys: fields.message("keys"),
                    values: fields.message("values"),
                };
            }
            _ => Check::Integer(fields.limits(&NUMBER, integer)),
        };
        match &check {
            Check::Duration(limits) | Check::Timestamp(limits) if limits.is_none() => {
                KindOptions::None
            }
            _ => KindOptions::Check(Box::new(check)),
        }
    }

    fn text(&mut self, fields: &mut Fields<'_>, place: &str) -> TextRules {
        const FORMATS: [(&str, Format); 9] = [
            ("email", Format::Email),
            ("hostname", Format::Hostname),
            ("ip", Format::Ip),
            ("ipv4", Format::Ipv4),
            ("ipv6", Format::Ipv6),
            ("uri", Format::Uri),
            ("uri_ref", Format::UriRef),
            ("address", Format::Address),
            ("uuid", Format::Uuid),
        ];
        let strict = fields.value("strict").is_none_or(|strict| strict.as_bool() != Some(false));
        let known = fields.value("well_known_regex").and_then(|value| value.as_enum_number());
        TextRules {
            constant: fields.text("const"),
            one_of: fields.texts("in"),
            none_of: fields.texts("not_in"),
            characters: fields.lengths("len", "min_len", "max_len"),
            bytes: fields.lengths("len_bytes", "min_bytes", "max_bytes"),
            prefix: fields.text("prefix"),
            suffix: fields.text("suffix"),
            contains: fields.text("contains"),
            not_contains: fields.text("not_contains"),
            pattern: self.pattern(fields, place),
            header: match (known, strict) {
                (Some(1), true) => Some(HeaderForm::Name),
                (Some(2), true) => Some(HeaderForm::Value),
                (Some(1 | 2), false) => Some(HeaderForm::Loose),
                _ => None,
            },
            format: fields.format(&FORMATS),
            ignore_empty: fields.flag("ignore_empty"),
        }
    }

    fn bytes(&mut self, fields: &mut Fields<'_>, place: &str) -> BytesRules {
        const FORMATS: [(&str, Format); 3] =
            [("ip", Format::Ip), ("ipv4", Format::Ipv4), ("ipv6", Format::Ipv6)];
        BytesRules {
            constant: fields.bytes("const").pop(),
            one_of: fields.bytes("in"),
            none_of: fields.bytes("not_in"),
            lengths: fields.lengths("len", "min_len", "max_len"),
            prefix: fields.bytes("prefix").pop(),
            suffix: fields.bytes("suffix").pop(),
            contains: self.part(fields, place),
            pattern: self.pattern(fields, place),
            format: fields.format(&FORMATS),
            ignore_empty: fields.flag("ignore_empty"),
        }
    }

    fn part(&mut self, fields: &mut Fields<'_>, place: &str) -> Option<(Vec<u8>, Regex)> {
        let part = fields.bytes("contains").pop()?;
        match pattern::literal(&part) {
            Ok(search) => Some((part, search)),
            Err(_) => {
                self.unsupported.push((place.to_owned(), "BytesRules.contains".to_owned()));
                None
            }
        }
    }

    fn pattern(&mut self, fields: &mut Fields<'_>, place: &str) -> Option<(String, Regex)> {
        let source = fields.text("pattern")?;
        match pattern::compile(&source) {
            Ok(regex) => Some((source, regex)),
            Err(_) => {
                self.unsupported.push((place.to_owned(), format!("the pattern `{source}`")));
                None
            }
        }
    }

    /// Names the options that nobody read.
    fn note(&mut self, place: &str, fields: &Fields<'_>) {
        for (field, _) in fields.rules.fields() {
            if !fields.read.contains(&field.name()) {
                let kind = fields.rules.descriptor();
                let rule = format!("{}.{}", kind.name(), field.name());
                self.unsupported.push((place.to_owned(), rule));
            }
        }
    }
}

/// The one option that depends on the kind of the field, with its name.
fn of_kind(rules: &DynamicMessage) -> Option<(String, DynamicMessage)> {
    let set = rules.fields().find(|(field, _)| field.containing_oneof().is_some());
    let (field, value) = set?;
    Some((field.name().to_owned(), value.as_message()?.clone()))
}

fn message(rules: &DynamicMessage, name: &'static str) -> Option<DynamicMessage> {
    Fields::of(rules).message(name)
}

fn enum_rules(fields: &mut Fields<'_>, of: &EnumDescriptor) -> EnumRules {
    let limits = Limits {
        constant: fields.list("const", integer).pop(),
        one_of: fields.list("in", integer),
        none_of: fields.list("not_in", integer),
        ..Limits::none(&ENUM)
    };
    let defined = fields.flag("defined_only").then(|| {
        let mut all: Vec<_> = of.values().map(|value| value.number()).collect();
        all.sort_unstable();
        all
    });
    EnumRules { of: of.clone(), defined, limits }
}

/// Returns true if values of this kind can have these rules, as they are or in a wrapper.
fn fits(options: &KindOptions, name: &str, kind: &Kind) -> bool {
    let KindOptions::Check(check) = options else { return true };
    let scalar = match kind {
        Kind::Message(message) => match message.full_name() {
            "google.protobuf.Duration" => return matches!(**check, Check::Duration(_)),
            "google.protobuf.Timestamp" => return matches!(**check, Check::Timestamp(_)),
            _ if is_wrapper(kind) => message.get_field(1).map(|field| field.kind()),
            _ => None,
        },
        kind => Some(kind.clone()),
    };
    match (&**check, scalar) {
        (Check::Float(_), Some(Kind::Float)) => name == "float",
        (Check::Float(_), Some(Kind::Double)) => name == "double",
        (Check::Bool(_), Some(Kind::Bool))
        | (Check::Text(_), Some(Kind::String))
        | (Check::Bytes(_), Some(Kind::Bytes))
        | (Check::Enum(_), Some(Kind::Enum(_))) => true,
        (Check::Integer(_), Some(kind)) => kind == integer_kind(name),
        _ => false,
    }
}

fn integer_kind(name: &str) -> Kind {
    match name {
        "int32" => Kind::Int32,
        "int64" => Kind::Int64,
        "uint32" => Kind::Uint32,
        "uint64" => Kind::Uint64,
        "sint32" => Kind::Sint32,
        "sint64" => Kind::Sint64,
        "fixed32" => Kind::Fixed32,
        "fixed64" => Kind::Fixed64,
        "sfixed32" => Kind::Sfixed32,
        _ => Kind::Sfixed64,
    }
}

/// Returns true for the messages around a scalar that can be absent.
pub(super) fn is_wrapper(kind: &Kind) -> bool {
    kind.as_message()
        .is_some_and(|message| message.parent_file().name() == "google/protobuf/wrappers.proto")
}
