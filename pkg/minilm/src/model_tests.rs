//! A tiny model with random weights, against what another implementation computes with them (`tools/minilm/golden.py`).

use super::*;

pub(crate) const TINY: &[u8] = include_bytes!("../tests/tiny.safetensors");

/// The first numbers of three vectors.
const GOLDEN: [(&str, [f32; 8]); 3] = [
    (
        "How do I poach an egg?",
        [0.228_428, 0.007_707, 0.496_787, -0.059_123, -0.126_023, 0.244_973, 0.391_070, -0.371_172],
    ),
    ("boiling eggs", [0.174_338, -0.147_786, 0.316_705, -0.102_746, -0.344_201, 0.386_470, -0.121_454, -0.454_768]),
    ("the", [0.183_552, 0.147_481, -0.008_524, -0.106_312, -0.316_264, 0.270_741, -0.602_373, -0.348_506]),
];

fn tiny() -> MiniLm {
    MiniLm::parse(TINY).expect("a model")
}

#[test]
fn vectors_are_those_of_the_other_implementation() {
    for (text, expected) in GOLDEN {
        let vector = tiny().encode(text).expect("a vector");
        assert_eq!(vector.len(), 16);
        for (x, y) in vector.iter().zip(expected) {
            assert!((x - y).abs() < 2e-5, "{text}: {vector:?} and not {expected:?}");
        }
    }
}

#[test]
fn a_sentence_is_the_mean_of_its_tokens_made_unit_length() {
    let tokens = tiny().tokens("Boiling eggs").expect("tokens");
    assert_eq!(tokens.numbers, [2, 8, 13, 11, 3], "[CLS] boil ##ing eggs [SEP]");
    let mut mean = [0.0; 16];
    for vector in tokens.vectors() {
        mean.iter_mut().zip(vector).for_each(|(sum, x)| *sum += x);
    }
    let length = mean.iter().map(|x| x * x).sum::<f32>().sqrt();
    for (x, y) in tokens.sentence().iter().zip(mean) {
        assert!((x - y / length).abs() < 1e-6);
    }
    assert_eq!(tiny().encode("boiling eggs"), Ok(tokens.sentence()));
}

#[test]
fn the_order_of_words_counts() {
    let [one, other] = ["poach in the store", "store in the poach"].map(|text| tiny().encode(text).expect("a vector"));
    assert!(one.iter().zip(&other).map(|(x, y)| x * y).sum::<f32>() < 0.999);
}

#[test]
fn a_text_that_is_too_long_is_refused_and_never_cut() {
    let eggs = |count: usize| vec!["egg"; count].join(" ");
    assert!(tiny().encode(&eggs(10)).is_ok(), "twelve places, two of them for the marks");
    assert_eq!(tiny().encode(&eggs(11)), Err(SentenceFault::TooLong(11)));
}

#[test]
fn a_text_that_the_vocabulary_cannot_spell_is_refused() {
    assert_eq!(tiny().encode("how about"), Err(SentenceFault::Text(EncodeFault::UnknownWord)));
    assert_eq!(tiny().encode(" "), Err(SentenceFault::Text(EncodeFault::Empty)));
}

#[test]
fn only_the_pinned_file_is_read_as_the_model() {
    assert!(matches!(MiniLm::read(TINY), Err(ModelFault::Digest { .. })));
}

#[test]
fn a_file_that_lacks_something_is_refused() {
    let text = String::from_utf8_lossy(TINY);
    for name in ["\"heads\":\"2\"", "embeddings.LayerNorm.bias", "layer.1.output.dense.weight", "\"vocab\"", "F16"] {
        let at = text.find(name).expect("the header names it");
        let mut file = TINY.to_vec();
        file[at + name.len() - 2] ^= 1;
        assert!(MiniLm::parse(&file).is_err(), "{name}");
    }
    assert!(MiniLm::parse(&TINY[..TINY.len() - 1]).is_err());
    assert!(MiniLm::parse(b"").is_err());
}
