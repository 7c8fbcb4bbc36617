//! The names that clients subscribe to, from a pattern.

/// The first `count` names of a pattern.
///
/// # Errors
/// The pattern has no place for the number.
pub(crate) fn names(pattern: &str, count: u32) -> Result<Vec<String>, String> {
    let misfit =
        || format!("`{pattern}` has no place for the number; write `name-{{}}` or `name-{{:06}}`");
    let (before, rest) = pattern.split_once('{').ok_or_else(misfit)?;
    let (format, after) = rest.split_once('}').ok_or_else(misfit)?;
    let width = match format {
        "" => 0,
        _ => format.strip_prefix(":0").and_then(|digits| digits.parse().ok()).ok_or_else(misfit)?,
    };
    let width = usize::min(width, 32);
    Ok((0..count).map(|number| format!("{before}{number:0width$}{after}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_filled() {
        assert_eq!(names("bench-{:06}", 2).unwrap(), ["bench-000000", "bench-000001"]);
        assert_eq!(names("a{}b", 1).unwrap(), ["a0b"]);
        assert!(names("a", 1).unwrap_err().contains("`a`"));
        assert!(names("a{", 1).is_err() && names("a{:x}", 1).is_err());
    }
}
