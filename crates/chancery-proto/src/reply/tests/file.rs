//! Files that clients subscribe to.

use chancery_core::client::ResponseItem;
use prost::Message;

use super::*;
use crate::document::{Fault, Format};

fn read(format: Format, text: impl AsRef<[u8]>) -> Result<Response, Vec<Fault>> {
    reader().read_file(&TypeUrl::new(CLUSTER), format, text.as_ref())
}

/// C-043
#[test]
fn every_format_is_read() {
    let yaml = format!("resources:\n- {{'@type': {CLUSTER}, name: c}}\n");
    let list = format!("- {{'@type': {CLUSTER}, name: c}}\n");
    let single = format!("'@type': {CLUSTER}\nname: c\n");
    let json = format!(r#"{{"resources": [{{"@type": "{CLUSTER}", "name": "c"}}]}}"#);
    let text = format!("resources {{ [{CLUSTER}] {{ name: 'c' }} }}");
    let binary = Sotw { resources: vec![cluster("c")], ..Sotw::default() }.encode_to_vec();
    let yamls = [yaml, list, single].map(|text| (Format::Yaml, text.into_bytes()));
    let others =
        [(Format::Json, json.into()), (Format::Text, text.into()), (Format::Binary, binary)];
    for (format, bytes) in yamls.into_iter().chain(others) {
        let reply = read(format, bytes).unwrap();
        assert_eq!(reply.type_url, TypeUrl::new(CLUSTER));
        assert_eq!(only(&reply).resource.name().as_str(), "c", "{format:?}");
        assert_eq!(only(&reply).resource.body()[..], named("c"), "{format:?}");
    }
}

/// C-043: the last good content stays.
#[test]
fn a_file_with_a_fault_is_not_used_at_all() {
    let good = format!("- {{'@type': {CLUSTER}, name: a}}\n");
    let cut = format!("{good}- {{'@type': {CLUSTER}, na");
    let bad = format!("{good}- {{'@type': {CLUSTER}, name: b, connect_timout: 1s}}\n");
    let twice = format!("{good}{good}");
    for text in [&cut, &bad, &twice] {
        assert!(!read(Format::Yaml, text).unwrap_err().is_empty(), "{text}");
    }
    assert_eq!(outcome(&read(Format::Yaml, good).unwrap()).0, ["a"]);
}

/// C-043: an empty list has no resources, and its version says so. A file that says nothing may be cut,
/// so it is not used.
#[test]
fn a_version_is_that_of_the_content() {
    assert!(!read(Format::Yaml, "").unwrap_err().is_empty());
    let empty = read(Format::Yaml, "[]\n").unwrap();
    assert!(empty.resources.is_empty());
    let other = read(Format::Yaml, "resources: []\n").unwrap();
    assert_ne!(empty.version, other.version);
    assert_eq!(empty.version, read(Format::Yaml, "[]\n").unwrap().version);
}

/// C-055, C-064
#[test]
fn what_is_of_another_type_or_refused_is_a_flaw() {
    let text = format!(
        "- {{'@type': {CLUSTER}, name: left}}\n- {{'@type': {CLUSTER}, name: bad}}\n\
         - {{'@type': {ENDPOINTS}, cluster_name: left}}\n"
    );
    let reader = reader().with_decoder(Arc::new(FirstByte));
    let reply = reader.read_file(&TypeUrl::new(CLUSTER), Format::Yaml, text.as_bytes()).unwrap();
    let (good, flaws) = outcome(&reply);
    assert_eq!(good, ["left"]);
    assert!(
        matches!(&reply.resources[0], Ok(ResponseItem::Resource(given)) if given.decoded.is_none())
    );
    assert_eq!(flaws[0], (Some("bad"), "a cds called bad"));
    assert_eq!(flaws[1].0, None);
    assert!(flaws[1].1.starts_with("line 3, column 3: `left` is a `"), "{}", flaws[1].1);
}
