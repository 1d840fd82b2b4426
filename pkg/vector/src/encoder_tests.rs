//! What the encoder promises: it is the published model's tokeniser, and it refuses what it cannot represent.

use super::*;
use proptest::prelude::*;
use std::sync::LazyLock;
use std::task::{Context, Poll, Waker};

static ENCODER: LazyLock<StaticEncoder> = LazyLock::new(StaticEncoder::embedded);

fn words(text: &str) -> Vec<&'static str> {
    let vocab: Vec<&str> = std::str::from_utf8(ENCODER.table.vocab()).expect("text").lines().collect();
    ENCODER.pieces(text).expect("a readable text").into_iter().map(|row| vocab[row as usize]).collect()
}

fn cosine(a: &str, b: &str) -> f32 {
    let (a, b) = (ENCODER.encode(a).expect("readable"), ENCODER.encode(b).expect("readable"));
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// A small table: two head tokens, one tail, each row all ones.
fn tiny(vocab: &str, rows: u32) -> Vec<u8> {
    let mut bytes = b"SEMB1\0\0\0".to_vec();
    for field in [rows, 256, u32::try_from(vocab.len()).expect("small"), 0] {
        bytes.extend(field.to_le_bytes());
    }
    bytes.extend((0..rows).flat_map(|_| half::f16::from_f32(0.5).to_le_bytes()));
    bytes.extend((0..rows * 256).map(|_| 1u8));
    bytes.extend(vocab.as_bytes());
    bytes
}

#[test]
fn the_pinned_digest_is_that_of_the_embedded_table() {
    assert_eq!(digest(EMBEDDED), EMBEDDED_DIGEST);
    let read = StaticEncoder::from_bytes(EMBEDDED.to_vec()).expect("the same table");
    assert_eq!(read.id(), ENCODER.id());
    assert_eq!(read.id(), "static-256/wp1/46f2cbad63b69fdd");
}

#[test]
fn words_are_split_as_the_model_was_trained() {
    assert_eq!(words("unaffable"), ["una", "##ffa", "##ble"]);
    assert_eq!(words("John Johanson's house"), ["john", "johan", "##son", "'", "s", "house"]);
    assert_eq!(words("R\u{e9}sum\u{e9}\tIN\nParis\u{2014}now"), ["resume", "in", "paris", "\u{2014}", "now"]);
    assert_eq!(words("price: $1,299.50"), ["price", ":", "$", "1", ",", "299", ".", "50"]);
    assert_eq!(words("[MASK] [UNK]"), ["[", "mask", "]", "[", "un", "##k", "]"]);
}

#[test]
fn decomposed_and_composed_accents_are_one_text() {
    assert_eq!(words("cafe\u{301}"), words("caf\u{e9}"));
}

#[test]
fn the_vector_is_the_normalised_sum_of_the_scaled_rows() {
    let rows = u32::from_le_bytes(EMBEDDED[8..12].try_into().expect("four")) as usize;
    let mut sum = vec![0.0f64; DIMS];
    for piece in ENCODER.pieces("where is the nearest station").expect("readable") {
        let at = 24 + piece as usize * 2;
        let scale = f64::from(half::f16::from_le_bytes([EMBEDDED[at], EMBEDDED[at + 1]]));
        let row = 24 + rows * 2 + piece as usize * DIMS / 2;
        for (at, byte) in EMBEDDED[row..row + DIMS / 2].iter().enumerate() {
            sum[at] += scale * (f64::from(byte & 15) - if byte & 8 == 0 { 0.0 } else { 16.0 });
            sum[at + DIMS / 2] += scale * (f64::from(byte >> 4) - if byte & 128 == 0 { 0.0 } else { 16.0 });
        }
    }
    let norm = sum.iter().map(|x| x * x).sum::<f64>().sqrt();
    let vector = ENCODER.encode("where is the nearest station").expect("readable");
    for (got, want) in vector.into_iter().zip(sum) {
        assert!((f64::from(got) - want / norm).abs() < 1e-5, "{got} {}", want / norm);
    }
}

#[test]
fn a_rephrasing_is_nearer_than_another_question() {
    let near = cosine("How do I reset my password?", "How can I reset the password?");
    let far = cosine("How do I reset my password?", "What is the tallest mountain in Europe?");
    assert!(near > 0.8, "{near}");
    assert!(far < 0.4, "{far}");
}

#[test]
fn the_spellings_of_a_word_are_nearer_than_another_word() {
    let near = cosine("What colour is a ruby?", "What color is a ruby?");
    assert!(near > 0.97, "{near}");
    let other = cosine("What colour is a ruby?", "What colour is a sapphire?");
    assert!(other < 0.9, "{other}");
}

#[test]
fn a_text_over_the_limit_is_refused_and_never_cut() {
    let at_limit = "word ".repeat(MAX_PIECES);
    assert!(ENCODER.encode(&at_limit).is_ok());
    assert_eq!(ENCODER.encode(&format!("{at_limit} more")), Err(EncodeFault::TooLong));
    assert_eq!(ENCODER.encode(&"a".repeat(101)), Err(EncodeFault::UnknownWord));
}

#[test]
fn texts_that_differ_only_in_an_unknown_word_have_no_vector() {
    assert_eq!(ENCODER.encode("what does \u{1f600} mean"), Err(EncodeFault::UnknownWord));
    assert_eq!(ENCODER.encode("what does \u{1f622} mean"), Err(EncodeFault::UnknownWord));
}

#[test]
fn texts_in_scripts_whose_vowels_or_order_would_be_lost_have_no_vector() {
    assert_eq!(ENCODER.encode("\u{915}\u{941}\u{932}"), Err(EncodeFault::Script)); // a vowel sign is a mark
    assert_eq!(ENCODER.encode("\u{4eba}\u{5927}\u{5c0f}"), Err(EncodeFault::Script)); // no word order is kept
    assert_eq!(ENCODER.encode("\u{447}\u{442}\u{43e} \u{44d}\u{442}\u{43e}"), Err(EncodeFault::Script));
    assert!(ENCODER.encode("what is the value of \u{3c0}").is_ok());
    let quoted = |word| ENCODER.encode(&format!("how is the word {word} translated into english"));
    assert!(quoted("\u{915}\u{932}").is_ok());
    assert_eq!(quoted("\u{915}\u{941}\u{932}"), Err(EncodeFault::Script));
}

#[test]
fn a_text_without_words_has_no_vector() {
    assert_eq!(ENCODER.encode(""), Err(EncodeFault::Empty));
    assert_eq!(ENCODER.encode(" \n\t\u{1}\u{a0}"), Err(EncodeFault::Empty));
}

#[test]
fn the_port_gives_the_same_vector_and_tells_its_faults() {
    let mut context = Context::from_waker(Waker::noop());
    let Poll::Ready(vector) = ENCODER.embed("hello world").as_mut().poll(&mut context) else {
        panic!("it never waits")
    };
    assert_eq!(*vector.expect("readable"), ENCODER.encode("hello world").expect("readable"));
    let Poll::Ready(fault) = ENCODER.embed("").as_mut().poll(&mut context) else { panic!("it never waits") };
    assert_eq!(fault.expect_err("empty").to_string(), "the encoder failed: the text is empty");
}

#[test]
fn a_table_with_a_fault_is_refused_with_its_reason() {
    let fault = |bytes| StaticEncoder::from_bytes(bytes).expect_err("a fault");
    let good = tiny("a\nb\n##c\n", 3);
    assert!(StaticEncoder::from_bytes(good.clone()).is_ok());
    let change = |at: usize, with: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + with.len()].copy_from_slice(with);
        bytes
    };
    assert_eq!(fault(change(0, b"SEMB2")), TableFault::Magic);
    assert_eq!(fault(change(20, &[1])), TableFault::Magic);
    assert!(matches!(fault(change(20, &[4])), TableFault::Size { .. }));
    assert_eq!(fault(change(12, &128u32.to_le_bytes())), TableFault::Shape { rows: 3, dims: 128 });
    assert_eq!(fault(change(8, &0u32.to_le_bytes())), TableFault::Shape { rows: 0, dims: 256 });
    assert!(matches!(fault(change(8, &u32::MAX.to_le_bytes())), TableFault::Size { .. }));
    assert!(matches!(fault(change(16, &u32::MAX.to_le_bytes())), TableFault::Size { .. }));
    assert_eq!(fault(change(26, &f16_bits(f32::NAN))), TableFault::Scale { row: 1 });
    assert_eq!(fault(change(28, &f16_bits(0.0))), TableFault::Scale { row: 2 });
    let end = good.len() - 1;
    assert!(matches!(fault(change(end - 1, &[0xff])), TableFault::Vocabulary { .. }));
    assert!(matches!(fault(tiny("a\nb\n", 3)), TableFault::Vocabulary { .. }));
    assert!(matches!(fault(tiny("a\nb\na\n", 3)), TableFault::Vocabulary { .. }));
    assert!(matches!(fault(tiny("a\n\nb\n", 3)), TableFault::Vocabulary { .. }));
}

fn f16_bits(value: f32) -> [u8; 2] {
    half::f16::from_f32(value).to_le_bytes()
}

#[test]
fn every_shorter_or_longer_file_is_refused() {
    let good = tiny("a\nb\n##c\n", 3);
    for len in 0..good.len() {
        assert!(StaticEncoder::from_bytes(good[..len].to_vec()).is_err(), "{len} bytes");
    }
    let longer = StaticEncoder::from_bytes([good, vec![b'\n']].concat());
    assert!(matches!(longer, Err(TableFault::Size { .. })));
}

proptest! {
    #[test]
    fn any_text_gives_a_unit_vector_or_a_fault(text in any::<String>()) {
        if let Ok(vector) = ENCODER.encode(&text) {
            let norm: f32 = vector.iter().map(|x| x * x).sum();
            prop_assert!((norm - 1.0).abs() < 1e-4, "{}", norm);
        }
    }

    #[test]
    fn any_bytes_give_an_encoder_or_a_fault(tail in prop::collection::vec(any::<u8>(), 0..600)) {
        drop(StaticEncoder::from_bytes([b"SEMB1\0\0\0".as_slice(), &tail].concat()));
    }

    #[test]
    fn letter_case_and_spacing_do_not_change_the_vector(words in prop::collection::vec("[a-z]{1,12}", 1..20)) {
        let spaced = ENCODER.encode(&words.join("  ").to_uppercase());
        prop_assert_eq!(spaced, ENCODER.encode(&words.join("\n")));
    }
}
