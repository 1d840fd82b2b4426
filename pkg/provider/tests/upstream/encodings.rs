//! Answers that come encoded although nobody asked for it.

use crate::peer::{CHUNKED, Peer, Wire, call, exchange, next, pieces, within};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use signet_provider::{ClosedWhen, Gathered, Provider, UpstreamBody, UpstreamError};
use std::io::Write;
use tokio::join;

/// The three events of [`events`] in brotli, flushed behind each: it ends behind bytes 33, 45 and 63.
const BROTLI: &str = "d00110646174613a207b226e223a312c2274657874223a22636166c3a9227d0a0ae800805e4a86ac9640265a0a6800805f5261ab2b\
     09504493404949f8310003";
const BROTLI_CUTS: [usize; 3] = [33, 45, 63];
/// 64 MiB of one letter in brotli.
const BROTLI_BOMB: &str = "cbffff3ff825c2e2b14020f7fe8fffff7ff04b00c4611180eefd1fffffffe0970088c30200ddfb3ffeffffc12f0110870500baf77ffcffff835f02200e0b0074effff8ffff07bf04401c1600e8defff1ffff0f7e0980382c00d0bdffcbffff3ffc1200715800a07bff07";

fn events() -> [&'static str; 3] {
    ["data: {\"n\":1,\"text\":\"café\"}\n\n", "data: {\"n\":2,\"text\":\"café\"}\n\n", "data: [DONE]\n\n"]
}

fn bytes(hex: &str) -> Vec<u8> {
    let pair = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
    (0..hex.len()).step_by(2).map(pair).collect()
}

/// gzip of the parts, flushed behind each, and where each ends.
fn gzip(parts: &[&str]) -> (Vec<u8>, Vec<usize>) {
    let (mut encoder, mut cuts) = (GzEncoder::new(Vec::new(), Compression::best()), Vec::new());
    for part in parts {
        encoder.write_all(part.as_bytes()).expect("memory");
        encoder.flush().expect("memory");
        cuts.push(encoder.get_ref().len());
    }
    (encoder.finish().expect("memory"), cuts)
}

/// Both encodings of [`events`].
fn encoded() -> [(&'static str, Vec<u8>, Vec<usize>); 2] {
    let (packed, cuts) = gzip(&events());
    [("gzip", packed, cuts), ("br", bytes(BROTLI), BROTLI_CUTS.to_vec())]
}

fn head(encoding: &str) -> String {
    CHUNKED.replace("\r\n\r\n", &format!("\r\ncontent-encoding: {encoding}\r\n\r\n"))
}

fn chunk(part: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat()
}

/// Begins an answer in `encoding`.
async fn answer(encoding: &str) -> (UpstreamBody, Wire) {
    let peer = Peer::plain().await;
    let client = peer.client();
    let serve = async {
        let mut wire = peer.accept().await;
        wire.request().await;
        wire.send(head(encoding)).await;
        wire
    };
    let (reply, wire) = within(async { join!(client.send(call("{}")), serve) }).await;
    let reply = reply.expect("a head");
    assert!(!reply.headers.contains_key("content-encoding") && !reply.headers.contains_key("content-length"));
    (reply.body, wire)
}

/// What a caller gets of a body that is sent whole, each part in a chunk of its own.
async fn read(encoding: &str, parts: &[&[u8]]) -> (Vec<Bytes>, Option<UpstreamError>) {
    let (body, mut wire) = answer(encoding).await;
    let parts: Vec<Vec<u8>> = parts.iter().filter(|part| !part.is_empty()).map(|part| chunk(part)).collect();
    let serve = async {
        for part in parts.iter().map(Vec::as_slice).chain([&b"0\r\n\r\n"[..]]) {
            // The reader closes as soon as it knows that it can read no more.
            if tokio::io::AsyncWriteExt::write_all(&mut wire.stream, part).await.is_err() {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    within(async { join!(pieces(body), serve) }).await.0
}

#[tokio::test]
async fn an_event_comes_out_as_soon_as_its_bytes_are_there() {
    for (encoding, packed, cuts) in encoded() {
        let (mut body, mut wire) = answer(encoding).await;
        let mut from = 0;
        for (event, cut) in events().into_iter().zip(cuts) {
            wire.send(chunk(&packed[from..cut])).await;
            let piece = within(next(&mut body)).await.expect("a piece").expect("good");
            assert_eq!(piece, event, "{encoding}");
            from = cut;
        }
        wire.send([chunk(&packed[from..]), b"0\r\n\r\n".to_vec()].concat()).await;
        assert!(within(next(&mut body)).await.is_none(), "{encoding}");
        assert!(next(&mut body).await.is_none(), "it stays ended");
    }
}

#[tokio::test]
async fn an_encoded_stream_that_ends_early_is_cut_wherever_that_is() {
    for (encoding, packed, _) in encoded() {
        for cut in 1..packed.len() {
            let (pieces, error) = read(encoding, &[&packed[..cut]]).await;
            assert!(events().concat().as_bytes().starts_with(&pieces.concat()), "{encoding} {cut}");
            let when = match &error {
                Some(UpstreamError::Closed { when, .. }) => Some(*when),
                _ => None,
            };
            assert_eq!(when, Some(ClosedWhen::MidBody), "{encoding} {cut} {error:?}");
        }
    }
}

#[tokio::test]
async fn an_encoded_answer_gives_its_connection_back() {
    let peer = Peer::plain().await;
    let client = peer.client();
    let (packed, _) = gzip(&["{\"a\":1}"]);
    let serve = async {
        let mut wire = peer.accept().await;
        for encoding in ["gzip", "X-Gzip"] {
            wire.request().await;
            let head =
                format!("HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\ncontent-length: {}\r\n\r\n", packed.len());
            wire.send([head.as_bytes(), &packed].concat()).await;
        }
        wire
    };
    let ask = async { [exchange(&client, "{}").await, exchange(&client, "{}").await] };
    let (answers, _wire) = within(async { join!(ask, serve) }).await;
    assert!(answers.into_iter().all(|answer| answer.expect("complete") == "{\"a\":1}"));
    assert!(peer.is_left_alone().await && client.open_connections() == 1);
}

#[tokio::test]
async fn members_of_gzip_that_follow_each_other_are_one_answer() {
    let packed = [gzip(&["one"]).0, gzip(&["two"]).0].concat();
    let (pieces, error) = read("gzip", &[&packed]).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(pieces.concat(), b"onetwo");
}

#[tokio::test]
async fn an_encoded_answer_without_a_body_is_whole() {
    for encoding in ["gzip", "br", "identity", ""] {
        let (pieces, error) = read(encoding, &[]).await;
        assert!(pieces.is_empty() && error.is_none(), "{encoding} {error:?}");
    }
}

#[tokio::test]
async fn what_is_not_in_the_encoding_that_it_names_is_an_error() {
    let (good, _) = gzip(&events());
    let mut wrong = good.clone();
    let last = wrong.len() - 6;
    wrong[last] ^= 1; // the checksum
    let rows: [(&str, &[u8]); 4] = [
        ("gzip", b"{\"plain\":true}"),
        ("br", b"\xff\xff\xff\xff"),
        ("gzip", &wrong),
        ("br", &[&bytes(BROTLI)[..], b"x"].concat()),
    ];
    for (encoding, sent) in rows {
        let (_, error) = read(encoding, &[sent]).await;
        let error = error.unwrap_or_else(|| panic!("{encoding} {sent:?} ended well"));
        assert!(!error.is_unbilled() && matches!(error.class(), "undecodable" | "closed_mid_body"), "{error:?}");
    }
}

#[tokio::test]
async fn a_bomb_is_found_after_a_megabyte_and_in_small_pieces() {
    let letters = "a".repeat(64 << 20);
    for (encoding, bomb) in [("gzip", gzip(&[&letters]).0), ("br", bytes(BROTLI_BOMB))] {
        let (pieces, error) = read(encoding, &[&bomb]).await;
        assert!(matches!(error, Some(UpstreamError::Undecodable(_))), "{encoding} {error:?}");
        let came: usize = pieces.iter().map(Bytes::len).sum();
        assert!(came <= 2 << 20, "{encoding}: {came} bytes");
        assert!(pieces.iter().all(|piece| piece.len() <= 128 << 10), "{encoding}");
    }
}

#[tokio::test]
async fn a_long_answer_that_packs_well_passes_and_its_decoded_size_is_what_limits_count() {
    let lines: String = (0..100_000).map(|n| format!("{n} the same words again\n")).collect::<Vec<_>>().concat();
    let (packed, _) = gzip(&[&lines]);
    assert!(packed.len() * 4 < lines.len());
    let (pieces, error) = read("gzip", &[&packed]).await;
    assert!(error.is_none(), "{error:?}");
    assert!(pieces.concat() == lines.as_bytes());
    let (body, mut wire) = answer("gzip").await;
    let serve = async { wire.send([chunk(&packed), b"0\r\n\r\n".to_vec()].concat()).await };
    assert_eq!(body.announced(), None);
    let (gathered, ()) = within(async { join!(body.gather(2 * packed.len()), serve) }).await;
    assert!(matches!(gathered, Ok(Gathered::Large { .. })), "{gathered:?}");
}

#[tokio::test]
async fn an_encoding_that_is_not_read_here_is_refused_by_its_name() {
    let coded = |list: &str| CHUNKED.replace("transfer-encoding: chunked", &format!("transfer-encoding: {list}"));
    for (encoding, head) in ["deflate", "zstd", "gzip, br", "compress"]
        .map(|encoding| (encoding, head(encoding)))
        .into_iter()
        .chain(["gzip, chunked", "gzip"].map(|list| (list, coded(list))))
    {
        let peer = Peer::plain().await;
        let client = peer.client();
        let serve = async {
            let mut wire = peer.accept().await;
            wire.request().await;
            wire.send(head).await;
            wire
        };
        let (reply, mut wire) = within(async { join!(client.send(call("{}")), serve) }).await;
        let error = reply.expect_err("not read here");
        let named = matches!(&error, UpstreamError::UnsupportedEncoding { encoding: name } if name == encoding);
        assert!(named, "{error:?}");
        wire.closed().await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn what_is_decoded_does_not_depend_on_where_the_bytes_were_cut(
        texts in prop::collection::vec("[a-zé\n]{1,400}", 1..8),
        brotli: bool,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let texts: Vec<&str> = if brotli { events().to_vec() } else { texts.iter().map(String::as_str).collect() };
        let (encoding, packed) = if brotli { ("br", bytes(BROTLI)) } else { ("gzip", gzip(&texts).0) };
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(packed.len())).chain([0, packed.len()]).collect();
        cuts.sort_unstable();
        let parts: Vec<&[u8]> = cuts.windows(2).map(|cut| &packed[cut[0]..cut[1]]).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (pieces, error) = runtime.block_on(read(encoding, &parts));
        prop_assert!(error.is_none());
        prop_assert_eq!(pieces.concat(), texts.concat().into_bytes());
    }
}
