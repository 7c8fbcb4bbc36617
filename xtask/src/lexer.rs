//! Rust source as code alone or as comments alone, with all else blanked out.
//!
//! Lines and columns stay where they are, so that braces, words and citations can be found by line.
//! Not a parser: it knows where text ends, and nothing else.

/// The source with every character of comments and literals replaced by a space.
pub(crate) fn code(source: &str) -> String {
    keep(source, |piece| piece == SourcePiece::Code)
}

/// The source with every character that is not part of a comment replaced by a space.
pub(crate) fn comments(source: &str) -> String {
    keep(source, |piece| piece == SourcePiece::Comment)
}

/// The kind of a piece of source.
#[derive(Clone, Copy, PartialEq)]
enum SourcePiece {
    Code,
    Comment,
    Literal,
}

fn keep(source: &str, is_kept: impl Fn(SourcePiece) -> bool) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_end(&chars, at).filter(|end| *end > at);
        let piece = match end {
            None => SourcePiece::Code,
            Some(_) if chars[at] == '/' => SourcePiece::Comment,
            Some(_) => SourcePiece::Literal,
        };
        let end = end.unwrap_or(at + 1);
        let is_kept = is_kept(piece);
        let blank = |char: &char| if is_kept || *char == '\n' { *char } else { ' ' };
        out.extend(chars[at..end].iter().map(blank));
        at = end;
    }
    out
}

/// The end of the comment or literal that starts here, if one does.
fn literal_end(chars: &[char], at: usize) -> Option<usize> {
    let next = chars.get(at + 1).copied();
    match chars[at] {
        '/' if next == Some('/') => Some(find(chars, at, |char| char == '\n')),
        '/' if next == Some('*') => Some(block_comment_end(chars, at)),
        '"' => Some(string_end(chars, at + 1)),
        'r' if !follows_a_word(chars, at) => raw_string_end(chars, at + 1),
        'b' if next == Some('r') && !follows_a_word(chars, at) => raw_string_end(chars, at + 2),
        '\'' => character_end(chars, at),
        _ => None,
    }
}

fn follows_a_word(chars: &[char], at: usize) -> bool {
    at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_')
}

fn find(chars: &[char], from: usize, wanted: impl Fn(char) -> bool) -> usize {
    (from..chars.len()).find(|at| wanted(chars[*at])).unwrap_or(chars.len())
}

fn block_comment_end(chars: &[char], from: usize) -> usize {
    let (mut at, mut depth) = (from, 0_usize);
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    at
}

fn string_end(chars: &[char], from: usize) -> usize {
    let mut at = from;
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

/// `from` is behind the `r`: some `#`, a quote, and all up to a quote with as many `#`.
fn raw_string_end(chars: &[char], from: usize) -> Option<usize> {
    let quote = find(chars, from, |char| char != '#');
    if chars.get(quote) != Some(&'"') {
        return None;
    }
    let hashes = quote - from;
    let closes = |at: &usize| {
        chars[*at] == '"' && chars[at + 1..].iter().take_while(|c| **c == '#').count() >= hashes
    };
    let end = (quote + 1..chars.len()).find(closes).map_or(chars.len(), |at| at + 1 + hashes);
    Some(end.min(chars.len()))
}

/// A lifetime looks like the start of a character, and is none: nothing closes it.
fn character_end(chars: &[char], at: usize) -> Option<usize> {
    if chars.get(at + 1) == Some(&'\\') {
        return Some((find(chars, at + 3, |char| char == '\'') + 1).min(chars.len()));
    }
    (chars.get(at + 2) == Some(&'\'')).then_some(at + 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_are_blank() {
        for (source, expected) in [
            ("a // {\nb", "a b"),
            ("a /* { /* { */ */ b", "a b"),
            ("f(\"{ \\\" {\")", "f( )"),
            ("f('{', '\\'', '\\u{7b}')", "f( , , )"),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            ("f(r#\"{ \" { \"#) {", "f( ) {"),
            ("f(br\"{\") r#type", "f( ) r#type"),
            ("bar\"{\"", "bar"),
        ] {
            let code = code(source);
            assert_eq!(code.split_whitespace().collect::<Vec<_>>().join(" "), expected);
            assert_eq!(code.chars().count(), source.chars().count(), "{source}");
        }
    }

    #[test]
    fn comments_are_kept_where_they_are() {
        for (source, expected) in [
            ("a // b {\nc", "  // b {\n "),
            ("a /* b */ c", "  /* b */  "),
            ("f(\"// a\"); /// b", "           /// b"),
        ] {
            assert_eq!(comments(source), expected);
        }
    }

    #[test]
    fn what_is_never_closed_ends_with_the_file() {
        for source in ["\"abc", "/* a", "r#\"a", "'\\n", "// a", "\"\\"] {
            assert!(code(source).trim().is_empty(), "{source}");
            assert_eq!(comments(source).chars().count(), source.chars().count(), "{source}");
        }
    }
}
