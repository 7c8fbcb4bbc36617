//! Numbers of rows in text: `S-001`, `T-01` and `C-001`, and the vectors `V1`, `P1` and `K1`.

/// Returns true if `text` has the form of a row's number.
pub(crate) fn is_row(text: &str) -> bool {
    let mut all = rows(text);
    matches!((all.next(), all.next()), (Some(only), None) if only == text)
}

/// The numbers of rules and traps, which no other text looks like.
pub(crate) fn rules(text: &str) -> impl Iterator<Item = &str> {
    let starts = text.match_indices('-').filter_map(|(dash, _)| dash.checked_sub(1));
    starts.filter_map(|start| {
        let letter = text.as_bytes()[start];
        let end = number_end(text, start + 2)?;
        let is_rule = matches!(letter, b'S' | b'T' | b'C') && starts_a_word(text, start);
        is_rule.then(|| &text[start..end])
    })
}

/// The numbers of vectors. Other text looks like them (`V3` is a version of an API), so this is for
/// comments and pages alone.
pub(crate) fn vectors(text: &str) -> impl Iterator<Item = &str> {
    let starts = text.match_indices(['V', 'P', 'K']).map(|(start, _)| start);
    starts.filter_map(|start| {
        let end = number_end(text, start + 1)?;
        starts_a_word(text, start).then(|| &text[start..end])
    })
}

/// The numbers of rules and traps, then those of vectors.
fn rows(text: &str) -> impl Iterator<Item = &str> {
    rules(text).chain(vectors(text))
}

/// The rows that a comment cites, with those between the ends of `P1 to P8`.
pub(crate) fn cited(comment: &str) -> Vec<String> {
    let mut all: Vec<String> = rows(comment).map(str::to_owned).collect();
    for (at, _) in comment.match_indices(" to ") {
        let first = rows(last_word(&comment[..at])).last();
        let last = rows(first_word(&comment[at + 4..])).next();
        if let (Some(first), Some(last)) = (first, last) {
            all.extend(between(first, last));
        }
    }
    all
}

/// The rows after `first` and before `last`, if both are of one kind.
fn between(first: &str, last: &str) -> Vec<String> {
    let (kind, start) = parts(first);
    let (other, end) = parts(last);
    let width = if kind.ends_with('-') { start.len() } else { 0 };
    let numbers = match (start.parse::<u16>(), end.parse::<u16>()) {
        (Ok(start), Ok(end)) if kind == other => start + 1..end,
        _ => 0..0,
    };
    numbers.map(|number| format!("{kind}{number:0width$}")).collect()
}

fn parts(id: &str) -> (&str, &str) {
    id.split_at(id.find(|char: char| char.is_ascii_digit()).unwrap_or(id.len()))
}

fn last_word(text: &str) -> &str {
    text.rsplit(' ').next().unwrap_or(text)
}

fn first_word(text: &str) -> &str {
    text.split(' ').next().unwrap_or(text)
}

/// The end of the number that starts here, if one does and no letter follows it.
fn number_end(text: &str, start: usize) -> Option<usize> {
    let rest = text.get(start..)?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let goes_on = rest[digits..].starts_with(|char: char| char.is_alphanumeric() || char == '_');
    (digits > 0 && !goes_on).then_some(start + digits)
}

fn starts_a_word(text: &str, start: usize) -> bool {
    let goes_on = |char: char| char.is_alphanumeric() || char == '_' || char == '-';
    !text[..start].ends_with(goes_on)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_text() {
        let (short, shorter) = (format!("S-{}", 6), format!("T-{}", 1));
        let text =
            format!("S-001, (T-21); C-150. {short}: `{shorter}`, xS-002, AS-003, S-004a, S-, é-1");
        let expected = ["S-001", "T-21", "C-150", &short, &shorter];
        assert_eq!(rules(&text).collect::<Vec<_>>(), expected);
        let text = "V1, C-020; K3 and P8. TP3, v1, V3x, K8s, PV1, V";
        assert_eq!(rows(text).collect::<Vec<_>>(), ["C-020", "V1", "K3", "P8"]);
    }

    #[test]
    fn a_number_is_a_whole_word() {
        for id in ["S-001", "T-01", "C-150", "V11", "P1", "K9"] {
            assert!(is_row(id), "{id}");
        }
        for id in
            ["row", "---", "V", "S-", "X-001", "V-1", "Vx", "P1a", "S-001 S-002", "(S-001)", ""]
        {
            assert!(!is_row(id), "{id}");
        }
    }

    #[test]
    fn a_comment_may_cite_a_span() {
        let mut span = cited("// P1 to P4, C-009 to C-011: and to nobody");
        span.sort();
        assert_eq!(span, ["C-009", "C-010", "C-011", "P1", "P2", "P3", "P4"]);
        assert_eq!(cited("S-001 to T-05 to S"), ["S-001", "T-05"]);
    }
}
