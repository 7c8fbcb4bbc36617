//! Durations as scripts write them: `200ms`, `5s`, `10m`, `1h`.

use std::time::Duration;

/// Reads a duration such as `5s`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let fault = || format!("`{text}` is no duration such as `5s` or `200ms`");
    let unit = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(fault)?;
    let number: u64 = text[..unit].parse().map_err(|_| fault())?;
    match &text[unit..] {
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_secs(number * 60)),
        "h" => Ok(Duration::from_secs(number * 3600)),
        _ => Err(fault()),
    }
}
