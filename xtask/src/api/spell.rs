//! Tokens as text in one spelling, near to that of rustfmt.
//!
//! Only types, bounds and signatures are written with it, so `<` and `>` always stand around
//! generic arguments and never compare.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use quote::ToTokens;

/// The one spelling of a syntax tree.
pub(super) fn text(tree: &impl ToTokens) -> String {
    spell(tree.to_token_stream())
}

/// The one spelling of tokens.
pub(super) fn spell(tokens: TokenStream) -> String {
    let mut atoms = Vec::new();
    split(tokens, &mut atoms);
    let mut text = String::new();
    let mut last: Option<&str> = None;
    for atom in &atoms {
        if last.is_some_and(|last| is_apart(last, atom)) {
            text.push(' ');
        }
        text.push_str(atom);
        last = Some(atom);
    }
    text
}

/// Takes tokens apart into atoms: words, brackets, and operators as a whole.
fn split(tokens: TokenStream, atoms: &mut Vec<String>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::None => ("", ""),
                };
                atoms.extend((!open.is_empty()).then(|| open.to_owned()));
                split(group.stream(), atoms);
                atoms.extend((!close.is_empty()).then(|| close.to_owned()));
            }
            TokenTree::Punct(punct) => {
                let mut atom = punct.as_char().to_string();
                let mut is_joint = punct.spacing() == Spacing::Joint;
                while is_joint && let Some(next) = tokens.next_if(|next| continues(&atom, next)) {
                    atom.push_str(&next.to_string());
                    is_joint = matches!(&next, TokenTree::Punct(punct) if punct.spacing() == Spacing::Joint);
                }
                atoms.push(atom);
            }
            TokenTree::Ident(_) | TokenTree::Literal(_) => atoms.push(token.to_string()),
        }
    }
}

/// Returns true if a token belongs to the operator or lifetime that was begun.
fn continues(atom: &str, next: &TokenTree) -> bool {
    match next {
        TokenTree::Ident(_) => atom == "'",
        TokenTree::Punct(punct) => matches!(
            (atom, punct.as_char()),
            (":", ':') | ("-" | "=", '>') | ("." | "..", '.') | ("..", '=')
        ),
        TokenTree::Group(_) | TokenTree::Literal(_) => false,
    }
}

/// Returns true if a space stands between two atoms.
fn is_apart(last: &str, next: &str) -> bool {
    let after_word = matches!(last, "dyn" | "mut" | "as" | "in" | "where" | "const");
    let after_operator = matches!(last, "," | ";" | ":" | "+" | "=" | "->" | "=>" | "|" | "{");
    match (last, next) {
        ("{", "}") => false,
        (_, "," | ";" | ")" | "]" | ">" | ":" | "." | "::") => false,
        ("(" | "[" | "<" | "&" | "::" | "?" | "!" | "*" | "#" | "." | ".." | "-", _) => false,
        (_, "(") => after_word || after_operator || last == "impl",
        (_, "<") => after_word || after_operator || last.starts_with('\''),
        (_, "!" | "..") => after_operator,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_one_spelling() {
        for (source, expected) in [
            (
                "& 'a mut(dyn Fn( & Node )->GroupName+Send)",
                "&'a mut (dyn Fn(&Node) -> GroupName + Send)",
            ),
            (
                "Box < dyn for < 'a > Fn ( & 'a [ u8 ] , ( ) ) >",
                "Box<dyn for<'a> Fn(&'a [u8], ())>",
            ),
            ("Vec<Vec<u8>>", "Vec<Vec<u8>>"),
            ("<T as a::B>::C", "<T as a::B>::C"),
            ("&mut<T as B>::C", "&mut <T as B>::C"),
            ("[u8;4]", "[u8; 4]"),
            ("impl Iterator<Item=(A,B)>+use<'a>", "impl Iterator<Item = (A, B)> + use<'a>"),
            ("fn(A)->!", "fn(A) -> !"),
            ("* const T", "*const T"),
        ] {
            let found: syn::Type = syn::parse_str(source).unwrap();
            assert_eq!(text(&found), expected);
        }
        let bounded: syn::TypeParam = syn::parse_str("T:?Sized+'static+Clone").unwrap();
        assert_eq!(text(&bounded), "T: ?Sized + 'static + Clone");
    }
}
