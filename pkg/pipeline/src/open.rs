//! Somebody is about to open the sealed bodies of an answer: the log knows of it first. The key is not here, and whoever has both
//! it and the database needs no gateway, so this is the duty of an honest operator and no lock.

use crate::erase::readable;
use crate::fault::Fault;
use crate::pipeline::Pipeline;
use serde::Serialize;
use signet_lineage::{Columns, ControlValue, Draft, Kind};
use signet_types::{LineageId, LogId};

/// The record that says that bodies are opened.
#[derive(Debug, Serialize)]
pub struct OpenedCapture {
    /// That record.
    pub record: LineageId,
    /// The record whose bodies they are.
    pub id: LineageId,
    /// Its log.
    pub log: LogId,
    /// Its place there.
    pub seq: u64,
}

impl Pipeline {
    /// Signs that `who` opens the bodies of an answer and why, and waits until the database has that record. `who` is the
    /// operator's word; both stay in clear and for good.
    ///
    /// # Errors
    /// [`Fault::UnknownRecord`], also where its payload was erased; [`Fault::Invalid`] for a record of no answer, and where who or why
    /// is no short line; [`Fault::LineageUnavailable`] or [`Fault::NotReady`] where it could not be written. Nothing may be
    /// opened then.
    pub async fn open_capture(&self, id: &str, who: &str, basis: &str) -> Result<OpenedCapture, Fault> {
        readable("who", who)?;
        readable("basis", basis)?;
        let id: LineageId = id.parse().map_err(|_| Fault::UnknownRecord)?;
        let record = self.find(id).await?.ok_or(Fault::UnknownRecord)?;
        if !Columns::read(&record.payload).is_ok_and(|columns| columns.kind == Kind::Request) {
            return Err(Fault::invalid("only the record of an answer has bodies".to_owned(), Some("id")));
        }
        let facts = vec![
            ("basis", ControlValue::Text(basis.to_owned())),
            ("log_id", ControlValue::Text(record.log.to_string())),
            ("seq", ControlValue::Int(record.seq)),
            ("who", ControlValue::Text(who.to_owned())),
        ];
        let recorder = &self.parts.recorder;
        let draft = Draft::control(Kind::Open, &recorder.stamp(), facts);
        recorder.write_stored(&draft).await?;
        Ok(OpenedCapture { record: draft.id, id, log: record.log, seq: record.seq })
    }
}
