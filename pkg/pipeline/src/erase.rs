//! The payload of one record is removed. Its leaf stays, so that every proof over it holds, and a signed record says who was
//! asked to remove what: that one is in the database first, so that no payload is ever gone without it.

use crate::fault::Fault;
use crate::pipeline::Pipeline;
use serde::Serialize;
use signet_lineage::{Columns, ControlValue, Draft, Kind};
use signet_types::{LineageId, LogId};

/// The longest reason that is signed.
const BASIS_MAX: usize = 64;

/// A record whose payload is gone.
#[derive(Debug, Serialize)]
pub struct ErasedPayload {
    /// The record.
    pub id: LineageId,
    /// Its log.
    pub log: LogId,
    /// Its place there.
    pub seq: u64,
}

impl Pipeline {
    /// Removes the payload of an answer's record from the store, and its sealed bodies with it. Doing it again after a fault is no harm. `basis` is the
    /// reason, in clear and for good.
    ///
    /// # Errors
    /// [`Fault::UnknownRecord`], also where it is gone already; [`Fault::Invalid`] for a record that is about the log, without
    /// which nothing behind it could be proved, and for a basis that is no short line; [`Fault::LineageUnavailable`] or
    /// [`Fault::NotReady`] where the store is away.
    pub async fn erase_payload(&self, id: &str, basis: &str) -> Result<ErasedPayload, Fault> {
        readable("basis", basis)?;
        let id: LineageId = id.parse().map_err(|_| Fault::UnknownRecord)?;
        let record = self.find(id).await?.ok_or(Fault::UnknownRecord)?;
        if !Columns::read(&record.payload).is_ok_and(|columns| columns.kind == Kind::Request) {
            return Err(Fault::invalid("only the record of an answer can be erased".to_owned(), Some("id")));
        }
        let facts = vec![
            ("basis", ControlValue::Text(basis.to_owned())),
            ("log_id", ControlValue::Text(record.log.to_string())),
            ("seq", ControlValue::Int(record.seq)),
        ];
        let recorder = &self.parts.recorder;
        recorder.write_stored(&Draft::control(Kind::Erasure, &recorder.stamp(), facts)).await?;
        // Before the payload, without which an order that is repeated would not find them.
        let bodies = self.parts.captures.erase_captures(*id.as_bytes(), i64::MAX.unsigned_abs()).await;
        bodies.map_err(|fault| {
            tracing::error!(%id, %fault, "sealed bodies were not erased");
            Fault::NotReady("the store is away; the payload is still there")
        })?;
        let erased = self.parts.records.erase(&record).await.map_err(|fault| {
            tracing::error!(%id, %fault, "a payload was not erased");
            Fault::NotReady("the store is away; the payload is still there")
        })?;
        if erased { Ok(ErasedPayload { id, log: record.log, seq: record.seq }) } else { Err(Fault::UnknownRecord) }
    }
}

/// Refuses what is no short line: it is signed, and stays.
pub(crate) fn readable(name: &'static str, text: &str) -> Result<(), Fault> {
    let printable = text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    if text.is_empty() || text.len() > BASIS_MAX || !printable {
        return Err(Fault::invalid(format!("{name} is a line of at most {BASIS_MAX} ASCII characters"), Some(name)));
    }
    Ok(())
}
