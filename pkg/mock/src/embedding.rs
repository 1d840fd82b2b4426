//! Deterministic embeddings: the normalised sum of a pseudo-random vector per word, so equal texts have equal vectors
//! and texts that share words are near each other, as a cache that compares meanings would expect.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::answer::tokens;
use crate::request::EmbeddingRequest;
use crate::template::{fixture, json_string};

const DIMENSIONS: usize = 256;

fixture!(ONE, Template, "embedding.json");
fixture!(LIST, Template, "embeddings.json");

pub(crate) fn body(model: &str, request: &EmbeddingRequest<'_>) -> Vec<u8> {
    let base64 = request.encoding_format.as_deref() == Some("base64");
    let dimensions = request.dimensions.unwrap_or(DIMENSIONS).clamp(1, 4096);
    let mut data = Vec::new();
    for (index, text) in request.input.0.iter().enumerate() {
        if index > 0 {
            data.push(b',');
        }
        let vector = written(&vector(text, dimensions), base64);
        ONE.fill(&mut data, &[("index", &index.to_string()), ("vector", &vector)], &[]);
    }
    let data = String::from_utf8(data).expect("the fixture and its values are UTF-8");
    let count: u64 = request.input.0.iter().map(|text| tokens(text)).sum();
    let model = json_string(model);
    LIST.filled(&[("data", &data), ("model", &model), ("prompt_tokens", &count.to_string())], &[]).into_bytes()
}

fn written(vector: &[f32], base64: bool) -> String {
    if base64 {
        let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
        return format!("\"{}\"", STANDARD.encode(bytes));
    }
    let numbers: Vec<String> = vector.iter().map(f32::to_string).collect();
    format!("[{}]", numbers.join(","))
}

fn vector(text: &str, dimensions: usize) -> Vec<f32> {
    let mut sum = vec![0f32; dimensions];
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    for word in words {
        let digest = Sha256::digest(word.as_bytes());
        let mut state = u64::from_le_bytes(*digest.first_chunk().expect("a digest has 32 bytes"));
        for x in &mut sum {
            // SplitMix64 (Steele, Lea, Flood 2014); the low byte as a number in -1..=1.
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            let byte = (z ^ (z >> 31)).to_le_bytes()[0];
            *x += f32::from(byte) / 127.5 - 1.0;
        }
    }
    let norm = sum.iter().map(|x| x * x).sum::<f32>().sqrt();
    if norm > 0.0 {
        for x in &mut sum {
            *x /= norm;
        }
    } else {
        sum[0] = 1.0; // no words: any unit vector
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dot(a: &[f32], b: &[f32]) -> f32 {
        a.iter().zip(b).map(|(x, y)| x * y).sum()
    }

    #[test]
    fn texts_that_share_words_are_nearer_than_texts_that_do_not() {
        let [a, b, c] = ["how do tides form", "how do the tides form", "bake bread at home"].map(|t| vector(t, 256));
        assert!((dot(&a, &a) - 1.0).abs() < 1e-5);
        assert!(dot(&a, &b) > 0.8);
        assert!(dot(&a, &c) < 0.4);
        assert!((dot(&vector("", 8), &vector("?!", 8)) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn both_encodings_hold_the_same_numbers() {
        let ask = |format: &str| -> serde_json::Value {
            let request = format!(r#"{{"model":"e","input":["a b","c"],"dimensions":4,"encoding_format":"{format}"}}"#);
            let request: EmbeddingRequest<'_> = serde_json::from_str(&request).expect("valid");
            serde_json::from_slice(&body("e", &request)).expect("the body is JSON")
        };
        let (floats, packed) = (ask("float"), ask("base64"));
        for index in 0..2 {
            let plain: Vec<f32> = serde_json::from_value(floats["data"][index]["embedding"].clone()).expect("numbers");
            let text = packed["data"][index]["embedding"].as_str().expect("a text");
            let bytes = STANDARD.decode(text).expect("base64");
            let unpacked: Vec<f32> =
                bytes.chunks_exact(4).map(|b| f32::from_le_bytes(*b.first_chunk().expect("four"))).collect();
            assert_eq!(plain, unpacked);
        }
    }
}
