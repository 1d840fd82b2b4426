//! What a distrustful client keeps for itself: the public key as it was at the start, and the receipt of every answer.

use crate::client::Answer;
use crate::gateway::signet;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A client's own files.
pub(crate) struct Keeper {
    folder: TempDir,
    receipts: Vec<String>,
}

impl Keeper {
    /// Takes the key that this folder's gateway shows now.
    #[track_caller]
    pub(crate) fn of(data: &Path) -> Self {
        let folder = TempDir::new().expect("a folder");
        let out = signet(&["lineage", "keys", "--data"]).arg(data).output().expect("it runs");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        fs::write(folder.path().join("key.pem"), out.stdout).expect("a file");
        Self { folder, receipts: Vec::new() }
    }

    pub(crate) fn key(&self) -> PathBuf {
        self.folder.path().join("key.pem")
    }

    /// Keeps the receipt of an answer that has one.
    pub(crate) fn keep(&mut self, answer: &Answer) {
        let receipt = answer.header("lineage-receipt").or_else(|| answer.trailer("lineage-receipt"));
        self.receipts.extend(receipt.map(str::to_owned));
    }

    pub(crate) fn keep_text(&mut self, receipt: String) {
        self.receipts.push(receipt);
    }

    pub(crate) fn keep_all(&mut self, receipts: impl Iterator<Item = String>) {
        self.receipts.extend(receipts);
    }

    pub(crate) fn kept(&self) -> usize {
        self.receipts.len()
    }

    /// Runs `signet lineage verify` on a source (`--data DIR` or `--db URL`): its exit code and what it said.
    pub(crate) fn verify(&self, source: &[&str]) -> (i32, String) {
        let receipts = self.folder.path().join("receipts.txt");
        fs::write(&receipts, self.receipts.join("\n")).expect("a file");
        let mut command = signet(&["lineage", "verify"]);
        command.args(source).arg("--key").arg(self.key()).arg("--receipts").arg(receipts);
        let out = command.output().expect("it runs");
        let said = [out.stdout, out.stderr].concat();
        (out.status.code().unwrap_or(-1), String::from_utf8_lossy(&said).into_owned())
    }

    /// That a data folder passes.
    #[track_caller]
    pub(crate) fn accepts(&self, data: &Path) {
        let (code, said) = self.verify(&["--data", data.to_str().expect("a plain name")]);
        assert_eq!(code, 0, "{said}");
    }
}
