//! The meaning of plain scalars: the core schema of YAML 1.2, which includes the scalars of JSON.
//!
//! `yes`, `on` and `1_000` are text. `010` is ten and `0o10` is eight, so no number is octal by
//! accident. See [chapter 10.3](https://yaml.org/spec/1.2.2/#103-core-schema).

use std::borrow::Cow;

use super::tree::TreeValue;

/// The value of an unquoted scalar.
pub(crate) fn plain(text: Cow<'_, str>) -> TreeValue<'_> {
    match &*text {
        "" | "~" | "null" | "Null" | "NULL" => TreeValue::Null,
        "true" | "True" | "TRUE" => TreeValue::Bool(true),
        "false" | "False" | "FALSE" => TreeValue::Bool(false),
        other if is_number(other) => TreeValue::Number(text),
        _ => TreeValue::Text(text),
    }
}

/// Returns true if a text without quotes is still a text.
pub(crate) fn is_text(text: &str) -> bool {
    matches!(plain(text.into()), TreeValue::Text(_))
}

fn is_number(text: &str) -> bool {
    if let Some(digits) = text.strip_prefix("0x") {
        return !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return !digits.is_empty() && digits.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
    }
    if matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    matches!(unsigned, ".inf" | ".Inf" | ".INF") || is_decimal(unsigned)
}

/// Returns true for `[0-9]+(\.[0-9]*)?` or `\.[0-9]+`, with or without an exponent.
fn is_decimal(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let exponent = exponent.map(|digits| digits.strip_prefix(['-', '+']).unwrap_or(digits));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|text| !text.is_empty() && digits(text))
}

/// A number without a fraction, in any notation. The result is `None` if it has a fraction or is
/// too large.
pub(crate) fn integer(text: &str) -> Option<i128> {
    if let Some(digits) = text.strip_prefix("0x") {
        return i128::from_str_radix(digits, 16).ok();
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return i128::from_str_radix(digits, 8).ok();
    }
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let number = float(text)?;
    // Up to this bound the conversion of a whole float is exact.
    (number.fract() == 0.0 && number.abs() < 1e30).then_some(number as i128)
}

/// A number as floating point.
pub(crate) fn float(text: &str) -> Option<f64> {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    match unsigned {
        ".inf" | ".Inf" | ".INF" => Some(sign * f64::INFINITY),
        ".nan" | ".NaN" | ".NAN" => Some(f64::NAN),
        _ if unsigned.starts_with("0x") || unsigned.starts_with("0o") => {
            integer(unsigned).map(|number| sign * number as f64)
        }
        _ if is_decimal(unsigned) => unsigned.parse::<f64>().ok().map(|number| sign * number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_core_schema_gives_meaning_to_plain_scalars() {
        for text in [
            "yes",
            "No",
            "on",
            "OFF",
            "y",
            "1_000",
            "1:30",
            "0b1",
            "0X1",
            "1e",
            "e1",
            ".",
            "+",
            "-",
            "0x",
            "0o8",
            "tRUE",
            "nULL",
            ".iNF",
            "--1",
            "1.2.3",
            "<<",
            "2026-01-01",
        ] {
            assert_eq!(plain(text.into()), TreeValue::Text(text.into()), "{text}");
        }
        for text in
            ["0", "-1", "+7", "010", "1.", ".5", "1e3", "-1.5E-3", "0x1F", "0o17", "-.inf", ".nan"]
        {
            assert_eq!(plain(text.into()), TreeValue::Number(text.into()), "{text}");
        }
        for text in ["", "~", "null", "Null", "NULL"] {
            assert_eq!(plain(text.into()), TreeValue::Null);
        }
        assert_eq!(plain("True".into()), TreeValue::Bool(true));
        assert_eq!(plain("FALSE".into()), TreeValue::Bool(false));
    }

    #[test]
    fn numbers_are_whole_if_they_have_no_fraction() {
        let whole =
            [("010", 10), ("0o10", 8), ("0x10", 16), ("1e3", 1000), ("-2.0", -2), ("+5", 5)];
        for (text, number) in whole {
            assert_eq!(integer(text), Some(number), "{text}");
        }
        for text in ["1.5", ".inf", "-.inf", ".nan", "1e300", "", "x"] {
            assert_eq!(integer(text), None, "{text}");
        }
        assert_eq!(float("-1.5e1"), Some(-15.0));
        assert_eq!(float("-.inf"), Some(f64::NEG_INFINITY));
        assert_eq!(float("0x10"), Some(16.0));
        assert!(float(".nan").is_some_and(f64::is_nan));
        assert_eq!(float("infinity"), None);
    }
}
