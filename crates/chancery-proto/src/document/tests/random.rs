//! No bytes make the reader panic.

use proptest::prelude::*;

use super::formats::binary;
use super::*;

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        feed(&bytes);
    }

    #[test]
    fn no_edit_of_a_good_file_makes_it_panic(
        file in 0..4usize,
        edits in prop::collection::vec((any::<prop::sample::Index>(), edit()), 1..6),
    ) {
        let mut bytes = good_file(file);
        for (place, edit) in edits {
            let place = place.index(bytes.len() + 1);
            edit.apply(&mut bytes, place);
        }
        feed(&bytes);
    }
}

/// A change to a file.
#[derive(Clone, Debug)]
enum Edit {
    Cut,
    Insert(Vec<u8>),
    Remove(usize),
    Repeat(usize),
    Set(u8),
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        1 => Just(Edit::Cut),
        4 => "[ \\n\\t:,\\-?&*!|>'\"{}\\[\\]<>a01.#%@`~éx]{1,6}".prop_map(|text| Edit::Insert(text.into())),
        2 => (1..20usize).prop_map(Edit::Remove),
        2 => (1..60usize).prop_map(Edit::Repeat),
        2 => any::<u8>().prop_map(Edit::Set),
    ]
}

impl Edit {
    fn apply(self, bytes: &mut Vec<u8>, place: usize) {
        let span = |length: usize| place..(place + length).min(bytes.len());
        match self {
            Self::Cut => bytes.truncate(place),
            Self::Insert(more) => drop(bytes.splice(place..place, more)),
            Self::Remove(length) => drop(bytes.drain(span(length))),
            Self::Repeat(length) => {
                let more = bytes[span(length)].to_vec();
                drop(bytes.splice(place..place, more));
            }
            Self::Set(byte) => bytes.iter_mut().skip(place).take(1).for_each(|old| *old = byte),
        }
    }
}

fn good_file(which: usize) -> Vec<u8> {
    match which {
        0 => include_bytes!("../../../testdata/all.yaml").to_vec(),
        1 => include_bytes!("../../../testdata/all.json").to_vec(),
        2 => include_bytes!("../../../testdata/all.pb_text").to_vec(),
        _ => binary(&["a", "b"]),
    }
}

#[test]
fn good_files_of_each_format_are_good() {
    for (which, format) in
        [Format::Yaml, Format::Json, Format::Text, Format::Binary].into_iter().enumerate()
    {
        let parsed = parse(&Schema::bundled(), format, &good_file(which));
        assert_eq!(parsed.faults, [], "{format:?}");
        assert!(parsed.resources.len() >= 2, "{format:?}");
    }
}

/// Reads bytes in all formats. Every fault must render without control characters.
fn feed(bytes: &[u8]) {
    let text = str::from_utf8(bytes).ok();
    for format in [Format::Yaml, Format::Json, Format::Text, Format::Binary] {
        for fault in parse(&Schema::bundled(), format, bytes).faults {
            render(&fault, "file", text);
        }
    }
}
