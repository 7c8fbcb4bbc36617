//! Mutations of what others write: bootstraps, names, targets, templates, and all that servers say.
//! Nothing of it may panic, and some things hold whatever it is.
//!
//! The corpus lies beside this file, as text. The mutations are those of `chancery_testkit::fuzz`.
//! Not here: the files of the server and requests of clients (`chancery-proto`, `tests/fuzz.rs`).
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod message;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use chancery_client::bootstrap::{AuthorityKey, Fallback, InvalidTarget, Target, Template};
use chancery_client::options::{Settings, Variant};
use chancery_client::resource::ResourceName;
use chancery_client::{Bootstrap, TypeUrl};
use chancery_core::client::{
    Effect, Input, Machine, Protocol, Response, ServerFeatures, ServerKey, Setup, StreamId,
};
use chancery_core::{ErrorDetail, Node, Scope, Time};
use chancery_proto::frames::Messages;
use chancery_proto::reply::Reader;
use chancery_proto::schema::Schema;

const LISTENER: &str = "envoy.config.listener.v3.Listener";
const CLUSTER: &str = "envoy.config.cluster.v3.Cluster";

/// Tries a target with its corpus as it is, and with mutations of it.
fn fuzz(target: &str, attempt: impl FnMut(&[u8])) {
    chancery_testkit::fuzz::fuzz("chancery-client", target, &corpus(target), attempt);
}

/// The files in the folder of a target, in the order of their names. What is said to be a message is
/// made one.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(target);
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
    files.sort();
    let text = |path: &Path| std::fs::read_to_string(path).unwrap();
    let lines = |text: String| text.lines().map(|line| line.into()).collect::<Vec<Vec<u8>>>();
    let read = |path: &Path| match path.extension().and_then(|it| it.to_str()) {
        Some("message") => vec![message::encode(&text(path))],
        Some("lines") => lines(text(path)),
        _ => vec![text(path).into()],
    };
    files.iter().flat_map(|path| read(path)).collect()
}

fn text(input: &[u8]) -> String {
    String::from_utf8_lossy(input).into_owned()
}

/// C-002, C-004: what is read can be worked with.
#[test]
fn bootstraps() {
    fuzz("bootstraps", |input| {
        let Ok(bootstrap) = text(input).parse::<Bootstrap>() else { return };
        bootstrap.check().expect("what was read from JSON is good");
        assert!(!format!("{bootstrap:?}").is_empty());
        for target in ["xds:a", "xds:///a", "xds://a/b"] {
            let target: Result<Target, InvalidTarget> = target.parse();
            let _ = bootstrap.target(&target.unwrap());
        }
        let _ = bootstrap.listener("[::1]:80");
        let protocol = Protocol::Stream { variant: Variant::Sotw, aggregated: true };
        let plan = bootstrap.plan(protocol, Settings::default());
        let mut client = Machine::new(plan.setup);
        client.watch(Time::default(), &TypeUrl::new(CLUSTER), "a");
        assert!(matches!(client.poll(), Some(Effect::Open(_))), "somebody is asked");
    });
}

/// C-024, C-025, C-026, C-051: a name that was read is the same name when it is read again.
#[test]
fn names() {
    let listener = TypeUrl::new(LISTENER);
    fuzz("names", |input| {
        let text = text(input);
        let _ = ResourceName::parse(&text).map(|it| it.collection());
        let Ok(name) = ResourceName::read(&text) else { return };
        assert_eq!(ResourceName::read(name.as_str()).as_ref(), Ok(&name));
        assert_eq!(name.xdstp().is_some(), text.starts_with("xdstp:"));
        assert_eq!(AuthorityKey::of(&name) == AuthorityKey::Old, name.xdstp().is_none());
        if let Some(group) = name.collection() {
            assert!(group.is_glob(), "{group}");
            assert_eq!(AuthorityKey::of(&group), AuthorityKey::of(&name));
        }
        if ResourceName::read_of(&text, &listener).is_ok() {
            assert!(name.xdstp().is_none_or(|parts| parts.type_name == LISTENER));
        }
    });
}

/// C-016, C-017
#[test]
fn targets() {
    fuzz("targets", |input| {
        let Ok(target) = text(input).parse::<Target>() else { return };
        assert!(!target.name().is_empty());
        assert!(!target.data_plane_authority().is_empty());
        assert_eq!(target.to_string().parse::<Target>().as_ref(), Ok(&target));
    });
}

/// C-021, C-022: whatever is put into a template for `xdstp:` names cannot leave its path.
#[test]
fn templates() {
    fuzz("templates", |input| {
        let text = text(input);
        let (template, inserted) = text.split_once('\n').unwrap_or((&text, ""));
        let template = Template::new(template);
        let filled = template.fill(inserted);
        let _ = (template.is_under("a"), template.is_under(inserted));
        let plain = ResourceName::read(&template.fill("x"));
        if let (true, Ok(plain)) = (template.is_xdstp(), plain) {
            let name = ResourceName::read(&filled);
            let authority = |name: &ResourceName| AuthorityKey::of(name);
            let path = template.as_str().splitn(5, '/').nth(4).is_some_and(|it| it.contains("%s"));
            let before = template.as_str().split('/').take(4).any(|part| part.contains("%s"));
            if let (Ok(name), true, false) = (name, path, before) {
                assert_eq!(authority(&name), authority(&plain));
            }
        }
    });
}

/// C-055, C-062, C-064: all that gRPC may bring, in any pieces, and what the machine makes of it.
#[test]
fn messages() {
    let reader = Reader::new(Schema::bundled());
    fuzz("messages", |input| {
        let message = Bytes::copy_from_slice(input);
        let cluster = TypeUrl::new(CLUSTER);
        for variant in [Variant::Sotw, Variant::Delta] {
            for expected in [None, Some(&cluster)] {
                if let Ok(reply) = reader.read(variant, expected, &message) {
                    hear(variant, reply);
                }
            }
        }
        let mut messages = Messages::new(1 << 16);
        for chunk in input.chunks(7) {
            messages.push(Bytes::copy_from_slice(chunk));
            while let Ok(Some(_)) = messages.next() {}
        }
    });
}

/// C-044
#[test]
fn json() {
    let reader = Reader::new(Schema::bundled());
    fuzz("json", |input| {
        if let Ok(reply) = reader.read_json(&TypeUrl::new(CLUSTER), input) {
            hear(Variant::Sotw, reply);
        }
    });
}

/// A client that watches by name and everything hears it twice, answers, and is left with nothing
/// when nobody watches any more.
fn hear(variant: Variant, reply: Response) {
    let mut setup = Setup::new(Arc::new(Node::default()), Settings::default());
    let features = ServerFeatures::default();
    let key = ServerKey { uri: "one".into(), credentials: "insecure".into(), features };
    let server = setup.server(key, Protocol::Stream { variant, aggregated: true });
    setup.authority(AuthorityKey::Old, vec![server], Fallback::Needed);
    setup.authority(AuthorityKey::Named("a".into()), vec![server], Fallback::Needed);
    let mut client = Machine::new(setup);
    let (now, cluster) = (Time::default(), TypeUrl::new(CLUSTER));
    let glob = format!("xdstp://a/{CLUSTER}/g/*");
    let watches = ["a", "b", "*", glob.as_str()].map(|name| client.watch(now, &cluster, name));
    let stream = StreamId { server, scope: Scope::Aggregated };
    client.handle(now, Input::Opened(stream.clone()));
    while client.request(now, &stream).is_some() {}
    for _ in 0..2 {
        let is_asked = reply.type_url == cluster;
        client.handle(now, Input::Received(stream.clone(), reply.clone()));
        let answers =
            std::iter::from_fn(|| client.request(now, &stream)).take(10).collect::<Vec<_>>();
        assert!(answers.len() <= 3 && answers.is_empty() != is_asked, "{answers:?}");
        for watch in watches {
            while client.event(watch).is_some() {}
            client.applied(watch);
        }
        assert!(client.may_read(&stream));
    }
    let error = ErrorDetail { code: ErrorDetail::UNAVAILABLE, message: String::new() };
    client.handle(now, Input::Ended(stream, error));
    watches.into_iter().for_each(|watch| client.unwatch(now, watch));
    assert_eq!(client.resources().count(), 0);
}
