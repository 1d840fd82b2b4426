//! What reading and judging a question costs on the request path.

use criterion::{Criterion, criterion_group, criterion_main};
use signet_cache::{Question, gates};
use std::hint::black_box;

const ASKED: &str = "How do I convert 25 miles to kilometres in the formula of a spreadsheet?";
/// Several rules find work in it.
const REWORDED: &str = "Hi team, could you tell me who the 2010 election in the UK was won by, please? Thanks!";
const STORED: &str = "How can I convert 25 miles to km in the formula of a spreadsheet";
const OTHER: &str = "How do I convert 25 miles to kilometres in the margin of a worksheet?";

fn gates(c: &mut Criterion) {
    let read = |text| Question::read(text).expect("an eligible question");
    let (asked, stored, other) = (read(ASKED), read(STORED), read(OTHER));
    c.bench_function("gates/read_12_words", |b| b.iter(|| Question::read(black_box(ASKED))));
    c.bench_function("gates/read_reworded", |b| b.iter(|| Question::read(black_box(REWORDED))));
    c.bench_function("gates/judge_pass", |b| b.iter(|| gates::judge(black_box(&asked), black_box(&stored))));
    c.bench_function("gates/judge_refuse", |b| b.iter(|| gates::judge(black_box(&asked), black_box(&other))));
}

criterion_group!(benches, gates);
criterion_main!(benches);
