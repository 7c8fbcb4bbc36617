//! The lines of macros that make items: the calls, one line for each part.
//!
//! Nothing is expanded. A call of a macro of the crate's own that can make something public stands
//! in the listing as it is written, with the names of its types replaced, so that a change of it
//! is seen.

use proc_macro2::{Spacing, TokenStream, TokenTree};

use super::conditions::prefix;
use super::listing::{ApiLine, Rank};
use super::modules::{CrateSource, MacroCall, ModuleId};
use super::names::Mentions;
use super::scope::{CrateScope, PathTarget};
use super::spell::spell;

pub(super) fn lines(
    call: &MacroCall,
    scope: &CrateScope<'_>,
    mentions: &mut Mentions,
) -> Vec<ApiLine> {
    if !makes_items(scope.source, &call.name) {
        return Vec::new();
    }
    let name = format!("{}!", call.name);
    let parts = parts(call.tokens.clone()).into_iter();
    parts
        .map(|part| {
            let part = spell(replaced(part, scope, call.module, mentions));
            let text = format!("{}{name}({part})", prefix(&call.conditions));
            ApiLine::new(std::slice::from_ref(&name), Rank::Call, text)
        })
        .collect()
}

/// Returns true if the macro is the crate's own and its body has something for users in it.
fn makes_items(source: &CrateSource, name: &str) -> bool {
    fn has_items(tokens: TokenStream) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Group(group) => has_items(group.stream()),
            TokenTree::Ident(ident) => ident == "pub" || ident == "impl",
            TokenTree::Punct(_) | TokenTree::Literal(_) => false,
        })
    }
    source.macros.get(name).cloned().is_some_and(has_items)
}

/// The parts between commas.
fn parts(tokens: TokenStream) -> Vec<TokenStream> {
    let mut parts = vec![Vec::new()];
    for token in tokens {
        match (&token, parts.last_mut()) {
            (TokenTree::Punct(punct), _) if punct.as_char() == ',' => parts.push(Vec::new()),
            (_, Some(last)) => last.push(token),
            (_, None) => {}
        }
    }
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.map(|part| part.into_iter().collect()).collect()
}

/// The tokens with each path that leads to another crate replaced by its whole.
fn replaced(
    tokens: TokenStream,
    scope: &CrateScope<'_>,
    module: ModuleId,
    mentions: &mut Mentions,
) -> TokenStream {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut out = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let path = path_at(&tokens[at..]);
        let end = at + (path.len() * 3).saturating_sub(2).max(1);
        let resolved = scope.resolve_item(module, &path).map(|resolved| resolved.target);
        match (resolved, &tokens[at]) {
            (Some(PathTarget::Foreign(path)), _) => {
                mentions.note_foreign(&path);
                let whole: Option<TokenStream> = path.join("::").parse().ok();
                out.extend(whole.into_iter().flatten());
            }
            (_, TokenTree::Group(group)) => {
                let inner = replaced(group.stream(), scope, module, mentions);
                out.push(proc_macro2::Group::new(group.delimiter(), inner).into());
            }
            _ => out.extend_from_slice(&tokens[at..end]),
        }
        at = end;
    }
    out.into_iter().collect()
}

/// The names of the path that these tokens begin with.
fn path_at(tokens: &[TokenTree]) -> Vec<String> {
    let is_colon = |token: Option<&TokenTree>, spacing| {
        matches!(token, Some(TokenTree::Punct(punct))
            if punct.as_char() == ':' && (punct.spacing() == spacing || spacing == Spacing::Alone))
    };
    let mut path = Vec::new();
    let mut at = 0;
    while let Some(TokenTree::Ident(ident)) = tokens.get(at) {
        path.push(ident.to_string());
        let goes_on = is_colon(tokens.get(at + 1), Spacing::Joint)
            && is_colon(tokens.get(at + 2), Spacing::Alone)
            && matches!(tokens.get(at + 3), Some(TokenTree::Ident(_)));
        if !goes_on {
            break;
        }
        at += 3;
    }
    path
}
