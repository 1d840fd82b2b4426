//! HTTP/2 as its server sees it, in frames written by hand (RFC 9113 §4.1, §6).

use crate::peer::{Peer, Wire, within};
use std::collections::HashMap;
use tokio::io::AsyncReadExt;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const ACK: u8 = 1;
pub(crate) const NO_ERROR: u32 = 0;
pub(crate) const INTERNAL_ERROR: u32 = 2;
pub(crate) const REFUSED_STREAM: u32 = 7;
pub(crate) const CANCEL: u32 = 8;
pub(crate) const ENHANCE_YOUR_CALM: u32 = 11;
/// HPACK: `:status: 200` is entry 8 of the static table (RFC 7541 §6.1).
pub(crate) const STATUS_200: &[u8] = &[0x88];

#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// One HTTP/2 connection as its server sees it.
pub(crate) struct Wire2 {
    pub(crate) wire: Wire,
    /// What the client lets us send, by stream; 0 is the connection (RFC 9113 §6.9).
    windows: HashMap<u32, usize>,
    /// The window that a new stream starts with.
    initial_window: usize,
}

impl Wire2 {
    /// Accepts, reads the preface and announces how many streams it takes.
    pub(crate) async fn accept(peer: &Peer, max_streams: u32) -> Self {
        let mut wire = peer.accept().await;
        let mut preface = [0; 24];
        wire.stream.read_exact(&mut preface).await.expect("a preface");
        assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let mut wire = Self { wire, windows: HashMap::from([(0, 65535)]), initial_window: 65535 };
        let settings = [&3_u16.to_be_bytes()[..], &max_streams.to_be_bytes()].concat();
        wire.send(SETTINGS, 0, 0, &settings).await;
        wire.send(SETTINGS, ACK, 0, &[]).await;
        wire
    }

    pub(crate) async fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.send_at_once(&[(kind, flags, stream, payload)]).await;
    }

    /// Frames in one piece, so that the client finds all of them when it looks.
    pub(crate) async fn send_at_once(&mut self, frames: &[(u8, u8, u32, &[u8])]) {
        let mut bytes = Vec::new();
        for (kind, flags, stream, payload) in frames {
            let length = u32::try_from(payload.len()).expect("a small frame").to_be_bytes();
            bytes.extend([&length[1..], &[*kind, *flags], &stream.to_be_bytes(), payload].concat());
        }
        self.wire.send(bytes).await;
    }

    pub(crate) async fn respond(&mut self, stream: u32, body: &[u8]) {
        self.send(HEADERS, END_HEADERS, stream, STATUS_200).await;
        self.send(DATA, END_STREAM, stream, body).await;
    }

    pub(crate) async fn reset(&mut self, stream: u32, reason: u32) {
        self.send(RST_STREAM, 0, stream, &reason.to_be_bytes()).await;
    }

    pub(crate) async fn go_away(&mut self, last_stream: u32, reason: u32) {
        self.send(GOAWAY, 0, 0, &[last_stream.to_be_bytes(), reason.to_be_bytes()].concat()).await;
    }

    /// How much may be sent on `stream` now.
    pub(crate) fn window(&self, stream: u32) -> usize {
        let own = self.windows.get(&stream).copied().unwrap_or(self.initial_window);
        own.min(self.windows[&0])
    }

    pub(crate) fn spend(&mut self, stream: u32, size: usize) {
        *self.windows.entry(stream).or_insert(self.initial_window) -= size;
        *self.windows.get_mut(&0).expect("always there") -= size;
    }

    /// The next frame; none at the end of the connection.
    pub(crate) async fn raw_frame(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.wire.stream.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        self.wire.stream.read_exact(&mut payload).await.ok()?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let frame = Frame { kind: head[3], flags: head[4], stream, payload };
        let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().expect("4 bytes"));
        match frame.kind {
            PING if frame.flags & ACK == 0 => self.send(PING, ACK, 0, &frame.payload).await,
            WINDOW_UPDATE => {
                *self.windows.entry(stream).or_insert(self.initial_window) += number(&frame.payload) as usize;
            }
            SETTINGS => {
                for setting in frame.payload.chunks_exact(6).filter(|setting| setting[..2] == [0, 4]) {
                    self.initial_window = number(&setting[2..]) as usize;
                }
            }
            _ => {}
        }
        Some(frame)
    }

    pub(crate) async fn all_is_read(&mut self) {
        self.send(PING, 0, 0, b"so far..").await;
        while within(self.raw_frame()).await.expect("a connection").kind != PING {}
    }

    /// The next frame of a request; none at the end of the connection.
    pub(crate) async fn frame(&mut self) -> Option<Frame> {
        loop {
            let frame = self.raw_frame().await?;
            if frame.stream != 0 && matches!(frame.kind, DATA | HEADERS | RST_STREAM) {
                return Some(frame);
            }
        }
    }

    /// The stream and body of the next complete request. Resets of other streams are passed over.
    pub(crate) async fn request(&mut self) -> (u32, String) {
        let mut bodies: HashMap<u32, Vec<u8>> = HashMap::new();
        loop {
            let frame = within(self.frame()).await.expect("a request");
            if frame.kind == DATA {
                bodies.entry(frame.stream).or_default().extend(frame.payload);
            }
            if frame.kind != RST_STREAM && frame.flags & END_STREAM != 0 {
                let body = bodies.remove(&frame.stream).unwrap_or_default();
                return (frame.stream, String::from_utf8(body).expect("text"));
            }
        }
    }

    /// The reason with which the client resets `stream`; none if it closes the connection instead.
    pub(crate) async fn reset_reason(&mut self, stream: u32) -> Option<u32> {
        loop {
            let frame = within(self.frame()).await?;
            if frame.kind == RST_STREAM && frame.stream == stream {
                return Some(u32::from_be_bytes(frame.payload.try_into().expect("4 bytes")));
            }
        }
    }
}
