//! The filter chain of a connection: a matrix of chains, duplicates, and a plain scan to compare with.
#![allow(clippy::unwrap_used, clippy::unwrap_in_result, reason = "a test fails by a panic")]

use std::net::IpAddr;

use chancery_calls::matching::AddressRange;
use chancery_calls::serving::{
    ArrivedConnection, ChainMatch, FilterChains, FilterChainsError, SourceType, TransportMatch,
};
use proptest::prelude::*;

fn range(text: &str) -> AddressRange {
    let (prefix, bits) = text.split_once('/').unwrap();
    AddressRange::new(prefix.parse().unwrap(), bits.parse().unwrap())
}

fn ranges(texts: &[&str]) -> Vec<AddressRange> {
    texts.iter().map(|text| range(text)).collect()
}

fn to(destinations: &[&str]) -> ChainMatch {
    ChainMatch { destinations: ranges(destinations), ..ChainMatch::default() }
}

fn from(sources: &[&str], ports: &[u16]) -> ChainMatch {
    let source_ports = ports.to_vec();
    ChainMatch { sources: ranges(sources), source_ports, ..ChainMatch::default() }
}

fn of_type(source_type: SourceType) -> ChainMatch {
    ChainMatch { source_type, ..ChainMatch::default() }
}

fn chains(matches: Vec<ChainMatch>) -> Result<FilterChains<usize>, FilterChainsError> {
    let matches = matches.into_iter().enumerate().map(|(index, chain)| (chain, index));
    FilterChains::new(matches.collect(), None)
}

fn choose(matches: Vec<ChainMatch>, local: &str, peer: &str) -> Option<usize> {
    let connection = connection(local, peer);
    chains(matches).unwrap().choose(&connection).copied()
}

fn connection(local: &str, peer: &str) -> ArrivedConnection {
    ArrivedConnection { local: local.parse().unwrap(), peer: peer.parse().unwrap() }
}

#[test]
fn the_longest_range_of_the_destination_counts() {
    // C-143
    let matches = || {
        vec![
            to(&[]),
            to(&["0.0.0.0/0"]),
            to(&["10.0.0.0/8", "192.168.0.0/16"]),
            to(&["10.1.0.0/16"]),
        ]
    };
    let chosen = |local| choose(matches(), local, "9.9.9.9:1");
    assert_eq!(chosen("10.1.2.3"), Some(3));
    assert_eq!(chosen("10.2.2.3"), Some(2));
    assert_eq!(chosen("192.168.1.1"), Some(2));
    assert_eq!(chosen("1.1.1.1"), Some(1));
    assert_eq!(chosen("::ffff:10.1.2.3"), Some(3));
    // Ranges of 0 bits are of one version of IP, and more specific than none.
    assert_eq!(chosen("2001:db8::1"), Some(0));
}

#[test]
fn the_type_of_the_source_is_looked_at_before_its_range() {
    // C-143
    let narrow = ChainMatch { sources: ranges(&["10.0.0.7/32"]), ..of_type(SourceType::Any) };
    let matches = || vec![narrow.clone(), of_type(SourceType::External), of_type(SourceType::Any)];
    assert_eq!(choose(matches(), "10.0.0.1", "10.0.0.7:1"), Some(1));
    assert_eq!(choose(matches(), "10.0.0.7", "10.0.0.7:1"), Some(0));
    assert_eq!(choose(matches(), "10.0.0.1", "127.0.0.1:1"), Some(2));
    let local = || vec![of_type(SourceType::SameIpOrLoopback)];
    assert_eq!(choose(local(), "::1", "[::1]:1"), Some(0));
    assert_eq!(choose(local(), "10.0.0.1", "[::ffff:10.0.0.1]:1"), Some(0));
    assert_eq!(choose(local(), "10.0.0.1", "[::ffff:127.0.0.1]:1"), Some(0));
    assert_eq!(choose(local(), "10.0.0.1", "10.0.0.2:1"), None);
}

#[test]
fn ranges_and_ports_of_the_source_come_last() {
    // C-143
    let matches = || {
        vec![
            from(&[], &[]),
            from(&["9.0.0.0/8"], &[]),
            from(&["9.0.0.0/8"], &[80, 81]),
            from(&["9.9.0.0/16"], &[82]),
        ]
    };
    let chosen = |peer| choose(matches(), "10.0.0.1", peer);
    assert_eq!(chosen("9.1.1.1:80"), Some(2));
    assert_eq!(chosen("9.1.1.1:81"), Some(2));
    assert_eq!(chosen("9.1.1.1:82"), Some(1));
    assert_eq!(chosen("8.1.1.1:80"), Some(0));
    assert_eq!(chosen("9.9.1.1:82"), Some(3));
    // The better range is kept although it has no chain for the port.
    assert_eq!(chosen("9.9.1.1:80"), None);
}

#[test]
fn there_is_no_way_back_from_a_better_match() {
    // C-143
    let strict = ChainMatch { sources: ranges(&["9.0.0.0/8"]), ..to(&["10.0.0.0/8"]) };
    let matches = || vec![strict.clone(), to(&[])];
    assert_eq!(choose(matches(), "10.0.0.1", "9.0.0.1:1"), Some(0));
    assert_eq!(choose(matches(), "10.0.0.1", "8.0.0.1:1"), None);
    assert_eq!(choose(matches(), "11.0.0.1", "8.0.0.1:1"), Some(1));
}

#[test]
fn without_a_match_the_default_counts_and_without_that_nothing() {
    // C-143
    let strict = (to(&["10.0.0.0/8"]), "strict");
    let elsewhere = connection("11.0.0.1", "9.9.9.9:1");
    let with = FilterChains::new(vec![strict.clone()], Some("default")).unwrap();
    assert_eq!(with.choose(&elsewhere), Some(&"default"));
    assert_eq!(with.choose(&connection("10.0.0.1", "9.9.9.9:1")), Some(&"strict"));
    assert_eq!(with.iter().collect::<Vec<_>>(), [&"strict", &"default"]);
    assert_eq!(FilterChains::new(vec![strict], None).unwrap().choose(&elsewhere), None);
}

#[test]
fn conditions_that_nothing_can_fulfil_never_match_and_raw_buffer_beats_none() {
    // C-143
    let impossible = ChainMatch { is_impossible: true, ..to(&["10.0.0.0/8"]) };
    let transport = |transport| ChainMatch { transport, ..to(&["10.0.0.0/8"]) };
    let other = transport(TransportMatch::Other);
    let matches = vec![
        impossible.clone(),
        impossible,
        other.clone(),
        other,
        transport(TransportMatch::Any),
        transport(TransportMatch::RawBuffer),
    ];
    assert_eq!(choose(matches, "10.0.0.1", "9.9.9.9:1"), Some(5));
}

#[test]
fn rules_that_are_there_twice_are_refused_in_their_canonical_form() {
    // C-143
    let refused = |one, other| chains(vec![to(&[]), one, other]).unwrap_err().to_string();
    assert_eq!(
        refused(to(&["10.1.2.3/8"]), to(&["11.0.0.0/8", "10.0.0.0/8"])),
        "filter chains 1 and 2 match the same connections: from any address to 10.0.0.0/8, \
         source type ANY, any source port"
    );
    let external = |sources: &[&str]| ChainMatch {
        source_type: SourceType::External,
        transport: TransportMatch::RawBuffer,
        ..from(sources, &[1, 2])
    };
    assert_eq!(
        refused(external(&["9.0.0.0/99"]), external(&["9.0.0.0/32"])),
        "filter chains 1 and 2 match the same connections: from 9.0.0.0/32 to any address, \
         source type EXTERNAL, source port 1, transport `raw_buffer`"
    );
    // A chain that says one thing twice is refused too, as it is elsewhere.
    assert!(chains(vec![to(&["10.1.0.0/8", "10.2.0.0/8"])]).is_err());
    // Ranges that overlap are none that are equal.
    assert!(chains(vec![to(&["10.0.0.0/8"]), to(&["10.0.0.0/9"]), to(&["::/0"])]).is_ok());
}

#[test]
fn lists_do_not_multiply_without_a_bound() {
    let many: Vec<AddressRange> =
        (0..=255).map(|byte| AddressRange::new(IpAddr::from([byte, 0, 0, 0]), 8)).collect();
    let product = ChainMatch {
        destinations: many.clone(),
        sources: many,
        source_ports: (0..u16::MAX).collect(),
        ..ChainMatch::default()
    };
    let refused = chains(vec![product]).unwrap_err();
    assert_eq!(refused, FilterChainsError::TooManyRules);
}

/// The steps of gRFC A36 on the list of all combinations, without an index.
fn scanned(matches: &[ChainMatch], connection: &ArrivedConnection) -> Option<usize> {
    let peer = connection.peer.ip();
    let is_local = peer == connection.local || peer.is_loopback();
    let wanted = if is_local { SourceType::SameIpOrLoopback } else { SourceType::External };
    let or_none = |list: &[AddressRange]| {
        let some: Vec<Option<AddressRange>> = list.iter().copied().map(Some).collect();
        if some.is_empty() { vec![None] } else { some }
    };
    let mut left = Vec::new();
    for (index, chain) in matches.iter().enumerate() {
        for destination in or_none(&chain.destinations) {
            for source in or_none(&chain.sources) {
                left.push((index, chain, destination, source));
            }
        }
    }
    let bits = |range: Option<AddressRange>| range.map_or(-1, |range| i32::from(range.bits()));
    let holds = |range: Option<AddressRange>, address| range.is_none_or(|it| it.contains(address));
    left.retain(|(_, _, destination, _)| holds(*destination, connection.local));
    let most = left.iter().map(|it| bits(it.2)).max()?;
    left.retain(|it| bits(it.2) == most);
    let is_raw = left.iter().any(|it| it.1.transport == TransportMatch::RawBuffer);
    left.retain(|it| (it.1.transport == TransportMatch::RawBuffer) == is_raw);
    let has_type = left.iter().any(|it| it.1.source_type == wanted);
    left.retain(|it| it.1.source_type == if has_type { wanted } else { SourceType::Any });
    left.retain(|(_, _, _, source)| holds(*source, peer));
    let most = left.iter().map(|it| bits(it.3)).max()?;
    left.retain(|it| bits(it.3) == most);
    let port = connection.peer.port();
    let exact = left.iter().find(|it| it.1.source_ports.contains(&port));
    exact.or_else(|| left.iter().find(|it| it.1.source_ports.is_empty())).map(|it| it.0)
}

fn any_match() -> impl Strategy<Value = ChainMatch> {
    let prefix =
        (prop_oneof![Just([10, 0, 0, 0]), Just([10, 1, 1, 0]), Just([127, 0, 0, 0])], 0..33_u32);
    let range = prefix.prop_map(|(prefix, bits)| AddressRange::new(IpAddr::from(prefix), bits));
    let ranges = proptest::collection::vec(range, 0..3);
    let types = [SourceType::Any, SourceType::SameIpOrLoopback, SourceType::External];
    let transports = [TransportMatch::Any, TransportMatch::RawBuffer];
    let ports = proptest::collection::vec(1..4_u16, 0..2);
    let select = proptest::sample::select::<SourceType>;
    (
        ranges.clone(),
        ranges,
        select(types.to_vec()),
        proptest::sample::select(transports.to_vec()),
        ports,
    )
        .prop_map(|(destinations, sources, source_type, transport, source_ports)| ChainMatch {
            destinations,
            transport,
            source_type,
            sources,
            source_ports,
            is_impossible: false,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_index_chooses_as_a_scan_does(
        matches in proptest::collection::vec(any_match(), 1..6),
        local in proptest::sample::select(vec!["10.0.0.1", "10.1.1.1", "127.0.0.1"]),
        peer in proptest::sample::select(vec!["10.0.0.1", "10.1.1.2", "127.0.0.1", "8.8.8.8"]),
        port in 1..5_u16,
    ) {
        // C-143
        let connection = connection(local, &format!("{peer}:{port}"));
        // Of chains that clash there is nothing to choose.
        if let Ok(chains) = chains(matches.clone()) {
            prop_assert_eq!(chains.choose(&connection).copied(), scanned(&matches, &connection));
        }
    }
}
