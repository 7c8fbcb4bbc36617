//! Messages of discovery, field by field.

/// A field of bytes.
pub(crate) fn field(number: u32, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    varint(&mut out, u64::from(number) << 3 | 2);
    varint(&mut out, content.len() as u64);
    out.extend_from_slice(content);
    out
}

pub(crate) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A response with bodies of one type, of version 7.
pub(crate) fn response_of(type_name: &str, nonce: &str, bodies: &[Vec<u8>]) -> Vec<u8> {
    let type_url = format!("type.googleapis.com/{type_name}");
    let resources: Vec<_> = bodies.iter().map(|body| (&*type_url, body.clone())).collect();
    reply(&type_url, nonce, &resources)
}

/// A response with clusters.
pub(crate) fn response(nonce: &str, bodies: &[Vec<u8>]) -> Vec<u8> {
    response_of("envoy.config.cluster.v3.Cluster", nonce, bodies)
}

/// A response of one type with resources that may be of others.
pub(crate) fn reply(type_url: &str, nonce: &str, resources: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut out = field(1, b"7");
    for (inner, body) in resources {
        let any = [field(1, inner.as_bytes()), field(2, body)].concat();
        out.extend(field(2, &any));
    }
    out.extend(field(4, type_url.as_bytes()));
    out.extend(field(5, nonce.as_bytes()));
    out
}

/// A cluster, with something to tell its versions apart by (`alt_stat_name`).
pub(crate) fn cluster(name: &str, other: &str) -> Vec<u8> {
    [field(1, name.as_bytes()), field(28, other.as_bytes())].concat()
}

/// The type URL of clusters.
pub(crate) const CDS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";

/// The type URL of listeners.
pub(crate) const LDS: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";
