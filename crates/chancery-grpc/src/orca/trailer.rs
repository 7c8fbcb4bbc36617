//! The report of a server on its load in the trailers of a call (gRFC A51), written and read.

use chancery_core::base64;
use chancery_core::client::load::OrcaReport;
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use prost::Message;

use super::message::OrcaLoadReport;

/// The trailer.
const NAME: HeaderName = HeaderName::from_static("endpoint-load-metrics-bin");

/// The bytes of the longest text that is read: as much as other implementations of gRPC take for all metadata.
const LONGEST_READ: usize = 16 << 10;

/// The bytes of the longest report that is written. Clients end a call as failed if its trailers are longer than they
/// like, by default 8 KiB, and the program has some of its own.
const LONGEST_WRITTEN: usize = 4 << 10;

/// Returns the report in trailers. There is none if it is malformed or too long, or if there is more than one.
pub(crate) fn read(trailers: &HeaderMap) -> Option<OrcaReport> {
    let mut all = trailers.get_all(&NAME).iter();
    let (Some(text), None) = (all.next(), all.next()) else { return None };
    if text.len() > LONGEST_READ {
        return None;
    }
    let bytes = base64::decode(text.to_str().ok()?)?;
    OrcaLoadReport::decode(&*bytes).ok().map(OrcaReport::from)
}

/// Puts a report into trailers, in place of one that is there. An empty one says nothing, and is left out.
pub(super) fn write(report: &OrcaLoadReport, trailers: &mut HeaderMap) {
    match report.encoded_len() {
        0 => return,
        1..=LONGEST_WRITTEN => {}
        bytes => {
            let why = "a report of load is left out of the trailers of a call";
            tracing::warn!(bytes, longest = LONGEST_WRITTEN, "{why}: it is too long");
            return;
        }
    }
    let text = base64::encode(&report.encode_to_vec());
    if let Ok(value) = HeaderValue::from_str(text.trim_end_matches('=')) {
        trailers.insert(NAME, value);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::orca::ServerMetrics;

    fn trailers(texts: &[&str]) -> HeaderMap {
        texts.iter().map(|text| (NAME, HeaderValue::from_str(text).unwrap())).collect()
    }

    fn cpu(report: Option<OrcaReport>) -> Option<f64> {
        report.and_then(|report| report.cpu_utilization)
    }

    /// `cpu_utilization: 0.5`, as gRPC for Go writes it, without and with padding.
    const HALF: &str = "CQAAAAAAAOA/";
    /// `cpu_utilization: 0.5, named_metrics: {q: 1}`.
    const PADDED: &str = "CQAAAAAAAOA/QgwKAXERAAAAAAAA8D8=";

    /// C-116, C-135
    #[test]
    fn a_report_is_in_the_trailers() {
        assert_eq!(read(&trailers(&[])), None);
        assert_eq!(cpu(read(&trailers(&[HALF]))), Some(0.5));
        for text in [PADDED, PADDED.trim_end_matches('=')] {
            let report = read(&trailers(&[text])).unwrap();
            assert_eq!(report.cpu_utilization, Some(0.5));
            assert_eq!(report.named_metrics, [("q".to_owned(), 1.0)].into());
        }
    }

    #[test]
    fn a_report_that_cannot_be_read_is_none() {
        let truncated = &HALF[..8];
        let wrong = [&["!"][..], &["CQA"], &[truncated], &["\u{7f}"[..0].as_ref()], &[HALF, HALF]];
        for texts in wrong {
            assert_eq!(cpu(read(&trailers(texts))), None, "{texts:?}");
        }
        let unreadable = HeaderValue::from_bytes(&[0xff; 12]).unwrap();
        assert_eq!(read(&[(NAME, unreadable)].into_iter().collect()), None);
    }

    #[test]
    fn a_report_that_is_too_long_is_none() {
        // Spaces are no part of the base64 text, so that these differ in length alone.
        let text = |length: usize| format!("{HALF}{}", " ".repeat(length - HALF.len()));
        assert_eq!(cpu(read(&trailers(&[&text(LONGEST_READ)]))), Some(0.5));
        assert_eq!(cpu(read(&trailers(&[&text(LONGEST_READ + 1)]))), None);
    }

    #[test]
    fn what_is_written_can_be_read() {
        let mut written = trailers(&[HALF, HALF]);
        let metrics = |name: String| ServerMetrics {
            mem_utilization: Some(0.25),
            named_metrics: BTreeMap::from([(name, 7.0)]),
            ..ServerMetrics::default()
        };
        write(&metrics("queue".to_owned()).into(), &mut written);
        assert!(!written[NAME].as_bytes().contains(&b'='), "{written:?}");
        let report = read(&written).expect("it is the only one");
        assert_eq!(report.mem_utilization, Some(0.25));
        assert_eq!(report.named_metrics, [("queue".to_owned(), 7.0)].into());
        let mut none = HeaderMap::new();
        write(&ServerMetrics::default().into(), &mut none);
        write(&metrics("n".repeat(LONGEST_WRITTEN)).into(), &mut none);
        assert!(none.is_empty(), "{none:?}");
        write(&metrics("n".repeat(LONGEST_WRITTEN / 2)).into(), &mut none);
        assert!(read(&none).is_some());
    }
}
