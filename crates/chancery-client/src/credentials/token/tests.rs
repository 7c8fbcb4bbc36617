//! Tests of a token from its first use to its end, with a clock of the test.

use std::path::Path;

use super::*;

/// Some time in 2023.
fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds)
}

fn encode(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bits = text.bytes().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1));
    let bits: Vec<u8> = bits.collect();
    let digit = |six: &[u8]| {
        let value = (0..6).fold(0, |value, at| value << 1 | six.get(at).copied().unwrap_or(0));
        char::from(DIGITS[usize::from(value)])
    };
    bits.chunks(6).map(digit).collect()
}

/// A token that expires at a time of [`at`].
fn token(name: &str, seconds: u64) -> String {
    let exp = 1_700_000_000 + seconds;
    format!("{}.{}.{name}", encode("{}"), encode(&format!("{{\"sub\":\"x\",\"exp\":{exp}}}")))
}

struct Test {
    directory: tempfile::TempDir,
    file: TokenFile,
}

impl Test {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = TokenFile::new(directory.path().join("token"));
        Self { directory, file }
    }

    fn path(&self) -> &Path {
        &self.file.path
    }

    fn write(&self, content: &str) {
        std::fs::write(self.path(), content).unwrap();
    }

    fn remove(&self) {
        std::fs::remove_file(self.path()).unwrap();
    }

    /// The name of the token that a stream carries, or the status it ends with.
    async fn carried(&self, now: u64) -> String {
        match self.file.header(at(now)).await {
            Ok(header) => header.to_str().unwrap().rsplit_once('.').unwrap().1.to_owned(),
            Err(error) => {
                let code = chancery_core::ErrorDetail::name_of(error.code());
                code.unwrap().to_owned()
            }
        }
    }
}

/// C-009.
#[tokio::test]
async fn a_token_is_read_when_it_is_needed_and_kept_until_shortly_before_its_end() {
    let test = Test::new();
    test.write(&format!("\n{}\n", token("one", 1000)));
    assert_eq!(test.carried(0).await, "one");
    test.write(&token("two", 2000));
    // 30 s before `exp` it is over, and a minute before that it is read ahead.
    assert_eq!(test.carried(909).await, "one");
    assert_eq!(test.carried(910).await, "two");
    test.write(&token("three", 3000));
    assert_eq!(test.carried(911).await, "two", "one reading, and no more");
    let header = test.file.header(at(911)).await.unwrap();
    assert_eq!(header.to_str().unwrap(), format!("Bearer {}", token("two", 2000)));
}

/// C-009.
#[tokio::test]
async fn a_token_that_cannot_be_read_again_serves_until_its_end() {
    let test = Test::new();
    test.write(&token("one", 1000));
    assert_eq!(test.carried(0).await, "one");
    test.remove();
    assert_eq!(test.carried(950).await, "one");
    assert_eq!(test.carried(969).await, "one");
    assert_eq!(test.carried(970).await, "UNAVAILABLE");
}

/// C-009.
#[tokio::test]
async fn a_file_that_cannot_be_used_is_left_alone_for_a_while() {
    let test = Test::new();
    assert_eq!(test.carried(0).await, "UNAVAILABLE");
    test.write(&token("one", 9000));
    // A second, then 1.6 of them.
    assert_eq!(test.carried(0).await, "UNAVAILABLE");
    assert_eq!(test.carried(1).await, "one");
    // The wait is forgotten once a token was read.
    test.write("nothing");
    assert_eq!(test.carried(10_000).await, "UNAUTHENTICATED");
    test.remove();
    assert_eq!(test.carried(10_000).await, "UNAUTHENTICATED", "as the last reading said");
    assert_eq!(test.carried(10_001).await, "UNAVAILABLE");
    test.write(&token("two", 20_000));
    assert_eq!(test.carried(10_002).await, "UNAVAILABLE");
    assert_eq!(test.carried(10_003).await, "two");
}

/// C-009.
#[tokio::test]
async fn waits_grow_to_two_minutes_and_never_overflow() {
    let test = Test::new();
    let mut now = 0;
    for _ in 0..1000 {
        now += 120;
        assert_eq!(test.carried(now).await, "UNAVAILABLE");
    }
    test.write(&token("one", 1_000_000));
    assert_eq!(test.carried(now + 119).await, "UNAVAILABLE");
    assert_eq!(test.carried(now + 120).await, "one");
}

#[tokio::test]
async fn a_clock_that_is_put_back_ends_the_wait() {
    let test = Test::new();
    assert_eq!(test.carried(1000).await, "UNAVAILABLE");
    test.write(&token("one", 9000));
    assert_eq!(test.carried(0).await, "one");
}

/// C-009.
#[tokio::test]
async fn what_is_no_token_says_so_without_saying_what_it_is() {
    let claims = |text: &str| format!("e30.{}.secret", encode(text));
    for (content, problem) in [
        (String::new(), "it has not three parts"),
        ("secret.secret".to_owned(), "it has not three parts"),
        ("e30.e30.e30.secret".to_owned(), "it has not three parts"),
        ("e30.?.secret".to_owned(), "it has characters that no token has"),
        ("e30.e=30.secret".to_owned(), "its second part is no base64url"),
        ("e30.e.secret".to_owned(), "its second part is no base64url"),
        (claims("secret"), "its second part holds no JSON"),
        (claims("{\"exp\":\"secret\"}"), "it has no `exp`"),
        (claims("[1]"), "it has no `exp`"),
        (claims("{\"exp\":-1}"), "its `exp` is no time"),
        (claims("{\"exp\":1e300}"), "its `exp` is no time"),
        (format!("{}\u{e9}", token("a", 1)), "it has characters that no token has"),
        (format!("{}\nsecret", token("a", 1)), "it has characters that no token has"),
        ("x".repeat(64 * 1024 + 1), "it is larger than 64 KiB"),
    ] {
        let test = Test::new();
        test.write(&content);
        let error = test.file.header(at(0)).await.unwrap_err();
        assert_eq!(error.code(), 16, "UNAUTHENTICATED");
        let text = error.to_string();
        assert!(text.ends_with(problem) && !text.contains("secret"), "{text}");
        assert!(text.contains(&*test.directory.path().to_string_lossy()), "{text}");
    }
}

#[tokio::test]
async fn a_token_of_64_kib_is_one() {
    let test = Test::new();
    let short = token("", 9000);
    test.write(&token(&"x".repeat(64 * 1024 - short.len()), 9000));
    assert!(test.file.header(at(0)).await.is_ok());
}

#[tokio::test]
async fn a_token_is_never_printed() {
    let test = Test::new();
    test.write(&token("secret", 9000));
    let header = test.file.header(at(0)).await.unwrap();
    assert!(!format!("{header:?} {:?}", test.file).contains("secret"));
}

#[test]
fn base64url_is_decoded_with_and_without_padding() {
    for text in ["", "a", "ab", "abc", "abcd", "\u{fb}\u{ff}~?"] {
        let encoded = encode(text);
        assert_eq!(base64url(&encoded).as_deref(), Some(text.as_bytes()));
        assert_eq!(base64url(&format!("{encoded}==")).as_deref(), Some(text.as_bytes()));
    }
    assert_eq!(base64url("-_-_").as_deref(), Some(&[0xfb, 0xff, 0xbf][..]));
    for wrong in ["a", "abcde", "+/+/", "ab c", "\u{e9}"] {
        assert_eq!(base64url(wrong), None, "{wrong}");
    }
}
