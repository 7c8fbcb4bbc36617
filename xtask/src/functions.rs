//! The functions of a Rust file, found in its code without comments and literals.

/// The name of the function that starts on this line of code.
pub(crate) fn function_name(line: &str) -> Option<&str> {
    let at = line.find("fn ")?;
    let before = &line[..at];
    if before.ends_with(|char: char| char.is_alphanumeric() || char == '_') {
        return None;
    }
    let name = line[at + 3..].trim_start();
    let end = name.find(|char: char| !(char.is_alphanumeric() || char == '_'))?;
    (end > 0).then(|| &name[..end])
}

/// The number of lines of a function, from its first to its closing brace; none if it has no body.
pub(crate) fn function_length(lines: &[&str]) -> Option<usize> {
    let mut depth = 0_usize;
    let mut brackets = 0_usize;
    for (index, line) in lines.iter().enumerate() {
        for char in line.chars() {
            match char {
                '(' | '[' => brackets += 1,
                ')' | ']' => brackets = brackets.saturating_sub(1),
                ';' if depth == 0 && brackets == 0 => return None,
                '{' | '}' if depth == 0 && brackets > 0 => {}
                '{' => depth += 1,
                '}' if depth <= 1 => return Some(index + 1),
                '}' => depth -= 1,
                _ => {}
            }
        }
    }
    None
}
