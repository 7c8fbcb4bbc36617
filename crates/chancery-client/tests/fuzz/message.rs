//! Messages written as text: a number and a text for each field, and deeper lines for the fields of
//! a message in it.
//!
//! ```text
//! 1 7
//! 2
//!   1 type.googleapis.com/envoy.config.cluster.v3.Cluster
//!   2
//!     1 a
//! 9 =5
//! ```
//!
//! `=5` is a number, everything else bytes.

#[path = "../stage/message.rs"]
#[allow(dead_code, reason = "the rest of it is for servers on a stage")]
mod bytes;
use bytes::{field, varint};

/// The message, as bytes.
pub(crate) fn encode(text: &str) -> Vec<u8> {
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    fields(&lines)
}

fn fields(lines: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    let depth = |line: &str| line.len() - line.trim_start().len();
    let mut rest = lines;
    while let Some((line, after)) = rest.split_first() {
        let inner = after.iter().take_while(|it| depth(it) > depth(line)).count();
        let (inner, next) = after.split_at(inner);
        rest = next;
        let (number, value) = line.trim().split_once(' ').unwrap_or_else(|| (line.trim(), ""));
        let number: u32 = number.parse().expect("a line begins with the number of a field");
        if let Some(value) = value.strip_prefix('=') {
            varint(&mut out, u64::from(number) << 3);
            varint(&mut out, value.parse().expect("a number after `=`"));
            continue;
        }
        let content = if inner.is_empty() { value.as_bytes().to_vec() } else { fields(inner) };
        out.extend(field(number, &content));
    }
    out
}
