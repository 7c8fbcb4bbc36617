//! Queries as they stand on the command line: types by their short names or URLs, names, and names
//! that have their types in them.

use chancery_client::TypeUrl;
use chancery_core::ResourceName;

/// A name of one type; `*` stands for all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Query {
    pub(crate) type_url: TypeUrl,
    pub(crate) name: String,
}

impl Query {
    /// Makes a query with the name in its canonical form, as servers and watches have it (C-025). A
    /// malformed name stays as it is, and the client refuses it.
    pub(crate) fn new(type_url: TypeUrl, name: &str) -> Self {
        let read = ResourceName::read(name);
        Self { type_url, name: read.map_or_else(|_| name.to_owned(), |it| it.as_str().to_owned()) }
    }

    /// Makes a query for all resources of a type.
    pub(crate) fn all(type_url: TypeUrl) -> Self {
        Self { type_url, name: EVERYTHING.to_owned() }
    }

    /// Returns the types that have a short name, but those of v2.
    pub(crate) fn types() -> impl Iterator<Item = TypeUrl> {
        TypeUrl::known().filter(|url| !url.message_name().contains("v2"))
    }

    /// Returns true if it can have more than one resource.
    pub(crate) fn is_many(&self) -> bool {
        self.name == EVERYTHING || self.is_glob()
    }

    /// Returns true if it is a collection.
    pub(super) fn is_glob(&self) -> bool {
        let path = self.name.split('?').next().unwrap_or_default();
        is_xdstp(&self.name) && path.ends_with("/*")
    }

    /// Returns the authority in its name, if there is one.
    pub(super) fn authority(&self) -> Option<&str> {
        let rest = self.name.strip_prefix(XDSTP)?;
        Some(rest.split('/').next().unwrap_or(rest))
    }
}

/// Returns all queries that the words name, each of them once.
///
/// # Errors
/// The fault of a word.
pub(super) fn read(words: &[String]) -> Result<Vec<Query>, String> {
    let Some((first, rest)) = words.split_first() else { return Ok(Vec::new()) };
    if is_xdstp(first) {
        return words
            .iter()
            .map(|name| of_name(name))
            .collect::<Result<_, _>>()
            .map(without_repeats);
    }
    let types: Vec<_> = first.split(',').map(type_of).collect::<Result<_, _>>()?;
    let everything = [EVERYTHING.to_owned()];
    let names = if rest.is_empty() { &everything } else { rest };
    let all = types.iter().flat_map(|url| names.iter().map(|name| Query::new(url.clone(), name)));
    Ok(without_repeats(all.collect()))
}

/// Returns a type by its short name, its URL, or the name of its message.
pub(crate) fn type_of(text: &str) -> Result<TypeUrl, String> {
    if let Some((first, name)) = text.split_once('/')
        && of_short(first).is_some()
    {
        let words = format!("{first} {name}");
        let words = words.trim_end();
        return Err(format!("`{text}` is no type; write `{words}`: the type, and then the names"));
    }
    if text.contains(['/', '.']) {
        return Ok(TypeUrl::new(text));
    }
    of_short(text).ok_or_else(|| {
        let shorts: Vec<_> = Query::types().map(|url| url.short().to_owned()).collect();
        format!("no type is called `{text}`; write one of {}, or a full URL", shorts.join(", "))
    })
}

/// Returns the type with this short name. Those of v3 come first, and have the same short names as
/// those of v2.
fn of_short(text: &str) -> Option<TypeUrl> {
    TypeUrl::known().find(|url| url.short() == text)
}

/// Returns the query of a name that has its type in it.
fn of_name(name: &str) -> Result<Query, String> {
    let mut parts = name.strip_prefix(XDSTP).unwrap_or(name).splitn(3, '/').skip(1);
    match (parts.next(), parts.next()) {
        (Some(kind), Some(_)) if is_xdstp(name) && !kind.is_empty() => {
            Ok(Query::new(TypeUrl::new(kind), name))
        }
        _ if is_xdstp(name) => {
            Err(format!("`{name}` says no type; write `xdstp://AUTHORITY/TYPE/ID`"))
        }
        _ => Err(format!("`{name}` says no type; names after one with `xdstp://` begin so too")),
    }
}

fn is_xdstp(text: &str) -> bool {
    text.starts_with(XDSTP)
}

fn without_repeats(all: Vec<Query>) -> Vec<Query> {
    let mut once: Vec<Query> = Vec::with_capacity(all.len());
    let mut seen = std::collections::HashSet::new();
    for query in all {
        if seen.insert((query.type_url.clone(), query.name.clone())) {
            once.push(query);
        }
    }
    once
}

const XDSTP: &str = "xdstp://";
const EVERYTHING: &str = "*";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Vec<String>, String> {
        let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
        let all = super::read(&words)?;
        Ok(all.iter().map(|it| format!("{} {}", it.type_url.short(), it.name)).collect())
    }

    #[test]
    fn a_type_comes_first_and_then_names() {
        assert_eq!(read(&["cds"]).unwrap(), ["cds *"]);
        assert_eq!(read(&["eds", "a", "b", "a"]).unwrap(), ["eds a", "eds b"]);
        assert_eq!(read(&["cds,lds"]).unwrap(), ["cds *", "lds *"]);
        let url = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
        assert_eq!(read(&[url, "a"]).unwrap(), ["cds a"]);
        assert_eq!(read(&["envoy.config.cluster.v3.Cluster"]).unwrap(), ["cds *"]);
        assert_eq!(read(&["of.mine"]).unwrap(), ["of.mine *"]);
        assert_eq!(type_of("cds").unwrap().as_str(), url);
    }

    #[test]
    fn a_short_type_with_a_slash_is_told_how_to_write_a_name() {
        for (word, told) in [("cds/nope", "write `cds nope`"), ("lds/", "write `lds`")] {
            let why = read(&[word]).unwrap_err();
            assert!(why.contains(word) && why.contains(told), "{why}");
        }
        assert!(read(&["cds,lds/x"]).is_err());
        assert_eq!(read(&["example.com/of.mine"]).unwrap(), ["of.mine *"]);
    }

    #[test]
    fn names_may_say_their_types() {
        let cluster = "xdstp://a/envoy.config.cluster.v3.Cluster/edge/*";
        let route = "xdstp://b/envoy.config.route.v3.RouteConfiguration/r";
        let expected = [format!("cds {cluster}"), format!("rds {route}")];
        assert_eq!(read(&[cluster, route]).unwrap(), expected);
        let spellings = ["xdstp://a/x.Y/z?b=2&a=1", "xdstp://a/x.Y/z?a=1&b=2"];
        assert_eq!(read(&spellings).unwrap().len(), 1, "{:?}", read(&spellings));
        assert_eq!(read(&[&["x.Y"], &spellings[..]].concat()).unwrap().len(), 1);
        assert!(read(&[cluster, "x"]).unwrap_err().contains("`x`"));
        assert!(read(&["xdstp://a"]).unwrap_err().contains("`xdstp://a`"));
        assert!(read(&["cdx"]).unwrap_err().contains("`cdx`"));
        assert!(Query::new(TypeUrl::new("x.y"), cluster).is_many());
        assert_eq!(Query::new(TypeUrl::new("x.y"), route).authority(), Some("b"));
        assert_eq!(Query::new(TypeUrl::new("x.y"), "a").authority(), None);
    }
}
