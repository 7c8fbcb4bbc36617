//! `deny.toml`, read: what is allowed, and since when.
//!
//! Every key is read here, must have the one value that is checked here, or belongs to `cargo deny`
//! alone. Any other is a fault, so that the file never promises what CI does not check.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use toml_edit::{DocumentMut, TableLike, Value};

/// Keys and the only value for which the checks here do what the file says.
const FIXED: [(&str, &str); 7] = [
    ("graph.all-features", "true"),
    ("licenses.private.ignore", "true"),
    ("bans.multiple-versions", "\"deny\""),
    ("bans.wildcards", "\"deny\""),
    ("bans.allow-wildcard-paths", "true"),
    ("sources.unknown-registry", "\"deny\""),
    ("sources.unknown-git", "\"deny\""),
];

/// Keys that mean something to `cargo deny` alone: advisories, and how it guesses a licence.
const ITS_OWN: [&str; 4] = [
    "advisories.version",
    "advisories.yanked",
    "licenses.version",
    "licenses.confidence-threshold",
];

/// The rules of `deny.toml`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Rules {
    /// The platforms that packages are built for.
    pub(super) targets: Vec<String>,
    /// Identifiers of licences, with their exception if they have one.
    pub(super) licenses: Vec<String>,
    pub(super) skips: Vec<Skip>,
}

/// A version that is allowed beside another one of the same package.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Skip {
    pub(super) name: String,
    /// The version, or the first of its numbers.
    pub(super) version: String,
    /// The day on which it was added, counted from 1970.
    pub(super) added: i64,
}

impl Skip {
    pub(super) fn matches(&self, name: &str, version: &str) -> bool {
        let rest = version.strip_prefix(&self.version);
        self.name == name && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

impl Rules {
    pub(super) fn read(text: &str) -> Result<Self> {
        let document: DocumentMut = text.parse().context("`deny.toml`")?;
        let mut values = BTreeMap::new();
        flatten("", document.as_table(), &mut values)?;
        for key in ITS_OWN {
            values.remove(key);
        }
        for (key, expected) in FIXED {
            let found = values.remove(key).map(|value| shown(&value)).unwrap_or_default();
            if found != expected {
                bail!("`deny.toml`: `{key}` must be `{expected}`: nothing else is checked");
            }
        }
        let rules = Self {
            targets: texts(values.remove("graph.targets")).context("`graph.targets`")?,
            licenses: texts(values.remove("licenses.allow")).context("`licenses.allow`")?,
            skips: skips(values.remove("bans.skip")).context("`bans.skip`")?,
        };
        if let Some(key) = values.keys().next() {
            bail!("`deny.toml`: `{key}` is not checked by `cargo xtask ci`");
        }
        Ok(rules)
    }
}

/// All values below a table, by their dotted keys.
fn flatten(above: &str, table: &dyn TableLike, values: &mut BTreeMap<String, Value>) -> Result<()> {
    for (key, item) in table.iter() {
        let key = if above.is_empty() { key.to_owned() } else { format!("{above}.{key}") };
        if let Some(table) = item.as_table_like() {
            flatten(&key, table, values)?;
        } else if let Some(value) = item.as_value() {
            values.insert(key, value.clone());
        } else {
            bail!("`deny.toml`: `{key}` is not checked by `cargo xtask ci`");
        }
    }
    Ok(())
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{:?}", text.value()),
        Value::Boolean(is) => is.value().to_string(),
        _ => String::new(),
    }
}

fn texts(value: Option<Value>) -> Result<Vec<String>> {
    let array = value.as_ref().and_then(Value::as_array).context("a list is expected")?;
    let text = |value: &Value| value.as_str().map(str::to_owned).context("texts are expected");
    array.iter().map(text).collect()
}

fn skips(value: Option<Value>) -> Result<Vec<Skip>> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let array = value.as_array().context("a list is expected")?;
    let numbered = array.iter().zip(1..);
    numbered.map(|(entry, at)| skip(entry).with_context(|| format!("entry {at}"))).collect()
}

/// `{ crate = "name@version", reason = "year-month-day: who needs it" }`.
fn skip(entry: &Value) -> Result<Skip> {
    let table = entry.as_inline_table().context("a table is expected")?;
    let text = |key| table.get(key).and_then(Value::as_str);
    if table.len() != 2 {
        bail!("`crate` and `reason` are expected and nothing else");
    }
    let (name, version) =
        text("crate").and_then(|spec| spec.split_once('@')).context("`crate` is `name@version`")?;
    let (date, reason) = text("reason")
        .and_then(|reason| reason.split_once(": "))
        .context("`reason` is `year-month-day: reason`")?;
    if reason.trim().is_empty() {
        bail!("the reason is empty");
    }
    let added = day(date).context("`reason` begins with a date")?;
    Ok(Skip { name: name.to_owned(), version: version.to_owned(), added })
}

/// The days from 1970 to `year-month-day`.
fn day(date: &str) -> Option<i64> {
    let numbers: Vec<i64> = date.split('-').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [year, month @ 1..=12, day @ 1..=31] = numbers[..] else { return None };
    // Years begin in March here, so that the day of a leap year is the last one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    Some(year * 365 + leap + (month * 153 + 2) / 5 + day - 1 - 719_468)
}

/// The day of a time, as [`Skip::added`] counts.
pub(super) fn days_since_1970(time: SystemTime) -> i64 {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    i64::try_from(seconds / 86_400).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = include_str!("../../../deny.toml");

    fn fault(text: &str) -> String {
        format!("{:#}", Rules::read(text).unwrap_err())
    }

    fn with_skip(entry: &str) -> String {
        let start = FILE.find("skip = [").unwrap();
        let end = start + FILE[start..].find("\n]").unwrap();
        format!("{}skip = [\n    {entry},{}", &FILE[..start], &FILE[end..])
    }

    #[test]
    fn the_file_is_read_whole() {
        let rules = Rules::read(FILE).unwrap();
        assert!(rules.targets.contains(&"x86_64-unknown-linux-gnu".to_owned()), "{rules:?}");
        assert!(rules.licenses.contains(&"MIT".to_owned()), "{rules:?}");
    }

    #[test]
    fn a_rule_that_is_not_checked_is_a_fault() {
        let more = fault(&FILE.replace("[bans]", "[bans]\ndeny = [\"openssl\"]"));
        assert!(more.contains("`bans.deny` is not checked"), "{more}");
        let lax = fault(&FILE.replace("unknown-git = \"deny\"", "unknown-git = \"warn\""));
        assert!(lax.contains("`sources.unknown-git` must be `\"deny\"`"), "{lax}");
        let gone = fault(&FILE.replace("all-features = true", ""));
        assert!(gone.contains("`graph.all-features` must be `true`"), "{gone}");
        let many = fault(&format!("{FILE}\n[[licenses.clarify]]\ncrate = \"a\"\n"));
        assert!(many.contains("`licenses.clarify` is not checked"), "{many}");
    }

    #[test]
    fn a_skip_has_a_version_a_date_and_a_reason() {
        let good = r#"{ crate = "syn@2", reason = "1970-01-02: because" }"#;
        let rules = Rules::read(&with_skip(good)).unwrap();
        let expected = Skip { name: "syn".to_owned(), version: "2".to_owned(), added: 1 };
        assert_eq!(rules.skips, [expected]);
        for (entry, part) in [
            (r#"{ crate = "syn", reason = "2026-11-22: because" }"#, "name@version"),
            (r#"{ crate = "syn@2" }"#, "`crate` and `reason`"),
            (r#"{ crate = "syn@2", reason = "because" }"#, "year-month-day"),
            (r#"{ crate = "syn@2", reason = "soon: because" }"#, "begins with a date"),
            (r#"{ crate = "syn@2", reason = "2026-13-01: because" }"#, "begins with a date"),
            (r#"{ crate = "syn@2", reason = "2026-11-22:  " }"#, "the reason is empty"),
            (r#""syn@2""#, "a table is expected"),
        ] {
            let fault = fault(&with_skip(entry));
            assert!(fault.contains(part), "{entry}: {fault}");
        }
    }

    #[test]
    fn a_version_is_matched_by_whole_numbers() {
        let skip =
            |version: &str| Skip { name: "rand".to_owned(), version: version.to_owned(), added: 0 };
        assert!(skip("0.9").matches("rand", "0.9.5") && skip("0.9.5").matches("rand", "0.9.5"));
        assert!(!skip("0.9").matches("rand", "0.95.1") && !skip("0.9").matches("rands", "0.9.5"));
    }

    #[test]
    fn days_are_counted_from_1970() {
        for (date, days) in [("1970-01-01", 0), ("2000-02-29", 11_016), ("2026-11-22", 20_779)] {
            assert_eq!(day(date), Some(days), "{date}");
        }
        assert_eq!([day("2026-11"), day("2026-0-1"), day("today")], [None; 3]);
    }
}
