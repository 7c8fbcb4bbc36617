//! Rows of texts in columns, for a terminal. Columns are as wide as their longest text.

/// A table: its lines, of which the first is the head, and the columns from which on there are numbers, which
/// stand at the right. The last column has no width.
pub(crate) fn table(lines: &[Vec<String>], numbers: std::ops::Range<usize>) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = lines.iter().map(|line| line[column].chars().count());
        cells.max().unwrap_or_default()
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let mut shown = String::new();
        for (column, cell) in line.iter().enumerate() {
            let width = widths[column];
            shown += if column == 0 { "" } else { "  " };
            shown += &match numbers.contains(&column) {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            };
        }
        text += shown.trim_end();
        text.push('\n');
    }
    text
}
