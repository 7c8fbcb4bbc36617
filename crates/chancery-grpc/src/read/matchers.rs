//! Matchers of paths, headers and texts (C-095, C-096).

use chancery_calls::matching::{
    HeaderKey, HeaderMatcher, HeaderRule, Pattern, Rewrite, TextMatcher, TextPattern,
};
use chancery_calls::routing::PathMatcher;
use envoy_types::pb::envoy::config::route::v3 as rds;
use envoy_types::pb::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier as Header;
use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier as Path;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher;
use envoy_types::pb::envoy::r#type::matcher::v3::string_matcher::MatchPattern as Text;

use super::fault::{At, Fault};

/// Reads the condition on the path. It compares the case unless the route says otherwise.
pub(super) fn path(message: &rds::RouteMatch) -> Result<PathMatcher, Fault> {
    let ignores_case = message.case_sensitive.as_ref().is_some_and(|it| !it.value);
    match &message.path_specifier {
        Some(Path::Prefix(prefix)) => {
            Ok(PathMatcher::Prefix { prefix: prefix.as_str().into(), ignores_case })
        }
        Some(Path::Path(path)) => {
            Ok(PathMatcher::Exact { path: path.as_str().into(), ignores_case })
        }
        Some(Path::SafeRegex(regex)) => {
            Ok(PathMatcher::Regex(Pattern::new(&regex.regex).at("safe_regex.regex")?))
        }
        _ => Err("the path must be a `prefix`, a `path` or a `safe_regex`".into()),
    }
}

/// Reads a condition on a header.
#[expect(deprecated, reason = "gRPC still reads the older fields for texts")]
pub(super) fn header(message: &rds::HeaderMatcher) -> Result<HeaderMatcher, Fault> {
    const MISSING: &str =
        "a header must be compared with something; `present_match: true` is for any";
    let text = |pattern, field| TextMatcher::new(pattern, false).at(field).map(HeaderRule::Text);
    let rule = match message.header_match_specifier.as_ref().ok_or(MISSING)? {
        Header::ExactMatch(exact) => text(TextPattern::Exact(exact.clone()), "exact_match")?,
        Header::PrefixMatch(prefix) => text(TextPattern::Prefix(prefix.clone()), "prefix_match")?,
        Header::SuffixMatch(suffix) => text(TextPattern::Suffix(suffix.clone()), "suffix_match")?,
        Header::ContainsMatch(part) => text(TextPattern::Contains(part.clone()), "contains_match")?,
        Header::SafeRegexMatch(regex) => {
            text(TextPattern::Regex(regex.regex.clone()), "safe_regex_match.regex")?
        }
        Header::RangeMatch(range) => HeaderRule::Range(range.start..range.end),
        Header::PresentMatch(is_wanted) => HeaderRule::Present(*is_wanted),
        Header::StringMatch(string) => HeaderRule::Text(self::text(string).at("string_match")?),
    };
    let key = HeaderKey::new(&message.name);
    Ok(HeaderMatcher { key, rule, is_inverted: message.invert_match })
}

/// Reads a condition on a text.
pub(super) fn text(message: &matcher::StringMatcher) -> Result<TextMatcher, Fault> {
    let (pattern, field) = match &message.match_pattern {
        Some(Text::Exact(exact)) => (TextPattern::Exact(exact.clone()), "exact"),
        Some(Text::Prefix(prefix)) => (TextPattern::Prefix(prefix.clone()), "prefix"),
        Some(Text::Suffix(suffix)) => (TextPattern::Suffix(suffix.clone()), "suffix"),
        Some(Text::Contains(part)) => (TextPattern::Contains(part.clone()), "contains"),
        Some(Text::SafeRegex(regex)) => {
            (TextPattern::Regex(regex.regex.clone()), "safe_regex.regex")
        }
        Some(Text::Custom(_)) => return Err("`custom` is not supported".into()),
        None => return Err("a text must be compared with something".into()),
    };
    TextMatcher::new(pattern, message.ignore_case).at(field)
}

/// Reads a pattern, and the text that replaces what it matches.
pub(super) fn rewrite(message: &matcher::RegexMatchAndSubstitute) -> Result<Rewrite, Fault> {
    let pattern = message.pattern.as_ref().map_or("", |pattern| &pattern.regex);
    Ok(Rewrite::new(pattern, &message.substitution)?)
}
